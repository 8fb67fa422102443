//! Checks after every step, and at the end of a trace.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tvm::codegen;
use tvm::ir::{IRModule, structural_equal};
use tvm::pass::PassContext;
use tvm::target::Target;
use tvm::tir::analysis::well_formed;
use tvm::tir::schedule::{Schedule, ScheduleError, StmtSRef, Trace};
use tvm::tir::{BlockRealize, ForKind, PrimFunc, Scope};

use crate::case::Case;
use crate::steps::{Done, Handles};

/// Counts of steps.
#[derive(Default)]
pub(crate) struct Count {
    pub(crate) accepted: usize,
    pub(crate) refused: usize,
    /// Number of traces whose program became kernels of a GPU.
    pub(crate) kernels: usize,
    /// Number of these whose threads wait for each other, and whose threads exchange values.
    pub(crate) barriers: usize,
    pub(crate) shuffles: usize,
    /// Number of these that a GPU refuses in some size, because a block has too many threads.
    pub(crate) too_large: usize,
    /// Number of traces whose program takes too long to run.
    pub(crate) too_long: usize,
}

/// A failed check.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Name of the step or stage that failed.
    pub(crate) at: String,
    /// Description, with the trace and the program.
    pub(crate) what: String,
}

/// Applies the step that a seed determines.
pub(crate) type Steps = fn(&mut Schedule, &mut Handles, u64) -> Done;

/// Runs the steps of `seeds` on the program of `case`. Returns the resulting
/// program (`None` if it takes too long or is for a GPU), or the failed
/// check.
pub(crate) fn check(
    steps: Steps,
    case: &Case,
    seeds: &[u64],
    count: &mut Count,
) -> Result<Option<PrimFunc>, Failure> {
    let checked = catch_unwind(AssertUnwindSafe(|| unguarded(steps, case, seeds, count)));
    checked.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|it| (*it).to_string()));
        Err(Failure { at: "panic".into(), what: text.unwrap_or_default() })
    })
}

fn unguarded(
    steps: Steps,
    case: &Case,
    seeds: &[u64],
    count: &mut Count,
) -> Result<Option<PrimFunc>, Failure> {
    let mut s = schedule(case)?;
    let mut handles = Handles::default();
    for &seed in seeds {
        let before = s.func().clone();
        let done = steps(&mut s, &mut handles, seed);
        let fail = |what: String| failure(&s, &done.call, &what);
        match &done.result {
            Ok(()) if done.foreign => {
                let what = format!("`{}` takes a handle of another schedule", done.call);
                return Err(failure(&s, "handles", &what));
            }
            Ok(()) => {
                count.accepted += 1;
                well_formed(s.func()).map_err(|err| fail(format!("not well-formed: {err}")))?;
            }
            Err(err) => {
                count.refused += 1;
                structural_equal(&before, s.func())
                    .map_err(|it| fail(format!("a refusal changes the program: {it}\n{err}")))?;
            }
        }
        if !s.state().verify() {
            return Err(fail("the index is wrong".into()));
        }
    }
    let fail = |at: &str, what: String| failure(&s, at, &what);
    let mut again = schedule(case)?;
    let replayed = Trace::from_json(&s.trace().to_json()).and_then(|it| it.apply_to_schedule(&mut again));
    replayed.map_err(|err| fail("replay", err.to_string()))?;
    structural_equal(s.func(), again.func()).map_err(|it| fail("replay", it.to_string()))?;
    let _ = s.func().to_string();
    let gpu = is_for_gpu(&s);
    let lowered = match lowered(s.func(), gpu) {
        Ok(func) => func,
        // Threads of a kernel must have the same extents, and so on; a schedule is accepted before all of its loops are bound.
        Err(_) if gpu => return Ok(None),
        Err(it) => return Err(fail("lowering", it)),
    };
    count.kernels += usize::from(gpu);
    let text = if gpu { lowered.to_string() } else { String::new() };
    count.barriers += usize::from(text.contains("storage_sync"));
    count.shuffles += usize::from(text.contains("warp_shuffle_xor"));
    let fits = case.interpret(s.func(), false).map_err(|it| fail("interpreter", it))?;
    let fits = fits
        && match case.interpret(&lowered, true) {
            Ok(fits) => fits,
            // Extents of threads and of shared memory that are symbolic are compared with the limits at the call.
            Err(err)
                if gpu
                    && (err.contains("a GPU runs at most")
                        || err.contains("bytes of shared memory at most")) =>
            {
                count.too_large += 1;
                return Ok(None);
            }
            Err(err) => return Err(fail("interpreter, lowered", err)),
        };
    count.too_long += usize::from(!fits);
    let native = fits && !gpu;
    Ok(native.then(|| s.into_func()))
}

/// True if the program has threads and shared memory.
pub(crate) fn is_for_gpu(s: &Schedule) -> bool {
    let is_shared = |scope: Scope| matches!(scope, Scope::Shared | Scope::SharedDyn);
    let shared = |it: &Arc<BlockRealize>| it.block.alloc_buffers.iter().any(|it| is_shared(it.scope));
    let blocks = s.state().blocks();
    let bound = |sref: StmtSRef| {
        s.state()
            .get(sref)
            .is_ok_and(|it| it.as_for().is_some_and(|it| matches!(it.kind, ForKind::ThreadBinding(_))))
    };
    blocks.iter().any(|it| shared(it) || s.state().ancestors(StmtSRef::Block(it.block.id)).any(bound))
}

fn schedule(case: &Case) -> Result<Schedule, Failure> {
    let refused = |err: ScheduleError| Failure { at: "the kernel".into(), what: err.to_string() };
    Schedule::new(case.func.clone()).map_err(refused)
}

fn failure(s: &Schedule, at: &str, what: &str) -> Failure {
    Failure { at: at.into(), what: format!("{what}\nthe trace:\n{}the program:\n{}", s.trace(), s.func()) }
}

/// Lowers `func` as it is, without a default schedule, for this machine or a GPU.
pub(crate) fn lowered(func: &PrimFunc, gpu: bool) -> Result<PrimFunc, String> {
    let target = if gpu { Target::cuda() } else { Target::host() };
    let module = IRModule::from_prim_func(func.clone());
    let context = PassContext::new().disable("DefaultSchedule");
    let mut lowered = context.scope(|| codegen::lowered(&module, &target)).map_err(|err| err.to_string())?;
    lowered.pop().map(|(_, func)| func).ok_or_else(|| "the program is gone".into())
}

/// Shrinks a failing trace by leaving out steps of `seeds`; returns the smallest trace found that still fails, with its
/// failure.
pub(crate) fn shrink(steps: Steps, case: &Case, seeds: &[u64], failure: Failure) -> (Vec<u64>, Failure) {
    let (mut seeds, mut failure) = (seeds.to_vec(), failure);
    let mut at = 0;
    while at < seeds.len() {
        let mut fewer = seeds.clone();
        fewer.remove(at);
        match check(steps, case, &fewer, &mut Count::default()) {
            Err(other) => {
                (seeds, failure) = (fewer, other);
                at = 0;
            }
            Ok(_) => at += 1,
        }
    }
    (seeds, failure)
}
