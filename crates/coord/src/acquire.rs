//! Acquire and release. Both may be repeated: a session has one claim on a semaphore, and asking again changes it.

use std::collections::BTreeMap;

use crate::attach::room_for;
use crate::ids::{OrderId, SemaphoreId, SessionId};
use crate::limits::{
    ACQUIRE_TIMEOUT_MS_MAX, CLAIM_COST, DATA_BYTES_MAX, EPHEMERAL_LIMIT, FOREVER_MS, SEMAPHORE_COST,
    SEMAPHORE_NAME_BYTES_MAX, SEMAPHORES_MAX,
};
use crate::outcome::{Notice, Outcome};
use crate::state::{Claim, NodeEdit, Semaphore};
use crate::status::{Refusal, Status, refuse};

/// What an acquire asks for.
pub(crate) struct Acquire<'a> {
    pub name: &'a str,
    pub timeout_ms: u64,
    pub count: u64,
    pub data: &'a [u8],
    pub ephemeral: bool,
}

impl Acquire<'_> {
    /// What can be told without looking at the session (coordination 140).
    pub fn check(&self) -> Result<(), Refusal> {
        if self.count == 0 {
            return refuse(Status::BadRequest, "an acquire is for one token at least");
        }
        if self.timeout_ms > ACQUIRE_TIMEOUT_MS_MAX && self.timeout_ms != FOREVER_MS {
            return refuse(
                Status::BadRequest,
                format!("an acquire waits {ACQUIRE_TIMEOUT_MS_MAX} ms at most, or for ever"),
            );
        }
        if self.data.len() > DATA_BYTES_MAX {
            return refuse(Status::BadRequest, format!("data has {DATA_BYTES_MAX} bytes at most"));
        }
        if self.ephemeral && self.name.len() > SEMAPHORE_NAME_BYTES_MAX {
            return refuse(Status::BadRequest, format!("a name has {SEMAPHORE_NAME_BYTES_MAX} bytes at most"));
        }
        Ok(())
    }
}

impl NodeEdit<'_> {
    pub(crate) fn acquire(&mut self, session: SessionId, wanted: &Acquire<'_>) -> Result<Outcome, Refusal> {
        let known = self.node.names.get(wanted.name).copied();
        if known.is_none() && !wanted.ephemeral {
            return refuse(Status::NotFound, format!("there is no semaphore {:?}", wanted.name));
        }
        let Some(id) = known else { return self.acquire_new(session, wanted) };
        let semaphore = self.semaphore(id);
        if semaphore.ephemeral != wanted.ephemeral {
            let kind = if semaphore.ephemeral { "" } else { "not " };
            return refuse(Status::PreconditionFailed, format!("semaphore {:?} is {kind}ephemeral", wanted.name));
        }
        if wanted.count > semaphore.limit {
            return refuse(Status::BadRequest, format!("the semaphore's limit is {}", semaphore.limit));
        }
        match self.node.links.get(&(session, id)).copied() {
            Some(order) if semaphore.owners.contains_key(&order) => self.change_owned(id, order, wanted),
            Some(order) => self.change_wait(id, order, wanted),
            None => self.first_claim(session, id, wanted),
        }
    }

    /// The first acquire of an ephemeral name makes the semaphore (coordination 155). It always fits.
    fn acquire_new(&mut self, session: SessionId, wanted: &Acquire<'_>) -> Result<Outcome, Refusal> {
        if self.node.semaphores.len() >= SEMAPHORES_MAX {
            return refuse(Status::PreconditionFailed, format!("{SEMAPHORES_MAX} semaphores are the limit of a node"));
        }
        room_for(*self.bytes, SEMAPHORE_COST + CLAIM_COST + (2 * wanted.name.len() + wanted.data.len()) as u64)?;
        let id = self.add_semaphore(Semaphore {
            name: wanted.name.into(),
            limit: EPHEMERAL_LIMIT,
            count: 0,
            ephemeral: true,
            data: Box::default(),
            owners: BTreeMap::new(),
            waiters: BTreeMap::new(),
        });
        self.first_claim(session, id, wanted)
    }

    fn first_claim(&mut self, session: SessionId, id: SemaphoreId, wanted: &Acquire<'_>) -> Result<Outcome, Refusal> {
        let semaphore = self.semaphore(id);
        // Free tokens are not enough: nobody overtakes those who wait.
        let is_free = semaphore.waiters.is_empty() && semaphore.has_room_for(wanted.count);
        if !is_free && wanted.timeout_ms == 0 {
            return Ok(Outcome::NotAcquired);
        }
        let claim = Claim {
            session,
            count: wanted.count,
            timeout_ms: wanted.timeout_ms,
            revision: 0,
            data: wanted.data.into(),
        };
        room_for(*self.bytes, claim.bytes())?;
        *self.bytes += claim.bytes();
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::Mutant::OrderIdsComeAgain) {
            self.node.last_order = self.node.links.values().max().map_or(0, |order| order.0);
        }
        self.node.last_order += 1;
        let order = OrderId(self.node.last_order);
        self.node.links.insert((session, id), order);
        let semaphore = self.claims_mut(id, order);
        if !is_free {
            semaphore.waiters.insert(order, claim);
            return Ok(Outcome::Queued { semaphore: id, order, revision: 0, timeout_ms: wanted.timeout_ms });
        }
        semaphore.count += claim.count;
        semaphore.owners.insert(order, claim);
        self.owners_changed(id);
        Ok(Outcome::Acquired)
    }

    /// An owner may hold less than before, never more, and may change its data.
    fn change_owned(&mut self, id: SemaphoreId, order: OrderId, wanted: &Acquire<'_>) -> Result<Outcome, Refusal> {
        let claim = &self.semaphore(id).owners[&order];
        if wanted.count > claim.count {
            return refuse(Status::BadRequest, format!("{} are held, and that cannot be raised", claim.count));
        }
        if wanted.count == claim.count && *claim.data == *wanted.data {
            return Ok(Outcome::Acquired);
        }
        let before = claim.bytes();
        room_for(*self.bytes - before, CLAIM_COST + wanted.data.len() as u64)?;
        let semaphore = self.claims_mut(id, order);
        let claim = semaphore.owners.get_mut(&order).expect("just looked");
        semaphore.count -= claim.count - wanted.count;
        claim.count = wanted.count;
        claim.data = wanted.data.into();
        let after = claim.bytes();
        *self.bytes = *self.bytes - before + after;
        self.owners_changed(id);
        self.serve_queue(id);
        Ok(Outcome::Acquired)
    }

    /// The newer request takes the older one's place in the queue; that one ends with ABORTED, if anybody still waits for it.
    fn change_wait(&mut self, id: SemaphoreId, order: OrderId, wanted: &Acquire<'_>) -> Result<Outcome, Refusal> {
        let claim = &self.semaphore(id).waiters[&order];
        if wanted.count > claim.count {
            return refuse(Status::BadRequest, format!("{} are waited for, and that cannot be raised", claim.count));
        }
        let before = claim.bytes();
        room_for(*self.bytes - before, CLAIM_COST + wanted.data.len() as u64)?;
        self.notices.push(Notice::Aborted(self.place(id, order)));
        let claim = self.claims_mut(id, order).waiters.get_mut(&order).expect("just looked");
        claim.count = wanted.count;
        claim.timeout_ms = wanted.timeout_ms;
        claim.revision = claim.revision.wrapping_add(1);
        claim.data = wanted.data.into();
        let (after, revision) = (claim.bytes(), claim.revision);
        *self.bytes = *self.bytes - before + after;
        self.serve_queue(id);
        if self.semaphore(id).owners.contains_key(&order) {
            // The outcome says so; the notice is for those who hear of it in no other way.
            let own = Notice::Granted(self.place(id, order));
            self.notices.retain(|notice| *notice != own);
            return Ok(Outcome::Acquired);
        }
        if wanted.timeout_ms == 0 {
            self.drop_claim(id, order);
            self.serve_queue(id);
            return Ok(Outcome::NotAcquired);
        }
        Ok(Outcome::Queued { semaphore: id, order, revision, timeout_ms: wanted.timeout_ms })
    }

    /// Gives back what is held, or leaves the queue. Neither is an error if there is nothing to do.
    pub(crate) fn release(&mut self, session: SessionId, name: &str) -> Result<Outcome, Refusal> {
        let Some(&id) = self.node.names.get(name) else { return Ok(Outcome::Released(false)) };
        let Some(&order) = self.node.links.get(&(session, id)) else { return Ok(Outcome::Released(false)) };
        if self.drop_claim(id, order) {
            self.notices.push(Notice::Aborted(self.place(id, order)));
        }
        self.serve_queue(id);
        self.vanish_if_idle(id);
        Ok(Outcome::Released(true))
    }
}
