//! The clean end of a node: no more requests, then SQL gets what it lacks as long as the limit allows (write-back 116).
//!
//! Nothing depends on it: a row that SQL lacks is in the log, and goes to SQL after the next start. It spares whoever
//! reads the SQL tables a surprise.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use shardine_router::{Call, NodeCall, Response, ShardsCall, TableWriteback};

use crate::exchange::Exchange;
use crate::failover::HAND_OVER_MS;

/// How often progress is told, and SQL asked again after it refused.
const STEP: Duration = Duration::from_millis(100);

/// How long a lane may take to say how it stands; it answers between two turns.
const PATIENCE: Duration = Duration::from_secs(5);

/// Rows on their way to SQL while a node stops.
#[derive(Clone, Copy, Debug)]
pub struct Flushing {
    pub rows_left: u64,
    pub rows_at_first: u64,
}

/// What a stopped node has left undone.
#[derive(Clone, Debug, Default)]
pub struct Stopped {
    /// Tables with rows that SQL does not have, and how many.
    pub dirty: Vec<(String, u64)>,
}

/// Writes dirty rows until there are none, the time is up, or `watch` has seen enough.
pub(crate) fn flush(exchange: &Arc<Exchange>, until: Instant, watch: &mut dyn FnMut(Flushing) -> ControlFlow<()>) {
    let mut answer: Option<Receiver<Response>> = None;
    let mut rows_at_first = None;
    loop {
        let rows_left = rows_left(exchange);
        let rows_at_first = *rows_at_first.get_or_insert(rows_left);
        if rows_left == 0 || Instant::now() >= until {
            return;
        }
        if watch(Flushing { rows_left, rows_at_first }).is_break() {
            return;
        }
        let asked = answer.get_or_insert_with(|| ask(exchange, ShardsCall::Flush { table: None }));
        match asked.recv_timeout(STEP.min(until.saturating_duration_since(Instant::now()))) {
            // Refused by one shard, or done for what was dirty when it was asked: look again, and ask again if need be.
            Ok(Response::Refused(_)) => {
                answer = None;
                std::thread::sleep(STEP);
            }
            Ok(_) => answer = None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Gives every lead to somebody else, and waits until it has it: clients of other nodes notice nothing of the end then.
pub(crate) fn hand_over(exchange: &Arc<Exchange>) {
    let until = Instant::now() + Duration::from_millis(HAND_OVER_MS);
    exchange.hand_over();
    while exchange.leads(PATIENCE) > 0 && Instant::now() < until {
        std::thread::sleep(HAND_OVER_STEP);
        // Something may have come to be led meanwhile.
        exchange.hand_over();
    }
}

/// How often it is looked whether they have.
const HAND_OVER_STEP: Duration = Duration::from_millis(5);

/// What is left, told to the log.
pub(crate) fn report(exchange: &Arc<Exchange>) -> Stopped {
    if rows_left(exchange) == 0 {
        return Stopped::default();
    }
    let tables = match own_writeback(exchange).recv_timeout(PATIENCE) {
        Ok(Response::Writeback(report)) => report.tables,
        Ok(_) | Err(_) => Vec::new(),
    };
    let dirty = tables.into_iter().filter(|table| table.dirty_rows > 0);
    let dirty = dirty.map(|TableWriteback { table, dirty_rows, .. }| {
        tracing::warn!(%table, rows = dirty_rows, "not in SQL yet; the log has them, they follow after the next start");
        (table, dirty_rows)
    });
    Stopped { dirty: dirty.collect() }
}

fn rows_left(exchange: &Arc<Exchange>) -> u64 {
    match ask(exchange, NodeCall::Status).recv_timeout(PATIENCE) {
        Ok(Response::Status(status)) => status.writeback.map_or(0, |writeback| writeback.dirty),
        Ok(_) | Err(_) => 0,
    }
}

fn own_writeback(exchange: &Arc<Exchange>) -> Receiver<Response> {
    let (give, take) = channel();
    exchange.writeback(Box::new(move |response| drop(give.send(response))));
    take
}

fn ask(exchange: &Arc<Exchange>, call: impl Into<Call>) -> Receiver<Response> {
    let (give, take) = channel();
    // Whoever asked may have given up waiting.
    exchange.dispatch(call.into(), Box::new(move |response| drop(give.send(response))));
    take
}
