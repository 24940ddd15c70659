//! A transfer that is coming in: a snapshot goes to a file without a name, chunk by chunk, and is made into what it says on the way,
//! so that its group has nothing to read when it takes it.

use anyhow::{Context, bail};
use shardine_model::codec::Reader;
use shardine_model::limits::SNAPSHOT_CHUNK_BYTES_MAX;
use shardine_model::{GroupKind, ShardId};
use shardine_records::{Records, Restore};
use shardine_shard::Message;
use shardine_shard::coord::{self, Coord};
use shardine_shard::meta::Meta;
use shardine_store::{SnapshotReceiver, Storage};
use shardine_transport::{Begin, Piece, Subject};

use super::Delivery;

/// What a snapshot was made into.
pub(crate) enum Prepared {
    Records(Box<Records>),
    Coord(Box<Coord>),
    Meta(Box<Meta>),
}

pub(super) struct Coming {
    /// No more than this comes.
    bytes_max: u64,
    received: u64,
    sum: crc32fast::Hasher,
    what: What,
}

enum What {
    Map(Vec<u8>),
    Snapshot(Box<Snapshot>),
}

struct Snapshot {
    shard: ShardId,
    message: Message,
    /// The beginning of a chunk that has not come to its end.
    rest: Vec<u8>,
    file: SnapshotReceiver,
    making: Making,
}

enum Making {
    Records(Box<Restore>),
    Coord(Box<coord::Restore>),
    /// It is small.
    Meta(Vec<Vec<u8>>),
}

impl Coming {
    pub fn begin(begin: &Begin<'_>, storage: &Storage) -> anyhow::Result<Self> {
        let what = match begin.subject {
            Subject::Map { .. } => What::Map(Vec::new()),
            Subject::Snapshot { shard, message, .. } => {
                let message = Message::decode(message)?;
                let meta = message.snapshot().context("a message without a snapshot")?;
                let file = storage.receive_snapshot(shard, message.to(), &meta)?;
                What::Snapshot(Box::new(Snapshot { shard, message, rest: Vec::new(), file, making: Making::of(shard) }))
            }
        };
        Ok(Self { bytes_max: begin.bytes, received: 0, sum: crc32fast::Hasher::new(), what })
    }

    pub fn take(&mut self, piece: &Piece<'_>) -> anyhow::Result<()> {
        let end = piece.offset.saturating_add(piece.bytes.len() as u64);
        if piece.offset != self.received || end > self.bytes_max {
            bail!("a piece is not where it should be");
        }
        self.received = end;
        self.sum.update(piece.bytes);
        match &mut self.what {
            What::Map(map) => map.extend_from_slice(piece.bytes),
            What::Snapshot(snapshot) => snapshot.take(piece.bytes)?,
        }
        Ok(())
    }

    /// All pieces have come: gives what they were, and how many bytes.
    pub fn end(self, sum: u32) -> anyhow::Result<(Delivery, u64)> {
        if sum != self.sum.finalize() {
            bail!("it did not arrive as it was sent");
        }
        let delivery = match self.what {
            What::Map(map) => Delivery::Map(map),
            What::Snapshot(snapshot) => snapshot.end()?,
        };
        Ok((delivery, self.received))
    }
}

impl Snapshot {
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.rest.extend_from_slice(bytes);
        let mut reader = Reader::new(&self.rest);
        let mut used = 0;
        while let Ok(chunk) = reader.bytes("snapshot chunk") {
            self.file.push(chunk)?;
            self.making.push(chunk)?;
            used = self.rest.len() - reader.rest().len();
        }
        self.rest.drain(..used);
        if self.rest.len() > 2 * SNAPSHOT_CHUNK_BYTES_MAX {
            bail!("a chunk is too large");
        }
        Ok(())
    }

    fn end(self) -> anyhow::Result<Delivery> {
        if !self.rest.is_empty() {
            bail!("it ends inside a chunk");
        }
        let prepared = self.making.finish()?;
        self.file.stage()?;
        Ok(Delivery::Snapshot(self.shard, Box::new(self.message), prepared))
    }
}

impl Making {
    fn of(shard: ShardId) -> Self {
        match shard.kind() {
            GroupKind::Records => Self::Records(Box::new(Restore::new(Records::new(rand::random())))),
            GroupKind::Coordination => Self::Coord(Box::new(coord::Restore::new(Coord::new()))),
            GroupKind::Meta => Self::Meta(Vec::new()),
        }
    }

    fn push(&mut self, chunk: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Records(restore) => restore.push(chunk)?,
            Self::Coord(restore) => restore.push(chunk)?,
            Self::Meta(chunks) => chunks.push(chunk.to_vec()),
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<Prepared> {
        Ok(match self {
            Self::Records(restore) => Prepared::Records(Box::new(restore.finish()?)),
            Self::Coord(restore) => Prepared::Coord(Box::new(restore.finish()?)),
            Self::Meta(chunks) => Prepared::Meta(Box::new(Meta::new().restored(chunks)?)),
        })
    }
}
