//! One child process: its output in a file, its signals, its end. A child never outlives the value that started it.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait_for;

/// How much of a child's output goes into an error message.
const TAIL_LINES: usize = 20;

/// A running child. Dropping it kills it.
pub struct Process {
    name: String,
    child: Child,
    output: PathBuf,
    /// Where this run's output begins in the file, which is shared by all runs of the same server.
    output_start: usize,
}

impl Process {
    /// Starts `command`. Its standard output and error are appended to the file `output`, its input is empty.
    pub fn spawn(name: &str, command: &mut Command, output: &Path) -> Result<Process> {
        let file = File::options().create(true).append(true).open(output);
        let file = file.with_context(|| format!("open {}", output.display()))?;
        let output_start = usize::try_from(file.metadata()?.len())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {name}: {command:?}"))?;
        Ok(Process { name: name.to_owned(), child, output: output.to_path_buf(), output_start })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What this run has printed so far.
    pub fn output(&self) -> String {
        let bytes = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.output_start..).unwrap_or_default()).into_owned()
    }

    /// Waits until the child has printed a whole line that contains `text`, and returns the line.
    pub fn wait_for_line(&mut self, text: &str, within: Duration) -> Result<String> {
        let event = format!("{} to print {text:?}", self.name);
        let outcome = wait_for(&event, within, || {
            // The order matters: a child that printed the line and ended has still printed it.
            let ended = self.child.try_wait()?;
            let output = self.output();
            let whole_lines = output.rfind('\n').map_or("", |end| &output[..end]);
            match (whole_lines.lines().find(|line| line.contains(text)), ended) {
                (Some(line), _) => Ok(Some(line.to_owned())),
                (None, Some(status)) => bail!("{} ended with {status}", self.name),
                (None, None) => Ok(None),
            }
        });
        self.with_tail(outcome)
    }

    /// Waits until something accepts connections at `address`; fails at once if the child ends first.
    pub fn wait_for_port(&mut self, address: SocketAddr, within: Duration) -> Result<()> {
        self.wait_until("accept connections", within, || Ok(TcpStream::connect(address).ok().map(drop)))
    }

    /// Waits until `probe` answers; fails at once if the child ends first.
    pub fn wait_until<T>(
        &mut self,
        deed: &str,
        within: Duration,
        mut probe: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let event = format!("{} to {deed}", self.name);
        let outcome = wait_for(&event, within, || match self.child.try_wait()? {
            Some(status) => bail!("{} ended with {status}", self.name),
            None => probe(),
        });
        self.with_tail(outcome)
    }

    /// Waits for the child to end by itself or by a signal sent before.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let event = format!("{} to end", self.name);
        let outcome = wait_for(&event, within, || Ok(self.child.try_wait()?));
        self.with_tail(outcome)
    }

    /// Says whether the child still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the child as a power cut would, as far as the process is concerned, and waits until it is gone.
    pub fn kill9(&mut self) -> Result<()> {
        self.child.kill().with_context(|| format!("kill {}", self.name))?;
        self.child.wait().with_context(|| format!("wait for {}", self.name))?;
        Ok(())
    }

    /// Asks the child to stop (SIGTERM) and waits until it has.
    pub fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.ask_to_stop()?;
        self.wait(within)
    }

    /// Asks the child to stop (SIGTERM), without waiting for it.
    pub fn ask_to_stop(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Stops the child without its knowledge (SIGSTOP), as a long pause of the machine would.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused child go on.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid())?).ok_or_else(|| anyhow!("process id 0"))?;
        kill_process(pid, signal).with_context(|| format!("send {signal:?} to {}", self.name))
    }

    fn with_tail<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| {
            let output = self.output();
            let lines: Vec<&str> = output.lines().collect();
            let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
            error.context(format!("{} printed last:\n{tail}", self.name))
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the child is gone already, which is what was wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dir, PATIENCE};

    fn shell(dir: &Dir, script: &str) -> Process {
        Process::spawn("shell", Command::new("sh").args(["-c", script]), &dir.join("out.log")).unwrap()
    }

    #[test]
    fn a_line_is_waited_for_and_returned_whole() {
        let dir = Dir::new().unwrap();
        let mut process = shell(&dir, "echo one; echo 'two is ready'; sleep 60");

        let line = process.wait_for_line("ready", PATIENCE).unwrap();

        assert_eq!(line, "two is ready");
        assert!(process.is_running());
    }

    #[test]
    fn a_child_that_ends_early_fails_the_wait_with_its_last_words() {
        let dir = Dir::new().unwrap();
        let mut process = shell(&dir, "echo 'no such disk' >&2; exit 3");

        let error = process.wait_for_line("ready", PATIENCE).unwrap_err();

        let told = format!("{error:#}");
        assert!(told.contains("no such disk"), "{told}");
        assert!(told.contains("exit status: 3"), "{told}");
    }

    #[test]
    fn output_of_an_earlier_run_is_not_taken_for_this_one() {
        let dir = Dir::new().unwrap();
        shell(&dir, "echo ready").wait(PATIENCE).unwrap();

        let mut second = shell(&dir, "exit 0");

        assert!(second.wait_for_line("ready", PATIENCE).is_err());
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let dir = Dir::new().unwrap();
        let process = shell(&dir, "sleep 60");
        let proc_entry = format!("/proc/{}", process.pid());

        drop(process);

        assert!(!Path::new(&proc_entry).exists());
    }

    #[test]
    fn a_polite_stop_reaches_the_child() {
        let dir = Dir::new().unwrap();
        let mut process = shell(&dir, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done");
        process.wait_for_line("up", PATIENCE).unwrap();

        let status = process.terminate(PATIENCE).unwrap();

        assert_eq!(status.code(), Some(7));
        assert!(process.output().contains("bye"));
    }
}
