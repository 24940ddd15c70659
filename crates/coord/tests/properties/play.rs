//! A small world for random acts: five clients, three semaphores, one node, a log that commits at once or later.

use std::collections::VecDeque;

use proptest::prelude::*;
use shardine_coord::{
    Ask, Config, Coord, CutStep, Gathered, Leader, Message, NodeCall, NodeNumber, Opening, Out, Pace, ResourceCall,
    SessionId, StreamId, Ticket,
};
use shardine_model::checksum::Sum;

pub const NAMES: [&str; 3] = ["door", "gate", "lock"];
const CLIENTS: usize = 5;
const RESOURCES: [&str; 3] = ["api", "api/reads", "web"];
const PATH: &str = "/local/locks";

/// What may happen. Semaphore 2 is ephemeral.
#[derive(Clone, Debug)]
pub enum Act {
    Start {
        client: usize,
        timeout_ms: u64,
    },
    Lose {
        client: usize,
    },
    Stop {
        client: usize,
    },
    Create {
        client: usize,
        semaphore: usize,
        limit: u64,
    },
    Update {
        client: usize,
        semaphore: usize,
    },
    Delete {
        client: usize,
        semaphore: usize,
        force: bool,
    },
    Acquire {
        client: usize,
        semaphore: usize,
        count: u64,
        timeout_ms: u64,
    },
    Release {
        client: usize,
        semaphore: usize,
    },
    Watch {
        client: usize,
        semaphore: usize,
    },
    Wait {
        ms: u64,
    },
    /// A resource of the rate limiter is made, altered or dropped, whatever there is.
    Resource {
        path: usize,
        rate: u64,
    },
    NewLeader,
    /// Keeps entries back, or lets them through.
    Hold(bool),
    DropNode,
}

impl Act {
    pub fn any() -> impl Strategy<Value = Self> {
        let client = || 0..CLIENTS;
        let semaphore = || 0..NAMES.len();
        let acquire = (client(), semaphore(), 1..5u64, prop_oneof![Just(0), 1..3_000u64, Just(u64::MAX)]);
        prop_oneof![
            4 => (client(), 0..20_000u64).prop_map(|(client, timeout_ms)| Self::Start { client, timeout_ms }),
            2 => client().prop_map(|client| Self::Lose { client }),
            1 => client().prop_map(|client| Self::Stop { client }),
            2 => (client(), 0..2usize, 1..5u64)
                .prop_map(|(client, semaphore, limit)| Self::Create { client, semaphore, limit }),
            1 => (client(), semaphore()).prop_map(|(client, semaphore)| Self::Update { client, semaphore }),
            1 => (client(), semaphore(), any::<bool>())
                .prop_map(|(client, semaphore, force)| Self::Delete { client, semaphore, force }),
            40 => acquire.prop_map(|(client, semaphore, count, timeout_ms)| Self::Acquire {
                client, semaphore, count, timeout_ms
            }),
            20 => (client(), semaphore()).prop_map(|(client, semaphore)| Self::Release { client, semaphore }),
            2 => (client(), semaphore()).prop_map(|(client, semaphore)| Self::Watch { client, semaphore }),
            4 => (1..2_000u64).prop_map(|ms| Self::Wait { ms }),
            8 => (0..RESOURCES.len(), 0..4u64).prop_map(|(path, rate)| Self::Resource { path, rate }),
            1 => Just(Self::NewLeader),
            2 => any::<bool>().prop_map(Self::Hold),
            1 => Just(Self::DropNode),
        ]
    }
}

#[derive(Clone, Copy, Default)]
struct Client {
    stream: Option<StreamId>,
    session: SessionId,
}

pub struct Stage {
    pub coord: Coord,
    pub follower: Coord,
    pub node: NodeNumber,
    /// The largest number of an acquire so far.
    pub last_order: u64,
    leader: Leader,
    out: Out,
    log: VecDeque<Gathered>,
    holds: bool,
    clients: [Client; CLIENTS],
    next_stream: u64,
    now_ms: u64,
}

impl Stage {
    pub fn open() -> Self {
        let (coord, follower) = (Coord::new(), Coord::new());
        let mut stage = Self {
            coord,
            follower,
            node: NodeNumber(1),
            last_order: 0,
            leader: Leader::new(),
            out: Out::default(),
            log: VecDeque::new(),
            holds: false,
            clients: [Client::default(); CLIENTS],
            next_stream: 0,
            now_ms: 0,
        };
        stage.leader.take_over(&stage.coord, 0);
        stage.make_node();
        // Most of what can go wrong needs a crowd.
        for client in 0..CLIENTS {
            stage.act(&Act::Start { client, timeout_ms: 20_000 });
        }
        stage.act(&Act::Create { client: 0, semaphore: 0, limit: 4 });
        stage.act(&Act::Create { client: 0, semaphore: 1, limit: 2 });
        stage
    }

    fn make_node(&mut self) {
        let call = NodeCall::Create { path: PATH.to_owned(), config: Config::default() };
        self.leader.call(&self.coord, Ticket(1), &call, &mut self.out);
        self.settle();
    }

    pub fn act(&mut self, act: &Act) {
        match *act {
            Act::Start { client, timeout_ms } => self.start(client, timeout_ms),
            Act::Lose { client } => {
                if let Some(stream) = self.clients[client].stream.take() {
                    self.leader.close(&self.coord, stream);
                }
            }
            Act::Stop { client } => self.ask(client, &Ask::Stop),
            Act::Create { client, semaphore, limit } => {
                self.ask(client, &Ask::Create { req: 0, name: name(semaphore), limit, data: Vec::new() });
            }
            Act::Update { client, semaphore } => {
                self.ask(
                    client,
                    &Ask::Update { req: 0, name: name(semaphore), data: self.now_ms.to_le_bytes().to_vec() },
                );
            }
            Act::Delete { client, semaphore, force } => {
                self.ask(client, &Ask::Delete { req: 0, name: name(semaphore), force });
            }
            Act::Acquire { client, semaphore, count, timeout_ms } => {
                let (name, ephemeral) = (name(semaphore), semaphore == 2);
                self.ask(client, &Ask::Acquire { req: 0, name, timeout_ms, count, data: b"mine".to_vec(), ephemeral });
            }
            Act::Release { client, semaphore } => self.ask(client, &Ask::Release { req: 0, name: name(semaphore) }),
            Act::Watch { client, semaphore } => self.watch(client, semaphore),
            Act::Wait { ms } => {
                self.now_ms += ms;
                self.leader.set_time(&self.coord, self.now_ms, &mut self.out);
                self.leader.tick(&self.coord, &mut self.out);
            }
            Act::NewLeader => {
                // What was not proposed is lost with its leader; what was may be committed, and nobody waits for it.
                while self.out.take_entry().is_some() {}
                self.leader.step_down(&mut self.out);
                self.log.truncate((self.now_ms % 3) as usize);
                self.log.iter_mut().for_each(|entry| entry.origins.clear());
                let holds = std::mem::take(&mut self.holds);
                self.settle();
                self.holds = holds;
                self.leader.take_over(&self.coord, self.now_ms);
            }
            Act::Resource { path, rate } => self.resource(RESOURCES[path], rate),
            Act::Hold(holds) => self.holds = holds,
            Act::DropNode => {
                self.leader.call(&self.coord, Ticket(0), &NodeCall::Drop { path: PATH.to_owned() }, &mut self.out);
                self.make_node();
            }
        }
        self.settle();
    }

    fn start(&mut self, client: usize, timeout_ms: u64) {
        self.next_stream += 1;
        let stream = StreamId(self.next_stream);
        let session = self.clients[client].session;
        self.clients[client].stream = Some(stream);
        let opening = Opening { path: PATH.to_owned(), session, timeout_ms, ..Opening::default() };
        self.leader.start(&self.coord, stream, &opening, &mut self.out);
    }

    fn resource(&mut self, path: &str, rate: u64) {
        let pace = Pace { max_units_per_second: rate as f64, ..Pace::default() };
        for call in match rate {
            0 => vec![ResourceCall::Drop],
            _ => vec![ResourceCall::Create(pace), ResourceCall::Alter(pace)],
        } {
            let call = NodeCall::Resource { node: PATH.to_owned(), path: path.to_owned(), call };
            self.leader.call(&self.coord, Ticket(0), &call, &mut self.out);
        }
    }

    fn ask(&mut self, client: usize, ask: &Ask) {
        if let Some(stream) = self.clients[client].stream {
            self.leader.ask(&self.coord, stream, ask, &mut self.out);
        }
    }

    fn watch(&mut self, client: usize, semaphore: usize) {
        let name = name(semaphore);
        let ask = Ask::Describe { req: 0, name, owners: true, waiters: true, watch_data: true, watch_owners: true };
        self.ask(client, &ask);
    }

    fn settle(&mut self) {
        loop {
            while let Some(entry) = self.out.take_entry() {
                self.log.push_back(entry);
            }
            self.hear();
            if self.holds {
                return;
            }
            let Some(entry) = self.log.pop_front() else { break };
            let (leader, out) = (&mut self.leader, &mut self.out);
            let mut origins = entry.origins.into_iter();
            self.coord
                .apply(&entry.bytes, |coord, notices, outcome| {
                    leader.applied(coord, notices, origins.next(), outcome, out);
                })
                .expect("our own entries can be read");
            self.follower.apply(&entry.bytes, |_, _, _| {}).expect("our own entries can be read");
        }
        let node = self.coord.find_node(PATH).unwrap_or_default();
        if node != self.node {
            (self.node, self.last_order) = (node, 0);
        }
    }

    fn hear(&mut self) {
        for (stream, message) in self.out.messages.drain(..) {
            let Some(client) = self.clients.iter_mut().find(|client| client.stream == Some(stream)) else { continue };
            match message {
                Message::Started { session, .. } => client.session = session,
                Message::Failure(_) | Message::Stopped { .. } => *client = Client::default(),
                _ => {}
            }
        }
    }

    /// Cuts a snapshot, one step after every act, and makes a replica of it.
    pub fn cut_while(&mut self, during: &[Act]) -> Coord {
        let whole = sum(&mut self.coord);
        let mut restored = self.cut_beside(during, whole);
        assert_eq!(sum(&mut restored), whole, "in whatever order its parts came");
        restored
    }

    fn cut_beside(&mut self, during: &[Act], whole: Sum) -> Coord {
        self.coord.begin_cut();
        let (mut acts, mut chunks) = (during.iter(), Vec::new());
        while let CutStep::Chunk(chunk) = self.coord.cut_step_of(1) {
            chunks.push(chunk);
            acts.by_ref().take(3).for_each(|act| self.act(act));
        }
        let mut summing = Coord::summing();
        chunks.iter().for_each(|chunk| summing.push(chunk).expect("a chunk"));
        assert_eq!(
            summing.finish().expect("a whole stream"),
            whole,
            "a sum is of the state at the beginning of its cut"
        );
        Coord::new().restored(chunks).expect("our own snapshots can be read")
    }
}

/// The sum of a state, by a cut that nothing comes between (reliability I33).
fn sum(coord: &mut Coord) -> Sum {
    let mut summing = Coord::summing();
    coord.begin_cut();
    while let CutStep::Chunk(chunk) = coord.cut_step() {
        summing.push(&chunk).expect("a chunk");
    }
    summing.finish().expect("a whole stream")
}

fn name(semaphore: usize) -> String {
    NAMES[semaphore].to_owned()
}
