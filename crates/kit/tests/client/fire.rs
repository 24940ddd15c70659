//! What must not bring a client down: panics of the service's own code, a list that hangs, overload, and settings at their
//! limits.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use shardine_kit::{Client, Error, How, Mode, Options};

use crate::world::{Letters, Listed, Mood, Reading, Stage, World, at, how, values};

/// kit A-52.
#[tokio::test(start_paused = true)]
async fn a_panic_in_decode_during_a_ping_leaves_the_pinger_alive() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("b1", |host| host.mood = Mood::Garbled);
    stage.pass(25.0).await;

    stage.world.host("a1", |host| host.shard.serve(at(0, 20)));
    stage.pass(10.0).await;

    assert_eq!(stage.believed("a1"), Some(at(0, 20)));
    assert!(stage.client.metrics().failed_pings >= 2);
}

/// kit A-52: and its words are in the error, for whoever has to find the bug.
#[tokio::test(start_paused = true)]
async fn a_panic_in_call_fails_that_request_alone_and_is_told_in_its_own_words() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 20))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Cursed);
    for mode in [Mode::All, Mode::Hedge, Mode::One] {
        assert_eq!(stage.client.get_how(&[5_000], how(mode)).await.unwrap(), values(&[5_000]), "{mode:?}");
    }

    stage.world.host("b1", |host| host.mood = Mood::Cursed);
    let told = stage.client.get(&[15_000]).await.unwrap_err().to_string();

    assert_eq!(told, "no value of 15000 from b1 (Internal: call panicked: b1 is part of the test)");
}

/// kit A-52: the same of what writes a ping down.
#[tokio::test(start_paused = true)]
async fn a_panic_in_encode_during_a_ping_leaves_the_pinger_alive() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    stage.world.is_mute.store(true, Ordering::Relaxed);
    stage.pass(25.0).await;

    stage.world.is_mute.store(false, Ordering::Relaxed);
    stage.world.host("a1", |host| host.shard.serve(at(0, 20)));
    stage.pass(10.0).await;

    assert_eq!(stage.believed("a1"), Some(at(0, 20)));
}

/// kit A-52: the other replica answers.
#[tokio::test(start_paused = true)]
async fn a_panic_in_decode_fails_that_request_alone() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Garbled);

    for mode in [Mode::All, Mode::Hedge, Mode::One] {
        for _ in 0..4 {
            assert_eq!(stage.client.get_how(&[5_000], how(mode)).await.unwrap(), values(&[5_000]), "{mode:?}");
        }
    }
}

/// kit A-52.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_provider_leaves_the_last_list_and_the_pinger_alive() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    *stage.world.reading.lock().unwrap() = Reading::Panics;
    stage.pass(25.0).await;
    assert_eq!(stage.client.get(&[5_000]).await.unwrap(), values(&[5_000]));

    *stage.world.reading.lock().unwrap() = Reading::Well;
    stage.world.add("b1", at(10, 20));
    *stage.world.list.lock().unwrap() = Some(vec!["a1".to_owned(), "b1".to_owned()]);
    stage.pass(10.0).await;

    assert_eq!(stage.client.get(&[15_000]).await.unwrap(), values(&[15_000]));
}

/// kit A-30: a host that is known already tells of its new interval, whatever the list does.
#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_does_not_hold_up_a_search() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    *stage.world.reading.lock().unwrap() = Reading::Hangs;
    stage.pass(11.0).await;
    stage.world.host("a1", |host| host.shard.serve(at(0, 20)));

    let found = stage.client.get(&[15_000]).await;

    assert_eq!(found.unwrap(), values(&[15_000]), "within the two seconds of a call");
    *stage.world.reading.lock().unwrap() = Reading::Well;
    stage.world.add("b1", at(20, 30));
    *stage.world.list.lock().unwrap() = Some(vec!["a1".to_owned(), "b1".to_owned()]);
    stage.pass(21.0).await;
    assert_eq!(stage.believed("b1"), Some(at(20, 30)), "what hung is given up, and asked for again");
}

/// kit A-30: hosts are searched for more often than such a list can be read, and it is read to its end all the same.
#[tokio::test(start_paused = true)]
async fn a_slow_list_is_not_begun_anew_by_a_search() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    *stage.world.reading.lock().unwrap() = Reading::Slow;
    stage.world.add("b1", at(10, 20));
    *stage.world.list.lock().unwrap() = Some(vec!["a1".to_owned(), "b1".to_owned()]);

    let found = stage.client.get_how(&[15_000], How::default().within(Duration::from_secs(8))).await;

    assert_eq!(found.unwrap(), values(&[15_000]));
}

/// Thousands of hosts are not all asked in one moment.
#[tokio::test(start_paused = true)]
async fn no_more_than_256_pings_are_on_their_way_at_once() {
    let names: Vec<String> = (0..600).map(|number| format!("a{number}")).collect();
    let hosts: Vec<_> = names.iter().map(|name| (name.as_str(), at(0, 10))).collect();
    let world = World::new(&hosts);
    names.iter().for_each(|name| world.host(name, |host| host.mood = Mood::Silent));

    let client = Client::start(Letters(world.clone()), Listed(world.clone()), Options::default());
    tokio::time::sleep(Duration::from_millis(400)).await;
    let first = world.pings().len();
    // Each has its time-out of half a second.
    tokio::time::sleep(Duration::from_millis(1_000)).await;

    assert_eq!((first, world.pings().len()), (256, 600));
    assert_eq!(client.metrics().failed_pings, 512, "those of two half seconds");
}

#[tokio::test(start_paused = true)]
async fn with_the_last_client_the_pings_end() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    let (world, other) = (stage.world.clone(), stage.client.clone());
    drop(stage);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(world.pings().len(), 1, "a clone is the same client");

    drop(other);
    tokio::time::sleep(Duration::from_secs(60)).await;

    assert_eq!(world.pings().len(), 1);
}

/// kit A-34: a third of the hosts' requests at the most, and first ones always.
#[tokio::test(start_paused = true)]
async fn kit_a_35_when_everybody_is_too_slow_second_requests_of_all_kinds_share_one_budget() {
    for (mode, first) in [(Mode::All, 1_500), (Mode::Hedge, 500), (Mode::One, 500)] {
        let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10)), ("c1", at(0, 10))]).await;
        for name in ["a1", "b1", "c1"] {
            stage.world.host(name, |host| host.reads = Duration::from_millis(700));
        }

        join_all((0..500).map(|_| stage.client.get_how(&[5_000], how(mode)))).await;

        let sent = stage.world.sent().len();
        assert!(sent >= first && sent <= first + first / 5 + 100, "{sent} requests in mode {mode:?}");
    }
}

/// kit A-33: who says with every reply that it serves something new, and has the key by none of them, is asked a few times and
/// then as often as hosts are searched for. So is one that fails in this way, whatever the budget has room for.
#[tokio::test(start_paused = true)]
async fn a_host_that_says_something_new_with_every_reply_is_not_asked_in_a_circle() {
    for (mood, mode) in [Mood::Denying, Mood::Shaky]
        .into_iter()
        .flat_map(|mood| [Mode::All, Mode::Hedge, Mode::One].map(|mode| (mood.clone(), mode)))
    {
        let options = Options { retry_reserve: 1_000_000, ..Options::default() };
        let stage = Stage::with(&[("a1", at(0, 10))], options).await;
        stage.world.host("a1", |host| host.mood = mood.clone());

        stage.client.get_how(&[5_000], how(mode)).await.unwrap_err();

        let sent = stage.world.sent().len();
        assert!((2..=20).contains(&sent), "{sent} requests in mode {mode:?} to a host that is {mood:?}");
    }
}

/// kit A-30: and it is asked again later, for as long as the call goes on.
#[tokio::test(start_paused = true)]
async fn a_host_that_was_asked_too_often_is_asked_again_a_search_later() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Denying);
    let client = stage.client.clone();
    let calling =
        tokio::spawn(async move { client.get_how(&[5_000], How::default().within(Duration::from_secs(60))).await });
    stage.pass(30.0).await;

    stage.world.host("a1", |host| host.mood = Mood::Well);
    stage.pass(2.0).await;

    assert!(calling.is_finished());
    assert_eq!(calling.await.unwrap().unwrap(), values(&[5_000]));
    assert!(stage.world.sent().len() <= 50, "{} requests in half a minute", stage.world.sent().len());
}

/// The shortest periods are no busy loop, which would never let this test's clock go on.
#[tokio::test(start_paused = true)]
async fn periods_of_nothing_leave_room_for_everything_else() {
    let world = World::new(&[("a1", at(0, 10))]);
    let (ping_period, search_period) = (Duration::ZERO, Duration::ZERO);
    let options = Options { ping_period, search_period, ..Options::default() };
    let client = Client::start(Letters(world.clone()), Listed(world.clone()), options);
    client.wait_for_hosts(|known| known.len() == 1).await;
    world.forget();

    tokio::time::sleep(Duration::from_secs(1)).await;

    assert_eq!(client.get(&[5_000]).await.unwrap(), values(&[5_000]));
    assert!(world.pings().len() <= 1_001, "{} pings in a second", world.pings().len());
    assert!(client.get(&[15_000]).await.is_err(), "and a search ends");
}

#[tokio::test(start_paused = true)]
async fn the_longest_times_are_no_panic() {
    let world = World::new(&[("a1", at(0, 10))]);
    let long = Duration::MAX;
    let options = Options {
        ping_period: long,
        search_period: long,
        host_timeout: long,
        deadline: long,
        retry_pause: long,
        hedge_delay_max: long,
        ..Options::default()
    };
    let client = Client::start(Letters(world.clone()), Listed(world.clone()), options);

    for mode in [Mode::All, Mode::Hedge, Mode::One] {
        assert_eq!(client.get_how(&[5_000], how(mode)).await.unwrap(), values(&[5_000]));
    }
}

/// kit A-18: by count and by bytes, and every key still once to each host.
#[tokio::test(start_paused = true)]
async fn a_large_request_is_sent_in_parts() {
    let keys: Vec<u64> = (0..100).map(|number| number * 100).collect();
    // A key of this world has eight bytes.
    let all = usize::MAX;
    let cases = [(30, all, 4), (all, 80, 10), (all, 15, 100), (30, 80, 10), (0, all, 100), (7, 0, 100)];
    for (keys_max, bytes_max, parts) in cases {
        let options = Options { request_keys_max: keys_max, request_bytes_max: bytes_max, ..Options::default() };
        let stage = Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 10))], options).await;

        assert_eq!(stage.client.get(&keys).await.unwrap(), values(&keys));

        for host in ["a1", "b1"] {
            let sent: Vec<Vec<u64>> =
                stage.world.sent().into_iter().filter(|(to, _)| to == host).map(|(_, keys)| keys).collect();
            assert_eq!(sent.len(), parts);
            let mut all = sent.concat();
            all.sort_unstable();
            assert_eq!(all, keys);
        }
        assert_eq!(stage.client.metrics().requests, 2 * parts as u64, "and none without keys");
        assert!(stage.world.pings().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_carries_the_time_that_is_left() {
    let stage = Stage::new(&[("a1", at(0, 10))]).await;
    let timeouts = || stage.world.timeouts.lock().unwrap().split_off(0);
    timeouts();

    stage.client.get(&[5_000]).await.unwrap();
    let usual = timeouts();
    let short = How::default().within(Duration::from_millis(90));
    stage.client.get_how(&[5_000], short).await.unwrap();

    assert_eq!((usual, timeouts()), (vec!["500000u".to_owned()], vec!["90000000n".to_owned()]));
}

/// kit A-52: what makes no sense is a failure of its host, with the words of whoever read it.
#[tokio::test(start_paused = true)]
async fn an_error_names_what_every_host_said() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10)), ("c1", at(0, 10))]).await;
    for (name, mood) in [("a1", Mood::Garbled), ("b1", Mood::Empty), ("c1", Mood::Broken)] {
        stage.world.host(name, |host| host.mood = mood);
    }

    let (error, trace) = stage.client.get_traced(&[5_000], how(Mode::All)).await;

    let told = error.unwrap_err().to_string();
    let expected = "no value of 5000 from a1 (DataLoss: decode panicked: this panic is part of the test), b1 (no value), \
                    c1 (Internal: no disk)";
    assert_eq!(told, expected);
    let asked = trace.unwrap().asked;
    let broken = asked.iter().find(|asked| &*asked.host == "c1").and_then(|asked| asked.status.clone());
    assert_eq!(broken.map(|status| status.message), Some("no disk".to_owned()));
}

/// A list of whoever was asked that looked at every key for every key would take minutes here.
#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_keys_half_of_them_missing_are_named() {
    let stage = Stage::new(&[("a1", at(0, 50)), ("b1", at(50, 100)), ("c1", at(50, 100))]).await;
    for name in ["b1", "c1"] {
        stage.world.host(name, |host| host.mood = Mood::Broken);
    }
    let keys: Vec<u64> = (0..100_000).collect();

    for mode in [Mode::All, Mode::Hedge, Mode::One] {
        let error = stage.client.get_how(&keys, how(mode)).await.unwrap_err();
        let Error::Missing { ids, hosts } = error else { panic!("{error}") };

        assert_eq!(ids, keys[50_000..]);
        assert!(hosts.iter().any(|tried| matches!(&*tried.host, "b1" | "c1")), "{hosts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fast_host_without_values_is_not_the_best_one() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("a1", |host| (host.mood, host.reads) = (Mood::Empty, Duration::from_micros(10)));
    let ask = async || assert_eq!(stage.client.get_how(&[5_000], how(Mode::One)).await.unwrap(), values(&[5_000]));
    for _ in 0..100 {
        ask().await;
    }
    stage.world.forget();

    for _ in 0..100 {
        ask().await;
    }

    let to_a1 = stage.world.sent().iter().filter(|(host, _)| host == "a1").count();
    assert!(to_a1 <= 20, "{to_a1} of 100 calls began with the host that has nothing");
}

/// kit A-18: a host is believed about the keys that it was asked for.
#[tokio::test(start_paused = true)]
async fn a_value_that_a_host_was_not_asked_for_is_no_answer() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(10, 20))]).await;
    stage.world.host("a1", |host| host.mood = Mood::Confused { also: 15_000 });
    stage.world.host("b1", |host| host.reads = Duration::from_millis(5));

    let (found, trace) = stage.client.get_traced(&[5_000, 15_000], how(Mode::All)).await;

    assert_eq!(found.unwrap(), values(&[5_000, 15_000]));
    assert_eq!(&*trace.unwrap().answered[&15_000], "b1");
    assert_eq!(stage.client.metrics().divergent_replies, 0);
}

/// A value that is there twice does not stand for one that is not there.
#[tokio::test(start_paused = true)]
async fn a_host_that_repeats_a_value_and_leaves_one_out_is_not_the_best_one() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("a1", |host| (host.mood, host.reads) = (Mood::Confused { also: 1 }, Duration::from_micros(10)));
    let keys = [5_000, 6_000, 7_000];
    for _ in 0..200 {
        assert_eq!(stage.client.get_how(&keys, how(Mode::One)).await.unwrap(), values(&keys));
    }

    let to_a1 = stage.world.sent().iter().filter(|(host, _)| host == "a1").count();
    assert!(to_a1 <= 40, "{to_a1} of 200 calls began with the host that has not everything");
}

/// Whoever lets a call wait is avoided, also if that call had its answer from somebody else and waits no more.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_silent_where_all_are_asked_is_avoided_where_one_is() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("b1", |host| host.reads = Duration::from_millis(5));
    for _ in 0..10 {
        stage.client.get(&[5_000]).await.unwrap();
    }
    stage.world.host("a1", |host| host.mood = Mood::Silent);
    stage.client.get(&[5_000]).await.unwrap();
    stage.pass(0.51).await;
    stage.world.forget();

    stage.client.get_how(&[5_000], how(Mode::One)).await.unwrap();

    assert_eq!(stage.world.sent(), [("b1".to_owned(), vec![5_000])]);
}

/// The same if it is only a ping that it does not answer.
#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_a_ping_is_avoided() {
    let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
    stage.world.host("b1", |host| host.reads = Duration::from_millis(5));
    for _ in 0..10 {
        stage.client.get(&[5_000]).await.unwrap();
    }
    stage.world.host("a1", |host| host.mood = Mood::Silent);
    // The ping of second 10 has timed out.
    stage.pass(10.5).await;
    stage.world.forget();

    stage.client.get_how(&[5_000], how(Mode::One)).await.unwrap();

    assert_eq!(stage.world.sent(), [("b1".to_owned(), vec![5_000])]);
}

/// Keys that have moved are asked for as often as they move; that makes no room for retries.
#[tokio::test(start_paused = true)]
async fn kit_a_35_requests_for_keys_that_have_moved_do_not_fill_the_budget() {
    let options = Options { retry_percent: 100, retry_reserve: 0, ..Options::default() };
    let stage = Stage::with(&[("a1", at(0, 10)), ("b1", at(0, 10))], options).await;
    // So that the call begins with a1: b1 has just failed to answer a ping.
    stage.world.host("b1", |host| host.mood = Mood::Down);
    stage.pass(10.05).await;
    stage.world.host("b1", |host| host.mood = Mood::Broken);
    stage.world.host("a1", |host| host.shard.serve(at(20, 30)));
    stage.world.forget();

    stage.client.get_how(&[5_000], how(Mode::One)).await.unwrap_err();

    let hosts: Vec<String> = stage.world.sent().into_iter().map(|(host, _)| host).collect();
    assert_eq!(hosts, ["a1", "b1", "b1"], "one first request, one where the key has moved, one retry");
}

/// A host may serve a key again without having been asked since: while the others are down, the next ping is too late.
#[tokio::test(start_paused = true)]
async fn kit_a_29_when_everybody_known_has_failed_all_hosts_are_asked_once_more() {
    for mode in [Mode::All, Mode::Hedge, Mode::One] {
        let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10)), ("c1", at(20, 30))]).await;
        for name in ["a1", "b1"] {
            stage.world.host(name, |host| host.mood = Mood::Down);
        }
        stage.world.host("c1", |host| host.shard.serve(at(0, 10)));
        assert_eq!(stage.believed("c1"), Some(at(20, 30)));

        let found = stage.client.get_how(&[5_000], how(mode)).await;

        assert_eq!(found.unwrap(), values(&[5_000]), "{mode:?}");
    }
}

/// If that brings nobody, the call ends before its deadline, and says who has failed; and where hosts have answered, there is
/// nothing to look for.
#[tokio::test(start_paused = true)]
async fn kit_a_27_a_last_look_around_takes_a_round_and_only_where_hosts_have_failed() {
    for (mood, seconds) in [(Mood::Down, 1.5..1.7), (Mood::Empty, 0.0..0.1)] {
        let stage = Stage::new(&[("a1", at(0, 10)), ("b1", at(0, 10))]).await;
        for name in ["a1", "b1"] {
            stage.world.host(name, |host| host.mood = mood.clone());
        }
        let begun = stage.world.elapsed();

        let error = stage.client.get(&[5_000]).await.unwrap_err();

        assert!(matches!(&error, Error::Missing { hosts, .. } if hosts.len() == 2), "{error}");
        let took = (stage.world.elapsed() - begun).as_secs_f64();
        assert!(seconds.contains(&took), "{mood:?} took {took} s");
    }
}
