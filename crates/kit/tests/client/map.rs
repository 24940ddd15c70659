//! What the client knows, and whom it learns it from.

use std::time::Duration;

use shardine_kit::{Interval, Mode, Options};

use crate::world::{Mood, Stage, at, how, values};

#[tokio::test(start_paused = true)]
async fn kit_a_11_a_ping_an_answer_and_an_error_all_repair_the_map() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    let moves = |interval: Interval| stage.world.host("a1", |host| host.shard.serve(interval));

    moves(at(0, 20));
    stage.client.get(&[5_000]).await.unwrap();
    assert_eq!(stage.believed("a1"), Some(at(0, 20)), "an answer");
    moves(at(0, 30));
    stage.world.host("a1", |host| host.mood = Mood::Broken);
    stage.client.get(&[5_000]).await.unwrap_err();
    assert_eq!(stage.believed("a1"), Some(at(0, 30)), "an error");
    moves(at(0, 40));
    stage.pass(10.0).await;
    assert_eq!(stage.believed("a1"), Some(at(0, 40)), "a ping");
}

/// kit A-11: an error that comes before another one's answer, so that nobody has been pinged.
#[tokio::test(start_paused = true)]
async fn an_error_repairs_the_map_by_itself() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("a1", |host| (host.mood, _) = (Mood::Broken, host.shard.serve(at(0, 30))));
    stage.world.host("b1", |host| host.reads = Duration::from_millis(5));

    stage.client.get(&[5_000]).await.unwrap();

    assert_eq!(stage.believed("a1"), Some(at(0, 30)));
    assert!(stage.world.pings().is_empty());
}

/// kit A-30: with the reply that tells it, and not with the next search.
#[tokio::test(start_paused = true)]
async fn a_key_is_asked_for_as_soon_as_somebody_is_known_to_serve_it() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    stage.world.host("a1", |host| (host.travels, _) = (Duration::from_millis(300), host.shard.serve(at(0, 20))));
    let begun = stage.world.elapsed();

    let found = stage.client.get(&[15_000]).await.unwrap();

    assert_eq!(found, values(&[15_000]));
    let took = (stage.world.elapsed() - begun).as_secs_f64();
    assert!(took < 1.7, "{took} s: a ping after a second, and twice the way");
}

/// kit A-29: hosts are asked more often for as long as somebody waits, and no longer.
#[tokio::test(start_paused = true)]
async fn after_a_search_hosts_are_asked_once_a_period_again() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    stage.client.get(&[15_000]).await.unwrap_err();
    stage.world.forget();

    stage.pass(30.0).await;

    assert!(stage.world.pings().len() <= 4, "{} pings in three periods", stage.world.pings().len());
}

/// kit A-29: nor while the call that has waited goes on to be answered.
#[tokio::test(start_paused = true)]
async fn once_a_host_is_found_hosts_are_asked_once_a_period_again() {
    let options = Options { host_timeout: Duration::from_secs(60), ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10))], options).await;
    let client = stage.client.clone();
    let how = how(Mode::All).within(Duration::from_secs(60));
    let calling = tokio::spawn(async move { client.get_how(&[15_000], how).await });
    stage.pass(0.1).await;
    stage.world.host("a1", |host| (host.reads, _) = (Duration::from_secs(30), host.shard.serve(at(0, 20))));
    while stage.world.sent().is_empty() {
        stage.pass(0.1).await;
    }
    stage.world.forget();

    assert_eq!(calling.await.unwrap().unwrap(), values(&[15_000]));

    assert!(stage.world.pings().len() <= 4, "{} pings in three periods", stage.world.pings().len());
}

/// kit A-12: who has not answered yet is not asked the same again, however short the period.
#[tokio::test(start_paused = true)]
async fn one_ping_at_a_time_is_on_its_way_to_a_host() {
    let options = Options { ping_period: Duration::from_millis(20), ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10))], options).await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);
    stage.pass(0.1).await;
    stage.world.forget();

    stage.pass(5.0).await;

    // Each has its time-out of half a second.
    assert!((8..=11).contains(&stage.world.pings().len()), "{} pings in five seconds", stage.world.pings().len());
}

#[tokio::test(start_paused = true)]
async fn kit_a_11_23_a_late_answer_repairs_the_map_and_nothing_else() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("b1", |host| {
        host.reads = Duration::from_millis(100);
        host.bias = 1;
        host.shard.serve(at(0, 11));
    });

    let found = stage.client.get(&[5_000]).await.unwrap();
    assert_eq!(stage.believed("b1"), Some(at(0, 10)), "b1 has not answered yet");
    stage.pass(0.2).await;

    assert_eq!(stage.believed("b1"), Some(at(0, 11)));
    assert_eq!(found, values(&[5_000]), "what was returned is the caller's own");
    assert_eq!(stage.client.metrics().late_replies, 1);
}

#[tokio::test(start_paused = true)]
async fn kit_a_5_a_reply_that_is_five_seconds_late_does_not_overwrite_a_newer_one() {
    let options = Options { host_timeout: Duration::from_secs(30), ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10))], options).await;
    stage.world.host("a1", |host| host.travels = Duration::from_secs(5));

    let early = tokio::spawn({
        let client = stage.client.clone();
        async move { client.get(&[5_000]).await }
    });
    stage.pass(0.5).await;
    // The early answer was read before the move and is still on its way.
    stage.world.host("a1", |host| (host.travels, _) = (Duration::ZERO, host.shard.serve(at(0, 20))));
    stage.client.get(&[5_000]).await.unwrap();
    assert_eq!(stage.believed("a1"), Some(at(0, 20)));
    early.await.unwrap().unwrap_err();
    stage.pass(6.0).await;

    assert_eq!(stage.believed("a1"), Some(at(0, 20)));
}

/// Its clock went back over a restart, so that it says less than it said before.
#[tokio::test(start_paused = true)]
async fn a_host_with_a_lower_incarnation_is_believed_after_three_periods_and_answers_meanwhile() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    let shard = shardine_kit::Shard::with_incarnation(shardine_kit::Identity::new("a", "a1"), 0);
    shard.serve(at(5, 20));
    stage.world.host("a1", |host| host.shard = shard);

    assert_eq!(stage.client.get(&[6_000]).await.unwrap(), values(&[6_000]), "what it has by both words");
    assert_eq!(stage.believed("a1"), Some(at(0, 10)));
    stage.pass(45.0).await;

    assert_eq!(stage.believed("a1"), Some(at(5, 20)));
    assert_eq!(stage.client.get(&[15_000]).await.unwrap(), values(&[15_000]));
}

#[tokio::test(start_paused = true)]
async fn kit_a_12_every_period_the_list_is_read_again_and_everybody_is_asked() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.add("c1", at(10, 20));
    *stage.world.list.lock().unwrap() = Some(["a1", "b1", "c1"].map(str::to_owned).to_vec());

    stage.pass(10.5).await;

    let mut asked: Vec<String> = stage.world.pings().into_iter().map(|sent| sent.host).collect();
    asked.sort();
    assert_eq!(asked, ["a1", "b1", "c1"]);
    assert_eq!(stage.client.get(&[15_000]).await.unwrap(), values(&[15_000]));
}

#[tokio::test(start_paused = true)]
async fn kit_a_13_a_host_that_left_the_list_is_forgotten_within_a_period() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    *stage.world.list.lock().unwrap() = Some(vec!["b1".to_owned()]);

    stage.pass(10.5).await;
    stage.world.forget();
    stage.client.get(&[5_000]).await.unwrap();

    assert_eq!(stage.world.sent(), [("b1".to_owned(), vec![5_000])]);
    assert_eq!(stage.believed("a1"), None);
}

/// Whoever waits for the list to be another one hears of it, also if no host has said anything new.
#[tokio::test(start_paused = true)]
async fn a_list_that_has_become_shorter_wakes_whoever_waits_for_that() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    *stage.world.list.lock().unwrap() = Some(vec!["b1".to_owned()]);

    let shorter = stage.client.wait_for_hosts(|known| known.len() == 1);

    tokio::time::timeout(Duration::from_secs(11), shorter).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_or_is_empty_leaves_the_last_one() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;

    for broken in [None, Some(Vec::new())] {
        *stage.world.list.lock().unwrap() = broken;
        stage.pass(10.0).await;
        assert_eq!(stage.client.get(&[5_000]).await.unwrap(), values(&[5_000]));
    }

    assert_eq!(stage.client.metrics().failed_lists, 2);
}

#[tokio::test(start_paused = true)]
async fn kit_a_14_after_three_silent_periods_a_host_is_asked_only_where_nobody_else_serves() {
    let stage = Stage::new(&[("a1", at(0, 20)), ("b1", at(0, 10))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Silent);

    stage.pass(25.0).await;
    stage.world.forget();
    stage.client.get(&[5_000]).await.unwrap();
    assert_eq!(stage.world.sent().len(), 2, "not silent for long enough yet");
    stage.pass(10.0).await;
    stage.world.forget();
    stage.client.get(&[5_000]).await.unwrap();
    assert_eq!(stage.world.sent(), [("b1".to_owned(), vec![5_000])]);

    stage.world.host("a1", |host| host.mood = Mood::Well);
    assert_eq!(stage.client.get(&[15_000]).await.unwrap(), values(&[15_000]), "kept in the map for what only it has");
}

#[tokio::test(start_paused = true)]
async fn kit_a_15_a_call_over_data_centres_that_are_cut_differently_has_all_keys() {
    let hosts = [
        ("a1", at(0, 33)),
        ("a2", at(33, 66)),
        ("a3", Interval::to_end(66)),
        ("b1", at(0, 20)),
        ("b2", at(20, 40)),
        ("b3", at(40, 60)),
        ("b4", at(60, 80)),
        ("b5", Interval::to_end(80)),
    ];
    let stage = Stage::new(&hosts).await;
    let keys: Vec<u64> = (0..100).map(|number| number * 1_000).collect();

    for mode in [Mode::All, Mode::Hedge, Mode::One] {
        assert_eq!(stage.client.get_how(&keys, how(mode)).await.unwrap(), values(&keys));
    }
}

#[tokio::test(start_paused = true)]
async fn kit_a_17_a_data_centre_that_restarts_with_other_bounds_costs_no_error() {
    let stage =
        Stage::new(&[("a1", at(0, 50)), ("a2", Interval::to_end(50)), ("b1", at(0, 50)), ("b2", Interval::to_end(50))])
            .await;
    let keys: Vec<u64> = (0..100).map(|number| number * 1_000).collect();
    let client = stage.client.clone();
    let asking = tokio::spawn(async move {
        for call in 0..2_000 {
            let mode = [Mode::All, Mode::Hedge, Mode::One][call % 3];
            assert_eq!(client.get_how(&keys, how(mode)).await.unwrap(), values(&keys));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });

    for name in ["a1", "a2"] {
        stage.world.host(name, |host| host.mood = Mood::Down);
    }
    stage.pass(1.0).await;
    stage.world.add("a1", at(0, 20));
    stage.pass(0.5).await;
    stage.world.add("a2", Interval::to_end(20));

    asking.await.unwrap();
    // Nobody need have been asked in the new cut, but the next ping tells it.
    stage.pass(10.0).await;
    assert_eq!(stage.believed("a2"), Some(Interval::to_end(20)));
}
