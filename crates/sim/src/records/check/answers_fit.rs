//! Promise: an answer belongs to its question. It has the kind and the number of replies that the request asks for, versions
//! that agree with what they say is there (records 2, 3, 8), and no refusal that this cluster has no reason for.

use shardine_model::{Answer, ErrorCode, Outcome, Reply};

use crate::check::Violation;
use crate::records::ask::{Ask, Job};

pub const NAME: &str = "answers_fit";

/// `is_direct` says that replicas of shards that may be split are asked, and nobody sends on what is another one's by now.
pub fn check(job: &Job, answer: &Answer, is_direct: bool) -> Result<(), Violation> {
    let fits = match (job, answer) {
        // What is about a shard as a whole is nobody else's.
        (Job::Flush { whole_shard: true, .. }, Answer::Failed(ErrorCode::StaleRoute)) => true,
        (_, Answer::Failed(ErrorCode::StaleRoute)) => is_direct,
        // A replica that is behind may not have the table yet.
        (Job::Stale { .. }, Answer::Failed(ErrorCode::UnknownTable)) => true,
        // SQL does not keep when a record ends, so one that has an end stays in memory.
        (Job::Kick { .. }, Answer::Failed(ErrorCode::Unsupported)) => true,
        (_, Answer::Failed(code)) => has_reason(*code),
        (Job::One { ask, .. }, Answer::One(reply)) => reply_fits(*ask, reply),
        (Job::Stale { .. }, Answer::One(reply)) => reply_fits(Ask::Get, reply),
        (Job::Pair { asks, .. }, Answer::Many(replies)) => batch_fits(asks, replies),
        (Job::Kick { .. } | Job::Flush { .. }, Answer::Many(replies)) => replies.is_empty(),
        (Job::One { .. } | Job::Stale { .. } | Job::Pair { .. }, _) => false,
        (Job::Kick { .. } | Job::Flush { .. }, Answer::One(_) | Answer::ConditionFailed) => false,
    };
    if fits {
        return Ok(());
    }
    Err(Violation::new(NAME, format!("{job:?} was answered {answer:?}")))
}

/// Every request is well-formed, for a table and a shard that are there, and has no deadline.
fn has_reason(code: ErrorCode) -> bool {
    use ErrorCode::{BackendUnavailable, Busy, DirtyLimit, InDoubt, NoLeader, NotLeader, SqlRefused, Suspended};
    matches!(code, NotLeader | NoLeader | BackendUnavailable | Busy | DirtyLimit | InDoubt | Suspended | SqlRefused)
}

/// A batch that is undone ends with the change that was refused.
fn batch_fits(asks: &[Ask], replies: &[Reply]) -> bool {
    let refused = |(ask, reply): (&Ask, &Reply)| *ask != Ask::Get && reply.refusal().is_some();
    let undone = asks.iter().zip(replies).position(refused);
    let expected = undone.map_or(asks.len(), |place| place + 1);
    replies.len() == expected && asks.iter().zip(replies).all(|(ask, reply)| reply_fits(*ask, reply))
}

/// The version that a reply tells is the row's after the command, and its sign says whether there is a row.
fn reply_fits(ask: Ask, reply: &Reply) -> bool {
    let is_live = reply.version.is_live();
    match (&reply.outcome, ask) {
        (Outcome::Done { row, changed: 0, .. }, Ask::Get) => is_live && row.is_some(),
        (Outcome::Done { .. }, Ask::Get) => false,
        (Outcome::Done { row, changed, .. }, Ask::Delete) => !is_live && row.is_some() == (*changed > 0),
        (Outcome::Done { .. }, _) => is_live,
        (Outcome::Refused { code: ErrorCode::NotFound, row }, _) => !is_live && row.is_none(),
        (Outcome::Refused { code: ErrorCode::Exists | ErrorCode::CasMismatch, .. }, _) => is_live,
        (Outcome::Refused { .. }, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::{RowImage, Version};

    use super::*;

    fn reply(version: i64, outcome: Outcome) -> Reply {
        Reply { version: Version(version), sql_version: Version::NEVER, expires_at: None, outcome }
    }

    fn done(version: i64) -> Reply {
        reply(version, Outcome::Done { changed: 0, row: Some(RowImage::default()) })
    }

    #[test]
    fn an_answer_of_another_kind_is_seen() {
        let get = Job::One { row: 0, ask: Ask::Get };

        assert_eq!(check(&get, &Answer::One(done(1)), false), Ok(()));
        assert!(check(&get, &Answer::Many(vec![done(1)]), false).is_err());
        assert!(check(&get, &Answer::ConditionFailed, false).is_err());
        assert!(check(&Job::Kick { row: 0, nowait: false }, &Answer::One(done(1)), false).is_err());
    }

    #[test]
    fn half_an_answer_is_seen() {
        let pair = |asks| Job::Pair { rows: [0, 1], asks };
        let refused = reply(1, Outcome::Refused { code: ErrorCode::CasMismatch, row: None });
        let cas = Ask::Cas { old: 1, value: 2 };

        assert!(check(&pair([Ask::Get; 2]), &Answer::Many(vec![done(1)]), false).is_err());
        assert_eq!(check(&pair([cas, cas]), &Answer::Many(vec![refused.clone()]), false), Ok(()), "it was undone");
        assert!(check(&pair([cas, cas]), &Answer::Many(vec![refused, done(1)]), false).is_err(), "nothing follows");
    }

    #[test]
    fn a_refusal_without_a_reason_is_seen() {
        let get = Job::One { row: 0, ask: Ask::Get };

        assert_eq!(check(&get, &Answer::Failed(ErrorCode::NotLeader), false), Ok(()));
        assert!(check(&get, &Answer::Failed(ErrorCode::Internal), false).is_err());
        assert!(check(&get, &Answer::Failed(ErrorCode::StaleRoute), false).is_err());
    }

    #[test]
    fn a_version_that_contradicts_its_row_is_seen() {
        let get = Job::One { row: 0, ask: Ask::Get };
        let gone = |version| reply(version, Outcome::Refused { code: ErrorCode::NotFound, row: None });

        assert!(check(&get, &Answer::One(done(-1)), false).is_err());
        assert!(check(&get, &Answer::One(gone(1)), false).is_err());
        assert_eq!(check(&get, &Answer::One(gone(-1)), false), Ok(()));
    }
}
