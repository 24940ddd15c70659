//! A claim on a machine that is suspended. What else becomes of claims is in `tests/client/claims.rs`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::core::tenure::TIMEOUT;

const HOLD: Hold = Hold { shard: 1, generation: 3 };

static WALL: AtomicU64 = AtomicU64::new(1_000_000_000);

/// The machine is suspended while the first proof is on its way, for as long as a proof lasts.
#[derive(Default)]
struct Suspending(AtomicU64);

impl Store for Suspending {
    fn timeout(&self) -> Duration {
        TIMEOUT
    }

    async fn claim(&self, _who: &Identity) -> Result<Option<Hold>, Error> {
        Ok(Some(HOLD))
    }

    async fn renew(&self, _who: &Identity, hold: Hold) -> Result<Option<Hold>, Error> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            WALL.fetch_add(20_000_000, Ordering::SeqCst);
        }
        Ok(Some(hold))
    }

    async fn release(&self, _who: &Identity, _hold: Hold) -> Result<(), Error> {
        Ok(())
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        Ok(Vec::new())
    }
}

/// kit A-49: the store counts from the question. When the answer is read others may have the shard already, although no time
/// has passed on the monotonic clock.
#[tokio::test(start_paused = true)]
async fn kit_a_49_a_proof_during_which_the_machine_was_suspended_is_none() {
    let options = ClaimOptions { while_silent: WhileSilent::Stop, ..ClaimOptions::default() };
    let lease = Lease::by_wall(|| WALL.load(Ordering::SeqCst));
    let claim = Claim::start_by(lease, Arc::default(), Identity::new("a", "a1"), options);
    let claim: &Claim<Suspending> = &claim;
    assert_eq!(claim.taken().await, HOLD);
    assert!(claim.is_proven());

    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(!claim.is_proven(), "until the next proof");
    tokio::time::sleep(Duration::from_secs(5)).await;

    assert!(claim.is_proven() && claim.hold() == Some(HOLD));
}
