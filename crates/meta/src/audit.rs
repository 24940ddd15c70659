//! Whether shards part the space: every position belongs to one of them, by the map and by what their leaders say that they hold.

use shardine_model::{GroupKind, Position, ShardId};

use crate::map::Map;

/// What a shard's leader says that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub shard: ShardId,
    pub lo: Position,
    /// Up to the end without it.
    pub hi: Option<Position>,
}

/// What contradicts that, in sentences. Nothing can be said while a shard is being split, or somebody has not spoken.
#[must_use]
pub fn audit(map: &Map, held: &[Held]) -> Option<Vec<String>> {
    let shards: Vec<ShardId> = map.groups.keys().copied().filter(|shard| shard.kind() == GroupKind::Records).collect();
    let is_told = |shard: &ShardId| held.iter().any(|one| one.shard == *shard);
    if !map.is_formed() || !map.operations.is_empty() || !shards.iter().all(is_told) {
        return None;
    }
    let mut found: Vec<String> = map.check().err().map(|error| format!("the map: {error}")).into_iter().collect();
    let mut held: Vec<Held> = held.iter().copied().filter(|one| shards.contains(&one.shard)).collect();
    held.sort_by_key(|one| (one.lo, one.shard));
    let mut end = Some(Position(0));
    for one in held {
        let (shard, lo) = (one.shard, one.lo.0);
        match end {
            Some(end) if end == one.lo => {}
            Some(end) if end < one.lo => {
                found.push(format!("nobody holds {:#x} to {lo:#x}, below shard {shard}", end.0))
            }
            Some(_) | None => found.push(format!("shard {shard} holds {lo:#x}, and so does another one")),
        }
        end = match (end, one.hi) {
            (Some(end), Some(hi)) => Some(end.max(hi)),
            (None, _) | (_, None) => None,
        };
    }
    found.extend(end.map(|end| format!("nobody holds {:#x} to the end", end.0)));
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shardine_model::key::Interval;
    use shardine_model::{Bounds, Descriptor, Epoch};

    use super::*;

    fn map() -> Map {
        let mut cuts = Interval::cut_evenly(3).into_iter().map(Bounds::from);
        let mut group = |number: u32| {
            let (shard, bounds) = (ShardId(number), cuts.next().unwrap());
            let (epoch, state) = (Epoch::default(), Default::default());
            (shard, Descriptor { shard, epoch, state, bounds, voters: Vec::new(), learners: Vec::new() })
        };
        let groups: BTreeMap<_, _> = (1..=3).map(&mut group).collect();
        Map { cluster: 7, version: 1, groups, ..Map::default() }
    }

    fn held(cuts: &[(u64, u64)]) -> Vec<Held> {
        let one = |(number, (lo, hi)): (u32, &(u64, u64))| Held {
            shard: ShardId(number),
            lo: Position(*lo),
            hi: Some(Position(*hi)).filter(|hi| hi.0 != 0),
        };
        (1..).zip(cuts).map(one).collect()
    }

    fn found(cuts: &[(u64, u64)]) -> Vec<String> {
        // What the map says of itself is another matter here.
        let found = audit(&map(), &held(cuts)).unwrap();
        found.into_iter().filter(|sentence| !sentence.starts_with("the map: ")).collect()
    }

    #[test]
    fn shards_that_part_the_space_are_right_in_any_order() {
        assert_eq!(found(&[(0, 16), (16, 32), (32, 0)]), Vec::<String>::new());
        assert_eq!(found(&[(32, 0), (0, 16), (16, 32)]), Vec::<String>::new());
    }

    #[test]
    fn holes_and_overlaps_are_named() {
        assert_eq!(found(&[(0, 16), (17, 32), (32, 0)]), ["nobody holds 0x10 to 0x11, below shard 2"]);
        assert_eq!(found(&[(0, 17), (16, 32), (32, 0)]), ["shard 2 holds 0x10, and so does another one"]);
        assert_eq!(found(&[(0, 0), (16, 32), (32, 0)]).len(), 2, "two are in the first");
        assert_eq!(found(&[(1, 16), (16, 32), (32, 0)]), ["nobody holds 0x0 to 0x1, below shard 1"]);
        assert_eq!(found(&[(0, 16), (16, 32), (32, 64)]), ["nobody holds 0x40 to the end"]);
    }

    #[test]
    fn nothing_is_said_before_everybody_has_spoken() {
        assert_eq!(audit(&map(), &held(&[(0, 16), (16, 32)])), None);
        assert_eq!(audit(&Map::default(), &[]), None);
    }
}
