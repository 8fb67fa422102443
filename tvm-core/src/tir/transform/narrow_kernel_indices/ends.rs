//! What the host can compute, and what it asserts for a kernel.

use super::{MOST, Narrow, Need};
use crate::arith::same;
use crate::support::with_stack;
use crate::tir::{BinaryOp, PrimExpr, any_expr};

/// The least number that an assertion may be about: it is at most [`MOST`] from above only.
const LEAST: i128 = i32::MIN as i128;

/// The largest factor of a term of [`Narrow::end`]. The last tile of an extent may reach beyond the extent, by as many elements
/// as it has: a product with another extent would be much more than any tensor has.
const MOST_FACTOR: i64 = 1 << 12;

fn is_small(factor: &PrimExpr) -> bool {
    factor.as_int().is_some_and(|it| (0..=MOST_FACTOR).contains(&it))
}

impl Narrow {
    /// True if the host can compute `expr` whatever the values of its variables are.
    pub(super) fn is_host(&self, expr: &PrimExpr) -> bool {
        !any_expr(expr, &mut |it| match it {
            PrimExpr::IntImm(_) | PrimExpr::Not(_) | PrimExpr::Select(_) => false,
            PrimExpr::Var(var) => !self.host.contains(&var.id()),
            PrimExpr::Cast(it) => !it.value.dtype().is_integer() && !it.value.dtype().is_bool(),
            PrimExpr::Binary(it) => match it.op {
                // Also where no thread runs, it divides.
                BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod => {
                    it.b.as_int().is_none_or(|by| by <= 0)
                }
                BinaryOp::Shl | BinaryOp::Shr => {
                    it.b.as_int().is_none_or(|by| !(0..i64::from(it.a.dtype().bits())).contains(&by))
                }
                _ => !it.a.dtype().is_integer() && !it.a.dtype().is_bool(),
            },
            _ => true,
        })
    }

    /// True if `expr` depends on extents of tensors alone.
    pub(super) fn is_of_extents(&self, expr: &PrimExpr) -> bool {
        !any_expr(expr, &mut |it| match it {
            PrimExpr::Var(var) => self.scalars.contains(&var.id()) || !self.host.contains(&var.id()),
            PrimExpr::BufferLoad(_) | PrimExpr::Call(_) => true,
            _ => false,
        })
    }

    /// A number that the host can compute and that `expr`, an `i64`, does not exceed. It is the largest value, if the parts
    /// of `expr` do not depend on each other.
    pub(super) fn end(&self, expr: &PrimExpr) -> Option<PrimExpr> {
        if self.is_host(expr) {
            return Some(expr.clone());
        }
        with_stack(|| match expr {
            PrimExpr::Var(var) => self.ends.get(&var.id()).cloned(),
            PrimExpr::Binary(it) => {
                let natural = || self.is_natural(&it.a) && self.is_natural(&it.b);
                match it.op {
                    BinaryOp::Add => Some(self.end(&it.a)? + self.end(&it.b)?),
                    BinaryOp::Sub if self.is_host(&it.b) => Some(self.end(&it.a)? - &it.b),
                    BinaryOp::Mul if natural() => {
                        let product = || Some(self.end(&it.a)? * self.end(&it.b)?);
                        if is_small(&it.a) || is_small(&it.b) { product() } else { None }
                    }
                    // By a number that is not constant, the quotient is much less than the dividend may be.
                    BinaryOp::Div | BinaryOp::FloorDiv if natural() => {
                        let by = it.b.as_int().filter(|by| *by > 0)?;
                        Some(self.end(&it.a)?.floordiv(by))
                    }
                    BinaryOp::Mod | BinaryOp::FloorMod if natural() && self.is_host(&it.b) => Some(&it.b - 1),
                    BinaryOp::Max => Some(self.end(&it.a)?.max(self.end(&it.b)?)),
                    BinaryOp::Min => match (self.end(&it.a), self.end(&it.b)) {
                        (Some(a), Some(b)) => Some(a.min(b)),
                        (a, b) => a.or(b),
                    },
                    _ => None,
                }
            }
            PrimExpr::Select(it) => Some(self.end(&it.true_value)?.max(self.end(&it.false_value)?)),
            _ => None,
        })
    }

    /// Lets the host assert that `expr`, an `i64`, fits 32 bits; false if that is not so, or not known.
    pub(super) fn asserts(&mut self, expr: &PrimExpr) -> bool {
        if self.wide.const_int_bound(expr).min < LEAST {
            return false;
        }
        let Some(end) = self.end(expr) else { return false };
        let end = self.wide.simplify(&end);
        match end.as_int() {
            Some(end) => end <= MOST,
            None => self.is_host(&end) && self.is_of_extents(&end) && self.need(&end),
        }
    }

    /// Lets the host assert that `value` is at most [`MOST`]; also of the products in it, innermost first, so that the host
    /// computes none that overflows.
    fn need(&mut self, value: &PrimExpr) -> bool {
        let mut values = Vec::new();
        self.products(value, &mut values);
        values.push(value.clone());
        if values.iter().any(|it| self.wide.const_int_bound(it).min < LEAST) {
            return false;
        }
        for value in values {
            if !self.needs.iter().any(|it| same(&it.value, &value)) {
                self.needs.push(Need { value, of: None });
            }
        }
        true
    }

    fn products(&self, expr: &PrimExpr, values: &mut Vec<PrimExpr>) {
        let parts = match expr {
            PrimExpr::Binary(it) => [&it.a, &it.b],
            PrimExpr::Select(it) => [&it.true_value, &it.false_value],
            _ => return,
        };
        let product = matches!(expr, PrimExpr::Binary(it) if matches!(it.op, BinaryOp::Mul | BinaryOp::Shl));
        for part in parts {
            with_stack(|| self.products(part, values));
            if product && !self.fits(part) {
                values.push(part.clone());
            }
        }
        // Many of those with small factors can be added without an overflow.
        if product && !parts.iter().any(|it| is_small(it)) && !self.fits(expr) {
            values.push(expr.clone());
        }
    }
}
