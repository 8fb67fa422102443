//! Parallel loops on a thread pool of rayon, so that an application that uses rayon has one set of threads.

use std::ops::Range;
use std::sync::Arc;

use ::rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::ThreadPool;

/// Ranges per thread: rayon balances the load by stealing them.
const RANGES_PER_THREAD: usize = 4;

/// A thread pool of rayon as the pool of kernels.
///
/// ```
/// # use std::sync::Arc;
/// # use tvm_runtime::{RayonPool, set_thread_pool};
/// set_thread_pool(Arc::new(RayonPool::global()));
/// ```
#[derive(Clone, Debug)]
pub struct RayonPool(Option<Arc<::rayon::ThreadPool>>);

impl RayonPool {
    /// Rayon's global pool.
    pub const fn global() -> RayonPool {
        RayonPool(None)
    }

    /// The given pool.
    pub const fn new(pool: Arc<::rayon::ThreadPool>) -> RayonPool {
        RayonPool(Some(pool))
    }
}

impl ThreadPool for RayonPool {
    fn num_threads(&self) -> usize {
        self.0.as_ref().map_or_else(::rayon::current_num_threads, |pool| pool.current_num_threads()).max(1)
    }

    fn parallel_for(&self, extent: usize, grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
        let worthwhile = extent / grain.max(1);
        let ranges = worthwhile.min(self.num_threads() * RANGES_PER_THREAD);
        if ranges < 2 {
            return body(0..extent);
        }
        // The product may not fit in 64 bits.
        let at = |i: usize| (extent as u128 * i as u128 / ranges as u128) as usize;
        let run = || (0..ranges).into_par_iter().for_each(|i| body(at(i)..at(i + 1)));
        match &self.0 {
            Some(pool) => pool.install(run),
            None => run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn every_iteration_runs_once() {
        let own = Arc::new(::rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap());
        for pool in [RayonPool::global(), RayonPool::new(own)] {
            for (extent, grain) in [(0, 1), (1, 1), (7, 1), (1000, 1), (1000, 999), (1000, 0), (1001, 10)] {
                let counts: Vec<AtomicU32> = (0..extent).map(|_| AtomicU32::new(0)).collect();
                let count = |range: Range<usize>| {
                    for i in range {
                        counts[i].fetch_add(1, Ordering::Relaxed);
                    }
                };
                crate::thread_pool::run(&pool, extent, grain, &count).unwrap();
                assert!(counts.iter().all(|it| it.load(Ordering::Relaxed) == 1), "{extent} {grain}");
            }
        }
    }
}
