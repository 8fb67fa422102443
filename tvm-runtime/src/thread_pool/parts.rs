//! Hands out the chunks of a parallel loop, so that a thread gets the same part of each loop.
//!
//! A kernel usually reads what the kernel before wrote at the same place. If one thread runs both chunks, the data is in the
//! cache of its core; else it comes from the cache of another core, or of another group of cores, which costs many times as
//! much. So each thread has a part of its own, and helps with the other parts when that one is done.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{OwnLine, split};

/// Number of parts at most; further threads share them.
const MAX_PARTS: usize = 16;

/// The chunks of a loop in equal parts, and how many of each part are claimed.
#[derive(Default)]
pub(super) struct Parts {
    chunks: usize,
    parts: usize,
    /// Each is touched by the thread of the part, and by those that help with it.
    claimed: [OwnLine<AtomicUsize>; MAX_PARTS],
}

impl Parts {
    /// Makes them parts of `chunks` chunks for `threads` threads, of which nothing is claimed; both are at least 1.
    pub(super) fn reset(&mut self, chunks: usize, threads: usize) {
        (self.chunks, self.parts) = (chunks, threads.min(chunks).min(MAX_PARTS));
        // The lines of other parts are not touched.
        self.claimed[..self.parts].iter_mut().for_each(|it| *it.0.get_mut() = 0);
    }

    /// Claims a chunk for the thread with this number: of its own part if one is left there, else of another.
    pub(super) fn claim(&self, thread: usize) -> Option<usize> {
        let parts = (0..self.parts).map(|other| (thread + other) % self.parts);
        parts.into_iter().find_map(|part| {
            let (chunks, claimed) = (self.chunks_of(part), &self.claimed[part].0);
            if claimed.load(Ordering::Relaxed) >= chunks.len() {
                return None;
            }
            let next = claimed.fetch_add(1, Ordering::Relaxed);
            (next < chunks.len()).then(|| chunks.start + next)
        })
    }

    fn chunks_of(&self, part: usize) -> Range<usize> {
        split(self.chunks, self.parts, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_claimed_once_and_those_of_the_own_part_first() {
        let mut parts = Parts::default();
        let cases = [(1, 1), (1, 8), (5, 2), (8, 2), (7, 3), (12, 3), (40, 16), (256, 64)];
        for &(chunks, threads) in &cases[..if cfg!(miri) { 6 } else { cases.len() }] {
            for thread in 0..threads {
                parts.reset(chunks, threads);
                let own = parts.chunks_of(thread % parts.parts);
                let claimed: Vec<_> = std::iter::from_fn(|| parts.claim(thread)).collect();
                assert_eq!(claimed[..own.len()], own.collect::<Vec<_>>(), "{chunks} {threads} {thread}");
                assert_eq!(parts.claim(thread + 1), None);
                let mut all = claimed;
                all.sort_unstable();
                assert_eq!(all, (0..chunks).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn threads_meet_in_the_part_of_the_slower_one() {
        let mut parts = Parts::default();
        parts.reset(8, 2);
        let claims = [1, 1, 1, 1, 1, 0, 1, 0, 0].map(|thread| parts.claim(thread));
        assert_eq!(claims, [Some(4), Some(5), Some(6), Some(7), Some(0), Some(1), Some(2), Some(3), None]);
    }
}
