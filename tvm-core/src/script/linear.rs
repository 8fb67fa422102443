//! Linear forms of index expressions, and the interval of an expression over the ranges of loop variables.
//!
//! Only what building needs: axis domains and access regions in a simple form. Extents that are no constants are taken
//! to be not negative.

use crate::ir::Var;
use crate::tir::{BinaryOp, PrimExpr, Range, any_expr};

/// `sum of coefficient * atom, plus constant`.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    pub(super) terms: Vec<(PrimExpr, i64)>,
    pub(super) constant: i64,
}

impl Linear {
    pub(super) fn of(expr: &PrimExpr) -> Linear {
        match expr {
            PrimExpr::IntImm(it) => Linear { terms: vec![], constant: it.value },
            PrimExpr::Binary(it) if it.op == BinaryOp::Add => Linear::of(&it.a).plus(&Linear::of(&it.b), 1),
            PrimExpr::Binary(it) if it.op == BinaryOp::Sub => Linear::of(&it.a).plus(&Linear::of(&it.b), -1),
            PrimExpr::Binary(it) if it.op == BinaryOp::Mul => match (it.a.as_int(), it.b.as_int()) {
                (_, Some(factor)) => Linear::of(&it.a).times(factor),
                (Some(factor), _) => Linear::of(&it.b).times(factor),
                _ => Linear::atom(expr),
            },
            _ => Linear::atom(expr),
        }
    }

    fn atom(expr: &PrimExpr) -> Linear {
        Linear { terms: vec![(expr.clone(), 1)], constant: 0 }
    }

    /// `self + factor * other`
    pub(super) fn plus(mut self, other: &Linear, factor: i64) -> Linear {
        for (atom, coefficient) in &other.terms {
            match self.terms.iter_mut().find(|(it, _)| same_expr(it, atom)) {
                Some((_, it)) => *it += coefficient * factor,
                None => self.terms.push((atom.clone(), coefficient * factor)),
            }
        }
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        self.constant += other.constant * factor;
        self
    }

    fn times(mut self, factor: i64) -> Linear {
        self.terms.iter_mut().for_each(|(_, coefficient)| *coefficient *= factor);
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        self.constant *= factor;
        self
    }

    pub(super) fn plus_const(mut self, value: i64) -> Linear {
        self.constant += value;
        self
    }

    /// `self - other` when that is a constant.
    pub(super) fn minus(&self, other: &Linear) -> Option<i64> {
        let difference = self.clone().plus(other, -1);
        difference.terms.is_empty().then_some(difference.constant)
    }

    pub(super) fn to_expr(&self) -> PrimExpr {
        let mut res: Option<PrimExpr> = None;
        for (atom, coefficient) in &self.terms {
            res = Some(match (res, *coefficient) {
                (None, coefficient) => atom.clone() * coefficient,
                (Some(sum), -1) => sum - atom,
                (Some(sum), coefficient) => sum + atom.clone() * coefficient,
            });
        }
        match (res, self.constant) {
            (None, constant) => PrimExpr::index(constant),
            (Some(sum), constant) if constant < 0 => sum - -constant,
            (Some(sum), constant) => sum + constant,
        }
    }
}

/// The same expression, node by node; `false` where it is not obvious.
pub(super) fn same_expr(a: &PrimExpr, b: &PrimExpr) -> bool {
    a.ptr_eq(b)
        || match (a, b) {
            (PrimExpr::Binary(a), PrimExpr::Binary(b)) => {
                a.op == b.op && same_expr(&a.a, &b.a) && same_expr(&a.b, &b.b)
            }
            (PrimExpr::Cast(a), PrimExpr::Cast(b)) => a.dtype == b.dtype && same_expr(&a.value, &b.value),
            (PrimExpr::BufferLoad(a), PrimExpr::BufferLoad(b)) => {
                a.buffer == b.buffer && same_exprs(&a.indices, &b.indices)
            }
            _ => false,
        }
}

/// The same expressions one by one.
pub(super) fn same_exprs(a: &[PrimExpr], b: &[PrimExpr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_expr(a, b))
}

/// Ranges of loop variables.
pub(super) type Ranges = Vec<(Var, Range)>;

/// True when `expr` uses one of the variables.
pub(super) fn uses(expr: &PrimExpr, vars: &[(Var, Range)]) -> bool {
    any_expr(expr, &mut |it| it.as_var().is_some_and(|var| vars.iter().any(|(other, _)| other == var)))
}

/// Smallest and largest value of `expr` while `vars` run over their ranges; `None` when not known.
pub(super) fn interval(expr: &PrimExpr, vars: &[(Var, Range)]) -> Option<(Linear, Linear)> {
    if !uses(expr, vars) {
        let exact = Linear::of(expr);
        return Some((exact.clone(), exact));
    }
    match expr {
        PrimExpr::Var(var) => {
            let (_, range) = vars.iter().find(|(other, _)| other == var)?;
            let (min, _) = interval(&range.min, vars)?;
            let (_, max) = interval(&(range.min.clone() + &range.extent), vars)?;
            Some((min, max.plus_const(-1)))
        }
        PrimExpr::Binary(it) => {
            let whole = |a: &PrimExpr, b: &PrimExpr| Some((interval(a, vars)?, interval(b, vars)?));
            match it.op {
                BinaryOp::Add => {
                    let ((a_min, a_max), (b_min, b_max)) = whole(&it.a, &it.b)?;
                    Some((a_min.plus(&b_min, 1), a_max.plus(&b_max, 1)))
                }
                BinaryOp::Sub => {
                    let ((a_min, a_max), (b_min, b_max)) = whole(&it.a, &it.b)?;
                    Some((a_min.plus(&b_max, -1), a_max.plus(&b_min, -1)))
                }
                BinaryOp::Mul => {
                    let (factor, other) = if uses(&it.a, vars) { (&it.b, &it.a) } else { (&it.a, &it.b) };
                    if uses(factor, vars) {
                        return None;
                    }
                    let (min, max) = interval(other, vars)?;
                    let scale = |it: &Linear| Linear::of(&(it.to_expr() * factor));
                    let scale =
                        |it: &Linear| factor.as_int().map_or_else(|| scale(it), |f| it.clone().times(f));
                    let negative = factor.as_int().is_some_and(|factor| factor < 0);
                    let (min, max) = (scale(&min), scale(&max));
                    Some(if negative { (max, min) } else { (min, max) })
                }
                BinaryOp::FloorDiv if it.b.as_int().is_some_and(|divisor| divisor > 0) => {
                    let (min, max) = interval(&it.a, vars)?;
                    let divide = |value: &Linear| Linear::of(&value.to_expr().floordiv(&it.b));
                    Some((divide(&min), divide(&max)))
                }
                BinaryOp::FloorMod => {
                    let divisor = it.b.as_int().filter(|divisor| *divisor > 0)?;
                    let zero = Linear { terms: vec![], constant: 0 };
                    Some((zero.clone(), zero.plus_const(divisor - 1)))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The interval of `expr` as a range.
pub(super) fn range_of(expr: &PrimExpr, vars: &[(Var, Range)]) -> Option<Range> {
    let (min, max) = interval(expr, vars)?;
    let extent = max.plus_const(1).plus(&min, -1);
    Some(Range { min: min.to_expr(), extent: extent.to_expr() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Var;

    #[test]
    fn intervals_of_tiles() {
        let (io, ii, n) = (Var::index("io"), Var::index("ii"), Var::index("n"));
        let vars = vec![
            (io.clone(), Range::from_extent(PrimExpr::from(&n).floordiv(32))),
            (ii.clone(), Range::from_extent(32)),
        ];
        let range = range_of(&(&io * 32i64 + &ii), &vars).unwrap();
        assert!(range.min.is_const(0));
        let expected = PrimExpr::from(&n).floordiv(32) * 32;
        assert!(same_expr(&range.extent, &expected), "{:?}", range.extent);
        let shifted = range_of(&(&ii - 1i64), &vars).unwrap();
        assert!(shifted.min.is_const(-1) && shifted.extent.is_const(32));
        assert!(range_of(&(&io * &ii), &vars).is_none());
    }
}
