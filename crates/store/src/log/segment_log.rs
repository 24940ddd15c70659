//! The log on disk: appends frames to the newest segment, takes a new one when it is full, frees old ones.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use shardine_model::ids::ShardId;
use shardine_model::log::{HardState, LogEntry, LogWrite};

use super::damage::Damage;
use super::frame::{self, Builder};
use super::group::Group;
use super::pen::Pen;
use super::record;
use super::replay::{self, Replay, Replayed};
use super::segment::{self, Head};
use super::spares::Spares;
use super::{GroupLog, LogStore};
use crate::disk::{self, BLOCK_BYTES, Cache, OsDisk};
use crate::error::Error;
use crate::files::Files;

/// An empty file that says that there must be segments, so that their loss is not taken for a new node.
const BEGUN: &str = "BEGUN";

/// Memory that a frame may keep between writes.
const FRAME_BYTES_KEPT: usize = 8 << 20;

/// How much disk the log takes, and in which pieces.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The unit in which space is taken and freed. Large enough that changing segments is rare, small enough that
    /// a fresh node is not fat. Whole blocks.
    pub segment_bytes: usize,
    /// Freed segments that are kept to be written over. More than are freed by one round of snapshots is waste.
    pub spares_max: usize,
    /// Whether a thread of its own prepares the next segment. Without it, the write that needs one waits for it; and
    /// everything happens in the caller's thread, in an order that can be repeated.
    pub fill_ahead: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, spares_max: 4, fill_ahead: true }
    }
}

/// The log of all groups of a node in one directory.
pub struct SegmentLog {
    dir: PathBuf,
    disk: Mutex<Disk>,
}

impl SegmentLog {
    /// Opens the log in `dir`, recovers what was synced and cuts an incomplete last write. Reads every byte of
    /// the log; an error says what is damaged and what to do. Damage to one group is told when that one is loaded.
    pub fn open(dir: &Path, options: Options) -> Result<Self, Error> {
        Self::open_on(Arc::new(OsDisk), dir, options)
    }

    /// Like [`SegmentLog::open`], on another disk than the operating system's.
    pub fn open_on(disk: Arc<dyn disk::Disk>, dir: &Path, options: Options) -> Result<Self, Error> {
        Ok(Self { dir: dir.to_path_buf(), disk: Mutex::new(Disk::open(Files::new(disk), dir, options)?) })
    }

    fn disk(&self) -> Result<MutexGuard<'_, Disk>, Error> {
        let stopped = || Error::Stopped { dir: self.dir.clone() };
        let disk = self.disk.lock().map_err(|_| stopped())?;
        if disk.stopped { Err(stopped()) } else { Ok(disk) }
    }
}

impl LogStore for SegmentLog {
    fn write(&self, writes: &[LogWrite]) -> Result<(), Error> {
        self.disk()?.or_stop(|disk| disk.write(writes))
    }

    fn shards(&self) -> Vec<ShardId> {
        let Ok(disk) = self.disk() else {
            return Vec::new();
        };
        disk.groups.keys().copied().collect()
    }

    fn load(&self, shard: ShardId) -> Result<GroupLog, Error> {
        self.disk()?.load(shard)
    }

    fn truncate_before(&self, shard: ShardId, index: u64) -> Result<(), Error> {
        self.disk()?.or_stop(|disk| disk.truncate_before(shard, index))
    }

    fn reset(&self, shard: ShardId, hard_state: HardState) -> Result<(), Error> {
        self.disk()?.or_stop(|disk| disk.reset(shard, hard_state))
    }

    fn oldest_shard(&self) -> Option<ShardId> {
        self.disk().ok()?.oldest_shard()
    }

    fn bytes_on_disk(&self) -> u64 {
        self.disk().map_or(0, |disk| disk.bytes())
    }
}

/// Invariant: everything before the pen in the newest segment, and all of the older ones, is synced.
struct Disk {
    files: Files,
    dir: PathBuf,
    options: Options,
    groups: BTreeMap<ShardId, Group>,
    /// Oldest first, never empty; the last one is being written.
    segments: VecDeque<Segment>,
    pen: Pen,
    nonce: u64,
    next_number: u64,
    frame: Builder,
    spares: Spares,
    /// What recovery has read and nobody has loaded yet. A group leaves as soon as it changes.
    recovered: BTreeMap<ShardId, VecDeque<LogEntry>>,
    /// The groups that could not be read. They take nothing but a reset, and what is left of them is kept.
    damaged: BTreeMap<ShardId, Damage>,
    /// Set by the first failure and never cleared.
    stopped: bool,
}

struct Segment {
    path: PathBuf,
    sequence: u64,
    /// The highest index that each group has in it.
    last: BTreeMap<ShardId, u64>,
}

impl Disk {
    fn open(files: Files, dir: &Path, options: Options) -> Result<Self, Error> {
        assert!(options.segment_bytes.is_multiple_of(BLOCK_BYTES), "a segment is whole blocks");
        files.create_dir(dir)?;
        let found = files.numbered(dir, segment::ENDING)?;
        let spares = Spares::open(&files, dir, &options)?;
        let begun = dir.join(BEGUN);
        if found.is_empty() && files.read_small(&begun)?.is_some() {
            let reason = "the log was begun, but no segment of it is left";
            return Err(Damage::new(&segment::path(dir, 1), 0, reason).of_all());
        }
        let replay = replay::replay(&files, &found)?;
        let disk = match replay.segments.last() {
            Some(_) => Self::resume(files, dir, options, spares, replay)?,
            None => Self::begin(files, dir, options, spares)?,
        };
        disk.files.create(&begun)?;
        disk.files.sync_dir(dir)?;
        Ok(disk)
    }

    fn begin(files: Files, dir: &Path, options: Options, spares: Spares) -> Result<Self, Error> {
        let head = Head { sequence: 1, nonce: files.disk().draw(), first_number: 1, groups: BTreeMap::new() };
        let (pen, segment) = start_segment(&files, dir, &spares, &head)?;
        Ok(Self {
            files,
            dir: dir.to_path_buf(),
            options,
            groups: BTreeMap::new(),
            segments: VecDeque::from([segment]),
            pen,
            nonce: head.nonce,
            next_number: head.first_number,
            frame: Builder::new(),
            spares,
            recovered: BTreeMap::new(),
            damaged: BTreeMap::new(),
            stopped: false,
        })
    }

    fn resume(files: Files, dir: &Path, options: Options, spares: Spares, replay: Replay) -> Result<Self, Error> {
        let newest = replay.segments.last().expect("only called with segments");
        // The last frames may have been read from memory that never reached the disk: a process that was killed
        // between write and sync leaves such. From here on they count as kept.
        files.open(&newest.path, Cache::Through)?.sync().map_err(Error::io("sync", &newest.path))?;
        Ok(Self {
            pen: Pen::open(&files, &newest.path, newest.end)?,
            files,
            dir: dir.to_path_buf(),
            options,
            recovered: recovered(&replay.groups, replay.entries),
            groups: replay.groups,
            damaged: replay.damaged,
            nonce: newest.nonce,
            next_number: replay.next_number,
            segments: replay.segments.into_iter().map(Segment::from).collect(),
            frame: Builder::new(),
            spares,
            stopped: false,
        })
    }

    /// Runs a change; after a failure nothing is known about the disk, so there is no other.
    fn or_stop<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let result = change(self);
        self.stopped |= result.is_err();
        result
    }

    fn write(&mut self, writes: &[LogWrite]) -> Result<(), Error> {
        let (mut sections, mut body_bytes) = (0, 0);
        for bytes in writes.iter().map(measure).filter(|bytes| *bytes > 0) {
            sections += 1;
            body_bytes += frame::SECTION_BYTES + bytes;
        }
        if sections == 0 {
            return Ok(());
        }
        self.make_room(body_bytes)?;
        self.frame.begin(sections);
        for write in writes.iter().filter(|write| measure(write) > 0) {
            self.stage(write)?;
        }
        self.commit()
    }

    /// Puts one group's part into the frame, and notes what will be kept of the group.
    fn stage(&mut self, write: &LogWrite) -> Result<(), Error> {
        let shard = write.shard;
        self.check_readable(shard)?;
        let group = self.groups.entry(shard).or_default();
        let section = self.frame.section(shard);
        if let Some(entry) = write.entries.first() {
            check_order(shard, group, &write.entries)?;
            group.append(entry.index, write.entries.len() as u64);
            let last = group.next - 1;
            record::put_entries(section, &write.entries);
            if let Some(newest) = self.segments.back_mut() {
                newest.last.insert(shard, last);
            }
        }
        if let Some(hard_state) = write.hard_state {
            group.hard_state = hard_state;
            record::put_hard_state(section, hard_state);
        }
        self.recovered.remove(&shard);
        Ok(())
    }

    fn truncate_before(&mut self, shard: ShardId, index: u64) -> Result<(), Error> {
        self.check_readable(shard)?;
        self.make_room(frame::SECTION_BYTES + record::SHORT_BYTES_MAX)?;
        let Some(group) = self.groups.get_mut(&shard) else {
            return Ok(());
        };
        if !group.truncate(index) {
            return Ok(());
        }
        self.recovered.remove(&shard);
        self.frame.begin(1);
        record::put_truncate(self.frame.section(shard), index);
        self.commit()?;
        // Only now: if the truncation were lost, the entries would be missed.
        self.free_segments()
    }

    fn reset(&mut self, shard: ShardId, hard_state: HardState) -> Result<(), Error> {
        self.make_room(frame::SECTION_BYTES + record::SHORT_BYTES_MAX)?;
        self.damaged.remove(&shard);
        self.groups.entry(shard).or_default().reset(hard_state);
        for segment in &mut self.segments {
            segment.last.remove(&shard);
        }
        self.recovered.remove(&shard);
        self.frame.begin(1);
        record::put_reset(self.frame.section(shard), hard_state);
        self.commit()?;
        self.free_segments()
    }

    fn check_readable(&self, shard: ShardId) -> Result<(), Error> {
        self.damaged.get(&shard).map_or(Ok(()), |damage| Err(damage.of(shard)))
    }

    fn load(&mut self, shard: ShardId) -> Result<GroupLog, Error> {
        self.check_readable(shard)?;
        let hard_state = match self.groups.get(&shard) {
            Some(group) => group.hard_state,
            None => return Ok(GroupLog::default()),
        };
        let entries = match self.recovered.remove(&shard) {
            Some(entries) => entries,
            None => self.read_again(shard)?,
        };
        Ok(GroupLog { hard_state, entries: entries.into() })
    }

    fn read_again(&self, shard: ShardId) -> Result<VecDeque<LogEntry>, Error> {
        let segments: Vec<_> = self.segments.iter().map(|segment| (segment.sequence, segment.path.clone())).collect();
        let mut replay = replay::replay(&self.files, &segments)?;
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

    /// The one place where anything is promised: the frame is written, and synced before this returns.
    fn commit(&mut self) -> Result<(), Error> {
        self.pen.write(self.frame.seal(self.nonce, self.next_number))?;
        self.next_number += 1;
        self.frame.shrink_to(FRAME_BYTES_KEPT);
        Ok(())
    }

    /// Goes to the next segment if a body of this length and the seal no longer fit. Called before anything is noted,
    /// because the head of the new segment must tell the state before the frame.
    fn make_room(&mut self, body_bytes: usize) -> Result<(), Error> {
        if body_bytes > frame::BODY_BYTES_MAX {
            return Err(Error::WriteTooLarge { bytes: body_bytes, bytes_max: frame::BODY_BYTES_MAX });
        }
        let end = self.pen.offset() + 2 * frame::HEAD_BYTES + body_bytes;
        // A frame that no segment could hold still gets one of its own: the file then grows, once.
        if end <= self.options.segment_bytes {
            return Ok(());
        }
        self.next_segment()
    }

    fn next_segment(&mut self) -> Result<(), Error> {
        let full = &self.segments[self.segments.len() - 1];
        let head = Head {
            sequence: full.sequence + 1,
            nonce: self.files.disk().draw(),
            first_number: self.next_number,
            groups: self.groups.clone(),
        };
        let (pen, segment) = start_segment(&self.files, &self.dir, &self.spares, &head)?;
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
        let mut freed = false;
        while self.segments.len() > 1 && pinning(&self.segments[0], &self.groups).is_none() {
            let Some(segment) = self.segments.pop_front() else {
                break;
            };
            self.spares.give(&segment.path, self.files.size(&segment.path)?)?;
            freed = true;
        }
        // Before a spare is written over, its old name must be gone for good: otherwise a crash could bring back
        // a segment with foreign content.
        if freed { self.files.sync_dir(&self.dir) } else { Ok(()) }
    }

    fn oldest_shard(&self) -> Option<ShardId> {
        self.segments.iter().find_map(|segment| pinning(segment, &self.groups))
    }

    fn bytes(&self) -> u64 {
        let segments = self.segments.iter().filter_map(|segment| self.files.size(&segment.path).ok());
        segments.sum::<u64>() + self.spares.bytes()
    }
}

impl Drop for Disk {
    /// Ends the log with an empty frame, so that damage to the last write is not taken for a cut. Failing to is
    /// no loss: it is what a crash leaves.
    fn drop(&mut self) {
        let fits = self.pen.offset() + 2 * frame::HEAD_BYTES <= self.options.segment_bytes;
        if !self.stopped && fits {
            self.frame.begin(0);
            let _ = self.commit();
        }
    }
}

impl From<Replayed> for Segment {
    fn from(replayed: Replayed) -> Self {
        Self { path: replayed.path, sequence: replayed.sequence, last: replayed.last }
    }
}

/// What can be loaded without reading the files again: also of groups that have no entries.
fn recovered(
    groups: &BTreeMap<ShardId, Group>,
    mut entries: BTreeMap<ShardId, VecDeque<LogEntry>>,
) -> BTreeMap<ShardId, VecDeque<LogEntry>> {
    groups.keys().map(|shard| (*shard, entries.remove(shard).unwrap_or_default())).collect()
}

/// Turns a spare into a segment. It gets its name only when its head is on disk, so a segment always has one.
fn start_segment(files: &Files, dir: &Path, spares: &Spares, head: &Head) -> Result<(Pen, Segment), Error> {
    let spare = spares.take()?;
    let path = segment::path(dir, head.sequence);
    let mut pen = Pen::open(files, &spare, 0)?;
    pen.write(&head.encode())?;
    files.rename(&spare, &path)?;
    files.sync_dir(dir)?;
    Ok((pen.renamed(&path), Segment { path, sequence: head.sequence, last: BTreeMap::new() }))
}

fn measure(write: &LogWrite) -> usize {
    record::measure(&write.entries, write.hard_state)
}

/// A group that still needs something in this segment.
fn pinning(segment: &Segment, groups: &BTreeMap<ShardId, Group>) -> Option<ShardId> {
    segment
        .last
        .iter()
        .find(|(shard, last)| groups.get(shard).is_some_and(|group| group.needs(**last)))
        .map(|(shard, _)| *shard)
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
