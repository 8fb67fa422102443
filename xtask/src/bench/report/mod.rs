//! What a run found, as lines on the terminal, as Markdown and as a page.

mod html;
mod markdown;
mod roofline;

use std::path::Path;

use super::home;
use super::measure::Outcome;
use super::row::Side;
use super::stats::geometric_mean;
use super::table::{GROUPS, Group};
use super::verdict::{Verdict, on_group};

/// Limits of the machine for a number of threads, in 10⁹ per second.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) threads: usize,
    pub(crate) fma: Option<f64>,
    pub(crate) read: Option<f64>,
    pub(crate) copy: Option<f64>,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let show = |value: Option<f64>| value.map_or("not measured".to_string(), |it| format!("{it:.0}"));
        let Self { threads, fma, read, copy } = self;
        let (fma, read, copy) = (show(*fma), show(*read), show(*copy));
        write!(f, "{threads} threads: {fma} GFLOP/s f32, 128 MiB read at {read} GB/s, copied at {copy} GB/s")
    }
}

/// A run.
pub(crate) struct Report {
    pub(crate) command: String,
    pub(crate) cpu: String,
    pub(crate) versions: Vec<String>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) seconds: f64,
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

impl Report {
    pub(crate) fn new(command: String, versions: Vec<String>) -> Self {
        let cpu = home::cpu();
        Self { command, cpu, versions, machines: Vec::new(), outcomes: Vec::new(), seconds: 0.0 }
    }

    /// The outcomes of a group for a number of threads.
    fn of(&self, group: usize, threads: usize) -> Vec<&Outcome> {
        self.outcomes.iter().filter(|it| it.row.group == group && it.threads == threads).collect()
    }

    fn summaries(&self) -> Vec<Summary> {
        let mut res = Vec::new();
        for (index, group) in GROUPS.iter().enumerate() {
            for machine in &self.machines {
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

    /// Writes `compare.md` and `compare.html`.
    ///
    /// # Errors
    /// Of the file system.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for (name, text) in [("compare.md", markdown::page(self)), ("compare.html", html::page(self))] {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            println!("written: {}", path.display());
        }
        Ok(())
    }
}

/// The columns of a row: those of `COLUMNS`.
fn cells(outcome: &Outcome) -> [String; 12] {
    let none = || "–".to_string();
    let ours = outcome.best(Side::Ours).map(|(_, times)| times);
    let peer = outcome.best(Side::Peer);
    let noisy = outcome.noisy();
    let unit = if outcome.row.in_bytes() { "GB/s" } else { "GFLOP/s" };
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
        ours.map_or_else(none, |it| millis(it.median())),
        ours.map_or_else(none, |it| millis(it.p95())),
        ours.filter(|_| outcome.row.goal.seconds.is_none())
            .map_or_else(none, |it| format!("{:.1} {unit}", outcome.row.rate(it.median()))),
        outcome.share().map_or_else(none, |it| format!("{:.0} %", 100.0 * it)),
        peer.map_or_else(none, |(it, _)| it.label.clone()),
        peer.map_or_else(none, |(_, it)| millis(it.median())),
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
    "p95",
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
pub(super) fn millis(seconds: f64) -> String {
    let value = 1e3 * seconds;
    let digits =
        if value >= 100.0 { 0 } else { (2 - value.max(1e-3).log10().floor() as i32).max(0) as usize };
    format!("{value:.digits$}")
}

/// A row for the terminal.
pub(crate) fn line(outcome: &Outcome) -> String {
    let [name, _, ours, p95, rate, share, peer, theirs, ratio, goal, verdict, _] = cells(outcome);
    format!(
        "  {name:<40} {ours:>8} ms (p95 {p95:>8})  {rate:>14} {share:>6}  {peer} {theirs} ms, ratio {ratio} ({goal})  {verdict}"
    )
}

/// The groups for the terminal.
pub(crate) fn summary_text(report: &Report) -> String {
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
    use super::super::verdict::tests::outcome;
    use super::*;

    pub(super) fn report() -> Report {
        let outcomes = vec![
            outcome(Ok(0.9), &[("gemm", Ok(1.0)), ("faer", Err("<no>"))]),
            outcome(Err("a | b"), &[("gemm", Ok(1.0))]),
        ];
        let machine = Machine { threads: 1, fma: Some(250.0), read: Some(40.0), copy: None };
        Report {
            command: "cargo xtask bench --compare".to_string(),
            cpu: "A <CPU>".to_string(),
            versions: vec!["gemm 1".to_string()],
            machines: vec![machine],
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
        let text = summary_text(&report());
        assert!(text.starts_with("f32 matmul, 1 threads: geometric mean 0.90, 1 of 2 rows ok"), "{text}");
    }
}
