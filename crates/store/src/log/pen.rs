//! Writes at the end of a segment, in whole blocks that go straight to the disk. Knows no log format.
//!
//! A sync through the page cache looks for dirty pages, marks them, writes them and waits for them; past it there is only
//! the write. The last block is written again by the next write, with the same bytes in front, so a write that is torn
//! leaves what was synced before it as it was: a disk writes sectors whole. A file system that does not offer this is
//! written through its cache, in the same blocks (`disk/os.rs`).

use std::path::{Path, PathBuf};

use crate::disk::{BLOCK_BYTES, Cache, DiskFile};
use crate::error::Error;
use crate::files::Files;

/// A longer write goes in pieces of this size. It is what the pen keeps in memory.
const PIECE_BYTES: usize = 256 << 10;

/// Invariant: the first `offset % BLOCK_BYTES` bytes of the piece are what the file has before `offset`.
pub(super) struct Pen {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    /// Where the next byte goes.
    offset: usize,
    /// One block longer than needed, so that a piece that begins at a block of memory fits.
    memory: Vec<u8>,
}

impl Pen {
    /// Goes on in a file behind its first `offset` bytes.
    pub(super) fn open(files: &Files, path: &Path, offset: usize) -> Result<Self, Error> {
        let file = files.open(path, Cache::Past)?;
        let mut pen = Self { path: path.to_path_buf(), file, offset, memory: vec![0; PIECE_BYTES + BLOCK_BYTES] };
        let (block, kept) = (offset - offset % BLOCK_BYTES, offset % BLOCK_BYTES);
        if kept > 0 {
            let plain = files.open(path, Cache::Through)?;
            let end = &mut pen.piece()[..kept];
            let read = plain.read_at(end, block as u64).map_err(Error::io("read the end of", path))?;
            assert_eq!(read, kept, "whoever says where to go on has read up to there");
        }
        Ok(pen)
    }

    /// The file has got another name.
    pub(super) fn renamed(self, path: &Path) -> Self {
        Self { path: path.to_path_buf(), ..self }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Puts the bytes behind what is there, with zeros up to the end of the block. They are on disk when this returns.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut left = bytes;
        while !left.is_empty() {
            let kept = self.offset % BLOCK_BYTES;
            let (now, later) = left.split_at(left.len().min(PIECE_BYTES - kept));
            self.write_piece(kept, now)?;
            left = later;
        }
        self.file.sync().map_err(Error::io("sync", &self.path))
    }

    fn write_piece(&mut self, kept: usize, bytes: &[u8]) -> Result<(), Error> {
        let end = kept + bytes.len();
        let padded = end.next_multiple_of(BLOCK_BYTES);
        let piece = self.piece();
        piece[kept..end].copy_from_slice(bytes);
        piece[end..padded].fill(0);
        self.put(padded)?;
        self.offset += bytes.len();
        let last = end - end % BLOCK_BYTES;
        self.piece().copy_within(last..end, 0);
        Ok(())
    }

    fn put(&mut self, len: usize) -> Result<(), Error> {
        let at = (self.offset - self.offset % BLOCK_BYTES) as u64;
        let start = start_of_piece(&self.memory);
        let piece = &self.memory[start..start + len];
        self.file.write_at(piece, at).map_err(Error::io("write", &self.path))
    }

    fn piece(&mut self) -> &mut [u8] {
        let start = start_of_piece(&self.memory);
        &mut self.memory[start..start + PIECE_BYTES]
    }
}

/// The disk takes it from there by itself, so it has to begin where a block of memory does.
fn start_of_piece(memory: &[u8]) -> usize {
    memory.as_ptr().addr().next_multiple_of(BLOCK_BYTES) - memory.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::OsDisk;

    fn os() -> Files {
        Files::new(Arc::new(OsDisk))
    }

    /// Old bytes, as a segment of an earlier life has them.
    fn file(dir: &Path, len: usize) -> PathBuf {
        let path = dir.join("segment");
        std::fs::write(&path, vec![7; len]).unwrap();
        path
    }

    fn text(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 31 % 251) as u8 + 1).collect()
    }

    #[test]
    fn writes_of_any_length_stand_one_behind_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), 4 << 20);
        let lengths =
            [1, 100, BLOCK_BYTES - 101, BLOCK_BYTES, 1, 3 * BLOCK_BYTES + 5, 2 * PIECE_BYTES + 17, PIECE_BYTES, 9];
        let text = text(lengths.iter().sum());
        let mut pen = Pen::open(&os(), &path, 0).unwrap();

        let mut done = 0;
        for len in lengths {
            pen.write(&text[done..done + len]).unwrap();
            done += len;

            let found = std::fs::read(&path).unwrap();
            assert_eq!(found[..done], text[..done]);
            let padded = done.next_multiple_of(BLOCK_BYTES);
            assert!(found[done..padded].iter().all(|&byte| byte == 0), "the rest of the block is empty");
            assert!(found[padded..].iter().all(|&byte| byte == 7), "what lies behind is left alone");
            assert_eq!((pen.offset(), found.len()), (done, 4 << 20));
        }
    }

    #[test]
    fn a_pen_that_goes_on_keeps_what_stands_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), 64 << 10);

        for offset in [0, 10, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 77] {
            let before = std::fs::read(&path).unwrap();
            Pen::open(&os(), &path, offset).unwrap().write(b"next").unwrap();

            let found = std::fs::read(&path).unwrap();
            assert_eq!(found[..offset], before[..offset]);
            assert_eq!(&found[offset..offset + 4], b"next");
        }
    }

    #[test]
    fn a_file_grows_where_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), BLOCK_BYTES);
        let text = text(5 * BLOCK_BYTES);

        Pen::open(&os(), &path, 0).unwrap().write(&text).unwrap();

        assert_eq!(std::fs::read(&path).unwrap(), text);
    }
}
