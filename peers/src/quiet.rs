//! How busy other programs keep the machine while a worker runs. Linux tells; elsewhere nothing is known, and every
//! measurement counts.

use std::time::{Duration, Instant};

/// Clock ticks of `/proc` per second.
const TICKS: f64 = 100.0;

/// Processor time of all programs and of one worker, at one moment.
pub(crate) struct Load {
    at: Instant,
    all: f64,
    worker: f64,
}

impl Load {
    /// Reads both clocks.
    pub(crate) fn now(worker: u32) -> Option<Self> {
        let all = std::fs::read_to_string("/proc/stat").ok()?;
        let own = std::fs::read_to_string(format!("/proc/{worker}/stat")).ok()?;
        Some(Self { at: Instant::now(), all: busy(&all)?, worker: used(&own)? })
    }

    /// Whether other programs used less than a sixth of one processor since `self` was read.
    pub(crate) fn was_quiet(&self, worker: u32) -> bool {
        let Some(now) = Self::now(worker) else { return true };
        let seconds = self.at.elapsed().as_secs_f64();
        let foreign = (now.all - self.all) - (now.worker - self.worker);
        // Clocks tick each 10 ms; the second term is what that can make of an idle machine.
        foreign <= 0.15 * seconds + 0.02
    }
}

/// Waits until none of the workers runs: threads of some peers wait actively after a call. Gives up after 0.3 s.
pub(crate) fn settle(workers: &[u32]) {
    const STEP: Duration = Duration::from_millis(2);
    let start = Instant::now();
    let mut last = nanoseconds(workers);
    while start.elapsed() < 150 * STEP {
        let step = Instant::now();
        std::thread::sleep(STEP);
        let now = nanoseconds(workers);
        if now.saturating_sub(last) < step.elapsed().as_nanos() as u64 / 20 {
            return;
        }
        last = now;
    }
}

/// Processor time of all threads of some processes.
fn nanoseconds(processes: &[u32]) -> u64 {
    let threads = |id: &u32| std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let time = |stat: String| stat.split_whitespace().next()?.parse::<u64>().ok();
    let used = processes.iter().flat_map(threads);
    used.filter_map(|it| time(std::fs::read_to_string(it.path().join("schedstat")).ok()?)).sum()
}

/// Seconds that all processors were busy, from the text of `/proc/stat`. Time that the host took away counts.
fn busy(stat: &str) -> Option<f64> {
    let fields: Vec<f64> = stat.lines().next()?.split_whitespace().skip(1).flat_map(str::parse).collect();
    let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|&i| fields.get(i)).sum::<f64>();
    Some(busy / TICKS)
}

/// Seconds that a process used, from the text of its `stat`.
fn used(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_linux() {
        assert_eq!(busy("cpu  100 20 30 999 999 4 5 41 0 0\ncpu0 …"), Some(2.0));
        assert_eq!(used("1 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0"), Some(2.0));
        assert_eq!(used("nonsense"), None);
    }
}
