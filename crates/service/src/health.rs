//! Whether a node is well, for everybody who asks: `status`, `/readyz`, the health service.

use shardine_router::{EngineStatus, ShardStatus, TableWriteback};

/// A shard may be above its share of memory for as long as an eviction takes; a sixteenth above, evictions do not help.
const EXCESS_PART: u64 = 16;

/// A shard that serves has a leader and has not stopped.
#[must_use]
pub fn serves(shard: &ShardStatus) -> bool {
    shard.leader.is_some() && shard.stopped.is_none()
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
    for table in tables.iter().filter(|table| table.dead_letters > 0) {
        trouble.push(format!("SQL refuses {} rows of table {}: dead letters", table.dead_letters, table.table));
    }
    let full = status.shards.iter().filter(|shard| is_full(shard)).count();
    if full > 0 {
        trouble.push(format!("memory is full in {full} of {} shards", status.shards.len()));
    }
    trouble.extend(status.absences());
    trouble
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
    use shardine_router::WritebackStatus;

    use super::*;

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
        let down = WritebackStatus { connected: false, ..sql };
        assert_eq!(count(&EngineStatus { writeback: Some(down), ..well }), 1);
    }
}
