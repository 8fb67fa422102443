//! What a measurement says about a goal.

use crate::measure::{Entry, Measured, Times};
use crate::row::{Group, Side};
use crate::stats::geometric_mean;

/// A verdict on a row or a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// All goals are reached.
    Ok,
    /// With the goals that are not reached.
    FallsShort(String),
    /// With the reason.
    Skipped(String),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::FallsShort(why) => write!(f, "falls short: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

impl Measured {
    fn measured(&self, side: Side) -> impl Iterator<Item = (&Entry, &Times)> {
        let entries = self.entries.iter().filter(move |it| it.side == side);
        entries.filter_map(|it| Some((it, it.times.as_ref().ok().filter(|it| !it.medians.is_empty())?)))
    }

    /// The fastest of one side.
    pub fn best(&self, side: Side) -> Option<(&Entry, &Times)> {
        self.measured(side).min_by(|(_, a), (_, b)| a.median().total_cmp(&b.median()))
    }

    /// Our time by that of the best peer, as [`Times::ratio`] has it.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.best(Side::Ours)?.1.ratio(self.best(Side::Peer)?.1))
    }

    /// Our share of the limit.
    pub fn share(&self) -> Option<f64> {
        Some(self.row.rate(self.best(Side::Ours)?.1.median()) / self.limit?)
    }

    /// Reasons why contestants of one side have no times.
    pub fn failures(&self, side: Side) -> Vec<String> {
        let entries = self.entries.iter().filter(|it| it.side == side);
        let reason = |it: &Entry| Some(format!("{}: {}", it.label, shortened(it.times.as_ref().err()?)));
        entries.filter_map(reason).collect()
    }

    /// Says it where the machine allows little more.
    fn bound(&self) -> String {
        let of = if self.row.in_bytes() { "bandwidth" } else { "peak" };
        let share = self.share().filter(|it| *it >= 0.9);
        share.map_or(String::new(), |it| format!(" at {:.0} % of {of}", 100.0 * it))
    }

    /// The other peers' times, in milliseconds.
    pub fn others(&self) -> String {
        let best = self.best(Side::Peer).map(|(it, _)| &it.label);
        let mut peers: Vec<_> = self.measured(Side::Peer).filter(|(it, _)| Some(&it.label) != best).collect();
        peers.sort_by(|(_, a), (_, b)| a.median().total_cmp(&b.median()));
        let shown =
            peers.iter().map(|(it, times)| format!("{} {}", it.label, crate::report::millis(times.median())));
        shown.collect::<Vec<_>>().join(", ")
    }

    /// Whether other programs ran while our time or that of the best peer was measured.
    pub fn noisy(&self) -> bool {
        [Side::Ours, Side::Peer].iter().any(|&side| self.best(side).is_some_and(|(_, it)| it.noisy))
    }

    /// The verdict on this row.
    pub fn verdict(&self) -> Verdict {
        if self.noisy() {
            return Verdict::Skipped("other programs ran".to_string());
        }
        let goal = self.row.goal;
        let Some((_, ours)) = self.best(Side::Ours) else {
            return Verdict::FallsShort(format!("not supported: {}", self.failures(Side::Ours).join("; ")));
        };
        let mut short = Vec::new();
        if let Some(most) = goal.ratio {
            match self.ratio() {
                Some(ratio) if ratio > most => {
                    short.push(format!("ratio {ratio:.3} > {most:.2}{}", self.bound()))
                }
                Some(_) => {}
                None => {
                    return Verdict::Skipped(format!("no peer: {}", self.failures(Side::Peer).join("; ")));
                }
            }
        }
        if let Some(least) = goal.share.filter(|_| !goal.one_thread || self.threads == 1) {
            let of = if self.row.in_bytes() { "bandwidth" } else { "peak" };
            match self.share() {
                Some(share) if share < least => {
                    short.push(format!("{:.1} % of {of} < {:.0} %", 100.0 * share, 100.0 * least));
                }
                Some(_) => {}
                None => return Verdict::Skipped(format!("no measured {of}")),
            }
        }
        if let Some(most) = goal.seconds.filter(|most| ours.median() > *most) {
            short.push(format!("{:.0} ms > {:.0} ms", 1e3 * ours.median(), 1e3 * most));
        }
        if short.is_empty() { Verdict::Ok } else { Verdict::FallsShort(short.join(", ")) }
    }
}

/// The geometric mean of the ratios of a group, and the verdict on it.
pub(crate) fn on_group(group: &Group, outcomes: &[&Measured]) -> Option<(Option<f64>, Verdict)> {
    let most = group.mean?;
    let ratios: Vec<f64> = outcomes.iter().filter_map(|it| it.ratio()).collect();
    let mean = geometric_mean(&ratios);
    let missing = outcomes.len() - ratios.len();
    let noisy = outcomes.iter().filter(|it| it.noisy()).count();
    let verdict = match mean {
        Some(_) if 2 * noisy > outcomes.len() => {
            Verdict::Skipped(format!("other programs ran during {noisy} of {} rows", outcomes.len()))
        }
        None => Verdict::Skipped("no row was measured on both sides".to_string()),
        Some(mean) if mean > most => Verdict::FallsShort(format!("geometric mean {mean:.2} > {most:.2}")),
        Some(_) if missing > 0 => Verdict::FallsShort(format!("{missing} rows without a ratio")),
        Some(_) => Verdict::Ok,
    };
    Some((mean, verdict))
}

/// The beginning of a reason.
fn shortened(text: &str) -> String {
    let start: String = text.chars().take(160).collect();
    let cut = start.len() < text.len();
    start.replace('|', "/") + if cut { " …" } else { "" }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::row::{Limit, Row};

    /// A row of 10⁹ operations with times of our side and of peers.
    pub(crate) fn outcome(ours: Result<f64, &str>, peers: &[(&str, Result<f64, &str>)]) -> Measured {
        let entry = |side, label: &str, time: Result<f64, &str>| {
            let times = |it| Times { all: vec![it], medians: vec![it], ..Times::default() };
            Entry { side, label: label.to_string(), times: time.map(times).map_err(str::to_string) }
        };
        let mut entries = vec![entry(Side::Ours, "tvm", ours)];
        entries.extend(peers.iter().map(|(label, time)| entry(Side::Peer, label, *time)));
        Measured {
            row: Row::new(0, "work", 1e9, 1e8).ratio(1.0),
            threads: 1,
            entries,
            limit: Some(2.0),
            host: None,
        }
    }

    #[test]
    fn the_best_peer_counts() {
        let outcome = outcome(Ok(1.0), &[("slow", Ok(2.0)), ("fast", Ok(0.8)), ("none", Err("no"))]);
        assert_eq!(outcome.best(Side::Peer).unwrap().0.label, "fast");
        assert_eq!(outcome.verdict().to_string(), "falls short: ratio 1.250 > 1.00");
    }

    #[test]
    fn goals_that_are_reached() {
        let mut it = outcome(Ok(0.5), &[("a", Ok(0.5))]);
        it.row.goal.share = Some(0.9);
        assert_eq!(it.verdict(), Verdict::Ok);
        it.limit = Some(4.0);
        assert_eq!(it.verdict().to_string(), "falls short: 50.0 % of peak < 90 %");
        it.row.goal.one_thread = true;
        assert_eq!(it.verdict().to_string(), "falls short: 50.0 % of peak < 90 %");
        it.threads = 2;
        assert_eq!(it.verdict(), Verdict::Ok);
        it.row = it.row.bound(Limit::Read);
        it.row.goal.one_thread = false;
        assert_eq!(it.verdict().to_string(), "falls short: 5.0 % of bandwidth < 90 %");
    }

    #[test]
    fn what_is_missing_is_said() {
        let none = outcome(Err("no such operator"), &[("a", Ok(0.5))]);
        assert_eq!(none.verdict().to_string(), "falls short: not supported: tvm: no such operator");
        let alone = outcome(Ok(1.0), &[("a", Err("not installed"))]);
        assert_eq!(alone.verdict().to_string(), "skipped: no peer: a: not installed");
    }

    #[test]
    fn a_busy_machine_gives_no_verdict() {
        let mut it = outcome(Ok(0.5), &[("a", Ok(1.0))]);
        for entry in &mut it.entries {
            entry.times.as_mut().unwrap().noisy = true;
        }
        assert_eq!(it.verdict().to_string(), "skipped: other programs ran");
        let group = Group { title: "", goal: "", mean: Some(1.0) };
        let verdict = on_group(&group, &[&it]).unwrap().1;
        assert_eq!(verdict.to_string(), "skipped: other programs ran during 1 of 1 rows");
    }

    #[test]
    fn groups() {
        let group = Group { title: "", goal: "", mean: Some(1.0) };
        let (a, b) = (outcome(Ok(2.0), &[("a", Ok(1.0))]), outcome(Ok(0.4), &[("a", Ok(1.0))]));
        let none = outcome(Err("x"), &[]);
        assert_eq!(on_group(&group, &[&a, &b]).unwrap().1, Verdict::Ok);
        assert_eq!(on_group(&group, &[&a]).unwrap().1.to_string(), "falls short: geometric mean 2.00 > 1.00");
        assert_eq!(
            on_group(&group, &[&b, &none]).unwrap().1.to_string(),
            "falls short: 1 rows without a ratio"
        );
        assert_eq!(on_group(&group, &[]).unwrap().0, None);
        assert!(on_group(&Group { title: "", goal: "", mean: None }, &[&a]).is_none());
    }
}
