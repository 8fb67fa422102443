//! The kernels that were launched in a stream, for the error of a fault.

use std::collections::VecDeque;
use std::sync::Arc;

/// How many names of kernels are kept.
const MOST_NAMES: usize = 16;

/// How many graphs.
const MOST_GRAPHS: usize = 4;

/// The kernels that were launched since the stream was last known to have ended well.
#[derive(Default)]
pub(super) struct Launched {
    names: VecDeque<Arc<str>>,
    /// The same for those of whole graphs.
    graphs: VecDeque<Arc<[Arc<str>]>>,
    /// How many there were in all.
    pub(super) count: u64,
}

impl Launched {
    /// The kernel `name` is launched.
    pub(super) fn add(&mut self, name: &str) {
        self.count += 1;
        if self.names.back().is_some_and(|it| **it == *name) {
            return;
        }
        if self.names.len() == MOST_NAMES {
            self.names.pop_front();
        }
        self.names.push_back(name.into());
    }

    /// All kernels of a graph are launched, `count` launches.
    pub(super) fn add_all(&mut self, names: &Arc<[Arc<str>]>, count: usize) {
        self.count += count as u64;
        if self.graphs.iter().any(|it| Arc::ptr_eq(it, names)) {
            return;
        }
        if self.graphs.len() == MOST_GRAPHS {
            self.graphs.pop_front();
        }
        self.graphs.push_back(names.clone());
    }

    /// The first `count` launches have ended. If another thread has launched a kernel meanwhile, the names stay.
    pub(super) fn ended(&mut self, count: u64) {
        if self.count == count {
            self.names.clear();
            self.graphs.clear();
        }
    }

    /// The names.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter().chain(self.graphs.iter().flat_map(|it| it.iter()))
    }
}
