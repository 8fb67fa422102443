//! One check: an index against one end of its axis, and how it moves out of the loops around it.

use rustc_hash::FxHashSet;
use tvm_runtime::abi::Status;

use crate::arith::{Analyzer, detect_linear_equation, same};
use crate::ir::{IrError, Span, Var, VarId};
use crate::tir::{AssertStmt, Buffer, Failure, Intrinsic, PrimExpr, PrimFunc, Range, Stmt, any_expr};

/// Variables of a loop or a block and what they run over.
pub(super) type Axes = Vec<(Var, Range)>;

/// Which end of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

/// Where all `guards` hold, `index` is on the right side of the end of axis `axis` of `buffer`.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) buffer: Buffer,
    pub(super) axis: usize,
    pub(super) side: Side,
    pub(super) index: PrimExpr,
    pub(super) extent: PrimExpr,
    /// In the order in which they are evaluated.
    pub(super) guards: Vec<PrimExpr>,
    pub(super) span: Span,
}

impl Check {
    /// What is to hold.
    pub(super) fn condition(&self) -> PrimExpr {
        match self.side {
            Side::Low => self.index.clone().greater_equal(0),
            Side::High => self.index.clone().less(self.extent.clone()),
        }
    }

    /// The check that does in front of `axes` what this one does in all their iterations: no less, and no more because
    /// the worst iteration is one of them. `None` where that cannot be said.
    pub(super) fn in_front_of(
        &self,
        axes: &Axes,
        opaque: &FxHashSet<VarId>,
        analyzer: &Analyzer,
    ) -> Option<Check> {
        let mut parts = self.guards.iter().chain([&self.index, &self.extent]);
        if parts.any(|part| reads(part) || mentions(part, opaque)) {
            return None;
        }
        let mut check = self.clone();
        for (var, range) in axes.iter().rev() {
            let of_var = |expr: &PrimExpr| any_expr(expr, &mut |it| it.as_var() == Some(var));
            if check.guards.iter().chain([&check.extent]).any(of_var) {
                return None;
            }
            if of_var(&check.index) {
                let line = detect_linear_equation(&check.index, std::slice::from_ref(var), analyzer)?;
                let slope = &line.coefficients[0];
                let bound = analyzer.const_int_bound(slope);
                let rising = match (bound.min >= 0, bound.max <= 0) {
                    (true, _) => true,
                    (_, true) => false,
                    _ => return None,
                };
                let last = &range.min + &range.extent - 1;
                let worst = if rising == (check.side == Side::High) { last } else { range.min.clone() };
                check.index = analyzer.simplify(&(slope * &worst + &line.base));
            }
            let runs = range.extent.clone().greater(0);
            if !analyzer.can_prove(&runs) && !check.guards.iter().any(|known| same(known, &runs)) {
                check.guards.push(runs);
            }
        }
        Some(check)
    }

    /// True when both check the same.
    pub(super) fn same(&self, other: &Check) -> bool {
        (self.side, self.axis, &self.buffer) == (other.side, other.axis, &other.buffer)
            && same(&self.index, &other.index)
            && self.guards.len() == other.guards.len()
            && self.guards.iter().zip(&other.guards).all(|(a, b)| same(a, b))
    }

    /// The statement that checks; `func` names the parameters.
    pub(super) fn to_stmt(&self, func: &PrimFunc) -> Stmt {
        let param = func.params.iter().position(|param| param.buffer() == Some(&self.buffer));
        // What the guards guard is not evaluated without them.
        let guarded = |value: PrimExpr, otherwise: PrimExpr| {
            self.guards
                .iter()
                .rev()
                .fold(value, |value, guard| if_then_else(guard.clone(), value, otherwise.clone()))
        };
        let got = if reads(&self.index) {
            guarded(self.index.clone(), PrimExpr::index(0))
        } else {
            self.index.clone()
        };
        let failure = Failure {
            status: Status::OutOfBounds as i32,
            arg: param.map_or(-1, |param| param as i32),
            axis: self.axis as i32,
            expected: self.extent.clone(),
            got,
        };
        AssertStmt { condition: guarded(self.condition(), PrimExpr::bool(true)), failure }.into()
    }

    /// The error of an access that is outside in every run.
    pub(super) fn error(&self, analyzer: &Analyzer) -> IrError {
        let (index, buffer) = (analyzer.simplify(&self.index), &self.buffer.name);
        let message = format!(
            "this index reaches {index}, but axis {} of `{buffer}` has extent {}",
            self.axis, self.extent
        );
        IrError::new(message, &self.span).help("let the loops end earlier, or guard the access with an `if`")
    }
}

/// `a` where `condition` holds, else `b`; the other one is not evaluated.
fn if_then_else(condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let dtype = a.dtype();
    PrimExpr::call(Intrinsic::IfThenElse, [condition, a, b], dtype)
}

/// True when `expr` reads memory.
pub(super) fn reads(expr: &PrimExpr) -> bool {
    any_expr(expr, &mut |it| matches!(it, PrimExpr::BufferLoad(_)))
}

/// True when a variable of `vars` occurs in `expr`.
pub(super) fn mentions(expr: &PrimExpr, vars: &FxHashSet<VarId>) -> bool {
    any_expr(expr, &mut |it| it.as_var().is_some_and(|var| vars.contains(&var.id())))
}
