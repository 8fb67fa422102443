//! Schedules of the tensor programs of one module.
//!
//! TVM counterpart: `tir.Schedule` of an `IRModule`, with `work_on`. There, one trace holds the instructions of all functions; here,
//! each function has a trace, and handles of one function are refused by the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Result, Schedule, ScheduleError, Trace};
use crate::ir::{BaseFunc, IRModule};
use crate::support::nearest;

/// A module whose tensor programs are being scheduled. A program that is not worked on stays as it is.
///
/// ```
/// # use tvm_core::ir::IRModule;
/// # use tvm_core::tir::schedule::{ModuleSchedule, ScheduleError};
/// # fn tile(module: IRModule) -> Result<IRModule, ScheduleError> {
/// let mut schedules = ModuleSchedule::new(module);
/// let matmul = schedules.work_on("matmul")?;
/// let product = matmul.block("C")?;
/// let [i, _, _] = matmul.loops(product)?;
/// matmul.parallel(i)?;
/// let softmax = schedules.work_on("softmax")?;
/// let exp = softmax.block("exp")?;
/// softmax.compute_inline(exp)?;
/// Ok(schedules.into_module())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ModuleSchedule {
    module: IRModule,
    /// By name of the function, those that were worked on.
    schedules: BTreeMap<Arc<str>, Schedule>,
}

impl ModuleSchedule {
    /// Starts with `module` as it is.
    pub fn new(module: IRModule) -> ModuleSchedule {
        ModuleSchedule { module, schedules: BTreeMap::new() }
    }

    /// The schedule of the tensor program `name`, with what was done to it so far.
    ///
    /// # Errors
    /// When the module has no tensor program of this name, or its body is not the realize of a root block.
    pub fn work_on(&mut self, name: &str) -> Result<&mut Schedule> {
        let Some(BaseFunc::Prim(func)) = self.module.lookup(name) else {
            let programs = self.module.functions().filter(|(_, func)| matches!(func, BaseFunc::Prim(_)));
            let names: Vec<&str> = programs.map(|(gv, _)| gv.name()).collect();
            let near = nearest(name, names.iter().copied()).map(str::to_string);
            let (name, functions) = (name.to_string(), names.join(", "));
            return Err(ScheduleError::UnknownFunction { name, near, functions });
        };
        if !self.schedules.contains_key(name) {
            self.schedules.insert(name.into(), Schedule::new((**func).clone())?);
        }
        self.schedules.get_mut(name).ok_or_else(|| ScheduleError::NotSchedulable(name.to_string()))
    }

    /// The schedules of the programs that were worked on, by name.
    pub fn schedules(&self) -> impl Iterator<Item = (&str, &Schedule)> {
        self.schedules.iter().map(|(name, schedule)| (&**name, schedule))
    }

    /// The traces of the programs that were worked on, by name.
    pub fn traces(&self) -> BTreeMap<String, Trace> {
        self.schedules().map(|(name, schedule)| (name.to_string(), schedule.trace().clone())).collect()
    }

    /// Applies `traces`, which [`traces`](Self::traces) of another schedule of such a module returned. On failure, nothing
    /// is changed.
    ///
    /// # Errors
    /// When a function is missing or a trace does not fit.
    pub fn apply_traces(&mut self, traces: &BTreeMap<String, Trace>) -> Result<()> {
        let mut forked = self.clone();
        for (name, trace) in traces {
            trace.apply_to_schedule(forked.work_on(name)?)?;
        }
        *self = forked;
        Ok(())
    }

    /// The module as it is now.
    pub fn into_module(self) -> IRModule {
        let mut module = self.module;
        for (name, schedule) in self.schedules {
            if let Some(gv) = module.global_var(&name).cloned() {
                module.update(gv, BaseFunc::Prim(Arc::new(schedule.into_func())));
            }
        }
        module
    }
}
