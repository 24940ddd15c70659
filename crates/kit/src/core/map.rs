//! Which host serves what, as far as its replies have told. Decides what is newer; never asks anybody, and knows no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::shard::Shard;
use super::view::{Member, View};

/// A host's place in the map. Free places are used again, so a slot alone does not name a host for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// The place of a host in a map that was filled by one list: its number in that list.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self(number)
    }
}

/// What a reply told, and when its request was sent: a number that grows with every request of this client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What the host serves.
    pub shard: Shard,
    /// The request's number.
    pub sent: u64,
}

/// How a report stands to what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The map is another one now.
    Changed,
    /// The host serves what it was known to serve.
    Same,
    /// Something newer is known, or the host is not in the map any more.
    Old,
}

/// Whether a host that says less than it said before may be believed: its clock may have gone back over a restart. So it is
/// once its older, higher word has gone unconfirmed for as long as makes a host inactive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// No.
    NewerOnly,
    /// Yes.
    Anything,
}

#[derive(Clone, Debug)]
struct Entry<H> {
    address: Arc<str>,
    host: H,
    known: Option<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    shard: Shard,
    sent: u64,
    /// The map's version since which the host is known to serve this.
    version: u64,
}

/// Hosts by address, with the newest that each has said of itself. `H` is whatever the caller keeps for a host.
/// Invariant: what is known of a host only ever becomes newer, in the order of (incarnation, epoch, sent).
#[derive(Clone, Debug)]
pub struct Map<H> {
    entries: Vec<Option<Entry<H>>>,
    free: Vec<Slot>,
    by_address: BTreeMap<Arc<str>, Slot>,
    version: u64,
    /// The map in the form that is searched; made when it is asked for after a change.
    view: Option<Arc<View<H>>>,
}

impl<H: Clone> Default for Map<H> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), by_address: BTreeMap::new(), version: 0, view: None }
    }
}

impl<H: Clone> Map<H> {
    /// Takes over the list of a provider: hosts that are not in it go, new ones come with nothing known of them.
    pub fn set_hosts(&mut self, addresses: &[String], mut make: impl FnMut(&Arc<str>, Slot) -> H) {
        let wanted: BTreeSet<&str> = addresses.iter().map(String::as_str).collect();
        let gone: Vec<Arc<str>> = self.by_address.keys().filter(|known| !wanted.contains(&***known)).cloned().collect();
        for address in gone {
            if let Some(slot) = self.by_address.remove(&address) {
                self.entries[slot.0 as usize] = None;
                self.free.push(slot);
                self.changed();
            }
        }
        for address in addresses {
            if !self.by_address.contains_key(address.as_str()) {
                let address: Arc<str> = Arc::from(address.as_str());
                let slot = self.free_slot();
                let host = make(&address, slot);
                self.entries[slot.0 as usize] = Some(Entry { address: Arc::clone(&address), host, known: None });
                self.by_address.insert(address, slot);
            }
        }
    }

    /// Takes in what a host said in a reply.
    pub fn report(&mut self, slot: Slot, address: &str, report: Report, trust: Trust) -> News {
        let next_version = self.version + 1;
        let entry = self.entries.get_mut(slot.0 as usize).and_then(Option::as_mut);
        let Some(entry) = entry.filter(|entry| *entry.address == *address) else { return News::Old };
        match &mut entry.known {
            Some(known) if is_older(&report, known) && trust == Trust::NewerOnly => News::Old,
            Some(known) if known.shard == report.shard => {
                known.sent = report.sent;
                News::Same
            }
            known => {
                *known = Some(Known { shard: report.shard, sent: report.sent, version: next_version });
                self.changed();
                News::Changed
            }
        }
    }

    /// Everybody on the list.
    pub fn hosts(&self) -> impl Iterator<Item = &H> {
        self.entries.iter().flatten().map(|entry| &entry.host)
    }

    /// What is known of a host.
    #[must_use]
    pub fn known(&self, address: &str) -> Option<&Shard> {
        let slot = self.by_address.get(address)?;
        self.entries[slot.0 as usize].as_ref()?.known.as_ref().map(|known| &known.shard)
    }

    /// The map as it is now, to be searched without holding it.
    pub fn view(&mut self) -> Arc<View<H>> {
        if let Some(view) = &self.view {
            return Arc::clone(view);
        }
        let view = Arc::new(View::new(self.version, self.members()));
        self.view = Some(Arc::clone(&view));
        view
    }

    /// Everybody who serves something. Of two hosts that claim one shard of one data centre, the later claim counts, for as
    /// long as its holder lives: who that is, is asked when keys are handed out, since it changes without a reply.
    fn members(&self) -> Vec<Member<H>> {
        let mut members = Vec::new();
        let mut claims: BTreeMap<(&str, u32), (u64, u32)> = BTreeMap::new();
        for (slot, entry) in (0..).map(Slot).zip(&self.entries) {
            let Some(entry) = entry else { continue };
            let Some(known) = entry.known.as_ref().filter(|known| !known.shard.interval.is_empty()) else { continue };
            let number = u32::try_from(members.len()).expect("there are fewer hosts than numbers of four bytes");
            if let Some(hold) = known.shard.hold {
                let latest = claims.entry((&known.shard.dc, hold.shard)).or_insert((hold.generation, number));
                *latest = (*latest).max((hold.generation, number));
            }
            let (address, host) = (Arc::clone(&entry.address), entry.host.clone());
            let (version, interval) = (known.version, known.shard.interval);
            members.push(Member { slot, version, address, interval, host, outdone_by: None });
        }
        for member in &mut members {
            let entry = self.entries[member.slot.0 as usize].as_ref();
            let Some(shard) = entry.and_then(|entry| entry.known.as_ref()).map(|known| &known.shard) else { continue };
            let Some(hold) = shard.hold else { continue };
            let latest = claims.get(&(shard.dc.as_str(), hold.shard));
            member.outdone_by = latest.filter(|(newest, _)| hold.generation < *newest).map(|(_, number)| *number);
        }
        members
    }

    fn free_slot(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            Slot(u32::try_from(self.entries.len() - 1).expect("there are fewer hosts than numbers of four bytes"))
        })
    }

    fn changed(&mut self) {
        self.version += 1;
        self.view = None;
    }
}

fn is_older(report: &Report, known: &Known) -> bool {
    (report.shard.age(), report.sent) < (known.shard.age(), known.sent)
}

#[cfg(test)]
#[path = "map/tests.rs"]
mod tests;
