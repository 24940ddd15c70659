//! Bringing rows into memory before somebody asks for them (write-back 121), page by page: whoever asks sets the pace.
//!
//! Rows come in by the way of every read, so a warm-up competes with clients for SQL like one more client, and can
//! neither overtake a change nor hold up a shard.

use shardine_model::{ErrorCode, Refusal, limits};
use shardine_router::{Response, RowCall, ScanCall, ShardStatus};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::meaning::{answer, show, unexpected};
use crate::order::{RowAddress, find_table};
use crate::record_service::RecordService;

/// Rows to bring in: those named, or, with none named, the next page of the table.
#[derive(Clone, Debug, Default)]
pub struct Warm {
    pub table: String,
    pub rows: Vec<RowAddress>,
    /// 0 means the default.
    pub limit: usize,
    pub cursor: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
pub struct Warmed {
    /// Rows looked at.
    pub rows: u64,
    /// Of these, asked of SQL.
    pub loaded: u64,
    /// Named rows that do not exist.
    pub missing: u64,
    pub next: Option<Vec<u8>>,
    /// Memory is nearly full: nothing was brought in.
    pub is_full: bool,
}

impl Warmed {
    /// How much of the table is behind this page: positions are spread evenly, and a cursor begins with one.
    #[must_use]
    pub fn progress(&self) -> f64 {
        let Some(cursor) = &self.next else { return 1.0 };
        cursor.first_chunk::<8>().map_or(0.0, |bytes| u64::from_be_bytes(*bytes) as f64 / u64::MAX as f64)
    }
}

/// At nine tenths of the limit: above, each row that comes in pushes out one that somebody uses.
fn is_nearly_full(shard: &ShardStatus) -> bool {
    shard.bytes_max > 0 && shard.bytes >= shard.bytes_max / 10 * 9
}

impl RecordService {
    pub async fn warm(&self, warm: Warm, deadline: Instant) -> Result<Warmed, Failure> {
        let table = find_table(&self.catalogue(), &warm.table)?;
        crate::record_service::check_sql(&table)?;
        if warm.rows.len() > crate::WARM_ROWS_MAX {
            let message = format!("{} rows are named at once, the limit is {}", warm.rows.len(), crate::WARM_ROWS_MAX);
            return Err(Failure::from(Refusal::new(ErrorCode::TooLarge, message)));
        }
        let mut warmed = Warmed::default();
        if self.status(deadline).await?.shards.iter().any(is_nearly_full) {
            return Ok(Warmed { next: warm.cursor, is_full: true, ..warmed });
        }
        let rows = if warm.rows.is_empty() {
            let limit = if warm.limit == 0 { crate::WARM_ROWS_MAX } else { warm.limit.min(crate::WARM_ROWS_MAX) };
            let call = ScanCall { table: Some(table.id), limit, cursor: warm.cursor, ..ScanCall::default() };
            let page = match self.ask_reading(RowCall::Scan(call), deadline, &warm.table).await? {
                Response::Page(page) => page,
                other => return Err(unexpected(&other)),
            };
            warmed.next = page.next;
            warmed.rows = page.rows.len() as u64;
            page.rows.into_iter().filter(|row| !row.in_memory).map(|row| row.row).collect()
        } else {
            let rows: Result<Vec<_>, Refusal> =
                warm.rows.iter().map(|row| Ok(row.check(&self.catalogue())?.1)).collect();
            let rows = rows?;
            warmed.rows = rows.len() as u64;
            rows
        };
        debug_assert!(rows.len() <= limits::SCAN_ROWS_MAX, "a page has a limit");
        warmed.loaded = rows.len() as u64;
        // All are asked for before the first is waited for, so that SQL reads many with one statement.
        let asked: Vec<_> = rows.into_iter().map(|row| (row.clone(), self.send(RowCall::Read { row }))).collect();
        for (row, answered) in asked {
            let what = show(&table, &row);
            let reply = answer(crate::record_service::receive_reading(answered, deadline, &what).await?, &what)?;
            if let shardine_model::Answer::One(reply) = reply {
                match reply.refusal() {
                    None => {}
                    Some(ErrorCode::NotFound) => warmed.missing += 1,
                    Some(code) => return Err(Failure::coded(code, &what)),
                }
            }
        }
        Ok(warmed)
    }
}
