//! What a run found, as lines on the terminal, as Markdown and as a page.

mod html;
mod markdown;
mod roofline;

use std::path::{Path, PathBuf};

use crate::home;
use crate::measure::{Entry, Measured, Times};
use crate::row::{Group, Measure, Side};
use crate::stats::geometric_mean;
use crate::verdict::{Verdict, on_group};

/// Limits of the machine for a number of threads, in 10⁹ per second.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Threads that take part.
    pub threads: usize,
    /// f32 operations of multiply-adds in registers.
    pub fma: Option<f64>,
    /// Bytes read of 128 MiB.
    pub read: Option<f64>,
    /// Bytes read and written to copy 64 MiB.
    pub copy: Option<f64>,
}

impl std::fmt::Display for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: Option<f64>| value.map_or("not measured".to_string(), |it| format!("{it:.0}"));
        let Self { threads, fma, read, copy } = self;
        let (fma, read, copy) = (show(*fma), show(*read), show(*copy));
        write!(f, "{threads} threads: {fma} GFLOP/s f32, 128 MiB read at {read} GB/s, copied at {copy} GB/s")
    }
}

/// A run.
pub struct Comparison {
    /// Name of its files.
    pub name: &'static str,
    /// Groups of rows, in order.
    pub groups: &'static [Group],
    /// The command line that made it.
    pub command: String,
    /// Name of the processor.
    pub cpu: String,
    /// The libraries with their versions.
    pub versions: Vec<String>,
    /// What the machine does, for each number of threads.
    pub limits: Vec<Limits>,
    /// What was measured, in order.
    pub outcomes: Vec<Measured>,
    /// How long it took.
    pub seconds: f64,
}

/// The mean of a group for a number of threads.
struct Summary {
    group: &'static Group,
    threads: usize,
    mean: Option<f64>,
    /// Rows that reach their goals, and all rows.
    reached: (usize, usize),
    verdict: Option<Verdict>,
}

impl Comparison {
    /// A report on nothing yet.
    pub fn new(name: &'static str, command: String, groups: &'static [Group], versions: Vec<String>) -> Self {
        let cpu = home::cpu();
        Self { name, groups, command, cpu, versions, limits: Vec::new(), outcomes: Vec::new(), seconds: 0.0 }
    }

    /// The outcomes of a group for a number of threads.
    fn of(&self, group: usize, threads: usize) -> Vec<&Measured> {
        self.outcomes.iter().filter(|it| it.row.group == group && it.threads == threads).collect()
    }

    fn summaries(&self) -> Vec<Summary> {
        let mut res = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            for machine in &self.limits {
                let outcomes = self.of(index, machine.threads);
                if outcomes.is_empty() {
                    continue;
                }
                let ratios: Vec<f64> = outcomes.iter().filter_map(|it| it.ratio()).collect();
                res.push(Summary {
                    group,
                    threads: machine.threads,
                    mean: geometric_mean(&ratios),
                    reached: (
                        outcomes.iter().filter(|it| it.verdict() == Verdict::Ok).count(),
                        outcomes.len(),
                    ),
                    verdict: on_group(group, &outcomes).map(|(_, verdict)| verdict),
                });
            }
        }
        res
    }

    /// Writes a file of Markdown and one of HTML.
    ///
    /// # Errors
    /// Of the file system.
    pub fn write(&self, folder: &Path) -> Result<[PathBuf; 2], String> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let paths = ["md", "html"].map(|kind| folder.join(format!("{}.{kind}", self.name)));
        for (path, text) in paths.iter().zip([markdown::page(self), html::page(self)]) {
            std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(paths)
    }
}

/// The columns of a row: those of `COLUMNS`.
fn cells(outcome: &Measured) -> [String; 12] {
    let none = || "–".to_string();
    let ours = outcome.best(Side::Ours).map(|(_, times)| times);
    let peer = outcome.best(Side::Peer);
    let noisy = outcome.noisy();
    let unit = if outcome.row.in_bytes() { "GB/s" } else { "GFLOP/s" };
    let shown = |value: f64| match outcome.row.measure {
        Measure::Memory => format!("{:.1} MiB", value / f64::from(1 << 20)),
        _ => millis(value),
    };
    let goal = outcome.row.goal;
    let share = goal.share.filter(|_| !goal.one_thread || outcome.threads == 1);
    let goals: Vec<String> = [
        goal.ratio.map(|it| format!("≤ {it:.2}")),
        share.map(|it| format!("≥ {:.0} %", 100.0 * it)),
        goal.seconds.map(|it| format!("≤ {:.0} ms", 1e3 * it)),
    ]
    .into_iter()
    .flatten()
    .collect();
    [
        outcome.row.name.clone(),
        outcome.threads.to_string(),
        ours.map_or_else(none, |it| shown(it.median())),
        ours.filter(|_| outcome.row.measure != Measure::Memory).map_or_else(none, |it| shown(it.p95())),
        ours.filter(|_| {
            outcome.row.measure == Measure::Call && outcome.row.flops.max(outcome.row.bytes) > 0.0
        })
        .map_or_else(none, |it| format!("{:.1} {unit}", outcome.row.rate(it.median()))),
        outcome.share().map_or_else(none, |it| format!("{:.0} %", 100.0 * it)),
        peer.map_or_else(none, |(it, _)| it.label.clone()),
        peer.map_or_else(none, |(_, it)| shown(it.median())),
        outcome.ratio().map_or_else(none, |it| format!("{it:.2}{}", if noisy { " ~" } else { "" })),
        goals.join(", "),
        outcome.verdict().to_string(),
        outcome.others(),
    ]
}

const COLUMNS: [&str; 12] = [
    "work",
    "threads",
    "ours, ms",
    "p95, ms",
    "rate",
    "of limit",
    "best peer",
    "its ms",
    "ratio",
    "goal",
    "verdict",
    "other peers, ms",
];

/// Milliseconds with three digits that count.
pub(crate) fn millis(seconds: f64) -> String {
    let value = 1e3 * seconds;
    let digits =
        if value >= 100.0 { 0 } else { (2 - value.max(1e-3).log10().floor() as i32).max(0) as usize };
    format!("{value:.digits$}")
}

/// A row for the terminal.
pub fn line(outcome: &Measured) -> String {
    let [name, _, ours, p95, rate, share, peer, theirs, ratio, goal, verdict, _] = cells(outcome);
    let unit = if outcome.row.measure == Measure::Memory { "" } else { " ms" };
    format!(
        "  {name:<40} {ours:>8}{unit} (p95 {p95:>8})  {rate:>14} {share:>6}  {peer} {theirs}{unit}, ratio {ratio} ({goal})  {verdict}"
    )
}

/// All contestants of a row for the terminal, a line each, the fastest first.
pub fn contestants(outcome: &Measured) -> String {
    let limit = outcome.limit.map_or(String::new(), |it| {
        let unit = if outcome.row.in_bytes() { "GB/s" } else { "GFLOP/s" };
        format!("; the machine: {it:.0} {unit}")
    });
    let mut res = format!("{}, {} threads{limit}\n", outcome.row.name, outcome.threads);
    let title = |name: &str| format!("{name:>11}");
    let head = ["median ms", "p95 ms", "GFLOP/s", "GB/s", "of limit", "ratio"].map(title).concat();
    res += &format!("  {:<28}{head}\n", "");
    let ours = outcome.best(Side::Ours).map(|(_, times)| times);
    let mut entries: Vec<_> = outcome.entries.iter().collect();
    let time = |it: &Entry| it.times.as_ref().map_or(f64::INFINITY, Times::median);
    entries.sort_by(|a, b| time(a).total_cmp(&time(b)));
    for entry in entries {
        let times = match &entry.times {
            Ok(times) => times,
            Err(reason) => {
                res += &format!("  {:<28} SKIPPED: {}\n", entry.label, reason);
                continue;
            }
        };
        let median = times.median();
        let rate = |work: f64| {
            if work > 0.0 { format!("{:.1}", work / median / 1e9) } else { "–".to_string() }
        };
        let share = outcome.limit.map(|it| format!("{:.0} %", 100.0 * outcome.row.rate(median) / it));
        let ratio = ours.filter(|_| entry.side == Side::Peer).map(|it| format!("{:.2}", it.ratio(times)));
        let noisy = if times.noisy { " ~" } else { "" };
        let cells = [
            millis(median),
            millis(times.p95()),
            rate(outcome.row.flops),
            rate(outcome.row.bytes),
            share.unwrap_or_else(|| "–".to_string()),
            ratio.unwrap_or_default() + noisy,
        ];
        res += &format!("  {:<28}{}\n", entry.label, cells.map(|it| title(&it)).concat());
    }
    res
}

/// The groups for the terminal.
pub fn summary(report: &Comparison) -> String {
    let line = |it: &Summary| {
        let mean = it.mean.map_or("–".to_string(), |mean| format!("{mean:.2}"));
        let verdict = it.verdict.as_ref().map_or(String::new(), |it| format!("; mean: {it}"));
        let (reached, all) = it.reached;
        format!(
            "{}, {} threads: geometric mean {mean}, {reached} of {all} rows ok{verdict}",
            it.group.title, it.threads
        )
    };
    let lines: Vec<String> = report.summaries().iter().map(line).collect();
    format!("{}\n{} s", lines.join("\n"), report.seconds.round())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::tests::outcome;

    pub(super) fn report() -> Comparison {
        let outcomes = vec![
            outcome(Ok(0.9), &[("gemm", Ok(1.0)), ("faer", Err("<no>"))]),
            outcome(Err("a | b"), &[("gemm", Ok(1.0))]),
        ];
        let limits = Limits { threads: 1, fma: Some(250.0), read: Some(40.0), copy: None };
        const GROUPS: &[Group] = &[Group { title: "f32 matmul", goal: "", mean: Some(1.0) }];
        Comparison {
            name: "compare",
            groups: GROUPS,
            command: "cargo xtask bench --compare".to_string(),
            cpu: "A <CPU>".to_string(),
            versions: vec!["gemm 1".to_string()],
            limits: vec![limits],
            outcomes,
            seconds: 1.0,
        }
    }

    #[test]
    fn three_digits_count() {
        let shown = [1.234_56, 0.012_345, 0.000_123_4, 1.2e-7].map(millis);
        assert_eq!(shown, ["1235", "12.3", "0.123", "0.00012"]);
    }

    #[test]
    fn summaries_count_rows() {
        let text = summary(&report());
        assert!(text.starts_with("f32 matmul, 1 threads: geometric mean 0.90, 1 of 2 rows ok"), "{text}");
    }
}
