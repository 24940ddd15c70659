//! Promise: what clients were told is there at the end, after any crash (reliability I25-I27, write-back 86), told by
//! versions.

use shardine_model::Version;

use crate::check::Violation;
use crate::check::acknowledged_is_durable::NAME;
use crate::records::history::Call;

/// What is left of a row in the end.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// 0 if it was never made, or its tombstone was purged.
    pub version: Version,
    /// The newest version whose tombstone was purged.
    pub purged: u64,
}

/// After everything has healed: no row is behind a version that anybody was told of.
pub fn check(calls: &[Call<'_>], last: impl Fn(usize) -> Left) -> Result<(), Violation> {
    for call in calls {
        let seen = call.seen.iter().flatten();
        for ((row, _), saw) in call.job.touches().into_iter().zip(seen) {
            let (Some(version), Left { version: now, purged }) = (saw.version(), last(row)) else { continue };
            if now.magnitude().max(purged) < version.magnitude() {
                let number = call.operation;
                let detail =
                    format!("operation {number} told of version {version} of row {row}, which is now at {now}");
                return Err(Violation::new(NAME, detail));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::ask::{Ask, Job, Saw};

    #[test]
    fn a_row_that_is_gone_without_a_purge_is_seen() {
        let job = Job::One { row: 0, ask: Ask::Get };
        let seen = Some(vec![Saw::Read { version: Version(7), now: None }]);
        let calls = [Call { operation: 0, job: &job, invoked: 0, returned: 1, seen }];
        let left = |version, purged| move |_| Left { version: Version(version), purged };

        assert_eq!(check(&calls, left(8, 0)), Ok(()));
        assert!(check(&calls, left(6, 0)).is_err());
        assert!(check(&calls, left(0, 0)).is_err());
        assert_eq!(check(&calls, left(0, 7)), Ok(()));
    }
}
