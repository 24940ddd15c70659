//! One call: who is asked for what, what counts as an answer, and how it ends without one.

use std::time::Duration;

use shardine_kit::{Cause, Error, Fate, HostStatus, How, Interval, Mode, Options, Tried, Why};
use tonic::Code;

use crate::world::{Mood, Stage, at, how, values};

fn tried(host: &str, why: Why) -> Tried {
    Tried { host: host.into(), why }
}

fn own(sent: &[(&str, &[u64])]) -> Vec<(String, Vec<u64>)> {
    sent.iter().map(|(host, keys)| ((*host).to_owned(), keys.to_vec())).collect()
}

#[tokio::test(start_paused = true)]
async fn kit_a_18_19_every_replica_of_a_key_is_asked_for_it_once_and_nobody_else() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("a2", at(10, 20)), ("b1", at(0, 20)), ("c9", at(90, 99))]).await;

    let found = stage.client.get(&[5_000, 15_000]).await.unwrap();

    assert_eq!(found, values(&[5_000, 15_000]));
    let expected = own(&[("a1", &[5_000]), ("a2", &[15_000]), ("b1", &[5_000, 15_000])]);
    assert_eq!(stage.world.sent(), expected);
}

#[tokio::test(start_paused = true)]
async fn kit_a_20_two_keys_with_one_id_are_refused_before_anything_is_sent() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;

    let refused = stage.client.get(&[5_000, 6_000, 5_000]).await;

    assert_eq!(refused, Err(Error::Duplicate { id: 5_000 }));
    assert!(stage.world.sent().is_empty());
}

#[tokio::test(start_paused = true)]
async fn kit_a_21_the_first_answer_wins_and_a_different_one_is_counted() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 20))]).await;
    stage.world.host("b1", |host| {
        host.reads = Duration::from_millis(50);
        host.bias = 7;
    });

    let found = stage.client.get(&[5_000, 15_000]).await.unwrap();

    assert_eq!(found, [(5_000, 50_000), (15_000, 150_007)].into());
    assert_eq!(stage.client.metrics().divergent_replies, 1);
}

#[tokio::test(start_paused = true)]
async fn kit_a_22_a_call_takes_as_long_as_its_last_key_and_not_as_its_last_host() {
    let stage = Stage::new(&[("a1", at(0, 20)), ("b1", at(0, 10)), ("b2", at(10, 20))]).await;
    stage.world.host("a1", |host| host.reads = Duration::from_millis(400));
    stage.world.host("b2", |host| host.reads = Duration::from_millis(30));
    let begun = stage.world.elapsed();

    stage.client.get(&[5_000, 15_000]).await.unwrap();

    let took = stage.world.elapsed() - begun;
    assert!((30..40).contains(&took.as_millis()), "{took:?} on the clock of the test");
}

#[tokio::test(start_paused = true)]
async fn kit_a_26_a_host_has_its_own_time_out_and_retries_and_the_batch_is_sent_once() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("a2", at(10, 20))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);

    let error = stage.client.get(&[5_000, 15_000]).await.unwrap_err();

    assert_eq!(error, Error::Missing { ids: vec![5_000], hosts: vec![tried("a1", Why::TimedOut)] });
    let again: (&str, &[u64]) = ("a1", &[5_000]);
    let expected = own(&[again, ("a2", &[15_000]), again, again]);
    assert_eq!(stage.world.sent(), expected, "what a2 has is there already");
    let metrics = stage.client.metrics();
    assert_eq!((metrics.timeouts, metrics.retries), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn kit_a_27_28_when_all_replicas_of_a_key_are_gone_it_is_named_and_the_rest_is_to_be_had() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10)), ("a2", at(10, 20))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Down);
    stage.world.host("b1", |host| host.mood = Mood::Silent);
    let keys = [5_000, 6_000, 15_000];

    let strict = stage.client.get(&keys).await.unwrap_err();
    let partial = stage.client.get_partial(&keys, How::default()).await.unwrap();

    let down = HostStatus { code: Code::Unavailable, message: "nobody listens".to_owned() };
    let hosts = vec![tried("a1", Why::Failed(down)), tried("b1", Why::TimedOut)];
    assert_eq!(strict, Error::Missing { ids: vec![5_000, 6_000], hosts });
    assert_eq!((partial.found, partial.missing), (values(&[15_000]), vec![5_000, 6_000]));
}

#[tokio::test(start_paused = true)]
async fn kit_a_29_30_a_key_of_nobody_waits_for_its_host() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    let client = stage.client.clone();
    let waiting = tokio::spawn(async move { client.get(&[5_000, 15_000]).await });
    stage.pass(0.1).await;
    assert_eq!(stage.world.sent(), own(&[("a1", &[5_000])]), "what has a host is asked for at once");

    stage.world.add("b1", at(10, 20));
    *stage.world.list.lock().unwrap() = Some(vec!["a1".to_owned(), "b1".to_owned()]);

    assert_eq!(waiting.await.unwrap().unwrap(), values(&[5_000, 15_000]), "without another call");
    assert_eq!(stage.client.metrics().calls, 1);
}

#[tokio::test(start_paused = true)]
async fn a_first_call_waits_until_the_hosts_are_known() {
    let world = crate::world::World::new(&[("a1", at(0, 10))]);
    let request = crate::world::Letters(std::sync::Arc::clone(&world));
    let client = shardine_kit::Client::start(request, crate::world::Listed(world), Options::default());

    assert_eq!(client.get(&[5_000]).await.unwrap(), values(&[5_000]));
}

#[tokio::test(start_paused = true)]
async fn kit_a_31_the_wait_for_a_host_ends_with_the_deadline() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);
    let begun = stage.world.elapsed();

    let how = How::default().within(Duration::from_millis(1_400));
    let error = stage.client.get_how(&[15_000, 5_000, 16_000], how).await.unwrap_err();

    assert_eq!(error, Error::NoShard { ids: vec![15_000, 16_000] });
    assert_eq!((stage.world.elapsed() - begun).as_millis(), 1_400);
}

#[tokio::test(start_paused = true)]
async fn kit_a_32_no_keys_are_answered_without_a_request() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;

    assert!(stage.client.get(&[]).await.unwrap().is_empty());
    assert!(stage.client.get_partial(&[], How::default()).await.unwrap().missing.is_empty());

    assert!(stage.world.all_sent().is_empty());
    assert_eq!(
        (stage.client.metrics().calls, stage.client.metrics().failed_calls),
        (2, 0),
        "and are calls all the same"
    );
}

#[tokio::test(start_paused = true)]
async fn kit_a_8_33_keys_that_moved_are_answered_by_another_replica_without_a_repeat() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("a1", |host| host.shard.serve(at(10, 20)));
    stage.world.host("b1", |host| host.reads = Duration::from_millis(50));

    let found = stage.client.get(&[5_000]).await.unwrap();

    assert_eq!(found, values(&[5_000]));
    assert_eq!(stage.world.sent(), own(&[("a1", &[5_000]), ("b1", &[5_000])]));
    assert_eq!(stage.believed("a1"), Some(at(10, 20)));
}

#[tokio::test(start_paused = true)]
async fn kit_a_33_keys_that_nobody_has_any_more_are_waited_for_and_not_asked_for_in_a_circle() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    stage.world.host("a1", |host| host.shard.serve(at(10, 20)));

    let error = stage.client.get(&[5_000]).await.unwrap_err();

    assert_eq!(error, Error::NoShard { ids: vec![5_000] });
    assert_eq!(stage.world.sent(), own(&[("a1", &[5_000])]));
    assert!(stage.world.pings().len() <= 4, "hosts are asked once per search period");
}

#[tokio::test(start_paused = true)]
async fn kit_a_39_a_trace_tells_what_was_done() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", Interval::to_end(10))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Down);

    let (outcome, trace) = stage.client.get_traced(&[5_000, 15_000], how(Mode::All)).await;

    assert!(outcome.is_err());
    let trace = trace.unwrap();
    assert_eq!((trace.map_version, trace.hedges(), trace.retries()), (2, 0, 2));
    assert!(trace.searches > 0, "all hosts were asked once more");
    let told: Vec<_> =
        trace.asked.iter().map(|ask| (&*ask.host, ask.keys, ask.cause, ask.attempts, ask.fate)).collect();
    let down = ("a1", 1, Cause::First, 3, Some(Fate::Failed));
    assert_eq!(told, [down, ("b1", 1, Cause::First, 1, Some(Fate::Answered))]);
    assert_eq!(trace.answered.get(&15_000).map(|host| &**host), Some("b1"));
    assert_eq!(trace.answered.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn kit_a_39_searches_are_traced_and_counted_with_everything_else() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 20))]).await;
    stage.world.host("b1", |host| host.shard.serve(at(0, 10)));
    let before = stage.client.metrics();

    let (outcome, trace) = stage.client.get_traced(&[15_000], How::default()).await;

    assert_eq!(outcome, Err(Error::NoShard { ids: vec![15_000] }));
    let searches = trace.unwrap().searches;
    assert!(searches >= 1, "the deadline is two search periods away");
    let after = stage.client.metrics();
    let counted = |of: fn(&shardine_kit::ClientMetrics) -> u64| of(&after) - of(&before);
    assert_eq!((counted(|all| all.calls), counted(|all| all.failed_calls)), (1, 1));
    assert_eq!((counted(|all| all.requests), counted(|all| all.refusals), counted(|all| all.map_changes)), (1, 1, 1));
    assert_eq!(counted(|all| all.searches), u64::from(searches));
    assert_eq!(counted(|all| all.pings), stage.world.pings().len() as u64);
}
