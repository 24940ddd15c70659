//! Handing the lead over: what belongs to it goes with it, and a hand-over that fails leaves nothing behind.

use shardine_model::sql::FlushResult;
use shardine_model::{Answer, ErrorCode, ReplicaId, Version};
use shardine_records::Lookup;
use shardine_shard::{Caller, MemoryLimits, Options, TransferRefused};

use crate::cluster::Cluster;
use shardine_story::words;

/// Ticks after which a hand-over has failed whose heir is silent.
const FAILED: usize = 25;

fn healthy(_: &mut Options) {}

/// Node 1 leads a table with SQL behind it, and node 3, to whom it will hand over, is silent.
fn with_silent_heir(change: impl Fn(&mut Options)) -> Cluster {
    let mut cluster = Cluster::with(change);
    cluster.define("users age:int64 sql");
    cluster.define("mine age:int64 sql conflict=sql-wins");
    cluster.cut_off(3);
    cluster
}

/// Hands over to the silent heir, and waits until it was asked.
fn ask_silent_heir(cluster: &mut Cluster) {
    cluster.hand_over(1, 3);
    while cluster.node(1).group().transferee().is_none() {
        cluster.tick(1);
    }
    assert_eq!(cluster.node(1).group().transferee(), Some(ReplicaId(3)));
}

/// A dirty row that node 1 has sent to SQL.
fn one_row_under_way(cluster: &mut Cluster, row: &str) {
    cluster.submit(1, &format!("set {row} age=1"));
    cluster.sql_finds_nothing();
    while cluster.writes.is_empty() {
        cluster.tick(1);
    }
}

fn is_done(cluster: &Cluster, caller: Caller) -> bool {
    matches!(cluster.answer(caller), Some(Answer::Many(_) | Answer::One(_)))
}

/// What is told by SQL while the heir is asked is proposed when the hand-over has failed: one story for each kind of entry.
/// Each says whether everything came to its end.
mod story {
    use super::*;

    /// Rows that SQL was asked for.
    pub fn loads(change: impl Fn(&mut Options)) -> bool {
        let mut cluster = with_silent_heir(change);
        let reader = cluster.read(1, "users:lili");
        cluster.settle();
        ask_silent_heir(&mut cluster);
        cluster.sql_answers_with_nothing();
        cluster.settle();

        cluster.tick(FAILED);
        cluster.sql_finds_nothing();
        is_done(&cluster, reader)
    }

    /// Rows that SQL has taken.
    pub fn written(change: impl Fn(&mut Options)) -> bool {
        let mut cluster = with_silent_heir(change);
        one_row_under_way(&mut cluster, "users:lili");
        let flush = cluster.caller();
        cluster.on(1, |replica, actions| replica.flush_rows(flush, None, None, actions));
        cluster.settle();
        ask_silent_heir(&mut cluster);
        cluster.sql_says(&FlushResult::Written);

        // The lease was not given back: SQL took too long. It is this replica's all the same.
        cluster.tick(FAILED);
        cluster.node(1).status().dirty == 0 && is_done(&cluster, flush)
    }

    /// Rows that SQL has refused.
    pub fn refused(change: impl Fn(&mut Options)) -> bool {
        let mut cluster = with_silent_heir(change);
        one_row_under_way(&mut cluster, "users:lili");
        ask_silent_heir(&mut cluster);
        cluster.sql_says(&FlushResult::Refused("no".to_owned()));

        cluster.tick(FAILED);
        cluster.node(1).records().dead_letter_count() == 1
    }

    /// Rows that SQL holds in a newer version, where memory's is to win.
    pub fn raised(change: impl Fn(&mut Options)) -> bool {
        let mut cluster = with_silent_heir(change);
        one_row_under_way(&mut cluster, "users:lili");
        ask_silent_heir(&mut cluster);
        cluster.sql_says(&FlushResult::Newer(Version(7)));

        cluster.tick(FAILED);
        let again = cluster.writes.iter().flat_map(|(_, write)| &write.rows).map(|row| row.version);
        again.eq([Version(8)])
    }

    /// The same where SQL's is to win: it is asked for its row, and tells it while the heir is asked.
    pub fn settled(change: impl Fn(&mut Options)) -> bool {
        let mut cluster = with_silent_heir(change);
        one_row_under_way(&mut cluster, "mine:lili");
        cluster.sql_says(&FlushResult::Newer(Version(7)));
        cluster.settle();
        ask_silent_heir(&mut cluster);
        cluster.sql_answers_with_nothing();

        cluster.tick(FAILED);
        cluster.version_on(1, "mine:lili") < 0
    }

    /// A dead letter that somebody gives up: SQL's row takes its place.
    pub fn discarded(change: impl Fn(&mut Options)) -> bool {
        let mut cluster = with_silent_heir(change);
        one_row_under_way(&mut cluster, "users:lili");
        cluster.sql_says(&FlushResult::Refused("no".to_owned()));
        cluster.settle();
        let discard = cluster.caller();
        let row = words::address(cluster.node(1).records().catalogue(), "users:lili").to_owned();
        cluster.on(1, |replica, actions| replica.discard_dead_letter(discard, row.as_ref(), actions));
        ask_silent_heir(&mut cluster);
        cluster.sql_answers_with_nothing();

        cluster.tick(FAILED);
        is_done(&cluster, discard)
    }

    /// A definition.
    pub fn defined(change: impl Fn(&mut Options)) -> bool {
        let mut cluster = with_silent_heir(change);
        ask_silent_heir(&mut cluster);
        let table = words::table(cluster.node(1).records().catalogue(), &["more", "age:int64"]);
        let define = cluster.propose(1, &shardine_model::Entry::definition(table));

        cluster.tick(FAILED);
        is_done(&cluster, define)
    }
}

/// A transfer that fails leaves nothing behind: every proposal that was refused is tried again.
#[test]
fn what_was_proposed_while_the_heir_was_asked_is_proposed_again() {
    assert!(story::loads(healthy), "rows that SQL told");
    assert!(story::written(healthy), "rows that SQL has taken");
    assert!(story::refused(healthy), "rows that SQL has refused");
    assert!(story::raised(healthy), "rows that go above SQL's");
    assert!(story::settled(healthy), "rows that SQL's take the place of");
    assert!(story::discarded(healthy), "a dead letter that is given up");
    assert!(story::defined(healthy), "a definition");
}

#[cfg(feature = "mutants")]
#[test]
fn forgotten_proposals_are_caught() {
    let forgets = |options: &mut Options| options.mutant = Some(shardine_shard::Mutant::ForgottenProposal);

    assert!(!story::loads(forgets), "rows that SQL told");
    assert!(!story::written(forgets), "rows that SQL has taken");
    assert!(!story::refused(forgets), "rows that SQL has refused");
    assert!(!story::raised(forgets), "rows that go above SQL's");
    assert!(!story::settled(forgets), "rows that SQL's take the place of");
    assert!(!story::discarded(forgets), "a dead letter that is given up");
}

#[test]
fn writes_that_come_while_the_heir_is_asked_wait_for_how_it_ends() {
    let mut cluster = with_silent_heir(healthy);
    ask_silent_heir(&mut cluster);
    let write = cluster.submit(1, "set kv:a f=1");
    let reader = cluster.read(1, "kv:b");
    cluster.settle();
    assert_eq!(cluster.answer(write), None);
    assert!(is_done(&cluster, reader), "reads go on");

    cluster.tick(FAILED);

    assert_eq!(cluster.version(write), 1);
    assert!(!cluster.node(1).is_handing_over());
}

/// Kicks and evictions wait for the lease, which is given up with the hand-over and asked for again when it has failed.
#[test]
fn a_kick_that_comes_while_the_heir_is_asked_is_done_when_that_has_failed() {
    let mut cluster = with_silent_heir(healthy);
    cluster.read(1, "users:lili");
    cluster.sql_finds_nothing();
    ask_silent_heir(&mut cluster);
    let kick = cluster.kick(1, "users:lili");
    cluster.settle();
    assert_eq!(cluster.answer(kick), None);

    cluster.tick(FAILED);

    assert!(is_done(&cluster, kick));
}

#[test]
fn rows_that_were_to_leave_do_so_after_a_hand_over_that_failed() {
    let limits = MemoryLimits { absent_keep_ms: 1_000, ..MemoryLimits::default() };
    let mut cluster = with_silent_heir(|options| options.memory = limits);
    cluster.read(1, "users:lili");
    cluster.sql_finds_nothing();
    ask_silent_heir(&mut cluster);

    cluster.tick(FAILED + 20);

    let row = words::address(cluster.node(1).records().catalogue(), "users:lili");
    assert!(matches!(cluster.node(1).records().get(row.position(), row), Lookup::NotResident));
}

/// write-back 77: the lease goes with the lead: the heir writes at once, where it would wait for ten seconds.
#[test]
fn the_lease_is_given_back_with_the_hand_over() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    one_row_under_way(&mut cluster, "users:lili");
    cluster.sql_says(&FlushResult::Written);
    cluster.settle();
    assert_eq!(cluster.node(1).status().dirty, 0);

    cluster.hand_over(1, 2);
    cluster.settle();
    assert_eq!(cluster.leader(), 2);
    cluster.submit(2, "set users:lili age=2");
    cluster.settle();
    cluster.tick(2);

    assert_eq!(cluster.writes.len(), 1, "it need not wait for the end of a lease");
    assert_eq!(cluster.writes[0].0, 2);
}

/// write-back 77: a lease that was asked for before the lead went, and is applied after that, is nobody's to trust: its asker does not
/// lead, and another one may have it by then. Found by the simulator, where a disk stood still meanwhile.
#[test]
fn a_lease_that_is_granted_after_the_lead_has_gone_is_not_trusted() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    cluster.submit(1, "set users:lili age=1");
    cluster.sql_finds_nothing();
    cluster.settle();
    cluster.stick_disk(1);
    cluster.tick(1);

    cluster.hand_over(1, 2);
    cluster.tick(2);
    assert!(cluster.node(2).is_serving() && !cluster.node(1).is_serving());
    assert!(cluster.node(1).records().lease().is_none(), "its disk has not brought it yet");
    cluster.free_disk(1);
    cluster.tick(1);

    assert!(cluster.node(1).records().lease().is_some());
    assert!(!cluster.node(1).trusts_lease(cluster.now_ms()));
}

/// write-back 78: while a statement may still be under way, the lease is not given back, and nothing new is begun.
#[test]
fn a_hand_over_waits_for_sql_and_begins_nothing_new_there() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    one_row_under_way(&mut cluster, "users:lili");
    let write = cluster.writes.pop().expect("one is under way");

    cluster.hand_over(1, 2);
    cluster.submit(1, "set users:bob age=1");
    cluster.sql_finds_nothing();
    cluster.tick(2);

    assert!(cluster.node(1).is_serving(), "SQL may come back soon");
    assert!(cluster.writes.is_empty(), "nothing new is begun");
    cluster.writes.push(write);
    cluster.sql_says(&FlushResult::Written);
    cluster.settle();
    assert_eq!(cluster.leader(), 2, "SQL has come back");
    cluster.tick(2);
    assert_eq!(cluster.writes.len(), 1, "and the heir writes what is left, at once");
}

/// SQL that does not come back holds nobody up; the heir waits for the end of the lease.
#[test]
fn a_hand_over_does_not_wait_for_sql_for_ever() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    one_row_under_way(&mut cluster, "users:lili");
    cluster.writes.clear();

    cluster.hand_over(1, 2);
    cluster.tick(7);

    assert_eq!(cluster.leader(), 2);
    cluster.tick(50);
    assert!(cluster.writes.is_empty(), "a statement of the old leader may yet begin");
    cluster.tick(60);
    assert_eq!(cluster.writes.len(), 1);
}

/// Whoever is held back for SQL when the lead goes hears what was done, and what was not proposed was not executed.
#[test]
fn everybody_hears_how_it_stands_when_the_lead_has_gone() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql mode=through");
    let held = cluster.submit(1, "set users:lili age=1");
    cluster.sql_finds_nothing();
    cluster.keep_busy(1, true);
    let reader = cluster.read(1, "users:bob");
    cluster.stick_disk(2);
    cluster.on(1, |replica, actions| _ = replica.hand_over(Some(ReplicaId(3)), actions));
    cluster.tick(7);
    cluster.settle();

    assert_eq!(cluster.leader(), 3);
    match cluster.answer(held) {
        Some(Answer::One(reply)) => assert_eq!((reply.version, reply.sql_version), (Version(1), Version::NEVER)),
        other => panic!("a change that was made is no failure: {other:?}"),
    }
    assert_eq!(cluster.answer(reader), Some(&Answer::Failed(ErrorCode::NotLeader)));
}

#[test]
fn the_best_heir_is_asked_if_none_is_named() {
    let mut cluster = Cluster::new();
    cluster.cut_off(2);
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    let mut told = None;

    cluster.on(1, |replica, actions| told = Some(replica.hand_over(None, actions)));
    cluster.settle();

    assert_eq!((told, cluster.leader()), (Some(Ok(ReplicaId(3))), 3));
    let mut refused = None;
    cluster.on(1, |replica, actions| refused = Some(replica.hand_over(None, actions)));
    assert_eq!(refused, Some(Err(TransferRefused::NotLeader)));
}

/// A leader whose disk stalls hands over: its followers have what they need.
#[test]
fn a_leader_whose_disk_stalls_hands_over() {
    let mut cluster = Cluster::new();
    cluster.submit(1, "set kv:a f=1");
    cluster.settle();
    cluster.stick_disk(1);
    let stuck = cluster.submit(1, "set kv:a f=2");
    cluster.on(1, |replica, actions| replica.propose_gathered(actions));

    cluster.hand_over(1, 2);
    cluster.settle();

    assert_eq!(cluster.leader(), 2);
    assert_eq!(cluster.version_on(2, "kv:a"), 2, "it was committed by the others' disks");
    cluster.free_disk(1);
    cluster.tick(5);
    assert_eq!(cluster.version(stuck), 2);
    cluster.assert_agreement();
}
