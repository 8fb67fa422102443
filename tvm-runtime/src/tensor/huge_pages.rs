//! Large pages for large blocks of memory.
//!
//! Reading memory in order is a quarter faster if a page is 2 MiB rather than 4 KiB: prefetching by the processor stops at the
//! end of a page, and fewer translations of addresses are missed. Linux gives large pages to those who ask for them.
#![allow(unsafe_code, reason = "advises the kernel on memory that its caller has just allocated")]

/// Size of a large page, in bytes. A block of this size or more is worth some. It starts with one, because only a whole large page of
/// memory can be one: otherwise the time of a kernel depends on where the system happens to place its operands.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Asks for large pages under the `len` bytes at `start`, if they are many. The contents stay as they are.
///
/// # Safety
/// The bytes are one allocation of the caller's, or a part of it.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) unsafe fn advise(start: *mut u8, len: usize) {
    use rustix::mm::{Advice, madvise};
    use rustix::param::page_size;
    if len < LARGE_PAGE {
        return;
    }
    let inside = start.addr().wrapping_neg() % page_size();
    // SAFETY: the range begins at a page and ends inside of the allocation. The advice changes no contents. It may be refused,
    // where the kernel has no large pages: then all stays as it was.
    let _ = unsafe { madvise(start.add(inside).cast(), len - inside, Advice::LinuxHugepage) };
}

/// Other systems choose the size of pages themselves.
///
/// # Safety
/// None is needed here.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) unsafe fn advise(_start: *mut u8, _len: usize) {}
