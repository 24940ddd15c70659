//! The ceiling: the bytes of a turn copied together, written over a file that is all there, and synced. No order, no
//! checksum, nothing to read back.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use shardine_model::ids::ShardId;
use shardine_model::log::{LogEntry, LogWrite};

use super::store::LogStore;

const FILE_BYTES: u64 = 64 << 20;

pub struct RawFile {
    file: File,
    /// Where to write next, and memory to put a turn together in.
    state: Mutex<(u64, Vec<u8>)>,
}

impl RawFile {
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("raw");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        let zeros = vec![0; 1 << 20];
        for _ in 0..FILE_BYTES >> 20 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        Ok(Self { file, state: Mutex::default() })
    }
}

impl LogStore for RawFile {
    fn write(&self, writes: Vec<LogWrite>) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (offset, buffer) = &mut *state;
        buffer.clear();
        for entry in writes.iter().flat_map(|write| &write.entries) {
            buffer.extend_from_slice(&entry.data);
        }
        if *offset + buffer.len() as u64 > FILE_BYTES {
            *offset = 0;
        }
        self.file.write_all_at(buffer, *offset)?;
        self.file.sync_data()?;
        *offset += buffer.len() as u64;
        Ok(())
    }

    fn shards(&self) -> Vec<ShardId> {
        Vec::new()
    }

    fn entries(&self, _: ShardId) -> Result<Vec<LogEntry>> {
        Ok(Vec::new())
    }

    fn truncate_before(&self, _: &[ShardId], _: u64) -> Result<()> {
        Ok(())
    }
}
