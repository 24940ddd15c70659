//! What the core asks of a state machine, whichever it is: to be cut into a snapshot, and to be made from one.
//!
//! How entries are made, applied and answered is each machine's own business, and stays in its replica
//! (`docs/adr/0002-two-state-machines.md`).

use shardine_coord::Coord;
use shardine_meta::Meta;
use shardine_model::checksum::Summing;
use shardine_model::stream::SnapshotError;
use shardine_records::Records;

pub(crate) trait Machine: Sized {
    fn begin_cut(&mut self);

    /// The next chunk of the cut, or nothing when it is over.
    fn next_chunk(&mut self) -> Option<Vec<u8>>;

    /// Gives up a running cut.
    fn abandon_cut(&mut self);

    /// For the chunks of a cut: replicas that agree give the same sum.
    fn summing() -> Box<dyn Summing>;

    /// Makes a machine that has begun empty into what all chunks of a snapshot say.
    fn restored(self, chunks: Vec<&[u8]>) -> Result<Self, SnapshotError>;
}

impl Machine for Records {
    fn begin_cut(&mut self) {
        self.begin_cut();
    }

    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        match self.cut_step() {
            shardine_records::CutStep::Chunk(chunk) => Some(chunk),
            shardine_records::CutStep::Done => None,
        }
    }

    fn abandon_cut(&mut self) {
        self.abandon_cut();
    }

    fn summing() -> Box<dyn Summing> {
        Self::summing()
    }

    fn restored(self, chunks: Vec<&[u8]>) -> Result<Self, SnapshotError> {
        self.restored(chunks)
    }
}

impl Machine for Coord {
    fn begin_cut(&mut self) {
        self.begin_cut();
    }

    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        match self.cut_step() {
            shardine_coord::CutStep::Chunk(chunk) => Some(chunk),
            shardine_coord::CutStep::Done => None,
        }
    }

    fn abandon_cut(&mut self) {
        self.abandon_cut();
    }

    fn summing() -> Box<dyn Summing> {
        Self::summing()
    }

    fn restored(self, chunks: Vec<&[u8]>) -> Result<Self, SnapshotError> {
        self.restored(chunks)
    }
}

impl Machine for Meta {
    fn begin_cut(&mut self) {
        self.begin_cut();
    }

    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        self.next_chunk()
    }

    fn abandon_cut(&mut self) {
        self.abandon_cut();
    }

    fn summing() -> Box<dyn Summing> {
        Self::summing()
    }

    fn restored(self, chunks: Vec<&[u8]>) -> Result<Self, SnapshotError> {
        self.restored(chunks)
    }
}
