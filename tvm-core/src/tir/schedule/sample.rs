//! Sampling instructions: random choices that are recorded as decisions, so that a trace replays them or draws new ones.
//!
//! TVM counterpart: `tir/schedule/primitive/sampling.cc`.

use serde::{Deserialize, Serialize};

use super::{ScheduleError, ScheduleState};
use crate::ir::VarId;

/// What a sampling instruction drew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Decision {
    /// Position of the candidate.
    Index(usize),
    /// The factors, outermost first.
    Tile(Vec<i64>),
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Decision::Index(index) => write!(f, "{index}"),
            Decision::Tile(factors) => write!(f, "{factors:?}"),
        }
    }
}

const TILE: &str = "sample_perfect_tile";
const CATEGORICAL: &str = "sample_categorical";

/// Draws `n` factors whose product is the extent of the loop `var`, the innermost at most `max_innermost`; all such tilings
/// are equally likely, unless few of them meet the limit. A `given` decision is checked instead.
pub(super) fn perfect_tile(
    state: &ScheduleState,
    var: VarId,
    (n, max_innermost): (usize, i64),
    given: Option<&Decision>,
    random: &mut fastrand::Rng,
) -> Result<Vec<i64>, ScheduleError> {
    let error = |message: String| ScheduleError::argument(TILE, message);
    if n == 0 || max_innermost < 1 {
        return Err(error(format!(
            "expected a factor or more and a positive limit, got {n} and {max_innermost}"
        )));
    }
    let node = state.get_for(var)?;
    let Some(extent) = node.extent.as_int().filter(|&it| it > 0) else {
        let name = state.loop_name(var);
        let message = format!("the extent of loop `{name}` is not a positive constant");
        return Err(ScheduleError::illegal(TILE, message)
            .help("sample a factor with `sample_categorical`, and split by it and `None`"));
    };
    match given {
        Some(Decision::Tile(factors)) => {
            let product = factors.iter().try_fold(1_i64, |product, &factor| product.checked_mul(factor));
            let fits =
                factors.iter().all(|&it| it > 0) && factors.last().is_some_and(|&it| it <= max_innermost);
            if factors.len() == n && fits && product == Some(extent) {
                return Ok(factors.clone());
            }
            let expected = format!("{n} factors of {extent}, the innermost at most {max_innermost}");
            Err(error(format!("the decision is {expected}, got {factors:?}")))
        }
        Some(Decision::Index(_)) => Err(error("the decision is a list of factors".into())),
        None => {
            let primes = prime_factors(extent);
            for _ in 0..TRIES {
                let factors = tiling(&primes, n, random);
                if factors[n - 1] <= max_innermost {
                    return Ok(factors);
                }
            }
            // The innermost factor first, then the others.
            let inner = random_divisor(&primes, max_innermost, random);
            if n == 1 {
                return Err(error(format!(
                    "the only factor is {extent}, more than the limit {max_innermost}"
                )));
            }
            let mut factors = tiling(&prime_factors(extent / inner), n - 1, random);
            factors.push(inner);
            Ok(factors)
        }
    }
}

/// Tilings that are drawn before the innermost factor is drawn on its own.
const TRIES: usize = 64;

/// The primes that `extent` is the product of, with their exponents.
fn prime_factors(mut extent: i64) -> Vec<(i64, usize)> {
    let mut primes = Vec::new();
    let mut prime = 2;
    while prime <= extent / prime {
        let mut exponent = 0;
        while extent % prime == 0 {
            extent /= prime;
            exponent += 1;
        }
        if exponent > 0 {
            primes.push((prime, exponent));
        }
        prime += 1;
    }
    if extent > 1 {
        primes.push((extent, 1));
    }
    primes
}

/// Each prime's exponent is distributed over the `n` factors, all distributions equally likely.
fn tiling(primes: &[(i64, usize)], n: usize, random: &mut fastrand::Rng) -> Vec<i64> {
    let mut factors = vec![1; n];
    for &(prime, exponent) in primes {
        // `n - 1` bars among `exponent` stars.
        let (mut stars, mut bars, mut at) = (exponent, n - 1, 0);
        while stars + bars > 0 {
            if random.usize(..stars + bars) < bars {
                (bars, at) = (bars - 1, at + 1);
            } else {
                factors[at] *= prime;
                stars -= 1;
            }
        }
    }
    factors
}

/// A product of some of `primes` that is at most `limit`.
fn random_divisor(primes: &[(i64, usize)], limit: i64, random: &mut fastrand::Rng) -> i64 {
    let mut all: Vec<i64> =
        primes.iter().flat_map(|&(prime, exponent)| std::iter::repeat_n(prime, exponent)).collect();
    random.shuffle(&mut all);
    let mut divisor = 1;
    for prime in all {
        if prime <= limit / divisor && random.bool() {
            divisor *= prime;
        }
    }
    divisor
}

/// Draws the position of one of `candidates`, by their `weights`. A `given` decision is checked instead.
pub(super) fn categorical(
    (candidates, weights): (&[i64], &[f64]),
    given: Option<&Decision>,
    random: &mut fastrand::Rng,
) -> Result<usize, ScheduleError> {
    let error = |message: String| ScheduleError::argument(CATEGORICAL, message);
    let total: f64 = weights.iter().sum();
    let usable = weights.iter().all(|&it| it >= 0.0) && total > 0.0 && total.is_finite();
    if candidates.len() != weights.len() || !usable {
        let message = "expected as many weights as candidates, none negative and not all 0";
        return Err(error(format!("{message}, got {candidates:?} and {weights:?}")));
    }
    match given {
        Some(Decision::Index(index)) if *index < candidates.len() => Ok(*index),
        Some(other) => {
            Err(error(format!("the decision is a position below {}, got {other:?}", candidates.len())))
        }
        None => {
            let mut rest = random.f64() * total;
            let drawn = weights.iter().position(|&weight| {
                rest -= weight;
                rest < 0.0
            });
            // Rounding may leave a rest; the last candidate that can be drawn takes it.
            let last = || weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0);
            Ok(drawn.unwrap_or_else(last))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tilings_are_drawn() {
        let mut random = fastrand::Rng::with_seed(7);
        for (extent, n, all) in [(1, 3, 1), (12, 2, 6), (16, 3, 15), (7, 2, 2), (36, 3, 36)] {
            let primes = prime_factors(extent);
            let mut counts = std::collections::BTreeMap::<Vec<i64>, usize>::new();
            for _ in 0..200 * all {
                let factors = tiling(&primes, n, &mut random);
                assert_eq!(factors.iter().product::<i64>(), extent);
                *counts.entry(factors).or_default() += 1;
            }
            assert_eq!(counts.len(), all, "{extent} in {n}");
            assert!(counts.values().all(|count| (100..300).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn weights_are_kept() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut counts = [0; 4];
        for _ in 0..4000 {
            counts[categorical((&[1, 2, 3, 4], &[1.0, 0.0, 2.0, 1.0]), None, &mut random).unwrap()] += 1;
        }
        assert!(counts[1] == 0 && (1800..2200).contains(&counts[2]), "{counts:?}");
        for weights in [&[1.0][..], &[0.0, 0.0], &[-1.0, 2.0], &[f64::NAN, 1.0], &[f64::INFINITY, 1.0]] {
            assert!(categorical((&[1, 2], weights), None, &mut random).is_err(), "{weights:?}");
        }
    }
}
