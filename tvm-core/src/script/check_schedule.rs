//! The equivalence test of a schedule: runs the program before and after on random data of several odd shapes.

use std::fmt;

use rustc_hash::FxHashMap;
use tvm_runtime::{DataType, RuntimeError, Tensor, Value};

use super::PrimFuncDef;
use super::smaller::smaller;
use crate::ir::{Diagnose, Diagnostic, IrError, Var, VarId, fmt_diagnostics};
use crate::tir::interp::{InterpError, InterpErrorKind, Program};
use crate::tir::schedule::ScheduleError;
use crate::tir::transform::renew_defs;
use crate::tir::{Param, PrimExpr, PrimFunc, substitute_expr};

/// Extents that symbolic dimensions take: odd, one, around powers of two.
const EXTENTS: [i64; 8] = [1, 3, 17, 32, 33, 5, 64, 7];

/// Rounds of a test: all extents 0, all 1, then [`EXTENTS`] in turn.
const ROUNDS: usize = 8;

/// Maximum number of statements that one run may execute; a run that exceeds it is repeated with smaller extents.
const MAX_STEPS: u64 = 1_000_000;

/// How often extents are halved before a program counts as too long.
const MAX_SHIFT: u32 = 10;

/// Why the check of a schedule failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The kernel does not build.
    Build(#[from] IrError),
    /// The schedule returned an error.
    Schedule(#[from] ScheduleError),
    /// One of the programs failed.
    Run {
        /// `the original` or `the scheduled`.
        which: &'static str,
        /// Values of the symbolic dimensions, as text.
        dims: String,
        /// Error of the interpreter.
        source: Box<InterpError>,
    },
    /// No run was short enough, or the kernel refused all arguments that were tried: nothing is known about the schedule.
    NotChecked {
        /// Name of the kernel.
        func: String,
        /// The reason.
        why: String,
    },
    /// Test data could not be created.
    Runtime(#[from] RuntimeError),
    /// The programs compute different results.
    Differs {
        /// Name of the output parameter that differs.
        output: String,
        /// Position in row-major order.
        index: usize,
        /// Values of the symbolic dimensions, as text.
        dims: String,
        /// Element that the scheduled program computes.
        got: f64,
        /// Element that the kernel computes.
        expected: f64,
    },
}

impl Diagnose for CheckError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        vec![match self {
            CheckError::Build(source) => return source.diagnostics(),
            CheckError::Schedule(source) => return source.diagnostics(),
            CheckError::Run { which, dims, source } => {
                let context = format!("{which} program failed for {dims}");
                return source.diagnostics().into_iter().map(|it| it.context(&context)).collect();
            }
            CheckError::NotChecked { func, why } => {
                let help = "test the schedule on a kernel of smaller extents, with `check_equivalent`";
                Diagnostic::plain(format!("`{func}` could not be checked: {why}")).help(help)
            }
            CheckError::Runtime(source) => Diagnostic::plain(source.to_string()),
            CheckError::Differs { output, index, dims, got, expected } => Diagnostic::plain(format!(
                "`{output}` differs at element {index} for {dims}: the schedule gives {got}, the kernel {expected}"
            )),
        }]
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}

/// Runs `P` as written and as scheduled by `schedule`, and compares the outputs. A kernel whose constant extents make it
/// too long to interpret is checked with smaller extents instead.
///
/// # Errors
/// When the outputs differ, a program does not run, or no run is short enough.
pub fn check_schedule<P: PrimFuncDef>(
    schedule: impl Fn(PrimFunc) -> Result<PrimFunc, ScheduleError>,
) -> Result<(), CheckError> {
    let func = P::prim_func()?;
    let scheduled = schedule(renew_defs(&func))?;
    let mut res = check_equivalent(&func, &scheduled);
    for shift in 1..=MAX_SHIFT {
        if !matches!(res, Err(CheckError::NotChecked { .. })) {
            break;
        }
        // The schedule may refuse the smaller extents, and the smaller program may fail when it runs.
        if let Some(func) = smaller(&func, shift)
            && let Ok(scheduled) = schedule(renew_defs(&func))
        {
            match check_equivalent(&func, &scheduled) {
                Err(CheckError::Run { which: ORIGINAL, .. }) => {}
                other => res = other,
            }
        }
    }
    res
}

const ORIGINAL: &str = "the original";

/// Compares the outputs of two programs with the same signature, on random data of several odd shapes, with zero elements
/// and with one element.
///
/// # Errors
/// When the outputs differ, a program does not run, or no run is short enough.
pub fn check_equivalent(func: &PrimFunc, scheduled: &PrimFunc) -> Result<(), CheckError> {
    let failed =
        |which, dims: &str, source| CheckError::Run { which, dims: dims.into(), source: Box::new(source) };
    let compile = |which, func| Program::compile(func).map_err(|source| failed(which, "any shape", source));
    let (original, scheduled) = (compile(ORIGINAL, func)?, compile("the scheduled", scheduled)?);
    let rounds = if func.symbolic_dims().is_empty() { 1 } else { ROUNDS };
    let mut checked = false;
    for round in 0..rounds {
        let mut shift = 0;
        let (dims, args, others) = loop {
            let (mut args, dims) = arguments(func, round, shift)?;
            let mut others = args.clone();
            let run = original.run_limited(&mut args, MAX_STEPS);
            let run = run.map_err(|source| (ORIGINAL, source)).and_then(|()| {
                scheduled.run_limited(&mut others, MAX_STEPS * 4).map_err(|source| ("the scheduled", source))
            });
            match run {
                Ok(()) => break (dims, args, others),
                Err((_, InterpError { kind: InterpErrorKind::StepLimit, .. }))
                    if shift < MAX_SHIFT && rounds > 1 =>
                {
                    shift += 1
                }
                Err((_, InterpError { kind: InterpErrorKind::StepLimit, .. })) => {
                    let why = format!("it runs too long for {dims}");
                    return Err(CheckError::NotChecked { func: func.name.to_string(), why });
                }
                // A kernel need not take tensors without elements.
                Err((ORIGINAL, _)) if round == 0 && rounds > 1 => break (dims, vec![], vec![]),
                Err((which, source)) => return Err(failed(which, &dims, source)),
            }
        };
        checked |= !args.is_empty();
        for (param, (expected, got)) in func.params.iter().zip(args.iter().zip(&others)) {
            if let (Param::Out(buffer), Value::Tensor(expected), Value::Tensor(got)) = (param, expected, got)
            {
                compare(&buffer.name, &dims, &expected.to_f64s()?, &got.to_f64s()?, tolerance(buffer.dtype))?;
            }
        }
    }
    if checked {
        return Ok(());
    }
    Err(CheckError::NotChecked { func: func.name.to_string(), why: "it ran on no arguments".into() })
}

fn compare(
    output: &str,
    dims: &str,
    expected: &[f64],
    got: &[f64],
    tolerance: f64,
) -> Result<(), CheckError> {
    for (index, (&expected, &got)) in expected.iter().zip(got).enumerate() {
        let close = (got - expected).abs() <= tolerance * (1.0 + expected.abs());
        if !(close || got == expected || got.is_nan() && expected.is_nan()) {
            let (output, dims) = (output.to_string(), dims.to_string());
            return Err(CheckError::Differs { output, index, dims, got, expected });
        }
    }
    Ok(())
}

/// Tolerance for the rounding errors of a reordered sum.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F64 => 1e-9,
        DataType::F32 => 1e-3,
        DataType::F16 | DataType::BF16 => 0.1,
        _ => 0.0,
    }
}

/// Random arguments of `func`, with extents halved `shift` times, and the values of its dimensions as text.
fn arguments(func: &PrimFunc, round: usize, shift: u32) -> Result<(Vec<Value>, String), CheckError> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(round as u64 + 1) | 1;
    let mut dims: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
    let mut text = Vec::new();
    for (i, var) in func.symbolic_dims().iter().enumerate() {
        let wanted = match round {
            0 | 1 => round as i64,
            _ => (EXTENTS[(round + 3 * i) % EXTENTS.len()] >> shift).max(1),
        };
        let extent = extent(var, wanted);
        dims.insert(var.id(), PrimExpr::index(extent));
        text.push(format!("{} = {extent}", var.name()));
    }
    let mut args = Vec::new();
    for param in func.params.iter() {
        args.push(match param {
            Param::In(buffer) | Param::Out(buffer) => {
                let shape = buffer.shape.iter().map(|dim| substitute_expr(dim, &dims).as_int().unwrap_or(1));
                let shape: Vec<i64> = shape.collect();
                Value::Tensor(random(&shape, buffer.dtype, &mut state)?)
            }
            Param::Scalar(var) if var.dtype().is_float() => Value::Float(uniform(&mut state)),
            Param::Scalar(_) => Value::Int(1 + (next(&mut state) % 7) as i64),
        });
    }
    let dims = if text.is_empty() { "its fixed shape".to_string() } else { text.join(", ") };
    Ok((args, dims))
}

/// `wanted`, or the nearest extent above or below that the bounds of `dim` allow.
fn extent(dim: &Var, wanted: i64) -> i64 {
    let Some(bound) = dim.bound() else { return wanted };
    let near = (0..=bound.modulo().0).flat_map(|d| [wanted.saturating_add(d), wanted - d]);
    let ends = std::iter::once(bound.min()).chain(bound.max());
    near.chain(ends).find(|&it| bound.contains(it)).unwrap_or(wanted)
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 33
}

/// A random number between -1 and 1.
fn uniform(state: &mut u64) -> f64 {
    (next(state) % 20_001) as f64 / 10_000.0 - 1.0
}

/// A tensor of random numbers; small integers if the type is an integer type.
fn random(shape: &[i64], dtype: DataType, state: &mut u64) -> Result<Tensor, RuntimeError> {
    let len: i64 = shape.iter().product();
    let number = |_| match dtype {
        DataType::BOOL => (next(state) % 2) as f64,
        _ if dtype.is_float() => uniform(state),
        _ => (next(state) % 7) as f64,
    };
    let values: Vec<f64> = (0..len).map(number).collect();
    if dtype.is_handle() { Tensor::zeros(shape, dtype) } else { Tensor::from_f64s(&values, shape, dtype) }
}
