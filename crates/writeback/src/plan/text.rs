//! A plan as people read it.

use std::fmt;

use super::{Plan, Proposal, TablePlan};

impl Proposal {
    /// The words behind `shardine` that make it.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = ["table", "create"].map(str::to_owned).to_vec();
        words.push(self.table.clone());
        let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        for field in &self.fields {
            option("field", field.clone());
        }
        option("map", self.table.clone());
        option("map-key", format!("{}:{}", self.key, self.key_type));
        if let Some(version) = &self.version {
            option("map-version", version.clone());
        }
        for parent in &self.after {
            option("after", parent.clone());
        }
        words
    }
}

/// As a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=:,./".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

impl fmt::Display for TablePlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (&self.mapping, &self.remarks[..]) {
            (None, _) => "cannot be cached",
            (Some(_), []) => "as it is",
            (Some(proposal), _) if proposal.version.is_none() => "can be read",
            (Some(_), _) => "with remarks",
        };
        writeln!(formatter, "{}: {verdict}", self.name)?;
        let Some(proposal) = &self.mapping else {
            return self.obstacles.iter().try_for_each(|obstacle| writeln!(formatter, "  - {obstacle}"));
        };
        self.remarks.iter().try_for_each(|remark| writeln!(formatter, "  - {remark}"))?;
        let words: Vec<String> = proposal.words().iter().map(|word| quoted(word)).collect();
        writeln!(formatter, "  shardine {}", words.join(" "))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(formatter, "{table}")?;
        }
        let count = |is_it: fn(&TablePlan) -> bool| self.tables.iter().filter(|table| is_it(table)).count();
        let is_written = |table: &TablePlan| table.mapping.as_ref().is_some_and(|proposal| proposal.version.is_some());
        write!(
            formatter,
            "{} tables: {} can be read and written, {} read, {} not cached",
            self.tables.len(),
            count(is_written),
            count(|table| table.mapping.as_ref().is_some_and(|proposal| proposal.version.is_none())),
            count(|table| table.mapping.is_none()),
        )
    }
}
