//! What a node sees of the load, whoever asks: the leader of the map's group, which plans by it, or an operator.

use std::collections::BTreeSet;
use std::sync::Arc;

use shardine_model::{ErrorCode, NodeId, Refusal, ShardId};
use shardine_router::{
    BalanceLook, BalanceView, BalancerReport, EngineStatus, EventLine, MoveLine, NodeFill, Response,
};
use shardine_shard::meta::{
    BALANCER, BALANCER_LEADS_AFTER, BALANCER_SPEED, BALANCER_WINDOW, Command, Load, Map, Move, NODE_GONE_AFTER,
    Operation, Settings, Sight, plan_with_reasons,
};

use super::operate::member;
use super::{Exchange, Neighbourhood};
use crate::atlas::Sheet;
use crate::lane_message::Respond;
use crate::peers::Board;

/// Shards are as good as equal within a few of the size at which they are split; where they never are, within a few of this.
const SPLIT_BYTES_DEFAULT: u64 = 128 << 20;

/// The sizes of shards as all nodes have told them.
pub(crate) fn load(status: &EngineStatus, split_bytes: u64) -> Load {
    let bytes = status.shards.iter().map(|shard| (shard.shard, shard.bytes)).collect();
    let split_bytes = if split_bytes == 0 { SPLIT_BYTES_DEFAULT } else { split_bytes };
    Load { bytes, leaders: Default::default(), split_bytes }
}

/// What there is to go by now: who is silent, for how long, and who leads what.
pub(crate) fn sight(board: &Board, map: &Map, load: Option<Load>) -> Sight {
    let settings = Settings::of(&map.settings);
    let silent = board.silent();
    let is_gone = |node: &NodeId| {
        let silent_for = board.silent_for(*node).map_or(0, |silent| silent.as_millis());
        silent_for >= u128::from(settings.gone_after_ms)
    };
    let gone: BTreeSet<NodeId> = silent.iter().copied().filter(is_gone).collect();
    let leader = |shard: &ShardId| Some((*shard, board.leader(*shard)?));
    let load = load.map(|load| Load { leaders: map.groups.keys().filter_map(leader).collect(), ..load });
    Sight { silent, gone, load }
}

impl Exchange {
    pub(super) fn look_at_balance(self: &Arc<Self>, look: BalanceLook, done: Respond) {
        let Some(cluster) = &self.cluster else {
            let message = "this node is alone for ever (`shardine up`): there is nobody to move anything to";
            return done(Response::Refused(Refusal::new(ErrorCode::Unsupported, message)));
        };
        match look {
            BalanceLook::Events { after } => {
                let sheet = cluster.atlas.sheet();
                let newer = sheet.full.events.iter().filter(|event| event.number > after);
                let line = |event: &shardine_shard::meta::Event| EventLine {
                    number: event.number,
                    at: event.at,
                    text: event.text.clone(),
                };
                done(Response::Balance(Box::new(BalanceView::Events(newer.map(line).collect()))));
            }
            BalanceLook::Report => {
                let exchange = Arc::clone(self);
                self.cluster_status(Box::new(move |response| match (response, &exchange.cluster) {
                    (Response::Status(status), Some(cluster)) => {
                        let report = exchange.balancer_report(cluster, &status);
                        done(Response::Balance(Box::new(BalanceView::Report(report))));
                    }
                    (other, _) => done(other),
                }));
            }
        }
    }

    fn balancer_report(&self, cluster: &Neighbourhood, status: &EngineStatus) -> BalancerReport {
        let sheet = cluster.atlas.sheet();
        let map = &sheet.full;
        let settings = Settings::of(&map.settings);
        let sight = sight(&cluster.board, map, Some(load(status, self.split_bytes)));
        let made = [BALANCER, BALANCER_LEADS_AFTER, BALANCER_WINDOW, BALANCER_SPEED, NODE_GONE_AFTER];
        let made = made.iter().filter_map(|name| Some(((*name).to_owned(), map.settings.get(*name)?.clone())));
        let running = map.operations.values().map(|operation| running(map, operation));
        let planned = plan_with_reasons(map, &sight);
        BalancerReport {
            is_on: settings.balances,
            is_time: settings.may_balance(self.clock.now().wall.0),
            settings: made.collect(),
            speed_bytes: settings.speed_bytes,
            gone_after_ms: settings.gone_after_ms,
            nodes: fills(map, &sight),
            running: running.collect(),
            planned: planned.into_iter().map(|planned| line(map, planned)).collect(),
        }
    }

    /// Has a replica go from one node to another, after a look at what is there.
    pub(super) fn move_replica(
        self: &Arc<Self>,
        sheet: &Sheet,
        shard: ShardId,
        (from, to): (&str, &str),
        is_rehearsal: bool,
    ) -> Result<Response, Refusal> {
        let refused = |code: ErrorCode, message: String| Err(Refusal::new(code, message));
        let label = shard.label();
        let Some(group) = sheet.full.groups.get(&shard) else {
            return refused(ErrorCode::NotFound, format!("there is no {label}: `shardine shards` lists the shards"));
        };
        let (from, to) = (member(sheet, from)?, member(sheet, to)?);
        let Some(placed) = group.members().find(|member| member.node == from.node) else {
            return refused(ErrorCode::BadRequest, format!("node {} has no replica of {label}", from.name));
        };
        if group.members().any(|member| member.node == to.node) {
            return refused(ErrorCode::BadRequest, format!("node {} has a replica of {label} already", to.name));
        }
        if !to.keeps_data() {
            let message = format!("node {} gets no replicas: it is a gateway, or to be emptied", to.name);
            return refused(ErrorCode::Forbidden, message);
        }
        if self.neighbours()?.board.silent_for(to.node).is_some() {
            return refused(ErrorCode::Forbidden, format!("node {} is silent", to.name));
        }
        if let Some((id, _)) = sheet.full.operation_on(shard) {
            return refused(ErrorCode::Busy, format!("operation {id} is under way on {label}"));
        }
        let sentence = format!("{label}: {} in place of {}", to.name, from.name);
        if !is_rehearsal {
            self.insist(&Command::Replace { shard, replica: placed.replica, node: to.node })?;
        }
        Ok(Response::Balance(Box::new(BalanceView::Told(sentence))))
    }
}

fn running(map: &Map, operation: &Operation) -> MoveLine {
    let what = match operation {
        Operation::Split(..) => "is being split".to_owned(),
        Operation::Replace(replace) => {
            let nodes = |list: &[shardine_model::Placement]| list.iter().map(|one| one.node).collect::<Vec<_>>();
            let change = map.describe_change(replace.shard, &nodes(&replace.voters), &nodes(&replace.learners));
            format!("{change} ({})", replace.stage.words())
        }
    };
    MoveLine { shard: operation.shard(), what, why: String::new(), is_for_balance: false }
}

fn line(map: &Map, planned: Move) -> MoveLine {
    let Move { command, why, is_for_balance } = planned;
    let (shard, what) = match &command {
        Command::Reconfigure { shard, voters, learners, .. } => (*shard, map.describe_change(*shard, voters, learners)),
        Command::Cancel { operation } => {
            let shard = map.operations.get(operation).map_or(ShardId::default(), Operation::shard);
            (shard, "its move is given up".to_owned())
        }
        other => (ShardId::default(), format!("{other:?}")),
    };
    MoveLine { shard, what, why, is_for_balance }
}

fn fills(map: &Map, sight: &Sight) -> Vec<NodeFill> {
    let fill = |node: &shardine_shard::meta::Node| {
        let is_there = |group: &&shardine_model::Descriptor| group.members().any(|member| member.node == node.node);
        let load = sight.load.as_ref();
        let bytes = |group: &shardine_model::Descriptor| load.map_or(0, |load| load.bytes_of(group.shard));
        let held = || map.groups.values().filter(is_there);
        let leads = load.map_or(0, |load| load.leaders.values().filter(|leader| **leader == node.node).count());
        NodeFill {
            node: node.node,
            name: node.name.clone(),
            zone: node.zone.clone(),
            weight: node.weight,
            replicas: held().count() as u64,
            bytes: held().map(bytes).sum(),
            leads: leads as u64,
        }
    };
    map.nodes.values().filter(|node| node.holds_data()).map(fill).collect()
}
