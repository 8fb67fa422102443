//! Which expressions fit 32 bits, and what they are in 32 bits.

use std::sync::Arc;

use tvm_runtime::DataType;

use super::super::context::reads;
use super::{MOST, Narrow, Need, is_wide};
use crate::arith::same;
use crate::ir::Var;
use crate::support::with_stack;
use crate::tir::{
    Binary, BinaryOp, Buffer, BufferLoad, Cast, Intrinsic, Let, Mutator, PrimCall, PrimCallee, PrimExpr,
    any_expr, binary,
};

const I32: DataType = DataType::I32;

/// True if nothing is to be computed.
fn is_leaf(expr: &PrimExpr) -> bool {
    matches!(expr, PrimExpr::IntImm(_) | PrimExpr::Var(_) | PrimExpr::Cast(_))
}

/// True if `expr` is computed in 64 bits and cut off.
fn is_cut(expr: &PrimExpr) -> bool {
    matches!(expr, PrimExpr::Cast(it) if is_wide(&it.value) && !matches!(it.value, PrimExpr::Var(_)))
}

fn is_division(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Div | BinaryOp::Mod | BinaryOp::FloorDiv | BinaryOp::FloorMod)
}

fn is_arithmetic(op: BinaryOp) -> bool {
    !op.is_comparison() && !op.is_logical()
}

/// The arms of a call of `if_then_else`, after its condition.
fn arms(it: &PrimCall) -> Option<[&PrimExpr; 3]> {
    match (&it.callee, &*it.args) {
        (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [condition, a, b]) => Some([condition, a, b]),
        _ => None,
    }
}

impl Narrow {
    /// True if constant bounds show that the `i64` fits.
    pub(super) fn fits(&self, expr: &PrimExpr) -> bool {
        if expr.as_var().is_some_and(|var| self.vars.contains_key(&var.id())) {
            return true;
        }
        let bound = self.tight.const_int_bound(expr);
        bound.is_finite() && bound.fits(I32)
    }

    /// True if `expr` is never negative.
    pub(super) fn is_natural(&self, expr: &PrimExpr) -> bool {
        self.wide.const_int_bound(expr).min >= 0
    }

    /// True if the `i64` fits, where the host asserts what is needed for it.
    fn is_exact(&mut self, expr: &PrimExpr) -> bool {
        if !is_wide(expr) {
            return false;
        }
        if self.fits(expr) || self.symbolic && self.asserts(expr) {
            return true;
        }
        match expr {
            // No quotient or remainder is larger than the dividend.
            PrimExpr::Binary(it)
                if is_division(it.op) && self.is_natural(&it.a) && self.is_natural(&it.b) =>
            {
                with_stack(|| self.is_exact(&it.a))
            }
            _ => false,
        }
    }

    fn are_exact(&mut self, a: &PrimExpr, b: &PrimExpr) -> bool {
        let before = self.needs.len();
        let exact = self.is_exact(a) && self.is_exact(b);
        if !exact {
            self.needs.truncate(before);
        }
        exact
    }

    /// The `i64` `expr`, which fits, in 32 bits.
    pub(super) fn narrowed(&mut self, expr: &PrimExpr) -> PrimExpr {
        let parts = with_stack(|| self.parts(expr));
        parts.unwrap_or_else(|| self.walk_expr(expr).unwrap_or_else(|| expr.clone()).cast(I32))
    }

    /// As [`narrowed`](Self::narrowed), of parts in 32 bits; `None` if one of them does not fit.
    fn parts(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Var(var) => self.vars.get(&var.id()).map(PrimExpr::from),
            _ if self.is_for_host(expr) => Some(self.hoisted(expr)),
            PrimExpr::Binary(it) => self.operation(it),
            PrimExpr::Cast(it) => {
                let from = it.value.dtype();
                let small = from.is_bool() || from.is_integer() && from.bits() <= 32;
                small.then(|| self.mutated(&it.value).cast(I32))
            }
            PrimExpr::Select(it) => {
                if !self.are_exact(&it.true_value, &it.false_value) {
                    return None;
                }
                let condition = self.mutated(&it.condition);
                Some(condition.select(self.narrowed(&it.true_value), self.narrowed(&it.false_value)))
            }
            PrimExpr::Call(it) => {
                let [condition, a, b] = arms(it)?;
                let before = self.needs.len();
                let new = self.in_arms(condition, [a, b], |narrow, arm| {
                    narrow.is_exact(arm).then(|| narrow.narrowed(arm))
                });
                let [Some(a), Some(b)] = new else {
                    self.needs.truncate(before);
                    return None;
                };
                Some(PrimExpr::call(Intrinsic::IfThenElse, [self.mutated(condition), a, b], I32))
            }
            PrimExpr::Let(it) => Some(self.let_in(it, Narrow::narrowed)),
            PrimExpr::IntImm(_) => Some(expr.clone().cast(I32)),
            PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Not(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_) => None,
        }
    }

    /// `it`, whose value fits, on operands in 32 bits.
    fn operation(&mut self, it: &Binary) -> Option<PrimExpr> {
        let natural = self.is_natural(&it.a) && self.is_natural(&it.b);
        let fit = match it.op {
            // Neither is larger than the sum.
            BinaryOp::Add if natural => true,
            BinaryOp::Mul if natural => {
                let before = self.needs.len();
                let fit = self.is_factor(&it.a, &it.b) && self.is_factor(&it.b, &it.a);
                if !fit {
                    self.needs.truncate(before);
                }
                fit
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                let amount = self.tight.const_int_bound(&it.b);
                amount.min >= 0 && amount.max < 32 && self.is_exact(&it.a)
            }
            op => is_arithmetic(op) && self.are_exact(&it.a, &it.b),
        };
        fit.then(|| {
            let a = self.narrowed(&it.a);
            binary(it.op, a, self.narrowed(&it.b))
        })
    }

    /// True if `factor` fits, or its product with `other` is 0 and does not depend on it. The product fits, and neither is
    /// negative.
    fn is_factor(&mut self, factor: &PrimExpr, other: &PrimExpr) -> bool {
        // Of a variable that does not fit, the lower half is multiplied by 0.
        matches!(factor, PrimExpr::Var(_))
            || self.wide.const_int_bound(other).min >= 1
            || self.is_exact(factor)
    }

    /// True if the host computes `expr`, once for all threads.
    fn is_for_host(&self, expr: &PrimExpr) -> bool {
        self.symbolic && is_product(expr) && self.is_host(expr)
    }

    /// The variable of what the host computes.
    fn hoisted(&mut self, expr: &PrimExpr) -> PrimExpr {
        if let Some((_, var)) = self.hoisted.iter().find(|(value, _)| same(value, expr)) {
            return var.into();
        }
        let mut name = String::new();
        any_expr(expr, &mut |it| {
            if let PrimExpr::Var(var) = it {
                name =
                    if name.is_empty() { var.name().to_string() } else { format!("{name}_{}", var.name()) };
            }
            false
        });
        let var = Var::prim(&*name, I32);
        self.hoisted.push((expr.clone(), var.clone()));
        PrimExpr::from(&var)
    }

    /// `it` with its value in 32 bits, if that fits.
    fn let_in(&mut self, it: &Let, body: impl FnOnce(&mut Narrow, &PrimExpr) -> PrimExpr) -> PrimExpr {
        self.bind_bounds(&it.var, &it.value);
        let (var, value) = if self.is_exact(&it.value) {
            let value = self.narrowed(&it.value);
            (self.narrow_var(&it.var), value)
        } else {
            self.vars.remove(&it.var.id());
            (it.var.clone(), self.mutated(&it.value))
        };
        PrimExpr::Let(Arc::new(Let { var, value, body: body(self, &it.body) }))
    }

    /// The results of `f` for the arms of a condition.
    fn in_arms<R>(
        &mut self,
        condition: &PrimExpr,
        [a, b]: [&PrimExpr; 2],
        mut f: impl FnMut(&mut Narrow, &PrimExpr) -> R,
    ) -> [R; 2] {
        let fixed = |part: &PrimExpr| !reads(part);
        let a = self.under(condition, fixed, |narrow| f(narrow, a));
        [a, self.under(&!condition.clone(), fixed, |narrow| f(narrow, b))]
    }

    /// The index of an access to `buffer`: in bounds where it is evaluated.
    pub(super) fn index(&mut self, buffer: &Buffer, index: &PrimExpr) -> Option<PrimExpr> {
        if let PrimExpr::Ramp(ramp) = index {
            let base = self.index(buffer, &ramp.base)?;
            return Some(base.ramp(ramp.stride.clone(), ramp.lanes));
        }
        if !is_wide(index) || is_leaf(index) {
            return self.mutate_expr(index);
        }
        let before = (self.needs.len(), self.hoisted.len());
        if self.fits(index) || self.holds_few(buffer) {
            let narrow = self.narrowed(index);
            if !is_cut(&narrow) {
                return Some(narrow.cast(DataType::I64));
            }
            self.needs.truncate(before.0);
            self.hoisted.truncate(before.1);
        }
        self.mutate_expr(index)
    }

    /// True if `buffer` has fewer than 2^31 elements, which the host asserts if it is symbolic.
    fn holds_few(&mut self, buffer: &Buffer) -> bool {
        let [extent] = &*buffer.shape else { return false };
        if let Some(extent) = extent.as_int() {
            return extent <= MOST;
        }
        if !self.symbolic || !self.is_host(extent) {
            return false;
        }
        if !self.needs.iter().any(|it| same(&it.value, extent)) {
            self.needs.push(Need { value: extent.clone(), of: Some(buffer.name.clone()) });
        }
        true
    }

    fn comparison(&mut self, it: &Binary) -> Option<PrimExpr> {
        let fit = match self.is_host(&it.a) && self.is_host(&it.b) {
            // A condition on a call is no reason to refuse it.
            true => self.fits(&it.a) && self.fits(&it.b),
            false => self.are_exact(&it.a, &it.b),
        };
        if !fit {
            return None;
        }
        let a = self.narrowed(&it.a);
        Some(binary(it.op, a, self.narrowed(&it.b)))
    }

    /// `expr` of type `i64`, computed in 32 bits.
    fn arithmetic(&mut self, expr: &PrimExpr, it: &Binary) -> Option<PrimExpr> {
        let before = self.needs.len();
        let fits = if is_division(it.op) { self.is_exact(expr) } else { self.fits(expr) };
        let narrow = match fits {
            true if self.is_for_host(expr) => Some(self.hoisted(expr)),
            true => self.operation(it),
            false => None,
        };
        if narrow.is_none() {
            self.needs.truncate(before);
        }
        narrow.map(|it| it.cast(DataType::I64))
    }

    fn load(&mut self, it: &BufferLoad) -> Option<PrimExpr> {
        let indices = match &*it.indices {
            [index] => self.index(&it.buffer, index).map(|it| [it].into()),
            indices => self.mutate_exprs(indices),
        };
        let predicate = it.predicate.as_ref().and_then(|it| self.mutate_expr(it));
        if indices.is_none() && predicate.is_none() {
            return None;
        }
        let new = BufferLoad {
            indices: indices.unwrap_or_else(|| it.indices.clone()),
            predicate: predicate.or_else(|| it.predicate.clone()),
            buffer: it.buffer.clone(),
            span: it.span.clone(),
        };
        Some(PrimExpr::BufferLoad(new.into()))
    }

    fn converted(&mut self, it: &Cast) -> Option<PrimExpr> {
        if !is_wide(&it.value) || !self.fits(&it.value) {
            return None;
        }
        let narrow = self.narrowed(&it.value);
        (!is_cut(&narrow)).then(|| narrow.cast(it.dtype))
    }

    /// Rewrites an expression of a kernel; its type stays.
    pub(super) fn in_kernel_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Binary(it) if is_wide(&it.a) => {
                let new = match it.op.is_comparison() {
                    true => self.comparison(it),
                    false => self.arithmetic(expr, it),
                };
                new.or_else(|| self.walk_expr(expr))
            }
            PrimExpr::Var(var) => self.vars.get(&var.id()).map(|new| PrimExpr::from(new).cast(DataType::I64)),
            PrimExpr::Cast(it) => self.converted(it).or_else(|| self.walk_expr(expr)),
            PrimExpr::BufferLoad(it) => self.load(it),
            PrimExpr::Let(it) => Some(self.let_in(it, Narrow::mutated)),
            PrimExpr::Call(it) => {
                if it.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf) {
                    return None;
                }
                let Some([condition, a, b]) = arms(it) else { return self.walk_expr(expr) };
                let [a, b] = self.in_arms(condition, [a, b], Narrow::mutated);
                let args = [self.mutated(condition), a, b];
                Some(PrimExpr::call(Intrinsic::IfThenElse, args, it.dtype))
            }
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Not(_)
            | PrimExpr::Binary(_)
            | PrimExpr::Select(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_) => self.walk_expr(expr),
        }
    }
}

/// True if it takes more than a sum to compute `expr`.
fn is_product(expr: &PrimExpr) -> bool {
    any_expr(
        expr,
        &mut |it| matches!(it, PrimExpr::Binary(it) if is_division(it.op) || it.op == BinaryOp::Mul),
    )
}
