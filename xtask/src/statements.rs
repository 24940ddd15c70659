//! `cargo xtask statements`: which promises of today have no test that names them. The promises are in `docs/promises`;
//! how a test names one is told there, and read by `promises`.

use std::{collections::BTreeSet, path::Path, process::ExitCode};

use anyhow::Result;
use clap::Args;

use crate::{
    promises::{self, List, Number},
    tree::{self, File},
};

#[derive(Args)]
pub struct Options {
    /// End with exit code 1 when a promise of today has no test.
    #[arg(long)]
    strict: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let files = tree::files()?;
    let lists = promises::lists(&files);
    let texts: Vec<String> = files.iter().filter_map(test_text).collect();
    let named: BTreeSet<(&str, Number)> = texts.iter().flat_map(|text| named(&lists, text)).collect();
    let mut complete = true;
    for list in &lists {
        let today: Vec<&Number> = today(list).collect();
        let missing: Vec<String> =
            today.iter().filter(|number| !is_named(&named, list, number)).map(ToString::to_string).collect();
        let planned = list.promises.len() - today.len();
        let (found, today) = (today.len() - missing.len(), today.len());
        println!("{}: {found} of {today} promises have a test that names them; {planned} more are planned", list.name);
        if !missing.is_empty() {
            println!("without a test: {}", missing.join(" "));
            complete = false;
        }
    }
    Ok(if options.strict && !complete { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn today(list: &List) -> impl Iterator<Item = &Number> {
    list.promises.iter().filter(|promise| !promise.is_planned).map(|promise| &promise.number)
}

fn is_named(named: &BTreeSet<(&str, Number)>, list: &List, number: &Number) -> bool {
    named.contains(&(list.name.as_str(), number.clone()))
}

fn named<'a>(lists: &'a [List], text: &str) -> Vec<(&'a str, Number)> {
    let citations = promises::citations(lists, text).into_iter();
    citations.map(|citation| (citation.list.name.as_str(), citation.number)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promises::tests::some_lists;

    #[test]
    fn only_tests_count() {
        let source = |path: &str, text: &str| File { path: path.into(), text: text.to_owned() };

        let unit = test_text(&source("crates/a/src/b.rs", "// records 4\n#[cfg(test)]\n// records 12\n"));
        let script = test_text(&source("crates/a/tests/scripts/incr", "# records 15"));
        let prose = test_text(&source("docs/guide.md", "records 16"));

        let lists = some_lists();
        let numbers = |text: Option<String>| {
            named(&lists, &text.unwrap()).into_iter().map(|(_, number)| number.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(unit), ["12"]);
        assert_eq!(numbers(script), ["15"]);
        assert_eq!(prose, None);
    }

    #[test]
    fn what_is_planned_needs_no_test() {
        let lists = some_lists();
        let records = lists.iter().find(|list| list.name == "records").unwrap();

        let numbers: Vec<String> = today(records).map(ToString::to_string).collect();

        assert_eq!(numbers, ["4", "15", "16", "17", "20", "44"]);
    }
}
