//! Settings of a coordination node: kept as they were sent, and what they mean where they are used.

use shardine_model::codec::{DecodeError, Reader, put_varint};

const SELF_CHECK_MS_MIN: u64 = 500;

/// How much longer the grace period is than the self-check, at least: a mark must find its way through the log in it.
const GRACE_OVER_CHECK_MS: u64 = 1_000;

/// No node has a shorter grace period.
pub(crate) const GRACE_MS_MIN: u64 = SELF_CHECK_MS_MIN + GRACE_OVER_CHECK_MS;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    #[default]
    Unset,
    Strict,
    Relaxed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountersMode {
    #[default]
    Unset,
    Aggregated,
    Detailed,
}

/// What a node was told, with zeros where it was told nothing (coordination 16, 17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub self_check_period_ms: u32,
    pub session_grace_period_ms: u32,
    pub read_consistency: Consistency,
    pub attach_consistency: Consistency,
    /// Carried through for the rate limiter.
    pub rate_limiter_counters: CountersMode,
}

impl Config {
    /// How often the leader proves to itself that it still leads.
    #[must_use]
    pub fn self_check_ms(&self) -> u64 {
        match self.self_check_period_ms {
            0 => 1_000,
            ms => u64::from(ms).clamp(SELF_CHECK_MS_MIN, 10_000),
        }
    }

    /// How much longer sessions live after a change of leader. Longer than the self-check, or a leader that has been replaced
    /// would notice too late.
    #[must_use]
    pub fn grace_ms(&self) -> u64 {
        let wanted = match self.session_grace_period_ms {
            0 => 10_000,
            ms => u64::from(ms).min(30_000),
        };
        wanted.max(self.self_check_ms() + GRACE_OVER_CHECK_MS)
    }

    #[must_use]
    pub fn reads_are_strict(&self) -> bool {
        self.read_consistency == Consistency::Strict
    }

    #[must_use]
    pub fn attaches_are_strict(&self) -> bool {
        self.attach_consistency != Consistency::Relaxed
    }

    /// Takes over what `change` says; what it leaves open stays (coordination 20).
    pub(crate) fn merge(&mut self, change: &Self) {
        let replace = |old: &mut u32, new: u32| *old = if new == 0 { *old } else { new };
        replace(&mut self.self_check_period_ms, change.self_check_period_ms);
        replace(&mut self.session_grace_period_ms, change.session_grace_period_ms);
        if change.read_consistency != Consistency::Unset {
            self.read_consistency = change.read_consistency;
        }
        if change.attach_consistency != Consistency::Unset {
            self.attach_consistency = change.attach_consistency;
        }
        if change.rate_limiter_counters != CountersMode::Unset {
            self.rate_limiter_counters = change.rate_limiter_counters;
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.self_check_period_ms));
        put_varint(out, u64::from(self.session_grace_period_ms));
        out.push(self.read_consistency as u8);
        out.push(self.attach_consistency as u8);
        out.push(self.rate_limiter_counters as u8);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            self_check_period_ms: read_u32(reader, "self-check period")?,
            session_grace_period_ms: read_u32(reader, "grace period")?,
            read_consistency: read_consistency(reader)?,
            attach_consistency: read_consistency(reader)?,
            rate_limiter_counters: match reader.u8("counters mode")? {
                0 => CountersMode::Unset,
                1 => CountersMode::Aggregated,
                2 => CountersMode::Detailed,
                value => return Err(DecodeError::Unknown { what: "counters mode", value: u64::from(value) }),
            },
        })
    }
}

fn read_u32(reader: &mut Reader<'_>, what: &'static str) -> Result<u32, DecodeError> {
    let value = reader.varint(what)?;
    u32::try_from(value).map_err(|_| DecodeError::Unknown { what, value })
}

fn read_consistency(reader: &mut Reader<'_>) -> Result<Consistency, DecodeError> {
    match reader.u8("consistency mode")? {
        0 => Ok(Consistency::Unset),
        1 => Ok(Consistency::Strict),
        2 => Ok(Consistency::Relaxed),
        value => Err(DecodeError::Unknown { what: "consistency mode", value: u64::from(value) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// coordination 16: what is stored is not what is used.
    #[test]
    fn periods_are_clamped_where_they_are_used() {
        let config = |self_check_period_ms, session_grace_period_ms| Config {
            self_check_period_ms,
            session_grace_period_ms,
            ..Config::default()
        };

        assert_eq!((config(0, 0).self_check_ms(), config(0, 0).grace_ms()), (1_000, 10_000));
        assert_eq!((config(10, 1).self_check_ms(), config(10, 1).grace_ms()), (500, 1_500));
        assert_eq!(config(60_000, 0).self_check_ms(), 10_000);
        assert_eq!(config(60_000, 0).grace_ms(), 11_000);
        assert_eq!(config(0, 600_000).grace_ms(), 30_000);
    }
}
