//! What must be true of every run, whatever happened in it.

use std::collections::BTreeMap;

use shardine_model::{ErrorCode, Position};
use shardine_router::Nature;

/// What a connection was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Done,
    Code(ErrorCode),
}

/// One request from beginning to end.
#[derive(Clone, Debug)]
pub struct Story {
    pub node: usize,
    pub connection: u64,
    pub position: Position,
    pub nature: Nature,
    pub told: Vec<Told>,
    /// Moments at which it was executed; repeats of a numbered one, which do nothing, are not among them.
    pub executed: Vec<usize>,
    /// Whether its connection has closed.
    pub is_dropped: bool,
    /// Whether it was sent after its link had broken.
    pub is_again: bool,
    /// Whether its leader refused it for good at some try.
    pub was_busy: bool,
}

pub fn check(stories: &[Story]) -> Result<(), String> {
    for (number, story) in stories.iter().enumerate() {
        each(story).map_err(|why| format!("request {number} {why}: {story:?}"))?;
    }
    in_order(stories)
}

fn each(story: &Story) -> Result<(), &'static str> {
    if story.nature != Nature::Read && story.executed.len() > 1 {
        return Err("was executed twice");
    }
    match story.told[..] {
        [] if story.is_dropped => Ok(()),
        [] => Err("was never answered"),
        [Told::Done] if story.executed.is_empty() => Err("was called done and never executed"),
        [Told::Done | Told::Code(ErrorCode::InDoubt)] => Ok(()),
        [Told::Code(_)] if story.nature != Nature::Read && !story.executed.is_empty() => {
            Err("was called undone and had been executed")
        }
        [Told::Code(_)] => Ok(()),
        _ => Err("was answered twice"),
    }
}

/// Of one connection and partition, in the order in which they were asked, executions only come later. Those in doubt may come
/// whenever they like, a read that was asked again may see more, and so may a number whose refusal was lost (docs/limits.md).
fn in_order(stories: &[Story]) -> Result<(), String> {
    let mut last: BTreeMap<(u64, Position), usize> = BTreeMap::new();
    for (number, story) in stories.iter().enumerate() {
        let is_exempt =
            story.told != [Told::Done] || story.is_again && (story.nature == Nature::Read || story.was_busy);
        let Some(&at) = story.executed.last().filter(|_| !is_exempt) else { continue };
        let before = last.entry((story.connection, story.position)).or_default();
        if at < *before {
            return Err(format!("request {number} was executed out of order, at {at} after {before}: {story:?}"));
        }
        *before = at;
    }
    Ok(())
}
