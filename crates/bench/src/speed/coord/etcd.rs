//! The real etcd, one member, and clients that take locks in it: a key that belongs to a lease, made by a transaction if it
//! is not there.

use std::process::Command;

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
use messages::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, PutRequest, RequestOp, TxnRequest, compare, request_op,
};

/// Longer than any run: the leases are not what is measured.
const LEASE_SECONDS: i64 = 3_600;

pub(super) struct Etcd {
    process: Process,
    clients: Port,
    _dir: Dir,
}

impl Etcd {
    pub fn start(dir: Dir) -> Result<Etcd> {
        let (clients, peers) = (Port::free()?, Port::free()?);
        let (client_url, peer_url) = (url(&clients), url(&peers));
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(dir.join("etcd"));
        command.args(["--name", "bench", "--initial-cluster", &format!("bench={peer_url}")]);
        command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
        command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
        let mut process = Process::spawn("etcd", &mut command, &dir.join("etcd.log"))?;
        process.wait_for_port(clients.address(), PATIENCE)?;
        Ok(Etcd { process, clients, _dir: dir })
    }

    /// One connection for all clients, as etcd's own client has it.
    pub async fn connect(&self) -> Result<Channel> {
        let endpoint = Channel::from_shared(url(&self.clients))?;
        endpoint.connect().await.with_context(|| format!("etcd: {}", self.process.output()))
    }
}

fn url(port: &Port) -> String {
    format!("http://{}", port.address())
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
