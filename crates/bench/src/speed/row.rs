//! One row of the table: what was measured on both servers and what had to come out. Pure arithmetic.

/// What the ratio subject / reference has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// Told for the reader, judged by nobody.
    None,
}

/// What the measurements count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    OpsPerSecond,
    RowsPerSecond,
    Rows,
    Requests,
    MicrosPerOp,
    MicrosPerSecond,
    BytesPerRecord,
    Megabytes,
    Millis,
    /// With three digits behind the point.
    FineMillis,
}

/// One row. The n-th measurements of both sides were made next to each other.
#[derive(Clone, Debug)]
pub struct Row {
    pub work: String,
    pub against: String,
    pub unit: Unit,
    pub target: Target,
    pub reference: Vec<f64>,
    pub subject: Vec<f64>,
}

impl Row {
    /// The subject's median over the reference's median.
    pub fn ratio(&self) -> f64 {
        median(&self.subject) / median(&self.reference)
    }

    /// The smallest and the largest ratio of single rounds: how much to trust [`Row::ratio`].
    pub fn spread(&self) -> (f64, f64) {
        let ratios = self.subject.iter().zip(&self.reference).map(|(subject, reference)| subject / reference);
        ratios.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), ratio| (low.min(ratio), high.max(ratio)))
    }

    /// Whether the target is met; nothing when there is none.
    pub fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(bound) => Some(self.ratio() >= bound),
            Target::AtMost(bound) => Some(self.ratio() <= bound),
            Target::None => None,
        }
    }
}

/// The middle of the values; the mean of the two in the middle when their number is even. Not a number when there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: Target, reference: &[f64], subject: &[f64]) -> Row {
        let (work, against) = ("HGET".to_owned(), "Redis".to_owned());
        Row {
            work,
            against,
            unit: Unit::OpsPerSecond,
            target,
            reference: reference.to_vec(),
            subject: subject.to_vec(),
        }
    }

    #[test]
    fn one_wild_round_does_not_move_the_ratio() {
        let row = row(Target::AtLeast(1.5), &[100.0, 100.0, 5.0], &[150.0, 150.0, 150.0]);

        assert_eq!(row.ratio(), 1.5);
        assert_eq!(row.is_met(), Some(true));
        assert_eq!(row.spread(), (1.5, 30.0));
    }

    #[test]
    fn a_cost_must_stay_below_its_bound() {
        assert_eq!(row(Target::AtMost(1.0), &[2.0], &[2.1]).is_met(), Some(false));
        assert_eq!(row(Target::AtMost(1.0), &[2.0], &[2.0]).is_met(), Some(true));
        assert_eq!(row(Target::None, &[2.0], &[9.0]).is_met(), None);
    }

    #[test]
    fn an_even_number_of_values_has_its_median_between_two() {
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
