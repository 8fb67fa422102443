//! `cargo xtask bench --compare [kernels|models]`: the work that users care about, beside the best libraries for it, in one run:
//! every row with our time, the best peer's, the machine's limit, and whether the goal is reached.
#![allow(clippy::print_stdout, reason = "progress is what this program is for")]

mod table;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;
use tvm_peers::{Comparison, Effort, Given, Home, Measure, Pool, Row, Side, line, models, summary};

/// What the command line asks for.
#[derive(Debug, PartialEq)]
struct Options {
    models: bool,
    short: bool,
    filter: String,
    threads: Vec<usize>,
    tvmc: PathBuf,
    target: String,
    out: Option<PathBuf>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut res = Self {
            models: false,
            short: false,
            filter: String::new(),
            threads: Vec::new(),
            tvmc: PathBuf::from("tvmc"),
            target: "host".to_string(),
            out: None,
        };
        let (mut compare, mut args) = (false, args.iter().peekable());
        while let Some(arg) = args.next() {
            let mut value = || args.next().cloned().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--compare" => {
                    compare = true;
                    if let Some(what) = args.next_if(|it| !it.starts_with('-')) {
                        res.models = match what.as_str() {
                            "kernels" => false,
                            "models" => true,
                            _ => return Err(format!("--compare is for kernels or models, not `{what}`")),
                        };
                    }
                }
                "--short" => res.short = true,
                "--filter" => res.filter = value()?,
                "--threads" => res.threads = counts(&value()?)?,
                "--tvmc" => res.tvmc = PathBuf::from(value()?),
                "--target" => res.target = value()?,
                "--out" => res.out = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument `{arg}` of bench")),
            }
        }
        if !compare {
            return Err("bench needs --compare; benchmarks without peers are `cargo bench -p tvm-benches`"
                .to_string());
        }
        if res.threads.is_empty() {
            let all = std::thread::available_parallelism().map_or(1, usize::from);
            res.threads = if all > 1 { vec![1, 2] } else { vec![1] };
        }
        Ok(res)
    }
}

fn counts(text: &str) -> Result<Vec<usize>, String> {
    let count = |part: &str| part.trim().parse().ok().filter(|it| *it > 0);
    let counts: Option<Vec<usize>> = text.split(',').map(count).collect();
    counts.ok_or_else(|| format!("--threads needs numbers, as in 1,2, not `{text}`"))
}

/// The arguments that say what is measured: without the places of programs and reports, which are those of one machine.
fn without_paths(args: &[String]) -> Vec<&str> {
    let mut args = args.iter();
    let mut kept = Vec::new();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--tvmc" | "--out" => drop(args.next()),
            arg => kept.push(arg),
        }
    }
    kept
}

/// Measures the rows, prints them, and writes the report.
///
/// # Errors
/// Of the command line; where nothing can be measured or written.
fn compare(args: &[String]) -> Result<(), String> {
    let options = Options::parse(args)?;
    let start = Instant::now();
    let home = Home::find(options.tvmc.clone(), options.target.clone())?;
    let (groups, rows, name) = if options.models {
        (models::GROUPS, models::rows(), "models")
    } else {
        (table::GROUPS, table::rows()?, "compare")
    };
    let rows: Vec<Row> = rows
        .into_iter()
        .filter(|row| row.short || !options.short)
        .filter(|row| format!("{}: {}", groups[row.group].title, row.name).contains(&options.filter))
        .collect();
    if rows.is_empty() {
        return Err(format!("no row contains `{}`", options.filter));
    }
    let contestants = rows.iter().flat_map(|row| &row.contestants);
    let engines: Vec<&str> = contestants.map(|it| it.engine).filter(|it| !it.starts_with("tvm")).collect();
    home.prepare(&engines, true, &|line| println!("{line}"))?;
    let cases = home.cases(&rows)?;
    let rows: Vec<Row> = rows.into_iter().filter_map(|row| prepared(row, &cases)).collect();
    println!("{} rows, {} s of preparation", rows.len(), start.elapsed().as_secs());

    let effort = if options.short {
        Effort { rounds: 4, seconds: 0.04, patience: Duration::from_secs(60) }
    } else {
        Effort { rounds: 9, seconds: 0.2, patience: Duration::from_secs(300) }
    };
    let command = format!("cargo xtask bench {}", without_paths(args).join(" "));
    let start = Instant::now();
    let folder = options.out.unwrap_or_else(|| Path::new("benches").join("results"));
    let mut told = HashSet::new();
    let mut report = Comparison::new(name, command, groups, home.versions(&engines));
    for &threads in &options.threads {
        let limits = Pool::new(&home, threads, effort).limits();
        println!("\n{limits}");
        report.limits.push(limits);
        let mut pool = Pool::new(&home, threads, effort);
        let mut group = usize::MAX;
        for row in &rows {
            if std::mem::replace(&mut group, row.group) != row.group {
                println!("\n{}, {threads} threads", groups[row.group].title);
            }
            let outcome = pool.measure(row, &cases);
            println!("{}", line(&outcome));
            for failure in outcome.failures(Side::Peer) {
                // A library that has no such operation at all is no news, and the others are said once.
                if !failure.contains("unsupported") && told.insert(failure.clone()) {
                    println!("    SKIPPED: {failure}");
                }
            }
            report.outcomes.push(outcome);
        }
        // What is measured is kept, should the run be stopped before its end.
        report.seconds = start.elapsed().as_secs_f64();
        for path in report.write(&folder)? {
            println!("written: {}", path.display());
        }
    }
    println!("\n{}", summary(&report));
    Ok(())
}

/// The row with the operations of its model, where they are known only now; `None` with a line if there is no model.
fn prepared(row: Row, cases: &HashMap<String, String>) -> Option<Row> {
    let case = row.contestants.iter().find_map(|it| match &it.given {
        Given::Spec(spec) => cases.get(spec),
        Given::Case(_) => None,
    });
    let Some(case) = case else { return Some(row) };
    let known: Value = serde_json::from_str(case).unwrap_or_default();
    if let Some(reason) = known["missing"].as_str() {
        println!("SKIPPED: {}: {reason}", row.name);
        return None;
    }
    let unknown = row.flops == 0.0 && row.measure == Measure::Call && !row.in_bytes();
    Some(if unknown { row.with_operations(known["flop"].as_f64()) } else { row })
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match compare(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            println!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split(' ').map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_of_a_report_has_no_paths() {
        let args = ["--compare", "--tvmc", "a/tvmc", "--threads", "1", "--out", "/b"].map(String::from);
        assert_eq!(without_paths(&args), ["--compare", "--threads", "1"]);
    }

    #[test]
    fn command_lines() {
        let options = parse("--compare --short --filter conv --threads 1,4").unwrap();
        assert_eq!((options.short, options.filter.as_str(), options.threads), (true, "conv", vec![1, 4]));
        assert!(parse("--short").unwrap_err().contains("--compare"));
        assert!(parse("--compare --threads 0").unwrap_err().contains("--threads"));
        assert!(parse("--compare --filter").unwrap_err().contains("needs a value"));
        assert!(parse("--compare --fast").unwrap_err().contains("--fast"));
        assert!(!options.models && !parse("--compare kernels").unwrap().models);
        assert!(parse("--compare models --short").unwrap().models);
        assert!(parse("--compare model").unwrap_err().contains("kernels or models"));
    }
}
