//! The runtime's own pool of threads.
//!
//! A loop costs about a microsecond: threads that wait for work spin on one word, the caller writes the loop into a slot and
//! sets a bit of that word, and each thread reports once how much it did. Only threads that sleep take a lock. Writes to one
//! cache line by two threads cost most of the time, so what different threads write lies in different lines.
#![allow(unsafe_code, reason = "lends a borrowed closure to worker threads; each block says why it is sound")]

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};

use super::parts::Parts;
use super::spread::{Cpus, LastCaller};
use super::{OwnLine, ThreadPool, num_chunks, own};

/// Number of iterations for which a waiting thread spins before it sleeps.
const SPINS: usize = 10_000;

/// Number of loops that have help at a time; the callers of further ones work alone.
const SLOTS: usize = 16;

/// Tells workers to end, beside the bits of the slots.
const STOP: usize = 1 << SLOTS;

/// One parallel loop.
#[derive(Default)]
struct Loop {
    /// Borrowed from the caller of `parallel_for`, which waits until `done == chunks`. Only a thread that has claimed a
    /// chunk calls it, so no call happens after that.
    body: Option<*const (dyn Fn(Range<usize>) + Sync)>,
    chunks: usize,
    parts: Parts,
    caller: Option<Thread>,
    /// Where its threads run.
    cpus: Cpus,
    /// The first panic of `body`; the caller resumes it when the loop has ended.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    end: OwnLine<End>,
}

/// How the caller learns that the loop has ended.
#[derive(Default)]
struct End {
    /// Chunks that were run.
    done: AtomicUsize,
    /// Whether the caller sleeps, or is about to.
    parked: AtomicBool,
}

impl Loop {
    /// Claims and runs chunks until none is left; `thread` is the number of this thread, 0 for the caller. Returns how many.
    fn work(&self, thread: usize) -> usize {
        let Some(body) = self.body else { return 0 };
        let mut done = 0;
        while let Some(iterations) = self.parts.claim(thread) {
            // SAFETY: the claimed chunk is not done yet, so the caller still waits and the closure lives.
            let body = unsafe { &*body };
            let res = catch_unwind(AssertUnwindSafe(|| body(iterations)));
            if let Err(payload) = res {
                self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
            }
            done += 1;
        }
        let End { done: all, parked } = &self.end.0;
        if done > 0 {
            // Either this thread sees that the caller sleeps, or the caller sees that all is done.
            let last = all.fetch_add(done, Ordering::SeqCst) + done == self.chunks;
            if let Some(caller) = self.caller.as_ref().filter(|_| last && parked.load(Ordering::SeqCst)) {
                caller.unpark();
            }
        }
        done
    }

    /// Waits until all chunks are done.
    fn wait(&self) {
        let End { done, parked } = &self.end.0;
        for _ in 0..SPINS {
            if done.load(Ordering::Acquire) >= self.chunks {
                return;
            }
            std::hint::spin_loop();
        }
        parked.store(true, Ordering::SeqCst);
        while done.load(Ordering::SeqCst) < self.chunks {
            thread::park();
        }
    }
}

/// A place for a loop.
///
/// Invariant: the loop is written only by the thread that has set `taken`, while the slot's bit of [`Shared::open`] is not set
/// and there are no visitors. It is read by that thread, and by visitors that have seen the bit set after they were counted.
#[derive(Default)]
struct Slot {
    taken: AtomicBool,
    /// Workers that look at the loop, or are about to.
    visitors: OwnLine<AtomicUsize>,
    current: UnsafeCell<Loop>,
}

// SAFETY: the closure of a loop is `Sync`, and called only while the caller waits (see `Loop::body`). The invariant of a slot
// separates reads of `current` from writes.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

#[derive(Default)]
struct Shared {
    /// The slots whose loops may have chunks that nobody has claimed, a bit for each, and [`STOP`].
    open: OwnLine<AtomicUsize>,
    sleepers: OwnLine<AtomicUsize>,
    /// Held to fall asleep and to wake.
    sleep: Mutex<()>,
    wake: Condvar,
    last_caller: LastCaller,
    slots: [Slot; SLOTS],
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.sleep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot whose loop nobody reads; returns its number.
    fn take(&self) -> Option<usize> {
        self.slots.iter().position(|slot| {
            let free = !slot.taken.load(Ordering::Relaxed) && !slot.taken.swap(true, Ordering::SeqCst);
            // A visitor that is not counted yet will find the slot closed.
            let empty = free && slot.visitors.0.load(Ordering::SeqCst) == 0;
            if free && !empty {
                slot.taken.store(false, Ordering::SeqCst);
            }
            empty
        })
    }

    /// Lets workers see the loop in the slot `at`, and wakes at most `helpers` of those that sleep.
    fn open(&self, at: usize, helpers: usize) {
        self.open.0.fetch_or(1 << at, Ordering::SeqCst);
        // Either this thread sees the sleeper, or the sleeper sees the bit: it is counted before it looks.
        let sleepers = self.sleepers.0.load(Ordering::SeqCst);
        if sleepers > 0 {
            // A worker that is counted and has not seen the bit waits as soon as it gives up the lock.
            drop(self.lock());
            (0..sleepers.min(helpers)).for_each(|_| self.wake.notify_one());
        }
    }

    fn close(&self, at: usize) {
        self.open.0.fetch_and(!(1 << at), Ordering::SeqCst);
    }

    /// Waits until a slot is open or the pool stops; returns the open slots, and [`STOP`].
    fn wait(&self) -> usize {
        for _ in 0..SPINS {
            let open = self.open.0.load(Ordering::Relaxed);
            if open != 0 {
                return open;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock();
        self.sleepers.0.fetch_add(1, Ordering::SeqCst);
        let open = loop {
            let open = self.open.0.load(Ordering::SeqCst);
            if open != 0 {
                break open;
            }
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
        open
    }

    /// Helps with the loop in the slot `at`, if it is open still; returns the number of chunks done.
    fn visit(&self, at: usize, worker: usize) -> usize {
        let slot = &self.slots[at];
        slot.visitors.0.fetch_add(1, Ordering::SeqCst);
        let mut done = 0;
        if self.open.0.load(Ordering::SeqCst) >> at & 1 == 1 {
            // SAFETY: this thread is counted and has seen the bit, so nobody writes until it is no longer counted.
            let current = unsafe { &*slot.current.get() };
            current.cpus.join();
            done = current.work(worker);
            // Every chunk is claimed: other workers need not look. The slot may not have been closed and opened again, as long as
            // this thread is counted.
            self.close(at);
        }
        slot.visitors.0.fetch_sub(1, Ordering::SeqCst);
        done
    }
}

/// The runtime's own pool.
pub struct WorkerPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// Makes a pool that runs loops on `num_threads` threads, including the calling thread. If the system refuses to
    /// create a thread, the pool has fewer.
    pub fn new(num_threads: usize) -> WorkerPool {
        let shared = Arc::new(Shared::default());
        let spawn = |number| {
            let shared = shared.clone();
            let run = move || worker(&shared, number);
            thread::Builder::new().name(format!("tvm-worker-{number}")).spawn(run).ok()
        };
        let workers = (1..num_threads).map_while(spawn).collect();
        WorkerPool { shared, workers }
    }
}

impl ThreadPool for WorkerPool {
    fn num_threads(&self) -> usize {
        self.workers.len() + 1
    }

    fn is_exact(&self, _: own::Own) -> bool {
        true
    }

    fn parallel_for(&self, extent: usize, grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
        let chunks = num_chunks(extent / grain.max(1), self.num_threads());
        if chunks <= 1 || self.workers.is_empty() {
            return body(0..extent);
        }
        let Some(at) = self.shared.take() else { return body(0..extent) };
        // SAFETY: only the lifetime changes; see `Loop::body`.
        let body = unsafe {
            std::mem::transmute::<
                *const (dyn Fn(Range<usize>) + Sync + '_),
                *const (dyn Fn(Range<usize>) + Sync),
            >(body)
        };
        let slot = &self.shared.slots[at];
        // SAFETY: this thread has taken the slot, which is closed and has no visitors.
        let new = unsafe { &mut *slot.current.get() };
        (new.body, new.chunks) = (Some(body), chunks);
        new.parts.reset(extent, chunks, self.num_threads());
        new.caller = Some(thread::current());
        new.cpus = Cpus::of_caller(&self.shared.last_caller);
        new.end = OwnLine::default();
        // SAFETY: as long as the slot is taken, only this thread may write.
        let current = unsafe { &*slot.current.get() };
        self.shared.open(at, chunks - 1);
        current.work(0);
        self.shared.close(at);
        current.wait();
        let panic = current.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        slot.taken.store(false, Ordering::SeqCst);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

/// What the worker with this number does.
fn worker(shared: &Shared, number: usize) {
    loop {
        let open = shared.wait();
        if open & STOP != 0 {
            return;
        }
        // Workers begin at different slots, so that each of several loops gets help.
        let slots = (0..SLOTS).map(|it| (it + number) % SLOTS).filter(|it| open >> it & 1 == 1);
        let done: usize = slots.map(|at| shared.visit(at, number)).sum();
        if done == 0 {
            shared.last_caller.leave();
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        {
            let _guard = self.shared.lock();
            self.shared.open.0.fetch_or(STOP, Ordering::SeqCst);
        }
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker ends only by returning and cannot panic: loop bodies are guarded.
            let _ = worker.join();
        }
    }
}
