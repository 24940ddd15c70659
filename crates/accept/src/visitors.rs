//! Counts who is inside, in all and by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::Limits;

#[derive(Clone)]
pub(crate) struct Visitors {
    counts: Arc<Mutex<Counts>>,
    total_max: usize,
    per_address_max: usize,
}

#[derive(Default)]
struct Counts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A place inside, given back when dropped.
pub(crate) struct Admission {
    visitors: Visitors,
    address: IpAddr,
}

impl Visitors {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            counts: Arc::default(),
            total_max: limits.connections_max,
            per_address_max: limits.connections_per_address_max,
        }
    }

    pub(crate) fn admit(&self, address: IpAddr) -> Option<Admission> {
        let mut counts = self.counts();
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.total >= self.total_max || of_address >= self.per_address_max {
            return None;
        }
        counts.total += 1;
        counts.by_address.insert(address, of_address + 1);
        Some(Admission { visitors: self.clone(), address })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut counts = self.visitors.counts();
        counts.total -= 1;
        let left = counts.by_address.get(&self.address).copied().unwrap_or(1) - 1;
        if left == 0 {
            counts.by_address.remove(&self.address);
        } else {
            counts.by_address.insert(self.address, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// reliability F39, S13.
    #[test]
    fn one_address_cannot_take_all_places() {
        let limits = Limits { connections_max: 3, connections_per_address_max: 2, ..Limits::default() };
        let visitors = Visitors::new(&limits);
        let (near, far) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([10, 0, 0, 1]));

        let first = visitors.admit(near);
        let second = visitors.admit(near);
        assert!(visitors.admit(near).is_none());
        let third = visitors.admit(far);
        assert!(visitors.admit(far).is_none());

        drop((first, third));
        assert!(visitors.admit(near).is_some());
        drop(second);
        assert!(visitors.counts().by_address.is_empty());
    }
}
