//! The queue of a semaphore: strictly first come, first served (coordination 142).

use crate::ids::{OrderId, SemaphoreId};
use crate::outcome::Notice;
use crate::state::NodeEdit;

impl NodeEdit<'_> {
    /// Promotes waiters while the first of them fits. One that does not fit holds up all behind it.
    pub(crate) fn serve_queue(&mut self, id: SemaphoreId) {
        while let Some((order, count)) = self.next_in_queue(id) {
            if !self.semaphore(id).has_room_for(count) {
                return;
            }
            self.promote(id, order);
            #[cfg(feature = "mutants")]
            if self.mutant == Some(crate::Mutant::GrantsBeyondTheLimit)
                && !self.semaphore(id).ephemeral
                && let Some((order, _)) = self.next_in_queue(id)
            {
                self.promote(id, order);
            }
        }
    }

    fn next_in_queue(&self, id: SemaphoreId) -> Option<(OrderId, u64)> {
        let waiters = &self.semaphore(id).waiters;
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::Mutant::LastComeFirstServed) {
            return waiters.last_key_value().map(|(&order, claim)| (order, claim.count));
        }
        waiters.first_key_value().map(|(&order, claim)| (order, claim.count))
    }

    fn promote(&mut self, id: SemaphoreId, order: OrderId) {
        let semaphore = self.claims_mut(id, order);
        let claim = semaphore.waiters.remove(&order).expect("the caller has seen it");
        semaphore.count += claim.count;
        semaphore.owners.insert(order, claim);
        self.notices.push(Notice::Granted(self.place(id, order)));
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::Mutant::SilentPromotions) {
            return;
        }
        self.owners_changed(id);
    }

    pub(crate) fn owners_changed(&mut self, id: SemaphoreId) {
        self.notices.push(Notice::OwnersChanged { node: self.number, semaphore: id });
    }

    /// Takes a claim away without serving the queue. Says whether it was a waiter's.
    pub(crate) fn drop_claim(&mut self, id: SemaphoreId, order: OrderId) -> bool {
        let semaphore = self.claims_mut(id, order);
        let (claim, waited) = match semaphore.owners.remove(&order) {
            Some(claim) => {
                semaphore.count -= claim.count;
                (claim, false)
            }
            None => (semaphore.waiters.remove(&order).expect("links name claims"), true),
        };
        *self.bytes -= claim.bytes();
        self.node.links.remove(&(claim.session, id));
        if !waited {
            self.owners_changed(id);
        }
        waited
    }

    /// An ephemeral semaphore lives as long as somebody holds it or waits for it.
    pub(crate) fn vanish_if_idle(&mut self, id: SemaphoreId) {
        if !self.semaphore(id).ephemeral || !self.semaphore(id).is_idle() {
            return;
        }
        // Its last owner left, and with that everything about it has changed (coordination 181).
        let left = Notice::OwnersChanged { node: self.number, semaphore: id };
        self.notices.pop_if(|last| *last == left);
        self.remove_semaphore(id);
    }

    /// Ends a wait, unless it was served, given up, or asked for again meanwhile.
    pub(crate) fn time_out(&mut self, id: SemaphoreId, order: OrderId, revision: u32) {
        let waiter = self.node.semaphores.get(&id).and_then(|semaphore| semaphore.waiters.get(&order));
        if waiter.is_none_or(|claim| claim.revision != revision) {
            return;
        }
        self.drop_claim(id, order);
        self.notices.push(Notice::TimedOut(self.place(id, order)));
        self.serve_queue(id);
        self.vanish_if_idle(id);
    }
}
