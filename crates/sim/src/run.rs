//! One run from its seed to its verdict: bootstrap, faults, heal, quiesce and compare, then the history.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::check::{Violation, heals_in_time};
use crate::counters::{OF_LINKS, OF_MEMBERS, OF_SPLITS};
use crate::event::Event;
use crate::ground::{MS, SECOND};
use crate::tenant::Tenant;
use crate::theme::Theme;
use crate::world::World;

/// Virtual time within which a fresh group must serve, and a healed one must have settled. The lease of a lost leader
/// alone takes ten seconds to run out, and so does the longest pause between two tries at SQL.
pub const BOOTSTRAP: u64 = 20 * SECOND;
const HEAL: u64 = 90 * SECOND;

/// What a run was, once it is over.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    pub violation: Option<Violation>,
    /// How often the interesting things happened, with the words for them.
    pub counts: Vec<(&'static str, u64)>,
    pub trace_hash: u64,
    pub events: u64,
    pub virtual_us: u64,
    /// The last events in words, if they were asked for.
    pub lines: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Options<M> {
    pub mutant: Option<M>,
    /// What the run is about, if that is not left to the seed.
    pub theme: Option<Theme>,
    /// How many of the last events to tell in words.
    pub lines: usize,
}

impl<M> Default for Options<M> {
    fn default() -> Self {
        Self { mutant: None, theme: None, lines: 0 }
    }
}

/// Runs one seed. A panic in the code under test is a verdict like any other.
#[must_use]
pub fn run<T: Tenant>(seed: u64, options: Options<T::Mutant>) -> Outcome {
    let mut world = None;
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let (ground, plan) = T::plan(seed, options.mutant, options.theme);
        let world = world.insert(World::<T>::new(ground, plan, options.lines));
        world.play();
    }));
    let mut world = world.unwrap_or_else(|| {
        let (ground, plan) = T::plan(seed, None, options.theme);
        World::new(ground, plan, 0)
    });
    if let Err(panic) = ran {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
        world.violation.get_or_insert(Violation::new("no_panic", words));
    }
    let mut counts = world.counters.list();
    if !T::MEMBERS_CHANGE {
        counts.retain(|(words, _)| !OF_MEMBERS.contains(words) && !OF_LINKS.contains(words));
    }
    counts.extend(world.tenant.counts());
    if options.theme != Some(Theme::Splits) {
        counts.retain(|(words, _)| !OF_SPLITS.contains(words));
    }
    Outcome {
        seed,
        violation: world.violation,
        counts,
        trace_hash: world.trace.hash(),
        events: world.trace.events(),
        virtual_us: world.now,
        lines: world.trace.lines().map(str::to_owned).collect(),
    }
}

impl<T: Tenant> World<T> {
    fn play(&mut self) {
        T::bootstrap(self);
        self.suffer();
        self.settle();
        if self.violation.is_none() {
            T::last_words(self);
        }
        self.settle();
        if self.violation.is_none() {
            let verdict = self.compare().and_then(|()| T::judge(self));
            self.demand(verdict);
        }
    }

    fn suffer(&mut self) {
        self.faults_on = true;
        T::begin_work(self);
        let first = self.chance.between(self.ground.nemesis.every);
        self.later(first, Event::Strike);
        self.run_until(self.now + self.ground.faults_us);
        if self.violation.is_none() {
            self.heal();
        }
    }

    /// Without faults and without new work, everything must come to rest.
    fn settle(&mut self) {
        let end = self.now + HEAL;
        while self.violation.is_none() {
            self.run_until(self.now + 200 * MS);
            T::settle_some(self);
            let Some(missing) = heals_in_time::missing(self) else { return };
            if self.now > end && self.violation.is_none() {
                self.demand(Err(heals_in_time::violation(&missing)));
            }
        }
    }

    fn compare(&mut self) -> Result<(), Violation> {
        for group in self.living() {
            for node in 0..self.nodes.len() {
                if self.nodes[node].replicas.get(group).is_some() {
                    self.compare_state(node, group)?;
                }
            }
        }
        T::compare(self)
    }
}
