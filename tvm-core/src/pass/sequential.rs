//! Passes one after another.
//!
//! TVM counterpart: `transform.Sequential`.

use super::{Pass, PassContext, PassError, PassInfo, PassKind, get_pass};
use crate::ir::IRModule;

/// Passes one after another.
#[derive(Debug)]
pub struct Sequential;

impl Sequential {
    /// One pass that runs `passes` in order. What a pass requires and has not run in this sequence is taken from the
    /// registry and runs before it.
    #[expect(clippy::new_ret_no_self, reason = "a sequence of passes is a pass")]
    pub fn new(name: &'static str, passes: Vec<Pass>) -> Pass {
        let info = PassInfo { name, opt_level: 0, required: &[] };
        Pass::new(info, PassKind::Sequential, move |module, ctx| {
            let mut run = Run { ctx, done: Vec::new() };
            passes.iter().try_fold(module, |module, pass| run.pass(pass, module))
        })
    }
}

struct Run<'a> {
    ctx: &'a PassContext,
    /// Names of the passes that ran, and of those whose requirements are being met.
    done: Vec<&'static str>,
}

impl Run<'_> {
    fn pass(&mut self, pass: &Pass, mut module: IRModule) -> Result<IRModule, PassError> {
        self.done.push(pass.info.name);
        if !self.ctx.enabled(pass) {
            return Ok(module);
        }
        for required in pass.info.required {
            if !self.done.contains(required) {
                module = self.pass(&get_pass(required)?, module)?;
            }
        }
        pass.apply_in(module, self.ctx)
    }
}
