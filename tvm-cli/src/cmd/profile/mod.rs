//! The command `tvmc profile`.

mod html;
mod kernels;
mod machine;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value as Json, json};
use tvm_codegen::resolve;
use tvm_core::target::TargetKind;
use tvm_runtime::Value;
use tvm_runtime::vm::{Profile, ProfileKind};

use self::kernels::{Row, median};
use self::machine::{Bound, Machine};
use crate::data;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::model::{MAIN, Options, Threads, tensors};
use crate::out::{self, amount};
use crate::progress::Progress;

/// Arguments of `tvmc profile`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An ONNX model or an artifact; `-` is standard input. Inputs that are not given are random.
    model: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
    /// Runs the model this many times; times are medians of the runs.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Shows so many kernels.
    #[arg(long, default_value_t = 20)]
    top: usize,
    /// Writes the calls of the last run to this file, for chrome://tracing or Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Writes a page with the kernels, the calls of the last run and a roofline plot to this file; it needs no other files.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Writes what is found as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    options: Options,
}

/// What was found.
pub(crate) struct Found {
    /// The model.
    title: String,
    /// The target, as text.
    target: String,
    /// Number of threads, if it was given.
    threads: Option<u32>,
    /// Number of runs.
    runs: usize,
    /// Seconds of a run, and those of them that were not spent in kernels: medians.
    seconds: f64,
    between: f64,
    rows: Vec<Row>,
    machine: Option<Machine>,
    /// The last run.
    last: Profile,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    [&args.trace, &args.html].into_iter().flatten().try_for_each(|it| data::check_output(it))?;
    let found = measure(args)?;
    if let Some(path) = &args.trace {
        data::write(path, trace::trace(&found.last).to_string().as_bytes())?;
    }
    if let Some(path) = &args.html {
        data::write(path, html::page(&found).as_bytes())?;
    }
    if [&args.trace, &args.html].into_iter().flatten().any(|it| data::is_standard(it)) {
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        out::line(found.json());
        return Ok(ExitCode::SUCCESS);
    }
    found.print(args.top);
    for path in [&args.trace, &args.html].into_iter().flatten() {
        out::line(format_args!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args) -> Result<Found, Error> {
    let config = args.threads.config();
    let pool = config.pool.clone();
    let model = args.options.load(&args.model, config)?;
    let inputs = args.inputs.read_or_random(&model, &args.options)?;
    let inputs: Vec<Value> = inputs.iter().map(Value::from).collect();
    // The first run allocates memory and fills caches.
    let once = |profile: &mut Profile| -> Result<(), Error> {
        let outputs = model.vm.invoke_profiled(profile, MAIN, &inputs);
        tensors(outputs.map_err(Error::file(&args.model))?).map(drop)
    };
    once(&mut Profile::default())?;
    let mut runs = Vec::new();
    for i in 0..args.repeat {
        let mut profile = if i + 1 == args.repeat { Profile::recording() } else { Profile::default() };
        once(&mut profile)?;
        runs.push(profile);
    }
    let target = resolve(&args.options.target);
    let compiled = model.programs.functions().next().is_some();
    let machine = if compiled && target.kind != TargetKind::Interpreter {
        let progress = Progress::importing(&args.model);
        progress.say("measuring the machine");
        Some(args.options.scope(&progress, || Machine::measure(&target, pool.as_deref()))?)
    } else {
        None
    };
    let rows = kernels::rows(&runs, &model.programs, machine.as_ref());
    let between = |it: &Profile| {
        let inside: f64 = it.entries().iter().map(|it| it.2.time.as_secs_f64()).sum();
        (it.total.as_secs_f64() - inside).max(0.0)
    };
    Ok(Found {
        title: data::show(&args.model),
        target: if compiled { target.to_string() } else { model.vm.executable().target.clone() },
        threads: args.threads.number(),
        runs: runs.len(),
        seconds: median(runs.iter().map(|it| it.total.as_secs_f64()).collect()),
        between: median(runs.iter().map(between).collect()),
        rows,
        machine,
        last: runs.pop().unwrap_or_default(),
    })
}

impl Found {
    fn print(&self, top: usize) {
        out::line(format_args!("{}, target {}", self.title, self.target));
        out::line(format_args!("{} a run (median of {})", time(self.seconds), self.runs));
        if let Some(machine) = &self.machine {
            let rates = machine.bandwidth.iter();
            let rates = rates.map(|it| format!("{:.0} ({})", it.1 / 1e9, out::bytes(it.0 as u64)));
            out::line(format_args!(
                "the machine reaches {:.0} GFLOP/s of f32, and {} GB/s",
                machine.flops / 1e9,
                rates.collect::<Vec<_>>().join(", ")
            ));
        }
        let heads =
            ["time", "%", "calls", "operations", "bytes", "GFLOP/s", "GB/s", "limit", "of it", "kernel"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        rows.extend(self.rows.iter().take(top).map(|row| self.cells(row)));
        let left = self.rows.len().saturating_sub(top);
        let blank = |seconds: f64, name: String| {
            let mut cells = vec![time(seconds), self.percent(seconds)];
            cells.resize(heads.len() - 1, String::new());
            cells.push(name);
            cells
        };
        if left > 0 {
            let seconds = self.rows.iter().skip(top).map(|it| it.seconds).sum();
            rows.push(blank(seconds, format!("({left} other kernels)")));
        }
        rows.push(blank(self.between, "(between kernels)".to_string()));
        out::table(&rows);
    }

    fn percent(&self, seconds: f64) -> String {
        format!("{:.1}", 100.0 * seconds / self.seconds.max(f64::MIN_POSITIVE))
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let name = match (row.kind, row.device) {
            (ProfileKind::Packed, _) => format!("{} (packed)", row.name),
            (ProfileKind::Kernel, Some(device)) => format!("{} on {device}", row.name),
            (ProfileKind::Kernel, None) => row.name.clone(),
        };
        let mut cells = vec![time(row.seconds), self.percent(row.seconds), row.calls.to_string()];
        if let Some(work) = &row.work {
            let least = if work.at_least { "≥ " } else { "" };
            let rate = |amount: f64| format!("{least}{:.1}", amount / row.seconds.max(1e-12) / 1e9);
            cells.push(format!("{least}{}", amount(work.flops, "FLOP")));
            cells.push(format!("{least}{}", amount(work.bytes, "B")));
            cells.extend([rate(work.flops), rate(work.bytes)]);
            if let (Some((limit, _)), Some(bound)) = (work.limit, work.bound()) {
                cells.push(format!("{} {}", name_of(bound), time(limit)));
                cells.push(format!("{least}{:.0} %", 100.0 * limit / row.seconds.max(1e-12)));
            }
        }
        cells.resize(9, String::new());
        cells.push(name);
        cells
    }

    fn json(&self) -> Json {
        let kernel = |row: &Row| {
            let mut found = json!({
                "name": row.name,
                "kind": row.kind.to_string(),
                "calls": row.calls,
                "seconds": row.seconds,
            });
            if let Some(device) = row.device {
                found["device"] = device.to_string().into();
            }
            if let Some(work) = &row.work {
                found["flops"] = work.flops.into();
                found["bytes"] = work.bytes.into();
                found["at_least"] = work.at_least.into();
                if let (Some((limit, _)), Some(bound)) = (work.limit, work.bound()) {
                    found["limit_seconds"] = limit.into();
                    found["bound"] = name_of(bound).into();
                }
            }
            found
        };
        let machine = self.machine.as_ref().map(|it| {
            let rates = it.bandwidth.iter().map(|it| json!({"bytes": it.0, "bytes_per_second": it.1}));
            json!({"flops_per_second": it.flops, "bandwidth": rates.collect::<Vec<_>>()})
        });
        json!({
            "model": self.title,
            "target": self.target,
            "threads": self.threads,
            "runs": self.runs,
            "seconds": self.seconds,
            "between_kernels_seconds": self.between,
            "machine": machine,
            "kernels": self.rows.iter().map(kernel).collect::<Vec<_>>(),
        })
    }
}

fn name_of(bound: Bound) -> &'static str {
    match bound {
        Bound::Compute => "compute",
        Bound::Memory => "memory",
    }
}

/// A time for reading.
fn time(seconds: f64) -> String {
    match seconds {
        it if it < 1e-3 => format!("{:.1} us", it * 1e6),
        it if it < 1.0 => format!("{:.2} ms", it * 1e3),
        it => format!("{it:.2} s"),
    }
}
