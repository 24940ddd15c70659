//! Requests with an `Idempotency-Key`: the first one writes down which id it gives, and every other one of the key gives the same.
//! What a request then writes is written under that id, so that twice is once.

use shardine_client::records::{Change, ErrorCode, Record, Row, Value};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::Error;
use crate::id::Stamp;
use crate::tables::REQUESTS;
use crate::{Dialogs, limits};

/// The stamp of a new chat or message, or that of the same request before.
pub(crate) async fn stamp(dialogs: &Dialogs, kind: &str, key: Option<&str>, what: &str) -> Result<Stamp, Error> {
    let stamp = dialogs.new_stamp();
    let Some(key) = key else { return Ok(stamp) };
    if key.is_empty() || key.len() > limits::ONCE_KEY_MAX {
        return Err(Error::Bad(format!("an Idempotency-Key has 1 to {} characters", limits::ONCE_KEY_MAX)));
    }
    let (row, what) = (Row::new(REQUESTS, format!("{kind}:{key}")), format!("{:032x}", xxh3_128(what.as_bytes())));
    let fields: [(&str, Value); 3] =
        [("what", what.as_str().into()), ("id", stamp.id.as_str().into()), ("ts", stamp.ts.into())];
    let insert = Change::insert(row.clone(), fields).expiring_in(limits::ONCE_TIME);
    match dialogs.records.change(insert).await {
        Ok(_) => Ok(stamp),
        Err(error) if error.code() == Some(ErrorCode::Exists) => match dialogs.records.get(&row).await? {
            Some(before) => earlier(&before, &what),
            // It has expired between the two.
            None => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

fn earlier(before: &Record, what: &str) -> Result<Stamp, Error> {
    if before.get::<&str>("what") != Some(what) {
        return Err(Error::KeyReused);
    }
    let id = before.get::<&str>("id").and_then(|id| id.parse().ok());
    let stamp = id.zip(before.get("ts")).map(|(id, ts)| Stamp { ts, id });
    stamp.ok_or_else(|| Error::Foreign(format!("a row of {REQUESTS} has no id: {before:?}")))
}
