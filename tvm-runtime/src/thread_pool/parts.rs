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

/// The iterations of a loop in equal parts, each of them in chunks, and how many chunks of each part are claimed.
#[derive(Default)]
pub(super) struct Parts {
    /// Iterations of the loop.
    extent: usize,
    chunks: usize,
    parts: usize,
    /// Each is touched by the thread of the part, and by those that help with it.
    claimed: [OwnLine<AtomicUsize>; MAX_PARTS],
}

impl Parts {
    /// Makes them parts of `extent` iterations in `chunks` chunks for `threads` threads, of which nothing is claimed; all are at
    /// least 1.
    pub(super) fn reset(&mut self, extent: usize, chunks: usize, threads: usize) {
        (self.extent, self.chunks, self.parts) = (extent, chunks, threads.min(chunks).min(MAX_PARTS));
        // The lines of other parts are not touched.
        self.claimed[..self.parts].iter_mut().for_each(|it| *it.0.get_mut() = 0);
    }

    /// Claims a chunk for the thread with this number, of its own part if one is left there, else of another, and returns its
    /// iterations.
    pub(super) fn claim(&self, thread: usize) -> Option<Range<usize>> {
        let parts = (0..self.parts).map(|other| (thread + other) % self.parts);
        parts.into_iter().find_map(|part| {
            let (chunks, claimed) = (self.chunks_of(part), &self.claimed[part].0);
            if claimed.load(Ordering::Relaxed) >= chunks {
                return None;
            }
            let next = claimed.fetch_add(1, Ordering::Relaxed);
            (next < chunks).then(|| self.iterations(part, next))
        })
    }

    /// Number of chunks of a part.
    fn chunks_of(&self, part: usize) -> usize {
        split(self.chunks, self.parts, part).len()
    }

    /// The iterations of a chunk of a part. Parts are equally long first: their chunks may differ.
    fn iterations(&self, part: usize, chunk: usize) -> Range<usize> {
        let own = split(self.extent, self.parts, part);
        let within = split(own.len(), self.chunks_of(part), chunk);
        own.start + within.start..own.start + within.end
    }
}

#[cfg(test)]
mod tests {
    use super::super::num_chunks;
    use super::*;

    #[test]
    fn each_iteration_is_claimed_once_and_those_of_the_own_part_first() {
        let mut parts = Parts::default();
        let cases = [
            (1, 1, 1),
            (9, 1, 8),
            (5, 5, 2),
            (14, 8, 2),
            (7, 7, 3),
            (100, 12, 3),
            (43, 40, 16),
            (999, 256, 64),
        ];
        for &(extent, chunks, threads) in &cases[..if cfg!(miri) { 6 } else { cases.len() }] {
            for thread in 0..threads {
                parts.reset(extent, chunks, threads);
                let own = split(extent, parts.parts, thread % parts.parts);
                let mut claimed = std::iter::from_fn(|| parts.claim(thread)).peekable();
                let mut next = own.start;
                while let Some(chunk) = claimed.next_if(|chunk| chunk.start == next && chunk.end <= own.end) {
                    assert!(!chunk.is_empty());
                    next = chunk.end;
                }
                assert_eq!(next, own.end, "{extent} {chunks} {threads} {thread}");
                let mut all: Vec<usize> = own.chain(claimed.flatten()).collect();
                assert_eq!(parts.claim(thread + 1), None);
                all.sort_unstable();
                assert_eq!(all, (0..extent).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn threads_meet_in_the_part_of_the_slower_one() {
        let mut parts = Parts::default();
        parts.reset(8, 8, 2);
        let claims = [1, 1, 1, 1, 1, 0, 1, 0, 0].map(|thread| parts.claim(thread).map(|it| it.start));
        assert_eq!(claims, [Some(4), Some(5), Some(6), Some(7), Some(0), Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn parts_are_equally_long() {
        for (threads, extent) in
            (1..MAX_PARTS).flat_map(|threads| (1..200).map(move |extent| (threads, extent)))
        {
            let mut parts = Parts::default();
            parts.reset(extent, num_chunks(extent, threads), threads);
            let longest = (0..parts.parts).map(|part| {
                (0..parts.chunks_of(part)).map(|chunk| parts.iterations(part, chunk).len()).sum::<usize>()
            });
            assert_eq!(longest.max(), Some(extent.div_ceil(threads)), "{extent} on {threads}");
        }
    }
}
