//! Which shards there are, as this node knows it, and which of its lanes has the positions of each. A shard that is parted off stays on
//! the lane of the whole, so the lane of a position is the same as long as the process lives.

use std::sync::{Arc, PoisonError, RwLock};

use shardine_model::{Descriptor, NodeId, Position, ShardId};
use shardine_router::{ClusterMap, Routes, ShardMap, ShardPlace};

#[derive(Debug)]
pub(crate) struct Places {
    /// As the node began.
    lanes: ShardMap,
    now: RwLock<Now>,
}

#[derive(Debug)]
struct Now {
    /// What the map says, and what shards of this node say that are ahead of it. Absent on a node that is alone.
    routes: Option<Routes>,
    map: Arc<ShardMap>,
}

impl Places {
    pub fn new(lanes: ShardMap, node: NodeId, cluster: Option<Arc<ClusterMap>>) -> Self {
        let routes = cluster.map(|cluster| Routes::new(node, cluster));
        let map = Arc::new(lanes.clone());
        Self { lanes, now: RwLock::new(Now { routes, map }) }
    }

    #[inline]
    pub fn lane_of(&self, position: Position) -> usize {
        self.lanes.find(position).lane
    }

    pub fn now(&self) -> Arc<ShardMap> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner).map)
    }

    pub fn of_shard(&self, shard: ShardId) -> Option<ShardPlace> {
        self.now().places().iter().find(|place| place.shard == shard).copied()
    }

    /// There is a new map.
    pub fn adopt(&self, map: &Arc<ClusterMap>) {
        self.change(|routes| routes.adopt(Arc::clone(map)));
    }

    /// Shards of this node have been parted, which the map does not say yet.
    pub fn learn(&self, descriptors: Vec<Descriptor>) {
        self.change(|routes| routes.learn(descriptors));
    }

    fn change(&self, change: impl FnOnce(&mut Routes) -> bool) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let Some(routes) = &mut now.routes else { return };
        if !change(routes) {
            return;
        }
        let places = routes.places().iter().map(|way| {
            let interval = way.bounds.positions();
            ShardPlace { shard: way.shard, interval, range: way.epoch.range, lane: self.lane_of(interval.lo) }
        });
        // While one half is known and the other is not, the whole stays in their place.
        if let Some(map) = ShardMap::covering(places.collect()) {
            now.map = Arc::new(map);
        }
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::{Bound, Bounds, Epoch, RangeVersion};

    use super::*;

    fn shard(number: u32, range: u64, bounds: Bounds) -> Descriptor {
        let epoch = Epoch { range: RangeVersion(range), ..Epoch::default() };
        Descriptor {
            shard: ShardId(number),
            epoch,
            state: Default::default(),
            bounds,
            voters: Vec::new(),
            learners: Vec::new(),
        }
    }

    #[test]
    fn a_shard_that_is_parted_off_stays_on_the_lane_of_the_whole() {
        let (middle, quarter) = (Bound::at(Position(1 << 63)), Bound::at(Position(1 << 62)));
        let low = Bounds { lo: Bound::default(), hi: Some(middle.clone()) };
        let groups = vec![shard(1, 1, low.clone()), shard(2, 1, Bounds { lo: middle.clone(), hi: None })];
        let map = ClusterMap { cluster: 1, version: 1, nodes: Vec::new(), groups, sql: String::new() };
        let place = |group: &Descriptor| ShardPlace {
            shard: group.shard,
            interval: group.bounds.positions(),
            range: group.epoch.range,
            lane: group.shard.0 as usize - 1,
        };
        let lanes = ShardMap::new(map.groups.iter().map(place).collect());
        let places = Places::new(lanes, NodeId(1), Some(Arc::new(map)));

        let right = shard(3, 2, Bounds { lo: quarter.clone(), hi: Some(middle) });
        places.learn(vec![right.clone()]);
        assert_eq!(places.now().places().len(), 2, "of the other half nothing is known yet");
        places.learn(vec![right, shard(1, 2, Bounds { lo: Bound::default(), hi: Some(quarter) })]);

        let found: Vec<(u32, usize)> = places.now().places().iter().map(|place| (place.shard.0, place.lane)).collect();
        assert_eq!(found, [(1, 0), (3, 0), (2, 1)]);
        assert_eq!(places.lane_of(Position(1 << 62)), 0);
        assert_eq!(places.of_shard(ShardId(3)).unwrap().range, RangeVersion(2));
    }
}
