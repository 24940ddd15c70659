//! What a table promises beyond the suite: its key, its order, rows that others have locked, and a clock that jumps.

use std::pin::pin;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use shardine_kit::Hold;
use shardine_kit::claim::Store;
use tokio::time::timeout;

use crate::rig::{Hands, Mariadb, Postgres, Rig, SHARDS, Sqlite, on_each, who, within};

/// kit A-40: the table itself keeps a shard from being there twice.
async fn a_second_row_of_a_shard_is_refused<R: Hands>() {
    let rig = R::new().await;
    rig.store().await;

    rig.sql("INSERT INTO locks (dc, shard) VALUES ('a', 7)").await.unwrap();

    assert!(rig.sql("INSERT INTO locks (dc, shard) VALUES ('a', 7)").await.is_err());
    rig.sql("INSERT INTO locks (dc, shard) VALUES ('b', 7)").await.unwrap();
}

/// kit A-42: own, then longest not proven, then lowest. And rows beyond the cut are nobody's, the first of them too.
async fn the_order_of_preference_is_kept<R: Hands>() {
    let rig = R::new().await;
    let store = rig.store().await;
    rig.sql(&format!("INSERT INTO locks (dc, shard) VALUES ('a', {SHARDS}), ('a', 9)")).await.unwrap();
    let (one, two) = (R::hour_before("last_ping"), R::hour_before(&R::hour_before("last_ping")));
    rig.sql(&format!("UPDATE locks SET last_ping = {one}, host = 'me' WHERE dc = 'a' AND shard = 1")).await.unwrap();
    rig.sql(&format!("UPDATE locks SET last_ping = {two} WHERE dc = 'a' AND shard = 2")).await.unwrap();
    let mut order = Vec::new();

    while let Some(hold) = store.claim(&who("a", if order.is_empty() { "me" } else { "new" })).await.unwrap() {
        order.push(hold.shard);
        rig.sql(&format!("UPDATE locks SET host = 'done' WHERE dc = 'a' AND shard = {}", hold.shard)).await.unwrap();
    }

    assert_eq!(order, [1, 2, 0]);
}

/// kit A-42.
async fn the_lowest_shard_is_taken_in_whatever_order_rows_were_made<R: Hands>() {
    let rig = R::new().await;
    let store = rig.store().await;
    rig.sql("DELETE FROM locks").await.unwrap();
    rig.sql("INSERT INTO locks (dc, shard) VALUES ('a', 2), ('a', 1), ('a', 0)").await.unwrap();
    let mut order = Vec::new();

    for host in ["h0", "h1", "h2"] {
        order.push(store.claim(&who("a", host)).await.unwrap().unwrap().shard);
    }

    assert_eq!(order, [0, 1, 2]);
    let listed: Vec<u32> = store.holders().await.unwrap().iter().map(|holder| holder.shard).collect();
    assert_eq!(listed, [0, 1, 2]);
}

/// A row that an older table has brought back may have a generation of this claim and another server's name.
async fn a_row_of_another_server_is_neither_proven_nor_given_back<R: Hands>() {
    let rig = R::new().await;
    let (store, me) = (rig.store().await, who("a", "me"));
    let hold = store.claim(&me).await.unwrap().unwrap();
    rig.sql(&format!("UPDATE locks SET host = 'you', last_ping = {} WHERE host = 'me'", R::NOW)).await.unwrap();

    assert_eq!(store.renew(&me, hold).await.unwrap(), None);
    store.release(&me, hold).await.unwrap();

    let holders = store.holders().await.unwrap();
    let listed: Vec<_> = holders.iter().map(|holder| (holder.host.as_str(), holder.generation)).collect();
    assert_eq!(listed, [("you", hold.generation)]);
}

/// kit A-41: whoever has made it by hand.
async fn a_row_that_is_no_shard_s_is_nobody_s<R: Hands>() {
    let rig = R::new().await;
    let store = rig.store().await;
    let before = R::hour_before("last_ping");
    rig.sql("INSERT INTO locks (dc, shard, host) VALUES ('a', -1, 'x')").await.unwrap();
    rig.sql(&format!("UPDATE locks SET last_ping = {before} WHERE shard = -1")).await.unwrap();

    assert_eq!(store.claim(&who("a", "h0")).await.unwrap().map(|hold| hold.shard), Some(0));
    // And one that is fresh and has nobody's name.
    rig.sql(&format!("UPDATE locks SET last_ping = {} WHERE shard IN (-1, 2)", R::NOW)).await.unwrap();

    let holders = store.holders().await.unwrap();
    let listed: Vec<_> = holders.iter().map(|holder| (holder.shard, holder.host.as_str())).collect();
    assert_eq!(listed, [(0, "h0")]);
}

/// Databases have no times before their calendars, and rows that were never claimed are of 1970.
async fn the_longest_timeout_leaves_shards_to_be_taken<R: Hands>() {
    let rig = R::new().await;
    rig.store().await;
    let (store, other) = (rig.store_for(Duration::MAX), rig.store_for(Duration::MAX));

    let hold = store.claim(&who("a", "h0")).await.unwrap().unwrap();
    let next = other.claim(&who("a", "h1")).await.unwrap().unwrap();

    assert_eq!((hold.shard, next.shard), (0, 1));
    assert_eq!(store.renew(&who("a", "h0"), hold).await.unwrap(), Some(hold));
    assert_eq!(store.holders().await.unwrap().len(), 2);
}

/// kit A-46: the time is the database's.
async fn a_proof_is_written_down<R: Hands>() {
    let rig = R::new().await;
    let store = rig.store().await;
    let me = who("a", "me");
    let hold = store.claim(&me).await.unwrap().unwrap();
    let pinged = async || rig.sql("SELECT last_ping FROM locks WHERE host = 'me'").await.unwrap();
    let before = pinged().await;

    // A clock of microseconds or of milliseconds may stand still between two statements.
    while pinged().await == before {
        assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
    }

    let locked = rig.sql("SELECT count(*) FROM locks WHERE host = 'me' AND locked_time < last_ping").await.unwrap();
    assert_eq!(locked.trim(), "1");
    let asked = rig.sql(&format!("SELECT {}", R::NOW)).await.unwrap();
    assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
    let between = format!("last_ping >= {} AND last_ping <= {}", R::literal(asked.trim()), R::NOW);
    let between = rig.sql(&format!("SELECT count(*) FROM locks WHERE host = 'me' AND {between}")).await.unwrap();
    assert_eq!(between.trim(), "1", "neither older nor newer than the proof");
}

/// kit A-50: a jump of the database's clock by an hour, seen from the rows, which are all an hour older then.
async fn after_a_jump_of_the_clock_a_proof_wins_or_the_loss_is_seen<R: Hands>() {
    let rig = R::new().await;
    let (store, thief) = (rig.store().await, rig.store().await);
    let me = who("b", "me");
    let hold = store.claim(&me).await.unwrap().unwrap();
    let jump = format!("UPDATE locks SET last_ping = {}", R::hour_before("last_ping"));

    rig.sql(&jump).await.unwrap();
    assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold), "the next proof sets it right");
    for other in ["x", "y", "z"] {
        let taken = thief.claim(&who("b", other)).await.unwrap();
        assert_ne!(taken.map(|taken| taken.shard), Some(hold.shard));
    }
    rig.sql(&jump).await.unwrap();
    while thief.claim(&who("b", "thief")).await.unwrap().is_some_and(|taken| taken.shard != hold.shard) {
        rig.sql("UPDATE locks SET host = 'done' WHERE host = 'thief'").await.unwrap();
    }

    assert_eq!(
        store.renew(&me, hold).await.unwrap(),
        None,
        "who came first after the jump has it, and the holder sees it"
    );
}

/// kit: whoever looks at a shard that nobody holds may be overtaken at any step before it has taken it. One of the two
/// has it then, whether it takes a new one or makes its own anew.
async fn a_free_shard_has_one_taker_wherever_two_meet<R: Hands>() {
    let rig = R::new().await;
    let stores = [rig.store().await, rig.store().await, rig.store().await, rig.store().await];
    let [one, two, others @ ..] = stores;
    let mut hold = one.claim(&who("a", "one")).await.unwrap().unwrap();
    for (store, host) in others.iter().zip(["x", "y"]) {
        store.claim(&who("a", host)).await.unwrap().unwrap();
    }
    let free = R::hour_before(R::NOW);

    for is_proof in [true, false] {
        for steps in 1.. {
            rig.sql(&format!(
                "UPDATE locks SET host = 'z', last_ping = {free} WHERE dc = 'a' AND shard = {}",
                hold.shard
            ))
            .await
            .unwrap();
            let (me, held) = (who("a", "one"), hold);
            let mut taking = pin!(async {
                match is_proof {
                    true => one.renew(&me, held).await,
                    false => one.claim(&me).await,
                }
            });
            let early = within(steps, taking.as_mut()).await;
            let is_done = early.is_some();
            let other = two.claim(&who("a", "two")).await.unwrap();
            let mine = match early {
                Some(mine) => mine,
                None => taking.await,
            };
            let mine = mine.unwrap();
            assert!(mine.is_some() != other.is_some(), "{mine:?} and {other:?} after {steps} steps, proof: {is_proof}");
            let newest = mine.or(other).map_or(0, |hold| hold.generation);
            hold = Hold { generation: newest, ..hold };
            if is_done {
                break;
            }
        }
    }
}

/// A request that nobody waits for any more is left where it is, and the next one finds nothing of it.
async fn a_request_that_is_given_up_spoils_nothing<R: Hands>() {
    let rig = R::new().await;
    let (store, me) = (rig.store().await, who("a", "me"));
    let hold = store.claim(&me).await.unwrap().unwrap();

    for steps in 1.. {
        let is_done = within(steps, store.renew(&me, hold)).await.is_some();
        let listed = store.holders().await.unwrap();

        assert_eq!((listed.len(), store.renew(&me, hold).await.unwrap()), (1, Some(hold)), "after {steps} steps");
        if is_done {
            break;
        }
    }
}

/// kit A-55: also while a claim that the table has lost is being made anew. What nobody has heard may have been done, and is
/// not taken for somebody else's: silence of the store is no loss.
async fn a_claim_made_anew_that_nobody_has_heard_of_is_no_loss<R: Hands>() {
    let rig = R::new().await;
    let (store, me) = (rig.store().await, who("a", "me"));
    let mut hold = store.claim(&me).await.unwrap().unwrap();

    for steps in 1.. {
        rig.sql("DELETE FROM locks").await.unwrap();
        let is_done = within(steps, store.renew(&me, hold)).await.is_some();
        let word = store.renew(&me, hold).await.unwrap();
        let lost = || panic!("lost after {steps} steps");
        hold = word.or_else(|| is_done.then_some(hold)).unwrap_or_else(lost);
        if is_done {
            break;
        }
        assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
    }
}

/// kit: what was asked for and not heard makes nobody the holder of what another server has.
async fn an_unheard_claim_takes_nothing_from_others<R: Hands>() {
    let rig = R::new().await;
    let (store, other, me) = (rig.store().await, rig.store().await, who("a", "me"));
    let hold = store.claim(&me).await.unwrap().unwrap();
    rig.sql("DELETE FROM locks").await.unwrap();

    // Given up at its first step, so that it is unheard and, as a table is slower than that, undone.
    within(1, store.renew(&me, hold)).await;
    let taken = other.claim(&who("a", "you")).await.unwrap().unwrap();
    let word = store.renew(&me, hold).await.unwrap();

    assert_eq!(word.is_some(), taken.shard != hold.shard);
    let listed = other.holders().await.unwrap();
    assert!(listed.iter().any(|holder| holder.host == "you" && holder.shard == taken.shard));
    assert_eq!(other.renew(&who("a", "you"), taken).await.unwrap(), Some(taken));
}

/// Whoever was cut off has an error at most, and then another connection.
async fn a_connection_that_was_cut_is_made_again<R: Hands>() {
    let rig = R::new().await;
    let (store, me) = (rig.store().await, who("a", "me"));
    let hold = store.claim(&me).await.unwrap().unwrap();

    for _ in 0..2 {
        rig.sql(R::CUT).await.unwrap();
        let _ = store.renew(&me, hold).await;
        assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
    }
}

/// A connection costs a database more than a question.
async fn one_connection_has_all_the_questions<R: Hands>() {
    let rig = R::new().await;
    let (store, me) = (rig.store().await, who("a", "me"));
    let hold = store.claim(&me).await.unwrap().unwrap();
    let before = rig.sql(R::CONNECTIONS).await.unwrap();

    for _ in 0..3 {
        assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
        store.holders().await.unwrap();
    }

    assert_eq!((rig.sql(R::CONNECTIONS).await.unwrap(), before.lines().count()), (before.clone(), 1));
}

on_each! {
    postgres: Postgres, mariadb: Mariadb, sqlite: Sqlite => [
        a_free_shard_has_one_taker_wherever_two_meet,
        a_request_that_is_given_up_spoils_nothing,
        a_claim_made_anew_that_nobody_has_heard_of_is_no_loss,
        an_unheard_claim_takes_nothing_from_others,
        the_lowest_shard_is_taken_in_whatever_order_rows_were_made,
        a_row_that_is_no_shard_s_is_nobody_s,
        a_row_of_another_server_is_neither_proven_nor_given_back,
        the_longest_timeout_leaves_shards_to_be_taken,
        a_connection_that_was_cut_is_made_again,
        one_connection_has_all_the_questions,
        a_second_row_of_a_shard_is_refused,
        the_order_of_preference_is_kept,
        a_proof_is_written_down,
        after_a_jump_of_the_clock_a_proof_wins_or_the_loss_is_seen,
    ]
}

/// kit A-46: servers are anywhere, and so may their sessions' clocks be.
#[tokio::test]
async fn the_time_of_a_claim_is_the_same_in_every_time_zone_of_mariadb() {
    let rig = Mariadb::new().await;
    rig.store().await;
    let (east, west) = (rig.store_at("+13:00"), rig.store_at("-11:00"));
    let (there, here) = (who("a", "east"), who("a", "west"));

    let first = east.claim(&there).await.unwrap().unwrap();
    let second = west.claim(&here).await.unwrap().unwrap();
    assert_eq!((first.shard, second.shard), (0, 1), "nobody's claim is half a day old");
    // A claim has the right time before it is proven for the first time, too.
    let sane =
        "SELECT count(*) FROM locks WHERE host <> '' AND abs(timestampdiff(HOUR, last_ping, UTC_TIMESTAMP(6))) < 1";
    assert_eq!(rig.sql(sane).await.unwrap().trim(), "2");
    for _ in 0..2 {
        assert_eq!(east.renew(&there, first).await.unwrap(), Some(first));
        assert_eq!(west.renew(&here, second).await.unwrap(), Some(second));
        assert_eq!(east.holders().await.unwrap().len(), 2);
        assert_eq!(west.holders().await.unwrap().len(), 2);
    }
    assert_eq!(rig.sql(sane).await.unwrap().trim(), "2");
}

/// kit A-47: whoever looks at the row of a proof at that moment has not taken it, and the proof waits until it is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_looks_at_is_not_lost_in_mariadb() {
    let rig = Mariadb::new().await;
    let (store, me) = (rig.store().await, who("a", "me"));
    let mut hold = store.claim(&me).await.unwrap().unwrap();
    let pool = mysql_async::Pool::new(rig.database().url().as_str());
    let mut holder = pool.get_conn().await.unwrap();
    let before = Mariadb::hour_before(Mariadb::NOW);

    for steps in 1.. {
        rig.sql(&format!("UPDATE locks SET host = 'z', last_ping = {before} WHERE shard = 0 AND dc = 'a'"))
            .await
            .unwrap();
        let mut proof = pin!(store.renew(&me, hold));
        let early = within(steps, proof.as_mut()).await;
        let is_done = early.is_some();
        let word = match early {
            Some(word) => word,
            None => {
                holder.query_drop("BEGIN").await.unwrap();
                // Not if the proof has it already, which would wait for this test.
                let _ = holder.query_drop("SELECT * FROM locks WHERE dc = 'a' AND shard = 0 FOR UPDATE NOWAIT").await;
                // What would not wait would be answered in this time.
                let early = timeout(Duration::from_millis(100), proof.as_mut()).await;
                holder.query_drop("ROLLBACK").await.unwrap();
                match early {
                    Ok(word) => word,
                    Err(_) => proof.await,
                }
            }
        };
        hold = word.unwrap().unwrap_or_else(|| panic!("lost after {steps} steps"));
        if is_done {
            break;
        }
    }
}

/// If the claim waited for the row, this test would never end: the row is locked until after it.
#[tokio::test]
async fn kit_a_43_a_row_that_somebody_has_locked_is_passed_over_in_postgresql() {
    let rig = Postgres::new().await;
    let store = rig.store().await;
    let held = rig.database().hold("BEGIN; UPDATE locks SET host = host WHERE dc = 'a' AND shard = 0").unwrap();

    let hold = store.claim(&who("a", "me")).await.unwrap().unwrap();

    assert_eq!(hold.shard, 1);
    drop(held);
}

/// PostgreSQL's catalogue refuses one of two that make the same table at once, `IF NOT EXISTS` or not: so one waits.
#[tokio::test]
async fn two_servers_do_not_make_the_table_at_the_same_time_in_postgresql() {
    let rig = Postgres::new().await;
    let store = rig.store().await;
    let lock = "DO $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('\"locks\"')); END $$";
    let held = rig.database().hold(&format!("BEGIN; {lock}")).unwrap();

    let waits = timeout(Duration::from_millis(500), store.prepare("a")).await;
    drop(held);

    assert!(waits.is_err(), "somebody else is making the table");
    store.prepare("a").await.unwrap();
}

#[tokio::test]
async fn kit_a_43_a_row_that_somebody_has_locked_is_passed_over_in_mariadb() {
    let rig = Mariadb::new().await;
    let store = rig.store().await;
    let pool = mysql_async::Pool::new(rig.database().url().as_str());
    let mut holder = pool.get_conn().await.unwrap();
    holder.query_drop("BEGIN").await.unwrap();
    holder.query_drop("SELECT * FROM locks WHERE dc = 'a' AND shard = 0 FOR UPDATE").await.unwrap();

    let hold = store.claim(&who("a", "me")).await.unwrap().unwrap();

    assert_eq!(hold.shard, 1);
    drop(holder);
}

/// kit A-49: what a server does without its database is in `client/claims.rs`; here the store says so.
#[tokio::test]
async fn a_database_that_is_gone_is_an_error_and_not_a_loss() {
    let rig = Postgres::new().await;
    let store = rig.store().await;
    let hold = store.claim(&who("a", "me")).await.unwrap().unwrap();

    rig.sql("ALTER TABLE locks RENAME TO away").await.unwrap();
    let gone = store.renew(&who("a", "me"), hold).await;
    rig.sql("ALTER TABLE away RENAME TO locks").await.unwrap();

    assert!(gone.unwrap_err().to_string().contains("locks"));
    assert_eq!(store.renew(&who("a", "me"), hold).await.unwrap(), Some(hold));
}
