//! Where a code generator is in a kernel, for its errors.

use std::cell::RefCell;

use tvm_core::ir::Span;
use tvm_core::tir::{PrimFunc, Stmt};

use crate::CodegenError;

/// The source of the statement that a code generator has entered last; statements that the compiler made have none.
#[derive(Debug, Default)]
pub(crate) struct Position(RefCell<Span>);

impl Position {
    /// Enters `stmt`.
    pub(crate) fn enter(&self, stmt: &Stmt) {
        let span = match stmt {
            Stmt::BufferStore(it) => &it.span,
            Stmt::For(it) => &it.span,
            Stmt::IfThenElse(it) => &it.span,
            Stmt::While(it) => &it.span,
            _ => return,
        };
        if !span.is_none() {
            self.0.replace(span.clone());
        }
    }

    /// The error `source` with the name of the kernel `func` and, if it is known, the place in it.
    pub(crate) fn error(&self, func: &PrimFunc, source: CodegenError) -> CodegenError {
        let span = self.0.borrow();
        let span = if span.is_none() { &func.span } else { &*span };
        let place = if span.is_none() { String::new() } else { format!(" ({span})") };
        CodegenError::Kernel { kernel: func.name.to_string(), place, source: Box::new(source) }
    }
}
