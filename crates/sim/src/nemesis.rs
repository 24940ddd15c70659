//! Who strikes: draws a fault and a victim, again and again, until the run is to heal.

use crate::disk::Crashed;
use crate::event::{Event, Input};
use crate::ground::{Fault, MS, SECOND};
use crate::replicas::Replicas;
use crate::tenant::Tenant;
use crate::world::{Trap, World};

impl<T: Tenant> World<T> {
    pub fn strike(&mut self) {
        if !self.faults_on {
            return;
        }
        let fault = self.chance.pick(&self.ground.nemesis.kinds.clone());
        let victim = self.draw_victim();
        self.note(&[11, fault.number(), victim as u64], || format!("strikes: {fault:?}, node {}", victim + 1));
        self.perform_fault(fault, victim);
        let pause = self.chance.between(self.ground.nemesis.every);
        self.later(pause, Event::Strike);
    }

    /// A leader more often than chance would have it: that is where the promises are made.
    fn draw_victim(&mut self) -> usize {
        let living = self.living();
        let group = self.chance.pick(&living);
        if self.chance.percent(self.ground.nemesis.leader_percent)
            && let Some(leader) = self.leader_of(group)
        {
            return leader;
        }
        self.chance.index(self.nodes.len())
    }

    fn perform_fault(&mut self, fault: Fault<T::Fault>, victim: usize) {
        let now = self.now;
        let others: Vec<usize> = (0..self.nodes.len()).filter(|node| *node != victim).collect();
        match fault {
            Fault::Crash => {
                let down = self.chance.between((50 * MS, 4 * SECOND));
                self.crash(victim, down);
            }
            Fault::LongAbsence => {
                let down = self.chance.between((3 * SECOND, 8 * SECOND));
                self.crash(victim, down);
            }
            Fault::CrashMidWrite => {
                self.nodes[victim].crash_at_write = Some(self.chance.between((50 * MS, 4 * SECOND)));
            }
            Fault::CrashMidInstall => self.crash_at_install = Some(self.chance.between((50 * MS, 4 * SECOND))),
            Fault::CrashMidCut => self.crash_at_cut = Some(self.chance.between((50 * MS, 4 * SECOND))),
            Fault::CrashAll => {
                for node in 0..self.nodes.len() {
                    let down = self.chance.between((50 * MS, 2 * SECOND));
                    self.crash(node, down);
                }
            }
            Fault::Pause => {
                let length = self.chance.between((100 * MS, 6 * SECOND));
                self.pause(victim, length);
            }
            // Both long enough for the others to elect somebody else.
            Fault::PauseMidRead => {
                self.nodes[victim].trap = Some(Trap::Pause(self.chance.between((2_500 * MS, 6 * SECOND))));
            }
            Fault::StarveMidRead => {
                self.nodes[victim].trap = Some(Trap::Starve(self.chance.between((2_500 * MS, 6 * SECOND))));
            }
            Fault::Isolate => {
                let until = now + self.chance.between((500 * MS, 6 * SECOND));
                self.counters.partitions += 1;
                for other in others {
                    self.net.cut(victim, other, until);
                    self.net.cut(other, victim, until);
                }
            }
            Fault::Deafen => {
                let until = now + self.chance.between((500 * MS, 6 * SECOND));
                self.counters.one_way_cuts += 1;
                let hears = self.chance.percent(50);
                for other in others {
                    let (from, to) = if hears { (victim, other) } else { (other, victim) };
                    self.net.cut(from, to, until);
                }
            }
            Fault::CutOneLink => {
                let until = now + self.chance.between((500 * MS, 8 * SECOND));
                let other = self.chance.index(self.nodes.len());
                self.net.cut(victim, other, until);
                if self.chance.percent(70) {
                    self.net.cut(other, victim, until);
                }
            }
            Fault::Clog => {
                for other in others {
                    let until = now + self.chance.between((200 * MS, 3 * SECOND));
                    let (from, to) = if self.chance.percent(50) { (victim, other) } else { (other, victim) };
                    self.net.clog(from, to, until);
                }
            }
            Fault::SlowDisk => self.nodes[victim].slow_until = now + self.chance.between((500 * MS, 5 * SECOND)),
            Fault::FallBehind => {
                self.nodes[victim].slow_until = now + 2 * SECOND;
                let (first, length) = (self.chance.below(150 * MS), self.chance.between((50 * MS, 400 * MS)));
                if self.chance.percent(40) {
                    self.later(first, Event::Deafened { node: victim, length });
                } else {
                    // Nothing is lost, but it comes all at once and in any order: what was overtaken is refused and then taken.
                    others.into_iter().for_each(|other| self.net.clog(other, victim, now + first + length));
                }
            }
            Fault::JumpClock => {
                self.counters.clock_jumps += 1;
                // A majority's clocks are right: nobody could tell otherwise.
                let astray = (0..self.nodes.len()).filter(|node| self.nodes[*node].clock.is_astray(now)).count();
                if self.chance.percent(50) && astray == 0 {
                    self.counters.clocks_astray += 1;
                    self.nodes[victim].clock.go_astray(now, &mut self.chance);
                } else {
                    self.nodes[victim].clock.jump(&mut self.chance);
                }
            }
            Fault::HandOver => {
                // Half of the time nobody hears of it for a while.
                if self.chance.percent(50) {
                    let until = now + self.chance.between((100 * MS, 900 * MS));
                    others.into_iter().for_each(|other| self.net.cut(victim, other, until));
                }
                self.reach(victim, Input::HandOver);
            }
            Fault::HandOverInVain => {
                let until = now + self.chance.between((900 * MS, 1_300 * MS));
                others.into_iter().for_each(|other| self.net.cut(victim, other, until));
                self.reach(victim, Input::HandOver);
            }
            Fault::Terminate => {
                self.nodes[victim].ends_for = Some(self.chance.between((50 * MS, 4 * SECOND)));
                self.reach(victim, Input::HandOver);
            }
            Fault::Suspect => self.be_suspected(victim),
            Fault::BreakLinks => self.break_links(victim),
            Fault::LoseDisk => self.lose_disk(victim),
            Fault::Drain => self.drain(victim),
            Fault::Move => {
                let (living, to) = (self.living(), self.nodes.len());
                let (group, to) = (self.chance.pick(&living), self.chance.index(to));
                self.move_some(group, to);
            }
            Fault::TakeBack => self.take_back(),
            Fault::CouncilAway => {
                let until = now + self.chance.between((300 * MS, 5 * SECOND));
                if let Some(council) = &mut self.council {
                    council.away_until = until;
                }
            }
            Fault::OldMap => {
                self.nodes[victim].map_deaf_until = now + self.chance.between((300 * MS, 5 * SECOND));
            }
            Fault::Own(fault) => T::strike(self, fault, victim),
        }
    }

    /// The process is gone, with whatever it had in memory and some of what was on its way to disk.
    pub fn crash(&mut self, node: usize, down: u64) {
        if self.nodes[node].is_up() {
            let Crashed { ops, cuts, tore_cut, tore_install } = self.nodes[node].disk.crash(&mut self.chance);
            self.note(&[12, node as u64, ops as u64], || format!("node {} crashes, {ops} writes lost", node + 1));
            self.counters.crashes += 1;
            self.counters.lossy_crashes += u64::from(ops > 0);
            self.counters.snapshots_lost += cuts;
            self.counters.snapshots_torn += u64::from(tore_cut);
            self.counters.installs_torn += u64::from(tore_install);
            self.links_die(node);
            self.nodes[node].replicas = Replicas::none();
            self.nodes[node].backlog.clear();
            self.nodes[node].cut_asked.fill(false);
            self.nodes[node].cuts.fill(None);
            self.nodes[node].ends_for = None;
            self.be_missed(node);
            T::crashed(self, node);
        }
        self.later(down, Event::Restart { node });
    }

    pub fn deafen(&mut self, node: usize, length: u64) {
        if self.faults_on {
            for other in (0..self.nodes.len()).filter(|other| *other != node) {
                self.net.cut(other, node, self.now + length);
            }
        }
    }

    fn pause(&mut self, node: usize, length: u64) {
        if !self.nodes[node].is_up() || self.now < self.nodes[node].paused_until {
            return;
        }
        self.counters.pauses += 1;
        self.nodes[node].paused_until = self.now + length;
        self.later(length, Event::Resume { node });
    }

    /// A leader has asked the others whether it still leads: the moment for which a trap was set.
    pub fn spring(&mut self, node: usize) {
        match self.nodes[node].trap.take() {
            None => {}
            Some(Trap::Pause(length)) => self.pause(node, length),
            Some(Trap::Starve(length)) => {
                let until = self.now + length;
                self.counters.one_way_cuts += 1;
                self.nodes[node].late_ticks_until = until;
                // Of what is sent to it, mostly only the first comes at all.
                if self.chance.percent(70) {
                    let first = self.chance.between((MS, 60 * MS));
                    self.later(first, Event::Deafened { node, length: length + SECOND });
                }
                for other in (0..self.nodes.len()).filter(|other| *other != node) {
                    self.net.cut(node, other, until);
                    self.net.clog(other, node, until);
                }
            }
        }
    }

    /// Takes every fault away and brings every node back.
    pub fn heal(&mut self) {
        self.note(&[13], || "everything heals".to_owned());
        self.faults_on = false;
        self.crash_at_install = None;
        self.crash_at_cut = None;
        self.net.calm();
        self.calm_council();
        T::heal(self);
        for node in 0..self.nodes.len() {
            self.nodes[node].slow_until = 0;
            self.nodes[node].trap = None;
            self.nodes[node].late_ticks_until = 0;
            self.nodes[node].crash_at_write = None;
            self.nodes[node].ends_for = None;
            if !self.nodes[node].is_up() {
                self.start(node);
            } else if self.now < self.nodes[node].paused_until {
                self.nodes[node].paused_until = self.now;
                self.resume(node);
            }
        }
    }
}
