//! Streams of a GPU: orders of work. Each workspace has one, so that calls in several workspaces may overlap.
//!
//! Memory knows which streams use it ([`Uses`]), and a stream waits for another one where both use the same memory. Numbers of
//! streams: [`OUTSIDE`] is that of what is done outside of a workspace, [`FREES`] that of memory which several streams used, and
//! all others belong to workspaces. Streams live as long as the process.
#![allow(unsafe_code, reason = "calls of the driver; each block says why it is sound")]

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUevent_wait_flags, CUstream};
use smallvec::SmallVec;

use super::RawMemory;
use super::gpu::{Failure, Gpu, guarded};
use super::launched::Launched;
use crate::error::RuntimeError;

/// The number of the stream of copies and allocations outside of a workspace.
pub(super) const OUTSIDE: usize = 0;

/// The number of the stream in which memory is freed that several streams used: it waits for them, and nobody waits for it.
pub(super) const FREES: usize = 1;

/// How many streams there are at most; further workspaces share them.
const MOST: usize = 32;

/// A stream: its work is done in order.
pub(super) struct Stream {
    pub(super) handle: CUstream,
    /// Memory for what the kernels of a call give to each other, kept for the next call in this stream.
    pub(super) scratch: Mutex<Option<RawMemory>>,
    launched: Mutex<Launched>,
    /// Marks the end of what was given to the stream, for others that wait for it; made when it is first needed.
    mark: Mutex<Option<CUevent>>,
}

// SAFETY: streams and events are handles of the driver, which any thread may use once the context is current.
unsafe impl Send for Stream {}
// SAFETY: as above; everything else is shared safely.
unsafe impl Sync for Stream {}

impl Stream {
    fn of(handle: CUstream) -> Stream {
        Stream { handle, scratch: Mutex::default(), launched: Mutex::default(), mark: Mutex::default() }
    }

    /// The kernels that were launched in it.
    pub(super) fn launched(&self) -> MutexGuard<'_, Launched> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream which waits for the default stream of the driver, as that one waits for it.
    fn new() -> Result<Stream, Failure> {
        guarded(|| result::stream::create(result::stream::StreamKind::Default)).map(Stream::of)
    }
}

/// The streams of a GPU.
pub(super) struct Streams {
    numbered: [OnceLock<Stream>; MOST],
    /// The default stream of the driver: what is done there waits for everything in the others, and these wait for it.
    pub(super) default: Stream,
    /// How many workspaces have each stream.
    holders: Mutex<[usize; MOST]>,
    /// How many there are in all.
    all_holders: AtomicUsize,
}

impl Streams {
    /// Makes those that do not belong to workspaces. The context is current.
    pub(super) fn new() -> Result<Streams, Failure> {
        let numbered = [const { OnceLock::new() }; MOST];
        for number in [OUTSIDE, FREES] {
            let _ = numbered[number].set(Stream::new()?);
        }
        let default = Stream::of(result::stream::null());
        Ok(Streams { numbered, default, holders: Mutex::new([0; MOST]), all_holders: AtomicUsize::new(0) })
    }

    /// The stream `number`, which was made before.
    pub(super) fn get(&self, number: usize) -> &Stream {
        self.numbered.get(number).and_then(OnceLock::get).unwrap_or(&self.default)
    }

    /// All that were made.
    pub(super) fn all(&self) -> impl Iterator<Item = &Stream> {
        self.numbered.iter().filter_map(OnceLock::get).chain([&self.default])
    }

    /// Whether at most one workspace has a stream: then there is nobody who waits longer if all streams are waited for.
    pub(super) fn alone(&self) -> bool {
        self.all_holders.load(Ordering::Relaxed) <= 1
    }

    fn holders(&self) -> MutexGuard<'_, [usize; MOST]> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream for one more workspace: an idle one, a new one, or one that has the fewest workspaces. The context is current.
    fn hold(&self) -> usize {
        self.all_holders.fetch_add(1, Ordering::Relaxed);
        let mut holders = self.holders();
        let made = |number: &usize| self.numbered[*number].get().is_some();
        let mut free = (FREES + 1..MOST).filter(|number| holders[*number] == 0 || !made(number));
        // Those that were made come first.
        let number = free.next().filter(|number| {
            // Where the driver makes no more streams, workspaces share what there is.
            made(number) || Stream::new().is_ok_and(|new| self.numbered[*number].set(new).is_ok())
        });
        let shared = || (FREES + 1..MOST).filter(made).min_by_key(|number| holders[*number]);
        let number = number.or_else(shared).unwrap_or(OUTSIDE);
        holders[number] += 1;
        number
    }

    /// Gives back what [`Streams::hold`] gave.
    fn release(&self, number: usize) {
        self.all_holders.fetch_sub(1, Ordering::Relaxed);
        let mut holders = self.holders();
        holders[number] = holders[number].saturating_sub(1);
        if holders[number] == 0 && number != OUTSIDE {
            drop(holders);
            let scratch = &self.get(number).scratch;
            let unused = scratch.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(unused);
        }
    }
}

impl Gpu {
    /// The number of the stream for what this thread does now.
    pub(super) fn current(self: &Arc<Gpu>) -> usize {
        let number = CURRENT.try_with(|it| it.borrow().as_ref().map_or(OUTSIDE, |it| it.on(self)));
        number.unwrap_or(OUTSIDE)
    }

    /// What is given to the stream `later` from now on waits for what was given to `earlier`.
    pub(super) fn wait(&self, later: usize, earlier: usize) -> Result<(), RuntimeError> {
        // The context is made current for this thread.
        let gpu = Gpu::of(self.device)?;
        let (later, earlier) = (gpu.streams.get(later), gpu.streams.get(earlier));
        let mut mark = earlier.mark.lock().unwrap_or_else(PoisonError::into_inner);
        gpu.call(|| {
            let event = match *mark {
                Some(event) => event,
                None => *mark.insert(result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING)?),
            };
            // SAFETY: the event and the streams live as long as the process.
            unsafe {
                result::event::record(event, earlier.handle)?;
                result::stream::wait_event(later.handle, event, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
            }
        })
    }
}

/// Which streams use some memory, and in which of them it is written to.
///
/// Invariant: only one thread at a time may write, and only while no other one can read: it has the only handle, or is the run that
/// allocated the memory and has not handed it out. So all that others gave to their streams for this memory was given before a write
/// is, and what was written was given before others read.
///
/// A bit for each stream that has work for the memory, which has waited for the last write, and the stream of that write.
pub(super) struct Uses(AtomicU64);

/// The bit from which on the number of the stream of the last write is, plus 1; 0 if it has ended.
const WRITER: usize = MOST;

fn bit(number: usize) -> u64 {
    1 << number
}

impl Uses {
    /// Those of new memory, allocated in a stream.
    pub(super) fn new(number: usize) -> Uses {
        Uses(AtomicU64::new(Uses::only(number)))
    }

    fn only(number: usize) -> u64 {
        bit(number) | (number as u64 + 1) << WRITER
    }

    /// The stream of the last write, unless it has ended.
    pub(super) fn writer(&self) -> Option<usize> {
        usize::try_from(self.0.load(Ordering::Acquire) >> WRITER).ok()?.checked_sub(1)
    }

    /// The streams that use the memory.
    pub(super) fn users(&self) -> impl Iterator<Item = usize> + use<> {
        let all = self.0.load(Ordering::Acquire);
        (0..MOST).filter(move |number| all & bit(*number) != 0)
    }

    /// What is given to the stream `number` from now on may read the memory.
    pub(super) fn read(&self, gpu: &Gpu, number: usize) -> Result<(), RuntimeError> {
        if self.0.load(Ordering::Acquire) & bit(number) != 0 {
            return Ok(());
        }
        if let Some(writer) = self.writer() {
            gpu.wait(number, writer)?;
        }
        // After the wait, so that another thread with the same stream may rely on it.
        self.0.fetch_or(bit(number), Ordering::AcqRel);
        Ok(())
    }

    /// What is given to the stream `number` from now on may write to the memory.
    pub(super) fn write(&self, gpu: &Gpu, number: usize) -> Result<(), RuntimeError> {
        if self.0.load(Ordering::Acquire) == Uses::only(number) {
            return Ok(());
        }
        self.users().filter(|user| *user != number).try_for_each(|user| gpu.wait(number, user))?;
        self.0.store(Uses::only(number), Ordering::Release);
        Ok(())
    }

    /// What was written in the stream `number`, and all that came before, has ended. The workspace of that stream goes on with the memory;
    /// outside of one, nobody uses it so far.
    pub(super) fn settle(&self, number: usize) {
        self.0.store(if number == OUTSIDE { 0 } else { bit(number) }, Ordering::Release);
    }
}

/// A stream that a workspace has.
struct Held {
    gpu: Arc<Gpu>,
    number: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gpu.streams.release(self.number);
    }
}

/// The streams of a workspace: one on each GPU that it uses, from the first use on.
#[derive(Clone, Default)]
pub(crate) struct OwnStreams(Arc<Mutex<SmallVec<[Held; 1]>>>);

thread_local! {
    /// Those of the workspace in which this thread runs a call.
    static CURRENT: RefCell<Option<OwnStreams>> = const { RefCell::new(None) };
}

impl OwnStreams {
    /// Makes these streams those of what this thread does, until the result is dropped.
    pub(crate) fn enter(&self) -> Entered {
        Entered(CURRENT.replace(Some(self.clone())))
    }

    fn on(&self, gpu: &Arc<Gpu>) -> usize {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = held.iter().find(|it| it.gpu.device == gpu.device) {
            return held.number;
        }
        // Makes the context current for this thread. If the device cannot be used, later calls say so.
        let _ = Gpu::of(gpu.device);
        let number = gpu.streams.hold();
        held.push(Held { gpu: gpu.clone(), number });
        number
    }
}

/// The streams that were those of this thread before.
pub(crate) struct Entered(Option<OwnStreams>);

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        // May be the last handle, whose drop looks at the streams of the thread.
        let last = CURRENT.try_with(|it| it.replace(before));
        drop(last);
    }
}
