//! Nodes as messages.

use shardine_model::{NodeMode, Refusal};
use shardine_proto::v1;
use shardine_router::{DrainLeft, DrainReport, NodeState, NodeStatus};

use crate::convert;

pub(crate) fn mode(given: v1::NodeMode) -> Result<NodeMode, Refusal> {
    match given {
        v1::NodeMode::Unspecified => Err(convert::missing("the mode")),
        v1::NodeMode::ReadWrite => Ok(NodeMode::ReadWrite),
        v1::NodeMode::ReadOnly => Ok(NodeMode::ReadOnly),
        v1::NodeMode::Draining => Ok(NodeMode::Draining),
    }
}

fn mode_out(mode: NodeMode) -> v1::NodeMode {
    match mode {
        NodeMode::ReadWrite => v1::NodeMode::ReadWrite,
        NodeMode::ReadOnly => v1::NodeMode::ReadOnly,
        NodeMode::Draining => v1::NodeMode::Draining,
    }
}

pub(crate) fn node_out(node: NodeStatus) -> v1::Node {
    let (state, silent_ms) = match node.state {
        NodeState::Here => (v1::NodeState::Here, 0),
        NodeState::Up => (v1::NodeState::Up, 0),
        NodeState::Silent { for_ms } => (v1::NodeState::Silent, for_ms),
        NodeState::Mute => (v1::NodeState::Mute, 0),
    };
    v1::Node {
        id: node.node.0,
        name: node.name,
        zone: node.zone,
        grpc: node.addresses.grpc,
        redis: node.addresses.redis,
        http: node.addresses.http,
        peer: node.addresses.peer,
        state: state.into(),
        silent_ms,
        replicas: node.replicas,
        leads: node.leads,
        version: node.version,
        protocol: node.protocol,
        uptime_ms: node.uptime_ms,
        connections: node.connections,
        mode: mode_out(node.mode).into(),
        weight: node.weight.into(),
        removed: node.is_removed,
        gateway: node.is_gateway,
        incarnation: node.incarnation,
    }
}

pub(crate) fn drain_out(report: DrainReport) -> v1::NodeDrainReply {
    v1::NodeDrainReply {
        id: report.node.0,
        name: report.name,
        mode: mode_out(report.mode).into(),
        weight: report.weight.into(),
        left: report.left.into_iter().map(left_out).collect(),
    }
}

fn left_out(left: DrainLeft) -> v1::DrainLeft {
    v1::DrainLeft { group: left.shard.0, leads: left.leads, stuck: left.stuck, waits_for: left.waits_for }
}
