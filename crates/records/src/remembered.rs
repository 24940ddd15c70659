//! Results kept for clients that number their requests, so that a repeated one is answered, not executed again.
//!
//! Part of the replicated state (records 35, 68). Bounded twice: results per client and clients per shard.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use shardine_model::codec::{Reader, put_bytes, put_varint};
use shardine_model::command::Origin;
use shardine_model::stream::{SnapshotError, put_item};
use shardine_model::{Answer, ClientId, ErrorCode, limits};

use crate::snapshot::{VERSION, tag};

#[derive(Debug, Default)]
pub(crate) struct Remembered {
    clients: BTreeMap<ClientId, ClientResults>,
    /// By last use, for forgetting the one unused for longest. The clock is a counter of uses, the same on every replica.
    by_use: BTreeSet<(u64, ClientId)>,
    uses: u64,
    cut: Option<Cut>,
}

/// A snapshot's cut while kept results are written, in the order of clients.
#[derive(Debug)]
struct Cut {
    number: u64,
    /// All clients up to this one are written.
    after: Option<ClientId>,
    /// Clients that were about to change before their turn.
    ahead: VecDeque<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
struct ClientResults {
    used: u64,
    /// Every number up to this one was answered and its result is forgotten.
    forgotten: u64,
    results: VecDeque<(u64, Box<[u8]>)>,
    /// The cut that it was last written for, or came after.
    saved_for: u64,
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
        self.save_before_change(origin.client);
        let saved_for = self.cut.as_ref().map_or(0, |cut| cut.number);
        let client_results = self
            .clients
            .entry(origin.client)
            .or_insert_with(|| ClientResults { saved_for, ..ClientResults::default() });
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
            self.save_before_change(client);
            self.clients.remove(&client);
        }
    }

    /// Fixes the present results for a snapshot.
    pub fn begin_cut(&mut self, number: u64) {
        self.cut = Some(Cut { number, after: None, ahead: VecDeque::new() });
    }

    pub fn end_cut(&mut self) {
        self.cut = None;
    }

    fn save_before_change(&mut self, client: ClientId) {
        let (Some(cut), Some(known)) = (&mut self.cut, self.clients.get_mut(&client)) else { return };
        if known.saved_for != cut.number {
            let mut item = Vec::new();
            known.put(client, &mut item);
            cut.ahead.push_back(item);
            known.saved_for = cut.number;
        }
    }

    /// Writes the next clients of the cut, about so many bytes; says if there were any left.
    pub fn write_some(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let Some(cut) = &mut self.cut else { return false };
        if let Some(item) = cut.ahead.pop_front() {
            out.extend_from_slice(&item);
            return true;
        }
        let begin = out.len();
        let after = cut.after.map_or(Bound::Unbounded, Bound::Excluded);
        for (client, known) in self.clients.range_mut((after, Bound::Unbounded)) {
            if known.saved_for != cut.number {
                known.put(*client, out);
                known.saved_for = cut.number;
            }
            cut.after = Some(*client);
            if out.len() >= begin + bytes {
                break;
            }
        }
        out.len() > begin
    }

    /// What the right half of a shard keeps.
    pub fn split_off(&mut self, _at: &shardine_model::Bound) -> Self {
        Self { clients: self.clients.clone(), by_use: self.by_use.clone(), uses: self.uses, cut: None }
    }

    /// Everything, for comparing states.
    pub fn encode_all(&self, out: &mut Vec<u8>) {
        self.clients.iter().for_each(|(client, known)| known.put(*client, out));
    }

    /// Takes in the results of one client from a snapshot.
    pub fn take_client(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let client = ClientId(reader.varint("client id")?);
        let used = reader.varint("use of a client")?;
        let forgotten = reader.varint("forgotten")?;
        let mut known = ClientResults { used, forgotten, ..ClientResults::default() };
        for _ in 0..reader.count("result count")? {
            let sequence = reader.varint("sequence")?;
            let stored = reader.bytes("result")?;
            Answer::decode(&mut Reader::new(stored))?;
            known.results.push_back((sequence, stored.into()));
        }
        self.uses = self.uses.max(used);
        let is_new = self.by_use.insert((used, client)) && self.clients.insert(client, known).is_none();
        if is_new { Ok(()) } else { Err(SnapshotError::Contradiction("a client comes twice")) }
    }
}

impl ClientResults {
    fn put(&self, client: ClientId, out: &mut Vec<u8>) {
        put_item(out, tag::CLIENT, VERSION, |out| {
            put_varint(out, client.0);
            put_varint(out, self.used);
            put_varint(out, self.forgotten);
            put_varint(out, self.results.len() as u64);
            for (sequence, result) in &self.results {
                put_varint(out, *sequence);
                put_bytes(out, result);
            }
        });
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
