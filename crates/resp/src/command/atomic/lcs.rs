//! `LCS`: what two strings have in common, in order.

use shardine_model::ErrorCode;
use shardine_router::LocalEngine;

use super::{Halt, Outcome, Scene};
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX};
use crate::value::{integer, is};
use crate::wire::{self, Protocol};

/// Pairs of bytes that are compared at most: each takes four bytes of memory for the time of the command.
const PAIRS_MAX: usize = 16 << 20;

#[derive(Default)]
struct Wanted {
    length: bool,
    places: bool,
    with_lengths: bool,
    least: usize,
}

/// A run that both have: first and last place in the one and in the other.
type Run = ((usize, usize), (usize, usize));

pub(super) fn lcs<H: LocalEngine>(scene: &mut Scene<'_, H>) -> Outcome {
    let (one, other) = (scene.place(1)?, scene.place(2)?);
    let strings = (text(scene.string(&one))?, text(scene.string(&other))?);
    let wanted = parse(scene)?;
    let (one, other) = (strings.0.unwrap_or_default(), strings.1.unwrap_or_default());
    if (one.len() + 1).saturating_mul(other.len() + 1) > PAIRS_MAX {
        let sentence = format!("LCS compares at most {PAIRS_MAX} pairs of bytes");
        return Err(Failure::new(ErrorCode::TooLarge, sentence).into());
    }
    let (common, runs) = compare(&one, &other);
    let protocol = scene.connection.protocol;
    scene.reply(|out| match (wanted.length, wanted.places) {
        (true, _) => wire::integer(out, common.len() as i64),
        (_, true) => write_runs(&wanted, &runs, common.len(), protocol, out),
        _ => wire::bulk(out, &common),
    })
}

/// Redis has words of its own for what is no string here.
fn text(found: Result<Option<Vec<u8>>, Halt>) -> Result<Option<Vec<u8>>, Halt> {
    found.map_err(|halt| match halt {
        Halt::Failed(_) => Failure::line("ERR The specified keys must contain string values").into(),
        Halt::Missing => Halt::Missing,
    })
}

fn parse<H: LocalEngine>(scene: &Scene<'_, H>) -> Result<Wanted, Halt> {
    let mut wanted = Wanted::default();
    let mut words = scene.line.words(3);
    while let Some(word) = words.next() {
        if is(word, "LEN") {
            wanted.length = true;
        } else if is(word, "IDX") {
            wanted.places = true;
        } else if is(word, "WITHMATCHLEN") {
            wanted.with_lengths = true;
        } else if is(word, "MINMATCHLEN")
            && let Some(number) = words.next()
        {
            wanted.least = integer(number).ok_or(NOT_AN_INTEGER)?.max(0) as usize;
        } else {
            return Err(SYNTAX.into());
        }
    }
    if wanted.length && wanted.places {
        let line = "ERR If you want both the length and indexes, please just use IDX.";
        return Err(Failure::line(line).into());
    }
    Ok(wanted)
}

/// The common text, and the runs that it is made of, the last one first.
fn compare(one: &[u8], other: &[u8]) -> (Vec<u8>, Vec<Run>) {
    let width = other.len() + 1;
    let mut lengths = vec![0u32; (one.len() + 1) * width];
    for row in 1..=one.len() {
        for column in 1..=other.len() {
            lengths[row * width + column] = if one[row - 1] == other[column - 1] {
                lengths[(row - 1) * width + column - 1] + 1
            } else {
                lengths[(row - 1) * width + column].max(lengths[row * width + column - 1])
            };
        }
    }
    let (mut common, mut runs, mut open): (_, Vec<Run>, Option<Run>) = (Vec::new(), Vec::new(), None);
    let (mut row, mut column) = (one.len(), other.len());
    while row > 0 && column > 0 {
        if one[row - 1] == other[column - 1] {
            common.push(one[row - 1]);
            open = Some(match open {
                Some(((first, last), (begin, end))) if first == row && begin == column => {
                    ((first - 1, last), (begin - 1, end))
                }
                open => {
                    runs.extend(open);
                    ((row - 1, row - 1), (column - 1, column - 1))
                }
            });
            (row, column) = (row - 1, column - 1);
        } else if lengths[(row - 1) * width + column] > lengths[row * width + column - 1] {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    runs.extend(open);
    common.reverse();
    (common, runs)
}

fn write_runs(wanted: &Wanted, runs: &[Run], length: usize, protocol: Protocol, out: &mut Vec<u8>) {
    let of = |run: &Run| run.0.1 - run.0.0 + 1;
    let told: Vec<&Run> = runs.iter().filter(|run| of(run) >= wanted.least).collect();
    wire::map(out, 2, protocol);
    wire::bulk(out, b"matches");
    wire::array(out, told.len());
    for run in told {
        wire::array(out, if wanted.with_lengths { 3 } else { 2 });
        for (first, last) in [run.0, run.1] {
            wire::array(out, 2);
            wire::integer(out, first as i64);
            wire::integer(out, last as i64);
        }
        if wanted.with_lengths {
            wire::integer(out, of(run) as i64);
        }
    }
    wire::bulk(out, b"len");
    wire::integer(out, length as i64);
}
