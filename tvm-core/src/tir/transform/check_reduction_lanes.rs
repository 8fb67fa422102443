//! Keeps the annotation [`REDUCTION_LANES`] only where the order of the terms is free.
//!
//! TVM counterpart: none.
//! Requires: blocks with their inits.

use super::contract_reductions::is_declared;
use super::util::body_pass;
use super::vectorize_reductions::REDUCTION_LANES;
use crate::ir::Attrs;
use crate::pass::Pass;
use crate::tir::analysis::drives;
use crate::tir::{For, Mutator, PrimExpr, Stmt};

/// Removes [`REDUCTION_LANES`] from loops that are not the innermost loop of a declared reduction.
pub fn check_reduction_lanes() -> Pass {
    body_pass("CheckReductionLanes", |func| CheckReductionLanes.mutate_stmt(&func.body))
}

struct CheckReductionLanes;

impl Mutator for CheckReductionLanes {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        match walked.as_ref().unwrap_or(stmt) {
            Stmt::For(node) if node.annotations.get(REDUCTION_LANES).is_some() && !reduces(node) => {
                Some(For { annotations: without_lanes(&node.annotations), ..(**node).clone() }.into())
            }
            _ => walked,
        }
    }
}

fn without_lanes(annotations: &Attrs) -> Attrs {
    annotations
        .iter()
        .filter(|(key, _)| *key != REDUCTION_LANES)
        .map(|(key, value)| (key, value.clone()))
        .collect()
}

/// True if the body of `node` is a block that declares a reduction, and the loop drives nothing but reduced axes.
fn reduces(node: &For) -> bool {
    let Stmt::BlockRealize(realize) = &node.body else { return false };
    is_declared(&realize.block) && drives(realize, node, true) && !drives(realize, node, false)
}
