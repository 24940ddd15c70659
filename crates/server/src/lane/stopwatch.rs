//! How long commands of the Redis door take, from the turn that read them to the end of the turn that answered.
//!
//! The clock is read twice a turn, never per command. What a connection asks for in one turn began together, and is remembered
//! in one place of a small table; where two meet in one place, the older is not counted, so that many connections, or one that
//! asks again before it is answered, cost samples and not time.

use std::collections::BTreeMap;

use shardine_model::ErrorCode;
use shardine_router::{Histogram, HistogramStatus, Response, Ticket};
use shardine_writeback::{Job, JobId};

/// What a command is to the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A row that memory answers at once.
    Read = 0,
    /// A request through the log.
    Write = 1,
    /// Everything else that is answered later: cold rows, scans, other lanes.
    Other = 2,
}

const NAMES: [&str; 3] = ["read", "write", "other"];

/// A power of two, some times the connections that are usually served at once.
const PLACES: usize = 1_024;

/// Codes are small numbers; those beyond have no place here.
const CODES: usize = 64;

/// Commands of one kind that a connection brought in one turn. Parts of them may be answered in any order.
#[derive(Clone, Copy)]
struct Begun {
    connection: u64,
    first: u64,
    last: u64,
    unanswered: u32,
    at_us: u64,
    kind: Kind,
}

impl Begun {
    #[inline]
    fn goes_on_with(&self, ticket: Ticket, at_us: u64, kind: Kind) -> bool {
        (self.connection, self.at_us, self.kind) == (ticket.connection, at_us, kind) && self.last <= ticket.sequence
    }

    #[inline]
    fn holds(&self, ticket: Ticket) -> bool {
        let is_within = (self.first..=self.last).contains(&ticket.sequence);
        self.connection == ticket.connection && is_within && self.unanswered > 0
    }
}

/// Commands of one kind that were read in one turn and answered in this one.
struct Ended {
    kind: Kind,
    begun_us: u64,
    times: u64,
}

pub(crate) struct Stopwatch {
    turn_us: u64,
    reads_before: u64,
    begun: Box<[Option<Begun>]>,
    ended: Vec<Ended>,
    took: [Histogram; 3],
    log_syncs: Histogram,
    commits: Histogram,
    batch_us: u64,
    /// Jobs of SQL under way: what they are, and since when.
    sql_begun: BTreeMap<JobId, (&'static str, u64)>,
    sql_took: BTreeMap<&'static str, Histogram>,
    errors: [u64; CODES],
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self {
            turn_us: 0,
            reads_before: 0,
            begun: vec![None; PLACES].into_boxed_slice(),
            ended: Vec::new(),
            took: Default::default(),
            log_syncs: Histogram::default(),
            commits: Histogram::default(),
            batch_us: 0,
            sql_begun: BTreeMap::new(),
            sql_took: BTreeMap::new(),
            errors: [0; CODES],
        }
    }
}

impl Stopwatch {
    pub fn begin_turn(&mut self, now_us: u64) {
        self.turn_us = now_us;
    }

    /// When this turn began.
    pub fn turn_us(&self) -> u64 {
        self.turn_us
    }

    #[inline]
    pub fn begin(&mut self, ticket: Ticket, kind: Kind) {
        let place = &mut self.begun[place_of(ticket)];
        if let Some(begun) = place
            && begun.goes_on_with(ticket, self.turn_us, kind)
        {
            begun.last = ticket.sequence;
            begun.unanswered += 1;
            return;
        }
        let (Ticket { connection, sequence }, at_us) = (ticket, self.turn_us);
        *place = Some(Begun { connection, first: sequence, last: sequence, unanswered: 1, at_us, kind });
    }

    #[inline]
    pub fn end(&mut self, ticket: Ticket, response: &Response) {
        if let Some(code) = response.code()
            && let Some(count) = self.errors.get_mut(code as usize)
        {
            *count += 1;
        }
        let Some(begun) = &mut self.begun[place_of(ticket)] else { return };
        if !begun.holds(ticket) {
            return;
        }
        begun.unanswered -= 1;
        match self.ended.last_mut() {
            Some(last) if (last.kind, last.begun_us) == (begun.kind, begun.at_us) => last.times += 1,
            Some(_) | None => self.ended.push(Ended { kind: begun.kind, begun_us: begun.at_us, times: 1 }),
        }
    }

    /// Everything answered in this turn has left. `reads` is how many memory has answered so far.
    pub fn end_turn(&mut self, now_us: u64, reads: u64) {
        let read = reads - std::mem::replace(&mut self.reads_before, reads);
        if read > 0 {
            self.took[Kind::Read as usize].note(now_us.saturating_sub(self.turn_us), read);
        }
        for Ended { kind, begun_us, times } in self.ended.drain(..) {
            self.took[kind as usize].note(now_us.saturating_sub(begun_us), times);
        }
    }

    pub fn begin_batch(&mut self) {
        self.batch_us = self.turn_us;
    }

    /// A batch is on disk: the sync took so long, and the whole way from the proposal at least as long.
    pub fn end_batch(&mut self, sync: std::time::Duration) {
        let sync_us = u64::try_from(sync.as_micros()).unwrap_or(u64::MAX);
        self.log_syncs.note(sync_us, 1);
        self.commits.note(self.turn_us.saturating_sub(self.batch_us).max(sync_us), 1);
    }

    pub fn begin_sql(&mut self, job: &Job) {
        let kind = match job {
            Job::Load(_) => "load",
            Job::Flush(_) => "write",
            Job::Scan(_) => "scan",
            Job::Purge(_) => "purge",
            _ => "schema",
        };
        self.sql_begun.insert(job.ticket(), (kind, self.turn_us));
    }

    pub fn end_sql(&mut self, job: JobId) {
        if let Some((kind, begun_us)) = self.sql_begun.remove(&job) {
            self.sql_took.entry(kind).or_default().note(self.turn_us.saturating_sub(begun_us), 1);
        }
    }

    pub fn histograms(&self) -> Vec<HistogramStatus> {
        let of = |name, labels, histogram: &Histogram| HistogramStatus { name, labels, histogram: histogram.clone() };
        let commands = NAMES
            .iter()
            .zip(&self.took)
            .map(|(kind, took)| of("request_duration_seconds", vec![("door", "redis"), ("kind", *kind)], took));
        let log = [
            of("log_sync_duration_seconds", Vec::new(), &self.log_syncs),
            of("commit_duration_seconds", Vec::new(), &self.commits),
        ];
        let sql =
            self.sql_took.iter().map(|(kind, took)| of("sql_statement_duration_seconds", vec![("kind", *kind)], took));
        commands.chain(log).chain(sql).collect()
    }

    pub fn errors(&self) -> Vec<(ErrorCode, u64)> {
        ErrorCode::ALL.iter().map(|code| (*code, self.errors[*code as usize])).filter(|(_, count)| *count > 0).collect()
    }
}

#[inline]
fn place_of(ticket: Ticket) -> usize {
    (ticket.connection.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use shardine_model::Refusal;

    use super::*;

    fn counts(watch: &Stopwatch) -> Vec<(&'static str, u64, u64)> {
        let named = watch.histograms().into_iter();
        named
            .map(|it| {
                (
                    it.labels.last().map_or(it.name, |(_, kind)| kind),
                    it.histogram.cumulative()[18],
                    it.histogram.sum_us(),
                )
            })
            .collect()
    }

    #[test]
    fn every_command_of_a_pipeline_is_counted_in_whatever_order_shards_answer() {
        let mut watch = Stopwatch::default();
        let ticket = |number: u64| Ticket { connection: 7, sequence: number << 20 };
        watch.begin_turn(1_000);
        (0..16).for_each(|number| watch.begin(ticket(number), Kind::Write));
        watch.begin_turn(2_000);
        (0..16).rev().for_each(|number| watch.end(ticket(number), &Response::Done));
        watch.end(ticket(3), &Response::Done);
        watch.end_turn(2_000, 0);

        assert_eq!(&counts(&watch)[..3], [("read", 0, 0), ("write", 16, 16_000), ("other", 0, 0)]);
    }

    #[test]
    fn a_command_takes_from_its_turn_to_the_end_of_its_answer_s() {
        let mut watch = Stopwatch::default();
        let ticket = |connection| Ticket { connection, sequence: 7 };
        watch.begin_turn(1_000);
        watch.begin(ticket(1), Kind::Write);
        watch.begin(ticket(2), Kind::Other);
        watch.end_turn(1_100, 5);
        watch.begin_turn(3_000);
        watch.end(ticket(1), &Response::Done);
        watch.end(ticket(1), &Response::Done);
        watch.end(ticket(2), &Response::Refused(Refusal::new(ErrorCode::Busy, "")));
        watch.end_turn(3_050, 5);

        assert_eq!(&counts(&watch)[..3], [("read", 5, 500), ("write", 1, 2_050), ("other", 1, 2_050)]);
        assert_eq!(watch.errors(), [(ErrorCode::Busy, 1)]);
    }
}
