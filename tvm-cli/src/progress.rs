//! What is being done, on a terminal: a line on standard error that disappears when the work is done. Elsewhere nothing is
//! written.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::pass::{Pass, PassError, PassInstrument, PassKind};

use crate::data;

/// The line. It disappears when this is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Shows that the model at `path` is being imported.
    pub(crate) fn importing(path: &Path) -> Progress {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(120));
        bar.set_message(format!("importing {}", data::show(path)));
        Progress(bar)
    }

    /// Shows what is being done.
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// An instrument that shows the passes that run, and on how many kernels.
    pub(crate) fn instrument(&self) -> Arc<dyn PassInstrument> {
        Arc::new(Passes(self.0.clone()))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

struct Passes(ProgressBar);

impl Passes {
    /// Shows what happens to the kernels of a module; to its graph functions, if there are no kernels yet.
    fn show(&self, what: &str, module: &IRModule) {
        if self.0.is_hidden() {
            return;
        }
        let kernels = module.functions().filter(|(_, func)| matches!(func, BaseFunc::Prim(_))).count();
        self.0.set_message(match kernels {
            0 => format!("compiling: {what}"),
            1 => format!("compiling 1 kernel: {what}"),
            _ => format!("compiling {kernels} kernels: {what}"),
        });
    }
}

impl PassInstrument for Passes {
    fn before(&self, pass: &Pass, module: &IRModule) -> Result<(), PassError> {
        if pass.kind != PassKind::Sequential {
            self.show(pass.info.name, module);
        }
        Ok(())
    }

    fn after(&self, pass: &Pass, module: &IRModule) -> Result<(), PassError> {
        // Code is generated once all functions are kernels, and lowered.
        let all = module.functions().all(|(_, func)| matches!(func, BaseFunc::Prim(_)));
        if pass.kind == PassKind::Sequential && all {
            self.show("code", module);
        }
        Ok(())
    }
}
