//! What the kernel knows of a process: CPU time and resident memory. All threads count, also those that have ended.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use shardine_testkit::wait_for;

/// User and system time of process `pid` since its start. The kernel counts it in ticks of 10 ms, so a measurement has to
/// last some seconds.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("read the CPU time of a server")?;
    let [user, system, ..] = stat_fields(&stat).context("CPU time in /proc/PID/stat")?;
    Ok(ticks(user + system))
}

/// Ticks in user and system mode, and the same of the children that have ended.
fn stat_fields(stat: &str) -> Option<[u64; 4]> {
    // The second field is the program's name, which may hold spaces and brackets of its own.
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_ascii_whitespace().skip(11).take(4);
    let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    fields.try_into().ok()
}

/// How busy the machine is with things that are not this run: what the cores did between two looks, less what this process
/// and its children did. A run on a busy machine proves little, so the report says how busy it was.
pub struct Bystanders {
    since: Instant,
    busy: Duration,
    own: Duration,
}

impl Bystanders {
    pub fn watch() -> Result<Bystanders> {
        Ok(Bystanders { since: Instant::now(), busy: busy_time()?, own: own_time()? })
    }

    /// Cores taken by others, on average, since the watch began. Children count as own once they have ended.
    pub fn cores_taken(&self) -> Result<f64> {
        let (busy, own) = (busy_time()? - self.busy, own_time()? - self.own);
        Ok(busy.saturating_sub(own).as_secs_f64() / self.since.elapsed().as_secs_f64())
    }
}

/// Time that all cores have spent on anything but idling.
fn busy_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("read the CPU time of the machine")?;
    let line = stat.lines().next().context("/proc/stat")?;
    // user, nice, system, idle, iowait, irq, softirq, steal: all but idle and iowait.
    let fields: Vec<u64> = line.split_ascii_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let all: u64 = fields.iter().take(8).sum();
    Ok(ticks(all - fields.iter().skip(3).take(2).sum::<u64>()))
}

/// CPU time of this process and of its children that have ended.
fn own_time() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("read the CPU time of this process")?;
    let fields = stat_fields(&stat).context("CPU time in /proc/self/stat")?;
    Ok(ticks(fields.iter().sum()))
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Resident bytes of process `pid`, once they have stopped moving: servers give back buffers some time after a load.
pub fn settled_rss(pid: u32, within: Duration) -> Result<u64> {
    const QUIET: Duration = Duration::from_secs(1);
    let mut last = rss(pid)?;
    let mut since = Instant::now();
    let settled = wait_for("resident memory to settle", within, || {
        let now = rss(pid)?;
        if now.abs_diff(last) > last / 200 {
            (last, since) = (now, Instant::now());
        }
        thread::sleep(QUIET / 10); // Adding up the pages of a large process is work for the kernel: do not ask in a hurry.
        Ok((since.elapsed() >= QUIET).then_some(now))
    });
    // Memory that never settles is still a measurement.
    settled.or_else(|_| rss(pid))
}

/// Resident bytes of process `pid`.
pub fn rss(pid: u32) -> Result<u64> {
    // The sum over the mappings is exact; the counter in /proc/PID/status lags behind by some pages per core.
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("read the memory of a server")?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).context("Rss in smaps_rollup")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().context("Rss in kB")?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 700 50 9 9 20 0 4 0 99 1 1 1";

        assert_eq!(stat_fields(stat), Some([700, 50, 9, 9]));
    }

    #[test]
    fn this_process_has_memory_and_time() {
        assert!(rss(std::process::id()).unwrap() > 100_000);
        assert!(cpu_time(std::process::id()).unwrap() < Duration::from_secs(3_600));
    }
}
