//! What a team writes down once about its service. Everything else is the kit's.

use std::fmt::Debug;
use std::hash::Hash;

use tonic::{Response, Status};

use crate::host::Host;
use crate::wire;

/// The description of a service's one request: `Get(keys) -> values by id, shard, all matched`.
///
/// A key may be as large as it likes; an id is a small thing that is unique among the keys of one call, and a sharding key
/// says which shard a key belongs to. Messages and stub are the service's own.
pub trait Request: Send + Sync + 'static {
    /// What is asked for.
    type Key: Sync;
    /// Compared only to count replicas that disagree.
    type Value: PartialEq + Send;
    /// What tells the keys of a call apart.
    type Id: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// The request's message.
    type Asked: Send + 'static;
    /// The reply's message.
    type Answered: Send + 'static;

    /// Where the key lives. Keys that are read together want neighbouring numbers, all others a hash.
    fn sharding_key(&self, key: &Self::Key) -> u64;

    /// Unique among the keys of a call.
    fn entry_id(&self, key: &Self::Key) -> Self::Id;

    /// The message for these keys. Without any it asks only what the host serves.
    fn encode(&self, keys: &[&Self::Key]) -> Self::Asked;

    /// The reply as the client understands it.
    ///
    /// # Errors
    ///
    /// If the message makes no sense. It counts as a failure of that host, and its code says whether to ask it again, as with
    /// a status of the host's own. A panic counts as `DATA_LOSS`, which is not asked for again.
    fn decode(&self, answered: Self::Answered) -> Result<Reply<Self::Id, Self::Value>, Status>;

    /// About how many bytes a key takes in the message, for requests that are split by size
    /// ([`crate::Options::request_bytes_max`]).
    fn key_bytes(&self, key: &Self::Key) -> usize {
        size_of_val(key)
    }

    /// Calls the method of the stub, with the limit of replies that the client was told:
    ///
    /// ```text
    /// let stub = MyServiceClient::new(host.channel());
    /// stub.max_decoding_message_size(host.reply_bytes_max()).get(asked).await
    /// ```
    ///
    /// The time that is left is the request's timeout already (`grpc-timeout`), so that a server can see how long anybody
    /// waits. Dropped when nobody waits for the answer any more.
    fn call(
        &self,
        host: &Host,
        asked: tonic::Request<Self::Asked>,
    ) -> impl Future<Output = Result<Response<Self::Answered>, Status>> + Send;
}

/// A reply as the client understands it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply<I, V> {
    /// One value per key, in any order; none if not all keys are of this host.
    pub values: Vec<(I, V)>,
    /// Whether all keys are of this host.
    pub all_matched: bool,
    /// What the host serves. Without it the client cannot find the host.
    pub shard: Option<wire::Shard>,
}
