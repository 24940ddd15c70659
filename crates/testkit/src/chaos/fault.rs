//! What is done to the nodes; what is done to what they stand on is in [`super::below`]. Each leaves all of them running. The numbers are those of
//! `docs/promises/reliability.md`.

use std::fmt;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::World;
use super::below::Below;
use super::random::Random;
use crate::PATIENCE;

/// How long a starved node runs and stands still, in turns: the kernel's own portion for whoever has no share.
const STARVED_MS: [u64; 2] = [5, 45];

/// Places are those of nodes, times are milliseconds.
pub enum Fault {
    /// F1, F2: killed, and started again later.
    Kill { place: usize, away: u64 },
    /// Killed, started, and killed while it starts.
    KillTwice { place: usize, between: u64 },
    /// Told to stop, and started again later.
    Stop { place: usize, away: u64 },
    /// Told to stop one after the other, each when the one before serves again.
    Roll { order: Vec<usize> },
    /// F12: stands still without knowing it: others have long gone on when it goes on.
    Pause { place: usize, away: u64 },
    /// No quorum: one that is paused and one that is killed.
    PauseAndKill { paused: usize, killed: usize, away: u64 },
    /// No quorum: two at once.
    PauseTwo { places: [usize; 2], away: u64 },
    /// F3, as far as processes go: as if the power went, and came back for one after the other.
    KillAll { order: Vec<usize>, apart: u64 },
    /// F34: gets a tenth of a processor.
    Starve { place: usize, lasts: u64 },
    /// F45: the same command line once more, beside the node that runs.
    Twin { place: usize },
    /// What needs namespaces.
    Below(Below),
}

impl Fault {
    /// `is_below`: whether network, disks and SQL may be had.
    pub fn choose(random: &mut Random, nodes: usize, is_below: bool) -> Fault {
        let order = random.order(nodes);
        if is_below && random.below(3) > 0 {
            return Fault::Below(Below::choose(random, order));
        }
        let (place, other) = (order[0], order[1]);
        match random.below(14) {
            0..3 => Fault::Kill { place, away: random.below(4_000) },
            3 => Fault::KillTwice { place, between: random.below(1_500) },
            4..6 => Fault::Stop { place, away: random.below(3_000) },
            6 => Fault::Roll { order },
            7..9 => Fault::Pause { place, away: 100 + random.below(5_000) },
            9 => Fault::PauseAndKill { paused: place, killed: other, away: 100 + random.below(3_000) },
            10 => Fault::PauseTwo { places: [place, other], away: 100 + random.below(3_000) },
            11 => Fault::Starve { place, lasts: 500 + random.below(4_000) },
            12 => Fault::Twin { place },
            _ => Fault::KillAll { order, apart: random.below(1_000) },
        }
    }

    pub fn strike(&self, world: &mut World, random: &mut Random) -> Result<()> {
        let cluster = &mut world.cluster;
        match self {
            Fault::Below(below) => below.strike(cluster, world.ground.as_mut().context("it needs namespaces")?, random),
            Fault::Starve { place, lasts } => {
                let process = cluster.process(*place)?;
                for _ in 0..lasts / STARVED_MS.iter().sum::<u64>() {
                    process.pause()?;
                    wait(STARVED_MS[1]);
                    process.resume()?;
                    wait(STARVED_MS[0]);
                }
                Ok(())
            }
            Fault::Twin { place } => {
                let status = cluster.start_twin(*place)?.wait(PATIENCE)?;
                ensure!(!status.success(), "a second process on the directory of n{} ended with {status}", place + 1);
                Ok(())
            }
            Fault::Kill { place, away } => {
                cluster.kill9(*place)?;
                wait(*away);
                cluster.start(*place)
            }
            Fault::KillTwice { place, between } => {
                cluster.kill9(*place)?;
                cluster.start(*place)?;
                wait(*between);
                cluster.kill9(*place)?;
                cluster.start(*place)
            }
            Fault::Stop { place, away } => {
                cluster.stop(*place)?;
                wait(*away);
                cluster.start(*place)
            }
            Fault::Roll { order } => order.iter().try_for_each(|place| {
                cluster.stop(*place)?;
                cluster.start(*place)?;
                cluster.wait_until_serving()
            }),
            Fault::Pause { place, away } => {
                cluster.process(*place)?.pause()?;
                wait(*away);
                cluster.process(*place)?.resume()
            }
            Fault::PauseAndKill { paused, killed, away } => {
                cluster.process(*paused)?.pause()?;
                wait(random.below(1_000));
                cluster.kill9(*killed)?;
                wait(*away);
                if random.below(2) == 0 {
                    cluster.process(*paused)?.resume()?;
                    wait(random.below(1_000));
                }
                cluster.start(*killed)?;
                cluster.process(*paused)?.resume()
            }
            Fault::PauseTwo { places, away } => {
                for place in places {
                    cluster.process(*place)?.pause()?;
                }
                wait(*away);
                places.iter().try_for_each(|place| cluster.process(*place)?.resume())
            }
            Fault::KillAll { order, apart } => {
                for place in order {
                    cluster.kill9(*place)?;
                }
                order.iter().try_for_each(|place| {
                    cluster.start(*place)?;
                    wait(*apart);
                    Ok(())
                })
            }
        }
    }
}

pub(super) fn wait(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |place: &usize| format!("n{}", place + 1);
        let names = |places: &[usize]| places.iter().map(name).collect::<Vec<_>>().join(", ");
        match self {
            Fault::Kill { place, away } => write!(f, "{} is killed, and back after {away} ms", name(place)),
            Fault::KillTwice { place, between } => write!(f, "{} is killed twice, {between} ms apart", name(place)),
            Fault::Stop { place, away } => write!(f, "{} is told to stop, and back after {away} ms", name(place)),
            Fault::Roll { order } => write!(f, "{} are told to stop in turn", names(order)),
            Fault::Pause { place, away } => write!(f, "{} stands still for {away} ms", name(place)),
            Fault::PauseAndKill { paused, killed, away } => {
                write!(f, "{} stands still and {} is killed, for {away} ms", name(paused), name(killed))
            }
            Fault::PauseTwo { places, away } => write!(f, "{} stand still for {away} ms", names(places)),
            Fault::KillAll { order, apart } => {
                write!(f, "all are killed; {} start, {apart} ms apart", names(order))
            }
            Fault::Starve { place, lasts } => write!(f, "{} gets a tenth of a processor for {lasts} ms", name(place)),
            Fault::Twin { place } => write!(f, "{} is started a second time", name(place)),
            Fault::Below(below) => below.fmt(f),
        }
    }
}
