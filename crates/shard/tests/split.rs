//! What goes to the right half when a shard is split, as far as SQL is concerned: the right to write, what is dirty, what was refused, and
//! those who wait. One replica of each half, and an SQL that says what a test wants.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;

use shardine_model::log::{Membership, SnapshotMeta};
use shardine_model::sql::FlushResult;
use shardine_model::{
    Answer, Bound, ConfVersion, Entry, Epoch, ErrorCode, Generation, NodeId, RangeVersion, ReplicaId, Request,
    RequestEpoch, ShardId, Split, SplitMember, Timestamp, Version,
};
use shardine_records::Records;
use shardine_shard::{
    Actions, Caller, LEASE_LENGTH_MS, LoadedRow, Options, Replica, Restored, SplitProgress, SqlLoad, SqlWrite, Time,
};
use shardine_story::words;

const TICK_MS: u64 = 100;
const PARENT: ShardId = ShardId(1);
const CHILD: ShardId = ShardId(2);

/// A shard of one replica, and what is parted off it.
struct Halves {
    replicas: BTreeMap<ShardId, Replica>,
    time: Time,
    next_caller: u64,
    /// By whom, too.
    answers: Vec<(ShardId, Caller, Answer)>,
    /// Requests that were given back, to be sent where they belong.
    returned: Vec<Caller>,
    loads: Vec<(ShardId, SqlLoad)>,
    writes: Vec<(ShardId, SqlWrite)>,
}

impl Halves {
    fn with_table(definition: &str) -> Self {
        let snapshot = SnapshotMeta { membership: Membership::of([ReplicaId(1)]), ..SnapshotMeta::default() };
        let options = Options::new(ReplicaId(1), PARENT);
        let parent = Replica::new(options, Records::new(1), Restored { snapshot, ..Restored::default() });
        let mut halves = Self {
            replicas: BTreeMap::from([(PARENT, parent)]),
            time: Time { monotonic_ms: 1_000, wall: Timestamp(1_000) },
            next_caller: 0,
            answers: Vec::new(),
            returned: Vec::new(),
            loads: Vec::new(),
            writes: Vec::new(),
        };
        halves.on(PARENT, Replica::campaign);
        halves.settle();
        let catalogue = halves.replicas[&PARENT].records().catalogue().clone();
        let table = words::table(&catalogue, &definition.split_whitespace().collect::<Vec<_>>());
        let caller = halves.caller();
        halves.on(PARENT, |replica, actions| replica.propose_for(caller, &Entry::definition(table), actions));
        halves.settle();
        halves
    }

    fn caller(&mut self) -> Caller {
        self.next_caller += 1;
        Caller { source: 1, sequence: self.next_caller }
    }

    fn on(&mut self, shard: ShardId, act: impl FnOnce(&mut Replica, &mut Actions)) {
        let mut actions = Actions::default();
        let replica = self.replicas.get_mut(&shard).expect("it is there");
        replica.set_time(self.time);
        act(replica, &mut actions);
        let mut open = vec![actions];
        while let Some(actions) = open.pop() {
            for persist in actions.persists {
                let mut next = Actions::default();
                self.replicas.get_mut(&shard).unwrap().persisted(persist.number, &mut next);
                open.push(next);
            }
            self.answers.extend(actions.answers.into_iter().map(|(caller, answer)| (shard, caller, answer)));
            self.returned.extend(actions.returned.into_iter().map(|returned| returned.caller));
            self.loads.extend(actions.loads.into_iter().map(|load| (shard, load)));
            self.writes.extend(actions.writes.into_iter().map(|write| (shard, write)));
            for newborn in actions.newborn {
                assert_eq!(newborn.shard(), CHILD);
                self.replicas.insert(CHILD, newborn.bear(None));
            }
        }
    }

    /// Until nothing moves. SQL has no row that it is asked for.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for shard in self.replicas.keys().copied().collect::<Vec<_>>() {
                if self.replicas[&shard].wants_proposal() {
                    moved = true;
                    self.on(shard, Replica::propose_gathered);
                }
                if self.replicas[&shard].wants_sql() {
                    moved = true;
                    self.on(shard, Replica::ask_sql);
                }
            }
            for (shard, load) in std::mem::take(&mut self.loads) {
                moved = true;
                let absent = |row| LoadedRow { row, version: Version::NEVER, fields: Default::default() };
                let rows: Vec<LoadedRow> = load.rows.into_iter().map(absent).collect();
                self.on(shard, |replica, actions| replica.loaded(load.question, rows, actions));
            }
            if !moved {
                return;
            }
        }
    }

    fn tick(&mut self) {
        self.time.monotonic_ms += TICK_MS;
        self.time.wall = self.time.wall.plus_ms(TICK_MS);
        for shard in self.replicas.keys().copied().collect::<Vec<_>>() {
            let time = self.time;
            self.on(shard, |replica, actions| replica.tick(time, actions));
        }
        self.settle();
    }

    fn submit(&mut self, shard: ShardId, line: &str) -> Caller {
        let caller = self.caller();
        let catalogue = self.replicas[&shard].records().catalogue().clone();
        let request: Request<'static> = words::request(&catalogue, line).expect("a request");
        self.on(shard, |replica, actions| {
            let epoch = RequestEpoch { catalogue: RequestEpoch::FIRST.catalogue, ..replica.records().epoch() };
            replica.submit(caller, &request, epoch, actions);
        });
        self.settle();
        caller
    }

    /// Parts the shard so that a row is the first of the right half, which is led here at once.
    fn split_before(&mut self, row: &str) {
        let at = Bound::at(words::address(self.replicas[&PARENT].records().catalogue(), row).position());
        let epoch = Epoch { generation: Generation(1), range: RangeVersion(1), conf: ConfVersion(1) };
        let members = vec![SplitMember { node: NodeId(1), parent: ReplicaId(1), child: ReplicaId(1) }];
        let split = Split { child: CHILD, at, epoch, members };
        self.on(PARENT, |replica, actions| {
            replica.advance_split(&split, actions);
        });
        let mut progress = SplitProgress::UnderWay;
        self.on(PARENT, |replica, actions| progress = replica.advance_split(&split, actions));
        assert_eq!(progress, SplitProgress::Done);
        self.on(CHILD, Replica::campaign);
        self.settle();
        assert!(self.replicas[&CHILD].is_serving());
    }

    fn answer(&self, caller: Caller) -> Option<(ShardId, &Answer)> {
        let mut answers = self.answers.iter().filter(|(_, known, _)| *known == caller);
        let first = answers.next().map(|(shard, _, answer)| (*shard, answer));
        assert!(answers.next().is_none(), "nobody is answered twice");
        first
    }

    /// Rows that SQL was sent since this was last asked, with who sent them. It says the same to all.
    fn sql_says(&mut self, result: &FlushResult) -> Vec<(ShardId, String)> {
        let mut sent = Vec::new();
        for (shard, write) in std::mem::take(&mut self.writes) {
            let results: Vec<_> = write.rows.iter().map(|row| (row.row.clone(), result.clone())).collect();
            sent.extend(results.iter().map(|(row, _)| (shard, String::from_utf8(row.key.to_vec()).unwrap())));
            self.on(shard, |replica, actions| replica.flushed(write.term, &results, actions));
        }
        self.settle();
        sent
    }
}

/// Names of rows in the order of their positions.
fn rows(names: &[&'static str]) -> Vec<&'static str> {
    let mut rows = names.to_vec();
    rows.sort_by_key(|name| shardine_model::Position::of_key(name.as_bytes()));
    rows
}

/// sharding R-9: the child's leader writes within two ticks what was dirty, under the lease that its node had for the whole. One who
/// had to wait for the lease to run out would be silent for as long as that.
#[test]
fn sharding_r_9_the_lease_passes_to_the_right_half_with_its_trust() {
    let rows = rows(&["ada", "ben", "cid", "dan"]);
    let mut halves = Halves::with_table("users age:int64 sql delay=200");
    halves.submit(PARENT, &format!("set users:{} age=1", rows[0]));
    (0..5).for_each(|_| halves.tick());
    assert_eq!(halves.sql_says(&FlushResult::Written).len(), 1, "the parent holds the lease");
    for row in &rows {
        halves.submit(PARENT, &format!("set users:{row} age=2"));
    }

    halves.split_before(&format!("users:{}", rows[2]));
    let begun = halves.time.monotonic_ms;
    (0..4).for_each(|_| halves.tick());

    let sent = halves.sql_says(&FlushResult::Written);
    let by = |shard| sent.iter().filter(|(of, _)| *of == shard).map(|(_, row)| row.as_str()).collect::<Vec<_>>();
    assert_eq!((by(PARENT).len(), by(CHILD).len()), (2, 2), "{sent:?}");
    assert!(by(CHILD).contains(&rows[3]) && by(PARENT).contains(&rows[0]), "{sent:?}");
    assert!(halves.time.monotonic_ms - begun < LEASE_LENGTH_MS, "nobody has waited for a lease to end");
}

/// Rows that SQL lacks are known to the half that they belong to, and to no other.
#[test]
fn dirty_rows_go_to_the_right_half() {
    let rows = rows(&["ada", "ben", "cid", "dan", "eve"]);
    let mut halves = Halves::with_table("users age:int64 sql delay=60000");
    for row in &rows {
        halves.submit(PARENT, &format!("set users:{row} age=1"));
    }

    halves.split_before(&format!("users:{}", rows[3]));

    let dirty = |shard: ShardId| halves.replicas[&shard].status().dirty;
    assert_eq!((dirty(PARENT), dirty(CHILD)), (3, 2));
    let caller = halves.caller();
    halves.on(CHILD, |replica, actions| replica.flush_rows(caller, None, None, actions));
    (0..4).for_each(|_| halves.tick());
    let sent = halves.sql_says(&FlushResult::Written);
    assert_eq!(sent.iter().filter(|(shard, _)| *shard == CHILD).count(), 2, "{sent:?}");
    assert_eq!(halves.answer(caller), Some((CHILD, &Answer::Many(Vec::new()))));
    assert_eq!(halves.replicas[&CHILD].status().dirty, 0);
}

/// What the parent had sent before it was split is answered to it, and is not its row any more: the child writes it again.
#[test]
fn a_row_that_was_on_its_way_to_sql_is_written_by_the_right_half() {
    let rows = rows(&["ada", "ben"]);
    let mut halves = Halves::with_table("users age:int64 sql");
    halves.submit(PARENT, &format!("set users:{} age=1", rows[1]));
    (0..2).for_each(|_| halves.tick());
    assert_eq!(halves.writes.len(), 1, "it is on its way");

    halves.split_before(&format!("users:{}", rows[1]));
    let sent = halves.sql_says(&FlushResult::Written);
    assert_eq!(sent, [(PARENT, rows[1].to_owned())]);
    assert_eq!(halves.replicas[&CHILD].status().dirty, 1, "nobody has told the child");
    (0..3).for_each(|_| halves.tick());

    assert_eq!(halves.sql_says(&FlushResult::Written), [(CHILD, rows[1].to_owned())]);
    assert_eq!(halves.replicas[&CHILD].status().dirty, 0);
}

/// Dead letters lie where their rows are, can be tried again there, and nowhere else.
#[test]
fn dead_letters_go_to_the_right_half() {
    let rows = rows(&["ada", "ben"]);
    let mut halves = Halves::with_table("users age:int64 sql");
    for row in &rows {
        halves.submit(PARENT, &format!("set users:{row} age=1"));
    }
    (0..2).for_each(|_| halves.tick());
    while !halves.sql_says(&FlushResult::Refused("no".to_owned())).is_empty() {
        halves.tick();
    }
    assert_eq!(halves.replicas[&PARENT].records().dead_letter_count(), 2);

    halves.split_before(&format!("users:{}", rows[1]));

    let letters = |shard: ShardId| -> Vec<String> {
        let letters = halves.replicas[&shard].records().dead_letters();
        letters.map(|(row, _)| String::from_utf8(row.key.to_vec()).unwrap()).collect()
    };
    assert_eq!((letters(PARENT), letters(CHILD)), (vec![rows[0].to_owned()], vec![rows[1].to_owned()]));
    let caller = halves.caller();
    halves.on(CHILD, |replica, actions| replica.retry_dead_letters(caller, None, None, actions));
    (0..3).for_each(|_| halves.tick());
    let sent = halves.sql_says(&FlushResult::Written);
    assert_eq!(sent, [(CHILD, rows[1].to_owned())], "the parent's is left alone");
    assert_eq!(halves.replicas[&CHILD].records().dead_letter_count(), 0);
}

/// A change of a table that is written through was made before the split, and SQL has it after: the child tells it, once.
#[test]
fn held_answers_go_to_the_right_half() {
    let rows = rows(&["ada", "ben"]);
    let mut halves = Halves::with_table("users age:int64 sql mode=through");
    let changes = [0, 1].map(|place| halves.submit(PARENT, &format!("set users:{} age=1", rows[place])));
    assert!(changes.iter().all(|change| halves.answer(*change).is_none()), "SQL has nothing yet");

    halves.split_before(&format!("users:{}", rows[1]));
    assert!(changes.iter().all(|change| halves.answer(*change).is_none()), "a split is no answer");
    for _ in 0..4 {
        halves.tick();
        halves.sql_says(&FlushResult::Written);
    }

    for (change, by) in changes.into_iter().zip([PARENT, CHILD]) {
        match halves.answer(change) {
            Some((shard, Answer::One(reply))) => assert_eq!((shard, reply.sql_version), (by, Version(1))),
            other => panic!("{by:?}: {other:?}"),
        }
    }
}

/// Who waits for a flush of everything is sent away, to ask both halves; who asked for what is the other half's is sent there.
#[test]
fn flushes_and_requests_that_waited_are_sent_away_by_a_split() {
    let rows = rows(&["ada", "ben"]);
    let mut halves = Halves::with_table("users age:int64 sql delay=60000");
    for row in &rows {
        halves.submit(PARENT, &format!("set users:{row} age=1"));
    }
    let flush = halves.caller();
    halves.on(PARENT, |replica, actions| replica.flush_rows(flush, None, None, actions));

    halves.split_before(&format!("users:{}", rows[1]));

    assert_eq!(halves.answer(flush), Some((PARENT, &Answer::Failed(ErrorCode::StaleRoute))));
    let stray = halves.submit(PARENT, &format!("set users:{} age=2", rows[1]));
    assert_eq!((halves.answer(stray), halves.returned.last()), (None, Some(&stray)));
}

/// sharding B-25: a shard that grows faster than it is split takes nothing in that may make it larger; deletes and reads go on.
#[test]
fn sharding_b_25_what_grows_is_told_to_come_again_while_a_shard_is_pushed_back() {
    let mut halves = Halves::with_table("users age:int64 sql");
    halves.submit(PARENT, "set users:ada age=1");
    halves.on(PARENT, |replica, _| replica.push_back(true));

    let (grows, shrinks) = (halves.submit(PARENT, "set users:ben age=1"), halves.submit(PARENT, "delete users:ada"));

    assert_eq!(halves.answer(grows), Some((PARENT, &Answer::Failed(ErrorCode::Busy))));
    assert!(matches!(halves.answer(shrinks), Some((_, Answer::One(_)))));
    halves.on(PARENT, |replica, _| replica.push_back(false));
    let again = halves.submit(PARENT, "set users:ben age=1");
    assert!(matches!(halves.answer(again), Some((_, Answer::One(_)))));
}
