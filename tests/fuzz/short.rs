//! All short sequences of schedule primitives: random traces rarely meet the few that matter for a small program.
//!
//! `TVM_FUZZ_DEPTH` is the number of primitives in a sequence (1 by default, 2 in the long form: 15,000 programs, a minute;
//! 3: 280,000 programs, 26 minutes). `TVM_FUZZ_KERNEL` limits a run to the kernels whose name contains it.

use std::collections::HashSet;

use tvm::ir::structural_hash;
use tvm::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use tvm::tir::{Scope, ThreadTag};

use crate::case::Case;
use crate::check::{is_for_gpu, lowered};
use crate::kernels;

/// A primitive with its arguments: positions of blocks and of the loops around them.
#[derive(Clone, Copy, Debug)]
enum Step {
    Inline(usize),
    ReverseInline(usize),
    FuseEpilogue(usize, usize),
    CacheRead(usize, usize),
    CacheWrite(usize),
    TransformLayout(usize, usize),
    Decompose(usize, usize),
    DecomposePadding(usize, usize),
    Blockize(usize, usize),
    Rfactor(usize, usize),
    Split(usize, usize),
    Parallel(usize, usize),
    Vectorize(usize, usize),
    Bind(usize, usize),
    Fuse(usize, usize, usize),
    Reorder(usize, usize, usize),
    ComputeAt(usize, usize, usize),
    ReverseComputeAt(usize, usize, usize),
}

/// The names of the blocks other than the root.
fn blocks(s: &Schedule) -> Vec<String> {
    let names = s.state().blocks().iter().map(|it| it.block.name.to_string()).collect::<Vec<_>>();
    names.into_iter().filter(|name| name != "root").collect()
}

/// All steps for the blocks and loops of `s`.
fn steps(s: &Schedule) -> Vec<Step> {
    let mut probe = s.clone();
    let depths: Vec<usize> =
        blocks(s).iter().map(|name| loops(&mut probe, name).map_or(0, |(_, loops)| loops.len())).collect();
    let mut steps = Vec::new();
    for (block, &depth) in depths.iter().enumerate() {
        steps.extend([Step::Inline(block), Step::ReverseInline(block), Step::CacheWrite(block)]);
        steps.extend((0..2).map(|index| Step::CacheRead(block, index)));
        steps.extend((0..2).map(|index| Step::TransformLayout(block, index)));
        for a in 0..depth {
            steps.extend([Step::Decompose(block, a), Step::Rfactor(block, a), Step::Split(block, a)]);
            steps.extend([Step::DecomposePadding(block, a), Step::Blockize(block, a)]);
            steps.extend([Step::Parallel(block, a), Step::Vectorize(block, a), Step::Bind(block, a)]);
            for b in a + 1..depth {
                steps.extend([Step::Fuse(block, a, b), Step::Reorder(block, a, b)]);
            }
        }
        for (other, &depth) in depths.iter().enumerate().filter(|(other, _)| *other != block) {
            steps.push(Step::FuseEpilogue(block, other));
            for at in 0..depth {
                steps.extend([Step::ComputeAt(block, other, at), Step::ReverseComputeAt(block, other, at)]);
            }
        }
    }
    steps
}

fn loops(s: &mut Schedule, block: &str) -> Result<(BlockRV, Vec<LoopRV>), ScheduleError> {
    let block = s.block(block)?;
    let loops = s.get_loops(block)?;
    Ok((block, loops))
}

fn apply(s: &mut Schedule, step: Step) -> Result<(), ScheduleError> {
    let names = blocks(s);
    let mut of = |block: usize| loops(s, &names[block]);
    match step {
        Step::Inline(block) => of(block).and_then(|(block, _)| s.compute_inline(block)),
        Step::ReverseInline(block) => of(block).and_then(|(block, _)| s.reverse_compute_inline(block)),
        Step::FuseEpilogue(block, other) => {
            let (block, other) = (of(block)?.0, of(other)?.0);
            s.fuse_reduction_epilogue(block, other)
        }
        Step::CacheRead(block, index) => {
            of(block).and_then(|(block, _)| s.cache_read(block, index, Scope::Local).map(drop))
        }
        Step::CacheWrite(block) => {
            of(block).and_then(|(block, _)| s.cache_write(block, 0, Scope::Local).map(drop))
        }
        Step::TransformLayout(block, index) => {
            let (block, _) = of(block)?;
            let layouts = [("I", "I2i"), ("IJ", "JI"), ("IJK", "KI2iJ"), ("IJKL", "LKJI")];
            let mut last = Ok(());
            for (from, to) in layouts {
                last = s.transform_layout(block, index, from, to);
                if last.is_ok() {
                    break;
                }
            }
            last
        }
        Step::Decompose(block, a) => {
            of(block).and_then(|(block, loops)| s.decompose_reduction(block, loops[a]).map(drop))
        }
        Step::DecomposePadding(block, a) => {
            of(block).and_then(|(block, loops)| s.decompose_padding(block, loops[a]).map(drop))
        }
        Step::Blockize(block, a) => of(block).and_then(|(_, loops)| s.blockize(loops[a]).map(drop)),
        Step::Rfactor(block, a) => {
            of(block).and_then(|(_, loops)| s.rfactor(loops[a], (a % 2) as i64).map(drop))
        }
        Step::Split(block, a) => {
            of(block).and_then(|(_, loops)| s.split(loops[a], [None, Some(3)]).map(drop))
        }
        Step::Parallel(block, a) => of(block).and_then(|(_, loops)| s.parallel(loops[a])),
        Step::Vectorize(block, a) => of(block).and_then(|(_, loops)| s.vectorize(loops[a])),
        Step::Bind(block, a) => of(block).and_then(|(_, loops)| s.bind(loops[a], ThreadTag::Vthread)),
        Step::Fuse(block, a, b) => of(block).and_then(|(_, loops)| s.fuse_n(&loops[a..=b]).map(drop)),
        Step::Reorder(block, a, b) => of(block).and_then(|(_, loops)| s.reorder([loops[b], loops[a]])),
        Step::ComputeAt(block, other, at) => {
            let (_, loops) = of(other)?;
            of(block).and_then(|(block, _)| s.compute_at(block, loops[at]))
        }
        Step::ReverseComputeAt(block, other, at) => {
            let (_, loops) = of(other)?;
            of(block).and_then(|(block, _)| s.reverse_compute_at(block, loops[at]))
        }
    }
}

#[test]
fn fuzz_short_schedules() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let long = ["TVM_FUZZ_SECONDS", "TVM_FUZZ_CASES"].iter().any(|name| std::env::var_os(name).is_some());
    let depth = variable("TVM_FUZZ_DEPTH").parse().unwrap_or(if long { 2 } else { 1 });
    let wanted = variable("TVM_FUZZ_KERNEL");
    let (mut programs, mut refused, mut failures) = (0, 0, Vec::new());
    for kernel in kernels::all().filter(|it| it.name.contains(&wanted)) {
        let case = Case::new(kernel);
        let start = Schedule::new(case.func.clone()).unwrap_or_else(|err| panic!("{}: {err}", kernel.name));
        let mut seen = HashSet::from([structural_hash(&case.func)]);
        let mut last: Vec<(Vec<Step>, Schedule)> = vec![(vec![], start)];
        for _ in 0..depth {
            let mut next = Vec::new();
            for (before, s) in &last {
                for step in steps(s) {
                    let mut changed = s.clone();
                    if apply(&mut changed, step).is_err() {
                        refused += 1;
                        continue;
                    }
                    if !seen.insert(structural_hash(changed.func())) {
                        continue;
                    }
                    programs += 1;
                    let sequence = [&before[..], &[step]].concat();
                    let checked = case.interpret(changed.func(), false).and_then(|_| {
                        let gpu = is_for_gpu(&changed);
                        let lowered = match lowered(changed.func(), gpu) {
                            // Other loops of the kernel are not bound yet.
                            Err(_) if gpu => return Ok(true),
                            lowered => lowered.map_err(|what| format!("lowering: {what}"))?,
                        };
                        case.interpret(&lowered, true).map_err(|what| format!("lowered: {what}"))
                    });
                    match checked {
                        Ok(_) => next.push((sequence, changed)),
                        Err(what) => failures.push(format!(
                            "kernel `{}`, {sequence:?}: {what}\n{}",
                            kernel.name,
                            changed.func()
                        )),
                    }
                }
            }
            last = next;
        }
    }
    println!("short schedules: {programs} programs of at most {depth} primitives, {refused} steps refused");
    assert!(programs > 0 && failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
}
