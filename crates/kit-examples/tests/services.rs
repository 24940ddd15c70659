//! `goals` over real gRPC, in one process: what only a real connection can show. `names` is in `guide.rs`.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use shardine_kit::provider::Fixed;
use shardine_kit::{Client, Identity, Interval, Mode, Options, Shard};
use shardine_kit_examples::goals::goals_matcher_client::GoalsMatcherClient;
use shardine_kit_examples::goals::goals_matcher_server::{GoalsMatcher, GoalsMatcherServer};
use shardine_kit_examples::goals::request::GoalsRequest;
use shardine_kit_examples::goals::{GoalReaches, GoalReachesShardedBatch, Hit, HitsBatch};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// A host of goals whose answers take as long as the test wants.
#[derive(Clone)]
struct Matcher {
    shard: Shard,
    takes: Duration,
    /// Goals of a hit.
    goals: usize,
}

#[tonic::async_trait]
impl GoalsMatcher for Matcher {
    async fn match_sharded(&self, batch: Request<HitsBatch>) -> Result<Response<GoalReachesShardedBatch>, Status> {
        let hits = batch.into_inner().hits;
        let read = async |hits: &[Hit]| {
            tokio::time::sleep(self.takes).await;
            let reaches =
                |hit: &Hit| GoalReaches { watch_id: hit.watch_id, goal_ids: vec![hit.counter_id; self.goals] };
            Ok(hits.iter().map(reaches).collect())
        };
        let answer = self.shard.get(&hits, |hit| hit.counter_id.into(), read).await?;
        let (reaches, all_matched, shard) = (answer.values, answer.all_matched, Some(answer.shard));
        Ok(Response::new(GoalReachesShardedBatch { reaches, all_matched, shard }))
    }
}

async fn goals_host(interval: Interval, takes: Duration) -> (String, Shard) {
    goals_host_with(interval, takes, 1).await
}

async fn goals_host_with(interval: Interval, takes: Duration, goals: usize) -> (String, Shard) {
    let (listener, address) = listen().await;
    let shard = Shard::new(Identity::new("vla", &address));
    shard.serve(interval);
    let door = GoalsMatcherServer::new(Matcher { shard: shard.clone(), takes, goals });
    tokio::spawn(Server::builder().add_service(door).serve_with_incoming(TcpListenerStream::new(listener)));
    (address, shard)
}

fn hit(watch_id: u64, counter_id: u32) -> Hit {
    Hit { watch_id, counter_id, url: "https://shop.example/".into(), is_robot: false }
}

/// kit, on the wire.
#[tokio::test]
async fn a_server_answers_all_keys_or_none_and_always_says_what_it_serves() {
    let (address, _shard) = goals_host(Interval::new(10, 20), Duration::ZERO).await;
    let mut stub = GoalsMatcherClient::connect(format!("http://{address}")).await.unwrap();
    let mut ask = async |hits: Vec<Hit>| stub.match_sharded(HitsBatch { hits }).await.unwrap().into_inner();

    let empty = ask(vec![]).await;
    let inside = ask(vec![hit(1, 10), hit(2, 19)]).await;
    let outside = ask(vec![hit(1, 10), hit(2, 20)]).await;

    for (reply, all_matched, values) in [(&empty, true, 0), (&inside, true, 2), (&outside, false, 0)] {
        assert_eq!((reply.all_matched, reply.reaches.len()), (all_matched, values));
        assert_eq!(reply.shard.as_ref().unwrap().interval(), Interval::new(10, 20));
    }
}

/// kit A-27: what a reply was, what it may be, and whose it was is told; smaller parts and a larger limit get through.
#[tokio::test]
async fn a_reply_that_is_too_large_is_told_and_smaller_parts_are_not() {
    let (address, _shard) = goals_host_with(Interval::WHOLE, Duration::ZERO, 100_000).await;
    let hits: Vec<Hit> = (0..20).map(|number| hit(number, 1_000_000)).collect();
    let usual =
        Options { host_timeout: Duration::from_secs(20), deadline: Duration::from_secs(60), ..Options::default() };
    let ask = async |options: Options| {
        let client = Client::start(GoalsRequest, Fixed::new([address.clone()]), options);
        let answer = client.get(&hits).await.map_err(|error| error.to_string());
        (answer, client.metrics().requests)
    };

    // A goal has three bytes.
    for limit in [usual.reply_bytes_max, 1_000_000] {
        let (told, requests) = ask(Options { reply_bytes_max: limit, ..usual.clone() }).await;

        let told = told.unwrap_err();
        assert!(told.contains(&format!("from {address} (OutOfRange:")), "{told}");
        assert!(told.contains("found 6000") && told.contains(&format!("the limit is: {limit} bytes")), "{told}");
        assert_eq!(requests, 1, "it would be as large the next time");
    }
    let parts = Options { request_keys_max: 10, ..usual.clone() };
    for (options, expected) in [(parts, 2), (Options { reply_bytes_max: 7_000_000, ..usual }, 1)] {
        let (found, requests) = ask(options).await;

        let found = found.unwrap();
        assert!(found.len() == 20 && found.values().all(|goals| goals.len() == 100_000));
        assert_eq!(requests, expected);
    }
}

/// kit A-36: over a real connection, which has to carry the news.
#[tokio::test]
async fn the_server_of_a_request_that_is_taken_back_stops() {
    let (slow, shard) = goals_host(Interval::WHOLE, Duration::from_secs(3_600)).await;
    let (quick, _) = goals_host(Interval::WHOLE, Duration::ZERO).await;
    let options = Options { mode: Mode::Hedge, hedge_percent: 100, ..Options::default() };
    let client = Client::start(GoalsRequest, Fixed::new([slow, quick]), options);
    client.wait_for_hosts(|known| known.len() == 2).await;

    while client.metrics().hedges == 0 {
        client.get(&[hit(1, 1)]).await.unwrap();
    }
    while shard.metrics().cancelled == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    assert_eq!(client.metrics().timeouts, 0);
}

/// kit: a host that is not there yet when it is asked for.
#[tokio::test]
async fn a_call_finds_a_host_that_comes_up_while_it_waits() {
    let (listener, address) = listen().await;
    drop(listener);
    let options =
        Options { search_period: Duration::from_millis(20), deadline: Duration::from_secs(60), ..Options::default() };
    let client = Client::start(GoalsRequest, Fixed::new([address.clone()]), options);
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.get(&[hit(1, 5)]).await }
    });
    while client.metrics().failed_pings == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    let listener = TcpListener::bind(&address).await.unwrap();
    let shard = Shard::new(Identity::new("vla", &address));
    shard.serve(Interval::WHOLE);
    let door = GoalsMatcherServer::new(Matcher { shard, takes: Duration::ZERO, goals: 1 });
    tokio::spawn(Server::builder().add_service(door).serve_with_incoming(TcpListenerStream::new(listener)));

    assert_eq!(calling.await.unwrap().unwrap(), [(1, vec![5])].into());
}
