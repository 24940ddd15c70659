//! Settings of a coordination node.

use std::time::Duration;

use shardine_proto::ydb::coordination::{Config, ConsistencyMode};

/// What a node is told. `None` and [`Consistency::Unset`] leave it to the server, or, when a node is altered, as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// How often the leader proves to itself that it leads.
    pub self_check_period: Option<Duration>,
    /// How much longer sessions live after a change of leader. Longer than the self-check.
    pub session_grace_period: Option<Duration>,
    /// Strict: a describe goes through the log.
    pub reads: Consistency,
    /// Relaxed: a session that is as it was comes back without the log.
    pub attaches: Consistency,
}

/// How much a node asks of its group before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// As the server has it by default.
    #[default]
    Unset,
    /// Nothing old is ever shown.
    Strict,
    /// Quicker, and possibly a moment old.
    Relaxed,
}

impl NodeSettings {
    pub(crate) fn to_message(self) -> Config {
        Config {
            self_check_period_millis: millis(self.self_check_period),
            session_grace_period_millis: millis(self.session_grace_period),
            read_consistency_mode: self.reads.to_message().into(),
            attach_consistency_mode: self.attaches.to_message().into(),
            ..Config::default()
        }
    }

    pub(crate) fn from_message(config: &Config) -> Self {
        Self {
            self_check_period: period(config.self_check_period_millis),
            session_grace_period: period(config.session_grace_period_millis),
            reads: Consistency::from_message(config.read_consistency_mode()),
            attaches: Consistency::from_message(config.attach_consistency_mode()),
        }
    }
}

impl Consistency {
    fn to_message(self) -> ConsistencyMode {
        match self {
            Self::Unset => ConsistencyMode::Unset,
            Self::Strict => ConsistencyMode::Strict,
            Self::Relaxed => ConsistencyMode::Relaxed,
        }
    }

    fn from_message(mode: ConsistencyMode) -> Self {
        match mode {
            ConsistencyMode::Unset => Self::Unset,
            ConsistencyMode::Strict => Self::Strict,
            ConsistencyMode::Relaxed => Self::Relaxed,
        }
    }
}

fn millis(period: Option<Duration>) -> u32 {
    period.map_or(0, |period| u32::try_from(period.as_millis()).unwrap_or(u32::MAX))
}

fn period(millis: u32) -> Option<Duration> {
    (millis > 0).then(|| Duration::from_millis(u64::from(millis)))
}
