//! What has come of comparing the replicas of this node's groups with the others', from wherever the groups live: said in the log
//! when it changes, counted for `/metrics`, and kept for `status`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardine_host::{GroupReplica, Host};
use shardine_model::ShardId;
use shardine_shard::Checks;

/// Ticks between two looks: a second.
const LOOK_TICKS: u64 = 20;

#[derive(Default)]
pub(crate) struct Differences {
    /// How often replicas are compared; nothing means never.
    every: Duration,
    groups: Mutex<BTreeMap<ShardId, Known>>,
    /// Of replicas that have left.
    left: Mutex<Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    checks: Checks,
    is_aside: bool,
    /// Its newest round has ended with replicas that differ, and nobody who could say which are right.
    is_undecided: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    agreed: u64,
    differed: u64,
    undecided: u64,
}

impl Differences {
    pub fn new(every: Duration) -> Self {
        Self { every, ..Self::default() }
    }

    /// A host whose replicas are compared.
    pub fn host<R: GroupReplica>(&self) -> Host<R> {
        Host::default().comparing_every(u64::try_from(self.every.as_millis()).unwrap_or(u64::MAX))
    }

    /// Looks at the groups of one owner, as often as it is time.
    pub fn look<R: GroupReplica>(&self, host: &Host<R>, ticks: u64) {
        if !ticks.is_multiple_of(LOOK_TICKS) {
            return;
        }
        let mut groups = lock(&self.groups);
        for replica in host.replicas() {
            let known = groups.entry(replica.shard()).or_default();
            known.note(replica.shard(), replica.checks(), replica.group().is_aside());
        }
    }

    /// A replica of this node is gone, and the next one counts from 0.
    pub fn forget(&self, shard: ShardId) {
        if let Some(Known { checks, .. }) = lock(&self.groups).remove(&shard) {
            lock(&self.left).add(checks);
        }
    }

    pub fn counters(&self) -> [(&'static str, u64); 3] {
        let mut counts = *lock(&self.left);
        lock(&self.groups).values().for_each(|known| counts.add(known.checks));
        [
            ("replicas_agreed", counts.agreed),
            ("replicas_differed", counts.differed),
            ("replicas_undecided", counts.undecided),
        ]
    }

    /// What somebody should know of, in sentences.
    pub fn trouble(&self) -> Vec<String> {
        let groups = lock(&self.groups);
        let of = |(shard, known): (&ShardId, &Known)| match known {
            Known { is_aside: true, .. } => {
                Some(format!("{}: this node's replica differs from the others and is being rebuilt", name(*shard)))
            }
            Known { is_undecided: true, .. } => {
                Some(format!("{}: its replicas differ, and no majority of them agrees", name(*shard)))
            }
            Known { .. } => None,
        };
        groups.iter().filter_map(of).collect()
    }
}

impl Known {
    fn note(&mut self, shard: ShardId, now: Checks, is_aside: bool) {
        let before = std::mem::replace(&mut self.checks, now);
        self.is_aside = is_aside;
        if now.agreed > before.agreed {
            self.is_undecided = false;
        }
        let index = now.differed_at;
        if now.differed > before.differed {
            tracing::error!(%shard, index, "this node's replica DIFFERS from a majority: it is set aside and rebuilt from another");
        }
        if now.rebuilt > before.rebuilt {
            tracing::warn!(%shard, "this node's replica was rebuilt from another");
        }
        if now.unsettled > before.unsettled {
            self.is_undecided = true;
            tracing::error!(%shard, "the replicas DIFFER, and no majority of them agrees: nothing is done about it");
        }
    }
}

impl Counts {
    fn add(&mut self, checks: Checks) {
        self.agreed += checks.agreed;
        self.differed += checks.differed;
        self.undecided += checks.unsettled;
    }
}

fn name(shard: ShardId) -> String {
    use shardine_model::GroupKind;
    match shard.kind() {
        GroupKind::Records => format!("shard {shard}"),
        GroupKind::Coordination => format!("coordination group {shard}"),
        GroupKind::Meta => "the group of the map".to_owned(),
    }
}

/// Whole at every moment that a panic could leave it in.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_trouble_until_it_is_rebuilt() {
        let differences = Differences::default();
        let note = |checks: Checks, is_aside: bool| {
            lock(&differences.groups).entry(ShardId(2)).or_default().note(ShardId(2), checks, is_aside);
        };

        note(Checks { differed: 1, ..Checks::default() }, true);
        assert_eq!(differences.trouble().len(), 1);

        note(Checks { differed: 1, rebuilt: 1, ..Checks::default() }, false);
        assert_eq!(differences.trouble(), Vec::<String>::new());
        differences.forget(ShardId(2));
        assert_eq!(differences.counters()[1], ("replicas_differed", 1), "also when it has left");
    }

    #[test]
    fn what_no_majority_decides_is_trouble_until_all_agree() {
        let mut known = Known::default();

        known.note(ShardId(2), Checks { unsettled: 1, ..Checks::default() }, false);
        assert!(known.is_undecided);

        known.note(ShardId(2), Checks { unsettled: 1, agreed: 1, ..Checks::default() }, false);
        assert!(!known.is_undecided);
    }
}
