//! Bounds of a symbolic dimension: the values that it may take. The compiler assumes them, and calls check them.
//!
//! TVM counterpart: the function attributes `tir_var_upper_bound` and `tir_var_lower_bound`.

use std::fmt;

/// The values that a symbolic dimension may take: from a minimum to a maximum, both included, with one remainder modulo
/// a number. There is at least one such value; minimum and maximum are such values themselves. Bounds that the same
/// values satisfy are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DimBound {
    min: i64,
    /// `i64::MAX` if there is no maximum.
    max: i64,
    modulus: i64,
    remainder: i64,
}

/// Why bounds are not those of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DimBoundError {
    /// The minimum is negative.
    #[error("the minimum {0} is negative, expected at least 0")]
    Negative(i64),
    /// The modulus is not positive, or the remainder is none of it.
    #[error("there is no remainder {remainder} modulo {modulus}")]
    Remainder {
        /// The modulus.
        modulus: i64,
        /// The remainder.
        remainder: i64,
    },
    /// No number is within the bounds.
    #[error("no number from {min} to {max} has remainder {remainder} modulo {modulus}")]
    Empty {
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
        /// The modulus.
        modulus: i64,
        /// The remainder.
        remainder: i64,
    },
}

impl DimBound {
    /// The bounds of a dimension about which nothing is said.
    pub const ANY: DimBound = DimBound { min: 0, max: i64::MAX, modulus: 1, remainder: 0 };

    /// The numbers from `min` to `max`; `i64::MAX` is no maximum.
    ///
    /// # Errors
    /// When `min` is negative, or there is no such number.
    pub fn between(min: i64, max: i64) -> Result<DimBound, DimBoundError> {
        DimBound::new(min, max, 1, 0)
    }

    /// The numbers from `min` to `max` that have `remainder` modulo `modulus`; `i64::MAX` is no maximum.
    ///
    /// # Errors
    /// When `min` is negative, `remainder` is not in `0..modulus`, or there is no such number.
    pub fn new(min: i64, max: i64, modulus: i64, remainder: i64) -> Result<DimBound, DimBoundError> {
        if min < 0 {
            return Err(DimBoundError::Negative(min));
        }
        if !(0..modulus).contains(&remainder) {
            return Err(DimBoundError::Remainder { modulus, remainder });
        }
        let up = (remainder - min).rem_euclid(modulus);
        let down = if max == i64::MAX {
            0
        } else {
            (i128::from(max) - i128::from(remainder)).rem_euclid(modulus.into())
        };
        match (min.checked_add(up), max.checked_sub(down as i64)) {
            (Some(value), Some(last)) if value == last => {
                Ok(DimBound { min: value, max: value, modulus: 1, remainder: 0 })
            }
            (Some(first), Some(last)) if first < last => {
                Ok(DimBound { min: first, max: last, modulus, remainder })
            }
            _ => Err(DimBoundError::Empty { min, max, modulus, remainder }),
        }
    }

    /// The smallest value.
    pub const fn min(&self) -> i64 {
        self.min
    }

    /// The largest value, if there is one.
    pub fn max(&self) -> Option<i64> {
        Some(self.max).filter(|&max| max != i64::MAX)
    }

    /// The modulus, 1 if every remainder is allowed, and the remainder.
    pub const fn modulo(&self) -> (i64, i64) {
        (self.modulus, self.remainder)
    }

    /// Minimum, maximum (`i64::MAX` if there is none), modulus and remainder: what [`new`](Self::new) takes.
    pub const fn parts(&self) -> [i64; 4] {
        [self.min, self.max, self.modulus, self.remainder]
    }

    /// True when the dimension may be `extent`.
    pub fn contains(&self, extent: i64) -> bool {
        (self.min..=self.max).contains(&extent) && extent % self.modulus == self.remainder
    }

    /// The bounds of the dimension `name` as `dims(..)` takes them: `n = 8..=64, n % 8 == 0`.
    pub fn source(&self, name: &str) -> String {
        let DimBound { modulus, remainder, .. } = self;
        let modulo = format!("{name} % {modulus} == {remainder}");
        match self.max() {
            None if *modulus > 1 && self.min == *remainder => modulo,
            _ if *modulus == 1 => format!("{name} = {}", self.range()),
            _ => format!("{name} = {}, {modulo}", self.range()),
        }
    }

    fn range(&self) -> String {
        match self.max() {
            Some(max) if max == self.min => max.to_string(),
            Some(max) => format!("{}..={max}", self.min),
            None => format!("{}..", self.min),
        }
    }
}

/// `1..=64`, `4..`, `8..=64 in steps of 8`
impl fmt::Display for DimBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.range())?;
        if self.modulus > 1 { write!(f, " in steps of {}", self.modulus) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_the_values_that_they_describe() {
        let cases = [
            (1, 64, 1, 0, "1..=64", "n = 1..=64"),
            (1, 64, 8, 0, "8..=64 in steps of 8", "n = 8..=64, n % 8 == 0"),
            (4, i64::MAX, 1, 0, "4..", "n = 4.."),
            (0, i64::MAX, 8, 3, "3.. in steps of 8", "n % 8 == 3"),
            (5, 5, 1, 0, "5", "n = 5"),
            (1, 9, 8, 0, "8", "n = 8"),
            (0, i64::MAX - 1, 1 << 40, 7, "", ""),
        ];
        for (min, max, modulus, remainder, text, source) in cases {
            let bound = DimBound::new(min, max, modulus, remainder).unwrap();
            if !text.is_empty() {
                assert_eq!((bound.to_string().as_str(), bound.source("n").as_str()), (text, source));
            }
            let holds = |it: i64| it >= min && it <= max && it % modulus == remainder;
            assert!((-20..200).all(|it| bound.contains(it) == holds(it)), "{bound}");
            assert!(bound.contains(bound.min()) && bound.max().is_none_or(|max| bound.contains(max)));
        }
        assert_eq!(DimBound::between(0, i64::MAX), Ok(DimBound::ANY));
    }

    #[test]
    fn bounds_without_values_are_errors() {
        use DimBoundError as E;
        let remainder = |modulus, remainder| E::Remainder { modulus, remainder };
        let empty = |min, max, modulus, remainder| E::Empty { min, max, modulus, remainder };
        let cases = [
            ((-1, 5, 1, 0), E::Negative(-1)),
            ((5, 3, 1, 0), empty(5, 3, 1, 0)),
            ((0, -1, 1, 0), empty(0, -1, 1, 0)),
            ((0, i64::MIN, 7, 3), empty(0, i64::MIN, 7, 3)),
            ((9, 15, 8, 0), empty(9, 15, 8, 0)),
            ((1, 2, 0, 0), remainder(0, 0)),
            ((1, 2, 4, 4), remainder(4, 4)),
            ((1, 2, i64::MIN, -1), remainder(i64::MIN, -1)),
            ((i64::MAX, i64::MAX, 2, 0), empty(i64::MAX, i64::MAX, 2, 0)),
        ];
        for ((min, max, modulus, remainder), error) in cases {
            assert_eq!(DimBound::new(min, max, modulus, remainder), Err(error));
        }
    }
}
