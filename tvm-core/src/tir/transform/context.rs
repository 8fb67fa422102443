//! Facts known at a place in a program: ranges of loops, conditions of branches, dimensions.

use tvm_runtime::abi::Status;

use crate::arith::{Analyzer, ConstIntBound};
use crate::ir::Var;
pub(super) use crate::tir::analysis::{conjuncts, reads_memory as reads};
use crate::tir::{
    BinaryOp, For, Param, PrimExpr, PrimFunc, Stmt, Visitor, any_expr, binary, walk_expr, walk_stmt,
};

/// A condition on a symbolic dimension that the program was written for (`#[prim_func(dims(n = 1..=64))]`).
pub(super) struct DimBound {
    pub(super) condition: PrimExpr,
    /// Reported when the condition does not hold: the status, and its `expected`.
    pub(super) status: Status,
    pub(super) expected: i64,
}

/// The conditions on `dim` that `func` states in its attributes `dim.NAME.min`, `.max`, `.modulus` and `.remainder`;
/// `modulo` is `FloorMod` or `Mod`, which are equivalent here.
pub(super) fn dim_bounds(func: &PrimFunc, dim: &Var, modulo: BinaryOp) -> Vec<DimBound> {
    let attr = |what: &str| func.attrs.int(&format!("dim.{}.{what}", dim.name()));
    let value = PrimExpr::from(dim);
    let bound = |status, expected, condition| DimBound { condition, status, expected };
    let min = attr("min").map(|min| bound(Status::ExtentMin, min, value.clone().greater_equal(min)));
    let max = attr("max")
        .filter(|&max| max != i64::MAX)
        .map(|max| bound(Status::ExtentMax, max, value.clone().less_equal(max)));
    let modulus = attr("modulus").filter(|&modulus| modulus > 0).map(|modulus| {
        let remainder = binary(modulo, value.clone(), modulus.into()).equal(attr("remainder").unwrap_or(0));
        bound(Status::ExtentModulus, modulus, remainder)
    });
    [min, max, modulus].into_iter().flatten().collect()
}

/// An analyzer that knows the dimensions of `func`.
pub(in crate::tir) fn analyzer_for(func: &PrimFunc) -> Analyzer {
    struct Dims(Analyzer);
    impl Visitor for Dims {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            match expr {
                PrimExpr::Var(var) if var.dtype() == tvm_runtime::DataType::I64 => self.0.bind_dim(var),
                _ => walk_expr(self, expr),
            }
        }
    }
    let mut dims = Dims(Analyzer::new());
    for buffer in func.params.iter().filter_map(Param::buffer) {
        for extent in buffer.shape.iter().filter(|extent| extent.as_var().is_some()) {
            dims.visit_expr(extent);
            // Scalar parameters are not checked against their bounds at run time, so these are not assumed.
            let dim = extent.as_var().filter(|dim| !is_scalar(func, dim));
            let known = dim.map(|dim| dim_bounds(func, dim, BinaryOp::FloorMod)).unwrap_or_default();
            known.iter().for_each(|bound| dims.0.enter_constraint(&bound.condition));
        }
    }
    dims.0
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
