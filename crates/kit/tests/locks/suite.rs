//! What every store of claims promises.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use shardine_kit::Hold;
use shardine_kit::claim::Store;

use crate::rig::{Coordination, Mariadb, Postgres, Rig, SHARDS, Sqlite, TIMEOUT, on_each, who};

async fn claim<S: Store>(store: &S, dc: &str, host: &str) -> Option<Hold> {
    store.claim(&who(dc, host)).await.unwrap()
}

/// A session that has gone leaves its semaphore a moment later.
async fn eventually<S: Store>(store: &S, dc: &str, host: &str) -> Hold {
    loop {
        if let Some(hold) = claim(store, dc, host).await {
            return hold;
        }
    }
}

/// kit A-41: what is somebody's, or of another data centre, is not taken.
async fn only_free_shards_of_its_own_data_centre_are_taken<R: Rig>() {
    let rig = R::new().await;
    let stores = [rig.store().await, rig.store().await, rig.store().await, rig.store().await, rig.store().await];

    for (store, host) in stores.iter().zip(["h0", "h1", "h2"]) {
        assert!(claim(&**store, "a", host).await.is_some());
    }
    assert_eq!(claim(&*stores[3], "a", "h3").await, None);

    assert_eq!(claim(&*stores[4], "b", "h4").await.map(|hold| hold.shard), Some(0));
}

/// kit A-42: the rest of the order is of tables (`tables.rs`).
async fn its_own_last_shard_is_preferred_and_then_the_lowest<R: Rig>() {
    let rig = R::new().await;
    let (first, second) = (rig.store().await, rig.store().await);
    assert_eq!(claim(&*first, "a", "h0").await.map(|hold| hold.shard), Some(0));
    assert_eq!(claim(&*second, "a", "h1").await.map(|hold| hold.shard), Some(1));
    rig.dies(first, &who("a", "h0")).await;
    rig.dies(second, &who("a", "h1")).await;

    let again = rig.store().await;

    assert_eq!(eventually(&*again, "a", "h1").await.shard, 1);
}

/// kit A-43: two that start together.
async fn servers_that_start_together_take_different_shards<R: Rig>() {
    let rig = R::new().await;
    let (one, two) = (rig.store().await, rig.store().await);

    let (one, two) = tokio::join!(claim(&*one, "a", "h0"), claim(&*two, "a", "h1"));

    assert_ne!(one.unwrap().shard, two.unwrap().shard);
}

/// kit: as many servers as shards, in whatever order they come.
async fn everybody_gets_one_and_one_too_many_gets_none<R: Rig>() {
    let rig = R::new().await;
    let mut stores = Vec::new();
    for _ in 0..=SHARDS {
        stores.push(rig.store().await);
    }

    let hosts: Vec<String> = (0..=SHARDS).map(|number| format!("h{number}")).collect();
    let claims = stores.iter().zip(&hosts).map(|(store, host)| claim(&**store, "a", host));
    let taken: Vec<Hold> = join_all(claims).await.into_iter().flatten().collect();

    let shards: BTreeSet<u32> = taken.iter().map(|hold| hold.shard).collect();
    assert_eq!((taken.len(), shards.len()), (SHARDS as usize, SHARDS as usize));
}

/// kit: also while the process before it, which has the same name, still believes in it.
async fn a_restarted_server_has_its_shard_back_and_the_process_before_has_not<R: Rig>() {
    let rig = R::new().await;
    let (other, before) = (rig.store().await, rig.store().await);
    claim(&*other, "a", "h0").await.unwrap();
    let old = claim(&*before, "a", "h1").await.unwrap();

    let after = rig.store().await;
    let new = claim(&*after, "a", "h1").await.unwrap();

    assert_eq!(new.shard, old.shard);
    assert!(new.generation > old.generation);
    assert_eq!(after.renew(&who("a", "h1"), new).await.unwrap(), Some(new));
    assert_eq!(before.renew(&who("a", "h1"), old).await.unwrap(), None);
}

/// kit A-45: also if the process before it had looked who holds what before it claimed.
async fn whoever_has_listed_holders_has_its_shard_back_after_a_restart<R: Rig>() {
    let rig = R::new().await;
    let (other, before, after) = (rig.store().await, rig.store().await, rig.store().await);
    claim(&*other, "a", "h0").await.unwrap();
    assert_eq!(before.holders().await.unwrap().len(), 1);
    let old = claim(&*before, "a", "h1").await.unwrap();
    assert_eq!(before.holders().await.unwrap().len(), 2);

    let new = claim(&*after, "a", "h1").await.unwrap();

    assert!(new.shard == old.shard && new.generation > old.generation);
}

/// kit A-48: also in one process, whose first claim went through although it never heard so.
async fn of_two_claims_by_one_server_the_later_one_counts<R: Rig>() {
    let rig = R::new().await;
    let (store, me) = (rig.store().await, who("a", "h0"));
    let unheard = claim(&*store, "a", "h0").await.unwrap();

    let heard = claim(&*store, "a", "h0").await.unwrap();

    assert_eq!(heard.shard, unheard.shard);
    assert_eq!(store.renew(&me, heard).await.unwrap(), Some(heard));
    assert_eq!(store.renew(&me, unheard).await.unwrap(), None);
}

/// kit.
async fn a_holder_can_prove_it_until_somebody_else_has_it<R: Rig>() {
    let rig = R::new().await;
    let store = rig.store().await;
    let me = who("a", "h0");
    let hold = claim(&*store, "a", "h0").await.unwrap();
    assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
    assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));

    rig.robs("a", hold.shard).await;

    assert_eq!(store.renew(&me, hold).await.unwrap(), None);
}

/// kit: a generation is never seen twice.
async fn every_claim_of_a_shard_has_a_generation_of_its_own<R: Rig>() {
    let rig = R::new().await;
    let others = [rig.store().await, rig.store().await];
    let first = rig.store().await;
    let mine = claim(&*first, "b", "h0").await.unwrap();
    claim(&*others[0], "b", "x0").await.unwrap();
    claim(&*others[1], "b", "x1").await.unwrap();
    let mut last = mine.generation;
    rig.dies(first, &who("b", "h0")).await;

    // By its holder after a restart, by another host, and by the first one again.
    for host in ["h0", "h1", "h0", "h0"] {
        let store = rig.store().await;
        let hold = eventually(&*store, "b", host).await;
        assert!(hold.shard == mine.shard && hold.generation > last, "{hold:?} after {last}");
        last = hold.generation;
        rig.dies(store, &who("b", host)).await;
    }
}

/// kit A-45: a name as long as a table has room for.
async fn a_long_name_is_as_good_as_a_short_one<R: Rig>() {
    let (rig, host) = (R::new().await, "h".repeat(255));
    let (before, other, after) = (rig.store().await, rig.store().await, rig.store().await);
    let old = claim(&*before, "a", &host).await.unwrap();
    claim(&*other, "a", "h1").await.unwrap();

    let new = claim(&*after, "a", &host).await.unwrap();

    assert!(new.shard == old.shard && new.generation > old.generation);
    assert_eq!(after.holders().await.unwrap()[0].host, host);
}

/// kit A-45: names are told apart by every letter.
async fn names_that_differ_in_case_are_two_servers<R: Rig>() {
    let rig = R::new().await;
    let (one, two) = (rig.store().await, rig.store().await);

    let small = claim(&*one, "a", "host").await.unwrap();
    let large = claim(&*two, "a", "HOST").await.unwrap();

    assert_ne!(small.shard, large.shard);
    assert_eq!(one.renew(&who("a", "host"), small).await.unwrap(), Some(small));
}

/// Whoever compares two lists compares them line by line.
async fn holders_are_listed_in_the_order_of_shards<R: Rig>() {
    let rig = R::new().await;
    let stores = [rig.store().await, rig.store().await, rig.store().await];
    for (store, (dc, host)) in stores.iter().zip([("b", "h0"), ("a", "h1"), ("a", "h2")]) {
        claim(&**store, dc, host).await.unwrap();
    }

    let holders = stores[0].holders().await.unwrap();

    let listed: Vec<_> = holders.iter().map(|holder| (holder.dc.as_str(), holder.shard)).collect();
    assert_eq!(listed, [("a", 0), ("a", 1), ("b", 0)]);
}

/// It is said to the store and to nobody else, so the store must pass it on.
async fn a_store_says_the_timeout_that_it_was_told<R: Rig>() {
    let rig = R::new().await;

    assert_eq!(rig.store().await.timeout(), TIMEOUT);
}

async fn what_is_given_back_can_be_taken_at_once_and_holders_are_listed<R: Rig>() {
    let rig = R::new().await;
    let (first, second) = (rig.store().await, rig.store().await);
    let hold = claim(&*first, "b", "h0").await.unwrap();
    let names = |holders: Vec<shardine_kit::claim::Holder>| {
        holders.into_iter().map(|holder| (holder.dc, holder.host, holder.generation)).collect::<Vec<_>>()
    };
    assert_eq!(names(second.holders().await.unwrap()), [("b".to_owned(), "h0".to_owned(), hold.generation)]);

    first.release(&who("b", "h0"), hold).await.unwrap();

    assert_eq!(first.renew(&who("b", "h0"), hold).await.unwrap(), None);
    assert!(second.holders().await.unwrap().is_empty());
    assert_eq!(claim(&*second, "b", "h1").await.map(|taken| taken.shard), Some(hold.shard));
}

/// kit: a data centre says nothing about another one, not even about a server of the same name.
async fn one_name_in_two_data_centres_is_two_servers<R: Rig>() {
    let rig = R::new().await;
    let (other, here, there) = (rig.store().await, rig.store().await, rig.store().await);
    claim(&*other, "b", "x").await.unwrap();
    let in_b = claim(&*there, "b", "h0").await.unwrap();
    let in_a = claim(&*here, "a", "h0").await.unwrap();
    assert_eq!((in_b.shard, in_a.shard), (1, 0), "its own last shard is one of its own data centre");
    let (last, next) = (rig.store().await, rig.store().await);
    claim(&*last, "a", "h1").await.unwrap();
    let in_a_too = claim(&*next, "a", "h2").await.unwrap();
    assert_eq!((here.renew(&who("a", "h0"), in_a).await.unwrap(), in_a_too.shard), (Some(in_a), 2));
    // A store may say, too, that it has no such claim.
    let proven_there = here.renew(&who("a", "h0"), in_b).await;
    assert_ne!(proven_there.ok().flatten(), Some(in_b), "a proof is of its own data centre");

    rig.robs("a", in_a.shard).await;
    assert_eq!(here.renew(&who("a", "h0"), in_a).await.unwrap(), None);
    assert_eq!(there.renew(&who("b", "h0"), in_b).await.unwrap(), Some(in_b));
    let _ = here.release(&who("a", "h0"), in_b).await;

    assert_eq!(
        there.renew(&who("b", "h0"), in_b).await.unwrap(),
        Some(in_b),
        "what was given back is of the other one"
    );
}

/// What is lost already is not given back in the name of whoever has it now.
async fn a_claim_that_is_lost_is_not_given_back<R: Rig>() {
    let rig = R::new().await;
    let (before, after, other) = (rig.store().await, rig.store().await, rig.store().await);
    let old = claim(&*before, "a", "h0").await.unwrap();
    let new = claim(&*after, "a", "h0").await.unwrap();

    // A store may say that there is nothing to give back.
    let _ = before.release(&who("a", "h0"), old).await;

    assert_eq!(after.renew(&who("a", "h0"), new).await.unwrap(), Some(new));
    assert_eq!(after.holders().await.unwrap().len(), 1);
    assert_ne!(claim(&*other, "a", "h1").await.map(|taken| taken.shard), Some(new.shard));
}

// kit A-51: the same for all.
on_each! {
    postgres: Postgres, mariadb: Mariadb, sqlite: Sqlite, coordination: Coordination => [
        only_free_shards_of_its_own_data_centre_are_taken,
        its_own_last_shard_is_preferred_and_then_the_lowest,
        servers_that_start_together_take_different_shards,
        everybody_gets_one_and_one_too_many_gets_none,
        a_restarted_server_has_its_shard_back_and_the_process_before_has_not,
        whoever_has_listed_holders_has_its_shard_back_after_a_restart,
        of_two_claims_by_one_server_the_later_one_counts,
        a_holder_can_prove_it_until_somebody_else_has_it,
        every_claim_of_a_shard_has_a_generation_of_its_own,
        a_long_name_is_as_good_as_a_short_one,
        names_that_differ_in_case_are_two_servers,
        holders_are_listed_in_the_order_of_shards,
        a_store_says_the_timeout_that_it_was_told,
        what_is_given_back_can_be_taken_at_once_and_holders_are_listed,
        one_name_in_two_data_centres_is_two_servers,
        a_claim_that_is_lost_is_not_given_back,
    ]
}
