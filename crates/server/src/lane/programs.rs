//! Programs of this lane's shards: run on the rows as they are, on the lane itself while that takes no longer than others can wait,
//! else beside it; then proposed as one batch that is applied only if what they saw still holds, and run again if it does not.
//! Those of one partition run one after the other (`line`), the next on what the last will have made of the rows; one that is overtaken
//! again and again by other changes has its partition to itself.

mod line;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::SyncSender;

use shardine_host::SeatId;
use shardine_model::{
    Ack, Answer, Catalogue, ChangedFields, ErrorCode, Outcome, Position, Reply, RequestEpoch, RowKey, RowKeyBuf,
    RowView, TableId, Timestamp, Version,
};
use shardine_records::{Lookup, read_reply};
use shardine_resp::wire;
use shardine_router::{Program, Response, RowCall, Step};
use shardine_script::{Limits, Performance, Rows, Stage, Stopped};
use shardine_shard::{Caller, Replica};

use self::line::Line;
use super::core::{Core, Outside};
use crate::exchange::refused;
use crate::scripts_thread::{Asked, Errand, ScriptNews, ScriptsThread};

/// Rounds after which a program that is overtaken has its partition to itself: other changes wait until its own are in the log.
const ROUNDS_AMONG_OTHERS: u32 = 3;
/// Rounds after which it is given up: nothing was done.
const ROUNDS_MAX: u32 = 16;
/// Bytes of a program that is run on the lane: to read a longer one takes longer than others should wait.
const LANE_BYTES_MAX: usize = 64 << 10;
/// Programs that one lane may have under way.
const UNDER_WAY_MAX: usize = 10_000;
/// Scripts that are known to take long, and begin beside the lane at once.
const KNOWN_LONG_MAX: usize = 1_000;

/// The programs of a lane that are under way, and where they are run.
#[derive(Default)]
pub(super) struct Programs {
    runs: BTreeMap<u64, Run>,
    next: u64,
    count: usize,
    beside: Option<ScriptsThread>,
    known_long: BTreeSet<[u8; 20]>,
    /// Who is under way at a partition, and who comes behind.
    lines: BTreeMap<Position, Line>,
    /// Those whose turn has come.
    ready: VecDeque<Run>,
    is_pumping: bool,
}

thread_local! {
    /// Where this lane's programs are run; a lane is a thread.
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
}

impl Programs {
    /// Whether changes and reads of a partition wait for a program.
    #[inline]
    pub fn hold_at(&self, position: Position) -> bool {
        !self.lines.is_empty() && self.lines.get(&position).is_some_and(Line::is_alone)
    }

    pub fn hold(&mut self, position: Position, caller: Caller, call: RowCall) {
        if let Some(line) = self.lines.get_mut(&position) {
            line.hold(caller, call);
        }
    }

    /// Somebody else changes a row of the partition, behind all that is on its way: nobody can say what comes of it yet.
    #[inline]
    pub fn note_change_at(&mut self, position: Position) {
        if !self.lines.is_empty()
            && let Some(line) = self.lines.get_mut(&position)
        {
            line.doubt();
        }
    }
}

struct Run {
    program: Arc<Program>,
    position: Position,
    seat: SeatId,
    caller: Caller,
    /// Rows that had to be waited for, as they were told.
    fetched: BTreeMap<RowKeyBuf, Reply>,
    rounds: u32,
    is_long: bool,
    /// Its changes have been proposed, and it has not been heard what became of them.
    is_in_flight: bool,
    waits: Waits,
}

/// What a run waits for.
enum Waits {
    Nothing,
    /// A row.
    Row(RowKeyBuf),
    /// Its changes to be applied; then this is the reply.
    Commit(Vec<u8>),
    /// A run beside the lane, which may wait for a row itself.
    Beside {
        kill: Arc<AtomicBool>,
        row: Option<(RowKeyBuf, SyncSender<Asked>)>,
    },
}

impl Core {
    /// Begins a program at its position. `None` means that the answer comes later, to the caller.
    pub(super) fn run_program(&mut self, seat: SeatId, program: Program, caller: Caller) -> Option<Response> {
        if self.programs.count >= UNDER_WAY_MAX {
            return Some(refused(ErrorCode::Busy));
        }
        self.programs.count += 1;
        let position = program.home.as_ref().position();
        let is_long =
            program.bytes() > LANE_BYTES_MAX || sums(&program).any(|sum| self.programs.known_long.contains(&sum));
        let (program, fetched) = (Arc::new(program), BTreeMap::new());
        let (rounds, is_in_flight, waits) = (0, false, Waits::Nothing);
        let run = Run { program, position, seat, caller, fetched, rounds, is_long, is_in_flight, waits };
        self.programs.lines.entry(position).or_default().join(run);
        self.begin_next(position);
        self.pump();
        None
    }

    /// Lets the next program of a partition begin, if it may.
    fn begin_next(&mut self, position: Position) {
        let Some(line) = self.programs.lines.get_mut(&position) else { return };
        match line.next() {
            Some(run) => self.programs.ready.push_back(run),
            None if line.is_over() => drop(self.programs.lines.remove(&position)),
            None => {}
        }
    }

    /// Lets those go on whose turn it is, one after the other.
    fn pump(&mut self) {
        if std::mem::replace(&mut self.programs.is_pumping, true) {
            return;
        }
        while let Some(run) = self.programs.ready.pop_front() {
            self.advance(run);
        }
        self.programs.is_pumping = false;
    }

    /// Answers a program, and lets the next one of its partition begin.
    fn finish(&mut self, run: &Run, response: Response) {
        self.programs.count -= 1;
        if let Some(line) = self.programs.lines.get_mut(&run.position) {
            line.leave(run.is_in_flight);
        }
        if !run.is_in_flight {
            self.release(run.position);
        }
        self.begin_next(run.position);
        self.respond_to(run.caller, response);
        self.pump();
    }

    /// Whatever waited for a program that had its partition to itself goes on, in its order.
    fn release(&mut self, position: Position) {
        let Some(line) = self.programs.lines.get_mut(&position) else { return };
        for (caller, call) in line.release() {
            if let Some(response) = self.call_here(call, position, caller) {
                self.respond_to(caller, response);
            }
        }
    }

    /// Runs it as far as it goes.
    fn advance(&mut self, mut run: Run) {
        if run.is_long {
            return self.run_beside(run);
        }
        let Some(replica) = self.host.replica(run.seat) else {
            let response = self.stopped(run.position);
            return self.finish(&run, response);
        };
        let now = replica.stamp();
        let line = self.programs.lines.get(&run.position);
        let (position, fetched) = (run.position, &run.fetched);
        let mut rows = Here { replica, catalogue: &self.catalogue, position, fetched, line, now };
        let performed = STAGE.with_borrow_mut(|stage| {
            let stage = match stage {
                Some(stage) => stage,
                none => none.insert(Stage::new(Arc::default()).ok()?),
            };
            Some(stage.perform(&run.program, &mut rows, now, Limits::LANE, None))
        });
        let Some(performed) = performed else { return self.finish(&run, refused(ErrorCode::Busy)) };
        match performed {
            Ok(performance) => self.settle_run(run, performance),
            Err(Stopped::Missing(row)) => self.fetch(run, row),
            Err(Stopped::TooLong) => {
                if self.programs.known_long.len() >= KNOWN_LONG_MAX {
                    self.programs.known_long.clear();
                }
                self.programs.known_long.extend(sums(&run.program));
                run.is_long = true;
                self.run_beside(run);
            }
            Err(stopped) => self.give_up(&run, stopped),
        }
    }

    fn keep(&mut self, run: Run) -> u64 {
        self.programs.next += 1;
        self.programs.runs.insert(self.programs.next, run);
        self.programs.next
    }

    /// Waits for a row, behind whatever is on its way to it.
    fn fetch(&mut self, mut run: Run, row: RowKeyBuf) {
        let seat = run.seat;
        run.waits = Waits::Row(row.clone());
        let number = self.keep(run);
        self.read_for(number, seat, &row);
    }

    fn read_for(&mut self, number: u64, seat: SeatId, row: &RowKeyBuf) {
        let caller = self.outside.enter(Outside::Program(number));
        self.host.act(seat, |replica, actions| replica.read(caller, row.as_ref(), actions));
    }

    /// Answers what has changed nothing and saw what is; everything else is decided by the log.
    fn settle_run(&mut self, mut run: Run, performance: Performance) {
        let Performance { reply, seen, writes } = performance;
        let is_foreseen = self.programs.lines.get(&run.position).is_some_and(Line::foresees);
        let is_plain = run.fetched.is_empty() && !run.is_long && !is_foreseen;
        let is_current = |replica: &Replica| replica.may_answer_at_once() && is_plain;
        if seen.is_empty() || writes.is_empty() && self.host.replica(run.seat).is_some_and(is_current) {
            return self.finish(&run, Response::Written(reply));
        }
        let (seat, position) = (run.seat, run.position);
        (run.waits, run.is_in_flight) = (Waits::Commit(reply), true);
        let number = self.keep(run);
        let caller = self.outside.enter(Outside::Program(number));
        let catalogue = self.catalogue.version();
        writes.with_request(&seen, |request| {
            self.host.act(seat, |replica, actions| {
                let epoch = RequestEpoch { catalogue, ..replica.records().epoch() };
                replica.submit_with(caller, request, epoch, Ack::default(), actions);
            });
        });
        if let Some(line) = self.programs.lines.get_mut(&position) {
            line.depart(writes.after);
        }
        self.release(position);
        self.begin_next(position);
        self.pump();
    }

    /// The shard has answered a program: with a row, or with what has become of its changes.
    pub(super) fn answer_program(&mut self, number: u64, answer: Answer) {
        let Some(mut run) = self.programs.runs.remove(&number) else { return };
        match (std::mem::replace(&mut run.waits, Waits::Nothing), answer) {
            (Waits::Row(row), Answer::One(reply)) if lookup(&reply).is_some() => {
                run.fetched.insert(row, reply);
                self.programs.ready.push_back(run);
                self.pump();
            }
            (Waits::Beside { kill, row: Some((row, thread)) }, Answer::One(reply)) if lookup(&reply).is_some() => {
                let floor = self.floor(run.seat, row.table);
                let _ = thread.send(Asked { reply, floor });
                self.programs.runs.insert(number, Run { waits: Waits::Beside { kill, row: None }, ..run });
            }
            (Waits::Commit(reply), Answer::Many(_)) => self.finish(&run, Response::Written(reply)),
            (Waits::Commit(_), Answer::ConditionFailed) => {
                run.rounds += 1;
                run.fetched.clear();
                self.programs.note_change_at(run.position);
                match run.rounds < ROUNDS_MAX {
                    true => self.go_again(run),
                    false => self.finish(&run, refused(ErrorCode::Busy)),
                }
            }
            // Why it could not be read, or was not executed: then what it would have made of the rows is not there.
            (_, answer) => {
                self.programs.note_change_at(run.position);
                self.finish(&run, Response::Answer(answer));
            }
        }
    }

    /// It was overtaken: it runs again before those behind it, on what is there then.
    fn go_again(&mut self, run: Run) {
        let position = run.position;
        if let Some(line) = self.programs.lines.get_mut(&position) {
            line.come_back(run);
        }
        self.begin_next(position);
        self.pump();
    }

    fn give_up(&mut self, run: &Run, stopped: Stopped) {
        let line: &[u8] = match stopped {
            Stopped::Elsewhere(row) if run.program.wanders => {
                return self.finish(run, Response::Elsewhere(row));
            }
            Stopped::Elsewhere(_) => {
                b"CROSSSLOT bad_request: a script or transaction touched a key of another partition: give its keys one {tag}"
            }
            Stopped::TooLong | Stopped::Missing(_) => {
                b"BUSY too_large: the script took more steps or memory than it may, nothing was done"
            }
            Stopped::Killed => b"ERR Error running script: Script killed by user with SCRIPT KILL.",
            Stopped::TooMuch => b"ERR too_large: the script or transaction changes more than one entry may hold, nothing was done",
        };
        let mut reply = Vec::new();
        wire::error(&mut reply, line);
        self.finish(run, Response::Written(reply));
    }

    fn floor(&self, seat: SeatId, table: TableId) -> Version {
        self.host.replica(seat).map_or(Version::NEVER, |replica| replica.records().floor(table))
    }

    fn run_beside(&mut self, mut run: Run) {
        let now = self.host.replica(run.seat).map_or(self.time().wall, Replica::stamp);
        let kill = self.exchange.scripts.enter();
        let (program, catalogue) = (Arc::clone(&run.program), Arc::clone(&self.catalogue));
        run.waits = Waits::Beside { kill: Arc::clone(&kill), row: None };
        let number = self.keep(run);
        let inbox = self.exchange.inboxes[self.number].clone();
        let name = format!("scripts-{}", self.number);
        let beside = self.programs.beside.get_or_insert_with(|| ScriptsThread::start(name));
        if !beside.send(Errand { number, program, catalogue, now, kill, inbox })
            && let Some(run) = self.programs.runs.remove(&number)
        {
            self.finish(&run, refused(ErrorCode::Busy));
        }
    }

    /// A run beside the lane wants a row, or is over.
    pub fn script_news(&mut self, number: u64, news: ScriptNews) {
        let Some(mut run) = self.programs.runs.remove(&number) else { return };
        match news {
            ScriptNews::Wants(row, thread) => {
                let found = self.host.replica(run.seat).and_then(|replica| {
                    let found = replica.peek(run.position, row.as_ref())?;
                    Some(Asked { reply: read_reply(found), floor: replica.records().floor(row.table) })
                });
                let Waits::Beside { row: wanted, .. } = &mut run.waits else { return };
                let seat = run.seat;
                match found {
                    Some(asked) => {
                        let _ = thread.send(asked);
                        self.programs.runs.insert(number, run);
                    }
                    None => {
                        *wanted = Some((row.clone(), thread));
                        self.programs.runs.insert(number, run);
                        self.read_for(number, seat, &row);
                    }
                }
            }
            ScriptNews::Ended(Ok(performance)) => self.settle_run(run, *performance),
            ScriptNews::Ended(Err(stopped)) => self.give_up(&run, stopped),
        }
    }
}

/// What scripts of a program go by.
fn sums(program: &Program) -> impl Iterator<Item = [u8; 20]> {
    program.steps.iter().filter_map(|step| match step {
        Step::Script { text, .. } => Some(shardine_resp::digest(text)),
        Step::Function { library, name, .. } => Some(shardine_resp::digest(&[&library[..], b"\0", &name[..]].concat())),
        Step::Command { .. } | Step::Said { .. } => None,
    })
}

/// A row as a reply tells it.
pub(crate) fn lookup(reply: &Reply) -> Option<Lookup<'_>> {
    let Reply { version, sql_version, expires_at, outcome } = reply;
    let (version, sql_version, expires_at) = (*version, *sql_version, *expires_at);
    match outcome {
        Outcome::Done { row: Some(row), .. } => {
            let changed = ChangedFields::ALL;
            Some(Lookup::Live(RowView { version, sql_version, expires_at, changed, fields: row.view() }))
        }
        Outcome::Refused { code: ErrorCode::NotFound, .. } => Some(Lookup::Absent { version, sql_version }),
        Outcome::Done { row: None, .. } | Outcome::Refused { .. } => None,
    }
}

/// The rows of a shard of this lane.
struct Here<'a> {
    replica: &'a Replica,
    catalogue: &'a Catalogue,
    position: Position,
    fetched: &'a BTreeMap<RowKeyBuf, Reply>,
    line: Option<&'a Line>,
    now: Timestamp,
}

impl Rows for Here<'_> {
    fn catalogue(&self) -> &Catalogue {
        self.catalogue
    }

    fn look(&mut self, row: RowKey<'_>) -> Option<Lookup<'_>> {
        if !self.fetched.is_empty()
            && let Some(reply) = self.fetched.get(&row.to_owned())
        {
            return lookup(reply);
        }
        if let Some(found) = self.line.and_then(|line| line.foreseen(row, self.now)) {
            return Some(found);
        }
        self.replica.peek(self.position, row)
    }

    fn floor(&self, table: TableId) -> Version {
        self.replica.records().floor(table)
    }
}
