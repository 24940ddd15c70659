//! Nothing in the repository points at one particular machine: no paths of a developer's home, no hosts that packages were
//! fetched from. Such lines are noise to every other reader and break on every other machine.

use super::Problem;
use crate::tree::File;

/// Written in two halves, so that this file passes its own check.
const FORBIDDEN: [(&str, &str); 8] = [
    ("/ro", "ot/"),
    ("/ho", "me/"),
    ("/wo", "rk/"),
    ("py", "pi.org"),
    ("python", "hosted.org"),
    ("deb.", "debian.org"),
    ("index.", "crates.io"),
    ("static.", "crates.io"),
];

pub fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Lock files are cargo's own.
    for file in files.iter().filter(|file| !file.has_extension("lock")) {
        for (index, line) in file.text.lines().enumerate() {
            for (first, second) in FORBIDDEN {
                let needle = format!("{first}{second}");
                if line.contains(&needle) {
                    let place = format!("{}:{}", file.path.display(), index + 1);
                    problems.push(Problem::new(place, format!("names {needle}, which is of one machine only")));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found() {
        let text = format!("fine\nsee {}{}bob/notes\n", "/ho", "me/");

        let problems = check(&[File { path: "README.md".into(), text }]);

        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].place, "README.md:2");
    }
}
