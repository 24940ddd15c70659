//! Starts a node from its data directory, and stops it.

use std::net::{SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mio::{Poll, Waker};
use shardine_host::{Cradle, Host};
use shardine_model::key::Interval;
use shardine_model::{ReplicaId, ShardId};
use shardine_resp::Options as RespOptions;
use shardine_router::{Formation, RemoteEngine, ShardMap, ShardPlace};
use shardine_shard::meta::Joiner;
use shardine_shard::{Infancy, Newborn, Replica};
use shardine_store::{DataDir, Identity, Storage};
use shardine_transport::Who;
use shardine_writeback::{Backend, Handle, OnClaim, Options as SqlOptions, Owner, Url};

use crate::atlas::Atlas;
use crate::audit::Audit;
use crate::baseline::Baseline;
use crate::catalogue::SharedCatalogue;
use crate::clock::Clock;
use crate::coord::Coordination;
use crate::differences::Differences;
use crate::doors::Doors;
use crate::exchange::{Exchange, ExchangeHandle, Neighbourhood};
use crate::formation::{Found, Settled};
use crate::lane::{self, Core, CoreParts, Lane, Links, Neighbours, Nursery};
use crate::lane_message::{Inbox, LaneMessage};
use crate::log_thread::LogNews;
use crate::meta::MetaKeeper;
use crate::options::UpOptions;
use crate::peers::{Audience, Book, Control, ControlHandle, ControlMessage, Delivery, MapNews, start_bulk};
use crate::places::Places;
use crate::restore::Found as FoundOnDisk;
use crate::schema_manager::{self, SCHEMA_LANE, SchemaManager};
use crate::start_error::StartError;
use crate::stop::{self, Flushing, Stopped};
use crate::topology::{ALONE, LocalReplica, Topology};
use crate::{log_thread, owner_thread, restore, reunion, snapshot_thread};

/// Where the doors of a running node are.
#[derive(Clone, Debug)]
pub struct Addresses {
    pub redis: SocketAddr,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub sql: String,
}

/// A running node. Dropping it does not stop it; [`Node::stop`] does.
pub struct Node {
    addresses: Addresses,
    exchange: Arc<Exchange>,
    lanes: Vec<JoinHandle<()>>,
    coord: Coordination,
    doors: Doors,
    /// Absent on a node that is alone: who keeps the map, and the control links.
    neighbours: Option<(MetaKeeper, (ControlHandle, JoinHandle<()>))>,
    /// Held until the last thread that writes has ended.
    _data: Arc<DataDir>,
}

impl Node {
    /// A node that is alone for ever. Where somebody can do something about it, the error is a [`StartError`].
    pub fn start(options: &UpOptions) -> anyhow::Result<Self> {
        Self::bring_up(&options.without_empty_token()).map_err(StartError::name)
    }

    fn bring_up(options: &UpOptions) -> anyhow::Result<Self> {
        check_exposure(options)?;
        let data = DataDir::lock(&options.data)?;
        let new = || Identity { cluster: rand::random(), node: ALONE, name: String::new() };
        let identity = data.identity()?.unwrap_or_else(new);
        if !identity.name.is_empty() {
            bail!(
                "this data directory belongs to the node {:?} of a cluster: `shardine start` starts it",
                identity.name
            );
        }
        Self::start_as(options, data, &identity, &Topology::alone())
    }

    /// A node of a cluster.
    pub fn start_found(options: &UpOptions, found: Found) -> anyhow::Result<Self> {
        let Found { data, identity, sheet, first } = found;
        let topology = Topology { node: identity.node, sheet: Some(sheet), first: Some(first) };
        let options = options.without_empty_token();
        check_exposure(&options).map_err(anyhow::Error::from)?;
        Self::start_as(&options, data, &identity, &topology).map_err(StartError::name)
    }

    fn start_as(options: &UpOptions, data: DataDir, identity: &Identity, topology: &Topology) -> anyhow::Result<Self> {
        let incarnation = data.adopt(identity)?;
        let data = Arc::new(data);
        let start: u64 = rand::random();
        let address = options.redis;
        let listener = TcpListener::bind(address).map_err(|cause| StartError::Listen { address, cause })?;
        listener.set_nonblocking(true)?;
        let redis = listener.local_addr()?;
        let resp = Arc::new(resp_options(options, redis.port()));
        let storage = Arc::new(Storage::open(&data, Default::default())?);
        restore::drop_removed(&storage, topology)?;

        let (sql_url, url) = sql_url(options, topology)?;
        let shards = topology.shard_count(&storage, options)?;
        let lanes = options.lane_count(shards);
        let mut posts = Vec::new();
        for _ in 0..lanes {
            let poll = Poll::new()?;
            let (inbox, mailbox) = Inbox::new(Waker::new(poll.registry(), lane::waker_token())?);
            posts.push((poll, inbox, mailbox));
        }
        let inboxes: Vec<Inbox> = posts.iter().map(|(_, inbox, _)| inbox.clone()).collect();
        let map = topology.shard_map(shards, lanes);
        let memory_max = memory_share(options, map.places().len());
        let (snapshot_log_bytes, memory_total) = (options.snapshot_log_bytes, options.memory_max);
        let split = options.split;
        let nursery = Nursery { incarnation, snapshot_log_bytes, memory_max, memory_total, split };
        let placed = map.places().iter().filter_map(|place| Some((Some(*place), topology.local(place.shard)?)));
        let unmapped = restore::unmapped(&storage, topology)?.into_iter().map(|local| (None, local));
        let locals: Vec<(Option<ShardPlace>, LocalReplica)> = placed.chain(unmapped).collect();
        let replicas = restore::side_by_side(&locals, |(place, local)| replica(*place, local, &storage, &nursery));
        // In a cluster a log may be behind the others': what counts is what a leader finds in its own when it is elected.
        let whole = || replicas.iter().flatten().filter_map(Brought::whole);
        let ends = whole().filter(|_| topology.sheet.is_none());
        let ends: Vec<(ShardId, u64)> = ends.map(|found| (found.replica.shard(), found.log_end)).collect();
        let baseline = Arc::new(Baseline::open(data.path(), &ends)?);
        let clock = Clock::start();
        let stamps = whole().map(|found| found.replica.stamp());
        clock.begin_behind(stamps.max().unwrap_or_default(), topology.sheet.is_some());
        let owner = Owner {
            cluster: identity.cluster,
            node: identity.node,
            incarnation,
            start: start.cast_signed(),
            adopts: options.adopt_sql,
        };
        let (sql, schema_sql) = start_sql(sql_options(url, owner, &baseline), &inboxes)?;
        let (requests, request_box) = schema_manager::schema_requests();
        let exchange = Arc::new(Exchange {
            scripts: Arc::clone(&resp.scripts),
            shelf: Arc::clone(&resp.shelf),
            places: Places::new(map.clone(), identity.node, topology.sheet.as_ref().map(|it| Arc::clone(&it.cluster))),
            inboxes,
            catalogue: SharedCatalogue::new(topology.catalogue()),
            schema_manager: Mutex::new(requests),
            sql,
            sql_url: sql_url.clone(),
            baseline,
            node: identity.node.0,
            started: Instant::now(),
            clock: clock.clone(),
            storage: Arc::clone(&storage),
            split_bytes: options.split.bytes,
            differences: Differences::new(options.checksum_every),
            audit: Audit::default(),
            coord: OnceLock::new(),
            cluster: topology.sheet.as_ref().map(|sheet| Neighbourhood {
                atlas: Atlas::new(Arc::clone(sheet)),
                board: Arc::default(),
                control: OnceLock::new(),
                meta: OnceLock::new(),
            }),
        });
        let neighbours = topology.sheet.as_ref().map(|sheet| {
            let (cluster, node, name) = (identity.cluster, identity.node, identity.name.clone());
            let who = Who { cluster, node, name, incarnation, start, features: 0 };
            let own = options.cluster.as_ref().map(|cluster| options.addresses(cluster)).unwrap_or_default();
            let book = Arc::new(Book::open(who, own, sheet, Arc::clone(&data))?);
            let (bulk, _) = start_bulk(Arc::clone(&book), Arc::clone(&storage))?;
            anyhow::Ok(Neighbours { book, sheet: Arc::clone(sheet), bulk })
        });
        let neighbours = neighbours.transpose()?;

        let population = Arc::new(lane::Population::new(lanes, options.connections_max));
        let mut held = Vec::new();
        let mut threads = Vec::new();
        let mut hosts: Vec<Host<Replica>> = posts.iter().map(|_| exchange.differences.host()).collect();
        seat_all(&mut hosts, &map, locals.iter().zip(replicas), storage.removed());
        for (number, ((poll, inbox, mailbox), host)) in posts.into_iter().zip(hosts).enumerate() {
            let news = inbox.clone();
            let tell = move |what| {
                news.send(match what {
                    LogNews::Persisted(synced) => LaneMessage::Persisted(synced),
                    LogNews::SnapshotNow(shard) => LaneMessage::SnapshotNow(shard),
                });
            };
            let name = number.to_string();
            let log_thread = log_thread::start(&name, Arc::clone(&storage), tell)?;
            let tell = move |news| inbox.send(LaneMessage::Snapshot(news));
            let snapshots = snapshot_thread::start(&name, Arc::clone(&storage), tell)?;
            let core = Core::new(CoreParts {
                number,
                host,
                nursery,
                exchange: Arc::clone(&exchange),
                log: log_thread,
                snapshots,
                clock: clock.clone(),
            });
            let connections = lane::Connections::new(number, Arc::clone(&resp), Arc::clone(&population));
            let links = neighbours.clone().map(|neighbours| Links::new(number, neighbours));
            let mut lane = Lane::new(poll, mailbox, core, connections, links, Arc::clone(&exchange), clock.clone());
            lane.bring_up();
            held.extend(lane.catalogues());
            threads.push(owner_thread::spawn(format!("lane-{number}"), move || lane.run())?);
        }
        let definitions = match topology.sheet {
            None => schema_manager::definitions(&held),
            Some(_) => topology.catalogue(),
        };
        let schema_manager = SchemaManager::new(Arc::clone(&exchange), definitions, schema_sql, Arc::clone(&data))?;
        if let Some(sheet) = &topology.sheet {
            exchange.shelf.turn_to(&sheet.full.libraries);
        }
        if topology.sheet.is_none() {
            schema_manager.reconcile(&held)?;
        } else {
            exchange.tell_lanes(|| LaneMessage::Catalogue);
        }
        schema_manager.start(request_box)?;
        let engine: Arc<dyn RemoteEngine> = Arc::new(ExchangeHandle(Arc::clone(&exchange)));
        let groups = topology.coord_groups(&storage, options)?;
        let own_storage = Arc::clone(&storage);
        let coord =
            Coordination::start(groups, topology, own_storage, incarnation, clock.clone(), Arc::clone(&exchange))?;
        let _ = exchange.coord.set(coord.window());
        let joiner = joiner(options, identity, incarnation, start);
        let book = neighbours.as_ref().map(|neighbours| Arc::clone(&neighbours.book));
        let neighbours = neighbours.map(|neighbours| {
            let links = (Arc::clone(&neighbours.book), neighbours.bulk.clone(), Arc::clone(&data));
            let meta = MetaKeeper::start(topology, &storage, joiner, clock.clone(), &exchange, links)?;
            let control = start_control(options, neighbours, clock, &exchange, &coord, &meta)?;
            anyhow::Ok((meta, control))
        });
        let neighbours = neighbours.transpose()?;
        let formation = book.as_ref().map(|book| {
            let settled = Settled::new(Arc::clone(&exchange), Arc::clone(book));
            Arc::new(settled) as Arc<dyn Formation>
        });
        let doors = Doors::open(&engine, coord.engine(), formation, options)?;
        if let (Some(book), Some(cluster)) = (book, &options.cluster) {
            doors.spawn(reunion::run(book, Arc::clone(&exchange), cluster.join.clone(), options.token.clone()));
        }
        exchange.inboxes[0].send(LaneMessage::Listen(listener));
        // Alone, the disk has told.
        if topology.sheet.is_none() {
            exchange.tell_lanes(|| LaneMessage::TablesKnown);
        }
        let addresses = Addresses { redis, grpc: doors.grpc, http: doors.http, sql: sql_url };
        Ok(Self { addresses, exchange, lanes: threads, coord, doors, neighbours, _data: data })
    }

    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The way in for doors on other threads.
    #[must_use]
    pub fn engine(&self) -> Arc<dyn RemoteEngine> {
        Arc::new(ExchangeHandle(Arc::clone(&self.exchange)))
    }

    /// Stops cleanly: no more requests are taken, those in flight end, SQL gets what it lacks within the limit, every
    /// lane finishes its turn and its last log write. `watch` hears of the rows on their way and may end the wait.
    pub fn stop(self, limit: Duration, watch: &mut dyn FnMut(Flushing) -> ControlFlow<()>) -> Stopped {
        let until = Instant::now() + limit;
        if self.neighbours.is_some() {
            stop::hand_over(&self.exchange);
        }
        self.exchange.tell_lanes(|| LaneMessage::CloseDoor);
        self.doors.begin_to_close();
        // Their streams have no end of their own; sessions live on and are come back to.
        self.coord.close_streams();
        stop::flush(&self.exchange, until, watch);
        self.doors.close();
        // Requests that ended meanwhile may have changed rows.
        stop::flush(&self.exchange, until, watch);
        let stopped = stop::report(&self.exchange);
        self.exchange.tell_lanes(|| LaneMessage::Stop);
        for lane in self.lanes {
            let _ = lane.join();
        }
        self.coord.stop();
        if let Some((meta, (control, thread))) = self.neighbours {
            meta.stop();
            control.send(ControlMessage::Goodbye);
            control.send(ControlMessage::Stop);
            let _ = thread.join();
        }
        if let Some(sql) = &self.exchange.sql {
            sql.stop();
        }
        stopped
    }
}

/// Opens the peer port, and tells the others that this node lives.
fn start_control(
    options: &UpOptions,
    neighbours: Neighbours,
    clock: Clock,
    exchange: &Arc<Exchange>,
    coord: &Coordination,
    meta: &MetaKeeper,
) -> anyhow::Result<(ControlHandle, JoinHandle<()>)> {
    let cluster = exchange.cluster.as_ref().context("a node with neighbours has a map")?;
    let address = options.cluster.as_ref().context("a node of a cluster is told its peer port")?.peer;
    let listener = TcpListener::bind(address).map_err(|cause| StartError::Listen { address, cause })?;
    let (receiver, keeper) = (Arc::clone(exchange), meta.handle.clone());
    let (tell_coord, tell_meta, hear_map) = (coord.hear_of_peers(), meta.handle.clone(), meta.handle.clone());
    let audience = Audience {
        lanes: exchange.inboxes.clone(),
        tell: Box::new(move |news| {
            tell_coord(news.clone());
            tell_meta.peer(news);
        }),
        deliver: Arc::new(move |delivery| match delivery {
            Delivery::Snapshot(shard, message, prepared) => receiver.step_snapshot(shard, *message, prepared),
            Delivery::Map(map) => keeper.hear(MapNews::Delta(map)),
        }),
        storage: Arc::clone(&exchange.storage),
        map: Box::new(move |news| hear_map.hear(news)),
    };
    let _ = cluster.meta.set(meta.handle.clone());
    let board = Arc::clone(&cluster.board);
    let (control, handle) = Control::open(listener, neighbours.book, board, clock, audience)?;
    let _ = cluster.control.set(handle.clone());
    Ok((handle, control.start()?))
}

/// Listening beyond this machine without a token is refused: data would lie open (reliability S1).
fn check_exposure(options: &UpOptions) -> Result<(), StartError> {
    let doors = [("redis", options.redis), ("grpc", options.grpc), ("http", options.http)];
    for (door, address) in doors {
        if !address.ip().is_loopback() && options.token.is_none() && !options.insecure {
            return Err(StartError::Exposed { door, address });
        }
    }
    Ok(())
}

fn resp_options(options: &UpOptions, port: u16) -> RespOptions {
    RespOptions {
        password: options.token.as_deref().map(shardine_resp::Password::new),
        port,
        memory_max: options.memory_max,
        connections_max: options.connections_max,
        seed: rand::random(),
        scripts: Arc::new(shardine_resp::Book::checking(shardine_script::check)),
        shelf: Arc::new(shardine_resp::Shelf::reading(shardine_script::read_library)),
        ..RespOptions::default()
    }
}

/// Of a cluster it is the map that says it.
fn sql_url(options: &UpOptions, topology: &Topology) -> anyhow::Result<(String, Url)> {
    let text = match (&options.sql, topology.map()) {
        (_, Some(map)) => map.sql.clone(),
        (Some(text), None) => text.clone(),
        (None, None) => format!("sqlite:{}", options.data.join("shardine.db").display()),
    };
    // It leads nothing, so it has nothing to write and nothing to ask SQL for.
    let is_gateway = options.cluster.as_ref().is_some_and(|cluster| cluster.is_gateway);
    let text = if is_gateway { Url::None.to_string() } else { text };
    // The text may hold a password, and is shown to nobody.
    let url: Url =
        text.parse().map_err(|error: shardine_writeback::UrlError| StartError::SqlAddress(error.to_string()))?;
    Ok((url.to_string(), url))
}

/// How SQL is spoken to, and as whom.
fn sql_options(url: Url, owner: Owner, baseline: &Arc<Baseline>) -> SqlOptions {
    let baseline = Arc::clone(baseline);
    SqlOptions {
        owner: Some(owner),
        on_claim: OnClaim::new(move |traces| baseline.compare(traces)),
        ..SqlOptions::new(url)
    }
}

/// Starts SQL, whose outcomes go to the lane that asked, or to the schema manager.
fn start_sql(
    options: SqlOptions,
    inboxes: &[Inbox],
) -> anyhow::Result<(Option<Handle>, std::sync::mpsc::Receiver<shardine_writeback::JobOutcome>)> {
    let (give, take) = channel();
    if options.url.is_none() {
        return Ok((None, take));
    }
    let inboxes = inboxes.to_vec();
    let give = Mutex::new(give);
    let notify = move |done: shardine_writeback::JobOutcome| {
        let lane = lane::sql_lane(done.ticket());
        if lane as u64 == SCHEMA_LANE {
            let give = give.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let _ = give.send(done);
        } else if let Some(inbox) = inboxes.get(lane) {
            inbox.send(LaneMessage::Sql(done));
        }
    };
    Ok((Some(Backend::start(&options, notify)?), take))
}

/// Keys are spread evenly over shards, and so is memory. A share is never 0, which would be no limit.
fn memory_share(options: &UpOptions, shards: usize) -> u64 {
    if options.memory_max == 0 { 0 } else { (options.memory_max / shards.max(1) as u64).max(1) }
}

/// What the disk had of a replica.
enum Brought {
    Whole(Box<FoundReplica>),
    /// It is born again when the log of the shard that it was parted off has come to that.
    Infant(Infancy),
    Nothing,
}

/// A replica as the disk had it, with its log applied as far as is certain.
struct FoundReplica {
    replica: Replica,
    /// What was parted off it meanwhile.
    newborn: Vec<Newborn>,
    /// The last entry in its log.
    log_end: u64,
}

impl Brought {
    fn whole(&self) -> Option<&FoundReplica> {
        match self {
            Self::Whole(found) => Some(found),
            Self::Infant(_) | Self::Nothing => None,
        }
    }
}

/// A replica from what the disk has of it, or why there is none.
fn replica(
    place: Option<ShardPlace>,
    local: &LocalReplica,
    storage: &Storage,
    nursery: &Nursery,
) -> Result<Brought, String> {
    let seed = rand::random();
    let interval = place.map_or(Interval::ALL, |place| place.interval);
    let restored = restore::restore(storage, local, interval, seed);
    let brought = restored.map_err(|error| format!("{error:#}")).and_then(|found| match found {
        FoundOnDisk::Whole(records, restored) => {
            let replica = nursery.replica(local.shard, local.replica, seed, *records, restored);
            let log_end = replica.log_progress().inherited;
            let (replica, newborn) = replica.catch_up()?;
            Ok(Brought::Whole(Box::new(FoundReplica { replica, newborn, log_end })))
        }
        FoundOnDisk::Infant(infancy) => Ok(Brought::Infant(infancy)),
        FoundOnDisk::Nothing => Ok(Brought::Nothing),
    });
    brought.inspect_err(|reason| {
        tracing::error!(shard = %local.shard, %reason, "a shard cannot be read; the others go on");
    })
}

/// Gives every replica its seat, on the lane that has its positions, and what was parted off them meanwhile.
fn seat_all<'a>(
    hosts: &mut [Host<Replica>],
    map: &ShardMap,
    replicas: impl Iterator<Item = (&'a (Option<ShardPlace>, LocalReplica), Result<Brought, String>)>,
    removed: Vec<(ShardId, ReplicaId)>,
) {
    let mut cradle = Cradle { removed: removed.into_iter().collect(), ..Cradle::default() };
    let mut newborns = Vec::new();
    for ((place, local), brought) in replicas {
        let known = place.map_or(0, |place| place.lane);
        match brought {
            Ok(Brought::Nothing) => {}
            Ok(Brought::Infant(infancy)) => drop(cradle.infancies.insert(local.shard, (local.replica, infancy))),
            Ok(Brought::Whole(found)) => {
                let FoundReplica { replica, newborn, .. } = *found;
                let lane = place.map_or_else(|| map.find(replica.bounds().lo.position).lane, |place| place.lane);
                hosts[lane].add(local.shard, local.replica, Ok(replica));
                newborns.extend(newborn.into_iter().map(|newborn| (lane, newborn)));
            }
            Err(reason) => drop(hosts[known].add(local.shard, local.replica, Err(reason))),
        }
    }
    hosts.iter_mut().for_each(|host| host.set_cradle(cradle.clone()));
    newborns.into_iter().for_each(|(lane, newborn)| hosts[lane].settle(newborn));
}

/// What this start of a node says of itself.
fn joiner(options: &UpOptions, identity: &Identity, incarnation: u64, start: u64) -> Joiner {
    let cluster = options.cluster.as_ref();
    Joiner {
        name: identity.name.clone(),
        addresses: cluster.map(|cluster| options.addresses(cluster)).unwrap_or_default(),
        zone: cluster.map(|cluster| cluster.zone.clone()).unwrap_or_default(),
        labels: Default::default(),
        is_gateway: cluster.is_some_and(|cluster| cluster.is_gateway),
        incarnation,
        start,
    }
}

#[cfg(test)]
mod tests {
    use shardine_shard::{LEASE_LENGTH_MS, LEASE_TRUST_MS};

    use super::*;

    /// write-back 79, 81: a holder trusts its lease for less time than others wait, and a statement that it began at
    /// the last moment is over before the first one of the next holder.
    #[test]
    fn write_back_79_81_an_old_leaders_last_statement_ends_before_a_new_ones_first() {
        let options = shardine_writeback::Options::new(Url::None);
        let longest = options.statement_timeout.max(options.busy_timeout) + shardine_writeback::GRACE;

        assert!(u128::from(LEASE_TRUST_MS) + longest.as_millis() < u128::from(LEASE_LENGTH_MS));
    }
}
