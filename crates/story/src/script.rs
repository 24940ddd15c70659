//! Scripts: a story of lines that are acted, and what must come of each, written behind it as `-> …`.
//!
//! What comes of a line stands on the same line, or, if it is long or more than one thing, on lines of its own below.
//! With `UPDATE_SCRIPTS=1` the outcomes are rewritten as they are; read every changed line before you keep it.

use std::path::{Path, PathBuf};

/// Acts the lines of one story, from a fresh beginning.
pub trait Teller {
    /// Does what the line says and tells what came of it.
    fn act(&mut self, line: &str) -> Vec<String>;
}

const ARROW: &str = "-> ";
const OUTCOME_COLUMN: usize = 52;
const LINE_MAX: usize = 120;

/// Names the stories of a folder, one test each, so that a story can be run by its name.
#[macro_export]
macro_rules! stories {
    ($run:path: $($name:ident)*) => {
        $(#[test] fn $name() { $run(stringify!($name)); })*

        #[test]
        fn every_script_is_told() {
            let told: Vec<String> = vec![$(stringify!($name).to_owned()),*];
            for found in $crate::script::names(&folder()) {
                assert!(told.contains(&found), "{found}.script is in no list of stories");
            }
        }
    };
}

/// Acts a script and compares; panics with the lines that differ.
pub fn tell(path: &Path, teller: &mut impl Teller) {
    let written = read(path);
    let acted = act(&written, teller);
    if written == acted {
        return;
    }
    if is_updating() {
        return write(path, &acted);
    }
    let differing: Vec<String> = diff(&written, &acted);
    panic!("{} tells it differently:\n{}\n", path.display(), differing.join("\n"));
}

fn act(written: &str, teller: &mut impl Teller) -> String {
    let mut acted = String::new();
    for line in written.lines() {
        if line.trim_start().starts_with(ARROW) {
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            acted.push_str(line);
            acted.push('\n');
            continue;
        }
        let words = line.split_once(ARROW).map_or(line, |(words, _)| words).trim();
        acted.push_str(&with_outcomes(words, &teller.act(words)));
    }
    acted
}

fn with_outcomes(words: &str, outcomes: &[String]) -> String {
    if outcomes.is_empty() {
        return format!("{words}\n");
    }
    if let [outcome] = outcomes {
        let line = format!("{words:<OUTCOME_COLUMN$}{ARROW}{outcome}");
        if line.chars().count() <= LINE_MAX && words.len() < OUTCOME_COLUMN {
            return format!("{line}\n");
        }
    }
    let below: String = outcomes.iter().map(|outcome| format!("    {ARROW}{outcome}\n")).collect();
    format!("{words}\n{below}")
}

fn diff(written: &str, acted: &str) -> Vec<String> {
    let (written, acted): (Vec<&str>, Vec<&str>) = (written.lines().collect(), acted.lines().collect());
    let same_ahead = written.iter().zip(&acted).take_while(|(left, right)| left == right).count();
    let mut lines = vec![format!("line {}", same_ahead + 1)];
    lines.extend(written[same_ahead..].iter().take(12).map(|line| format!("  script  {line}")));
    lines.extend(acted[same_ahead..].iter().take(12).map(|line| format!("  acted   {line}")));
    lines
}

/// The names of a folder's scripts.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder of stories is beside the tests");
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let scripts = paths.filter(|path: &PathBuf| path.extension().is_some_and(|kind| kind == "script"));
    scripts.map(|path| path.file_stem().expect("a script has a name").to_string_lossy().into_owned()).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn is_updating() -> bool {
    std::env::var_os("UPDATE_SCRIPTS").is_some()
}
