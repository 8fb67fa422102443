//! The kernels of a run: calls, time, and what they have to do.

use std::collections::HashMap;
use std::time::Duration;

use indexmap::IndexMap;
use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::tir::{PrimExpr, PrimFunc};
use tvm_runtime::Device;
use tvm_runtime::vm::{Profile, ProfileArg, ProfileCall, ProfileKind};

use super::machine::{Bound, Machine};
use crate::cost::{Actual, Extents, cost_of_call};

/// A kernel or packed function in the runs.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: ProfileKind,
    /// Where it ran, if the kernels ran on several devices.
    pub(crate) device: Option<Device>,
    /// Calls in a run.
    pub(crate) calls: usize,
    /// Seconds in a run: the median of the runs.
    pub(crate) seconds: f64,
    /// What its calls have to do, if the program is known.
    pub(crate) work: Option<Work>,
}

/// What the calls of a kernel in a run have to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Operations.
    pub(crate) flops: f64,
    /// Bytes that are read or written, each element once.
    pub(crate) bytes: f64,
    /// The least seconds that the machine needs for them, and those of them for which operations are the bound.
    pub(crate) limit: Option<(f64, f64)>,
    /// A loop whose length depends on data was counted as one iteration.
    pub(crate) at_least: bool,
}

impl Work {
    /// What bounds the larger part.
    pub(crate) fn bound(&self) -> Option<Bound> {
        let bound =
            |(all, compute): (f64, f64)| if 2.0 * compute > all { Bound::Compute } else { Bound::Memory };
        self.limit.map(bound)
    }
}

/// The kernels of several runs of one model, the longest time first. `programs` has their programs before schedules.
pub(crate) fn rows(runs: &[Profile], programs: &IRModule, machine: Option<&Machine>) -> Vec<Row> {
    let programs: HashMap<&str, &PrimFunc> = (programs.functions())
        .filter_map(
            |(gv, func)| if let BaseFunc::Prim(func) = func { Some((gv.name(), &**func)) } else { None },
        )
        .collect();
    let mut times: IndexMap<(ProfileKind, &str), Vec<Duration>> = IndexMap::new();
    for (kind, name, entry) in runs.iter().flat_map(Profile::entries) {
        times.entry((kind, name)).or_default().push(entry.time);
    }
    let last = runs.last().map_or(&[][..], Profile::calls);
    let several = runs.last().is_some_and(Profile::on_several_devices);
    let row = |((kind, name), times): ((ProfileKind, &str), Vec<Duration>)| {
        let calls = || last.iter().filter(|it| it.kind == kind && *it.name == *name);
        let program = programs.get(name).filter(|_| kind == ProfileKind::Kernel);
        Row {
            name: name.to_string(),
            kind,
            device: calls().next().and_then(|it| it.device).filter(|_| several),
            calls: calls().count(),
            seconds: median(times.iter().map(Duration::as_secs_f64).collect()),
            work: program.map(|program| work(program, calls(), machine)),
        }
    };
    let mut rows: Vec<Row> = times.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    rows
}

/// Operations, bytes, and whether they are the least.
type Amounts = (f64, f64, bool);

fn work<'a>(
    program: &PrimFunc,
    calls: impl Iterator<Item = &'a ProfileCall>,
    machine: Option<&Machine>,
) -> Work {
    let mut sum = Work { limit: machine.map(|_| (0.0, 0.0)), ..Work::default() };
    // Calls in a loop often have the same arguments.
    let mut known: Vec<(&[ProfileArg], Amounts)> = Vec::new();
    for call in calls {
        let found = known.iter().find(|it| it.0 == call.args).map(|it| it.1);
        let (flops, bytes, at_least) = found.unwrap_or_else(|| {
            let args: Vec<Actual> = call.args.iter().map(actual).collect();
            let cost = cost_of_call(program, &args, &Extents::new());
            let at = |poly: &crate::cost::Poly| poly.at(&Extents::new()).max(0.0);
            (at(&cost.flops), at(&cost.bytes), cost.at_least)
        });
        if known.len() < 16 && found.is_none() {
            known.push((&call.args, (flops, bytes, at_least)));
        }
        sum.flops += flops;
        sum.bytes += bytes;
        sum.at_least |= at_least;
        if let (Some(machine), Some((all, compute))) = (machine, &mut sum.limit) {
            let (seconds, bound) = machine.least(flops, bytes);
            *all += seconds;
            *compute += if bound == Bound::Compute { seconds } else { 0.0 };
        }
    }
    sum
}

fn actual(arg: &ProfileArg) -> Actual {
    match arg {
        ProfileArg::Tensor(shape, _) => Actual::Shape(shape.iter().map(|&it| PrimExpr::index(it)).collect()),
        ProfileArg::Int(value) => Actual::Value(PrimExpr::index(*value)),
        ProfileArg::Other => Actual::Unknown,
    }
}

/// The median; 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
