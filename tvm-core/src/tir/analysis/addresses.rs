//! Which buffers are used by their address.

use rustc_hash::FxHashSet;

use crate::ir::BufferId;
use crate::tir::{Intrinsic, PrimCallee, PrimExpr, Visitor, walk_expr};

/// The buffers whose address is taken.
#[derive(Default)]
pub(in crate::tir) struct Addresses(pub(in crate::tir) FxHashSet<BufferId>);

impl Visitor for Addresses {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Call(call) = expr
            && call.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf)
            && let Some(PrimExpr::BufferLoad(load)) = call.args.first()
        {
            self.0.insert(load.buffer.id);
        }
        walk_expr(self, expr);
    }
}
