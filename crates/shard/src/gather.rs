//! The entry being gathered, and the entries on their way: group commit.
//!
//! Requests are encoded as they arrive, straight into the entry that will carry them. Whatever came while the last log
//! write was on its way goes into the next entry; there is no timer.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashTable;
use shardine_model::codec::Reader;
use shardine_model::entry::open_commands;
use shardine_model::{Entry, Request, RequestEpoch, RowKey, RowKeyBuf, Timestamp, Version, limits};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::actions::Caller;
use crate::hold::Hold;
use crate::writeback::Urgency;

/// Fingerprints of rows that are being changed: a read of one of them must not overtake (records 58).
#[derive(Debug, Default)]
pub(crate) struct Touched {
    set: HashTable<u64>,
}

impl Touched {
    #[inline]
    pub fn insert(&mut self, row: RowKey<'_>) {
        let print = fingerprint(row);
        if self.set.find(print, |&known| known == print).is_none() {
            self.set.insert_unique(print, print, |&known| known);
        }
    }

    #[inline]
    pub fn contains(&self, row: RowKey<'_>) -> bool {
        if self.set.is_empty() {
            return false;
        }
        let print = fingerprint(row);
        self.set.find(print, |&known| known == print).is_some()
    }
}

/// Two rows with one fingerprint only make a read wait that need not have.
#[inline]
pub(crate) fn fingerprint(row: RowKey<'_>) -> u64 {
    let key = xxh3_64_with_seed(row.key, u64::from(row.table.0));
    if row.sort.is_empty() { key } else { xxh3_64_with_seed(row.sort, key) }
}

/// An entry of commands that is not yet proposed, and gets its stamp when it is.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub epoch: RequestEpoch,
    pub bytes: Vec<u8>,
    pub callers: Vec<Caller>,
    /// Answers that wait for SQL, by the place of their caller.
    pub holds: BTreeMap<usize, Hold>,
    pub touched: Touched,
}

impl Gathered {
    /// What was never proposed, request by request. One whose answer waits for SQL cannot be given to another node as it is: its
    /// bytes are empty, unless it `stays_here`.
    pub fn give_back(self, stays_here: bool) -> Vec<(Caller, Vec<u8>)> {
        let Self { bytes, callers, holds, .. } = self;
        let Ok(Entry::Commands { requests, .. }) = Entry::decode(&bytes) else {
            unreachable!("it was encoded here");
        };
        let mut rest = requests;
        let one = |(place, caller): (usize, Caller)| {
            let mut reader = Reader::new(rest);
            Request::decode(&mut reader).expect("it was encoded here");
            let (request, behind) = rest.split_at(rest.len() - reader.rest().len());
            rest = behind;
            let is_kept = !stays_here && holds.contains_key(&place);
            (caller, if is_kept { Vec::new() } else { request.to_vec() })
        };
        callers.into_iter().enumerate().map(one).collect()
    }

    fn open(epoch: RequestEpoch) -> Self {
        let mut bytes = Vec::new();
        open_commands(&mut bytes, Timestamp(0), epoch);
        let (callers, holds, touched) = Default::default();
        Self { epoch, bytes, callers, holds, touched }
    }
}

/// Entries being gathered: all but the last are full, or were followed by a request of another epoch.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    entries: VecDeque<Gathered>,
    bytes: usize,
}

impl Gathering {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.bytes > limits::PENDING_BYTES_MAX
    }

    #[inline]
    pub fn touches(&self, row: RowKey<'_>) -> bool {
        self.entries.iter().any(|entry| entry.touched.contains(row))
    }

    #[inline]
    pub fn add(&mut self, epoch: RequestEpoch, caller: Caller, request: &Request<'_>, hold: Option<Hold>) {
        let entry = self.open(epoch);
        entry.callers.push(caller);
        if let Some(hold) = hold {
            entry.holds.insert(entry.callers.len() - 1, hold);
        }
        let before = entry.bytes.len();
        request.encode(&mut entry.bytes);
        for row in request.rows() {
            entry.touched.insert(row);
        }
        let added = entry.bytes.len() - before;
        self.bytes += added;
    }

    #[inline]
    fn open(&mut self, epoch: RequestEpoch) -> &mut Gathered {
        let takes = |entry: &Gathered| entry.epoch == epoch && entry.bytes.len() < limits::ENTRY_BYTES_MAX;
        if !self.entries.back().is_some_and(takes) {
            self.entries.push_back(Gathered::open(epoch));
        }
        self.entries.back_mut().expect("just made if there was none")
    }

    pub fn take(&mut self) -> Option<Gathered> {
        let entry = self.entries.pop_front()?;
        if self.entries.is_empty() {
            self.bytes = 0;
        }
        Some(entry)
    }
}

/// What is kept of a proposed entry until it is applied or overtaken.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub callers: Vec<Caller>,
    pub holds: BTreeMap<usize, Hold>,
    pub touched: Touched,
    /// By which its requests were routed and read.
    pub epoch: RequestEpoch,
    pub then: Then,
}

/// What the leader does when its entry has been applied.
#[derive(Debug)]
pub(crate) enum Then {
    Answer,
    /// Release what waited for these rows.
    Loaded(Vec<RowKeyBuf>),
    /// Tell the callers of these kicks; the version tells whether the record stayed.
    Kicked(Vec<(RowKeyBuf, Version)>),
    /// Rows that leave memory because it is full or they are old: nobody asked for it.
    Shed(Vec<(RowKeyBuf, Version)>),
    Leased {
        asked_ms: u64,
    },
    /// The lease was given back, also if it was asked for once more before that and granted only now.
    Released,
    /// SQL has these rows: look whether somebody's flush is complete.
    Written(Vec<RowKeyBuf>),
    Expired,
    Purged,
    /// Requests that came meanwhile have been sent away.
    Split,
    /// The floor of a table stands above the next tombstones.
    Floored,
    /// Tombstones that SQL has deleted are forgotten.
    SqlPurged,
    /// These rows were refused by SQL; where the list of dead letters is full they are tried again later.
    Refused(Vec<(RowKeyBuf, Version)>),
    /// These rows went above what SQL holds, and go there again as urgently as before.
    Raised(Vec<(RowKeyBuf, Urgency)>),
    /// SQL's row has taken the place of memory's, unless somebody changed that one meanwhile.
    Settled(RowKeyBuf),
}
