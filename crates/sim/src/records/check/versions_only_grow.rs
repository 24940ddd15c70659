//! Promise: versions of a row strictly increase in real time, and one version never names two contents (reliability
//! I22, records 2-6). This is also the witness check of linearizability in linear time: the version says where an
//! operation stands.

use std::collections::BTreeMap;

use shardine_model::Version;

use crate::check::Violation;
use crate::records::ask::{Ask, Saw};
use crate::records::history::{Call, Touch, touches};
use crate::records::universe::{Content, Row};

const NAME: &str = "versions_only_grow";

/// What each version of each row held, wherever it was seen: in memory, in answers, in SQL.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    known: BTreeMap<(usize, i64), Option<Content>>,
}

impl Contents {
    pub fn note(&mut self, row: usize, version: Version, content: Option<Content>) -> Result<(), Violation> {
        if version.is_live() != content.is_some() {
            let detail = format!("version {version} of row {row} is {content:?}, which its sign denies");
            return Err(Violation::new(NAME, detail));
        }
        if version == Version::NEVER {
            return Ok(());
        }
        let known = *self.known.entry((row, version.0)).or_insert(content);
        if known == content {
            return Ok(());
        }
        let detail = format!("version {version} of row {row} was {known:?} and is now {content:?}");
        Err(Violation::new(NAME, detail))
    }

    /// A version and its negative are the same number of changes, so only one of them may exist.
    pub fn check_signs(&self) -> Result<(), Violation> {
        for (row, version) in self.known.keys().filter(|(_, version)| *version > 0) {
            if self.known.contains_key(&(*row, -version)) {
                return Err(Violation::new(NAME, format!("row {row} was both live and deleted at version {version}")));
            }
        }
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&(usize, i64), &Option<Content>)> {
        self.known.iter()
    }
}

/// A replica saw a row at one version, and now at another.
pub fn check_memory(node: usize, row: usize, was: Version, is: Version) -> Result<(), Violation> {
    // A purged tombstone is forgotten; the table's floor keeps later versions above it.
    if is.magnitude() >= was.magnitude() || is == Version::NEVER {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("row {row} on node {} went from version {was} to {is}", node + 1)))
}

/// Sorts each row's operations by version and looks at the clock.
pub fn check(calls: &[Call<'_>], rows: &[Row]) -> Result<(), Violation> {
    (0..rows.len()).try_for_each(|row| check_row(row, &touches(calls, row)))
}

struct VersionedTouch<'a> {
    magnitude: u64,
    is_change: bool,
    touch: &'a Touch,
}

fn check_row(row: usize, touches: &[Touch]) -> Result<(), Violation> {
    let mut places: Vec<VersionedTouch<'_>> = touches.iter().filter_map(place).collect();
    places.sort_by_key(|place| (place.magnitude, !place.is_change, place.touch.invoked));
    for pair in places.windows(2) {
        if pair[0].magnitude == pair[1].magnitude && pair[1].is_change {
            let detail = format!(
                "operations {} and {} both made version {} of row {row}",
                pair[0].touch.operation, pair[1].touch.operation, pair[0].magnitude
            );
            return Err(Violation::new(NAME, detail));
        }
    }
    check_order(row, &places)
}

/// From the newest on: nothing with a smaller version may begin after something with a larger one has ended, and nobody sees
/// a version before its making has begun.
fn check_order(row: usize, places: &[VersionedTouch<'_>]) -> Result<(), Violation> {
    let mut earliest_end: Option<&VersionedTouch<'_>> = None;
    let mut group_start = places.len();
    while group_start > 0 {
        let end = group_start;
        group_start = places[..end].partition_point(|place| place.magnitude < places[end - 1].magnitude);
        let (maker, group) = (&places[group_start], &places[group_start..end]);
        for place in group {
            if let Some(later) = earliest_end.filter(|later| later.touch.returned < place.touch.invoked) {
                let detail = format!(
                    "operation {} saw version {} of row {row} after operation {} had seen version {}",
                    place.touch.operation, place.magnitude, later.touch.operation, later.magnitude
                );
                return Err(Violation::new(NAME, detail));
            }
            if maker.is_change && place.touch.returned < maker.touch.invoked {
                let detail = format!(
                    "operation {} saw version {} of row {row} before operation {} began to make it",
                    place.touch.operation, place.magnitude, maker.touch.operation
                );
                return Err(Violation::new(NAME, detail));
            }
        }
        for place in group {
            if earliest_end.is_none_or(|known| place.touch.returned < known.touch.returned) {
                earliest_end = Some(place);
            }
        }
    }
    Ok(())
}

fn place(touch: &Touch) -> Option<VersionedTouch<'_>> {
    let saw = touch.saw?;
    // Version 0 is a row that was never made, or whose tombstone was purged: it stands anywhere.
    let version = saw.version().filter(|version| *version != Version::NEVER)?;
    // A time to live that was there already changes nothing.
    let is_change = matches!(saw, Saw::Changed { .. }) && !matches!(touch.ask, Ask::Touch { .. });
    Some(VersionedTouch { magnitude: version.magnitude(), is_change, touch })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Option<Content> = Some(Content { value: 5, count: 0 });

    fn touch(operation: usize, (invoked, returned): (u64, u64), ask: Ask, saw: Saw) -> Touch {
        Touch { operation, ask, invoked, returned, saw: Some(saw) }
    }

    fn read(operation: usize, span: (u64, u64), version: i64) -> Touch {
        touch(operation, span, Ask::Get, Saw::Read { version: Version(version), now: HELD })
    }

    fn write(operation: usize, span: (u64, u64), version: i64) -> Touch {
        let saw = Saw::Changed { version: Version(version), before: None };
        touch(operation, span, Ask::Set { value: 5, expires: None }, saw)
    }

    #[test]
    fn a_version_that_names_two_contents_is_seen() {
        let mut contents = Contents::default();

        assert_eq!(contents.note(0, Version(3), HELD), Ok(()));
        assert!(contents.note(0, Version(3), Some(Content { value: 6, count: 0 })).is_err());
    }

    #[test]
    fn a_sign_that_denies_its_content_is_seen() {
        let mut contents = Contents::default();

        assert!(contents.note(0, Version(3), None).is_err());
        assert!(contents.note(0, Version(-3), HELD).is_err());
        assert!(contents.note(0, Version::NEVER, HELD).is_err());
        assert_eq!(contents.note(0, Version::NEVER, None), Ok(()));
    }

    #[test]
    fn a_version_that_goes_back_is_seen() {
        assert_eq!(check_row(0, &[read(0, (0, 5), 2), read(1, (4, 6), 1)]), Ok(()), "beside each other");
        assert!(check_row(0, &[read(0, (0, 5), 2), read(1, (6, 7), 1)]).is_err());
    }

    #[test]
    fn a_version_that_is_made_twice_is_seen() {
        assert!(check_row(0, &[write(0, (0, 5), 2), write(1, (4, 6), 2)]).is_err());
    }

    #[test]
    fn a_version_that_is_seen_before_it_is_made_is_seen() {
        assert_eq!(check_row(0, &[write(0, (4, 9), 2), read(1, (3, 4), 2)]), Ok(()));
        assert!(check_row(0, &[write(0, (5, 9), 2), read(1, (3, 4), 2)]).is_err());
    }
}
