//! `cargo xtask statements`: which numbered promises have a test that names them. A test names a promise by
//! `record-cache 43` in its text (also `record-cache 12, 15-17`) or by `record_cache_43` in its name; those of coordination
//! by `coordination-semantics 43`, those of the kit by `sharding A-17, A-19` or `sharding_a_17_19`.

use std::{collections::BTreeSet, ops::RangeInclusive, path::Path, process::ExitCode};

use anyhow::Result;
use clap::Args;

use crate::tree::{self, File};

/// A list of numbered promises: how tests name it, in texts and in names, and which of its numbers are promised today.
struct Book {
    in_text: &'static str,
    in_names: &'static str,
    promised: &'static [RangeInclusive<u32>],
}

const BOOKS: [Book; 3] = [
    Book { in_text: "record-cache ", in_names: "record_cache_", promised: &[1..=117, 119..=119, 121..=121, 132..=132] },
    Book { in_text: "coordination-semantics ", in_names: "coordination_semantics_", promised: &[1..=213] },
    // Part A, the kit; its numbers have the part's letter before them.
    Book { in_text: "sharding A-", in_names: "sharding_a_", promised: &[1..=51] },
];

#[derive(Args)]
pub struct Options {
    /// End with exit code 1 when a promise has no test.
    #[arg(long)]
    strict: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let files = tree::files()?;
    let texts: Vec<String> = files.iter().filter_map(test_text).collect();
    let mut complete = true;
    for book in BOOKS {
        let named: BTreeSet<u32> = texts.iter().flat_map(|text| numbers(&book, text)).collect();
        let promised: Vec<u32> = book.promised.iter().cloned().flatten().collect();
        let missing: Vec<String> =
            promised.iter().filter(|number| !named.contains(number)).map(u32::to_string).collect();
        let found = promised.len() - missing.len();
        println!("{}: {found} of {} statements have a test that names them", book.in_text.trim(), promised.len());
        if !missing.is_empty() {
            println!("without a test: {}", missing.join(" "));
            complete = false;
        }
    }
    Ok(if options.strict && !complete { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The part of a file that is test: all of it in a folder or file of tests and in the simulator, what follows
/// `#[cfg(test)]` in other Rust files, nothing of prose.
fn test_text(file: &File) -> Option<String> {
    let is_prose = file.has_extension("md") && !is_in(&file.path, "tests");
    if is_prose || file.path.starts_with("xtask") {
        return None;
    }
    let is_test_file = file.path.file_stem().is_some_and(|stem| stem == "tests");
    if is_in(&file.path, "tests") || is_test_file || file.path.starts_with("crates/sim") {
        return Some(file.text.clone());
    }
    let lines_before = file.lines_before_tests().count();
    file.has_extension("rs").then(|| file.text.lines().skip(lines_before).collect::<Vec<_>>().join("\n"))
}

fn is_in(path: &Path, folder: &str) -> bool {
    path.parent().is_some_and(|parent| parent.iter().any(|part| part == folder))
}

/// All statement numbers of a book that a text names.
fn numbers(book: &Book, text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    // What stands before each number of a list: nothing, or the letter of a part.
    let letter = book.in_text.rsplit(' ').next().unwrap_or_default();
    for (marker, separators, letter) in [(book.in_text, &[", ", " and "][..], letter), (book.in_names, &["_"], "")] {
        for (at, _) in text.match_indices(marker) {
            read_list(&text[at + marker.len()..], separators, letter, &mut found);
        }
    }
    found
}

/// Reads `12, 15-17 and 20` as far as it goes.
fn read_list(mut text: &str, separators: &[&str], letter: &str, found: &mut Vec<u32>) {
    while let Some((first, rest)) = read_number(text) {
        let range_end = rest.strip_prefix('-').and_then(read_number);
        let (last, rest) = range_end.unwrap_or((first, rest));
        found.extend(first..=last);
        let Some(next) = separators.iter().find_map(|separator| rest.strip_prefix(separator)) else { return };
        text = next.strip_prefix(letter).unwrap_or(next);
    }
}

fn read_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<u32> {
        super::numbers(&BOOKS[0], text)
    }

    #[test]
    fn books_are_not_mixed_up() {
        let text = "record-cache 4 and coordination-semantics 5, 7-8";

        assert_eq!(super::numbers(&BOOKS[0], text), [4]);
        assert_eq!(super::numbers(&BOOKS[1], text), [5, 7, 8]);
    }

    #[test]
    fn a_part_of_a_book_has_its_letter_before_every_number() {
        let text = "sharding A-4, A-7 and A-9; fn sharding_a_17_19_both() {} sharding B-3";

        assert_eq!(super::numbers(&BOOKS[2], text), [4, 7, 9, 17, 19]);
    }

    #[test]
    fn numbers_are_read_from_prose_and_from_names() {
        assert_eq!(numbers("/// record-cache 43: a late answer"), [43]);
        assert_eq!(numbers("# record-cache 12, 15-17 and 20."), [12, 15, 16, 17, 20]);
        assert_eq!(numbers("fn record_cache_7_incr_overflows() {}"), [7]);
        assert_eq!(numbers("fn record_cache_7_8_both() {}"), [7, 8]);
        assert!(numbers("the record-cache itself").is_empty());
    }

    #[test]
    fn only_tests_count() {
        let source = |path: &str, text: &str| File { path: path.into(), text: text.to_owned() };

        let unit = test_text(&source("crates/a/src/b.rs", "// record-cache 1\n#[cfg(test)]\n// record-cache 2\n"));
        let script = test_text(&source("crates/a/tests/scripts/incr", "# record-cache 3"));
        let prose = test_text(&source("docs/guide.md", "record-cache 4"));

        assert_eq!(numbers(&unit.unwrap()), [2]);
        assert_eq!(numbers(&script.unwrap()), [3]);
        assert_eq!(prose, None);
    }
}
