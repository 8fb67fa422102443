//! Facts known at a place in a program: ranges of loops, conditions of branches, dimensions.

use tvm_runtime::DataType;

use super::own_dims::Equation;
use crate::arith::{Analyzer, ConstIntBound};
use crate::ir::Var;
pub(super) use crate::tir::analysis::{conjuncts, reads_memory as reads};
use crate::tir::{BinaryOp, For, Param, PrimExpr, PrimFunc, Stmt, Visitor, any_expr, walk_stmt};

/// An analyzer that knows the dimensions and scalars of `func`, and the equations between dimensions.
pub(in crate::tir) fn analyzer_for(func: &PrimFunc) -> Analyzer {
    let mut analyzer = Analyzer::new();
    for param in func.params.iter() {
        match param {
            Param::In(buffer) | Param::Out(buffer) => {
                let dims = buffer.shape.iter().filter_map(PrimExpr::as_var);
                dims.filter(|dim| dim.dtype() == DataType::I64).for_each(|dim| analyzer.bind_dim(dim));
            }
            Param::Scalar(var) => analyzer.bind_own_bound(var),
        }
    }
    let equations = Equation::all(func);
    equations.iter().flat_map(Equation::facts).for_each(|fact| analyzer.enter_constraint(&fact));
    analyzer
}

/// True when `var` is a scalar parameter of `func`.
pub(super) fn is_scalar(func: &PrimFunc, var: &Var) -> bool {
    func.params.iter().any(|param| matches!(param, Param::Scalar(scalar) if scalar == var))
}

/// Records in `analyzer` the range of `node`'s variable, as it is inside the loop; only the constant bounds of a range
/// that reads memory, because the body may write to that memory.
pub(super) fn enter_loop(analyzer: &mut Analyzer, node: &For) {
    let range = node.range();
    if !reads(&range.min) && !reads(&range.extent) {
        return analyzer.bind_range(&node.loop_var, &range);
    }
    let last = &range.min + &range.extent - 1;
    let (first, last) = (analyzer.const_int_bound(&range.min), analyzer.const_int_bound(&last));
    analyzer.bind_bound(&node.loop_var, ConstIntBound::new(first.min, last.max));
}

/// Records in `analyzer` that the factors of `extent` are positive, as they are where a thread of a loop of this extent runs.
/// Where a factor is a quotient that is rounded up, so are those of the dividend.
pub(super) fn enter_threads(analyzer: &mut Analyzer, extent: &PrimExpr) {
    if reads(extent) {
        return;
    }
    let mut open = vec![extent.clone()];
    while let Some(expr) = open.pop() {
        let factors = factors(&expr);
        if factors.iter().any(|it| !is_non_negative(analyzer, it)) {
            continue;
        }
        for factor in factors.into_iter().filter(|it| it.as_int().is_none()) {
            analyzer.enter_constraint(&factor.clone().greater_equal(1));
            open.extend(rounded_up(&factor));
        }
    }
}

/// The factors of the product `expr`.
fn factors(expr: &PrimExpr) -> Vec<PrimExpr> {
    let (mut open, mut factors) = (vec![expr], Vec::new());
    while let Some(expr) = open.pop() {
        match expr {
            PrimExpr::Binary(it) if it.op == BinaryOp::Mul => open.extend([&it.b, &it.a]),
            _ => factors.push(expr.clone()),
        }
    }
    factors
}

/// `a` for `(a + c) / k` with `0 <= c < k`, which is positive only where `a` is.
fn rounded_up(expr: &PrimExpr) -> Option<PrimExpr> {
    let PrimExpr::Binary(it) = expr else { return None };
    let by = it.b.as_int().filter(|_| matches!(it.op, BinaryOp::Div | BinaryOp::FloorDiv))?;
    match &it.a {
        PrimExpr::Binary(sum) if sum.op == BinaryOp::Add => {
            let more = sum.b.as_int()?;
            (0..by).contains(&more).then(|| sum.a.clone())
        }
        dividend => (by > 0).then(|| dividend.clone()),
    }
}

/// True when `condition` holds throughout `stmt` if it holds before it: it reads no memory, or none that `stmt` may
/// write. Different buffers are taken to be different memory, which is not so for matched buffers.
pub(super) fn is_lasting(condition: &PrimExpr, stmt: &Stmt) -> bool {
    struct Writes<'a> {
        condition: &'a PrimExpr,
        found: bool,
    }
    impl Visitor for Writes<'_> {
        fn visit_expr(&mut self, _: &PrimExpr) {}

        fn visit_stmt(&mut self, stmt: &Stmt) {
            if let Stmt::BufferStore(store) = stmt {
                let read =
                    |it: &PrimExpr| matches!(it, PrimExpr::BufferLoad(load) if load.buffer == store.buffer);
                self.found |= any_expr(self.condition, &mut |it| read(it));
            }
            if !self.found {
                walk_stmt(self, stmt);
            }
        }
    }
    let mut writes = Writes { condition, found: false };
    if reads(condition) {
        writes.visit_stmt(stmt);
    }
    !writes.found
}

/// True when `expr` is never negative.
pub(super) fn is_non_negative(analyzer: &Analyzer, expr: &PrimExpr) -> bool {
    expr.dtype().is_uint() || analyzer.const_int_bound(expr).min >= 0
}
