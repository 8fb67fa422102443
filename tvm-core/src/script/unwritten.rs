//! Check for local buffers that are read but never written, which is always an error.

use rustc_hash::FxHashMap;

use crate::ir::{BufferId, Diagnostic, Span};
use crate::tir::{
    Block, Buffer, Intrinsic, PrimCallee, PrimExpr, Stmt, Visitor, walk_block, walk_expr, walk_stmt,
};

/// An error for each local buffer of `body` that is read but never written.
pub(super) fn unwritten_reads(body: &Stmt) -> Vec<Diagnostic> {
    let mut uses = Uses::default();
    uses.visit_stmt(body);
    let unwritten = uses.local.iter().filter(|buffer| !uses.written.contains(&buffer.id));
    let reads = unwritten.filter_map(|buffer| Some((buffer, uses.reads.get(&buffer.id)?)));
    reads
        .map(|(buffer, span)| {
            let name = &buffer.name;
            Diagnostic::new(format!("`{name}` is read, but nothing writes it"), span)
                .help(format!("store to `{name}` before it is read, or make it a parameter"))
        })
        .collect()
}

#[derive(Default)]
struct Uses {
    local: Vec<Buffer>,
    /// Where a buffer is first read.
    reads: FxHashMap<BufferId, Span>,
    /// Buffers that are written, or may be written through an alias.
    written: rustc_hash::FxHashSet<BufferId>,
}

impl Visitor for Uses {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::BufferLoad(load) => {
                self.reads.entry(load.buffer.id).or_insert_with(|| load.span.clone());
            }
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf) => {
                let loads = call.args.iter().filter_map(|arg| match arg {
                    PrimExpr::BufferLoad(load) => Some(load.buffer.id),
                    _ => None,
                });
                self.written.extend(loads);
            }
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::BufferStore(store) => drop(self.written.insert(store.buffer.id)),
            Stmt::AllocBuffer(alloc) => self.local.push(alloc.buffer.clone()),
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_block(&mut self, block: &Block) {
        self.local.extend(block.alloc_buffers.iter().cloned());
        self.written.extend(block.match_buffers.iter().map(|it| it.source.buffer.id));
        walk_block(self, block);
    }
}

#[cfg(test)]
mod tests {
    use tvm_runtime::DataType;

    use crate::script::{FuncBuilder, FuncSig, KernelValue};
    use crate::tir::Scope;

    #[test]
    fn a_local_buffer_that_nothing_writes() {
        for written in [false, true] {
            let builder = FuncBuilder::new(&FuncSig { name: "f", params: &[] }, "k.rs", (1, 1));
            let y = builder.output((1, 8), "y", DataType::F32, [KernelValue::int(4)]);
            let t = builder.alloc((2, 5), "t", DataType::F32, [KernelValue::int(4)], Scope::Global);
            if written {
                builder.store((3, 5), &t, [KernelValue::int(1)], KernelValue::float(1.0));
            }
            let value = builder.load((4, 9), &t, [KernelValue::int(1)]);
            builder.store((4, 5), &y, [KernelValue::int(0)], value);
            let res = builder.finish();
            assert_eq!(res.is_ok(), written);
            if let Err(err) = res {
                let text = err.to_string();
                assert!(text.contains("`t` is read, but nothing writes it"), "{text}");
                assert!(text.contains("k.rs:4:9") && text.contains("help: store to `t`"), "{text}");
            }
        }
    }
}
