//! Thread pools that run parallel loops: a small pool of the runtime, or the application's own.
//!
//! TVM counterpart: `runtime/thread_pool.cc`. The calling thread takes part in its own loop, so the loop ends even if
//! no worker is free, and nested calls cannot deadlock. A parallel loop inside another one runs sequentially in the
//! thread that reaches it.
#![allow(unsafe_code, reason = "lends a borrowed closure to worker threads; each block says why it is sound")]

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::{self, JoinHandle, Thread};

use crate::error::RuntimeError;

mod claims;
#[cfg(feature = "rayon")]
mod rayon;
mod spread;

use claims::Claims;
#[cfg(feature = "rayon")]
pub use rayon::RayonPool;
use spread::{Cpus, LastCaller};

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
}

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

/// One parallel loop.
struct Job {
    /// Borrowed from the caller of `parallel_for`, which waits until `done == chunks`. Only a thread that has claimed a
    /// chunk calls it, so no call happens after that.
    body: *const (dyn Fn(Range<usize>) + Sync),
    extent: usize,
    chunks: usize,
    next: AtomicUsize,
    done: AtomicUsize,
    caller: Thread,
    /// Where its threads run.
    cpus: Cpus,
    /// The first panic of `body`; the caller resumes it when the loop has ended.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `body` is `Sync`, and used only while the caller waits (see the field).
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Claims and runs chunks until none is left.
    fn work(&self) {
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.chunks {
                return;
            }
            // SAFETY: the claimed chunk is not done yet, so the caller still waits and the closure lives.
            let body = unsafe { &*self.body };
            let res = catch_unwind(AssertUnwindSafe(|| body(chunk_of(self.extent, self.chunks, chunk))));
            if let Err(payload) = res {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
            }
            if self.done.fetch_add(1, Ordering::Release) + 1 == self.chunks {
                self.caller.unpark();
            }
        }
    }

    fn is_claimed(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.chunks
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) >= self.chunks
    }
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    sleepers: usize,
    /// Jobs that ended, for reuse.
    spare: Vec<Arc<Job>>,
}

impl Queue {
    /// Puts `new` in the place of a job that ended and that no worker looks at any more, or in a place of its own.
    fn job(&mut self, new: Job) -> Arc<Job> {
        let at = self.spare.iter_mut().position(|job| Arc::get_mut(job).is_some());
        let Some(mut job) = at.map(|at| self.spare.swap_remove(at)) else { return Arc::new(new) };
        match Arc::get_mut(&mut job) {
            Some(place) => {
                *place = new;
                job
            }
            None => Arc::new(new),
        }
    }

    /// The first job with chunks that nobody has claimed; others leave the queue.
    fn unclaimed(&mut self, waiting: &AtomicUsize) -> Option<Arc<Job>> {
        while self.jobs.front().is_some_and(|job| job.is_claimed()) {
            self.jobs.pop_front();
        }
        waiting.store(self.jobs.len(), Ordering::Release);
        self.jobs.front().cloned()
    }
}

#[derive(Default)]
struct SharedQueue {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Number of queued jobs, readable without the lock.
    waiting: AtomicUsize,
    last_caller: LastCaller,
    stop: AtomicBool,
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The iterations of a chunk. Chunks that have one more than others come first: at the end of the loop, threads wait for
/// the short ones.
fn chunk_of(extent: usize, chunks: usize, chunk: usize) -> Range<usize> {
    let (each, longer) = (extent / chunks, extent % chunks);
    let start = chunk * each + chunk.min(longer);
    start..start + each + usize::from(chunk < longer)
}

/// Maximum number of jobs kept for reuse.
const MAX_SPARE: usize = 16;
/// Number of iterations for which a waiting thread spins before it sleeps.
const SPINS: usize = 10_000;

/// The runtime's own pool.
pub struct WorkerPool {
    shared: Arc<SharedQueue>,
    workers: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// Makes a pool that runs loops on `num_threads` threads, including the calling thread. If the system refuses to
    /// create a thread, the pool has fewer.
    pub fn new(num_threads: usize) -> WorkerPool {
        let shared = Arc::new(SharedQueue::default());
        let spawn = |i| {
            let shared = shared.clone();
            thread::Builder::new().name(format!("tvm-worker-{i}")).spawn(move || worker(&shared)).ok()
        };
        let workers = (1..num_threads).map_while(spawn).collect();
        WorkerPool { shared, workers }
    }
}

impl ThreadPool for WorkerPool {
    fn num_threads(&self) -> usize {
        self.workers.len() + 1
    }

    fn parallel_for(&self, extent: usize, grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
        let chunks = num_chunks(extent / grain.max(1), self.num_threads());
        if chunks <= 1 || self.workers.is_empty() {
            return body(0..extent);
        }
        // SAFETY: only the lifetime changes; see `Job::body`.
        let body = unsafe {
            std::mem::transmute::<
                *const (dyn Fn(Range<usize>) + Sync + '_),
                *const (dyn Fn(Range<usize>) + Sync),
            >(body)
        };
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let caller = thread::current();
        let cpus = Cpus::of_caller(&self.shared.last_caller);
        let new = Job { body, extent, chunks, next, done, caller, cpus, panic: Mutex::default() };
        let (job, sleepers) = {
            let mut queue = self.shared.lock();
            let job = queue.job(new);
            queue.jobs.push_back(job.clone());
            self.shared.waiting.store(queue.jobs.len(), Ordering::Release);
            (job, queue.sleepers)
        };
        for _ in 0..sleepers.min(chunks - 1) {
            self.shared.wake.notify_one();
        }
        job.work();
        {
            let mut queue = self.shared.lock();
            queue.jobs.retain(|other| !Arc::ptr_eq(other, &job));
            self.shared.waiting.store(queue.jobs.len(), Ordering::Release);
        }
        let mut spins = 0;
        while !job.is_done() {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { thread::park() }
        }
        let panic = job.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut queue = self.shared.lock();
        if queue.spare.len() < MAX_SPARE {
            queue.spare.push(job);
        }
        drop(queue);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

fn worker(shared: &SharedQueue) {
    loop {
        let mut spins = 0;
        while spins < SPINS
            && shared.waiting.load(Ordering::Acquire) == 0
            && !shared.stop.load(Ordering::Relaxed)
        {
            std::hint::spin_loop();
            spins += 1;
        }
        let mut queue = shared.lock();
        let mut job = queue.unclaimed(&shared.waiting);
        // A loop of which nothing is left may end while this thread looks at it: the next one may follow soon.
        if job.is_none() && spins == SPINS && !shared.stop.load(Ordering::Relaxed) {
            queue.sleepers += 1;
            queue = shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.sleepers -= 1;
            job = queue.unclaimed(&shared.waiting);
        }
        drop(queue);
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        match job {
            Some(job) => {
                job.cpus.join();
                job.work();
            }
            None => shared.last_caller.leave(),
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        {
            let _queue = self.shared.lock();
            self.shared.stop.store(true, Ordering::Relaxed);
        }
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker ends only by returning and cannot panic: loop bodies are guarded.
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests;
