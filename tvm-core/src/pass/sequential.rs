//! Sequences of passes.
//!
//! TVM counterpart: `transform.Sequential`.

use std::sync::Arc;

use super::{Pass, PassContext, PassError, PassInfo, PassKind, get_pass};
use crate::ir::IRModule;

/// Constructor of passes that run other passes in order.
#[derive(Debug)]
pub struct Sequential;

impl Sequential {
    /// One pass that runs `passes` in order. A pass that one of them requires and that has not run in this sequence is
    /// taken from the registry and runs first.
    #[expect(clippy::new_ret_no_self, reason = "a sequence of passes is a pass")]
    pub fn new(name: &'static str, passes: Vec<Pass>) -> Pass {
        let info = PassInfo { name, opt_level: 0, required: &[] };
        let parts: Arc<[Pass]> = passes.into();
        let run = parts.clone();
        let mut pass = Pass::new(info, PassKind::Sequential, move |module, ctx| {
            let mut sequence = Run { ctx, done: Vec::new() };
            run.iter().try_fold(module, |module, pass| sequence.pass(pass, module))
        });
        pass.parts = parts;
        pass
    }
}

struct Run<'a> {
    ctx: &'a PassContext,
    /// Names of the passes that ran, and of those whose requirements are running.
    done: Vec<&'static str>,
}

impl Run<'_> {
    fn pass(&mut self, pass: &Pass, mut module: IRModule) -> Result<IRModule, PassError> {
        if !self.ctx.enabled(pass) {
            return Ok(module);
        }
        self.done.push(pass.info.name);
        for required in pass.info.required {
            if !self.done.contains(required) {
                // A required pass runs whatever its level.
                let ctx = self.ctx.clone().require(required);
                let mut run = Run { ctx: &ctx, done: std::mem::take(&mut self.done) };
                module = run.pass(&get_pass(required)?, module)?;
                self.done = run.done;
            }
        }
        pass.apply_in(module, self.ctx)
    }
}
