//! Medians, percentiles and means of times.

/// The value below which the share `q` of the values lies; `None` without values.
pub(crate) fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = q * (sorted.len().checked_sub(1)? as f64);
    let (low, high) = (*sorted.get(at.floor() as usize)?, *sorted.get(at.ceil() as usize)?);
    Some(low + (high - low) * at.fract())
}

/// The median; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The geometric mean of positive values; `None` without values.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|it| it.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

/// Results whose values are all smaller, as probabilities of what is not there, are compared as if this was the largest: they are
/// what remains of sums of larger terms, whose rounding is all that differs.
const SMALL: f32 = 1e-4;

/// The largest difference by the largest value of `expected`; `None` for different lengths or values that are not finite.
pub(crate) fn difference(found: &[f32], expected: &[f32]) -> Option<f64> {
    let finite = |values: &[f32]| values.iter().all(|it| it.is_finite());
    if found.len() != expected.len() || !finite(found) || !finite(expected) {
        return None;
    }
    let largest = expected.iter().fold(SMALL, |most, it| most.max(it.abs()));
    let apart = found.iter().zip(expected).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    Some(f64::from(apart / largest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.95), Some(9.5));
        assert_eq!(quantile(&[7.0], 0.95), Some(7.0));
    }

    #[test]
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[0.8, 0.8, 0.8]).unwrap() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn results_are_compared_by_their_largest_value() {
        assert_eq!(difference(&[1.0, 2.0], &[1.0, 4.0]), Some(0.5));
        assert_eq!(difference(&[1.0], &[1.0, 4.0]), None);
        assert_eq!(difference(&[f32::NAN], &[1.0]), None);
        assert!(difference(&[3e-7], &[2e-7]).unwrap() < 2e-3 && difference(&[3e-6], &[2e-6]).unwrap() > 2e-3);
    }
}
