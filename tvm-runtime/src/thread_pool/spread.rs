//! Keeps the threads of one parallel loop on different CPUs.
//!
//! Linux may wake a worker on the CPU of the thread that waits for it, although another CPU is idle: in virtual machines,
//! a CPU that halts looks as if the host had taken it away. Both threads then take turns on one CPU, for seconds if they
//! keep sleeping and waking. A worker that finds itself on such a CPU leaves it, and may return later; so does one that gets
//! the CPU only when the loop has ended.

#[cfg(all(target_os = "linux", not(miri)))]
pub(super) use linux::{Cpus, LastCaller};
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) use others::{Cpus, LastCaller};

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// CPUs on which threads of a loop run.
    #[derive(Default)]
    pub(in super::super) struct Cpus([AtomicU64; CpuSet::MAX_CPU / 64]);

    impl Cpus {
        /// Those of a loop that this thread starts.
        pub(in super::super) fn of_caller(last: &LastCaller) -> Cpus {
            let (cpus, cpu) = (Cpus::default(), sched_getcpu());
            if last.0.load(Ordering::Relaxed) != cpu {
                last.0.store(cpu, Ordering::Relaxed);
            }
            cpus.mark(cpu);
            cpus
        }

        /// Lets this thread join the loop. It moves to another CPU if a thread of the loop runs on this one, and if it may
        /// run on one that no thread of the loop uses.
        pub(in super::super) fn join(&self) {
            if self.mark(sched_getcpu()) {
                self.leave();
            }
        }

        /// Notes that a thread runs on this CPU; true if another one does so too.
        fn mark(&self, cpu: usize) -> bool {
            let bit = 1 << (cpu % 64);
            self.0.get(cpu / 64).is_some_and(|it| it.fetch_or(bit, Ordering::Relaxed) & bit != 0)
        }

        /// Moves this thread to a CPU that no thread of the loop uses, if it may run on one.
        fn leave(&self) {
            let Ok(allowed) = sched_getaffinity(None) else { return };
            let mut free = allowed;
            for cpu in 0..CpuSet::MAX_CPU {
                if self.0[cpu / 64].load(Ordering::Relaxed) >> (cpu % 64) & 1 == 1 {
                    free.unset(cpu);
                }
            }
            if free.count() > 0 && sched_setaffinity(None, &free).is_ok() {
                self.mark(sched_getcpu());
                // This fails only if none of these CPUs is left to the process: then others hold.
                let _ = sched_setaffinity(None, &allowed);
            }
        }
    }

    /// The CPU on which the last loop was started.
    #[derive(Default)]
    pub(in super::super) struct LastCaller(AtomicUsize);

    impl LastCaller {
        /// Moves this thread to another CPU if that loop was started on this one.
        pub(in super::super) fn leave(&self) {
            let cpus = Cpus::default();
            cpus.mark(self.0.load(Ordering::Relaxed));
            cpus.join();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_thread_leaves_the_cpu_of_another_and_may_return() {
            let allowed = sched_getaffinity(None).unwrap();
            let only = (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
            let mut pinned = CpuSet::new();
            pinned.set(only);
            sched_setaffinity(None, &pinned).unwrap();
            let last = LastCaller::default();
            let cpus = Cpus::of_caller(&last);
            assert_eq!(last.0.load(Ordering::Relaxed), only);
            let used = || cpus.0.iter().map(|it| it.load(Ordering::Relaxed).count_ones()).sum::<u32>();
            // It may run on no other.
            cpus.join();
            assert_eq!((sched_getcpu(), used()), (only, 1));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // The worker starts on the caller's CPU.
                    let stays = sched_getaffinity(None).unwrap();
                    assert!(stays == pinned);
                    sched_setaffinity(None, &allowed).unwrap();
                    cpus.join();
                    assert_eq!(used(), allowed.count().min(2));
                    assert!(sched_getaffinity(None).unwrap() == allowed);
                    // So does one that comes too late.
                    last.0.store(sched_getcpu(), Ordering::Relaxed);
                    last.leave();
                    let left = sched_getcpu() != last.0.load(Ordering::Relaxed);
                    assert!(left || allowed.count() == 1);
                });
            });
            sched_setaffinity(None, &allowed).unwrap();
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod others {
    /// Nothing is known of CPUs here.
    #[derive(Default)]
    pub(in super::super) struct Cpus;

    impl Cpus {
        pub(in super::super) const fn of_caller(_: &LastCaller) -> Cpus {
            Cpus
        }

        pub(in super::super) const fn join(&self) {}
    }

    /// Nothing is known of CPUs here.
    #[derive(Default)]
    pub(in super::super) struct LastCaller;

    impl LastCaller {
        pub(in super::super) const fn leave(&self) {}
    }
}
