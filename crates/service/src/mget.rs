//! Several reads at once. Each answer is a copy of its record, so what one request may hold has a limit: large records are asked for
//! a few at a time, and no more once the limit is reached.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use shardine_model::{ErrorCode, RowKeyBuf, Table, limits};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::meaning::{got, show, too_much};
use crate::query::{Get, Got};
use crate::record_service::{Effect, Receiver, RecordService, receive};

/// Records that are asked for before one of them was seen.
const FIRST_ROWS: usize = 64;

/// Bytes of records that are under way at once, if they are as large as those before.
const UNDER_WAY_BYTES: usize = 2 * limits::RECORD_BYTES_MAX;

/// A record up to this size may be asked for again and again.
const SMALL_BYTES: usize = 16 << 10;

struct Sent {
    number: usize,
    get: Get,
    table: Arc<Table>,
    row: RowKeyBuf,
    receiver: Receiver,
}

/// What was learned of the records so far.
#[derive(Default)]
struct Seen {
    sizes: BTreeMap<RowKeyBuf, usize>,
    largest: usize,
    total: usize,
}

impl Seen {
    fn note(&mut self, row: RowKeyBuf, bytes: usize) {
        self.largest = self.largest.max(bytes);
        self.total += bytes;
        self.sizes.insert(row, bytes);
    }

    fn rows_at_once(&self) -> usize {
        match self.sizes.is_empty() {
            true => FIRST_ROWS,
            false => (UNDER_WAY_BYTES / self.largest.max(1)).clamp(1, crate::MGET_ROWS_MAX),
        }
    }

    /// Whether a row may be asked for beside these.
    fn may_join(&self, row: &RowKeyBuf, beside: &BTreeSet<RowKeyBuf>) -> bool {
        !beside.contains(row) || self.sizes.get(row).is_some_and(|bytes| *bytes <= SMALL_BYTES)
    }
}

impl RecordService {
    /// Each read has its own result; one key's error does not fail the others (records 33).
    pub async fn mget(&self, gets: Vec<Get>, deadline: Instant) -> Result<Vec<Result<Got, Failure>>, Failure> {
        if gets.len() > crate::MGET_ROWS_MAX {
            let message =
                format!("{} records are asked for at once, the limit is {}", gets.len(), crate::MGET_ROWS_MAX);
            return Err(Failure::new(ErrorCode::TooLarge, message));
        }
        let mut results: Vec<Option<Result<Got, Failure>>> = gets.iter().map(|_| None).collect();
        let mut open: VecDeque<(usize, Get)> = gets.into_iter().enumerate().collect();
        let mut seen = Seen::default();
        while !open.is_empty() {
            for Sent { number, get, table, row, receiver } in self.send_some(&mut open, &seen, &mut results) {
                let response = receive(receiver, Effect::Reads, deadline, &show(&table, &row)).await;
                results[number] = Some(response.and_then(|response| {
                    seen.note(row.clone(), response.row_bytes());
                    match seen.total > limits::REPLY_BYTES_MAX {
                        true => Err(too_much(&table, &row)),
                        false => got(&get, &table, &row, response),
                    }
                }));
            }
        }
        Ok(results.into_iter().map(|result| result.expect("every read was asked, or refused")).collect())
    }

    /// Asks as many of the open reads as may be under way at once, and answers those that cannot be asked.
    fn send_some(
        &self,
        open: &mut VecDeque<(usize, Get)>,
        seen: &Seen,
        results: &mut [Option<Result<Got, Failure>>],
    ) -> Vec<Sent> {
        let catalogue = self.catalogue();
        let (mut sent, mut beside, mut later) = (Vec::new(), BTreeSet::new(), VecDeque::new());
        let rows_max = seen.rows_at_once();
        while let Some((number, get)) = open.pop_front() {
            let (table, row) = match get.check(&catalogue) {
                Ok(found) => found,
                Err(refusal) => {
                    results[number] = Some(Err(Failure::from(refusal)));
                    continue;
                }
            };
            if seen.total > limits::REPLY_BYTES_MAX {
                results[number] = Some(Err(too_much(&table, &row)));
            } else if sent.len() < rows_max && seen.may_join(&row, &beside) {
                beside.insert(row.clone());
                let receiver = self.send_read(get.call(row.clone()));
                sent.push(Sent { number, get, table, row, receiver });
            } else {
                later.push_back((number, get));
            }
        }
        *open = later;
        sent
    }
}
