//! Bytes in, items out. Frames are read from where they lie; only what ends inside a frame is kept and copied.

use crate::frame::{self, Broken, HEAD_BYTES, TAG_BATCH};
use crate::item::{self, Item};
use crate::limits::OUTBOX_BYTES_KEPT;
use crate::link::LinkKind;

/// The receiving half of a link that both sides have greeted on.
#[derive(Debug)]
pub struct Inbound {
    kind: LinkKind,
    /// The beginning of a frame.
    begun: Vec<u8>,
}

impl Inbound {
    #[must_use]
    pub fn new(kind: LinkKind) -> Self {
        Self { kind, begun: Vec::new() }
    }

    #[must_use]
    pub fn kind(&self) -> LinkKind {
        self.kind
    }

    /// Takes what has come, and gives every item of every frame that is whole by now. After an error nothing more is to be
    /// taken from this link.
    pub fn receive(&mut self, mut bytes: &[u8], mut take: impl FnMut(Item<'_>)) -> Result<(), Broken> {
        while !self.begun.is_empty() && !bytes.is_empty() {
            let wanted = self.length_of(&self.begun)?.unwrap_or(HEAD_BYTES) - self.begun.len();
            let (now, later) = bytes.split_at(wanted.min(bytes.len()));
            self.begun.extend_from_slice(now);
            bytes = later;
            if self.length_of(&self.begun)? == Some(self.begun.len()) {
                read_batch(self.kind, &self.begun, &mut take)?;
                self.begun.clear();
                self.begun.shrink_to(OUTBOX_BYTES_KEPT);
            }
        }
        while let Some(length) = self.length_of(bytes)?.filter(|length| *length <= bytes.len()) {
            let (frame, later) = bytes.split_at(length);
            read_batch(self.kind, frame, &mut take)?;
            bytes = later;
        }
        self.begun.extend_from_slice(bytes);
        Ok(())
    }

    /// Memory that the beginning of a frame takes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.begun.capacity()
    }

    fn length_of(&self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        frame::length(bytes, self.kind.frame_bytes_max())
    }
}

fn read_batch(kind: LinkKind, frame: &[u8], take: &mut impl FnMut(Item<'_>)) -> Result<(), Broken> {
    let (tag, mut rest) = frame::body(frame)?;
    if tag != TAG_BATCH {
        return Err(Broken::OutOfPlace { what: "a greeting", kind });
    }
    while !rest.is_empty() {
        let item = item::cut(kind, &mut rest)?;
        take(item);
    }
    Ok(())
}
