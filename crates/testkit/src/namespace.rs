//! A machine of one's own as far as the kernel gives one away: this program once more, in namespaces for its network, its mounts
//! and its processes. Whatever it makes there (nodes, links, disks) is gone with it, however it ends.

use std::env;
use std::fs;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail, ensure};

/// Tells the program that it runs in the namespaces.
const MARK: &str = "SHARDINE_NAMESPACED";
/// Ends with whoever started it: processes that a killed run leaves behind would load the next one's machine.
const UNSHARE: [&str; 7] = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];

pub enum Entered {
    /// This is the program in its namespaces.
    Inside,
    /// It ran there, and ended so.
    Ended(ExitStatus),
    /// There are none to be had here, and why.
    Impossible(String),
}

/// Runs this program with these arguments in namespaces of its own, unless it is there already.
pub fn enter<A: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = A>) -> Result<Entered> {
    if is_inside() {
        prepare()?;
        return Ok(Entered::Inside);
    }
    if let Err(error) = probe() {
        return Ok(Entered::Impossible(format!("{error:#}")));
    }
    let program = env::current_exe().context("the path of this program")?;
    let mut command = Command::new(UNSHARE[0]);
    // The first process of a namespace is deaf for Ctrl-C, and buries whoever is left behind: a shell is better at both.
    command.args(&UNSHARE[1..]).args(["sh", "-c", "\"$0\" \"$@\"; exit $?"]).arg(program).args(args);
    let status = command.env(MARK, "1").status();
    Ok(Entered::Ended(status.context("start unshare")?))
}

/// Whether this is the program in its namespaces.
pub fn is_inside() -> bool {
    env::var_os(MARK).is_some()
}

/// What the nodes' network and disks need, tried where it leaves nothing behind.
fn probe() -> Result<()> {
    let script = "mount -t tmpfs none /mnt && truncate -s 8M /mnt/image && mkfs.ext4 -q -F /mnt/image && mkdir /mnt/disk \
                  && mount -o loop /mnt/image /mnt/disk && fsfreeze -f /mnt/disk && fsfreeze -u /mnt/disk \
                  && ip link add v0 type veth peer name v1 && tc qdisc add dev v0 root tbf rate 1mbit burst 4kb limit 64kb \
                  && ip rule add from 10.0.0.1 to 10.0.0.2 blackhole";
    let mut command = Command::new(UNSHARE[0]);
    run(command.args(&UNSHARE[1..]).args(["sh", "-c", script]))
}

fn prepare() -> Result<()> {
    run(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    // `ip netns` keeps its names here, and the machine's own are not ours.
    fs::create_dir_all("/run/netns").context("make /run/netns")?;
    run(Command::new("mount").args(["-t", "tmpfs", "none", "/run/netns"]))?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("forward between nodes")
}

/// Runs a command to its end, and fails with what it said if it does.
pub fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// For tests that are run again in their namespaces: by the name of one test.
pub fn enter_test(name: &str) -> Result<Entered> {
    let entered = enter(["--exact", name, "--nocapture"])?;
    if let Entered::Ended(status) = &entered {
        ensure!(status.success(), "{name}, in namespaces, ended with {status}");
    }
    Ok(entered)
}
