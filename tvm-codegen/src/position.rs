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
        let span = stmt.span();
        if !span.is_none() {
            self.0.replace(span);
        }
    }

    /// The error `source` with the name of the kernel `func` and, if it is known, the place in it.
    pub(crate) fn error(&self, func: &PrimFunc, source: CodegenError) -> CodegenError {
        let span = self.0.borrow();
        let span = if span.is_none() { func.span.clone() } else { span.clone() };
        CodegenError::Kernel { kernel: func.name.to_string(), span, source: Box::new(source) }
    }
}
