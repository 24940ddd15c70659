//! The search for an order (after Wing, Gong and Lowe): walks over which operations have been placed and what the row is then.
//!
//! What keeps it small: an operation that fits and changes nothing is placed at once, for later it can only fit less. No
//! value is written twice, so a value may go only when everybody who met it has been placed. And of two ways to the same
//! row by the same certain operations, the one that used fewer of those that may never have happened can do all that the
//! other can; so ways that use few of them are tried before those that use many. Most of those are as good as each other
//! (`alike.rs`), and only counted.

use std::collections::{BTreeMap, HashMap};

use super::Tolerance;
use super::alike::{Ahead, Used};
use super::bits::Bits;
use super::resolve::Item;
use crate::clock::wall_ms;
use crate::records::model::{Moments, State, effect, step};

/// Items that last longer than this float: they are kept apart from the narrow window of the others.
const FLOATS_ABOVE_US: u64 = 1_000_000;
/// Places looked at before the search gives up. The largest histories so far took a hundredth of it.
const PLACES_MAX: usize = 500_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    Impossible {
        /// How many operations the longest order held.
        placed: usize,
        /// The operations that could have come next by time, and did not fit.
        stuck: String,
    },
    /// Neither found nor refuted.
    TooLarge,
}

/// Which certain items have been placed, and what the row is then.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SearchState {
    /// All steady items below this one, and those marked in `window`, counted from it.
    first: usize,
    window: Bits,
    floats: Bits,
    state: State,
}

/// A place, and which of the items that may never have happened were used on the way.
#[derive(Clone, Debug)]
struct Path {
    place: SearchState,
    used: Bits,
}

/// Paths that have not been followed yet, by how many items that may never have happened they use.
#[derive(Debug, Default)]
struct Open(BTreeMap<usize, Vec<Path>>);

impl Open {
    fn push(&mut self, path: Path) {
        self.0.entry(path.used.count()).or_default().push(path);
    }

    fn pop(&mut self) -> Option<Path> {
        let mut fewest = self.0.first_entry()?;
        let path = fewest.get_mut().pop();
        if fewest.get().is_empty() {
            fewest.remove();
        }
        path
    }
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Steady(usize),
    Float(usize),
    Optional(usize),
}

pub struct Search<'a> {
    steady: Vec<&'a Item>,
    floats: Vec<&'a Item>,
    optional: Vec<&'a Item>,
    /// By value: who met it.
    met: BTreeMap<i64, Vec<Number>>,
    tolerance: Tolerance,
    places_max: usize,
}

impl<'a> Search<'a> {
    #[must_use]
    pub fn new(items: &'a [Item], tolerance: Tolerance) -> Self {
        let mut search = Self {
            steady: Vec::new(),
            floats: Vec::new(),
            optional: Vec::new(),
            met: BTreeMap::new(),
            tolerance,
            places_max: PLACES_MAX,
        };
        for item in items {
            let is_long = item.returned.saturating_sub(item.invoked) > FLOATS_ABOVE_US;
            let (list, number): (&mut Vec<&Item>, fn(usize) -> Number) = match (item.optional, is_long) {
                (true, _) => (&mut search.optional, Number::Optional),
                (false, true) => (&mut search.floats, Number::Float),
                (false, false) => (&mut search.steady, Number::Steady),
            };
            let number = number(list.len());
            list.push(item);
            if let Some(value) = item.met() {
                search.met.entry(value).or_default().push(number);
            }
        }
        search
    }

    #[must_use]
    pub fn run(&self, start: State) -> Verdict {
        let place = SearchState { first: 0, window: Bits::default(), floats: Bits::default(), state: start };
        let mut known: HashMap<SearchState, Vec<Used>> = HashMap::new();
        let mut open = Open::default();
        open.push(Path { place, used: Bits::default() });
        let mut best: Option<(usize, SearchState)> = None;
        let mut places = 0;
        while let Some(mut path) = open.pop() {
            self.place_what_changes_nothing(&mut path);
            if self.is_complete(&path.place) {
                return Verdict::Linearizable;
            }
            let ahead = self.ahead(&path.place);
            path.place.state = ahead.seen(path.place.state);
            let ways = known.entry(path.place.clone()).or_default();
            let used = Used::of(&path.used, &self.optional, &ahead);
            if ways.iter().any(|known| known.is_as_good_as(&used)) {
                continue;
            }
            ways.push(used);
            places += 1;
            if places > self.places_max {
                return Verdict::TooLarge;
            }
            let placed = path.place.first + path.place.window.count() + path.place.floats.count();
            if best.as_ref().is_none_or(|(most, _)| placed >= *most) {
                best = Some((placed, path.place.clone()));
            }
            self.next_paths(&path).into_iter().for_each(|path| open.push(path));
        }
        let (placed, stuck) = best.map_or((0, String::new()), |(placed, place)| (placed, self.describe(&place)));
        Verdict::Impossible { placed, stuck }
    }

    fn is_complete(&self, place: &SearchState) -> bool {
        place.first == self.steady.len() && place.floats.count() == self.floats.len()
    }

    fn item(&self, number: Number) -> &Item {
        match number {
            Number::Steady(number) => self.steady[number],
            Number::Float(number) => self.floats[number],
            Number::Optional(number) => self.optional[number],
        }
    }

    fn is_placed(&self, path: &Path, number: Number) -> bool {
        match number {
            Number::Steady(number) => match number.checked_sub(path.place.first) {
                None => true,
                Some(number) => path.place.window.has(number),
            },
            Number::Float(number) => path.place.floats.has(number),
            Number::Optional(number) => path.used.has(number),
        }
    }

    /// When the first of the certain items that are not placed has ended: nothing that begins later may come before it.
    fn first_end(&self, place: &SearchState) -> u64 {
        let floats = (0..self.floats.len()).filter(|number| !place.floats.has(*number));
        let mut end = floats.map(|number| self.floats[number].returned).min().unwrap_or(u64::MAX);
        for (number, item) in self.steady[place.first..].iter().enumerate() {
            if item.invoked > end {
                break;
            }
            if !place.window.has(number) {
                end = end.min(item.returned);
            }
        }
        end
    }

    fn ahead(&self, place: &SearchState) -> Ahead {
        let floats = self.floats.iter().enumerate().filter(|(number, _)| !place.floats.has(*number));
        let begun = floats.map(|(_, item)| item.invoked).chain(self.steady.get(place.first).map(|item| item.invoked));
        let begun_ms = begun.min().map_or(u64::MAX, wall_ms);
        let end = self.first_end(place);
        Ahead { begun_ms, ends_ms: if end == u64::MAX { u64::MAX } else { wall_ms(end) }, tolerance: self.tolerance }
    }

    /// The certain items that may come next by time.
    fn candidates(&self, place: &SearchState, end: u64) -> impl Iterator<Item = Number> {
        let steady = self.steady[place.first..].iter().enumerate().take_while(move |(_, item)| item.invoked <= end);
        let steady = steady.filter(|(number, _)| !place.window.has(*number));
        let floats = self.floats.iter().enumerate().filter(move |(_, item)| item.invoked <= end);
        let floats = floats.filter(|(number, _)| !place.floats.has(*number));
        let steady = steady.map(|(number, _)| Number::Steady(place.first + number));
        steady.chain(floats.map(|(number, _)| Number::Float(number)))
    }

    fn place_what_changes_nothing(&self, path: &mut Path) {
        loop {
            let (place, end) = (&path.place, self.first_end(&path.place));
            let leaves_it = |number: &Number| self.outcomes(place.state, self.item(*number))[0] == Some(place.state);
            let found: Vec<Number> = self.candidates(place, end).filter(leaves_it).collect();
            if found.is_empty() {
                return;
            }
            found.into_iter().for_each(|number| path.place(number));
        }
    }

    /// What is certain is pushed last and so tried first, in the order of its beginning.
    fn next_paths(&self, path: &Path) -> Vec<Path> {
        let end = self.first_end(&path.place);
        let ahead = self.ahead(&path.place);
        let optional = self.unused_until(end, &path.used, &ahead).into_iter().map(Number::Optional);
        let mut certain: Vec<Number> = self.candidates(&path.place, end).collect();
        certain.reverse();
        let mut next: Vec<Path> = Vec::new();
        for number in optional.chain(certain) {
            for state in self.outcomes(path.place.state, self.item(number)).into_iter().flatten() {
                // An item that may never have happened is of no use where it changes nothing.
                let is_idle = matches!(number, Number::Optional(_)) && state == path.place.state;
                if is_idle || !self.may_leave(path, number, state) {
                    continue;
                }
                let mut found = path.clone();
                found.place(number);
                found.place.state = state;
                next.push(found);
            }
        }
        next
    }

    /// The items that may never have happened and may come next by time. Of two that do the same, the first.
    fn unused_until(&self, end: u64, used: &Bits, ahead: &Ahead) -> Vec<usize> {
        let mut unused: Vec<usize> = Vec::new();
        for (number, item) in self.optional.iter().enumerate().take_while(|(_, item)| item.invoked <= end) {
            let kind = ahead.kind(item);
            let does_the_same = |other: &usize| {
                let other = self.optional[*other];
                other.ask == item.ask || kind.is_some() && ahead.kind(other) == kind
            };
            if !used.has(number) && !unused.iter().any(does_the_same) {
                unused.push(number);
            }
        }
        unused
    }

    /// A value does not come back, so whoever met it must have been placed before it goes.
    fn may_leave(&self, path: &Path, number: Number, after: State) -> bool {
        let value = |state: State| state.live.map(|content| content.value);
        let Some(before) = value(path.place.state).filter(|before| value(after) != Some(*before)) else { return true };
        let met = self.met.get(&before).into_iter().flatten();
        let is_itself = |other: &Number| std::ptr::eq(self.item(*other), self.item(number));
        met.filter(|other| !is_itself(other)).all(|other| self.is_placed(path, *other))
    }

    /// The row after the item, if it is as it was, and if its time ran out just before.
    fn outcomes(&self, state: State, item: &Item) -> [Option<State>; 2] {
        let apply = |state| match &item.saw {
            Some(saw) => step(state, item.ask, saw, item.moments()),
            None => {
                effect(state, item.ask, item.moments()).map(|after| State { live: item.made.or(after.live), ..after })
            }
        };
        let Some(expires) = state.expires.filter(|_| state.live.is_some()) else { return [apply(state), None] };
        let Moments { invoked, returned } = item.moments();
        let may_be_gone = expires.earliest <= returned.saturating_add(self.tolerance.early_ms);
        let must_be_gone = expires.latest.saturating_add(self.tolerance.late_ms) < invoked;
        let gone = State { live: None, expires: None };
        [if must_be_gone { None } else { apply(state) }, if may_be_gone { apply(gone) } else { None }]
    }

    fn describe(&self, place: &SearchState) -> String {
        let words: Vec<String> = self
            .candidates(place, self.first_end(place))
            .map(|number| {
                let Item { operation, ask, invoked, returned, saw, .. } = self.item(number);
                format!("[operation {operation} {ask:?} from {invoked} to {returned} saw {saw:?}]")
            })
            .collect();
        format!("{} fits a row that is {:?}", words.join(" "), place.state)
    }
}

impl Path {
    fn place(&mut self, number: Number) {
        match number {
            Number::Steady(number) => {
                self.place.window.mark(number - self.place.first);
                self.place.first += self.place.window.drop_leading();
            }
            Number::Float(number) => self.place.floats.mark(number),
            Number::Optional(number) => self.used.mark(number),
        }
    }
}

#[cfg(test)]
impl Search<'_> {
    /// Gives up after so many places.
    #[must_use]
    pub fn at_most(self, places_max: usize) -> Self {
        Self { places_max, ..self }
    }
}
