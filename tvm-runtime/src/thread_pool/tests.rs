//! Tests of thread pools: the runtime's own, and those of applications, which may do anything.

use super::*;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Checks that every index of `0..extent` is visited exactly once.
fn covers(pool: &dyn ThreadPool, extent: usize) {
    let seen: Vec<AtomicUsize> = (0..extent).map(|_| AtomicUsize::new(0)).collect();
    let body = |range: Range<usize>| {
        range.for_each(|i| {
            seen[i].fetch_add(1, Ordering::Relaxed);
        })
    };
    run(pool, extent, 1, &body).unwrap();
    assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{extent}");
}

#[test]
fn loops_cover_their_range() {
    for threads in if cfg!(miri) { vec![1, 3] } else { vec![1, 2, 3, 8, 64] } {
        let pool = WorkerPool::new(threads);
        assert_eq!(pool.num_threads(), threads);
        for extent in [0, 1, 2, 3, 7, 31, 100] {
            covers(&pool, extent);
        }
    }
    covers(&SerialPool, 10);
}

#[test]
fn loops_of_little_work_stay_in_their_thread() {
    let pool = WorkerPool::new(3);
    let ranges = |grain: usize| {
        let ranges = Mutex::new(Vec::new());
        run(&pool, 100, grain, &|range: Range<usize>| ranges.lock().unwrap().push(range)).unwrap();
        ranges.into_inner().unwrap()
    };
    for grain in [51, 100, usize::MAX] {
        assert!(matches!(&ranges(grain)[..], [all] if *all == (0..100)));
    }
    assert!(ranges(30).iter().all(|range| range.len() >= 30));
    assert!(ranges(0).len() > 3);
    assert_eq!(
        [0, 1, MIN_WORK - 1, MIN_WORK, u64::MAX].map(grain),
        [MIN_WORK as usize, MIN_WORK as usize, 2, 1, 1]
    );
}

#[test]
fn huge_extents_do_not_overflow() {
    let (sum, pool) = (AtomicU64::new(0), WorkerPool::new(3));
    let body = |range: Range<usize>| {
        sum.fetch_add(range.len() as u64, Ordering::Relaxed);
    };
    run(&pool, usize::MAX, 1, &body).unwrap();
    assert_eq!(sum.into_inner(), u64::MAX);
}

#[test]
fn nested_loops_run_inline() {
    let pool = WorkerPool::new(4);
    let count = AtomicUsize::new(0);
    let inner = |range: Range<usize>| {
        count.fetch_add(range.len(), Ordering::Relaxed);
    };
    let outer = |range: Range<usize>| {
        for _ in range {
            let id = thread::current().id();
            let here = |range: Range<usize>| {
                assert_eq!(thread::current().id(), id);
                inner(range);
            };
            run(&pool, 10, 1, &here).unwrap();
        }
    };
    run(&pool, 100, 1, &outer).unwrap();
    assert_eq!(count.into_inner(), 1000);
    assert!(!in_parallel());
}

#[test]
fn a_panic_is_an_error_and_the_pool_goes_on() {
    let pool = WorkerPool::new(4);
    for _ in 0..if cfg!(miri) { 2 } else { 50 } {
        let body = |range: Range<usize>| assert!(!range.contains(&17), "at {}", 17);
        let err = run(&pool, 64, 1, &body).unwrap_err();
        assert_eq!(err.to_string(), "`parallel loop` panicked: at 17");
        assert!(!in_parallel());
        covers(&pool, 64);
    }
}

/// A pool that calls `body` on these ranges, whatever the extent.
struct Wrong(Vec<Range<usize>>);

impl ThreadPool for Wrong {
    fn num_threads(&self) -> usize {
        2
    }

    fn parallel_for(&self, _extent: usize, _grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
        thread::scope(|scope| {
            for range in &self.0 {
                scope.spawn(|| body(range.clone()));
            }
        });
    }
}

#[test]
fn no_pool_makes_an_iteration_run_twice_or_out_of_range() {
    let inverted = Range { start: 8, end: 3 };
    let one = |range: Range<usize>| Vec::from([range]);
    let cases = [
        (one(0..10), true, 10),
        (vec![5..10, 0..5], true, 10),
        (vec![0..3, 7..10, 3..7, 4..4], true, 10),
        (one(0..11), false, 10),
        (one(0..usize::MAX), false, 10),
        (vec![10..20, 0..10], false, 10),
        (vec![0..10, 0..10], false, 10),
        (vec![0..7, 3..10], false, 10),
        (vec![3..5, 0..10], false, 10),
        (one(0..9), false, 9),
        (vec![], false, 0),
        (one(inverted), false, 0),
    ];
    for (ranges, good, runs) in cases {
        let seen: Vec<AtomicUsize> = (0..10).map(|_| AtomicUsize::new(0)).collect();
        let body = |range: Range<usize>| {
            range.for_each(|i| {
                seen[i].fetch_add(1, Ordering::Relaxed);
            });
        };
        let res = run(&Wrong(ranges.clone()), 10, 1, &body);
        let counts: Vec<usize> = seen.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert!(counts.iter().all(|&count| count <= 1), "{ranges:?}: {counts:?}");
        assert_eq!(counts.iter().sum::<usize>(), runs, "{ranges:?}");
        match res {
            Ok(()) => assert!(good, "{ranges:?}"),
            Err(err) => {
                assert!(!good && matches!(err, RuntimeError::ThreadPool { .. }), "{ranges:?}: {err}")
            }
        }
    }
}

struct Panics(bool);

impl ThreadPool for Panics {
    fn num_threads(&self) -> usize {
        assert!(self.0, "no threads");
        2
    }

    fn parallel_for(&self, _extent: usize, _grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
        body(0..1);
        std::panic::panic_any("no loops");
    }
}

#[test]
fn a_pool_that_panics_is_an_error() {
    for (pool, message) in [(Panics(true), "no loops"), (Panics(false), "no threads")] {
        let err = run(&pool, 10, 1, &|_| ()).unwrap_err().to_string();
        assert_eq!(err, format!("`thread pool` panicked: {message}"));
    }
}

#[test]
fn a_panic_without_the_guard_reaches_the_caller_after_the_loop() {
    let pool = WorkerPool::new(3);
    let ran = AtomicUsize::new(0);
    let body = |range: Range<usize>| {
        ran.fetch_add(range.len(), Ordering::Relaxed);
        assert!(!range.contains(&3), "at 3");
    };
    let res = catch_unwind(AssertUnwindSafe(|| pool.parallel_for(50, 1, &body)));
    assert_eq!(panic_message(&*res.unwrap_err()), "at 3");
    assert_eq!(ran.into_inner(), 50);
    covers(&pool, 50);
}

#[test]
fn many_callers_share_a_pool() {
    let pool = WorkerPool::new(3);
    thread::scope(|scope| {
        // More than have help at a time.
        for _ in 0..if cfg!(miri) { 4 } else { 24 } {
            scope.spawn(|| (0..if cfg!(miri) { 5 } else { 300 }).for_each(|i| covers(&pool, i % 50)));
        }
    });
}

#[test]
fn sleeping_workers_wake() {
    let pool = WorkerPool::new(2);
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(5));
        covers(&pool, 100);
    }
}

#[test]
fn the_application_can_bring_its_pool() {
    struct Counting(AtomicUsize);
    impl ThreadPool for Counting {
        fn num_threads(&self) -> usize {
            2
        }
        fn parallel_for(&self, extent: usize, _grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
            self.0.fetch_add(1, Ordering::Relaxed);
            body(0..extent / 2);
            body(extent / 2..extent);
        }
    }
    let pool = Arc::new(Counting(AtomicUsize::new(0)));
    set_thread_pool(pool.clone());
    let sum = AtomicUsize::new(0);
    parallel_for(10, 1, |range| {
        sum.fetch_add(range.sum::<usize>(), Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!((sum.into_inner(), default_num_threads()), (45, 2));
    assert!(pool.0.load(Ordering::Relaxed) >= 1);
}
