//! Promise: `order_id` is a fencing token (coordination 115). It belongs to one claim for ever, and that of an
//! acquire which began later is larger than any that somebody was told of before.

use std::collections::BTreeMap;

use shardine_coord::{Description, SessionId};

use crate::check::Violation;

pub const NAME: &str = "order_ids_only_grow";

#[derive(Clone, Debug, Default)]
pub struct Orders {
    sessions: BTreeMap<u64, (usize, SessionId)>,
    /// Of sessions that were told that they hold what they did not before: the stream, and the floor of its number.
    fresh: BTreeMap<(usize, SessionId), (usize, u64)>,
}

impl Orders {
    /// The largest number that anybody was told of.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.sessions.last_key_value().map_or(0, |(order, _)| *order)
    }

    /// A session holds what it asked for when it had nothing.
    pub fn grant(&mut self, name: usize, session: SessionId, wire: usize, floor: u64) {
        self.fresh.insert((name, session), (wire, floor));
    }

    pub fn give_up(&mut self, name: usize, session: SessionId) {
        self.fresh.remove(&(name, session));
    }

    /// Somebody is told of claims. Says whether an owner learned its own number.
    pub fn see(&mut self, name: usize, to: SessionId, wire: usize, found: &Description) -> Result<bool, Violation> {
        for claim in found.owners.iter().chain(&found.waiters) {
            let known = *self.sessions.entry(claim.order.0).or_insert((name, claim.session));
            if known != (name, claim.session) {
                let detail = format!(
                    "acquire {} of session {} on {:?} was one of session {}",
                    claim.order, claim.session, found.name, known.1
                );
                return Err(Violation::new(NAME, detail));
            }
        }
        let Some((_, floor)) = self.fresh.get(&(name, to)).copied().filter(|(of, _)| *of == wire) else {
            return Ok(false);
        };
        let Some(own) = found.owners.iter().find(|owner| owner.session == to) else { return Ok(false) };
        if own.order.0 <= floor {
            let detail = format!("session {to} got {} when {floor} had been told of", own.order);
            return Err(Violation::new(NAME, detail));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use shardine_coord::{ClaimLine, OrderId};

    use super::*;

    fn owned(order: u64, session: u64) -> Description {
        let claim =
            ClaimLine { order: OrderId(order), session: SessionId(session), timeout_ms: 0, count: 1, data: Vec::new() };
        Description {
            name: "door".to_owned(),
            data: Vec::new(),
            limit: 1,
            count: 1,
            ephemeral: false,
            owners: vec![claim],
            waiters: Vec::new(),
        }
    }

    #[test]
    fn a_number_that_comes_again_is_seen() {
        let mut orders = Orders::default();

        assert_eq!(orders.see(0, SessionId(9), 1, &owned(5, 1)), Ok(false));
        assert!(orders.see(0, SessionId(9), 1, &owned(5, 2)).is_err());
    }

    #[test]
    fn a_number_that_does_not_grow_is_seen() {
        let mut orders = Orders::default();
        assert_eq!(orders.see(0, SessionId(9), 1, &owned(5, 1)), Ok(false));
        orders.grant(0, SessionId(2), 3, orders.largest());

        assert!(orders.see(0, SessionId(2), 3, &owned(4, 2)).is_err());
        assert_eq!(orders.see(0, SessionId(2), 3, &owned(6, 2)), Ok(true));
    }
}
