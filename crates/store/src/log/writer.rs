//! Writes the log: appends frames to the newest segment, takes a new one when it is full, frees old ones. One caller at a time.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry};

use super::damage::Damage;
use super::frame::{self, Builder};
use super::group::Group;
use super::groups::Groups;
use super::part::{self, Part};
use super::pen::Pen;
use super::pins::Pins;
use super::record;
use super::replay::{self, Replay};
use super::segment::{self, Head};
use super::spares::Spares;
use super::{Change, GroupLog, Options, Start};
use crate::disk::BLOCK_BYTES;
use crate::error::Error;
use crate::files::Files;
use crate::identity::Owner;

/// Memory that a frame may keep between writes.
const FRAME_BYTES_KEPT: usize = 8 << 20;

/// Invariant: everything before the pen in the newest segment, and all of the older ones, is synced.
pub(super) struct Writer {
    files: Files,
    dir: PathBuf,
    owner: Owner,
    options: Options,
    groups: Groups,
    pins: Pins,
    /// Oldest first, never empty; the last one is being written.
    segments: VecDeque<Segment>,
    pen: Pen,
    nonce: u64,
    next_number: u64,
    frame: Builder,
    spares: Spares,
    /// What recovery has read and nobody has loaded yet. A group leaves as soon as it changes.
    recovered: BTreeMap<ShardId, VecDeque<LogEntry>>,
    /// The groups that could not be read. They take nothing but a reset or their removal, and what is left of them is kept.
    damaged: BTreeMap<ShardId, Damage>,
    /// Set by the first failure and never cleared.
    is_stopped: bool,
}

struct Segment {
    path: PathBuf,
    sequence: u64,
    /// The length of the file.
    bytes: u64,
    /// What may be written to it before the next one is begun.
    capacity: usize,
}

impl Writer {
    pub(super) fn open(files: Files, dir: &Path, owner: Owner, start: Start, options: Options) -> Result<Self, Error> {
        assert!(options.segment_bytes.is_multiple_of(BLOCK_BYTES), "a segment is whole blocks");
        assert!(options.frame_bytes <= frame::BODY_BYTES_MAX, "a frame has a limit of its own");
        let found = if files.disk().is_dir(dir) { files.numbered(dir, segment::ENDING)? } else { Vec::new() };
        if found.is_empty() && start == Start::Again {
            return Err(Error::LogGone { dir: dir.to_path_buf() });
        }
        files.create_dir(dir)?;
        let (leftovers, kept) = found.split_at(replay::last_run(&found));
        let replay = replay::replay(&files, owner, kept)?;
        let spares = Spares::open(&files, dir, &options)?;
        let writer = match replay.segments.last() {
            Some(_) => Self::resume(files, dir, owner, options, spares, replay)?,
            None => Self::begin(files, dir, owner, options, spares)?,
        };
        // What is left of a damaged group is for people to look at.
        if writer.damaged.is_empty() {
            leftovers.iter().try_for_each(|(_, path)| writer.files.remove(path))?;
        }
        writer.files.sync_dir(dir)?;
        Ok(writer)
    }

    fn begin(files: Files, dir: &Path, owner: Owner, options: Options, spares: Spares) -> Result<Self, Error> {
        let head = Head { owner, sequence: 1, nonce: files.disk().draw(), first_number: 1, groups: Groups::default() };
        let (pen, segment) = start_segment(&files, dir, &spares, &options, &head)?;
        Ok(Self {
            files,
            dir: dir.to_path_buf(),
            owner,
            options,
            groups: head.groups,
            pins: Pins::default(),
            segments: VecDeque::from([segment]),
            pen,
            nonce: head.nonce,
            next_number: head.first_number,
            frame: Builder::new(),
            spares,
            recovered: BTreeMap::new(),
            damaged: BTreeMap::new(),
            is_stopped: false,
        })
    }

    fn resume(
        files: Files,
        dir: &Path,
        owner: Owner,
        options: Options,
        spares: Spares,
        replay: Replay,
    ) -> Result<Self, Error> {
        let newest = replay.segments.last().expect("only called with segments");
        // The last frame may have been read from memory that never reached the disk: a process that was killed between write
        // and sync leaves such, and so does one whose sync failed. From here on it counts as kept, so it is written again: a
        // sync alone says that all is well about what an earlier one has given up.
        let mut pen = Pen::open(&files, &newest.path, newest.end - newest.last.len())?;
        pen.write(&newest.last)?;
        let segments = replay.segments.iter().map(|segment| Segment {
            path: segment.path.clone(),
            sequence: segment.sequence,
            bytes: segment.bytes,
            capacity: capacity(&options, segment.head_bytes),
        });
        Ok(Self {
            pen,
            nonce: newest.nonce,
            segments: segments.collect(),
            files,
            dir: dir.to_path_buf(),
            owner,
            options,
            recovered: recovered(&replay.groups, replay.entries),
            groups: replay.groups,
            pins: replay.pins,
            damaged: replay.damaged,
            next_number: replay.next_number,
            frame: Builder::new(),
            spares,
            is_stopped: false,
        })
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Makes all changes durable, in order. After a failure nothing is known about the disk, so there is no other.
    pub(super) fn append(&mut self, changes: &[Change]) -> Result<(), Error> {
        let result = self.append_all(changes);
        self.is_stopped |= result.is_err();
        result
    }

    fn append_all(&mut self, changes: &[Change]) -> Result<(), Error> {
        let parts = part::parts(changes, self.options.frame_bytes)?;
        let mut left = parts.as_slice();
        while !left.is_empty() {
            let (count, body_bytes) = part::next_frame(left, self.options.frame_bytes);
            self.write_frame(&left[..count], body_bytes)?;
            left = &left[count..];
        }
        // Only now: if a truncation were lost, the entries would be missed.
        let frees = |change: &Change| !matches!(change, Change::Write(_));
        if changes.iter().any(frees) { self.free_segments() } else { Ok(()) }
    }

    fn write_frame(&mut self, parts: &[Part<'_>], body_bytes: usize) -> Result<(), Error> {
        self.make_room(body_bytes)?;
        self.frame.begin(parts.len());
        for part in parts {
            self.stage(*part)?;
        }
        if self.frame.is_empty() { Ok(()) } else { self.commit() }
    }

    /// Puts one group's part into the frame, and notes what will be kept of the group.
    fn stage(&mut self, part: Part<'_>) -> Result<(), Error> {
        match part {
            Part::Write { shard, replica, entries, hard_state } => {
                self.stage_write(shard, replica, entries, hard_state)
            }
            Part::Truncate { shard, below } => self.stage_truncate(shard, below),
            Part::Reset { shard, replica, hard_state, index } => {
                self.groups.reset(shard, replica, hard_state, index)?;
                self.forget(shard);
                record::put_reset(self.frame.section(shard, replica), hard_state, index);
                Ok(())
            }
            Part::Remove { shard, replica } => {
                if self.groups.remove(shard, replica) {
                    self.forget(shard);
                    record::put_remove(self.frame.section(shard, replica));
                }
                Ok(())
            }
        }
    }

    fn stage_write(
        &mut self,
        shard: ShardId,
        replica: ReplicaId,
        entries: &[LogEntry],
        hard_state: Option<HardState>,
    ) -> Result<(), Error> {
        self.check_readable(shard)?;
        let group = self.groups.claim(shard, replica)?;
        let section = self.frame.section(shard, replica);
        if let Some(entry) = entries.first() {
            check_order(shard, group, entries)?;
            group.append(entry.index, entries.len() as u64);
            record::put_entries(section, entries);
            let newest = self.segments[self.segments.len() - 1].sequence;
            self.pins.append(shard, newest, entry.index, group.next - 1);
        }
        if let Some(hard_state) = hard_state {
            group.hard_state = hard_state;
            record::put_hard_state(section, hard_state);
        }
        self.recovered.remove(&shard);
        Ok(())
    }

    /// A group that is not there has nothing to forget.
    fn stage_truncate(&mut self, shard: ShardId, below: u64) -> Result<(), Error> {
        self.check_readable(shard)?;
        let Some(group) = self.groups.live.get_mut(&shard) else { return Ok(()) };
        if below > group.next {
            return Err(Error::TruncatedTooFar { shard, below, next: group.next });
        }
        if group.truncate(below) {
            record::put_truncate(self.frame.section(shard, group.replica), below);
            self.pins.truncate(shard, below);
            self.recovered.remove(&shard);
        }
        Ok(())
    }

    /// Nothing that was written of the group counts any more.
    fn forget(&mut self, shard: ShardId) {
        self.damaged.remove(&shard);
        self.recovered.remove(&shard);
        self.pins.release(shard);
    }

    fn check_readable(&self, shard: ShardId) -> Result<(), Error> {
        self.damaged.get(&shard).map_or(Ok(()), |damage| Err(damage.of(shard)))
    }

    /// The one place where anything is promised: the frame is written, and synced before this returns.
    fn commit(&mut self) -> Result<(), Error> {
        self.pen.write(self.frame.seal(self.nonce, self.next_number))?;
        self.next_number += 1;
        self.frame.shrink_to(FRAME_BYTES_KEPT);
        let written = self.pen.offset().next_multiple_of(BLOCK_BYTES) as u64;
        if let Some(newest) = self.segments.back_mut() {
            newest.bytes = newest.bytes.max(written);
        }
        Ok(())
    }

    /// Goes to the next segment if a body of this length and the seal no longer fit. Called before anything is noted,
    /// because the head of the new segment must tell the state before the frame.
    fn make_room(&mut self, body_bytes: usize) -> Result<(), Error> {
        let end = self.pen.offset() + 2 * frame::HEAD_BYTES + body_bytes;
        // A frame that no segment could hold still gets one of its own: the file then grows, once.
        if end <= self.segments[self.segments.len() - 1].capacity {
            return Ok(());
        }
        self.next_segment()
    }

    fn next_segment(&mut self) -> Result<(), Error> {
        let full = &self.segments[self.segments.len() - 1];
        let head = Head {
            owner: self.owner,
            sequence: full.sequence + 1,
            nonce: self.files.disk().draw(),
            first_number: self.next_number,
            groups: self.groups.clone(),
        };
        let (pen, segment) = start_segment(&self.files, &self.dir, &self.spares, &self.options, &head)?;
        // The seal says that there is a next segment, so that the loss of that file is noticed.
        self.frame.begin(0);
        self.pen.write(self.frame.seal(self.nonce, frame::SEAL))?;
        self.pen = pen;
        self.nonce = head.nonce;
        self.segments.push_back(segment);
        Ok(())
    }

    /// Frees the oldest segments that hold nothing that is still kept.
    fn free_segments(&mut self) -> Result<(), Error> {
        let needed = self.pins.oldest().map_or(u64::MAX, |(segment, _)| segment);
        let mut freed = false;
        while self.segments.len() > 1 && self.segments[0].sequence < needed {
            let Some(segment) = self.segments.pop_front() else { break };
            self.spares.give(&segment.path, segment.bytes)?;
            freed = true;
        }
        // Before a spare is written over, its old name must be gone for good: otherwise a crash could bring back
        // a segment with foreign content.
        if freed { self.files.sync_dir(&self.dir) } else { Ok(()) }
    }
}

/// What can be asked.
impl Writer {
    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The term of an entry that recovery has read and nobody has loaded yet.
    pub(super) fn recovered_term(&self, shard: ShardId, index: u64) -> Option<u64> {
        let entries = self.recovered.get(&shard)?;
        let place = index.checked_sub(entries.front()?.index)?;
        entries.get(usize::try_from(place).ok()?).map(|entry| entry.term)
    }

    pub(super) fn load(&mut self, shard: ShardId) -> Result<Option<GroupLog>, Error> {
        self.check_readable(shard)?;
        let Some(group) = self.groups.get(shard).copied() else { return Ok(None) };
        let entries = match self.recovered.remove(&shard) {
            Some(entries) => entries,
            None => self.read_again(shard)?,
        };
        let Group { replica, hard_state, first, .. } = group;
        Ok(Some(GroupLog { replica, hard_state, first, entries: entries.into() }))
    }

    fn read_again(&self, shard: ShardId) -> Result<VecDeque<LogEntry>, Error> {
        let segments: Vec<_> = self.segments.iter().map(|segment| (segment.sequence, segment.path.clone())).collect();
        let mut replay = replay::replay(&self.files, self.owner, &segments)?;
        if replay.next_number != self.next_number {
            // Here nothing can be torn: every write up to this one has been synced by this process.
            let reason = format!("write {} is not readable", replay.next_number);
            let newest = &replay.segments[replay.segments.len() - 1];
            return Err(Damage::new(&newest.path, newest.end, reason).of_all());
        }
        match replay.damaged.get(&shard) {
            Some(damage) => Err(damage.of(shard)),
            None => Ok(replay.entries.remove(&shard).unwrap_or_default()),
        }
    }

    /// The group that keeps the oldest segment from being freed. None if only the newest one is needed, which is never freed.
    pub(super) fn oldest_shard(&self) -> Option<ShardId> {
        let newest = self.segments[self.segments.len() - 1].sequence;
        self.pins.oldest().filter(|(segment, _)| *segment < newest).map(|(_, shard)| shard)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum::<u64>() + self.spares.bytes()
    }
}

impl Drop for Writer {
    /// Ends the log with an empty frame, so that damage to the last write is not taken for a cut. Failing to is
    /// no loss: it is what a crash leaves.
    fn drop(&mut self) {
        let capacity = self.segments.back().map_or(0, |newest| newest.capacity);
        let fits = self.pen.offset() + 2 * frame::HEAD_BYTES <= capacity;
        if !self.is_stopped && fits {
            self.frame.begin(0);
            let _ = self.commit();
        }
    }
}

/// What can be loaded without reading the files again: also of groups that have no entries.
fn recovered(
    groups: &Groups,
    mut entries: BTreeMap<ShardId, VecDeque<LogEntry>>,
) -> BTreeMap<ShardId, VecDeque<LogEntry>> {
    groups.live.keys().map(|shard| (*shard, entries.remove(shard).unwrap_or_default())).collect()
}

/// Turns a spare into a segment. It gets its name only when its head is on disk, so a segment always has one.
fn start_segment(
    files: &Files,
    dir: &Path,
    spares: &Spares,
    options: &Options,
    head: &Head,
) -> Result<(Pen, Segment), Error> {
    let spare = spares.take()?;
    let path = segment::path(dir, head.sequence);
    let mut pen = Pen::open(files, &spare, 0)?;
    pen.write(&head.encode())?;
    files.rename(&spare, &path)?;
    files.sync_dir(dir)?;
    let bytes = options.segment_bytes.max(head.bytes().next_multiple_of(BLOCK_BYTES)) as u64;
    let capacity = capacity(options, head.bytes());
    Ok((pen.renamed(&path), Segment { path, sequence: head.sequence, bytes, capacity }))
}

/// With very many groups the head alone may fill a segment. There is always room for as much again, so that not every write
/// begins another one.
fn capacity(options: &Options, head_bytes: usize) -> usize {
    options.segment_bytes.max(2 * head_bytes)
}

fn check_order(shard: ShardId, group: &Group, entries: &[LogEntry]) -> Result<(), Error> {
    let out_of_order = |expected, found| Error::OutOfOrder { shard, expected, found };
    let first = entries.first().map_or(0, |entry| entry.index);
    if !group.accepts(first) {
        return Err(out_of_order(group.next, first));
    }
    for (expected, entry) in (first..).zip(entries) {
        if entry.index != expected {
            return Err(out_of_order(expected, entry.index));
        }
    }
    Ok(())
}
