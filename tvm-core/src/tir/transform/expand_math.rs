//! Expands elementary functions into arithmetic, for code generators that would call them, one lane after the other.
//!
//! The exponential of f32 is within 2 ulp: the argument is divided by ln 2 (in two parts) into an integer and a rest of at
//! most ln 2 / 2, whose exponential is a polynomial of degree 7 (Cephes, `expf`). The runtime of C has the same
//! polynomials (`math.h`), so both give the same bits where the processor fuses multiplications and additions.
//!
//! TVM counterpart: `LowerIntrin` with the rules `llvm.FLowerIntrinsic`.

use std::sync::Arc;

use tvm_runtime::DataType;

use crate::ir::Var;
use crate::pass::{Pass, prim_func_pass};
use crate::target::TargetKind;
use crate::tir::{BinaryOp, IntoOperand, Intrinsic, Let, Mutator, PrimCallee, PrimExpr, PrimFunc, binary};

/// Expands elementary functions of f32 for LLVM. Scalars and vectors have the same bits, so that results do not depend on
/// the schedule.
pub fn expand_math() -> Pass {
    prim_func_pass("ExpandMath", |func, _, context| {
        match context.target.kind {
            TargetKind::Host | TargetKind::Llvm => {}
            TargetKind::C | TargetKind::Cuda | TargetKind::Interpreter => return Ok(None),
        }
        Ok(ExpandMath.mutate_stmt(&func.body).map(|body| PrimFunc { body, ..func.clone() }))
    })
}

struct ExpandMath;

impl Mutator for ExpandMath {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let walked = self.walk_expr(expr);
        let PrimExpr::Call(call) = walked.as_ref().unwrap_or(expr) else { return walked };
        let dtype = call.dtype;
        if dtype.scalar() != DataType::F32 {
            return walked;
        }
        match (&call.callee, &*call.args) {
            (PrimCallee::Intrinsic(Intrinsic::Exp), [x]) => Some(exp(x)),
            (PrimCallee::Intrinsic(Intrinsic::Sigmoid), [x]) => Some(sigmoid(x)),
            _ => walked,
        }
    }
}

/// `f` of a name for `value`, which is evaluated once.
fn named(name: &str, value: PrimExpr, f: impl FnOnce(PrimExpr) -> PrimExpr) -> PrimExpr {
    let var = Var::prim(name, value.dtype());
    let body = f((&var).into());
    PrimExpr::Let(Arc::new(Let { var, value, body }))
}

/// `value` in all lanes of `dtype`, f32.
fn number(value: f64, dtype: DataType) -> PrimExpr {
    let scalar = PrimExpr::float(value, DataType::F32);
    if dtype.is_scalar() { scalar } else { scalar.broadcast(dtype.lanes()) }
}

fn mul_add(a: PrimExpr, b: PrimExpr, c: PrimExpr) -> PrimExpr {
    let dtype = c.dtype();
    PrimExpr::call(Intrinsic::FMulAdd, [a, b, c], dtype)
}

/// Coefficients of the polynomial, from the highest power.
const EXP: [f64; 6] = [
    1.987_569_150_0e-4,
    1.398_199_950_7e-3,
    8.333_451_907_3e-3,
    4.166_579_589_4e-2,
    1.666_666_545_9e-1,
    5.000_000_120_1e-1,
];

/// The exponential of f32.
fn exp(x: &PrimExpr) -> PrimExpr {
    let dtype = x.dtype();
    let int = DataType::I32.with_lanes(dtype.lanes());
    let number = |value: f64| number(value, dtype);
    // 2^exponent, for an exponent of a normal number.
    let power = |exponent: PrimExpr| {
        let bits = binary(BinaryOp::Shl, exponent + 127.into_operand(int), 23.into_operand(int));
        PrimExpr::call(Intrinsic::Reinterpret, [bits], dtype)
    };
    named("x", x.clone(), |x| {
        // NaN becomes a number here.
        let clamped = x.clone().greater(number(-104.0)).select(x.clone(), number(-104.0));
        named("c", clamped, |c| {
            let clamped = c.clone().less(number(89.0)).select(c, number(89.0));
            named("c", clamped, |c| {
                let whole = PrimExpr::call(Intrinsic::Round, [&c * number(std::f64::consts::LOG2_E)], dtype);
                named("n", whole, |n| {
                    let rest = mul_add(n.clone(), number(-0.693_359_375), c);
                    let rest = mul_add(n.clone(), number(2.121_944_40e-4), rest);
                    named("r", rest, |r| {
                        let polynomial = |sum: PrimExpr, &term: &f64| mul_add(sum, r.clone(), number(term));
                        let sum = EXP[1..].iter().fold(number(EXP[0]), polynomial);
                        let value = mul_add(sum, &r * &r, r.clone()) + number(1.0);
                        // 2^n in two steps: it may be subnormal or beyond the range where the product is not.
                        named("i", integer(n, int), |i| {
                            named("half", binary(BinaryOp::Shr, i.clone(), 1.into_operand(int)), |half| {
                                let value = value * power(half.clone()) * power(i - half);
                                x.clone().not_equal(x.clone()).select(x, value)
                            })
                        })
                    })
                })
            })
        })
    })
}

/// `whole`, integers of less than 2^22 in floats, as integers: the low bits of their sums with 1.5 * 2^23.
fn integer(whole: PrimExpr, int: DataType) -> PrimExpr {
    let sum = &whole + number(12_582_912.0, whole.dtype());
    PrimExpr::call(Intrinsic::Reinterpret, [sum], int) - 0x4b40_0000.into_operand(int)
}

/// `1 / (1 + exp(-x))`, from the exponential of `-|x|`: it does not overflow, and small results keep their digits.
fn sigmoid(x: &PrimExpr) -> PrimExpr {
    let dtype = x.dtype();
    named("x", x.clone(), |x| {
        let negative = x.clone().less(number(0.0, dtype));
        let size = negative.clone().select(x.clone(), number(0.0, dtype) - &x);
        named("e", exp(&size), |e| negative.select(e.clone(), number(1.0, dtype)) / (number(1.0, dtype) + e))
    })
}
