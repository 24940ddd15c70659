//! Whom to ask for which keys. Looks at the map and at how hosts did lately; sends nothing.

use std::time::Duration;

use super::map::Slot;
use super::moment::Moment;
use super::view::{Member, View};

/// How a host did lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// When its last good reply came.
    pub last_good: Option<Moment>,
    /// Requests that it has not answered yet.
    pub in_flight: u32,
    /// What a request to it costs, in microseconds, as a moving mean. A host that was never asked costs nothing, so that it
    /// is tried.
    pub cost: u64,
    /// It let a request wait for longer than it should, or failed, a short while ago, and has not been heard of since.
    pub is_suspect: bool,
    /// 95 of a hundred answers took no longer.
    pub p95: Option<u64>,
}

/// A host whose standing can be asked for.
pub trait Rated {
    /// How it stands at this moment.
    fn standing(&self, now: Moment) -> Standing;
}

/// When a host is not asked although it serves the key, as long as somebody else does.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    /// It has not been heard of for so long.
    pub silence_max: Duration,
    /// It has so many requests to answer.
    pub in_flight_max: u32,
}

impl Activity {
    fn is_active(&self, standing: &Standing, now: Moment) -> bool {
        standing.in_flight < self.in_flight_max
            && standing.last_good.is_some_and(|last| now.since(last) <= self.silence_max)
    }
}

/// Keys in the hands of hosts. A key may be in several.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Members of the view, each with its part of `keys`.
    shares: Vec<(u32, u32, u32)>,
    keys: Vec<u32>,
    /// Keys that nobody serves.
    pub unknown: Vec<u32>,
}

impl Split {
    /// Members of the view with the keys they are to be asked for, both in ascending order.
    pub fn shares(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.shares.iter().map(|(member, from, to)| (*member, &self.keys[*from as usize..*to as usize]))
    }

    /// Whether nobody is to be asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// From pairs of member and key.
    fn gather(mut pairs: Vec<u64>, unknown: Vec<u32>) -> Self {
        pairs.sort_unstable();
        let keys: Vec<u32> = pairs.iter().map(|pair| *pair as u32).collect();
        let mut shares: Vec<(u32, u32, u32)> = Vec::new();
        for (at, pair) in (0u32..).zip(&pairs) {
            let member = (pair >> 32) as u32;
            match shares.last_mut() {
                Some((last, _, to)) if *last == member => *to = at + 1,
                _ => shares.push((member, at, at + 1)),
            }
        }
        Self { shares, keys, unknown }
    }
}

/// What a split is made from: the map, the time, and what else decides.
pub struct Ground<'a, H> {
    /// The map.
    pub view: &'a View<H>,
    /// The time.
    pub now: Moment,
    /// When a host is passed over.
    pub activity: Activity,
    /// Chance, for the choice between equals.
    pub roll: u64,
}

/// Positions of keys, by their number in the call.
pub struct Wanted<'a> {
    /// Of all keys of the call.
    pub positions: &'a [u64],
    /// Those that are wanted.
    pub keys: &'a [u32],
}

impl<H: Rated> Ground<'_, H> {
    /// Every active host of every key; of a key that no active host serves, the others.
    pub fn to_all(&self, wanted: &Wanted<'_>, is_free: impl Fn(u32, &Member<H>) -> bool) -> Split {
        let is_active = |member| self.is_active(member) && !self.is_outdone(member);
        let active: Vec<bool> = self.view.members().iter().map(is_active).collect();
        let (mut pairs, mut unknown) = (Vec::with_capacity(wanted.keys.len() * 3), Vec::new());
        for key in wanted.keys {
            let before = pairs.len();
            let covering = self.view.covering(wanted.positions[*key as usize]);
            for only_active in [true, false] {
                let asked = covering.iter().filter(|number| !only_active || active[**number as usize]);
                let asked = asked.filter(|number| is_free(*key, self.view.member(**number)));
                pairs.extend(asked.map(|number| pair(*number, *key)));
                if pairs.len() > before {
                    break;
                }
            }
            if pairs.len() == before {
                unknown.push(*key);
            }
        }
        Split::gather(pairs, unknown)
    }

    /// The best host of every key.
    pub fn to_best(&self, wanted: &Wanted<'_>, is_free: impl Fn(u32, &Member<H>) -> bool) -> Split {
        let (mut pairs, mut unknown) = (Vec::with_capacity(wanted.keys.len()), Vec::new());
        for key in wanted.keys {
            let covering = self.view.covering(wanted.positions[*key as usize]);
            let free = covering.iter().filter(|number| is_free(*key, self.view.member(**number)));
            match free.min_by_key(|number| self.rank(self.view.member(**number))) {
                Some(best) => pairs.push(pair(*best, *key)),
                None => unknown.push(*key),
            }
        }
        Split::gather(pairs, unknown)
    }

    fn is_active(&self, member: &Member<H>) -> bool {
        self.activity.is_active(&member.host.standing(self.now), self.now)
    }

    /// Whether somebody who lives has claimed its shard after it.
    fn is_outdone(&self, member: &Member<H>) -> bool {
        member.outdone_by.is_some_and(|number| {
            let later = self.view.member(number);
            self.is_active(later) && !later.host.standing(self.now).is_suspect
        })
    }

    /// Smaller is better: active before not, heard of before suspect, cheap and idle before dear and busy. Chance turns the
    /// order of equals, so that clients that have just started do not all begin with one host.
    fn rank(&self, member: &Member<H>) -> (bool, bool, u64, u64) {
        let standing = member.host.standing(self.now);
        let cost = standing.cost.saturating_mul(u64::from(standing.in_flight) + 1);
        let Slot(slot) = member.slot;
        let turn = (u64::from(slot) ^ self.roll).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_active = self.activity.is_active(&standing, self.now) && !self.is_outdone(member);
        (!is_active, standing.is_suspect, cost, turn)
    }
}

fn pair(member: u32, key: u32) -> u64 {
    u64::from(member) << 32 | u64::from(key)
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
