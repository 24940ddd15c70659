//! Promise: a watcher hears of a change, or that it may have missed one, or its stream ends (reliability I64-I68,
//! coordination 163-181); and it hears of it once.

use std::collections::BTreeMap;

use shardine_coord::{ClaimLine, Coord, Description, NodeNumber};

use crate::check::Violation;
use crate::coord::names::NAMES;

pub const NAME: &str = "no_change_is_missed";

/// What a watcher saw when it began to watch.
#[derive(Clone, Debug)]
struct Seen {
    name: usize,
    data: Option<Vec<u8>>,
    owners: Option<Vec<ClaimLine>>,
}

#[derive(Clone, Debug, Default)]
pub struct Watched {
    seen: BTreeMap<(usize, u64), Seen>,
}

impl Watched {
    /// A watch was set by a describe that told this.
    pub fn set(&mut self, (wire, req): (usize, u64), name: usize, found: &Description, data: bool, owners: bool) {
        let seen = Seen { name, data: data.then(|| found.data.clone()), owners: owners.then(|| found.owners.clone()) };
        self.seen.insert((wire, req), seen);
    }

    pub fn fire(&mut self, wire: usize, req: u64) -> Result<(), Violation> {
        let unset = || Violation::new(NAME, format!("a change is told on {wire} for {req}, which watches nothing"));
        self.seen.remove(&(wire, req)).map(drop).ok_or_else(unset)
    }

    pub fn forget_wire(&mut self, wire: usize) {
        self.seen.retain(|(of, _), _| *of != wire);
    }

    /// Whoever still watches a node's streams has seen what the node holds.
    pub fn check(&self, coord: &Coord, node: NodeNumber, is_here: impl Fn(usize) -> bool) -> Result<(), Violation> {
        for ((wire, req), seen) in self.seen.iter().filter(|((wire, _), _)| is_here(*wire)) {
            let text = NAMES[seen.name].text;
            let now = coord.describe(node, text, true, false);
            let has_missed = now.as_ref().is_none_or(|now| {
                seen.data.as_ref().is_some_and(|data| *data != now.data)
                    || seen.owners.as_ref().is_some_and(|owners| *owners != now.owners)
            });
            if has_missed {
                let detail = format!("watch {req} on {wire} saw {seen:?} and was not told of {now:?}");
                return Err(Violation::new(NAME, detail));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_fires_twice_is_seen() {
        let mut watched = Watched::default();
        let found = Description {
            name: "door".to_owned(),
            data: Vec::new(),
            limit: 1,
            count: 0,
            ephemeral: false,
            owners: Vec::new(),
            waiters: Vec::new(),
        };
        watched.set((1, 2), 0, &found, true, false);

        assert_eq!(watched.fire(1, 2), Ok(()));
        assert!(watched.fire(1, 2).is_err());
    }

    #[test]
    fn a_semaphore_that_has_gone_without_a_word_is_seen() {
        let mut watched = Watched::default();
        let seen = Seen { name: 0, data: Some(Vec::new()), owners: None };
        watched.seen.insert((1, 2), seen);

        assert!(watched.check(&Coord::new(), NodeNumber(1), |_| true).is_err());
        assert_eq!(watched.check(&Coord::new(), NodeNumber(1), |_| false), Ok(()));
    }
}
