//! Frames, and the greeting that a link begins with.
//!
//! ```text
//! frame   length u32 | sum u32 | body         the length counts the body, the sum (CRC-32) is over length and body
//! body    1 hello | 2 welcome | 3 refusal | 4 batch of items
//! item    tag u8 | length u32 | content
//! ```
//!
//! Numbers are little-endian. No memory is taken for what a length claims, only for what has come.

use shardine_model::codec::{DecodeError, Reader};
use thiserror::Error;

use crate::hello::{Heard, Hello, Welcome};
use crate::limits::GREETING_BYTES_MAX;
use crate::link::LinkKind;
use crate::refusal::Refusal;

pub(crate) const HEAD_BYTES: usize = 8;

pub(crate) const TAG_HELLO: u8 = 1;
pub(crate) const TAG_WELCOME: u8 = 2;
pub(crate) const TAG_REFUSAL: u8 = 3;
pub(crate) const TAG_BATCH: u8 = 4;

/// Why a link cannot go on. It is closed, and dialled again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    #[error("this is no node of Shardine: it opens with something else than a hello")]
    NotAPeer,
    #[error("a frame claims {bytes} bytes, the limit is {limit}")]
    TooLong { bytes: u64, limit: u64 },
    #[error("a frame does not match its checksum")]
    Damaged,
    #[error("a frame cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    #[error("{what} does not belong on a link of kind {kind}")]
    OutOfPlace { what: &'static str, kind: LinkKind },
    #[error("something came before the greeting was over")]
    TooEarly,
}

/// Opens a frame at the end of `out`, to be closed by [`close`].
pub(crate) fn open(out: &mut Vec<u8>, tag: u8) {
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.push(tag);
}

/// Closes a frame that is all of `frame`.
pub(crate) fn close(frame: &mut [u8]) {
    let length = u32::try_from(frame.len() - HEAD_BYTES).expect("frames are far below 4 GiB");
    frame[..4].copy_from_slice(&length.to_le_bytes());
    let sum = sum(frame);
    frame[4..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// Over a whole frame without the place of the sum itself.
fn sum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..4]);
    hasher.update(&frame[HEAD_BYTES..]);
    hasher.finalize()
}

/// How long the frame is that begins here, head included; nothing while that is not known.
pub(crate) fn length(bytes: &[u8], body_max: usize) -> Result<Option<usize>, Broken> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > body_max {
        return Err(Broken::TooLong { bytes: length as u64, limit: body_max as u64 });
    }
    Ok(Some(HEAD_BYTES + length))
}

/// The tag and the rest of a whole frame's body.
pub(crate) fn body(frame: &[u8]) -> Result<(u8, &[u8]), Broken> {
    let told = u32::from_le_bytes(frame[4..HEAD_BYTES].try_into().expect("four bytes"));
    if told != sum(frame) {
        return Err(Broken::Damaged);
    }
    let (&tag, rest) = frame[HEAD_BYTES..].split_first().ok_or(DecodeError::Truncated { what: "frame" })?;
    Ok((tag, rest))
}

fn frame(tag: u8, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    open(&mut out, tag);
    write(&mut out);
    close(&mut out);
    out
}

impl Hello {
    /// What is sent first by whoever has dialled. Nothing follows until the answer is there.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        frame(TAG_HELLO, |out| self.encode(out))
    }
}

impl Welcome {
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        frame(TAG_WELCOME, |out| self.encode(out))
    }
}

impl Refusal {
    /// What is sent before the link is closed.
    #[must_use]
    pub fn to_frame(&self) -> Vec<u8> {
        frame(TAG_REFUSAL, |out| self.encode(out))
    }
}

/// The first words of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// To be admitted, and answered with a welcome or a refusal.
    Hello(Hello),
    /// A hello in versions that are not spoken here: to be answered with [`Refusal::OtherVersion`].
    OtherVersion {
        version: u16,
        version_least: u16,
    },
    Welcome(Welcome),
    Refused(Refusal),
}

/// Waits for the first words of the other side.
#[derive(Debug)]
pub struct Opening {
    has_dialled: bool,
    bytes: Vec<u8>,
}

impl Opening {
    /// Of a link that this node has dialled: a welcome or a refusal comes.
    #[must_use]
    pub fn dialled() -> Self {
        Self { has_dialled: true, bytes: Vec::new() }
    }

    /// Of a link that somebody else has dialled: a hello comes.
    #[must_use]
    pub fn accepted() -> Self {
        Self { has_dialled: false, bytes: Vec::new() }
    }

    /// Takes bytes until the greeting is whole. Not to be called after that.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Option<Greeting>, Broken> {
        self.bytes.extend_from_slice(bytes);
        let length = length(&self.bytes, GREETING_BYTES_MAX).map_err(|_| Broken::NotAPeer)?;
        let Some(length) = length.filter(|length| *length <= self.bytes.len()) else { return Ok(None) };
        let rest = self.bytes.split_off(length);
        let greeting = self.read()?;
        self.bytes = rest;
        // Whoever has dialled waits to be let in.
        if !self.has_dialled && !self.bytes.is_empty() {
            return Err(Broken::TooEarly);
        }
        Ok(Some(greeting))
    }

    /// What has come behind the greeting already, for [`crate::Inbound`].
    #[must_use]
    pub fn into_rest(self) -> Vec<u8> {
        self.bytes
    }

    fn read(&self) -> Result<Greeting, Broken> {
        let (tag, rest) = body(&self.bytes).map_err(|_| Broken::NotAPeer)?;
        let mut reader = Reader::new(rest);
        match (tag, self.has_dialled) {
            (TAG_HELLO, false) => Ok(match Hello::decode(&mut reader)? {
                Heard::Hello(hello) => Greeting::Hello(hello),
                Heard::OtherVersion { version, version_least } => Greeting::OtherVersion { version, version_least },
            }),
            (TAG_WELCOME, true) => Ok(Greeting::Welcome(Welcome::decode(&mut reader)?)),
            (TAG_REFUSAL, true) => Ok(Greeting::Refused(Refusal::decode(&mut reader)?)),
            _ => Err(Broken::NotAPeer),
        }
    }
}
