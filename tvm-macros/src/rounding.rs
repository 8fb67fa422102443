//! Decimal literals whose nearest `f64` is halfway between two values of a narrower type: rounding it again would be wrong.
//!
//! The neighbouring `f64` that is *rounded to odd* (of the two around the decimal, the one whose last bit is 1) shows on
//! which side the decimal lies, so it rounds to every narrower type as the decimal does.

use std::cmp::Ordering;

/// Halfway points of narrower types have at most 25 significant bits: the other bits of their `f64` are 0.
const LOW_BITS: u64 = (1 << 27) - 1;
/// Maximum number of significant decimal digits of an `f64`.
const DIGITS: usize = 767;

/// The `f64` that rounds to narrower types as the decimal `text` does, if `nearest`, the `f64` nearest to it, may not.
pub(crate) fn rounded_to_odd(text: &str, nearest: f64) -> Option<f64> {
    let bits = nearest.to_bits();
    if bits & LOW_BITS != 0 || !nearest.is_finite() || nearest == 0.0 {
        return None;
    }
    let exact = format!("{:.*e}", DIGITS, nearest);
    match compare(&normal(text)?, &normal(&exact)?) {
        Ordering::Less => Some(f64::from_bits(bits - 1)),
        Ordering::Equal => None,
        Ordering::Greater => Some(f64::from_bits(bits + 1)),
    }
}

/// The digits without leading and trailing zeros, and the exponent: the value is 0.digits times ten to its power.
fn normal(text: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
        None => (text, 0i64),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let point = exponent.checked_add(whole.len() as i64)?.checked_sub(zeros as i64)?;
    Some((digits.trim_matches('0').to_string(), point))
}

/// Compares two positive decimals.
fn compare(a: &(String, i64), b: &(String, i64)) -> Ordering {
    a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrower_types_round_as_the_decimal_does() {
        let odd = |text: &str| {
            let nearest: f64 = text.parse().unwrap();
            rounded_to_odd(text, nearest).unwrap_or(nearest)
        };
        // Halfway between 1 and the next `f32`, and a little beside it.
        for text in [
            "1.000000059604644775390625",
            "1.00000005960464477539062500000001",
            "1.00000005960464477539062499999999",
            "100000005960464477539062499999999e-32",
            "0.000000000000000000100000005960464477539062500000001e19",
            "16777217.000000000000001",
            "16777217",
            "0.1",
            "3.4028235e38",
            "7.006492321624085354618e-46",
            "7.0064923216240853546186479164495806564013097093825788587853e-46",
            "7.0064923216240853546186479164495806564013097093825788587850e-46",
        ] {
            assert_eq!(odd(text) as f32, text.parse::<f32>().unwrap(), "{text}");
        }
        assert_eq!(rounded_to_odd("1.5", 1.5), None);
        assert_eq!(rounded_to_odd("0.0", 0.0), None);
    }
}
