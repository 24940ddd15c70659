//! What a node is started with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use shardine_host::SplitLimits;
use shardine_router::DoorAddresses;
use shardine_ydb::Access;

#[derive(Clone, Debug)]
pub struct UpOptions {
    pub data: PathBuf,
    pub redis: SocketAddr,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    /// Names that the HTTP door answers to beside its own address.
    pub http_hosts: Vec<String>,
    /// `sqlite:PATH` or `none`; `None` means SQLite inside the data directory.
    pub sql: Option<String>,
    /// Takes the SQL database over from another cluster, or from a later start of this node.
    pub adopt_sql: bool,
    /// Shards of the keyspace `default` in a new data directory; an old one keeps what it has, and refuses another number.
    pub shards: Option<u32>,
    /// Coordination groups of a new data directory; an old one keeps what it has, and refuses another number.
    pub coord_groups: Option<u32>,
    /// Threads that own shards and connections; `None` lets the machine decide.
    pub lanes: Option<usize>,
    /// Redis `AUTH` password and bearer token of the other doors.
    pub token: Option<String>,
    /// Further tokens for coordination, each with what it may do where. They need `token` beside them.
    pub access: Vec<Access>,
    /// Allows listening beyond loopback without a token.
    pub insecure: bool,
    pub connections_max: usize,
    /// Log bytes behind a snapshot before the next one is cut, per shard.
    pub snapshot_log_bytes: u64,
    /// Bytes of records in memory, of all shards together; above, those that SQL has are evicted. 0 means no limit.
    pub memory_max: u64,
    /// How often the replicas of a group are compared; nothing means never.
    pub checksum_every: Duration,
    /// When a shard of a cluster is parted by itself.
    pub split: SplitLimits,
    /// How long a clean stop waits for SQL to take what it lacks.
    pub flush_timeout: Duration,
    /// Who else there is; `None` for a node that is alone for ever.
    pub cluster: Option<ClusterOptions>,
}

/// A node's part in a cluster, as it is told by whoever starts it.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    pub name: String,
    pub zone: String,
    /// Whether it holds no data and only passes requests on.
    pub is_gateway: bool,
    /// gRPC doors of nodes that may know the cluster. One's own among them does no harm.
    pub join: Vec<String>,
    /// Where other nodes reach this one.
    pub peer: SocketAddr,
    /// The host by which others reach this machine, where that is not what is listened on.
    pub advertise: Option<String>,
}

impl Default for UpOptions {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            data: PathBuf::from("shardine-data"),
            redis: loopback(7379),
            grpc: loopback(7400),
            http: loopback(7480),
            http_hosts: Vec::new(),
            sql: None,
            adopt_sql: false,
            shards: None,
            coord_groups: None,
            lanes: None,
            token: None,
            access: Vec::new(),
            insecure: false,
            connections_max: 10_000,
            snapshot_log_bytes: 64 << 20,
            memory_max: 0,
            checksum_every: Duration::from_secs(600),
            split: SplitLimits::default(),
            flush_timeout: Duration::from_secs(10),
            cluster: None,
        }
    }
}

/// Shards of a new data directory, if nobody says how many.
pub(crate) const SHARDS_DEFAULT: u32 = 4;

impl UpOptions {
    /// How others reach the doors of this node.
    #[must_use]
    pub fn addresses(&self, cluster: &ClusterOptions) -> DoorAddresses {
        let seen = |address: SocketAddr| match &cluster.advertise {
            Some(host) => format!("{host}:{}", address.port()),
            None => address.to_string(),
        };
        DoorAddresses {
            peer: seen(cluster.peer),
            grpc: seen(self.grpc),
            redis: seen(self.redis),
            http: seen(self.http),
        }
    }

    /// Half of the cores: the other half syncs, talks to SQL and serves the other doors. A lane without a shard would idle.
    pub(crate) fn lane_count(&self, shards: u32) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.lanes.unwrap_or((cores / 2).clamp(1, 16)).clamp(1, shards.max(1) as usize)
    }

    /// An empty token would let everybody in who presents nothing, so it is none.
    pub(crate) fn without_empty_token(&self) -> Self {
        let token = self.token.clone().filter(|token| !token.is_empty());
        Self { token, ..self.clone() }
    }
}
