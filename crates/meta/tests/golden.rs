//! Bytes that are in logs, snapshots and messages. A test here is never changed, only added to.

use std::collections::BTreeMap;

use shardine_meta::{
    Change, Command, Delta, Joiner, Keyspace, Meta, Mode, Node, NodeState, Operation, OperationId, Place, Replace,
    Replaced, Stage,
};
use shardine_model::{
    Bound, Bounds, CatalogueVersion, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, Field, FieldId,
    Generation, NodeEntry, NodeId, Placement, Position, RangeVersion, ReplicaId, ShardId, ShardState, Split,
    SplitMember, Table, Timestamp, Value,
};

fn addresses() -> DoorAddresses {
    let text = str::to_owned;
    DoorAddresses { peer: text("p"), grpc: text("g"), redis: text("r"), http: text("h") }
}

const ADDRESSES: &[u8] = b"\x01p\x01g\x01r\x01h";

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("disk".to_owned(), "fast".to_owned())])
}

fn joiner() -> Joiner {
    Joiner {
        name: "lili".to_owned(),
        addresses: addresses(),
        zone: "west".to_owned(),
        labels: labels(),
        is_gateway: true,
        incarnation: 300,
        start: 0x0102,
    }
}

fn joiner_bytes() -> Vec<u8> {
    [b"\x04lili", ADDRESSES, b"\x04west\x01\x04disk\x04fast\x01\xac\x02\x02\x01\0\0\0\0\0\0"].concat()
}

fn place(node: u64, replica: u64) -> Placement {
    Placement { node: NodeId(node), replica: ReplicaId(replica) }
}

fn group(shard: ShardId) -> Descriptor {
    let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(1) };
    let (bounds, voters, learners) = (Bounds::default(), vec![place(1, 1)], Vec::new());
    Descriptor { shard, epoch, state: ShardState::Serving, bounds, voters, learners }
}

fn first_map() -> ClusterMap {
    let (name, zone, addresses) = ("a".to_owned(), String::new(), DoorAddresses::default());
    let nodes = vec![NodeEntry { node: NodeId(1), name, zone, addresses }];
    let groups = vec![group(ShardId(1)), group(ShardId::META)];
    ClusterMap { cluster: 9, version: 1, nodes, groups, sql: "none".to_owned() }
}

fn replace() -> Replace {
    Replace {
        shard: ShardId(7),
        stage: Stage::CatchingUp,
        new: vec![place(4, 300)],
        behind: vec![ReplicaId(300)],
        voters: vec![place(1, 1), place(4, 300)],
        learners: vec![place(2, 2)],
    }
}

fn epoch() -> Epoch {
    Epoch { generation: Generation(1), range: RangeVersion(300), conf: ConfVersion(3) }
}

fn split() -> Split {
    let members = vec![SplitMember { node: NodeId(4), parent: ReplicaId(300), child: ReplicaId(1) }];
    Split { child: ShardId(9), at: Bound::at(Position(1 << 63)), epoch: epoch(), members }
}

fn commands() -> Vec<(Command, Vec<u8>)> {
    let (shard, node, replica, operation) = (ShardId(7), NodeId(300), ReplicaId(4), OperationId(5));
    let text = str::to_owned;
    let replaces = Some(Replaced { node, incarnation: 9 });
    let conf = ConfVersion(20);
    let map = first_map().to_bytes();
    vec![
        (
            Command::Init { map: first_map(), starts: vec![0x0807] },
            [&[1, map.len() as u8], &map[..], &[1, 7, 8, 0, 0, 0, 0, 0, 0]].concat(),
        ),
        (Command::Join { joiner: joiner(), replaces: None }, [&[2], &joiner_bytes()[..], &[0]].concat()),
        (Command::Join { joiner: joiner(), replaces }, [&[2], &joiner_bytes()[..], &[1, 0xac, 2, 9]].concat()),
        (Command::Announce { node, joiner: joiner() }, [&[3, 0xac, 2], &joiner_bytes()[..]].concat()),
        (Command::SetMode { node, mode: Mode::ReadWrite }, vec![4, 0xac, 2, 1]),
        (Command::SetMode { node, mode: Mode::ReadOnly }, vec![4, 0xac, 2, 2]),
        (Command::SetMode { node, mode: Mode::Draining }, vec![4, 0xac, 2, 3]),
        (Command::SetWeight { node, weight: 300 }, vec![5, 0xac, 2, 0xac, 2]),
        (Command::RemoveNode { node }, vec![6, 0xac, 2]),
        (Command::Replace { shard, replica, node }, vec![7, 7, 4, 0xac, 2]),
        (
            Command::Reconfigure { shard, conf, voters: vec![NodeId(1), node], learners: vec![NodeId(2)] },
            vec![8, 7, 20, 2, 1, 0xac, 2, 1, 2],
        ),
        (
            Command::ConfChanged { shard, conf, voters: vec![ReplicaId(1), replica], learners: vec![] },
            vec![9, 7, 20, 2, 1, 4, 0],
        ),
        (Command::CaughtUp { operation, replica }, vec![10, 5, 4]),
        (Command::Cancel { operation }, vec![11, 5]),
        (Command::CreateTable { table: Table::kv() }, [&[12], &table_bytes()[..]].concat()),
        (
            Command::AddField { table: text("users"), field: Field::of(FieldId(0), "age", Value::Int(-7)) },
            b"\x0d\x05users\x03age\x01\x0d".to_vec(),
        ),
        (
            Command::AddField {
                table: text("users"),
                field: Field { nullable: true, ..Field::of(FieldId(0), "age", Value::Bool(true)) },
            },
            b"\x28\x05users\x03age\x07\x01\x07\x01".to_vec(),
        ),
        (Command::DropTable { table: text("users") }, b"\x0e\x05users".to_vec()),
        (Command::Set { name: text("x"), value: Some(text("y")) }, b"\x11\x01x\x01\x01y".to_vec()),
        (Command::Set { name: text("x"), value: None }, b"\x11\x01x\0".to_vec()),
        (Command::SetSql { sql: text("none") }, b"\x12\x04none".to_vec()),
        (
            Command::Split { shard, epoch: epoch(), at: Bound::at(Position(1 << 63)) },
            vec![30, 7, 1, 0xac, 2, 3, 8, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (Command::SplitOver { operation, is_done: true }, vec![31, 5, 1]),
        (
            Command::PutLibraries {
                libraries: vec![(text("one"), b"x".as_slice().into())],
                replaces: true,
                begins_anew: false,
            },
            b"\x3c\x01\x03one\x01x\x01\x00".to_vec(),
        ),
        (Command::DropLibrary { name: text("one") }, b"\x3d\x03one".to_vec()),
        (Command::Mark, vec![19]),
        (
            Command::PlacePath { path: text("/a"), instead_of: 300, group: Some(shard) },
            b"\x14\x02/a\xac\x02\x01\x07".to_vec(),
        ),
        (Command::PlacePath { path: text("/a"), instead_of: 0, group: None }, b"\x14\x02/a\0\0".to_vec()),
        (Command::ForgetPath { path: text("/a"), placed: 300 }, b"\x15\x02/a\xac\x02".to_vec()),
        (Command::FindPath { path: text("/a") }, b"\x16\x02/a".to_vec()),
    ]
}

fn table_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    Table::kv().encode(&mut bytes);
    bytes
}

fn group_bytes(shard: ShardId) -> Vec<u8> {
    let mut bytes = Vec::new();
    group(shard).encode(&mut bytes);
    bytes
}

#[test]
fn commands_have_these_bytes_for_ever() {
    for (command, bytes) in commands() {
        assert_eq!(command.to_entry(), [&[1, 101], &bytes[..]].concat(), "{command:?}");
    }
}

#[test]
fn an_entry_that_is_cut_or_unknown_stops_the_replica() {
    for (command, bytes) in commands() {
        for len in 1..bytes.len() {
            let entry = [&[1, 101], &bytes[..len]].concat();
            assert!(Meta::new().apply(&entry, |_| ()).is_err(), "{command:?} in {len} bytes");
        }
    }
    for entry in [&[1, 101, 200][..], &[2, 101], &[1, 100], &[]] {
        assert!(Meta::new().apply(entry, |_| ()).is_err(), "{entry:?}");
    }
}

fn changes() -> Vec<(Change, Vec<u8>)> {
    let text = str::to_owned;
    let node = Node {
        node: NodeId(300),
        name: text("lili"),
        addresses: addresses(),
        zone: text("west"),
        labels: labels(),
        weight: 300,
        mode: Mode::Draining,
        state: NodeState::Removed,
        is_gateway: true,
        incarnation: 5,
        start: 0x0102,
    };
    let node_bytes = [
        b"\x01\xac\x02\x04lili",
        ADDRESSES,
        b"\x04west\x01\x04disk\x04fast\xac\x02\x03\x02\x01\x05\x02\x01\0\0\0\0\0\0",
    ];
    let replace_bytes = [8, 5, 1, 7, 2, 1, 4, 0xac, 2, 1, 0xac, 2, 2, 1, 1, 4, 0xac, 2, 1, 2, 2];
    let split_bytes = [8, 5, 2, 7, 9, 8, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xac, 2, 3, 1, 4, 0xac, 2, 1];
    let (version, named_in) = (CatalogueVersion(300), CatalogueVersion(4));
    vec![
        (Change::Node(node), node_bytes.concat()),
        (Change::Group(group(ShardId(7))), [&[2], &group_bytes(ShardId(7))[..]].concat()),
        (Change::Table(Table::kv()), [&[3], &table_bytes()[..]].concat()),
        (Change::Catalogue { version, named_in }, vec![4, 0xac, 2, 4]),
        (Change::Setting(text("x"), Some(text("y"))), b"\x06\x01x\x01\x01y".to_vec()),
        (Change::Setting(text("x"), None), b"\x06\x01x\0".to_vec()),
        (Change::Keyspace(Keyspace { sql: text("none"), scheme: Generation(300) }), b"\x07\x04none\xac\x02".to_vec()),
        (Change::Operation(OperationId(5), Operation::Replace(replace())), replace_bytes.to_vec()),
        (Change::Operation(OperationId(5), Operation::Split(ShardId(7), split())), split_bytes.to_vec()),
        (Change::OperationOver(OperationId(300)), vec![9, 0xac, 2]),
        (Change::Given(ShardId(300), ReplicaId(7)), vec![10, 0xac, 2, 7]),
        (
            Change::Path(text("/a"), Some(Place { group: ShardId(7), placed: 300 })),
            b"\x0b\x02/a\x01\x07\xac\x02".to_vec(),
        ),
        (Change::Library(text("one"), Some(b"x".as_slice().into())), b"\x3c\x03one\x01\x01x".to_vec()),
        (Change::Library(text("one"), None), b"\x3c\x03one\0".to_vec()),
        (Change::Path(text("/a"), None), b"\x0b\x02/a\0".to_vec()),
    ]
}

#[test]
fn changes_have_these_bytes_for_ever() {
    for (change, bytes) in changes() {
        let delta = Delta { cluster: 9, from: 4, to: 300, changes: vec![change] };
        let mut golden = vec![1, 9];
        golden.extend([0; 15]);
        golden.extend([4, 0xac, 2, 1]);
        golden.extend_from_slice(&bytes);

        assert_eq!(delta.to_bytes(), golden, "{delta:?}");
        assert_eq!(Delta::decode(&golden), Ok(delta));
        for len in 0..golden.len() {
            assert!(Delta::decode(&golden[..len]).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn a_snapshot_has_these_bytes_for_ever() {
    let mut meta = Meta::new();
    meta.apply(&Command::Init { map: first_map(), starts: Vec::new() }.to_entry(), |reply| {
        drop(reply.expect("a first map"))
    })
    .expect("an entry");
    let founder = b"\x01\x01\x01a\0\0\0\0\0\0\x64\x01\x01\0\0\0\0\0\0\0\0\0\0".to_vec();
    let content = [
        b"\x01\x07\x04none\x01".to_vec(),
        founder,
        [vec![2], group_bytes(ShardId(1)), vec![2], group_bytes(ShardId::META)].concat(),
        [vec![3], table_bytes(), vec![4, 1, 1]].concat(),
    ];
    let content = content.concat();
    let head = b"\x01\x1d\0\0\0\x01\x09\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\0\x02\x01\x01\x80\x80\x80\x80\x08\x01";
    let mut golden = vec![3, 3, 0];
    golden.extend_from_slice(head);
    golden.push(2);
    golden.extend_from_slice(&(content.len() as u32).to_le_bytes());
    golden.extend_from_slice(&content);
    golden.extend([0; 5]);

    meta.begin_cut();
    let chunks: Vec<Vec<u8>> = std::iter::from_fn(|| meta.next_chunk()).collect();

    assert_eq!(chunks, [golden.clone()]);
    assert_eq!(Meta::new().restored([&golden]).expect("a snapshot").digest(), meta.digest());
    for len in 0..golden.len() {
        assert!(Meta::new().restored([&golden[..len]]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_dated_command_and_a_line_of_the_history_have_these_bytes_for_ever() {
    let command = Command::At { at: Timestamp(300), why: "x".to_owned(), command: Box::new(Command::Mark) };
    let golden = [1, 101, 50, 1, b'x', 0xac, 2, 19];
    assert_eq!(command.to_entry(), golden);
    assert_eq!(Command::from_bytes(&golden[2..]), Ok(command));
    // One is dated once.
    assert!(Command::from_bytes(&[50, 0, 1, 50, 0, 1, 19]).is_err());

    let mut meta = Meta::new();
    let init = Command::Init { map: first_map(), starts: Vec::new() };
    let set = Command::Set { name: "x".to_owned(), value: Some("y".to_owned()) };
    for command in [init, Command::At { at: Timestamp(300), why: String::new(), command: Box::new(set) }] {
        meta.apply(&command.to_entry(), |reply| drop(reply.expect("done"))).expect("an entry");
    }
    let event = meta.map().events.back().expect("a line").clone();
    let delta = Delta { cluster: 9, from: 1, to: 2, changes: vec![Change::Event(event)] };
    let golden = [&[1, 9][..], &[0; 15], &[1, 2, 1, 50, 1, 0xac, 2, 14], b"setting x is y"].concat();
    assert_eq!(delta.to_bytes(), golden);
    assert_eq!(Delta::decode(&golden), Ok(delta));
}
