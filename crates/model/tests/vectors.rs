//! The test vectors that are published in `docs/encoding.md` are those of the code: the page itself is read here.

use shardine_model::key::{Interval, partition_key};
use shardine_model::{Position, RequestEpoch, Slot, Value, sort};

const PAGE: &str = include_str!("../../../docs/encoding.md");

/// The cells of the table under a heading line, each with its backticks taken away.
fn table(header: &str) -> Vec<Vec<String>> {
    let lines = PAGE.lines().skip_while(|line| *line != header);
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split(" |").map(|cell| cell.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!rows.is_empty(), "no table {header:?} in docs/encoding.md");
    rows
}

fn plain(cell: &str) -> &str {
    cell.trim_matches('`')
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// records 122
#[test]
fn published_positions_are_those_of_the_code() {
    for row in table("| key | counts | slot | position |") {
        let key = plain(&row[0]).as_bytes();

        assert_eq!(String::from_utf8_lossy(partition_key(key)), plain(&row[1]), "{row:?}");
        assert_eq!(Slot::of_key(key).0.to_string(), row[2], "{row:?}");
        assert_eq!(hex(&Position::of_key(key).to_bytes()), plain(&row[3]), "{row:?}");
    }
}

#[test]
fn published_intervals_are_those_of_the_code() {
    for row in table("| shards | starts |") {
        let starts: Vec<&str> = row[1].split_whitespace().map(plain).collect();

        let cut = Interval::cut_evenly(row[0].parse().unwrap());

        assert_eq!(cut.iter().map(|interval| hex(&interval.lo.to_bytes())).collect::<Vec<_>>(), starts);
    }
}

#[test]
fn published_sort_keys_are_those_of_the_code() {
    for row in table("| values | bytes |") {
        let parts: Vec<Value> = plain(&row[0]).split(", ").map(part).collect();

        assert_eq!(hex(&sort::encode(&parts)), plain(&row[1]), "{row:?}");
    }
}

fn part(text: &str) -> Value {
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) => Value::Str(text.replace("\\0", "\0")),
        None => Value::Int(text.parse().expect("a number or a quoted string")),
    }
}

/// The kinds on the page are those that the code writes.
#[test]
fn published_kinds_are_those_of_the_code() {
    use shardine_model::{Entry, ReplicaId, Table, TableId, Timestamp};
    let row = shardine_model::RowKey { table: TableId(1), key: b"", sort: b"" };
    let none = shardine_model::Version::NEVER;
    let settled =
        shardine_model::entry::SettledRow { row, expected: none, version: none, sql_version: none, fields: &[] };
    let entries = [
        ("commands", Entry::Commands { proposed_at: Timestamp(0), epoch: RequestEpoch::FIRST, requests: &[] }),
        ("load", Entry::Load(Vec::new())),
        ("kick", Entry::Kick(Vec::new())),
        ("lease", Entry::Lease { holder: ReplicaId(1), term: 1, length_ms: 1 }),
        ("written", Entry::Written(Vec::new())),
        ("schema", Entry::definition(Table::kv())),
        ("purge", Entry::Purge(Vec::new())),
        ("expire", Entry::Expire { at: Timestamp(0), rows: Vec::new() }),
        ("clear", Entry::Clear { table: TableId(1) }),
        ("suspend", Entry::Suspend),
        ("resume", Entry::Resume),
        ("refused", Entry::Refused { at: Timestamp(0), rows: Vec::new() }),
        ("settle", Entry::Settle(settled)),
        ("raise", Entry::Raise(Vec::new())),
        ("floor", Entry::Floor { table: TableId(1), floor: 1 }),
    ];
    let written: Vec<(String, String)> =
        entries.iter().map(|(name, entry)| (entry.to_bytes()[1].to_string(), (*name).to_owned())).collect();

    let listed = table("| kind | name | what follows |");

    assert_eq!(listed.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect::<Vec<_>>(), written);
}
