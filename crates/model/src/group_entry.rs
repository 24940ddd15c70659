//! Entries that a group writes for itself, whichever machine it holds: a place at which all replicas look at their states, and
//! what most of them found there. No machine reads them.
//!
//! ```text
//! 0 | kind u8 | of a mark: form of the sums u8 | of a verdict: index varint, sum 16 bytes, little-endian
//! ```
//!
//! The entries of every machine begin with a format above 0, so the first byte tells them apart.

use crate::codec::{DecodeError, Reader, put_varint};

const FORMAT: u8 = 0;
/// Frozen kinds; an unknown one stops the replica, like an unknown entry of a machine.
const KIND_MARK: u8 = 1;
const KIND_VERDICT: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupEntry {
    /// Every replica sums up its state as it is after this entry. One that does not know the form of the sums leaves it: two
    /// versions of this program must not take each other for damaged.
    Mark { form: u8 },
    /// A majority's sum of the state at a mark. Whoever found another one there has parted from the others.
    Verdict { index: u64, sum: u128 },
}

impl GroupEntry {
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        match self {
            Self::Mark { form } => out.extend([KIND_MARK, form]),
            Self::Verdict { index, sum } => {
                out.push(KIND_VERDICT);
                put_varint(&mut out, index);
                out.extend_from_slice(&sum.to_le_bytes());
            }
        }
        out
    }

    /// `None` where the entry is the machine's.
    pub fn decode(entry: &[u8]) -> Result<Option<Self>, DecodeError> {
        if entry.first() != Some(&FORMAT) {
            return Ok(None);
        }
        let mut reader = Reader::new(&entry[1..]);
        let decoded = match reader.u8("kind of a group's entry")? {
            KIND_MARK => Self::Mark { form: reader.u8("form of the sums")? },
            KIND_VERDICT => {
                let index = reader.varint("index of a mark")?;
                let sum = reader.take(16, "sum")?.try_into().expect("take returned sixteen bytes");
                Self::Verdict { index, sum: u128::from_le_bytes(sum) }
            }
            other => return Err(DecodeError::Unknown { what: "kind of a group's entry", value: u64::from(other) }),
        };
        reader.finish("a group's entry")?;
        Ok(Some(decoded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_entry_has_these_bytes_for_ever() {
        let sum = u128::from_le_bytes(*b"sixteen bytes, 1");
        let verdict = [&[0, 2, 0xac, 2][..], b"sixteen bytes, 1"].concat();

        for (entry, bytes) in
            [(GroupEntry::Mark { form: 1 }, &[0, 1, 1][..]), (GroupEntry::Verdict { index: 300, sum }, &verdict)]
        {
            assert_eq!(entry.to_bytes(), bytes);
            assert_eq!(GroupEntry::decode(bytes), Ok(Some(entry)));
            for len in 1..bytes.len() {
                assert!(GroupEntry::decode(&bytes[..len]).is_err(), "{entry:?} in {len} bytes");
            }
            assert!(GroupEntry::decode(&[bytes, &[0]].concat()).is_err(), "{entry:?} and more");
        }
    }

    #[test]
    fn entries_of_machines_are_left_to_them() {
        assert_eq!(GroupEntry::decode(&[]), Ok(None));
        assert_eq!(GroupEntry::decode(&[crate::entry::ENTRY_FORMAT, 40]), Ok(None));
        assert!(GroupEntry::decode(&[FORMAT, 9]).is_err(), "written by a newer version");
    }
}
