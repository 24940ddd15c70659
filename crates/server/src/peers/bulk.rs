//! Snapshots for followers that are behind the log: on links of their own, so that nothing small waits behind them, in pieces, and
//! no faster than the foreground can bear. Both sides may wait here: nobody waits for them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use shardine_model::{NodeId, ShardId};
use shardine_shard::Message;
use shardine_transport::limits::PIECE_BYTES_MAX;
use shardine_transport::{Begin, End, Greeting, Inbound, Item, LinkKind, Opening, Outbox, Piece, Subject, Taken};

use super::book::Book;
use crate::owner_thread;

/// Snapshots that wait to be sent. One more is not taken: Raft offers it again.
const PARCELS_MAX: usize = 4;
/// What one node sends of snapshots in a second.
const BYTES_PER_SECOND: u64 = 64 << 20;
/// How long the other side may take to say or take anything.
const PATIENCE: Duration = Duration::from_secs(10);
/// Transfers that come in at a time; each is held in memory until it is whole.
const RECEIVERS_MAX: usize = 4;

/// Something large, and the node that it is for.
pub(crate) struct Parcel {
    pub node: NodeId,
    pub content: Content,
}

pub(crate) enum Content {
    Snapshot {
        shard: ShardId,
        message: Box<Message>,
    },
    /// The whole map.
    Map {
        version: u64,
        map: Vec<u8>,
    },
}

/// What has arrived.
pub(crate) enum Delivery {
    Snapshot(ShardId, Box<Message>),
    Map(Vec<u8>),
}

/// The way in for whoever has a snapshot to send.
#[derive(Clone)]
pub(crate) struct BulkSender {
    parcels: SyncSender<Parcel>,
}

impl BulkSender {
    /// Lets go of what there is no room for.
    pub fn send(&self, parcel: Parcel) {
        match self.parcels.try_send(parcel) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(parcel)) => {
                tracing::debug!(node = %parcel.node, "a snapshot waits for others that are being sent");
            }
        }
    }
}

/// Begins the thread that sends. It ends when everybody has let go of the sender.
pub(crate) fn start(book: Arc<Book>) -> std::io::Result<(BulkSender, JoinHandle<()>)> {
    let (parcels, mailbox) = sync_channel(PARCELS_MAX);
    let thread = owner_thread::spawn("bulk", move || run(&mailbox, &book))?;
    Ok((BulkSender { parcels }, thread))
}

fn run(mailbox: &Receiver<Parcel>, book: &Book) {
    while let Ok(parcel) = mailbox.recv() {
        let (node, what) = (parcel.node, parcel.content.to_string());
        match deliver(parcel, book) {
            Ok(bytes) => tracing::info!(node = book.name(node), bytes, "{what} has arrived"),
            // Whoever leads offers it again.
            Err(error) => tracing::warn!(node = book.name(node), %error, "{what} did not arrive"),
        }
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Snapshot { shard, .. } => write!(formatter, "a snapshot of shard {shard}"),
            Self::Map { version, .. } => write!(formatter, "version {version} of the map"),
        }
    }
}

fn deliver(parcel: Parcel, book: &Book) -> anyhow::Result<u64> {
    let Parcel { node, mut content } = parcel;
    let mut bytes = Vec::new();
    let (subject, data) = match &mut content {
        Content::Map { version, map } => (Subject::Map { version: *version }, Bytes::from(std::mem::take(map))),
        Content::Snapshot { shard, message } => {
            let data = message.take_snapshot_data();
            message.encode(&mut bytes);
            let (from, to) = (message.from(), message.to());
            (Subject::Snapshot { shard: *shard, from, to, message: &bytes }, data)
        }
    };
    let address = book.address(node).or_else(|| book.resolve(node)).context("its address is not known")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    greet(&mut stream, book, node)?;
    let mut outbox = Outbox::new(LinkKind::Bulk);
    say(&mut stream, &mut outbox, &Item::Begin(Begin { transfer: 1, bytes: data.len() as u64, subject }))?;
    let began = Instant::now();
    for (number, piece) in data.chunks(PIECE_BYTES_MAX).enumerate() {
        let offset = (number * PIECE_BYTES_MAX) as u64;
        say(&mut stream, &mut outbox, &Item::Piece(Piece { transfer: 1, offset, bytes: piece }))?;
        let due = Duration::from_millis((offset + piece.len() as u64) * 1_000 / BYTES_PER_SECOND);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    say(&mut stream, &mut outbox, &Item::End(End { transfer: 1, sum: crc32fast::hash(&data) }))?;
    await_taken(&mut stream)?;
    Ok(data.len() as u64)
}

fn greet(stream: &mut TcpStream, book: &Book, node: NodeId) -> anyhow::Result<()> {
    let hello = book.hello(LinkKind::Bulk, node, 0);
    stream.write_all(&hello.to_frame())?;
    let mut opening = Opening::dialled();
    let mut buffer = [0; 1_024];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            bail!("the other side has closed the link");
        }
        match opening.receive(&buffer[..count])? {
            None => {}
            Some(Greeting::Welcome(welcome)) => return Ok(book.admit_acceptor(&hello, &welcome)?),
            Some(Greeting::Refused(refusal)) => return Err(refusal.into()),
            Some(Greeting::Hello(_) | Greeting::OtherVersion { .. }) => bail!("it says hello back"),
        }
    }
}

fn say(stream: &mut TcpStream, outbox: &mut Outbox, item: &Item<'_>) -> anyhow::Result<()> {
    if outbox.push(item).is_err() {
        bail!("a piece is too large");
    }
    let bytes = outbox.bytes();
    stream.write_all(bytes)?;
    let count = bytes.len();
    outbox.written(count);
    Ok(())
}

fn await_taken(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut inbound = Inbound::new(LinkKind::Bulk);
    let (mut buffer, mut taken) = ([0; 1_024], None);
    while taken.is_none() {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            bail!("the other side has closed the link before it had everything");
        }
        inbound.receive(&buffer[..count], |item| match item {
            Item::Taken(Taken { is_whole: true, .. }) => taken = Some(true),
            Item::TransferRefused(_) => taken = Some(false),
            _ => {}
        })?;
    }
    if taken == Some(true) { Ok(()) } else { bail!("the other side did not take it") }
}

/// What becomes of something that has arrived.
pub(crate) type Deliver = Arc<dyn Fn(Delivery) + Send + Sync>;

/// Lets transfers in, each on a thread of its own.
#[derive(Default)]
pub(super) struct Receivers {
    running: Arc<()>,
}

impl Receivers {
    pub fn begin(&self, stream: mio::net::TcpStream, deliver: &Deliver) {
        if Arc::strong_count(&self.running) > RECEIVERS_MAX {
            return;
        }
        let (place, deliver) = (Arc::clone(&self.running), Arc::clone(deliver));
        let receive = move || {
            let received = receive(stream.into(), &deliver);
            if let Err(error) = received {
                tracing::warn!(%error, "a snapshot was not received");
            }
            drop(place);
        };
        if let Err(error) = std::thread::Builder::new().name("bulk-in".to_owned()).spawn(receive) {
            tracing::warn!(%error, "a snapshot cannot be received");
        }
    }
}

/// A transfer that has begun.
struct Coming {
    /// Whose snapshot it is; `None` for the map.
    snapshot: Option<(ShardId, Message)>,
    bytes: u64,
    data: Vec<u8>,
}

fn receive(mut stream: TcpStream, deliver: &Deliver) -> anyhow::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut inbound = Inbound::new(LinkKind::Bulk);
    let mut outbox = Outbox::new(LinkKind::Bulk);
    let mut buffer = vec![0; 256 << 10];
    let mut coming: Option<Coming> = None;
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let (mut failed, mut whole) = (None, None);
        inbound.receive(&buffer[..count], |item| match take(item, &mut coming) {
            Ok(Some(arrived)) => whole = Some(arrived),
            Ok(None) => {}
            Err(error) => failed = Some(error),
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some((delivery, bytes)) = whole {
            deliver(delivery);
            say(&mut stream, &mut outbox, &Item::Taken(Taken { transfer: 1, bytes, is_whole: true }))?;
        }
    }
}

/// Takes an item; gives the message when it is whole.
fn take(item: Item<'_>, coming: &mut Option<Coming>) -> anyhow::Result<Option<(Delivery, u64)>> {
    match item {
        Item::Begin(Begin { bytes, subject: Subject::Snapshot { shard, message, .. }, .. }) => {
            let message = Message::decode(message)?;
            *coming = Some(Coming { snapshot: Some((shard, message)), bytes, data: Vec::new() });
        }
        Item::Begin(Begin { bytes, subject: Subject::Map { .. }, .. }) => {
            *coming = Some(Coming { snapshot: None, bytes, data: Vec::new() });
        }
        Item::Piece(piece) => {
            let coming = coming.as_mut().context("a piece of nothing")?;
            if piece.offset != coming.data.len() as u64 || piece.offset + piece.bytes.len() as u64 > coming.bytes {
                bail!("a piece is not where it should be");
            }
            coming.data.extend_from_slice(piece.bytes);
        }
        Item::End(end) => {
            let Coming { snapshot, bytes, data } = coming.take().context("the end of nothing")?;
            if bytes != data.len() as u64 || end.sum != crc32fast::hash(&data) {
                bail!("it did not arrive as it was sent");
            }
            let delivery = match snapshot {
                None => Delivery::Map(data),
                Some((shard, mut message)) => {
                    message.set_snapshot_data(Bytes::from(data));
                    Delivery::Snapshot(shard, Box::new(message))
                }
            };
            return Ok(Some((delivery, bytes)));
        }
        _ => bail!("something else than a snapshot"),
    }
    Ok(None)
}
