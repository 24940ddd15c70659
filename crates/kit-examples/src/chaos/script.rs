//! What is done when: made from a seed before anything begins, so that it can be made again.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shardine_kit::WhileSilent;

use super::list::Reading;
use super::place::Kind;
use crate::goals::fleet::{COUNTERS, DCS};

/// Shards of a data centre.
pub const SHARDS: usize = 3;
/// Servers: one for each shard, and a spare one in the first data centre.
pub const SERVERS: usize = DCS.len() * SHARDS + 1;

/// One bad thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Killed, and started again after a while, with so many milliseconds taken off its clock, and so slow.
    Kill { server: usize, away: Duration, clock_behind_ms: u64, slow_ms: u64 },
    /// Stands still for a while.
    Pause { server: usize, lasts: Duration },
    /// All servers of a data centre are killed, and started again with other bounds.
    Recut { dc: usize, away: Duration, bounds: Vec<u64> },
    /// The store answers nothing for a while.
    SilentStore { lasts: Duration },
    /// The store is killed, and started again.
    DeadStore { away: Duration },
    /// The store's clock jumps, seen from its rows.
    StoreClock { hours: i32 },
    /// The store forgets all claims.
    LostRows,
    /// The store's table is put back as it was when the episode began.
    OldRows,
    /// The clients' list of hosts is not what it should be, for a while.
    List { reading: Reading, lasts: Duration },
}

/// An episode.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub silent: WhileSilent,
    pub lasts: Duration,
    /// By when they begin.
    pub faults: Vec<(Duration, Fault)>,
}

/// An episode of this length.
pub fn make(seed: u64, lasts: Duration, kind: Kind) -> Plan {
    let mut chance = StdRng::seed_from_u64(seed);
    let silent = if chance.random_bool(0.5) { WhileSilent::Serve } else { WhileSilent::Stop };
    let (mut at, mut faults) = (Duration::from_secs(1), Vec::new());
    while at < lasts {
        faults.push((at, fault(&mut chance, kind)));
        at += millis(&mut chance, 200, 2_500);
    }
    Plan { seed, silent, lasts, faults }
}

fn fault(chance: &mut StdRng, kind: Kind) -> Fault {
    let server = chance.random_range(0..SERVERS);
    match chance.random_range(0..100) {
        0..25 => {
            let clock_behind_ms = if chance.random_bool(0.2) { chance.random_range(1..600_000) } else { 0 };
            let slow_ms = if chance.random_bool(0.2) { chance.random_range(1..300) } else { 0 };
            Fault::Kill { server, away: millis(chance, 0, 5_000), clock_behind_ms, slow_ms }
        }
        25..50 => Fault::Pause { server, lasts: millis(chance, 50, 8_000) },
        50..58 => {
            let mut bounds = [chance.random_range(1..COUNTERS.into()), chance.random_range(1..COUNTERS.into())];
            bounds.sort_unstable();
            bounds[1] = bounds[1].max(bounds[0] + 1);
            Fault::Recut {
                dc: chance.random_range(0..DCS.len()),
                away: millis(chance, 0, 3_000),
                bounds: bounds.to_vec(),
            }
        }
        58..70 => Fault::SilentStore { lasts: millis(chance, 100, 8_000) },
        70..76 => Fault::DeadStore { away: millis(chance, 0, 4_000) },
        76..80 if kind.has_rows() => Fault::StoreClock { hours: if chance.random_bool(0.5) { 1 } else { -1 } },
        80..84 => Fault::LostRows,
        84..88 if kind.has_rows() => Fault::OldRows,
        _ => Fault::List { reading: Reading::any(chance.random_range(0..4)), lasts: millis(chance, 100, 4_000) },
    }
}

fn millis(chance: &mut StdRng, min: u64, max: u64) -> Duration {
    Duration::from_millis(chance.random_range(min..max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_plan_each_time_and_another_one_another() {
        let plan = |seed| make(seed, Duration::from_secs(300), Kind::Sqlite);

        assert_eq!(plan(7).faults, plan(7).faults);
        assert_ne!(plan(7).faults, plan(8).faults);
        let all: Vec<String> = plan(7).faults.iter().map(|(_, fault)| format!("{fault:?}")).collect();
        for name in ["Kill", "Pause", "Recut", "SilentStore", "DeadStore", "StoreClock", "LostRows", "OldRows", "List"]
        {
            assert!(all.iter().any(|fault| fault.starts_with(name)), "{name} is never done");
        }
    }
}
