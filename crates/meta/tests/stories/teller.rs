//! Acts the lines of a story: commands are applied, and the map is shown.

use shardine_meta::{
    Command, Delta, Feed, Joiner, Map, Meta, Mode, Operation, OperationId, Replaced, Reply, Sight, plan,
};
use shardine_model::key::Interval;
use shardine_model::log::Membership;
use shardine_model::{
    Backing, Bound, Bounds, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, Field, FieldId, FieldType,
    Generation, NodeEntry, NodeId, Placement, Position, RangeVersion, Refusal, ReplicaId, ShardId, ShardState,
    SqlOptions, Table, TableId,
};
use shardine_story::script::Teller;

use crate::words::{Line, number, shard, shard_name};

#[derive(Default)]
pub struct Stage {
    meta: Meta,
    follower: Meta,
    /// What a node has that only hears of the map.
    view: Map,
}

impl Teller for Stage {
    fn act(&mut self, line: &str) -> Vec<String> {
        let line = Line::read(line);
        match line.verb {
            "show" => self.show(&line),
            "todo" => vec![self.todo(&line)],
            "plan" => self.plan(&line),
            _ => {
                let command = self.command(&line);
                vec![told(&self.apply(&command))]
            }
        }
    }
}

impl Stage {
    /// A story ends with replicas that agree.
    pub fn close(mut self) {
        assert_eq!(self.meta.digest(), self.follower.digest(), "replicas have parted");
        self.meta.begin_cut();
        let chunks: Vec<Vec<u8>> = std::iter::from_fn(|| self.meta.next_chunk()).collect();
        let restored = Meta::new().restored(&chunks).expect("a snapshot");
        assert_eq!(self.meta.digest(), restored.digest(), "a snapshot tells something else");
    }

    fn apply(&mut self, command: &Command) -> Result<Reply, Refusal> {
        let entry = command.to_entry();
        let mut replies = Vec::new();
        self.meta.apply(&entry, |reply| replies.push(reply)).expect("an entry that can be read");
        self.follower.apply(&entry, |reply| assert_eq!(reply, replies[0])).expect("the same entry");
        self.follow();
        replies.remove(0)
    }

    fn follow(&mut self) {
        let bytes = match self.meta.feed(self.view.version) {
            Feed::Nothing => return,
            Feed::Delta { change, .. } => change,
            Feed::Whole { map, .. } => map,
        };
        let delta = Delta::decode(&bytes).expect("a delta");
        self.view.take(&delta).expect("it leads on");
        assert_eq!(self.view.whole(), self.meta.map().whole(), "a node that follows has another map");
    }

    fn command(&self, line: &Line<'_>) -> Command {
        let node = || NodeId(number(line.word(0)));
        let words = || (line.word(0).to_owned(), line.word(1).to_owned());
        match line.verb {
            "init" => Command::Init { map: first_map(line), starts: line.number("start").into_iter().collect() },
            "join" => Command::Join { joiner: joiner(line, line.word(0)), replaces: replaced(line) },
            "announce" => {
                let name = self.meta.map().nodes.get(&node()).map_or("?", |node| node.name.as_str());
                Command::Announce { node: node(), joiner: joiner(line, line.pair("name").unwrap_or(name)) }
            }
            "mode" => Command::SetMode { node: node(), mode: Mode::named(line.word(1)).expect("a mode") },
            "weight" => Command::SetWeight { node: node(), weight: number(line.word(1)) as u16 },
            "remove" => Command::RemoveNode { node: node() },
            "replace" => Command::Replace {
                shard: shard(line.word(0)),
                replica: ReplicaId(number(line.word(1))),
                node: NodeId(number(line.word(2))),
            },
            "members" => {
                let shard = shard(line.word(0));
                let known = self.meta.map().groups.get(&shard).map_or(0, |group| group.epoch.conf.0);
                let conf = ConfVersion(line.number("conf").unwrap_or(known));
                Command::Reconfigure { shard, conf, voters: line.nodes("voters"), learners: line.nodes("learners") }
            }
            "conf" => Command::ConfChanged {
                shard: shard(line.word(0)),
                conf: ConfVersion(line.number("at").expect("an index")),
                voters: line.replicas("voters"),
                learners: line.replicas("learners"),
            },
            "caught-up" => Command::CaughtUp {
                operation: OperationId(number(line.word(0))),
                replica: ReplicaId(number(line.word(1))),
            },
            "split" => {
                let shard = shard(line.word(0));
                let known = self.meta.map().groups.get(&shard).map_or_else(Epoch::default, |group| group.epoch);
                let range = line.number("range").map_or(known.range, RangeVersion);
                let at = Bound::at(Position(line.number("slot").expect("a slot") << 50));
                Command::Split { shard, epoch: Epoch { range, ..known }, at }
            }
            "split-over" => {
                Command::SplitOver { operation: OperationId(number(line.word(0))), is_done: !line.has("not-done") }
            }
            "cancel" => Command::Cancel { operation: OperationId(number(line.word(0))) },
            "create" => Command::CreateTable { table: table(line) },
            "add" => {
                let field = field(line.word(1));
                Command::AddField { table: line.word(0).to_owned(), field }
            }
            "drop" => Command::DropTable { table: line.word(0).to_owned() },
            "place" => {
                let path = line.word(0).to_owned();
                Command::PlacePath {
                    path,
                    instead_of: line.number("instead").unwrap_or(0),
                    group: line.pair("group").map(shard),
                }
            }
            "forget" => {
                Command::ForgetPath { path: line.word(0).to_owned(), placed: line.number("placed").expect("a number") }
            }
            "find" => Command::FindPath { path: line.word(0).to_owned() },
            "set" => Command::Set { name: words().0, value: Some(words().1) },
            "unset" => Command::Set { name: line.word(0).to_owned(), value: None },
            "put-libraries" => Command::PutLibraries {
                libraries: line.rest.iter().filter_map(|word| word.split_once('=')).map(library).collect(),
                replaces: line.has("replaces"),
                begins_anew: line.has("begins-anew"),
            },
            "drop-library" => Command::DropLibrary { name: line.word(0).to_owned() },
            "sql" => Command::SetSql { sql: line.word(0).to_owned() },
            verb => panic!("what is {verb}?"),
        }
    }

    /// What the planner says; with `do`, that is done.
    fn plan(&mut self, line: &Line<'_>) -> Vec<String> {
        let commands =
            plan(self.meta.map(), &Sight { silent: line.nodes("silent").into_iter().collect(), ..Sight::default() });
        let mut outcomes: Vec<String> = Vec::new();
        for command in &commands {
            let mut outcome = match command {
                Command::Reconfigure { shard, voters, learners, .. } => {
                    let (voters, learners) = (numbers(voters, |node| node.0), numbers(learners, |node| node.0));
                    format!("members {} voters={voters} learners={learners}", shard_name(*shard))
                }
                Command::Cancel { operation } => format!("cancel {operation}"),
                other => panic!("{other:?}"),
            };
            if line.has("do") {
                outcome = format!("{outcome}: {}", told(&self.apply(command)));
            }
            outcomes.push(outcome);
        }
        if outcomes.is_empty() { vec!["nothing".to_owned()] } else { outcomes }
    }

    /// What a group's leader has to do, with these members in its log.
    fn todo(&self, line: &Line<'_>) -> String {
        let (shard, map) = (shard(line.word(0)), self.meta.map());
        let membership = Membership {
            learners: line.replicas("learners"),
            outgoing: line.replicas("outgoing"),
            ..Membership::of(line.replicas("voters"))
        };
        match map.operation_on(shard) {
            Some((_, Operation::Replace(replace))) => format!("{:?}", replace.todo(&membership, &map.groups[&shard])),
            Some((_, Operation::Split(_, split))) => format!("split {split:?}"),
            None => format!("nothing; strays {:?}", map.strays(shard, &membership)),
        }
    }

    fn show(&self, line: &Line<'_>) -> Vec<String> {
        let map = self.meta.map();
        match line.word(0) {
            "nodes" => map
                .nodes
                .values()
                .map(|node| {
                    let (zone, mode, weight, state) = (&node.zone, node.mode.name(), node.weight, node.state);
                    let (peer, start) = (&node.addresses.peer, format!("{}#{}", node.incarnation, node.start));
                    format!(
                        "{} {} {peer} zone={zone} {mode} weight={weight} {state:?} start={start}",
                        node.node, node.name
                    )
                })
                .collect(),
            "shards" => map.groups.values().map(group).collect(),
            "shard" => vec![group(&map.groups[&shard(line.word(1))])],
            // As routing sees them.
            "routes" => map.cluster_map().groups.iter().map(group).collect(),
            "operations" => map
                .operations
                .iter()
                .map(|(id, operation)| {
                    let replace = match operation {
                        Operation::Replace(replace) => replace,
                        Operation::Split(shard, split) => {
                            let members =
                                split.members.iter().map(|one| format!("{}:{}->{}", one.node, one.parent, one.child));
                            let (child, at) = (split.child, split.at.position.0 >> 50);
                            let members = members.collect::<Vec<_>>().join(",");
                            return format!(
                                "{id}: {} Split child={child} slot={at} members={members}",
                                shard_name(*shard)
                            );
                        }
                    };
                    let placed = |list: &[Placement]| numbers(list, |one| one.replica.0);
                    let (voters, learners) = (placed(&replace.voters), placed(&replace.learners));
                    let (new, behind) = (placements(&replace.new), numbers(&replace.behind, |one| one.0));
                    let (shard, stage) = (shard_name(replace.shard), replace.stage);
                    format!("{id}: {shard} {stage:?} new={new} behind={behind} voters={voters} learners={learners}")
                })
                .collect(),
            "tables" => {
                let (catalogue, tables) = (&map.catalogue, map.catalogue.definitions());
                let versions = format!("catalogue {} named in {}", catalogue.version(), catalogue.named_in());
                let definition = |table: &std::sync::Arc<Table>| {
                    let fields: Vec<String> =
                        table.fields.iter().map(|field| format!("{}#{}", field.name, field.id)).collect();
                    let dropped = if table.dropped { " dropped" } else { "" };
                    format!("{} {} v{} {}{dropped}", table.id, table.name, table.version, fields.join(" "))
                };
                std::iter::once(versions).chain(tables.map(definition)).collect()
            }
            "version" => vec![map.version.to_string()],
            "settings" => {
                let settings = map.settings.iter().map(|(name, value)| format!("{name}={value}"));
                settings.chain([format!("sql={}", map.keyspace.sql)]).collect()
            }
            "libraries" => {
                let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
                map.libraries.iter().map(|(name, library)| format!("{name}={}", text(library))).collect()
            }
            what => panic!("what is {what}?"),
        }
    }
}

fn library((name, text): (&str, &str)) -> (String, Box<[u8]>) {
    (name.to_owned(), text.as_bytes().into())
}

fn told(reply: &Result<Reply, Refusal>) -> String {
    match reply {
        Ok(Reply::Done) => "done".to_owned(),
        Ok(Reply::Node(node)) => format!("node {node}"),
        Ok(Reply::Begun(id)) => format!("operation {id}"),
        Ok(Reply::Table(table)) => format!("table {} {} v{}", table.id, table.name, table.version),
        Ok(Reply::Place(place)) => format!("group {} placed={}", shard_name(place.group), place.placed),
        Err(refusal) => refusal.to_string(),
    }
}

fn numbers<T>(list: &[T], number: impl Fn(&T) -> u64) -> String {
    list.iter().map(|one| number(one).to_string()).collect::<Vec<_>>().join(",")
}

fn placements(list: &[Placement]) -> String {
    list.iter().map(|one| format!("{}@{}", one.replica, one.node)).collect::<Vec<_>>().join(",")
}

fn group(group: &Descriptor) -> String {
    let (shard, conf) = (shard_name(group.shard), group.epoch.conf);
    let members = format!("conf={conf} voters={} learners={}", placements(&group.voters), placements(&group.learners));
    if group.epoch.range <= RangeVersion::FIRST {
        return format!("{shard} {members}");
    }
    let slot = |bound: &Bound| (bound.position.0 >> 50).to_string();
    let (range, lo) = (group.epoch.range, slot(&group.bounds.lo));
    let hi = group.bounds.hi.as_ref().map_or_else(|| "end".to_owned(), slot);
    format!("{shard} range={range} slots={lo}-{hi} {members}")
}

/// Nodes as `name` or `name/zone`; every group begins on the first of them, or on the first three with `replicas=3`.
fn first_map(line: &Line<'_>) -> ClusterMap {
    let names = line.pair("nodes").expect("nodes").split(',');
    let entry = |(number, name): (u64, &str)| {
        let (name, zone) = name.split_once('/').unwrap_or((name, ""));
        let (name, zone, addresses) = (name.to_owned(), zone.to_owned(), DoorAddresses::default());
        NodeEntry { node: NodeId(number), name, zone, addresses }
    };
    let nodes: Vec<NodeEntry> = (1..).zip(names).map(entry).collect();
    let replicas = line.number("replicas").unwrap_or(1);
    let group = |(shard, bounds): (ShardId, Bounds)| {
        let voters = (1..=replicas).map(|number| Placement { node: NodeId(number), replica: ReplicaId(number) });
        let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(1) };
        let (voters, learners) = (voters.collect(), Vec::new());
        Descriptor { shard, epoch, state: ShardState::Serving, bounds, voters, learners }
    };
    let cuts = Interval::cut_evenly(line.number("shards").unwrap_or(1) as u32);
    let records = (1..).map(ShardId).zip(cuts.into_iter().map(Bounds::from));
    let coordination = (0..line.number("groups").unwrap_or(0) as u32)
        .map(|number| (ShardId(ShardId::FIRST_COORDINATION.0 + number), Bounds::default()));
    let meta = (!line.has("bare")).then_some((ShardId::META, Bounds::default()));
    let groups = records.chain(coordination).chain(meta).map(group).collect();
    let cluster = u128::from(line.number("cluster").unwrap_or(7));
    ClusterMap { cluster, version: 1, nodes, groups, sql: line.pair("sql").unwrap_or("none").to_owned() }
}

fn joiner(line: &Line<'_>, name: &str) -> Joiner {
    let peer = line.pair("peer").unwrap_or_default().to_owned();
    let labels = line.pair("label").map(|label| (label.to_owned(), "yes".to_owned()));
    Joiner {
        name: name.trim_matches('\'').to_owned(),
        addresses: DoorAddresses { peer, ..DoorAddresses::default() },
        zone: line.pair("zone").unwrap_or_default().to_owned(),
        labels: labels.into_iter().collect(),
        is_gateway: line.has("gateway"),
        incarnation: line.number("inc").unwrap_or(1),
        start: line.number("start").unwrap_or(0),
    }
}

/// `replaces=2#3`: node 2 at its third start.
fn replaced(line: &Line<'_>) -> Option<Replaced> {
    let (node, incarnation) = line.pair("replaces")?.split_once('#').expect("a node and its start");
    Some(Replaced { node: NodeId(number(node)), incarnation: number(incarnation) })
}

fn field(word: &str) -> Field {
    let (name, kind) = word.split_once(':').expect("a name and a type");
    let kind = FieldType::from_name(kind).expect("a type");
    Field::of(FieldId(0), name, kind.zero())
}

fn table(line: &Line<'_>) -> Table {
    let fields = line.rest[1..].iter().filter(|word| word.contains(':')).map(|word| field(word)).collect();
    let after = line.pair("after").map(str::to_owned).into_iter().collect();
    Table {
        id: TableId(0),
        name: line.word(0).to_owned(),
        version: 0,
        fields,
        sort: Vec::new(),
        backing: if line.has("sql") { Backing::Sql } else { Backing::None },
        sql: SqlOptions { after, ..SqlOptions::default() },
        dynamic: false,
        dropped: false,
        next_field: FieldId(0),
    }
}
