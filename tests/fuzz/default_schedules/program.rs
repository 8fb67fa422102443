//! A random program, values for its arguments, and how far its results may be from those of the interpreter.

use tvm::ir::Var;
use tvm::prelude::*;
use tvm::runtime::Value;
use tvm::te::{TensorExpr, create_prim_func, placeholder};
use tvm::tir::interp::{InterpErrorKind, Program as Interpreted};
use tvm::tir::{Param, PrimExpr, PrimFunc, substitute_expr};
use tvm_testing::Rng;

/// Statements and iterations that the interpreter runs at most for a program.
const MAX_STEPS: u64 = 600_000;

/// How far a result may be from the interpreter's, which computes the program as it is written: one rounding after every
/// operation, sums in the order of their axes. Where the interpreter's result is NaN or infinite, the result is the same,
/// and so it is where the bound is infinite.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// Not at all, signs of zeros included: the schedule changes only where and when an element is computed, or the elements
    /// are integers. (A NaN may have other bits.)
    Same,
    /// Not at all, but a zero may have the other sign: the largest of 0 and -0 is either, and so it depends on the order.
    Equal,
    /// By `terms * eps * sum |a b|`, where the program run on the absolute values of its inputs computes this last sum.
    /// The schedule adds the `terms` terms in another order, with fused multiply-adds. Each of the two sums is within
    /// `terms * eps / 2` of the exact one, relative to the sum of absolute values (Higham, "Accuracy and Stability of
    /// Numerical Algorithms", 4.2). What follows the sum counts as further terms.
    Terms {
        /// Number of terms.
        terms: i64,
        /// In which type they are added. A cast to a narrower type adds one unit of that type on either side.
        sum: DataType,
        /// True if the terms are products: each may lose half of the smallest subnormal number.
        products: bool,
    },
    /// By this factor of the interpreter's result, and a few units of the smallest subnormal number: the program says why.
    Relative(f64),
    /// By this much: the program says why.
    Absolute(f64),
}

/// Distance of 1 from the next number.
pub(crate) fn eps(dtype: DataType) -> f64 {
    2f64.powi(match dtype {
        DataType::F64 => -52,
        DataType::F32 => -23,
        DataType::F16 => -10,
        DataType::BF16 => -7,
        _ => return 0.0,
    })
}

/// The smallest positive number.
fn tiny(dtype: DataType) -> f64 {
    match dtype {
        DataType::F64 => f64::from_bits(1),
        DataType::F32 => 2f64.powi(-149),
        DataType::F16 => 2f64.powi(-24),
        DataType::BF16 => 2f64.powi(-133),
        _ => 0.0,
    }
}

/// What the inputs hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    /// Numbers from -2 to 2 with all their digits; integers of all sizes.
    Plain,
    /// Among such numbers, one out of so many is NaN, an infinity, a zero of either sign or a subnormal number.
    Special(usize),
    /// The first input holds subnormal numbers only.
    Subnormal,
}

impl Values {
    fn random(rng: &mut Rng) -> Values {
        match rng.below(8) {
            0..4 => Values::Plain,
            4..7 => Values::Special(*rng.pick(&[8, 50, 500])),
            _ => Values::Subnormal,
        }
    }

    fn number(self, rng: &mut Rng, dtype: DataType, is_first: bool) -> f64 {
        if let Some((low, high)) = dtype.int_range() {
            // Numbers that `f64` holds.
            let [low, high] = [low, high].map(|it| (it as i64).clamp(-(1 << 52), 1 << 52));
            return rng.range(low, high) as f64;
        }
        let plain = rng.range(-(1 << 30), 1 << 30) as f64 * 2f64.powi(-29);
        let subnormal = |rng: &mut Rng| {
            // All but the two largest binary digits that subnormal numbers have, so that sums of some stay subnormal.
            let digits = (f64::MIN_POSITIVE / f64::from_bits(1)).log2().min(50.0);
            let digits = if dtype == DataType::F64 { digits } else { -eps(dtype).log2() } as u32 - 2;
            rng.range(-(1 << digits), 1 << digits) as f64 * tiny(dtype)
        };
        match self {
            Values::Special(rate) if rng.one_in(rate) => match rng.below(6) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => 0.0,
                4 => -0.0,
                _ => subnormal(rng),
            },
            Values::Subnormal if is_first => subnormal(rng),
            _ => plain,
        }
    }
}

/// A program to be scheduled, with the extents of its symbolic dimensions.
pub(crate) struct Program {
    pub(crate) func: PrimFunc,
    pub(crate) extents: Vec<(String, i64)>,
    pub(crate) bound: Bound,
    pub(crate) values: Values,
    /// Seed of the values.
    seed: u64,
}

/// Collects the parts of a [`Program`].
pub(crate) struct Builder<'a> {
    pub(crate) rng: &'a mut Rng,
    extents: Vec<(String, i64)>,
    inputs: Vec<TensorExpr>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(rng: &'a mut Rng) -> Builder<'a> {
        Builder { rng, extents: Vec::new(), inputs: Vec::new() }
    }

    /// A dimension: a constant, or a symbolic dimension of this name.
    pub(crate) fn dim(&mut self, name: &str, extent: i64) -> PrimExpr {
        if self.rng.one_in(3) {
            self.extents.push((name.into(), extent));
            Var::index(name).into()
        } else {
            extent.into()
        }
    }

    pub(crate) fn input(&mut self, name: &str, shape: &[PrimExpr], dtype: DataType) -> TensorExpr {
        let tensor = placeholder(name, shape.to_vec(), dtype);
        self.inputs.push(tensor.clone());
        tensor
    }

    pub(crate) fn finish(self, name: &str, outputs: &[TensorExpr], bound: Bound) -> Program {
        let func = create_prim_func(name, &self.inputs, outputs).expect("a well-formed program");
        let values = Values::random(self.rng);
        Program { func, extents: self.extents, bound, values, seed: self.rng.next() }
    }
}

/// What the interpreter computes.
pub(crate) struct Expected {
    pub(crate) args: Vec<Value>,
    pub(crate) want: Vec<Value>,
    /// The results on the absolute values of the inputs, where the bound depends on them.
    magnitudes: Option<Vec<Value>>,
}

impl Program {
    pub(crate) fn is_output(&self, index: usize) -> bool {
        matches!(self.func.params[index], Param::Out(_))
    }

    /// The results; the error says why there are none.
    pub(crate) fn expected(&self) -> Result<Expected, String> {
        let program = Interpreted::compile(&self.func).map_err(|err| err.to_string())?;
        let run = |args: &[Value]| {
            let mut args = args.to_vec();
            program.run_limited(&mut args, MAX_STEPS).map_err(|err| match err.kind {
                InterpErrorKind::StepLimit => "too long for the interpreter".to_string(),
                _ => panic!("the interpreter refuses a program: {err}\n{}", self.func),
            })?;
            Ok::<_, String>(args)
        };
        let args = self.arguments(false);
        let want = run(&args)?;
        let magnitudes = match self.bound {
            Bound::Terms { sum, .. } if sum.is_float() => Some(run(&self.arguments(true))?),
            _ => None,
        };
        Ok(Expected { args, want, magnitudes })
    }

    /// The arguments, or their absolute values.
    fn arguments(&self, absolute: bool) -> Vec<Value> {
        let mut rng = Rng::new(self.seed);
        let dims = self.func.param_vars();
        let extent = |name: &str| {
            let found = self.extents.iter().find(|(known, _)| known == name);
            PrimExpr::index(found.unwrap_or_else(|| panic!("dimension `{name}` has no extent")).1)
        };
        let known = dims.iter().map(|var| (var.id(), extent(var.name()))).collect();
        let mut args = Vec::new();
        for (i, param) in self.func.params.iter().enumerate() {
            let Some(buffer) = param.buffer() else {
                args.push(Value::Int(extent(param.name()).as_int().expect("a known extent")));
                continue;
            };
            let extent = |it: &PrimExpr| substitute_expr(it, &known).as_int().expect("a known extent");
            let shape: Vec<i64> = buffer.shape.iter().map(extent).collect();
            let len = shape.iter().product::<i64>();
            let number = |_| {
                let number = self.values.number(&mut rng, buffer.dtype, i == 0);
                if absolute { number.abs() } else { number }
            };
            let data: Vec<f64> = match param {
                // What outputs hold before the call is not to be seen afterwards.
                Param::Out(_) => vec![113.0; len as usize],
                _ => (0..len).map(number).collect(),
            };
            args.push(Value::Tensor(Tensor::from_f64s(&data, &shape, buffer.dtype).expect("a tensor")));
        }
        args
    }

    /// Compares results with the interpreter's; the error describes the first difference.
    pub(crate) fn compare(&self, expected: &Expected, got: &[Tensor]) -> Result<(), String> {
        let outputs = (0..self.func.params.len()).filter(|&i| self.is_output(i));
        for (i, got) in outputs.zip(got) {
            let numbers = |value: &Value| match value {
                Value::Tensor(tensor) => tensor.to_f64s().expect("a tensor of numbers"),
                other => panic!("{other:?} is no tensor"),
            };
            let (want, dtype) = (numbers(&expected.want[i]), got.dtype());
            let magnitudes = expected.magnitudes.as_ref().map(|it| numbers(&it[i]));
            for (at, (&want, got)) in want.iter().zip(got.to_f64s().expect("numbers")).enumerate() {
                let allowed = self.allowed(want, magnitudes.as_ref().map_or(0.0, |it| it[at]), dtype);
                let same_sign = want.is_sign_negative() == got.is_sign_negative();
                let exact = got == want && (same_sign || !matches!(self.bound, Bound::Same));
                let close = want.is_finite() && allowed.is_finite() && (got - want).abs() <= allowed;
                if !(exact || got.is_nan() && want.is_nan() || close && allowed > 0.0) {
                    let name = self.func.params[i].name();
                    return Err(format!(
                        "element {at} of `{name}` is {got:e}, expected {want:e} within {allowed:e}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The largest distance from `want`.
    fn allowed(&self, want: f64, magnitude: f64, dtype: DataType) -> f64 {
        match self.bound {
            Bound::Same | Bound::Equal => 0.0,
            Bound::Terms { sum, .. } if !sum.is_float() => 0.0,
            Bound::Terms { terms, sum, products } => {
                let narrowed = if dtype == sum { 0.0 } else { 2.0 * eps(dtype) };
                let relative = terms as f64 * eps(sum) + narrowed;
                let lost = if products { terms as f64 * tiny(sum) } else { 0.0 };
                let lost_in_cast = if dtype == sum { 0.0 } else { tiny(dtype) };
                // The sum of absolute values is rounded, too.
                relative * (1.0 + relative) * magnitude + lost + lost_in_cast
            }
            Bound::Relative(factor) => factor * want.abs() + 4.0 * tiny(dtype),
            Bound::Absolute(distance) => distance,
        }
    }
}
