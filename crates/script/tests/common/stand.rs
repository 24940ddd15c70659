//! A shard without a log, on which programs are run and then applied, as a lane does it.
#![allow(dead_code, reason = "each test uses what it needs of this")]
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use shardine_model::entry::open_commands;
use shardine_model::table::KV;
use shardine_model::{Answer, Catalogue, RowKey, RowKeyBuf, TableId, Timestamp, Version};
use shardine_records::{Lookup, Records, Sink};
use shardine_router::{Program, Step};
use shardine_script::{Limits, Performance, Rows, Stage, Stopped};

pub struct Stand {
    pub records: Records,
    pub stage: Stage,
    pub limits: Limits,
    pub kill: Option<Arc<AtomicBool>>,
    /// Rows that are not at hand.
    pub missing: Vec<RowKeyBuf>,
}

struct Here<'a>(&'a Records, &'a [RowKeyBuf]);

impl Rows for Here<'_> {
    fn catalogue(&self) -> &Catalogue {
        self.0.catalogue()
    }

    fn look(&mut self, row: RowKey<'_>) -> Option<Lookup<'_>> {
        if self.1.iter().any(|missing| missing.as_ref() == row) {
            return None;
        }
        Some(self.0.get(row.position(), row))
    }

    fn floor(&self, table: TableId) -> Version {
        self.0.floor(table)
    }
}

struct Caller(Option<Answer>);

impl Sink for Caller {
    fn answer(&mut self, answer: Answer) {
        self.0 = Some(answer);
    }

    fn not_resident(&mut self, _: &[u8], _: Vec<RowKeyBuf>) {}

    fn dirty(&mut self, _: RowKey<'_>) {}
}

pub const NOW: Timestamp = Timestamp(1_700_000_000_000);

pub fn row(key: &str) -> RowKeyBuf {
    RowKey { table: KV, key: key.as_bytes(), sort: b"" }.to_owned()
}

pub fn script(text: &str, keys: &[&str], args: &[&str]) -> Program {
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().into()).collect();
    let step = Step::Script { text: text.as_bytes().into(), keys: words(keys), args: words(args), reads_only: false };
    Program {
        home: row(keys.first().copied().unwrap_or_default()),
        wanders: keys.is_empty(),
        resp3: false,
        is_transaction: false,
        reads_only: false,
        watched: Vec::new(),
        steps: vec![step],
    }
}

impl Stand {
    pub fn new() -> Self {
        Self {
            records: Records::new(1),
            stage: Stage::new(Arc::default()).unwrap(),
            limits: Limits { steps: 10_000_000, ..Limits::BESIDE },
            kill: None,
            missing: Vec::new(),
        }
    }

    pub fn run(&mut self, program: &Program) -> Result<Performance, Stopped> {
        let mut rows = Here(&self.records, &self.missing);
        self.stage.perform(program, &mut rows, NOW, self.limits, self.kill.as_ref())
    }

    pub fn apply(&mut self, performance: &Performance) -> Option<Answer> {
        let mut entry = Vec::new();
        open_commands(&mut entry, NOW, self.records.epoch());
        performance.writes.with_request(&performance.seen, |request| request.encode(&mut entry));
        let mut caller = Caller(None);
        self.records.apply(&entry, &mut caller).unwrap();
        caller.0
    }

    /// Runs a program where it belongs, and applies what it changes.
    pub fn perform(&mut self, mut program: Program) -> Vec<u8> {
        let performance = loop {
            match self.run(&program) {
                Ok(performance) => break performance,
                // The sets of these tests touch several partitions; a door sends each where it belongs.
                Err(Stopped::Elsewhere(row)) if program.wanders && program.home != row => program.home = row,
                Err(stopped) => return format!("{stopped:?}").into_bytes(),
            }
        };
        if !performance.writes.is_empty() {
            assert!(matches!(self.apply(&performance), Some(Answer::Many(_))), "what was seen still holds");
            for (row, reply) in &performance.writes.after {
                let now = shardine_records::read_reply(self.records.get(row.as_ref().position(), row.as_ref()));
                assert_eq!(&now, reply, "what was foreseen has come");
            }
        }
        performance.reply
    }

    pub fn eval(&mut self, text: &str) -> Vec<u8> {
        self.perform(script(text, &[], &[]))
    }
}
