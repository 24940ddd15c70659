//! The rate limiter's promise: whatever is asked, and whoever leads, no resource gives more in any span of time than what
//! comes in it and what may be saved up.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shardine_coord::{
    Config, Coord, Leader, NodeCall, NodeReply, Out, Pace, Patience, ResourceCall, Status, Ticket, Units,
};

const NODE: &str = "/local/limits";

/// A tree, each with its rate and its burst in seconds' worth. No burst is below `UNITS_MAX`.
const TREE: [(&str, f64, f64); 4] =
    [("api", 20.0, 1.0), ("api/reads", 12.0, 0.5), ("api/writes", 8.0, 1.0), ("web", 3.0, 2.0)];
const UNITS_MAX: u64 = 6;

/// More than the sums of floats are off by.
const ROUNDING: f64 = 1e-6;

#[derive(Clone, Debug)]
enum Act {
    Acquire { resource: usize, units: u64, patience_ms: Option<u64> },
    Use { resource: usize, units: u64 },
    Leave { call: usize },
    Wait { ms: u64 },
    NewLeader,
}

fn any_act() -> impl Strategy<Value = Act> {
    let resource = || 0..TREE.len();
    prop_oneof![
        20 => (resource(), 1..=UNITS_MAX, prop::option::of(1..2_000u64))
            .prop_map(|(resource, units, patience_ms)| Act::Acquire { resource, units, patience_ms }),
        2 => (resource(), 1..20u64).prop_map(|(resource, units)| Act::Use { resource, units }),
        1 => (0..40usize).prop_map(|call| Act::Leave { call }),
        10 => (1..900u64).prop_map(|ms| Act::Wait { ms }),
        1 => Just(Act::NewLeader),
    ]
}

#[derive(Default)]
struct Tap {
    coord: Coord,
    leader: Leader,
    out: Out,
    now_ms: u64,
    /// Requests that are not answered.
    asked: BTreeMap<Ticket, (usize, u64)>,
    tickets: Vec<Ticket>,
    /// When, of which resource, how many.
    granted: Vec<(u64, usize, u64)>,
}

impl Tap {
    fn open() -> Self {
        let mut tap = Self::default();
        tap.leader.take_over(&tap.coord, 0);
        tap.call(NodeCall::Create { path: NODE.to_owned(), config: Config::default() });
        for (path, max_units_per_second, max_burst_size_coefficient) in TREE {
            let pace = Pace { max_units_per_second, max_burst_size_coefficient, ..Pace::default() };
            tap.resource(path, ResourceCall::Create(pace));
        }
        tap
    }

    fn resource(&mut self, path: &str, call: ResourceCall) -> Ticket {
        self.call(NodeCall::Resource { node: NODE.to_owned(), path: path.to_owned(), call })
    }

    fn call(&mut self, call: NodeCall) -> Ticket {
        let ticket = Ticket(self.tickets.len() as u64);
        self.tickets.push(ticket);
        self.leader.call(&self.coord, ticket, &call, &mut self.out);
        ticket
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Acquire { resource, units, patience_ms } => {
                let patience = patience_ms.map(|ms| Patience { ms, status: Status::Timeout });
                let call = ResourceCall::Acquire { units: Units::Required(units), patience };
                let ticket = self.resource(TREE[resource].0, call);
                self.asked.insert(ticket, (resource, units));
            }
            Act::Use { resource, units } => {
                let call = ResourceCall::Acquire { units: Units::Used(units), patience: None };
                self.resource(TREE[resource].0, call);
            }
            Act::Leave { call } => {
                if let Some(&ticket) = self.tickets.get(call) {
                    self.asked.remove(&ticket);
                    self.leader.withdraw(&self.coord, ticket, &mut self.out);
                }
            }
            Act::Wait { ms } => {
                let until_ms = self.now_ms + ms;
                while let Some(due_ms) = self.leader.next_due_ms().filter(|due_ms| *due_ms <= until_ms) {
                    self.tick(due_ms);
                }
                self.tick(until_ms);
            }
            Act::NewLeader => {
                self.leader.step_down(&mut self.out);
                self.leader.take_over(&self.coord, self.now_ms);
            }
        }
        self.settle();
    }

    fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.leader.set_time(&self.coord, now_ms, &mut self.out);
        self.leader.tick(&self.coord, &mut self.out);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(entry) = self.out.take_entry() {
            let (leader, out) = (&mut self.leader, &mut self.out);
            let mut origins = entry.origins.into_iter();
            let each = |coord: &Coord, notices: &mut Vec<_>, outcome| {
                leader.applied(coord, notices, origins.next(), outcome, out)
            };
            self.coord.apply(&entry.bytes, each).expect("our own entries can be read");
        }
        for (ticket, reply) in self.out.replies.drain(..) {
            if let (Some((resource, units)), NodeReply::Done) = (self.asked.remove(&ticket), reply) {
                self.granted.push((self.now_ms, resource, units));
            }
        }
    }

    /// Every span between two grants, for every resource with all below it.
    fn check(&self) {
        for (path, rate, burst) in TREE {
            let is_of = |of: usize| TREE[of].0 == path || TREE[of].0.starts_with(&format!("{path}/"));
            let of_it: Vec<(u64, f64)> = self
                .granted
                .iter()
                .filter(|(_, of, _)| is_of(*of))
                .map(|&(at_ms, _, units)| (at_ms, units as f64))
                .collect();
            for (first, &(from_ms, _)) in of_it.iter().enumerate() {
                let mut sum = 0.0;
                for &(to_ms, units) in &of_it[first..] {
                    sum += units;
                    let most = rate * ((to_ms - from_ms) as f64 / 1_000.0) + rate * burst;
                    assert!(sum <= most + ROUNDING, "{path}: {sum} units from {from_ms} to {to_ms} ms, {most} at most");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_more_units_are_granted_than_come(acts in prop::collection::vec(any_act(), 1..150)) {
        let mut tap = Tap::open();
        tap.settle();

        for act in &acts {
            tap.act(act);
        }

        tap.check();
    }

    /// Nobody is forgotten: with time enough, and nobody new, everybody who waits is served.
    #[test]
    fn everybody_who_waits_is_served(acts in prop::collection::vec(any_act(), 1..60)) {
        let mut tap = Tap::open();
        tap.settle();
        for act in &acts {
            tap.act(act);
        }

        tap.act(&Act::Wait { ms: 3_600_000 });

        assert!(tap.asked.is_empty(), "{:?} are left", tap.asked);
        assert_eq!(tap.leader.next_due_ms(), None, "a timer is left without anybody to serve");
    }
}
