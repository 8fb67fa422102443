//! Random schedules for GPUs: loops bound to blocks and threads, loops over terms among them, memory that threads share. An
//! accepted trace whose program lowers to kernels must compute the same, run as threads by the interpreter, which reports races.
//!
//! `TVM_FUZZ_KERNEL` limits a run to the kernels whose name contains it.

use tvm::codegen;
use tvm::ir::IRModule;
use tvm::target::Target;
use tvm::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError, StmtSRef};
use tvm::tir::{ForKind, Scope, ThreadTag};
use tvm_testing::{Budget, Rng};

use crate::case::Case;
use crate::check::{Count, check, shrink};
use crate::kernels;
use crate::steps::{Done, Handles};

/// Factors of splits, those of warps among them.
const FACTORS: [i64; 8] = [2, 3, 4, 5, 8, 32, 32, 64];

#[test]
fn fuzz_gpu_schedules() {
    let wanted = std::env::var("TVM_FUZZ_KERNEL").unwrap_or_default();
    let cases: Vec<Case> = kernels::all().filter(|it| it.name.contains(&wanted)).map(Case::new).collect();
    let (mut traces, mut total) = (0u64, Count::default());
    for seed in Budget::new("gpu_schedules", 300) {
        let mut rng = Rng::new(seed);
        let case = rng.pick(&cases);
        let seeds: Vec<u64> = (0..rng.range(3, 14)).map(|_| rng.next()).collect();
        traces += 1;
        if let Err(failure) = check(gpu_step, case, &seeds, &mut total) {
            let (_, failure) = shrink(gpu_step, case, &seeds, failure);
            panic!("seed {seed}, kernel `{}`, {}: {}", case.kernel.name, failure.at, failure.what);
        }
    }
    println!(
        "gpu_schedules: {traces} traces of {} kernels, {} steps accepted, {} refused, {} run as threads of a GPU ({} with \
         barriers, {} with shuffles, {} too large in \
         some size), {} too long to run",
        cases.len(),
        total.accepted,
        total.refused,
        total.kernels,
        total.barriers,
        total.shuffles,
        total.too_large,
        total.too_long
    );
}

/// The default schedules for GPUs of the same programs, in all sizes.
#[test]
fn programs_without_a_schedule_become_kernels() {
    for case in kernels::all().map(Case::new) {
        let name = case.kernel.name;
        let module = IRModule::from_prim_func(case.func.clone());
        let mut lowered =
            codegen::lowered(&module, &Target::cuda()).unwrap_or_else(|err| panic!("{name}: {err}"));
        let func = lowered.pop().map(|it| it.1).expect("a module of one function");
        let fits = case.interpret(&func, true).unwrap_or_else(|err| panic!("{name}: {err}\n{func}"));
        assert!(fits, "{name} takes too long");
    }
}

/// Applies the step that `seed` determines to `s`.
fn gpu_step(s: &mut Schedule, _: &mut Handles, seed: u64) -> Done {
    let mut rng = Rng::new(seed);
    let rng = &mut rng;
    let names: Vec<String> = s.state().blocks().iter().skip(1).map(|it| it.block.name.to_string()).collect();
    let (call, result) = match names.is_empty() {
        true => ("nothing to do".to_string(), Ok(())),
        false => {
            let (mine, other) = (rng.pick(&names).clone(), rng.pick(&names).clone());
            let (call, result) = one(s, &mine, &other, rng);
            (format!("{call} on `{mine}`, `{other}`"), result)
        }
    };
    Done { call, result, foreign: false }
}

fn one(s: &mut Schedule, mine: &str, other: &str, rng: &mut Rng) -> (String, Result<(), ScheduleError>) {
    let around = |s: &mut Schedule, name: &str| -> Result<(BlockRV, Vec<LoopRV>), ScheduleError> {
        let block = s.block(name)?;
        Ok((block, s.get_loops(block)?))
    };
    let ((block, loops), (_, others)) = match (around(s, mine), around(s, other)) {
        (Ok(mine), Ok(others)) => (mine, others),
        (Err(err), _) | (_, Err(err)) => return ("get_loops".into(), Err(err)),
    };
    let (Some(&first), Some(&last)) = (loops.first(), loops.last()) else {
        return ("add_unit_loop of the block".into(), s.add_unit_loop(block).map(drop));
    };
    let any = *rng.pick(&loops);
    match rng.below(40) {
        0..=3 => {
            let (at, factor) = (if rng.one_in(2) { last } else { any }, *rng.pick(&FACTORS));
            (format!("split by {factor}"), s.split(at, [None, Some(factor)]).map(drop))
        }
        4..=6 => ("bind the outermost to blockIdx.x".into(), s.bind(first, ThreadTag::BlockIdxX)),
        7..=9 => ("bind the innermost to threadIdx.x".into(), s.bind(last, ThreadTag::ThreadIdxX)),
        10..=14 => {
            let tag = *rng.pick(&ThreadTag::ALL);
            (format!("bind to {}", tag.name()), s.bind(any, tag))
        }
        // Threads as in the loops that are bound already.
        15..=17 => {
            let tag = *rng.pick(&[ThreadTag::ThreadIdxX, ThreadTag::ThreadIdxX, ThreadTag::ThreadIdxY]);
            let threads = extent_of(s, tag).unwrap_or(32);
            let call = format!("split by {threads} and bind to {}", tag.name());
            let mut fork = s.clone();
            let bound = fork.split(any, [None, Some(threads)]).and_then(|[_, own]| fork.bind(own, tag));
            (call, bound.map(|()| *s = fork))
        }
        18 => ("fuse".into(), s.fuse([any, *rng.pick(&loops)]).map(drop)),
        19 | 20 => ("reorder".into(), s.reorder([any, *rng.pick(&loops)])),
        21..=23 => {
            let scope = *rng.pick(&[Scope::Local, Scope::Shared, Scope::Shared, Scope::SharedDyn]);
            (format!("cache_read in {}", scope.name()), s.cache_read(block, rng.below(3), scope).map(drop))
        }
        33 | 34 if !others.is_empty() => {
            let (at, scope) =
                (*rng.pick(&others), *rng.pick(&[Scope::Local, Scope::Shared, Scope::SharedDyn]));
            (format!("read_at in {}", scope.name()), s.read_at(at, block, rng.below(3), scope).map(drop))
        }
        35 if !others.is_empty() => {
            ("write_at in local".into(), s.write_at(*rng.pick(&others), block, 0, Scope::Local).map(drop))
        }
        24..=26 if !others.is_empty() => ("compute_at".into(), s.compute_at(block, *rng.pick(&others))),
        27 if !others.is_empty() => {
            ("reverse_compute_at".into(), s.reverse_compute_at(block, *rng.pick(&others)))
        }
        28 => ("set_scope to shared".into(), s.set_scope(block, 0, Scope::Shared)),
        29 => ("cache_write in local".into(), s.cache_write(block, 0, Scope::Local).map(drop)),
        30 => ("add_unit_loop".into(), s.add_unit_loop(any).map(drop)),
        31 => ("rfactor".into(), s.rfactor(any, 0).map(drop)),
        32 => ("decompose_reduction".into(), s.decompose_reduction(block, any).map(drop)),
        38 | 39 => ("atomic".into(), s.atomic(block, false)),
        _ if rng.one_in(2) => ("unroll".into(), s.unroll(last)),
        _ => ("vectorize".into(), s.vectorize(last)),
    }
}

/// The extent of a loop that is bound to `tag`, if it is a constant.
fn extent_of(s: &Schedule, tag: ThreadTag) -> Option<i64> {
    let blocks = s.state().blocks();
    let loops = blocks.iter().flat_map(|it| s.state().loops_above(StmtSRef::Block(it.block.id)));
    let mut bound = loops.filter_map(|var| s.state().get_for(var).ok());
    bound.find(|it| it.kind == ForKind::ThreadBinding(tag))?.extent.as_int()
}
