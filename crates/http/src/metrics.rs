//! `/metrics`: the status as Prometheus reads it. The text form is small enough to write by hand. Labels are shard
//! numbers and names of tables, never keys, so their count stays bounded (reliability S26).

use std::fmt::{Display, Write};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request;
use shardine_router::{CoordStatus, EngineStatus, ShardStatus, TableWriteback};

use crate::Door;
use crate::gate::deadline;
use crate::problem::Problem;

const TEXT_FORM: &str = "text/plain; version=0.0.4; charset=utf-8";

#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "Prometheus text", content_type = "text/plain")))]
pub(crate) async fn metrics(State(door): State<Door>, parts: request::Parts) -> Result<Response, Problem> {
    let status = door.record_service.status(deadline(&parts)).await?;
    let tables = door.record_service.writeback(deadline(&parts)).await?.tables;
    Ok(([(CONTENT_TYPE, TEXT_FORM)], write(&status, &tables)).into_response())
}

/// A measure of one shard: its name, what it says, and how it is read.
type Gauge = (&'static str, &'static str, fn(&ShardStatus) -> u64);

const SHARD_GAUGES: [Gauge; 8] = [
    ("shardine_shard_records", "Live records in memory.", |shard| shard.records),
    ("shardine_shard_bytes", "Bytes of records in memory.", |shard| shard.bytes),
    ("shardine_shard_dirty", "Records that SQL does not have yet.", |shard| shard.dirty),
    ("shardine_shard_applied_index", "Last log entry applied.", |shard| shard.applied),
    ("shardine_shard_committed_index", "Last log entry committed.", |shard| shard.committed),
    ("shardine_shard_snapshot_index", "Last log entry in a snapshot.", |shard| shard.snapshot),
    ("shardine_shard_term", "Raft term.", |shard| shard.term),
    ("shardine_shard_up", "1 if the shard has a leader and has not stopped.", |shard| {
        u64::from(shard.leader.is_some() && shard.stopped.is_none())
    }),
];

/// A measure of one coordination group.
type GroupGauge = (&'static str, &'static str, fn(&CoordStatus) -> u64);

const GROUP_GAUGES: [GroupGauge; 9] = [
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

/// A measure of one table's way to SQL.
type TableGauge = (&'static str, &'static str, fn(&TableWriteback) -> u64);

const TABLE_GAUGES: [TableGauge; 5] = [
    ("shardine_writeback_table_dirty_rows", "Rows that SQL does not have yet.", |table| table.dirty_rows),
    ("shardine_writeback_table_dirty_bytes", "Bytes of these rows.", |table| table.dirty_bytes),
    ("shardine_writeback_table_oldest_dirty_ms", "How long the oldest of them waits.", |table| table.oldest_dirty_ms),
    ("shardine_writeback_table_written_rows", "Rows that SQL has taken since start.", |table| table.written_rows),
    ("shardine_writeback_table_dead_letters", "Rows that SQL does not take.", |table| table.dead_letters),
];

fn write(status: &EngineStatus, tables: &[TableWriteback]) -> String {
    let mut page = Page::default();
    let version = escape(&status.version);
    page.one("shardine_info", "gauge", "The version that runs.", &format!("{{version=\"{version}\"}}"), 1);
    let uptime = status.uptime_ms as f64 / 1_000.0;
    page.one("shardine_uptime_seconds", "gauge", "Time since start.", "", uptime);
    page.one("shardine_lanes", "gauge", "Lanes of this node.", "", status.lanes);
    page.one("shardine_connections", "gauge", "Client connections.", "", status.connections);
    page.one("shardine_log_bytes", "gauge", "Bytes of the log on disk.", "", status.log_bytes);
    for (name, help, read) in SHARD_GAUGES {
        page.head(name, "gauge", help);
        for shard in &status.shards {
            page.line(name, &format!("{{shard=\"{}\"}}", shard.shard), read(shard));
        }
    }
    for (name, help, read) in GROUP_GAUGES {
        page.head(name, "gauge", help);
        for group in &status.coordination {
            page.line(name, &format!("{{group=\"{}\"}}", group.group), read(group));
        }
    }
    if let Some(writeback) = &status.writeback {
        let up = u8::from(writeback.connected);
        page.one("shardine_writeback_up", "gauge", "1 if SQL can be reached.", "", up);
        page.one("shardine_writeback_dirty", "gauge", "Records that SQL does not have yet.", "", writeback.dirty);
    }
    for (name, help, read) in TABLE_GAUGES {
        page.head(name, "gauge", help);
        for table in tables {
            page.line(name, &format!("{{table=\"{}\"}}", escape(&table.table)), read(table));
        }
    }
    for (name, count) in &status.counters {
        page.one(&format!("shardine_{name}_total"), "counter", "Counted since start.", "", count);
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn one(&mut self, name: &str, kind: &str, help: &str, labels: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, labels, value);
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes every line");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        writeln!(self.text, "{name}{labels} {value}").expect("a string takes every line");
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use shardine_model::NodeId;

    use super::*;

    #[test]
    fn every_measure_has_help_type_and_lines() {
        let shard = ShardStatus { records: 7, leader: Some(NodeId(1)), ..ShardStatus::default() };
        let status = EngineStatus {
            version: "1\"2".into(),
            shards: vec![shard.clone(), ShardStatus { stopped: Some("disk".into()), ..shard }],
            coordination: vec![CoordStatus { group: 5, sessions: 4, ..CoordStatus::default() }],
            counters: vec![("commands", 3)],
            ..EngineStatus::default()
        };

        let text = write(&status, &[TableWriteback { table: "users".into(), dirty_rows: 9, ..Default::default() }]);

        assert!(text.contains("shardine_writeback_table_dirty_rows{table=\"users\"} 9\n"));
        assert!(text.contains("# TYPE shardine_coord_sessions gauge\nshardine_coord_sessions{group=\"5\"} 4\n"));
        assert!(text.contains("shardine_coord_up{group=\"5\"} 0\n"));
        assert!(text.contains("shardine_info{version=\"1\\\"2\"} 1\n"));
        assert!(text.contains("# TYPE shardine_shard_records gauge\nshardine_shard_records{shard=\"0\"} 7\n"));
        assert!(text.contains("# TYPE shardine_commands_total counter\nshardine_commands_total 3\n"));
        assert!(text.contains("shardine_shard_up{shard=\"0\"} 1\nshardine_shard_up{shard=\"0\"} 0\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split(' ').count(), 2, "{line}");
        }
    }
}
