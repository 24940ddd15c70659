//! A row of steps: each is run even if an earlier one failed, so that one run tells everything; the end is a summary.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;

/// The steps so far.
#[derive(Default)]
pub struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: String,
    outcome: Outcome,
    took: Duration,
}

enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Steps {
    /// Runs one step and says whether it passed.
    pub fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) -> bool {
        println!("\n==> {name}");
        let started = Instant::now();
        let result = step();
        let passed = result.is_ok();
        let outcome = match result {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                println!("{error:#}");
                // The summary has room for one line; the whole story stands above.
                Outcome::Failed(format!("{error:#}").lines().next().unwrap_or_default().to_owned())
            }
        };
        self.done.push(Step { name: name.to_owned(), outcome, took: started.elapsed() });
        passed
    }

    /// Notes a step that is not run, and why. A skipped step is neither passed nor failed.
    pub fn skip(&mut self, name: &str, reason: &str) {
        println!("\n==> {name}: skipped, {reason}");
        self.done.push(Step {
            name: name.to_owned(),
            outcome: Outcome::Skipped(reason.to_owned()),
            took: Duration::ZERO,
        });
    }

    /// Prints the summary. The last line is made for scripts.
    pub fn finish(self) -> ExitCode {
        println!();
        for Step { name, outcome, took } in &self.done {
            let seconds = took.as_secs_f64();
            match outcome {
                Outcome::Passed => println!("{seconds:>8.1} s  passed   {name}"),
                Outcome::Failed(why) => println!("{seconds:>8.1} s  FAILED   {name}: {why}"),
                Outcome::Skipped(why) => println!("           skipped  {name}: {why}"),
            }
        }
        let passed = self.done.iter().filter(|step| matches!(step.outcome, Outcome::Passed)).count();
        let failed = self.done.iter().filter(|step| matches!(step.outcome, Outcome::Failed(_))).count();
        let total: Duration = self.done.iter().map(|step| step.took).sum();
        println!("{:>8.1} s  in all", total.as_secs_f64());
        println!("{passed} passed, {failed} failed");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
