//! Promise: whoever was told that it holds something holds it, in the state of whoever leads, until it gives it back or its
//! session's time is over; through crashes and changes of leader (reliability I25, I60, coordination 185, 188).

use shardine_coord::{Coord, NodeNumber, SessionId};

use crate::check::Violation;
use crate::coord::names::NAMES;

pub const NAME: &str = "granted_stays_granted";

/// `held` are sessions that rely on holding so many of a semaphore.
pub fn check(
    coord: &Coord,
    node: NodeNumber,
    name: usize,
    held: impl Iterator<Item = (SessionId, u64)>,
) -> Result<(), Violation> {
    let text = NAMES[name].text;
    let found = coord.describe(node, text, true, false);
    for (session, count) in held {
        let owner = found.iter().flat_map(|found| &found.owners).find(|owner| owner.session == session);
        if owner.is_none_or(|owner| owner.count < count) {
            let detail = format!("session {session} was told that it holds {count} of {text:?}: {found:?}");
            return Err(Violation::new(NAME, detail));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_grant_is_seen() {
        let held = [(SessionId(1), 1)];

        assert!(check(&Coord::new(), NodeNumber(1), 0, held.into_iter()).is_err());
        assert_eq!(check(&Coord::new(), NodeNumber(1), 0, std::iter::empty()), Ok(()));
    }
}
