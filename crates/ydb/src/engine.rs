//! What this door asks of the node behind it.

use shardine_coord::{Ask, Message, NodeCall, NodeReply, Opening, StreamId};

/// Takes what a stream hears, in order. Called from the thread that owns the group, so it must not wait.
pub type Hear = Box<dyn Fn(Message) + Send>;

pub trait Engine: Send + Sync {
    /// Opens a stream with its first message.
    fn open(&self, opening: Opening, hear: Hear) -> StreamId;

    /// A further request of a stream.
    fn ask(&self, stream: StreamId, ask: Ask);

    /// The stream is lost, or its client has left.
    fn close(&self, stream: StreamId);

    fn call(&self, call: NodeCall, done: Box<dyn FnOnce(NodeReply) + Send>);
}
