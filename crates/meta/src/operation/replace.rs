//! A change of a group's members, in the order that loses nothing: new ones learn first, then one joint change makes them voters
//! and lets the others go.
//!
//! ```text
//! Adding -> CatchingUp -> Joint -> over
//!    \___________\-> Undoing -> over
//! ```
//!
//! The group's leader does the work and reports; that a step is over is decided by what it reports of its log, so a report
//! that is repeated, late or lost changes nothing.

use std::collections::BTreeSet;

use shardine_model::codec::{DecodeError, Reader, put_varint};
use shardine_model::log::Membership;
use shardine_model::{Descriptor, NodeId, Placement, ReplicaId, ShardId};

use crate::codec::{list, placement, put_list, put_placement, put_replicas, replicas, unknown};

/// Where it stands. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// New replicas become learners.
    Adding,
    /// They are given what the group has. Voters-to-be that were learners before are waited for, too.
    CatchingUp,
    /// Decided: the members become what they are to be. There is no way back from here.
    Joint,
    /// Given up: the new replicas go again.
    Undoing,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Adding, Self::CatchingUp, Self::Joint, Self::Undoing];

    /// For whoever watches.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Adding => "it begins to learn",
            Self::CatchingUp => "it is being copied",
            Self::Joint => "it is copied, the votes change",
            Self::Undoing => "it is being taken back",
        }
    }

    fn tag(self) -> u8 {
        match self {
            Self::Adding => 1,
            Self::CatchingUp => 2,
            Self::Joint => 3,
            Self::Undoing => 4,
        }
    }

    fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|stage| stage.tag() == tag).ok_or(unknown("stage", u64::from(tag)))
    }
}

/// The operation. Invariant: every replica of the target is one of the group's or a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    pub shard: ShardId,
    pub stage: Stage,
    /// Replicas that the group did not have. Their nodes make room for them as soon as they hear of it.
    pub new: Vec<Placement>,
    /// Who is still to catch up.
    pub behind: Vec<ReplicaId>,
    /// The members when it is over.
    pub voters: Vec<Placement>,
    pub learners: Vec<Placement>,
}

/// What the leader of the group has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Propose it as a learner.
    Learn(ReplicaId),
    /// Report ([`crate::Command::CaughtUp`]) each of them that is as good as up to date.
    WatchProgress(Vec<ReplicaId>),
    /// Propose one joint change.
    Joint { vote: Vec<ReplicaId>, learn: Vec<ReplicaId>, remove: Vec<ReplicaId> },
    /// Propose its removal.
    Remove(ReplicaId),
    /// Wait for a change that is under way in the group to end.
    Wait,
    /// Tell meta what the members are ([`crate::Command::ConfChanged`]): it does not know yet.
    Report,
}

impl Replace {
    /// From a group as it is to voters and learners on these nodes. Those that have a replica keep it; `next` gives numbers to
    /// the others.
    pub(crate) fn new(
        group: &Descriptor,
        voters: &[NodeId],
        learners: &[NodeId],
        mut next: impl FnMut() -> ReplicaId,
    ) -> Self {
        let known = |node: NodeId| members(group).find(|placement| placement.node == node).copied();
        let mut new = Vec::new();
        let mut place = |nodes: &[NodeId]| -> Vec<Placement> {
            let mut placements: Vec<Placement> = Vec::new();
            for &node in nodes {
                let placement = known(node).unwrap_or_else(|| {
                    let placement = Placement { node, replica: next() };
                    new.push(placement);
                    placement
                });
                placements.push(placement);
            }
            sorted(placements)
        };
        let (voters, learners) = (place(voters), place(learners));
        let is_voter = |replica: ReplicaId| group.voters.iter().any(|voter| voter.replica == replica);
        let voters_to_be = voters.iter().map(|voter| voter.replica).filter(|replica| !is_voter(*replica));
        let behind: BTreeSet<ReplicaId> = voters_to_be.chain(new.iter().map(|placement| placement.replica)).collect();
        let stage = match (new.is_empty(), behind.is_empty()) {
            (false, _) => Stage::Adding,
            (true, false) => Stage::CatchingUp,
            (true, true) => Stage::Joint,
        };
        Self { shard: group.shard, stage, new, behind: behind.into_iter().collect(), voters, learners }
    }

    /// Whether nothing is decided yet, so that it can be given up.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Adding | Stage::CatchingUp)
    }

    /// Where a new replica is to be.
    #[must_use]
    pub fn node_of(&self, replica: ReplicaId) -> Option<NodeId> {
        self.new.iter().find(|placement| placement.replica == replica).map(|placement| placement.node)
    }

    /// Whether these are the members that it is after.
    pub(crate) fn is_reached(&self, group: &Descriptor) -> bool {
        sorted(group.voters.clone()) == self.voters && sorted(group.learners.clone()) == self.learners
    }

    /// Takes note of the group's members, as its log has settled them. True once there is nothing more to do.
    pub(crate) fn note_members(&mut self, group: &Descriptor) -> bool {
        let is_member = |placement: &Placement| members(group).any(|member| member == placement);
        match self.stage {
            Stage::Adding if self.new.iter().all(is_member) => {
                self.stage = Stage::CatchingUp;
                self.leave_catching_up(group)
            }
            Stage::Joint => self.is_reached(group),
            Stage::Undoing => !self.new.iter().any(is_member),
            Stage::Adding | Stage::CatchingUp => false,
        }
    }

    /// A replica has caught up. True once there is nothing more to do.
    pub(crate) fn note_caught_up(&mut self, replica: ReplicaId, group: &Descriptor) -> bool {
        self.behind.retain(|behind| *behind != replica);
        self.leave_catching_up(group)
    }

    fn leave_catching_up(&mut self, group: &Descriptor) -> bool {
        if self.stage != Stage::CatchingUp || !self.behind.is_empty() {
            return false;
        }
        self.stage = Stage::Joint;
        self.is_reached(group)
    }

    /// What the leader has to do, given the members as its log has them; `known` is what the map says of them.
    #[must_use]
    pub fn todo(&self, membership: &Membership, known: &Descriptor) -> Todo {
        if membership.is_joint() {
            return Todo::Wait;
        }
        let is_member = |replica: &ReplicaId| membership.contains(*replica);
        let mut new = self.new.iter().map(|placement| placement.replica);
        let next = match self.stage {
            Stage::Adding => new.find(|replica| !is_member(replica)).map(Todo::Learn),
            Stage::CatchingUp => Some(Todo::WatchProgress(self.behind.clone())),
            Stage::Joint => self.joint(membership),
            // Meta waits for the word that nobody is left, also where nobody had come.
            Stage::Undoing => Some(new.find(is_member).map_or(Todo::Report, Todo::Remove)),
        };
        let is_reported = same(&known.voters, &membership.voters) && same(&known.learners, &membership.learners);
        next.unwrap_or(if is_reported { Todo::Wait } else { Todo::Report })
    }

    /// The one change that leads from these members to the target; nothing if they are it.
    fn joint(&self, membership: &Membership) -> Option<Todo> {
        let target = |list: &[Placement], replica: ReplicaId| list.iter().any(|one| one.replica == replica);
        let lacking = |list: &[Placement], present: &[ReplicaId]| -> Vec<ReplicaId> {
            list.iter().map(|one| one.replica).filter(|replica| !present.contains(replica)).collect()
        };
        let vote = lacking(&self.voters, &membership.voters);
        let learn = lacking(&self.learners, &membership.learners);
        let stays = |replica: &ReplicaId| target(&self.voters, *replica) || target(&self.learners, *replica);
        let remove: Vec<ReplicaId> = membership.members().filter(|replica| !stays(replica)).collect();
        let is_needed = !(vote.is_empty() && learn.is_empty() && remove.is_empty());
        is_needed.then_some(Todo::Joint { vote, learn, remove })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.shard.0));
        out.push(self.stage.tag());
        put_list(out, &self.new, put_placement);
        put_replicas(out, &self.behind);
        put_list(out, &self.voters, put_placement);
        put_list(out, &self.learners, put_placement);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            shard: ShardId(reader.varint_u32("shard")?),
            stage: Stage::from_tag(reader.u8("stage")?)?,
            new: list(reader, "placements", placement)?,
            behind: replicas(reader)?,
            voters: list(reader, "placements", placement)?,
            learners: list(reader, "placements", placement)?,
        })
    }
}

fn members(group: &Descriptor) -> impl Iterator<Item = &Placement> {
    group.voters.iter().chain(&group.learners)
}

fn sorted(mut placements: Vec<Placement>) -> Vec<Placement> {
    placements.sort_unstable_by_key(|placement| placement.replica);
    placements
}

fn same(known: &[Placement], present: &[ReplicaId]) -> bool {
    known.len() == present.len() && known.iter().all(|placement| present.contains(&placement.replica))
}
