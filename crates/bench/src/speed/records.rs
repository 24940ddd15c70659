//! The records that every row works on: three small fields, under the keys that redis-benchmark makes of `__rand_int__`.

use anyhow::{Result, bail};
use shardine_testkit::{Client, Reply};

/// Commands in flight while loading. Below every server's limit on pipelining.
const WINDOW: u64 = 512;

/// How many records are looked at to see that all are there: enough to meet every shard.
const SAMPLES: u64 = 64;

const CITIES: [&str; 8] = ["london", "paris", "lima", "oslo", "tokyo", "accra", "quito", "perth"];

/// What the keys of most rows begin with.
const PREFIX: &str = "user:";

/// The key as redis-benchmark writes it: twelve digits.
fn key(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:012}")
}

/// The fields of a record, in the order name, age, city.
fn fields(number: u64) -> [String; 3] {
    let city = CITIES[number as usize % CITIES.len()];
    [format!("bob{number}"), (number % 90).to_string(), city.to_owned()]
}

/// Writes records `0..count`, none of which may exist.
pub fn load(client: &mut Client, count: u64) -> Result<()> {
    load_under(PREFIX, client, count)
}

/// The same under keys that begin otherwise.
pub fn load_under(prefix: &str, client: &mut Client, count: u64) -> Result<()> {
    let mut answered = 0;
    for number in 0..count {
        let [name, age, city] = fields(number);
        client.send(&["HSET", &key(prefix, number), "name", &name, "age", &age, "city", &city])?;
        if number - answered >= WINDOW {
            answered = expect(3, client, answered, number)?;
        }
    }
    expect(3, client, answered, count)?;
    Ok(())
}

/// Deletes records `0..count`, all of which must exist.
pub fn remove(client: &mut Client, count: u64) -> Result<()> {
    let mut answered = 0;
    for number in 0..count {
        client.send(&["DEL", &key(PREFIX, number)])?;
        if number - answered >= WINDOW {
            answered = expect(1, client, answered, number)?;
        }
    }
    expect(1, client, answered, count)?;
    Ok(())
}

/// Reads the replies of the commands `from..to`, all of which must be this number, and returns `to`.
fn expect(reply: i64, client: &mut Client, from: u64, to: u64) -> Result<u64> {
    for number in from..to {
        match client.receive()? {
            Reply::Int(given) if given == reply => {}
            other => bail!("{} was answered with {other:?}", key(PREFIX, number)),
        }
    }
    Ok(to)
}

/// Says whether a sample of the records `0..count`, the first and the last among them, is there as loaded. An error reply
/// counts as "not yet": a server that is loading answers so.
pub fn are_loaded(client: &mut Client, count: u64) -> Result<bool> {
    let step = ((count - 1) / SAMPLES.min(count)).max(1);
    let numbers: Vec<u64> = (0..count).step_by(usize::try_from(step)?).chain([count - 1]).collect();
    for number in &numbers {
        client.send(&["HGET", &key(PREFIX, *number), "city"])?;
    }
    let mut all_there = true;
    for number in &numbers {
        // Every reply is read, also after a wrong one: the connection is used again.
        all_there &= client.receive()? == Reply::bulk(&fields(*number)[2]);
    }
    Ok(all_there)
}
