//! Recovery: reads the segments once, checks every byte of them, and tells a cut tail from damage. Writes nothing.
//!
//! Each frame was synced before the next one was begun, so only the last frame can be incomplete. Where the frames of
//! the newest segment end, one of two things is true. Nothing whole follows: the end, perhaps with a write that a
//! crash cut short and that nobody was told of. Something whole follows: there was more, and it is damaged. In older
//! segments the head of the next one says how many frames there must be. A bit that flips in the very last frame
//! cannot be told from a cut; a node that stopped in good order ends its log with an empty frame, so that even its
//! last write is covered.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use shardine_model::ids::ShardId;
use shardine_model::log::LogEntry;
use tracing::warn;

use super::frame::{self, Record};
use super::group::Group;
use super::segment::{self, Fault, Head};
use crate::error::Error;

/// What the segments of a directory say.
#[derive(Default)]
pub(super) struct Replay {
    pub(super) groups: BTreeMap<ShardId, Group>,
    pub(super) entries: BTreeMap<ShardId, VecDeque<LogEntry>>,
    /// Oldest first.
    pub(super) segments: Vec<Replayed>,
    pub(super) next_number: u64,
    /// Per group the index from which on its entries were found in the files. Below it, they have to be forgotten.
    found_from: BTreeMap<ShardId, u64>,
}

/// One segment as it was found.
pub(super) struct Replayed {
    pub(super) path: PathBuf,
    pub(super) sequence: u64,
    pub(super) nonce: u64,
    /// Where the frames end.
    pub(super) end: usize,
    /// The highest index that each group has in this segment.
    pub(super) last: BTreeMap<ShardId, u64>,
}

/// Reads what the given segments say, oldest first, newest last.
pub(super) fn replay(files: &[(u64, PathBuf)]) -> Result<Replay, Error> {
    let mut replay = Replay::default();
    let mut bytes = Vec::new();
    for (position, (sequence, path)) in files.iter().enumerate() {
        bytes.clear();
        read_file(path, &mut bytes)?;
        replay.segment(path, *sequence, &bytes)?;
        if position + 1 == files.len() {
            replay.check_tail(&bytes)?;
        }
    }
    replay.check_nothing_missing()?;
    Ok(replay)
}

/// Reads a segment from memory and returns the number of its entries that are still kept. For fuzzing: whatever the bytes are, the
/// answer is a count or an error.
pub fn scan(bytes: &[u8]) -> Result<usize, Error> {
    let mut replay = Replay::default();
    let path = Path::new("(memory)");
    let sequence = Head::decode(bytes).map_or(0, |head| head.sequence);
    replay.segment(path, sequence, bytes)?;
    replay.check_tail(bytes)?;
    Ok(replay.entries.values().map(VecDeque::len).sum())
}

impl Replay {
    fn segment(&mut self, path: &Path, sequence: u64, bytes: &[u8]) -> Result<(), Error> {
        let head = decode_head(path, sequence, bytes)?;
        self.check_follows(path, &head)?;
        if self.segments.is_empty() {
            self.begin(&head);
        }
        let mut replayed = Replayed {
            path: path.to_path_buf(),
            sequence,
            nonce: head.nonce,
            end: head.bytes(),
            last: BTreeMap::new(),
        };
        while let Some(frame) = frame::read(&bytes[replayed.end..], head.nonce) {
            if frame.number != self.next_number {
                break;
            }
            self.frame(frame.body, &mut replayed)?;
            replayed.end += frame.bytes();
            self.next_number += 1;
        }
        self.segments.push(replayed);
        Ok(())
    }

    fn begin(&mut self, head: &Head) {
        self.next_number = head.first_number;
        self.groups.clone_from(&head.groups);
        self.found_from = head.groups.iter().map(|(shard, group)| (*shard, group.next)).collect();
    }

    /// A segment must begin where the one before it ended.
    fn check_follows(&self, path: &Path, head: &Head) -> Result<(), Error> {
        let Some(previous) = self.segments.last() else {
            return Ok(());
        };
        if head.sequence != previous.sequence + 1 {
            let missing = previous.sequence + 1;
            return Err(damaged(path, 0, format!("segment {missing} before it is missing")));
        }
        if head.first_number != self.next_number {
            let (next, first) = (self.next_number, head.first_number);
            let reason = format!("write {next} is not readable, but the next segment begins with {first}");
            return Err(damaged(&previous.path, previous.end, reason));
        }
        if head.groups != self.groups {
            let reason = "its head does not agree with the segments before it".to_owned();
            return Err(damaged(path, 0, reason));
        }
        Ok(())
    }

    fn frame(&mut self, body: &[u8], replayed: &mut Replayed) -> Result<(), Error> {
        // One piece of memory per frame: entries share it, and it goes when the last of them does.
        let Some(records) = frame::decode(Bytes::copy_from_slice(body)) else {
            let reason = "a record of unknown form".to_owned();
            return Err(damaged(&replayed.path, replayed.end, reason));
        };
        for record in records {
            self.record(record, replayed)?;
        }
        Ok(())
    }

    fn record(&mut self, record: Record, replayed: &mut Replayed) -> Result<(), Error> {
        match record {
            Record::Entries { shard, entries } => self.append(shard, entries, replayed)?,
            Record::HardState { shard, hard_state } => {
                self.groups.entry(shard).or_default().hard_state = hard_state;
            }
            Record::Truncate { shard, index } => {
                let group = self.groups.entry(shard).or_default();
                group.truncate(index);
                let first = group.first;
                let kept = self.entries.entry(shard).or_default();
                if group.next == 0 {
                    kept.clear();
                    self.found_from.insert(shard, 0);
                }
                while kept.front().is_some_and(|entry| entry.index < first) {
                    kept.pop_front();
                }
            }
            Record::Reset { shard, hard_state } => {
                self.groups.entry(shard).or_default().reset(hard_state);
                self.entries.remove(&shard);
                self.found_from.insert(shard, 0);
            }
        }
        Ok(())
    }

    fn append(&mut self, shard: ShardId, entries: Vec<LogEntry>, replayed: &mut Replayed) -> Result<(), Error> {
        let group = self.groups.entry(shard).or_default();
        let first = entries.first().map_or(0, |entry| entry.index);
        if !group.accepts(first) {
            let next = group.next;
            let reason = format!("shard {shard}: entry {first} where {next} is next");
            return Err(damaged(&replayed.path, replayed.end, reason));
        }
        let anywhere = group.next == 0;
        group.append(first, entries.len() as u64);
        replayed.last.insert(shard, group.next - 1);

        let kept = self.entries.entry(shard).or_default();
        while kept.back().is_some_and(|entry| entry.index >= first) {
            kept.pop_back();
        }
        kept.extend(entries);
        let found_from = self.found_from.entry(shard).or_insert(first);
        if anywhere || first < *found_from {
            *found_from = first;
        }
        Ok(())
    }

    /// Nothing whole may follow the end of the newest segment.
    fn check_tail(&self, bytes: &[u8]) -> Result<(), Error> {
        let Some(newest) = self.segments.last() else {
            return Ok(());
        };
        let rest = &bytes[newest.end..];
        let next = self.next_number;
        let reason = match frame::find(rest, newest.nonce, next) {
            Some((0, frame::SEAL)) => "the segment after it is missing".to_owned(),
            Some((_, frame::SEAL)) => format!("write {next} is not readable, but the end of the segment is"),
            Some((_, number)) => format!("write {next} is not readable, but the later write {number} is"),
            None => {
                note_cut(newest, rest);
                return Ok(());
            }
        };
        Err(damaged(&newest.path, newest.end, reason))
    }

    /// The oldest head tells which entries lay in older segments; all of them must have been forgotten since.
    fn check_nothing_missing(&self) -> Result<(), Error> {
        for (shard, group) in &self.groups {
            let found_from = self.found_from.get(shard).copied().unwrap_or(0);
            if group.first < found_from {
                return Err(Error::LogMissing {
                    shard: *shard,
                    from: group.first,
                    to: found_from - 1,
                    oldest: self.segments[0].path.clone(),
                });
            }
        }
        Ok(())
    }
}

fn decode_head(path: &Path, sequence: u64, bytes: &[u8]) -> Result<Head, Error> {
    match Head::decode(bytes) {
        Ok(head) if head.sequence == sequence => Ok(head),
        Ok(head) => {
            let reason = format!("it says that it is segment {}", head.sequence);
            Err(damaged(path, 0, reason))
        }
        Err(Fault::Damaged) => Err(damaged(path, 0, "its head is not readable".to_owned())),
        Err(Fault::Newer { version }) => {
            Err(Error::NewerFormat { file: path.to_path_buf(), found: version, known: segment::VERSION })
        }
    }
}

/// A write that was begun leaves its header behind; where nothing was begun there are zeros or an earlier life.
fn note_cut(newest: &Replayed, rest: &[u8]) {
    let begun = rest.get(8..16) == Some(newest.nonce.to_le_bytes().as_slice());
    if begun {
        warn!(file = %newest.path.display(), offset = newest.end, "an incomplete last write was cut off");
    }
}

fn read_file(path: &Path, bytes: &mut Vec<u8>) -> Result<(), Error> {
    let len = fs::metadata(path).map_err(Error::io("look at", path))?.len();
    bytes.reserve(usize::try_from(len).unwrap_or(0));
    File::open(path).and_then(|mut file| file.read_to_end(bytes)).map_err(Error::io("read", path))?;
    Ok(())
}

fn damaged(path: &Path, offset: usize, reason: String) -> Error {
    Error::LogDamaged { file: path.to_path_buf(), offset: offset as u64, reason }
}
