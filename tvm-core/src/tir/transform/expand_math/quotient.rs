//! Quotients by constants, as products with the reciprocal.
//!
//! A vector of quotients takes several times as long as two products, one of them fused with a sum. Source: Brisebarre, Muller and Raina,
//! "Accelerating correctly rounded floating-point division when the divisor is known in advance", 2004.

use tvm_runtime::DataType;

use super::narrow::number;
use super::steps::{Cpu, Steps};
use crate::tir::{Binary, BinaryOp, Intrinsic, PrimExpr};

/// `quotient` by a constant, as products with the same result; `None` if there are none.
pub(super) fn by_constant(quotient: &Binary, cpu: Cpu) -> Option<PrimExpr> {
    let of_f32 = quotient.a.dtype().scalar() == DataType::F32;
    let by = number(&quotient.b).filter(|_| quotient.op == BinaryOp::Div && of_f32)? as f32;
    // Code generators multiply by the reciprocal of a power of two, which is exact.
    let products = cpu.mul_add == Intrinsic::Fma && by.to_bits() & FRACTION != 0;
    let reciprocal = Reciprocal::of(by).filter(|it| products && it.divides());
    reciprocal.map(|it| it.product(&quotient.a, cpu))
}

/// The bits of the fraction of an `f32`.
const FRACTION: u32 = 0x7f_ffff;

/// The reciprocal of a positive number as the sum of two numbers, of which the first is at most the reciprocal: so the second is
/// positive, and infinite dividends have infinite quotients.
pub(super) struct Reciprocal {
    of: f32,
    most: f32,
    rest: f32,
}

impl Reciprocal {
    /// `None` for numbers so large or small that parts of a product would be rounded to 0.
    pub(super) fn of(of: f32) -> Option<Reciprocal> {
        let exact = 1.0 / f64::from(of);
        let near = exact as f32;
        let most = if f64::from(near) > exact { near.next_down() } else { near };
        let rest = (exact - f64::from(most)) as f32;
        let fits = (2f32.powi(-60)..=2f32.powi(60)).contains(&of);
        // A power of two has no rest; the product of infinity and 0 would be NaN.
        fits.then_some(Reciprocal { of, most, rest: if rest > 0.0 { rest } else { f32::MIN_POSITIVE } })
    }

    /// `x` times the reciprocal, for a CPU with fused multiply-adds.
    pub(super) fn product(&self, x: &PrimExpr, cpu: Cpu) -> PrimExpr {
        Steps::expand(x, cpu, |steps, x| {
            let rest = x.clone() * steps.number(self.rest);
            steps.mul_add(x, &steps.number(self.most), rest)
        })
    }

    /// What [`Reciprocal::product`] computes.
    fn quotient(&self, x: f32) -> f32 {
        x.mul_add(self.most, x * self.rest)
    }

    /// True if the product, rounded to a whole number within the width of `range`, is the rounded quotient for all numbers. Both are
    /// within two units in the last place of the exact quotient, so it is enough to try the numbers next to those whose quotient lies
    /// in the middle between two whole numbers.
    pub(super) fn rounds_like_division(&self, (low, high): (i128, i128)) -> bool {
        let Ok(width @ 0..256) = i32::try_from(high - low) else { return false };
        (0..=width).all(|whole| {
            let mut x = (whole as f32 + 0.5) * self.of;
            (0..4).for_each(|_| x = x.next_down());
            (0..9).all(|_| {
                let same = (x / self.of).round_ties_even() == self.quotient(x).round_ties_even();
                x = x.next_up();
                same
            })
        })
    }

    /// True if the product is the rounded quotient for all dividends whose quotient is not below 2⁻¹⁰⁰ (below, it may be the next number).
    ///
    /// Both are rounded from numbers that differ by less than 2⁻⁴⁶ of the quotient. So they may only differ where the quotient is as near to
    /// the middle between two floats. With the fractions as whole numbers X and Y of 24 bits, these are the X for which X·2²⁴ (or
    /// X·2²⁵, where X < Y) is up to 8 more or less than a multiple of Y.
    fn divides(&self) -> bool {
        let by = i64::from(self.of.to_bits() & FRACTION) + (1 << 23);
        let same = |x: i64| (x as f32) / self.of == self.quotient(x as f32);
        [24, 25].into_iter().all(|shift| {
            let common = 1 << by.trailing_zeros().min(shift);
            let step = by / common;
            let inverse = inverse_of_power(shift - common.trailing_zeros(), step);
            (-8..=8).filter(|rest| rest % common == 0).all(|rest| {
                let first = (rest / common).rem_euclid(step) * inverse % step;
                let fractions = (first..1 << 24).step_by(step as usize);
                fractions.filter(|x| x >> 23 == 1).all(same)
            })
        })
    }
}

/// The inverse of 2 to the `power` modulo the odd number `of`.
fn inverse_of_power(power: u32, of: i64) -> i64 {
    (0..power).fold(1 % of, |inverse, _| if inverse % 2 == 0 { inverse / 2 } else { (inverse + of) / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_round_like_quotients() {
        let mut numbers = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            numbers = numbers.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (numbers >> 40) as u32
        };
        let (mut good, mut tried) = (0, 0);
        for _ in 0..300 {
            // A scale from 2^-20 to 2^4.
            let scale = f32::from_bits(((107 + next() % 24) << 23) | next() >> 1);
            let by = Reciprocal::of(scale).unwrap();
            assert!(by.most as f64 + by.rest as f64 > 0.0 && (by.most as f64) <= 1.0 / f64::from(scale));
            if !by.rounds_like_division((-128, 127)) {
                continue;
            }
            good += 1;
            for _ in 0..2000 {
                // Numbers near the ones where it matters, and others.
                let whole = (next() % 511) as f32 - 255.0;
                let near = (whole + 0.5) * scale;
                let near = f32::from_bits((near.to_bits() as i64 + i64::from(next() % 17) - 8) as u32);
                let any = f32::from_bits(next() << 8 | next() & 0xff);
                for x in
                    [near, any, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, f32::MAX, f32::MIN]
                {
                    let [want, got] =
                        [x / scale, by.quotient(x)].map(|it| it.round_ties_even().clamp(-256.0, 256.0));
                    assert!(want == got || want.is_nan() && got.is_nan(), "{x} / {scale}: {got}, not {want}");
                    tried += 1;
                }
            }
        }
        assert!(good > 290, "{good} of 300 scales, {tried} quotients");
        assert!(Reciprocal::of(0.25).unwrap().rounds_like_division((0, 255)));
        for scale in [0.0, -0.5, 1e-30, 1e30, f32::NAN, f32::INFINITY] {
            assert!(Reciprocal::of(scale).is_none(), "{scale}");
        }
        assert!(!Reciprocal::of(0.3).unwrap().rounds_like_division((-32768, 32767)));
    }

    /// All fractions, with the divisors of activations, of averages and of colours, and random ones.
    #[test]
    fn products_are_quotients() {
        let differs =
            |by: &Reciprocal| (1 << 23..1 << 24).map(|x| x as f32).any(|x| x / by.of != by.quotient(x));
        let mut bits = 0x2545_f491u32;
        let random = (0..20).map(|_| {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits((100 + bits % 50) << 23 | bits >> 9)
        });
        let known = [3.0, 5.0, 6.0, 7.0, 9.0, 25.0, 49.0, 196.0, 255.0, 0.1, 0.229, 0.299];
        let mut replaced = 0;
        for by in known.into_iter().chain(random) {
            let by = Reciprocal::of(by).unwrap();
            if by.divides() {
                assert!(!differs(&by), "{}", by.of);
                replaced += 1;
            }
        }
        assert!(replaced > 24, "{replaced} of 32");
        // One of the divisors for which some products are other numbers.
        let other = (1u32..)
            .map(|it| f32::from_bits(1.0f32.to_bits() + 4097 * it))
            .map(|it| Reciprocal::of(it).unwrap());
        assert!(differs(&other.clone().find(|it| !it.divides()).unwrap()));
        for by in known.map(|it| Reciprocal::of(it).unwrap()) {
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            for x in [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN] {
                assert!(same(x / by.of, by.quotient(x)), "{x} / {}", by.of);
            }
            // Quotients that are subnormal are at most one unit off.
            for x in (0..1 << 24).step_by(1023).map(f32::from_bits) {
                let off = (x / by.of).to_bits().abs_diff(by.quotient(x).to_bits());
                assert!(off <= 1, "{x:e} / {}", by.of);
            }
        }
    }
}
