//! A timeout never claims more than it knows (record-cache 34).

use shardine_model::{Answer, ErrorCode};

use crate::cluster::Cluster;

#[test]
fn record_cache_34_a_proposal_whose_fate_stays_open_is_in_doubt() {
    let mut cluster = Cluster::new();
    cluster.cut_off(1);
    let open = cluster.submit(1, "set kv:a f=1");
    cluster.settle();

    cluster.tick(100);

    assert_eq!(cluster.answer(open), Some(&Answer::Failed(ErrorCode::InDoubt)));
}

/// record-cache 34: what a snapshot covers may have been executed; nobody may say that it was not.
#[test]
fn record_cache_34_a_proposal_under_a_snapshot_is_in_doubt() {
    let mut cluster = Cluster::with(|options| options.window_entries = 2);
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();

    // Executed by the others, under a leader that this one never hears of until a snapshot covers it.
    let open = cluster.submit(1, "incr kv:a n 1");
    cluster.stick_disk(1);
    cluster.on(1, |replica, actions| replica.flush(actions));
    cluster.deliver_to_followers(1);
    cluster.cut_off(1);
    cluster.elect(2);
    for number in 0..20 {
        cluster.submit(2, &format!("set kv:b f={number}"));
        cluster.settle();
    }
    assert_eq!(cluster.version_on(2, "kv:a"), 2, "it was executed");
    cluster.heal();
    cluster.free_disk(1);
    cluster.tick(10);

    cluster.assert_agreement();
    assert_eq!(cluster.answer(open), Some(&Answer::Failed(ErrorCode::InDoubt)));
}
