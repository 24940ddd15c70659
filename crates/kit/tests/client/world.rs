//! Hosts that answer, wait, fail and move as a test wants them to. Each has the kit's own guard in front.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardine_kit::provider::{Error, Listing, Provider};
use shardine_kit::{Client, Host, How, Identity, Interval, Mode, Options, Reply, Request, Shard, wire};
use tokio::time::{Instant, sleep};
use tonic::{Code, Response, Status};

/// How a host treats requests, pings among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mood {
    #[default]
    Well,
    /// Takes them and never answers.
    Silent,
    /// Nobody listens there.
    Down,
    /// Answers those with keys by an error that tells what it serves.
    Broken,
    /// Answers what makes the service's `decode` panic.
    Garbled,
    /// Is asked by what panics, in words of its own.
    Cursed,
    /// Says that all keys are its own, and has no value of any.
    Empty,
    /// Has the first key's value twice, one of a key that it was not asked for, and none of the last one.
    Confused { also: u64 },
    /// Answers everything by this, and does not tell what it serves.
    Says(Code),
    /// Says that it has the keys, by a word that is newer every time, and refuses them.
    Denying,
    /// The same, and fails.
    Shaky,
}

/// How the list of hosts treats whoever reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reading {
    #[default]
    Well,
    Panics,
    Hangs,
    /// Takes longer than hosts are searched for.
    Slow,
}

#[derive(Clone)]
pub struct Fake {
    pub shard: Shard,
    pub mood: Mood,
    /// How long it takes to read a value.
    pub reads: Duration,
    /// How long a reply takes to arrive.
    pub travels: Duration,
    /// Added to every value, for replicas that disagree.
    pub bias: u64,
}

impl Fake {
    /// What it serves, in an epoch that nobody has heard of.
    fn says_anew(&self) -> wire::Shard {
        self.shard.serve(self.shard.interval());
        self.shard.describe()
    }
}

/// A request as a host saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub host: String,
    pub keys: Vec<u64>,
    pub at: Duration,
}

pub struct World {
    started: Instant,
    hosts: Mutex<BTreeMap<String, Fake>>,
    sent: Mutex<Vec<Sent>>,
    pub list: Mutex<Option<Vec<String>>>,
    pub reading: Mutex<Reading>,
    /// The timeouts that requests with keys carried.
    pub timeouts: Mutex<Vec<String>>,
    /// The service cannot write down a request without keys.
    pub is_mute: AtomicBool,
    /// Nor one with keys.
    pub is_dumb: AtomicBool,
}

/// A key is its own id and, divided by a thousand, its sharding key: so different keys can be neighbours.
pub struct Letters(pub Arc<World>);

pub struct Answered {
    values: Vec<(u64, u64)>,
    all_matched: bool,
    is_garbled: bool,
    shard: wire::Shard,
}

impl Request for Letters {
    type Key = u64;
    type Value = u64;
    type Id = u64;
    type Asked = Vec<u64>;
    type Answered = Answered;

    fn sharding_key(&self, key: &u64) -> u64 {
        key / 1_000
    }

    fn entry_id(&self, key: &u64) -> u64 {
        *key
    }

    fn encode(&self, keys: &[&u64]) -> Vec<u64> {
        let is_silent = if keys.is_empty() { &self.0.is_mute } else { &self.0.is_dumb };
        assert!(!is_silent.load(Ordering::Relaxed), "this panic is part of the test");
        keys.iter().map(|key| **key).collect()
    }

    fn decode(&self, answered: Answered) -> Result<Reply<u64, u64>, Status> {
        assert!(!answered.is_garbled, "this panic is part of the test");
        Ok(Reply { values: answered.values, all_matched: answered.all_matched, shard: Some(answered.shard) })
    }

    async fn call(&self, host: &Host, asked: tonic::Request<Vec<u64>>) -> Result<Response<Answered>, Status> {
        let timeout = asked.metadata().get("grpc-timeout").map(|time| time.to_str().unwrap().to_owned());
        let asked = asked.into_inner();
        if !asked.is_empty() {
            self.0.timeouts.lock().unwrap().extend(timeout);
        }
        let Some(fake) = self.0.arrives(host.address(), &asked) else {
            return Err(Status::unavailable("no such host"));
        };
        match fake.mood {
            Mood::Silent => std::future::pending().await,
            Mood::Down => return Err(Status::unavailable("nobody listens")),
            Mood::Says(code) => return Err(Status::new(code, "as the test wants it")),
            Mood::Cursed => panic!("{} is part of the test", host.address()),
            Mood::Denying => {
                let shard = fake.says_anew();
                return Ok(Response::new(Answered {
                    values: Vec::new(),
                    all_matched: asked.is_empty(),
                    is_garbled: false,
                    shard,
                }));
            }
            Mood::Shaky => drop(fake.says_anew()),
            Mood::Well | Mood::Broken | Mood::Garbled | Mood::Empty | Mood::Confused { .. } => {}
        }
        let read = async |keys: &[u64]| {
            sleep(fake.reads).await;
            match fake.mood {
                Mood::Broken | Mood::Shaky => Err(Status::internal("no disk")),
                Mood::Empty => Ok(Vec::new()),
                Mood::Confused { also } => {
                    let has = keys.iter().enumerate().filter(|(number, _)| *number == 0 || number + 1 < keys.len());
                    Ok(has
                        .map(|(_, key)| *key)
                        .chain([keys[0]])
                        .map(|key| (key, key * 10))
                        .chain([(also, 1)])
                        .collect())
                }
                _ => Ok(keys.iter().map(|key| (*key, key * 10 + fake.bias)).collect()),
            }
        };
        let answer = fake.shard.get(&asked, |key| key / 1_000, read).await;
        sleep(fake.travels).await;
        answer.map(|answer| {
            let (values, all_matched, shard) = (answer.values, answer.all_matched, answer.shard);
            let is_garbled = fake.mood == Mood::Garbled;
            Response::new(Answered { values, all_matched, is_garbled, shard })
        })
    }
}

impl World {
    pub fn new(hosts: &[(&str, Interval)]) -> Arc<World> {
        let world = World {
            started: Instant::now(),
            hosts: Mutex::default(),
            sent: Mutex::default(),
            list: Mutex::new(Some(hosts.iter().map(|(name, _)| (*name).to_owned()).collect())),
            reading: Mutex::default(),
            timeouts: Mutex::default(),
            is_mute: AtomicBool::new(false),
            is_dumb: AtomicBool::new(false),
        };
        hosts.iter().for_each(|(name, interval)| world.add(name, *interval));
        Arc::new(world)
    }

    /// Starts a host, or the same host anew.
    pub fn add(&self, name: &str, interval: Interval) {
        let started = u64::try_from(self.started.elapsed().as_micros()).unwrap() + 1;
        // The first letter of a host's name is its data centre.
        let shard = Shard::with_incarnation(Identity::new(&name[..1], name), started);
        shard.serve(interval);
        let millisecond = Duration::from_millis(1);
        let fake = Fake { shard, mood: Mood::Well, reads: millisecond, travels: Duration::ZERO, bias: 0 };
        self.hosts.lock().unwrap().insert(name.to_owned(), fake);
    }

    pub fn host(&self, name: &str, change: impl FnOnce(&mut Fake)) {
        change(self.hosts.lock().unwrap().get_mut(name).unwrap());
    }

    fn arrives(&self, host: &str, keys: &[u64]) -> Option<Fake> {
        let sent = Sent { host: host.to_owned(), keys: keys.to_vec(), at: self.started.elapsed() };
        self.sent.lock().unwrap().push(sent);
        self.hosts.lock().unwrap().get(host).cloned()
    }

    /// Forgets what was sent so far.
    pub fn forget(&self) {
        self.sent.lock().unwrap().clear();
    }

    /// Requests with keys, as (host, keys).
    pub fn sent(&self) -> Vec<(String, Vec<u64>)> {
        let mut sent: Vec<_> = self.all_sent().into_iter().filter(|sent| !sent.keys.is_empty()).collect();
        sent.sort_by_key(|sent| (sent.at, sent.host.clone()));
        sent.into_iter().map(|sent| (sent.host, sent.keys)).collect()
    }

    pub fn pings(&self) -> Vec<Sent> {
        self.all_sent().into_iter().filter(|sent| sent.keys.is_empty()).collect()
    }

    pub fn all_sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }

    pub fn cancelled(&self, name: &str) -> u64 {
        self.hosts.lock().unwrap()[name].shard.metrics().cancelled
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The list as the test says; `None` fails.
pub struct Listed(pub Arc<World>);

impl Provider for Listed {
    fn hosts(&self) -> Listing<'_> {
        let reading = *self.0.reading.lock().unwrap();
        assert!(reading != Reading::Panics, "this panic is part of the test");
        if reading == Reading::Hangs {
            return Box::pin(std::future::pending());
        }
        Box::pin(async move {
            if reading == Reading::Slow {
                sleep(Duration::from_millis(2_500)).await;
            }
            self.0.list.lock().unwrap().clone().ok_or_else(|| Error::new("the test", "no list today"))
        })
    }
}

pub struct Stage {
    pub world: Arc<World>,
    pub client: Client<Letters>,
}

impl Stage {
    /// A client that has heard of all hosts once.
    pub async fn new(hosts: &[(&str, Interval)]) -> Stage {
        Self::with(hosts, Options::default()).await
    }

    pub async fn with(hosts: &[(&str, Interval)], options: Options) -> Stage {
        let world = World::new(hosts);
        let client = Client::start(Letters(Arc::clone(&world)), Listed(Arc::clone(&world)), options);
        client.wait_for_hosts(|known| known.len() == hosts.len()).await;
        world.forget();
        Stage { world, client }
    }

    /// Lets so much time pass.
    pub async fn pass(&self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// The interval that the client believes a host to have.
    pub fn believed(&self, host: &str) -> Option<Interval> {
        let known = self.client.hosts();
        known.into_iter().find(|(address, _)| address == host).map(|(_, shard)| shard.interval())
    }
}

pub fn how(mode: Mode) -> How {
    How::mode(mode)
}

/// Values as the world has them.
pub fn values(keys: &[u64]) -> std::collections::HashMap<u64, u64> {
    keys.iter().map(|key| (*key, key * 10)).collect()
}

pub fn at(lo: u64, hi: u64) -> Interval {
    Interval::new(lo, hi)
}
