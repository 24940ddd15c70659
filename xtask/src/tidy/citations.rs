//! What is cited is in the repository: every number that a text names is a promise of `docs/promises`, no text names a
//! book that a reader does not have, and pages for users link to a list instead of naming numbers of it.

use std::{collections::BTreeSet, path::Path};

use super::Problem;
use crate::{
    promises::{self, List},
    tree::File,
};

/// Lists and pages that promises were once cited from. Written in two halves, so that this file passes its own check.
const BOOKS: [&str; 12] = [
    concat!("record", "-cache"),
    concat!("record", "_cache_"),
    concat!("coordination", "-semantics"),
    concat!("coordination", "_semantics_"),
    concat!("coordination", "-wire"),
    concat!("coordination", "-sdks"),
    concat!("INTER", "FACES"),
    concat!("crates", ".md"),
    concat!("DESIGN", ".md"),
    concat!("CLUSTER", ".md"),
    concat!("STYLE", ".md"),
    concat!("sharding ", "A-"),
];

/// The same, of words that mean a page only when a number follows.
const PAGES: [&str; 3] = [concat!("DES", "IGN"), concat!("CLUS", "TER"), concat!("ST", "YLE")];

/// These speak about citations, and have all kinds of them as examples.
const OWN: [&str; 3] = ["xtask/src/promises.rs", "xtask/src/statements.rs", "xtask/src/tidy/citations.rs"];

pub fn check(files: &[File]) -> Vec<Problem> {
    let lists = promises::lists(files);
    let mut problems: Vec<Problem> = lists.iter().flat_map(doubles).collect();
    for file in files.iter().filter(|file| !OWN.iter().any(|own| file.path == Path::new(own))) {
        problems.extend(check_citations(&lists, file));
        problems.extend(check_books(file));
    }
    problems
}

/// A number stands for one promise.
fn doubles(list: &List) -> Vec<Problem> {
    let mut seen = BTreeSet::new();
    let twice = list.promises.iter().filter(|promise| !seen.insert(&promise.number));
    twice.map(|promise| problem(&list.path(), promise.line, format!("promises {} twice", promise.number))).collect()
}

fn check_citations(lists: &[List], file: &File) -> Vec<Problem> {
    let is_for_users = is_for_users(&file.path);
    let mut problems = Vec::new();
    for citation in promises::citations(lists, &file.text) {
        let (list, number) = (citation.list, &citation.number);
        let what = if !list.has(number) {
            format!("cites {} {number}, which is not in {}", list.name, list.path())
        } else if is_for_users && !citation.is_quoted {
            format!("is for users: link to {} instead of citing {} {number}", list.path(), list.name)
        } else {
            continue;
        };
        problems.push(problem(&file.path.display(), citation.line, what));
    }
    problems
}

fn is_for_users(path: &Path) -> bool {
    path == Path::new("README.md") || (path.parent() == Some(Path::new("docs")))
}

fn check_books(file: &File) -> Vec<Problem> {
    let text = promises::without_comment_marks(&file.text);
    let books = BOOKS.iter().flat_map(|book| promises::words(&text, book).map(move |at| (at, *book)));
    let has_number = |(at, page): &(usize, &str)| {
        let rest = text[at + page.len()..].strip_prefix([' ', '\n']);
        rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    let pages =
        PAGES.iter().flat_map(|page| promises::words(&text, page).map(move |at| (at, *page))).filter(has_number);
    let found = books.chain(pages);
    found.map(|(at, name)| problem(&file.path.display(), line_of(&text, at), what_is_missing(name))).collect()
}

fn what_is_missing(name: &str) -> String {
    format!("cites {name}, which is not in the repository: name a promise of docs/promises or say the fact")
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn problem(path: &impl std::fmt::Display, line: usize, what: String) -> Problem {
    Problem::new(format!("{path}:{line}"), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a file beside one small list.
    fn problems(path: &str, text: &str) -> Vec<Problem> {
        let list = File { path: "docs/promises/records.md".into(), text: "- **4.** It holds.\n".to_owned() };
        check(&[list, File { path: path.into(), text: text.to_owned() }])
    }

    #[test]
    fn a_number_that_nobody_promised_is_found() {
        assert!(problems("crates/a/src/b.rs", "/// records 4\n").is_empty());
        assert_eq!(
            problems("crates/a/src/b.rs", "fn f() {}\n/// It holds (records\n/// 4, 5).\n"),
            [Problem::new("crates/a/src/b.rs:2", "cites records 5, which is not in docs/promises/records.md")]
        );
        assert_eq!(problems("crates/a/tests/b.rs", "fn records_4_5_both() {}\n").len(), 1);
        assert_eq!(problems("docs/promises/other.md", "- **1.** As in records 5.\n").len(), 1);
    }

    #[test]
    fn a_number_is_promised_once() {
        assert_eq!(problems("docs/promises/other.md", "- **1.** It holds.\n- **1.** It does not.\n").len(), 1);
    }

    #[test]
    fn a_book_that_is_not_here_is_found() {
        for book in BOOKS {
            let found = problems("crates/a/src/b.rs", &format!("fn f() {{}}\n// It holds ({book} 4).\n"));
            assert_eq!(found.len(), 1, "{book}");
            assert_eq!(found[0].place, "crates/a/src/b.rs:2");
        }
        for page in PAGES {
            assert_eq!(problems("crates/a/src/b.rs", &format!("// It holds ({page} 4).\n")).len(), 1);
            assert!(problems("docs/a.md", &format!("{page} SLOTS\n")).is_empty());
        }
    }

    #[test]
    fn pages_for_users_link() {
        assert_eq!(problems("docs/guide.md", "It holds (records 4).\n").len(), 1);
        assert_eq!(problems("README.md", "It holds (records 4).\n").len(), 1);
        assert!(problems("docs/guide.md", "It holds ([records](promises/records.md)).\n").is_empty());
        assert!(problems("docs/guide.md", "A test says `records 4`.\n").is_empty());
        assert!(problems("docs/adr/0001.md", "It holds (records 4).\n").is_empty());
    }
}
