//! Results kept for clients that number their requests, so that a repeated one is answered, not executed again.
//!
//! Part of the replicated state (records 35, 68). A client says below which number it has all answers, and those results
//! go. Bounded three times: numbers that a client has open, clients, and bytes. Whoever is beyond the last two is forgotten;
//! from then on a client that is not known may have been, and its repeated requests are in doubt.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use shardine_model::codec::{Reader, put_bytes, put_varint};
use shardine_model::command::{Attempt, Origin};
use shardine_model::stream::{SnapshotError, put_item};
use shardine_model::{Answer, ClientId, ErrorCode, Position, limits};

use crate::snapshot::{VERSION, tag};

#[derive(Debug, Default)]
pub(crate) struct Remembered {
    clients: BTreeMap<ClientId, ClientResults>,
    /// By last use, for forgetting the one unused for longest. The clock is a counter of uses, the same on every replica.
    by_use: BTreeSet<(u64, ClientId)>,
    uses: u64,
    bytes: usize,
    /// How many clients were forgotten.
    forgotten: u64,
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

/// Invariant: every result has a number from `lowest` on, and less than the limit above it.
#[derive(Clone, Debug, Default)]
struct ClientResults {
    used: u64,
    /// The client has the answers to all numbers below this one.
    lowest: u64,
    /// Numbers below this one may have been executed before the client was forgotten and came again.
    certain_from: u64,
    results: BTreeMap<u64, KeptResult>,
    /// The cut that it was last written for, or came after.
    saved_for: u64,
}

#[derive(Clone, Debug)]
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
        if self.clients.get(&origin.client).is_some_and(|client| client.lowest < lowest) {
            self.save_before_change(origin.client);
        }
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
        self.save_before_change(origin.client);
        let saved_for = self.cut.as_ref().map_or(0, |cut| cut.number);
        let lowest = origin.lowest.min(origin.sequence);
        // Higher numbers were refused as long as this one was unanswered.
        let certain_from = if self.forgotten > 0 && lowest > 1 { lowest.saturating_add(WINDOW) } else { 0 };
        let fresh = || ClientResults { lowest, certain_from, saved_for, ..ClientResults::default() };
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
            self.save_before_change(client);
            self.bytes -= self.clients.remove(&client).map_or(0, |client| client.size());
            self.forgotten += 1;
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

    /// What the right half of a shard keeps: results go with their rows. Where the bound parts the rows of one position, both
    /// halves keep that position's results.
    pub fn split_off(&mut self, at: &shardine_model::Bound) -> Self {
        let mut right =
            Self { uses: self.uses, forgotten: self.forgotten, by_use: self.by_use.clone(), ..Self::default() };
        let stays =
            |position: Position| position < at.position || position == at.position && !at.is_between_positions();
        for (client, known) in &mut self.clients {
            let mut moved = known.clone();
            moved.results.retain(|_, kept| kept.position >= at.position);
            known.results.retain(|_, kept| stays(kept.position));
            right.bytes += moved.size();
            right.clients.insert(*client, moved);
        }
        self.bytes = self.clients.values().map(ClientResults::size).sum();
        right
    }

    /// Everything, for comparing states.
    pub fn encode_all(&self, out: &mut Vec<u8>) {
        put_varint(out, self.forgotten);
        self.clients.iter().for_each(|(client, known)| known.put(*client, out));
    }

    /// How many clients were forgotten: part of the head of a snapshot.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub fn set_forgotten(&mut self, forgotten: u64) {
        self.forgotten = forgotten;
    }

    /// Takes in the results of one client from a snapshot.
    pub fn take_client(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let client = ClientId(reader.varint("client id")?);
        let used = reader.varint("use of a client")?;
        let lowest = reader.varint("lowest unanswered number")?;
        let certain_from = reader.varint("first certain number")?;
        let mut known = ClientResults { used, lowest, certain_from, ..ClientResults::default() };
        for _ in 0..reader.count("result count")? {
            let sequence = reader.varint("sequence")?;
            let position = Position::decode(reader)?;
            let answer = reader.bytes("result")?;
            Answer::decode(&mut Reader::new(answer))?;
            known.results.insert(sequence, KeptResult { position, answer: answer.into() });
        }
        self.uses = self.uses.max(used);
        self.bytes += known.size();
        let is_new = self.by_use.insert((used, client)) && self.clients.insert(client, known).is_none();
        if is_new { Ok(()) } else { Err(SnapshotError::Contradiction("a client comes twice")) }
    }
}

impl ClientResults {
    fn put(&self, client: ClientId, out: &mut Vec<u8>) {
        put_item(out, tag::CLIENT, VERSION, |out| {
            put_varint(out, client.0);
            put_varint(out, self.used);
            put_varint(out, self.lowest);
            put_varint(out, self.certain_from);
            put_varint(out, self.results.len() as u64);
            for (sequence, kept) in &self.results {
                put_varint(out, *sequence);
                out.extend_from_slice(&kept.position.to_bytes());
                put_bytes(out, &kept.answer);
            }
        });
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
