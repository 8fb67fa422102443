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
    fn show(&self, what: &str, module: &IRModule, kernels_only: bool) {
        if self.0.is_hidden() {
            return;
        }
        let kernels = module.functions().filter(|(_, func)| matches!(func, BaseFunc::Prim(_))).count();
        match kernels {
            0 if kernels_only => {}
            0 => self.0.set_message(what.to_string()),
            1 => self.0.set_message(format!("{what}: 1 kernel")),
            _ => self.0.set_message(format!("{what}: {kernels} kernels")),
        }
    }
}

impl PassInstrument for Passes {
    fn before(&self, pass: &Pass, module: &IRModule) -> Result<(), PassError> {
        if pass.kind != PassKind::Sequential {
            self.show(pass.info.name, module, false);
        }
        Ok(())
    }

    fn after(&self, pass: &Pass, module: &IRModule) -> Result<(), PassError> {
        if pass.kind == PassKind::Sequential {
            self.show("generating code", module, true);
        }
        Ok(())
    }
}
