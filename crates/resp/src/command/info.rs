//! `INFO`: the node's status in Redis's sections, with the names that clients and dashboards look for, and our own.

use std::fmt::Write;

use shardine_router::{EngineStatus, LocalEngine};

use crate::connection::RespConnection;
use crate::frame::Line;
use crate::options::REDIS_VERSION;
use crate::value::is;

/// What the text needs to know of the connection that asked.
pub(crate) struct About {
    port: u16,
    version: String,
    memory_max: u64,
    connections_max: usize,
}

impl About {
    pub(super) fn of(connection: &RespConnection) -> Self {
        let options = &connection.options;
        let (port, version) = (options.port, options.version.clone());
        Self { port, version, memory_max: options.memory_max, connections_max: options.connections_max }
    }
}

type Section = (&'static str, fn(&About, &EngineStatus, &mut String));

const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

pub(super) fn text<H: LocalEngine>(asked: Line<'_>, about: &About, status: &EngineStatus, engine: &H) -> String {
    let wants = |name: &str| {
        asked.len() == 1
            || asked.words(1).any(|word| ["all", "default", "everything", name].iter().any(|known| is(word, known)))
    };
    let mut text = String::new();
    let heading = |text: &mut String, name: &str| {
        let gap = if text.is_empty() { "" } else { "\r\n" };
        let _ = write!(text, "{gap}# {name}\r\n");
    };
    for (name, write) in SECTIONS.into_iter().filter(|(name, _)| wants(name)) {
        heading(&mut text, name);
        write(about, status, &mut text);
    }
    if wants("Shards") {
        heading(&mut text, "Shards");
        shards(status, &mut text);
    }
    if wants("Tables") {
        heading(&mut text, "Tables");
        for table in engine.catalogue().tables() {
            let (name, backing) = (&table.name, table.backing.name());
            line(&mut text, name, format_args!("backing={backing},fields={}", table.fields.len()));
        }
    }
    text
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(text, "{name}:{value}\r\n");
}

fn server(about: &About, status: &EngineStatus, text: &mut String) {
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "server_name", "shardine");
    line(text, "shardine_version", &about.version);
    line(text, "node_id", status.node);
    line(text, "lanes", status.lanes);
    line(text, "arch_bits", 64);
    line(text, "tcp_port", about.port);
    line(text, "uptime_in_seconds", status.uptime_ms / 1_000);
    line(text, "uptime_in_days", status.uptime_ms / 86_400_000);
}

fn clients(about: &About, status: &EngineStatus, text: &mut String) {
    line(text, "connected_clients", status.connections);
    line(text, "maxclients", about.connections_max);
}

fn memory(about: &About, status: &EngineStatus, text: &mut String) {
    let bytes: u64 = status.shards.iter().map(|shard| shard.bytes).sum();
    line(text, "used_memory", bytes);
    line(text, "maxmemory", about.memory_max);
    line(text, "maxmemory_policy", "noeviction");
}

fn persistence(_: &About, status: &EngineStatus, text: &mut String) {
    line(text, "loading", 0);
    line(text, "aof_enabled", 1);
    line(text, "log_bytes", status.log_bytes);
    if let Some(writeback) = &status.writeback {
        line(text, "sql_connected", u8::from(writeback.connected));
        line(text, "sql_dirty_records", writeback.dirty);
        if let Some(error) = &writeback.last_error {
            line(text, "sql_last_error", error.message.replace(['\r', '\n'], " "));
        }
    }
}

fn stats(_: &About, status: &EngineStatus, text: &mut String) {
    for (name, value) in &status.counters {
        line(text, name, value);
    }
}

fn replication(_: &About, status: &EngineStatus, text: &mut String) {
    line(text, "role", "master");
    line(text, "connected_slaves", 0);
    line(text, "shards", status.shards.len());
}

fn cluster(_: &About, _: &EngineStatus, text: &mut String) {
    line(text, "cluster_enabled", 0);
}

fn keyspace(_: &About, status: &EngineStatus, text: &mut String) {
    let records: u64 = status.shards.iter().map(|shard| shard.records).sum();
    if records > 0 {
        line(text, "db0", format_args!("keys={records},expires=0,avg_ttl=0"));
    }
}

fn shards(status: &EngineStatus, text: &mut String) {
    for shard in &status.shards {
        let leader = shard.leader.map_or(0, |leader| leader.0);
        let (records, bytes, dirty) = (shard.records, shard.bytes, shard.dirty);
        let state = if shard.stopped.is_some() { "stopped" } else { "serving" };
        let facts = format_args!(
            "state={state},lane={},leader={leader},term={},applied={},records={records},bytes={bytes},dirty={dirty}",
            shard.lane, shard.term, shard.applied
        );
        line(text, &format!("shard{}", shard.shard), facts);
    }
}
