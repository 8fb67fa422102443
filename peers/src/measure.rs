//! The measurement of a row: its contestants are loaded, their results compared, and then timed in turns.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::home::Home;
use crate::quiet::{Load, settle};
use crate::report::Limits;
use crate::row::{Contestant, Given, Limit, Measure, Row, Side};
use crate::stats;
use crate::worker::Worker;

/// How long is measured.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// How many times each contestant takes its turn.
    pub rounds: usize,
    /// Seconds of each contestant in a round.
    pub seconds: f64,
    /// How long an answer is waited for.
    pub patience: Duration,
}

/// Times of one contestant.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// All times, in seconds.
    pub all: Vec<f64>,
    /// Medians of the rounds.
    pub medians: Vec<f64>,
    /// The round of each median; empty where contestants took no turns.
    pub rounds: Vec<usize>,
    /// Fewer than half of the rounds ran on a quiet machine, so all count.
    pub noisy: bool,
    /// A first round that showed it far behind was the last.
    pub left: bool,
}

impl Times {
    /// The median of the rounds' medians.
    pub fn median(&self) -> f64 {
        stats::median(&self.medians).unwrap_or(f64::NAN)
    }

    /// These times by those of `other`: the median of the ratios in the rounds that both have, as the machine may be slower in some
    /// rounds than in others. The ratio of the medians, if fewer than half of the rounds are shared.
    pub fn ratio(&self, other: &Times) -> f64 {
        let in_round = |round: &usize| other.rounds.iter().position(|it| it == round);
        let pairs = self.rounds.iter().zip(&self.medians);
        let ratios: Vec<f64> =
            pairs.filter_map(|(round, time)| Some(time / other.medians.get(in_round(round)?)?)).collect();
        let shared = stats::median(&ratios).filter(|_| 2 * ratios.len() >= self.medians.len());
        shared.unwrap_or_else(|| self.median() / other.median())
    }

    /// The 5th percentile of all times: what the program takes while nothing else keeps the machine busy.
    pub fn p05(&self) -> f64 {
        stats::quantile(&self.all, 0.05).unwrap_or(f64::NAN)
    }

    /// The 95th percentile of all times.
    pub fn p95(&self) -> f64 {
        stats::quantile(&self.all, 0.95).unwrap_or(f64::NAN)
    }
}

/// What a contestant did.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Whose program it is.
    pub side: Side,
    /// What it is called.
    pub label: String,
    /// Its times, or why it has none.
    pub times: Result<Times, String>,
}

/// A measured row.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What was measured.
    pub row: Row,
    /// Threads of each contestant.
    pub threads: usize,
    /// The contestants in the order of the row, without the machine.
    pub entries: Vec<Entry>,
    /// What the machine does, in the unit of the row's rate.
    pub limit: Option<f64>,
    /// What a call of ours costs the host of a GPU.
    pub host: Option<HostCost>,
}

/// What a call on a GPU costs the host, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCost {
    /// A call, which does not wait for the GPU.
    pub call: f64,
    /// The driver's part of it: launches of the same kernels with the same arguments, without anything else.
    pub driver: f64,
    /// The same call, captured; the error says why it is not.
    pub captured: Result<Captured, String>,
}

/// A captured call on a GPU, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Captured {
    /// A call by the clock of the GPU, of calls that follow each other.
    pub call: f64,
    /// What a call costs the host.
    pub host: f64,
}

impl std::fmt::Display for HostCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [call, driver, own] = [self.call, self.driver, self.call - self.driver].map(|it| it * 1e6);
        write!(
            f,
            "{call:.2} µs of the host for a call, {driver:.2} µs of them for the driver's launches, {own:.2} µs for ours; captured: "
        )?;
        match &self.captured {
            Ok(Captured { call, host }) => {
                write!(f, "{:.2} µs for a call, {:.2} µs of the host", call * 1e6, host * 1e6)
            }
            Err(message) => write!(f, "no, {}", message.lines().next().unwrap_or_default()),
        }
    }
}

/// Workers, kept from row to row; several of one engine where a row needs them.
pub struct Pool<'a> {
    home: &'a Home,
    threads: usize,
    effort: Effort,
    workers: HashMap<(&'static str, usize), Worker>,
    /// Engines that cannot be started.
    dead: HashMap<&'static str, String>,
}

/// One contestant during the measurement.
struct Runner {
    key: (&'static str, usize),
    side: Side,
    label: String,
    times: Result<Times, String>,
    noisy: Times,
}

impl<'a> Pool<'a> {
    /// A pool without workers; each is started when a row first needs it.
    pub fn new(home: &'a Home, threads: usize, effort: Effort) -> Self {
        Self { home, threads, effort, workers: HashMap::new(), dead: HashMap::new() }
    }

    /// What the machine does, without any of our programs.
    pub fn limits(&mut self) -> Limits {
        let mut limit = |limit| {
            let row = Row::new(0, "", 1e9, f64::from(1 << 27)).bound(limit);
            self.measure(&row, &HashMap::new()).limit
        };
        let [fma, read, copy] = [Limit::Fma, Limit::Read, Limit::Copy].map(&mut limit);
        Limits { threads: self.threads, fma, read, copy }
    }

    /// Measures a row; `cases` are those of its kernels, as [`Home::cases`] has them.
    pub fn measure(&mut self, row: &Row, cases: &HashMap<String, String>) -> Measured {
        let mut runners: Vec<Runner> = Vec::new();
        for contestant in row.contestants.iter().cloned().chain(row.machine()) {
            let slot = runners.iter().filter(|it| it.key.0 == contestant.engine).count();
            let key = (contestant.engine, slot);
            let Contestant { side, label, given, .. } = contestant;
            let case = match &given {
                Given::Case(case) => case,
                Given::Spec(spec) => cases.get(spec).unwrap_or(spec),
            };
            let times = match row.measure {
                Measure::Call => self.load(key, case).map(|_| Times::default()),
                Measure::Compile => self.timed_load(key, case, "compile_s"),
                Measure::Load => self.timed_load(key, case, "ready_s"),
                Measure::Memory => self.memory(key, case),
            };
            runners.push(Runner { key, side, label, times, noisy: Times::default() });
        }
        if row.measure == Measure::Call {
            self.check(row, &mut runners);
            self.warm_up(&mut runners);
            for round in 0..2 * self.effort.rounds {
                self.round(&mut runners, round);
            }
        }
        let host = self.host_cost(row, &runners);
        let (machine, entries): (Vec<Entry>, Vec<Entry>) =
            runners.into_iter().map(Runner::entry).partition(|it| it.side == Side::Limit);
        let fastest = machine.iter().filter_map(|it| stats::quantile(&it.times.as_ref().ok()?.medians, 0.0));
        let limit = fastest.map(|time| if row.in_bytes() { row.rate(time) } else { 1.0 / time }).next();
        Measured {
            row: row.clone(),
            threads: self.threads,
            entries,
            limit: limit.filter(|it| it.is_finite()),
            host,
        }
    }

    /// What a call of our first program costs the host, if it runs on a GPU.
    fn host_cost(&mut self, row: &Row, runners: &[Runner]) -> Option<HostCost> {
        if !self.home.on_gpu() || row.measure != Measure::Call {
            return None;
        }
        let ours = runners.iter().find(|it| it.side == Side::Ours && it.times.is_ok())?;
        self.worker(ours.key).and_then(Worker::host).ok()
    }

    fn worker(&mut self, key: (&'static str, usize)) -> Result<&mut Worker, String> {
        if self.workers.get_mut(&key).is_none_or(Worker::ended) {
            if let Some(reason) = self.dead.get(key.0) {
                return Err(reason.clone());
            }
            let log = self.home.logs().join(format!("{}_{}_{}.log", key.0, key.1, self.threads));
            let command = self.home.command(key.0);
            match Worker::start(command, self.threads, &log, self.effort.patience) {
                Ok(worker) => drop(self.workers.insert(key, worker)),
                Err(reason) => drop(self.dead.insert(key.0, reason)),
            }
        }
        self.workers.get_mut(&key).ok_or_else(|| self.dead.get(key.0).cloned().unwrap_or_default())
    }

    fn load(&mut self, key: (&'static str, usize), case: &str) -> Result<Value, String> {
        self.worker(key)?.load(case)
    }

    /// Loads the case several times; the worker says how long it took, under the name `what`.
    fn timed_load(&mut self, key: (&'static str, usize), case: &str, what: &str) -> Result<Times, String> {
        let mut times = Times::default();
        for _ in 0..self.effort.rounds.max(5) {
            let seconds = self.load(key, case)?[what].as_f64();
            times.all.push(seconds.ok_or_else(|| format!("the worker does not tell `{what}`"))?);
        }
        times.medians.clone_from(&times.all);
        Ok(times)
    }

    /// What a process of its own needs at most to load the case and to run it, in bytes.
    fn memory(&mut self, key: (&'static str, usize), case: &str) -> Result<Times, String> {
        self.workers.remove(&key);
        let seconds = self.effort.seconds;
        let worker = self.worker(key)?;
        worker.ready()?;
        let before = worker.memory("VmRSS")?;
        worker.load(case)?;
        worker.run(seconds)?;
        let most = (worker.memory("VmHWM")? - before).max(0.0);
        Ok(Times { all: vec![most], medians: vec![most], ..Times::default() })
    }

    /// Compares our results with those of the first peer that has one.
    fn check(&mut self, row: &Row, runners: &mut [Runner]) {
        let Some(tolerance) = row.tolerance else { return };
        let path: PathBuf = self.home.data().join("result.bin");
        let mut expected = None;
        for runner in runners.iter_mut().filter(|it| it.side == Side::Peer && it.times.is_ok()) {
            match self.worker(runner.key).and_then(|it| it.output(&path)) {
                Ok(values) => {
                    expected = Some((values, runner.label.clone()));
                    break;
                }
                Err(reason) => runner.times = Err(reason),
            }
        }
        let Some((expected, peer)) = expected else { return };
        for runner in runners.iter_mut().filter(|it| it.side == Side::Ours && it.times.is_ok()) {
            match self.worker(runner.key).and_then(|it| it.output(&path)) {
                Ok(values) => match stats::difference(&values, &expected) {
                    Some(apart) if apart <= tolerance => {}
                    Some(apart) => runner.times = Err(format!("wrong result: {apart:.1e} from {peer}'s")),
                    None => runner.times = Err(format!("wrong result: not comparable with {peer}'s")),
                },
                Err(reason) => runner.times = Err(reason),
            }
        }
    }

    /// Calls every contestant once; first calls touch new memory and prepare what later ones reuse.
    fn warm_up(&mut self, runners: &mut [Runner]) {
        for runner in runners.iter_mut().filter(|it| it.times.is_ok()) {
            if let Err(reason) = self.worker(runner.key).and_then(|it| it.run(0.0)) {
                runner.times = Err(reason);
            }
        }
    }

    /// Times every contestant once that is not done.
    fn round(&mut self, runners: &mut [Runner], round: usize) {
        let (rounds, seconds) = (self.effort.rounds, self.effort.seconds);
        for runner in runners.iter_mut() {
            let Ok(times) = &mut runner.times else { continue };
            if times.medians.len() >= rounds || times.left {
                continue;
            }
            settle(&self.workers.values().map(Worker::id).collect::<Vec<_>>());
            let measured = self.worker(runner.key).and_then(|worker| {
                let load = Load::now(worker.id());
                let measured = worker.run(seconds)?;
                Ok((measured, load.is_none_or(|it| it.was_quiet(worker.id()))))
            });
            match measured {
                Ok((measured, quiet)) => {
                    let kept = if quiet { times } else { &mut runner.noisy };
                    if let Some(median) = stats::median(&measured) {
                        kept.medians.push(median);
                        kept.rounds.push(round);
                    }
                    kept.all.extend(measured);
                }
                Err(reason) => runner.times = Err(reason),
            }
        }
        if round == 0 {
            leave_behind(runners);
        }
    }
}

/// Peers that the first round shows at three times the time of the best are measured no more, nor is what takes seconds.
fn leave_behind(runners: &mut [Runner]) {
    let time = |it: &Runner| {
        let times = it.times.as_ref().ok()?;
        times.medians.first().or(it.noisy.medians.first()).copied()
    };
    let peers = runners.iter().filter(|it| it.side == Side::Peer);
    let best = peers.filter_map(time).fold(f64::INFINITY, f64::min);
    for runner in runners.iter_mut() {
        let slow = time(runner).is_some_and(|it| it > 2.0 || runner.side == Side::Peer && it > 3.0 * best);
        if let (true, Ok(times)) = (slow, &mut runner.times) {
            times.left = true;
        }
    }
}

impl Runner {
    fn entry(self) -> Entry {
        let Self { side, label, times, noisy, .. } = self;
        let times = times.map(|mut times| {
            if times.medians.len() <= noisy.medians.len() {
                times.noisy = !noisy.medians.is_empty();
                times.medians.extend(noisy.medians);
                times.rounds.extend(noisy.rounds);
                times.all.extend(noisy.all);
            }
            times
        });
        Entry { side, label, times }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rounds: &[(usize, f64)]) -> Times {
        let (rounds, medians) = rounds.iter().copied().unzip();
        Times { rounds, medians, ..Times::default() }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine is three times as slow in the last rounds, in which one contestant was measured more often.
        let ours = times(&[(0, 2.0), (1, 2.0), (2, 6.0), (3, 6.0), (4, 6.0)]);
        let peer = times(&[(0, 4.0), (1, 4.0), (5, 4.0), (3, 12.0)]);
        assert_eq!(ours.ratio(&peer), 0.5);
        // Too few rounds are shared.
        assert_eq!(ours.ratio(&times(&[(0, 4.0), (7, 3.0), (8, 3.0)])), 2.0);
        assert_eq!(times(&[(0, 3.0)]).ratio(&Times { medians: vec![2.0], ..Times::default() }), 1.5);
    }
}
