//! The shard behind both engines: entries are applied as soon as they are made, and rows that only SQL could know are not
//! there.

use std::collections::BTreeSet;

use shardine_model::codec::Reader;
use shardine_model::entry::LoadedRow;
use shardine_model::{
    Ack, AckAfter, Answer, Catalogue, Entry, ErrorCode, Refusal, Reply, Request, RequestEpoch, RowKey, RowKeyBuf,
    Table, Timestamp, Version,
};
use shardine_records::{Lookup, Nobody, Records, Sink, read_reply};
use shardine_router::{Call, NodeCall, Response, RowCall, ShardsCall, Switch};

use crate::looks;

pub struct FakeShard {
    pub(crate) records: Records,
    pub now: Timestamp,
    /// SQL answers everything with this.
    pub sql_failure: Option<ErrorCode>,
    /// Rows after which a page ends, whatever was asked for.
    pub page_rows_max: usize,
    pub(crate) suspended: bool,
    pub(crate) executed: u64,
    numbers: BTreeSet<(u64, u64)>,
}

impl FakeShard {
    /// A shard with the table `kv`.
    #[must_use]
    pub fn new(records: Records) -> Self {
        let numbers = BTreeSet::new();
        let (now, page_rows_max) = (Timestamp(1_000_000), usize::MAX);
        let mut shard = Self { records, now, sql_failure: None, page_rows_max, suspended: false, executed: 0, numbers };
        shard.define(Table::kv());
        shard
    }

    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        self.records.catalogue()
    }

    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    pub fn define(&mut self, table: Table) {
        self.apply(&Entry::definition(table));
    }

    pub(crate) fn apply(&mut self, entry: &Entry<'_>) {
        self.records.apply(&entry.to_bytes(), &mut Nobody).expect("an entry of our own can be applied");
    }

    /// What it has in memory; a row that only SQL could know is absent.
    #[must_use]
    pub fn get(&self, row: RowKey<'_>) -> Lookup<'_> {
        match self.records.get(row.position(), row) {
            Lookup::NotResident => Lookup::Absent { version: Version::NEVER, sql_version: Version::NEVER },
            found => found,
        }
    }

    #[must_use]
    pub fn read(&self, row: RowKey<'_>) -> Reply {
        read_reply(self.get(row))
    }

    /// Executes an encoded request.
    pub fn execute(&mut self, request: &[u8]) -> Answer {
        self.count(request);
        loop {
            let entry =
                Entry::Commands { proposed_at: self.now, epoch: RequestEpoch::FIRST, requests: request }.to_bytes();
            let mut caller = Caller::default();
            self.records.apply(&entry, &mut caller).expect("what a door encodes can be applied");
            if let Some(answer) = caller.answer {
                return answer;
            }
            assert!(!caller.missing.is_empty(), "a request is answered or misses rows");
            self.load_nothing(&caller.missing);
        }
    }

    /// SQL says that it has no such rows.
    fn load_nothing(&mut self, rows: &[RowKeyBuf]) {
        let rows = rows.iter().map(|row| LoadedRow { row: row.as_ref(), version: Version::NEVER, fields: b"" });
        self.apply(&Entry::Load(rows.collect()));
    }

    /// Repeats of a numbered request do not count.
    fn count(&mut self, request: &[u8]) {
        let request = Request::decode(&mut Reader::new(request)).expect("doors encode what decodes");
        let number = request.origin.map(|origin| (origin.client.0, origin.sequence));
        self.executed += u64::from(number.is_none_or(|number| self.numbers.insert(number)));
    }

    pub(crate) fn dirty_rows(&self) -> Vec<(RowKeyBuf, Version)> {
        let mut rows = Vec::new();
        for segment in 0..self.records.segment_count() {
            self.records.walk_sql_rows(segment, |_, row, view| {
                if view.version != view.sql_version {
                    rows.push((row.to_owned(), view.version));
                }
            });
        }
        rows
    }

    /// SQL takes everything, if it is there.
    fn flush(&mut self) -> Result<(), ErrorCode> {
        if let Some(code) = self.sql_failure {
            return Err(code);
        }
        let rows = self.dirty_rows();
        self.apply(&Entry::Written(rows.iter().map(|(row, version)| (row.as_ref(), *version)).collect()));
        Ok(())
    }

    /// The answer once SQL has the change, or, if it is down, at the deadline.
    fn acknowledged(&mut self, mut answer: Answer, ack: Ack) -> Answer {
        if ack.after != AckAfter::Sql || self.flush().is_err() {
            return answer;
        }
        match &mut answer {
            Answer::One(reply) => reply.sql_version = reply.version,
            Answer::Many(replies) => replies.iter_mut().for_each(|reply| reply.sql_version = reply.version),
            Answer::ConditionFailed | Answer::Failed(_) => {}
        }
        answer
    }
}

impl FakeShard {
    pub fn answer(&mut self, call: Call) -> Response {
        match call {
            Call::Row(call) | Call::Direct(call) => self.answer_row(call),
            Call::Shards(call) => self.answer_shards(&call),
            Call::Table(call) => self.answer_table(call),
            Call::Libraries(_) => Response::Done,
            Call::Node(NodeCall::Status | NodeCall::Cluster) => Response::Status(Box::new(self.status())),
            Call::Node(NodeCall::Routes) => Response::Routes(Box::default()),
            Call::Node(NodeCall::Coord(look)) => looks::coord(&look),
            Call::Node(NodeCall::Operate(order)) => looks::operate(&order),
            Call::Node(NodeCall::Drain { node }) => looks::drain(&node),
            Call::Node(NodeCall::Balance(look)) => looks::balance(&look),
        }
    }

    fn answer_row(&mut self, call: RowCall) -> Response {
        match call {
            RowCall::Read { row } => Response::Answer(Answer::One(self.read(row.as_ref()))),
            RowCall::ReadStale { row, max_age_ms } => {
                Response::Stale { reply: self.read(row.as_ref()), applied: max_age_ms.min(99) }
            }
            RowCall::Submit { request, ack, .. } => {
                let answer = self.execute(&request);
                Response::Answer(self.acknowledged(answer, ack))
            }
            RowCall::Kick { .. } => Response::Done,
            // As a lane answers for one row; for tables it says `Done`.
            RowCall::Flush { .. } => Response::Answer(match self.flush() {
                Ok(()) => Answer::Many(Vec::new()),
                Err(code) => Answer::Failed(code),
            }),
            RowCall::AwaitSql { row, version, .. } => Response::Answer(self.await_sql(row.as_ref(), version)),
            RowCall::RetryDeadLetter { .. } => Response::Answer(Answer::Failed(ErrorCode::BackendUnavailable)),
            RowCall::DiscardDeadLetter { .. } => Response::Answer(Answer::Many(Vec::new())),
            RowCall::Run(program) => self.run(&program),
            RowCall::Explain { row } => Response::Explanation(Box::new(self.explain(&row))),
            RowCall::Scan(scan) => Response::Page(self.scan(&scan)),
            RowCall::Verify(_) => Response::Verified(Box::new(self.verify())),
        }
    }

    fn await_sql(&mut self, row: RowKey<'_>, version: Version) -> Answer {
        let held = self.read(row).version;
        if held.magnitude() < version.magnitude() {
            return Answer::Failed(ErrorCode::VersionMismatch);
        }
        // Nobody waits for SQL longer than they have said.
        self.flush().map_or(Answer::Failed(ErrorCode::Expired), |()| Answer::Many(Vec::new()))
    }

    fn answer_shards(&mut self, call: &ShardsCall) -> Response {
        match call {
            ShardsCall::Count { table } => Response::Count(self.records.live_count(*table)),
            ShardsCall::Clear { table } => {
                self.apply(&Entry::Clear { table: *table });
                Response::Done
            }
            ShardsCall::Flush { .. } => match self.flush() {
                Ok(()) => Response::Done,
                Err(code) => Response::Refused(Refusal::new(code, "SQL is away")),
            },
            ShardsCall::Suspend { shard: None | Some(looks::SHARD), switch } => {
                self.suspended = *switch == Switch::On;
                self.apply(if self.suspended { &Entry::Suspend } else { &Entry::Resume });
                Response::Done
            }
            ShardsCall::Suspend { .. } => {
                Response::Refused(Refusal::new(ErrorCode::NotFound, "there is no such shard"))
            }
            ShardsCall::Writeback => Response::Writeback(Box::new(self.writeback())),
            ShardsCall::DeadLetters { .. } => Response::DeadLetters(self.dead_letters()),
            ShardsCall::RetryDeadLetters { .. } => {
                Response::Refused(Refusal::new(ErrorCode::BackendUnavailable, "SQL is away"))
            }
        }
    }
}

/// Who asked.
#[derive(Default)]
struct Caller {
    answer: Option<Answer>,
    missing: Vec<RowKeyBuf>,
}

impl Sink for Caller {
    fn answer(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    fn not_resident(&mut self, _: &[u8], missing: Vec<RowKeyBuf>) {
        self.missing = missing;
    }

    fn dirty(&mut self, _: RowKey<'_>) {}
}
