//! Which node leads what, as this client has heard. What it hears is a hint: whoever is asked knows better, and says so.

use shardine_model::Position;
use shardine_proto::v1;

/// Invariant: shards stand in the order of their positions and do not overlap. There may be gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteMap {
    shards: Vec<v1::ShardRoute>,
}

impl RouteMap {
    /// The leader's gRPC door, if one is known.
    pub fn leader(&self, position: Position) -> Option<&str> {
        let behind = self.shards.partition_point(|shard| shard.lo <= position.0);
        let shard = &self.shards[behind.checked_sub(1)?];
        let is_inside = shard.hi.is_none_or(|hi| position.0 < hi);
        (is_inside && shard.leader.is_some()).then_some(shard.address.as_str())
    }

    /// Takes what is newer than all that it overlaps; says whether it was.
    pub fn learn(&mut self, route: v1::ShardRoute) -> bool {
        let age = |route: &v1::ShardRoute| (route.generation, route.range_version, route.term, route.leader.is_some());
        let rivals = |known: &v1::ShardRoute| overlap(known, &route);
        if self.shards.iter().any(|known| rivals(known) && age(known) >= age(&route)) {
            return false;
        }
        self.shards.retain(|known| !rivals(known));
        let at = self.shards.partition_point(|known| known.lo < route.lo);
        self.shards.insert(at, route);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }
}

fn overlap(one: &v1::ShardRoute, other: &v1::ShardRoute) -> bool {
    let begins_before_end = |one: &v1::ShardRoute, other: &v1::ShardRoute| other.hi.is_none_or(|hi| one.lo < hi);
    begins_before_end(one, other) && begins_before_end(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(lo: u64, hi: Option<u64>, range_version: u64, term: u64, leader: u64) -> v1::ShardRoute {
        let (leader, address) = (Some(leader), format!("n{leader}"));
        v1::ShardRoute { lo, hi, range_version, term, leader, address, ..v1::ShardRoute::default() }
    }

    fn halves() -> RouteMap {
        let mut map = RouteMap::default();
        map.learn(route(0, Some(100), 1, 3, 1));
        map.learn(route(100, None, 1, 3, 2));
        map
    }

    /// sharding C-13
    #[test]
    fn a_key_has_one_leader() {
        let map = halves();

        assert_eq!(map.leader(Position(0)), Some("n1"));
        assert_eq!(map.leader(Position(99)), Some("n1"));
        assert_eq!(map.leader(Position(100)), Some("n2"));
        assert_eq!(map.leader(Position(u64::MAX)), Some("n2"));
        assert_eq!(RouteMap::default().leader(Position(0)), None);
    }

    #[test]
    fn an_old_hint_is_not_followed() {
        let mut map = halves();

        assert!(!map.learn(route(0, Some(100), 1, 2, 3)), "of an earlier term");
        assert!(!map.learn(route(0, Some(100), 1, 3, 3)), "there is one leader in a term");
        assert_eq!(map.leader(Position(0)), Some("n1"));
        assert!(map.learn(route(0, Some(100), 1, 4, 3)));
        assert_eq!(map.leader(Position(0)), Some("n3"));
    }

    #[test]
    fn a_shard_that_was_cut_replaces_what_it_was() {
        let mut map = halves();

        assert!(map.learn(route(50, Some(100), 2, 1, 3)));

        assert_eq!(map.leader(Position(0)), None, "nobody has said yet who has the rest");
        assert_eq!(map.leader(Position(60)), Some("n3"));
        assert!(!map.learn(route(0, Some(100), 1, 9, 1)), "whoever knows only the whole one knows less");
        assert!(map.learn(route(0, Some(50), 2, 3, 1)));
        assert_eq!(map.leader(Position(0)), Some("n1"));
    }

    #[test]
    fn a_shard_without_a_leader_is_asked_for_nowhere_in_particular() {
        let mut map = halves();

        assert!(map.learn(v1::ShardRoute { leader: None, ..route(0, Some(100), 1, 5, 0) }));
        assert_eq!(map.leader(Position(0)), None);
        assert!(map.learn(route(0, Some(100), 1, 5, 2)));
        assert_eq!(map.leader(Position(0)), Some("n2"));
    }
}
