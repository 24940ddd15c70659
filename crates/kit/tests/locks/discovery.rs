//! Lists of hosts from claims and from service discovery.

use std::time::Duration;

use shardine_kit::claim::Store;
use shardine_kit::provider::{Discovery, Holders, Provider, announce};

use crate::rig::{Coordination, Mariadb, Postgres, Rig, Sqlite, on_each, who};

/// kit A-12: the lock table is a list of hosts.
async fn whoever_holds_a_shard_is_listed<R: Rig>() {
    let rig = R::new().await;
    let mut stores = Vec::new();
    for (dc, host) in [("a", "10.0.0.1:1"), ("b", "10.0.1.1:1")] {
        let store = rig.store().await;
        store.claim(&who(dc, host)).await.unwrap().unwrap();
        stores.push(store);
    }

    let holders = Holders::new(rig.store().await);

    assert_eq!(holders.hosts().await.unwrap(), ["10.0.0.1:1", "10.0.1.1:1"]);
    rig.dies(stores.remove(0), &who("a", "10.0.0.1:1")).await;
    // A semaphore is free a moment after its session has gone.
    while holders.hosts().await.unwrap() != ["10.0.1.1:1"] {}
}

on_each! {
    postgres: Postgres, mariadb: Mariadb, sqlite: Sqlite, coordination: Coordination => [
        whoever_holds_a_shard_is_listed,
    ]
}

/// kit A-12: service discovery.
#[tokio::test]
async fn whoever_announces_itself_is_listed_for_as_long_as_it_does() {
    let rig = Coordination::new().await;
    let discovery = Discovery::new(rig.client(), "/local/goals", "hosts");
    assert!(discovery.hosts().await.unwrap().is_empty());
    let client = rig.client();
    let timeout = Duration::from_secs(1);

    let announcing =
        tokio::spawn(async move { announce(client, "/local/goals", "hosts", "10.0.0.1:1", timeout).await });
    while discovery.hosts().await.unwrap() != ["10.0.0.1:1"] {}
    announcing.abort();

    while !discovery.hosts().await.unwrap().is_empty() {}
}
