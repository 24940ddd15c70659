//! What can be asked of a run.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::server::Kind;

/// Measures Shardine against redis-server, SQL databases and etcd on this machine, in turns, and prints a table of ratios.
///
/// Example: shardine-bench --only hget,hset --rounds 7
#[derive(Clone, Debug, Parser)]
#[command(name = "shardine-bench", version)]
pub struct Options {
    /// What to measure against redis-server. `redis` measures the harness itself: every ratio should come out near 1.
    #[arg(long, value_enum, default_value = "shardine")]
    pub subject: Kind,

    /// The shardine binary [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    pub subject_bin: Option<PathBuf>,

    /// Rows to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["hget", "hset", "typed", "behind", "large", "groups", "memory", "restart", "sql", "coord", "kit", "cluster"])]
    pub only: Vec<Work>,

    /// Of the rows in front of SQL, of those behind and of those of a cluster, only those whose name holds this text, such as `read-through PostgreSQL`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub row: String,

    /// Measurements per row and server.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// Length of one throughput measurement, roughly.
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,

    /// Client connections of a throughput measurement.
    #[arg(long, default_value_t = 64)]
    pub connections: u32,

    /// Records behind a throughput measurement.
    #[arg(long, default_value_t = 100_000)]
    pub records: u64,

    /// Records behind a measurement among many.
    #[arg(long, default_value_t = 5_000_000)]
    pub large_records: u64,

    /// Records behind a memory or restart measurement.
    #[arg(long, default_value_t = 1_000_000)]
    pub bulk_records: u64,

    /// Few, short and small measurements: shows that everything works, proves nothing about speed.
    #[arg(long)]
    pub quick: bool,

    /// Where the servers keep their data [default: the target folder]. Has to be a real disk for the figures to mean something.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Print JSON instead of the table, with every single measurement.
    #[arg(long)]
    pub json: bool,

    /// End with exit code 1 when a target is missed.
    #[arg(long)]
    pub strict: bool,
}

impl Options {
    /// Whether the rows of this name are asked for.
    pub fn wants(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.row.to_lowercase())
    }

    /// The options with `--quick` worked into them.
    pub fn effective(&self) -> Options {
        if !self.quick {
            return self.clone();
        }
        Options {
            rounds: self.rounds.min(3),
            seconds: 0.3,
            bulk_records: self.bulk_records.min(50_000),
            large_records: self.large_records.min(100_000),
            ..self.clone()
        }
    }
}

/// A group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Reads, pipeline 1 and 16, with CPU time.
    Hget,
    /// Synced writes, pipeline 1 and 16, with CPU time.
    Hset,
    /// The same into a table with a definition and no SQL.
    Typed,
    /// The same into a table with SQLite behind it, and reads beside rows of another table on their way to SQL.
    Behind,
    /// CPU time of reads and synced writes among five million records.
    Large,
    /// Synced writes with a thousand groups on the node, against four.
    Groups,
    /// Resident bytes per record, and what is left when all are gone.
    Memory,
    /// Time from start to serving.
    Restart,
    /// In front of PostgreSQL, MariaDB and SQLite: write-back, read-through, hot keys, an outage.
    Sql,
    /// Coordination: locks against etcd's, hand-over, idle sessions.
    Coord,
    /// The kit for sharded services: stopped replicas, the client's own cost, large maps.
    Kit,
    /// Three nodes against etcd with three members: throughput, forwarding, locks, failover, idle groups.
    Cluster,
    /// Three nodes in network namespaces, whose leader is cut off. Measured alone, because the namespaces hold the whole program.
    Cuts,
}
