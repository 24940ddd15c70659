//! The view from above: looks at every replica after every turn, with knowledge that no node has.

use shardine_host::GroupReplica;
use shardine_model::group_entry::GroupEntry;
use shardine_model::log::{LogEntry, LogOp, Membership};
use shardine_model::{ConfVersion, ReplicaId, Split};
use shardine_shard::Role;

use crate::chance::mix;
use crate::check::every_entry_is_shown::Ledger;
use crate::check::only_voters_count::Members;
use crate::check::replica_numbers_are_used_once::Numbers;
use crate::check::{Violation, nobody_differs, replicas_agree};
use crate::disk::Ballot;
use crate::kinship::BIRTH;
use crate::tenant::{Member, Tenant};
use crate::world::{Node, World};

/// One state in this many is hashed and compared: a hash walks everything.
const HASH_EVERY: u64 = 5;

#[derive(Clone, Debug)]
pub struct Watch {
    groups: Vec<replicas_agree::Seen>,
    ledgers: Vec<Ledger>,
    members: Vec<Members>,
    pub numbers: Vec<Numbers>,
    /// By node and group: how far it has applied, and its term, in this life.
    applied: Vec<Vec<u64>>,
    terms: Vec<Vec<u64>>,
    /// How often it was found to agree with the others.
    agreed: Vec<Vec<u64>>,
}

impl Watch {
    #[must_use]
    pub fn new(nodes: usize, groups: usize, founders: u64) -> Self {
        Self {
            groups: vec![replicas_agree::Seen::default(); groups],
            ledgers: vec![Ledger::new(nodes); groups],
            members: vec![Members::new(founders); groups],
            numbers: vec![Numbers::default(); groups],
            applied: vec![vec![0; groups]; nodes],
            terms: vec![vec![0; groups]; nodes],
            agreed: vec![vec![0; groups]; nodes],
        }
    }

    /// Whether states at this entry are looked at.
    #[must_use]
    pub fn is_compared(&self, index: u64) -> bool {
        mix(index).is_multiple_of(HASH_EVERY)
    }

    /// What the log itself comes to at an entry.
    pub fn agreed_state(&mut self, group: usize, index: u64, hash: u64) -> Result<(), Violation> {
        self.groups[group].state(None, index, hash).map(drop)
    }

    /// A node has begun a new life and may know less than before: even its term, if that was not on disk yet.
    pub fn forget_node(&mut self, node: usize) {
        self.applied[node].fill(0);
        self.terms[node].fill(0);
        self.agreed[node].fill(0);
    }

    /// A group is born of another: its log begins behind that, with the members of its parent.
    pub fn begin_at_birth(&mut self, parent: usize, child: usize, split: &Split) {
        let born = |list: &[ReplicaId]| list.iter().filter_map(|replica| split.child_of(*replica)).collect();
        let whole = self.members[parent].newest();
        let (voters, learners) = (born(&whole.voters), born(&whole.learners));
        self.members[child] = Members::among(Membership { voters, learners, ..Membership::default() });
        self.ledgers[child].begin_at_birth(BIRTH);
    }

    /// The version of a group's configuration, if there is only one.
    #[must_use]
    pub fn conf_of(&self, group: usize) -> Option<ConfVersion> {
        self.members[group].version()
    }

    /// Another replica of a group is on a node now, or none.
    pub fn forget_replica(&mut self, node: usize, group: usize) {
        (self.applied[node][group], self.terms[node][group], self.agreed[node][group]) = (0, 0, 0);
        self.ledgers[group].install(node);
    }
}

impl<T: Tenant> World<T> {
    /// A replica starts with these entries behind its snapshot.
    pub fn watch_restored(&mut self, node: usize, group: usize, entries: &[LogEntry]) {
        let verdict = self.watch.ledgers[group].restore(node, entries);
        self.demand(verdict);
    }

    /// Votes that are on disk now.
    pub fn watch_ballots(&mut self, ballots: &[Ballot]) {
        for (group, replica, state) in ballots {
            let verdict = self.watch.members[*group].votes(*replica, *state);
            self.demand(verdict);
        }
    }

    /// A replica goes on with what it asks its host to write before that is on its way: an installed snapshot is its state at
    /// once, and the tail of the log that it replaces is not its log any more.
    pub fn watch_queue(&mut self, node: usize, lane: usize) {
        let Node { replicas, looked_at, .. } = &mut self.nodes[node];
        let queued = replicas.hosts[lane].queued();
        let new = queued[looked_at[lane]..].to_vec();
        looked_at[lane] = queued.len();
        self.watch_ops(node, &new);
    }

    pub fn watch_ops(&mut self, node: usize, ops: &[LogOp]) {
        for op in ops {
            let group = self.group_of(op.shard()).expect("one of these");
            self.watch_op(node, group, op);
        }
    }

    fn watch_op(&mut self, node: usize, group: usize, op: &LogOp) {
        let ledger = &mut self.watch.ledgers[group];
        let entries = match op {
            LogOp::Write(write) => &write.entries,
            LogOp::Install(install) => {
                self.counters.snapshot_installs += 1;
                ledger.install(node);
                &install.write.entries
            }
            LogOp::Truncate { .. } | LogOp::Remove { .. } => return,
        };
        let verdict = ledger.append(node, entries);
        self.demand(verdict);
    }

    /// Looks at a replica that has just taken its turn.
    pub fn observe(&mut self, node: usize, group: usize) {
        if self.violation.is_none() {
            let verdict = self.look(node, group);
            self.demand(verdict);
        }
    }

    fn look(&mut self, node: usize, group: usize) -> Result<(), Violation> {
        let Some(replica) = self.nodes[node].replicas.get(group) else { return Ok(()) };
        let (term, applied, role, checks) = (replica.term(), replica.applied(), replica.role(), replica.checks());
        if role == Role::Leader && self.watch.groups[group].leader(term, node)? {
            self.counters.leader_changes += 1;
            let group_of = replica.group();
            self.watch.members[group].leads(term, replica.id(), group_of.membership())?;
        }
        let known_term = &mut self.watch.terms[node][group];
        if term < *known_term {
            let detail = format!("node {} went from term {known_term} to {term}", node + 1);
            return Err(Violation::new(replicas_agree::NAME, detail));
        }
        *known_term = term;
        let agreed = nobody_differs::check(node, group, checks)?;
        self.counters.replicas_compared += agreed.saturating_sub(self.watch.agreed[node][group]);
        self.watch.agreed[node][group] = agreed;
        let before = std::mem::replace(&mut self.watch.applied[node][group], applied);
        if applied < before {
            let detail = format!("node {} went from entry {before} to {applied}", node + 1);
            return Err(Violation::new(replicas_agree::NAME, detail));
        }
        if applied > before {
            self.note(&[14, node as u64, group as u64, term, applied], || {
                format!("node {} group {group} has applied {applied} in term {term}", node + 1)
            });
            self.look_at_entries(node, group, before + 1, applied)?;
            if self.watch.is_compared(applied) {
                self.compare_state(node, group)?;
            }
        }
        T::look(self, node, group, applied > before)
    }

    fn look_at_entries(&mut self, node: usize, group: usize, first: u64, last: u64) -> Result<(), Violation> {
        for index in first..=last {
            if let Some(entry) = self.watch.ledgers[group].apply(node, index)? {
                self.watch.members[group].check_commit((index, entry.term), |replica| {
                    let mut disks = self.nodes.iter().map(|node| &node.disk).chain(&self.lost);
                    disks.any(|disk| {
                        let stored = disk.stored(group);
                        stored.replica == replica && stored.holds(index, entry.term)
                    })
                })?;
                if let Some(members) = self.watch.members[group].applied(&entry) {
                    self.counters.members_changed += 1;
                    self.counters.joint_changes += u64::from(members.is_joint());
                    self.watch.numbers[group].members(members)?;
                }
                self.counters.entries_shown += 1;
                // Those of the group itself change nothing that a machine has.
                if !GroupEntry::decode(&entry.data).is_ok_and(|own| own.is_some()) {
                    T::entry_applied(self, group, &entry)?;
                }
            }
        }
        Ok(())
    }

    /// Compares a replica's state with what others had at the same entry.
    pub fn compare_state(&mut self, node: usize, group: usize) -> Result<(), Violation> {
        let replica = &self.nodes[node].replicas[group];
        let (applied, hash) = (replica.applied(), replica.state_hash());
        self.counters.states_compared += u64::from(self.watch.groups[group].state(Some(node), applied, hash)?);
        Ok(())
    }

    /// The node that leads, unless a newer leader has been seen: one that is alone may believe to lead for ever.
    #[must_use]
    pub fn newest_leader(&self, group: usize) -> Option<usize> {
        let newest = self.watch.groups[group].newest_term();
        self.leader_of(group).filter(|leader| self.nodes[*leader].replicas[group].term() == newest)
    }

    /// The node that leads a group in the newest term among those that lead, if there is one.
    #[must_use]
    pub fn leader_of(&self, group: usize) -> Option<usize> {
        let leads =
            |node: &usize| self.nodes[*node].replicas.get(group).is_some_and(|replica| replica.role() == Role::Leader);
        let term = |node: &usize| self.nodes[*node].replicas[group].term();
        (0..self.nodes.len()).filter(leads).max_by_key(term)
    }
}
