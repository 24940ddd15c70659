//! The pure rooms name no clock, no chance, no thread, no file and no socket. Clippy checks it by type in each room's
//! `clippy.toml`; this check sees that the file is there, the same in all, and catches what a path through a re-export or an
//! `allow` would hide.

use std::path::Path;

use super::{
    Problem,
    layers::{PURE, PURE_PARTS},
};
use crate::tree::File;

const FORBIDDEN: [&str; 14] = [
    "std::fs",
    "std::net",
    "std::io::stdin",
    "std::thread",
    "std::env",
    "std::process",
    "thread::spawn",
    "Instant::now",
    "SystemTime::now",
    "tokio::",
    "rand::",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "RandomState",
];

pub fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = check_clippy_files(files);
    for file in files.iter().filter(|file| file.has_extension("rs") && is_pure_source(&file.path)) {
        for (number, line) in file.lines_before_tests() {
            let code = line.split("//").next().unwrap_or_default();
            for name in FORBIDDEN.iter().filter(|name| mentions(code, name)) {
                let place = format!("{}:{number}", file.path.display());
                problems.push(Problem::new(place, format!("a pure crate may not name {name}")));
            }
        }
    }
    problems
}

/// Says whether the code names it, and not something whose name merely ends so (`operand::` is not `rand::`).
fn mentions(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

fn is_pure_source(path: &Path) -> bool {
    let is_test = path.file_name().is_some_and(|name| name == "tests.rs");
    let is_part = PURE_PARTS.iter().any(|part| path.starts_with(part));
    !is_test && (is_part || PURE.iter().any(|room| path.starts_with(format!("crates/{room}/src"))))
}

fn check_clippy_files(files: &[File]) -> Vec<Problem> {
    let text_of = |room: &str| {
        let path = format!("crates/{room}/clippy.toml");
        (files.iter().find(|file| file.path == Path::new(&path)).map(|file| file.text.as_str()), path)
    };
    let (model, _) = text_of("model");
    let mut problems = Vec::new();
    for room in PURE {
        match text_of(room) {
            (None, path) => problems.push(Problem::new(path, "is missing")),
            (text, path) if text != model => problems.push(Problem::new(path, "differs from crates/model/clippy.toml")),
            _ => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pure_file(text: &str) -> File {
        File { path: "crates/shard/src/replica.rs".into(), text: text.to_owned() }
    }

    fn problems(file: File) -> Vec<Problem> {
        check(&[file]).into_iter().filter(|problem| !problem.place.ends_with("clippy.toml")).collect()
    }

    #[test]
    fn a_clock_in_a_pure_room_is_found() {
        let found = problems(pure_file("//! Doc.\nlet now = Instant::now();\n"));

        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "crates/shard/src/replica.rs:2");
    }

    #[test]
    fn comments_tests_and_similar_names_are_free() {
        let text = "//! Never Instant::now.\nuse operand::Kind;\n#[cfg(test)]\nmod tests { use std::fs; }\n";

        assert_eq!(problems(pure_file(text)), []);
    }

    #[test]
    fn a_pure_part_of_another_room_is_held_to_the_same() {
        let file = |path: &str| File { path: path.into(), text: "let now = Instant::now();".to_owned() };

        assert_eq!(problems(file("crates/kit/src/core/call.rs")).len(), 1);
        assert_eq!(problems(file("crates/kit/src/client.rs")), []);
    }

    #[test]
    fn other_rooms_may_do_as_they_like() {
        let file = File { path: "crates/server/src/lib.rs".into(), text: "use std::fs;".to_owned() };

        assert_eq!(problems(file), []);
    }

    #[test]
    fn every_pure_room_needs_its_clippy_file() {
        assert_eq!(check(&[]).len(), PURE.len());
    }
}
