//! `cargo xtask bench --compare`: the work that users care about, beside the best libraries for it, in one run: every row
//! with our time, the best peer's, the machine's limit, and whether the goal is reached.
#![allow(clippy::print_stdout, reason = "progress is what this program is for")]

mod table;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tvm_peers::{Comparison, Effort, Home, Pool, Side, line, summary};

/// What the command line asks for.
#[derive(Debug, PartialEq)]
struct Options {
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
            short: false,
            filter: String::new(),
            threads: Vec::new(),
            tvmc: PathBuf::from("tvmc"),
            target: "host".to_string(),
            out: None,
        };
        let (mut compare, mut args) = (false, args.iter());
        while let Some(arg) = args.next() {
            let mut value = || args.next().cloned().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--compare" => compare = true,
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
    let rows: Vec<_> = table::rows()?
        .into_iter()
        .filter(|row| row.short || !options.short)
        .filter(|row| format!("{}: {}", table::GROUPS[row.group].title, row.name).contains(&options.filter))
        .collect();
    if rows.is_empty() {
        return Err(format!("no row contains `{}`", options.filter));
    }
    let contestants = rows.iter().flat_map(|row| &row.contestants);
    let engines: Vec<&str> = contestants.map(|it| it.engine).filter(|it| *it != "tvm").collect();
    home.prepare(&engines, true, &|line| println!("{line}"))?;
    let cases = home.cases(&rows)?;
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
    let mut report = Comparison::new(command, table::GROUPS, home.versions(&engines));
    for &threads in &options.threads {
        let limits = Pool::new(&home, threads, effort).limits();
        println!("\n{limits}");
        report.limits.push(limits);
        let mut pool = Pool::new(&home, threads, effort);
        let mut group = usize::MAX;
        for row in &rows {
            if std::mem::replace(&mut group, row.group) != row.group {
                println!("\n{}, {threads} threads", table::GROUPS[row.group].title);
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
    }
}
