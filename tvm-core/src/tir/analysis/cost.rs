//! Estimated cost of a statement, for decisions that need no precision: whether a parallel loop is worth several threads.
//!
//! TVM counterpart: `EstimateTIRFlops`.

use crate::tir::{PrimExpr, Stmt, Visitor};
use crate::tir::{walk_expr, walk_stmt};

/// Assumed number of iterations of a loop whose extent is not a constant.
const ITERATIONS: u64 = 64;

/// The approximate number of operations (arithmetic, loads, stores, calls) that `stmt` performs, at least 1. An operation on
/// a vector counts once. Loops of unknown extent count as loops of 64 iterations.
pub fn estimate_cost(stmt: &Stmt) -> u64 {
    let mut cost = Cost { times: 1, total: 0 };
    cost.visit_stmt(stmt);
    cost.total.max(1)
}

struct Cost {
    /// How often the current statement runs.
    times: u64,
    total: u64,
}

impl Visitor for Cost {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        let outer = self.times;
        match stmt {
            Stmt::For(it) => {
                let extent = it.extent.as_int().map_or(ITERATIONS, |extent| extent.max(0).unsigned_abs());
                self.times = outer.saturating_mul(extent);
            }
            Stmt::BufferStore(_) => self.total = self.total.saturating_add(self.times),
            _ => {}
        }
        walk_stmt(self, stmt);
        self.times = outer;
    }

    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Binary(_) | PrimExpr::BufferLoad(_) | PrimExpr::Call(_) | PrimExpr::Select(_) = expr
        {
            self.total = self.total.saturating_add(self.times);
        }
        walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use tvm_runtime::DataType;

    use super::*;
    use crate::ir::Var;
    use crate::te;

    fn cost(extents: &[PrimExpr]) -> u64 {
        let x = te::placeholder("x", extents.to_vec(), DataType::F32);
        let y = te::compute("y", extents.to_vec(), &[&x], |at: &[PrimExpr]| x.at(at.to_vec()) + 1);
        estimate_cost(&te::create_prim_func("f", &[x], &[y]).unwrap().body)
    }

    #[test]
    fn loops_multiply() {
        let one = cost(&[PrimExpr::index(1)]);
        assert!((2..10).contains(&one), "{one}");
        assert_eq!(cost(&[PrimExpr::index(10)]), 10 * one);
        assert_eq!(cost(&[PrimExpr::index(10), PrimExpr::index(7)]), 70 * one);
        assert_eq!(cost(&[Var::index("n").into()]), ITERATIONS * one);
        assert_eq!(cost(&[PrimExpr::index(0)]), 1);
        let huge = PrimExpr::index(1 << 40);
        assert_eq!(cost(&[huge.clone(), huge]), u64::MAX);
    }
}
