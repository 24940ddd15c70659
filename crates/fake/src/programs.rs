//! Programs: run on the shard's records, and executed at once.

use std::cell::RefCell;
use std::sync::Arc;

use shardine_model::{Answer, Catalogue, Entry, ErrorCode, Refusal, RowKey, TableId, Version};
use shardine_records::{Lookup, Records};
use shardine_router::{Program, Response};
use shardine_script::{Limits, Rows, Stage, Stopped};

use crate::shard::FakeShard;

thread_local! {
    static STAGE: RefCell<Option<Stage>> = const { RefCell::new(None) };
}

struct Here<'a>(&'a Records);

impl Rows for Here<'_> {
    fn catalogue(&self) -> &Catalogue {
        self.0.catalogue()
    }

    fn look(&mut self, row: RowKey<'_>) -> Option<Lookup<'_>> {
        Some(self.0.get(row.position(), row))
    }

    fn floor(&self, table: TableId) -> Version {
        self.0.floor(table)
    }
}

impl FakeShard {
    pub(crate) fn run(&mut self, program: &Program) -> Response {
        let now = self.now.max(self.records.clock());
        // What is over is gone before anybody looks.
        let over: Vec<_> = self.records.due_expiries(now).map(RowKey::to_owned).collect();
        self.apply(&Entry::Expire { at: now, rows: over.iter().map(|row| row.as_ref()).collect() });
        let performed = STAGE.with_borrow_mut(|stage| {
            let stage = stage.get_or_insert_with(|| Stage::new(Arc::default()).expect("there is memory"));
            stage.perform(program, &mut Here(&self.records), now, Limits::BESIDE, None)
        });
        match performed {
            Ok(performance) => {
                let mut bytes = Vec::new();
                performance.writes.with_request(&performance.seen, |request| request.encode(&mut bytes));
                match performance.writes.is_empty() || matches!(self.execute(&bytes), Answer::Many(_)) {
                    true => Response::Written(performance.reply),
                    false => Response::Answer(Answer::Failed(ErrorCode::Internal)),
                }
            }
            Err(Stopped::Elsewhere(row)) if program.wanders => Response::Elsewhere(row),
            Err(stopped) => Response::Refused(Refusal::new(ErrorCode::BadRequest, format!("{stopped:?}"))),
        }
    }
}
