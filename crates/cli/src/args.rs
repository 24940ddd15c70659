//! What can be typed. Every flag can also come from the environment: `SHARDINE_DATA` for flags of `up`, `start` and of
//! the connection, `SHARDINE_SCAN_LIMIT` for those of other commands.

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::balancer::{BalancerArgs, EventsArgs};
use crate::bench::BenchArgs;
use crate::cluster::{ExplainArgs, ShardsArgs, StatusArgs};
use crate::config::ConfigArgs;
use crate::coord::CoordArgs;
use crate::dialogs::DialogsArgs;
use crate::doctor::DoctorArgs;
use crate::init::InitArgs;
use crate::map::MapArgs;
use crate::node::{NodeArgs, NodesArgs};
use crate::reads::{GetArgs, ScanArgs};
use crate::sql::{VerifyArgs, WritebackArgs};
use crate::start::StartArgs;
use crate::tables::TableArgs;
use crate::up::UpArgs;
use crate::upkeep::{FlushArgs, KickArgs};
use crate::writes::{CasArgs, DelArgs, FieldsArgs, IncrArgs, UpdateArgs};

/// A sharded, replicated, strongly consistent record cache in front of SQL databases.
#[derive(Parser)]
#[command(
    name = "shardine",
    version,
    after_help = "Example:\n  shardine up\n  redis-cli -p 7379 HSET users:lili age 10"
)]
pub struct Cli {
    /// Print JSON, for machines
    #[arg(long, global = true, env = "SHARDINE_JSON")]
    pub json: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Start a node with its data in ./shardine-data and SQLite inside it
    Up(UpArgs),
    /// Start a node of a cluster; the same line again is always right
    Start(StartArgs),
    /// Make a cluster of the nodes that wait for it; once, ever
    Init(InitArgs),
    /// Create, list, show, change and drop tables
    Table(TableArgs),
    /// Plan what of an SQL schema that is there can be cached, and map it
    Map(MapArgs),
    /// Read a record
    #[command(
        after_help = "Example:\n  shardine get users:lili\n  shardine get users:lili name age\n  shardine get events:lili@1700000000"
    )]
    Get(GetArgs),
    /// Set fields of a record; creates it from defaults
    #[command(after_help = "Example:\n  shardine set users:lili age=10 name=Lili")]
    Set(FieldsArgs),
    /// Create a record; fails if it exists
    #[command(after_help = "Example:\n  shardine insert users:lili age=10")]
    Insert(FieldsArgs),
    /// Replace a whole record; fields not named return to their defaults
    #[command(after_help = "Example:\n  shardine replace users:lili age=10")]
    Replace(FieldsArgs),
    /// Apply operations to a record, all or none
    #[command(after_help = crate::operation::HELP)]
    Update(UpdateArgs),
    /// Add to a number of a record; creates it from defaults
    #[command(after_help = "Example:\n  shardine incr users:lili age 1\n  shardine incr users:lili age -1")]
    Incr(IncrArgs),
    /// Set a field if it holds an expected value
    #[command(after_help = "Example:\n  shardine cas users:lili age 10 11")]
    Cas(CasArgs),
    /// Delete a record
    #[command(after_help = "Example:\n  shardine del users:lili --return-record")]
    Del(DelArgs),
    /// Read a table, or the rows of one key in sort order
    #[command(after_help = "Example:\n  shardine scan users --limit 20\n  shardine scan events:lili --from 100 --desc")]
    Scan(ScanArgs),
    /// Drop a record from memory once SQL has it
    #[command(after_help = "Example:\n  shardine kick users:lili")]
    Kick(KickArgs),
    /// Wait until SQL has everything of a table, or of all
    #[command(after_help = "Example:\n  shardine flush users")]
    Flush(FlushArgs),
    /// The cluster on one screen
    #[command(after_help = "Example:\n  shardine status")]
    Status(StatusArgs),
    /// All nodes: where they are, whether they live, how many groups each leads
    #[command(after_help = "Example:\n  shardine nodes")]
    Nodes(NodesArgs),
    /// Look at the nodes of a cluster, use them otherwise, take them out
    Node(NodeArgs),
    /// All shards with their leaders and sizes; suspends them, gives their leads to others
    #[command(
        visible_alias = "shard",
        after_help = "Example:\n  shardine shards\n  shardine shards suspend 2\n  shardine shard transfer-leader 2 --to n3"
    )]
    Shards(ShardsArgs),
    /// What the cluster moves by itself; whether, when and how fast it may
    Balancer(BalancerArgs),
    /// What the cluster did and why, newest last
    #[command(after_help = "Example:\n  shardine events\n  shardine events --follow")]
    Events(EventsArgs),
    /// Where a key lives and how it stands, or which shards a scan visits
    #[command(after_help = "Example:\n  shardine explain users:lili\n  shardine explain --scan users")]
    Explain(ExplainArgs),
    /// Locks, leaders, discovery and small configuration from the shell
    Coord(CoordArgs),
    /// How far SQL is behind
    Writeback(WritebackArgs),
    /// Compare memory with SQL while both go on; fails if rows differ
    #[command(after_help = "Example:\n  shardine verify\n  shardine verify users --json")]
    Verify(VerifyArgs),
    /// Serve chats and their messages over HTTP, in front of a cluster
    Dialogs(DialogsArgs),
    /// Put load on the Redis door and measure
    #[command(
        after_help = "Example:\n  shardine bench --connections 64 --pipeline 16 --mix get:80,set:20 --seconds 10"
    )]
    Bench(BenchArgs),
    /// Look for what makes a node slow or unsafe, and say what to do
    #[command(after_help = "Example:\n  shardine doctor --data shardine-data")]
    Doctor(DoctorArgs),
    /// Check a configuration file
    Config(ConfigArgs),
    /// Print completions for a shell
    #[command(after_help = "Example:\n  shardine completions bash > /etc/bash_completion.d/shardine")]
    Completions { shell: clap_complete::Shell },
}

/// How to reach a cluster.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// The gRPC door of any node
    #[arg(long, env = "SHARDINE_SERVER", default_value = "127.0.0.1:7400", value_name = "ADDR")]
    pub server: String,
    /// The token that the server was started with
    #[arg(long, env = "SHARDINE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// How long to wait for an answer, in seconds
    #[arg(long, env = "SHARDINE_TIMEOUT", default_value_t = 30, value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub timeout: u64,
}

/// The command with an environment variable for every flag that does not name its own.
pub fn command() -> clap::Command {
    with_environment(Cli::command(), "SHARDINE")
}

/// `--help`, and `--version` where it asks for the program's own; `flush` has one that names a record's.
fn is_about_the_program(arg: &clap::Arg) -> bool {
    use clap::ArgAction::{Help, HelpLong, HelpShort, Version};
    matches!(arg.get_action(), Help | HelpLong | HelpShort | Version)
}

fn with_environment(command: clap::Command, prefix: &str) -> clap::Command {
    let own = prefix.to_owned();
    let command = command.mut_args(|arg| match arg.get_long() {
        Some(long) if arg.get_env().is_none() && !is_about_the_program(&arg) => {
            let name = format!("{own}_{}", long.replace('-', "_").to_ascii_uppercase());
            // Clap keeps names for the life of the process, and so may we.
            arg.env(&*name.leak())
        }
        Some(_) | None => arg,
    });
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let inner = if name == "up" || name == "start" {
            prefix.to_owned()
        } else {
            format!("{prefix}_{}", name.replace('-', "_").to_ascii_uppercase())
        };
        command.mut_subcommand(name, |sub| with_environment(sub, &inner))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(command: &clap::Command) -> Vec<clap::Command> {
        let subs: Vec<_> = command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
        if subs.is_empty() {
            return vec![command.clone()];
        }
        subs.into_iter().flat_map(leaves).collect()
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        for leaf in leaves(&command()) {
            let help = leaf.get_after_help().map(ToString::to_string).unwrap_or_default();

            assert!(help.contains("Example:\n  shardine "), "{} has no example", leaf.get_name());
        }
    }

    #[test]
    fn every_flag_has_an_environment_variable() {
        for leaf in leaves(&command()) {
            for arg in leaf.get_arguments().filter(|arg| arg.get_long().is_some_and(|long| long != "help")) {
                let name = arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();

                assert!(name.starts_with("SHARDINE_"), "{} --{}", leaf.get_name(), arg.get_id());
            }
        }
    }
}
