//! What a client does next.

use crate::clock::wall_ms;
use crate::records::ask::{Ask, Expiry, Job};
use crate::records::clients::Client;
use crate::records::plan::{Operations, Plan};
use crate::records::universe::Universe;

#[derive(Clone, Copy)]
enum Kind {
    Get,
    Set,
    SetIf,
    Insert,
    Incr,
    Cas,
    Delete,
    Expire,
    Pair,
    Kick,
    Flush,
    Stale,
}

pub fn draw(client: &mut Client, plan: &Plan, universe: &Universe, now: u64, next_value: &mut i64) -> Job {
    *next_value += 1;
    let value = *next_value;
    let kind = if client.only_reads { Kind::Get } else { draw_kind(client, &plan.operations) };
    let row = draw_row(client, plan, universe, kind);
    let (version, old) = client.known[row];
    let ms = client.chance.between((50, 2_500));
    let soon = if value % 4 == 0 { Expiry::At(wall_ms(now) + ms) } else { Expiry::After(ms) };
    let ask = match kind {
        Kind::Get => Ask::Get,
        Kind::Set => Ask::Set { value, expires: None },
        Kind::SetIf => Ask::SetIf { value, version },
        Kind::Insert => Ask::Insert { value },
        Kind::Incr => Ask::Incr { value },
        Kind::Cas if old != 0 => Ask::Cas { old, value },
        Kind::Cas => Ask::Get,
        Kind::Delete => Ask::Delete,
        Kind::Expire if client.chance.percent(50) => Ask::Set { value, expires: Some(soon) },
        Kind::Expire => Ask::Touch { expires: soon },
        Kind::Kick => return Job::Kick { row, nowait: client.chance.percent(30) },
        Kind::Stale => return Job::Stale { row, max_age_ms: client.chance.pick(&[20, 300, 3_000]) },
        Kind::Flush => return Job::Flush { row, whole_shard: client.chance.percent(30) },
        Kind::Pair => return pair(client, universe, row, value),
    };
    Job::One { row, ask }
}

/// Both halves get one value; a compare-and-set on the second half undoes the first if it does not fit.
fn pair(client: &mut Client, universe: &Universe, row: usize, value: i64) -> Job {
    let partner = universe.rows[row].partner.expect("pairs are drawn among rows that have a partner");
    let old = client.known[partner].1;
    let set = Ask::Set { value, expires: None };
    let asks = match client.chance.below(5) {
        0 | 1 => [Ask::Get, Ask::Get],
        2 if old != 0 => [set, Ask::Cas { old, value }],
        3 => [Ask::Incr { value }, Ask::Incr { value }],
        _ => [set, set],
    };
    Job::Pair { rows: [row, partner], asks }
}

fn draw_kind(client: &mut Client, operations: &Operations) -> Kind {
    let weights = [
        (Kind::Get, operations.get),
        (Kind::Set, operations.set),
        (Kind::SetIf, operations.set_if),
        (Kind::Insert, operations.insert),
        (Kind::Incr, operations.incr),
        (Kind::Cas, operations.cas),
        (Kind::Delete, operations.delete),
        (Kind::Expire, operations.expire),
        (Kind::Pair, operations.pair),
        (Kind::Kick, operations.kick),
        (Kind::Flush, operations.flush),
        (Kind::Stale, operations.stale),
    ];
    let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
    let mut left = client.chance.below(u64::from(total)) as u32;
    for (kind, weight) in weights {
        if left < weight {
            return kind;
        }
        left -= weight;
    }
    unreachable!("the draw lies below the sum of the weights")
}

fn draw_row(client: &mut Client, plan: &Plan, universe: &Universe, kind: Kind) -> usize {
    let from_sql = client.chance.percent(plan.operations.sql_percent);
    let fits = |number: &usize| {
        let row = &universe.rows[*number];
        match kind {
            Kind::Kick | Kind::Flush => row.is_sql(),
            Kind::Expire => row.expires && row.is_sql() == from_sql,
            Kind::Pair => row.partner.is_some() && row.is_sql() == from_sql,
            Kind::Get | Kind::Stale => row.is_sql() == from_sql,
            Kind::Set | Kind::SetIf | Kind::Insert | Kind::Incr | Kind::Cas | Kind::Delete => {
                row.partner.is_none() && row.is_sql() == from_sql
            }
        }
    };
    let mut rows: Vec<usize> = (0..universe.rows.len()).filter(fits).collect();
    let is_quiet = |number: &usize| plan.quiet_shard == Some(universe.rows[*number].home);
    if !rows.iter().all(is_quiet) {
        rows.retain(|number| !is_quiet(number));
    }
    if client.chance.percent(plan.hot_percent) { rows[0] } else { client.chance.pick(&rows) }
}
