//! The runtime's side of a kernel call: parallel loops and scratch memory.
//!
//! TVM counterpart: `TVMBackendParallelLaunch`, `TVMBackendAllocWorkspace`, `WorkspacePool`. A context lives on the
//! stack for one call; each chunk of a parallel loop gets a copy, so that errors do not race. Scratch memory belongs to
//! the thread that allocates it and is freed in reverse order. What a failed kernel does not free, the runtime frees.
#![allow(unsafe_code, reason = "callbacks from generated code; each block says why it is sound")]

use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::abi::{ABI_VERSION, CallContext, CallError, ParallelBody, Status};
use crate::error::RuntimeError;
use crate::tensor::{ALIGNMENT, LARGE_PAGE, advise_huge_pages};
use crate::thread_pool::{self, ThreadPool, in_parallel};

/// What `CallContext::state` points to.
struct State<'a> {
    /// The pool for this call; the global one if `None`.
    pool: Option<&'a dyn ThreadPool>,
    /// Error of the runtime behind [`Status::Runtime`].
    failure: Mutex<Option<RuntimeError>>,
}

const NO_ERROR: CallError = CallError {
    status: 0,
    arg: -1,
    axis: -1,
    reserved: 0,
    expected: 0,
    got: 0,
    what: std::ptr::null(),
    place: std::ptr::null(),
};

/// Runs `f` with a fresh context.
#[inline]
pub(crate) fn with_context<R>(pool: Option<&dyn ThreadPool>, f: impl FnOnce(*mut CallContext) -> R) -> R {
    let num_threads = pool.map_or_else(thread_pool::default_num_threads, |pool| {
        // A pool that panics here panics again when a loop runs, and that is reported.
        catch_unwind(AssertUnwindSafe(|| pool.num_threads())).unwrap_or(2)
    });
    let mut state = State { pool, failure: Mutex::default() };
    let mut ctx = CallContext {
        abi_version: ABI_VERSION,
        num_threads: u32::try_from(num_threads).unwrap_or(u32::MAX).max(1),
        parallel_for,
        alloc: alloc_scratch,
        free: free_scratch,
        state: (&raw mut state).cast(),
        error: NO_ERROR,
    };
    let mark = Mark::new();
    let res = f(&raw mut ctx);
    drop(mark);
    res
}

/// Takes the error for which the runtime itself failed during the call of `ctx`.
///
/// # Safety
/// `ctx` is the context that [`with_context`] passes, during that call.
pub(crate) unsafe fn take_failure(ctx: *mut CallContext) -> Option<RuntimeError> {
    // SAFETY: `state` points to the state beside the context, which lives as long.
    let state = unsafe { &*(*ctx).state.cast::<State<'_>>() };
    state.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// `CallContext::parallel_for`.
unsafe extern "C" fn parallel_for(
    ctx: *mut CallContext,
    body: ParallelBody,
    extent: i64,
    cost: u64,
    env: *mut c_void,
) -> i32 {
    let Ok(extent @ 1..) = usize::try_from(extent) else { return 0 };
    // SAFETY: kernels pass the context they were given; see `with_context`.
    let (template, state) = unsafe { (std::ptr::read(ctx), &*(*ctx).state.cast::<State<'_>>()) };
    if template.num_threads <= 1 || extent == 1 || in_parallel() {
        // SAFETY: `body` and `env` are the kernel's own.
        return unsafe { body(ctx, 0, extent as i64, env) };
    }
    let shared = Shared { template, env, status: AtomicI32::new(0), error: Mutex::new(NO_ERROR) };
    let run = |begin: usize, end: usize| {
        let shared = &shared;
        if shared.status.load(Ordering::Relaxed) != 0 {
            return;
        }
        let mut ctx = CallContext { error: NO_ERROR, ..shared.template };
        let mark = Mark::new();
        // SAFETY: as above; the chunk has a context of its own, and the kernel's body may run in several threads.
        let status = unsafe { body(&raw mut ctx, begin as i64, end as i64, shared.env) };
        drop(mark);
        if status != 0 {
            let mut error = shared.error.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.status.swap(status, Ordering::Relaxed) == 0 {
                *error = ctx.error;
            }
        }
    };
    let run = |range: std::ops::Range<usize>| run(range.start, range.end);
    let outcome = match state.pool {
        Some(pool) => thread_pool::run(pool, extent, thread_pool::grain(cost), &run),
        None => thread_pool::run(&*thread_pool::thread_pool(), extent, thread_pool::grain(cost), &run),
    };
    let status = match outcome {
        Ok(()) => shared.status.load(Ordering::Relaxed),
        Err(err) => {
            *state.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(err);
            Status::Runtime as i32
        }
    };
    if status != 0 {
        // SAFETY: the kernel's context, which only this thread uses.
        unsafe { (*ctx).error = *shared.error.lock().unwrap_or_else(PoisonError::into_inner) };
    }
    status
}

/// State that the chunks of one parallel loop share.
struct Shared {
    template: CallContext,
    env: *mut c_void,
    status: AtomicI32,
    error: Mutex<CallError>,
}

// SAFETY: `env` and `state` are only passed to the kernel's body and to the callbacks above, which are made for
// concurrent use.
unsafe impl Sync for Shared {}

/// One block of scratch memory, filled from its start.
struct Block {
    ptr: *mut u8,
    layout: Layout,
    used: usize,
}

/// The scratch memory of one thread.
struct Scratch {
    blocks: Vec<Block>,
    /// Allocated addresses that are not yet freed, each with the index of its block and the block's fill before it.
    live: Vec<(*mut u8, usize, usize)>,
}

/// Size of the smallest block, in bytes.
const MIN_BLOCK: usize = 64 << 10;
/// Size in bytes of the largest block that a thread keeps between calls; it keeps at most one.
const MAX_KEPT: usize = 64 << 20;

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { blocks: Vec::new(), live: Vec::new() }) };
}

impl Scratch {
    fn alloc(&mut self, bytes: u64) -> Option<*mut u8> {
        let bytes = usize::try_from(bytes).ok()?.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let fits = self.blocks.last().is_some_and(|block| block.layout.size() - block.used >= bytes);
        if !fits {
            let grown = self.blocks.last().map_or(0, |block| block.layout.size() * 2).min(MAX_KEPT);
            let size = bytes.max(grown).max(MIN_BLOCK);
            let align = if size < LARGE_PAGE { ALIGNMENT } else { LARGE_PAGE };
            let layout = Layout::from_size_align(size, align).ok()?;
            // SAFETY: the size is not zero.
            let ptr = unsafe { alloc(layout) };
            if ptr.is_null() {
                return None;
            }
            // SAFETY: the block was just allocated with this size.
            unsafe { advise_huge_pages(ptr, layout.size()) };
            self.blocks.push(Block { ptr, layout, used: 0 });
        }
        let index = self.blocks.len() - 1;
        let block = &mut self.blocks[index];
        let ptr = block.ptr.wrapping_add(block.used);
        self.live.push((ptr, index, block.used));
        block.used += bytes;
        Some(ptr)
    }

    fn free(&mut self, ptr: *mut u8) {
        if let Some(at) = self.live.iter().rposition(|(live, ..)| *live == ptr) {
            self.truncate(at);
        }
    }

    /// Frees all allocations except the first `len`. While there are others, empty blocks stay: a loop may allocate the same again.
    fn truncate(&mut self, len: usize) {
        let Some(&(_, index, used)) = self.live.get(len) else { return };
        self.live.truncate(len);
        self.blocks[index].used = used;
        for block in self.blocks.iter_mut().skip(index + 1) {
            block.used = 0;
        }
        if len == 0 {
            // Keep the last block, which is the largest.
            let keep =
                self.blocks.pop().filter(|block| block.layout.size() <= MAX_KEPT || self.blocks.is_empty());
            self.blocks.drain(..).for_each(Block::release);
            match keep {
                Some(block) if block.layout.size() <= MAX_KEPT => {
                    self.blocks.push(Block { used: 0, ..block })
                }
                Some(block) => block.release(),
                None => {}
            }
        }
    }
}

impl Block {
    fn release(self) {
        // SAFETY: allocated in `Scratch::alloc` with this layout.
        unsafe { dealloc(self.ptr, self.layout) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.blocks.drain(..).for_each(Block::release);
    }
}

/// When dropped, frees the scratch memory that this thread allocated since the mark was made.
struct Mark(usize);

impl Mark {
    #[inline]
    fn new() -> Mark {
        Mark(SCRATCH.try_with(|scratch| scratch.borrow().live.len()).unwrap_or(0))
    }
}

impl Drop for Mark {
    #[inline]
    fn drop(&mut self) {
        // While the thread ends, its scratch memory is already gone.
        let _ = SCRATCH.try_with(|scratch| scratch.borrow_mut().truncate(self.0));
    }
}

/// `CallContext::alloc`.
unsafe extern "C" fn alloc_scratch(_ctx: *mut CallContext, bytes: u64) -> *mut c_void {
    let alloc = |scratch: &RefCell<Scratch>| scratch.borrow_mut().alloc(bytes);
    SCRATCH.try_with(alloc).ok().flatten().map_or(null_mut(), |ptr| ptr.cast())
}

/// `CallContext::free`.
unsafe extern "C" fn free_scratch(_ctx: *mut CallContext, ptr: *mut c_void) {
    // While the thread ends, its scratch memory is already gone.
    let _ = SCRATCH.try_with(|scratch| scratch.borrow_mut().free(ptr.cast()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread_pool::WorkerPool;

    /// What a loop allocates in each iteration, beside something that stays, is in the same place each time.
    #[test]
    fn nested_allocations_take_the_same_blocks_again() {
        let mut scratch = Scratch { blocks: Vec::new(), live: Vec::new() };
        let outer = scratch.alloc(40_000).unwrap();
        let mut places = Vec::new();
        for _ in 0..4 {
            let parts = [40_000, 90_000, 200_000].map(|bytes| scratch.alloc(bytes).unwrap());
            parts.iter().rev().for_each(|&it| scratch.free(it));
            places.push((parts, scratch.blocks.len()));
        }
        assert_eq!(places[2], places[3]);
        scratch.free(outer);
        assert!(scratch.live.is_empty() && scratch.blocks.len() == 1);
    }

    #[test]
    fn scratch_memory_is_a_stack() {
        let big = if cfg!(miri) { 70_000 } else { 5 << 20 };
        let sizes = [0u64, 1, 64, 65, 1000, big / 5, 3, big];
        with_context(None, |ctx| {
            // SAFETY: `ctx` is valid here, and what is allocated is used within its size.
            unsafe {
                for round in 0..3 {
                    let blocks: Vec<_> = sizes.map(|size| (((*ctx).alloc)(ctx, size), size)).into();
                    for (i, &(ptr, size)) in blocks.iter().enumerate() {
                        assert_eq!(ptr.addr() % ALIGNMENT, 0, "{round}");
                        ptr.cast::<u8>().write_bytes(i as u8, size as usize);
                    }
                    for (i, &(ptr, size)) in blocks.iter().enumerate().rev() {
                        let bytes = std::slice::from_raw_parts(ptr.cast::<u8>(), size as usize);
                        assert!(bytes.iter().all(|&byte| byte == i as u8));
                        ((*ctx).free)(ctx, ptr);
                    }
                }
                assert!(((*ctx).alloc)(ctx, u64::MAX).is_null());
                if cfg!(not(miri)) {
                    assert!(((*ctx).alloc)(ctx, 1 << 62).is_null());
                }
                ((*ctx).free)(ctx, null_mut());
                ((*ctx).alloc)(ctx, 10);
            }
        });
        SCRATCH.with_borrow(|scratch| {
            assert_eq!(scratch.live.len(), 0, "what a kernel leaves behind is taken back");
            assert!(scratch.blocks.len() <= 1 && scratch.blocks.iter().all(|block| block.used == 0));
        });
    }

    #[test]
    fn the_same_memory_is_reused() {
        // SAFETY: `ctx` is valid in the closure.
        let get = || with_context(None, |ctx| unsafe { ((*ctx).alloc)(ctx, 1000) }.addr());
        assert_eq!(get(), get());
    }

    #[test]
    fn a_failing_chunk_reports_its_error() {
        unsafe extern "C" fn body(ctx: *mut CallContext, begin: i64, end: i64, _: *mut c_void) -> i32 {
            if !(begin..end).contains(&40) {
                return 0;
            }
            // SAFETY: the context that `parallel_for` passes.
            unsafe { (*ctx).error.expected = 40 };
            Status::Assert as i32
        }
        let pool = WorkerPool::new(3);
        for _ in 0..if cfg!(miri) { 2 } else { 20 } {
            with_context(Some(&pool), |ctx| {
                // SAFETY: `ctx` is valid here.
                unsafe {
                    assert_eq!(
                        ((*ctx).parallel_for)(ctx, body, 100, 1 << 20, null_mut()),
                        Status::Assert as i32
                    );
                    assert_eq!((*ctx).error.expected, 40);
                    assert_eq!(((*ctx).parallel_for)(ctx, body, 40, 1 << 20, null_mut()), 0);
                    assert_eq!(((*ctx).parallel_for)(ctx, body, -3, 1, null_mut()), 0);
                    assert_eq!(((*ctx).parallel_for)(ctx, body, 0, 1, null_mut()), 0);
                }
            });
        }
    }
}
