//! Tracks which iterations of a parallel loop were handed out: a pool is code of the application and may request anything.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use crate::error::RuntimeError;

/// A few ranges, without memory of their own.
pub(super) type Ranges = SmallVec<[Range<usize>; 8]>;

/// The iterations of one loop that were claimed so far.
pub(super) struct Claims {
    extent: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Claimed ranges: disjoint, sorted, not adjacent.
    claimed: Ranges,
    /// The first request that was out of range or repeated a claimed iteration.
    wrong: Option<Range<usize>>,
}

impl Claims {
    pub(super) fn new(extent: usize) -> Claims {
        Claims { extent, state: Mutex::default() }
    }

    /// Claims `range`; returns its iterations that were not claimed before.
    pub(super) fn claim(&self, range: Range<usize>) -> Ranges {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if range.start == range.end {
            return Ranges::new();
        }
        let end = range.end.min(self.extent);
        let first = state.claimed.partition_point(|it| it.end < range.start);
        let last = first + state.claimed[first..].partition_point(|it| it.start <= end);
        let mut free = Ranges::new();
        let mut at = range.start;
        for it in &state.claimed[first..last] {
            if at < it.start.min(end) {
                free.push(at..it.start.min(end));
            }
            at = at.max(it.end);
        }
        if at < end {
            free.push(at..end);
        }
        let all: usize = free.iter().map(ExactSizeIterator::len).sum();
        if Some(all) != range.end.checked_sub(range.start) {
            state.wrong.get_or_insert(range.clone());
        }
        if range.start < end {
            let touched = &state.claimed[first..last];
            let start = touched.first().map_or(range.start, |it| it.start.min(range.start));
            let end = touched.last().map_or(end, |it| it.end.max(end));
            state.claimed.drain(first..last);
            state.claimed.insert(first, start..end);
        }
        free
    }

    /// An error unless each iteration was claimed exactly once and nothing else was requested.
    pub(super) fn finish(self) -> Result<(), RuntimeError> {
        let extent = self.extent;
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let detail = match (&state.wrong, &state.claimed[..]) {
            (Some(range), _) => {
                format!("asked for {range:?}, which is outside of the loop or was run before")
            }
            (None, [all]) if *all == (0..extent) => return Ok(()),
            (None, claimed) => {
                let run: usize = claimed.iter().map(ExactSizeIterator::len).sum();
                format!("ran {run} of them")
            }
        };
        Err(RuntimeError::ThreadPool { extent, detail })
    }
}
