//! What operators order: modes and weights of nodes, nodes that leave, leads for others.

use shardine_model::{NodeId, NodeMode, Position, ShardId};
use shardine_router::{BalanceLook, BalanceView, BalancerReport, DrainReport, EventLine, NodeCall, Operate, Response};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::meaning::{settled, unexpected};
use crate::record_service::{Effect, RecordService};

impl RecordService {
    /// What a node is used for from now on.
    pub async fn set_node_mode(&self, node: String, mode: NodeMode, deadline: Instant) -> Result<(), Failure> {
        self.order(Operate::Mode { node, mode }, deadline).await
    }

    /// A node's share of reads that any replica may answer.
    pub async fn set_node_weight(&self, node: String, weight: u16, deadline: Instant) -> Result<(), Failure> {
        self.order(Operate::Weight { node, weight }, deadline).await
    }

    /// Takes a node out for good.
    pub async fn remove_node(&self, node: String, deadline: Instant) -> Result<(), Failure> {
        self.order(Operate::Remove { node }, deadline).await
    }

    /// What is still on a node, and what each of it waits for.
    pub async fn drain_report(&self, node: String, deadline: Instant) -> Result<DrainReport, Failure> {
        match self.ask(NodeCall::Drain { node }, Effect::Reads, deadline, "the drain").await? {
            Response::Drain(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    /// Has another node lead a group, the best heir if none is named; tells which one leads.
    pub async fn transfer_leader(
        &self,
        shard: ShardId,
        to: Option<String>,
        deadline: Instant,
    ) -> Result<NodeId, Failure> {
        let what = format!("the lead of {}", shard.label());
        let call = NodeCall::Operate(Operate::Transfer { shard, to });
        match self.ask(call, Effect::Changes, deadline, &what).await? {
            Response::Count(node) => Ok(NodeId(node)),
            other => Err(unexpected(&other)),
        }
    }

    /// Parts a shard; tells the number of what is parted off.
    pub async fn split_shard(
        &self,
        shard: ShardId,
        at: Option<Position>,
        deadline: Instant,
    ) -> Result<ShardId, Failure> {
        let what = format!("the split of {}", shard.label());
        let call = NodeCall::Operate(Operate::Split { shard, at });
        match self.ask(call, Effect::Changes, deadline, &what).await? {
            Response::Count(child) => Ok(ShardId(u32::try_from(child).unwrap_or_default())),
            other => Err(unexpected(&other)),
        }
    }

    /// The balancer, and what is to be moved.
    pub async fn balancer(&self, deadline: Instant) -> Result<BalancerReport, Failure> {
        match self.look_at_balance(BalanceLook::Report, deadline).await? {
            BalanceView::Report(report) => Ok(report),
            other => Err(unexpected(&Response::Balance(Box::new(other)))),
        }
    }

    /// What the cluster did behind the event of this number, oldest first.
    pub async fn events(&self, after: u64, deadline: Instant) -> Result<Vec<EventLine>, Failure> {
        match self.look_at_balance(BalanceLook::Events { after }, deadline).await? {
            BalanceView::Events(events) => Ok(events),
            other => Err(unexpected(&Response::Balance(Box::new(other)))),
        }
    }

    async fn look_at_balance(&self, look: BalanceLook, deadline: Instant) -> Result<BalanceView, Failure> {
        match self.ask(NodeCall::Balance(look), Effect::Reads, deadline, "the balancer").await? {
            Response::Balance(view) => Ok(*view),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes a setting of the cluster, or takes it back.
    pub async fn set_setting(&self, name: String, value: Option<String>, deadline: Instant) -> Result<(), Failure> {
        self.order(Operate::Set { name, value }, deadline).await
    }

    /// Begins to move a replica from one node to another, or says what would be done; in a sentence.
    pub async fn move_replica(&self, order: Operate, deadline: Instant) -> Result<String, Failure> {
        match self.ask(NodeCall::Operate(order), Effect::Changes, deadline, "the move").await? {
            Response::Balance(view) => match *view {
                BalanceView::Told(sentence) => Ok(sentence),
                other => Err(unexpected(&Response::Balance(Box::new(other)))),
            },
            other => Err(unexpected(&other)),
        }
    }

    async fn order(&self, order: Operate, deadline: Instant) -> Result<(), Failure> {
        let what = "the order";
        settled(self.ask(NodeCall::Operate(order), Effect::Changes, deadline, what).await?, what)
    }
}
