//! A program with arguments, and the results that it computes from them.

use std::collections::HashMap;

use tvm::ir::VarId;
use tvm::runtime::{DataType, Tensor, Value};
use tvm::tir::interp::{InterpError, InterpErrorKind, Program};
use tvm::tir::{Param, PrimExpr, PrimFunc, substitute_expr};
use tvm_testing::Rng;

use crate::kernels::Kernel;

/// Step limit, far above the number of steps that any program here needs.
const MAX_STEPS: u64 = 300_000;

/// A program and its runs.
pub(crate) struct Case {
    pub(crate) kernel: &'static Kernel,
    pub(crate) func: PrimFunc,
    pub(crate) runs: Vec<Run>,
}

/// Arguments before and after a run of the program.
pub(crate) struct Run {
    pub(crate) dims: String,
    pub(crate) args: Vec<Value>,
    pub(crate) want: Vec<Value>,
}

/// Extents of symbolic dimensions, in order: empty, one, odd extents, powers of two, one empty dimension.
const EXTENTS: [[i64; 4]; 8] = [
    [0, 0, 0, 0],
    [1, 1, 1, 1],
    [3, 5, 7, 2],
    [8, 4, 8, 4],
    [0, 4, 3, 2],
    [4, 0, 3, 2],
    [5, 3, 0, 4],
    [2, 1, 9, 6],
];

impl Case {
    /// Runs `kernel` on its arguments.
    pub(crate) fn new(kernel: &'static Kernel) -> Case {
        let func = (kernel.build)().unwrap_or_else(|err| panic!("{}: {err}", kernel.name));
        let program = Program::compile(&func).unwrap_or_else(|err| panic!("{}: {err}", kernel.name));
        let extents = if func.symbolic_dims().is_empty() { &EXTENTS[..2] } else { &EXTENTS };
        let run = |(i, extents): (usize, &[i64; 4])| {
            let (args, dims) = arguments(&func, extents, i as u64)?;
            let mut want = args.clone();
            let res = program.strict(0).run_limited(&mut want, MAX_STEPS);
            res.unwrap_or_else(|err| panic!("{} with {dims}: {err}", kernel.name));
            Some(Run { dims, args, want })
        };
        let runs = extents.iter().enumerate().filter_map(run).collect();
        Case { kernel, func, runs }
    }

    /// Compares the results of `program` with those of the kernel, on the same arguments; the error describes the
    /// difference.
    pub(crate) fn compare(
        &self,
        mut program: impl FnMut(&mut [Value]) -> Result<(), String>,
    ) -> Result<(), String> {
        for run in &self.runs {
            let mut got = run.args.clone();
            program(&mut got).map_err(|err| format!("fails with {}: {err}", run.dims))?;
            for ((param, got), want) in self.func.params.iter().zip(&got).zip(&run.want) {
                if let (Value::Tensor(got), Value::Tensor(want)) = (got, want)
                    && let Some(text) = difference(got, want, self.kernel.tolerance)
                {
                    return Err(format!("with {}, `{}`: {text}", run.dims, param.name()));
                }
            }
        }
        Ok(())
    }

    /// As [`compare`](Self::compare), with the interpreter running `func`. It runs loops in a random order and detects
    /// races. The result is false if a run takes too many steps: a loop that is split by a huge factor is still correct.
    pub(crate) fn interpret(&self, func: &PrimFunc, lowered: bool) -> Result<bool, String> {
        let program = Program::compile(func).map_err(|err| err.to_string())?;
        let (mut too_long, mut order) = (false, 0);
        let res = self.compare(|args| {
            order += 1;
            let mut fresh = args.to_vec();
            let res = match program.strict(order).run_limited(&mut fresh, MAX_STEPS) {
                // Lowering may give each iteration a copy of an internal buffer, so only the lowered form must be free
                // of races.
                Err(InterpError { kind: InterpErrorKind::Race { buffer, .. }, .. })
                    if !lowered && self.is_internal(&buffer) =>
                {
                    fresh = args.to_vec();
                    program.run_limited(&mut fresh, MAX_STEPS)
                }
                res => res,
            };
            too_long |= matches!(res, Err(InterpError { kind: InterpErrorKind::StepLimit, .. }));
            args.clone_from_slice(&fresh);
            res.map_err(|err| err.to_string())
        });
        if too_long { Ok(false) } else { res.map(|()| true) }
    }

    /// True if no parameter has this name.
    fn is_internal(&self, buffer: &str) -> bool {
        !self.func.params.iter().any(|it| it.name() == buffer)
    }
}

/// Describes the first element that differs.
fn difference(got: &Tensor, want: &Tensor, tolerance: f64) -> Option<String> {
    let numbers = |it: &Tensor| it.to_f64s().expect("a tensor of numbers");
    if got.bytes().ok() == want.bytes().ok() {
        return None;
    }
    for (i, (got, want)) in numbers(got).into_iter().zip(numbers(want)).enumerate() {
        let close = (got - want).abs() <= tolerance * (1.0 + want.abs());
        if !(got == want || close || got.is_nan() && want.is_nan()) {
            return Some(format!("element {i} is {got}, expected {want}"));
        }
    }
    None
}

/// Arguments for these extents; `None` if there are none, because an index has no element to refer to.
fn arguments(func: &PrimFunc, extents: &[i64; 4], seed: u64) -> Option<(Vec<Value>, String)> {
    let mut rng = Rng::new(seed + 77);
    let dims = func.symbolic_dims();
    if dims.iter().zip(extents).any(|(var, extent)| var.bound().is_some_and(|it| !it.contains(*extent))) {
        return None;
    }
    let values: HashMap<VarId, PrimExpr> =
        dims.iter().zip(extents).map(|(var, extent)| (var.id(), PrimExpr::index(*extent))).collect();
    let values = values.into_iter().collect();
    let extent = |name: &str| dims.iter().position(|it| it.name() == name).map_or(0, |at| extents[at]);
    let mut args = Vec::new();
    for param in func.params.iter() {
        let Some(buffer) = param.buffer() else {
            args.push(Value::Int(rng.range(0, 7)));
            continue;
        };
        let shape: Vec<i64> = buffer
            .shape
            .iter()
            .map(|it| substitute_expr(it, &values).as_int().expect("a known extent"))
            .collect();
        let len: i64 = shape.iter().product();
        let mut sorted: Vec<i64> = (0..len).map(|_| rng.range(0, extent("m"))).collect();
        sorted.sort_unstable();
        let mut number = |i: i64| match param.name() {
            "at" if matches!(param, Param::In(_)) => rng.range(0, extent("n") - 1),
            "ptr" => sorted[i as usize],
            "len" => rng.range(0, extent("m")),
            _ if buffer.dtype == DataType::BOOL => rng.range(0, 1),
            _ => rng.range(-4, 4),
        };
        if param.name() == "at" && matches!(param, Param::In(_)) && len > 0 && extent("n") == 0 {
            return None;
        }
        let data: Vec<f64> = (0..len).map(|i| number(i) as f64).collect();
        args.push(Value::Tensor(Tensor::from_f64s(&data, &shape, buffer.dtype).expect("a tensor")));
    }
    let dims: Vec<String> =
        dims.iter().zip(extents).map(|(var, extent)| format!("{} = {extent}", var.name())).collect();
    Some((args, dims.join(", ")))
}
