//! What must not end a service: a store that is silent for longer than a claim lives, rows that are missing, servers in
//! numbers, names that are too long, and a client that looks in the wrong place.

use std::pin::pin;
use std::time::Duration;

use shardine_client::{Acquire, Delete, Include, NodeSettings, SessionOptions};
use shardine_kit::claim::{SqliteTable, Store, Table};
use shardine_testkit::Dir;
use tokio::time::timeout;

use crate::rig::{Coordination, Hands, Mariadb, Postgres, Rig, Sqlite, on_each, who, within};

/// kit A-49: Shardine stands still until the session has ended by the holder's own clock. Nobody has said that the shard is
/// somebody else's, and when Shardine is back it is still the holder's own, under the same generation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_of_shardine_is_no_loss_however_long_it_is() {
    let mut rig = Coordination::new().await;
    let (me, short) = (who("a", "h0"), Duration::from_secs(1));
    let store = rig.store_with(short);
    let hold = store.claim(&me).await.unwrap().unwrap();
    let client = rig.client();
    client.create_node("/local/other", NodeSettings::default()).await.unwrap();
    let options = SessionOptions { timeout: short, ..SessionOptions::default() };
    let twin = client.start_session("/local/other", options).await.unwrap();

    rig.server().process().pause().unwrap();
    twin.over().await;
    for _ in 0..10 {
        let word = timeout(Duration::from_millis(100), store.renew(&me, hold)).await;
        assert!(!matches!(word, Ok(Ok(_))), "{word:?} from a store that stands still");
    }
    rig.server().process().resume().unwrap();

    let word = loop {
        if let Ok(Ok(word)) = timeout(Duration::from_secs(5), store.renew(&me, hold)).await {
            break word;
        }
    };
    assert_eq!(word, Some(hold), "nobody else has claimed it");
    assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
}

/// The server gives a shard away when its session has timed out, so that is the session's time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_s_timeout_is_that_of_its_session() {
    let mut rig = Coordination::new().await;
    let store = rig.store_with(Duration::from_millis(7_500));
    store.claim(&who("a", "h0")).await.unwrap().unwrap();

    let list = ["coord", "session", "list", "--node", "/local/goals", "--json"];
    let told = rig.server().command(&list).output().unwrap();

    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("\"timeout_ms\":7500"), "{told}");
}

/// How a holder's semaphore or session goes while nobody else takes its shard.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Deleted,
    Stopped,
    Left,
}

/// kit: whoever asks for a proof may give up at any of its steps, and what was done until then is not taken for
/// somebody else's by the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_is_given_up_at_any_step_is_no_loss() {
    let rig = Coordination::new().await;
    let (store, me) = (rig.store().await, who("a", "h0"));
    let mut hold = store.claim(&me).await.unwrap().unwrap();
    let all = [Ending::Deleted, Ending::Stopped, Ending::Left];

    // The session may be over once more before the next proof.
    for (ending, is_over_again) in all.into_iter().flat_map(|ending| [(ending, false), (ending, true)]) {
        for steps in 1.. {
            match ending {
                Ending::Deleted => rig.session().await.delete("a/shard-0", Delete::Force).await.unwrap(),
                Ending::Stopped => rig.takes_session(&me, "a/shard-0").await.stop().await.unwrap(),
                Ending::Left => drop(rig.takes_session(&me, "a/shard-0").await.leave().await),
            }
            let begun = within(steps, store.renew(&me, hold)).await;
            let is_done = begun.is_some();
            let word = match begun {
                Some(word) => word,
                None => {
                    if is_over_again && rig.is_held("a/shard-0").await {
                        rig.takes_session(&me, "a/shard-0").await.leave().await;
                    }
                    store.renew(&me, hold).await
                }
            };
            let lost = || panic!("lost after {ending:?} and {steps} steps, over again: {is_over_again}");
            hold = word.unwrap().unwrap_or_else(lost);
            if is_done {
                break;
            }
        }
    }
}

/// kit A-47: whoever has acquired a shard has it, also before its generation is written down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_somebody_has_just_acquired_is_lost() {
    let rig = Coordination::new().await;
    let (store, me) = (rig.store().await, who("a", "h0"));
    let hold = store.claim(&me).await.unwrap().unwrap();

    rig.takes_session(&me, "a/shard-0").await.stop().await.unwrap();
    let next = rig.session().await;
    assert!(next.acquire("a/shard-0", Acquire::tokens(1).data("h1")).await.unwrap());

    assert_eq!(store.renew(&me, hold).await.unwrap(), None);
}

/// kit A-47: the same if nobody has written a generation down, as after a restore: whose session holds it says whose it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_somebody_else_holds_under_the_same_generation_is_lost() {
    let rig = Coordination::new().await;
    let (store, me) = (rig.store().await, who("a", "h0"));
    let hold = store.claim(&me).await.unwrap().unwrap();

    let next = rig.session().await;
    next.delete("a/shard-0", Delete::Force).await.unwrap();
    next.create("a/shard-0", 1, format!("{} h0", hold.generation)).await.unwrap();
    assert!(next.acquire("a/shard-0", Acquire::tokens(1).data("h1")).await.unwrap());

    assert_eq!(store.renew(&me, hold).await.unwrap(), None);
}

/// kit: somebody else acquires a shard that is free, at any step of its holder's proof. One of the two has it then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_shard_is_taken_by_its_holder_or_by_somebody_else_and_not_by_both() {
    let rig = Coordination::new().await;
    let (store, me, next) = (rig.store().await, who("a", "h0"), rig.session().await);
    let mut hold = store.claim(&me).await.unwrap().unwrap();
    let at_once = || Acquire::tokens(1).within(Duration::ZERO).data("h1");

    for steps in 1.. {
        rig.takes_session(&me, "a/shard-0").await.stop().await.unwrap();
        let mut proof = pin!(store.renew(&me, hold));
        let early = within(steps, proof.as_mut()).await;
        // So that what has been asked is answered, and only not heard yet.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let is_taken = next.acquire("a/shard-0", at_once()).await.unwrap();
        let is_done = early.is_some();
        let word = match early {
            Some(word) => word,
            None => proof.await,
        };
        let word = word.unwrap();
        assert!(word.is_none() == is_taken, "{word:?} although {is_taken} after {steps} steps");
        if is_done {
            break;
        }
        if is_taken {
            next.release("a/shard-0").await.unwrap();
            hold = store.claim(&me).await.unwrap().unwrap();
        }
    }
}

/// kit: a shard that another one has had meanwhile has a generation of its own for each of the three claims.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_free_again_after_another_claim_is_claimed_anew() {
    let rig = Coordination::new().await;
    let (store, other, me) = (rig.store().await, rig.store().await, who("a", "h0"));
    let first = store.claim(&me).await.unwrap().unwrap();
    rig.takes_session(&me, "a/shard-0").await.stop().await.unwrap();
    let second = other.claim(&who("a", "h1")).await.unwrap().unwrap();
    other.release(&who("a", "h1"), second).await.unwrap();

    let third = store.renew(&me, first).await.unwrap().unwrap();

    assert!(first.generation < second.generation && second.generation < third.generation, "{second:?} {third:?}");
}

/// kit A-49: and keeps its generation if nobody has, for clients to know it by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_nobody_has_claimed_meanwhile_keeps_its_generation() {
    let rig = Coordination::new().await;
    let (store, me) = (rig.store().await, who("a", "h0"));
    let hold = store.claim(&me).await.unwrap().unwrap();

    rig.takes_session(&me, "a/shard-0").await.stop().await.unwrap();

    assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
}

/// kit A-45: whoever is not written with this library comes back by the same key (docs/kit.md).
#[tokio::test]
async fn a_session_s_key_is_the_end_of_the_host_s_name() {
    let rig = Coordination::new().await;
    let (store, me) = (rig.store().await, who("a", "goals-17.vla.example.net:4100"));
    store.claim(&me).await.unwrap().unwrap();
    let owners = Include { owners: true, waiters: false };
    let found = rig.session().await.describe("a/shard-0", owners).await.unwrap();
    let resume = Some(found.owners[0].session_id);
    let back = async |key: &str| {
        let protection_key = Some(key.as_bytes().to_vec());
        let options = SessionOptions { resume, protection_key, ..SessionOptions::default() };
        rig.client().start_session("/local/goals", options).await
    };

    assert!(back("goals-17.vla.exa").await.is_err() && back("").await.is_err());
    assert!(back("example.net:4100").await.is_ok());
}

/// Whatever somebody has written into a semaphore, it is claimed like any other.
#[tokio::test]
async fn a_semaphore_with_other_data_than_a_generation_is_claimed() {
    let rig = Coordination::new().await;
    let session = rig.session().await;
    let notes = ["", "7", "x y z", "-1 h0", "18446744073709551615 h7", "99999999999999999999999 h7", "\u{0}\u{ff}"];
    for data in notes {
        session.create("a/shard-0", 1, data).await.unwrap();
        let (store, me) = (rig.store().await, who("a", "h0"));

        let hold = store.claim(&me).await.unwrap().unwrap();

        assert!(hold.shard == 0 && hold.generation > 0, "{data:?} {hold:?}");
        assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold), "{data:?}");
        session.delete("a/shard-0", Delete::Force).await.unwrap();
    }
}

/// kit A-48: a process that has lost its shard to the next one of its name does not end that one's session with its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_has_lost_its_shard_leaves_the_next_one_alone() {
    let rig = Coordination::new().await;
    let (before, after, me) = (rig.store().await, rig.store().await, who("a", "h0"));
    let old = before.claim(&me).await.unwrap().unwrap();
    let new = after.claim(&me).await.unwrap().unwrap();

    assert_eq!(before.renew(&me, old).await.unwrap(), None);
    drop(before);

    let look = rig.session().await;
    for _ in 0..100 {
        let found = look.describe("a/shard-0", Include { owners: true, waiters: false }).await.unwrap();
        assert_eq!(found.owners.len(), 1, "the session of the next one is over");
    }
    assert_eq!(after.renew(&me, new).await.unwrap(), Some(new));
}

/// kit A-49: the session ends, by the holder's own clock, while a proof is on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_is_on_its_way_when_the_session_ends_is_no_loss() {
    let mut rig = Coordination::new().await;
    let me = who("a", "h0");
    let store = rig.store_with(Duration::from_secs(1));
    let hold = store.claim(&me).await.unwrap().unwrap();

    rig.server().process().pause().unwrap();
    // What was asked just before it stood still has its answer. The next one waits for longer than the session lives.
    let ask = async || timeout(Duration::from_secs(5), store.renew(&me, hold)).await;
    while let Ok(Ok(word)) = ask().await {
        assert_eq!(word, Some(hold), "nobody has said that it is somebody else's");
    }
    rig.server().process().resume().unwrap();

    assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
}

/// kit A-44: whoever waits for a shard makes the rows that are missing.
async fn a_row_that_is_missing_is_made_by_whoever_waits_for_one<R: Hands>() {
    let rig = R::new().await;
    let stores = [rig.store().await, rig.store().await, rig.store().await];
    for (store, host) in stores.iter().zip(["h0", "h1"]) {
        store.claim(&who("a", host)).await.unwrap().unwrap();
    }
    rig.sql("DELETE FROM locks WHERE dc = 'a' AND shard = 2").await.unwrap();
    // One that is no shard's does not stand for one that is missing.
    rig.sql("INSERT INTO locks (dc, shard) VALUES ('a', 9), ('a', -1)").await.unwrap();

    let taken = stores[2].claim(&who("a", "h2")).await.unwrap();

    assert_eq!(taken.map(|hold| hold.shard), Some(2));
}

/// kit A-55: rows that were deleted, and an older table that was put back, abort nobody who still holds a shard.
async fn a_claim_that_the_table_has_lost_is_made_anew<R: Hands>() {
    let rig = R::new().await;
    let (store, standby, me) = (rig.store().await, rig.store().await, who("a", "h0"));
    let first = store.claim(&me).await.unwrap().unwrap();

    rig.sql("DELETE FROM locks").await.unwrap();
    let second = store.renew(&me, first).await.unwrap().unwrap();
    let yesterday = R::hour_before("last_ping");
    rig.sql(&format!("UPDATE locks SET host = 'h7', generation = 1, last_ping = {yesterday}")).await.unwrap();
    let third = store.renew(&me, second).await.unwrap().unwrap();

    let locked = rig.sql("SELECT count(*) FROM locks WHERE host = 'h0' AND locked_time IS NOT NULL").await.unwrap();
    assert_eq!(locked.trim(), "1", "whoever looks into the table sees since when");
    assert_eq!((second.shard, third.shard), (first.shard, first.shard));
    assert!(
        first.generation < second.generation && second.generation < third.generation,
        "{first:?} {second:?} {third:?}"
    );
    assert_eq!(store.renew(&me, third).await.unwrap(), Some(third));
    assert_eq!(store.renew(&me, first).await.unwrap(), None, "only the last one counts");
    rig.sql(&format!("UPDATE locks SET host = 'h8', generation = 1000, last_ping = {yesterday}")).await.unwrap();
    let fourth = store.renew(&me, third).await.unwrap().unwrap();
    assert!(fourth.generation > 1_000, "no generation is seen twice, whoever had it: {fourth:?}");
    let other = standby.claim(&who("a", "h1")).await.unwrap();
    assert_ne!(other.map(|hold| hold.shard), Some(first.shard));
}

/// kit: what somebody else has taken from a table that was put back is lost.
async fn a_claim_that_somebody_else_has_after_a_restore_is_lost<R: Hands>() {
    let rig = R::new().await;
    let (store, other, me) = (rig.store().await, rig.store().await, who("a", "h0"));
    let hold = store.claim(&me).await.unwrap().unwrap();

    rig.sql("DELETE FROM locks").await.unwrap();
    let taken = other.claim(&who("a", "h1")).await.unwrap().unwrap();

    assert_eq!((taken.shard, store.renew(&me, hold).await.unwrap()), (hold.shard, None));
}

/// kit A-55: the same with semaphores.
#[tokio::test]
async fn a_claim_whose_semaphore_was_deleted_is_made_anew() {
    let rig = Coordination::new().await;
    let (store, me) = (rig.store().await, who("a", "h0"));
    let first = store.claim(&me).await.unwrap().unwrap();

    rig.session().await.delete("a/shard-0", Delete::Force).await.unwrap();
    let second = store.renew(&me, first).await.unwrap().unwrap();

    assert!(second.shard == first.shard && second.generation > first.generation, "{first:?} {second:?}");
    assert_eq!(store.renew(&me, second).await.unwrap(), Some(second));
    assert_eq!(store.renew(&me, first).await.unwrap(), None, "only the last one counts");
}

/// A name that the table has no room for would be cut, and its server would never find its row.
async fn a_name_that_the_table_has_no_room_for_is_refused<R: Hands>() {
    let rig = R::new().await;
    let store = rig.store().await;
    let (dc, host) = ("d".repeat(65), "h".repeat(256));

    let claims = [store.claim(&who(&dc, "h0")).await, store.claim(&who("a", &host)).await];
    let mut errors = claims.map(|claim| claim.map(drop)).into_iter().chain([R::prepares(&store, &dc).await]);

    assert!(errors.all(|error| error.as_ref().is_err_and(|error| error.to_string().contains("longer than"))));
    // Columns count characters, and so does this.
    let (dc, host) = ("é".repeat(64), "é".repeat(255));
    R::prepares(&store, &dc).await.unwrap();
    let hold = store.claim(&who(&dc, &host)).await.unwrap().unwrap();
    assert_eq!(store.renew(&who(&dc, &host), hold).await.unwrap(), Some(hold));
}

on_each! {
    postgres: Postgres, mariadb: Mariadb, sqlite: Sqlite => [
        a_row_that_is_missing_is_made_by_whoever_waits_for_one,
        a_claim_that_the_table_has_lost_is_made_anew,
        a_claim_that_somebody_else_has_after_a_restore_is_lost,
        a_name_that_the_table_has_no_room_for_is_refused,
    ]
}

/// A hundred servers are a hundred connections, and a stock MariaDB has 151.
#[tokio::test]
async fn a_server_has_one_connection_to_mariadb() {
    let rig = Mariadb::new().await;
    let (store, me) = (rig.store().await, who("a", "h0"));

    let hold = store.claim(&me).await.unwrap().unwrap();
    for _ in 0..10 {
        assert_eq!(store.renew(&me, hold).await.unwrap(), Some(hold));
        store.holders().await.unwrap();
    }

    let count = "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    assert_eq!(rig.sql(count).await.unwrap().trim(), "1");
}

#[tokio::test]
async fn a_client_in_the_wrong_directory_makes_no_database() {
    let dir = Dir::new().unwrap();
    let path = dir.join("locks.sqlite");
    let store = SqliteTable::new(&path, Table::new("locks", 1));

    let listed = store.holders().await;
    let claimed = store.claim(&who("a", "h0")).await;

    assert!(listed.is_err() && claimed.is_err());
    assert!(!path.exists());
}

/// A file that was locked for a while is not written to afterwards for everybody who has given up meanwhile.
#[tokio::test]
async fn what_was_given_up_while_the_file_was_locked_is_left_undone() {
    let rig = Sqlite::new().await;
    let (store, me) = (rig.store().await, who("a", "h0"));
    let writer = rig.begin_to_write();

    for _ in 0..10 {
        assert!(timeout(Duration::from_millis(20), store.claim(&me)).await.is_err());
    }
    drop(writer);
    let hold = store.claim(&me).await.unwrap().unwrap();

    assert!(hold.generation <= 2, "the first one was waiting in SQLite itself: {hold:?}");
}

#[tokio::test]
async fn whoever_lists_holders_does_not_wait_for_a_writer() {
    let rig = Sqlite::new().await;
    let store = rig.store().await;
    store.claim(&who("a", "h0")).await.unwrap().unwrap();
    let reader = rig.store().await;

    let _writer = rig.begin_to_write();
    let holders = reader.holders().await.unwrap();

    assert_eq!(holders.len(), 1);
}
