//! Checks whether a module is well-formed. Every pass may rely on the rules and must preserve them; on a well-formed
//! program, a pass or code generator may return an error but must not panic.
//!
//! The rules are numbered; `docs/guide/src/tir.md` and `docs/guide/src/relax.md` state them. The scope rules (W1, W2, W6,
//! W18) are checked here, those of tensor programs in `tir/analysis/well_formed.rs`, those of graph functions in
//! `relax/analysis/well_formed.rs`.
//!
//! TVM counterpart: `VerifyWellFormed`, `WellFormed`.

#[cfg(test)]
mod graph_tests;
#[cfg(test)]
pub(crate) use graph_tests::graph_sample;
mod scope;
#[cfg(test)]
mod tests;

pub(crate) use scope::Scopes;

use super::{Diagnostic, IRModule, IrError, Span};

/// Checks every rule on every function.
///
/// # Errors
/// The violations, each with the number of its rule; at most 10 diagnostics.
pub fn well_formed(module: &IRModule) -> Result<(), IrError> {
    let mut report = Report::default();
    let mut scopes = Scopes::default();
    for (gv, func) in module.functions() {
        if module.global_var(gv.name()) != Some(gv) {
            report.add("W2", format!("two functions are named `{}`", gv.name()), &Span::none());
        }
        scopes.check(func.into(), &mut report);
        func.check_rules(module, &mut report);
    }
    module.check_types(&mut report);
    report.finish()
}

/// Collects the first violations.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Diagnostic>);

impl Report {
    const LIMIT: usize = 10;

    /// Reports a violation of `rule` at `span`.
    pub(crate) fn add(&mut self, rule: &str, message: impl AsRef<str>, span: &Span) {
        if self.0.len() < Report::LIMIT {
            self.0.push(Diagnostic::new(format!("{rule}: {}", message.as_ref()), span));
        }
    }

    pub(crate) fn finish(self) -> Result<(), IrError> {
        if self.0.is_empty() { Ok(()) } else { Err(IrError(self.0)) }
    }
}
