//! Nodes as messages.

use shardine_model::{NodeMode, Refusal};
use shardine_proto::v1;
use shardine_router::{BalancerReport, DrainLeft, DrainReport, EventLine, MoveLine, NodeFill, NodeState, NodeStatus};

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

pub(crate) fn balancer_out(report: BalancerReport) -> v1::BalancerReply {
    v1::BalancerReply {
        on: report.is_on,
        in_window: report.is_time,
        settings: report.settings.into_iter().collect(),
        speed_bytes: report.speed_bytes,
        gone_after_ms: report.gone_after_ms,
        nodes: report.nodes.into_iter().map(fill_out).collect(),
        running: report.running.into_iter().map(move_out).collect(),
        planned: report.planned.into_iter().map(move_out).collect(),
    }
}

fn fill_out(fill: NodeFill) -> v1::NodeFill {
    v1::NodeFill {
        id: fill.node.0,
        name: fill.name,
        zone: fill.zone,
        weight: fill.weight.into(),
        replicas: fill.replicas,
        bytes: fill.bytes,
        leads: fill.leads,
    }
}

fn move_out(line: MoveLine) -> v1::PlannedMove {
    v1::PlannedMove { group: line.shard.0, what: line.what, why: line.why, for_balance: line.is_for_balance }
}

pub(crate) fn event_out(event: EventLine) -> v1::ClusterEvent {
    v1::ClusterEvent { number: event.number, at_ms: event.at.0, text: event.text }
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
