//! Hosts of `goals` that say of themselves what a run wants them to say, and keep what they were asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardine_kit::{Interval, wire};
use shardine_kit_examples::goals::goals_matcher_server::{GoalsMatcher, GoalsMatcherServer};
use shardine_kit_examples::goals::{GoalReaches, GoalReachesShardedBatch, HitsBatch};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// How a host treats requests with keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Well,
    /// Never answers, pings neither.
    Silent,
    /// Answers by an error that tells what it serves.
    Broken,
    /// Has no value of any key.
    Empty,
}

#[derive(Debug, Default)]
pub struct Script {
    pub shard: wire::Shard,
    pub mood: Mood,
    /// Added to every value.
    pub bias: u32,
    /// Counters of every request with keys, sorted.
    pub asked: Vec<Vec<u32>>,
    pub pings: u32,
    /// Requests without a timeout.
    pub endless: u32,
}

#[derive(Clone)]
pub struct Host {
    pub address: String,
    script: Arc<Mutex<Script>>,
}

impl Host {
    /// Of this data centre, with this interval.
    pub async fn start(dc: &str, interval: Interval) -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shard = wire::Shard { dc: dc.into(), host: address.clone(), incarnation: 1, ..wire::Shard::default() };
        let host = Host { address, script: Arc::new(Mutex::new(Script { shard, ..Script::default() })) };
        host.serves(interval);
        let door = GoalsMatcherServer::new(host.clone()).max_decoding_message_size(16 << 20);
        tokio::spawn(Server::builder().add_service(door).serve_with_incoming(TcpListenerStream::new(listener)));
        host
    }

    pub fn change<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.script.lock().unwrap())
    }

    /// From now on, as a newer epoch says.
    pub fn serves(&self, interval: Interval) {
        self.change(|script| {
            script.shard.epoch += 1;
            (script.shard.lo, script.shard.hi) = (interval.lo(), interval.hi().unwrap_or(0));
            script.shard.to_end = interval.hi().is_none();
        });
    }

    pub fn mood(&self, mood: Mood) {
        self.change(|script| script.mood = mood);
    }

    /// What it was asked for since the last time that somebody wanted to know.
    pub fn asked(&self) -> Vec<Vec<u32>> {
        self.change(|script| std::mem::take(&mut script.asked))
    }

    /// Waits for a ping that is sent from now on, and answered.
    pub async fn pinged(&self) {
        let before = self.change(|script| script.pings);
        // The second one was sent when the answer to the first was there.
        while self.change(|script| script.pings) < before + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tonic::async_trait]
impl GoalsMatcher for Host {
    async fn match_sharded(&self, batch: Request<HitsBatch>) -> Result<Response<GoalReachesShardedBatch>, Status> {
        let is_endless = batch.metadata().get("grpc-timeout").is_none();
        let hits = batch.into_inner().hits;
        let (shard, mood, bias) = self.change(|script| {
            script.endless += u32::from(is_endless);
            match hits.is_empty() {
                true => script.pings += 1,
                false => {
                    let mut counters: Vec<u32> = hits.iter().map(|hit| hit.counter_id).collect();
                    counters.sort_unstable();
                    script.asked.push(counters);
                }
            }
            (script.shard.clone(), script.mood, script.bias)
        });
        let all_matched = hits.iter().all(|hit| shard.interval().contains(hit.counter_id.into()));
        match mood {
            Mood::Silent => std::future::pending().await,
            Mood::Broken if !hits.is_empty() => return Err(stamped("no disk", &shard)),
            Mood::Well | Mood::Broken | Mood::Empty => {}
        }
        let answered = if all_matched && mood == Mood::Well { hits } else { Vec::new() };
        let reaches = answered.iter();
        let reaches = reaches
            .map(|hit| GoalReaches { watch_id: hit.watch_id, goal_ids: vec![hit.counter_id, 300 + bias] })
            .collect();
        Ok(Response::new(GoalReachesShardedBatch { reaches, all_matched, shard: Some(shard) }))
    }
}

fn stamped(words: &str, shard: &wire::Shard) -> Status {
    let mut status = Status::internal(words);
    let bytes = prost::Message::encode_to_vec(shard);
    status.metadata_mut().insert_bin("shardine-shard-bin", MetadataValue::from_bytes(&bytes));
    status
}
