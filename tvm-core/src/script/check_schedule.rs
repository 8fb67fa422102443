//! The equivalence test of a schedule: the program before and after, on random data of several odd shapes.

use tvm_runtime::{DataType, RuntimeError, Tensor, Value};

use super::PrimFuncDef;
use super::smaller::smaller;
use crate::ir::VarId;
use crate::tir::interp::{InterpError, Program};
use crate::tir::schedule::ScheduleError;
use crate::tir::transform::renew_defs;
use crate::tir::{Param, PrimExpr, PrimFunc, substitute_expr};
use rustc_hash::FxHashMap;

/// Extents that symbolic dimensions take: odd, one, around powers of two.
const EXTENTS: [i64; 8] = [1, 3, 17, 32, 33, 5, 64, 7];

/// Rounds of a test: all extents 0, all 1, then [`EXTENTS`] in turns.
const ROUNDS: usize = 8;

/// How many statements one run may execute; one that is too long runs on smaller extents.
const MAX_STEPS: u64 = 1_000_000;

/// How often extents are halved before a program counts as too long.
const MAX_SHIFT: u32 = 10;

/// Why a scheduled program is not what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The kernel does not build.
    #[error(transparent)]
    Build(#[from] crate::ir::IrError),
    /// The schedule refused.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// One of the programs failed.
    #[error("{which} program failed for {dims}: {source}")]
    Run {
        /// `the original` or `the scheduled`.
        which: &'static str,
        /// The dimensions.
        dims: String,
        /// Why.
        source: Box<InterpError>,
    },
    /// No run was short enough, or the kernel refuses what was tried: nothing is known of the schedule.
    #[error(
        "`{func}` could not be checked: {why}\n  help: test the schedule on a kernel of smaller extents, with \
         `check_equivalent`"
    )]
    NotChecked {
        /// The kernel.
        func: String,
        /// Why.
        why: String,
    },
    /// Data could not be made.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The programs give different results.
    #[error(
        "`{output}` differs at element {index} for {dims}: the schedule gives {got}, the kernel {expected}"
    )]
    Differs {
        /// Parameter that differs.
        output: String,
        /// Position in row-major order.
        index: usize,
        /// The dimensions.
        dims: String,
        /// What the schedule gives.
        got: f64,
        /// What the kernel gives.
        expected: f64,
    },
}

/// Runs `P` as it is and as `schedule` makes it, and compares what they write. A kernel whose constant extents make it
/// too long to interpret is checked with smaller ones in their place.
///
/// # Errors
/// When they differ, one does not run, or no run is short enough.
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
        // The schedule may refuse other extents, and the smaller program may be none that runs.
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

/// Compares what two programs of one signature write, on random data of several odd shapes, and of none and one element.
///
/// # Errors
/// When they differ, one does not run, or no run is short enough.
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
                Err((_, InterpError::StepLimit)) if shift < MAX_SHIFT && rounds > 1 => shift += 1,
                Err((_, InterpError::StepLimit)) => {
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

/// What reordering a sum may change.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F64 => 1e-9,
        DataType::F32 => 1e-3,
        DataType::F16 | DataType::BF16 => 0.1,
        _ => 0.0,
    }
}

/// Random arguments of `func`, extents halved `shift` times, and the text of its dimensions.
fn arguments(func: &PrimFunc, round: usize, shift: u32) -> Result<(Vec<Value>, String), CheckError> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(round as u64 + 1) | 1;
    let mut dims: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
    let mut text = Vec::new();
    for (i, var) in func.symbolic_dims().iter().enumerate() {
        let wanted = match round {
            0 | 1 => round as i64,
            _ => (EXTENTS[(round + 3 * i) % EXTENTS.len()] >> shift).max(1),
        };
        let extent = extent(func, var.name(), wanted);
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

/// `wanted`, or the nearest extent above or below that the program's bounds allow.
fn extent(func: &PrimFunc, name: &str, wanted: i64) -> i64 {
    let bound = |what: &str| func.attrs.int(&format!("dim.{name}.{what}"));
    let (min, max) = (bound("min").unwrap_or(0), bound("max").unwrap_or(i64::MAX));
    let (modulus, remainder) = (bound("modulus").unwrap_or(1).max(1), bound("remainder").unwrap_or(0));
    let fits = |it: &i64| (min..=max).contains(it) && it.rem_euclid(modulus) == remainder;
    let near = (0..=modulus.saturating_add(wanted)).flat_map(|d| [wanted + d, wanted - d]);
    let clamped = [min, max];
    near.chain(clamped).find(|it| *it >= 0 && fits(it)).unwrap_or(wanted)
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 33
}

/// Between -1 and 1.
fn uniform(state: &mut u64) -> f64 {
    (next(state) % 20_001) as f64 / 10_000.0 - 1.0
}

/// A tensor of random numbers; small integers where the type is one.
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
