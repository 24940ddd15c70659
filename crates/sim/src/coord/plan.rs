//! What one run of coordination is made of, besides its ground. Kinds of requests are on in one run and off in the next.

use shardine_coord::{Config, Consistency, Mutant};

use crate::chance::Chance;
use crate::clock::Believes;
use crate::coord::faults::Fault;
use crate::ground::{DiskPlan, Ground, LOG_BYTES_SOFT, MS, NemesisPlan, NetPlan, Planted, SECOND, Span};
use crate::theme::Theme;

#[derive(Clone, Debug)]
pub struct Plan {
    pub mutant: Option<Mutant>,
    pub clients: usize,
    /// A client's pause between two requests.
    pub think: Span,
    /// How often a client tries another node than the one that it thinks to lead.
    pub stray_percent: u32,
    /// How often the first semaphore is taken, so that clients meet on it.
    pub hot_percent: u32,
    pub config: Config,
    /// Sessions live so long without a stream.
    pub timeouts_ms: Vec<u64>,
    pub requests: Requests,
}

/// How often each kind of request is drawn; 0 leaves it out.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    pub acquire: u32,
    pub release: u32,
    pub describe: u32,
    pub watch: u32,
    pub update: u32,
    pub create: u32,
    pub delete: u32,
    pub stop: u32,
    /// Leaves without a word, and comes back.
    pub vanish: u32,
}

/// Draws everything. A seed stays the run that it was as long as the order of draws does.
#[must_use]
pub fn draw(seed: u64, mutant: Option<Mutant>, theme: Option<Theme>) -> (Ground<Fault>, Plan) {
    let mut chance = Chance::new(seed ^ 0xc00d_0000);
    let chance = &mut chance;
    // Groups are one here, and what is proposed is always answered: the other themes have nothing to show.
    let drawn = Theme::draw(chance).filter(|theme| *theme == Theme::Lagging);
    let theme = theme.or(drawn);
    let voters = if chance.percent(10) { 1 } else { 3 };
    let ground = Ground {
        seed,
        voters,
        machines: voters as usize,
        has_council: false,
        balances: false,
        groups: 1,
        founded: 1,
        faults_us: chance.between((12, 24)) * SECOND,
        tick_skew_percent: chance.pick(&[2, 10, 45]),
        // Small, so that snapshots, truncation and installs happen in every second run.
        snapshot_log_bytes: chance.pick(&[1_500, 4_000, 12_000, 1 << 20]),
        window_entries: chance.pick(&[2, 10, 40, 1_000]),
        compare_every_ms: 0,
        skew_ms: chance.pick(&[5, 200, 3_000]),
        lanes: 1,
        log_bytes_soft: chance.pick(&LOG_BYTES_SOFT),
        is_watched: chance.percent(60),
        stages_snapshots: chance.percent(50),
        has_links: false,
        outbox_bytes: None,
        planted: mutant.and_then(planted),
        believes: Believes::Sound,
        net: NetPlan::draw(chance),
        disk: DiskPlan::draw(chance),
        nemesis: NemesisPlan::draw(chance),
    }
    .about(theme, chance)
    .comparing(&mut Chance::new(seed ^ 0x5_0113));
    let plan = Plan {
        mutant,
        clients: 3 + chance.index(5),
        think: chance.pick(&[(0, 20 * MS), (10 * MS, 100 * MS), (50 * MS, 400 * MS)]),
        stray_percent: chance.pick(&[3, 15, 40]),
        hot_percent: chance.pick(&[0, 60]),
        config: config(chance),
        timeouts_ms: chance.pick(&[&[300, 1_000][..], &[1_000, 3_000], &[2_000, 6_000], &[0, 500, 4_000]]).to_vec(),
        requests: requests(chance),
    };
    (ground, plan)
}

fn config(chance: &mut Chance) -> Config {
    let either = |chance: &mut Chance| chance.pick(&[Consistency::Strict, Consistency::Relaxed]);
    Config {
        self_check_period_ms: chance.pick(&[500, 1_000]) as u32,
        // As short as it may be: what a leader does without proof is found out sooner.
        session_grace_period_ms: chance.pick(&[1, 2_500, 4_000]) as u32,
        read_consistency: either(chance),
        attach_consistency: either(chance),
        ..Config::default()
    }
}

fn requests(chance: &mut Chance) -> Requests {
    let weight = |chance: &mut Chance, on_percent: u32, max: u64| {
        if chance.percent(on_percent) { 1 + chance.below(max) as u32 } else { 0 }
    };
    Requests {
        acquire: 4 + weight(chance, 90, 12),
        release: 2 + weight(chance, 90, 10),
        describe: weight(chance, 80, 10),
        watch: weight(chance, 70, 6),
        update: weight(chance, 60, 6),
        create: 1,
        delete: weight(chance, 40, 2),
        stop: weight(chance, 40, 2),
        vanish: weight(chance, 50, 2),
    }
}

/// Bugs of the list that are planted around replicas.
fn planted(mutant: Mutant) -> Option<Planted> {
    (mutant == Mutant::TruncateBeforeSnapshot).then_some(Planted::CutsLogEarly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_plan() {
        let plan = |seed| format!("{:?}", draw(seed, None, None));

        assert_eq!(plan(11), plan(11));
        assert_ne!(plan(11), plan(12));
    }
}
