//! What only all nodes together can tell. A node that does not answer takes nothing from what the others say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_model::{ErrorCode, GroupKind, NodeId, Refusal, TableId};
use shardine_router::{
    CoordLook, CoordNode, CoordView, Heard, RemoteCall, Response, RouteList, Routes, ShardRoute, WritebackReport, join,
    join_writeback,
};

use super::{Exchange, Neighbourhood, join_tables};
use crate::coord::{only_group, place_in};
use crate::lane_message::{LaneMessage, Respond};

/// The lane on whose links other nodes are asked.
const ASKING_LANE: usize = 0;

/// What each node has said, this one first.
type Told = Vec<(NodeId, Response)>;

/// Gathers until everybody has said something, or is known to say nothing.
struct Round<F> {
    left: usize,
    told: Told,
    finish: Option<F>,
}

impl<F: FnOnce(Told)> Round<F> {
    fn add(round: &Mutex<Self>, node: NodeId, response: Response) {
        let mut this = round.lock().unwrap_or_else(PoisonError::into_inner);
        this.told.push((node, response));
        this.left -= 1;
        if this.left > 0 {
            return;
        }
        let (told, finish) = (std::mem::take(&mut this.told), this.finish.take());
        drop(this);
        if let Some(finish) = finish {
            finish(told);
        }
    }
}

impl Exchange {
    /// Has this node and every other one that is not silent answer a question about itself.
    fn ask_nodes(
        self: &Arc<Self>,
        cluster: &Neighbourhood,
        call: &RemoteCall,
        here: impl FnOnce(Respond),
        finish: impl FnOnce(Told) + Send + 'static,
    ) {
        let own = NodeId(self.node);
        let map = cluster.map();
        let others = map.nodes.iter().map(|entry| entry.node).filter(|node| *node != own);
        let others: Vec<NodeId> = others.filter(|node| cluster.board.silent_for(*node).is_none()).collect();
        let round = Arc::new(Mutex::new(Round { left: others.len() + 1, told: Vec::new(), finish: Some(finish) }));
        let answer = |node: NodeId| -> Respond {
            let round = Arc::clone(&round);
            Box::new(move |response| Round::add(&round, node, response))
        };
        for node in others {
            let (call, done) = (call.clone(), answer(node));
            self.inboxes[ASKING_LANE].send(LaneMessage::AskNode { node, call, done });
        }
        here(answer(own));
    }

    /// The cluster as this node and all that answer it see it.
    pub fn cluster_status(self: &Arc<Self>, done: Respond) {
        let Some(cluster) = &self.cluster else { return self.status(done) };
        let exchange = Arc::clone(self);
        let finish = move |told: Told| {
            let own = NodeId(exchange.node);
            let (mut here, mut others) = (None, Vec::new());
            for (node, response) in told {
                match response {
                    Response::Status(status) if node == own => here = Some(*status),
                    Response::Status(status) => others.push((node, Heard::Status(status))),
                    _ => others.push((node, Heard::Nothing)),
                }
            }
            let (Some(here), Some(cluster)) = (here, &exchange.cluster) else {
                return done(super::refused(ErrorCode::Internal));
            };
            let map = cluster.map();
            for entry in map.nodes.iter().filter(|entry| entry.node != own) {
                // What came from a node that fell silent meanwhile still counts.
                let heard = others.iter().any(|(node, heard)| *node == entry.node && matches!(heard, Heard::Status(_)));
                if let Some(silent) = cluster.board.silent_for(entry.node).filter(|_| !heard) {
                    others.retain(|(node, _)| *node != entry.node);
                    let for_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
                    others.push((entry.node, Heard::Silent { for_ms }));
                }
            }
            let mut status = join(&map, here, others);
            let sheet = cluster.atlas.sheet();
            for node in &mut status.nodes {
                if let Some(known) = sheet.full.nodes.get(&node.node) {
                    (node.mode, node.weight) = (known.mode, known.weight);
                    (node.is_removed, node.is_gateway) = (!known.is_member(), known.is_gateway);
                    node.incarnation = known.incarnation;
                }
            }
            done(Response::Status(Box::new(status)));
        };
        let this = Arc::clone(self);
        self.ask_nodes(cluster, &RemoteCall::Status, |done| this.status(done), finish);
    }

    /// How far SQL is behind, in the words of every shard's leader.
    pub fn cluster_writeback(self: &Arc<Self>, done: Respond) {
        let Some(cluster) = &self.cluster else { return self.writeback(done) };
        let exchange = Arc::clone(self);
        let finish = move |told: Told| {
            let (mut reports, mut unheard) = (Vec::new(), Vec::new());
            for (node, response) in told {
                match response {
                    Response::Writeback(report) => reports.push(*report),
                    _ => unheard.push(exchange.name_of(node)),
                }
            }
            let tables = join_tables(reports.iter_mut().flat_map(|report| std::mem::take(&mut report.tables)));
            let dirty = tables.iter().map(|table| table.dirty_rows).sum();
            let database = join_writeback(reports.into_iter().filter_map(|report| report.database), dirty);
            done(Response::Writeback(Box::new(WritebackReport { database, tables, unheard })));
        };
        let this = Arc::clone(self);
        self.ask_nodes(cluster, &RemoteCall::Writeback, |done| this.writeback(done), finish);
    }

    /// Rows that SQL does not take, of every shard. All of them or none: a list without what one node has would say that it has
    /// nothing.
    pub fn cluster_dead_letters(self: &Arc<Self>, table: Option<TableId>, done: Respond) {
        let Some(cluster) = &self.cluster else { return self.dead_letters(table, done) };
        let exchange = Arc::clone(self);
        let finish = move |told: Told| {
            let mut letters = Vec::new();
            for (node, response) in told {
                match response {
                    Response::DeadLetters(more) => letters.extend(more),
                    Response::Refused(refusal) if refusal.code == ErrorCode::TooLarge => {
                        let message = format!("node {}: {}", exchange.name_of(node), refusal.message);
                        return done(Response::Refused(Refusal::new(ErrorCode::TooLarge, message)));
                    }
                    _ => {
                        let message = format!("node {} does not answer; try again", exchange.name_of(node));
                        return done(Response::Refused(Refusal::new(ErrorCode::Busy, message)));
                    }
                }
            }
            done(Response::DeadLetters(letters));
        };
        self.ask_nodes(cluster, &RemoteCall::DeadLetters { table }, |done| self.dead_letters(table, done), finish);
    }

    /// Looks at coordination where it is led: only there it is known who is connected, and not every node has a replica. At this
    /// node's own if nobody answers there.
    pub fn cluster_coord(self: &Arc<Self>, look: CoordLook, done: Respond) {
        let Some(cluster) = &self.cluster else { return self.coord_here(look, done) };
        let sheet = cluster.atlas.sheet();
        let leader = match &look {
            CoordLook::Nodes if only_group(&sheet).is_none() => return self.coord_nodes(cluster, done),
            CoordLook::Nodes => only_group(&sheet),
            CoordLook::Sessions { node, .. } | CoordLook::Semaphores { node, .. } => {
                place_in(&sheet, node).map(|place| place.group)
            }
        };
        let leader = leader.and_then(|group| cluster.board.leader(group));
        let Some(node) = leader.filter(|leader| leader.0 != self.node) else { return self.coord_here(look, done) };
        let (exchange, call) = (Arc::clone(self), RemoteCall::Coord { look: look.clone() });
        let done = Box::new(move |response: Response| match &response {
            Response::Coord(_) => done(response),
            Response::Refused(refusal) if refusal.code == ErrorCode::NotFound => done(response),
            _ => exchange.coord_here(look, done),
        });
        self.inboxes[ASKING_LANE].send(LaneMessage::AskNode { node, call, done });
    }

    /// The coordination nodes of all groups, each as its leader has it. All of them or none: a list without a group would look whole.
    fn coord_nodes(self: &Arc<Self>, cluster: &Neighbourhood, done: Respond) {
        let exchange = Arc::clone(self);
        let finish = move |told: Told| {
            let Some(cluster) = &exchange.cluster else { return done(super::refused(ErrorCode::Internal)) };
            let sheet = cluster.atlas.sheet();
            let mut nodes: BTreeMap<String, CoordNode> = BTreeMap::new();
            for group in sheet.cluster.groups_of(GroupKind::Coordination) {
                let leader = cluster.board.leader(group.shard);
                let by_leader = told.iter().find(|(node, _)| Some(*node) == leader).map(|(_, response)| response);
                let Some(Response::Coord(CoordView::Nodes(lines))) = by_leader else {
                    let message = format!("{} does not answer; try again", group.shard.label());
                    return done(Response::Refused(Refusal::new(ErrorCode::NoLeader, message)));
                };
                let is_of_group =
                    |line: &&CoordNode| place_in(&sheet, &line.path).is_some_and(|it| it.group == group.shard);
                nodes.extend(lines.iter().filter(is_of_group).map(|line| (line.path.clone(), line.clone())));
            }
            done(Response::Coord(CoordView::Nodes(nodes.into_values().collect())));
        };
        let look = CoordLook::Nodes;
        let call = RemoteCall::Coord { look: look.clone() };
        self.ask_nodes(cluster, &call, |done| self.coord_here(look, done), finish);
    }

    /// Looks at this node's own replica.
    pub fn coord_here(&self, look: CoordLook, done: Respond) {
        match self.coord.get() {
            Some(window) => window.look(look, done),
            None => done(super::refused(ErrorCode::NoLeader)),
        }
    }

    /// Where requests go, as this node knows it. A node that is alone leads everything.
    pub fn routes(&self) -> RouteList {
        let own = NodeId(self.node);
        let Some(cluster) = &self.cluster else {
            let map = self.places.now();
            let shards = map.places().iter().map(|place| ShardRoute {
                shard: place.shard,
                lo: place.interval.lo,
                hi: place.interval.hi,
                leader: Some(own),
                ..ShardRoute::default()
            });
            return RouteList { shards: shards.collect(), ..RouteList::default() };
        };
        let mut routes = Routes::new(own, cluster.map());
        self.places.now().places().iter().for_each(|place| routes.seat(place.shard, Some(place.lane)));
        for news in cluster.board.leads() {
            routes.hear(news.shard, news.term, Some(news.leader));
        }
        for node in cluster.board.silent() {
            routes.suspect(node);
        }
        routes.list()
    }

    pub(super) fn name_of(&self, node: NodeId) -> String {
        let map = self.cluster.as_ref().map(Neighbourhood::map);
        map.and_then(|map| map.node(node).map(|entry| entry.name.clone())).unwrap_or_default()
    }
}
