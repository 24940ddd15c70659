//! Calls that fail: how often anybody is asked, and what is told of it.

use std::time::Duration;

use shardine_kit::{Error, HostStatus, Mode, Options, Tried, Why};
use tonic::Code;

use crate::world::{Mood, Stage, at, how};

/// kit A-26: what a service says about the request itself would be the same the next time.
#[tokio::test(start_paused = true)]
async fn a_status_that_is_final_is_not_asked_for_again() {
    let finals = [
        Code::InvalidArgument,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::FailedPrecondition,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::DataLoss,
        Code::Unauthenticated,
    ];
    let others = [
        Code::Cancelled,
        Code::Unknown,
        Code::DeadlineExceeded,
        Code::ResourceExhausted,
        Code::Aborted,
        Code::Internal,
        Code::Unavailable,
    ];
    for (code, requests) in finals.map(|code| (code, 1)).into_iter().chain(others.map(|code| (code, 3))) {
        let stage = Stage::new(&[("a1", at(0, 10))]).await;
        stage.world.host("a1", |host| host.mood = Mood::Says(code));

        let error = stage.client.get(&[5_000]).await.unwrap_err();

        let why = Why::Failed(HostStatus { code, message: "as the test wants it".to_owned() });
        assert_eq!(error, Error::Missing { ids: vec![5_000], hosts: vec![Tried { host: "a1".into(), why }] });
        assert_eq!(stage.world.sent().len(), requests, "{code:?}");
    }
}

/// kit: whoever looks for the reason of an overload wants to know what it began with.
#[tokio::test(start_paused = true)]
async fn without_a_budget_the_error_says_so_and_what_the_host_had_said() {
    let options = Options { retry_percent: 0, retry_reserve: 0, ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 10))], options).await;
    for name in ["a1", "b1"] {
        stage.world.host(name, |host| host.mood = Mood::Broken);
    }

    let told = stage.client.get(&[5_000]).await.unwrap_err().to_string();

    let why = "no budget for a retry after Internal: no disk";
    assert_eq!(told, format!("no value of 5000 from a1 ({why}), b1 ({why})"));
    let metrics = stage.client.metrics();
    assert_eq!((metrics.requests, metrics.retries, metrics.forgone_retries), (2, 0, 2));
}

/// kit A-27: hosts that were asked, and not those that the budget had no room for.
#[tokio::test(start_paused = true)]
async fn a_host_that_was_never_asked_is_not_named() {
    let host_timeout = Duration::from_secs(5);
    let options = Options { mode: Mode::Hedge, hedge_percent: 0, host_timeout, ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 10))], options).await;
    for name in ["a1", "b1"] {
        stage.world.host(name, |host| host.mood = Mood::Silent);
    }

    let error = stage.client.get(&[5_000]).await.unwrap_err();

    let asked: Vec<String> = stage.world.sent().into_iter().map(|(host, _)| host).collect();
    let hosts = asked.iter().map(|host| Tried { host: host.as_str().into(), why: Why::Unfinished }).collect();
    assert_eq!(error, Error::Missing { ids: vec![5_000], hosts });
    assert_eq!((asked.len(), stage.client.metrics().forgone_hedges), (1, 1));
}

/// kit A-27: also if it had the others.
#[tokio::test(start_paused = true)]
async fn a_host_that_had_some_of_the_keys_is_named_for_the_rest() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Confused { also: 1 });

    let error = stage.client.get(&[5_000, 6_000]).await.unwrap_err();

    let hosts = vec![Tried { host: "a1".into(), why: Why::NoValue }];
    assert_eq!(error, Error::Missing { ids: vec![6_000], hosts });
}

/// kit A-27: a host that was asked again, since it serves something else, is named with its last word.
#[tokio::test(start_paused = true)]
async fn of_two_requests_to_a_host_the_later_one_is_told() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Down);
    let client = stage.client.clone();
    let calling = tokio::spawn(async move { client.get(&[5_000]).await });
    stage.pass(0.1).await;

    stage.world.host("a1", |host| (host.mood, _) = (Mood::Empty, host.shard.serve(at(0, 11))));

    let hosts = vec![Tried { host: "a1".into(), why: Why::NoValue }];
    assert_eq!(calling.await.unwrap(), Err(Error::Missing { ids: vec![5_000], hosts }));
}

/// A second request that is sent again is a retry, and no second hedge.
#[tokio::test(start_paused = true)]
async fn a_hedge_is_counted_once() {
    let stage =
        Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 10))], Options { hedge_percent: 100, ..Options::default() })
            .await;
    for name in ["a1", "b1"] {
        stage.world.host(name, |host| host.mood = Mood::Silent);
    }

    stage.client.get_how(&[5_000], how(Mode::Hedge)).await.unwrap_err();

    let metrics = stage.client.metrics();
    assert_eq!((metrics.hedges, metrics.requests - metrics.retries), (1, 2), "{metrics:?}");
    assert!(metrics.retries > 0);
}
