//! Golden bytes of everything that is stored. They are frozen: logs, snapshots and kept results out there hold them. A new
//! form gets a new number; a test that fails here means that old data could no longer be read.

use shardine_model::codec::Reader;
use shardine_model::command::{
    Action, Attempt, Batch, BatchItem, BatchMode, Body, Command, Existence, Give, Kind, Operation, Operator, Origin,
    Request, Ttl,
};
use shardine_model::entry::{Entry, LoadedRow, RaisedRow, RefusedRow, SettledRow};
use shardine_model::reply::{Answer, Outcome, Reply};
use shardine_model::table::SortPart;
use shardine_model::{
    Backing, Bound, CatalogueVersion, ClientId, ConfVersion, Conflict, Deletes, Epoch, ErrorCode, Field, FieldId,
    FieldRef, FieldType, FieldValue, Generation, Mapping, NodeId, Position, RangeVersion, ReplicaId, RequestEpoch,
    RowImage, RowKey, ShardId, Split, SplitMember, SqlOptions, Table, TableId, Timestamp, Value, ValueRef, Version,
    WriteMode, sort,
};

const LILI: RowKey<'static> = RowKey { table: TableId(2), key: b"lili", sort: b"" };
const POST: RowKey<'static> = RowKey { table: TableId(300), key: b"p", sort: &[0x80, 0, 0, 0, 0, 0, 0, 7] };
const AGE: FieldRef<'static> = FieldRef::Id(FieldId(1));
const NAME: FieldRef<'static> = FieldRef::Name(b"n");

/// Bytes as written here: pairs of digits, with spaces where a reader wants them.
/// Leaked, because commands borrow what they are read from.
fn bytes(hex: &str) -> &'static [u8] {
    let digits: String = hex.split_whitespace().collect();
    let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
    let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect();
    bytes.leak()
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
    assert_eq!(hex(&encoded_command(&command)), hex(golden), "{command:?}");
    let mut reader = Reader::new(golden);
    assert_eq!(Command::decode(&mut reader).expect("golden bytes are readable"), command);
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

    assert_command(Command::plain(LILI, Action::Set(age(10))), "010002046c696c6901010114");
    assert_command(Command::plain(LILI, Action::Replace(age(-1))), "020002046c696c6901010101");
    assert_command(Command::plain(LILI, update(false)), "030002046c696c690101020102");
    assert_command(Command::plain(LILI, update(true)), "040002046c696c690101020102");
    assert_command(Command::plain(LILI, cas(false)), "050002046c696c690101020104");
    assert_command(Command::plain(LILI, cas(true)), "060002046c696c690101020104");
    assert_command(Command::plain(LILI, Action::Delete), "070002046c696c69");
    assert_command(Command::plain(LILI, Action::Touch), "080002046c696c69");
}

#[test]
fn golden_bytes_of_each_flag() {
    let plain = Command::plain(LILI, Action::Delete);
    let at = Ttl::At(Timestamp(1_700_000_000_000));

    assert_command(Command { row: POST, ..plain.clone() }, "0702ac020170088000000000000007");
    assert_command(Command { if_version: Some(Version(-3)), ..plain.clone() }, "070102046c696c6905");
    assert_command(Command { existence: Existence::Live, ..plain.clone() }, "070402046c696c69");
    assert_command(Command { existence: Existence::Absent, ..plain.clone() }, "070802046c696c69");
    assert_command(Command { ttl: Ttl::Clear, ..plain.clone() }, "071002046c696c69");
    assert_command(Command { ttl: at, ..plain.clone() }, "072002046c696c6980d095ffbc31");
    assert_command(Command { ttl: Ttl::After(3_600_000), ..plain.clone() }, "073002046c696c6980dddb01");
    assert_command(Command { give: Give::Old, ..plain.clone() }, "074002046c696c69");
    assert_command(Command { give: Give::New, ..plain.clone() }, "078002046c696c69");
    assert_command(Command { give: Give::Touched, ..plain.clone() }, "07c002046c696c69");
    assert_command(Command { kind: Kind::String, ..plain }, "870002046c696c69");
    let everything = Command {
        row: POST,
        if_version: Some(Version(i64::MAX)),
        existence: Existence::Live,
        ttl: at,
        give: Give::Touched,
        kind: Kind::String,
        action: Action::Set(fields(&[(AGE, ValueRef::Uint(300)), (NAME, ValueRef::Blob(b"\x00\xff"))])),
    };
    assert_command(
        everything,
        "81e7ac020170088000000000000007feffffffffffffffff0180d095ffbc31020102ac0200016e050200ff",
    );
}

#[test]
fn golden_bytes_of_each_operator() {
    let assert_operator = |operator: Operator<'_>, golden: &str| {
        let operations = [Operation { field: NAME, operator }].into_iter().collect();
        assert_command(Command::plain(LILI, Action::Update { create: false, operations }), golden);
    };
    let one = ValueRef::Int(1);

    assert_operator(Operator::Assign(ValueRef::Str("x")), "030002046c696c690100016e01040178");
    assert_operator(Operator::Add(one), "030002046c696c690100016e020102");
    assert_operator(Operator::Subtract(one), "030002046c696c690100016e030102");
    assert_operator(Operator::And(one), "030002046c696c690100016e040102");
    assert_operator(Operator::Or(one), "030002046c696c690100016e050102");
    assert_operator(Operator::Xor(one), "030002046c696c690100016e060102");
    assert_operator(Operator::Min(one), "030002046c696c690100016e070102");
    assert_operator(Operator::Max(ValueRef::Float(1.5)), "030002046c696c690100016e0803000000000000f83f");
    assert_operator(Operator::Splice { at: -2, cut: 300, paste: b"ab" }, "030002046c696c690100016e0903ac02026162");
    assert_operator(Operator::Append(b"ab"), "030002046c696c690100016e0a026162");
    assert_operator(Operator::Unset, "030002046c696c690100016e0b");
    assert_operator(Operator::AssignIfUnset(ValueRef::Blob(b"x")), "030002046c696c690100016e0c050178");
}

fn assert_request(request: Request<'_>, golden: &str) {
    let golden = bytes(golden);
    let mut out = Vec::new();
    request.encode(&mut out);
    assert_eq!(hex(&out), hex(golden), "{request:?}");
    let mut reader = Reader::new(golden);
    assert_eq!(Request::decode(&mut reader).expect("golden bytes are readable"), request);
    assert!(reader.is_empty());
}

#[test]
fn golden_bytes_of_requests() {
    let delete = Command::plain(LILI, Action::Delete);
    let first = Origin { client: ClientId(300), sequence: 200, lowest: 195, attempt: Attempt::First };
    let (origin, again) = (Some(first), Some(Origin { attempt: Attempt::Again, ..first }));
    let batch = |mode| Batch {
        mode,
        conditions: vec![(LILI, Version(3)), (POST, Version(0))],
        commands: vec![BatchItem::Change(delete.clone()), BatchItem::Read(LILI), BatchItem::Read(POST)],
    };

    assert_request(Request::one(delete.clone()), "00070002046c696c69");
    assert_request(Request { origin, body: Body::One(delete.clone()) }, "02ac02c80105070002046c696c69");
    assert_request(Request { origin: None, body: Body::Read(LILI) }, "0802046c696c69");
    assert_request(Request { origin, body: Body::Read(POST) }, "1aac02c80105ac020170088000000000000007");
    assert_request(
        Request { origin: None, body: Body::Batch(batch(BatchMode::EachItsOwn)) },
        "01020002046c696c690601ac020170088000000000000007000300070002046c696c690102046c696c6902ac020170088000000000000007",
    );
    assert_request(
        Request { origin: again, body: Body::Batch(batch(BatchMode::AllOrNone)) },
        "27ac02c80105020002046c696c690601ac020170088000000000000007000300070002046c696c690102046c696c6902ac020170088000000000000007",
    );
}

fn assert_entry(entry: Entry<'_>, golden: &str) {
    let golden = bytes(golden);
    assert_eq!(hex(&entry.to_bytes()), hex(golden), "{entry:?}");
    assert_eq!(Entry::decode(golden).expect("golden bytes are readable"), entry);
}

#[test]
fn golden_bytes_of_each_kind_of_entry() {
    let image = RowImage::of(&[FieldValue { field: AGE, value: ValueRef::Int(10) }]);
    let mut requests = Vec::new();
    Request::one(Command::plain(LILI, Action::Delete)).encode(&mut requests);
    let versions = vec![(LILI, Version(4)), (POST, Version(-5))];
    let at = Timestamp(1_700_000_000_000);
    let (generation, range) = (Generation(2), RangeVersion(300));
    let epoch = RequestEpoch { generation, range, catalogue: CatalogueVersion(7) };

    assert_entry(
        Entry::Commands { proposed_at: at, epoch, requests: &requests },
        "0301 0068e5cf8b010000 02ac0207 00070002046c696c69",
    );
    assert_entry(
        Entry::Load(vec![LoadedRow { row: LILI, version: Version(3), fields: &image.packed }]),
        "0302010002046c696c690603010114",
    );
    assert_entry(Entry::Kick(versions.clone()), "0303020002046c696c690801ac02017008800000000000000709");
    assert_entry(Entry::Lease { holder: ReplicaId(1), term: 300, length_ms: 10_000 }, "030401ac02904e");
    assert_entry(Entry::Written(versions.clone()), "0305020002046c696c690801ac02017008800000000000000709");
    assert_entry(
        Entry::Schema { catalogue: CatalogueVersion(300), table: Box::new(users()) },
        "0306ac020202057573657273ac020107050101690101020175020104016603000000000000e03f050173040178060162050100020261740103746167040000e807008088b2a00200",
    );
    assert_entry(Entry::Purge(versions), "0307020002046c696c690801ac02017008800000000000000709");
    assert_entry(
        Entry::Expire { at, rows: vec![LILI, POST] },
        "030880d095ffbc31020002046c696c6901ac020170088000000000000007",
    );
    assert_entry(Entry::Clear { table: TableId(300) }, "0309ac02");
    assert_entry(Entry::Suspend, "0328");
    assert_entry(Entry::Resume, "0329");
    assert_entry(
        Entry::Refused { at, rows: vec![RefusedRow { row: LILI, version: Version(4), error: "no" }] },
        "032a80d095ffbc31010002046c696c6908026e6f",
    );
    let (expected, version, sql_version) = (Version(4), Version(5), Version(-2));
    assert_entry(
        Entry::Settle(SettledRow { row: LILI, expected, version, sql_version, fields: &image.packed }),
        "032b0002046c696c69080a0303010114",
    );
    assert_entry(
        Entry::Raise(vec![RaisedRow { row: POST, expected, held: Version(9) }]),
        "032c0101ac0201700880000000000000070812",
    );
    assert_entry(Entry::Floor { table: TableId(300), floor: 300 }, "032dac02ac02");
    let split = Split {
        child: ShardId(300),
        at: Bound::at(Position(1 << 63)),
        epoch: Epoch { generation: Generation(1), range: RangeVersion(2), conf: ConfVersion(3) },
        members: vec![SplitMember { node: NodeId(4), parent: ReplicaId(5), child: ReplicaId(1) }],
    };
    assert_entry(Entry::Split(Box::new(split)), "030aac020880000000000000000000000102030104 0501");
}

fn users() -> Table {
    let field = |id, name: &str, default: Value| Field::of(FieldId(id), name, default);
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
        sql: Default::default(),
        dynamic: false,
        dropped: false,
        next_field: FieldId(7),
    }
}

/// Definitions as they were before a table could say how it meets SQL. They are read for ever.
const FIRST_FORM: [&str; 3] = [
    "0102057573657273ac020107050101690101020175020104016603000000000000e03f05017304017806016205010002026174010374616704",
    "0101026b760102010000",
    "0102057573657273ac0205070000",
];

#[test]
fn golden_bytes_of_definitions() {
    let dropped = Table { dropped: true, fields: Vec::new(), sort: Vec::new(), ..users() };
    for (table, golden, first) in [
        (
            users(),
            "0202057573657273ac020107050101690101020175020104016603000000000000e03f050173040178060162050100020261740103746167040000e807008088b2a00200",
            FIRST_FORM[0],
        ),
        (Table::kv(), "0201026b7601020100000000e807008088b2a00200", FIRST_FORM[1]),
        (dropped, "0202057573657273ac02050700000000e807008088b2a00200", FIRST_FORM[2]),
    ] {
        let mut out = Vec::new();
        table.encode(&mut out);

        assert_eq!(hex(&out), hex(bytes(golden)), "{table:?}");
        assert_eq!(Table::decode(&mut Reader::new(&out)).unwrap(), table);
        assert_eq!(Table::decode(&mut Reader::new(bytes(first))).unwrap(), table, "the first form of {table:?}");
    }
}

/// Fields that may be NULL, or are of a type with parameters, are told by a form of their own; all others keep theirs.
#[test]
fn golden_bytes_of_typed_definitions() {
    let nullable =
        |id, name: &str, kind| Field { id: FieldId(id), name: name.into(), kind, nullable: true, default: Value::Null };
    let decimal = FieldType::Decimal { precision: 10, scale: 2 };
    let fields = vec![
        nullable(1, "s", FieldType::String),
        Field::of(FieldId(2), "b", Value::Bool(true)),
        Field { kind: decimal, nullable: true, ..Field::of(FieldId(3), "d", decimal.zero()) },
        nullable(4, "t", FieldType::Timestamp { digits: 3 }),
        Field::of(FieldId(5), "i", Value::Int(-1)),
    ];
    let table = Table { fields, sort: Vec::new(), ..users() };
    let golden = "0402057573657273ac02010705 01017304 0106 020162070007 01 0301 64080a02010802 0100 0401 7409030106 0501 6901000101 00 0000e807008088b2a0020000";

    let mut out = Vec::new();
    table.encode(&mut out);

    assert_eq!(hex(&out), hex(bytes(&golden.replace(' ', ""))));
    assert_eq!(Table::decode(&mut Reader::new(&out)).unwrap(), table);
}

#[test]
fn golden_bytes_of_sql_options() {
    let mapping = Mapping {
        table: "crm".into(),
        key: "id".into(),
        key_type: FieldType::Int64,
        version: Some("rev".into()),
        columns: vec!["nom".into()],
        deletes: Deletes::Tombstone,
    };
    let guest = Mapping { deletes: Deletes::Row, ..mapping.clone() };
    let guest = SqlOptions { mapping: Some(guest), ..SqlOptions::default() };
    let unversioned = Mapping { version: None, columns: Vec::new(), ..mapping.clone() };
    let options = SqlOptions {
        mode: WriteMode::Through,
        delay_ms: 250,
        batch: 64,
        conflict: Conflict::Stop,
        tombstone_keep_ms: 1_000,
        mapping: Some(mapping),
        after: Vec::new(),
    };
    let read_only = SqlOptions { mapping: Some(unversioned), ..SqlOptions::default() };
    assert!(read_only.is_read_only() && !options.is_read_only());
    assert!(guest.is_guest() && !options.is_guest() && !read_only.is_guest());

    let ordered = SqlOptions { after: vec!["users".into(), "b".into()], ..SqlOptions::default() };
    for (form, sql, golden) in [
        (2, options, "01fa014002e807020363726d026964010372657601036e6f6d"),
        (2, guest, "0000e807008088b2a002 03010363726d026964010372657601036e6f6d"),
        (2, read_only, "0000e807008088b2a002010363726d0269640100"),
        (3, ordered, "0000e807008088b2a0020002057573657273 0162"),
    ] {
        let table = Table { sql, ..Table::kv() };
        let mut out = Vec::new();
        table.encode(&mut out);

        assert_eq!(hex(&out), hex(bytes(&format!("0{form}01026b760102010000{golden}"))), "{table:?}");
        assert_eq!(Table::decode(&mut Reader::new(&out)).unwrap(), table);
    }
}

#[test]
fn golden_bytes_of_answers() {
    let row = Some(RowImage::of(&[FieldValue { field: NAME, value: ValueRef::Blob(b"x") }]));
    let reply = |outcome| Reply { version: Version(4), sql_version: Version(-3), expires_at: None, outcome };
    let done = reply(Outcome::Done { changed: 300, row: row.clone() });
    let refused = reply(Outcome::Refused { code: ErrorCode::VersionMismatch, row: None });
    let stands = reply(Outcome::Refused { code: ErrorCode::Exists, row });
    let expires_at = Some(Timestamp(300));
    let ends = Reply { expires_at, ..done.clone() };
    let bare_ends = Reply { expires_at, ..reply(Outcome::Done { changed: 1, row: None }) };

    for (answer, golden) in [
        (Answer::One(done.clone()), "01080500ac02010600016e050178"),
        (Answer::One(refused.clone()), "0108050300"),
        (Answer::Many(vec![done, refused, stands]), "0203080500ac02010600016e05017808050300080502010600016e050178"),
        (Answer::One(ends), "01080500ac02030600016e050178ac02"),
        (Answer::One(bare_ends), "0108050001 02ac02"),
        (Answer::Many(Vec::new()), "0200"),
        (Answer::ConditionFailed, "03"),
        (Answer::Failed(ErrorCode::InDoubt), "0411"),
    ] {
        let mut out = Vec::new();
        answer.encode(&mut out);

        assert_eq!(hex(&out), hex(bytes(golden)), "{answer:?}");
        assert_eq!(Answer::decode(&mut Reader::new(&out)).unwrap(), answer);
    }
}

#[test]
fn golden_bytes_of_sort_keys() {
    let text = |text: &str| Value::Str(text.to_owned());
    for (parts, golden) in [
        (vec![Value::Int(i64::MIN)], "0000000000000000"),
        (vec![Value::Int(-1)], "7fffffffffffffff"),
        (vec![Value::Int(0)], "8000000000000000"),
        (vec![Value::Int(1)], "8000000000000001"),
        (vec![Value::Int(i64::MAX)], "ffffffffffffffff"),
        (vec![text("")], "0001"),
        (vec![text("a")], "610001"),
        (vec![text("a\0b")], "6100ff620001"),
        (vec![text("é")], "c3a90001"),
        (vec![Value::Int(7), text("a")], "8000000000000007610001"),
        (vec![text("a"), Value::Int(7)], "6100018000000000000007"),
    ] {
        let types: Vec<FieldType> = parts.iter().filter_map(|part| part.as_ref().field_type()).collect();

        assert_eq!(hex(&sort::encode(&parts)), hex(bytes(golden)), "{parts:?}");
        assert_eq!(sort::decode(&types, bytes(golden)).unwrap(), parts);
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
         21 unsupported\n22 internal\n23 suspended\n24 sql_refused"
    );
}

/// What is unknown is refused by name, never guessed (records 73).
#[test]
fn records_73_unknown_numbers_are_refused() {
    let entry = |hex: &str| Entry::decode(bytes(hex)).unwrap_err().to_string();

    assert_eq!(entry("01 01 00"), "entry format 1 is of an early version, and is not read any more");
    assert_eq!(entry("02 01 00"), "entry format 2 is of an early version, and is not read any more");
    assert_eq!(entry("04 01 00"), "entry format holds 4, which has no meaning");
    assert_eq!(entry("03 01 0000000000000000 01 01"), "bytes end inside catalogue version");
    assert_eq!(entry("03 63"), "entry kind holds 99, which has no meaning");
    assert_eq!(entry("03 06 01 05"), "definition format holds 5, which has no meaning");
    assert_eq!(entry("03 04 01 01"), "bytes end inside lease length");
    assert_eq!(entry("03 09 01 00"), "1 bytes are left over after entry");
    assert_eq!(entry("03 06 01 01 02 01 61 01 08"), "definition flags holds 8, which has no meaning");
    let request = |hex: &str| Request::decode(&mut Reader::new(bytes(hex))).unwrap_err().to_string();
    assert_eq!(request("40 07 00 02 00"), "request flags holds 64, which has no meaning");
    assert_eq!(request("02 01 05 06 07 00 02 00"), "open numbers holds 6, which has no meaning");
    assert_eq!(request("00 63 00 02 00"), "command holds 99, which has no meaning");
    assert_eq!(request("00 07 0c 02 00"), "existence holds 3, which has no meaning");
    assert_eq!(request("01 00 01 03"), "batch item holds 3, which has no meaning");
}
