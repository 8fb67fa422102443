//! Length of a fuzz run: a fixed number of cases in the test suite, any duration or number under `cargo xtask fuzz`.
//!
//! `TVM_FUZZ_SECONDS` and `TVM_FUZZ_CASES` limit a run, and `TVM_FUZZ_SEED` selects other cases. Without these
//! variables, the run is short and has the same cases each time.

use std::time::{Duration, Instant};

/// Iterator over the seeds of the cases of one run; at the end, it reports how many cases ran.
#[derive(Debug)]
pub struct Budget {
    target: &'static str,
    seed: u64,
    cases: u64,
    deadline: Option<Instant>,
    done: u64,
}

impl Budget {
    /// The run of the target `target`, with `cases` cases in the short form.
    pub fn new(target: &'static str, cases: u64) -> Budget {
        Budget::told(target, cases, |name| std::env::var(name).ok()?.parse().ok())
    }

    /// Configures the run from the variables that `number` looks up.
    fn told(target: &'static str, cases: u64, number: impl Fn(&str) -> Option<u64>) -> Budget {
        let seconds = number("TVM_FUZZ_SECONDS");
        let long = if seconds.is_some() { u64::MAX } else { cases };
        Budget {
            target,
            seed: number("TVM_FUZZ_SEED").unwrap_or(0).wrapping_mul(1 << 40),
            cases: number("TVM_FUZZ_CASES").unwrap_or(long),
            deadline: seconds.map(|it| Instant::now() + Duration::from_secs(it)),
            done: 0,
        }
    }
}

impl Iterator for Budget {
    /// Seed of a case, for [`Rng::new`](crate::Rng::new).
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.done >= self.cases || self.deadline.is_some_and(|it| Instant::now() >= it) {
            return None;
        }
        self.done += 1;
        Some(self.seed.wrapping_add(self.done))
    }
}

impl Drop for Budget {
    #[allow(
        clippy::print_stdout,
        reason = "a fuzz run says what it did; the test harness shows it on demand"
    )]
    fn drop(&mut self) {
        println!("{}: {} cases from seed {}", self.target, self.done, self.seed);
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn a_short_run_gives_each_case_its_seed() {
        assert_eq!(Budget::told("budget", 3, |_| None).collect::<Vec<_>>(), [1, 2, 3]);
        let told = |name: &str| match name {
            "TVM_FUZZ_SEED" => Some(1),
            "TVM_FUZZ_CASES" => Some(2),
            _ => None,
        };
        assert_eq!(Budget::told("budget", 3, told).collect::<Vec<_>>(), [(1 << 40) + 1, (1 << 40) + 2]);
    }
}
