//! Semaphores for people and machines.

use serde_json::{Value as Json, json};
use shardine_client::{Claim, Semaphore};
use shardine_proto::v1;

use crate::{show, value};

pub fn text(semaphore: &Semaphore) -> String {
    let mut text = line(semaphore);
    for (title, claims) in [("owners", &semaphore.owners), ("waiters", &semaphore.waiters)] {
        if claims.is_empty() {
            text.push_str(&format!("\n\nno {title}"));
            continue;
        }
        let rows = claims.iter().map(|claim| {
            [
                claim.order_id.to_string(),
                claim.session_id.to_string(),
                tokens(claim.count),
                value::bytes_text(&claim.data),
            ]
        });
        text.push_str(&format!("\n\n{title}\n"));
        text.push_str(&show::table(["ORDER", "SESSION", "TOKENS", "DATA"], rows.collect()));
    }
    text
}

/// The semaphore without its owners' details.
pub fn line(semaphore: &Semaphore) -> String {
    let kind = if semaphore.ephemeral { "   ephemeral" } else { "" };
    let owners: Vec<String> = semaphore.owners.iter().map(|owner| owner.session_id.to_string()).collect();
    let owners = if owners.is_empty() { "nobody".to_owned() } else { format!("session {}", owners.join(", ")) };
    format!(
        "{}   {} of {} tokens held by {owners}{kind}   data: {}",
        semaphore.name,
        tokens(semaphore.count),
        tokens(semaphore.limit),
        value::bytes_text(&semaphore.data)
    )
}

/// The highest number means all there can be.
fn tokens(count: u64) -> String {
    if count == u64::MAX { "all".to_owned() } else { count.to_string() }
}

pub fn json(semaphore: &Semaphore) -> Json {
    json!({
        "name": semaphore.name,
        "data": value::bytes_text(&semaphore.data),
        "limit": value::unsigned(semaphore.limit),
        "count": value::unsigned(semaphore.count),
        "ephemeral": semaphore.ephemeral,
        "owners": semaphore.owners.iter().map(claim).collect::<Vec<_>>(),
        "waiters": semaphore.waiters.iter().map(claim).collect::<Vec<_>>(),
    })
}

pub fn list_text(semaphores: &[v1::CoordSemaphore]) -> String {
    let rows = semaphores.iter().map(|semaphore| {
        [
            semaphore.name.clone(),
            format!("{}/{}", tokens(semaphore.count), tokens(semaphore.limit)),
            semaphore.owners.to_string(),
            semaphore.waiters.to_string(),
            if semaphore.ephemeral { "ephemeral" } else { "" }.to_owned(),
            value::bytes_text(&semaphore.data),
        ]
    });
    show::table(["NAME", "TOKENS", "OWNERS", "WAITERS", "KIND", "DATA"], rows.collect())
}

pub fn list_json(semaphores: &[v1::CoordSemaphore]) -> Json {
    let each = semaphores.iter().map(|semaphore| {
        json!({
            "name": semaphore.name,
            "data": value::bytes_text(&semaphore.data),
            "limit": value::unsigned(semaphore.limit),
            "count": value::unsigned(semaphore.count),
            "ephemeral": semaphore.ephemeral,
            "owners": value::unsigned(semaphore.owners),
            "waiters": value::unsigned(semaphore.waiters),
        })
    });
    json!({ "semaphores": each.collect::<Vec<_>>() })
}

fn claim(claim: &Claim) -> Json {
    json!({
        "order_id": value::unsigned(claim.order_id),
        "session_id": value::unsigned(claim.session_id),
        "count": value::unsigned(claim.count),
        "data": value::bytes_text(&claim.data),
    })
}
