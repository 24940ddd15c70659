//! Before there is a cluster: the node waits at its gRPC and HTTP doors, asks others whether they know one, and makes one when it
//! is told to. Afterwards it tells the others who they are.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use shardine_accept::Limits;
use shardine_model::{DoorAddresses, ErrorCode, NodeId, Refusal};
use shardine_proto::v1;
use shardine_proto::v1::formation_client::FormationClient;
use shardine_router::{Applicant, ClusterMap, Formation, Joined, Made, Plan, WaitingRoom, Whereabouts};
use shardine_service::GateOptions;
use shardine_shard::meta::{Command, Joiner, Replaced, Reply};
use shardine_store::{DataDir, Identity, NodeFile};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};

use crate::atlas::Sheet;
use crate::exchange::{Exchange, Neighbourhood};
use crate::options::{ClusterOptions, UpOptions};
use crate::peers::Book;
use crate::start_error::StartError;

/// How often the others are asked.
const ASK_EVERY: Duration = Duration::from_millis(300);
/// How long one of them may take to answer, or to be reached.
const PATIENCE: Duration = Duration::from_secs(2);

/// A node that knows its cluster, and holds its directory.
pub struct Found {
    pub(crate) data: DataDir,
    pub(crate) identity: Identity,
    pub(crate) sheet: Arc<Sheet>,
    /// The map as it was when the node came.
    pub(crate) first: Arc<ClusterMap>,
}

/// The node's place in its cluster: at once if its directory knows it, else when there is one. May be dropped at any time.
pub async fn find_cluster(options: &UpOptions, cluster: &ClusterOptions) -> anyhow::Result<Found> {
    let data = DataDir::lock(&options.data).map_err(|error| StartError::name(error.into()))?;
    let mut identity = data.identity()?;
    if let Some(known) = &identity {
        check_name(known, &cluster.name)?;
        if let Some(reason) = data.load_file(NodeFile::Refused)? {
            bail!(
                "this data directory was turned away: {}; start the node with an empty --data",
                String::from_utf8_lossy(&reason)
            );
        }
        if let Some(bytes) = data.load_file(NodeFile::Map)? {
            let sheet = Sheet::from_bytes(&bytes).context("the map in the data directory cannot be read")?;
            check_gateway(&sheet, known.node, cluster)?;
            let first = data.load_file(NodeFile::First)?.context("the file FIRST of the data directory is missing")?;
            let first = Arc::new(ClusterMap::from_bytes(&first).context("the file FIRST in the data directory")?);
            return Ok(Found { data, identity: known.clone(), sheet, first });
        }
        // The last start ended before it had its place. Whoever asks again is another one, and gets another number.
        if data.begin_anew()? {
            identity = None;
        }
    }
    let addresses = options.addresses(cluster);
    let own = Applicant {
        name: cluster.name.clone(),
        zone: cluster.zone.clone(),
        addresses,
        is_gateway: cluster.is_gateway,
        start: rand::random(),
    };
    let lobby = Arc::new(Lobby::new(data, identity, own.clone()));
    let doors = Waiting::open(options, &lobby).await?;
    let mut formed = lobby.formed.subscribe();
    tokio::select! {
        _ = formed.wait_for(|formed| *formed) => {}
        error = ask_others(cluster, options.token.as_deref(), &own, &lobby) => return Err(error),
    }
    doors.close().await;
    lobby.leave().context("the doors of the waiting node did not close")
}

fn check_name(identity: &Identity, name: &str) -> anyhow::Result<()> {
    if identity.name != name {
        bail!(
            "this data directory belongs to the node {:?}: start it with --name {0}, or give another --data",
            identity.name
        );
    }
    Ok(())
}

/// Whoever holds data goes on holding it, whatever its line says: it votes, and others count on it.
fn check_gateway(sheet: &Sheet, node: NodeId, cluster: &ClusterOptions) -> anyhow::Result<()> {
    let held = sheet.full.groups_on(node);
    if cluster.is_gateway && held > 0 {
        bail!(
            "this node holds replicas of {held} groups and cannot be a gateway: start it without --gateway, and empty it first (`shardine node drain {}`)",
            cluster.name
        );
    }
    Ok(())
}

/// Where nodes wait together.
struct Lobby {
    state: Mutex<State>,
    formed: watch::Sender<bool>,
    began: Instant,
}

struct State {
    room: WaitingRoom,
    own: Applicant,
    /// What the directory says already.
    identity: Option<Identity>,
    data: Option<DataDir>,
    found: Option<(Identity, Arc<Sheet>)>,
}

impl Lobby {
    fn new(data: DataDir, identity: Option<Identity>, own: Applicant) -> Self {
        let room = WaitingRoom::new(own.clone());
        let state = State { room, own, identity, data: Some(data), found: None };
        Self { state: Mutex::new(state), formed: watch::Sender::new(false), began: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes its place in the cluster: on disk first, then it counts.
    fn take_place(&self, state: &mut State, node: NodeId, sheet: Arc<Sheet>) -> anyhow::Result<()> {
        let cluster = sheet.full.cluster;
        let identity = Identity { cluster, node, name: state.own.name.clone() };
        if let Some(known) = state.identity.as_ref().filter(|known| **known != identity) {
            bail!(
                "the directory belongs to node {} of cluster {:032x}, and the map says node {node} of {:032x}",
                known.node,
                known.cluster,
                cluster
            );
        }
        let data = state.data.as_ref().context("the node is stopping")?;
        data.adopt(&identity)?;
        data.save_file(NodeFile::First, &sheet.cluster.to_bytes())?;
        data.save_file(NodeFile::Map, &sheet.to_bytes())?;
        state.found = Some((identity, sheet));
        self.formed.send_replace(true);
        Ok(())
    }

    fn leave(&self) -> Option<Found> {
        let mut state = self.lock();
        let (identity, sheet) = state.found.take()?;
        let first = Arc::clone(&sheet.cluster);
        Some(Found { data: state.data.take()?, identity, sheet, first })
    }
}

impl Formation for Lobby {
    fn join(&self, applicant: Applicant) -> Result<Joined, Refusal> {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut state = self.lock();
        // Once formed, the running node answers: it keeps whom it has told.
        if state.found.is_none() {
            state.room.enter(applicant, now_ms)?;
        }
        Ok(Joined::Waiting(state.room.names()))
    }

    fn meet(&self, _: u128, _: Whereabouts) -> Result<Vec<Whereabouts>, Refusal> {
        Err(Refusal::new(ErrorCode::Busy, "this node waits for a cluster itself"))
    }

    fn init(&self, plan: Plan) -> Result<Made, Refusal> {
        let others: Vec<Applicant> = self.lock().room.founders().cloned().collect();
        // An address that only its owner can reach would be in everybody's map for ever.
        others.iter().try_for_each(dial_back)?;
        let mut state = self.lock();
        if state.found.is_some() {
            return Err(Refusal::new(ErrorCode::Exists, "this node belongs to a cluster already"));
        }
        let cluster = state.identity.as_ref().map_or_else(rand::random, |identity| identity.cluster);
        let first = state.room.form(cluster, &plan)?;
        let sheet = Sheet::first(&first)?;
        let own = sheet.member_named(&state.own.name).map(|node| node.node).unwrap_or_default();
        let failed = |error: anyhow::Error| Refusal::new(ErrorCode::Internal, format!("{error:#}"));
        self.take_place(&mut state, own, sheet).map_err(failed)?;
        Ok(Made { cluster, nodes: first.map.nodes.into_iter().map(|node| node.name).collect() })
    }
}

/// Whether one that asks can be reached where it says it is.
fn dial_back(applicant: &Applicant) -> Result<(), Refusal> {
    let address = &applicant.addresses.grpc;
    dial(address).map_err(|error| {
        let message = format!("node {} says it is at {address}: {error}", applicant.name);
        Refusal::new(ErrorCode::BadRequest, message)
    })
}

fn dial(address: &str) -> anyhow::Result<()> {
    let address = address.to_socket_addrs()?.next().context("no such host")?;
    TcpStream::connect_timeout(&address, PATIENCE)?;
    Ok(())
}

/// Asks the others again and again. Returns only what cannot be got over.
async fn ask_others(cluster: &ClusterOptions, token: Option<&str>, own: &Applicant, lobby: &Lobby) -> anyhow::Error {
    let mut last_said = String::new();
    loop {
        for address in &cluster.join {
            match ask(address, token, own).await {
                Ok(Some(formed)) => match settle_in(lobby, formed) {
                    Ok(()) => return std::future::pending().await,
                    Err(error) => return error.context(format!("joining the cluster of {address}")),
                },
                Ok(None) => {}
                Err(status) if status.code() == tonic::Code::AlreadyExists => {
                    return anyhow::anyhow!("{address}: {}", status.message());
                }
                Err(status) => {
                    let said = format!("{address}: {}", status.message());
                    if said != last_said && status.code() != tonic::Code::Unavailable {
                        tracing::warn!("{said}");
                        last_said = said;
                    }
                }
            }
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn settle_in(lobby: &Lobby, formed: v1::Formed) -> anyhow::Result<()> {
    let sheet = Sheet::from_bytes(&formed.map)?;
    lobby.take_place(&mut lobby.lock(), NodeId(formed.node), sheet)
}

/// The door of another node.
pub(crate) async fn reach(address: &str) -> Result<FormationClient<Channel>, tonic::Status> {
    let unreachable = |error: tonic::transport::Error| tonic::Status::unavailable(error.to_string());
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(unreachable)?;
    let channel = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE).connect().await.map_err(unreachable)?;
    Ok(FormationClient::new(channel))
}

/// A request by somebody who may come in.
pub(crate) fn with_token<T>(message: T, token: Option<&str>) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(token) = token.and_then(|token| MetadataValue::try_from(format!("Bearer {token}")).ok()) {
        request.metadata_mut().insert("authorization", token);
    }
    request
}

pub(crate) fn addresses_out(addresses: &DoorAddresses) -> v1::NodeAddresses {
    let DoorAddresses { peer, grpc, redis, http } = addresses.clone();
    v1::NodeAddresses { peer, grpc, redis, http }
}

async fn ask(address: &str, token: Option<&str>, own: &Applicant) -> Result<Option<v1::Formed>, tonic::Status> {
    let request = v1::JoinRequest {
        name: own.name.clone(),
        addresses: Some(addresses_out(&own.addresses)),
        zone: own.zone.clone(),
        start: own.start,
        gateway: own.is_gateway,
    };
    Ok(reach(address).await?.join(with_token(request, token)).await?.into_inner().formed)
}

/// The doors of a node that waits.
struct Waiting {
    closing: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Waiting {
    async fn open(options: &UpOptions, lobby: &Arc<Lobby>) -> anyhow::Result<Self> {
        let bind =
            async |address| TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"));
        let (grpc, http) = (bind(options.grpc).await?, bind(options.http).await?);
        let gate = GateOptions { token: options.token.clone(), ..GateOptions::default() };
        let formation: Arc<dyn Formation> = Arc::clone(lobby) as Arc<dyn Formation>;
        let (closing, closed) = watch::channel(false);
        let shutdown = || {
            let mut closed = closed.clone();
            async move {
                let _ = closed.wait_for(|closed| *closed).await;
            }
        };
        let limits = Limits { grace: PATIENCE, ..Limits::grpc() };
        let service = shardine_grpc::waiting_service(formation, gate);
        let tasks = vec![
            tokio::spawn(shardine_accept::serve(grpc, service, limits, shutdown())),
            tokio::spawn(shardine_accept::serve(http, shardine_http::waiting(), Limits::default(), shutdown())),
        ];
        Ok(Self { closing, tasks })
    }

    async fn close(self) {
        self.closing.send_replace(true);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

/// A node that belongs to a cluster, asked by those that look for theirs.
pub(crate) struct Settled {
    exchange: Arc<Exchange>,
    book: Arc<Book>,
}

impl Settled {
    pub fn new(exchange: Arc<Exchange>, book: Arc<Book>) -> Self {
        Self { exchange, book }
    }

    fn cluster(&self) -> Result<&Neighbourhood, Refusal> {
        let alone = || Refusal::new(ErrorCode::Unsupported, "this node is alone and takes nobody in");
        self.exchange.cluster.as_ref().ok_or_else(alone)
    }

    /// The node whose place one of the same name may take: it has lost its directory, if it is silent and nobody answers where it
    /// was. Who has forgotten its votes never comes back under its old number.
    fn replaced(&self, applicant: &Applicant, sheet: &Sheet) -> Result<Option<Replaced>, Refusal> {
        let Some(known) = sheet.member_named(&applicant.name) else { return Ok(None) };
        if dial(&known.addresses.peer).is_ok() {
            let message = format!(
                "node {} of this cluster is called {:?} and lives: give this one another --name",
                known.node, known.name
            );
            return Err(Refusal::new(ErrorCode::Exists, message));
        }
        if self.cluster()?.board.silent_for(known.node).is_none() {
            let message = format!("node {} was heard a moment ago; its place is free when it stays silent", known.node);
            return Err(Refusal::new(ErrorCode::Busy, message));
        }
        Ok(Some(Replaced { node: known.node, incarnation: known.incarnation }))
    }
}

impl Formation for Settled {
    /// A number is told when it is in the map, and only to the start of the node that it was given to. That is so of those that
    /// founded the cluster, too.
    fn join(&self, applicant: Applicant) -> Result<Joined, Refusal> {
        let sheet = self.cluster()?.atlas.sheet();
        let given = sheet.member_named(&applicant.name).filter(|known| known.start == applicant.start);
        if let Some(given) = given {
            return Ok(Joined::Formed { cluster: sheet.full.cluster, node: given.node, map: sheet.to_bytes() });
        }
        let replaces = self.replaced(&applicant, &sheet)?;
        // An address that only its owner can reach would be in everybody's map.
        dial_back(&applicant)?;
        let Applicant { name, zone, addresses, is_gateway, start } = applicant;
        let (labels, incarnation) = (Default::default(), 0);
        let joiner = Joiner { name, addresses, zone, labels, is_gateway, incarnation, start };
        match self.exchange.ask_meta(Command::Join { joiner, replaces })? {
            Reply::Node(node) => {
                tracing::info!(%node, "a node has joined");
                // It asks again, and finds itself in the map.
                Ok(Joined::Waiting(Vec::new()))
            }
            _ => Err(Refusal::new(ErrorCode::Internal, "the map has no number to give")),
        }
    }

    fn meet(&self, cluster: u128, own: Whereabouts) -> Result<Vec<Whereabouts>, Refusal> {
        let sheet = self.cluster()?.atlas.sheet();
        if cluster != sheet.full.cluster {
            let message =
                format!("this node belongs to the cluster {:032x}, not to {cluster:032x}", sheet.full.cluster);
            return Err(Refusal::new(ErrorCode::Forbidden, message));
        }
        self.book.meet(own);
        Ok(self.book.met())
    }

    fn init(&self, _: Plan) -> Result<Made, Refusal> {
        Err(Refusal::new(ErrorCode::Exists, "this node belongs to a cluster already"))
    }
}
