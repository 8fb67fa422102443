//! Thread pools that run parallel loops: a small pool of the runtime, or the application's own.
//!
//! TVM counterpart: `runtime/thread_pool.cc`. The calling thread takes part in its own loop, so the loop ends even if
//! no worker is free, and nested calls cannot deadlock. A parallel loop inside another one runs sequentially in the
//! thread that reaches it.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread;

use crate::error::RuntimeError;

mod claims;
mod parts;
#[cfg(feature = "rayon")]
mod rayon;
mod spread;
mod workers;

use claims::Claims;
#[cfg(feature = "rayon")]
pub use rayon::RayonPool;
pub use workers::WorkerPool;

/// A pool that runs parallel loops. Implement it to give the runtime the application's own threads.
pub trait ThreadPool: Send + Sync {
    /// Number of threads that may work on one loop, including the calling thread; at least 1.
    fn num_threads(&self) -> usize;

    /// Covers `0..extent` with calls of `body` on disjoint ranges, possibly in other threads, and returns when all
    /// calls have returned. Ranges of fewer than `grain` iterations are hardly worth another thread; a pool may make
    /// them nevertheless. `body` does not panic. The runtime checks the ranges: iterations outside `0..extent` and
    /// repeated iterations are not run, and the loop ends with [`RuntimeError::ThreadPool`]; so does a loop that leaves
    /// an iteration out.
    fn parallel_for(&self, extent: usize, grain: usize, body: &(dyn Fn(Range<usize>) + Sync));

    /// True for a pool of this crate whose ranges need no check. Others cannot name the type of the argument, so they cannot
    /// override it.
    #[doc(hidden)]
    fn is_exact(&self, _: own::Own) -> bool {
        false
    }
}

mod own {
    /// Says that this crate asks.
    pub struct Own;
}

/// A value alone in its cache line, or in two, which some processors load together.
#[derive(Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

static GLOBAL: RwLock<Option<Arc<dyn ThreadPool>>> = RwLock::new(None);
/// `num_threads` of the global pool; 0 while it is unknown.
static NUM_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Replaces the global thread pool.
pub fn set_thread_pool(pool: Arc<dyn ThreadPool>) {
    let mut global = GLOBAL.write().unwrap_or_else(PoisonError::into_inner);
    NUM_THREADS.store(pool.num_threads().max(1), Ordering::Relaxed);
    *global = Some(pool);
}

/// The global thread pool; the first call starts it unless the application has set one.
pub fn thread_pool() -> Arc<dyn ThreadPool> {
    static DEFAULT: OnceLock<Arc<WorkerPool>> = OnceLock::new();
    let global = GLOBAL.read().unwrap_or_else(PoisonError::into_inner);
    match &*global {
        Some(pool) => pool.clone(),
        None => DEFAULT.get_or_init(|| Arc::new(WorkerPool::new(configured_threads()))).clone(),
    }
}

/// `num_threads` of the global pool, without starting it.
#[inline]
pub(crate) fn default_num_threads() -> usize {
    match NUM_THREADS.load(Ordering::Relaxed) {
        0 => {
            let num = configured_threads();
            // If another thread has set a pool in the meantime, that pool wins.
            NUM_THREADS.compare_exchange(0, num, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(num)
        }
        num => num,
    }
}

/// Number of threads of the default pool: the environment variable `TVM_NUM_THREADS`, or else the number of physical
/// cores that this process may use.
fn configured_threads() -> usize {
    let from_env = std::env::var("TVM_NUM_THREADS").ok().and_then(|value| value.trim().parse().ok());
    from_env.filter(|&num| num > 0).unwrap_or_else(|| {
        let logical = thread::available_parallelism().map_or(1, usize::from);
        num_cpus::get_physical().clamp(1, logical)
    })
}

thread_local! {
    static IN_PARALLEL: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread runs a part of a parallel loop.
pub(crate) fn in_parallel() -> bool {
    IN_PARALLEL.get()
}

/// Runs `body` over `0..extent` on `pool`, each iteration at most once whatever the pool does. A panic in `body` or in
/// the pool becomes an error after the loop has ended; so does a pool that leaves iterations out or requests others.
pub(crate) fn run(
    pool: &dyn ThreadPool,
    extent: usize,
    grain: usize,
    body: &(dyn Fn(Range<usize>) + Sync),
) -> Result<(), RuntimeError> {
    let panic = Mutex::new(None);
    let guarded = |range: Range<usize>| {
        let outer = IN_PARALLEL.replace(true);
        let res = catch_unwind(AssertUnwindSafe(|| body(range)));
        IN_PARALLEL.set(outer);
        if let Err(payload) = res {
            panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic_message(&*payload));
        }
    };
    if extent == 0 {
        return Ok(());
    }
    let mut kept = Ok(());
    if in_parallel() || extent == 1 {
        guarded(0..extent);
    } else if pool.is_exact(own::Own) {
        pool.parallel_for(extent, grain, &guarded);
    } else {
        let claims = Claims::new(extent);
        let claimed = |range: Range<usize>| claims.claim(range).into_iter().for_each(&guarded);
        let res = catch_unwind(AssertUnwindSafe(|| {
            if pool.num_threads() <= 1 {
                claimed(0..extent)
            } else {
                pool.parallel_for(extent, grain, &claimed)
            }
        }));
        kept = match res {
            Ok(()) => claims.finish(),
            Err(payload) => {
                Err(RuntimeError::Panicked { func: "thread pool".into(), message: panic_message(&*payload) })
            }
        };
    }
    match panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => kept,
        Some(message) => Err(RuntimeError::Panicked { func: "parallel loop".into(), message }),
    }
}

/// Runs `body` over `0..extent` in disjoint ranges on the global thread pool, or in this thread if it already runs a
/// part of a parallel loop. Ranges of fewer than `grain` iterations are not worth another thread. A panic in `body` becomes
/// an error.
pub fn parallel_for(
    extent: usize,
    grain: usize,
    body: impl Fn(Range<usize>) + Sync,
) -> Result<(), RuntimeError> {
    if extent <= grain.max(1) || in_parallel() || default_num_threads() == 1 {
        run(&SerialPool, extent, grain, &body)
    } else {
        run(&*thread_pool(), extent, grain, &body)
    }
}

/// The message of a panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text.to_string(),
        (_, Some(text)) => text.clone(),
        (None, None) => "unknown".to_string(),
    }
}

/// A pool of one thread: loops run in the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SerialPool;

impl ThreadPool for SerialPool {
    fn num_threads(&self) -> usize {
        1
    }

    fn parallel_for(&self, extent: usize, _grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
        body(0..extent);
    }
}

/// Number of operations below which a chunk of a loop is not worth another thread: some microseconds of work.
const MIN_WORK: u64 = 1 << 14;

/// Number of iterations worth another thread, if one iteration takes `cost` operations.
pub(crate) fn grain(cost: u64) -> usize {
    usize::try_from(MIN_WORK.div_ceil(cost.max(1))).unwrap_or(usize::MAX)
}

/// Chunks per thread: more than one balances chunks of unequal cost, and busy machines.
const CHUNKS_PER_THREAD: usize = 4;

/// Number of chunks of a loop that is worth `most` of them: a multiple of the threads, so that equal chunks end together.
fn num_chunks(most: usize, threads: usize) -> usize {
    if most < threads { most } else { (most - most % threads).min(threads * CHUNKS_PER_THREAD) }
}

/// Number `at` of the `count` ranges into which `0..extent` is split. Those that have one more than others come first: at the
/// end of a loop, threads wait for the short ones.
fn split(extent: usize, count: usize, at: usize) -> Range<usize> {
    let (each, longer) = (extent / count, extent % count);
    let start = at * each + at.min(longer);
    start..start + each + usize::from(at < longer)
}

#[cfg(test)]
mod tests;
