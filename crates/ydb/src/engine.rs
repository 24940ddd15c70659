//! What this door asks of the node behind it.

use std::sync::Arc;

use shardine_coord::{Ask, Message, NodeCall, NodeReply, Opening, Refusal, Status, StreamId, Ticket};
use tokio::sync::oneshot;

/// Takes what a stream hears, in order. Called from the thread that owns the group, so it must not wait.
pub type Hear = Box<dyn Fn(Message) + Send>;

/// What is to be done at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Use,
    /// Its node is to be made: the path may be one that nobody has heard of.
    Make,
}

pub trait CoordEngine: Send + Sync {
    /// Opens a stream with its first message.
    fn open(&self, opening: Opening, hear: Hear) -> StreamId;

    /// A further request of a stream.
    fn ask(&self, stream: StreamId, ask: Ask);

    /// The stream is lost, or its client has left.
    fn close(&self, stream: StreamId);

    fn call(&self, call: NodeCall, done: Box<dyn FnOnce(NodeReply) + Send>) -> Ticket;

    /// Whether a request's path says where it goes; else all go to the same place.
    fn has_many_groups(&self) -> bool {
        false
    }

    /// Tells the gRPC door of the node that leads the path's group, if that is another one.
    fn elsewhere(&self, _path: &str, _purpose: Purpose, tell: Box<dyn FnOnce(Option<String>) + Send>) {
        tell(None);
    }

    /// Whoever made the call has left, and does not wait for the reply.
    fn withdraw(&self, ticket: Ticket);
}

/// Makes a call and waits for its reply. If the client leaves meanwhile, and this future with it, the engine hears of it.
pub(crate) async fn call(engine: &Arc<dyn CoordEngine>, call: NodeCall) -> Result<NodeReply, Refusal> {
    let (give, take) = oneshot::channel();
    let done = Box::new(move |reply| {
        // A client that has left does not wait for it.
        let _ = give.send(reply);
    });
    let mut waiting = Waiting { engine, ticket: Some(engine.call(call, done)) };
    let reply = take.await;
    waiting.ticket = None;
    match reply {
        Ok(NodeReply::Refused(refusal)) => Err(refusal),
        Ok(reply) => Ok(reply),
        Err(_) => Err(Refusal::new(Status::Unavailable, "the node is stopping")),
    }
}

struct Waiting<'a> {
    engine: &'a Arc<dyn CoordEngine>,
    ticket: Option<Ticket>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.engine.withdraw(ticket);
        }
    }
}
