//! Where and with what a run was made: figures without this cannot be compared with others.

use std::{fs, path::Path, process::Command};

use super::{args::Options, server::Kind};

/// Facts about the run as pairs of name and value, in the order in which they are told.
pub fn facts(options: &Options, data: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("cores", std::thread::available_parallelism().map_or_else(|_| unknown(), |count| count.to_string())),
        ("CPU", after_colon("/proc/cpuinfo", "model name")),
        ("memory", after_colon("/proc/meminfo", "MemTotal")),
        ("kernel", read_line("/proc/sys/kernel/osrelease")),
        ("disk", file_system(data)),
        ("load average at the start", read_line("/proc/loadavg")),
        ("reference", first_line(Command::new("redis-server").arg("--version"))),
        ("load generator", first_line(Command::new("redis-benchmark").arg("--version"))),
        ("subject", subject(options)),
        ("commit", first_line(Command::new("git").args(["describe", "--always", "--dirty"]))),
        ("rounds", options.rounds.to_string()),
        ("seconds per throughput measurement", format!("about {}", options.seconds)),
    ]
}

fn subject(options: &Options) -> String {
    match options.subject {
        Kind::Redis => first_line(Command::new("redis-server").arg("--version")),
        Kind::Shardine => match options.subject_bin.clone().map_or_else(shardine_testkit::find_binary, Ok) {
            Ok(binary) => first_line(Command::new(binary).arg("--version")),
            Err(_) => unknown(),
        },
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_else(unknown)
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

fn after_colon(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':')).map_or_else(unknown, |(_, value)| value.trim().to_owned())
}

/// The file system below `path`. On tmpfs a synced write costs nothing, and the HSET rows mean nothing.
fn file_system(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let parsed = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let nearest = parsed.filter(|(point, _)| path.starts_with(point)).max_by_key(|(point, _)| point.len());
    nearest.map_or_else(unknown, |(_, kind)| kind.to_owned())
}
