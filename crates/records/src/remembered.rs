//! Results kept for clients that number their requests, so that a repeated one is answered, not executed again.
//!
//! Part of the replicated state (records 35, 68). Bounded twice: results per client and clients per shard.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::command::Origin;
use shardine_model::{Answer, ClientId, ErrorCode, limits};

#[derive(Debug, Default)]
pub(crate) struct Remembered {
    clients: BTreeMap<ClientId, ClientResults>,
    /// By last use, for forgetting the one unused for longest. The clock is a counter of uses, the same on every replica.
    by_use: BTreeSet<(u64, ClientId)>,
    uses: u64,
}

#[derive(Debug, Default)]
struct ClientResults {
    used: u64,
    /// Every number up to this one was answered and its result is forgotten.
    forgotten: u64,
    results: VecDeque<(u64, Box<[u8]>)>,
}

impl Remembered {
    /// The kept result of a request, if it was executed before. A result that is no longer kept is in doubt.
    pub fn recall(&self, origin: Origin) -> Option<Answer> {
        let client_results = self.clients.get(&origin.client)?;
        if origin.sequence <= client_results.forgotten {
            return Some(Answer::Failed(ErrorCode::InDoubt));
        }
        let (_, stored) = client_results.results.iter().find(|(sequence, _)| *sequence == origin.sequence)?;
        Some(Answer::decode(&mut Reader::new(stored)).expect("results are stored by this code"))
    }

    pub fn remember(&mut self, origin: Origin, answer: &Answer) {
        self.uses += 1;
        let client_results = self.clients.entry(origin.client).or_default();
        self.by_use.remove(&(client_results.used, origin.client));
        client_results.used = self.uses;
        self.by_use.insert((client_results.used, origin.client));
        client_results.results.push_back((origin.sequence, stored_form(answer)));
        if client_results.results.len() > limits::REMEMBERED_RESULTS_MAX {
            let (sequence, _) = client_results.results.pop_front().expect("a full queue has a front");
            client_results.forgotten = client_results.forgotten.max(sequence);
        }
        if self.clients.len() > limits::REMEMBERED_CLIENTS_MAX {
            let (_, client) = self.by_use.pop_first().expect("every client is filed by use");
            self.clients.remove(&client);
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.clients.len() as u64);
        for (used, client) in &self.by_use {
            let client_results = &self.clients[client];
            put_varint(out, *used);
            put_varint(out, client.0);
            put_varint(out, client_results.forgotten);
            put_varint(out, client_results.results.len() as u64);
            for (sequence, result) in &client_results.results {
                put_varint(out, *sequence);
                put_bytes(out, result);
            }
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut remembered = Self::default();
        for _ in 0..reader.count("client_results count")? {
            let used = reader.varint("client_results use")?;
            let client = ClientId(reader.varint("client id")?);
            let mut client_results =
                ClientResults { used, forgotten: reader.varint("forgotten")?, results: VecDeque::new() };
            for _ in 0..reader.count("result count")? {
                let sequence = reader.varint("sequence")?;
                let stored = reader.bytes("result")?;
                Answer::decode(&mut Reader::new(stored))?;
                client_results.results.push_back((sequence, stored.into()));
            }
            remembered.uses = remembered.uses.max(used);
            remembered.by_use.insert((used, client));
            remembered.clients.insert(client, client_results);
        }
        Ok(remembered)
    }
}

/// A result above the limit is kept without its rows: the retry still learns that it was executed, and the versions.
fn stored_form(answer: &Answer) -> Box<[u8]> {
    let mut out = Vec::new();
    answer.encode(&mut out);
    if out.len() > limits::REMEMBERED_RESULT_BYTES_MAX {
        out.clear();
        without_rows(answer.clone()).encode(&mut out);
    }
    out.into_boxed_slice()
}

fn without_rows(mut answer: Answer) -> Answer {
    use shardine_model::Outcome::{Done, Refused};
    let replies = match &mut answer {
        Answer::One(reply) => std::slice::from_mut(reply),
        Answer::Many(replies) => replies.as_mut_slice(),
        Answer::ConditionFailed | Answer::Failed(_) => &mut [],
    };
    for reply in replies {
        let (Done { row, .. } | Refused { row, .. }) = &mut reply.outcome;
        *row = None;
    }
    answer
}
