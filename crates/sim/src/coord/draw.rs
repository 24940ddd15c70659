//! What a client does next.

use shardine_coord::{Ask, FOREVER_MS};

use crate::coord::Coordination;
use crate::coord::names::NAMES;
use crate::world::World;

#[derive(Clone, Copy)]
enum Kind {
    Acquire,
    Release,
    Describe,
    Watch,
    Update,
    Create,
    Delete,
    Stop,
    Vanish,
}

pub fn draw(world: &mut World<Coordination>, number: usize) {
    let kind = draw_kind(world, number);
    let name = draw_name(world, number, kind);
    world.tenant.next_value += 1;
    let data = world.tenant.next_value.to_le_bytes().to_vec();
    let client = &mut world.tenant.clients[number];
    let (req, text) = (client.next_req(), NAMES[name].text.to_owned());
    let ask = match kind {
        Kind::Acquire => {
            let timeout_ms = match client.chance.below(10) {
                0..=2 => 0,
                3..=6 => client.chance.between((100, 3_000)),
                _ => FOREVER_MS,
            };
            let count = draw_count(world, number, name);
            // Mostly the same, so that an acquire that is repeated changes nothing.
            let data = if world.tenant.clients[number].chance.percent(70) { b"mine".to_vec() } else { data };
            Ask::Acquire { req, name: text, timeout_ms, count, data, ephemeral: NAMES[name].ephemeral }
        }
        Kind::Release => Ask::Release { req, name: text },
        Kind::Describe | Kind::Watch => return world.describe(number, name, matches!(kind, Kind::Watch)),
        Kind::Update => Ask::Update { req, name: text, data },
        Kind::Create => Ask::Create { req, name: text, limit: NAMES[name].limit, data },
        Kind::Delete => {
            let force = NAMES[name].is_scrap && client.chance.percent(70);
            Ask::Delete { req, name: text, force }
        }
        Kind::Stop => return world.leave(number, true),
        Kind::Vanish => return world.leave(number, false),
    };
    world.ask(number, req, name, ask);
}

fn draw_count(world: &mut World<Coordination>, number: usize, name: usize) -> u64 {
    let chance = &mut world.tenant.clients[number].chance;
    match NAMES[name] {
        found if found.ephemeral => chance.pick(&[1, found.limit]),
        found => 1 + chance.below(found.limit),
    }
}

fn draw_kind(world: &mut World<Coordination>, number: usize) -> Kind {
    if world.tenant.clients[number].only_looks {
        return world.tenant.clients[number].chance.pick(&[Kind::Describe, Kind::Describe, Kind::Watch]);
    }
    let requests = world.tenant.plan.requests;
    let weights = [
        (Kind::Acquire, requests.acquire * 3),
        (Kind::Release, requests.release * 3),
        (Kind::Describe, requests.describe * 3),
        (Kind::Watch, requests.watch * 3),
        (Kind::Update, requests.update * 3),
        (Kind::Create, requests.create * 2),
        (Kind::Delete, requests.delete * 2),
        // Sessions that end all the time hold nothing for long.
        (Kind::Stop, requests.stop),
        (Kind::Vanish, requests.vanish),
    ];
    let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
    let mut left = world.tenant.clients[number].chance.below(u64::from(total)) as u32;
    for (kind, weight) in weights {
        if left < weight {
            return kind;
        }
        left -= weight;
    }
    unreachable!("the draw lies below the sum of the weights")
}

fn draw_name(world: &mut World<Coordination>, number: usize, kind: Kind) -> usize {
    let hot_percent = world.tenant.plan.hot_percent;
    let chance = &mut world.tenant.clients[number].chance;
    let name = if chance.percent(hot_percent) { 0 } else { chance.index(NAMES.len()) };
    // One that goes with its last owner is neither created nor deleted.
    let must_last = matches!(kind, Kind::Create | Kind::Delete) && NAMES[name].ephemeral;
    if must_last { 0 } else { name }
}
