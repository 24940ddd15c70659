//! The turn of a group, once for every machine: what is sent, written and applied, in which order, and what becomes of
//! one's own proposals on the way.

use bytes::Bytes;
use shardine_consensus::{Proposed, ReadDone, Ready};
use shardine_model::group_entry::GroupEntry;
use shardine_model::log::{LogEntry, LogEntryKind, SnapshotMeta};

use super::cutting;
use super::machine::Machine;
use super::proposals::{Fate, Resolved};
use super::{At, Member, Outbox, deferred};

/// What a replica of one machine adds to the turn. How requests are gathered and proposed is not the turn's business.
pub(crate) trait Turn {
    type Machine: Machine;
    type Actions;
    /// What is kept of a proposal until it is applied.
    type Load;
    /// What is left to be done once an entry counts as applied.
    type Rest;

    fn parts(&mut self) -> (&mut Member<Self::Load>, &mut Self::Machine);

    fn member(&mut self) -> &mut Member<Self::Load> {
        self.parts().0
    }

    fn outbox(actions: &mut Self::Actions) -> Outbox<'_>;

    /// A machine to be filled from a snapshot.
    fn empty_machine(&mut self) -> Self::Machine;

    /// What the snapshot of the message that is being taken has been made into already, by whoever received it.
    fn prepared(&mut self) -> Option<Self::Machine>;

    /// Executes an entry, the same way whoever proposed it; `own` is there if this replica did. What fails here is not the
    /// same everywhere, and stops the replica.
    fn execute(
        &mut self,
        entry: &LogEntry,
        own: Option<Self::Load>,
        actions: &mut Self::Actions,
    ) -> Result<Self::Rest, String>;

    fn finish(&mut self, rest: Self::Rest, actions: &mut Self::Actions);

    /// A proposal of its own is not waited for any longer.
    fn lose(&mut self, load: Self::Load, fate: Fate, actions: &mut Self::Actions);

    /// Everything of a `Ready` is applied: the lead may have changed, and reads may be answered.
    fn end_turn(&mut self, reads: Vec<ReadDone>, actions: &mut Self::Actions);

    /// Lets go of everything, and says why.
    fn say_stopped(&mut self, reason: String, actions: &mut Self::Actions);

    /// Whether what is not on disk is taken for written.
    #[cfg(feature = "mutants")]
    fn answers_before_sync(&self) -> bool;
}

/// Takes everything the group has ready: sends, writes, applies.
pub(crate) fn drain<R: Turn>(replica: &mut R, actions: &mut R::Actions) {
    while let Some(mut ready) = next_ready(replica) {
        R::outbox(actions).messages.append(&mut ready.messages);
        if let Some((meta, data)) = &ready.snapshot {
            install(replica, meta, data, actions);
            if replica.member().stopped {
                return;
            }
        }
        replica.member().write(&mut ready, &mut R::outbox(actions));
        #[cfg(feature = "mutants")]
        if replica.answers_before_sync() {
            let (member, messages) = (replica.member(), R::outbox(actions).messages);
            member.writes.confirm_newest_too_early(ready.number, &mut member.group, messages);
        }
        for entry in ready.committed {
            apply(replica, &entry, actions);
            if replica.member().stopped {
                return;
            }
        }
        replica.end_turn(ready.reads, actions);
    }
}

fn next_ready<R: Turn>(replica: &mut R) -> Option<Ready> {
    let member = replica.member();
    if member.stopped { None } else { member.group.ready() }
}

fn apply<R: Turn>(replica: &mut R, entry: &LogEntry, actions: &mut R::Actions) {
    assert_eq!(entry.index, replica.member().applied.index + 1, "entries are applied without gaps");
    let mut own = take_own(replica, entry, actions);
    // What it comes to here is not what it comes to elsewhere.
    if replica.member().group.is_aside()
        && let Some(load) = own.take()
    {
        replica.lose(load, Fate::InDoubt, actions);
    }
    let executed = match entry.kind {
        LogEntryKind::Membership => replica.member().change_members(entry).map(|()| None),
        // A new leader's first entry.
        LogEntryKind::Normal if entry.data.is_empty() => Ok(None),
        LogEntryKind::Normal => match GroupEntry::decode(&entry.data) {
            Ok(None) => replica.execute(entry, own, actions).map(Some),
            Ok(Some(of_group)) => {
                let (member, machine) = replica.parts();
                member.apply_group_entry(machine, entry, of_group);
                Ok(None)
            }
            Err(error) => Err(format!("entry {} of term {}: {error}", entry.index, entry.term)),
        },
    };
    replica.member().note_applied(entry);
    match executed {
        Err(reason) => return stop(replica, reason, actions),
        Ok(Some(rest)) => replica.finish(rest, actions),
        Ok(None) => {}
    }
    let (member, machine) = replica.parts();
    member.trim();
    member.cut_if_due(machine);
}

/// This replica's own proposal at that place. Those that were certainly not executed are told so.
fn take_own<R: Turn>(replica: &mut R, entry: &LogEntry, actions: &mut R::Actions) -> Option<R::Load> {
    let applied = Proposed { index: entry.index, term: entry.term };
    loop {
        match replica.member().proposals.resolve(applied) {
            Resolved::Own(load) => return Some(load),
            Resolved::Overtaken(load) => replica.lose(load, Fate::NotExecuted, actions),
            Resolved::Nothing => return None,
        }
    }
}

/// Takes the leader's snapshot in place of everything this replica has applied: what is not in the snapshot is not there
/// afterwards (records 70).
fn install<R: Turn>(replica: &mut R, meta: &SnapshotMeta, data: &Bytes, actions: &mut R::Actions) {
    let made = match replica.prepared() {
        Some(prepared) => Ok(prepared),
        None => {
            let empty = replica.empty_machine();
            cutting::restored(empty, data)
        }
    };
    let (member, machine) = replica.parts();
    match made {
        Ok(restored) => *machine = restored,
        Err(error) => {
            return stop(replica, format!("a snapshot from the leader cannot be read: {error}"), actions);
        }
    }
    member.cutting.replaced(meta);
    member.applied = At { index: meta.index, term: meta.term };
    member.checking.replaced();
    for load in member.proposals.take_covered(meta.index) {
        replica.lose(load, Fate::InDoubt, actions);
    }
}

/// The replica is about to go, and whoever still waits for something is told. Nothing is done with it afterwards.
pub(crate) fn retire<R: Turn>(replica: &mut R, now_ms: u64, actions: &mut R::Actions) {
    stop(replica, "it has left the group".to_owned(), actions);
    deferred::settle(replica, now_ms, actions);
}

fn stop<R: Turn>(replica: &mut R, reason: String, actions: &mut R::Actions) {
    let member = replica.member();
    member.stopped = true;
    for load in member.proposals.take_all() {
        replica.lose(load, Fate::InDoubt, actions);
    }
    replica.say_stopped(reason, actions);
}

#[cfg(test)]
mod tests;
