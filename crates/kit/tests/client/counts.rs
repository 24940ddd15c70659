//! Every request is counted once, whatever came of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use shardine_kit::{ClientMetrics, HostMetrics, Mode, Options};
use tonic::Code;

use crate::world::{Mood, Stage, at, how, values};

fn is_settled(metrics: &ClientMetrics) -> bool {
    let ends = metrics.answers + metrics.refusals + metrics.errors + metrics.timeouts;
    metrics.requests == ends + metrics.cancelled + metrics.late_replies
}

/// kit A-53.
#[tokio::test(start_paused = true)]
async fn every_request_is_counted_once_by_what_came_of_it() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10)), ("c1", at(0, 10))]).await;
    let moods = [Mood::Well, Mood::Silent, Mood::Down, Mood::Broken, Mood::Garbled, Mood::Empty];
    for mood in moods {
        stage.world.host("a1", |host| host.mood = mood);
        stage.world.host("c1", |host| host.reads = Duration::from_millis(300));
        for mode in [Mode::All, Mode::Hedge, Mode::One] {
            for _ in 0..20 {
                let _ = stage.client.get_how(&[5_000], how(mode)).await;
            }
        }
    }
    stage.world.host("b1", |host| host.shard.serve(at(10, 20)));
    let _ = stage.client.get(&[5_000, 15_000]).await;
    // Whoever was asked and not waited for has its time-out.
    stage.pass(2.0).await;

    let metrics = stage.client.metrics();
    assert!(is_settled(&metrics), "{metrics:?}");
    assert_eq!(metrics.requests, stage.world.sent().len() as u64);
    for (host, of_host) in stage.client.host_metrics() {
        let ends = of_host.answers + of_host.refusals + of_host.errors + of_host.timeouts;
        assert_eq!(of_host.requests, ends + of_host.cancelled + of_host.late_replies, "{host}: {of_host:?}");
        let sent = stage.world.sent().iter().filter(|(to, _)| *to == host).count();
        assert_eq!(of_host.requests, sent as u64, "{host}");
    }
}

/// kit A-53.
#[tokio::test(start_paused = true)]
async fn dropped_calls_are_counted_as_cancelled() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    for name in ["a1", "b1"] {
        stage.world.host(name, |host| host.mood = Mood::Silent);
    }

    for _ in 0..100 {
        let call = stage.client.get(&[5_000]);
        tokio::time::timeout(Duration::from_millis(10), call).await.unwrap_err();
    }

    let metrics = stage.client.metrics();
    assert_eq!((metrics.requests, metrics.cancelled), (200, 200));
}

/// kit A-53: what could not be written down was not sent, and its call is the only one to hear of it.
#[tokio::test(start_paused = true)]
async fn a_panic_in_encode_is_no_request() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.is_dumb.store(true, Ordering::Relaxed);

    let client = stage.client.clone();
    tokio::spawn(async move { client.get(&[5_000]).await }).await.unwrap_err();

    let metrics = stage.client.metrics();
    assert!(is_settled(&metrics) && metrics.requests == 0, "{metrics:?}");
    assert!(stage.client.host_metrics().iter().all(|(_, of_host)| of_host.requests == 0));
    stage.world.is_dumb.store(false, Ordering::Relaxed);
    assert_eq!(stage.client.get(&[5_000]).await.unwrap(), values(&[5_000]));
}

/// Chance that a seed repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

fn sum(all: &[(String, HostMetrics)], of: fn(&HostMetrics) -> u64) -> u64 {
    all.iter().map(|(_, host)| of(host)).sum()
}

/// kit A-53: in all modes, with deadlines that come too early, calls that are dropped, budgets that are spent, requests in parts,
/// and hosts that change their mind in between.
#[tokio::test(start_paused = true)]
async fn whatever_happens_requests_are_the_sum_of_their_ends() {
    let confused = Mood::Confused { also: 7 };
    let good = [Mood::Well, Mood::Well, Mood::Silent, Mood::Down, Mood::Broken, Mood::Empty, confused];
    let bad = [
        Mood::Garbled,
        Mood::Cursed,
        Mood::Says(Code::Aborted),
        Mood::Says(Code::OutOfRange),
        Mood::Denying,
        Mood::Shaky,
    ];
    let moods = [&good[..], &bad[..]].concat();
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let (hedge_percent, retry_reserve) = (dice.one_of(&[0, 5, 100]), dice.one_of(&[0, 3, 100]));
        let options =
            Options { hedge_percent, retry_reserve, request_keys_max: dice.one_of(&[1, 2, 100]), ..Options::default() };
        let stage = Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 20)), ("c1", at(5, 30))], options).await;
        for _ in 0..30 {
            let name = dice.one_of(&["a1", "b1", "c1"]);
            let (mood, reads) = (dice.one_of(&moods), Duration::from_millis(dice.one_of(&[0, 1, 90, 600])));
            let serves = dice.one_of(&[at(0, 10), at(0, 30), at(9, 12), at(0, 0)]);
            stage.world.host(name, |host| (host.mood, host.reads, _) = (mood, reads, host.shard.serve(serves)));
            let how = how(dice.one_of(&[Mode::All, Mode::Hedge, Mode::One]));
            let how = how.within(Duration::from_millis(dice.one_of(&[0, 3, 300, 700, 2_000])));
            let patience = Duration::from_millis(dice.one_of(&[0, 2, 450, 9_000]));
            let _ = tokio::time::timeout(patience, stage.client.get_partial(&[1_000, 6_000, 6_001, 11_000], how)).await;
        }
        // Whoever was asked and not waited for has its time-out.
        stage.pass(2.0).await;

        let (metrics, hosts) = (stage.client.metrics(), stage.client.host_metrics());
        assert!(is_settled(&metrics), "seed {seed}: {metrics:?}");
        let by_host =
            [sum(&hosts, |host| host.requests), sum(&hosts, |host| host.answers), sum(&hosts, |host| host.refusals)];
        assert_eq!(by_host, [metrics.requests, metrics.answers, metrics.refusals], "seed {seed}");
        let by_host =
            [sum(&hosts, |host| host.errors), sum(&hosts, |host| host.timeouts), sum(&hosts, |host| host.cancelled)];
        assert_eq!(by_host, [metrics.errors, metrics.timeouts, metrics.cancelled], "seed {seed}");
        assert_eq!(sum(&hosts, |host| host.late_replies), metrics.late_replies, "seed {seed}");
    }
}
