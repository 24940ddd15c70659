//! Log writes that the host has not confirmed, with the messages that must wait for them. The same for every machine.

use std::collections::VecDeque;

use shardine_consensus::{Group, Message, Ready};
use shardine_model::log::LogWrite;
use shardine_model::{ReplicaId, ShardId};

use super::Outbox;
use crate::actions::Persist;

#[derive(Debug, Default)]
pub(crate) struct Writes {
    unconfirmed: VecDeque<Unconfirmed>,
}

/// A log write under the number that the host knows it by, and the last `Ready` that it stands for.
#[derive(Debug)]
struct Unconfirmed {
    write: u64,
    up_to: u64,
    messages: Vec<Message>,
}

impl Writes {
    /// Takes what a `Ready` wants written, and what may be sent only after that. Nothing to write while something before
    /// it is not on disk is confirmed together with that.
    pub fn take(&mut self, whose: (ShardId, ReplicaId), ready: &mut Ready, group: &mut Group, out: &mut Outbox<'_>) {
        let number = ready.number;
        let waiting = std::mem::take(&mut ready.persisted_messages);
        if ready.must_sync || ready.snapshot.is_some() {
            let (shard, replica) = whose;
            let (entries, hard_state) = (std::mem::take(&mut ready.entries), ready.hard_state.take());
            let write = LogWrite { shard, replica, entries, hard_state };
            out.persists.push(Persist { number, write, install: ready.snapshot.take() });
            self.unconfirmed.push_back(Unconfirmed { write: number, up_to: number, messages: waiting });
        } else if let Some(last) = self.unconfirmed.back_mut() {
            last.up_to = number;
            last.messages.extend(waiting);
        } else {
            out.messages.extend(waiting);
            group.persisted(number);
        }
    }

    /// The host has this write, and all before it, on disk.
    pub fn confirm(&mut self, number: u64, group: &mut Group, messages: &mut Vec<Message>) {
        while self.unconfirmed.front().is_some_and(|known| known.write <= number) {
            let confirmed = self.unconfirmed.pop_front().expect("just looked");
            messages.extend(confirmed.messages);
            group.persisted(confirmed.up_to);
        }
    }

    /// Believes what is not so: the newest write is taken for written.
    #[cfg(feature = "mutants")]
    pub fn confirm_newest_too_early(&mut self, number: u64, group: &mut Group, messages: &mut Vec<Message>) {
        if let Some(last) = self.unconfirmed.pop_back_if(|last| last.write == number) {
            messages.extend(last.messages);
            group.persisted(number);
        }
    }
}
