//! What a call has asked already: whom it need not ask again, and when a key is lost.

use super::ask::{Ask, Cause, Fate};
use super::{Call, Step};
use crate::core::moment::Moment;
use crate::core::plan::Rated;
use crate::core::view::Member;

/// Requests to one host for one key of a call, each since it served something else. For further ones it is searched for again
/// first: nobody is cut anew so often in the time of a call, except by mistake.
const ASKED_MAX: usize = 4;

impl<H: Rated + Clone> Call<H> {
    /// Whether this host was asked for the key while it served what it serves now, or so often that it has to wait: one that
    /// says something new with every reply, and has the key by none of them, would be asked in a circle.
    pub(super) fn was_asked(&self, key: u32, member: &Member<H>, now: Moment) -> bool {
        let (mut times, mut last) = (0, Moment::default());
        for ask in self.asks_of(key, member) {
            if ask.version == member.version {
                return true;
            }
            (times, last) = (times + 1, ask.added);
        }
        times >= ASKED_MAX && now < last.after(self.patience.search_pause)
    }

    /// Whether somebody who serves the key was asked for it and failed, and nobody is left to ask. Not if somebody has said
    /// that it serves something else now: shards are moving then, and the next reply may tell where to.
    pub(super) fn is_lost(&self, key: u32, step: &Step<'_, H>) -> bool {
        let mut carried = self.asks.iter().filter(|ask| ask.keys.binary_search(&key).is_ok());
        if carried.any(|ask| ask.fate() == Some(Fate::Refused)) {
            return false;
        }
        let covering = step.view.covering(self.positions[key as usize]);
        covering.iter().any(|number| self.was_asked(key, step.view.member(*number), step.now))
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

    /// The requests for a key to one host, whatever it served then.
    fn asks_of(&self, key: u32, member: &Member<H>) -> impl Iterator<Item = &Ask<H>> {
        let slot = member.slot;
        let asks = self.asks.iter().filter(move |ask| ask.slot == slot);
        let was_sent = |ask: &&Ask<H>| ask.cause != Cause::Hedge || ask.fate() != Some(Fate::Forgone);
        asks.filter(was_sent).filter(move |ask| ask.keys.binary_search(&key).is_ok())
    }
}
