//! Checks that each element of shared memory is written before it is read.
//!
//! TVM counterpart: none; there such an element has any value.
//! Requires: kernels ([`make_kernels`](super::make_kernels)), with each allocation beside what uses it. Ensures: nothing reads
//! shared memory that nothing filled.

use super::context::{analyzer_for, enter_loop};
use super::coverage::is_covered;
use crate::arith::Analyzer;
use crate::ir::{FirstError, IrError, Span};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::Stmt;
use crate::tir::analysis::is_shared;

/// Fails if an element of shared memory may be read before it is written.
pub fn check_shared_written() -> Pass {
    prim_func_pass("CheckSharedWritten", |func, _, _| {
        let mut check = Check { span: &func.span, errors: FirstError::default() };
        check.stmt(&func.body, &mut analyzer_for(func));
        check.errors.finish(None)
    })
}

struct Check<'a> {
    span: &'a Span,
    errors: FirstError,
}

impl Check<'_> {
    fn stmt(&mut self, stmt: &Stmt, analyzer: &mut Analyzer) {
        if let Stmt::SeqStmt(stmts) = stmt {
            for (at, stmt) in stmts.iter().enumerate() {
                let Stmt::AllocBuffer(alloc) = stmt else { continue };
                let buffer = &alloc.buffer;
                if is_shared(buffer.scope)
                    && !is_covered(analyzer, buffer, &Stmt::SeqStmt(stmts[at + 1..].into()))
                {
                    let message = format!(
                        "elements of `{}` in shared memory may be read before they are written",
                        buffer.name
                    );
                    let help = "write all elements first, or read only what was written";
                    let span = if buffer.span.is_none() { self.span } else { &buffer.span };
                    self.errors.keep::<()>(Err(IrError::new(message, span).help(help)));
                }
            }
        }
        if let Stmt::For(node) = stmt {
            enter_loop(analyzer, node);
        }
        stmt.children().into_iter().for_each(|it| self.stmt(it, analyzer));
    }
}
