//! The test vectors that are published in `docs/encoding.md` are those of the code: the page itself is read here.

use shardine_model::codec::Reader;
use shardine_model::key::{Interval, partition_key};
use shardine_model::{Position, RequestEpoch, Slot, Value, ValueRef, sort};

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
    let (child, epoch) = (shardine_model::ShardId(2), shardine_model::Epoch::default());
    let split = shardine_model::Split { child, at: shardine_model::Bound::default(), epoch, members: Vec::new() };
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
        ("split", Entry::Split(Box::new(split))),
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

/// Arrays are not served yet and have their bytes all the same: what reads them one day must read these.
#[test]
fn published_values_are_those_of_the_code() {
    for row in table("| type | name | what follows | value | bytes |") {
        let (tag, bytes) = (row[0].parse::<u8>().unwrap(), unhex(plain(&row[4])));

        let mut reader = Reader::new(&bytes);
        assert_eq!(shown(&mut reader), plain(&row[3]), "{row:?}");
        assert!(reader.is_empty(), "{row:?}");
        assert_eq!(tag, bytes[0]);
        if plain(&row[1]) == "array" {
            let refusal = ValueRef::decode(&mut Reader::new(&bytes)).unwrap_err().to_string();
            assert_eq!(refusal, format!("value type holds {tag}, which has no meaning"));
            continue;
        }
        let value = ValueRef::decode(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(value.kind_name().to_lowercase(), plain(&row[1]));
        assert!(value.field_type().is_none_or(|kind| kind.tag() == tag && kind.holds(value)));
        let mut again = Vec::new();
        value.encode(&mut again);
        assert_eq!(again, bytes);
    }
}

const ON_THE_PAGE: &str = "the page has bytes of this form";

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect(ON_THE_PAGE)).collect()
}

/// A stored value of any type as the page shows it, read by what the page says and nothing else.
fn shown(reader: &mut Reader<'_>) -> String {
    match reader.u8("type").expect(ON_THE_PAGE) {
        1 | 9 | 10 => reader.signed("number").expect(ON_THE_PAGE).to_string(),
        2 | 11 => reader.varint("number").expect(ON_THE_PAGE).to_string(),
        3 => f64::from_bits(reader.fixed_u64("number").expect(ON_THE_PAGE)).to_string(),
        4 | 13 => reader.text("text").expect(ON_THE_PAGE).to_owned(),
        5 => hex(reader.bytes("bytes").expect(ON_THE_PAGE)),
        6 => "NULL".to_owned(),
        7 => (reader.u8("truth").expect(ON_THE_PAGE) == 1).to_string(),
        8 => decimal(reader),
        12 => (0..16).map(|_| hex(&[reader.u8("byte").expect(ON_THE_PAGE)])).collect(),
        14 => {
            let mut values = Reader::new(reader.bytes("values").expect(ON_THE_PAGE));
            let shown = std::iter::from_fn(|| (!values.is_empty()).then(|| shown(&mut values)));
            format!("[{}]", shown.collect::<Vec<_>>().join(", "))
        }
        tag => panic!("the page has no type {tag}"),
    }
}

fn decimal(reader: &mut Reader<'_>) -> String {
    let places = usize::try_from(reader.varint("digits").expect(ON_THE_PAGE)).expect(ON_THE_PAGE);
    let bytes = reader.bytes("number").expect(ON_THE_PAGE);
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
    let number: i128 = bytes.iter().fold(sign, |number, byte| (number << 8) | i128::from(*byte));
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    format!("{}{whole}.{part}", if number < 0 { "-" } else { "" })
}
