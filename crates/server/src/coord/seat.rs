//! One group's place in the owner: its replica, or why there is none.

use shardine_model::ShardId;
use shardine_shard::coord::{Actions, Options, Replica};
use shardine_store::{DataDir, LogStore};

use crate::restore;

pub(super) struct Seat {
    pub group: ShardId,
    /// Or why there is none.
    pub replica: Result<Replica, String>,
    pub actions: Actions,
}

impl Seat {
    /// Brings the group back from disk. One that cannot be read refuses everybody; the rest of the node goes on.
    pub fn restore(group: ShardId, log: &dyn LogStore, data: &DataDir) -> Self {
        let restored = restore::restore_coord(log, &data.snapshot_dir(), group, crate::node::REPLICA);
        let replica = restored.map_err(|error| format!("{error:#}")).map(|(coord, restored)| {
            let options = Options {
                incarnation: crate::clock::wall().0 & 0xffff_ffff,
                seed: rand::random(),
                ..Options::new(crate::node::REPLICA, group)
            };
            Replica::new(options, coord, restored)
        });
        if let Err(reason) = &replica {
            tracing::error!(%group, %reason, "a coordination group cannot be read; everything else goes on");
        }
        Self { group, replica, actions: Actions::default() }
    }

    pub fn act(&mut self, act: impl FnOnce(&mut Replica, &mut Actions)) {
        if let Ok(replica) = &mut self.replica {
            act(replica, &mut self.actions);
        }
    }

    pub fn is_cutting(&self) -> bool {
        self.replica.as_ref().is_ok_and(Replica::is_cutting)
    }

    pub fn next_due_ms(&self) -> Option<u64> {
        self.replica.as_ref().ok().and_then(Replica::next_due_ms)
    }
}
