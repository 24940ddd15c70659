//! `/metrics`: the node as Prometheus reads it. The text form is small enough to write by hand. Labels are shard
//! numbers and names of tables, never keys, so their count stays bounded (reliability S26). Every name is in
//! `docs/metrics.md`, and a test compares.

mod page;
mod process;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request;
use shardine_router::{CoordStatus, EngineStatus, HistogramStatus, ShardStatus, TableWriteback};
use shardine_service::trouble;

use self::page::{Page, label};
use crate::Door;
use crate::gate::deadline;
use crate::problem::Problem;

const TEXT_FORM: &str = "text/plain; version=0.0.4; charset=utf-8";

#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "Prometheus text", body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(door): State<Door>, parts: request::Parts) -> Result<Response, Problem> {
    let mut status = door.record_service.status(deadline(&parts)).await?;
    let tables = door.record_service.writeback(deadline(&parts)).await?.tables;
    HistogramStatus::join(&mut status.histograms, door.measures.histograms());
    status.errors.extend(door.measures.errors());
    Ok(([(CONTENT_TYPE, TEXT_FORM)], write(&status, &tables)).into_response())
}

/// A measure of something: its name, what it says, and how it is read.
type Gauge<T> = (&'static str, &'static str, fn(&T) -> u64);

const SHARD_GAUGES: [Gauge<ShardStatus>; 9] = [
    ("shardine_shard_records", "Live records in memory.", |shard| shard.records),
    ("shardine_shard_bytes", "Bytes of records in memory.", |shard| shard.bytes),
    ("shardine_shard_bytes_max", "Bytes above which records are evicted; 0 means no limit.", |shard| shard.bytes_max),
    ("shardine_shard_dirty", "Records that SQL does not have yet.", |shard| shard.dirty),
    ("shardine_shard_applied_index", "Last log entry applied.", |shard| shard.applied),
    ("shardine_shard_committed_index", "Last log entry committed.", |shard| shard.committed),
    ("shardine_shard_snapshot_index", "Last log entry in a snapshot.", |shard| shard.snapshot),
    ("shardine_shard_term", "Raft term.", |shard| shard.term),
    ("shardine_shard_up", "1 if the shard has a leader and has not stopped.", |shard| {
        u64::from(shardine_service::serves(shard))
    }),
];

const GROUP_GAUGES: [Gauge<CoordStatus>; 9] = [
    ("shardine_coord_nodes", "Coordination nodes.", |group| group.nodes),
    ("shardine_coord_sessions", "Sessions, connected or not.", |group| group.sessions),
    ("shardine_coord_semaphores", "Semaphores, ephemeral ones included.", |group| group.semaphores),
    ("shardine_coord_waiters", "Acquires that wait.", |group| group.waiters),
    ("shardine_coord_watches", "Watches that stand.", |group| group.watches),
    ("shardine_coord_streams", "Session streams that are open.", |group| group.streams),
    ("shardine_coord_bytes", "Bytes of state.", |group| group.bytes),
    ("shardine_coord_applied_index", "Last log entry applied.", |group| group.applied),
    ("shardine_coord_up", "1 if the group has a leader and has not stopped.", |group| {
        u64::from(group.leader.is_some() && group.stopped.is_none())
    }),
];

const TABLE_GAUGES: [Gauge<TableWriteback>; 3] = [
    ("shardine_writeback_table_dirty_rows", "Rows that SQL does not have yet.", |table| table.dirty_rows),
    ("shardine_writeback_table_dirty_bytes", "Bytes of these rows.", |table| table.dirty_bytes),
    ("shardine_writeback_table_dead_letters", "Rows that SQL does not take.", |table| table.dead_letters),
];

const TABLE_COUNTERS: [Gauge<TableWriteback>; 2] = [
    ("shardine_writeback_table_written_rows_total", "Rows that SQL has taken.", |table| table.written_rows),
    ("shardine_writeback_table_conflicts_total", "Rows that SQL held at another version.", |table| table.conflicts),
];

/// Counters of the engine: its name for one, ours with labels, and what it says.
const COUNTERS: [(&str, &str, &str, &str); 24] = [
    ("reads", "shardine_reads_total", "", "Rows asked of memory by the Redis door."),
    ("read_hits", "shardine_read_hits_total", "", "Of these, live records found in memory."),
    (
        "read_misses",
        "shardine_read_misses_total",
        "",
        "Of these, rows that memory could not answer at once: SQL or the log had to.",
    ),
    ("stale_reads", "shardine_stale_reads_total", "", "Reads that might be old, answered by replicas of this node."),
    ("writes", "shardine_writes_total", "", "Requests of the Redis door through the log."),
    ("calls", "shardine_calls_total", "", "Calls of all doors that a lane has carried out."),
    ("log_entries", "shardine_log_entries_total", "", "Entries written to the log."),
    ("log_writes", "shardine_log_writes_total", "", "Synced writes of the log."),
    ("snapshots", "shardine_snapshots_total", "", "Snapshots written."),
    (
        "snapshots_failed",
        "shardine_snapshots_failed_total",
        "",
        "Snapshots that could not be written, and are tried again.",
    ),
    (
        "replicas_agreed",
        "shardine_replicas_agreed_total",
        "",
        "Comparisons in which a replica here agreed with a majority.",
    ),
    ("replicas_differed", "shardine_replicas_differed_total", "", "Those in which it differed, and was rebuilt."),
    (
        "replicas_undecided",
        "shardine_replicas_undecided_total",
        "",
        "Comparisons led here in which replicas differed and no majority agreed.",
    ),
    (
        "audits_passed",
        "shardine_audits_passed_total",
        "",
        "Looks at all shards together that found every key in one of them.",
    ),
    (
        "audits_failed",
        "shardine_audits_failed_total",
        "",
        "Looks at all shards together that found a hole or an overlap, twice.",
    ),
    ("evictions_memory", "shardine_evictions_total", "{reason=\"memory\"}", "Records that left memory, by the reason."),
    ("evictions_kick", "shardine_evictions_total", "{reason=\"kick\"}", "Records that left memory, by the reason."),
    ("expirations", "shardine_expirations_total", "", "Records whose time to live ended."),
    ("sql_loads", "shardine_sql_loads_total", "", "Questions to SQL for rows that memory lacked."),
    ("sql_flushes", "shardine_sql_flushes_total", "", "Batches of rows given to SQL."),
    ("sql_rows_written", "shardine_sql_rows_written_total", "", "Rows that SQL has taken."),
    ("sql_rows_read", "shardine_sql_rows_read_total", "", "Rows read from SQL, found or not."),
    ("sql_rows_refused", "shardine_sql_rows_refused_total", "", "Rows that SQL has refused."),
    ("sql_jobs_failed", "shardine_sql_jobs_failed_total", "", "Jobs that SQL has failed as a whole."),
];

const HISTOGRAMS: [(&str, &str); 4] = [
    ("request_duration_seconds", "From reading a request to its answer, by door and kind."),
    ("log_sync_duration_seconds", "Synced writes of the log."),
    ("commit_duration_seconds", "From proposing a batch of entries to its being committed."),
    ("sql_statement_duration_seconds", "Work for SQL, from being asked to being done, by kind."),
];

fn write(status: &EngineStatus, tables: &[TableWriteback]) -> String {
    let mut page = Page::default();
    node(&mut page, status, tables);
    page.family("shardine_errors_total", "counter", "Refusals and failures, by door and code.");
    for (door, code, count) in &status.errors {
        page.line(&format!("{{door=\"{door}\",code=\"{code}\"}}"), count);
    }
    for (name, metric, labels, help) in COUNTERS {
        page.family(metric, "counter", help);
        if let Some((_, count)) = status.counters.iter().find(|(known, _)| *known == name) {
            page.line(labels, count);
        }
    }
    for (name, help) in HISTOGRAMS {
        page.family(&format!("shardine_{name}"), "histogram", help);
        for one in status.histograms.iter().filter(|one| one.name == name) {
            page.histogram(one);
        }
    }
    let shard = |shard: &ShardStatus| format!("{{shard=\"{}\"}}", shard.shard);
    page.table("gauge", &SHARD_GAUGES, &status.shards, shard);
    let group = |group: &CoordStatus| format!("{{group=\"{}\"}}", group.group);
    page.table("gauge", &GROUP_GAUGES, &status.coordination, group);
    let table = |table: &TableWriteback| format!("{{table=\"{}\"}}", label(&table.table));
    page.table("gauge", &TABLE_GAUGES, tables, table);
    page.table("counter", &TABLE_COUNTERS, tables, table);
    page.family("shardine_writeback_table_oldest_dirty_seconds", "gauge", "How long the oldest dirty row waits.");
    for it in tables {
        page.line(&table(it), it.oldest_dirty_ms as f64 / 1_000.0);
    }
    process::write(&mut page);
    page.text
}

fn node(page: &mut Page, status: &EngineStatus, tables: &[TableWriteback]) {
    let version = format!("{{version=\"{}\"}}", label(&status.version));
    page.one("shardine_build_info", "gauge", "1, with the version that runs.", &version, 1);
    page.one("shardine_uptime_seconds", "gauge", "Time since start.", "", status.uptime_ms as f64 / 1_000.0);
    let is_well = u8::from(trouble(status, tables).is_empty());
    page.one("shardine_healthy", "gauge", "1 if nothing needs a look; status says what does.", "", is_well);
    let is_believed = u8::from(status.wall_ahead_ms.is_none());
    page.one("shardine_clock_believed", "gauge", "0 while the machine's clock is not believed.", "", is_believed);
    page.one("shardine_lanes", "gauge", "Lanes of this node.", "", status.lanes);
    page.one("shardine_connections", "gauge", "Redis connections.", "", status.connections);
    page.one("shardine_log_bytes", "gauge", "Bytes of the log on disk.", "", status.log_bytes);
    page.family("shardine_writeback_up", "gauge", "1 if SQL can be reached.");
    if let Some(writeback) = &status.writeback {
        page.line("", u8::from(writeback.connected));
    }
    page.family("shardine_writeback_dirty", "gauge", "Records that SQL does not have yet.");
    if let Some(writeback) = &status.writeback {
        page.line("", writeback.dirty);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use shardine_model::{ErrorCode, NodeId};
    use shardine_router::Histogram;

    use super::*;

    fn page() -> String {
        let shard = ShardStatus { records: 7, leader: Some(NodeId(1)), ..ShardStatus::default() };
        let mut histogram = Histogram::default();
        histogram.note(60, 3);
        let status = EngineStatus {
            version: "1\"2".into(),
            shards: vec![shard.clone(), ShardStatus { stopped: Some("disk".into()), ..shard }],
            coordination: vec![CoordStatus { group: 5, sessions: 4, ..CoordStatus::default() }],
            counters: vec![("writes", 3), ("evictions_memory", 4), ("evictions_kick", 5)],
            histograms: vec![HistogramStatus {
                name: "request_duration_seconds",
                labels: vec![("door", "redis"), ("kind", "read")],
                histogram,
            }],
            errors: vec![("http", ErrorCode::Busy, 2)],
            ..EngineStatus::default()
        };
        write(&status, &[TableWriteback { table: "users".into(), dirty_rows: 9, ..Default::default() }])
    }

    #[test]
    fn measures_have_their_lines() {
        let text = page();

        for line in [
            "shardine_writeback_table_dirty_rows{table=\"users\"} 9",
            "shardine_coord_sessions{group=\"5\"} 4",
            "shardine_build_info{version=\"1\\\"2\"} 1",
            "# TYPE shardine_writes_total counter\nshardine_writes_total 3",
            "shardine_shard_up{shard=\"0\"} 1\nshardine_shard_up{shard=\"0\"} 0",
            "shardine_evictions_total{reason=\"memory\"} 4\nshardine_evictions_total{reason=\"kick\"} 5",
            "shardine_errors_total{door=\"http\",code=\"busy\"} 2",
            "shardine_request_duration_seconds_bucket{door=\"redis\",kind=\"read\",le=\"0.00005\"} 0",
            "shardine_request_duration_seconds_bucket{door=\"redis\",kind=\"read\",le=\"0.0001\"} 3",
            "shardine_request_duration_seconds_bucket{door=\"redis\",kind=\"read\",le=\"+Inf\"} 3",
            "shardine_request_duration_seconds_sum{door=\"redis\",kind=\"read\"} 0.00018",
            "shardine_request_duration_seconds_count{door=\"redis\",kind=\"read\"} 3",
        ] {
            assert!(text.contains(&format!("{line}\n")), "no line {line}\n{text}");
        }
    }

    /// What `promtool check metrics` asks for.
    #[test]
    fn names_follow_prometheus_habits() {
        let text = page();
        let types: Vec<(&str, &str)> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        let names: BTreeSet<&str> = types.iter().map(|(name, _)| *name).collect();

        assert_eq!(names.len(), types.len(), "each family is told once");
        for (name, kind) in types {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            let units = ["_ms", "_millis", "_milliseconds", "_us", "_kb", "_mb", "_minutes", "_hours", "_sec"];
            assert!(!units.iter().any(|unit| name.ends_with(unit) || name.contains(&format!("{unit}_"))), "{name}");
            assert!(
                kind == "histogram" || !["_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end)),
                "{name}"
            );
        }
    }

    /// reliability S26: what labels say is numbers, names of tables, and words of our own lists; never a key.
    #[test]
    fn labels_have_few_values() {
        let known =
            ["shard", "group", "table", "door", "kind", "code", "reason", "statement", "version", "lane", "node", "le"];
        let text = page();
        let labelled = text.lines().filter_map(|line| line.split_once('{')?.1.split_once('}'));

        for (labels, _) in labelled {
            for label in labels.split("\",") {
                let (name, _) = label.split_once("=\"").unwrap();
                assert!(known.contains(&name), "{name} is no label that is known to have few values: {labels}");
            }
        }
    }

    /// Names are a promise to those who have dashboards.
    #[test]
    fn the_page_of_names_is_the_page_of_measures() {
        let document = include_str!("../../../docs/metrics.md");
        let text = page();
        let told = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let told: BTreeSet<String> = told.map(str::to_owned).collect();
        let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        let kinds = ["gauge", "counter", "histogram"];
        let rows = rows.filter_map(|(name, rest)| Some((name, *kinds.iter().find(|kind| rest.starts_with(**kind))?)));
        let written: BTreeSet<String> = rows.map(|(name, kind)| format!("{name} {kind}")).collect();

        assert_eq!(told, written);
    }
}
