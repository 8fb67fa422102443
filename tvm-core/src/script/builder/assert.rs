//! Assertions of kernels.

use tvm_runtime::abi::Status;

use super::{FuncBuilder, Loc};
use crate::script::KernelValue;
use crate::tir::{AssertStmt, Failure, PrimExpr};

impl FuncBuilder {
    /// `assert!(condition, message);`
    pub fn assert(&self, loc: Loc, condition: KernelValue, message: &str) {
        self.check_literals(loc);
        let none = || PrimExpr::index(0);
        let failure = Failure::new(Status::Assert as i32, -1, -1, none(), none());
        let failure = Failure { what: message.into(), span: self.span(loc), ..failure };
        self.push(AssertStmt { condition: condition.into_expr(), failure });
    }
}
