//! What a cluster would say to a node that is about to join it, or to come back: looked at before it is started.

use std::path::Path;
use std::time::{Duration, SystemTime};

use shardine_model::ErrorCode;
use shardine_proto::v1;
use shardine_server::Directory;

use super::Finding;
use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;

/// Clocks that differ by more are told of: times to live follow what a majority says, and not this machine's clock.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(5);

/// What `start` would be given.
pub(super) struct Candidate<'a> {
    pub data: &'a Path,
    pub name: Option<&'a str>,
    pub join: &'a [String],
}

pub(super) async fn look(candidate: &Candidate<'_>, server: &ServerArgs) -> Vec<Finding> {
    if candidate.join.is_empty() && candidate.name.is_none() {
        return Vec::new();
    }
    let directory = match shardine_server::look_at(candidate.data) {
        Ok(directory) => directory,
        Err(error) => {
            let remedy = "end the other process, or give another --data";
            return vec![Finding::bad("directory", format!("{error:#}"), remedy)];
        }
    };
    let mut findings = vec![own_name(candidate, directory.as_ref())];
    let Some((address, mut connection)) = first_that_answers(candidate.join, server).await else {
        let found = format!("no server answers at {}", candidate.join.join(", "));
        findings.push(Finding::warning("cluster", found, "the gRPC doors of nodes that run"));
        return findings;
    };
    let Ok(status) = connection.cluster.status(v1::StatusRequest {}).await else {
        findings.push(Finding::good("cluster", format!("{address} waits for a cluster itself")));
        return findings;
    };
    let status = status.into_inner();
    findings.extend([clocks(&address, &status), protocol(&status)]);
    findings.push(match &directory {
        None => free_name(candidate, &status),
        Some(directory) => known_here(directory, &status, &mut connection).await,
    });
    findings
}

async fn first_that_answers(join: &[String], server: &ServerArgs) -> Option<(String, Connection)> {
    for address in join {
        let args = ServerArgs { server: address.clone(), ..server.clone() };
        if let Ok(connection) = Connection::open(&args).await {
            return Some((address.clone(), connection));
        }
    }
    None
}

/// A directory belongs to one node.
fn own_name(candidate: &Candidate<'_>, directory: Option<&Directory>) -> Finding {
    const CHECK: &str = "directory";
    match (directory, candidate.name) {
        (None, _) => Finding::good(CHECK, "empty: a new node"),
        (Some(Directory { name, .. }), _) if name.is_empty() => Finding::bad(
            CHECK,
            "it belongs to a node that is alone (`shardine up`) and cannot join",
            "another --data, or `shardine up`",
        ),
        (Some(Directory { name, .. }), Some(asked)) if name != asked => {
            Finding::bad(CHECK, format!("it belongs to the node {name:?}"), format!("--name {name}, or another --data"))
        }
        (Some(Directory { name, node, .. }), _) => Finding::good(CHECK, format!("of node {name}, number {node}")),
    }
}

/// A name belongs to the node that lives.
fn free_name(candidate: &Candidate<'_>, status: &v1::StatusReply) -> Finding {
    const CHECK: &str = "name";
    let Some(name) = candidate.name else { return Finding::good(CHECK, "not given") };
    match status.nodes.iter().find(|node| node.name == name && !node.removed) {
        None => Finding::good(CHECK, format!("{name} is free")),
        Some(node) if lives(node) => {
            let found = format!("node {} of the cluster is called {name} and lives", node.id);
            Finding::bad(CHECK, found, "another --name")
        }
        Some(node) => Finding::good(CHECK, format!("takes the place of node {}, which is silent", node.id)),
    }
}

/// Whether the directory is one of this cluster's, and the only one of its node.
async fn known_here(directory: &Directory, status: &v1::StatusReply, connection: &mut Connection) -> Finding {
    const CHECK: &str = "membership";
    if let Some(reason) = &directory.refused {
        return Finding::bad(CHECK, format!("turned away: {reason}"), "an empty --data");
    }
    let own = v1::Whereabouts { node: directory.node, incarnation: 0, addresses: Some(v1::NodeAddresses::default()) };
    let request = v1::MeetRequest { cluster: directory.cluster.to_be_bytes().to_vec(), own: Some(own) };
    if let Err(refused) = connection.formation.meet(request).await {
        let complaint = Complaint::from_status(&refused);
        let remedy = match complaint.code {
            code if code == ErrorCode::Forbidden.into() => "--join nodes of its own cluster, or an empty --data",
            _ => "the same again",
        };
        return Finding::bad(CHECK, complaint.what, remedy);
    }
    match status.nodes.iter().find(|node| node.id == directory.node) {
        None => Finding::bad(CHECK, "the node was removed or replaced", "an empty --data, to join again"),
        Some(node) if node.removed => Finding::bad(CHECK, "the node was removed", "an empty --data, to join again"),
        Some(node) if lives(node) => {
            let found = format!("node {} runs, and not on this directory: this is a copy", node.name);
            Finding::bad(CHECK, found, "an empty --data and another --name")
        }
        Some(node) if node.incarnation > directory.starts => {
            let (starts, known) = (directory.starts, node.incarnation);
            let found = format!(
                "node {} has started {known} times, and this directory knows of {starts}: it is an old copy",
                node.name
            );
            Finding::bad(CHECK, found, "the newest directory of the node, or an empty --data")
        }
        Some(node) => Finding::good(CHECK, format!("node {} is expected back", node.name)),
    }
}

fn lives(node: &v1::Node) -> bool {
    matches!(node.state(), v1::NodeState::Here | v1::NodeState::Up)
}

fn clocks(address: &str, status: &v1::StatusReply) -> Finding {
    const CHECK: &str = "clocks";
    let ours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let theirs = Duration::from_millis(status.clock_ms);
    let apart = ours.abs_diff(theirs);
    if apart <= CLOCKS_APART_MAX {
        return Finding::good(CHECK, format!("{} ms from {address}", apart.as_millis()));
    }
    let found = format!("{} s {} {address}", apart.as_secs(), if ours > theirs { "ahead of" } else { "behind" });
    Finding::bad(CHECK, found, "set the clock, by NTP for example")
}

/// Nodes that speak no version in common do not let each other in.
fn protocol(status: &v1::StatusReply) -> Finding {
    const CHECK: &str = "protocol";
    let ours = u64::from(shardine_server::PROTOCOL_VERSION);
    let other = status.nodes.iter().find(|node| node.protocol != 0 && node.protocol != ours);
    match other {
        None => Finding::good(CHECK, format!("{ours}, as the others")),
        Some(node) => Finding::warning(
            CHECK,
            format!("{ours}, and node {} speaks {}", node.name, node.protocol),
            "the same version on all nodes",
        ),
    }
}
