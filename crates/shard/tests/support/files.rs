//! The snapshots on the disks of a test's nodes, from which messages that offer them get their content.

use std::collections::BTreeMap;

use bytes::Bytes;
use shardine_model::codec::put_bytes;
use shardine_model::log::SnapshotMeta;
use shardine_shard::{Message, SnapshotPart};

#[derive(Default)]
pub struct Files {
    newest: BTreeMap<u64, (SnapshotMeta, Bytes)>,
    writing: BTreeMap<u64, (SnapshotMeta, Vec<u8>)>,
}

impl Files {
    /// Writes a part. Says the index of a snapshot that is complete: its replica is to be told.
    pub fn write(&mut self, node: u64, part: SnapshotPart) -> Option<u64> {
        match part {
            SnapshotPart::Begin(meta) => drop(self.writing.insert(node, (meta, Vec::new()))),
            SnapshotPart::Chunk(chunk) => {
                let (_, content) = self.writing.get_mut(&node).expect("chunks come after a beginning");
                put_bytes(content, &chunk);
            }
            SnapshotPart::Abandon => drop(self.writing.remove(&node)),
            SnapshotPart::End => {
                let (meta, content) = self.writing.remove(&node).expect("a snapshot begins before it ends");
                let index = meta.index;
                self.newest.insert(node, (meta, content.into()));
                return Some(index);
            }
        }
        None
    }

    /// Puts a snapshot's content into the message that offers it. One that a newer one has replaced cannot be sent.
    pub fn fill(&self, node: u64, message: &mut Message) -> bool {
        let Some(offered) = message.snapshot() else { return true };
        let found = self.newest.get(&node).filter(|(meta, _)| *meta == offered);
        let Some((_, content)) = found else { return false };
        message.set_snapshot_data(content.clone());
        true
    }
}
