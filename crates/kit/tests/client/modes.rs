//! The three ways to ask, and what slow and lost hosts do to them.

use std::time::Duration;

use proptest::prelude::*;
use shardine_kit::{Cause, Cut, Fate, Interval, Mode, Options};

use crate::world::{Mood, Stage, at, how, values};

const MODES: [Mode; 3] = [Mode::All, Mode::Hedge, Mode::One];

/// Three replicas, of which a1 is the one to be asked first.
async fn three() -> Stage {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10)), ("c1", at(0, 10))]).await;
    stage.world.host("b1", |host| host.reads = Duration::from_micros(1_500));
    stage.world.host("c1", |host| host.reads = Duration::from_micros(1_600));
    // So that all are known, and how quick they are.
    for _ in 0..100 {
        for mode in MODES {
            stage.client.get_how(&[5_000], how(mode)).await.unwrap();
        }
    }
    stage.pass(0.1).await;
    stage.world.forget();
    stage
}

#[tokio::test(start_paused = true)]
async fn kit_a_24_a_replica_that_never_answers_costs_nothing_where_all_are_asked() {
    let stage = three().await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);
    let begun = stage.world.elapsed();

    stage.client.get_how(&[5_000], how(Mode::All)).await.unwrap();

    let took = stage.world.elapsed() - begun;
    assert!(took < Duration::from_millis(4), "{took:?}: that is b1's time on the clock of the test");
}

#[tokio::test(start_paused = true)]
async fn kit_a_24_a_replica_that_never_answers_costs_one_short_wait_with_hedges() {
    let stage = three().await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);
    let begun = stage.world.elapsed();

    stage.client.get_how(&[5_000], how(Mode::Hedge)).await.unwrap();
    let first = stage.world.elapsed() - begun;
    stage.client.get_how(&[5_000], how(Mode::Hedge)).await.unwrap();
    let second = stage.world.elapsed() - begun - first;

    assert!(first < Duration::from_millis(8), "{first:?}: a hedge after two milliseconds, and b1's time");
    assert!(second < Duration::from_millis(4), "{second:?}: the silent one is not asked again");
}

#[tokio::test(start_paused = true)]
async fn kit_a_25_a_lost_data_centre_costs_nothing() {
    let hosts = [("a1", at(0, 10)), ("a2", at(10, 20)), ("b1", at(0, 10)), ("b2", at(10, 20))];
    let stage = Stage::new(&hosts).await;
    for name in ["a1", "a2"] {
        stage.world.host(name, |host| host.mood = Mood::Silent);
    }
    let begun = stage.world.elapsed();

    let found = stage.client.get(&[5_000, 15_000]).await.unwrap();

    assert_eq!(found, values(&[5_000, 15_000]));
    assert!(stage.world.elapsed() - begun < Duration::from_millis(4));
}

#[tokio::test(start_paused = true)]
async fn kit_a_34_one_is_asked_and_a_second_only_when_it_is_late() {
    let stage = three().await;

    stage.client.get_how(&[5_000], how(Mode::Hedge)).await.unwrap();
    assert_eq!(stage.world.sent().len(), 1);
    let first = stage.world.sent()[0].0.clone();
    stage.world.forget();
    stage.world.host(&first, |host| host.reads = Duration::from_millis(300));
    stage.client.get_how(&[5_000], how(Mode::Hedge)).await.unwrap();

    let asked: Vec<(String, Duration)> = stage
        .world
        .all_sent()
        .into_iter()
        .filter(|sent| !sent.keys.is_empty())
        .map(|sent| (sent.host, sent.at))
        .collect();
    assert_eq!((asked.len(), &asked[0].0), (2, &first));
    let waited = asked[1].1 - asked[0].1;
    assert!((2..=4).contains(&waited.as_millis()), "{waited:?}: its usual time, and two milliseconds at least");
    assert_eq!(stage.client.metrics().hedges, 1);
}

#[tokio::test(start_paused = true)]
async fn kit_a_36_the_slower_twin_is_taken_back_and_its_server_hears_it() {
    let stage = three().await;
    stage.world.host("a1", |host| host.reads = Duration::from_secs(60));

    while stage.client.metrics().hedges == 0 {
        stage.client.get_how(&[5_000], how(Mode::Hedge)).await.unwrap();
    }

    assert_eq!(stage.world.cancelled("a1"), 1);
    assert_eq!(stage.client.metrics().cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn kit_a_36_a_twin_is_taken_back_at_once_and_not_with_the_end_of_the_call() {
    let options = Options { mode: Mode::Hedge, hedge_percent: 100, ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 10)), ("b2", at(10, 20))], options).await;
    stage.world.host("a1", |host| host.reads = Duration::from_secs(60));
    stage.world.host("b2", |host| host.reads = Duration::from_millis(400));

    let calling = loop {
        let client = stage.client.clone();
        let calling = tokio::spawn(async move { client.get(&[5_000, 15_000]).await });
        // A host that nobody knows yet has a hundred milliseconds.
        stage.pass(0.3).await;
        if stage.client.metrics().hedges > 0 {
            break calling;
        }
        calling.await.unwrap().unwrap();
    };

    assert!(!calling.is_finished());
    assert_eq!(stage.world.cancelled("a1"), 1);
    assert_eq!(calling.await.unwrap().unwrap(), values(&[5_000, 15_000]));
}

#[tokio::test(start_paused = true)]
async fn kit_a_35_when_everybody_is_slow_hedges_stay_a_twentieth() {
    let stage = three().await;
    for name in ["a1", "b1", "c1"] {
        stage.world.host(name, |host| host.reads = Duration::from_millis(200));
    }
    let before = stage.client.metrics();

    let calls = (0..1_000).map(|_| stage.client.get_how(&[5_000], how(Mode::Hedge)));
    let done = futures_util::future::join_all(calls).await;

    assert!(done.iter().all(Result::is_ok), "no budget is no error");
    let after = stage.client.metrics();
    let (requests, hedges) = (after.requests - before.requests, after.hedges - before.hedges);
    // What was asked before this minute's calls gives room for a few more.
    assert!(hedges * 20 <= after.requests, "{hedges} hedges among {requests} requests");
    assert!(after.forgone_hedges > 900);
}

#[tokio::test(start_paused = true)]
async fn kit_a_39_a_trace_tells_of_a_second_request_and_of_one_that_was_forgone() {
    let stage = three().await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);
    let (found, trace) = stage.client.get_traced(&[5_000], how(Mode::Hedge)).await;
    let (found, trace) = (found.unwrap(), trace.unwrap());
    let told = |asked: &shardine_kit::Asked| (asked.cause, asked.fate.unwrap());

    assert_eq!((found, trace.hedges(), trace.searches), (values(&[5_000]), 1, 0));
    assert_eq!(&*trace.asked[0].host, "a1");
    assert_eq!(
        trace.asked.iter().map(told).collect::<Vec<_>>(),
        [(Cause::First, Fate::Cancelled), (Cause::Hedge, Fate::Answered)]
    );
    assert_eq!(trace.answered[&5_000], trace.asked[1].host);

    let without_budget = Options { hedge_percent: 0, ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 10))], without_budget).await;
    for name in ["a1", "b1"] {
        stage.world.host(name, |host| host.reads = Duration::from_millis(200));
    }
    let trace = stage.client.get_traced(&[5_000], how(Mode::Hedge)).await.1.unwrap();

    assert_eq!(trace.hedges(), 0);
    assert_eq!(
        trace.asked.iter().map(told).collect::<Vec<_>>(),
        [(Cause::First, Fate::Answered), (Cause::Hedge, Fate::Forgone)]
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_drops_a_call_takes_back_its_requests() {
    let stage = three().await;
    stage.world.host("a1", |host| host.reads = Duration::from_secs(60));
    stage.world.host("b1", |host| host.reads = Duration::from_secs(60));
    stage.world.host("c1", |host| host.reads = Duration::from_secs(60));

    let call = stage.client.get_how(&[5_000], how(Mode::All));
    tokio::time::timeout(Duration::from_millis(10), call).await.unwrap_err();

    assert_eq!(["a1", "b1", "c1"].map(|name| stage.world.cancelled(name)), [1, 1, 1]);
}

/// Data centres, each with a cut of its own, and hosts of which one may be slow.
fn layouts() -> impl Strategy<Value = (Vec<Vec<u64>>, Vec<u64>, u64)> {
    let cuts = prop::collection::vec(prop::collection::vec(1u64..100, 0..5), 1..4);
    (cuts, prop::collection::btree_set(0u64..100_000, 1..40), 0u64..10)
        .prop_map(|(cuts, keys, slow)| (cuts, keys.into_iter().collect(), slow))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn kit_a_37_all_modes_find_the_same((cuts, keys, slow) in layouts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut hosts: Vec<(String, Interval)> = Vec::new();
            for (dc, bounds) in cuts.iter().enumerate() {
                let cut = Cut::at(bounds);
                let name = |shard| format!("{}{shard}", char::from(b'a' + dc as u8));
                hosts.extend((0..cut.shards()).map(|shard| (name(shard), cut.interval(shard))));
            }
            let named: Vec<(&str, Interval)> = hosts.iter().map(|(name, interval)| (name.as_str(), *interval)).collect();
            let stage = Stage::with(&named, Options::default()).await;
            if let Some((name, _)) = hosts.get(slow as usize) {
                stage.world.host(name, |host| host.reads = Duration::from_millis(50));
            }
            for mode in MODES {
                assert_eq!(stage.client.get_how(&keys, how(mode)).await.unwrap(), values(&keys), "{mode:?}");
            }
        });
    }
}
