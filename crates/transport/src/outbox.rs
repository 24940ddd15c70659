//! What waits to be sent to a peer, as bytes of frames. It has a limit, and never makes anybody wait: a full one drops what
//! will be said again, refuses what can be refused, and gives the link up over what can be neither.

use shardine_model::ShardId;

use crate::frame::{self, HEAD_BYTES, TAG_BATCH};
use crate::item::{self, Answer, Forward, Item};
use crate::limits::{ANSWER_OUTBOX_BYTES_EXTRA, BATCH_BYTES_SOFT, OUTBOX_BYTES_KEPT};
use crate::link::LinkKind;

/// What a frame has before its first item.
const OPEN_BYTES: usize = HEAD_BYTES + 1;

/// The item was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Too much waits already.
    NoRoom,
    /// It is larger than any frame of this link.
    TooLarge,
}

/// What was not sent, since the link began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    pub raft: u64,
    pub forwards: u64,
    /// Pulses, news, pieces.
    pub others: u64,
}

/// The sending half of a link. Items that are pushed between two looks at [`Outbox::bytes`] share a frame.
#[derive(Debug)]
pub struct Outbox {
    kind: LinkKind,
    /// Bytes that may wait, and how many more an answer may add.
    room: usize,
    extra: usize,
    /// Frames; the last one may be open. Those up to `sent` are gone.
    bytes: Vec<u8>,
    sent: usize,
    /// Where the open frame begins.
    open: Option<usize>,
    dropped: Dropped,
    is_overflown: bool,
}

impl Outbox {
    #[must_use]
    pub fn new(kind: LinkKind) -> Self {
        let (room, extra) = (kind.outbox_bytes_max(), ANSWER_OUTBOX_BYTES_EXTRA);
        let (bytes, dropped) = (Vec::new(), Dropped::default());
        Self { kind, room, extra, bytes, sent: 0, open: None, dropped, is_overflown: false }
    }

    /// With less room, so that a simulation fills it.
    #[must_use]
    pub fn with_room(self, bytes: usize) -> Self {
        Self { room: bytes, extra: bytes, ..self }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Bytes that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.sent
    }

    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Whether an answer to something that was executed did not fit. The link is to be closed at once, which leaves whoever
    /// asked in doubt: the truth, where silence would not be.
    #[must_use]
    pub fn is_overflown(&self) -> bool {
        self.is_overflown
    }

    /// A message of Raft, which `write` appends. Dropped where there is no room: Raft says it again.
    pub fn push_raft(&mut self, shard: ShardId, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Full> {
        let pushed = self.put(item::TAG_RAFT, self.room, |out| {
            item::put_shard(out, shard);
            write(out);
        });
        self.dropped.raft += u64::from(pushed.is_err());
        pushed
    }

    /// A request for the peer. Where it is not taken, whoever asked is told `busy`: it was certainly not executed.
    pub fn push_forward(&mut self, forward: &Forward<'_>) -> Result<(), Full> {
        let pushed = self.put(item::TAG_FORWARD, self.room, |out| forward.encode(out));
        self.dropped.forwards += u64::from(pushed.is_err());
        pushed
    }

    /// The answer to a forwarded request. Where it is not taken, the link is over ([`Outbox::is_overflown`]).
    pub fn push_answer(&mut self, answer: &Answer<'_>) -> Result<(), Full> {
        let pushed = self.put(item::TAG_ANSWER, self.room + self.extra, |out| answer.encode(out));
        self.is_overflown |= pushed.is_err();
        pushed
    }

    /// Anything else.
    pub fn push(&mut self, item: &Item<'_>) -> Result<(), Full> {
        match item {
            Item::Raft(raft) => self.push_raft(raft.shard, |out| out.extend_from_slice(raft.message)),
            Item::Forward(forward) => self.push_forward(forward),
            Item::Answer(answer) => self.push_answer(answer),
            Item::Pulse(_)
            | Item::Leader(_)
            | Item::Suspicion(_)
            | Item::MapVersion(_)
            | Item::MapDelta(_)
            | Item::Goodbye(_)
            | Item::Begin(_)
            | Item::Piece(_)
            | Item::End(_)
            | Item::TransferRefused(_)
            | Item::Taken(_) => {
                let pushed = self.put(item.tag(), self.room, |out| item.encode(out));
                self.dropped.others += u64::from(pushed.is_err());
                pushed
            }
        }
    }

    /// What is to be sent, in whole frames.
    #[must_use]
    pub fn bytes(&mut self) -> &[u8] {
        self.seal();
        &self.bytes[self.sent..]
    }

    /// The wire has taken so many of the bytes.
    pub fn written(&mut self, count: usize) {
        assert!(self.open.is_none(), "what was written came from bytes()");
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "no more is written than there was");
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(OUTBOX_BYTES_KEPT);
            self.sent = 0;
        } else if self.sent > self.bytes.len() / 2 {
            // Each byte is moved once at most for each that was sent.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn put(&mut self, tag: u8, room: usize, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Full> {
        assert!(item::belongs(tag, self.kind), "item {tag} does not belong on a link of kind {}", self.kind);
        // An empty queue takes whatever the peer would take.
        if !self.is_empty() && self.waiting() >= room {
            return Err(Full::NoRoom);
        }
        let (was_empty, begin, open) = (self.is_empty(), self.bytes.len(), self.open);
        let start = *self.open.get_or_insert(begin);
        if open.is_none() {
            frame::open(&mut self.bytes, TAG_BATCH);
        }
        let at = self.bytes.len();
        item::put(&mut self.bytes, tag, write);
        let is_too_large = self.bytes.len() - at + 1 > self.kind.frame_bytes_max();
        if is_too_large || !was_empty && self.waiting() > room {
            self.bytes.truncate(begin);
            self.open = open;
            return Err(if is_too_large { Full::TooLarge } else { Full::NoRoom });
        }
        if self.bytes.len() - start > BATCH_BYTES_SOFT && at > start + OPEN_BYTES {
            self.split(start, at);
        }
        Ok(())
    }

    /// Lets the open frame end before its last item, which becomes the first of the next.
    fn split(&mut self, start: usize, at: usize) {
        frame::close(&mut self.bytes[start..at]);
        let mut head = Vec::with_capacity(OPEN_BYTES);
        frame::open(&mut head, TAG_BATCH);
        self.bytes.splice(at..at, head);
        self.open = Some(at);
    }

    fn seal(&mut self) {
        if let Some(start) = self.open.take() {
            frame::close(&mut self.bytes[start..]);
        }
    }
}
