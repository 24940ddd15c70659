//! A leader that nobody hears any more while its process lives: the longest time without an answer, as for the other faults. Nodes
//! live in network namespaces, where packets between two of them vanish without anybody being told.

use anyhow::Result;
use shardine_testkit::{Cluster, Home, Network, find_binary};

use super::{
    MEMBERS,
    failover::{SILENT, bounded_rows, watch, writers_beside},
    site::Site,
};
use crate::speed::{args::Options, row::Row, workplace::Workplace};

/// Which packets of the leader are lost; those of clients are not.
#[derive(Clone, Copy)]
struct Cut {
    name: &'static str,
    out: bool,
    back: bool,
}

const CUTS: [Cut; 3] = [
    Cut { name: "blackhole both ways", out: true, back: true },
    Cut { name: "blackhole of what it sends", out: true, back: false },
    Cut { name: "blackhole of what it is sent", out: false, back: true },
];

/// Cuts of each kind, `--rounds` times each.
pub async fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let mut network = Network::make(MEMBERS)?;
    let mut site = start(place, options)?;
    let mut rows = Vec::new();
    for cut in CUTS {
        let mut seen = Vec::new();
        for round in 0..options.rounds {
            let leader = site.leader()?;
            let writers = writers_beside(&site, leader).await?;
            let gap = watch(writers, || network.isolate(leader, cut.out, cut.back)).await?;
            network.heal()?;
            site.cluster.wait_until_serving()?;
            let (millis, errors) = (gap.gap_millis, gap.errors.len());
            eprintln!("{}, round {}: {millis:.0} ms and {errors} errors {:?}", cut.name, round + 1, gap.errors.first());
            seen.push(gap);
        }
        rows.extend(bounded_rows(cut.name, SILENT, &seen));
    }
    Ok(rows)
}

fn start(place: &Workplace, options: &Options) -> Result<Site> {
    let binary = options.subject_bin.clone().map_or_else(find_binary, Ok)?;
    let dir = place.dir()?;
    let folder = dir.path().to_path_buf();
    // Nobody else is in this network.
    let mut cluster = Cluster::prepare(dir, binary, MEMBERS, &["--insecure"])?;
    for (place, node) in cluster.nodes.iter_mut().enumerate() {
        node.home = Home { host: Network::host(place), enter: Network::enter(place), folder: folder.clone() };
    }
    cluster.found(MEMBERS, &[])?;
    Ok(Site { cluster })
}
