//! What is known at a place in a program: ranges of loops, conditions of branches, dimensions.

use crate::arith::Analyzer;
use crate::tir::{For, Param, PrimExpr, PrimFunc, Visitor, walk_expr};

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
