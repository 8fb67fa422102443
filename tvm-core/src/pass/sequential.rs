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

    /// [`new`](Self::new) for a default pipeline: its parts remember their places, so that [`Pipelines`](super::Pipelines)
    /// know them again.
    pub(crate) fn built_in(name: &'static str, passes: Vec<Pass>) -> Pass {
        let placed = passes.into_iter().enumerate().map(|(i, pass)| Pass { place: Some(i), ..pass });
        Sequential::new(name, placed.collect())
    }
}

/// A sequence with other parts. The parts are found by name, of which a sequence may have several.
impl Pass {
    /// This sequence with `pass` before its first part named `name`.
    ///
    /// # Errors
    /// When it has no such part.
    pub fn insert_before(&self, name: &str, pass: Pass) -> Result<Pass, PassError> {
        let at = self.places(name)?;
        Ok(self.edited(|parts| parts.insert(at[0], pass)))
    }

    /// This sequence with `pass` after its last part named `name`.
    ///
    /// # Errors
    /// When it has no such part.
    pub fn insert_after(&self, name: &str, pass: Pass) -> Result<Pass, PassError> {
        let at = self.places(name)?;
        Ok(self.edited(|parts| parts.insert(at[at.len() - 1] + 1, pass)))
    }

    /// This sequence with `pass` in place of each part named `name`.
    ///
    /// # Errors
    /// When it has no such part, or one of them is mandatory.
    pub fn replace(&self, name: &str, pass: Pass) -> Result<Pass, PassError> {
        let at = self.optional(name)?;
        Ok(self.edited(|parts| at.iter().for_each(|&i| parts[i] = pass.clone())))
    }

    /// This sequence without its parts named `name`.
    ///
    /// # Errors
    /// When it has no such part, or one of them is mandatory.
    pub fn without(&self, name: &str) -> Result<Pass, PassError> {
        self.optional(name)?;
        Ok(self.edited(|parts| parts.retain(|part| part.info.name != name)))
    }

    /// Indices of the parts named `name`; there is at least one.
    fn places(&self, name: &str) -> Result<Vec<usize>, PassError> {
        let names = || self.parts.iter().map(|part| part.info.name);
        let found: Vec<usize> = (0..).zip(names()).filter(|(_, it)| *it == name).map(|(i, _)| i).collect();
        if found.is_empty() {
            let near = crate::support::nearest(name, names()).map(str::to_string);
            let pipeline = self.info.name.to_string();
            return Err(PassError::NotInPipeline { pipeline, name: name.to_string(), near });
        }
        Ok(found)
    }

    /// [`places`](Self::places) of parts that may be left out.
    fn optional(&self, name: &str) -> Result<Vec<usize>, PassError> {
        let found = self.places(name)?;
        match found.iter().any(|&i| self.parts[i].is_mandatory()) {
            true => Err(PassError::Mandatory(name.to_string())),
            false => Ok(found),
        }
    }

    fn edited(&self, edit: impl FnOnce(&mut Vec<Pass>)) -> Pass {
        let mut parts = self.parts.to_vec();
        edit(&mut parts);
        let new = Sequential::new(self.info.name, parts);
        Pass { info: self.info.clone(), mandatory: self.mandatory, ..new }
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
