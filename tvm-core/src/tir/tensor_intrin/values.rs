//! Comparison of an implementation with its description, on random values.

use tvm_runtime::{DataType, Tensor};

use super::TensorIntrin;
use crate::ir::{IrError, Span};
use crate::tir::interp::{Program, Value};
use crate::tir::{Param, PrimFunc};

/// Relative difference of floats that other orders of sums may make.
const TOLERANCE: f64 = 1e-4;

/// Runs of one comparison.
const RUNS: u64 = 4;

impl TensorIntrin {
    /// Runs the description and the implementation in the interpreter, on the same random elements, and compares what they store.
    /// Integers must be equal; floats, which are small integers, may differ by `1e-4` of their size.
    ///
    /// # Errors
    /// When results differ, or one of the two cannot be run.
    pub fn check_values(&self, seed: u64) -> Result<(), IrError> {
        let refuse =
            |why: String| IrError::new(format!("tensor intrinsic `{}`: {why}", self.name()), &Span::none());
        for run in 0..RUNS {
            let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(RUNS).wrapping_add(run));
            let args = arguments(self.desc(), &mut random).map_err(refuse)?;
            let results = |func: &PrimFunc| {
                let mut args = args.clone();
                let program = Program::compile(func).map_err(|err| err.to_string())?;
                program.strict(run).run(&mut args).map_err(|err| err.to_string())?;
                Ok::<_, String>(args)
            };
            let want = results(self.desc()).map_err(|why| refuse(format!("the description: {why}")))?;
            let got = results(self.imp()).map_err(|why| refuse(format!("the implementation: {why}")))?;
            for ((param, got), want) in self.desc().params.iter().zip(&got).zip(&want) {
                if let Some(why) = difference(got, want).map_err(refuse)? {
                    return Err(refuse(format!("`{}`: {why}", param.name())));
                }
            }
        }
        Ok(())
    }
}

/// Random values for the parameters of `func`.
fn arguments(func: &PrimFunc, random: &mut fastrand::Rng) -> Result<Vec<Value>, String> {
    let value = |param: &Param| {
        let buffer = param.buffer().ok_or("it has scalars")?;
        let shape = buffer.const_shape().ok_or("a shape is not constant")?;
        let count: i64 = shape.iter().product();
        let mut number = || match buffer.dtype {
            DataType::BOOL => random.i64(0..2),
            DataType::I8 => random.i64(-128..128),
            DataType::U8 => random.i64(0..256),
            it if it.is_uint() => random.i64(0..8),
            _ => random.i64(-4..5),
        };
        let numbers: Vec<f64> = (0..count).map(|_| number() as f64).collect();
        let tensor = Tensor::from_f64s(&numbers, &shape, buffer.dtype).map_err(|err| err.to_string())?;
        Ok::<_, String>(Value::Tensor(tensor))
    };
    func.params.iter().map(value).collect()
}

/// Describes the first element that differs.
fn difference(got: &Value, want: &Value) -> Result<Option<String>, String> {
    let (Value::Tensor(got), Value::Tensor(want)) = (got, want) else { return Ok(None) };
    let numbers = |it: &Tensor| it.to_f64s().map_err(|err| err.to_string());
    let tolerance = if got.dtype().is_float() { TOLERANCE } else { 0.0 };
    let both = numbers(got)?.into_iter().zip(numbers(want)?).enumerate();
    let mut wrong = both.filter(|(_, (got, want))| {
        let close = (got - want).abs() <= tolerance * (1.0 + want.abs());
        !(close || got == want || got.is_nan() && want.is_nan())
    });
    Ok(wrong.next().map(|(i, (got, want))| {
        format!("element {i} is {got} by the implementation, {want} by the description")
    }))
}
