//! What a compilation is told: level, required and disabled passes, typed options, instruments.
//!
//! TVM counterpart: `PassContext`.

use std::cell::RefCell;

use super::{Pass, PassError};
use crate::ir::IRModule;

/// Typed options of the passes, with their defaults.
#[derive(Clone, Debug)]
pub struct PassConfig {
    /// `FuseOps`: most operators in one fused function.
    pub fuse_max_depth: usize,
    /// `UnrollLoop`: loops of at most this many iterations in all are unrolled without being told.
    pub unroll_max_steps: i64,
    /// Code generation may reassociate floats and assume no NaN.
    pub fast_math: bool,
    /// Kernels check the shapes and types of their arguments.
    pub check_args: bool,
}

impl Default for PassConfig {
    fn default() -> PassConfig {
        PassConfig { fuse_max_depth: 256, unroll_max_steps: 0, fast_math: false, check_args: true }
    }
}

/// What a compilation is told.
#[derive(Clone, Debug)]
pub struct PassContext {
    /// Passes of a higher level are skipped; 2 by default.
    pub opt_level: u8,
    /// Names of passes that run whatever their level.
    pub required: Vec<String>,
    /// Names of passes that do not run.
    pub disabled: Vec<String>,
    /// Options.
    pub config: PassConfig,
}

impl Default for PassContext {
    fn default() -> PassContext {
        PassContext {
            opt_level: 2,
            required: Vec::new(),
            disabled: Vec::new(),
            config: PassConfig::default(),
        }
    }
}

thread_local! {
    static STACK: RefCell<Vec<PassContext>> = const { RefCell::new(Vec::new()) };
}

impl PassContext {
    /// The innermost context entered on this thread, or the default one.
    pub fn current() -> PassContext {
        STACK.with_borrow(|stack| stack.last().cloned()).unwrap_or_default()
    }

    /// Runs `f` with this context as the current one of the thread.
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                STACK.with_borrow_mut(|stack| stack.pop());
            }
        }
        STACK.with_borrow_mut(|stack| stack.push(self));
        let _leave = Leave;
        f()
    }

    /// True when the pass is to run.
    pub fn enabled(&self, pass: &Pass) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == pass.info.name);
        !named(&self.disabled) && (named(&self.required) || pass.info.opt_level <= self.opt_level)
    }

    pub(super) fn instrumented(
        &self,
        pass: &Pass,
        module: IRModule,
        run: impl FnOnce(IRModule) -> Result<IRModule, PassError>,
    ) -> Result<IRModule, PassError> {
        if !self.enabled(pass) {
            return Ok(module);
        }
        run(module)
    }
}
