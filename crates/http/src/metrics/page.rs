//! The text form of Prometheus: families with help and type, and their lines.

use std::fmt::{Display, Write};

use shardine_router::{HISTOGRAM_BOUNDS_US, HistogramStatus};

use super::Gauge;

#[derive(Default)]
pub(super) struct Page {
    pub text: String,
    /// The family that lines are of.
    family: String,
}

impl Page {
    pub fn one(&mut self, name: &str, kind: &str, help: &str, labels: &str, value: impl Display) {
        self.family(name, kind, help);
        self.line(labels, value);
    }

    /// Begins a family; the one that is open already goes on.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        if self.family != name {
            name.clone_into(&mut self.family);
            writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes every line");
        }
    }

    pub fn line(&mut self, labels: &str, value: impl Display) {
        writeln!(self.text, "{}{labels} {value}", self.family).expect("a string takes every line");
    }

    /// One family for each measure, with a line for each thing measured.
    pub fn table<T>(&mut self, kind: &str, gauges: &[Gauge<T>], things: &[T], labels: impl Fn(&T) -> String) {
        for (name, help, read) in gauges {
            self.family(name, kind, help);
            for thing in things {
                self.line(&labels(thing), read(thing));
            }
        }
    }

    pub fn histogram(&mut self, one: &HistogramStatus) {
        let labels: Vec<String> = one.labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let counts = one.histogram.cumulative();
        let bounds = HISTOGRAM_BOUNDS_US.iter().map(|us| (*us as f64 / 1e6).to_string()).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(counts) {
            let mut labels = labels.clone();
            labels.push(format!("le=\"{bound}\""));
            self.part("_bucket", &labels, count);
        }
        self.part("_sum", &labels, one.histogram.sum_us() as f64 / 1e6);
        self.part("_count", &labels, counts[counts.len() - 1]);
    }

    fn part(&mut self, suffix: &str, labels: &[String], value: impl Display) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        writeln!(self.text, "{}{suffix}{labels} {value}", self.family).expect("a string takes every line");
    }
}

/// A value between quotes.
pub(super) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
