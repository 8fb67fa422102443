//! Checks that a program is in [the lowered form](crate::tir::transform): what code generators rely on, beside
//! well-formedness.
//!
//! TVM counterpart: none.

use tvm_runtime::DataType;

use crate::ir::well_formed::Report;
use crate::ir::{IrError, Span};
use crate::tir::{Buffer, ForKind, Param, PrimExpr, PrimFunc, Scope, Stmt, Visitor, walk_expr, walk_stmt};

/// Checks those points of the lowered form that show in the structure of the program.
///
/// # Errors
/// What is wrong, with the number of the point (`L1` to `L4`).
pub fn lowered_form(func: &PrimFunc) -> Result<(), IrError> {
    let mut check = Lowered { report: Report::default(), span: func.span.clone() };
    let want = [DataType::HANDLE, DataType::I32, DataType::HANDLE];
    let fits = |(param, want): (&Param, DataType)| matches!(param, Param::Scalar(var) if var.dtype() == want);
    if func.params.len() != want.len() || !func.params.iter().zip(want).all(fits) {
        check.fail("L1", "the parameters are not those of the kernel ABI".to_string());
    }
    check.visit_stmt(&func.body);
    check.report.finish()
}

struct Lowered {
    report: Report,
    span: Span,
}

impl Lowered {
    fn fail(&mut self, point: &str, message: String) {
        self.report.add(point, message, &self.span);
    }

    fn flat(&mut self, buffer: &Buffer) {
        if buffer.ndim() != 1 || !buffer.strides.is_empty() || buffer.elem_offset.is_some() {
            self.fail("L2", format!("buffer `{}` is not flat", buffer.name));
        }
    }

    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr], predicate: &Option<PrimExpr>) {
        self.flat(buffer);
        let contiguous = |it: &PrimExpr| matches!(it, PrimExpr::Ramp(ramp) if ramp.stride.is_const(1));
        if predicate.is_some() && !indices.iter().all(contiguous) {
            let message = format!("a masked access to `{}` is of no contiguous vector", buffer.name);
            self.fail("L3", message);
        }
        if indices.len() != 1 {
            self.fail("L3", format!("buffer `{}` is accessed with {} indices", buffer.name, indices.len()));
        }
    }
}

impl Visitor for Lowered {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(it) = expr {
            self.access(&it.buffer, &it.indices, &it.predicate);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::BufferStore(it) => self.access(&it.buffer, &it.indices, &it.predicate),
            Stmt::BlockRealize(it) => self.fail("L2", format!("block `{}` is left", it.block.name)),
            Stmt::For(it) => match it.kind {
                ForKind::Serial | ForKind::Parallel | ForKind::ThreadBinding(_) => {}
                ForKind::Vectorized | ForKind::Unrolled => {
                    let (name, kind) = (it.loop_var.name(), it.kind.name());
                    self.fail("L4", format!("loop `{name}` is still {kind}"));
                }
            },
            Stmt::AllocBuffer(it) => {
                self.flat(&it.buffer);
                if it.buffer.scope == Scope::Local && it.buffer.const_shape().is_none() {
                    self.fail("L2", format!("buffer `{}` on the stack has no constant size", it.buffer.name));
                }
            }
            Stmt::DeclBuffer(it) => self.flat(&it.buffer),
            Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => {}
        }
        walk_stmt(self, stmt);
    }
}
