//! Progress of long work on stderr: a line that rewrites itself on a terminal, a plain line now and then elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::show::Output;

/// A terminal is drawn ten times a second; a file gets a line every other second.
const DRAW_EVERY: Duration = Duration::from_millis(100);
const TELL_EVERY: Duration = Duration::from_secs(2);

const BAR_WIDTH: u64 = 24;

pub struct Progress {
    is_terminal: bool,
    is_silent: bool,
    shown: Option<Instant>,
}

impl Progress {
    pub fn new(output: Output) -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), is_silent: output.json, shown: None }
    }

    /// Shows how far the work is: `done` of `all`, if that is known, and a word beside it.
    pub fn show(&mut self, done: u64, all: Option<u64>, words: &str) {
        let pause = if self.is_terminal { DRAW_EVERY } else { TELL_EVERY };
        if self.is_silent || self.shown.is_some_and(|shown| shown.elapsed() < pause) {
            return;
        }
        self.shown = Some(Instant::now());
        let line = line(done, all, words, self.is_terminal);
        // Progress is a courtesy: a closed stderr does not stop the work.
        let _ = if self.is_terminal {
            write!(std::io::stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(std::io::stderr(), "{line}")
        };
        let _ = std::io::stderr().flush();
    }

    /// Leaves the terminal clean for what is said next.
    pub fn finish(&mut self) {
        if self.is_terminal && self.shown.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(done: u64, all: Option<u64>, words: &str, with_bar: bool) -> String {
    let Some(all) = all.filter(|all| *all > 0) else { return format!("{done} {words}") };
    let done = done.min(all);
    let share = u128::from(done) * 100 / u128::from(all);
    if !with_bar {
        return format!("{done} of {all} {words} ({share} %)");
    }
    let filled = (u128::from(done) * u128::from(BAR_WIDTH) / u128::from(all)) as usize;
    let bar = format!("{}{}", "#".repeat(filled), "-".repeat(BAR_WIDTH as usize - filled));
    format!("[{bar}] {share:>3} %  {done} of {all} {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far() {
        assert_eq!(line(3, None, "rows", true), "3 rows");
        assert_eq!(line(3, Some(12), "rows", false), "3 of 12 rows (25 %)");
        assert_eq!(line(6, Some(12), "rows", true), "[############------------]  50 %  6 of 12 rows");
        assert_eq!(line(13, Some(12), "rows", false), "12 of 12 rows (100 %)");
    }
}
