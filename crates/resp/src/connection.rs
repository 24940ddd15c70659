//! One connection: executes commands in order, and answers in order. Never waits; what must be waited for stands in the queue.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use shardine_model::{Ack, AckAfter, ErrorCode, Position, Refusal, RowKeyBuf, Version};
use shardine_router::{LocalEngine, Names, Read, Response, RowCall, Ticket};

use crate::address::{self, ResolvedKey};
use crate::command::change::{self, Order};
use crate::command::read::{self, Ask, Context, Found};
use crate::command::reply_format::{RenderContext, ReplyFormat, wrong_arity};
use crate::command::transaction::Transaction;
use crate::command::{call, look, many, own, program, record, transaction};
use crate::failure::{Failure, NOT_AUTHENTICATED};
use crate::frame::{self, Args, FrameError, Limits, Line, Parsed};
use crate::options::{LATE_BYTES_FIRST, Options};
use crate::queue::{Queue, SlotId, append};
use crate::roster::Seat;
use crate::slow_log::Begun;
use crate::verb::{self, Kind, Verb};
use crate::waiting::{LateRead, Progress, Waiting};
use crate::wire::{self, Protocol};

/// What the host does next with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    Continue,
    /// Read nothing more for now. Offer what was not consumed again after `complete` was called or `out` was written.
    Pause,
    /// Write what is in `out`, then hang up.
    Close,
}

/// What `receive` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the input that are done with. The rest must be offered again, with more behind it.
    pub consumed: usize,
    pub flow: Flow,
}

/// Who a connection is, as clients are told: Redis's number of it, and the two ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// Never given to two connections while the process lives.
    pub id: u64,
    pub address: Option<SocketAddr>,
    pub local: Option<SocketAddr>,
}

impl Peer {
    pub(crate) fn number(self) -> i64 {
        i64::try_from(self.id).unwrap_or(i64::MAX)
    }
}

/// A row whose version a transaction is bound to.
pub(crate) struct Watched {
    pub(crate) row: RowKeyBuf,
    pub(crate) version: Version,
}

/// The state of one connection. Invariants: replies leave in the order of their commands; while `blocked` is set,
/// nothing is executed, because what comes next depends on the answer of that slot.
pub struct RespConnection {
    /// What responses are asked for under.
    connection: u64,
    pub(crate) peer: Peer,
    pub(crate) seat: Seat,
    pub(crate) options: Arc<Options>,
    args: Args,
    pub(crate) queue: Queue<Waiting>,
    pub(crate) protocol: Protocol,
    pub(crate) is_authenticated: bool,
    pub(crate) name: Vec<u8>,
    pub(crate) library: [Vec<u8>; 2],
    pub(crate) transaction: Option<Box<Transaction>>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) blocked: Option<SlotId>,
    /// Reads that were too early for an answer on the spot. A later change of the same partition waits for them, so
    /// that they do not see it.
    late_reads: Vec<(SlotId, Position)>,
    /// What it was sent waits until it is known what it names.
    waits_for_names: bool,
    /// What it was sent waits until a pause is over.
    pub(crate) is_held: bool,
    /// Commands under way, the oldest first.
    pub(crate) begun: VecDeque<Begun>,
    /// How large a record of theirs is taken to be.
    late_bytes: usize,
    pub(crate) is_closing: bool,
    /// It executes what programs say.
    pub(crate) is_inside: bool,
    /// A transaction over several partitions was refused, and the host has not been told.
    pub(crate) has_crossed: bool,
    chance: u64,
}

/// Whether a command was executed (or refused), or must be offered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Taken,
    NotYet,
}

impl RespConnection {
    #[must_use]
    pub fn new(connection: u64, peer: Peer, options: Arc<Options>) -> Self {
        // An odd multiplier spreads neighbouring connections; xorshift must not begin at zero.
        let chance = (options.seed ^ peer.id).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self {
            connection,
            peer,
            seat: Seat::take(&options.roster, peer),
            is_authenticated: options.password.is_none(),
            options,
            args: Args::default(),
            queue: Queue::default(),
            protocol: Protocol::Resp2,
            name: Vec::new(),
            library: [Vec::new(), Vec::new()],
            transaction: None,
            watched: Vec::new(),
            blocked: None,
            late_reads: Vec::new(),
            waits_for_names: false,
            is_held: false,
            begun: VecDeque::new(),
            late_bytes: LATE_BYTES_FIRST,
            is_closing: false,
            has_crossed: false,
            is_inside: false,
            chance,
        }
    }

    /// Whether it has said who it is, or need not.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Whether a transaction over several partitions was refused since this was last asked.
    pub fn take_crossing(&mut self) -> bool {
        std::mem::take(&mut self.has_crossed)
    }

    /// Whether it goes on only when it is known what keys name.
    #[must_use]
    pub fn waits_for_names(&self) -> bool {
        self.waits_for_names
    }

    /// What the client says it is: its library, else its name.
    #[must_use]
    pub fn library(&self) -> String {
        let said = [&self.library[0], &self.name].into_iter().find(|text| !text.is_empty());
        said.map_or_else(|| "unnamed".to_owned(), |text| String::from_utf8_lossy(text).into_owned())
    }

    /// Replies outstanding.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Bytes of replies that are ready but must wait for earlier ones.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.queue.held_bytes()
    }

    /// Executes the complete commands in `input`, and appends to `out` the replies that are ready and in turn.
    pub fn receive<H: LocalEngine>(&mut self, input: &[u8], engine: &mut H, out: &mut Vec<u8>) -> Received {
        let mut args = std::mem::take(&mut self.args);
        (self.waits_for_names, self.is_held) = (false, false);
        self.is_closing |= self.is_killed();
        let mut consumed = 0;
        let flow = loop {
            let flow = self.flow(out);
            if flow != Flow::Continue {
                break flow;
            }
            let rest = &input[consumed..];
            match frame::parse(rest, self.limits(), &mut args) {
                Ok(Parsed::Incomplete) => break Flow::Continue,
                Ok(Parsed::Empty { consumed: used }) => consumed += used,
                Ok(Parsed::Command { consumed: used }) => match self.execute(args.line(rest), engine, out) {
                    Step::Taken => consumed += used,
                    Step::NotYet => break Flow::Pause,
                },
                Err(error) => {
                    self.hang_up(error, out);
                    consumed = input.len();
                }
            }
        };
        self.args = args;
        self.show(engine.now());
        Received { consumed, flow }
    }

    /// Takes a response that was asked for under `sequence`, and appends to `out` what is now in turn.
    pub fn complete<H: LocalEngine>(
        &mut self,
        sequence: u64,
        response: Response,
        engine: &mut H,
        out: &mut Vec<u8>,
    ) -> Flow {
        let (id, part) = SlotId::of_sequence(sequence);
        match self.queue.waiting_mut(id) {
            None => {}
            Some((_, Waiting::Change(_))) => self.queue.finish(id, out, |waiting, protocol, out| {
                if let Waiting::Change(format) = waiting {
                    format.write(&response, RenderContext { protocol, catalogue: engine.catalogue() }, out);
                }
            }),
            Some(_) => self.advance(id, part, response, engine, out),
        }
        self.end(id, engine);
        self.flow(out)
    }

    fn advance<H: LocalEngine>(
        &mut self,
        id: SlotId,
        part: usize,
        response: Response,
        engine: &mut H,
        out: &mut Vec<u8>,
    ) {
        let mut context = self.context(engine);
        let ticket = Ticket { connection: self.connection, sequence: id.sequence(part) };
        let Some((protocol, waiting)) = self.queue.waiting_mut(id) else { return };
        if let Some(position) = waiting.tells_time_at() {
            context.now = engine.now_at(position);
        }
        let context = Context { protocol, ..context };
        if waiting.reads_rows() {
            self.late_bytes = response.row_bytes().max(self.late_bytes / 2);
        }
        match waiting.advance(part, response, context, ticket, engine) {
            Progress::Wait => {}
            Progress::Reply(bytes) => {
                self.queue.finish(id, out, |_, _, out| append(out, bytes));
                self.end_wait(id);
            }
            Progress::Watch(seen) => {
                self.watched.extend(seen);
                self.queue.finish(id, out, |_, _, out| wire::ok(out));
                self.end_wait(id);
            }
        }
    }

    fn end_wait(&mut self, id: SlotId) {
        if self.blocked == Some(id) {
            self.blocked = None;
        }
        self.late_reads.retain(|(read, _)| *read != id);
    }

    #[inline]
    fn flow(&self, out: &[u8]) -> Flow {
        let bytes_max = self.options.out_bytes_soft_max;
        if self.is_closing {
            return if self.queue.waiting() == 0 { Flow::Close } else { Flow::Pause };
        }
        let is_full = self.queue.waiting() >= self.options.pipeline_max
            || out.len() >= bytes_max
            || self.queue.held_bytes() >= bytes_max
            || self.late_reads.len() * self.late_bytes >= self.options.late_bytes_soft_max;
        if is_full || self.blocked.is_some() { Flow::Pause } else { Flow::Continue }
    }

    fn limits(&self) -> &Limits {
        if self.is_authenticated { &self.options.limits } else { &self.options.limits_before_auth }
    }

    fn hang_up(&mut self, error: FrameError, out: &mut Vec<u8>) {
        self.queue.reply(out, |out| wire::error(out, format!("ERR Protocol error: {error}").as_bytes()));
        self.is_closing = true;
    }

    #[inline]
    pub(crate) fn execute<H: LocalEngine>(&mut self, line: Line<'_>, engine: &mut H, out: &mut Vec<u8>) -> Step {
        let Some(verb) = Verb::find(line.word(0)) else { return self.refuse_unknown(line, out) };
        if !self.is_authenticated && !verb.is_open_to_strangers() {
            return self.fail(&NOT_AUTHENTICATED, out);
        }
        if !verb.takes(line.len()) {
            return self.refuse_arity(verb, out);
        }
        if engine.names() != Names::Known && !verb.names_nothing() {
            return self.wait_for_names(engine.names(), out);
        }
        if self.options.roster.is_paused() && self.is_paused(verb, line, engine.now()) {
            self.is_held = true;
            return Step::NotYet;
        }
        if self.transaction.is_some() && verb.kind() != Kind::Control {
            return transaction::enqueue(self, verb, line, out);
        }
        let waiting = self.queue.waiting();
        let step = self.carry_out(verb, line, engine, out);
        if self.queue.waiting() > waiting {
            self.begin(verb, line, engine);
        }
        step
    }

    #[inline]
    fn carry_out<H: LocalEngine>(&mut self, verb: Verb, line: Line<'_>, engine: &mut H, out: &mut Vec<u8>) -> Step {
        match verb.kind_of(line) {
            Kind::Read => self.read(verb, line, engine, out),
            Kind::Change => self.change(verb, line, engine, out),
            Kind::ReadMany => many::read(self, verb, line, engine, out),
            Kind::ChangeMany => many::change(self, verb, line, engine, out),
            Kind::Call => call::call(self, verb, line, engine, out),
            Kind::Own => own::run(self, verb, line, engine, out),
            Kind::Program | Kind::Atomic => program::start(self, verb, line, engine, out),
            Kind::Control => transaction::control(self, verb, line, engine, out),
        }
    }

    /// What names a record, or may, is not executed before it is known what it names.
    #[cold]
    fn wait_for_names(&mut self, names: Names, out: &mut Vec<u8>) -> Step {
        if names == Names::NotYet {
            self.waits_for_names = true;
            return Step::NotYet;
        }
        let reason = "this node has just started, and hears of no leader: a majority of the nodes must be up";
        self.fail(&Refusal::new(ErrorCode::NoLeader, reason).into(), out)
    }

    #[inline]
    fn read<H: LocalEngine>(&mut self, verb: Verb, line: Line<'_>, engine: &mut H, out: &mut Vec<u8>) -> Step {
        let place = match address::parse(line.word(verb.key_place()), engine.catalogue()) {
            Ok(place) => place,
            Err(refusal) => return self.fail(&refusal.into(), out),
        };
        let mut context = self.context(engine);
        if verb.tells_time_left() {
            context.now = engine.now_at(place.row().position());
        }
        let ask = Ask { verb, line, table: place.typed() };
        if verb == Verb::RecGet && record::max_age_ms(line).is_some() {
            return self.read_later(ask, &place, context, engine, out);
        }
        let found = match engine.read(place.row()) {
            Read::Live(view) => Found::Live(view),
            Read::Absent { version, sql_version } => Found::Absent { version, sql_version },
            Read::Later => return self.read_later(ask, &place, context, engine, out),
        };
        self.queue.reply(out, |out| {
            let start = out.len();
            if let Err(failure) = read::answer(ask, found, context, out) {
                out.truncate(start);
                failure.write(out);
            }
        });
        Step::Taken
    }

    /// Keeps what printing the answer will need. A faulty command is refused before anything is asked for it.
    fn read_later<H: LocalEngine>(
        &mut self,
        ask: Ask<'_>,
        place: &ResolvedKey<'_>,
        context: Context,
        engine: &mut H,
        out: &mut Vec<u8>,
    ) -> Step {
        if let Err(failure) = read::answer(ask, Found::NEVER, context, &mut Vec::new()) {
            return self.fail(&failure, out);
        }
        let late = LateRead::new(ask, place);
        let id = self.queue.wait(self.protocol, Waiting::Read(Box::new(late)));
        match record::max_age_ms(ask.line).filter(|_| ask.verb == Verb::RecGet) {
            None => self.ask_late(id, 0, place, engine),
            Some(max_age_ms) => {
                let call = RowCall::ReadStale { row: place.row().to_owned(), max_age_ms };
                engine.call(call.into(), self.ticket(id, 0));
            }
        }
        Step::Taken
    }

    pub(crate) fn ask_late<H: LocalEngine>(
        &mut self,
        id: SlotId,
        part: usize,
        place: &ResolvedKey<'_>,
        engine: &mut H,
    ) {
        let row = place.row();
        self.late_reads.push((id, row.position()));
        engine.call(RowCall::Read { row: row.to_owned() }.into(), self.ticket(id, part));
    }

    #[inline]
    fn change<H: LocalEngine>(&mut self, verb: Verb, line: Line<'_>, engine: &mut H, out: &mut Vec<u8>) -> Step {
        let place = match address::parse(line.word(1), engine.catalogue()) {
            Ok(place) => place,
            Err(refusal) => return self.fail(&refusal.into(), out),
        };
        if !self.may_change(&place) {
            return Step::NotYet;
        }
        if change::looks_first(verb, line) {
            return look::start(self, verb, line, &place, engine, out);
        }
        match change::plan(Order { verb, line, place: &place, now: engine.now() }) {
            Err(failure) => self.fail(&failure, out),
            Ok((command, format)) => {
                let id = self.queue.wait(self.protocol, Waiting::Change(format));
                let (request, ticket) = (shardine_model::Request::one(command), self.ticket(id, 0));
                match format {
                    // It says itself when it is to be answered, whatever the table says.
                    ReplyFormat::Record { ack: after @ (AckAfter::Raft | AckAfter::Sql), .. } => {
                        let mut bytes = Vec::new();
                        request.encode(&mut bytes);
                        let ack = Ack { after, ..Ack::default() };
                        let catalogue = engine.catalogue().version();
                        engine.call(RowCall::Submit { request: bytes.into(), catalogue, ack }.into(), ticket);
                    }
                    _ => engine.submit(&request, ticket),
                }
                Step::Taken
            }
        }
    }

    /// Whether no earlier read of the same partition is still under way, which would see the change.
    #[inline]
    pub(crate) fn may_change(&self, place: &ResolvedKey<'_>) -> bool {
        self.late_reads.is_empty() || {
            let position = Position::of_key(place.key);
            self.late_reads.iter().all(|(_, read)| *read != position)
        }
    }

    pub(crate) fn has_late_reads(&self) -> bool {
        !self.late_reads.is_empty()
    }

    #[inline]
    pub(crate) fn ticket(&self, id: SlotId, part: usize) -> Ticket {
        Ticket { connection: self.connection, sequence: id.sequence(part) }
    }

    #[inline]
    pub(crate) fn context<H: LocalEngine>(&mut self, engine: &H) -> Context {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
        Context {
            protocol: self.protocol,
            now: engine.now(),
            chance: self.chance,
            applied: None,
            reply_bytes_max: self.options.reply_bytes_max,
            reply_bytes_used: 0,
        }
    }

    pub(crate) fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) -> Step {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_spoilt = true;
        }
        self.queue.reply(out, |out| failure.write(out));
        Step::Taken
    }

    /// An `EXEC` that cannot be understood ends its transaction all the same.
    fn refuse_arity(&mut self, verb: Verb, out: &mut Vec<u8>) -> Step {
        if verb != Verb::Exec {
            return self.fail(&wrong_arity(verb.name()), out);
        }
        (self.transaction, self.watched) = (None, Vec::new());
        let line = "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
        self.fail(&Failure::line(line), out)
    }

    fn refuse_unknown(&mut self, line: Line<'_>, out: &mut Vec<u8>) -> Step {
        let name = line.word(0);
        // A browser that was tricked into talking to this port speaks HTTP (reliability S9): say nothing, hang up.
        if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") {
            self.is_closing = true;
            return Step::Taken;
        }
        if !self.is_authenticated {
            return self.fail(&NOT_AUTHENTICATED, out);
        }
        let failure = if verb::is_known_to_redis(name) {
            let why =
                verb::why_not_here(name).map_or(", only records: hashes and strings".into(), |why| format!(": {why}"));
            let name = name.to_ascii_uppercase();
            Failure::unsupported(format!("Shardine has no {}{why}", name.escape_ascii()))
        } else {
            unknown(line)
        };
        self.fail(&failure, out)
    }
}

/// As Redis says it, with as much of the words as it quotes.
fn unknown(line: Line<'_>) -> Failure {
    const QUOTED_BYTES_MAX: usize = 128;
    // Redis prints them as C strings, which end at a zero.
    let quoted = |word: &[u8], most: usize| -> Vec<u8> {
        let end = memchr::memchr(0, word).unwrap_or(word.len()).min(most);
        word[..end].to_vec()
    };
    let mut args = Vec::new();
    for word in line.words(1) {
        if args.len() >= QUOTED_BYTES_MAX {
            break;
        }
        let shown = quoted(word, QUOTED_BYTES_MAX - args.len());
        args.extend([b"'", &shown[..], b"' "].concat());
    }
    let name = quoted(line.word(0), QUOTED_BYTES_MAX);
    Failure::line([b"ERR unknown command '", &name[..], b"', with args beginning with: ", &args[..]].concat())
}
