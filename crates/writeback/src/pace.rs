//! How much a writer takes of what lanes need. SQL may be behind, an answer may not: a writer has a low priority, and while
//! lanes are busy it rests after each batch that nobody waits for. With nobody to be in the way of, it never rests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::job::Job;

/// How far a writer stands back: of a core that a lane wants too, it gets a quarter. The kernel counts every process of the
/// machine, not only lanes: lower (10, a tenth), and a batch on a machine with twenty busy processes may take as long as
/// SQLite waits for a lock, or a leader trusts its lease.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// After a batch a writer rests for so many times as long as it took: a fifteenth of one core is the most that it takes, and of
/// the disk's syncs. What a lane does for a row on its way costs it nearly as much as the writer, and rests with it.
const RESTS: u32 = 14;

/// However long a batch took, the next one comes. A batch takes milliseconds; where it took longer, the writer has waited for
/// a core or for the disk, and was in nobody's way meanwhile.
const REST_MAX: Duration = Duration::from_millis(100);

/// What lanes say of themselves holds for so long: a little longer than the time after which they say it again.
const BUSY_FOR: Duration = Duration::from_millis(250);

/// A batch that waits is begun so long before its time is over, whoever is busy.
const HURRY: Duration = Duration::from_secs(2);

/// What writers know of the lanes.
#[derive(Debug)]
pub(crate) struct Pace {
    began: Instant,
    busy_until_ms: AtomicU64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { began: Instant::now(), busy_until_ms: AtomicU64::new(0) }
    }
}

impl Pace {
    /// Somebody who answers requests has little time to spare.
    pub(crate) fn note_busy(&self) {
        let until = self.began.elapsed() + BUSY_FOR;
        self.busy_until_ms.store(until.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn is_busy(&self) -> bool {
        (self.began.elapsed().as_millis() as u64) < self.busy_until_ms.load(Ordering::Relaxed)
    }
}

/// How long to rest after a job that took so long.
pub(crate) fn rest_after(took: Duration) -> Duration {
    (took * RESTS).min(REST_MAX)
}

/// Whether a job that waits ends a rest: somebody waits for it, or its time is nearly over.
pub(crate) fn is_pressing(job: &Job, now: Instant) -> bool {
    is_awaited(job) || job.begin_by().is_some_and(|last| now + HURRY >= last)
}

/// Whether somebody waits for what the job brings.
pub(crate) fn is_awaited(job: &Job) -> bool {
    match job {
        Job::Flush(flush) => flush.is_awaited,
        Job::Purge(_) => false,
        Job::Load(_) | Job::Scan(_) | Job::Table(_) => true,
    }
}

/// Makes the calling thread one that waits until others do not need the core. Where that cannot be said of one thread alone,
/// nothing is said.
pub(crate) fn step_back() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::warn!(%error, "the thread that writes to SQL keeps the priority of those that answer");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shardine_model::key::Interval;
    use shardine_model::{Backing, FieldId, ShardId, Table, TableId};

    use super::*;
    use crate::job::{FlushJob, JobId, ScanJob, Scope};
    use crate::owner::LogProgress;
    use crate::queue::Queue;

    fn table() -> Arc<Table> {
        Arc::new(Table {
            id: TableId(2),
            name: "posts".into(),
            version: 1,
            fields: Vec::new(),
            sort: Vec::new(),
            backing: Backing::Sql,
            sql: Default::default(),
            dynamic: false,
            dropped: false,
            next_field: FieldId(1),
        })
    }

    fn flush(is_awaited: bool, begin_by: Option<Instant>) -> Job {
        let progress = LogProgress { shard: ShardId(0), applied: 0, inherited: 0 };
        Job::Flush(FlushJob { ticket: JobId(1), table: table(), rows: Vec::new(), begin_by, is_awaited, progress })
    }

    fn scan() -> Job {
        let scope = Scope::Positions(Interval::ALL);
        Job::Scan(Box::new(ScanJob { ticket: JobId(2), table: table(), scope, after: None, rows_max: 1 }))
    }

    #[test]
    fn a_rest_is_as_long_as_the_work_allows_and_never_longer_than_its_limit() {
        assert_eq!(rest_after(Duration::from_millis(3)), Duration::from_millis(3) * RESTS);
        assert_eq!(rest_after(Duration::from_secs(9)), REST_MAX);
    }

    #[test]
    fn a_batch_presses_if_somebody_waits_or_before_it_is_too_old() {
        let now = Instant::now();

        assert!(!is_pressing(&flush(false, None), now));
        assert!(!is_pressing(&flush(false, Some(now + HURRY * 2)), now));
        assert!(is_pressing(&flush(false, Some(now + HURRY)), now));
        assert!(is_pressing(&flush(true, None), now));
        assert!(is_pressing(&scan(), now));
    }

    #[test]
    fn lanes_that_say_nothing_are_not_busy() {
        let pace = Pace::default();
        assert!(!pace.is_busy());

        pace.note_busy();

        assert!(pace.is_busy());
    }

    /// Each would last for an hour if nothing ended it.
    #[test]
    fn a_rest_ends_for_a_job_that_presses_for_lanes_that_have_time_and_at_the_end() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let queue = Queue::new(8);
        let ends = |job: Option<&Job>| job.is_some_and(|job| is_pressing(job, Instant::now()));
        assert!(queue.put(flush(false, None)).is_ok());

        queue.rest(HOUR, |job| job.is_none());
        std::thread::scope(|scope| {
            scope.spawn(|| queue.rest(HOUR, ends));
            assert!(queue.put(flush(true, None)).is_ok());
        });
        queue.take(|_, _| true, Duration::from_secs(60), || {});
        std::thread::scope(|scope| {
            scope.spawn(|| queue.rest(HOUR, ends));
            queue.close();
        });
    }
}
