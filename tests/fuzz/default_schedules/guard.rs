//! Memory between two pages that nobody may touch: an access outside of it ends the process, and the process says which
//! program was running.

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tvm::runtime::Element;

/// At which of the two pages the memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The first byte follows a page that may not be touched.
    Begin,
    /// Such a page follows the last byte.
    End,
}

/// What the memory around the elements holds, as far as it is in their pages.
const AROUND: u8 = 0xa5;

/// Elements with a guard page in front of their first page and behind their last one. Sizes are multiples of the size of
/// an element, so elements are aligned in both places.
pub(crate) struct Guarded {
    map: *mut u8,
    /// Bytes of the pages between the guards.
    inner: usize,
    /// Where the elements begin, from the first of these pages.
    at: usize,
    len: usize,
}

fn page() -> usize {
    // SAFETY: `sysconf` has no requirements.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

impl Guarded {
    /// A copy of `bytes`.
    pub(crate) fn new(bytes: &[u8], place: Place) -> Guarded {
        let page = page();
        let inner = bytes.len().next_multiple_of(page);
        let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory.
        let map = unsafe { libc::mmap(null_mut(), inner + 2 * page, none, flags, -1, 0) };
        assert_ne!(map, libc::MAP_FAILED, "out of memory");
        let map = map.cast::<u8>();
        if inner > 0 {
            // SAFETY: these pages are in the map.
            let res =
                unsafe { libc::mprotect(map.add(page).cast(), inner, libc::PROT_READ | libc::PROT_WRITE) };
            assert_eq!(res, 0, "pages cannot be made accessible");
        }
        let at = if place == Place::End { inner - bytes.len() } else { 0 };
        let res = Guarded { map, inner, at, len: bytes.len() };
        // SAFETY: the accessible pages have `inner` bytes, and the elements lie in them.
        unsafe {
            res.start().write_bytes(AROUND, inner);
            res.start().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        res
    }

    fn start(&self) -> *mut u8 {
        self.map.wrapping_add(page())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.slice::<u8>()
    }

    /// The elements.
    pub(crate) fn slice<T: Element>(&self) -> &[T] {
        let data = self.start().wrapping_add(self.at).cast::<T>();
        assert!(data.is_aligned());
        // SAFETY: initialised memory that lives as `self`, aligned; no element is a bool.
        unsafe { std::slice::from_raw_parts(data, self.len / size_of::<T>()) }
    }

    /// The elements, for writing.
    pub(crate) fn slice_mut<T: Element>(&mut self) -> &mut [T] {
        let data = self.start().wrapping_add(self.at).cast::<T>();
        assert!(data.is_aligned());
        // SAFETY: as in `slice`, and borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(data, self.len / size_of::<T>()) }
    }

    /// True if nobody wrote to the bytes beside the elements.
    pub(crate) fn is_intact(&self) -> bool {
        // SAFETY: all of the accessible pages is initialised.
        let all = unsafe { std::slice::from_raw_parts(self.start(), self.inner) };
        all[..self.at].iter().chain(&all[self.at + self.len..]).all(|&byte| byte == AROUND)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the whole map, which nobody borrows any more.
        unsafe { libc::munmap(self.map.cast(), self.inner + 2 * page()) };
    }
}

/// One program at a time runs on guarded memory.
static RUNNING: Mutex<()> = Mutex::new(());
/// The text about that program, and its length.
static ABOUT: (AtomicPtr<u8>, AtomicUsize) = (AtomicPtr::new(null_mut()), AtomicUsize::new(0));

/// Runs `f`; if it accesses memory that it may not, the process writes `about` before it ends.
pub(crate) fn watched<R>(about: &str, f: impl FnOnce() -> R) -> R {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: the handler calls only what signal handlers may call.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = report as extern "C" fn(c_int) as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigaction(libc::SIGSEGV, &raw const action, null_mut());
            libc::sigaction(libc::SIGBUS, &raw const action, null_mut());
        }
    });
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    ABOUT.1.store(about.len(), Ordering::Relaxed);
    ABOUT.0.store(about.as_ptr().cast_mut(), Ordering::Release);
    let ended = Ended(running);
    let res = f();
    drop(ended);
    res
}

/// Forgets the text about the program, also after a panic, before the next one runs.
struct Ended<'a>(#[expect(dead_code, reason = "held until the end")] MutexGuard<'a, ()>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        ABOUT.0.store(null_mut(), Ordering::Release);
    }
}

/// Writes the text about the program that runs. The system has put its own reaction in place of this function, so the
/// access, which is repeated, ends the process.
extern "C" fn report(_: c_int) {
    let about = ABOUT.0.load(Ordering::Acquire);
    if !about.is_null() {
        let head = "an access outside of all buffers, by this program:\n";
        // SAFETY: the texts live: one is static, and `watched` waits for the program that runs.
        unsafe {
            libc::write(2, head.as_ptr().cast(), head.len());
            libc::write(2, about.cast(), ABOUT.1.load(Ordering::Relaxed));
        }
    }
}

#[test]
fn guarded_memory_lies_at_either_end_of_its_pages() {
    for len in [0, 4, page() - 4, page(), page() + 4] {
        let bytes = vec![7; len];
        for place in [Place::Begin, Place::End] {
            let mut memory = Guarded::new(&bytes, place);
            let at = memory.bytes().as_ptr().addr();
            let guard = if place == Place::Begin { at } else { at + len };
            assert!(guard.is_multiple_of(page()) && memory.bytes() == bytes && memory.is_intact());
            memory.slice_mut::<f32>().fill(1.0);
            assert!(memory.is_intact() && memory.slice::<f32>().iter().all(|&it| it == 1.0));
        }
    }
    let memory = Guarded::new(&[0; 4], Place::End);
    // SAFETY: the byte in front of the elements is in their page.
    unsafe { memory.start().add(memory.at - 1).write(0) };
    assert!(!memory.is_intact());
}
