//! Pages of a table, or of the rows of one key.

use shardine_proto::v1;

use super::value::{Record, Value};

/// Which rows to read.
#[derive(Clone, Debug)]
pub struct Scan {
    message: v1::ScanRequest,
    /// Where the rows that were read before end.
    beyond: Vec<Value>,
}

impl Scan {
    /// All rows of a table, in no order that means anything.
    #[must_use]
    pub fn table(table: impl Into<String>) -> Self {
        let message = v1::ScanRequest { table: table.into(), ..v1::ScanRequest::default() };
        Self { message, beyond: Vec::new() }
    }

    /// Rows of one key, in the order of their sort keys. The table has one.
    #[must_use]
    pub fn rows_of(table: impl Into<String>, key: impl Into<Vec<u8>>) -> Self {
        let (table, partition) = (table.into(), Some(key.into()));
        let message = v1::ScanRequest { table, partition, ..v1::ScanRequest::default() };
        Self { message, beyond: Vec::new() }
    }

    /// From this first part of the sort key on.
    #[must_use]
    pub fn from(mut self, part: impl Into<Value>) -> Self {
        self.message.from = Some(bound(&part.into()));
        self
    }

    /// Up to this first part of the sort key, and with it.
    #[must_use]
    pub fn to(mut self, part: impl Into<Value>) -> Self {
        self.message.to = Some(bound(&part.into()));
        self
    }

    /// Only rows behind this sort key, in the direction of the scan. What a cursor is to one scan, this is for as long as one likes:
    /// it is a place in the data, wherever that lives. Replaces [`Scan::from`], or [`Scan::to`] of a scan from the end.
    #[must_use]
    pub fn beyond<V: Into<Value>>(mut self, sort: impl IntoIterator<Item = V>) -> Self {
        self.beyond = sort.into_iter().map(Into::into).collect();
        self
    }

    /// From the end to the beginning.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.message.descending = true;
        self
    }

    /// Rows of a page at most; without it, as many as the server thinks right.
    #[must_use]
    pub fn limit(mut self, rows: u32) -> Self {
        self.message.limit = rows;
        self
    }

    /// The page behind another one.
    #[must_use]
    pub fn after(mut self, cursor: Vec<u8>) -> Self {
        self.message.cursor = cursor;
        self
    }

    pub(super) fn partition(&self) -> Option<&[u8]> {
        self.message.partition.as_deref()
    }

    pub(super) fn to_message(&self) -> v1::ScanRequest {
        let mut message = self.message.clone();
        if !self.beyond.is_empty() {
            let bound = v1::SortBound { parts: self.beyond.iter().map(Value::to_message).collect(), exclusive: true };
            let side = if message.descending { &mut message.to } else { &mut message.from };
            *side = Some(bound);
        }
        message
    }
}

fn bound(part: &Value) -> v1::SortBound {
    v1::SortBound { parts: vec![part.to_message()], exclusive: false }
}

/// Rows of one page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// In the order of the scan.
    pub records: Vec<Record>,
    /// For [`Scan::after`]; `None` at the end. A page may be short and still have a next.
    pub next: Option<Vec<u8>>,
}

impl Page {
    pub(super) fn from_message(reply: v1::ScanReply) -> Self {
        let records = reply.records.into_iter().filter_map(Record::from_message).collect();
        Self { records, next: Some(reply.next).filter(|next| !next.is_empty()) }
    }
}
