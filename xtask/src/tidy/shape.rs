//! The shape of a Rust file: it opens by saying what it is for, and it stays short enough to be read.

use super::Problem;
use crate::tree::File;

const LINES_MAX: usize = 800;

pub fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("rs")) {
        if !file.text.starts_with("//! ") {
            problems.push(Problem::new(file.path.display(), "does not open with a `//!` sentence"));
        }
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            problems.push(Problem::new(file.path.display(), format!("has {lines} lines, the limit is {LINES_MAX}")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: String) -> usize {
        check(&[File { path: "a.rs".into(), text }]).len()
    }

    #[test]
    fn a_file_opens_with_its_purpose_and_ends_in_time() {
        assert_eq!(problems("//! Says what it is for.\n".to_owned()), 0);
        assert_eq!(problems("fn main() {}\n".to_owned()), 1);
        assert_eq!(problems(format!("//! Long.\n{}", "\n".repeat(800))), 1);
    }
}
