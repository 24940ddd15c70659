//! A whole run: decides what is measured, and says it as a Markdown table or as JSON.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    args::{Options, Work},
    behind, cluster, coord, kit, machine, memory,
    procfs::Bystanders,
    restart,
    row::{Row, Target, Unit, median},
    sql, throughput,
    workplace::Workplace,
};

/// The rows of one run and the facts around them.
pub struct Report {
    facts: Vec<(&'static str, String)>,
    subject: &'static str,
    quick: bool,
    rows: Vec<Row>,
}

impl Report {
    /// Measures everything that `options` ask for, row group after row group.
    pub fn measure(options: &Options) -> Result<Report> {
        let options = options.effective();
        let place = Workplace::open(options.dir.as_deref())?;
        let mut facts = machine::facts(&options, place.path());
        let bystanders = Bystanders::watch()?;
        let mut rows = Vec::new();
        for work in &options.only {
            rows.extend(match work {
                Work::Hget => throughput::hget(&place, &options)?,
                Work::Hset => throughput::hset(&place, &options)?,
                Work::Typed => throughput::typed(&place, &options)?,
                Work::Large => throughput::large(&place, &options)?,
                Work::Groups => throughput::groups(&place, &options)?,
                Work::Behind => behind::measure(&place, &options)?,
                Work::Memory => memory::measure(&place, &options)?,
                Work::Restart => restart::measure(&place, &options)?,
                Work::Sql => sql::measure(&place, &options)?,
                Work::Coord => coord::measure(&place, &options)?,
                Work::Kit => kit::measure(&options)?,
                Work::Cluster => cluster::measure(&place, &options)?,
                Work::Cuts => cluster::measure_cuts(&place, &options)?,
            });
        }
        facts.push(("cores taken by others during the run", format!("{:.2}", bystanders.cores_taken()?)));
        Ok(Report { facts, subject: options.subject.name(), quick: options.quick, rows })
    }

    pub fn all_targets_met(&self) -> bool {
        self.rows.iter().all(|row| row.is_met() != Some(false))
    }

    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.facts {
            text += &format!("- {name}: {value}\n");
        }
        if self.quick {
            text += "\nA quick run: shows that everything works, proves nothing about speed.\n";
        }
        text += &format!("\n| work | against | reference | {} | ratio | rounds | target | |\n", self.subject);
        text += "|---|---|---:|---:|---:|---:|---:|---|\n";
        for row in &self.rows {
            text += &markdown(row);
        }
        text
    }

    pub fn to_json(&self) -> Value {
        let facts: serde_json::Map<_, _> =
            self.facts.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let rows: Vec<Value> = self.rows.iter().map(json_row).collect();
        json!({ "machine": facts, "subject": self.subject, "quick": self.quick, "rows": rows })
    }
}

fn markdown(row: &Row) -> String {
    let (low, high) = row.spread();
    let target = match row.target {
        Target::AtLeast(bound) => format!(">= {bound}x"),
        Target::AtMost(bound) => format!("<= {bound}x"),
        Target::None => "-".to_owned(),
    };
    let verdict = match row.is_met() {
        Some(true) => "pass",
        Some(false) => "FAIL",
        None => "",
    };
    let (reference, subject) = (amount(row.unit, median(&row.reference)), amount(row.unit, median(&row.subject)));
    let (work, against, ratio) = (&row.work, &row.against, row.ratio());
    format!(
        "| {work} | {against} | {reference} | {subject} | {ratio:.2}x | {low:.2}-{high:.2} | {target} | {verdict} |\n"
    )
}

fn amount(unit: Unit, value: f64) -> String {
    match unit {
        Unit::OpsPerSecond => format!("{}/s", thousands(value)),
        Unit::RowsPerSecond => format!("{} rows/s", thousands(value)),
        Unit::Requests => format!("{} requests", thousands(value)),
        Unit::Rows => format!("{} rows", thousands(value)),
        Unit::MicrosPerOp => format!("{value:.2} µs"),
        Unit::MicrosPerSecond => format!("{} µs a second", thousands(value)),
        Unit::BytesPerRecord => format!("{value:.1} B"),
        Unit::Megabytes => format!("{value:.1} MB"),
        Unit::Millis => format!("{} ms", thousands(value)),
        Unit::FineMillis => format!("{value:.3} ms"),
    }
}

/// A whole number with a comma between groups of three digits.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

fn json_row(row: &Row) -> Value {
    let (low, high) = row.spread();
    let (unit, target) = (format!("{:?}", row.unit), format!("{:?}", row.target));
    json!({
        "work": row.work, "against": row.against, "unit": unit, "target": target, "met": row.is_met(),
        "ratio": row.ratio(), "ratio_low": low, "ratio_high": high,
        "reference_median": median(&row.reference), "subject_median": median(&row.subject),
        "reference": row.reference, "subject": row.subject,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(0.0), "0");
    }

    #[test]
    fn a_row_tells_medians_ratio_and_verdict() {
        let row = Row {
            work: "HGET".into(),
            against: "Redis".into(),
            unit: Unit::OpsPerSecond,
            target: Target::AtLeast(1.3),
            reference: vec![1000.0, 1100.0, 900.0],
            subject: vec![1200.0, 1210.0, 990.0],
        };

        let line = markdown(&row);

        assert_eq!(line, "| HGET | Redis | 1,000/s | 1,200/s | 1.20x | 1.10-1.20 | >= 1.3x | FAIL |\n");
    }
}
