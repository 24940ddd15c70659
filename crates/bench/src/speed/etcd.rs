//! The real etcd, with one member or three, and clients of it: of keys, and of locks (a key that belongs to a lease, made by a
//! transaction if it is not there).

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use shardine_testkit::{Dir, PATIENCE, Port, Process};
use tonic::transport::Channel;

/// The few messages that this needs, numbered as etcd numbers them.
mod messages {
    #![allow(clippy::all, clippy::pedantic, missing_docs, reason = "generated")]
    tonic::include_proto!("etcdserverpb");
}

use messages::kv_client::KvClient;
use messages::lease_client::LeaseClient;
use messages::maintenance_client::MaintenanceClient;
use messages::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp, StatusRequest, TxnRequest,
    compare, request_op,
};

/// Longer than any run: the leases are not what is measured.
const LEASE_SECONDS: i64 = 3_600;

pub(super) struct Etcd {
    members: Vec<Member>,
    dir: Dir,
}

struct Member {
    /// Absent while it does not run.
    process: Option<Process>,
    clients: Port,
    peers: Port,
}

impl Etcd {
    /// Starts so many members on an empty folder and waits until they have a leader.
    pub async fn start(dir: Dir, members: usize) -> Result<Etcd> {
        let member = |_| anyhow::Ok(Member { process: None, clients: Port::free()?, peers: Port::free()? });
        let members = (0..members).map(member).collect::<Result<Vec<_>>>()?;
        let mut etcd = Etcd { members, dir };
        for place in 0..etcd.members.len() {
            etcd.start_member(place)?;
        }
        etcd.leader().await?;
        Ok(etcd)
    }

    /// Starts a member, for the first time or again. Everything is as it is when nobody changes it.
    pub fn start_member(&mut self, place: usize) -> Result<()> {
        let name = |place: usize| format!("member-{place}");
        let all: Vec<String> = self
            .members
            .iter()
            .enumerate()
            .map(|(at, member)| format!("{}={}", name(at), url(&member.peers)))
            .collect();
        let member = &mut self.members[place];
        let (client_url, peer_url) = (url(&member.clients), url(&member.peers));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(self.dir.join(name(place)));
        command.args(["--name", &name(place), "--initial-cluster", &all.join(",")]);
        command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
        command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
        let mut process = Process::spawn("etcd", &mut command, &self.dir.join(format!("{}.log", name(place))))?;
        process.wait_for_port(member.clients.address(), PATIENCE)?;
        member.process = Some(process);
        Ok(())
    }

    pub fn process(&mut self, place: usize) -> Result<&mut Process> {
        self.members[place].process.as_mut().context("the member does not run")
    }

    /// The member that leads, once all that run agree on it.
    pub async fn leader(&self) -> Result<usize> {
        let patience = Instant::now() + PATIENCE;
        loop {
            match self.agreed_leader().await {
                Ok(Some(place)) => return Ok(place),
                Ok(None) => {}
                Err(error) if Instant::now() > patience => return Err(error),
                Err(_) => {}
            }
            ensure!(Instant::now() < patience, "etcd has no leader");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn agreed_leader(&self) -> Result<Option<usize>> {
        let mut seen = Vec::new();
        for (place, member) in self.members.iter().enumerate() {
            if member.process.is_some() {
                let mut asked = MaintenanceClient::new(self.connect(place).await?);
                let status = asked.status(StatusRequest {}).await?.into_inner();
                seen.push((place, status.header.unwrap_or_default().member_id, status.leader));
            }
        }
        let leader = seen.first().map_or(0, |(_, _, leader)| *leader);
        let agreed = leader != 0 && seen.iter().all(|(_, _, other)| *other == leader);
        Ok(seen.iter().find(|(_, id, _)| agreed && *id == leader).map(|(place, _, _)| *place))
    }

    /// A connection to a member, which many clients may share, as those of etcd's own client do.
    pub async fn connect(&self, place: usize) -> Result<Channel> {
        let endpoint = Channel::from_shared(url(&self.members[place].clients))?;
        endpoint.connect().await.context("connect to etcd")
    }
}

fn url(port: &Port) -> String {
    format!("http://{}", port.address())
}

/// A client of keys.
#[derive(Clone)]
pub(super) struct Keys(KvClient<Channel>);

impl Keys {
    pub fn new(channel: Channel) -> Keys {
        Keys(KvClient::new(channel))
    }

    pub async fn put(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let put = PutRequest { key: key.as_bytes().to_vec(), value: value.to_vec(), lease: 0 };
        self.0.put(put).await?;
        Ok(())
    }

    /// A read that sees every write that was answered before.
    pub async fn get(&mut self, key: &str) -> Result<()> {
        let found = self.0.range(RangeRequest { key: key.as_bytes().to_vec() }).await?.into_inner();
        ensure!(found.count == 1, "{key} is not there");
        Ok(())
    }
}

#[derive(Clone)]
pub(super) struct Lessee {
    keys: KvClient<Channel>,
    lease: i64,
}

impl Lessee {
    /// A client with a lease of its own.
    pub async fn new(channel: &Channel) -> Result<Self> {
        let grant = LeaseGrantRequest { ttl: LEASE_SECONDS, id: 0 };
        let lease = LeaseClient::new(channel.clone()).lease_grant(grant).await?.into_inner().id;
        Ok(Self { keys: KvClient::new(channel.clone()), lease })
    }

    pub async fn acquire_and_release(&mut self, lock: &str) -> Result<()> {
        let key = lock.as_bytes().to_vec();
        let is_free = Compare {
            result: compare::CompareResult::Equal.into(),
            target: compare::CompareTarget::Create.into(),
            key: key.clone(),
            target_union: Some(compare::TargetUnion::CreateRevision(0)),
        };
        let put = PutRequest { key: key.clone(), value: Vec::new(), lease: self.lease };
        let take = RequestOp { request: Some(request_op::Request::RequestPut(put)) };
        let taken = self.keys.txn(TxnRequest { compare: vec![is_free], success: vec![take], failure: Vec::new() });
        ensure!(taken.await?.into_inner().succeeded, "a lock of one's own is free");
        let gone = self.keys.delete_range(DeleteRangeRequest { key, range_end: Vec::new() }).await?.into_inner();
        ensure!(gone.deleted == 1, "what was taken is there");
        Ok(())
    }
}
