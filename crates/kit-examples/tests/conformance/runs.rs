//! The runs. Values of a counter are the counter itself and 300.

use shardine_kit::Interval;

use crate::hosts::{Host, Mood};
use crate::subject::{Language, NEVER_MS, PING_MS, Subject};

/// Makes a test of each run for each language.
macro_rules! in_each_language {
    ($($run:ident,)+) => {
        mod rust {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $run() {
                super::$run(crate::subject::Language::Rust).await;
            })+
        }
        mod python {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $run() {
                super::$run(crate::subject::Language::Python).await;
            })+
        }
    };
}

in_each_language! {
    kit_a_12_everybody_on_the_list_is_asked_and_who_is_new_is_found,
    kit_a_13_who_has_left_the_list_is_asked_nothing,
    kit_a_18_19_every_replica_is_asked_for_its_keys_once_and_nobody_else,
    kit_a_6_15_data_centres_may_be_cut_differently_and_the_highest_key_has_a_place,
    kit_a_20_two_keys_with_one_id_are_refused_before_anything_is_sent,
    kit_a_32_no_keys_are_answered_without_a_request,
    kit_a_21_22_24_the_first_answer_counts_and_nobody_waits_for_the_last_host,
    kit_a_26_27_a_host_that_fails_is_asked_again_and_then_named_with_what_it_said,
    kit_a_29_30_a_key_of_nobody_waits_for_its_host,
    kit_a_31_the_wait_ends_with_the_deadline_and_the_keys_are_named,
    kit_a_8_33_a_host_that_refused_is_not_asked_again_and_another_one_answers,
    kit_a_2_11_an_error_tells_what_its_host_serves,
    kit_a_5_16_older_knowledge_replaces_nothing,
    kit_a_54_the_later_of_two_claims_is_asked_for_as_long_as_it_lives,
    a_host_without_values_is_named,
    a_large_call_is_sent_in_parts_and_every_request_has_a_timeout,
}

fn at(lo: u64, hi: u64) -> Interval {
    Interval::new(lo, hi)
}

async fn kit_a_12_everybody_on_the_list_is_asked_and_who_is_new_is_found(language: Language) {
    let (one, two) = (Host::start("a", at(0, 10)).await, Host::start("a", at(10, 20)).await);
    let mut subject = Subject::start(language, &[&one.address], PING_MS);
    assert_eq!(subject.get("1:5"), "found 1=5,300");

    subject.list(&[&one.address, &two.address]);

    assert_eq!(subject.get("7:15 8:3"), "found 7=15,300 8=3,300");
    one.pinged().await;
    two.pinged().await;
}

async fn kit_a_13_who_has_left_the_list_is_asked_nothing(language: Language) {
    let (one, two) = (Host::start("a", at(0, 10)).await, Host::start("b", at(0, 10)).await);
    let mut subject = Subject::start(language, &[&one.address, &two.address], PING_MS);
    one.pinged().await;
    two.pinged().await;

    subject.list(&[&two.address]);
    two.pinged().await;
    two.pinged().await;
    one.asked();

    assert_eq!(subject.get("1:5"), "found 1=5,300");
    assert!(one.asked().is_empty());
}

async fn kit_a_18_19_every_replica_is_asked_for_its_keys_once_and_nobody_else(language: Language) {
    let hosts = [("a", at(0, 10)), ("a", at(10, 20)), ("b", at(0, 20)), ("c", at(90, 99))];
    let hosts = all(&hosts).await;
    let mut subject = Subject::start(language, &addresses(&hosts), PING_MS);
    known(&hosts).await;

    assert_eq!(subject.get("1:5 2:15 3:6"), "found 1=5,300 2=15,300 3=6,300");

    let mut wanted = [vec![vec![5, 6]], vec![vec![15]], vec![vec![5, 6, 15]], vec![]].into_iter();
    for host in &hosts {
        let wanted = wanted.next().unwrap();
        // A call does not wait for the replica that comes second.
        while host.change(|script| script.asked.len()) < wanted.len() {
            tokio::task::yield_now().await;
        }
        assert_eq!(host.asked(), wanted);
    }
}

async fn kit_a_6_15_data_centres_may_be_cut_differently_and_the_highest_key_has_a_place(language: Language) {
    let hosts = all(&[
        ("a", at(0, 33)),
        ("a", Interval::to_end(33)),
        ("b", at(0, 20)),
        ("b", at(20, 80)),
        ("c", Interval::WHOLE),
    ])
    .await;
    hosts[4].mood(Mood::Broken);
    let mut subject = Subject::start(language, &addresses(&hosts), PING_MS);

    let found = subject.get("1:0 2:20 3:32 4:33 5:80 6:4294967295");

    let expected = "found 1=0,300 2=20,300 3=32,300 4=33,300 5=80,300 6=4294967295,300";
    assert_eq!(found, expected);
}

async fn kit_a_20_two_keys_with_one_id_are_refused_before_anything_is_sent(language: Language) {
    let host = Host::start("a", at(0, 10)).await;
    let mut subject = Subject::start(language, &[&host.address], PING_MS);

    assert_eq!(subject.get("5:1 6:2 5:3"), "duplicate 5");
    assert_eq!(subject.get("1:9"), "found 1=9,300");

    assert_eq!(host.asked(), [[9]]);
}

async fn kit_a_32_no_keys_are_answered_without_a_request(language: Language) {
    let host = Host::start("a", at(0, 10)).await;
    let mut subject = Subject::start(language, &[&host.address], PING_MS);

    assert_eq!(subject.get(""), "found");

    assert!(host.asked().is_empty());
}

async fn kit_a_21_22_24_the_first_answer_counts_and_nobody_waits_for_the_last_host(language: Language) {
    let hosts = all(&[("a", at(0, 10)), ("b", at(0, 10))]).await;
    let mut subject = Subject::start(language, &addresses(&hosts), NEVER_MS);
    known_by(&mut subject, &hosts, &[0]).await;

    hosts[0].mood(Mood::Silent);
    for id in 1..20 {
        assert_eq!(subject.get(&format!("{id}:5")), format!("found {id}=5,300"));
    }
    hosts[0].change(|script| (script.mood, script.bias) = (Mood::Well, 7));
    hosts[1].mood(Mood::Silent);

    assert_eq!(subject.get("2:5"), "found 2=5,307", "what the first one says that answers");
}

async fn kit_a_26_27_a_host_that_fails_is_asked_again_and_then_named_with_what_it_said(language: Language) {
    let hosts = all(&[("a", at(0, 10)), ("b", at(0, 10)), ("b", at(10, 20))]).await;
    let mut subject = Subject::start(language, &addresses(&hosts), NEVER_MS);
    known_by(&mut subject, &hosts, &[0, 10]).await;
    hosts[..2].iter().for_each(|host| host.mood(Mood::Broken));

    let told = subject.get("1:5 2:15 3:6");

    assert!(told.starts_with("missing 1,3 from ") && told.contains("no disk"), "{told}");
    for host in &hosts[..2] {
        assert!(told.contains(&host.address), "{told}");
        assert_eq!(host.asked(), vec![vec![5, 6]; 3], "twice again, and only for what it serves");
    }
    assert_eq!(hosts[2].asked(), [[15]]);
}

async fn kit_a_29_30_a_key_of_nobody_waits_for_its_host(language: Language) {
    let host = Host::start("a", at(0, 10)).await;
    let mut subject = Subject::start(language, &[&host.address], PING_MS);
    assert_eq!(subject.get("1:5"), "found 1=5,300");

    subject.begin(30_000, "1:5 2:15");
    host.pinged().await;
    host.serves(at(0, 20));

    assert_eq!(subject.end(), "found 1=5,300 2=15,300");
}

async fn kit_a_31_the_wait_ends_with_the_deadline_and_the_keys_are_named(language: Language) {
    let host = Host::start("a", at(0, 10)).await;
    let mut subject = Subject::start(language, &[&host.address], PING_MS);

    let told = subject.get_within(2_000, "4:15 1:5 2:17");

    let mut named: Vec<&str> = told.strip_prefix("no-shard ").unwrap_or_else(|| panic!("{told}")).split(',').collect();
    named.sort_unstable();
    assert_eq!(named, ["2", "4"]);
}

async fn kit_a_8_33_a_host_that_refused_is_not_asked_again_and_another_one_answers(language: Language) {
    let hosts = all(&[("a", at(0, 10)), ("b", at(5, 10))]).await;
    let mut subject = Subject::start(language, &addresses(&hosts), NEVER_MS);
    known_by(&mut subject, &hosts, &[0]).await;
    hosts[0].serves(at(0, 5));
    hosts[1].mood(Mood::Silent);

    subject.begin(30_000, "1:5 2:6");
    while hosts[1].asked().is_empty() {
        tokio::task::yield_now().await;
    }
    // Answers when it is asked again, and by then the other one has refused.
    hosts[1].mood(Mood::Well);
    assert_eq!(subject.end(), "found 1=5,300 2=6,300");
    assert_eq!(subject.get("1:7 2:3"), "found 1=7,300 2=3,300");

    let asked = hosts[0].asked();
    assert_eq!(asked, [vec![5, 6], vec![3]], "its refusal told what it serves now");
}

async fn kit_a_2_11_an_error_tells_what_its_host_serves(language: Language) {
    let hosts = all(&[("a", at(0, 10)), ("b", at(0, 10))]).await;
    let mut subject = Subject::start(language, &addresses(&hosts), NEVER_MS);
    known_by(&mut subject, &hosts, &[0]).await;
    hosts[0].serves(at(0, 20));
    hosts.iter().for_each(|host| host.mood(Mood::Broken));
    assert!(subject.get("1:5").starts_with("missing 1 "));

    hosts.iter().for_each(|host| host.mood(Mood::Well));

    assert_eq!(subject.get("1:15"), "found 1=15,300", "without a ping");
}

async fn kit_a_5_16_older_knowledge_replaces_nothing(language: Language) {
    let host = Host::start("a", at(0, 10)).await;
    host.change(|script| script.shard.incarnation = 5);
    let mut subject = Subject::start(language, &[&host.address], NEVER_MS);
    assert_eq!(subject.get("1:5"), "found 1=5,300");

    // The word of a process before, which comes late.
    host.change(|script| (script.shard.incarnation, script.shard.epoch, script.shard.hi) = (4, 9, 20));
    assert_eq!(subject.get("1:6"), "found 1=6,300");
    assert_eq!(subject.get_within(700, "1:15"), "no-shard 1");
    host.change(|script| (script.shard.incarnation, script.shard.epoch) = (5, 2));
    assert_eq!(subject.get("1:6"), "found 1=6,300");

    assert_eq!(subject.get("1:15"), "found 1=15,300", "a newer epoch counts at once");
}

async fn kit_a_54_the_later_of_two_claims_is_asked_for_as_long_as_it_lives(language: Language) {
    let hosts = all(&[("a", at(0, 10)), ("a", at(0, 10))]).await;
    for (host, generation) in hosts.iter().zip([4, 5]) {
        host.change(|script| (script.shard.number, script.shard.generation) = (1, generation));
    }
    let mut subject = Subject::start(language, &addresses(&hosts), PING_MS);
    known(&hosts).await;

    assert_eq!(subject.get("1:5"), "found 1=5,300");
    assert_eq!((hosts[0].asked(), hosts[1].asked()), (vec![], vec![vec![5]]));
    hosts[1].mood(Mood::Silent);

    assert_eq!(subject.get("1:5"), "found 1=5,300");
    assert_eq!(hosts[0].asked(), [[5]]);
}

async fn a_host_without_values_is_named(language: Language) {
    let host = Host::start("a", at(0, 10)).await;
    host.mood(Mood::Empty);
    let mut subject = Subject::start(language, &[&host.address], PING_MS);

    let told = subject.get("1:5");

    assert_eq!(told, format!("missing 1 from {} (no value)", host.address));
}

async fn a_large_call_is_sent_in_parts_and_every_request_has_a_timeout(language: Language) {
    let host = Host::start("a", Interval::WHOLE).await;
    let mut subject = Subject::start(language, &[&host.address], PING_MS);
    let hits: Vec<String> = (0..10_001).map(|number| format!("{number}:{number}")).collect();

    let found = subject.get(&hits.join(" "));

    assert!(found.starts_with("found 0=0,300 1=1,300 ") && found.ends_with(" 10000=10000,300"), "{}", found.len());
    let mut parts: Vec<usize> = host.asked().iter().map(Vec::len).collect();
    parts.sort_unstable();
    assert_eq!(parts, [1, 10_000]);
    assert_eq!(host.change(|script| script.endless), 0);
}

async fn all(hosts: &[(&str, Interval)]) -> Vec<Host> {
    let mut started = Vec::new();
    for (dc, interval) in hosts {
        started.push(Host::start(dc, *interval).await);
    }
    started
}

fn addresses(hosts: &[Host]) -> Vec<&str> {
    hosts.iter().map(|host| host.address.as_str()).collect()
}

/// Waits until the client must have heard of all of them.
async fn known(hosts: &[Host]) {
    for host in hosts {
        host.pinged().await;
    }
}

/// The same with a client that pings once: it asks until it has asked everybody. All of these serve 8 and 9, or 18 and 19.
async fn known_by(subject: &mut Subject, hosts: &[Host], decade: &[u32]) {
    let call = |unit: u32| {
        let hits = decade.iter().map(|ten| format!("{ten}:{}", ten + unit));
        hits.collect::<Vec<_>>().join(" ")
    };
    let was_asked = |unit: u32| {
        let is_it =
            |script: &mut crate::hosts::Script| script.asked.iter().flatten().any(|counter| counter % 10 == unit);
        hosts.iter().all(|host| host.change(is_it))
    };
    while !was_asked(8) {
        assert!(subject.get(&call(8)).starts_with("found"));
    }
    assert!(subject.get(&call(9)).starts_with("found"));
    // A call does not wait for the replica that comes second.
    while !was_asked(9) {
        tokio::task::yield_now().await;
    }
    hosts.iter().for_each(|host| drop(host.asked()));
}
