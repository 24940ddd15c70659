//! What came out of it: rates and percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value as Json, json};

use super::BenchArgs;
use super::mix::Kind;
use crate::show::{self, Output};

const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Latencies in microseconds, by kind.
pub struct Tally {
    gets: Histogram<u64>,
    sets: Histogram<u64>,
    pub errors: u64,
    pub first_error: Option<String>,
}

impl Default for Tally {
    fn default() -> Self {
        // Three digits, as far as a minute; what takes longer counts as a minute.
        let empty = || Histogram::new_with_bounds(1, 60_000_000, 3).expect("these bounds are in order");
        Self { gets: empty(), sets: empty(), errors: 0, first_error: None }
    }
}

impl Tally {
    pub fn note(&mut self, kind: Kind, took: Duration, error: Option<String>) {
        let histogram = match kind {
            Kind::Get => &mut self.gets,
            Kind::Set => &mut self.sets,
        };
        histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1));
        if error.is_some() {
            self.errors += 1;
            self.first_error = self.first_error.take().or(error);
        }
    }

    pub fn add(&mut self, other: Self) {
        self.gets.add(other.gets).expect("both have the same bounds");
        self.sets.add(other.sets).expect("both have the same bounds");
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }

    pub fn is_clean(&self) -> bool {
        self.errors == 0
    }
}

pub fn print(args: &BenchArgs, tally: &Tally, took: Duration, output: Output) {
    let rate = |histogram: &Histogram<u64>| histogram.len() as f64 / took.as_secs_f64();
    let kinds = [("get", &tally.gets), ("set", &tally.sets)];
    output.print(
        || {
            let rows = kinds.iter().filter(|(_, histogram)| !histogram.is_empty()).map(|(name, histogram)| {
                let at = |percent: f64| shown(histogram.value_at_percentile(percent));
                let [p50, p90, p99, p999] = PERCENTILES.map(|(_, percent)| at(percent));
                let rate = format!("{:.0}", rate(histogram));
                [(*name).to_owned(), histogram.len().to_string(), rate, p50, p90, p99, p999, shown(histogram.max())]
            });
            let header = ["COMMAND", "COUNT", "PER SECOND", "P50", "P90", "P99", "P99.9", "MAX"];
            format!(
                "{} connections, pipeline {}, {} keys, {:.1} s\n{}",
                args.connections,
                args.pipeline,
                args.keys,
                took.as_secs_f64(),
                show::table(header, rows.collect())
            )
        },
        || {
            let commands = kinds.iter().map(|(name, histogram)| {
                let latency = PERCENTILES
                    .iter()
                    .map(|(name, percent)| ((*name).to_owned(), json!(histogram.value_at_percentile(*percent))));
                let mut latency: serde_json::Map<String, Json> = latency.collect();
                latency.insert("max".into(), json!(histogram.max()));
                let line = json!({ "count": histogram.len(), "per_second": rate(histogram), "latency_us": latency });
                ((*name).to_owned(), line)
            });
            json!({
                "connections": args.connections,
                "pipeline": args.pipeline,
                "keys": args.keys,
                "seconds": took.as_secs_f64(),
                "commands": commands.collect::<serde_json::Map<String, Json>>(),
                "errors": tally.errors,
            })
        },
    );
}

fn shown(microseconds: u64) -> String {
    if microseconds < 1_000 { format!("{microseconds} us") } else { format!("{:.2} ms", microseconds as f64 / 1_000.0) }
}
