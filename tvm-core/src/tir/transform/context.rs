//! What is known at a place in a program: ranges of loops, conditions of branches, dimensions.

use tvm_runtime::abi::Status;

use crate::arith::Analyzer;
use crate::ir::Var;
use crate::tir::{BinaryOp, For, Param, PrimExpr, PrimFunc, Visitor, binary, walk_expr};

/// A condition on a symbolic dimension that the program was written for (`#[prim_func(dims(n = 1..=64))]`).
pub(super) struct DimBound {
    pub(super) condition: PrimExpr,
    /// What is reported where it does not hold: the status, and its `expected`.
    pub(super) status: Status,
    pub(super) expected: i64,
}

/// The conditions on `dim` that `func` states in its attributes `dim.NAME.min`, `.max`, `.modulus` and `.remainder`;
/// `modulo` is `FloorMod` or `Mod`, which are the same here.
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
pub(super) fn analyzer_for(func: &PrimFunc) -> Analyzer {
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
            let known =
                extent.as_var().map(|dim| dim_bounds(func, dim, BinaryOp::FloorMod)).unwrap_or_default();
            known.iter().for_each(|bound| dims.0.enter_constraint(&bound.condition));
        }
    }
    dims.0
}

/// Makes `analyzer` know the range of `node`'s variable, as it is inside of the loop.
pub(super) fn enter_loop(analyzer: &mut Analyzer, node: &For) {
    analyzer.bind_range(&node.loop_var, &node.range());
}

/// True when `expr` is never negative.
pub(super) fn is_non_negative(analyzer: &Analyzer, expr: &PrimExpr) -> bool {
    expr.dtype().is_uint() || analyzer.const_int_bound(expr).min >= 0
}
