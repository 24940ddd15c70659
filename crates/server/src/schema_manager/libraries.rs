//! Libraries of functions: in the map of a cluster, or in a file of a node that is alone.

use std::sync::Arc;
use std::time::Instant;

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::{ErrorCode, Refusal};
use shardine_router::LibraryCall;
use shardine_shard::meta::{Command, Libraries, no_library, with_libraries};
use shardine_store::{DataDir, Error, NodeFile};

use super::{MAP_STEP, OTHERS_TIME, SchemaManager};

impl SchemaManager {
    /// Once this has returned, every node that lives has what is there now.
    pub(super) fn change_libraries(&mut self, call: LibraryCall) -> Result<(), Refusal> {
        if self.exchange.cluster.is_none() {
            return self.change_alone(call);
        }
        let wanted = call.clone();
        self.exchange.ask_meta(match call {
            LibraryCall::Put { libraries, replaces, begins_anew } => {
                Command::PutLibraries { libraries, replaces, begins_anew }
            }
            LibraryCall::Drop { name } => Command::DropLibrary { name },
        })?;
        self.await_own_libraries(&wanted);
        if !self.exchange.await_others(OTHERS_TIME) {
            tracing::warn!("not all nodes have confirmed the functions that have changed");
        }
        Ok(())
    }

    /// Whoever leads the map's group has answered; this node hears of the new map a moment later.
    fn await_own_libraries(&self, call: &LibraryCall) {
        let until = Instant::now() + OTHERS_TIME;
        let Some(cluster) = &self.exchange.cluster else { return };
        while !is_there(&cluster.atlas.sheet().full.libraries, call) && Instant::now() < until {
            std::thread::sleep(MAP_STEP);
        }
    }

    fn change_alone(&mut self, call: LibraryCall) -> Result<(), Refusal> {
        let next = match call {
            LibraryCall::Put { libraries, replaces, begins_anew } => {
                with_libraries(&self.libraries, libraries, replaces, begins_anew)?
            }
            LibraryCall::Drop { name } => {
                let mut next = self.libraries.clone();
                next.remove(&name).ok_or_else(no_library)?;
                next
            }
        };
        self.data.save_file(NodeFile::Libraries, &to_bytes(&next)).map_err(|error| {
            Refusal::new(ErrorCode::Internal, format!("the functions could not be kept, nothing was changed: {error}"))
        })?;
        self.exchange.shelf.turn_to(&next);
        self.libraries = next;
        Ok(())
    }
}

/// Whether a change is in the map, or one behind it.
fn is_there(libraries: &Libraries, call: &LibraryCall) -> bool {
    match call {
        LibraryCall::Drop { name } => !libraries.contains_key(name),
        LibraryCall::Put { libraries: come, begins_anew, .. } => {
            let has = |(name, text): &(String, Box<[u8]>)| libraries.get(name).is_some_and(|known| **known == **text);
            come.iter().all(has) && (!begins_anew || libraries.len() == come.len())
        }
    }
}

/// What a node that is alone has kept.
pub(crate) fn kept(data: &DataDir) -> Result<Libraries, Error> {
    let Some(bytes) = data.load_file(NodeFile::Libraries)? else { return Ok(Libraries::new()) };
    // Its checksum was right, so it is as it was written.
    Ok(from_bytes(&bytes).unwrap_or_else(|error| {
        tracing::error!(%error, "the functions of this node cannot be read; load them again");
        Libraries::new()
    }))
}

fn to_bytes(libraries: &Libraries) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, libraries.len() as u64);
    for (name, text) in libraries {
        put_bytes(&mut out, name.as_bytes());
        put_bytes(&mut out, text);
    }
    out
}

fn from_bytes(bytes: &[u8]) -> Result<Libraries, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut libraries = Libraries::new();
    for _ in 0..reader.count("libraries")? {
        libraries.insert(reader.text("name of a library")?.to_owned(), Arc::from(reader.bytes("library")?));
    }
    reader.finish("libraries")?;
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_have_these_bytes_for_ever() {
        let libraries =
            Libraries::from([("one".to_owned(), Arc::from(&b"x"[..])), ("two".to_owned(), Arc::from(&b""[..]))]);

        assert_eq!(to_bytes(&libraries), b"\x02\x03one\x01x\x03two\x00");
        assert_eq!(from_bytes(b"\x02\x03one\x01x\x03two\x00"), Ok(libraries));
        assert!(from_bytes(b"\x02\x03one\x01x").is_err());
    }
}
