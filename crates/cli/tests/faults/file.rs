//! Troubles of an SQLite file: moved away, locked by somebody else, on a full disk.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use shardine_testkit::Dir;

use crate::behind::Behind;
use crate::disk::SmallDisk;
use crate::trial::Trial;

fn start(dir: &Dir) -> Trial {
    Trial::start(Behind::File(dir.join("rows.sqlite")))
}

/// Another program that holds the file's write lock until it is dropped.
struct Lock {
    holder: Child,
}

impl Lock {
    fn take(path: &Path) -> Lock {
        let mut sqlite = Command::new("sqlite3");
        sqlite.args(["-cmd", ".timeout 60000"]).arg(path);
        let mut holder = sqlite.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        holder.stdin.as_mut().unwrap().write_all(b"begin immediate;\n.print locked\n").unwrap();
        let mut said = [0; 6];
        holder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        Lock { holder }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The end of its input is the end of the program, and of its transaction.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// The file's place is empty: nothing is written into the void, and no empty file takes its place.
#[test]
fn write_back_109_the_file_is_moved_away_and_back() {
    let dir = Dir::new().unwrap();
    let mut trial = start(&dir);
    let (here, there) = (dir.join("rows.sqlite"), dir.join("elsewhere.sqlite"));
    for _ in 0..3 {
        std::fs::rename(&here, &there).unwrap();
        trial.wait_for_trouble();
        trial.writers.wait_for_more(300);
        assert!(!here.exists(), "nobody makes a file of that name");
        std::fs::rename(&there, &here).unwrap();
        trial.crash();
        trial.writers.wait_for_more(300);
    }
    trial.finish();
}

/// Held for longer than anybody waits, and again and again for a moment.
#[test]
fn write_back_93_somebody_else_locks_the_file() {
    let dir = Dir::new().unwrap();
    let mut trial = start(&dir);
    let path = dir.join("rows.sqlite");
    let lock = Lock::take(&path);
    trial.wait_for_trouble();
    trial.writers.wait_for_more(300);
    trial.crash();
    trial.writers.wait_for_more(300);
    drop(lock);
    for _ in 0..20 {
        let lock = Lock::take(&path);
        trial.writers.wait_for_more(20);
        drop(lock);
        trial.writers.wait_for_more(20);
    }
    trial.crash();
    trial.finish();
}

#[test]
fn write_back_112_the_disk_of_the_file_is_full() {
    let Some(disk) = SmallDisk::mount(40) else {
        eprintln!("not run: mounting a small disk is not allowed here");
        return;
    };
    let dir = Dir::within(disk.dir.path()).unwrap();
    let mut trial = start(&dir);
    disk.fill();
    trial.wait_for_trouble();
    trial.writers.wait_for_more(300);
    trial.crash();
    trial.writers.wait_for_more(300);
    disk.free();
    trial.finish();
}
