//! How long a fuzz test runs: a fixed number of cases in the test suite, any time or number under `cargo xtask fuzz`.
//!
//! `TVM_FUZZ_SECONDS` and `TVM_FUZZ_CASES` end a run, `TVM_FUZZ_SEED` begins it elsewhere. Without them a run is the short
//! form: the same cases each time.

use std::time::{Duration, Instant};

/// Hands out the seeds of cases until the run is over, then says how many there were.
#[derive(Debug)]
pub struct Budget {
    target: &'static str,
    seed: u64,
    cases: u64,
    deadline: Option<Instant>,
    done: u64,
}

impl Budget {
    /// The run of `target`, of `cases` cases in its short form.
    pub fn new(target: &'static str, cases: u64) -> Budget {
        let number = |name| std::env::var(name).ok().and_then(|it: String| it.parse::<u64>().ok());
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
    /// The seed of a case, for [`Rng::new`](crate::Rng::new).
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
        if std::env::vars().any(|(name, _)| name.starts_with("TVM_FUZZ_")) {
            println!("skipped: this is a long run");
            return;
        }
        assert_eq!(Budget::new("budget", 3).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
