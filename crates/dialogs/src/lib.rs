//! A chat service on Shardine ([docs/dialogs.md](../../../docs/dialogs.md)): chats, their messages, who may read them, over REST.
//! It asks Shardine only what every client can ask, and keeps nothing itself but what never changes.

// In the order in which a newcomer should read them.
mod id;
mod tables;
mod error;
mod chats;
mod intents;
mod messages;
mod stream;
mod once;
mod http;
mod limits;

use std::sync::Arc;
use std::time::Duration;

use shardine_client::Client;
use shardine_client::records::Records;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};

pub use chats::Chat;
pub use error::Error;
pub use http::{Options, openapi, router};
pub use id::{Id, Stamp};
pub use messages::{Message, Order, Page};

use crate::chats::Known;
use crate::id::Stamps;

/// How long Shardine may take for one of the steps of a request.
const STEP_TIME: Duration = Duration::from_secs(5);

/// How long it may take to say that it is there.
const KNOCK_TIME: Duration = Duration::from_secs(1);

/// The service without its door. Clones are the same.
#[derive(Clone, Debug)]
pub struct Dialogs {
    records: Records,
    stamps: Arc<Stamps>,
    known: Arc<Known>,
    /// Which chats have got a message from this process: their readers need not wait for the next look.
    posted: broadcast::Sender<Id>,
    /// Turns true when the service stops: streams have no end of their own.
    closing: watch::Sender<bool>,
}

impl Dialogs {
    /// Makes the tables that are missing, and takes the number of this process, which no other one has.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer, or has tables of these names that are something else.
    pub async fn start(client: &Client) -> Result<Self, Error> {
        // A change whose answer was lost is asked again, and executed once.
        let records = client.records().within(STEP_TIME).numbered();
        tables::prepare(&records).await?;
        let stamps = Arc::new(Stamps::new(tables::next_process(&records).await?));
        let (posted, _) = broadcast::channel(limits::POSTED_MAX);
        Ok(Self { records, stamps, known: Arc::default(), posted, closing: watch::Sender::new(false) })
    }

    /// The place of a chat or message that is new.
    pub(crate) fn new_stamp(&self) -> Stamp {
        self.stamps.next()
    }

    /// Whether the cluster answers.
    pub(crate) async fn knock(&self) -> Result<(), Error> {
        self.records.within(KNOCK_TIME).get(&tables::some_row()).await?;
        Ok(())
    }
}

/// Serves at a listener until `shutdown` resolves, and finishes meanwhile what others have left half done.
pub async fn serve(
    dialogs: Dialogs,
    listener: TcpListener,
    options: Options,
    shutdown: impl Future<Output = ()> + Send,
) {
    let finishing = tokio::spawn(intents::finish_for_ever(dialogs.clone()));
    let closing = dialogs.closing.clone();
    let shutdown = async move {
        shutdown.await;
        closing.send_replace(true);
    };
    shardine_accept::serve(listener, router(dialogs, options), shardine_accept::Limits::default(), shutdown).await;
    finishing.abort();
}
