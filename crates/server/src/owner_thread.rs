//! Threads that own state: lanes, coordination, the log. If one panics, nobody knows what it left half done, and those who
//! wait for it would wait for ever: the process ends at once, and the next start reads from the disk what is true.

use std::thread::JoinHandle;

pub(crate) fn spawn(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let name = name.into();
    std::thread::Builder::new().name(name.clone()).spawn(move || {
        let _guard = EndTheProcess { name };
        run();
    })
}

/// Dropped in a panic, it ends the process before anybody else can act on what the thread owned.
struct EndTheProcess {
    name: String,
}

impl Drop for EndTheProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(thread = self.name, "a thread that owns state has panicked: the process ends at once");
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Tells a copy of this test's process that it is the one to panic.
    const IS_VICTIM: &str = "SHARDINE_TEST_PANICS";

    /// reliability F46, I10: a process without one of its lanes would take requests and answer none.
    #[test]
    fn reliability_f46_a_panic_of_an_owner_ends_the_process() {
        if std::env::var_os(IS_VICTIM).is_some() {
            let owner = spawn("victim", || panic!("on purpose")).unwrap();
            let _ = owner.join();
            return;
        }
        let name = "owner_thread::tests::reliability_f46_a_panic_of_an_owner_ends_the_process";

        let mut copy = Command::new(std::env::current_exe().unwrap());
        let output = copy.args(["--exact", name, "--nocapture"]).env(IS_VICTIM, "1").output().unwrap();

        assert!(!output.status.success(), "{output:?}");
        assert_eq!(output.status.code(), None, "ended by a signal, not by itself");
    }

    #[test]
    fn an_owner_that_ends_by_itself_ends_nothing_else() {
        spawn("quiet", || {}).unwrap().join().unwrap();
    }
}
