//! What the nodes have told each other: who leads which group, where the highest term wins, which version of the map each has, and
//! who is silent. None of it is in the map: it changes without anybody's leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_transport::{Change, Lead, LeaderNews};

use crate::failover::Owner;

#[derive(Debug, Default)]
pub(crate) struct Board {
    told: Mutex<Told>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Told {
    leads: BTreeMap<ShardId, LeaderNews>,
    /// Which version of the map each node has.
    versions: BTreeMap<NodeId, u64>,
    /// Since when.
    silent: BTreeMap<NodeId, Instant>,
    ranking: Ranking,
}

/// What this node leads and who may follow it there. Invariant: the number grows with every change.
#[derive(Debug, Default)]
struct Ranking {
    number: u64,
    leads: BTreeMap<Owner, Vec<Lead>>,
}

impl Told {
    fn leader(&self, shard: ShardId) -> Option<NodeId> {
        let node = self.leads.get(&shard)?.node;
        (!self.silent.contains_key(&node)).then_some(node)
    }
}

impl Board {
    /// Takes news of a leader, if they are news; says whether they are.
    pub fn post(&self, news: LeaderNews) -> bool {
        let mut told = self.lock();
        let is_newer = told.leads.get(&news.shard).is_none_or(|known| known.term < news.term);
        if is_newer {
            told.leads.insert(news.shard, news);
            self.changed.notify_all();
        }
        is_newer
    }

    /// Who leads a group, if that node is not silent.
    pub fn leader(&self, shard: ShardId) -> Option<NodeId> {
        self.lock().leader(shard)
    }

    /// What this node itself has to tell: the groups that it leads.
    pub fn own_news(&self, node: NodeId) -> Vec<LeaderNews> {
        self.lock().leads.values().filter(|news| news.node == node).copied().collect()
    }

    /// Who leads, as far as is known.
    pub fn leads(&self) -> Vec<LeaderNews> {
        self.lock().leads.values().copied().collect()
    }

    /// What one owner of this node leads, and who may follow there.
    pub fn rank(&self, owner: Owner, leads: Vec<Lead>) {
        let ranking = &mut self.lock().ranking;
        if ranking.leads.get(&owner) != Some(&leads) {
            ranking.leads.insert(owner, leads);
            ranking.number += 1;
        }
    }

    /// The number of the list of everything that this node leads, and the list if that is another one than the one that is known.
    pub fn ranking(&self, known: impl FnOnce(u64) -> bool) -> (u64, Option<Vec<Lead>>) {
        let ranking = &self.lock().ranking;
        let list = || ranking.leads.values().flatten().copied().collect();
        (ranking.number, (!known(ranking.number)).then(list))
    }

    pub fn note_version(&self, node: NodeId, version: u64) {
        self.lock().versions.insert(node, version);
        self.changed.notify_all();
    }

    pub fn note(&self, change: Change) {
        let mut told = self.lock();
        match change {
            Change::Suspected(node) => {
                told.silent.entry(node).or_insert_with(Instant::now);
            }
            Change::Cleared(node) => {
                told.silent.remove(&node);
            }
        }
        drop(told);
        self.changed.notify_all();
    }

    /// For how long a node has been silent, if it is.
    pub fn silent_for(&self, node: NodeId) -> Option<Duration> {
        self.lock().silent.get(&node).map(Instant::elapsed)
    }

    /// Nodes that are silent.
    pub fn silent(&self) -> BTreeSet<NodeId> {
        self.lock().silent.keys().copied().collect()
    }

    /// Waits until somebody leads a group.
    pub fn await_any_leader(&self, shard: ShardId, within: Duration) -> Option<NodeId> {
        self.wait(within, |told| told.leader(shard))
    }

    /// Waits until a node leads a group.
    pub fn await_leader(&self, shard: ShardId, node: NodeId, within: Duration) -> bool {
        self.wait(within, |told| told.leads.get(&shard).is_some_and(|news| news.node == node).then_some(())).is_some()
    }

    /// Waits until all of these nodes have a version of the map. One that is silent is not waited for: it learns before it serves.
    pub fn await_version(&self, nodes: &[NodeId], version: u64, within: Duration) -> bool {
        let has_it = |told: &Told, node: &NodeId| told.versions.get(node).is_some_and(|known| *known >= version);
        let is_told = |told: &Told| nodes.iter().all(|node| has_it(told, node) || told.silent.contains_key(node));
        self.wait(within, |told| is_told(told).then_some(())).is_some()
    }

    /// Waits for what comes with a new version of the map.
    pub fn wait_until<T>(&self, within: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
        self.wait(within, |_| look())
    }

    /// Looks at once, and again after everything that is told.
    fn wait<T>(&self, within: Duration, look: impl Fn(&Told) -> Option<T>) -> Option<T> {
        let until = Instant::now() + within;
        let mut told = self.lock();
        loop {
            if let Some(found) = look(&told) {
                return Some(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            told = self.changed.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// News in this node's own words.
pub(crate) fn news(shard: ShardId, term: u64, leader: ReplicaId, node: NodeId) -> LeaderNews {
    LeaderNews { shard, term, leader, node }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_term_wins() {
        let board = Board::default();
        let lead = |term, node| news(ShardId(1), term, ReplicaId(node), NodeId(node));

        assert!(board.post(lead(3, 2)));
        assert!(!board.post(lead(2, 1)));
        assert!(board.post(lead(4, 1)));
        assert_eq!(board.own_news(NodeId(1)), [lead(4, 1)]);
        assert!(board.own_news(NodeId(2)).is_empty());
    }

    #[test]
    fn a_list_of_leads_is_told_until_it_is_known_and_again_when_it_changes() {
        let board = Board::default();
        let lead = |heirs: &[ReplicaId]| Lead {
            shard: ShardId(1),
            term: 3,
            leader: ReplicaId(1),
            committed: 0,
            age_ms: None,
            is_asleep: false,
            heirs: shardine_transport::Heirs::of(heirs),
        };
        let told = |known: u64| board.ranking(|number| number == known);
        board.rank(Owner::Lane(0), vec![lead(&[ReplicaId(2), ReplicaId(3)])]);
        let (number, list) = told(0);
        assert_eq!(list.map(|list| list.len()), Some(1));

        board.rank(Owner::Lane(0), vec![lead(&[ReplicaId(2), ReplicaId(3)])]);
        assert_eq!(told(number), (number, None), "nothing has changed");
        board.rank(Owner::Lane(1), vec![lead(&[ReplicaId(3), ReplicaId(2)])]);

        let (newer, list) = told(number);
        assert!(newer > number);
        assert_eq!(list.map(|list| list.len()), Some(2), "of all owners");
    }

    #[test]
    fn silent_nodes_are_not_waited_for() {
        let board = Board::default();
        let nodes = [NodeId(2), NodeId(3)];
        board.note_version(NodeId(2), 5);

        assert!(!board.await_version(&nodes, 5, Duration::ZERO));
        board.note(Change::Suspected(NodeId(3)));
        assert!(board.await_version(&nodes, 5, Duration::ZERO));
        board.note(Change::Cleared(NodeId(3)));
        assert!(!board.await_version(&nodes, 5, Duration::ZERO));
    }
}
