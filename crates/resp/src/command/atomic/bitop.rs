//! `BITOP`: strings joined bit by bit.

use shardine_model::command::{Action, Command};
use shardine_router::LocalEngine;

use super::{Outcome, Scene};
use crate::failure::{Failure, SYNTAX};
use crate::value::is;
use crate::wire;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

pub(super) fn bitop<H: LocalEngine>(scene: &mut Scene<'_, H>) -> Outcome {
    let word = scene.line.word(1);
    let named = [("AND", Operation::And), ("OR", Operation::Or), ("XOR", Operation::Xor), ("NOT", Operation::Not)];
    let Some((_, operation)) = named.into_iter().find(|(name, _)| is(word, name)) else { return Err(SYNTAX.into()) };
    if operation == Operation::Not && scene.line.len() != 4 {
        return Err(Failure::line("ERR BITOP NOT must be called with a single source key.").into());
    }
    let mut sources = Vec::new();
    for at in 3..scene.line.len() {
        let place = scene.place(at)?;
        sources.push(scene.string(&place)?.unwrap_or_default());
    }
    let joined = join(operation, &sources);
    if joined.is_empty() {
        let target = scene.place(2)?;
        return scene.change(vec![Command::plain(target.row(), Action::Delete)], |out| wire::integer(out, 0));
    }
    let (key, length) = (scene.line.word(2), joined.len() as i64);
    scene.set(key, &joined, &[], |out| wire::integer(out, length))
}

/// As long as the longest; what a shorter one lacks is zeros.
fn join(operation: Operation, sources: &[Vec<u8>]) -> Vec<u8> {
    let length = sources.iter().map(Vec::len).max().unwrap_or(0);
    let byte = |source: &Vec<u8>, at: usize| source.get(at).copied().unwrap_or(0);
    let all = |at: usize, act: fn(u8, u8) -> u8| sources.iter().map(|source| byte(source, at)).reduce(act).unwrap_or(0);
    (0..length)
        .map(|at| match operation {
            Operation::And => all(at, |one, other| one & other),
            Operation::Or => all(at, |one, other| one | other),
            Operation::Xor => all(at, |one, other| one ^ other),
            Operation::Not => !all(at, |one, _| one),
        })
        .collect()
}
