//! The request, described once: what the seed calls `TGrpcGoalsRequestDescription`.

use shardine_kit::{Host, Reply, Request};
use tonic::{Response, Status};

use super::goals_matcher_client::GoalsMatcherClient;
use super::{GoalReachesShardedBatch, Hit, HitsBatch};

#[derive(Clone, Copy, Debug, Default)]
pub struct GoalsRequest;

impl Request for GoalsRequest {
    type Key = Hit;
    type Value = Vec<u32>;
    type Id = u64;
    type Asked = HitsBatch;
    type Answered = GoalReachesShardedBatch;

    fn sharding_key(&self, hit: &Hit) -> u64 {
        hit.counter_id.into()
    }

    fn entry_id(&self, hit: &Hit) -> u64 {
        hit.watch_id
    }

    fn encode(&self, hits: &[&Hit]) -> HitsBatch {
        HitsBatch { hits: hits.iter().map(|hit| (*hit).clone()).collect() }
    }

    fn decode(&self, batch: GoalReachesShardedBatch) -> Result<Reply<u64, Vec<u32>>, Status> {
        let values = batch.reaches.into_iter().map(|reached| (reached.watch_id, reached.goal_ids)).collect();
        Ok(Reply { values, all_matched: batch.all_matched, shard: batch.shard })
    }

    async fn call(
        &self,
        host: &Host,
        batch: tonic::Request<HitsBatch>,
    ) -> Result<Response<GoalReachesShardedBatch>, Status> {
        let stub = GoalsMatcherClient::new(host.channel());
        stub.max_decoding_message_size(host.reply_bytes_max()).match_sharded(batch).await
    }
}
