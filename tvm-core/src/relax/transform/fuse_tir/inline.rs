//! Inlining of the intermediate results of a fused tensor program: those whose elements are used about once need no memory.
//!
//! A value that is read at two places would be computed at both, so only small values are inlined there. A value that has
//! grown beyond the limit stays in memory, so the size of a program is linear in the graph that it comes from.
//!
//! TVM counterpart: the inlining that `dlight` and `meta_schedule` rules begin with (`AutoInline`).

use crate::tir::schedule::Schedule;
use crate::tir::{
    Block, Buffer, BufferLoad, BufferStore, Intrinsic, IterVar, PrimCallee, PrimExpr, PrimFunc, Stmt,
    Visitor, any_expr, walk_block, walk_expr, walk_stmt,
};

/// Values of more expression nodes than this are not computed twice.
const TWICE_LIMIT: usize = 16;

/// `func` without those of its `intermediates` that can be computed where they are read.
pub(super) fn inline_intermediates(func: PrimFunc, intermediates: &[Buffer]) -> PrimFunc {
    let Ok(mut schedule) = Schedule::new(func.clone()) else { return func };
    for buffer in intermediates {
        let mut uses =
            Uses { buffer, axes: Vec::new(), block: None, writer: None, loads: 0, once: true, cheap: true };
        uses.visit_stmt(&schedule.func().body);
        if let Some(writer) = uses.writer.clone()
            && uses.worth_inlining()
            && let Ok(block) = schedule.get_block(&writer)
        {
            // If the schedule refuses, the program is unchanged and the buffer stays.
            let _ = schedule.compute_inline(block);
        }
    }
    schedule.func().clone()
}

/// How a buffer is written and read.
struct Uses<'a> {
    buffer: &'a Buffer,
    axes: Vec<IterVar>,
    block: Option<std::sync::Arc<str>>,
    writer: Option<std::sync::Arc<str>>,
    loads: usize,
    /// Every load reads each element at most once.
    once: bool,
    /// The value is cheap enough to be computed twice.
    cheap: bool,
}

impl Uses<'_> {
    fn worth_inlining(&self) -> bool {
        (self.once && self.loads == 1) || (self.cheap && self.loads <= 2)
    }
}

impl Visitor for Uses<'_> {
    fn visit_block(&mut self, block: &Block) {
        let outer = (std::mem::replace(&mut self.axes, block.iter_vars.to_vec()), self.block.take());
        self.block = Some(block.name.clone());
        walk_block(self, block);
        (self.axes, self.block) = outer;
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt {
            self.store(store);
        }
        walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr {
            self.load(load);
        }
        walk_expr(self, expr);
    }
}

impl Uses<'_> {
    fn store(&mut self, store: &BufferStore) {
        if store.buffer == *self.buffer {
            self.writer.clone_from(&self.block);
            let mut nodes = 0;
            self.cheap &= !any_expr(&store.value, &mut |expr| {
                nodes += 1;
                nodes > TWICE_LIMIT || is_expensive(expr)
            });
        }
    }

    fn load(&mut self, load: &BufferLoad) {
        if load.buffer == *self.buffer {
            self.loads += 1;
            self.once &= self
                .axes
                .iter()
                .filter(|axis| !axis.dom.extent.is_const(1))
                .all(|axis| load.indices.iter().any(|index| index.as_var() == Some(&axis.var)));
        }
    }
}

fn is_expensive(expr: &PrimExpr) -> bool {
    match expr {
        PrimExpr::Call(call) => !matches!(
            call.callee,
            PrimCallee::Intrinsic(Intrinsic::IfThenElse | Intrinsic::Likely | Intrinsic::Abs)
        ),
        _ => false,
    }
}
