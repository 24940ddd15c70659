//! The rows of one key that a scan wants, as bytes of their sort keys. A bound of a scan may be a prefix.

use std::ops::Bound as RangeBound;

use shardine_records::ScanBound;
use shardine_router::{Bound, SortRange};

/// One end of `[from, to)`; `None` is open.
type Edge = Option<Box<[u8]>>;

pub(super) struct Range {
    from: RangeBound<Vec<u8>>,
    to: RangeBound<Vec<u8>>,
}

impl Range {
    pub fn of(range: &SortRange) -> Self {
        Self { from: lower(&range.from), to: upper(&range.to) }
    }

    /// Leaves out what earlier pages gave, up to and with this sort key.
    pub fn go_on_behind(&mut self, sort: &[u8], descending: bool) {
        let edge = RangeBound::Excluded(sort.to_vec());
        if descending { self.to = edge } else { self.from = edge }
    }

    pub fn bounds(&self) -> (ScanBound<'_>, ScanBound<'_>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }

    /// The same as `[from, to)`, which is what SQL is asked for.
    pub fn edges(&self) -> (Edge, Edge) {
        let from = match &self.from {
            RangeBound::Unbounded => None,
            RangeBound::Included(sort) => Some(sort.as_slice().into()),
            RangeBound::Excluded(sort) => Some(next(sort)),
        };
        let to = match &self.to {
            RangeBound::Unbounded => None,
            RangeBound::Included(sort) => Some(next(sort)),
            RangeBound::Excluded(sort) => Some(sort.as_slice().into()),
        };
        (from, to)
    }
}

/// The byte string right behind this one.
fn next(sort: &[u8]) -> Box<[u8]> {
    [sort, &[0]].concat().into()
}

fn lower(bound: &Bound) -> RangeBound<Vec<u8>> {
    match bound {
        Bound::Open => RangeBound::Unbounded,
        Bound::Including(bytes) => RangeBound::Included(bytes.to_vec()),
        // Everything that begins with a prefix lies below the prefix with its last byte raised.
        Bound::Excluding(bytes) => {
            after_prefix(bytes).map_or(RangeBound::Excluded(bytes.to_vec()), RangeBound::Included)
        }
    }
}

fn upper(bound: &Bound) -> RangeBound<Vec<u8>> {
    match bound {
        Bound::Open => RangeBound::Unbounded,
        Bound::Including(bytes) => after_prefix(bytes).map_or(RangeBound::Unbounded, RangeBound::Excluded),
        Bound::Excluding(bytes) => RangeBound::Excluded(bytes.to_vec()),
    }
}

/// The first byte string behind all that begin with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut after = prefix.to_vec();
    while let Some(last) = after.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return Some(after);
        }
        after.pop();
    }
    None
}
