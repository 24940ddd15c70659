//! Followers that are far behind get a snapshot, and it replaces all they had (records 70, 71).

use crate::cluster::Cluster;

fn lagging() -> Cluster {
    Cluster::with(|options| options.window_entries = 2)
}

/// records 70: a key that left while the follower was away is not there after it has caught up.
#[test]
fn w5_a_snapshot_replaces_what_a_follower_had() {
    let mut cluster = lagging();
    cluster.submit(1, "set kv:gone f=1");
    cluster.submit(1, "set kv:kept f=1");
    cluster.settle();
    cluster.cut_off(3);
    cluster.on(1, |replica, actions| {
        let clear = shardine_model::Entry::Clear { table: shardine_model::table::KV };
        replica.propose_for(shardine_shard::Caller { source: 9, sequence: 9 }, &clear, actions);
    });
    cluster.settle();
    for number in 0..20 {
        cluster.submit(1, &format!("set kv:kept f={number}"));
        cluster.settle();
    }
    assert_eq!(cluster.version_on(3, "kv:gone"), 1, "the follower has not heard of it");

    cluster.heal();
    cluster.submit(1, "set kv:kept f=last");
    cluster.tick(10);

    assert!(cluster.sent.iter().any(|line| line.starts_with("MsgSnapshot")), "the log no longer reaches back");
    assert_eq!(cluster.version_on(3, "kv:gone"), 0);
    cluster.assert_agreement();
}

/// records 71: also when nobody writes any more.
#[test]
fn records_71_a_follower_catches_up_in_a_quiet_shard() {
    let mut cluster = lagging();
    cluster.cut_off(3);
    for number in 0..20 {
        cluster.submit(1, &format!("set kv:a f={number}"));
        cluster.settle();
    }

    cluster.heal();
    cluster.tick(50);

    assert_eq!(cluster.version_on(3, "kv:a"), 20);
    cluster.assert_agreement();
}

/// records 71: a follower that is only a little behind needs none.
#[test]
fn records_71_the_log_is_kept_a_little_for_slow_followers() {
    let mut cluster = Cluster::with(|options| (options.window_entries, options.snapshot_log_bytes) = (100, 64));
    cluster.cut_off(3);
    for number in 0..20 {
        cluster.submit(1, &format!("set kv:a f={number}"));
        cluster.settle();
    }
    assert!(cluster.node(1).status().snapshot > 0, "snapshots were cut meanwhile");

    cluster.heal();
    cluster.tick(10);

    assert!(!cluster.sent.iter().any(|line| line.starts_with("MsgSnapshot")));
    cluster.assert_agreement();
}
