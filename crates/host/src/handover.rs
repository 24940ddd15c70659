//! Handing over everything that is led here, because the process is to end or its disk has stalled: all groups at once, each
//! tried again with another heir if the first one does not take it, until nothing is led here or time is up.

use std::collections::BTreeMap;

use shardine_model::{ReplicaId, ShardId};
use shardine_shard::{Role, TransferRefused};

use crate::host::Host;
use crate::replica::GroupReplica;
use crate::seat::SeatId;

/// A disk that has not come back from a write for this long has stalled.
const STALLED_AFTER_MS: u64 = 1_000;

/// How far the hand-over of everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandOverStatus {
    /// Groups that are still led here and may yet be handed over.
    pub open: usize,
    /// Those that nobody can take, or nobody has taken in time.
    pub given_up: Vec<ShardId>,
}

impl HandOverStatus {
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.open == 0
    }
}

/// A hand-over of everything that has begun.
#[derive(Debug)]
pub(crate) struct HandOver {
    until_ms: u64,
    /// How often each group was tried.
    tries: BTreeMap<SeatId, usize>,
    /// Groups without heirs.
    alone: Vec<SeatId>,
}

impl<R: GroupReplica> Host<R> {
    /// Begins to hand over everything that is led here, or goes on with it. What comes to be led meanwhile is handed over too.
    /// [`Host::hand_over_status`] says how far it is; requests are answered as ever.
    pub fn hand_over(&mut self, until_ms: u64) {
        let begun = || HandOver { until_ms, tries: BTreeMap::new(), alone: Vec::new() };
        self.handover.get_or_insert_with(begun).until_ms = until_ms;
        self.advance_hand_over();
    }

    /// Looks, at every tick, whether a hand-over is over, and whether the disk has stalled: says so if one had better begin.
    pub fn watch_lead(&mut self) -> bool {
        match self.hand_over_status() {
            None => self.is_stalled() && self.leads_any(),
            Some(status) => {
                if status.is_over() {
                    self.end_hand_over();
                }
                false
            }
        }
    }

    /// Whether a group is led here that others could lead.
    fn leads_any(&self) -> bool {
        self.replicas().any(|replica| replica.role() == Role::Leader && replica.voters().len() > 1)
    }

    /// Goes on as if nothing had been tried; what has been handed over is not asked back.
    pub fn end_hand_over(&mut self) {
        self.handover = None;
    }

    /// `None` if nothing is to be handed over.
    #[must_use]
    pub fn hand_over_status(&self) -> Option<HandOverStatus> {
        let handover = self.handover.as_ref()?;
        let is_late = self.time().monotonic_ms >= handover.until_ms;
        let mut status = HandOverStatus::default();
        for id in self.led() {
            match self.seat(id) {
                Some(seat) if is_late || handover.alone.contains(&id) => status.given_up.push(seat.shard),
                _ => status.open += 1,
            }
        }
        Some(status)
    }

    /// Whether the disk has stood still for so long that others had better lead.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.writing_since_ms().is_some_and(|since_ms| self.time().monotonic_ms >= since_ms + STALLED_AFTER_MS)
    }

    fn led(&self) -> Vec<SeatId> {
        let leads = |id: &SeatId| self.replica(*id).is_some_and(|replica| replica.role() == Role::Leader);
        self.seat_ids().filter(leads).collect()
    }

    /// Tries whatever is led here and is not on its way.
    pub(crate) fn advance_hand_over(&mut self) {
        let Some(mut handover) = self.handover.take() else { return };
        if self.time().monotonic_ms < handover.until_ms {
            for id in self.led() {
                self.hand_over_one(id, &mut handover);
            }
        }
        self.handover = Some(handover);
    }

    fn hand_over_one(&mut self, id: SeatId, handover: &mut HandOver) {
        let Some(replica) = self.replica(id).filter(|replica| !replica.is_handing_over()) else { return };
        let heirs: Vec<ReplicaId> = replica.heirs();
        let tries = handover.tries.entry(id).or_default();
        let heir = if heirs.is_empty() { None } else { Some(heirs[*tries % heirs.len()]) };
        let asked = self.act(id, |replica, actions| replica.hand_over(heir, actions));
        match asked {
            Some(Ok(_)) => *tries += 1,
            // Elected a moment ago: it does not know yet what it leads.
            Some(Err(TransferRefused::NotLeader)) | None => {}
            Some(Err(TransferRefused::NoHeir(_))) if heirs.is_empty() => {
                if !handover.alone.contains(&id) {
                    handover.alone.push(id);
                }
            }
            Some(Err(TransferRefused::NoHeir(_))) => *tries += 1,
        }
    }
}
