//! How a host stands with a client after what it did: whom a call begins with that asks one host.

use std::time::Duration;

use shardine_kit::{Mode, Options};

use crate::world::{Mood, Stage, at, how, values};

/// Two replicas that have answered often enough to be known, of which a1 is the quicker one.
async fn two() -> Stage {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("b1", |host| host.reads = Duration::from_millis(5));
    for _ in 0..10 {
        stage.client.get(&[5_000]).await.unwrap();
        stage.pass(0.02).await;
    }
    stage
}

/// Whom a call begins with.
async fn first(stage: &Stage) -> String {
    stage.world.forget();
    stage.client.get_how(&[5_000], how(Mode::One)).await.unwrap();
    stage.world.sent()[0].0.clone()
}

/// Where all are asked, the slower one is only ever heard after its call has ended. A host that was never heard is tried.
#[tokio::test(start_paused = true)]
async fn what_an_answer_took_is_known_also_if_nobody_waited_for_it() {
    let stage = two().await;

    for _ in 0..10 {
        assert_eq!(first(&stage).await, "a1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_fails_is_avoided_whenever_its_failure_comes() {
    for (takes, when) in [(1, "in time"), (10, "after the call")] {
        let stage = two().await;
        stage.world.host("a1", |host| (host.mood, host.reads) = (Mood::Broken, Duration::from_millis(takes)));
        stage.client.get(&[5_000]).await.unwrap();
        stage.pass(0.02).await;

        assert_eq!(first(&stage).await, "b1", "it failed {when}");
    }
}

/// The same if nothing came of a call's request in time.
#[tokio::test(start_paused = true)]
async fn a_host_that_times_out_is_avoided() {
    let stage = two().await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);

    assert_eq!(first(&stage).await, "a1");

    assert_eq!(first(&stage).await, "b1");
}

/// The same if nobody listens there, as its ping has told.
#[tokio::test(start_paused = true)]
async fn a_host_whose_ping_fails_is_avoided() {
    let stage = two().await;
    stage.world.host("a1", |host| host.mood = Mood::Down);

    stage.pass(10.05 - stage.world.elapsed().as_secs_f64()).await;

    assert_eq!(stage.client.metrics().failed_pings, 1);
    assert_eq!(first(&stage).await, "b1");
}

/// And it is asked again as soon as it has answered one.
#[tokio::test(start_paused = true)]
async fn a_host_with_too_much_to_answer_is_left_alone_until_it_has() {
    let options = Options { in_flight_max: 3, ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 10))], options).await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);
    let asked = async || {
        stage.world.forget();
        assert_eq!(stage.client.get(&[5_000]).await.unwrap(), values(&[5_000]));
        stage.world.sent().iter().any(|(host, _)| host == "a1")
    };

    let first = [asked().await, asked().await, asked().await, asked().await];
    stage.pass(0.6).await;

    assert_eq!(first, [true, true, true, false]);
    assert!(asked().await, "what it was asked has timed out");
}
