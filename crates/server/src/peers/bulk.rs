//! Snapshots for followers that are behind the log: on links of their own, so that nothing small waits behind them, in pieces, and
//! no faster than the foreground can bear. They are read from the sender's file and written to one of the receiver's: neither side
//! holds more than a piece in memory. Both sides may wait here: nobody waits for them.

mod coming;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use shardine_model::codec::put_bytes;
use shardine_model::{NodeId, ShardId};
use shardine_shard::Message;
use shardine_store::{SnapshotReader, Storage};
use shardine_transport::limits::PIECE_BYTES_MAX;
use shardine_transport::{Begin, End, Greeting, Inbound, Item, LinkKind, Opening, Outbox, Piece, Subject, Taken};

use self::coming::Coming;
pub(crate) use self::coming::Prepared;
use super::book::Book;
use crate::owner_thread;

/// Snapshots that wait to be sent. One more is not taken: Raft offers it again.
const PARCELS_MAX: usize = 4;
/// How long the other side may take to say or take anything.
const PATIENCE: Duration = Duration::from_secs(10);
/// Transfers that come in at a time. What each is made into is held in memory beside what it is to replace.
const RECEIVERS_MAX: usize = 4;

/// Something large, and the node that it is for.
pub(crate) struct Parcel {
    pub node: NodeId,
    pub content: Content,
}

pub(crate) enum Content {
    /// Its content is read from the sender's disk when it is sent.
    Snapshot { shard: ShardId, message: Box<Message> },
    /// The whole map.
    Map { version: u64, map: Vec<u8> },
}

/// What has arrived.
pub(crate) enum Delivery {
    /// It is on this node's disk, without a name yet, and what it was made into.
    Snapshot(ShardId, Box<Message>, Prepared),
    Map(Vec<u8>),
}

/// To whom, and whose snapshot it is; `None` for the map.
type Way = (NodeId, Option<ShardId>);

/// The way in for whoever has a snapshot to send.
#[derive(Clone)]
pub(crate) struct BulkSender {
    parcels: SyncSender<Parcel>,
    /// What waits or is being sent: Raft repeats itself when it has not heard for a while.
    under_way: Arc<Mutex<BTreeSet<Way>>>,
}

impl BulkSender {
    /// Lets go of what there is no room for, and of what is being sent already.
    pub fn send(&self, parcel: Parcel) {
        let way = parcel.way();
        if way.1.is_some() && !lock(&self.under_way).insert(way) {
            return;
        }
        match self.parcels.try_send(parcel) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(parcel)) => {
                lock(&self.under_way).remove(&way);
                tracing::debug!(node = %parcel.node, "a snapshot waits for others that are being sent");
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the thread that sends. It ends when everybody has let go of the sender.
pub(crate) fn start(book: Arc<Book>, storage: Arc<Storage>) -> std::io::Result<(BulkSender, JoinHandle<()>)> {
    let (parcels, mailbox) = sync_channel(PARCELS_MAX);
    let under_way = Arc::<Mutex<BTreeSet<Way>>>::default();
    let done = Arc::clone(&under_way);
    let thread = owner_thread::spawn("bulk", move || run(&mailbox, &book, &storage, &done))?;
    Ok((BulkSender { parcels, under_way }, thread))
}

fn run(mailbox: &Receiver<Parcel>, book: &Book, storage: &Storage, under_way: &Mutex<BTreeSet<Way>>) {
    while let Ok(parcel) = mailbox.recv() {
        let (node, what, way) = (parcel.node, parcel.content.to_string(), parcel.way());
        match deliver(parcel, book, storage) {
            Ok(bytes) => tracing::info!(node = book.name(node), bytes, "{what} has arrived"),
            // Whoever leads offers it again.
            Err(error) => tracing::warn!(node = book.name(node), %error, "{what} did not arrive"),
        }
        lock(under_way).remove(&way);
    }
}

impl Parcel {
    fn way(&self) -> Way {
        match &self.content {
            Content::Snapshot { shard, .. } => (self.node, Some(*shard)),
            Content::Map { .. } => (self.node, None),
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

fn deliver(parcel: Parcel, book: &Book, storage: &Storage) -> anyhow::Result<u64> {
    let Parcel { node, content } = parcel;
    match content {
        Content::Map { version, map } => {
            let bytes = map.len() as u64;
            let mut sending = Sending::begin(book, node, bytes, Subject::Map { version })?;
            sending.send(&map, book)?;
            sending.end()
        }
        Content::Snapshot { shard, message } => {
            let mut reader = file_of(storage, shard, &message)?;
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            let subject = Subject::Snapshot { shard, from: message.from(), to: message.to(), message: &bytes };
            // What stands around chunks in the file is longer than what stands around them here.
            let mut sending = Sending::begin(book, node, reader.bytes(), subject)?;
            let mut waiting = Vec::new();
            while let Some(chunk) = reader.next_chunk()? {
                put_bytes(&mut waiting, &chunk);
                let whole = waiting.len() - waiting.len() % PIECE_BYTES_MAX;
                sending.send(&waiting[..whole], book)?;
                waiting.drain(..whole);
            }
            sending.send(&waiting, book)?;
            sending.end()
        }
    }
}

/// The file that a message is about. It stays readable when a newer one takes its place meanwhile; if one has done so before, the
/// newer one is offered.
fn file_of(storage: &Storage, shard: ShardId, message: &Message) -> anyhow::Result<SnapshotReader> {
    let meta = message.snapshot().context("a message without a snapshot")?;
    let reader = storage.snapshot(shard)?.context("it is not on disk any more")?;
    if *reader.meta() != meta || reader.replica() != message.from() {
        bail!("a newer one has taken its place");
    }
    Ok(reader)
}

/// A transfer on its way out, no faster than the foreground can bear.
struct Sending {
    stream: TcpStream,
    outbox: Outbox,
    began: Instant,
    /// When what was sent may have been sent, by the speed of its time.
    due: Duration,
    sent: u64,
    sum: crc32fast::Hasher,
}

impl Sending {
    fn begin(book: &Book, node: NodeId, bytes: u64, subject: Subject<'_>) -> anyhow::Result<Self> {
        let address = book.address(node).or_else(|| book.resolve(node)).context("its address is not known")?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        greet(&mut stream, book, node)?;
        let mut outbox = Outbox::new(LinkKind::Bulk);
        say(&mut stream, &mut outbox, &Item::Begin(Begin { transfer: 1, bytes, subject }))?;
        Ok(Self { stream, outbox, began: Instant::now(), due: Duration::ZERO, sent: 0, sum: crc32fast::Hasher::new() })
    }

    /// No faster than the map says at this moment.
    fn send(&mut self, bytes: &[u8], book: &Book) -> anyhow::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES_MAX) {
            let item = Item::Piece(Piece { transfer: 1, offset: self.sent, bytes: piece });
            say(&mut self.stream, &mut self.outbox, &item)?;
            self.sum.update(piece);
            self.sent += piece.len() as u64;
            self.due += Duration::from_micros(piece.len() as u64 * 1_000_000 / book.bulk_speed());
            std::thread::sleep(self.due.saturating_sub(self.began.elapsed()));
        }
        Ok(())
    }

    /// Gives how many bytes the other side has taken.
    fn end(mut self) -> anyhow::Result<u64> {
        let item = Item::End(End { transfer: 1, sum: self.sum.finalize() });
        say(&mut self.stream, &mut self.outbox, &item)?;
        await_taken(&mut self.stream)?;
        Ok(self.sent)
    }
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
pub(super) struct Receivers {
    running: Arc<()>,
    storage: Arc<Storage>,
}

impl Receivers {
    pub fn new(storage: Arc<Storage>) -> Self {
        Self { running: Arc::default(), storage }
    }

    pub fn begin(&self, stream: mio::net::TcpStream, deliver: &Deliver) {
        if Arc::strong_count(&self.running) > RECEIVERS_MAX {
            return;
        }
        let (place, deliver, storage) = (Arc::clone(&self.running), Arc::clone(deliver), Arc::clone(&self.storage));
        let receive = move || {
            let received = receive(stream.into(), &deliver, &storage);
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

fn receive(mut stream: TcpStream, deliver: &Deliver, storage: &Storage) -> anyhow::Result<()> {
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
        inbound.receive(&buffer[..count], |item| {
            if failed.is_some() {
                return;
            }
            match take(item, &mut coming, storage) {
                Ok(Some(arrived)) => whole = Some(arrived),
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
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

/// Takes an item; gives what it was about when that is whole.
fn take(item: Item<'_>, coming: &mut Option<Coming>, storage: &Storage) -> anyhow::Result<Option<(Delivery, u64)>> {
    match item {
        Item::Begin(begin) => *coming = Some(Coming::begin(&begin, storage)?),
        Item::Piece(piece) => coming.as_mut().context("a piece of nothing")?.take(&piece)?,
        Item::End(end) => return coming.take().context("the end of nothing")?.end(end.sum).map(Some),
        _ => bail!("something else than a snapshot"),
    }
    Ok(None)
}
