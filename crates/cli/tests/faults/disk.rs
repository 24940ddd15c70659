//! A disk that a test can fill.

use std::process::Command;

use shardine_testkit::Dir;

/// A disk of its own, in memory, that can be filled.
pub struct SmallDisk {
    pub dir: Dir,
}

impl SmallDisk {
    /// None where this machine does not let a test mount anything.
    pub fn mount(megabytes: u32) -> Option<SmallDisk> {
        let dir = Dir::new().unwrap();
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).status();
        done.is_ok_and(|status| status.success()).then_some(SmallDisk { dir })
    }

    pub fn fill(&self) {
        // Ends with an error when there is no room left, which is the point.
        let to = format!("of={}", self.dir.join("filler").display());
        let _ = Command::new("dd").args(["if=/dev/zero", &to, "bs=1M", "status=none"]).output();
    }

    pub fn free(&self) {
        std::fs::remove_file(self.dir.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy"]).arg(self.dir.path()).status();
    }
}
