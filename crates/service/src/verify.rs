//! What doors tell of rows that are not in SQL as they should be: differences, page by page, and dead letters.

use shardine_model::{Catalogue, Table, Timestamp, Version};
use shardine_router::{DeadLetterLine, DifferenceKind, VerifiedPage};

use crate::order::RowAddress;

#[derive(Clone, Debug, Default)]
pub struct Verify {
    pub table: String,
    /// 0 means the default.
    pub limit: usize,
    pub cursor: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct Verified {
    pub equal: u64,
    pub dirty: u64,
    pub not_in_memory: u64,
    pub changing: u64,
    pub differences: Vec<RowDifference>,
    pub next: Option<Vec<u8>>,
}

/// A difference, by the row's name.
#[derive(Clone, Debug)]
pub struct RowDifference {
    pub row: RowAddress,
    pub kind: DifferenceKind,
    pub memory: Version,
    pub sql: Version,
}

/// A row that SQL does not take, by its name.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub row: RowAddress,
    pub version: Version,
    pub error: String,
    pub tries: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

impl DeadLetter {
    /// `None` if the table was dropped meanwhile.
    pub(crate) fn of(catalogue: &Catalogue, line: DeadLetterLine) -> Option<Self> {
        let row = RowAddress::of(catalogue.get(line.row.table)?, &line.row);
        let DeadLetterLine { version, error, tries, first_at, last_at, .. } = line;
        Some(Self { row, version, error, tries, first_at, last_at })
    }
}

impl Verified {
    pub(crate) fn of(table: &Table, page: VerifiedPage) -> Self {
        let found = page.differences.into_iter().map(|difference| RowDifference {
            row: RowAddress::of(table, &difference.row),
            kind: difference.kind,
            memory: difference.memory,
            sql: difference.sql,
        });
        Self {
            equal: page.equal,
            dirty: page.dirty,
            not_in_memory: page.not_in_memory,
            changing: page.changing,
            differences: found.collect(),
            next: page.next,
        }
    }

    /// How much of the table is behind this page: positions are spread evenly, and a cursor begins with one.
    #[must_use]
    pub fn progress(&self) -> f64 {
        let Some(cursor) = &self.next else { return 1.0 };
        cursor.first_chunk::<8>().map_or(0.0, |bytes| u64::from_be_bytes(*bytes) as f64 / u64::MAX as f64)
    }
}
