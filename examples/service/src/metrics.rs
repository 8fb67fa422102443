//! Counters of the service, and their text for Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Upper bounds of the times of answers, in microseconds.
const TIMES: [u64; 11] =
    [500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];
/// Upper bounds of the sizes of batches.
const SIZES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Statuses of `/classify`; the last one stands for a client that went away.
const STATUSES: [u16; 11] = [200, 400, 404, 405, 408, 413, 422, 500, 503, 504, 499];

/// How many values were below each bound, and their sum.
#[derive(Debug)]
struct Histogram<const N: usize> {
    counts: [AtomicU64; N],
    larger: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Histogram<N> {
        let counts = [const { AtomicU64::new(0) }; N];
        Histogram { counts, larger: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }
}

impl<const N: usize> Histogram<N> {
    fn add(&self, bounds: &[u64; N], value: u64) {
        let at = bounds.iter().position(|bound| value <= *bound);
        at.map_or(&self.larger, |at| &self.counts[at]).fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn write(&self, out: &mut String, name: &str, help: &str, bounds: &[u64; N], unit: f64) {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
        let mut total = 0;
        for (bound, count) in bounds.iter().zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{le=\"{}\"}} {total}", *bound as f64 / unit);
        }
        total += self.larger.load(Ordering::Relaxed);
        let sum = self.sum.load(Ordering::Relaxed) as f64 / unit;
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {total}\n{name}_sum {sum}\n{name}_count {total}");
    }
}

/// The counters.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: [AtomicU64; STATUSES.len()],
    in_flight: AtomicI64,
    times: Histogram<{ TIMES.len() }>,
    sizes: Histogram<{ SIZES.len() }>,
    cancelled: AtomicU64,
}

/// A request that is counted when it ends: with a status, or as one whose client went away.
pub(crate) struct InFlight<'a> {
    metrics: &'a Metrics,
    start: Instant,
    status: u16,
}

impl InFlight<'_> {
    pub(crate) fn end(mut self, status: u16) {
        self.status = status;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(at) = STATUSES.iter().position(|it| *it == self.status) {
            self.metrics.requests[at].fetch_add(1, Ordering::Relaxed);
        }
        self.metrics.times.add(&TIMES, micros(self.start.elapsed()));
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Metrics {
    pub(crate) fn begin(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { metrics: self, start: Instant::now(), status: 499 }
    }

    pub(crate) fn batch(&self, size: usize, cancelled: bool) {
        self.sizes.add(&SIZES, size as u64);
        self.cancelled.fetch_add(cancelled.into(), Ordering::Relaxed);
    }

    /// Number of batches that were cancelled, because nobody waited for them.
    pub fn cancelled_batches(&self) -> u64 {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The text for Prometheus.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let name = "classify_requests_total";
        let _ = writeln!(
            out,
            "# HELP {name} Requests by status; 499: the client went away.\n# TYPE {name} counter"
        );
        for (status, count) in STATUSES.iter().zip(&self.requests) {
            let _ = writeln!(out, "{name}{{status=\"{status}\"}} {}", count.load(Ordering::Relaxed));
        }
        let mut single = |name: &str, kind: &str, help: &str, value: i64| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        };
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        single("classify_in_flight", "gauge", "Requests without a response.", in_flight);
        let cancelled = self.cancelled_batches() as i64;
        single("classify_cancelled_batches_total", "counter", "Batches that nobody waited for.", cancelled);
        if let Some(bytes) = resident() {
            single("process_resident_memory_bytes", "gauge", "Memory of the process.", bytes);
        }
        self.times.write(&mut out, "classify_seconds", "Time of a request.", &TIMES, 1e6);
        self.sizes.write(&mut out, "classify_batch_size", "Images in a call of the model.", &SIZES, 1.0);
        out
    }
}

/// Memory of this process in bytes, on Linux.
fn resident() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()? * 1024)
}

#[test]
fn text_for_prometheus() {
    let metrics = Metrics::default();
    metrics.begin().end(200);
    drop(metrics.begin());
    let running = metrics.begin();
    metrics.batch(3, false);
    metrics.batch(65, true);
    let text = metrics.text();
    for line in [
        "classify_requests_total{status=\"200\"} 1",
        "classify_requests_total{status=\"499\"} 1",
        "classify_in_flight 1",
        "classify_cancelled_batches_total 1",
        "classify_seconds_count 2",
        "classify_batch_size_bucket{le=\"2\"} 0",
        "classify_batch_size_bucket{le=\"4\"} 1",
        "classify_batch_size_bucket{le=\"64\"} 1",
        "classify_batch_size_bucket{le=\"+Inf\"} 2",
        "classify_batch_size_sum 68",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
    running.end(500);
    assert!(metrics.text().contains("classify_in_flight 0\n"));
}
