//! `DUMP` and `RESTORE`: a record of `kv` as bytes, in a form of our own: a mark, the packed fields, and the first bytes of their sum.

use shardine_model::Timestamp;
use shardine_model::command::{Action, Command, Ttl};
use shardine_model::row::{check_packed, packed};
use shardine_router::LocalEngine;

use super::{Outcome, Scene};
use crate::book::digest;
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX};
use crate::value::{integer, is};
use crate::wire;

/// Not the beginning of anything that Redis dumps. Frozen.
const MARK: &[u8] = b"\xffSD1";
const SUM_BYTES: usize = 8;
const WRONG: Failure = Failure::of_redis("ERR DUMP payload version or checksum are wrong");

pub(super) fn dump<H: LocalEngine>(scene: &mut Scene<'_, H>) -> Outcome {
    let place = scene.place(1)?;
    check_table(&place)?;
    let (taken, protocol) = (scene.take(&place)?, scene.connection.protocol);
    scene.reply(|out| match taken {
        None => wire::null(out, protocol),
        Some(taken) => {
            let mut bytes = MARK.to_vec();
            taken.fields.view().pack(&mut bytes);
            let sum = digest(&bytes);
            bytes.extend_from_slice(&sum[..SUM_BYTES]);
            wire::bulk(out, &bytes);
        }
    })
}

pub(super) fn restore<H: LocalEngine>(scene: &mut Scene<'_, H>) -> Outcome {
    let (mut replaces, mut is_moment, mut words) = (false, false, scene.line.words(4));
    while let Some(word) = words.next() {
        if is(word, "REPLACE") {
            replaces = true;
        } else if is(word, "ABSTTL") {
            is_moment = true;
        } else if (is(word, "IDLETIME") || is(word, "FREQ"))
            && let Some(number) = words.next()
        {
            // What Redis would evict by means nothing here.
            integer(number).ok_or(NOT_AN_INTEGER)?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    let place = scene.place(1)?;
    check_table(&place)?;
    if !replaces && scene.take(&place)?.is_some() {
        return Err(Failure::line("BUSYKEY Target key name already exists.").into());
    }
    let time = integer(scene.line.word(2)).ok_or(NOT_AN_INTEGER)?;
    let time = u64::try_from(time).map_err(|_| Failure::line("ERR Invalid TTL value, must be >= 0"))?;
    let fields = fields_of(scene.line.word(3)).ok_or(WRONG)?;
    let ttl = match time {
        0 => Ttl::Clear,
        at if is_moment => Ttl::At(Timestamp(at)),
        ms => Ttl::After(ms),
    };
    let command = Command { ttl, ..Command::plain(place.row(), Action::Replace(packed(fields).collect())) };
    scene.change(vec![command], wire::ok)
}

/// The packed fields of a dump, if it is whole and of a record that can be.
fn fields_of(dump: &[u8]) -> Option<&[u8]> {
    let (bytes, sum) = dump.split_at_checked(dump.len().checked_sub(SUM_BYTES)?)?;
    let fields = bytes.strip_prefix(MARK)?;
    let fits = digest(bytes)[..SUM_BYTES] == *sum && !fields.is_empty() && check_packed(fields).is_ok();
    fits.then_some(fields)
}

/// The fields of other tables are known by numbers that mean something in them alone.
fn check_table(place: &crate::address::ResolvedKey<'_>) -> Result<(), Failure> {
    match place.typed() {
        None => Ok(()),
        Some(_) => Err(Failure::unsupported("only keys of kv are dumped and restored")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_is_no_dump() {
        let mut bytes = MARK.to_vec();
        bytes.extend_from_slice(&[1, 2, 3]);
        for dump in [&b""[..], b"short", MARK, &bytes, b"\x00\x05hello\x0a\x00"] {
            assert_eq!(fields_of(dump), None);
        }
    }
}
