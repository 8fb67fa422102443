//! The reference interpreter: runs any well-formed tensor program, scheduled or lowered, on host tensors.
//!
//! It is the oracle of the tests and evaluates constants for folding. A [`Program`] is compiled once, to closures over
//! dense variable slots, and may be run many times. Semantics: integers wrap to their type; `f32`, `f16` and `bf16`
//! are rounded after every operation; minimum and maximum propagate NaN; casts saturate as Rust's `as`; `round` rounds
//! halves to even. Loops of all kinds run one iteration after another (thread loops with barriers: part by part),
//! vectors lane by lane. Allocated memory holds zeros until it is written; the [strict](Program::strict) mode reports
//! reads of unwritten memory, and races.
//!
//! A first parameter of type `handle` makes a function *packed*: that variable represents the whole argument list,
//! which the `Arg*` intrinsics read. An integer parameter after it is the number of arguments, a handle is the call
//! context. Lowered functions therefore run on the same arguments as the functions they were lowered from.
//!
//! TVM counterpart: none.

mod access;
mod args;
mod deep;
mod error;
mod expr;
mod init;
mod intrinsic;
mod machine;
mod math;
mod ops;
mod reduce;
mod simt;
mod stmt;
mod strict;
#[cfg(test)]
mod tests;

pub use error::{InterpError, InterpErrorKind};
pub use strict::Strict;
pub use tvm_runtime::Value;
use tvm_runtime::vm::CancelToken;

use super::PrimFunc;
use machine::Machine;

/// A tensor program compiled for the interpreter.
pub struct Program {
    name: std::sync::Arc<str>,
    params: Vec<args::ParamCode>,
    body: machine::Run,
    sizes: machine::Sizes,
}

/// Runs `func` on `args`: one value per parameter, tensors or scalars. Outputs are written in place.
pub fn run(func: &PrimFunc, args: &mut [Value]) -> Result<(), InterpError> {
    Program::compile(func)?.run(args)
}

impl Program {
    /// Compiles `func`.
    pub fn compile(func: &PrimFunc) -> Result<Program, InterpError> {
        let mut compiler = stmt::Compiler::default();
        let params = compiler.params(func)?;
        let body = compiler.stmt(&func.body)?;
        Ok(Program { name: func.name.clone(), params, body, sizes: compiler.sizes })
    }

    /// Runs on `args`.
    pub fn run(&self, args: &mut [Value]) -> Result<(), InterpError> {
        self.run_limited(args, u64::MAX)
    }

    /// Runs on `args` and fails after `steps` statements and loop iterations.
    pub fn run_limited(&self, args: &mut [Value], steps: u64) -> Result<(), InterpError> {
        self.run_on(args, steps, |_| {})
    }

    /// Runs on `args` and fails once `cancel` is cancelled.
    pub fn run_until(&self, args: &mut [Value], cancel: Option<&CancelToken>) -> Result<(), InterpError> {
        self.run_on(args, u64::MAX, |machine| machine.cancel = cancel.cloned())
    }

    /// Runs on `args`, after `prepare` has changed the machine.
    fn run_on(
        &self,
        args: &mut [Value],
        steps: u64,
        prepare: impl FnOnce(&mut Machine<'_>),
    ) -> Result<(), InterpError> {
        let mut machine = Machine::new(&self.sizes, steps);
        self.bind(&mut machine, args)?;
        prepare(&mut machine);
        (self.body)(&mut machine).map_err(|trap| machine.error(trap))
    }
}
