//! The search for an order (after Wing, Gong and Lowe): walks over which operations have been placed and what the row is
//! then, and never visits the same place twice.

use std::collections::HashSet;

use super::Tolerance;
use super::resolve::Call;
use crate::clock::wall_ms;
use crate::records::model::{State, effect, step};

/// Calls that last longer than this float: they are kept apart from the narrow window of the others.
const FLOATS_ABOVE_US: u64 = 1_000_000;
const WINDOW_MAX: usize = 128;
const VISITS_MAX: usize = 300_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    Impossible {
        /// How many operations the longest order held.
        placed: usize,
        /// The operations that could have come next by time, and did not fit.
        stuck: String,
    },
    TooLarge,
}

/// Which calls have been placed: all steady ones below `first`, those marked in `window` above it, and the marked floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SearchState {
    first: usize,
    window: u128,
    floats: u128,
    state: State,
}

struct Search<'a> {
    steady: Vec<&'a Call<'a>>,
    floats: Vec<&'a Call<'a>>,
    tolerance: Tolerance,
}

pub fn search(start: State, calls: &[Call<'_>], tolerance: Tolerance) -> Verdict {
    let floats_by_length = |call: &&Call<'_>| call.returned.saturating_sub(call.invoked) > FLOATS_ABOVE_US;
    let (floats, steady): (Vec<_>, Vec<_>) = calls.iter().partition(floats_by_length);
    if floats.len() > WINDOW_MAX {
        return Verdict::TooLarge;
    }
    Search { steady, floats, tolerance }.run(start)
}

impl Search<'_> {
    fn run(&self, start: State) -> Verdict {
        let begin = SearchState { first: 0, window: 0, floats: 0, state: start };
        let mut visited = HashSet::from([begin]);
        let mut open = vec![begin];
        let mut best = (0, begin);
        while let Some(place) = open.pop() {
            if self.is_complete(&place) {
                return Verdict::Linearizable;
            }
            let placed = place.first + (place.window.count_ones() + place.floats.count_ones()) as usize;
            if placed >= best.0 {
                best = (placed, place);
            }
            let Some(next) = self.next_places(&place) else { return Verdict::TooLarge };
            open.extend(next.into_iter().filter(|place| visited.insert(*place)));
            if visited.len() > VISITS_MAX {
                return Verdict::TooLarge;
            }
        }
        Verdict::Impossible { placed: best.0, stuck: self.describe(&best.1) }
    }

    fn is_complete(&self, place: &SearchState) -> bool {
        let float_is_due = |(number, call): (usize, &&Call<'_>)| !call.optional && place.floats & (1 << number) == 0;
        place.first == self.steady.len() && !self.floats.iter().enumerate().any(float_is_due)
    }

    /// The calls that may come next by time: those that began before any unplaced one ended. `None` if the window is full.
    fn candidates(&self, place: &SearchState) -> Option<(Vec<usize>, Vec<usize>)> {
        let open_floats = (0..self.floats.len()).filter(|number| place.floats & (1 << number) == 0);
        let mut end = u64::MAX;
        for number in open_floats.clone() {
            end = end.min(self.floats[number].returned);
        }
        let mut steady = Vec::new();
        for number in place.first..self.steady.len() {
            let call = self.steady[number];
            if call.invoked > end {
                break;
            }
            if number - place.first >= WINDOW_MAX {
                return None;
            }
            if place.window & (1 << (number - place.first)) == 0 {
                end = end.min(call.returned);
                steady.push(number);
            }
        }
        steady.retain(|number| self.steady[*number].invoked <= end);
        let floats = open_floats.filter(|number| self.floats[*number].invoked <= end).collect();
        Some((steady, floats))
    }

    /// Steady calls are pushed last and so tried first; optional ones only when nothing else leads on.
    fn next_places(&self, place: &SearchState) -> Option<Vec<SearchState>> {
        let (steady, floats) = self.candidates(place)?;
        let mut next = Vec::new();
        for number in floats {
            for state in self.outcomes(place.state, self.floats[number]).into_iter().flatten() {
                next.push(SearchState { floats: place.floats | 1 << number, state, ..*place });
            }
        }
        for number in steady.into_iter().rev() {
            for state in self.outcomes(place.state, self.steady[number]).into_iter().flatten() {
                let mut placed = SearchState { state, ..*place };
                placed.window |= 1 << (number - place.first);
                while placed.window & 1 == 1 {
                    (placed.first, placed.window) = (placed.first + 1, placed.window >> 1);
                }
                next.push(placed);
            }
        }
        Some(next)
    }

    /// The row after the call, if it is as it was, and if its time ran out just before.
    fn outcomes(&self, state: State, call: &Call<'_>) -> [Option<State>; 2] {
        let apply = |state| match call.saw {
            Some(saw) => step(state, call.ask, saw),
            None => effect(state, call.ask).map(|after| State { live: call.made.or(after.live), ..after }),
        };
        let Some(expires) = state.expires.filter(|_| state.live.is_some()) else { return [apply(state), None] };
        let may_be_gone = expires <= wall_ms(call.returned.min(u64::MAX / 2)) + self.tolerance.early_ms;
        let must_be_gone = expires + self.tolerance.late_ms < wall_ms(call.invoked);
        let gone = State { live: None, expires: None };
        [if must_be_gone { None } else { apply(state) }, if may_be_gone { apply(gone) } else { None }]
    }

    fn describe(&self, place: &SearchState) -> String {
        let Some((steady, floats)) = self.candidates(place) else { return String::new() };
        let calls = steady.iter().map(|number| self.steady[*number]).chain(floats.iter().map(|n| self.floats[*n]));
        let words: Vec<String> = calls
            .map(|call| {
                format!(
                    "[operation {} {:?} from {} to {} saw {:?}]",
                    call.operation, call.ask, call.invoked, call.returned, call.saw
                )
            })
            .collect();
        format!("{} fits a row that is {:?}", words.join(" "), place.state)
    }
}
