//! What is done to the nodes. Each leaves all of them running.

use std::fmt;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::random::Random;
use crate::Cluster;

/// Places are those of nodes, times are milliseconds.
pub enum Fault {
    /// Killed, and started again later.
    Kill { place: usize, away: u64 },
    /// Killed, started, and killed while it starts.
    KillTwice { place: usize, between: u64 },
    /// Told to stop, and started again later.
    Stop { place: usize, away: u64 },
    /// Told to stop one after the other, each when the one before serves again.
    Roll { order: Vec<usize> },
    /// Stands still without knowing it: others have long gone on when it goes on.
    Pause { place: usize, away: u64 },
    /// No quorum: one that is paused and one that is killed.
    PauseAndKill { paused: usize, killed: usize, away: u64 },
    /// No quorum: two at once.
    PauseTwo { places: [usize; 2], away: u64 },
    /// As if the power went, and came back for one after the other.
    KillAll { order: Vec<usize>, apart: u64 },
}

impl Fault {
    pub fn choose(random: &mut Random, nodes: usize) -> Fault {
        let order = random.order(nodes);
        let (place, other) = (order[0], order[1]);
        match random.below(12) {
            0..3 => Fault::Kill { place, away: random.below(4_000) },
            3 => Fault::KillTwice { place, between: random.below(1_500) },
            4..6 => Fault::Stop { place, away: random.below(3_000) },
            6 => Fault::Roll { order },
            7..9 => Fault::Pause { place, away: 100 + random.below(5_000) },
            9 => Fault::PauseAndKill { paused: place, killed: other, away: 100 + random.below(3_000) },
            10 => Fault::PauseTwo { places: [place, other], away: 100 + random.below(3_000) },
            _ => Fault::KillAll { order, apart: random.below(1_000) },
        }
    }

    pub fn strike(&self, cluster: &mut Cluster, random: &mut Random) -> Result<()> {
        match self {
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

fn wait(millis: u64) {
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
        }
    }
}
