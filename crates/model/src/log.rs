//! What a Raft group asks to be kept on disk, in words of its own: neither raft-rs nor the log engine appears here.

use bytes::Bytes;

use crate::codec::{DecodeError, Reader, put_varint};
use crate::ids::{ReplicaId, ShardId};
use crate::limits;

/// One entry of a group's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub index: u64,
    pub term: u64,
    pub kind: LogEntryKind,
    pub data: Bytes,
}

/// Who reads an entry's data: the state machine, or consensus itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEntryKind {
    Normal,
    Membership,
}

/// What a replica must never forget: its term, its vote, and how far it knew the log to be committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    pub term: u64,
    pub vote: ReplicaId,
    pub commit: u64,
}

/// What one group wants written before it may go on. Entries replace whatever the log held from the first of them on.
#[derive(Clone, Debug)]
pub struct LogWrite {
    pub shard: ShardId,
    /// Which replica of the shard speaks. A log of another replica of the same shard is not continued.
    pub replica: ReplicaId,
    pub entries: Vec<LogEntry>,
    pub hard_state: Option<HardState>,
}

/// One thing that is to be done to the disk. A list of them is done in order.
#[derive(Clone, Debug)]
pub enum LogOp {
    Write(LogWrite),
    /// Forgets the entries below an index; they are in a snapshot that is on disk.
    Truncate {
        shard: ShardId,
        below: u64,
    },
    /// Takes a snapshot from a peer in place of everything that the log has of the shard.
    Install(Box<Install>),
    /// Forgets a replica for good: its number is never taken again.
    Remove {
        shard: ShardId,
        replica: ReplicaId,
    },
}

/// A snapshot from a peer. Stored whole before the log before it goes; what `write` brings stands behind it.
#[derive(Clone, Debug)]
pub struct Install {
    pub meta: SnapshotMeta,
    /// All chunks, each with its length before it.
    pub data: Bytes,
    pub write: LogWrite,
}

impl LogOp {
    #[must_use]
    pub fn shard(&self) -> ShardId {
        match self {
            Self::Write(write) => write.shard,
            Self::Install(install) => install.write.shard,
            Self::Truncate { shard, .. } | Self::Remove { shard, .. } => *shard,
        }
    }

    /// Bytes of entries and of snapshots.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let entries = |write: &LogWrite| write.entries.iter().map(|entry| entry.data.len()).sum();
        match self {
            Self::Write(write) => entries(write),
            Self::Install(install) => install.data.len() + entries(&install.write),
            Self::Truncate { .. } | Self::Remove { .. } => 0,
        }
    }
}

/// Who takes part in a group. While it changes, two sets of voters decide together: `voters`, and `outgoing`, which is not
/// empty then. Whoever asks "is this a quorum" or "am I alone" must ask both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub voters: Vec<ReplicaId>,
    pub learners: Vec<ReplicaId>,
    /// Voters of the configuration that is being left.
    pub outgoing: Vec<ReplicaId>,
    /// Outgoing voters that become learners once it is left.
    pub learners_next: Vec<ReplicaId>,
    /// Whether the leader leaves the joint configuration by itself.
    pub auto_leave: bool,
}

impl Membership {
    /// A settled configuration of voters alone.
    #[must_use]
    pub fn of(voters: impl IntoIterator<Item = ReplicaId>) -> Self {
        Self { voters: voters.into_iter().collect(), ..Self::default() }
    }

    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether this replica's vote counts, in either configuration.
    #[must_use]
    pub fn is_voter(&self, replica: ReplicaId) -> bool {
        self.voters.contains(&replica) || self.outgoing.contains(&replica)
    }

    #[must_use]
    pub fn contains(&self, replica: ReplicaId) -> bool {
        self.members().any(|member| member == replica)
    }

    /// Everybody who gets entries. One that is in two lists comes twice.
    pub fn members(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let lists = [&self.voters, &self.learners, &self.outgoing, &self.learners_next];
        lists.into_iter().flatten().copied()
    }

    /// Whether this replica is the only one of the group: nobody else votes, and nobody else follows.
    #[must_use]
    pub fn is_alone(&self, replica: ReplicaId) -> bool {
        self.is_voter(replica) && self.members().all(|member| member == replica)
    }

    /// Whether these replicas are a majority, of both configurations while there are two.
    pub fn is_quorum(&self, mut agrees: impl FnMut(ReplicaId) -> bool) -> bool {
        let mut has_majority = |voters: &[ReplicaId]| {
            voters.is_empty() || voters.iter().filter(|voter| agrees(**voter)).count() > voters.len() / 2
        };
        has_majority(&self.voters) && has_majority(&self.outgoing)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        for list in [&self.voters, &self.learners, &self.outgoing, &self.learners_next] {
            put_varint(out, list.len() as u64);
            list.iter().for_each(|replica| put_varint(out, replica.0));
        }
        out.push(u8::from(self.auto_leave));
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            voters: members(reader)?,
            learners: members(reader)?,
            outgoing: members(reader)?,
            learners_next: members(reader)?,
            auto_leave: match reader.u8("auto leave")? {
                0 => false,
                1 => true,
                other => return Err(DecodeError::Unknown { what: "auto leave", value: u64::from(other) }),
            },
        })
    }
}

fn members(reader: &mut Reader<'_>) -> Result<Vec<ReplicaId>, DecodeError> {
    let count = reader.count("members")?;
    if count > limits::MEMBERS_MAX {
        let limit = limits::MEMBERS_MAX as u64;
        return Err(DecodeError::TooLong { what: "members", value: count as u64, limit });
    }
    (0..count).map(|_| reader.varint("member").map(ReplicaId)).collect()
}

/// Where a snapshot stands in the log that it replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    pub index: u64,
    pub term: u64,
    pub membership: Membership,
    /// The entry that made the membership what it is.
    pub conf_index: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u64]) -> Vec<ReplicaId> {
        numbers.iter().copied().map(ReplicaId).collect()
    }

    fn leaving() -> Membership {
        Membership {
            voters: ids(&[7]),
            learners: ids(&[300]),
            outgoing: ids(&[7, 8, 9]),
            learners_next: ids(&[9]),
            auto_leave: true,
        }
    }

    #[test]
    fn a_membership_has_these_bytes_for_ever() {
        let mut bytes = Vec::new();
        leaving().encode(&mut bytes);

        assert_eq!(bytes, [1, 7, 1, 0xac, 2, 3, 7, 8, 9, 1, 9, 1]);
        assert_eq!(Membership::decode(&mut Reader::new(&bytes)), Ok(leaving()));
    }

    #[test]
    fn a_membership_cut_anywhere_is_refused() {
        let mut bytes = Vec::new();
        leaving().encode(&mut bytes);

        for len in 0..bytes.len() {
            assert!(Membership::decode(&mut Reader::new(&bytes[..len])).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn both_configurations_must_agree_while_there_are_two() {
        let joint = leaving();

        assert!(joint.is_quorum(|replica| [7, 8].contains(&replica.0)));
        assert!(!joint.is_quorum(|replica| replica.0 == 7), "the outgoing voters are not asked");
        assert!(!joint.is_quorum(|replica| [8, 9].contains(&replica.0)), "the new voter is not asked");
    }

    #[test]
    fn nobody_is_alone_who_has_outgoing_voters_or_learners() {
        let alone = Membership::of([ReplicaId(7)]);

        assert!(alone.is_alone(ReplicaId(7)));
        assert!(!alone.is_alone(ReplicaId(8)));
        assert!(!leaving().is_alone(ReplicaId(7)));
        assert!(!Membership { learners: ids(&[8]), ..alone }.is_alone(ReplicaId(7)));
    }

    #[test]
    fn numbers_tell_what_a_group_holds() {
        use crate::ids::GroupKind;

        assert_eq!(ShardId(1).kind(), GroupKind::Records);
        assert_eq!(ShardId((1 << 30) - 1).kind(), GroupKind::Records);
        assert_eq!(ShardId(1 << 30).kind(), GroupKind::Coordination);
        assert_eq!(ShardId(u32::MAX >> 1).kind(), GroupKind::Coordination);
        assert_eq!(ShardId::META.kind(), GroupKind::Meta);
    }
}
