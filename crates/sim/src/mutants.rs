//! Proof that the checkers can see: each planted bug must be caught within a number of seeds.

use crate::check::Violation;
use crate::run::{Options, run};
use crate::tenant::Tenant;
use crate::theme::Theme;

/// How a planted bug was found.
#[derive(Clone, Debug)]
pub struct Catch {
    pub seeds_tried: u64,
    /// The seed that showed it and the promise that it broke.
    pub found: Option<(u64, Violation)>,
}

/// Runs seeds from `first` on until the bug shows, at most `seeds_max`.
#[must_use]
pub fn hunt<T: Tenant>(mutant: T::Mutant, first: u64, seeds_max: u64) -> Catch {
    hunt_about::<T>(None, mutant, first, seeds_max)
}

/// The same among runs that are all about one thing: a bug that shows only there is found sooner.
#[must_use]
pub fn hunt_about<T: Tenant>(theme: Option<Theme>, mutant: T::Mutant, first: u64, seeds_max: u64) -> Catch {
    for tried in 0..seeds_max {
        let seed = first + tried;
        let outcome = run::<T>(seed, Options { mutant: Some(mutant), theme, lines: 0 });
        if let Some(violation) = outcome.violation {
            return Catch { seeds_tried: tried + 1, found: Some((seed, violation)) };
        }
    }
    Catch { seeds_tried: seeds_max, found: None }
}

/// How many of a number of seeds show the bug.
#[must_use]
pub fn count<T: Tenant>(mutant: T::Mutant, first: u64, seeds: u64) -> u64 {
    let shows =
        |seed: &u64| run::<T>(*seed, Options { mutant: Some(mutant), ..Options::default() }).violation.is_some();
    (first..first + seeds).filter(shows).count() as u64
}
