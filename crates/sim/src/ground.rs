//! The ground that a run stands on, whoever lives there: nodes, links, disks, clocks and who strikes at them. Everything is
//! drawn from the seed; whole classes of faults are on in one run and off in the next, because a run with everything on
//! hides what only shows when little happens.

use crate::chance::Chance;
use crate::clock::Believes;
use crate::disk::SEGMENT_BYTES;
use crate::tenant::Own;
use crate::theme::Theme;

pub const MS: u64 = 1_000;
pub const SECOND: u64 = 1_000 * MS;

/// How large the log may become before somebody is asked for a snapshot: a few segments, or as large as it likes.
pub const LOG_BYTES_SOFT: [u64; 4] =
    [2 * SEGMENT_BYTES as u64, 2 * SEGMENT_BYTES as u64, 8 * SEGMENT_BYTES as u64, u64::MAX];

/// A range of microseconds to draw from.
pub type Span = (u64, u64);

#[derive(Clone, Debug)]
pub struct Ground<F> {
    pub seed: u64,
    pub voters: u64,
    /// Computers on which nodes may run: those of the first voters, and others.
    pub machines: usize,
    /// Whether the members of groups change, and nodes come and go.
    pub has_council: bool,
    /// Whether the planner moves replicas for the sake of balance, too.
    pub balances: bool,
    /// Raft groups that there may be. Those that are there from the beginning come first, the others are born of splits.
    pub groups: usize,
    pub founded: usize,
    /// Length of the phase with faults.
    pub faults_us: u64,
    /// How far the timers of nodes are from ten ticks a second: a leader whose timer is slow notices late that it is alone.
    pub tick_skew_percent: u64,
    pub snapshot_log_bytes: u64,
    pub window_entries: u64,
    /// How often leaders have replicas compared; 0 means never.
    pub compare_every_ms: u64,
    /// Wall clocks of nodes stay within this of the truth.
    pub skew_ms: u64,
    /// Threads of a node that own groups and share its log.
    pub lanes: usize,
    /// Above this much log the group with its oldest entries is asked for a snapshot.
    pub log_bytes_soft: u64,
    /// Whether nodes notice that another one is dead before their timers do, and that their own disk has stalled.
    pub is_watched: bool,
    /// Whether snapshots from peers come piece by piece, beside the log.
    pub stages_snapshots: bool,
    /// Whether nodes speak over links that keep order, and clients may ask any of them.
    pub has_links: bool,
    /// What may wait on a link, if it is less than in the server.
    pub outbox_bytes: Option<usize>,
    /// A planted bug of what stands around replicas.
    pub planted: Option<Planted>,
    /// What nodes make of their wall clocks.
    pub believes: Believes,
    pub net: NetPlan,
    pub disk: DiskPlan,
    pub nemesis: NemesisPlan<F>,
}

/// Bugs of whoever stands around replicas, planted one at a time. Tenants carry them in their own lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The log is cut before its snapshot is on disk.
    CutsLogEarly,
    /// A lane that is asked for a snapshot of another lane's group keeps that to itself.
    QuietLane,
    /// A machine that has lost its disk goes on as the replicas that it was.
    SameNumberAgain,
    /// What is to be parted off begins as soon as a node's map has its number.
    BornBeforeApplied,
    /// One of the storage's own.
    Store(shardine_store::Mutant),
}

impl Planted {
    #[must_use]
    pub fn of_store(self) -> Option<shardine_store::Mutant> {
        match self {
            Self::Store(mutant) => Some(mutant),
            Self::CutsLogEarly | Self::QuietLane | Self::SameNumberAgain | Self::BornBeforeApplied => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct NetPlan {
    pub delay: Span,
    pub loss_per_mille: u32,
    pub copy_per_mille: u32,
    /// Messages that take the long way and are overtaken.
    pub detour_per_mille: u32,
    pub detour: Span,
    /// Requests and answers between clients and nodes that are lost.
    pub client_loss_per_mille: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct DiskPlan {
    pub sync: Span,
    pub snapshot: Span,
    /// What a slow disk adds while it is slow.
    pub stall: Span,
}

#[derive(Clone, Debug)]
pub struct NemesisPlan<F> {
    pub every: Span,
    pub kinds: Vec<Fault<F>>,
    /// How often the victim is a leader.
    pub leader_percent: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<F> {
    Crash,
    CrashAll,
    /// The process dies while a write is on its way to disk.
    CrashMidWrite,
    /// Whichever node installs a snapshot next dies meanwhile.
    CrashMidInstall,
    /// Whichever node ends a snapshot of its own next dies in that last step.
    CrashMidCut,
    Pause,
    /// The process stops right after it has asked the others for a read whether it still leads, or has taken a request.
    PauseMidRead,
    /// At the same moment the node loses touch: it is not heard, what is sent to it comes late, and so do its timers.
    StarveMidRead,
    /// Cut off from the others, both ways.
    Isolate,
    /// Hears the others and is not heard, or the other way round.
    Deafen,
    CutOneLink,
    Clog,
    /// Down for so long that the others cut their logs meanwhile.
    LongAbsence,
    SlowDisk,
    /// The disk stands still, and what is sent to the node is lost or held back, just long enough for the others to go on without it: what
    /// brings it up again comes while its own earlier writes wait.
    FallBehind,
    JumpClock,
    /// Everything that is led there is to be led elsewhere.
    HandOver,
    /// The same, but nobody hears of it for so long that it is given up.
    HandOverInVain,
    /// The same, and then the process ends.
    Terminate,
    /// Others take the node for dead, for a while.
    Suspect,
    /// Links of the node break, with some of what was sent on its way.
    BreakLinks,
    /// The process dies, and the disk is gone with it. The machine joins again as another node.
    LoseDisk,
    /// A node is to be emptied, for a while.
    Drain,
    /// An operator wants a replica to be elsewhere.
    Move,
    /// An operator gives up what is under way.
    TakeBack,
    /// The map's group has no quorum: nothing is planned, heard or told.
    CouncilAway,
    /// A node hears nothing of new maps for a while.
    OldMap,
    /// Of the tenant's own.
    Own(F),
}

impl<F: Own> Fault<F> {
    fn all() -> impl Iterator<Item = Self> {
        let common = [
            Self::Crash,
            Self::CrashAll,
            Self::CrashMidWrite,
            Self::CrashMidInstall,
            Self::CrashMidCut,
            Self::Pause,
            Self::PauseMidRead,
            Self::StarveMidRead,
            Self::Isolate,
            Self::Deafen,
            Self::CutOneLink,
            Self::Clog,
            Self::LongAbsence,
            Self::SlowDisk,
            Self::FallBehind,
            Self::JumpClock,
            Self::HandOver,
            Self::HandOverInVain,
            Self::Terminate,
            Self::Suspect,
        ];
        common.into_iter().chain(F::ALL.iter().map(|own| Self::Own(*own)))
    }

    /// What strikes only where the members of groups change.
    pub const OF_MEMBERS: [Self; 6] =
        [Self::LoseDisk, Self::Drain, Self::Move, Self::TakeBack, Self::CouncilAway, Self::OldMap];

    /// For the trace.
    #[must_use]
    pub fn number(&self) -> u64 {
        Self::all()
            .chain(Self::OF_MEMBERS)
            .chain([Self::BreakLinks])
            .position(|fault| fault == *self)
            .map_or(u64::MAX, |place| place as u64)
    }
}

impl<F: Own> Ground<F> {
    /// In some runs nodes have links.
    #[must_use]
    pub fn with_links(mut self, theme: Option<Theme>, chance: &mut Chance) -> Self {
        let is_more = theme == Some(Theme::Splits) && chance.percent(40);
        if self.machines > 1 && (chance.percent(35) || is_more) {
            self.has_links = true;
            self.outbox_bytes = chance.pick(&[None, None, Some(600), Some(4_000)]);
            if chance.percent(70) {
                self.nemesis.kinds.extend((0..=chance.below(3)).map(|_| Fault::BreakLinks));
            }
        }
        self
    }

    /// Now and then the members of groups change in a run that is about something else, or about nothing.
    #[must_use]
    pub fn with_council(mut self, chance: &mut Chance) -> Self {
        self.machines = self.machines.max(self.voters as usize);
        if !self.has_council && chance.percent(8) {
            (self.has_council, self.machines) = (true, self.machines.max(3) + chance.index(2));
            self.nemesis.kinds.extend(Fault::OF_MEMBERS.into_iter().filter(|_| chance.percent(60)));
        }
        self.comparing(chance)
    }

    /// In some runs replicas move for the sake of balance. Not where a bug is planted: what strikes it there is moves that are ordered.
    #[must_use]
    pub fn balancing(mut self, is_sound: bool, chance: &mut Chance) -> Self {
        self.balances = is_sound && self.has_council && chance.percent(70);
        self
    }

    /// In half of the runs leaders have the replicas of their groups compared.
    #[must_use]
    pub fn comparing(mut self, chance: &mut Chance) -> Self {
        self.compare_every_ms = chance.pick(&[0, 0, 500, 3_000]);
        self
    }
}

impl NetPlan {
    pub fn draw(chance: &mut Chance) -> Self {
        let noisy = chance.percent(50);
        let rate =
            |chance: &mut Chance, max: u64| if noisy && chance.percent(70) { chance.below(max) as u32 } else { 0 };
        Self {
            delay: chance.pick(&[(100, 400), (200, 3 * MS), (MS, 20 * MS)]),
            loss_per_mille: rate(chance, 100),
            copy_per_mille: rate(chance, 100),
            detour_per_mille: rate(chance, 80),
            detour: (20 * MS, chance.pick(&[100, 400, 2_500]) * MS),
            client_loss_per_mille: rate(chance, 30),
        }
    }
}

impl DiskPlan {
    pub fn draw(chance: &mut Chance) -> Self {
        Self {
            sync: chance.pick(&[(50, 300), (500, 4 * MS), (2 * MS, 30 * MS)]),
            snapshot: chance.pick(&[(MS, 20 * MS), (50 * MS, 800 * MS)]),
            stall: (20 * MS, 700 * MS),
        }
    }
}

impl<F: Own> NemesisPlan<F> {
    pub fn draw(chance: &mut Chance) -> Self {
        // Sometimes a few kinds again and again, sometimes many together.
        let on_percent = chance.pick(&[12, 45]);
        let mut kinds: Vec<Fault<F>> = Fault::all().filter(|_| chance.percent(on_percent)).collect();
        if kinds.is_empty() {
            let all: Vec<Fault<F>> = Fault::all().collect();
            kinds.push(chance.pick(&all));
        }
        Self {
            every: chance.pick(&[(100 * MS, 900 * MS), (500 * MS, 3 * SECOND), (2 * SECOND, 6 * SECOND)]),
            kinds,
            leader_percent: chance.pick(&[30, 60, 90]),
        }
    }
}
