//! Whose database this is, and how much it has seen of it.
//!
//! A database holds one small table of Shardine's own, [`TABLE`]. A line per node says which of its starts came last, and of
//! which cluster it is; a line per shard and table says how far the shard's log had come when rows were last written from it.
//! So two clusters do not write into one database, and a data directory that was put back from an old copy does not overwrite
//! what its successor wrote: it finds a later start of itself, or a longer log than its own (`docs/damage.md`).
//!
//! What the lines mean is decided here; each database's `owner.rs` reads and writes them.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use shardine_model::sql::Class;
use shardine_model::{NodeId, ShardId, TableId};

use crate::database::{Database, Role};
use crate::dialect::Dialect;
use crate::error::Error;

/// No table of a user's begins with two underscores.
pub(crate) const TABLE: &str = "__shardine__";

/// Who reads and writes: a node of a cluster, and which of its starts this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub cluster: u128,
    pub node: NodeId,
    /// Grows with every start of the node, by its data directory.
    pub incarnation: u64,
    /// Drawn at random for this start: two copies of a directory count alike.
    pub start: i64,
    /// Takes the database over from another cluster, or from a later start of this node, because somebody has said so.
    pub adopts: bool,
}

/// How far a shard's log had come from which rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogProgress {
    pub shard: ShardId,
    /// The last entry that the rows know of.
    pub applied: u64,
    /// The last entry that the shard's leader found when it was elected. What SQL has seen beyond that was written from
    /// a log that this leader does not have.
    pub inherited: u64,
}

/// How far SQL says that a shard's log had come before this node wrote anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    pub shard: ShardId,
    pub table: TableId,
    pub applied: u64,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) cluster: String,
    /// The incarnation of a node, the last applied entry of a shard.
    pub(crate) number: i64,
    pub(crate) start: i64,
}

/// A shard's line on its way to SQL with rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) line: Line,
    /// Another start's line may say this much, and no more.
    pub(crate) inherited: i64,
}

/// What is to be done with the traces of this cluster's logs before the first row is written. If it fails, none is.
#[derive(Clone)]
#[allow(clippy::type_complexity, reason = "it is named here, once")]
pub struct OnClaim(Arc<dyn Fn(&[Trace]) -> io::Result<()> + Send + Sync>);

impl OnClaim {
    pub fn new(act: impl Fn(&[Trace]) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(act))
    }
}

impl Default for OnClaim {
    fn default() -> Self {
        Self::new(|_| Ok(()))
    }
}

impl fmt::Debug for OnClaim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OnClaim")
    }
}

/// Stands before every connection. Shared by the workers.
pub(crate) struct Guard {
    owner: Owner,
    on_claim: OnClaim,
    /// Whether this process has taken the database as its own.
    has_claimed: Mutex<bool>,
}

impl Guard {
    pub(crate) fn new(owner: Owner, on_claim: OnClaim) -> Self {
        Self { owner, on_claim, has_claimed: Mutex::new(false) }
    }

    /// Called with every new connection, before its first job.
    pub(crate) fn let_in(&self, database: &mut dyn Database, role: Role) -> Result<(), Error> {
        if role.only_reads() { self.check(database) } else { self.claim(database) }
    }

    /// Refuses a database that is another's. A database is taken over once: whoever takes it away later is not ignored.
    fn check(&self, database: &mut dyn Database) -> Result<(), Error> {
        let lines = read(database)?;
        let has_claimed = *self.has_claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.owner.adopts && !has_claimed { Ok(()) } else { self.owner.judge(&lines) }
    }

    /// The same, and takes the database as this start's own.
    fn claim(&self, database: &mut dyn Database) -> Result<(), Error> {
        self.check(database)?;
        {
            let mut has_claimed = self.has_claimed.lock().unwrap_or_else(PoisonError::into_inner);
            let (found, own) = (read(database)?, self.owner.line());
            if !found.contains(&own) {
                let is_anothers = found.iter().any(|line| line.cluster != own.cluster);
                database.claim(&own, is_anothers).map_err(softened)?;
            }
            if !*has_claimed {
                let ours = found.iter().filter(|line| line.cluster == own.cluster);
                let traces: Vec<Trace> = ours.filter_map(trace).collect();
                (self.on_claim.0)(&traces)
                    .map_err(|error| Error::retryable(format!("SQL was not compared: {error}")))?;
                *has_claimed = true;
            }
        }
        // Another cluster may have come at the same moment.
        self.check(database)
    }

    pub(crate) fn mark(&self, table: TableId, progress: &LogProgress) -> Mark {
        self.owner.mark(table, progress)
    }
}

fn read(database: &mut dyn Database) -> Result<Vec<Line>, Error> {
    match database.owners() {
        // There is no such table yet.
        Err(error) if error.class == Class::Definition => Ok(Vec::new()),
        lines => lines.map_err(softened),
    }
}

impl Owner {
    fn line(&self) -> Line {
        let Self { cluster, node, incarnation, start, .. } = self;
        let number = i64::try_from(*incarnation).unwrap_or(i64::MAX);
        Line { what: format!("node {node}"), cluster: format!("{cluster:032x}"), number, start: *start }
    }

    /// Whether this start may use a database with these lines.
    fn judge(&self, lines: &[Line]) -> Result<(), Error> {
        let own = self.line();
        if let Some(other) = lines.iter().find(|line| line.cluster != own.cluster) {
            return Err(Error::foreign(format!(
                "the SQL database belongs to cluster {}, and this is cluster {}: two clusters would overwrite each other's rows; \
                 give this one a database of its own, or, if the other one is gone for good, start with --adopt-sql",
                other.cluster, own.cluster
            )));
        }
        let is_later = |line: &&Line| line.what == own.what && line.start != own.start && line.number >= own.number;
        lines.iter().find(is_later).map_or(Ok(()), |later| {
            Err(Error::foreign(format!(
                "the SQL database has seen start {} of node {}, and this is start {} by its data directory: the directory is an \
                 older copy of the node's, or another copy of it is running; put the newest one back (docs/damage.md)",
                later.number, self.node, own.number
            )))
        })
    }

    fn mark(&self, table: TableId, progress: &LogProgress) -> Mark {
        let number = |index: u64| i64::try_from(index).unwrap_or(i64::MAX);
        let what = format!("shard {} table {}", progress.shard, table.0);
        let line = Line { what, number: number(progress.applied), ..self.line() };
        Mark { line, inherited: number(progress.inherited) }
    }
}

impl Mark {
    /// Whether rows may be written where SQL holds this line.
    pub(crate) fn may_follow(&self, held: Option<&Line>) -> Result<(), Error> {
        let is_ours = |held: &Line| held.start == self.line.start || held.number <= self.inherited;
        held.filter(|held| !is_ours(held)).map_or(Ok(()), |held| Err(self.refused(held.number)))
    }

    pub(crate) fn refused(&self, seen: i64) -> Error {
        Error::foreign(ahead(&self.line.what, seen, self.inherited))
    }
}

/// What is wrong where SQL has seen more of a shard's log than its leader has.
fn ahead(what: &str, seen: i64, inherited: i64) -> String {
    format!(
        "SQL is ahead of this node: it was written from entry {seen} of the log ({what}), and this directory began with entry \
         {inherited}: it is an older copy, and nothing is written to this table; put the newest copy back (docs/damage.md)"
    )
}

impl Trace {
    /// What to tell of a shard whose log began with this entry, if SQL has seen more of it.
    #[must_use]
    pub fn beyond(&self, inherited: u64) -> Option<String> {
        let number = |index: u64| i64::try_from(index).unwrap_or(i64::MAX);
        let what = format!("shard {} table {}", self.shard, self.table.0);
        (self.applied > inherited).then(|| ahead(&what, number(self.applied), number(inherited)))
    }
}

fn trace(line: &Line) -> Option<Trace> {
    let mut words = line.what.split(' ');
    let mut number = |name: &str| words.next().filter(|word| *word == name).and(words.next())?.parse().ok();
    let (shard, table) = (ShardId(number("shard")?), TableId(number("table")?));
    Some(Trace { shard, table, applied: u64::try_from(line.number).ok()? })
}

/// How the table is made.
pub(crate) fn create(dialect: &dyn Dialect, text_type: &str) -> String {
    let [what, cluster, number, start] = ["what", "cluster", "number", "start"].map(|name| dialect.quoted(name));
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({what} {text_type} NOT NULL PRIMARY KEY, {cluster} {text_type} NOT NULL, \
         {number} bigint NOT NULL, {start} bigint NOT NULL)",
        dialect.quoted(TABLE)
    )
}

/// The table is nobody's row or definition: whatever is wrong with it passes, or is for the operator.
pub(crate) fn softened(Error { class, message }: Error) -> Error {
    let class = match class {
        Class::Retryable | Class::Definition | Class::Row | Class::ForeignKey | Class::Busy => Class::Retryable,
        Class::Fatal => Class::Fatal,
        Class::Foreign => Class::Foreign,
    };
    Error {
        class,
        message: format!("the table {TABLE}, in which Shardine keeps who writes to the database: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(incarnation: u64, start: i64) -> Owner {
        Owner { cluster: 0xabc, node: NodeId(1), incarnation, start, adopts: false }
    }

    fn refusal(owner: &Owner, lines: &[Line]) -> String {
        owner.judge(lines).expect_err("it is refused").message
    }

    #[test]
    fn a_later_start_of_the_node_is_recognised_also_by_the_same_number() {
        let found = [owner(5, 77).line()];

        assert!(owner(6, 78).judge(&found).is_ok());
        assert!(owner(5, 77).judge(&found).is_ok(), "it is itself");
        assert!(refusal(&owner(5, 78), &found).contains("has seen start 5 of node 1"));
        assert!(refusal(&owner(4, 78), &found).contains("this is start 4"));
    }

    #[test]
    fn another_cluster_is_recognised_whatever_it_counts() {
        let other = Owner { cluster: 0xdef, node: NodeId(9), ..owner(1, 1) };

        assert!(refusal(&owner(6, 78), &[other.line()]).contains("belongs to cluster"));
        assert!(refusal(&owner(6, 78), &[other.mark(TableId(2), &progress(1, 0)).line]).contains("belongs to cluster"));
    }

    fn progress(applied: u64, inherited: u64) -> LogProgress {
        LogProgress { shard: ShardId(3), applied, inherited }
    }

    #[test]
    fn a_log_that_is_shorter_than_what_sql_has_seen_of_it_is_recognised() {
        let held = owner(5, 77).mark(TableId(2), &progress(20, 4)).line;
        let mark = |inherited| owner(6, 78).mark(TableId(2), &progress(30, inherited));

        assert!(mark(20).may_follow(Some(&held)).is_ok());
        assert!(mark(0).may_follow(None).is_ok());
        assert!(owner(5, 77).mark(TableId(2), &progress(21, 4)).may_follow(Some(&held)).is_ok(), "its own");
        let refused = mark(19).may_follow(Some(&held)).expect_err("an entry is missing");
        assert_eq!(refused.class, Class::Foreign);
    }

    #[test]
    fn what_sql_has_seen_of_a_log_is_read_from_its_lines() {
        let line = owner(5, 77).mark(TableId(2), &progress(20, 4)).line;
        let trace = trace(&line).expect("a shard's line");

        assert_eq!(trace, Trace { shard: ShardId(3), table: TableId(2), applied: 20 });
        assert_eq!(super::trace(&owner(5, 77).line()), None);
        assert_eq!(trace.beyond(20), None);
        assert!(trace.beyond(19).expect("one is missing").contains("(shard 3 table 2)"));
    }
}
