//! Default schedules: a program that nobody scheduled is scheduled by rules, from facts about the target.
//!
//! [`DefaultSchedule`](default_schedule) first inlines what costs nothing (`inline.rs`), makes one axis of the rows of a product
//! (`flat_rows.rs`), finds positions of extremes in two sweeps (`extremes.rs`), and stores by phase what is read with a stride (`phases.rs`). Then it takes the blocks one by one,
//! and applies the first rule of `cpu::RULES` that fits. A rule is a short schedule over an analysed block: it works on a fork
//! of the schedule, so a rule that does not fit, or whose primitive is refused, leaves no trace. What no rule fits stays as
//! it is. All rules work with symbolic dimensions. `gpu` has the rules for GPUs.
//!
//! TVM counterpart: `dlight`, `ApplyDefaultSchedule`.

mod analysis;
mod cpu;
mod extremes;
mod few_rows;
mod flat_rows;
mod gpu;
mod groups;
mod inline;
mod narrow;
mod nest;
mod normal;
mod phases;
mod plain_loops;
mod row_chain;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::ir::AttrValue;
use crate::pass::{Pass, prim_func_pass};
use crate::target::{GpuArch, Machine, TargetKind};
use crate::tir::schedule::{IS_SCHEDULED, Schedule, ScheduleError};
use crate::tir::transform::with_own_dims;
use crate::tir::{BlockRealize, ForKind, PrimFunc, Stmt, Visitor, walk_stmt};

use analysis::{AtMost, BlockInfo};
pub use gpu::schedule_for_gpu;

/// A default schedule for blocks of one form.
struct Rule {
    /// Name, as `explain` shows it.
    name: &'static str,
    /// What fits it, and what it gains.
    why: &'static str,
    /// Schedules a block; an error or `None` means that the rule does not fit. Returns the parameters that it chose.
    apply: fn(&mut Schedule, &BlockInfo, &Machine) -> Result<Option<String>, ScheduleError>,
}

/// What the default schedule did with one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Name of the block.
    pub block: Arc<str>,
    /// Name of the rule.
    pub rule: &'static str,
    /// What fits the rule, and what it gains.
    pub why: &'static str,
    /// The parameters that the rule chose.
    pub parameters: String,
}

/// Schedules the tensor programs that have no schedule, for the CPU or the GPU of the target. A program is left as it is if a schedule
/// was applied to it, or if its author chose how a loop runs. For the interpreter, programs stay as they are written.
pub fn default_schedule() -> Pass {
    prim_func_pass("DefaultSchedule", |func, _, ctx| {
        let target = &ctx.target;
        let scheduled = match target.kind {
            TargetKind::Host | TargetKind::C | TargetKind::Llvm => {
                let bf16_dot = target.machine.bf16_dot && ctx.config.sums_pairs();
                schedule(func, &Machine { bf16_dot, ..target.machine })
            }
            TargetKind::Cuda => {
                let arch = target.gpu_arch().unwrap_or(GpuArch::DEFAULT);
                schedule_for_gpu(func, &arch.limits().with_float_atomics(ctx.config.fast_math))
            }
            TargetKind::Interpreter => None,
        };
        Ok(scheduled.map(|(func, _)| func))
    })
    .opt_level(1)
}

/// The program that [`default_schedule`] makes of `func` for `machine`, and what it did with each block; `None` if it leaves
/// `func` as it is.
pub fn schedule(func: &PrimFunc, machine: &Machine) -> Option<(PrimFunc, Vec<Applied>)> {
    if is_scheduled(func) {
        return None;
    }
    let normal = normal::normalized(func);
    let func = normal.as_ref().unwrap_or(func);
    let own_dims = with_own_dims(func);
    let func = own_dims.as_ref().unwrap_or(func);
    if let Some(apart) = plain_loops::apart(func)
        && let Some(done) = by_rules(apart, machine, None)
        && done.1.iter().any(|it| it.rule == cpu::ORDERED)
    {
        return Some(done);
    }
    // Only products gain from it: other reductions in order stay as they are written.
    let gains =
        |applied: &[Applied]| applied.iter().any(|it| [cpu::CONTRACTION, cpu::SKINNY].contains(&it.rule));
    if let Some(func) = plain_loops::with_inits(func)
        && let Some(many) = by_rules(func.clone(), machine, None).filter(|(_, applied)| gains(applied))
    {
        return Some(few_rows::with_few_rows(&func, many, machine));
    }
    let many = by_rules(func.clone(), machine, None)?;
    Some(few_rows::with_few_rows(func, many, machine))
}

/// `func` scheduled by the rules, for a dimension in some range.
fn by_rules(func: PrimFunc, machine: &Machine, at_most: Option<&AtMost>) -> Option<(PrimFunc, Vec<Applied>)> {
    let func = extremes::in_two_sweeps(&func).unwrap_or(func);
    let mut s = Schedule::new(func).ok()?;
    inline::inline(&mut s, &cpu::PADDED_OF_ATTENTION);
    if let Some(flat) = flat_rows::flattened(s.func()).filter(|_| at_most.is_none()) {
        s = Schedule::new(flat).ok()?;
    }
    groups::divide(&mut s);
    if let Some((func, products)) = narrow::prepared(s.func(), machine) {
        let mut fork = Schedule::new(func).ok()?;
        inline::inline(&mut fork, &cpu::PADDED_OF_ATTENTION);
        let applied = apply_rules(&mut fork, machine, at_most);
        let gains = |name: &Arc<str>| {
            let rule = applied.iter().find(|it| it.block == *name).map(|it| it.rule);
            rule == Some(cpu::CONTRACTION)
        };
        if products.iter().all(gains) {
            return Some((fork.into_func(), applied));
        }
    }
    phases::by_phase(&mut s);
    let applied = apply_rules(&mut s, machine, at_most);
    Some((s.into_func(), applied))
}

/// Schedules the blocks of `s`, those last whose rules may inline them elsewhere.
fn apply_rules(s: &mut Schedule, machine: &Machine, at_most: Option<&AtMost>) -> Vec<Applied> {
    let mut applied = Vec::new();
    let is_copy = |it: &&Arc<BlockRealize>| {
        it.block.annotations.bool(narrow::COPY) == Some(true)
            || cpu::PADDED_OF_ATTENTION.contains(&&*it.block.name)
    };
    let (copies, others): (Vec<_>, Vec<_>) = s.state().leaf_blocks().iter().partition(is_copy);
    let names: Vec<Arc<str>> = others.iter().chain(&copies).map(|it| it.block.name.clone()).collect();
    for name in names {
        let Some(info) = BlockInfo::of(s, &name) else { continue };
        let info = BlockInfo { at_most: at_most.cloned(), ..info };
        for rule in cpu::RULES.iter().filter(|rule| !info.shifted || cpu::SHIFTED.contains(&rule.name)) {
            let mut fork = s.clone();
            if let Ok(Some(parameters)) = (rule.apply)(&mut fork, &info, machine) {
                *s = fork;
                applied.push(Applied { block: name, rule: rule.name, why: rule.why, parameters });
                break;
            }
        }
    }
    applied
}

/// True if `func` has a schedule already, or its author chose how one of its loops runs.
fn is_scheduled(func: &PrimFunc) -> bool {
    struct Chosen(bool);
    impl Visitor for Chosen {
        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.0 |=
                matches!(stmt, Stmt::For(it) if it.kind != ForKind::Serial || !it.annotations.is_empty());
            walk_stmt(self, stmt);
        }
    }
    let mut chosen = Chosen(func.attrs.get(IS_SCHEDULED) == Some(&AttrValue::Bool(true)));
    chosen.visit_stmt(&func.body);
    chosen.0
}
