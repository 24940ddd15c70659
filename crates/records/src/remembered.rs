//! Results kept for clients that number their requests, so that a repeated one is answered, not executed again.
//!
//! Part of the replicated state (records 35, 68). A client says below which number it has all answers, and those results
//! go. Bounded three times: numbers that a client has open, clients, and bytes. Whoever is beyond the last two is forgotten;
//! from then on a client that is not known may have been, and its repeated requests are in doubt.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::command::{Attempt, Origin};
use shardine_model::{Answer, ClientId, ErrorCode, Position, limits};

#[derive(Debug, Default)]
pub(crate) struct Remembered {
    clients: BTreeMap<ClientId, ClientResults>,
    /// By last use, for forgetting the one unused for longest. The clock is a counter of uses, the same on every replica.
    by_use: BTreeSet<(u64, ClientId)>,
    uses: u64,
    bytes: usize,
    /// How many clients were forgotten.
    forgotten: u64,
}

/// Invariant: every result has a number from `lowest` on, and less than the limit above it.
#[derive(Debug, Default)]
struct ClientResults {
    used: u64,
    /// The client has the answers to all numbers below this one.
    lowest: u64,
    /// Numbers below this one may have been executed before the client was forgotten and came again.
    certain_from: u64,
    results: BTreeMap<u64, KeptResult>,
}

#[derive(Debug)]
struct KeptResult {
    /// Where the request's rows live: a split gives the result to that half.
    position: Position,
    answer: Box<[u8]>,
}

impl KeptResult {
    /// What it counts for: its bytes, and its place.
    fn size(&self) -> usize {
        self.answer.len() + size_of::<(u64, Self)>()
    }
}

impl ClientResults {
    /// Lets results go that the client has; says how many bytes they were.
    fn forget_below(&mut self, lowest: u64) -> usize {
        if lowest <= self.lowest {
            return 0;
        }
        self.lowest = lowest;
        let kept = self.results.split_off(&lowest);
        std::mem::replace(&mut self.results, kept).values().map(KeptResult::size).sum()
    }

    fn size(&self) -> usize {
        self.results.values().map(KeptResult::size).sum()
    }
}

/// What is known of a numbered request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Recall {
    /// Certainly not executed before.
    New,
    Answered(Answer),
    /// Not to be executed now.
    Refused(ErrorCode),
}

impl Remembered {
    /// Looks for the result of a request, and takes note of what its client has.
    pub fn recall(&mut self, origin: Origin) -> Recall {
        let lowest = origin.lowest.min(origin.sequence);
        let Some(client) = self.clients.get_mut(&origin.client) else {
            let may_be_forgotten = self.forgotten > 0 && origin.sequence > 1;
            return look(origin, lowest, may_be_forgotten);
        };
        self.bytes -= client.forget_below(lowest);
        if origin.sequence < client.lowest {
            return Recall::Refused(ErrorCode::InDoubt);
        }
        match client.results.get(&origin.sequence) {
            Some(kept) => Recall::Answered(decoded(&kept.answer)),
            None => look(origin, client.lowest, origin.sequence < client.certain_from),
        }
    }

    pub fn remember(&mut self, origin: Origin, position: Position, answer: &Answer) {
        self.uses += 1;
        let lowest = origin.lowest.min(origin.sequence);
        // Higher numbers were refused as long as this one was unanswered.
        let certain_from = if self.forgotten > 0 && lowest > 1 { lowest.saturating_add(WINDOW) } else { 0 };
        let fresh = || ClientResults { lowest, certain_from, ..ClientResults::default() };
        let client = self.clients.entry(origin.client).or_insert_with(fresh);
        self.by_use.remove(&(client.used, origin.client));
        client.used = self.uses;
        self.by_use.insert((client.used, origin.client));
        let kept = KeptResult { position, answer: stored_form(answer) };
        self.bytes += kept.size();
        client.results.insert(origin.sequence, kept);
        // The client that was just heard stays: what one may keep is far below the limit of all.
        while self.clients.len() > limits::REMEMBERED_CLIENTS_MAX || self.bytes > limits::REMEMBERED_BYTES_MAX {
            let (_, client) = self.by_use.pop_first().expect("every client is filed by use");
            self.bytes -= self.clients.remove(&client).map_or(0, |client| client.size());
            self.forgotten += 1;
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.forgotten);
        put_varint(out, self.clients.len() as u64);
        for (used, client) in &self.by_use {
            let client_results = &self.clients[client];
            put_varint(out, *used);
            put_varint(out, client.0);
            put_varint(out, client_results.lowest);
            put_varint(out, client_results.certain_from);
            put_varint(out, client_results.results.len() as u64);
            for (sequence, kept) in &client_results.results {
                put_varint(out, *sequence);
                out.extend_from_slice(&kept.position.to_bytes());
                put_bytes(out, &kept.answer);
            }
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut remembered = Self { forgotten: reader.varint("forgotten clients")?, ..Self::default() };
        for _ in 0..reader.count("client count")? {
            let used = reader.varint("use of a client")?;
            let client = ClientId(reader.varint("client id")?);
            let lowest = reader.varint("lowest unanswered number")?;
            let certain_from = reader.varint("first certain number")?;
            let mut results = BTreeMap::new();
            for _ in 0..reader.count("result count")? {
                let sequence = reader.varint("sequence")?;
                let position = Position::decode(reader)?;
                let answer = reader.bytes("result")?;
                Answer::decode(&mut Reader::new(answer))?;
                results.insert(sequence, KeptResult { position, answer: answer.into() });
            }
            let client_results = ClientResults { used, lowest, certain_from, results };
            remembered.uses = remembered.uses.max(used);
            remembered.bytes += client_results.size();
            remembered.by_use.insert((used, client));
            remembered.clients.insert(client, client_results);
        }
        Ok(remembered)
    }
}

/// Numbers that a client may have open.
const WINDOW: u64 = limits::REMEMBERED_RESULTS_MAX as u64;

/// A request without a kept result. A first attempt is certainly the first; another may have been executed where its result
/// may have been forgotten.
fn look(origin: Origin, lowest: u64, may_be_forgotten: bool) -> Recall {
    match origin.attempt {
        Attempt::Again if may_be_forgotten => Recall::Refused(ErrorCode::InDoubt),
        Attempt::Again | Attempt::First if origin.sequence - lowest >= WINDOW => Recall::Refused(ErrorCode::Busy),
        Attempt::Again | Attempt::First => Recall::New,
    }
}

fn decoded(answer: &[u8]) -> Answer {
    Answer::decode(&mut Reader::new(answer)).expect("results are stored by this code")
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
