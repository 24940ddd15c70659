//! `cargo xtask tidy`: rules about the tree that no compiler checks. One file per rule; all problems are told at once.

mod citations;
mod layers;
mod links;
mod private;
mod pure;
mod shape;

use std::fmt;

use anyhow::{Result, bail};

use crate::{cargo, tree};

/// One broken rule and where.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    place: String,
    what: String,
}

impl Problem {
    fn new(place: impl fmt::Display, what: impl fmt::Display) -> Problem {
        Problem { place: place.to_string(), what: what.to_string() }
    }
}

pub fn run() -> Result<()> {
    let files = tree::files()?;
    let mut problems = layers::check(&cargo::metadata()?)?;
    problems.extend(pure::check(&files));
    problems.extend(shape::check(&files));
    problems.extend(links::check(&files));
    problems.extend(private::check(&files));
    problems.extend(citations::check(&files));
    problems.sort();
    for Problem { place, what } in &problems {
        println!("{place}: {what}");
    }
    if !problems.is_empty() {
        bail!("{} problems", problems.len());
    }
    Ok(())
}
