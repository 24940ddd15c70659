//! Tombstones of tables without SQL are marked for purging, and the marks go when the tombstones do.

use shardine_model::{Action, Command, Entry, Request, RequestEpoch, RowKey, Timestamp, Version, table};
use shardine_records::{CutStep, Nobody, Records};

const END: Timestamp = Timestamp(u64::MAX);

/// records 4: a replica made from a snapshot knows its tombstones in another order than the leader that purges them,
/// and is left with none all the same.
#[test]
fn records_4_a_replica_from_a_snapshot_keeps_no_marks_of_purged_tombstones() {
    let mut leader = Records::new(1);
    for number in 0..50 {
        let key = format!("k{number}");
        change(&mut leader, &key, Action::Set(set()));
        change(&mut leader, &key, Action::Delete);
    }
    let mut follower = restored(&mut leader);
    assert_ne!(due(&leader), due(&follower), "the order of a snapshot is not the order of deletion");
    // One of them lives again: its mark goes, and it stays.
    for records in [&mut leader, &mut follower] {
        change(records, "k7", Action::Set(set()));
    }

    while let Some((key, version)) = due(&leader).first().cloned() {
        let row = RowKey { table: table::KV, key: &key, sort: b"" };
        let purge = Entry::Purge(vec![(row, version)]).to_bytes();
        leader.apply(&purge, &mut Nobody).expect("a purge");
        follower.apply(&purge, &mut Nobody).expect("a purge");
    }

    assert_eq!(due(&follower), []);
    assert_eq!(leader.state_hash(), follower.state_hash());
    assert_eq!(follower.live_count(None), 1);
}

fn set<'a>() -> shardine_model::command::Fields<'a> {
    let field = shardine_model::FieldRef::Name(b"f");
    shardine_model::command::Fields::from_iter([shardine_model::FieldValue {
        field,
        value: shardine_model::ValueRef::Blob(b"1"),
    }])
}

fn change<'a>(records: &mut Records, key: &'a str, action: Action<'a>) {
    let row = RowKey { table: table::KV, key: key.as_bytes(), sort: b"" };
    let mut requests = Vec::new();
    Request::one(Command::plain(row, action)).encode(&mut requests);
    let entry =
        Entry::Commands { proposed_at: Timestamp(1_000), epoch: RequestEpoch::FIRST, requests: &requests }.to_bytes();
    records.apply(&entry, &mut Nobody).expect("a change");
}

fn restored(records: &mut Records) -> Records {
    let mut copy = Records::new(2);
    records.begin_cut();
    while let CutStep::Chunk(chunk) = records.cut_step() {
        copy.restore_chunk(&chunk).expect("a chunk");
    }
    copy
}

fn due(records: &Records) -> Vec<(Vec<u8>, Version)> {
    records.due_purges(END).map(|(row, version)| (row.key.to_vec(), version)).collect()
}
