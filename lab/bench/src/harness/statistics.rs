//! Order statistics of samples: robust against the odd interrupted run, unlike a mean.

/// The median: the middle sample, or the mean of the two middle ones. `NaN` for no samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The median over rounds of `subject[i] / reference[i]`.
///
/// `None` when there is no round in which both are there and the reference is not zero.
pub fn pairwise_ratio(subject: &[f64], reference: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = subject
        .iter()
        .zip(reference)
        .map(|(subject, reference)| subject / reference)
        .filter(|ratio| ratio.is_finite())
        .collect();
    (!ratios.is_empty()).then(|| median(&ratios))
}

/// The median over rounds of `subject[i] - reference[i]`; `None` without a round.
pub fn pairwise_difference(subject: &[f64], reference: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = subject
        .iter()
        .zip(reference)
        .map(|(subject, reference)| subject - reference)
        .collect();
    (!differences.is_empty()).then(|| median(&differences))
}

/// The value to six significant digits: more are noise, and make files hard to read.
pub(crate) fn six_digits(value: f64) -> f64 {
    // A decimal of six digits is always a number.
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Median, extremes and number of a set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// The number of samples.
    pub runs: usize,
}

impl Summary {
    /// Summarises samples; all figures are `NaN` when there are none.
    pub fn of(samples: &[f64]) -> Self {
        Summary {
            median: median(samples),
            min: samples.iter().copied().fold(f64::NAN, f64::min),
            max: samples.iter().copied().fold(f64::NAN, f64::max),
            runs: samples.len(),
        }
    }

    /// The spread: the distance between the extremes as a fraction of the median.
    pub fn spread(&self) -> f64 {
        if self.max == self.min {
            0.0
        } else {
            (self.max - self.min) / self.median
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_the_sorted_samples() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[9.0, 1.0, 5.0, 7.0]), 6.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn one_outlier_moves_the_maximum_and_nothing_else() {
        let quiet = Summary::of(&[10.0, 11.0, 12.0, 11.0, 10.0]);
        let noisy = Summary::of(&[10.0, 11.0, 999.0, 11.0, 10.0]);
        assert_eq!(quiet.median, noisy.median);
        assert_eq!(quiet.min, noisy.min);
        assert_eq!(noisy.max, 999.0);
        assert_eq!(noisy.runs, 5);
        assert!((quiet.spread() - 2.0 / 11.0).abs() < 1e-12);
    }

    #[test]
    fn equal_samples_have_no_spread_even_at_zero() {
        assert_eq!(Summary::of(&[0.0, 0.0]).spread(), 0.0);
    }

    #[test]
    fn the_ratio_is_taken_pair_by_pair() {
        // A drift of the machine by ten times hits both sides of each pair.
        let ratio = pairwise_ratio(&[2.0, 20.0, 200.0], &[1.0, 10.0, 100.0]);
        assert_eq!(ratio, Some(2.0));
        // The quotient of the medians would be 3, the median of the quotients is 1.
        assert_eq!(
            pairwise_ratio(&[3.0, 3.0, 9.0], &[3.0, 1.0, 9.0]),
            Some(1.0)
        );
    }

    #[test]
    fn six_digits_are_kept() {
        assert_eq!(six_digits(103.123_456_789), 103.123);
        assert_eq!(six_digits(0.000_012_345_678_9), 0.000_012_345_7);
        assert_eq!(six_digits(123_456_789.0), 123_457_000.0);
        assert_eq!(six_digits(0.0), 0.0);
        assert!(six_digits(f64::NAN).is_nan());
    }

    #[test]
    fn a_reference_of_zero_gives_no_ratio() {
        assert_eq!(pairwise_ratio(&[1.0], &[0.0]), None);
        assert_eq!(pairwise_ratio(&[1.0], &[]), None);
    }
}
