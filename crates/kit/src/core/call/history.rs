//! What a call has asked already: whom it need not ask again, and when a key is lost.

use super::Call;
use super::ask::{Ask, Cause, Fate};
use crate::core::plan::Rated;
use crate::core::view::{Member, View};

impl<H: Rated + Clone> Call<H> {
    /// Whether this host was asked for the key while it served what it serves now.
    pub(super) fn was_asked(&self, key: u32, member: &Member<H>) -> bool {
        self.asks_of(key, member).next().is_some()
    }

    /// Whether somebody who serves the key was asked for it and failed, and nobody is left to ask. Not if somebody has said
    /// that it serves something else now: shards are moving then, and the next reply may tell where to.
    pub(super) fn is_lost(&self, key: u32, view: &View<H>) -> bool {
        let mut carried = self.asks.iter().filter(|ask| ask.keys.binary_search(&key).is_ok());
        if carried.any(|ask| ask.fate() == Some(Fate::Refused)) {
            return false;
        }
        let covering = view.covering(self.positions[key as usize]).iter().map(|number| view.member(*number));
        covering.flat_map(|member| self.asks_of(key, member)).next().is_some()
    }

    /// Whether nothing but failures came of the key, of the kind that may be over the next time. A host that has no value of it
    /// and one that does not want the request have said all there is to say, and without a budget nobody is to be asked.
    pub(super) fn failed_alone(&self, key: u32) -> bool {
        let mut carried = self.asks.iter().filter(|ask| ask.keys.binary_search(&key).is_ok());
        carried.all(|ask| match ask.fate() {
            Some(Fate::Failed | Fate::TimedOut | Fate::Cancelled) => !ask.is_final,
            Some(Fate::Forgone) => ask.cause == Cause::Hedge,
            Some(Fate::Answered | Fate::Refused) | None => false,
        })
    }

    fn asks_of(&self, key: u32, member: &Member<H>) -> impl Iterator<Item = &Ask<H>> {
        let (slot, version) = (member.slot, member.version);
        let asks = self.asks.iter().filter(move |ask| (ask.slot, ask.version) == (slot, version));
        let was_sent = |ask: &&Ask<H>| ask.cause != Cause::Hedge || ask.fate() != Some(Fate::Forgone);
        asks.filter(was_sent).filter(move |ask| ask.keys.binary_search(&key).is_ok())
    }
}
