//! Recovery: reads the segments once, checks every byte of them, and tells a cut tail from damage. Writes nothing.
//!
//! Each frame was synced before the next one was begun, so only the last frame can be incomplete. A frame is *proven* if
//! a later one was begun: the head of any later frame shows that, and so does the segment after it. What is wrong in a
//! proven frame is damage: to one group if it is the group's section, to all if it is the head, because then nobody can
//! tell whose sections followed. A frame that is not proven is the last one: if any of it is wrong, all of it is cut,
//! because it may be a write that a crash cut short and that nobody was told of. A bit that flips in the very last
//! frame cannot be told from a cut; a node that stopped in good order ends its log with an empty frame, so that even its
//! last write is proven.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry};
use tracing::warn;

use super::damage::Damage;
use super::frame::{self, Frame, Section};
use super::group::Group;
use super::groups::Groups;
use super::pins::Pins;
use super::record::{self, Record};
use super::segment::{self, Fault, Head};
use crate::error::Error;
use crate::files::Files;
use crate::identity::Owner;

/// What the segments of a directory say.
#[derive(Default)]
pub(super) struct Replay {
    /// Whose they must be. Who only looks does not ask.
    owner: Option<Owner>,
    pub(super) groups: Groups,
    pub(super) pins: Pins,
    pub(super) entries: BTreeMap<ShardId, VecDeque<LogEntry>>,
    /// The groups that cannot be read. Invariant: each of them is lost in `groups` and has no entries.
    pub(super) damaged: BTreeMap<ShardId, Damage>,
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
    pub(super) head_bytes: usize,
    /// The last of the frames, which another process may have written and not synced. Empty if there is none.
    pub(super) last: Vec<u8>,
    /// Where the frames end.
    pub(super) end: usize,
    /// The length of the file.
    pub(super) bytes: u64,
}

/// Where the last run of segments without a gap begins. What is before it was being freed when a crash came, in an order of the
/// disk's own; or else it will be missed.
pub(super) fn last_run(segments: &[(u64, PathBuf)]) -> usize {
    let follows = |pair: &[(u64, PathBuf)]| pair[0].0.checked_add(1) == Some(pair[1].0);
    segments.windows(2).rposition(|pair| !follows(pair)).map_or(0, |before| before + 1)
}

/// Reads what the given segments say, oldest first, newest last.
pub(super) fn replay(files: &Files, owner: Owner, segments: &[(u64, PathBuf)]) -> Result<Replay, Error> {
    let mut replay = Replay { owner: Some(owner), ..Replay::default() };
    let (mut bytes, mut bytes_behind) = (Vec::new(), Vec::new());
    for (position, (sequence, path)) in segments.iter().enumerate() {
        // The segment behind is read before this one is judged: its head tells which frames are proven.
        match position {
            0 => files.read(path, &mut bytes)?,
            _ => std::mem::swap(&mut bytes, &mut bytes_behind),
        }
        let mut end_number = None;
        if let Some((sequence_behind, path_behind)) = segments.get(position + 1) {
            files.read(path_behind, &mut bytes_behind)?;
            end_number = Some(decode_head(path_behind, *sequence_behind, &bytes_behind)?.first_number);
        }
        replay.segment(path, *sequence, &bytes, end_number)?;
        if end_number.is_none() {
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
    replay.segment(path, sequence, bytes, None)?;
    replay.check_tail(bytes)?;
    Ok(replay.entries.values().map(VecDeque::len).sum())
}

impl Replay {
    /// Reads one segment. `end_number` is the first frame of the segment behind it, if there is one.
    fn segment(&mut self, path: &Path, sequence: u64, bytes: &[u8], end_number: Option<u64>) -> Result<(), Error> {
        let head = decode_head(path, sequence, bytes)?;
        self.check_owner(path, &head)?;
        self.check_follows(path, &head)?;
        if self.segments.is_empty() {
            self.begin(path, &head);
        }
        self.segments.push(Replayed {
            path: path.to_path_buf(),
            sequence,
            nonce: head.nonce,
            head_bytes: head.bytes(),
            last: Vec::new(),
            end: head.bytes(),
            bytes: bytes.len() as u64,
        });
        let (mut last_at, mut at) = (head.bytes(), head.bytes());
        // A frame that was cut by an earlier recovery may still lie behind the last one that counts.
        while end_number.is_none_or(|end_number| self.next_number < end_number) {
            let Some(frame) = frame::read(&bytes[at..], head.nonce) else { break };
            let proven = || end_number.is_some() || is_followed(&bytes[at + frame.bytes..], head.nonce, frame.number);
            if frame.number != self.next_number || !(frame.is_whole() || proven()) {
                break;
            }
            self.frame(path, at, &frame);
            last_at = at;
            at += frame.bytes;
            self.next_number = self.next_number.saturating_add(1);
        }
        let newest = self.newest();
        newest.end = at;
        if end_number.is_none() {
            newest.last = bytes[last_at..at].to_vec();
        }
        Ok(())
    }

    fn newest(&mut self) -> &mut Replayed {
        self.segments.last_mut().expect("only called while a segment is read")
    }

    fn begin(&mut self, path: &Path, head: &Head) {
        self.next_number = head.first_number;
        self.groups.clone_from(&head.groups);
        self.found_from = head.groups.live.iter().map(|(shard, group)| (*shard, group.next)).collect();
        for (shard, group) in &head.groups.live {
            if group.is_lost() {
                let damage = Damage::new(path, 0, "its log was damaged in an older file, which is gone");
                self.damaged.insert(*shard, damage);
            }
        }
    }

    fn check_owner(&self, path: &Path, head: &Head) -> Result<(), Error> {
        let (found, Some(expected)) = (head.owner, self.owner) else { return Ok(()) };
        let path = path.to_path_buf();
        if found.cluster != expected.cluster {
            return Err(Error::AnotherCluster { path, found: found.cluster, expected: expected.cluster });
        }
        if found.node != expected.node {
            return Err(Error::AnotherNode { path, found: found.node, expected: expected.node });
        }
        Ok(())
    }

    /// A segment must begin where the one before it ended.
    fn check_follows(&mut self, path: &Path, head: &Head) -> Result<(), Error> {
        let Some(previous) = self.segments.last() else {
            return Ok(());
        };
        if head.sequence != previous.sequence + 1 {
            let missing = previous.sequence + 1;
            return Err(Damage::new(path, 0, format!("segment {missing} before it is missing")).of_all());
        }
        if head.first_number != self.next_number {
            let (next, first) = (self.next_number, head.first_number);
            let reason = format!("write {next} is not readable, but the next segment begins with {first}");
            return Err(Damage::new(&previous.path, previous.end, reason).of_all());
        }
        self.bury(&head.groups.removed);
        if !self.agrees_with(&head.groups) {
            return Err(Damage::new(path, 0, "its head does not agree with the segments before it").of_all());
        }
        Ok(())
    }

    /// What cannot be read cannot disagree. Nor does a head that was written while a group could not be read, when the
    /// damaged file has been put back since.
    fn agrees_with(&self, head: &Groups) -> bool {
        let ours = self.groups.live.keys().chain(self.groups.removed.keys());
        let shards: BTreeSet<ShardId> = ours.chain(head.live.keys()).chain(head.removed.keys()).copied().collect();
        shards.iter().all(|shard| {
            let (ours, theirs) = (self.groups.live.get(shard), head.live.get(shard));
            let is_same = ours == theirs && self.groups.removed.get(shard) == head.removed.get(shard);
            is_same || theirs.is_some_and(Group::is_lost) || self.damaged.contains_key(shard)
        })
    }

    /// A damaged group that was removed later has lost nothing.
    fn bury(&mut self, removed: &BTreeMap<ShardId, ReplicaId>) {
        let damaged: Vec<ShardId> = self.damaged.keys().copied().collect();
        for (shard, replica) in damaged.iter().filter_map(|shard| removed.get_key_value(shard)) {
            self.remove(*shard, *replica);
        }
    }

    /// Takes what a frame tells. What is wrong in it concerns the group whose section it is.
    fn frame(&mut self, path: &Path, at: usize, frame: &Frame<'_>) {
        for section in &frame.sections {
            if let Err(reason) = self.section(section, frame.number) {
                self.lose(section, Damage::new(path, at + section.at, reason));
            }
        }
    }

    fn section(&mut self, section: &Section<'_>, number: u64) -> Result<(), String> {
        let Some(content) = section.content else {
            return Err(format!("its part of write {number} does not match its checksum"));
        };
        // One piece of memory per section: entries share it, and it goes when the last of them does.
        let records = record::decode(Bytes::copy_from_slice(content));
        let records = records.ok_or_else(|| format!("its part of write {number} has an unknown form"))?;
        for record in records {
            self.record(section.shard, section.replica, record)?;
        }
        Ok(())
    }

    /// From here on nothing is known of the group, until a snapshot from a peer replaces it or it is removed.
    fn lose(&mut self, section: &Section<'_>, damage: Damage) {
        let segment = self.newest().sequence;
        self.groups.lose(section.shard, section.replica);
        self.entries.remove(&section.shard);
        self.pins.lose(section.shard, segment);
        self.damaged.entry(section.shard).or_insert(damage);
    }

    fn record(&mut self, shard: ShardId, replica: ReplicaId, record: Record) -> Result<(), String> {
        match record {
            Record::Reset { hard_state, index } => self.reset(shard, replica, hard_state, index)?,
            Record::Remove => self.remove(shard, replica),
            _ if self.damaged.contains_key(&shard) => {}
            Record::Entries(entries) => self.append(shard, replica, entries)?,
            Record::HardState(hard_state) => {
                self.groups.claim(shard, replica).map_err(told)?.hard_state = hard_state;
            }
            Record::Truncate(index) => self.truncate(shard, replica, index)?,
        }
        Ok(())
    }

    fn reset(&mut self, shard: ShardId, replica: ReplicaId, hard_state: HardState, index: u64) -> Result<(), String> {
        self.groups.reset(shard, replica, hard_state, index).map_err(told)?;
        self.forget(shard);
        Ok(())
    }

    fn remove(&mut self, shard: ShardId, replica: ReplicaId) {
        if self.groups.remove(shard, replica) {
            self.forget(shard);
        }
    }

    /// Nothing that was read of the group counts any more.
    fn forget(&mut self, shard: ShardId) {
        self.entries.remove(&shard);
        self.damaged.remove(&shard);
        self.pins.release(shard);
        self.found_from.remove(&shard);
    }

    fn truncate(&mut self, shard: ShardId, replica: ReplicaId, index: u64) -> Result<(), String> {
        let group = self.groups.claim(shard, replica).map_err(told)?;
        if index > group.next {
            return Err(format!("entries below {index} are forgotten where {} is next", group.next));
        }
        group.truncate(index);
        let first = group.first;
        let kept = self.entries.entry(shard).or_default();
        while kept.front().is_some_and(|entry| entry.index < first) {
            kept.pop_front();
        }
        self.pins.truncate(shard, first);
        Ok(())
    }

    fn append(&mut self, shard: ShardId, replica: ReplicaId, entries: Vec<LogEntry>) -> Result<(), String> {
        let group = self.groups.claim(shard, replica).map_err(told)?;
        let first = entries.first().map_or(0, |entry| entry.index);
        if !group.accepts(first) {
            return Err(format!("entry {first} where {} is next", group.next));
        }
        group.append(first, entries.len() as u64);
        let last = group.next - 1;
        let segment = self.newest().sequence;
        self.pins.append(shard, segment, first, last);

        let kept = self.entries.entry(shard).or_default();
        while kept.back().is_some_and(|entry| entry.index >= first) {
            kept.pop_back();
        }
        kept.extend(entries);
        let found_from = self.found_from.entry(shard).or_insert(first);
        *found_from = first.min(*found_from);
        Ok(())
    }

    /// Nothing may follow the end of the newest segment.
    fn check_tail(&self, bytes: &[u8]) -> Result<(), Error> {
        let Some(newest) = self.segments.last() else {
            return Ok(());
        };
        let rest = &bytes[newest.end..];
        let next = self.next_number;
        let reason = match frame::find_above(rest, newest.nonce, next) {
            Some((0, frame::SEAL)) => "the segment after it is missing".to_owned(),
            Some((_, frame::SEAL)) => format!("write {next} is not readable, but the end of the segment is"),
            Some((_, number)) => format!("write {next} is not readable, but the later write {number} is"),
            None => {
                note_cut(newest, rest);
                return Ok(());
            }
        };
        Err(Damage::new(&newest.path, newest.end, reason).of_all())
    }

    /// The oldest head tells which entries lay in older segments; all of them must have been forgotten since.
    fn check_nothing_missing(&self) -> Result<(), Error> {
        for (shard, group) in self.groups.live.iter().filter(|(shard, _)| !self.damaged.contains_key(shard)) {
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

/// Whether a frame was begun behind the one with this number. Directly behind it the nonce is enough, which nobody else could
/// have put there: so a cut write is proof too, even if its head is torn.
fn is_followed(behind: &[u8], nonce: u64, number: u64) -> bool {
    frame::was_begun(behind, nonce) || frame::find_above(behind, nonce, number).is_some()
}

/// A broken rule, found while reading: the frame is what was written, and should not have been.
fn told(error: Error) -> String {
    error.to_string()
}

fn decode_head(path: &Path, sequence: u64, bytes: &[u8]) -> Result<Head, Error> {
    match Head::decode(bytes) {
        Ok(head) if head.sequence == sequence => Ok(head),
        Ok(head) => Err(Damage::new(path, 0, format!("it says that it is segment {}", head.sequence)).of_all()),
        Err(Fault::Damaged) => Err(Damage::new(path, 0, "its head is not readable").of_all()),
        Err(Fault::Older { version }) => {
            Err(Error::OlderFormat { file: path.to_path_buf(), found: version, known: segment::VERSION })
        }
        Err(Fault::Newer { version }) => {
            Err(Error::NewerFormat { file: path.to_path_buf(), found: version, known: segment::VERSION })
        }
    }
}

/// A write that was begun leaves its head behind; where nothing was begun there are zeros or an earlier life.
fn note_cut(newest: &Replayed, rest: &[u8]) {
    if frame::was_begun(rest, newest.nonce) {
        warn!(file = %newest.path.display(), offset = newest.end, "an incomplete last write was cut off");
    }
}
