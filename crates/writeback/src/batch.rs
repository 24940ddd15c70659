//! A batch on its way into a database that takes many rows per statement: in the order of the keys on the way in, so that
//! two writers that meet in the same rows wait for each other instead of dying in a deadlock, and in the order of the job
//! on the way back.

use shardine_model::sql::FlushRow;
use shardine_model::{RowKeyBuf, Version};

pub(crate) struct Batch<'a> {
    /// By key, each with its place in the job.
    rows: Vec<(usize, &'a FlushRow)>,
    /// What SQL holds of each, as far as it has said.
    held: Vec<Option<Version>>,
    /// The row that the next answer is about, if the server answers in the order in which it was told.
    next: usize,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(rows: &'a [FlushRow]) -> Self {
        let mut rows: Vec<(usize, &FlushRow)> = rows.iter().enumerate().collect();
        rows.sort_unstable_by(|(_, left), (_, right)| left.row.cmp(&right.row));
        Self { held: vec![None; rows.len()], rows, next: 0 }
    }

    pub(crate) fn by_key(&self) -> Vec<&'a FlushRow> {
        self.rows.iter().map(|(_, flush)| *flush).collect()
    }

    /// SQL says what it holds. About a row that is not of this batch it may say what it likes.
    pub(crate) fn note(&mut self, row: &RowKeyBuf, version: Version) {
        let is_next = self.rows.get(self.next).is_some_and(|(_, flush)| flush.row == *row);
        let place = if is_next { Ok(self.next) } else { self.rows.binary_search_by(|(_, flush)| flush.row.cmp(row)) };
        if let Ok(place) = place {
            self.held[place] = Some(version);
            self.next = place + 1;
        }
    }

    /// Whether SQL has said what it holds of a row.
    pub(crate) fn knows(&self, row: &RowKeyBuf) -> bool {
        let place = self.rows.binary_search_by(|(_, flush)| flush.row.cmp(row));
        place.is_ok_and(|place| self.held[place].is_some())
    }

    /// Rows of which nothing was said yet.
    pub(crate) fn unknown(&self) -> Vec<RowKeyBuf> {
        let rows = self.rows.iter().zip(&self.held).filter(|(_, held)| held.is_none());
        rows.map(|((_, flush), _)| flush.row.clone()).collect()
    }

    /// What SQL holds of each row of the job; nothing of those about which it never spoke.
    pub(crate) fn into_versions(self) -> Vec<Version> {
        let mut versions = vec![Version::NEVER; self.rows.len()];
        for ((place, _), held) in self.rows.iter().zip(self.held) {
            versions[*place] = held.unwrap_or(Version::NEVER);
        }
        versions
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::{ChangedFields, RowImage, TableId};

    use super::*;

    fn row(key: &str) -> RowKeyBuf {
        RowKeyBuf { table: TableId(2), key: key.as_bytes().into(), sort: Box::default() }
    }

    fn flush(key: &str) -> FlushRow {
        FlushRow { row: row(key), version: Version(1), fields: RowImage::default(), changed: ChangedFields::ALL }
    }

    #[test]
    fn answers_in_any_order_come_back_in_the_order_of_the_job() {
        let rows = ["c", "a", "d", "b"].map(flush);
        let mut batch = Batch::new(&rows);

        for (key, version) in [("b", 2), ("d", 4), ("a", 1), ("x", 9)] {
            batch.note(&row(key), Version(version));
        }

        assert_eq!(batch.unknown(), [row("c")]);
        assert_eq!(batch.into_versions(), [Version::NEVER, Version(1), Version(4), Version(2)]);
    }

    /// reliability F19.
    #[test]
    fn rows_go_in_by_key() {
        let rows = ["c", "a", "b"].map(flush);

        let batch = Batch::new(&rows);

        let keys: Vec<&[u8]> = batch.by_key().iter().map(|flush| &flush.row.key[..]).collect();
        assert_eq!(keys, [b"a", b"b", b"c"]);
    }
}
