//! What a run is all about, if it is about one thing. Some faults show only when several rare things meet: a snapshot that comes
//! while earlier writes of its group wait for the disk, a hand-over that fails while something is proposed. Left to chance they
//! meet in one run of thousands; a run with a theme brings them together.

use crate::chance::Chance;
use crate::ground::{Fault, Ground, MS, NemesisPlan, SECOND};
use crate::tenant::Own;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Theme {
    /// Nodes fall behind and are brought up again by snapshots, on disks that stand still and links that mix things up.
    Lagging,
    /// Leads are handed over, and often nobody takes them, while there is much to propose.
    HandingOver,
    /// One group has much to say, the other one, on another lane, nothing: and its entries are the oldest of the log.
    QuietLane,
    /// Clocks show another day, also when a process starts, and times to live count.
    Astray,
    /// Leaders are replaced without noticing it, while readers still ask them.
    Deceived,
    /// Members of groups change all the time, by maps that are not everywhere the same, and disks are lost.
    Members,
    /// Shards are split all the time, while nodes die, fall behind and change. Never drawn, only asked for: what it finds is open
    /// (`docs/next.md`).
    Splits,
}

impl Theme {
    pub fn draw(chance: &mut Chance) -> Option<Self> {
        match chance.below(100) {
            0..26 => Some(Self::Lagging),
            26..34 => Some(Self::HandingOver),
            34..38 => Some(Self::QuietLane),
            38..46 => Some(Self::Deceived),
            46..54 => Some(Self::Astray),
            54..66 => Some(Self::Members),
            _ => None,
        }
    }
}

impl<F: Own> Ground<F> {
    /// The same ground, laid out for a theme.
    #[must_use]
    pub fn about(mut self, theme: Option<Theme>, chance: &mut Chance) -> Self {
        match theme {
            None => {}
            // Small windows, and faults that follow each other closely. What was overtaken comes while the disk stands still.
            Some(Theme::Lagging) => {
                self.snapshot_log_bytes = 1_500;
                self.window_entries = 2;
                self.disk.snapshot = (MS, 20 * MS);
                self.disk.stall = (300 * MS, 1_500 * MS);
                if chance.percent(75) {
                    self.lanes = 1;
                    self.net.detour_per_mille = 150;
                    self.net.detour = (10 * MS, 300 * MS);
                }
                let lags = [
                    Fault::FallBehind,
                    Fault::FallBehind,
                    Fault::FallBehind,
                    Fault::FallBehind,
                    Fault::Crash,
                    Fault::CrashMidInstall,
                    Fault::CrashMidCut,
                ];
                self.nemesis = NemesisPlan { every: (200 * MS, 1_500 * MS), kinds: lags.to_vec(), leader_percent: 20 };
            }
            Some(Theme::HandingOver) => {
                self.voters = 3;
                let kinds = [Fault::HandOverInVain, Fault::HandOverInVain, Fault::HandOverInVain, Fault::HandOver];
                self.nemesis = NemesisPlan { every: (SECOND, 3 * SECOND), kinds: kinds.to_vec(), leader_percent: 95 };
            }
            Some(Theme::QuietLane) => {
                self.lanes = 2;
                self.log_bytes_soft = crate::ground::LOG_BYTES_SOFT[0];
                self.snapshot_log_bytes = 1 << 20;
                self.disk.sync = (50, 300);
                self.net.delay = (100, 400);
                self.nemesis.every = (3 * SECOND, 6 * SECOND);
            }
            Some(Theme::Astray) => {
                self.voters = 3;
                self.skew_ms = 5;
                let kinds = vec![Fault::JumpClock, Fault::Crash, Fault::JumpClock, Fault::HandOver];
                self.nemesis = NemesisPlan { every: (300 * MS, 1_500 * MS), kinds, leader_percent: 80 };
            }
            Some(Theme::Deceived) => {
                self.voters = 3;
                self.tick_skew_percent = 45;
                self.disk.sync = (500, 4 * MS);
                self.net.delay = chance.pick(&[(100, 400), (200, 3 * MS)]);
                let kinds = vec![Fault::StarveMidRead, Fault::PauseMidRead, Fault::StarveMidRead];
                self.nemesis = NemesisPlan { every: (500 * MS, 2 * SECOND), kinds, leader_percent: 95 };
            }
            Some(Theme::Members) => {
                (self.has_council, self.machines) = (true, 3 + chance.index(3));
                let struck = [Fault::Crash, Fault::Isolate, Fault::CutOneLink, Fault::Pause, Fault::LongAbsence];
                let mut kinds = Fault::OF_MEMBERS.to_vec();
                kinds.extend([Fault::LoseDisk, Fault::Move, Fault::OldMap, Fault::HandOver, Fault::Suspect]);
                kinds.extend([chance.pick(&struck), chance.pick(&struck)]);
                self.nemesis = NemesisPlan { every: (200 * MS, 1_500 * MS), kinds, leader_percent: 40 };
            }
            Some(Theme::Splits) => {
                (self.has_council, self.machines) = (true, 3 + chance.index(2));
                self.snapshot_log_bytes = chance.pick(&[1_500, 1_500, 12_000]);
                // What is born should often wait for its snapshot when something happens.
                self.disk.snapshot = chance.pick(&[(MS, 20 * MS), (50 * MS, 800 * MS), (50 * MS, 2 * SECOND)]);
                let struck = [
                    Fault::Crash,
                    Fault::CrashAll,
                    Fault::CrashMidWrite,
                    Fault::CrashMidCut,
                    Fault::CrashMidInstall,
                    Fault::Pause,
                    Fault::Isolate,
                    Fault::CutOneLink,
                    Fault::LongAbsence,
                    Fault::SlowDisk,
                    Fault::HandOver,
                    Fault::Suspect,
                    Fault::Move,
                    Fault::Drain,
                    Fault::LoseDisk,
                    Fault::TakeBack,
                    Fault::CouncilAway,
                    Fault::OldMap,
                ];
                let kinds = (0..6).map(|_| chance.pick(&struck)).collect();
                self.nemesis = NemesisPlan { every: (200 * MS, 1_500 * MS), kinds, leader_percent: 60 };
            }
        }
        self
    }
}
