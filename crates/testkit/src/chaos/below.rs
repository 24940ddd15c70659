//! What is done to what nodes stand on: their network, their disks and SQL. Each leaves it as it was. The numbers are those of
//! `docs/promises/reliability.md`.

use std::fmt;

use anyhow::{Context, Result};

use super::fault::wait;
use super::ground::Ground;
use super::random::Random;
use crate::{Cluster, PATIENCE, wait_for};

/// Places are those of nodes, times are milliseconds.
pub enum Below {
    /// F9: a node that nobody reaches and that reaches nobody.
    Isolate { place: usize, away: u64 },
    /// F10: two that do not reach each other, and see different majorities.
    Part { places: [usize; 2], away: u64 },
    /// F10: one that is heard by nobody, and hears everybody; or the other way round.
    Mute { place: usize, is_deaf: bool, away: u64 },
    /// F10: one that another one does not hear.
    OneWay { from: usize, to: usize, away: u64 },
    /// F11, F14: links that come and go.
    Flap { place: usize, times: u64, apart: u64 },
    /// F14, F15: links that are slow, and lose what does not fit.
    Slow { places: Vec<usize>, kbit: u64, lasts: u64 },
    /// F1, F9: no quorum with three: one that is cut off, and one that is killed.
    IsolateAndKill { cut: usize, killed: usize, away: u64 },
    /// F6: a disk that is full.
    FillDisk { place: usize, lasts: u64 },
    /// F8: a disk that stands still.
    StallDisk { place: usize, lasts: u64 },
    /// F28, F30: a disk that is gone, and a node that comes back under its name.
    LoseDisk { place: usize },
    /// F16: SQL that is stopped.
    StopSql { away: u64 },
    /// F17: SQL that is killed.
    KillSql { away: u64 },
    /// F17: SQL that hangs, while a node that writes to it is killed (F21).
    HangSql { killed: usize, away: u64 },
}

impl Below {
    pub fn choose(random: &mut Random, order: Vec<usize>) -> Below {
        let (place, other) = (order[0], order[1]);
        let mut away = |most: u64| 100 + random.below(most);
        let long = away(5_000);
        match random.below(20) {
            0..3 => Below::Isolate { place, away: long },
            3..5 => Below::Part { places: [place, other], away: long },
            5..7 => Below::Mute { place, is_deaf: random.below(2) == 0, away: long },
            7 => Below::OneWay { from: place, to: other, away: long },
            8 => Below::Flap { place, times: 2 + random.below(8), apart: 20 + random.below(400) },
            9..11 => {
                let count = 1 + random.place(order.len());
                Below::Slow { places: order[..count].to_vec(), kbit: 200 + random.below(2_000), lasts: 1_000 + long }
            }
            11 => Below::IsolateAndKill { cut: place, killed: other, away: long },
            12..14 => Below::FillDisk { place, lasts: long },
            14..16 => Below::StallDisk { place, lasts: long },
            16 => Below::LoseDisk { place },
            17 => Below::StopSql { away: long },
            18 => Below::KillSql { away: long },
            _ => Below::HangSql { killed: place, away: long },
        }
    }

    pub fn strike(&self, cluster: &mut Cluster, ground: &mut Ground, random: &mut Random) -> Result<()> {
        let network = &mut ground.network;
        match self {
            Below::Isolate { place, away } => {
                network.isolate(*place, true, true)?;
                wait(*away);
            }
            Below::Part { places: [one, other], away } => {
                network.cut(*one, *other)?;
                network.cut(*other, *one)?;
                wait(*away);
            }
            Below::Mute { place, is_deaf, away } => {
                network.isolate(*place, !is_deaf, *is_deaf)?;
                wait(*away);
            }
            Below::OneWay { from, to, away } => {
                network.cut(*from, *to)?;
                wait(*away);
            }
            Below::Flap { place, times, apart } => {
                for _ in 0..*times {
                    network.isolate(*place, true, true)?;
                    wait(*apart);
                    network.heal()?;
                    wait(random.below(2 * apart));
                }
            }
            Below::Slow { places, kbit, lasts } => {
                places.iter().try_for_each(|place| network.slow(*place, *kbit))?;
                wait(*lasts);
            }
            Below::IsolateAndKill { cut, killed, away } => {
                network.isolate(*cut, true, true)?;
                wait(random.below(1_000));
                cluster.kill9(*killed)?;
                wait(*away);
                if random.below(2) == 0 {
                    network.heal()?;
                }
                cluster.start(*killed)?;
                wait(random.below(1_000));
            }
            Below::FillDisk { place, lasts } => {
                ground.disks[*place].fill()?;
                wait(*lasts);
                ground.disks[*place].empty()?;
                // A log that cannot be written ends the process (F7).
                if cluster.has_ended(*place) {
                    cluster.start(*place)?;
                }
            }
            Below::StallDisk { place, lasts } => {
                ground.disks[*place].freeze()?;
                wait(*lasts);
                ground.disks[*place].thaw()?;
            }
            Below::LoseDisk { place } => {
                // Two that have lost theirs are more than three replicas can bear.
                await_whole(cluster, (*place + 1) % cluster.nodes.len())?;
                cluster.kill9(*place)?;
                cluster.lose_data(*place)?;
                cluster.start(*place)?;
                await_whole(cluster, (*place + 1) % cluster.nodes.len())?;
            }
            Below::StopSql { away } => {
                ground.sql.stop()?;
                wait(*away);
                ground.sql.start_again()?;
            }
            Below::KillSql { away } => {
                ground.sql.kill9()?;
                wait(*away);
                ground.sql.start_again()?;
            }
            Below::HangSql { killed, away } => {
                ground.sql.pause()?;
                cluster.kill9(*killed)?;
                wait(*away);
                cluster.start(*killed)?;
                ground.sql.resume()?;
            }
        }
        ground.network.heal()
    }
}

/// Waits until every group has all its replicas, and no other ones.
fn await_whole(cluster: &Cluster, asked: usize) -> Result<()> {
    let mut last = String::new();
    let whole = wait_for("groups that have all their replicas", 2 * PATIENCE, || {
        let output = cluster.command(asked, &["status"]).output()?;
        last = String::from_utf8_lossy(&output.stdout).into_owned();
        // A replica that does not live has an exclamation mark, as has everything that is not well. SQL is not asked about.
        let is_ill = |line: &str| line.contains('!') && !line.starts_with("! SQL");
        Ok((output.status.success() && !last.lines().any(is_ill)).then_some(()))
    });
    whole.context(last)
}

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |place: &usize| format!("n{}", place + 1);
        let names = |places: &[usize]| places.iter().map(name).collect::<Vec<_>>().join(", ");
        match self {
            Below::Isolate { place, away } => write!(f, "{} is cut off for {away} ms", name(place)),
            Below::Part { places, away } => write!(f, "{} do not reach each other for {away} ms", names(places)),
            Below::Mute { place, is_deaf: false, away } => write!(f, "nobody hears {} for {away} ms", name(place)),
            Below::Mute { place, is_deaf: true, away } => write!(f, "{} hears nobody for {away} ms", name(place)),
            Below::OneWay { from, to, away } => write!(f, "{} does not hear {} for {away} ms", name(to), name(from)),
            Below::Flap { place, times, apart } => {
                write!(f, "{} is cut off {times} times, for {apart} ms each", name(place))
            }
            Below::Slow { places, kbit, lasts } => {
                write!(f, "{kbit} kbit/s for {} for {lasts} ms", names(places))
            }
            Below::IsolateAndKill { cut, killed, away } => {
                write!(f, "{} is cut off and {} is killed, for {away} ms", name(cut), name(killed))
            }
            Below::FillDisk { place, lasts } => write!(f, "the disk of {} is full for {lasts} ms", name(place)),
            Below::StallDisk { place, lasts } => write!(f, "the disk of {} stands still for {lasts} ms", name(place)),
            Below::LoseDisk { place } => write!(f, "{} is killed and loses its disk", name(place)),
            Below::StopSql { away } => write!(f, "SQL is stopped for {away} ms"),
            Below::KillSql { away } => write!(f, "SQL is killed, and back after {away} ms"),
            Below::HangSql { killed, away } => write!(f, "SQL hangs for {away} ms and {} is killed", name(killed)),
        }
    }
}
