//! Where a code generator is in a kernel, for its errors.

use std::cell::RefCell;

use tvm_core::ir::Span;
use tvm_core::tir::{PrimFunc, Stmt};

/// The source of the statement that a code generator has entered last; statements that the compiler made have none.
#[derive(Debug, Default)]
pub(crate) struct Place(RefCell<Span>);

impl Place {
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

    /// The place in `func`, as text that follows the name of the kernel in an error; empty if it is not known.
    pub(crate) fn text(&self, func: &PrimFunc) -> String {
        let span = self.0.borrow();
        let span = if span.is_none() { &func.span } else { &*span };
        if span.is_none() { String::new() } else { format!(" ({span})") }
    }
}
