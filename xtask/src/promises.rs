//! The numbered promises of `docs/promises`, and who cites them. A list is a page; a promise is an item `- **43.** …` of
//! it, planned if it says so or stands under a heading that does. Judges nothing: who cites what is looked at by
//! `statements` and `tidy`.

use std::{fmt, path::Path};

use crate::tree::File;

const FOLDER: &str = "docs/promises";
const PLANNED: &str = "(planned)";

/// Marks that end a citation. A word behind it does not: "records 10 writes" is English.
const ENDS: [char; 14] = ['\n', ')', ']', '}', '.', ',', ':', ';', '"', '\'', '`', '*', '!', '?'];

/// The number of a promise, with what stands before it in some lists: nothing, `A-` or `I`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    letters: String,
    number: u32,
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.letters, self.number)
    }
}

pub struct Promise {
    pub number: Number,
    /// Decided, and not built yet.
    pub is_planned: bool,
    pub line: usize,
}

/// A page of promises. Its name is that of its file, and how it is cited.
pub struct List {
    pub name: String,
    pub promises: Vec<Promise>,
}

impl List {
    pub fn has(&self, number: &Number) -> bool {
        self.promises.iter().any(|promise| promise.number == *number)
    }

    /// The page, from the root.
    pub fn path(&self) -> String {
        format!("{FOLDER}/{}.md", self.name)
    }
}

/// A place that names a promise, or a number that is none.
pub struct Citation<'a> {
    pub list: &'a List,
    pub number: Number,
    pub line: usize,
    /// Whether it stands between backticks: an example of a citation rather than one.
    pub is_quoted: bool,
}

/// All lists, by name.
pub fn lists(files: &[File]) -> Vec<List> {
    let pages = files.iter().filter(|file| file.path.parent() == Some(Path::new(FOLDER)) && file.has_extension("md"));
    let named = pages.filter_map(|page| Some((page.path.file_stem()?.to_str()?, page)));
    let lists = named.filter(|(name, _)| *name != "README");
    lists.map(|(name, page)| List { name: name.to_owned(), promises: promises(&page.text) }).collect()
}

fn promises(page: &str) -> Vec<Promise> {
    let mut found = Vec::new();
    // The level of the heading that makes all below it planned.
    let mut planned_level = None;
    for (index, line) in page.lines().enumerate() {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if level > 0 && planned_level.is_none_or(|above| level <= above) {
            planned_level = line.contains(PLANNED).then_some(level);
        }
        let Some((number, text)) = line.strip_prefix("- **").and_then(|item| item.split_once(".** ")) else { continue };
        if let Some((number, "")) = read_number(number) {
            let is_planned = planned_level.is_some() || text.starts_with(PLANNED);
            found.push(Promise { number, is_planned, line: index + 1 });
        }
    }
    found
}

/// Everything that a text cites, in prose (`records 12, 15-17 and 20`) and in names of tests (`fn records_12_…`).
pub fn citations<'a>(lists: &'a [List], text: &str) -> Vec<Citation<'a>> {
    let flat = without_comment_marks(text);
    let mut found = Vec::new();
    for list in lists {
        for at in words(&flat, &list.name) {
            let Some(rest) = flat[at + list.name.len()..].strip_prefix([' ', '\n']) else { continue };
            let numbers = read_list(rest, lists);
            found.extend(numbers.into_iter().map(|number| cited(list, number, &flat, at)));
        }
        let prefix = format!("{}_", list.name.replace('-', "_"));
        for at in words(&flat, &prefix).filter(|at| is_name_of_function(&flat[..*at])) {
            let numbers = read_name(&flat[at + prefix.len()..]);
            found.extend(numbers.into_iter().map(|number| cited(list, number, &flat, at)));
        }
    }
    found
}

fn cited<'a>(list: &'a List, number: Number, flat: &str, at: usize) -> Citation<'a> {
    let before = &flat[..at];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let is_quoted = before[line_start..].matches('`').count() % 2 == 1;
    Citation { list, number, line: before.matches('\n').count() + 1, is_quoted }
}

/// The text with as many lines and without what opens a comment, so that a citation may go on in the next line.
pub fn without_comment_marks(text: &str) -> String {
    let bare = |line: &str| {
        let line = line.trim();
        let marks = ["//!", "///", "//", "#"];
        marks.iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line).trim().to_owned()
    };
    text.lines().map(bare).collect::<Vec<_>>().join("\n")
}

/// Where a word begins, not as the end of a longer one.
pub fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(|at| {
        let before = text[..*at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || ['-', '_', '/', '.'].contains(&letter))
    })
}

fn is_name_of_function(before: &str) -> bool {
    before.ends_with("fn ") || before.ends_with("def ")
}

/// Reads `12, 15-17 and 20`, if it ends as a citation does; nothing of `10,000` and of `10 writes`.
fn read_list(mut text: &str, lists: &[List]) -> Vec<Number> {
    let mut found = Vec::new();
    while let Some((first, rest)) = read_number(text) {
        let last = rest.strip_prefix('-').and_then(|rest| read_end(rest, &first.letters));
        let (last, rest) = last.unwrap_or((first.number, rest));
        found.extend((first.number..=last).map(|number| Number { letters: first.letters.clone(), number }));
        text = rest;
        match after_separator(text).filter(|next| read_number(next).is_some()) {
            Some(next) => text = next,
            None => break,
        }
    }
    if is_end(text, lists) { found } else { Vec::new() }
}

fn after_separator(text: &str) -> Option<&str> {
    let separators = [", and ", ", ", ",\n", " and ", " and\n", "\nand "];
    separators.iter().find_map(|separator| text.strip_prefix(separator))
}

/// Whether a citation may end here: with the text, with a mark that no number has behind it, or before another one.
fn is_end(text: &str, lists: &[List]) -> bool {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return true };
    let goes_on = ['.', ','].contains(&first) && letters.next().is_some_and(|next| next.is_ascii_digit());
    let is_followed = || {
        let next = after_separator(text);
        next.is_some_and(|next| lists.iter().any(|list| next.starts_with(&format!("{} ", list.name))))
    };
    (ENDS.contains(&first) && !goes_on) || is_followed()
}

/// Reads `43`, `A-17` or `I44`. Three digits at most, and none of them a leading zero: promises are few.
fn read_number(text: &str) -> Option<(Number, &str)> {
    let after_letter = text.strip_prefix(|letter: char| letter.is_ascii_uppercase());
    let rest = after_letter.map_or(text, |rest| rest.strip_prefix('-').unwrap_or(rest));
    let letters = &text[..text.len() - rest.len()];
    let (number, rest) = read_digits(rest)?;
    Some((Number { letters: letters.to_owned(), number }, rest))
}

/// The end of a range: `17`, or `I27` as its beginning is written.
fn read_end<'a>(text: &'a str, letters: &str) -> Option<(u32, &'a str)> {
    read_digits(text.strip_prefix(letters).unwrap_or(text))
}

fn read_digits(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let is_number = (1..=3).contains(&end) && !text.starts_with('0');
    is_number.then(|| text[..end].parse().ok())?.map(|number| (number, &text[end..]))
}

/// Reads `43_44_the_claim`, `a_17_19_the_claim` and `i44_the_claim` as far as numbers go.
fn read_name(text: &str) -> Vec<Number> {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let mut parts = text[..end].split('_').peekable();
    let mut letters = String::new();
    let mut found = Vec::new();
    while let Some(part) = parts.next() {
        let is_letter = part.len() == 1 && part.starts_with(|letter: char| letter.is_ascii_lowercase());
        if is_letter && parts.peek().is_some_and(|next| matches!(read_digits(next), Some((_, "")))) {
            letters = format!("{}-", part.to_ascii_uppercase());
            continue;
        }
        let Some((number, "")) = read_number(&part.to_ascii_uppercase()) else { break };
        let own = if number.letters.is_empty() { letters.clone() } else { number.letters };
        found.push(Number { letters: own, number: number.number });
    }
    found
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const RECORDS: &str = "# Promises\n\n## One\n\n- **4.** It holds.\n- **12.** (planned) It will.\n- **15.** So.\n\
        - **16.** So.\n- **17.** So.\n- **20.** So.\n\n## Two (planned)\n\n### Three\n\n- **43.** It will.\n\n## Four\n\n\
        - **44.** It holds.\n\nNo item: **45.** is a word.\n";

    /// Three small lists, as if they were in the repository.
    pub fn some_lists() -> Vec<List> {
        let page = |name: &str, text: &str| File { path: format!("{FOLDER}/{name}.md").into(), text: text.to_owned() };
        lists(&[
            page("README", "- **1.** This is no list.\n"),
            page("kit", "- **A-17.** It holds.\n- **A-19.** It holds.\n"),
            page("records", RECORDS),
            page(
                "reliability",
                "- **F1.** It holds.\n- **I25.** It holds.\n- **I26.** It holds.\n- **I27.** It holds.\n",
            ),
            page("write-back", "- **78.** It holds.\n- **81.** It holds.\n"),
        ])
    }

    /// What a text cites, in the order of lists: `records 4`.
    fn cited(text: &str) -> Vec<String> {
        let lists = some_lists();
        citations(&lists, text).iter().map(|citation| format!("{} {}", citation.list.name, citation.number)).collect()
    }

    #[test]
    fn lists_are_read_from_their_pages() {
        let lists = some_lists();

        let names: Vec<&str> = lists.iter().map(|list| list.name.as_str()).collect();
        assert_eq!(names, ["kit", "records", "reliability", "write-back"]);
        let planned = lists[1].promises.iter().filter(|promise| promise.is_planned);
        assert_eq!(planned.map(|promise| promise.number.to_string()).collect::<Vec<_>>(), ["12", "43"]);
        assert_eq!(lists[1].promises.len(), 8);
    }

    #[test]
    fn citations_are_read_from_prose() {
        assert_eq!(cited("/// records 43: a late answer"), ["records 43"]);
        let many = ["records 12", "records 15", "records 16", "records 17", "records 20"];
        assert_eq!(cited("# A story. (records 12, 15-17 and 20)"), many);
        assert_eq!(cited("kit A-17, A-19."), ["kit A-17", "kit A-19"]);
        assert_eq!(
            cited("(reliability F1, I25-I27)"),
            ["reliability F1", "reliability I25", "reliability I26", "reliability I27"]
        );
        assert_eq!(cited("records 4 and write-back 78, 81"), ["records 4", "write-back 78", "write-back 81"]);
        assert_eq!(cited("assert!(held, \"records 4\");"), ["records 4"]);
    }

    #[test]
    fn a_citation_goes_on_in_the_next_line_of_a_comment() {
        assert_eq!(
            cited("    /// It holds (reliability I25, records\n    /// 4), always."),
            ["records 4", "reliability I25"]
        );
        assert_eq!(cited("//! It holds (records 4,\n//! 15)."), ["records 4", "records 15"]);
        assert_eq!(cited("    # records 4\n    call()"), ["records 4"]);
    }

    #[test]
    fn citations_are_read_from_names_of_tests() {
        assert_eq!(cited("fn records_43_incr_overflows() {}"), ["records 43"]);
        assert_eq!(cited("fn write_back_78_81_both() {}"), ["write-back 78", "write-back 81"]);
        assert_eq!(cited("fn kit_a_17_19_a_host_is_late() {}"), ["kit A-17", "kit A-19"]);
        assert_eq!(cited("fn reliability_i25_it_is_there() {}"), ["reliability I25"]);
        assert_eq!(cited("def records_4_holds():"), ["records 4"]);
        assert!(cited("let records_4_rows = 1; fn all_records_4() {}").is_empty());
    }

    #[test]
    fn ordinary_sentences_cite_nothing() {
        for text in [
            "it records 10,000 writes",
            "it records 10 writes a second",
            "of all records 4.5 per cent",
            "records 4% of them",
            "1000 records 2000 tables",
            "records 04",
            "the records themselves. 4 of them",
            "docs/records 4",
            "dead-records 4",
            "Records 4",
            "records A- 4",
        ] {
            assert!(cited(text).is_empty(), "{text}: {:?}", cited(text));
        }
    }

    #[test]
    fn a_citation_knows_its_line_and_whether_it_is_an_example() {
        let lists = some_lists();

        let found = citations(&lists, "one\n`records 4` and\nthe rest (records 15)\n");

        let places: Vec<(usize, bool)> = found.iter().map(|citation| (citation.line, citation.is_quoted)).collect();
        assert_eq!(places, [(2, true), (3, false)]);
    }
}
