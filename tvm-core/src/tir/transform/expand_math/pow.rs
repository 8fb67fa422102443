//! Powers with a constant exponent that multiplications and square roots compute.

use super::steps::Steps;
use crate::tir::{Intrinsic, PrimExpr};

/// A power of `x`, which is a name.
pub(super) type Power = fn(&mut Steps, &PrimExpr) -> PrimExpr;

/// The exponents, how their powers are computed, and the largest error in units in the last place:
/// half a unit for each operation, and that of its operands, which is at most twice as many units of the result.
pub(super) const POWERS: [(f64, Power, f64); 10] = [
    (1.0, |_, x| x.clone(), 0.0),
    (2.0, |_, x| x.clone() * x, 0.5),
    (3.0, |_, x| x.clone() * x * x, 1.5),
    (-1.0, |steps, x| steps.number(1.0) / x, 0.5),
    (-2.0, inverse_square, 2.5),
    (0.5, |steps, x| root(steps, x).1, 0.5),
    (0.25, |steps, x| root(steps, x).1.unary(Intrinsic::Sqrt), 1.0),
    (0.75, three_quarters, 3.0),
    (1.5, one_and_half, 1.5),
    (-0.5, |steps, x| steps.number(1.0) / root(steps, x).1, 1.5),
];

/// The power of `x` with this exponent, if it is one of [`POWERS`].
pub(super) fn of_exponent(exponent: &PrimExpr) -> Option<Power> {
    let value = if let PrimExpr::Broadcast(it) = exponent { &it.value } else { exponent };
    let PrimExpr::FloatImm(value) = value else { return None };
    POWERS.iter().find(|(known, ..)| *known == value.value).map(|(_, power, _)| *power)
}

/// The base of a power that is no integer, and its square root. Powers of `-0` and `-inf` are those of `0` and `inf`.
fn root(steps: &mut Steps, x: &PrimExpr) -> (PrimExpr, PrimExpr) {
    let (zero, infinity) = (steps.number(0.0), steps.number(f32::INFINITY));
    let base = x.clone().equal(steps.number(f32::NEG_INFINITY)).select(infinity, x.clone());
    let base = x.clone().equal(zero.clone()).select(zero, base);
    let base = steps.step("b", base);
    let root = steps.step("r", base.clone().unary(Intrinsic::Sqrt));
    (base, root)
}

fn three_quarters(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let (_, root) = root(steps, x);
    root.clone() * root.unary(Intrinsic::Sqrt)
}

fn one_and_half(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let (base, root) = root(steps, x);
    base * root
}

/// The square of `1 / x`: `x * x` could be too large although its inverse is not 0.
fn inverse_square(steps: &mut Steps, x: &PrimExpr) -> PrimExpr {
    let inverse = steps.step("i", steps.number(1.0) / x);
    inverse.clone() * inverse
}
