//! What the guard lets out.

use super::*;
use crate::core::interval::Interval;

fn shard() -> Shard {
    Shard::with_incarnation(Identity::new("vla", "a:1"), 7)
}

async fn doubled(shard: &Shard, keys: &[u64]) -> Answer<u64> {
    let read = async |keys: &[u64]| Ok(keys.iter().map(|key| key * 2).collect());
    shard.get(keys, |key| *key, read).await.unwrap()
}

#[tokio::test]
async fn kit_a_1_without_keys_it_tells_what_it_serves() {
    let shard = shard();
    shard.serve(Interval::new(10, 20));

    let answer = doubled(&shard, &[]).await;

    assert!(answer.values.is_empty() && answer.all_matched);
    assert_eq!(answer.shard.interval(), Interval::new(10, 20));
    assert_eq!((answer.shard.dc.as_str(), answer.shard.host.as_str(), answer.shard.incarnation), ("vla", "a:1", 7));
}

/// What is read for a ping is read every period by every client, and may fail for reasons that are none of the ping's.
#[tokio::test]
async fn kit_a_1_a_ping_reads_nothing() {
    let shard = shard();
    shard.serve(Interval::new(10, 20));

    let answer = shard.get(&[], |key: &u64| *key, async |_| Err::<Vec<u64>, _>(Status::internal("no disk"))).await;

    assert!(answer.unwrap().all_matched && shard.metrics().errors == 0);
}

/// kit A-5: whatever it is counted in, a host that starts again counts on.
#[test]
fn an_incarnation_is_the_time_of_the_start() {
    let seconds = UNIX_EPOCH.elapsed().unwrap().as_secs();

    let told = Shard::new(Identity::new("vla", "a:1")).describe().incarnation;

    assert!(told >= seconds * 1_000_000 && told < (seconds + 3_600) * 1_000_000, "{told}");
}

#[tokio::test]
async fn kit_a_3_keys_of_the_shard_have_a_value_each() {
    let shard = shard();
    shard.serve(Interval::new(10, 20));

    let answer = doubled(&shard, &[10, 19]).await;

    assert_eq!((answer.values, answer.all_matched), (vec![20, 38], true));
}

#[tokio::test]
async fn kit_a_4_one_strange_key_and_nothing_is_answered() {
    let shard = shard();
    shard.serve(Interval::new(10, 20));

    let answer = doubled(&shard, &[10, 20, 11]).await;

    assert_eq!((answer.values, answer.all_matched), (vec![], false));
    assert_eq!(answer.shard.interval(), Interval::new(10, 20));
}

/// What is not here cannot be read: a service may fail over it.
#[tokio::test]
async fn kit_a_4_strange_keys_are_not_read() {
    let shard = shard();
    shard.serve(Interval::new(10, 20));

    let read = async |_: &[u64]| Err::<Vec<u64>, _>(Status::internal("no such key"));
    let answer = shard.get(&[10, 20], |key| *key, read).await.unwrap();

    assert!(!answer.all_matched);
    assert_eq!((shard.metrics().refusals, shard.metrics().late_refusals), (1, 0));
}

#[tokio::test]
async fn kit_a_7_who_serves_nothing_matches_no_keys_and_the_absence_of_keys() {
    let shard = shard();

    let (ping, get) = (doubled(&shard, &[]).await, doubled(&shard, &[0]).await);

    assert!(ping.all_matched && ping.shard.interval().is_empty());
    assert!(!get.all_matched && get.shard.interval().is_empty());
}

#[tokio::test]
async fn kit_a_2_an_error_tells_what_is_served_too() {
    let shard = shard();
    shard.serve(Interval::new(10, 20));

    let failed = shard.get(&[10u64], |key| *key, async |_| Err::<Vec<u64>, _>(Status::internal("no disk"))).await;

    let told = wire::stamped(&failed.unwrap_err()).unwrap();
    assert_eq!(told.interval(), Interval::new(10, 20));
}

/// kit A-2: at that moment, and not when the request came.
#[tokio::test]
async fn an_error_tells_what_is_served_when_it_is_given() {
    let shard = shard();
    shard.serve(Interval::new(10, 20));
    let read = async |_: &[u64]| {
        shard.serve(Interval::new(12, 30));
        Err::<Vec<u64>, _>(Status::internal("no disk"))
    };

    let failed = shard.get(&[12u64], |key| *key, read).await;

    assert_eq!(wire::stamped(&failed.unwrap_err()).unwrap().interval(), Interval::new(12, 30));
}

/// kit A-10: the interval changes while the values are being read.
async fn answered_while_changing_to(interval: Interval) -> Answer<u64> {
    let shard = shard();
    shard.serve(Interval::new(10, 20));
    let read = async |keys: &[u64]| {
        shard.serve(interval);
        Ok(keys.to_vec())
    };
    shard.get(&[12u64, 13], |key| *key, read).await.unwrap()
}

#[tokio::test]
async fn kit_a_10_an_answer_belongs_to_the_one_interval_that_it_names() {
    let kept = answered_while_changing_to(Interval::new(12, 30)).await;
    let lost = answered_while_changing_to(Interval::new(13, 30)).await;

    assert_eq!((kept.values, kept.all_matched), (vec![12, 13], true));
    assert_eq!(kept.shard.interval(), Interval::new(12, 30));
    assert_eq!((lost.values, lost.all_matched), (vec![], false));
    assert_eq!(lost.shard.interval(), Interval::new(13, 30));
}

#[tokio::test]
async fn kit_a_36_a_caller_that_goes_away_is_counted() {
    let shard = shard();
    shard.serve(Interval::WHOLE);
    let never = shard.get(&[1u64], |key| *key, async |_| std::future::pending::<Result<Vec<u64>, Status>>().await);

    let _ = futures_util::future::poll_immediate(Box::pin(never)).await;

    assert_eq!(shard.metrics().cancelled, 1);
}

#[tokio::test]
async fn the_guard_counts_every_request_by_what_came_of_it() {
    let shard = shard();
    shard.serve(Interval::new(10, 20));

    doubled(&shard, &[]).await;
    doubled(&shard, &[10, 11, 12]).await;
    doubled(&shard, &[5]).await;
    shard.get(&[10u64], |key| *key, async |_| Err::<Vec<u64>, _>(Status::internal("no disk"))).await.unwrap_err();

    let expected = ShardMetrics { gets: 4, keys: 3, refusals: 1, late_refusals: 0, errors: 1, cancelled: 0 };
    assert_eq!(shard.metrics(), expected);
}

#[tokio::test]
async fn every_change_is_a_new_epoch() {
    let shard = shard();
    shard.serve(Interval::WHOLE);
    let first = shard.describe().epoch;

    shard.vacate();

    assert!(shard.describe().epoch > first);
    assert!(shard.interval().is_empty());
}
