//! Expands elementary functions of f32 into arithmetic, for code generators that would call them, one lane after the other; and
//! conversions of vectors of f32 to narrow integers, with the division by a scale before them.
//!
//! The results are the same on every target whose CPU has fused multiply-adds, in scalars and in vectors: they do not
//! depend on the schedule or on the code generator. On other CPUs, products are rounded before they are added.
//! Largest errors over all arguments, in units in the last place of the exact result, with fused multiply-adds:
//!
//! | function | error | operations |
//! |---|---|---|
//! | `exp` | 0.9 | 17 with an instruction for `ldexp`, else 23; no division |
//! | `log` | 0.9 | 30, no division |
//! | `tanh` | 2.7 | 23 and a division |
//! | `erf` | 2.3 | 31, no division |
//! | `sigmoid` | 3.3 | 22 and a division |
//! | a quotient by a constant | 0.5, as a division; 1.5 below 2⁻¹⁰⁰ | 2 where this holds, with fused multiply-adds; else a division |
//! | `pow` with the constant exponent ±1, ±2, 3, ±0.5, 0.25, 0.75 or 1.5 | 3.0 | multiplications, square roots, a division |
//!
//! (`cargo xtask fuzz elementary_functions --cases 4099` tries all arguments.) Without fused multiply-adds, errors are at
//! most 3.7. Subnormal arguments and results have the same bounds, infinities and zeros give the limits, and NaN gives NaN.
//! All coefficients are minimax fits to the function, in double precision, then rounded to f32.
//!
//! Ensures: no call of these functions of f32 is left; other powers stay calls. Other functions and other types stay calls. Requires:
//! `FloatComputeLegalize` has run, so that narrow floats are computed in f32.
//! TVM counterpart: `LowerIntrin` with the rules `llvm.FLowerIntrinsic`, and `topi.fast_exp`, `fast_tanh`, `fast_erf`.

mod erf;
mod exp;
mod log;
mod narrow;
mod pow;
mod quotient;
mod sigmoid;
mod steps;
mod tanh;
#[cfg(test)]
mod tests;

use tvm_runtime::DataType;

use self::steps::{Cpu, Steps};
use crate::pass::{Pass, prim_func_pass};
use crate::target::{Target, TargetKind};
use crate::tir::{Cast, Intrinsic, Mutator, PrimCallee, PrimExpr, PrimFunc};

/// Expands `exp`, `log`, `tanh`, `erf`, `sigmoid`, some powers and quotients by constants of f32 for targets that compile for a CPU.
pub fn expand_math() -> Pass {
    prim_func_pass("ExpandMath", |func, _, context| {
        match context.target.kind {
            TargetKind::Host | TargetKind::Llvm | TargetKind::C => {}
            TargetKind::Cuda | TargetKind::Interpreter => return Ok(None),
        }
        let mut expand = ExpandMath { cpu: Cpu::of(&context.target) };
        Ok(expand.mutate_stmt(&func.body).map(|body| PrimFunc { body, ..func.clone() }))
    })
}

impl Cpu {
    fn of(target: &Target) -> Cpu {
        let mul_add =
            if has_feature(target, "fma") || is_arm(target) { Intrinsic::Fma } else { Intrinsic::FMulAdd };
        let ldexp_lanes = if has_feature(target, "avx512f") && !is_arm(target) { 16 } else { 0 };
        Cpu { mul_add, ldexp_lanes }
    }
}

/// True if `target` is a 64-bit ARM processor: all of them have fused multiply-adds.
fn is_arm(target: &Target) -> bool {
    let arm = |triple: &String| triple.starts_with("aarch64") || triple.starts_with("arm64");
    target.triple.as_ref().map_or(cfg!(target_arch = "aarch64"), arm)
}

/// True if the CPU of `target` is known to have the x86 feature `name`.
fn has_feature(target: &Target, name: &str) -> bool {
    let has = match (&target.cpu, &target.triple) {
        (None, None) => tvm_runtime::cpu_features().contains(&name),
        (Some(cpu), _) => tvm_runtime::level_features(cpu).is_some_and(|it| it.contains(&name)),
        (None, Some(_)) => false,
    };
    let changes = target.features.iter().flat_map(|it| it.split(','));
    changes.fold(has, |has, change| match change.split_at_checked(1) {
        Some(("+", feature)) if feature == name => true,
        Some(("-", feature)) if feature == name => false,
        _ => has,
    })
}

struct ExpandMath {
    cpu: Cpu,
}

impl ExpandMath {
    /// The conversion of a vector of f32 to integers of 8 or 16 bits, where the number is rounded to a whole one; also if it
    /// becomes a float again.
    fn rounded(&mut self, cast: &Cast) -> Option<PrimExpr> {
        if let Some(it) = narrow::ThereAndBack::of(cast) {
            if let Some(rounded) = narrow::Rounded::of(it.number, it.range) {
                let number = self.mutated(&rounded.number(self.cpu));
                return Some(Steps::expand(&number, self.cpu, |steps, x| rounded.float(steps, x, it.by)));
            }
            return Some(Steps::expand(&self.mutated(it.number), self.cpu, |steps, x| {
                let whole = narrow::whole(steps, x, it.range);
                if it.by == 0 { whole } else { whole + steps.number(it.by as f32) }
            }));
        }
        let rounded = narrow::Rounded::of(&cast.value, narrow::range_of(cast)?)?;
        let number = self.mutated(&rounded.number(self.cpu));
        Some(Steps::expand(&number, self.cpu, |steps, x| rounded.integer(steps, x)).cast(cast.dtype))
    }

    /// The conversion of a vector of f32 to integers of 8 or 16 bits.
    fn narrowed(&self, cast: &Cast) -> Option<PrimExpr> {
        let range = narrow::range_of(cast)?;
        let is_whole = narrow::is_whole_within(&cast.value, range);
        let integer = if is_whole { narrow::integer_of_whole } else { narrow::integer };
        Some(Steps::expand(&cast.value, self.cpu, |steps, x| integer(steps, x, range)).cast(cast.dtype))
    }

    fn mutated(&mut self, expr: &PrimExpr) -> PrimExpr {
        self.mutate_expr(expr).unwrap_or_else(|| expr.clone())
    }
}

impl Mutator for ExpandMath {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if let PrimExpr::Cast(cast) = expr
            && let Some(rounded) = self.rounded(cast)
        {
            return Some(rounded);
        }
        let walked = self.walk_expr(expr);
        match walked.as_ref().unwrap_or(expr) {
            PrimExpr::Cast(cast) => return self.narrowed(cast).or(walked),
            PrimExpr::Binary(it) => return quotient::by_constant(it, self.cpu).or(walked),
            _ => {}
        }
        let PrimExpr::Call(call) = walked.as_ref().unwrap_or(expr) else { return walked };
        let (PrimCallee::Intrinsic(intrinsic), DataType::F32) = (&call.callee, call.dtype.scalar()) else {
            return walked;
        };
        if let (Intrinsic::Pow, [x, exponent]) = (intrinsic, &*call.args) {
            let Some(power) = pow::of_exponent(exponent) else { return walked };
            return Some(Steps::expand(x, self.cpu, power));
        }
        let [x] = &*call.args else { return walked };
        let function = match intrinsic {
            Intrinsic::Exp => exp::exp,
            Intrinsic::Log => log::log,
            Intrinsic::Tanh => tanh::tanh,
            Intrinsic::Erf => erf::erf,
            Intrinsic::Sigmoid => sigmoid::sigmoid,
            _ => return walked,
        };
        Some(Steps::expand(x, self.cpu, function))
    }
}
