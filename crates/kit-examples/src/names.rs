//! The service of the guide (`docs/kit.md`): logins in, names out. All that a service has to write is in this file.

use std::collections::HashMap;
use std::sync::Arc;

use shardine_kit::{Host, Reply, Request, Shard};
use tonic::{Response, Status};
use xxhash_rust::xxh3::xxh3_64;

tonic::include_proto!("names.v1");

/// The request, described once.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamesRequest;

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

    fn encode(&self, logins: &[&String]) -> Asked {
        Asked { logins: logins.iter().map(|login| (*login).clone()).collect() }
    }

    fn decode(&self, told: Told) -> Reply<String, String> {
        Reply { values: told.names.into_iter().collect(), all_matched: told.all_matched, shard: told.shard }
    }

    async fn call(&self, host: &Host, asked: Asked) -> Result<Response<Told>, Status> {
        names_client::NamesClient::new(host.channel()).get(asked).await
    }
}

/// The same on both sides, and in every version of the service that is alive at one time: no hash of the standard library,
/// which may change with the compiler.
pub fn sharding_key(login: &str) -> u64 {
    xxh3_64(login.as_bytes())
}

/// The server: a guard, and whatever it answers from.
#[derive(Clone, Debug)]
pub struct NamesServer {
    pub shard: Shard,
    pub names: Arc<HashMap<String, String>>,
}

#[tonic::async_trait]
impl names_server::Names for NamesServer {
    async fn get(&self, asked: tonic::Request<Asked>) -> Result<Response<Told>, Status> {
        let logins = asked.into_inner().logins;
        let read = async |logins: &[String]| {
            let name = |login: &String| self.names.get(login).cloned().unwrap_or_default();
            Ok(logins.iter().map(|login| (login.clone(), name(login))).collect())
        };
        let answer = self.shard.get(&logins, |login| sharding_key(login), read).await?;
        let names = answer.values.into_iter().collect();
        Ok(Response::new(Told { names, all_matched: answer.all_matched, shard: Some(answer.shard) }))
    }
}
