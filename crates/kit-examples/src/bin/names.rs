//! The program of the guide (`docs/kit.md`): logins in, names out. What follows is word for word what the guide has a new user
//! write (`tests/guide.rs`), so it is also the second service that shares no line with `goals` but the kit's.

#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::sync::Arc;

use shardine_kit::claim::{SqliteTable, Table};
use shardine_kit::provider::Holders;
use shardine_kit::{Claim, ClaimOptions, Client, Cut, Host, Identity, Options, Reply, Request, Shard};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Response, Status};

tonic::include_proto!("names.v1");

struct NamesRequest;

impl Request for NamesRequest {
    type Key = String;
    type Value = String;
    type Id = String;
    type Asked = Asked;
    type Answered = Told;

    fn sharding_key(&self, login: &String) -> u64 {
        sharding_key(login)
    }

    fn entry_id(&self, login: &String) -> String {
        login.clone()
    }

    fn key_bytes(&self, login: &String) -> usize {
        login.len()
    }

    fn encode(&self, logins: &[&String]) -> Asked {
        Asked { logins: logins.iter().map(|login| (*login).clone()).collect() }
    }

    fn decode(&self, told: Told) -> Result<Reply<String, String>, Status> {
        Ok(Reply { values: told.names.into_iter().collect(), all_matched: told.all_matched, shard: told.shard })
    }

    async fn call(&self, host: &Host, asked: tonic::Request<Asked>) -> Result<Response<Told>, Status> {
        let stub = names_client::NamesClient::new(host.channel());
        stub.max_decoding_message_size(host.reply_bytes_max()).get(asked).await
    }
}

/// The same on both sides, and in every version that is alive at one time.
fn sharding_key(login: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(login.as_bytes())
}

struct NamesServer {
    shard: Shard,
}

#[tonic::async_trait]
impl names_server::Names for NamesServer {
    async fn get(&self, asked: tonic::Request<Asked>) -> Result<Response<Told>, Status> {
        let logins = asked.into_inner().logins;
        // Here a real service looks into its memory. One value per key.
        let read = async |logins: &[String]| {
            Ok(logins.iter().map(|login| (login.clone(), format!("the name of {login}"))).collect())
        };
        let answer = self.shard.get(&logins, |login| sharding_key(login), read).await?;
        let names = answer.values.into_iter().collect();
        Ok(Response::new(Told { names, all_matched: answer.all_matched, shard: Some(answer.shard) }))
    }
}

/// `names server DC ADDRESS` serves a shard, `names ask LOGIN…` asks all servers.
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let cut = Cut::even(2);
    let table = SqliteTable::new("locks.sqlite", Table::new("locks", cut.shards()));
    match words.split_first() {
        Some((what, [dc, address])) if what == "server" => {
            table.prepare(dc).await?;
            let identity = Identity::new(dc, address);
            let shard = Shard::new(identity.clone());
            let names = names_server::NamesServer::new(NamesServer { shard: shard.clone() });
            // Before the claim: where somebody listens already, that one's shard is not to be taken.
            let incoming = TcpIncoming::bind(address.parse()?)?.with_nodelay(Some(true));
            let serving = tokio::spawn(Server::builder().add_service(names).serve_with_incoming(incoming));

            let claim = Claim::start(Arc::new(table), identity, ClaimOptions::default());
            let hold = claim.taken().await;
            let interval = cut.interval(hold.shard);
            // Here a real service reads the data of its interval.
            claim.open(&shard, interval);
            println!("serving shard {} of {dc}, {interval}", hold.shard);
            serving.await??;
        }
        Some((what, logins)) if what == "ask" => {
            let client = Client::start(NamesRequest, Holders::new(Arc::new(table)), Options::default());
            for (login, name) in client.get(logins).await? {
                println!("{login}: {name}");
            }
        }
        _ => anyhow::bail!("names server DC ADDRESS, or names ask LOGIN…"),
    }
    Ok(())
}
