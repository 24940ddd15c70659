//! Golden bytes of everything that is stored. They are frozen: logs, snapshots and kept results out there hold them. A new
//! form gets a new number; a test that fails here means that old data could no longer be read.

use shardine_model::codec::Reader;
use shardine_model::command::{
    Action, Batch, BatchItem, BatchMode, Body, Command, Existence, Give, Operation, Operator, Origin, Request, Ttl,
};
use shardine_model::entry::{Entry, LoadedRow};
use shardine_model::reply::{Answer, Outcome, Reply};
use shardine_model::table::SortPart;
use shardine_model::{
    Backing, ClientId, ErrorCode, Field, FieldId, FieldRef, FieldType, FieldValue, NodeId, RowImage, RowKey, Table,
    TableId, Timestamp, Value, ValueRef, Version, sort,
};

const LILI: RowKey<'static> = RowKey { table: TableId(2), key: b"lili", sort: b"" };
const POST: RowKey<'static> = RowKey { table: TableId(300), key: b"p", sort: &[0x80, 0, 0, 0, 0, 0, 0, 7] };
const AGE: FieldRef<'static> = FieldRef::Id(FieldId(1));
const NAME: FieldRef<'static> = FieldRef::Name(b"n");

/// Bytes as written here: pairs of digits, with spaces where a reader wants them.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn encoded_command(command: &Command<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    command.encode(&mut out);
    out
}

fn assert_command(command: Command<'_>, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(hex(&encoded_command(&command)), hex(&golden), "{command:?}");
    let mut reader = Reader::new(&golden);
    assert_eq!(&Command::decode(&mut reader).unwrap(), &command);
    assert!(reader.is_empty());
}

fn fields<'a>(values: &[(FieldRef<'a>, ValueRef<'a>)]) -> shardine_model::command::Fields<'a> {
    values.iter().map(|(field, value)| FieldValue { field: *field, value: *value }).collect()
}

#[test]
fn golden_bytes_of_each_action() {
    let age = |value| fields(&[(AGE, ValueRef::Int(value))]);
    let cas = |create| Action::Cas { create, field: AGE, old: ValueRef::Int(1), new: ValueRef::Int(2) };
    let update = |create| {
        let operations = [Operation { field: AGE, operator: Operator::Add(ValueRef::Int(1)) }];
        Action::Update { create, operations: operations.into_iter().collect() }
    };

    assert_command(Command::plain(LILI, Action::Set(age(10))), "HEX");
    assert_command(Command::plain(LILI, Action::Replace(age(-1))), "HEX");
    assert_command(Command::plain(LILI, update(false)), "HEX");
    assert_command(Command::plain(LILI, update(true)), "HEX");
    assert_command(Command::plain(LILI, cas(false)), "HEX");
    assert_command(Command::plain(LILI, cas(true)), "HEX");
    assert_command(Command::plain(LILI, Action::Delete), "HEX");
    assert_command(Command::plain(LILI, Action::Touch), "HEX");
}

#[test]
fn golden_bytes_of_each_flag() {
    let plain = Command::plain(LILI, Action::Delete);
    let at = Ttl::At(Timestamp(1_700_000_000_000));

    assert_command(Command { row: POST, ..plain.clone() }, "HEX");
    assert_command(Command { if_version: Some(Version(-3)), ..plain.clone() }, "HEX");
    assert_command(Command { existence: Existence::Live, ..plain.clone() }, "HEX");
    assert_command(Command { existence: Existence::Absent, ..plain.clone() }, "HEX");
    assert_command(Command { ttl: Ttl::Clear, ..plain.clone() }, "HEX");
    assert_command(Command { ttl: at, ..plain.clone() }, "HEX");
    assert_command(Command { give: Give::Old, ..plain.clone() }, "HEX");
    assert_command(Command { give: Give::New, ..plain.clone() }, "HEX");
    assert_command(Command { give: Give::Touched, ..plain }, "HEX");
    let everything = Command {
        row: POST,
        if_version: Some(Version(i64::MAX)),
        existence: Existence::Live,
        ttl: at,
        give: Give::Touched,
        action: Action::Set(fields(&[(AGE, ValueRef::Uint(300)), (NAME, ValueRef::Blob(b"\x00\xff"))])),
    };
    assert_command(everything, "HEX");
}

#[test]
fn golden_bytes_of_each_operator() {
    let assert_operator = |operator: Operator<'_>, golden: &str| {
        let operations = [Operation { field: NAME, operator }].into_iter().collect();
        assert_command(Command::plain(LILI, Action::Update { create: false, operations }), golden);
    };
    let one = ValueRef::Int(1);

    assert_operator(Operator::Assign(ValueRef::Str("x")), "HEX");
    assert_operator(Operator::Add(one), "HEX");
    assert_operator(Operator::Subtract(one), "HEX");
    assert_operator(Operator::And(one), "HEX");
    assert_operator(Operator::Or(one), "HEX");
    assert_operator(Operator::Xor(one), "HEX");
    assert_operator(Operator::Min(one), "HEX");
    assert_operator(Operator::Max(ValueRef::Float(1.5)), "HEX");
    assert_operator(Operator::Splice { at: -2, cut: 300, paste: b"ab" }, "HEX");
    assert_operator(Operator::Append(b"ab"), "HEX");
    assert_operator(Operator::Unset, "HEX");
    assert_operator(Operator::AssignIfUnset(ValueRef::Blob(b"x")), "HEX");
}

fn assert_request(request: Request<'_>, golden: &str) {
    let golden = bytes(golden);
    let mut out = Vec::new();
    request.encode(&mut out);
    assert_eq!(hex(&out), hex(&golden), "{request:?}");
    let mut reader = Reader::new(&golden);
    assert_eq!(&Request::decode(&mut reader).unwrap(), &request);
    assert!(reader.is_empty());
}

#[test]
fn golden_bytes_of_requests() {
    let delete = Command::plain(LILI, Action::Delete);
    let origin = Some(Origin { client: ClientId(300), sequence: 7 });
    let batch = |mode| Batch {
        mode,
        conditions: vec![(LILI, Version(3)), (POST, Version(0))],
        commands: vec![BatchItem::Change(delete.clone()), BatchItem::Read(LILI), BatchItem::Read(POST)],
    };

    assert_request(Request::one(delete.clone()), "HEX");
    assert_request(Request { origin, body: Body::One(delete.clone()) }, "HEX");
    assert_request(Request { origin: None, body: Body::Read(LILI) }, "HEX");
    assert_request(Request { origin, body: Body::Read(POST) }, "HEX");
    assert_request(Request { origin: None, body: Body::Batch(batch(BatchMode::EachItsOwn)) }, "HEX");
    assert_request(Request { origin, body: Body::Batch(batch(BatchMode::AllOrNone)) }, "HEX");
}

fn assert_entry(entry: Entry<'_>, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(hex(&entry.to_bytes()), hex(&golden), "{entry:?}");
    assert_eq!(&Entry::decode(&golden).unwrap(), &entry);
}

#[test]
fn golden_bytes_of_each_kind_of_entry() {
    let image = RowImage::of(&[FieldValue { field: AGE, value: ValueRef::Int(10) }]);
    let mut requests = Vec::new();
    Request::one(Command::plain(LILI, Action::Delete)).encode(&mut requests);
    let versions = vec![(LILI, Version(4)), (POST, Version(-5))];
    let at = Timestamp(1_700_000_000_000);

    assert_entry(Entry::Commands { proposed_at: at, requests: &requests }, "HEX");
    assert_entry(Entry::Load(vec![LoadedRow { row: LILI, version: Version(3), fields: &image.packed }]), "HEX");
    assert_entry(Entry::Kick(versions.clone()), "HEX");
    assert_entry(Entry::Lease { holder: NodeId(1), term: 300, length_ms: 10_000 }, "HEX");
    assert_entry(Entry::Written(versions.clone()), "HEX");
    assert_entry(Entry::Schema(Box::new(users())), "HEX");
    assert_entry(Entry::Purge(versions), "HEX");
    assert_entry(Entry::Expire { at, rows: vec![LILI, POST] }, "HEX");
    assert_entry(Entry::Clear { table: TableId(300) }, "HEX");
}

fn users() -> Table {
    let field = |id, name: &str, default: Value| {
        let kind = default.as_ref().field_type();
        Field { id: FieldId(id), name: name.to_owned(), kind, default }
    };
    Table {
        id: TableId(2),
        name: "users".to_owned(),
        version: 300,
        fields: vec![
            field(1, "i", Value::Int(-1)),
            field(2, "u", Value::Uint(1)),
            field(4, "f", Value::Float(0.5)),
            field(5, "s", Value::Str("x".to_owned())),
            field(6, "b", Value::Blob(vec![0])),
        ],
        sort: vec![
            SortPart { name: "at".to_owned(), kind: FieldType::Int64 },
            SortPart { name: "tag".to_owned(), kind: FieldType::String },
        ],
        backing: Backing::Sql,
        dynamic: false,
        dropped: false,
        next_field: FieldId(7),
    }
}

#[test]
fn golden_bytes_of_definitions() {
    let dropped = Table { dropped: true, fields: Vec::new(), sort: Vec::new(), ..users() };
    for (table, golden) in [(users(), "HEX"), (Table::kv(), "HEX"), (dropped, "HEX")] {
        let mut out = Vec::new();
        table.encode(&mut out);

        assert_eq!(hex(&out), hex(&bytes(golden)), "{table:?}");
        assert_eq!(Table::decode(&mut Reader::new(&out)).unwrap(), table);
    }
}

#[test]
fn golden_bytes_of_answers() {
    let row = Some(RowImage::of(&[FieldValue { field: NAME, value: ValueRef::Blob(b"x") }]));
    let reply = |outcome| Reply { version: Version(4), sql_version: Version(-3), outcome };
    let done = reply(Outcome::Done { changed: 300, row: row.clone() });
    let refused = reply(Outcome::Refused { code: ErrorCode::VersionMismatch, row: None });
    let stands = reply(Outcome::Refused { code: ErrorCode::Exists, row });

    for (answer, golden) in [
        (Answer::One(done.clone()), "HEX"),
        (Answer::One(refused.clone()), "HEX"),
        (Answer::Many(vec![done, refused, stands]), "HEX"),
        (Answer::Many(Vec::new()), "HEX"),
        (Answer::ConditionFailed, "HEX"),
        (Answer::Failed(ErrorCode::InDoubt), "HEX"),
    ] {
        let mut out = Vec::new();
        answer.encode(&mut out);

        assert_eq!(hex(&out), hex(&bytes(golden)), "{answer:?}");
        assert_eq!(Answer::decode(&mut Reader::new(&out)).unwrap(), answer);
    }
}

#[test]
fn golden_bytes_of_sort_keys() {
    let text = |text: &str| Value::Str(text.to_owned());
    for (parts, golden) in [
        (vec![Value::Int(i64::MIN)], "HEX"),
        (vec![Value::Int(-1)], "HEX"),
        (vec![Value::Int(0)], "HEX"),
        (vec![Value::Int(1)], "HEX"),
        (vec![Value::Int(i64::MAX)], "HEX"),
        (vec![text("")], "HEX"),
        (vec![text("a")], "HEX"),
        (vec![text("a\0b")], "HEX"),
        (vec![text("é")], "HEX"),
        (vec![Value::Int(7), text("a")], "HEX"),
        (vec![text("a"), Value::Int(7)], "HEX"),
    ] {
        let types: Vec<FieldType> = parts.iter().map(|part| part.as_ref().field_type()).collect();

        assert_eq!(hex(&sort::encode(&parts)), hex(&bytes(golden)), "{parts:?}");
        assert_eq!(sort::decode(&types, &bytes(golden)).unwrap(), parts);
    }
}

/// Numbers of error codes travel in kept results.
#[test]
fn golden_numbers_of_error_codes() {
    let listed: Vec<String> = ErrorCode::ALL.iter().map(|code| format!("{} {code}", *code as u8)).collect();

    assert_eq!(
        listed.join("\n"),
        "1 not_found\n2 exists\n3 version_mismatch\n4 cas_mismatch\n5 overflow\n6 bad_request\n7 unknown_table\n\
         8 unknown_field\n9 wrong_type\n10 too_large\n11 stale_route\n12 not_leader\n13 no_leader\n\
         14 backend_unavailable\n15 busy\n16 dirty_limit\n17 in_doubt\n18 expired\n19 unauthenticated\n20 forbidden\n\
         21 unsupported\n22 internal"
    );
}

/// What is unknown is refused by name, never guessed (record-cache 73).
#[test]
fn record_cache_73_unknown_numbers_are_refused() {
    let entry = |hex: &str| Entry::decode(&bytes(hex)).unwrap_err().to_string();

    assert_eq!(entry("02 01 00"), "entry format holds 2, which has no meaning");
    assert_eq!(entry("01 0a"), "entry kind holds 10, which has no meaning");
    assert_eq!(entry("01 06 02"), "definition format holds 2, which has no meaning");
    assert_eq!(entry("01 04 01 01"), "bytes end inside lease length");
    assert_eq!(entry("01 09 01 00"), "1 bytes are left over after entry");
}
