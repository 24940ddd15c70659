//! Counters of a client and of a server's shard: a snapshot for programs, Prometheus' text for everybody else.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes a struct of counters, the snapshot of it, and its text; each line is a counter with what it counts.
macro_rules! counters {
    ($(#[$about:meta])* $live:ident, $snapshot:ident, $prefix:literal: $($(#[doc = $help:literal])+ $name:ident,)+) => {
        #[derive(Debug, Default)]
        pub(crate) struct $live {
            $(pub(crate) $name: Counter,)+
        }

        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $snapshot {
            $($(#[doc = $help])+ pub $name: u64,)+
        }

        impl $live {
            pub(crate) fn snapshot(&self) -> $snapshot {
                $snapshot { $($name: self.$name.get(),)+ }
            }
        }

        impl $snapshot {
            /// As Prometheus reads it.
            #[must_use]
            pub fn to_prometheus(&self) -> String {
                let mut text = String::new();
                $(
                    let name = concat!("shardine_kit_", $prefix, "_", stringify!($name), "_total");
                    // Writing to a string does not fail.
                    let _ = write!(text, "# HELP {name}{}\n# TYPE {name} counter\n{name} {}\n", concat!($($help),+), self.$name);
                )+
                text
            }

            /// Those of several, told apart by a label.
            #[must_use]
            pub fn to_prometheus_by(label: &str, all: &[(String, Self)]) -> String {
                let mut text = String::new();
                $(
                    let name = concat!("shardine_kit_", $prefix, "_", stringify!($name), "_total");
                    let _ = write!(text, "# HELP {name}{}\n# TYPE {name} counter\n", concat!($($help),+));
                    for (value, counters) in all {
                        let _ = writeln!(text, "{name}{{{label}=\"{}\"}} {}", escaped(value), counters.$name);
                    }
                )+
                text
            }
        }
    };
}

/// As a label's value wants it: these three, and nothing else that Rust would escape.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    /// What a client has done so far.
    ClientCounters, ClientMetrics, "client":
    /// Calls of `get` in any form.
    calls,
    /// Calls that ended without all values.
    failed_calls,
    /// Requests to hosts, without pings: once each has ended, the sum of answers, refusals, errors, timeouts, cancelled and late replies.
    requests,
    /// Replies of hosts that serve the keys, in time.
    answers,
    /// Requests that failed, in time.
    errors,
    /// Second requests to a faster host.
    hedges,
    /// Second requests that the budget had no room for.
    forgone_hedges,
    /// Requests for what had failed that the budget had no room for.
    forgone_retries,
    /// Requests for what had failed, to the same host or to another.
    retries,
    /// Requests that were not answered in time.
    timeouts,
    /// Requests that were taken back: somebody else had answered, or the call was over.
    cancelled,
    /// Searches for keys that nobody served.
    searches,
    /// Replies of hosts that do not serve the keys any more.
    refusals,
    /// Values that differ from what another replica had answered first.
    divergent_replies,
    /// Replies, failures among them, that came after their call had ended.
    late_replies,
    /// Requests without keys that ask what a host serves.
    pings,
    /// Pings without a reply.
    failed_pings,
    /// Times that the list of hosts could not be read.
    failed_lists,
    /// Changes of the map.
    map_changes,
}

counters! {
    /// What came of a client's requests to one host.
    HostCounters, HostMetrics, "host":
    /// Requests, without pings.
    requests,
    /// Replies with all keys matched, in time.
    answers,
    /// Replies of a host that does not serve the keys any more.
    refusals,
    /// Requests that failed, in time.
    errors,
    /// Requests that were not answered in time.
    timeouts,
    /// Requests that were taken back.
    cancelled,
    /// Replies, failures among them, that came after their call had ended.
    late_replies,
}

counters! {
    /// What a shard's guard has seen so far.
    ShardCounters, ShardMetrics, "shard":
    /// Requests, pings among them.
    gets,
    /// Keys that were answered.
    keys,
    /// Requests with keys of other hosts.
    refusals,
    /// Requests whose shard went away while they were answered.
    late_refusals,
    /// Requests that the service could not answer.
    errors,
    /// Requests whose caller did not wait for the end.
    cancelled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_as_prometheus_reads_them() {
        let live = ClientCounters::default();
        live.calls.add(3);

        let text = live.snapshot().to_prometheus();

        let expected = "# HELP shardine_kit_client_calls_total Calls of `get` in any form.\n\
                        # TYPE shardine_kit_client_calls_total counter\nshardine_kit_client_calls_total 3\n";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_hosts_name_is_told_as_a_label() {
        let hosts = [
            ("a:1".to_owned(), HostMetrics { requests: 2, ..HostMetrics::default() }),
            ("\\ \"\n\t".into(), HostMetrics::default()),
        ];

        let text = HostMetrics::to_prometheus_by("host", &hosts);

        let expected = "# HELP shardine_kit_host_requests_total Requests, without pings.\n\
                        # TYPE shardine_kit_host_requests_total counter\n\
                        shardine_kit_host_requests_total{host=\"a:1\"} 2\n\
                        shardine_kit_host_requests_total{host=\"\\\\ \\\"\\n\t\"} 0\n";
        assert!(text.starts_with(expected), "{text}");
    }
}
