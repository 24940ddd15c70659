//! The `shardine` command: server and tools in one binary.
//!
//! Data goes to stdout and everything else to stderr; a command ends with 0 (done), 1 (failed) or 2 (bad usage).
//! Commands speak to a cluster through its gRPC door and know nothing that the door does not tell them.

// In the order in which a command meets them.
mod args;
mod complaint;
mod confirm;
mod connection;
mod log;
mod progress;
mod show;
// One per group of commands.
mod balancer;
mod bench;
mod cluster;
mod config;
mod coord;
mod dialogs;
mod doctor;
mod init;
mod map;
mod node;
mod nodes;
mod reads;
mod sql;
mod sql_args;
mod start;
mod tables;
mod up;
mod upkeep;
mod warm;
mod writes;
// Text between people and protobuf.
mod address;
mod operation;
mod size;
mod value;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::{Cli, Command};
use crate::complaint::Complaint;
use crate::show::Output;

/// The lanes allocate little and the doors much; this allocator does both well and keeps memory per record low.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = args::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let output = Output { json: cli.json };
    match run(cli, output) {
        Ok(code) => code,
        Err(complaint) => {
            complaint.report(output);
            ExitCode::from(complaint.exit)
        }
    }
}

fn run(cli: Cli, output: Output) -> Result<ExitCode, Complaint> {
    match cli.command {
        // Passes on the exit code of a command that it runs.
        Command::Coord(command) => talk(coord::run(command, output)),
        command => run_plain(command, output).map(|()| ExitCode::SUCCESS),
    }
}

fn run_plain(command: Command, output: Output) -> Result<(), Complaint> {
    match command {
        Command::Coord(_) => unreachable!("run by the caller"),
        Command::Up(up) => up::run(up, output),
        Command::Start(start) => start::run(start, output),
        Command::Init(init) => talk(init::run(init, output)),
        Command::Dialogs(dialogs) => dialogs::run(dialogs, output),
        Command::Bench(bench) => bench::run(&bench, output),
        Command::Config(config) => config::run(&config, output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "shardine", &mut script);
            show::print_bytes(&script);
            Ok(())
        }
        Command::Table(command) => talk(tables::run(command, output)),
        Command::Map(command) => map::run(command, output),
        Command::Get(get) => talk(reads::get(get, output)),
        Command::Scan(scan) => talk(reads::scan(scan, output)),
        Command::Set(set) => talk(writes::set(set, output)),
        Command::Insert(insert) => talk(writes::insert(insert, output)),
        Command::Replace(replace) => talk(writes::replace(replace, output)),
        Command::Update(update) => talk(writes::update(update, output)),
        Command::Incr(incr) => talk(writes::incr(incr, output)),
        Command::Cas(cas) => talk(writes::cas(cas, output)),
        Command::Del(del) => talk(writes::delete(del, output)),
        Command::Kick(kick) => talk(upkeep::kick(kick, output)),
        Command::Flush(flush) => talk(upkeep::flush(flush, output)),
        Command::Status(status) => talk(cluster::status(status, output)),
        Command::Nodes(nodes) => talk(node::list(nodes, output)),
        Command::Node(command) => talk(node::run(command, output)),
        Command::Shards(shards) => talk(cluster::shards(shards, output)),
        Command::Explain(explain) => talk(cluster::explain(explain, output)),
        Command::Balancer(command) => talk(balancer::run(command, output)),
        Command::Events(events) => talk(balancer::events(events, output)),
        Command::Writeback(command) => talk(sql::writeback(command, output)),
        Command::Verify(verify) => talk(sql::verify(verify, output)),
        Command::Doctor(doctor) => talk(doctor::run(doctor, output)),
    }
}

/// Runs a command that speaks to a cluster; one thread is enough for one conversation.
fn talk<T>(command: impl Future<Output = Result<T, Complaint>>) -> Result<T, Complaint> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Complaint::from_io)?;
    runtime.block_on(command)
}
