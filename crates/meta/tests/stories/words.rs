//! The words of a story's line: `verb name key=value flag`.

use shardine_model::{NodeId, ReplicaId, ShardId};

/// A line that has been taken apart.
pub struct Line<'a> {
    pub verb: &'a str,
    pub rest: Vec<&'a str>,
}

impl<'a> Line<'a> {
    pub fn read(line: &'a str) -> Self {
        let mut words = line.split_whitespace();
        let verb = words.next().expect("a line says what is done");
        Self { verb, rest: words.collect() }
    }

    pub fn word(&self, place: usize) -> &'a str {
        self.rest.get(place).unwrap_or_else(|| panic!("{} needs more words", self.verb))
    }

    pub fn has(&self, flag: &str) -> bool {
        self.rest.contains(&flag)
    }

    pub fn pair(&self, key: &str) -> Option<&'a str> {
        self.rest.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    pub fn number(&self, key: &str) -> Option<u64> {
        self.pair(key).map(number)
    }

    pub fn list(&self, key: &str) -> Vec<u64> {
        self.pair(key).unwrap_or_default().split(',').filter(|word| !word.is_empty()).map(number).collect()
    }

    pub fn nodes(&self, key: &str) -> Vec<NodeId> {
        self.list(key).into_iter().map(NodeId).collect()
    }

    pub fn replicas(&self, key: &str) -> Vec<ReplicaId> {
        self.list(key).into_iter().map(ReplicaId).collect()
    }
}

pub fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

/// `meta`, `c1` for the first group of coordination, or the number of a shard.
pub fn shard(text: &str) -> ShardId {
    match (text, text.strip_prefix('c')) {
        ("meta", _) => ShardId::META,
        (_, Some(place)) => ShardId(ShardId::FIRST_COORDINATION.0 + number(place) as u32 - 1),
        (_, None) => ShardId(number(text) as u32),
    }
}

pub fn shard_name(shard: ShardId) -> String {
    match shard {
        ShardId::META => "meta".to_owned(),
        shard if shard >= ShardId::FIRST_COORDINATION => {
            format!("c{}", shard.0 - ShardId::FIRST_COORDINATION.0 + 1)
        }
        shard => shard.to_string(),
    }
}
