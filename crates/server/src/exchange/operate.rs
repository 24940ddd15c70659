//! What an operator wants of a node or a leader: modes, weights, drains, removals, leads for others. What can be told to be
//! wrong beforehand is refused here, in words that say what to do; the rest is decided by the map's group.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use shardine_model::{Bound, ErrorCode, GroupKind, NodeId, NodeMode, Position, Refusal, ShardId};
use shardine_router::{DrainLeft, DrainReport, Operate, RemoteCall, Response, ShardAsk};
use shardine_shard::meta::{Command, Node, Settings, Sight, left_on};

use super::{Exchange, Neighbourhood};
use crate::atlas::Sheet;
use crate::lane_message::{LaneMessage, Respond};

/// How long whoever was asked to lead may take, SQL's last batch among it.
const TAKE_OVER_TIME: Duration = Duration::from_secs(5);
/// How long one try may take before the heir is asked again: a hand-over that fails is over by then.
const TRY_TIME: Duration = Duration::from_millis(1_200);
/// Between two tries while nobody knows that it leads.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a group may be without a leader before its lead cannot be given away: as long as requests are held.
const LEADER_TIME: Duration = Duration::from_millis(1_500);
/// How long nodes that live may take to hear of a new map before the answer does not wait for them.
const TELL_TIME: Duration = Duration::from_secs(2);
/// How long a split may take before nobody waits for it any more.
const SPLIT_TIME: Duration = Duration::from_secs(10);
/// The lane on whose links other nodes are asked.
const ASKING_LANE: usize = 0;

impl Exchange {
    /// Does what an operator wants, on a thread of its own: such orders are rare, and wait for others.
    pub(super) fn operate(self: &Arc<Self>, order: Operate, done: Respond) {
        let exchange = Arc::clone(self);
        let run = move || done(exchange.obey(order).unwrap_or_else(Response::Refused));
        if let Err(error) = std::thread::Builder::new().name("operate".to_owned()).spawn(run) {
            tracing::error!(%error, "no thread for an operator's order");
        }
    }

    pub(super) fn neighbours(&self) -> Result<&Neighbourhood, Refusal> {
        let message = "this node is alone for ever (`shardine up`): there is nobody to move anything to";
        self.cluster.as_ref().ok_or_else(|| Refusal::new(ErrorCode::Unsupported, message))
    }

    fn obey(self: &Arc<Self>, order: Operate) -> Result<Response, Refusal> {
        let sheet = self.neighbours()?.atlas.sheet();
        let command = match order {
            Operate::Move { shard, from, to, is_rehearsal } => {
                return self.move_replica(&sheet, shard, (&from, &to), is_rehearsal);
            }
            Operate::Set { name, value } => {
                Settings::check(&name, value.as_deref())?;
                Command::Set { name, value }
            }
            Operate::Transfer { shard, to } => return self.give_lead(&sheet, shard, to.as_deref()),
            Operate::Split { shard, at } => return self.split(&sheet, shard, at),
            Operate::Mode { node, mode } => Command::SetMode { node: member(&sheet, &node)?.node, mode },
            Operate::Weight { node, weight } => Command::SetWeight { node: member(&sheet, &node)?.node, weight },
            Operate::Remove { node } => {
                let node = member(&sheet, &node)?;
                self.check_removal(&sheet, node)?;
                Command::RemoveNode { node: node.node }
            }
        };
        self.insist(&command)?;
        self.await_told(&command);
        Ok(Response::Done)
    }

    /// Asks again while the map's group changes its leader: each of these orders, given twice, is given once.
    pub(super) fn insist(&self, command: &Command) -> Result<(), Refusal> {
        let until = Instant::now() + TAKE_OVER_TIME;
        loop {
            match self.ask_meta(command.clone()) {
                Ok(_) => return Ok(()),
                Err(refusal) if is_passing(refusal.code) && Instant::now() < until => std::thread::sleep(PAUSE),
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// Waits, but not for ever, until whoever lives knows of an order that was taken: who looks afterwards, at any node, sees it.
    fn await_told(&self, command: &Command) {
        let Some(cluster) = &self.cluster else { return };
        let shows = || shown(&cluster.atlas.sheet(), command).then(|| cluster.atlas.sheet());
        if let Some(sheet) = cluster.board.wait_until(TELL_TIME, shows) {
            let nodes: Vec<NodeId> = sheet.full.members().map(|node| node.node).collect();
            cluster.board.await_version(&nodes, sheet.version(), TELL_TIME);
        }
    }

    /// One that lives would go on voting while it is replaced, and what it alone has would be gone: it is emptied first.
    fn check_removal(&self, sheet: &Sheet, node: &Node) -> Result<(), Refusal> {
        let held = left_on(&sheet.full, &Sight::default(), node.node).len();
        let is_silent = self.neighbours()?.board.silent_for(node.node).is_some();
        if held == 0 || is_silent {
            return Ok(());
        }
        let (name, plural) = (&node.name, if held == 1 { "" } else { "s" });
        let message = format!(
            "node {name} lives and holds replicas of {held} group{plural}: empty it first: `shardine node drain {name} --watch`"
        );
        Err(Refusal::new(ErrorCode::Forbidden, message))
    }

    fn give_lead(self: &Arc<Self>, sheet: &Sheet, shard: ShardId, to: Option<&str>) -> Result<Response, Refusal> {
        let cluster = self.neighbours()?;
        if sheet.cluster.group(shard).is_none() {
            let message = format!("there is no {}: `shardine shards` lists the shards", shard.label());
            return Err(Refusal::new(ErrorCode::NotFound, message));
        }
        let to = to.map(|name| member(sheet, name).and_then(check_heir)).transpose()?;
        let no_leader = || Refusal::new(ErrorCode::NoLeader, format!("{} has no leader at the moment", shard.label()));
        let until = Instant::now() + TAKE_OVER_TIME;
        let mut to = to;
        loop {
            let leader = cluster.board.await_any_leader(shard, LEADER_TIME).ok_or_else(no_leader)?;
            if to == Some(leader) {
                return Ok(Response::Count(leader.0));
            }
            let heir = match self.ask_to_hand_over(leader, shard, to) {
                Response::Count(heir) => Ok(NodeId(heir)),
                Response::Refused(refusal) => Err(refusal),
                _ => Err(Refusal::new(ErrorCode::Internal, "the leader has answered something else")),
            };
            // Elected a moment ago, it does not know yet what it leads, or another one leads by now; and an heir may miss its cue.
            let is_late = Instant::now() >= until;
            match heir {
                Ok(heir) if cluster.board.await_leader(shard, heir, TRY_TIME) => return Ok(Response::Count(heir.0)),
                Ok(heir) if is_late => return Err(not_taken(&self.name_of(heir), shard)),
                Ok(heir) => to = Some(heir),
                Err(refusal) if is_late || refusal.code != ErrorCode::NotLeader => return Err(refusal),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Has a shard split, and waits until the map has both halves.
    fn split(self: &Arc<Self>, sheet: &Sheet, shard: ShardId, at: Option<Position>) -> Result<Response, Refusal> {
        let cluster = self.neighbours()?;
        let Some(group) = sheet.full.groups.get(&shard) else {
            let message = format!("there is no {}: `shardine shards` lists the shards", shard.label());
            return Err(Refusal::new(ErrorCode::NotFound, message));
        };
        let at = Bound::at(at.map_or_else(|| self.middle_of(shard), Ok)?);
        self.insist(&Command::Split { shard, epoch: group.epoch, at: at.clone() })?;
        let parted = || {
            let sheet = cluster.atlas.sheet();
            let child = sheet.full.groups.values().find(|group| group.shard != shard && group.bounds.lo == at)?;
            (child.shard.kind() == GroupKind::Records).then_some(child.shard)
        };
        let late = || {
            let message = format!("{} has not been split in time; it goes on by itself", shard.label());
            Refusal::new(ErrorCode::Busy, message)
        };
        let child = cluster.board.wait_until(SPLIT_TIME, parted).ok_or_else(late)?;
        self.await_others(TELL_TIME);
        Ok(Response::Count(u64::from(child.0)))
    }

    /// Where the data of a shard has its middle, as its leader says.
    fn middle_of(self: &Arc<Self>, shard: ShardId) -> Result<Position, Refusal> {
        let (give, take) = channel();
        let lane = self.places.of_shard(shard).map_or(0, |place| place.lane);
        self.ask(
            shard,
            lane,
            ShardAsk::Middle,
            Box::new(move |middle| {
                let _ = give.send(middle);
            }),
        );
        match take.recv_timeout(TAKE_OVER_TIME).unwrap_or(Err(ErrorCode::Busy)) {
            Ok(0) => {
                let message = format!("{} has nothing to be parted: say where, with --at", shard.label());
                Err(Refusal::new(ErrorCode::BadRequest, message))
            }
            Ok(position) => Ok(Position(position)),
            Err(code) => Err(Refusal::new(code, format!("{} does not say where its middle is", shard.label()))),
        }
    }

    fn ask_to_hand_over(self: &Arc<Self>, leader: NodeId, shard: ShardId, to: Option<NodeId>) -> Response {
        let (give, take) = channel();
        self.send_to_hand_over(leader, shard, to, Box::new(move |response| drop(give.send(response))));
        take.recv_timeout(TAKE_OVER_TIME).unwrap_or_else(|_| super::refused(ErrorCode::Busy))
    }

    /// Has whoever leads a group begin to give the lead away, wherever that is.
    pub fn send_to_hand_over(&self, leader: NodeId, shard: ShardId, to: Option<NodeId>, done: Respond) {
        if leader == NodeId(self.node) {
            self.transfer(shard, to, done);
        } else {
            let call = RemoteCall::Transfer { shard, to };
            self.inboxes[ASKING_LANE].send(LaneMessage::AskNode { node: leader, call, done });
        }
    }

    /// Has a group of this node give its lead away; answered with the number of the node that was asked to take it.
    pub fn transfer(&self, shard: ShardId, to: Option<NodeId>, done: Respond) {
        match shard.kind() {
            GroupKind::Records => match self.places.of_shard(shard) {
                Some(place) => self.inboxes[place.lane].send(LaneMessage::Transfer { shard, to, done }),
                None => done(super::refused(ErrorCode::NotFound)),
            },
            GroupKind::Coordination => match self.coord.get() {
                Some(window) => window.transfer(shard, to, done),
                None => done(super::refused(ErrorCode::NoLeader)),
            },
            GroupKind::Meta => match self.meta() {
                Some(meta) => meta.transfer(to, done),
                None => done(super::refused(ErrorCode::NoLeader)),
            },
        }
    }

    /// What is still on a node, and what it waits for, as this node sees it.
    pub(super) fn drain_report(&self, node: &str) -> Response {
        let report = || -> Result<DrainReport, Refusal> {
            let cluster = self.neighbours()?;
            let sheet = cluster.atlas.sheet();
            let node = member(&sheet, node)?;
            let left = left_on(&sheet.full, &Sight { silent: cluster.board.silent(), ..Sight::default() }, node.node);
            let left = left.into_iter().map(|left| DrainLeft {
                shard: left.shard,
                leads: cluster.board.leader(left.shard) == Some(node.node),
                stuck: left.is_stuck,
                waits_for: left.waits_for,
            });
            let Node { node, name, mode, weight, .. } = node.clone();
            Ok(DrainReport { node, name, mode, weight, left: left.collect() })
        };
        report().map_or_else(Response::Refused, |report| Response::Drain(Box::new(report)))
    }
}

/// A node by its name, or by its number.
pub(super) fn member<'a>(sheet: &'a Sheet, text: &str) -> Result<&'a Node, Refusal> {
    let numbered = || {
        let number = text.parse().ok().map(NodeId)?;
        sheet.full.members().find(|node| node.node == number)
    };
    let unknown = || {
        let message = format!("no node of the cluster is called {text}: `shardine node list` shows them");
        Refusal::new(ErrorCode::NotFound, message)
    };
    sheet.member_named(text).or_else(numbered).ok_or_else(unknown)
}

/// One that should lead nothing would give the lead away again at once.
fn check_heir(node: &Node) -> Result<NodeId, Refusal> {
    if node.may_lead() {
        return Ok(node.node);
    }
    let (name, mode) = (&node.name, node.mode.name());
    let message = match node.mode {
        NodeMode::ReadWrite if node.is_gateway => format!("node {name} is a gateway and leads nothing"),
        NodeMode::ReadWrite => {
            format!("node {name} has weight 0 and leads nothing: `shardine node weight {name} 100` first")
        }
        NodeMode::ReadOnly | NodeMode::Draining => {
            format!("node {name} is {mode} and leads nothing: `shardine node mode {name} rw` first")
        }
    };
    Err(Refusal::new(ErrorCode::Forbidden, message))
}

fn is_passing(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Busy | ErrorCode::NotLeader | ErrorCode::NoLeader | ErrorCode::InDoubt)
}

fn not_taken(name: &str, shard: ShardId) -> Refusal {
    let message = format!("node {name} has not taken the lead of {} in time; who leads goes on", shard.label());
    Refusal::new(ErrorCode::Busy, message)
}

/// Whether a map shows what an order asked for.
fn shown(sheet: &Sheet, command: &Command) -> bool {
    let node = |node: &NodeId| sheet.full.nodes.get(node);
    match command {
        Command::SetMode { node: number, mode } => node(number).is_some_and(|node| node.mode == *mode),
        Command::SetWeight { node: number, weight } => node(number).is_some_and(|node| node.weight == *weight),
        Command::Set { name, value } => sheet.full.settings.get(name) == value.as_ref(),
        Command::RemoveNode { node: number } => sheet.is_removed(*number),
        _ => true,
    }
}
