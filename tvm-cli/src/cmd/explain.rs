//! What a compilation chose: forms of operators, kernels, the rule and the parameters of each kernel's schedule.

use std::collections::HashMap;
use std::fmt::Write;

use tvm_codegen::Compiled;
use tvm_core::dlight::{self, Applied};
use tvm_core::ir::BaseFunc;
use tvm_core::pass::{Choice, PassContext};
use tvm_core::target::Machine;
use tvm_core::tir::PrimFunc;
use tvm_runtime::vm::Instruction;

/// The schedule that `func` gets by default, and what the rules did with each block; `None` if it keeps its own.
pub(super) fn scheduled(compiled: &Compiled, func: &PrimFunc) -> Option<(PrimFunc, Vec<Applied>)> {
    if let Some(arch) = compiled.target().gpu_arch().filter(|_| !func.is_on_host()) {
        let fast_math = PassContext::current().config.fast_math;
        return dlight::schedule_for_gpu(func, &arch.limits().with_float_atomics(fast_math));
    }
    let machine = compiled.target().machine;
    let bf16_dot = machine.bf16_dot && PassContext::current().config.sums_pairs();
    dlight::schedule(func, &Machine { bf16_dot, ..machine })
}

/// The choices over the graph, then the kernels in the order of their first calls.
pub(super) fn explanation(compiled: &Compiled, choices: &[Choice]) -> String {
    let mut text = String::new();
    let fusions: HashMap<&str, &Choice> =
        choices.iter().filter(|it| it.pass == "FuseOps").map(|it| (it.subject.as_str(), it)).collect();
    for (choice, times) in counted(choices.iter().filter(|it| it.pass != "FuseOps")) {
        let Choice { pass, subject, chosen, reason } = choice;
        let _ = writeln!(text, "{subject}{}\n    {chosen}: {reason} ({pass})", times_of(times));
    }
    let programs: HashMap<&str, &PrimFunc> = (compiled.programs.functions())
        .filter_map(|(gv, func)| match func {
            BaseFunc::Prim(func) => Some((gv.name(), &**func)),
            _ => None,
        })
        .collect();
    let executable = &compiled.executable;
    let kernels = executable.functions.iter().flat_map(|it| &it.code).filter_map(|it| match it {
        Instruction::InvokeKernel { kernel, .. } => executable.kernels.get(kernel.index()),
        _ => None,
    });
    for (kernel, calls) in counted(kernels) {
        let Some(func) = programs.get(&*kernel.name) else { continue };
        let _ = writeln!(text, "\n{kernel}{}", times_of(calls));
        if let Some(Choice { chosen, reason, .. }) = fusions.get(&*kernel.name) {
            let _ = writeln!(text, "    {chosen}: {reason}");
        }
        let Some((_, applied)) = scheduled(compiled, func) else {
            text += "    it has a schedule of its own\n";
            continue;
        };
        for Applied { block, rule, why, parameters } in &applied {
            let _ = writeln!(text, "    block `{block}`: {rule} ({parameters}): {why}");
        }
        if applied.is_empty() {
            text += "    plain loops, as no rule fits\n";
        }
    }
    text
}

/// Each value once, in order, and how often it occurs.
fn counted<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<(T, usize)> {
    let mut found: Vec<(T, usize)> = Vec::new();
    for value in values {
        match found.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => found.push((value, 1)),
        }
    }
    found
}

fn times_of(count: usize) -> String {
    if count == 1 { String::new() } else { format!(", {count} times") }
}
