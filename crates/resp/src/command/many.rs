//! Commands over several keys: one question per key, each answered by its own shard, gathered into one reply.
//!
//! They are not one moment: another client may see some of an `MSET` before the rest (records 33).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use shardine_model::command::{Batch, BatchItem, BatchMode, Body, Command, Existence};
use shardine_model::{Answer, ErrorCode, Reply, Request, RowKey, Table};
use shardine_router::{LocalEngine, Read, Response};
use smallvec::{SmallVec, smallvec};

use crate::address::{self, ResolvedKey};
use crate::command::change::{self, Order};
use crate::command::read::{self, Ask, Context, Found};
use crate::command::reply_format::{ReplyFormat, failure_of, wrong_arity};
use crate::command::transaction;
use crate::connection::{RespConnection, Step};
use crate::failure::Failure;
use crate::frame::Line;
use crate::verb::Verb;
use crate::waiting::{Progress, Waiting, changed_in, found_in};
use crate::wire;

type Places<'a> = SmallVec<[ResolvedKey<'a>; 2]>;

/// Rows that have been asked for elsewhere, with the part that asked. Each answer is a copy of the row, so one that is named a
/// thousand times is asked for once.
type Asked<'a> = BTreeMap<RowKey<'a>, usize>;

/// The rows that a command names, in and out of transactions. All must be well addressed and complete, or nothing is done.
pub(crate) fn places<'a, H: LocalEngine>(verb: Verb, line: Line<'a>, engine: &H) -> Result<Places<'a>, Failure> {
    let step = verb.keys().step.max(1) as usize;
    if !(line.len() - 1).is_multiple_of(step) {
        return Err(wrong_arity(verb.name()));
    }
    let keys = line.words(1).step_by(step);
    keys.map(|key| address::parse(key, engine.catalogue()).map_err(Failure::from)).collect()
}

pub(crate) fn read<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    match places(verb, line, engine) {
        Err(failure) => connection.fail(&failure, out),
        Ok(places) if verb == Verb::Mget => read_elements(connection, &places, line, engine, out),
        Ok(places) => count_live(connection, &places, engine, out),
    }
}

fn count_live<H: LocalEngine>(
    connection: &mut RespConnection,
    places: &[ResolvedKey<'_>],
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    let mut sum = Sum { counts: Counts::Rows, missing: 0, total: 0, named_again: BTreeMap::new(), failure: None };
    let (id, mut asked) = (connection.queue.next_id(), Asked::new());
    for (part, place) in places.iter().enumerate() {
        match engine.read(place.row()) {
            Read::Live(_) => sum.total += 1,
            Read::Absent { .. } => {}
            Read::Later => match asked.entry(place.row()) {
                Entry::Occupied(first) => *sum.named_again.entry(*first.get()).or_default() += 1,
                Entry::Vacant(first) => {
                    first.insert(part);
                    connection.ask_late(id, part, place, engine);
                    sum.missing += 1;
                }
            },
        }
    }
    if sum.missing == 0 {
        connection.queue.reply(out, |out| wire::integer(out, sum.total));
    } else {
        connection.queue.wait(connection.protocol, Waiting::Sum(Box::new(sum)));
    }
    Step::Taken
}

fn read_elements<H: LocalEngine>(
    connection: &mut RespConnection,
    places: &[ResolvedKey<'_>],
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    let context = connection.context(engine);
    let (id, mut asked) = (connection.queue.next_id(), Asked::new());
    let mut elements = Elements::new(places.len(), context.reply_bytes_max);
    for (part, place) in places.iter().enumerate() {
        let found = match engine.read(place.row()) {
            Read::Live(view) => Found::Live(view),
            Read::Absent { version, sql_version } => Found::Absent { version, sql_version },
            Read::Later => {
                match asked.entry(place.row()) {
                    Entry::Occupied(first) => elements.leave_open_again(*first.get()),
                    Entry::Vacant(first) => {
                        first.insert(part);
                        connection.ask_late(id, part, place, engine);
                        elements.leave_open(part, place.table.clone());
                    }
                }
                continue;
            }
        };
        let ask = Ask { verb: Verb::Mget, line, table: place.typed() };
        elements.write(ask, found, context);
    }
    if elements.missing == 0 {
        connection.queue.reply_bytes(out, elements.finish());
    } else {
        connection.queue.wait(connection.protocol, Waiting::Elements(Box::new(elements)));
    }
    Step::Taken
}

pub(crate) fn change<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    let places = match places(verb, line, engine) {
        Ok(places) => places,
        Err(failure) => return connection.fail(&failure, out),
    };
    if !places.iter().all(|place| connection.may_change(place)) {
        return Step::NotYet;
    }
    if verb == Verb::Msetnx {
        return set_all_or_none(connection, line, &places, engine, out);
    }
    let mut plans: SmallVec<[_; 2]> = SmallVec::new();
    for (index, place) in places.iter().enumerate() {
        match plan_one(Order { verb, line, place, now: engine.now() }, index) {
            Ok(plan) => plans.push(plan),
            Err(failure) => return connection.fail(&failure, out),
        }
    }
    let format = if verb == Verb::Mset { ReplyFormat::Ok } else { ReplyFormat::Changed };
    let waiting = if plans.len() == 1 {
        Waiting::Change(format)
    } else {
        let counts = if verb == Verb::Mset { Counts::Nothing } else { Counts::Changes };
        Waiting::Sum(Box::new(Sum {
            counts,
            missing: plans.len(),
            total: 0,
            named_again: BTreeMap::new(),
            failure: None,
        }))
    };
    let id = connection.queue.wait(connection.protocol, waiting);
    for (part, (command, _)) in plans.into_iter().enumerate() {
        engine.submit(&Request::one(command), connection.ticket(id, part));
    }
    Step::Taken
}

/// `MSETNX`: one batch of one partition, refused as a whole if one of the records exists. Of a key that is named twice the
/// last value counts.
fn set_all_or_none<H: LocalEngine>(
    connection: &mut RespConnection,
    line: Line<'_>,
    places: &[ResolvedKey<'_>],
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    let mut commands: Vec<BatchItem<'_>> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        if places[index + 1..].iter().any(|later| later.row() == place.row()) {
            continue;
        }
        match plan_one(Order { verb: Verb::Msetnx, line, place, now: engine.now() }, index) {
            Ok((command, _)) => {
                commands.push(BatchItem::Change(Command { existence: Existence::Absent, ..command }));
            }
            Err(failure) => return connection.fail(&failure, out),
        }
    }
    if let Err(failure) = transaction::check(commands.iter().map(BatchItem::row), commands.len()) {
        return connection.fail(&failure, out);
    }
    let batch = Batch { mode: BatchMode::AllOrNone, conditions: Vec::new(), commands };
    let id = connection.queue.wait(connection.protocol, Waiting::AllOrNone);
    engine.submit(&Request { origin: None, body: Body::Batch(batch) }, connection.ticket(id, 0));
    Step::Taken
}

/// Whether all of a batch was done.
pub(crate) fn all_or_none(response: &Response) -> Progress {
    let Response::Answer(Answer::Many(replies)) = response else { return Progress::failed(&failure_of(response)) };
    match replies.iter().find_map(Reply::refusal) {
        None => Progress::written(|out| wire::integer(out, 1)),
        Some(ErrorCode::Exists) => Progress::written(|out| wire::integer(out, 0)),
        Some(code) => Progress::failed(&Failure::from(code)),
    }
}

/// The change of the key at `index` among the command's keys.
pub(crate) fn plan_one(order: Order<'_>, index: usize) -> Result<change::Plan<'_>, Failure> {
    match order.verb {
        Verb::Mset | Verb::Msetnx => change::plan_pair(order, order.line.word(2 + 2 * index)),
        _ => change::plan(order),
    }
}

/// What a gathered sum is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Rows that are there.
    Rows,
    /// Records that were changed.
    Changes,
    /// Nothing: the reply is `OK`.
    Nothing,
}

/// Answers of several keys that add up to one number. The first error, if any, is the reply.
pub(crate) struct Sum {
    counts: Counts,
    missing: usize,
    total: i64,
    /// How often the row of a part was named after that part.
    named_again: BTreeMap<usize, i64>,
    failure: Option<Failure>,
}

impl Sum {
    pub(crate) fn counts_rows(&self) -> bool {
        self.counts == Counts::Rows
    }

    pub(crate) fn advance(&mut self, part: usize, response: Response) -> Progress {
        let counted = match self.counts {
            Counts::Rows => found_in(&response).map(|found| i64::from(matches!(found, Found::Live(_)))),
            Counts::Changes | Counts::Nothing => changed_in(&response).map(i64::from),
        };
        match counted {
            Ok(count) => self.total += count * (1 + self.named_again.get(&part).unwrap_or(&0)),
            Err(failure) => self.failure = self.failure.take().or(Some(failure)),
        }
        self.missing -= 1;
        if self.missing > 0 {
            return Progress::Wait;
        }
        match &self.failure {
            Some(failure) => Progress::failed(failure),
            None if self.counts == Counts::Nothing => Progress::written(wire::ok),
            None => Progress::written(|out| wire::integer(out, self.total)),
        }
    }
}

/// The elements of an `MGET`, some of which are still missing. Invariant: an open chunk is followed by another one,
/// so that what is written next does not land in it.
pub(crate) struct Elements {
    chunks: Vec<Vec<u8>>,
    open: Vec<Open>,
    missing: usize,
    bytes: usize,
    bytes_max: usize,
}

/// A part that was asked for elsewhere: its number, where it goes, and the table that it is printed by.
struct Open {
    part: usize,
    chunks: SmallVec<[usize; 1]>,
    table: Option<Arc<Table>>,
}

impl Elements {
    fn new(count: usize, bytes_max: usize) -> Self {
        let mut head = Vec::new();
        wire::array(&mut head, count);
        Self { chunks: vec![head], open: Vec::new(), missing: 0, bytes: 0, bytes_max }
    }

    fn leave_open(&mut self, part: usize, table: Option<Arc<Table>>) {
        let chunk = self.open_chunk();
        self.open.push(Open { part, chunks: smallvec![chunk], table });
        self.missing += 1;
    }

    /// The same row once more.
    fn leave_open_again(&mut self, part: usize) {
        let chunk = self.open_chunk();
        if let Ok(index) = self.open.binary_search_by_key(&part, |open| open.part) {
            self.open[index].chunks.push(chunk);
        }
    }

    fn open_chunk(&mut self) -> usize {
        self.chunks.extend([Vec::new(), Vec::new()]);
        self.chunks.len() - 2
    }

    fn write(&mut self, ask: Ask<'_>, found: Found<'_>, context: Context) {
        self.write_into(self.chunks.len() - 1, |out| write_element(ask, found, context, out));
    }

    /// Once the reply would be too long nothing more is kept of it: all that is left is to wait for what was asked for, so
    /// that it is not taken for the answer to something else.
    fn write_into(&mut self, chunk: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes > self.bytes_max {
            return;
        }
        let before = self.chunks[chunk].len();
        write(&mut self.chunks[chunk]);
        self.bytes += self.chunks[chunk].len() - before;
        if self.bytes > self.bytes_max {
            self.chunks.iter_mut().for_each(|chunk| *chunk = Vec::new());
        }
    }

    fn finish(&mut self) -> Vec<u8> {
        if self.bytes > self.bytes_max {
            return Failure::too_long(self.bytes_max).to_bytes();
        }
        match &mut self.chunks[..] {
            [whole] => std::mem::take(whole),
            chunks => chunks.concat(),
        }
    }

    pub(crate) fn advance(&mut self, part: usize, response: &Response, context: Context) -> Progress {
        let Ok(index) = self.open.binary_search_by_key(&part, |open| open.part) else { return Progress::Wait };
        let (chunks, table) = (std::mem::take(&mut self.open[index].chunks), self.open[index].table.clone());
        for chunk in chunks {
            self.write_into(chunk, |element| match found_in(response) {
                Ok(found) => {
                    let table = table.as_deref().filter(|table| !table.dynamic);
                    write_element(Ask { verb: Verb::Mget, line: Line::EMPTY, table }, found, context, element);
                }
                Err(failure) => failure.write(element),
            });
        }
        self.missing -= 1;
        if self.missing > 0 { Progress::Wait } else { Progress::Reply(self.finish()) }
    }
}

pub(crate) fn write_element(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) {
    if let Err(failure) = read::answer(ask, found, context, out) {
        failure.write(out);
    }
}
