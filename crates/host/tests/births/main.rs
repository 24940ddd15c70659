//! A shard is split on a node that dies after any step of its disk: what was acknowledged is there afterwards, in the half that it
//! belongs to (sharding P-7).

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod node;

use std::collections::BTreeMap;

use node::{Died, Disk, Node, PARENT};
use shardine_host::{Host, Move};
use shardine_model::{
    Bound, Bounds, ClusterMap, ConfVersion, Descriptor, Epoch, Generation, NodeId, Placement, Position, RangeVersion,
    ReplicaId, ShardId, Split, SplitMember,
};
use shardine_shard::{Options, Replica, SplitProgress};

const CHILD: ShardId = ShardId(2);

fn split() -> Split {
    Split {
        child: CHILD,
        at: Bound::at(Position(1 << 63)),
        epoch: Epoch { generation: Generation(1), range: RangeVersion(1), conf: ConfVersion(1) },
        members: vec![SplitMember { node: NodeId(1), parent: ReplicaId(1), child: ReplicaId(1) }],
    }
}

/// What a client was told.
#[derive(Clone, Debug, Default)]
struct Told {
    /// How often each key was certainly set, and how often besides nobody knows.
    sets: BTreeMap<String, (i64, i64)>,
    has_split: bool,
}

impl Told {
    fn set(&mut self, node: &mut Node, round: u64) -> Result<(), Died> {
        for number in 0..6 {
            let key = format!("k{number}");
            let doubt = self.sets.entry(key.clone()).or_default();
            doubt.1 += 1;
            let is_done = node.set(&key, round)?;
            let known = self.sets.get_mut(&key).unwrap();
            known.1 -= 1;
            known.0 += i64::from(is_done);
        }
        Ok(())
    }

    fn check(&self, node: &Node, when: &str) -> Result<(), String> {
        for (key, (certain, doubtful)) in &self.sets {
            let found = node.version(key);
            if !(*certain..=certain + doubtful).contains(&found) {
                return Err(format!(
                    "{when}: {key} was set {certain} times, perhaps {doubtful} more, and is at {found}"
                ));
            }
        }
        if self.has_split && node.host.seat_of(CHILD).is_none() {
            return Err(format!("{when}: the other half is gone"));
        }
        Ok(())
    }
}

/// Writes, splits, writes, and writes on; the disk of the child's first snapshot is slow for a while.
fn story(node: &mut Node, told: &mut Told) -> Result<(), Died> {
    node.run()?;
    told.set(node, 1)?;
    node.is_snapshot_slow = true;
    let mut progress = node.advance_split(&split())?;
    told.set(node, 2)?;
    for _ in 0..3 {
        progress = node.advance_split(&split())?;
    }
    assert_eq!(progress, SplitProgress::Done);
    told.has_split = true;
    told.set(node, 3)?;
    node.is_snapshot_slow = false;
    told.set(node, 4)?;
    told.set(node, 5)
}

/// Runs the story as often as it has steps, and lets the process die after each; says what was wrong at last, and how many steps there
/// were. What was told before the death is looked at after it, and once more after another one.
fn die_everywhere(change: fn(&mut Options), ignores_pins: bool) -> (Result<(), String>, usize) {
    for steps in 0.. {
        let (mut node, mut told) = (Node::start(Disk::default(), steps, change), Told::default());
        node.ignores_pins = ignores_pins;
        let has_ended = story(&mut node, &mut told).is_ok();
        for again in 0..2 {
            node = Node::start(node.disk, usize::MAX, change);
            node.run().unwrap();
            let when = format!("after {steps} steps, start {again}");
            let checked = told.check(&node, &when);
            if checked.is_err() {
                return (checked, steps);
            }
            told.set(&mut node, 9).unwrap();
            assert_eq!(told.check(&node, &when), Ok(()));
        }
        if has_ended {
            return (Ok(()), steps);
        }
    }
    unreachable!("the story ends")
}

/// Little log is kept: a snapshot is begun at every entry.
fn eager(options: &mut Options) {
    options.snapshot_log_bytes = 1;
}

#[test]
fn sharding_p_7_a_death_at_any_step_of_a_split_loses_nothing() {
    let (outcome, steps) = die_everywhere(|_| {}, false);

    assert_eq!(outcome, Ok(()));
    assert!(steps > 30, "{steps} steps");
}

#[test]
fn sharding_p_7_the_parent_keeps_what_the_child_was_born_of() {
    let (outcome, steps) = die_everywhere(eager, false);

    assert_eq!(outcome, Ok(()));
    assert!(steps > 50, "{steps} steps");
}

/// The same where the parent forgets it: the test would see it.
#[test]
fn sharding_p_7_a_parent_that_forgets_too_early_is_caught() {
    let (outcome, _) = die_everywhere(eager, true);

    let error = outcome.unwrap_err();
    assert!(error.contains("after"), "{error}");
}

/// And where replay begins the child's log anew.
#[cfg(feature = "mutants")]
#[test]
fn sharding_p_7_replay_that_resets_the_child_is_caught() {
    let (outcome, _) = die_everywhere(|options| options.mutant = Some(shardine_shard::Mutant::ForgottenInfancy), false);

    let error = outcome.unwrap_err();
    assert!(error.contains("was set"), "{error}");
}

/// A parent is pinned until the snapshot is on disk, and free then.
#[test]
fn a_parent_is_free_when_the_child_has_a_snapshot() {
    let mut node = Node::start(Disk::default(), usize::MAX, |_| {});
    node.run().unwrap();
    node.is_snapshot_slow = true;
    node.advance_split(&split()).unwrap();
    assert!(node.host.is_pinned(PARENT));

    node.is_snapshot_slow = false;
    node.run().unwrap();

    assert!(!node.host.is_pinned(PARENT));
    assert_eq!(node.host.take_parted().len(), 1);
}

/// sharding P-3: a node that has not applied the split has the right half's rows in the whole, and takes no snapshot of it: what it is to have of
/// that is born here. One that has nothing of the whole makes room at once.
#[test]
fn sharding_p_3_no_room_is_made_for_what_is_to_be_born_here() {
    let (left, right) = split().halves(&Bounds::default());
    let group = |shard, bounds| Descriptor {
        shard,
        epoch: split().epochs().0,
        state: Default::default(),
        bounds,
        voters: vec![Placement { node: NodeId(1), replica: ReplicaId(1) }],
        learners: Vec::new(),
    };
    let groups = vec![group(PARENT, left), group(CHILD, right)];
    let map = ClusterMap { cluster: 1, version: 2, nodes: Vec::new(), groups, sql: String::new() };
    let mut node = Node::start(Disk::default(), usize::MAX, |_| {});
    node.run().unwrap();

    assert_eq!(node.host.moves(&map, NodeId(1), [PARENT, CHILD]), []);

    let empty: Host<Replica> = Host::default();
    let arrives = |shard| Move { shard, leaves: None, arrives: Some(ReplicaId(1)) };
    assert_eq!(empty.moves(&map, NodeId(1), [PARENT, CHILD]), [arrives(PARENT), arrives(CHILD)]);
    node.advance_split(&split()).unwrap();
    assert!(node.host.seat_of(CHILD).is_some());
    assert_eq!(node.host.moves(&map, NodeId(1), [PARENT, CHILD]), [], "it was born");
}
