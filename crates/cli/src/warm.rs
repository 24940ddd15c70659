//! `table warm`: brings rows into memory before somebody asks for them, at a pace.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use shardine_proto::v1;

use crate::address;
use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::progress::Progress;
use crate::show::Output;

/// Rows of one step at most; the server takes no more.
const STEP_ROWS_MAX: u64 = 1_000;

#[derive(Args)]
pub struct WarmArgs {
    name: String,
    /// Rows per second at most
    #[arg(long, default_value_t = 5_000, value_name = "ROWS_PER_S", value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// A file with one key per line (KEY or KEY@SORT) instead of the whole table
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

/// The work so far, and when it began.
struct Walk {
    began: Instant,
    rate: u64,
    rows: u64,
    loaded: u64,
    missing: u64,
    is_full: bool,
}

impl Walk {
    /// Ten steps a second, so that SQL sees an even load.
    fn step_rows(&self) -> u64 {
        (self.rate / 10).clamp(1, STEP_ROWS_MAX)
    }

    /// Counts a step, and waits until the rate allows the next one.
    async fn take(&mut self, reply: &v1::WarmTableReply) {
        self.rows += reply.rows;
        self.loaded += reply.loaded;
        self.missing += reply.missing;
        self.is_full = reply.is_full;
        let due = Duration::from_secs_f64(self.rows as f64 / self.rate as f64);
        tokio::time::sleep(due.saturating_sub(self.began.elapsed())).await;
    }
}

pub async fn run(args: WarmArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let mut walk = Walk { began: Instant::now(), rate: args.rate, rows: 0, loaded: 0, missing: 0, is_full: false };
    let mut progress = Progress::new(output);
    match &args.keys {
        None => warm_table(&mut connection, &args.name, &mut walk, &mut progress).await?,
        Some(file) => {
            let keys = read_keys(file)?;
            warm_keys(&mut connection, &args.name, &keys, &mut walk, &mut progress).await?;
        }
    }
    progress.finish();
    let Walk { rows, loaded, missing, is_full, .. } = walk;
    if is_full {
        output.note("stopped: memory is nearly full, and more would push out what others use");
    }
    output.print(
        || format!("{} rows are in memory, {loaded} of them asked of SQL; {missing} do not exist", rows - missing),
        || json!({ "rows": rows - missing, "loaded": loaded, "missing": missing, "full": is_full }),
    );
    Ok(())
}

async fn warm_table(
    connection: &mut Connection,
    table: &str,
    walk: &mut Walk,
    progress: &mut Progress,
) -> Result<(), Complaint> {
    let mut cursor = Vec::new();
    loop {
        let limit = walk.step_rows() as u32;
        let request = v1::WarmTableRequest { table: table.to_owned(), rows: Vec::new(), limit, cursor };
        let reply =
            connection.tables.warm(request).await.map_err(|status| Complaint::from_status(&status))?.into_inner();
        walk.take(&reply).await;
        let share = (reply.progress * 1_000.0) as u64;
        progress.show(share, Some(1_000), &format!("parts of {table}, {} rows, {} from SQL", walk.rows, walk.loaded));
        if reply.next.is_empty() || walk.is_full {
            return Ok(());
        }
        cursor = reply.next;
    }
}

async fn warm_keys(
    connection: &mut Connection,
    table: &str,
    keys: &[String],
    walk: &mut Walk,
    progress: &mut Progress,
) -> Result<(), Complaint> {
    for step in keys.chunks(walk.step_rows() as usize) {
        let mut rows = Vec::with_capacity(step.len());
        for key in step {
            rows.push(address::row(connection, &format!("{table}:{key}")).await?.1);
        }
        let request = v1::WarmTableRequest { table: table.to_owned(), rows, limit: 0, cursor: Vec::new() };
        let reply =
            connection.tables.warm(request).await.map_err(|status| Complaint::from_status(&status))?.into_inner();
        walk.take(&reply).await;
        progress.show(walk.rows, Some(keys.len() as u64), "keys");
        if walk.is_full {
            return Ok(());
        }
    }
    Ok(())
}

fn read_keys(file: &Path) -> Result<Vec<String>, Complaint> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let what = format!("cannot read {}", file.display());
        Complaint::failed(what, error.to_string(), "--keys FILE with one key per line")
    })?;
    Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}
