//! `writeback` and `verify`: how far SQL is behind, what it does not take, and whether it is where memory is.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use shardine_model::ErrorCode;
use shardine_proto::v1;

use crate::address;
use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::progress::Progress;
use crate::show::{self, Output};

#[derive(Args)]
pub struct WritebackArgs {
    #[command(subcommand)]
    command: WritebackCommand,
}

#[derive(Subcommand)]
enum WritebackCommand {
    /// How far SQL is behind, table by table
    #[command(after_help = "Example:\n  shardine writeback status")]
    Status {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Rows that SQL does not take, and what it says
    #[command(after_help = "Example:\n  shardine writeback dead-letters users")]
    DeadLetters {
        /// All tables without one
        table: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Write dead letters again; fails if SQL refuses one
    #[command(
        after_help = "Example:\n  shardine writeback retry users:lili\n  shardine writeback retry users\n  shardine writeback retry"
    )]
    Retry {
        /// table:key, or a table; all dead letters without one
        what: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Give a dead letter up: what SQL holds takes the row's place, and the change is lost
    #[command(after_help = "Example:\n  shardine writeback discard users:lili --yes")]
    Discard {
        /// table:key, or table:key@sort
        key: String,
        /// Do lose the change
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

pub async fn writeback(args: WritebackArgs, output: Output) -> Result<(), Complaint> {
    match args.command {
        WritebackCommand::Status { server } => status(server, output).await,
        WritebackCommand::DeadLetters { table, server } => dead_letters(table, server, output).await,
        WritebackCommand::Retry { what, server } => retry(what, server, output).await,
        WritebackCommand::Discard { key, yes, server } => discard(&key, yes, server, output).await,
    }
}

async fn dead_letters(table: Option<String>, server: ServerArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&server).await?;
    let request = v1::DeadLettersRequest { table: table.unwrap_or_default() };
    let reply = connection.cluster.dead_letters(request).await.map_err(|status| Complaint::from_status(&status))?;
    let letters = reply.into_inner().letters;
    output.print(
        || letters_text(&letters),
        || json!({ "dead_letters": letters.iter().map(letter_json).collect::<Vec<_>>() }),
    );
    Ok(())
}

async fn retry(what: Option<String>, server: ServerArgs, output: Output) -> Result<(), Complaint> {
    use v1::retry_dead_letters_request::Scope;
    let mut connection = Connection::open(&server).await?;
    let scope = match what {
        None => Scope::All(true),
        Some(key) if key.contains(':') => Scope::Row(address::row(&mut connection, &key).await?.1),
        Some(table) => Scope::Table(table),
    };
    let request = v1::RetryDeadLettersRequest { scope: Some(scope) };
    connection.cluster.retry_dead_letters(request).await.map_err(|status| Complaint::from_status(&status))?;
    output.print(|| "SQL has taken them".to_owned(), || json!({ "retried": true }));
    Ok(())
}

/// Losing a change needs the word.
async fn discard(key: &str, yes: bool, server: ServerArgs, output: Output) -> Result<(), Complaint> {
    if !yes {
        let cause = "the change that SQL does not take would be lost";
        return Err(Complaint::misused(format!("{key} was not discarded"), cause, "--yes"));
    }
    let mut connection = Connection::open(&server).await?;
    let (_, row) = address::row(&mut connection, key).await?;
    let request = v1::DiscardDeadLetterRequest { row: Some(row) };
    connection.cluster.discard_dead_letter(request).await.map_err(|status| Complaint::from_status(&status))?;
    output.print(|| format!("discarded; {key} is as SQL has it"), || json!({ "discarded": key }));
    Ok(())
}

fn letter_name(letter: &v1::DeadLetter) -> String {
    letter.row.as_ref().map(show::row).unwrap_or_default()
}

fn letters_text(letters: &[v1::DeadLetter]) -> String {
    let rows = letters.iter().map(|letter| {
        let (version, tries) = (letter.version.to_string(), letter.tries.to_string());
        [letter_name(letter), version, tries, letter.error.clone()]
    });
    show::table(["ROW", "VERSION", "TRIES", "SQL SAYS"], rows.collect())
}

fn letter_json(letter: &v1::DeadLetter) -> Json {
    json!({
        "row": letter_name(letter),
        "version": letter.version,
        "tries": letter.tries,
        "error": letter.error,
        "first_at_ms": letter.first_at_ms,
        "last_at_ms": letter.last_at_ms,
    })
}

async fn status(server: ServerArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&server).await?;
    let reply = connection.cluster.writeback_status(v1::WritebackStatusRequest {}).await;
    let reply = reply.map_err(|status| Complaint::from_status(&status))?.into_inner();
    output.print(|| writeback_text(&reply), || writeback_json(&reply));
    Ok(())
}

fn writeback_text(reply: &v1::WritebackStatusReply) -> String {
    let Some(database) = &reply.database else { return "no SQL behind this node".to_owned() };
    let state = if database.connected { "connected" } else { "NOT CONNECTED" };
    let mut text = format!("{}   {state}   {} rows dirty\n", database.url, database.dirty);
    if !database.last_error.is_empty() {
        text.push_str(&format!("last error, {}\n", show::ago(&database.last_error, database.last_error_ago_ms)));
    }
    for node in &reply.unheard {
        text.push_str(&format!("! node {node} did not answer: what it leads is not counted\n"));
    }
    for table in reply.tables.iter().filter(|table| !table.ahead.is_empty()) {
        text.push_str(&format!("{}: {}\n", table.table, table.ahead));
    }
    let rows = reply.tables.iter().map(|table| {
        let age = format!("{:.1} s", table.oldest_dirty_ms as f64 / 1_000.0);
        [
            table.table.clone(),
            table.dirty_rows.to_string(),
            table.dirty_bytes.to_string(),
            if table.oldest_dirty_ms == 0 { "-".to_owned() } else { age },
            table.written_rows.to_string(),
            format!("{:.1}", table.written_per_second),
            table.dead_letters.to_string(),
            show::ago(&table.last_error, table.last_error_ago_ms),
        ]
    });
    let head = ["TABLE", "DIRTY ROWS", "DIRTY BYTES", "OLDEST", "WRITTEN", "ROWS/S", "DEAD LETTERS", "LAST ERROR"];
    text + "\n" + &show::table(head, rows.collect())
}

fn writeback_json(reply: &v1::WritebackStatusReply) -> Json {
    let word = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let database = reply.database.as_ref().map(|database| {
        json!({
            "url": database.url,
            "connected": database.connected,
            "dirty": database.dirty,
            "last_error": word(&database.last_error),
            "last_error_ago_ms": (!database.last_error.is_empty()).then_some(database.last_error_ago_ms),
            "tables_ahead": database.tables_ahead,
        })
    });
    let tables = reply.tables.iter().map(|table| {
        json!({
            "table": table.table,
            "dirty_rows": table.dirty_rows,
            "dirty_bytes": table.dirty_bytes,
            "oldest_dirty_ms": table.oldest_dirty_ms,
            "paused_ms": table.paused_ms,
            "conflicts": table.conflicts,
            "dead_letters": table.dead_letters,
            "written_rows": table.written_rows,
            "written_per_second": table.written_per_second,
            "last_error": word(&table.last_error),
            "last_error_ago_ms": (!table.last_error.is_empty()).then_some(table.last_error_ago_ms),
            "ahead": word(&table.ahead),
        })
    });
    json!({ "database": database, "tables": tables.collect::<Vec<_>>(), "unheard": reply.unheard })
}

#[derive(Args)]
pub struct VerifyArgs {
    /// All tables that live in SQL without one
    table: Option<String>,
    /// Rows compared at a time
    #[arg(long, default_value_t = 1_000)]
    page: u32,
    #[command(flatten)]
    server: ServerArgs,
}

/// What was found in one table.
#[derive(Default)]
struct Tally {
    equal: u64,
    dirty: u64,
    not_in_memory: u64,
    changing: u64,
    different: u64,
}

impl Tally {
    fn rows(&self) -> u64 {
        self.equal + self.dirty + self.not_in_memory + self.changing + self.different
    }
}

/// Differences are printed as they are found, the sums at the end.
pub async fn verify(args: VerifyArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let tables = match args.table {
        Some(table) => vec![table],
        None => sql_tables(&mut connection).await?,
    };
    let mut sums = Vec::new();
    let mut progress = Progress::new(output);
    for table in tables {
        let tally = verify_table(&mut connection, &table, args.page, &mut progress, output).await?;
        sums.push((table, tally));
    }
    progress.finish();
    output.print(|| sums_text(&sums), || sums_json(&sums));
    match sums.iter().map(|(_, tally)| tally.different).sum::<u64>() {
        0 => Ok(()),
        different => Err(Complaint::failed(
            format!("{different} rows differ between memory and SQL"),
            "SQL was changed behind Shardine's back, restored, or has lost rows",
            "docs/sql.md, \"Comparing\"",
        )
        .coded(ErrorCode::VersionMismatch)),
    }
}

async fn sql_tables(connection: &mut Connection) -> Result<Vec<String>, Complaint> {
    let reply =
        connection.tables.list(v1::ListTablesRequest {}).await.map_err(|status| Complaint::from_status(&status))?;
    let tables = reply.into_inner().tables.into_iter().filter(|table| table.backing() == v1::Backing::Sql);
    Ok(tables.map(|table| table.name).collect())
}

async fn verify_table(
    connection: &mut Connection,
    table: &str,
    limit: u32,
    progress: &mut Progress,
    output: Output,
) -> Result<Tally, Complaint> {
    let mut tally = Tally::default();
    let mut cursor = Vec::new();
    loop {
        let request = v1::VerifyRequest { table: table.to_owned(), limit, cursor };
        let page =
            connection.cluster.verify(request).await.map_err(|status| Complaint::from_status(&status))?.into_inner();
        tally.equal += page.equal;
        tally.dirty += page.dirty;
        tally.not_in_memory += page.not_in_memory;
        tally.changing += page.changing;
        tally.different += page.differences.len() as u64;
        if !page.differences.is_empty() {
            progress.finish();
        }
        for difference in &page.differences {
            output.print(|| difference_text(difference), || difference_json(difference));
        }
        let share = (page.progress * 1_000.0) as u64;
        progress.show(share, Some(1_000), &format!("parts of {table}, {} rows", tally.rows()));
        if page.next.is_empty() {
            return Ok(tally);
        }
        cursor = page.next;
    }
}

fn kind(difference: &v1::Difference) -> &'static str {
    match difference.kind() {
        v1::DifferenceKind::Missing => "missing",
        v1::DifferenceKind::Content => "content",
        v1::DifferenceKind::Older => "older",
        v1::DifferenceKind::Newer => "newer",
        v1::DifferenceKind::Unfit => "unfit",
        v1::DifferenceKind::Unspecified => "unknown",
    }
}

fn name(difference: &v1::Difference) -> String {
    difference.row.as_ref().map(show::row).unwrap_or_default()
}

fn difference_text(difference: &v1::Difference) -> String {
    let (memory, sql) = (difference.memory_version, difference.sql_version);
    let told = match difference.kind() {
        v1::DifferenceKind::Missing => format!("SQL does not have version {memory}"),
        v1::DifferenceKind::Content => format!("SQL has other values under version {memory}"),
        v1::DifferenceKind::Older => format!("SQL has version {sql}, memory {memory}"),
        v1::DifferenceKind::Newer => format!("SQL has version {sql}, memory only {memory}"),
        v1::DifferenceKind::Unfit | v1::DifferenceKind::Unspecified => difference.message.clone(),
    };
    format!("{}  {}  {told}", name(difference), kind(difference))
}

fn difference_json(difference: &v1::Difference) -> Json {
    json!({
        "row": name(difference),
        "kind": kind(difference),
        "memory_version": difference.memory_version,
        "sql_version": difference.sql_version,
        "message": difference.message,
    })
}

fn sums_text(sums: &[(String, Tally)]) -> String {
    let rows = sums.iter().map(|(table, tally)| {
        let numbers = [tally.equal, tally.dirty, tally.not_in_memory, tally.changing, tally.different];
        let [equal, dirty, away, changing, different] = numbers.map(|number| number.to_string());
        [table.clone(), equal, dirty, away, changing, different]
    });
    show::table(["TABLE", "EQUAL", "DIRTY", "NOT IN MEMORY", "CHANGING", "DIFFERENT"], rows.collect())
}

fn sums_json(sums: &[(String, Tally)]) -> Json {
    let tables = sums.iter().map(|(table, tally)| {
        json!({
            "table": table,
            "equal": tally.equal,
            "dirty": tally.dirty,
            "not_in_memory": tally.not_in_memory,
            "changing": tally.changing,
            "different": tally.different,
        })
    });
    json!({ "tables": tables.collect::<Vec<_>>() })
}
