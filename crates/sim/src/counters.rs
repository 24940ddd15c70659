//! How often the interesting things happened. A fault that never strikes and a path that is never taken prove nothing, so
//! a long run fails if one of these stays at zero.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $words:literal,)*) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }

            /// Every counter with the words for it.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$(($words, self.$name),)*]
            }
        }
    };
}

counters! {
    answered: "operations answered",
    failed: "operations certainly without effect",
    unknown: "operations with unknown outcome",
    leader_changes: "changes of leader",
    asked_deposed: "reads asked of a leader that had been replaced unawares",
    crashes: "crashes",
    lossy_crashes: "crashes that lost unsynced writes",
    restarts_from_snapshot: "restarts from a snapshot",
    pauses: "pauses",
    partitions: "partitions",
    one_way_cuts: "cuts in one direction",
    clock_jumps: "jumps of a wall clock",
    snapshots_cut: "snapshots cut",
    snapshots_lost: "snapshots lost half-way",
    snapshot_installs: "snapshots installed from a leader",
    messages_lost: "messages lost",
    messages_copied: "messages delivered twice",
    retries: "numbered requests sent again",
    recalled: "retries answered from kept results",
    loads: "rows loaded from SQL",
    loads_failed: "loads that failed",
    loads_late: "loads answered after being given up",
    rows_written: "rows written to SQL",
    fenced: "statements stopped by the version fence",
    sql_unknown: "SQL writes with unknown outcome",
    sql_late: "SQL writes executed after being given up",
    sql_purges: "tombstones purged in SQL",
    sql_edits: "rows changed in SQL from outside",
    raises: "rows raised above somebody else's version",
    settlements: "rows that SQL's took the place of",
    discards: "dead letters discarded",
    refusals: "rows refused by SQL",
    through_written: "changes answered when SQL had them",
    through_pending: "changes for which SQL was not waited any longer",
    refused_dirty: "changes refused because too much waits for SQL",
    kicks: "kicks",
    expiries: "expiries",
    purges: "purges of tombstones",
    undone_batches: "batches undone",
    suspensions: "shards suspended",
    refused_suspended: "requests refused by a suspended shard",
    stale_reads: "stale reads answered by replicas that did not lead",
    stale_refused: "stale reads that were not answered at once",
    reads_in_log: "reads that went through the log",
}
