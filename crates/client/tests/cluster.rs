//! Records and sessions of a client in a cluster of three real processes, of which some stop, pause and die.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use shardine_client::records::{Change, Error, ErrorCode, Row, Scan, Value};
use shardine_client::{Acquire, Client, NodeSettings, Records, SessionOptions};
use shardine_model::Position;
use shardine_proto::v1::cluster_client::ClusterClient;
use shardine_proto::v1::records_client::RecordsClient;
use shardine_proto::{CODE_METADATA, DIRECT_METADATA, v1};
use shardine_testkit::{Cluster, PATIENCE, wait_for};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Three nodes and a table of counters.
fn form() -> Cluster {
    let cluster = Cluster::form(3, &[], &[]).unwrap();
    let made = cluster
        .command(0, &["table", "create", "counters", "--backing", "none", "--field", "count:int64"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    cluster
}

fn client_of(cluster: &Cluster, places: &[usize]) -> Client {
    let addresses: Vec<String> = places.iter().map(|place| cluster.grpc(*place).to_string()).collect();
    Client::new(&addresses.join(",")).unwrap()
}

fn counter(key: &str) -> Row {
    Row::new("counters", key)
}

/// A key whose shard another node leads than the one that is asked, and the leader's place.
async fn key_led_elsewhere(cluster: &Cluster, asked: usize) -> (String, usize) {
    let mut door = ClusterClient::connect(format!("http://{}", cluster.grpc(asked))).await.unwrap();
    let routes = door.routes(v1::RoutesRequest {}).await.unwrap().into_inner();
    assert_eq!(routes.addresses.len(), cluster.nodes.len());
    let place_of = |address: &str| (0..cluster.nodes.len()).find(|place| cluster.grpc(*place).to_string() == address);
    let led = (0..).map(|number| format!("k{number}")).find_map(|key| {
        let position = Position::of_key(key.as_bytes()).0;
        let holds = |shard: &&v1::ShardRoute| shard.lo <= position && shard.hi.is_none_or(|hi| position < hi);
        let leader = place_of(&routes.shards.iter().find(holds).unwrap().address).unwrap();
        (leader != asked).then_some((key, leader))
    });
    led.unwrap()
}

/// sharding C-13
#[tokio::test(flavor = "multi_thread")]
async fn records_are_written_read_and_scanned_by_any_door() {
    let cluster = form();
    let records = client_of(&cluster, &[1]).records();

    for number in 0..20 {
        records.set(counter(&format!("k{number}")), [("count", number)]).await.unwrap();
    }
    let others = client_of(&cluster, &[2]).records();
    let rows: Vec<Row> = (0..21).map(|number| counter(&format!("k{number}"))).collect();
    let found = others.get_many(&rows).await;
    for (number, found) in found.iter().take(20).enumerate() {
        let count = found.as_ref().unwrap().as_ref().and_then(|record| record.get::<i64>("count"));
        assert_eq!(count, Some(number as i64));
    }
    assert!(found[20].as_ref().unwrap().is_none());

    let stale = others.change(Change::set(counter("k1"), [("count", 5)]).if_version(7)).await.unwrap_err();
    assert_eq!(stale.code(), Some(ErrorCode::VersionMismatch));
    let pair =
        vec![Change::incr(counter("k1"), "count", 1), Change::update(counter("k1")).add("count", 2).max("count", 10)];
    assert_eq!(others.batch(pair).await.unwrap().len(), 2);
    assert_eq!(others.incr(counter("k1"), "count", 1).await.unwrap(), Some(Value::Int(11)));
    assert!(others.delete(counter("k2")).await.unwrap());
    assert!(!others.delete(counter("k2")).await.unwrap());

    let (mut seen, mut scan) = (0, Scan::table("counters").limit(7));
    loop {
        let page = others.scan(&scan).await.unwrap();
        seen += page.records.len();
        let Some(next) = page.next else { break };
        scan = scan.after(next);
    }
    assert_eq!(seen, 19);
}

/// The node that told the client of the others stands still, and is not needed: whoever leads is asked at its own door.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_straight_to_leaders() {
    let mut cluster = form();
    let (key, _) = key_led_elsewhere(&cluster, 0).await;
    let records = client_of(&cluster, &[0]).records();
    records.set(counter(&key), [("count", 1)]).await.unwrap();

    cluster.process(0).unwrap().pause().unwrap();
    // A request that waits for the node which stands still is given up later than this.
    let changed = records.within(Duration::from_secs(3)).set(counter(&key), [("count", 2)]).await;
    cluster.process(0).unwrap().resume().unwrap();

    assert_eq!(changed.unwrap().version, 2);
}

/// `google.rpc.Status` with one detail.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(message, optional, tag = "3")]
    detail: Option<Detail>,
}

#[derive(Clone, PartialEq, Message)]
struct Detail {
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// redis-cluster A-37: only those who keep the map themselves are told who leads; for the others the node passes it on.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_keeps_the_map_is_told_who_leads() {
    let cluster = form();
    let (key, leader) = key_led_elsewhere(&cluster, 0).await;
    let row = Some(v1::Row { table: "counters".into(), key: key.clone().into_bytes(), sort: Vec::new() });
    let incr = v1::IncrRequest {
        row,
        field: "count".into(),
        by: Some(v1::Value { kind: Some(v1::value::Kind::Int64(1)) }),
        ..v1::IncrRequest::default()
    };
    let direct = || {
        let mut request = tonic::Request::new(incr.clone());
        request.metadata_mut().insert(DIRECT_METADATA, "1".parse().unwrap());
        request
    };
    let door = |place: usize| RecordsClient::connect(format!("http://{}", cluster.grpc(place)));

    let refused = door(0).await.unwrap().incr(direct()).await.unwrap_err();
    assert_eq!(refused.metadata().get(CODE_METADATA).unwrap(), "not_leader");
    let detail = Envelope::decode(refused.details()).unwrap().detail.unwrap();
    let moved = v1::Refusal::decode(&detail.value[..]).unwrap().moved.unwrap();
    assert_eq!(moved.address, cluster.grpc(leader).to_string());

    door(leader).await.unwrap().incr(direct()).await.unwrap();
    let passed_on = door(0).await.unwrap().incr(incr.clone()).await.unwrap().into_inner();
    assert_eq!(passed_on.version, 2, "what was refused was not done");
}

/// Tasks that raise a counter each, by one, as fast as they are answered.
struct Counting {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    tasks: JoinSet<Tally>,
}

struct Tally {
    row: Row,
    /// What each answer said.
    told: Vec<i64>,
    errors: Vec<Error>,
}

const TASKS: usize = 12;

impl Counting {
    fn start(records: &Records) -> Counting {
        let mut counting = Counting { stop: Arc::default(), answered: Arc::default(), tasks: JoinSet::new() };
        for task in 0..TASKS {
            let (records, stop, answered) =
                (records.clone(), Arc::clone(&counting.stop), Arc::clone(&counting.answered));
            counting.tasks.spawn(async move {
                let mut tally = Tally { row: counter(&format!("task{task}")), told: Vec::new(), errors: Vec::new() };
                while !stop.load(Ordering::Relaxed) {
                    match records.incr(tally.row.clone(), "count", 1).await {
                        Ok(Some(Value::Int(count))) => tally.told.push(count),
                        Ok(other) => panic!("a counter became {other:?}"),
                        Err(error) => tally.errors.push(error),
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                tally
            });
        }
        counting
    }

    fn await_more(&self, more: usize) {
        let wanted = self.answered.load(Ordering::Relaxed) + more;
        let is_there = || Ok((self.answered.load(Ordering::Relaxed) >= wanted).then_some(()));
        wait_for("further answers", PATIENCE, is_there).unwrap();
    }

    async fn finish(self) -> Vec<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await
    }
}

async fn count_of(records: &Records, row: &Row) -> i64 {
    records.get(row).await.unwrap().and_then(|record| record.get("count")).unwrap_or(0)
}

/// records 35, reliability F1: nodes die without a word, one after the other, and each number is executed once.
#[tokio::test(flavor = "multi_thread")]
async fn reliability_f1_each_numbered_change_is_made_once_whoever_dies() {
    let mut cluster = form();
    let records = client_of(&cluster, &[0, 1, 2]).records().numbered().within(PATIENCE);
    let counting = Counting::start(&records);

    for victim in 0..3 {
        counting.await_more(300);
        cluster.kill9(victim).unwrap();
        counting.await_more(300);
        cluster.start(victim).unwrap();
        cluster.wait_until_serving().unwrap();
    }
    for tally in counting.finish().await {
        assert!(tally.errors.is_empty(), "{:?}: {:?}\n{}", tally.row, tally.errors, cluster.output());
        let every_number: Vec<i64> = (1..).take(tally.told.len()).collect();
        assert_eq!(tally.told, every_number, "{:?}", tally.row);
        assert_eq!(count_of(&records, &tally.row).await, tally.told.len() as i64);
    }
}

/// records 35: a client that knows one door and no map. The node behind it asks again what a leader took with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_numbered_change_that_was_passed_on_is_made_once() {
    let mut cluster = form();
    let (key, leader) = key_led_elsewhere(&cluster, 0).await;
    let mut door = RecordsClient::connect(format!("http://{}", cluster.grpc(0))).await.unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    let task = tokio::spawn({
        let answered = Arc::clone(&answered);
        async move {
            for sequence in 1..=2_000 {
                let delivery = v1::Delivery {
                    client_id: Some(77),
                    sequence,
                    lowest_unanswered: Some(sequence),
                    ..v1::Delivery::default()
                };
                let message = v1::IncrRequest {
                    row: Some(v1::Row { table: "counters".into(), key: key.clone().into_bytes(), sort: Vec::new() }),
                    field: "count".into(),
                    by: Some(v1::Value { kind: Some(v1::value::Kind::Int64(1)) }),
                    delivery: Some(delivery),
                    ..v1::IncrRequest::default()
                };
                let reply = door.incr(message).await.unwrap().into_inner();
                assert_eq!(reply.version, sequence as i64, "each once, and the first result");
                answered.store(sequence as usize, Ordering::Relaxed);
            }
        }
    });

    wait_for("some answers", PATIENCE, || Ok((answered.load(Ordering::Relaxed) > 200).then_some(()))).unwrap();
    cluster.kill9(leader).unwrap();

    timeout(PATIENCE, task).await.unwrap().unwrap();
}

/// records 34: without numbers a change is in doubt where its leader died under it, and from then on none is.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_a_dead_leader_had_is_in_doubt() {
    let mut cluster = form();
    let records = client_of(&cluster, &[0, 1, 2]).records().within(PATIENCE);
    let counting = Counting::start(&records);

    counting.await_more(300);
    cluster.kill9(1).unwrap();
    counting.await_more(300);
    for tally in counting.finish().await {
        let (done, doubts) = (tally.told.len() as i64, tally.errors.len() as i64);
        assert!(tally.errors.iter().all(|error| !error.is_certain()), "{:?}", tally.errors);
        // One at the leader, and the next one at a node that passed it on before it had noticed.
        assert!(doubts <= 2, "{:?}", tally.errors);
        assert!(tally.told.is_sorted_by(|one, next| one < next));
        let count = count_of(&records, &tally.row).await;
        assert!((done..=done + doubts).contains(&count), "{count} of {done} and {doubts} in doubt");
    }
}

/// Nobody is there: that is certain, and said in time.
#[tokio::test]
async fn a_cluster_that_is_not_there_is_no_doubt() {
    let port = shardine_testkit::Port::free().unwrap();
    let records = Client::new(&port.address().to_string()).unwrap().records().within(Duration::from_millis(300));

    let error = timeout(PATIENCE, records.set(counter("k"), [("count", 1)])).await.unwrap().unwrap_err();

    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
}

/// coordination 54, 56: the node dies by which a session came, and others know what it holds. Nobody named them to the client.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_by_another_node_with_what_it_held() {
    const NODE: &str = "/local/tests";
    let mut cluster = form();
    let (one, other) = (client_of(&cluster, &[0]), client_of(&cluster, &[1]));
    // Whoever has asked for a record has heard of the other nodes.
    one.records().get(&counter("k")).await.unwrap();
    one.create_node(NODE, NodeSettings::default()).await.unwrap();
    let options = SessionOptions { timeout: Duration::from_secs(60), ..SessionOptions::default() };
    let holder = one.start_session(NODE, options.clone()).await.unwrap();
    let heir = other.start_session(NODE, options).await.unwrap();
    assert!(holder.acquire("lock", Acquire::exclusive().ephemeral()).await.unwrap());
    let fence = holder.fence("lock").await.unwrap().unwrap();
    let waiting = tokio::spawn({
        let heir = heir.clone();
        async move { heir.acquire("lock", Acquire::exclusive().ephemeral()).await }
    });

    cluster.kill9(0).unwrap();

    assert_eq!(timeout(PATIENCE, holder.fence("lock")).await.unwrap().unwrap(), Some(fence));
    assert!(!waiting.is_finished());
    assert!(timeout(PATIENCE, holder.release("lock")).await.unwrap().unwrap());
    assert!(timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap());
    assert!(heir.fence("lock").await.unwrap().unwrap() > fence);
}
