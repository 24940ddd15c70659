//! Whether a node is well, for everybody who asks: `status`, `/readyz`, the health service.

use shardine_router::{CoordStatus, EngineStatus, ShardStatus, TableWriteback};

/// A shard may be above its share of memory for as long as an eviction takes; a sixteenth above, evictions do not help.
const EXCESS_PART: u64 = 16;

/// How long a table is called in trouble whose rows could not be read, when no row of it waits to be written: nobody may ask
/// again, and then nothing would tell that it has passed.
const UNREAD_MS: u64 = 60_000;

/// A shard that serves has a leader and has not stopped.
#[must_use]
pub fn serves(shard: &ShardStatus) -> bool {
    shard.leader.is_some() && shard.stopped.is_none()
}

/// What keeps a node from serving: a shard that does not serve, or a coordination group that nobody leads. One that has stopped
/// here is led elsewhere, or is known to be damaged; going to another node would help nobody.
#[must_use]
pub fn unready(status: &EngineStatus) -> Option<String> {
    let shard = status.shards.iter().find(|shard| !serves(shard)).map(of_shard);
    let is_leaderless = |group: &&CoordStatus| group.leader.is_none() && group.stopped.is_none();
    let group = || {
        let group = status.coordination.iter().find(is_leaderless)?;
        Some(format!("coordination group {}: it has no leader", group.group))
    };
    shard.or_else(group)
}

/// What somebody should look at, in sentences; nothing if the node is well.
#[must_use]
pub fn trouble(status: &EngineStatus, tables: &[TableWriteback]) -> Vec<String> {
    let mut trouble: Vec<String> = status.shards.iter().filter(|shard| !serves(shard)).map(of_shard).collect();
    for group in &status.coordination {
        if group.leader.is_none() || group.stopped.is_some() {
            let reason = group.stopped.as_deref().unwrap_or("it has no leader");
            trouble.push(format!("coordination group {}: {reason}", group.group));
        }
    }
    if let Some(sql) = &status.writeback {
        if !sql.connected {
            trouble.push(format!("SQL cannot be reached; {} rows wait for it", sql.dirty));
        }
        for table in &sql.tables_ahead {
            trouble.push(format!("SQL is ahead of this node in table {table}; nothing of it is written"));
        }
    }
    for table in tables {
        if table.dead_letters > 0 {
            trouble.push(format!("SQL refuses {} rows of table {}: dead letters", table.dead_letters, table.table));
        }
        trouble.extend(failing(table));
    }
    let full = status.shards.iter().filter(|shard| is_full(shard)).count();
    if full > 0 {
        trouble.push(format!("memory is full in {full} of {} shards", status.shards.len()));
    }
    trouble.extend_from_slice(&status.differences);
    trouble.extend(status.absences());
    trouble
}

/// SQL can be reached, and does not do what it is asked to do with this table: it is gone, or another one.
fn failing(table: &TableWriteback) -> Option<String> {
    let error = table.last_error.as_ref().filter(|error| !error.is_past)?;
    // What is refused by itself is a dead letter, and was told as one.
    let waiting = table.dirty_rows.saturating_sub(table.dead_letters);
    match waiting {
        0 if table.dead_letters > 0 || error.ago_ms > UNREAD_MS => None,
        0 => Some(format!("table {}: {}", table.table, error.message)),
        rows => Some(format!("{rows} rows of table {} wait for SQL: {}", table.table, error.message)),
    }
}

fn of_shard(shard: &ShardStatus) -> String {
    format!("shard {}: {}", shard.shard, shard.stopped.as_deref().unwrap_or("it has no leader"))
}

fn is_full(shard: &ShardStatus) -> bool {
    shard.bytes_max > 0 && shard.bytes > shard.bytes_max + shard.bytes_max / EXCESS_PART
}

#[cfg(test)]
mod tests {
    use shardine_model::NodeId;
    use shardine_router::{SqlError, WritebackStatus};

    use super::*;

    #[test]
    fn a_node_is_ready_when_shards_serve_and_coordination_is_led() {
        let leader = Some(NodeId(1));
        let shard = ShardStatus { leader, ..ShardStatus::default() };
        let group = CoordStatus { group: 7, leader, ..CoordStatus::default() };
        let with = |shard: &ShardStatus, group: CoordStatus| EngineStatus {
            shards: vec![shard.clone()],
            coordination: vec![group],
            ..EngineStatus::default()
        };
        let damaged = Some("damaged".to_owned());

        assert_eq!(unready(&with(&shard, group.clone())), None);
        let lost = CoordStatus { leader: None, ..group.clone() };
        assert_eq!(unready(&with(&shard, lost.clone())).as_deref(), Some("coordination group 7: it has no leader"));
        assert_eq!(unready(&with(&shard, CoordStatus { stopped: damaged, ..lost })), None);
        let lost = ShardStatus { leader: None, ..shard };
        assert_eq!(unready(&with(&lost, group)).as_deref(), Some("shard 0: it has no leader"));
    }

    #[test]
    fn a_table_that_sql_has_lost_is_told_as_long_as_rows_wait_for_it() {
        let well = EngineStatus::default();
        let table = |dirty_rows, ago_ms, is_past| TableWriteback {
            table: "users".into(),
            dirty_rows,
            last_error: Some(SqlError { message: "SQL has no table users".into(), ago_ms, is_past }),
            ..TableWriteback::default()
        };
        let told = |table| trouble(&well, &[table]);

        assert_eq!(told(table(2, 3_600_000, false)), ["2 rows of table users wait for SQL: SQL has no table users"]);
        assert_eq!(told(table(0, 1_000, false)), ["table users: SQL has no table users"]);
        assert!(told(table(0, 3_600_000, false)).is_empty(), "nobody has asked since");
        assert!(told(table(2, 1_000, true)).is_empty(), "rows wait for their moment");
        let refused = TableWriteback { dead_letters: 2, ..table(2, 1_000, false) };
        assert_eq!(told(refused), ["SQL refuses 2 rows of table users: dead letters"]);
    }

    #[test]
    fn whatever_is_not_well_is_told() {
        let shard = ShardStatus { leader: Some(NodeId(1)), bytes: 100, bytes_max: 100, ..ShardStatus::default() };
        let sql = WritebackStatus { connected: true, ..WritebackStatus::default() };
        let well =
            EngineStatus { shards: vec![shard.clone()], writeback: Some(sql.clone()), ..EngineStatus::default() };
        let count = |status: &EngineStatus| trouble(status, &[]).len();

        assert_eq!(count(&well), 0, "just full is what a limit is for");
        let letters = TableWriteback { dead_letters: 2, table: "users".into(), ..TableWriteback::default() };
        assert_eq!(trouble(&well, &[letters]), ["SQL refuses 2 rows of table users: dead letters"]);
        let full = ShardStatus { bytes: 107, ..shard.clone() };
        assert_eq!(count(&EngineStatus { shards: vec![full], ..well.clone() }), 1);
        let stopped = ShardStatus { stopped: Some("damaged".into()), ..shard };
        assert_eq!(count(&EngineStatus { shards: vec![stopped], ..well.clone() }), 1);
        let differs = vec!["shard 2: this node's replica differs".to_owned()];
        assert_eq!(trouble(&EngineStatus { differences: differs.clone(), ..well.clone() }, &[]), differs);
        let down = WritebackStatus { connected: false, ..sql };
        assert_eq!(count(&EngineStatus { writeback: Some(down), ..well }), 1);
    }
}
