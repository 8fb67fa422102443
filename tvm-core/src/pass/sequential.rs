//! Passes one after another.
//!
//! TVM counterpart: `transform.Sequential`.

use super::{Pass, PassInfo, PassKind};

/// Passes one after another.
#[derive(Debug)]
pub struct Sequential;

impl Sequential {
    /// One pass that runs `passes` in order.
    #[expect(clippy::new_ret_no_self, reason = "a sequence of passes is a pass")]
    pub fn new(name: &'static str, passes: Vec<Pass>) -> Pass {
        let info = PassInfo { name, opt_level: 0, required: &[] };
        Pass::new(info, PassKind::Sequential, move |module, ctx| {
            passes.iter().try_fold(module, |module, pass| pass.apply_in(module, ctx))
        })
    }
}
