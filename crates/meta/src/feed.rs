//! What a node that has an older version of the map is sent.

use crate::change::{Change, Delta};
use crate::limits::DELTA_BYTES_MAX;
use crate::state::Meta;

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Feed {
    /// It has what there is.
    Nothing,
    /// A [`Delta`] that leads it on, as bytes.
    Delta { from: u64, to: u64, change: Vec<u8> },
    /// It is too far behind, or has nothing: the whole map, as bytes of a delta from version 0.
    Whole { version: u64, map: Vec<u8> },
}

impl Meta {
    /// For a node that has this version of the map; 0 if it has none. A delta brings it as far as one may be long, so it has to
    /// be asked for the next.
    #[must_use]
    pub fn feed(&self, version: u64) -> Feed {
        let map = &self.map;
        if version == map.version {
            return Feed::Nothing;
        }
        // One that has a version that was never made is told the truth, too.
        let is_kept = self.history.front().is_some_and(|(oldest, _)| version + 1 >= *oldest) && version < map.version;
        let delta = (is_kept && version > 0).then(|| self.delta(version)).flatten();
        delta.unwrap_or_else(|| Feed::Whole { version: map.version, map: map.whole().to_bytes() })
    }

    /// As many versions as fit; nothing if not even one does.
    fn delta(&self, from: u64) -> Option<Feed> {
        let (mut changes, mut to, mut bytes) = (Vec::<Change>::new(), from, 0);
        for (version, added) in self.history.iter().filter(|(version, _)| *version > from) {
            bytes += added.iter().map(encoded_bytes).sum::<usize>();
            if bytes > DELTA_BYTES_MAX {
                break;
            }
            changes.extend_from_slice(added);
            to = *version;
        }
        let change = || Delta { cluster: self.map.cluster, from, to, changes }.to_bytes();
        (to > from).then(|| Feed::Delta { from, to, change: change() })
    }
}

fn encoded_bytes(change: &Change) -> usize {
    let mut bytes = Vec::new();
    change.encode(&mut bytes);
    bytes.len()
}
