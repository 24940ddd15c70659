//! Whose directory this is, as it stands in its file. Draws no identities, only keeps them.
//!
//! Readable on purpose: IDENTITY is the first file that somebody opens who wonders what the directory is.
//!
//! ```text
//! shardine data 2
//! cluster 0123456789abcdef0011223344556677
//! node 7
//! name lili
//! starts 12
//! log begun
//! crc 80611c5d
//! ```

use std::path::Path;

use shardine_model::ids::NodeId;
use shardine_model::limits::NAME_BYTES_MAX;

use crate::error::Error;

/// Raised when a version writes a data directory that another one must not touch. 1 did not count starts.
const FORMAT: u32 = 2;

/// Which node of which cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: u128,
    pub node: NodeId,
    /// What people call it. Empty where nobody has named it.
    pub name: String,
}

/// Whose a log is: the part of an identity that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub cluster: u128,
    pub node: NodeId,
}

impl Identity {
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner { cluster: self.cluster, node: self.node }
    }
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdentityFile {
    pub(crate) identity: Identity,
    /// How often a process has started on this directory: the incarnation of the node.
    pub(crate) starts: u64,
    /// Whether there is a log. If so, its absence is a loss and no new beginning.
    pub(crate) is_log_begun: bool,
}

impl IdentityFile {
    pub(crate) fn encode(&self) -> String {
        let Identity { cluster, node, name } = &self.identity;
        let (starts, log) = (self.starts, if self.is_log_begun { "begun" } else { "none" });
        let text = format!(
            "shardine data {FORMAT}\ncluster {cluster:032x}\nnode {node}\nname {name}\nstarts {starts}\nlog {log}\n"
        );
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}crc {crc:08x}\n")
    }

    pub(crate) fn decode(bytes: &[u8], file: &Path) -> Result<Self, Error> {
        let damaged = |reason: &str| Error::IdentityDamaged { file: file.to_path_buf(), reason: reason.to_owned() };
        let text = str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
        let mut lines = text.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');

        let format = value("shardine data").and_then(|value| value.parse().ok());
        match format.ok_or_else(|| damaged("its first line is not readable"))? {
            found if found > FORMAT => {
                return Err(Error::NewerFormat { file: file.to_path_buf(), found, known: FORMAT });
            }
            found if found < FORMAT => {
                return Err(Error::OlderFormat { file: file.to_path_buf(), found, known: FORMAT });
            }
            _ => {}
        }
        let cluster = value("cluster").and_then(|value| u128::from_str_radix(value, 16).ok());
        let node = value("node").and_then(|value| value.parse().ok());
        let name = value("name");
        let starts = value("starts").and_then(|value| value.parse().ok());
        let log = value("log");
        let found = Self {
            identity: Identity {
                cluster: cluster.ok_or_else(|| damaged("its cluster is not readable"))?,
                node: NodeId(node.ok_or_else(|| damaged("its node is not readable"))?),
                name: name.ok_or_else(|| damaged("its name is not readable"))?.to_owned(),
            },
            starts: starts.ok_or_else(|| damaged("its number of starts is not readable"))?,
            is_log_begun: log.ok_or_else(|| damaged("it does not say whether there is a log"))? == "begun",
        };
        // There is one way to write an identity, so the checksum need not be taken apart.
        if found.encode().as_bytes() == bytes { Ok(found) } else { Err(damaged("it does not match its checksum")) }
    }
}

/// A name has a line to itself.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(Error::BadName { name: name.to_owned(), bytes_max: NAME_BYTES_MAX });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lili() -> IdentityFile {
        let cluster = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;
        let identity = Identity { cluster, node: NodeId(7), name: "lili".to_owned() };
        IdentityFile { identity, starts: 12, is_log_begun: true }
    }

    fn decode(bytes: &[u8]) -> Result<IdentityFile, Error> {
        IdentityFile::decode(bytes, Path::new("IDENTITY"))
    }

    #[test]
    fn an_identity_has_these_bytes_for_ever() {
        assert_eq!(
            lili().encode(),
            "shardine data 2\ncluster 0123456789abcdef0011223344556677\nnode 7\nname lili\nstarts 12\nlog begun\ncrc 80611c5d\n"
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut unnamed = lili();
        unnamed.identity.name.clear();
        unnamed.is_log_begun = false;

        for identity in [lili(), unnamed] {
            assert_eq!(decode(identity.encode().as_bytes()).unwrap(), identity);
        }
    }

    #[test]
    fn another_format_is_refused_by_name() {
        let newer = decode(b"shardine data 3\nsomething else\n").unwrap_err();
        let older = decode(b"shardine data 1\ncluster 00\nnode 7\ncrc fe41db6a\n").unwrap_err();

        assert!(matches!(newer, Error::NewerFormat { found: 3, .. }), "{newer}");
        assert!(matches!(older, Error::OlderFormat { found: 1, .. }), "{older}");
        assert!(older.to_string().contains("move the data directory away"), "{older}");
    }

    /// reliability I29.
    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = lili().encode().into_bytes();

        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);

            assert!(decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_name_has_one_line() {
        assert!(check_name("lili").is_ok());
        assert!(check_name("").is_ok());
        assert!(check_name("lili\nstarts 1").is_err());
        assert!(check_name(&"l".repeat(NAME_BYTES_MAX + 1)).is_err());
    }
}
