//! Starts the SQL servers that tests share, prints how to name them, and stops them when its input ends:
//! `cargo run -p shardine-testkit --example sql_servers`, then set the variables in the shell that runs the tests.

use std::io::Read;

use anyhow::Result;
use shardine_testkit::SqlServer;
use shardine_testkit::sql_server::{Kind, Sync};

fn main() -> Result<()> {
    let mut servers = Vec::new();
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let server = SqlServer::start(kind, Sync::Off, &[])?;
        eprintln!("export {}={}", kind.shared_port(), server.port());
        servers.push(server);
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
