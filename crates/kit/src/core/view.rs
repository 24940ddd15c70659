//! The map in the form that is searched: the key space cut at every bound of every host, with the hosts of each piece. Never
//! changes; a changed map makes a new one.

use std::sync::Arc;

use super::interval::Interval;
use super::map::Slot;

/// A host that serves something.
#[derive(Clone, Debug)]
pub struct Member<H> {
    /// Its place in the map.
    pub slot: Slot,
    /// The map's version since which it is known to serve this. With the slot it names what was asked, so that nobody is
    /// asked twice for what it has refused, and is asked again once it serves something else.
    pub version: u64,
    /// Its address.
    pub address: Arc<str>,
    /// What it serves.
    pub interval: Interval,
    /// Whatever the caller keeps for it.
    pub host: H,
    /// The member that holds the same shard by a later claim. This one has lost it and does not know it yet, if the other
    /// lives; if the other is gone, this may be its successor in a table that counts anew.
    pub outdone_by: Option<u32>,
}

/// A searchable map. Members are named by their place in it.
#[derive(Debug)]
pub struct View<H> {
    version: u64,
    members: Vec<Member<H>>,
    /// Where pieces begin, ascending; the first is 0.
    starts: Vec<u64>,
    /// Of each piece, where its hosts begin in `covers`; one more at the end.
    offsets: Vec<u32>,
    covers: Vec<u32>,
}

impl<H> View<H> {
    pub(crate) fn new(version: u64, members: Vec<Member<H>>) -> Self {
        let mut view = Self { version, members, starts: vec![], offsets: vec![], covers: vec![] };
        view.cut();
        view
    }

    /// Walks over all bounds in order, with the set of hosts whose interval is open at the moment.
    fn cut(&mut self) {
        let mut bounds: Vec<(u64, bool, u32)> = Vec::with_capacity(self.members.len() * 2);
        for (number, member) in (0..).zip(&self.members) {
            bounds.push((member.interval.lo(), true, number));
            bounds.extend(member.interval.hi().map(|hi| (hi, false, number)));
        }
        bounds.sort_unstable();
        let mut open: Vec<u32> = Vec::new();
        (self.starts, self.offsets) = (vec![0], vec![0]);
        for (at, opens, number) in bounds {
            if self.starts.last() != Some(&at) {
                self.covers.extend_from_slice(&open);
                self.offsets.push(self.end());
                self.starts.push(at);
            }
            match opens {
                true => open.push(number),
                false => open.retain(|other| *other != number),
            }
        }
        self.covers.extend_from_slice(&open);
        self.offsets.push(self.end());
    }

    fn end(&self) -> u32 {
        u32::try_from(self.covers.len()).expect("hosts times pieces fit into four bytes")
    }

    /// The map's version that this was made of.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The member of this number.
    #[must_use]
    pub fn member(&self, number: u32) -> &Member<H> {
        &self.members[number as usize]
    }

    /// All members, by number.
    #[must_use]
    pub fn members(&self) -> &[Member<H>] {
        &self.members
    }

    /// Everybody whose interval has this key.
    #[must_use]
    pub fn covering(&self, key: u64) -> &[u32] {
        let piece = self.starts.partition_point(|start| *start <= key) - 1;
        &self.covers[self.offsets[piece] as usize..self.offsets[piece + 1] as usize]
    }
}
