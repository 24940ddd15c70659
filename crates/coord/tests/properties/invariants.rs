//! The promises, looked at from outside.

use shardine_coord::Asker;

use crate::play::{NAMES, Stage};

pub fn check(stage: &mut Stage) {
    let mut last_order = stage.last_order;
    for name in NAMES {
        let Some(found) = stage.coord.describe(stage.node, name, true, true) else { continue };

        let held: u64 = found.owners.iter().map(|owner| owner.count).sum();
        assert_eq!(held, found.count, "{name}: the count is what owners hold");
        assert!(held <= found.limit, "{name}: more tokens are held than there are");
        if let Some(first) = found.waiters.first() {
            assert!(first.count > found.limit - found.count, "{name}: the first one waits though it fits");
            let last_owner = found.owners.iter().map(|owner| owner.order).max();
            assert!(last_owner < Some(first.order), "{name}: somebody has overtaken the queue");
        }
        assert!(found.waiters.is_sorted_by_key(|waiter| waiter.order), "{name}: waiters stand in their order");
        assert!(!found.ephemeral || !found.owners.is_empty(), "{name}: ephemeral and nobody's");
        for claim in found.owners.iter().chain(&found.waiters) {
            let by = Asker { node: stage.node, session: claim.session };
            assert!(stage.coord.session(by).is_some(), "{name}: a claim of a session that has ended");
            last_order = last_order.max(claim.order.0);
        }
    }
    let fresh = last_order - stage.last_order;
    assert!(fresh <= 120, "numbers of acquires jump");
    stage.last_order = last_order;
}
