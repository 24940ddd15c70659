//! Three nodes against etcd with three members, both as they are when nobody changes anything: throughput, what a forward costs, locks,
//! the loss of a leader, and groups that have nothing to do.

mod cuts;
mod failover;
mod idle;
mod paced;
mod site;
mod straight;

use anyhow::{Context, Result, ensure};
use shardine_client::{Client, NodeSettings};
use tokio::runtime::Runtime;

use super::{args::Options, coord, etcd::Etcd, row::Row, workplace::Workplace};
use site::Site;

const MEMBERS: usize = 3;

/// The rows of the group whose names hold what `--row` says: `throughput`, `latency`, `locks`, `failover`, `idle`.
pub fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let runtime = Runtime::new().context("start tokio")?;
    let mut rows = Vec::new();
    if options.wants("throughput") {
        rows.extend(runtime.block_on(straight::throughput(place, options))?);
    }
    if options.wants("latency") {
        rows.push(runtime.block_on(straight::latency(place, options))?);
    }
    if options.wants("locks") {
        rows.push(runtime.block_on(locks(place, options))?);
    }
    if options.wants("failover") {
        rows.extend(runtime.block_on(failover::measure(place, options))?);
    }
    if options.wants("idle") {
        rows.extend(idle::measure(place, options)?);
    }
    ensure!(!rows.is_empty(), "no row of this group is called {:?}", options.row);
    Ok(rows)
}

/// What needs a network of its own, so only where [`shardine_testkit::namespace`] has made one.
pub fn measure_cuts(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    Runtime::new().context("start tokio")?.block_on(cuts::measure(place, options))
}

async fn locks(place: &Workplace, options: &Options) -> Result<Row> {
    let etcd = Etcd::start(place.dir()?, MEMBERS).await?;
    let site = Site::start(place, options, &[])?;
    let client = Client::new(&site.cluster.grpc(site.coordinator()?).to_string())?;
    client.create_node(coord::NODE, NodeSettings::default()).await?;
    let mut row = coord::locks_of(&etcd, &client, options).await?;
    row.work += ", three nodes";
    Ok(row)
}
