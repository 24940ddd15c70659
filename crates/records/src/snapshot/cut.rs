//! A cut: what has been written of it, what waits, and what must be written before it changes.

use std::collections::VecDeque;
use std::sync::Arc;

use shardine_model::stream::{Chunks, put_end};
use shardine_model::{GroupKind, RowKey, Table};

use super::large::LargeRows;
use super::sections::put_table;
use super::segments::put_segment;
use crate::slot::Content;
use crate::state::Records;

/// Bytes after which a step ends: a small shard has one chunk, and no step writes two usual segments.
const STEP_BYTES: usize = 16 << 10;

/// A cut in progress.
#[derive(Debug)]
pub(crate) struct Cut {
    chunks: Chunks,
    /// Until it is taken. It comes first, because rows are read by it.
    head: Option<Vec<u8>>,
    /// Definitions that are not written yet.
    tables: VecDeque<Arc<Table>>,
    next_segment: usize,
    /// The size of the last segment written: the next one takes about as much.
    segment_bytes: usize,
    large: LargeRows,
    has_ended: bool,
}

impl Cut {
    /// A little more than the last one, so that memory is asked for only once.
    fn expected_len(&self) -> usize {
        self.segment_bytes + self.segment_bytes / 8
    }

    /// The next definitions.
    fn write_tables(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let begin = out.len();
        while out.len() < begin + bytes
            && let Some(table) = self.tables.pop_front()
        {
            put_table(out, &table);
        }
        out.len() > begin
    }
}

/// What the next step of a cut gave.
#[derive(Debug, PartialEq, Eq)]
pub enum CutStep {
    Chunk(Vec<u8>),
    /// Everything has been given; the cut is over.
    Done,
}

impl Records {
    /// Fixes the present state as a snapshot. Its chunks come from [`Records::cut_step`].
    pub fn begin_cut(&mut self) {
        assert!(self.cut.is_none(), "one cut at a time");
        let mut head = Vec::new();
        self.put_sections(&mut head);
        self.cuts += 1;
        self.remembered.begin_cut(self.cuts);
        self.cut = Some(Cut {
            chunks: Chunks::new(GroupKind::Records),
            head: Some(head),
            tables: self.catalogue.definitions().map(Arc::clone).collect(),
            next_segment: 0,
            segment_bytes: 0,
            large: LargeRows::default(),
            has_ended: false,
        });
    }

    #[must_use]
    pub fn is_cutting(&self) -> bool {
        self.cut.is_some()
    }

    /// Gives up a cut; the next one begins anew.
    pub fn abandon_cut(&mut self) {
        self.cut = None;
        self.remembered.end_cut();
        self.ahead.clear();
    }

    /// Lets go a little of what the last cut needed, and of what rows that are gone have left. To be called now and then: all
    /// at once would take long.
    pub fn let_memory_go(&mut self) {
        if self.cut.is_none() {
            self.ahead.shrink();
            self.join_some();
        }
    }

    /// The next chunk of the cut. Takes about as long as one segment takes to write.
    pub fn cut_step(&mut self) -> CutStep {
        self.cut_step_of(STEP_BYTES)
    }

    /// The same with about so many bytes; one section, client or segment at the least.
    pub fn cut_step_of(&mut self, bytes: usize) -> CutStep {
        let mut cut = self.cut.take().expect("only called during a cut");
        if let Some(chunk) = cut.chunks.take_rest() {
            self.cut = Some(cut);
            return CutStep::Chunk(chunk);
        }
        if cut.has_ended {
            self.remembered.end_cut();
            return CutStep::Done;
        }
        let mut chunk = cut.chunks.open(cut.expected_len());
        let head = chunk.len();
        while chunk.len() < head + bytes && !cut.has_ended {
            if !self.write_next(&mut cut, bytes, &mut chunk) {
                put_end(&mut chunk);
                cut.has_ended = true;
            }
        }
        let chunk = cut.chunks.close(chunk);
        self.cut = Some(cut);
        CutStep::Chunk(chunk)
    }

    /// Writes what comes next; says if there was anything left.
    fn write_next(&mut self, cut: &mut Cut, bytes: usize, out: &mut Vec<u8>) -> bool {
        if let Some(head) = cut.head.take() {
            out.extend_from_slice(&head);
            return true;
        }
        // A large row that was begun goes on: its item is one run of bytes.
        cut.write_tables(bytes, out)
            || cut.large.go_on(&self.index, bytes, out)
            || self.ahead.pop(out)
            || self.remembered.write_some(bytes, out)
            || cut.large.begin_next(&self.index, bytes, out)
            || self.write_segment(cut, out)
    }

    fn write_segment(&mut self, cut: &mut Cut, out: &mut Vec<u8>) -> bool {
        let is_saved = |segment: usize| self.index.segment(segment).saved_for == self.cuts;
        let next = (cut.next_segment..self.index.segment_count()).find(|segment| !is_saved(*segment));
        let Some(segment) = next else { return false };
        // Splits may move later segments up, never an unsaved one below this place.
        cut.next_segment = segment;
        let begin = out.len();
        put_segment(&self.index, segment, &mut cut.large, out);
        cut.segment_bytes = out.len() - begin;
        self.index.segment_mut(segment).saved_for = self.cuts;
        true
    }

    /// Called before any change: a segment that the running cut has not written yet is written as it was.
    #[inline]
    pub(crate) fn save_before_change(&mut self, segment: usize) {
        if self.cut.is_some() && self.index.segment(segment).saved_for != self.cuts {
            self.save_ahead(segment);
        }
    }

    fn save_ahead(&mut self, segment: usize) {
        let cut = self.cut.as_mut().expect("only called during a cut");
        let expected = cut.expected_len();
        cut.segment_bytes = self.ahead.push(expected, |out| put_segment(&self.index, segment, &mut cut.large, out));
        self.index.segment_mut(segment).saved_for = self.cuts;
    }

    /// Called with what a row was, when it has been replaced: a large one that is not written yet is kept.
    pub(crate) fn keep_for_cut(&mut self, row: RowKey<'_>, old: Option<Content>) {
        if let (Some(cut), Some(old)) = (&mut self.cut, old) {
            cut.large.keep(row, old);
        }
    }

    /// Called before fields of a tree record change in place: those of a large one that are not written yet are kept.
    pub(crate) fn keep_fields_for_cut<'a>(
        &mut self,
        segment: usize,
        row: RowKey<'_>,
        names: impl Iterator<Item = &'a [u8]>,
    ) {
        if let Some(cut) = &mut self.cut
            && let Some(slot) = self.index.segment(segment).find(self.index.hasher(), row)
        {
            cut.large.keep_fields(row, slot, names);
        }
    }
}
