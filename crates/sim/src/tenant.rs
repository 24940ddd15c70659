//! Who lives in a world: a kind of replica, with the clients, the surroundings and the promises that belong to it. Nodes,
//! links, disks, clocks and those who strike at them are the same for all.

use std::fmt::Debug;

use shardine_host::{GroupReplica, Parted};
use shardine_model::log::LogEntry;
use shardine_model::{Bounds, NodeId, ReplicaId, ShardId, Timestamp};
use shardine_shard::{Newborn, Restored};

use crate::chance::Chance;
use crate::check::Violation;
use crate::event::{Event, Input};
use crate::ground::Ground;
use crate::links::{Heard, LinkId};
use crate::theme::Theme;
use crate::world::World;

/// A replica that can be compared with others.
pub trait Member: GroupReplica {
    /// Equal for two replicas that hold the same.
    fn state_hash(&self) -> u64;

    /// The newest time that it has on its disk.
    fn stamp(&self) -> Timestamp;
}

/// Streams of chance for what a tenant brings along.
pub struct Draws {
    pub place: Chance,
    pub surroundings: Chance,
    pub people: Chance,
}

pub type ActionsOf<T> = <<T as Tenant>::Replica as GroupReplica>::Actions;
pub type InputOf<T> = Input<<T as Tenant>::Input>;
pub type EventOf<T> = Event<<T as Tenant>::Input, <T as Tenant>::Event>;

pub trait Tenant: Sized {
    /// As `--world` names it.
    const NAME: &'static str;
    const MUTANTS: &'static [Self::Mutant];

    type Replica: Member;
    type Plan: Debug;
    /// A planted bug.
    type Mutant: Copy + Debug + 'static;
    /// What reaches a node of this tenant only.
    type Input: Debug;
    /// What happens to this tenant only.
    type Event: Debug;
    /// What may go wrong for this tenant only.
    type Fault: Own;

    /// Whether the members of its groups change in some runs.
    const MEMBERS_CHANGE: bool;

    /// The number of a group.
    fn shard(group: usize) -> ShardId;
    /// What belongs to a group, as the map has it; nothing of a tenant whose members do not change.
    fn bounds(&self, group: usize) -> Bounds;

    fn plan(seed: u64, mutant: Option<Self::Mutant>, theme: Option<Theme>) -> (Ground<Self::Fault>, Self::Plan);
    fn new(ground: &Ground<Self::Fault>, plan: Self::Plan, draws: Draws) -> Self;

    /// Makes a replica from what a disk held.
    fn restore(
        world: &World<Self>,
        seat: Seat,
        chunks: &[Vec<u8>],
        restored: Restored,
    ) -> Result<(Self::Replica, Vec<Newborn>), String>;
    fn started(world: &mut World<Self>, node: usize);
    /// Another replica of the group has come to the node, or none is there any more.
    fn reseated(world: &mut World<Self>, node: usize, group: usize);
    fn crashed(world: &mut World<Self>, node: usize);

    fn happen(world: &mut World<Self>, event: Self::Event);
    fn take_in(world: &mut World<Self>, node: usize, input: Self::Input);
    /// Inputs of one source may be taken in order, and before or after all others, by a process that was paused.
    fn source_of(input: &Self::Input) -> u64;
    /// What is not every replica's [`shardine_host::Work`].
    fn perform(world: &mut World<Self>, node: usize, group: usize, actions: &mut ActionsOf<Self>);

    /// An entry is applied for the first time anywhere.
    fn entry_applied(world: &mut World<Self>, group: usize, entry: &LogEntry) -> Result<(), Violation>;
    /// A replica has taken a turn, in which it may have applied something.
    fn look(world: &mut World<Self>, node: usize, group: usize, has_applied: bool) -> Result<(), Violation>;

    /// A replica of the node has applied a split. Only records are split.
    fn parted(_world: &mut World<Self>, _node: usize, _parted: &Parted) {}

    /// Time has passed on a node.
    fn ticked(_world: &mut World<Self>, _node: usize) {}
    /// Does some of what the lane has to do before its turn ends. Says whether there was anything.
    fn settle_lane(_world: &mut World<Self>, _node: usize, _lane: usize) -> bool {
        false
    }
    /// Another node is taken for dead, or no longer.
    fn life_changed(_world: &mut World<Self>, _node: usize, _of: NodeId, _is_suspected: bool) {}
    fn map_changed(_world: &mut World<Self>, _node: usize) {}
    /// A link that the node has dialled is open; one, dialled or not, is gone; something came on one that is not of Raft.
    fn link_up(_world: &mut World<Self>, _node: usize, _peer: NodeId) {}
    fn link_lost(_world: &mut World<Self>, _node: usize, _link: LinkId, _asked: Option<NodeId>) {}
    fn hear(_world: &mut World<Self>, _node: usize, _link: LinkId, _heard: Heard) {}

    fn strike(world: &mut World<Self>, fault: Self::Fault, victim: usize);
    fn heal(world: &mut World<Self>);

    /// The phases of a run that are its own (`run.rs`).
    fn bootstrap(world: &mut World<Self>);
    fn begin_work(world: &mut World<Self>);
    /// Called again and again while everything comes to rest.
    fn settle_some(world: &mut World<Self>);
    /// What is still missing until everything is at rest, if anything.
    fn missing(world: &World<Self>) -> Option<String>;
    /// Begins what clients do when everything is at rest for the first time.
    fn last_words(world: &mut World<Self>);
    fn compare(world: &mut World<Self>) -> Result<(), Violation>;
    /// What can be said only when everything is over.
    fn judge(world: &World<Self>) -> Result<(), Violation>;

    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// Where a replica lives.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    pub node: usize,
    pub group: usize,
    pub replica: ReplicaId,
    /// Grows with every start of the node.
    pub life: u64,
}

/// A kind of fault that only one tenant knows.
pub trait Own: Copy + Debug + PartialEq + 'static {
    const ALL: &'static [Self];
}
