//! A second pair of eyes on a command that runs under a lock: a process of its own, which is told until when the session is
//! certain and kills the command when that time has come, or when nobody is left to tell it. So the command does not run on
//! beside the next holder when only the process that keeps its session was stopped or killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};
use tokio::time::Instant;

/// Whom signals go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deputy {
    /// The command and all that it has started.
    Group(Pid),
    /// The command alone. At a terminal it stays in our group, or it could not read what is typed.
    Process(Pid),
}

/// The part of what is left to a session that the guard does not wait for. It is a process like others, which a busy machine may
/// let wait, and the next holder does not wait for it. Sessions are renewed every third of their time.
const MARGIN: u32 = 10;

/// The guard, as the process that keeps the session has it. Killed with this.
pub struct Guard {
    process: Child,
    input: ChildStdin,
    strikes_at: Instant,
}

impl Guard {
    /// Starts it, before there is a command that it could miss.
    pub fn start() -> std::io::Result<Self> {
        // Also if the file was replaced by a newer one meanwhile.
        let mut guard = Command::new("/proc/self/exe");
        guard
            .arg0("shardine")
            .args(["coord", "guard"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // In a group of its own: what stops ours does not stop it.
        let mut process = guard.process_group(0).spawn()?;
        let input = process.stdin.take().expect("its input is a pipe");
        // A guard that was stopped itself is not waited for: whoever tells it is the other one who watches.
        fcntl_setfl(&input, fcntl_getfl(&input)? | OFlags::NONBLOCK)?;
        Ok(Self { process, input, strikes_at: Instant::now() })
    }

    /// Says whom it has to kill: said before the command begins to run.
    pub fn watch(&mut self, deputy: Deputy, deadline: Instant) {
        let (what, pid) = match deputy {
            Deputy::Group(pid) => ("group", pid),
            Deputy::Process(pid) => ("process", pid),
        };
        self.say(&format!("{what} {pid}\n"));
        self.extend(deadline);
    }

    /// Says until when the session is certain.
    pub fn extend(&mut self, deadline: Instant) {
        // The clock that others can read is read first: a stop in between makes the time shorter, not longer.
        let (told, now) = (since_boot(), Instant::now());
        let left = deadline.saturating_duration_since(now);
        let left = left - left / MARGIN;
        self.strikes_at = now + left;
        self.say(&format!("until {}\n", (told + left).as_micros()));
    }

    /// When it kills, if it is told no more.
    pub fn strikes_at(&self) -> Instant {
        self.strikes_at
    }

    /// A line is written whole or not at all. One that is lost makes the guard too strict, never too lax.
    fn say(&mut self, line: &str) {
        let _ = self.input.write(line.as_bytes());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Killed and not told to go: it takes the end of its input for our death.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Time since the machine was started, the time in which it was suspended included.
fn since_boot() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    Duration::new(tv_sec.unsigned_abs(), u32::try_from(tv_nsec).unwrap_or(0))
}

/// What the guard knows.
#[derive(Default)]
struct Watched {
    deputy: Option<Deputy>,
    until: Option<Duration>,
}

/// The guard itself: reads from its input until that ends or the time has come, and kills.
pub fn run() {
    let mut watched = Watched::default();
    let mut input = BufReader::new(std::io::stdin().lock());
    while wait(&input, watched.until) && watched.hear(&mut input) {}
    watched.kill();
}

/// Waits for something to read; false if the time has come first.
fn wait(input: &BufReader<impl Read>, until: Option<Duration>) -> bool {
    if !input.buffer().is_empty() {
        return until.is_none_or(|until| since_boot() < until);
    }
    let Some(until) = until else { return true };
    // Counts on through a suspension of the machine, which a plain wait does not.
    let Ok(timer) = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC) else { return false };
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Nothing at all would mean never.
    let at = until.max(Duration::from_nanos(1));
    let seconds = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
    let value = Timespec { tv_sec: seconds, tv_nsec: at.subsec_nanos().into() };
    if timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: none, it_value: value }).is_err()
    {
        return false;
    }
    let stdin = std::io::stdin();
    let mut both = [PollFd::new(&stdin, PollFlags::IN), PollFd::from_borrowed_fd(timer.as_fd(), PollFlags::IN)];
    // Interrupted or not: what counts is what there is afterwards.
    let _ = poll(&mut both, None);
    both[1].revents().is_empty()
}

impl Watched {
    /// Takes in a line; false if there will be no more.
    fn hear(&mut self, input: &mut impl BufRead) -> bool {
        let mut line = String::new();
        if !input.read_line(&mut line).is_ok_and(|read| read > 0) {
            return false;
        }
        let Some((what, number)) = line.trim_end().split_once(' ') else { return true };
        let pid = || number.parse().ok().and_then(Pid::from_raw);
        match what {
            "group" => self.deputy = pid().map(Deputy::Group),
            "process" => self.deputy = pid().map(Deputy::Process),
            "until" => self.until = number.parse().ok().map(Duration::from_micros),
            _ => {}
        }
        true
    }

    fn kill(&self) {
        if let Some(deputy) = self.deputy {
            deputy.kill_if_there();
        }
    }
}

impl Deputy {
    /// A number may be somebody else's once its process is buried, which its own parent does: a group is killed only while
    /// its first process is there to name it.
    fn kill_if_there(self) {
        let (Self::Group(pid) | Self::Process(pid)) = self;
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        let _ = match self {
            // All at once: whoever waits for the first process ends this one as soon as that is dead.
            Self::Group(group) => kill_process_group(group, Signal::KILL),
            Self::Process(_) => pidfd_send_signal(process, Signal::KILL),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Watched {
        let (mut watched, mut input) = (Watched::default(), text.as_bytes());
        while watched.hear(&mut input) {}
        watched
    }

    #[test]
    fn the_last_word_counts() {
        let watched = told("group 77\nuntil 5\nuntil 7\nwhat else\nuntil 9");

        assert_eq!(watched.deputy, Pid::from_raw(77).map(Deputy::Group));
        assert_eq!(watched.until, Some(Duration::from_micros(9)));
        assert_eq!(told("process 8\n").deputy, Pid::from_raw(8).map(Deputy::Process));
        assert_eq!(told("group 0\n").deputy, None);
    }

    #[test]
    fn a_time_that_is_over_is_not_waited_for() {
        let input = BufReader::new(&b""[..]);

        assert!(!wait(&input, Some(Duration::ZERO)));
        assert!(wait(&input, None));
    }
}
