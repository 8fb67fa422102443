//! Tests of element-wise programs: every operation on every type, scalar and vectorised, with special values.

use tvm_codegen::build;
use tvm_core::ir::{BaseFunc, IRModule, Var};
use tvm_core::target::Target;
use tvm_core::tir::transform::renew_defs;
use tvm_core::tir::{BinaryOp, ForKind, Intrinsic, Param, PrimExpr, PrimFunc, Stmt, binary};
use tvm_runtime::{DataType, Tensor, Value};

use super::data::{Rng, assert_close, call, random};
use super::programs::{buffer, func, loops};
use super::suite::{Case, check, check_at, targets};

/// `y[i] = f(x0[i], x1[i], …)` over `n` elements.
pub(crate) fn map(
    name: &str,
    kind: ForKind,
    inputs: &[DataType],
    output: DataType,
    f: impl FnOnce(&[PrimExpr]) -> PrimExpr,
) -> PrimFunc {
    let n = PrimExpr::from(Var::index("n"));
    let xs: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(i, dtype)| buffer(&format!("x{i}"), std::slice::from_ref(&n), *dtype))
        .collect();
    let y = buffer("y", std::slice::from_ref(&n), output);
    let body = loops(&[(kind, n)], |i| {
        let values: Vec<PrimExpr> = xs.iter().map(|x| x.load([i[0].clone()])).collect();
        Stmt::store(&y, [i[0].clone()], f(&values))
    });
    let params = xs.into_iter().map(Param::In).chain([Param::Out(y)]).collect();
    func(name, params, vec![], body)
}

/// Arguments for several runs: `inputs` and one `output`, with lengths that are multiples of a vector length and others
/// that are not.
fn runs(inputs: &[DataType], output: DataType, special: bool, rng: &mut Rng) -> Vec<Vec<Value>> {
    [0, 1, 7, 64, 203]
        .map(|n| {
            let mut args: Vec<Value> =
                inputs.iter().map(|dtype| Value::Tensor(random(&[n], *dtype, rng, special))).collect();
            args.push(Value::Tensor(random(&[n], output, rng, false)));
            args
        })
        .to_vec()
}

const KINDS: [ForKind; 2] = [ForKind::Serial, ForKind::Vectorized];

/// Functions whose results have the same bits in all executors.
const EXACT: [Intrinsic; 7] = [
    Intrinsic::Sqrt,
    Intrinsic::Rsqrt,
    Intrinsic::Abs,
    Intrinsic::Floor,
    Intrinsic::Ceil,
    Intrinsic::Trunc,
    Intrinsic::Round,
];

/// Bound for the relative error of one rounding in this type, with a margin for libraries.
fn tolerance(dtype: DataType) -> f64 {
    match dtype {
        DataType::F16 => 4e-3,
        DataType::BF16 => 3e-2,
        DataType::F32 => 2e-6,
        DataType::F64 => 1e-14,
        _ => 0.0,
    }
}

#[test]
fn binary_operations() {
    use BinaryOp::*;
    let mut rng = Rng(3);
    let ops = [Add, Sub, Mul, Min, Max, Eq, Ne, Lt, Le, Gt, Ge, BitAnd, BitOr, BitXor, And, Or];
    let mut cases = Vec::new();
    for dtype in DataType::all() {
        for (op, kind) in ops.iter().flat_map(|op| KINDS.map(|kind| (*op, kind))) {
            let fits = match op {
                And | Or => dtype.is_bool(),
                BitAnd | BitOr | BitXor => !dtype.is_float(),
                Add | Sub | Mul => !dtype.is_bool(),
                _ => true,
            };
            if !fits {
                continue;
            }
            let output = if op.is_comparison() { DataType::BOOL } else { dtype };
            let name = format!("{op:?}_{dtype}_{kind:?}");
            let func = map(&name, kind, &[dtype, dtype], output, |x| binary(op, x[0].clone(), x[1].clone()));
            let args = runs(&[dtype, dtype], output, true, &mut rng);
            cases.push(Case { func, args, tolerance: 0.0 });
        }
    }
    check_at(1, &cases);
}

#[test]
fn divisions_and_shifts() {
    use BinaryOp::*;
    let mut rng = Rng(4);
    let mut cases = Vec::new();
    for dtype in DataType::all().filter(|dtype| !dtype.is_bool()) {
        let constants: &[f64] = if dtype.is_float() { &[2.5, -3.0] } else { &[1.0, 2.0, 7.0, 16.0, 100.0] };
        for (op, kind) in [Div, Mod, FloorDiv, FloorMod].iter().flat_map(|op| KINDS.map(|kind| (*op, kind))) {
            if dtype.is_float() && matches!(op, FloorDiv | FloorMod) {
                continue;
            }
            for constant in constants {
                let name = format!("{op:?}_{dtype}_{kind:?}");
                let func = map(&name, kind, &[dtype], dtype, |x| {
                    binary(op, x[0].clone(), PrimExpr::constant(*constant, dtype))
                });
                cases.push(Case { func, args: runs(&[dtype], dtype, false, &mut rng), tolerance: 0.0 });
            }
            // A divisor that is never 0, and negative in about half of the cases.
            let func = map(&format!("{op:?}_{dtype}_{kind:?}"), kind, &[dtype, dtype], dtype, |x| {
                let divisor = if dtype.is_float() {
                    x[1].clone()
                } else {
                    binary(BitOr, x[1].clone(), PrimExpr::int(1, dtype))
                };
                binary(op, x[0].clone(), divisor)
            });
            let args = runs(&[dtype, dtype], dtype, false, &mut rng);
            cases.push(Case { func, args, tolerance: 0.0 });
        }
        for (op, kind) in [Shl, Shr].iter().flat_map(|op| KINDS.map(|kind| (*op, kind))) {
            if dtype.is_integer() {
                let func = map(&format!("{op:?}_{dtype}_{kind:?}"), kind, &[dtype], dtype, |x| {
                    binary(op, x[0].clone(), PrimExpr::int(3, dtype))
                });
                cases.push(Case { func, args: runs(&[dtype], dtype, false, &mut rng), tolerance: 0.0 });
            }
        }
    }
    check_at(1, &cases);
}

#[test]
fn what_would_trap_has_a_value() {
    use BinaryOp::*;
    let min = i64::from(i32::MIN);
    let operands = [(7, 0), (min, -1), (-7, 2), (0, 0), (5, -1), (-8, 35), (min, 0)];
    let table: [(BinaryOp, [i64; 7]); 6] = [
        (Div, [0, min, -3, 0, -5, 0, 0]),
        (Mod, [0, 0, -1, 0, 0, -8, 0]),
        (FloorDiv, [0, min, -4, 0, -5, -1, 0]),
        (FloorMod, [0, 0, 1, 0, 0, 27, 0]),
        (Shl, [7, 0, -28, 0, min, -64, min]),
        (Shr, [7, -1, -2, 0, 0, -1, min]),
    ];
    let ints = |values: &[i64]| {
        let values: Vec<i32> = values.iter().map(|&value| value as i32).collect();
        Tensor::from_slice(&values, &[values.len() as i64]).unwrap()
    };
    let (a, b): (Vec<i64>, Vec<i64>) = operands.into_iter().unzip();
    let i32 = DataType::I32;
    let mut module = IRModule::new();
    for (kind, (op, _)) in KINDS.into_iter().flat_map(|kind| table.iter().map(move |row| (kind, row))) {
        let name = format!("{op:?}_{kind:?}");
        let func = map(&name, kind, &[i32, i32], i32, |x| binary(*op, x[0].clone(), x[1].clone()));
        module.add(name, BaseFunc::Prim(renew_defs(&func).into()));
    }
    for target in targets() {
        let built = build(&module, &target).unwrap();
        for (kind, (op, want)) in KINDS.into_iter().flat_map(|kind| table.iter().map(move |row| (kind, row)))
        {
            let name = format!("{op:?}_{kind:?}");
            let mut args = [ints(&a), ints(&b), ints(&[1; 7])].map(Value::Tensor);
            call(built.get(&name).unwrap(), &mut args).unwrap();
            let Value::Tensor(got) = &args[2] else { unreachable!("the output is a tensor") };
            assert_close(got, &ints(want), 0.0, &format!("{name} on {target}"));
        }
    }
}

#[test]
fn conversions() {
    let mut rng = Rng(5);
    let mut cases = Vec::new();
    for (from, to) in DataType::all().flat_map(|from| DataType::all().map(move |to| (from, to))) {
        for kind in KINDS {
            let func = map(&format!("{from}_to_{to}_{kind:?}"), kind, &[from], to, |x| x[0].clone().cast(to));
            cases.push(Case { func, args: runs(&[from], to, true, &mut rng), tolerance: 0.0 });
        }
    }
    check_at(1, &cases);
}

#[test]
fn intrinsics() {
    use Intrinsic::*;
    let mut rng = Rng(6);
    let mut cases = Vec::new();
    let on_floats = [
        Exp, Exp2, Log, Log2, Log10, Log1p, Sqrt, Rsqrt, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh,
        Asinh, Acosh, Atanh, Erf, Sigmoid, Abs, Floor, Ceil, Trunc, Round,
    ];
    for dtype in [DataType::F32, DataType::F64, DataType::F16, DataType::BF16] {
        for (intrinsic, kind) in on_floats.iter().flat_map(|it| KINDS.map(|kind| (*it, kind))) {
            let func = map(&format!("{}_{dtype}_{kind:?}", intrinsic.name()), kind, &[dtype], dtype, |x| {
                x[0].clone().unary(intrinsic)
            });
            cases.push(Case {
                func,
                args: runs(&[dtype], dtype, true, &mut rng),
                tolerance: if EXACT.contains(&intrinsic) { 0.0 } else { tolerance(dtype) },
            });
        }
        for (intrinsic, kind) in [Pow, Atan2, Copysign].iter().flat_map(|it| KINDS.map(|kind| (*it, kind))) {
            let func =
                map(&format!("{}_{dtype}_{kind:?}", intrinsic.name()), kind, &[dtype, dtype], dtype, |x| {
                    PrimExpr::call(intrinsic, x.to_vec(), dtype)
                });
            cases.push(Case {
                func,
                args: runs(&[dtype, dtype], dtype, true, &mut rng),
                tolerance: tolerance(dtype),
            });
        }
        for (intrinsic, kind) in [IsNan, IsInf].iter().flat_map(|it| KINDS.map(|kind| (*it, kind))) {
            let func =
                map(&format!("{}_{dtype}_{kind:?}", intrinsic.name()), kind, &[dtype], DataType::BOOL, |x| {
                    PrimExpr::call(intrinsic, x.to_vec(), DataType::BOOL)
                });
            cases.push(Case { func, args: runs(&[dtype], DataType::BOOL, true, &mut rng), tolerance: 0.0 });
        }
    }
    for dtype in DataType::all().filter(|dtype| dtype.is_integer()) {
        for (intrinsic, kind) in
            [PopCount, Clz, BitNot, Abs].iter().flat_map(|it| KINDS.map(|kind| (*it, kind)))
        {
            let func = map(&format!("{}_{dtype}_{kind:?}", intrinsic.name()), kind, &[dtype], dtype, |x| {
                x[0].clone().unary(intrinsic)
            });
            cases.push(Case { func, args: runs(&[dtype], dtype, false, &mut rng), tolerance: 0.0 });
        }
    }
    check(&cases);
}

/// Distance between `got` and `want`, in units in the last place.
fn ulps(got: f32, want: f32) -> u64 {
    let ordered = |x: f32| {
        let bits = i64::from(x.to_bits() as i32);
        if bits < 0 { i64::from(i32::MIN) - bits } else { bits }
    };
    if got.is_nan() && want.is_nan() { 0 } else { ordered(got).abs_diff(ordered(want)) }
}

#[test]
fn elementary_functions_are_within_four_units_in_the_last_place() {
    use Intrinsic::*;
    let functions = [
        Exp, Exp2, Log, Log2, Log10, Log1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh, Acosh,
        Atanh, Erf, Sigmoid,
    ];
    let mut rng = Rng(11);
    let mut x: Vec<f32> = (0..3000).map(|_| rng.float() as f32).collect();
    x.extend((0..2000).map(|_| (rng.float() * 30.0) as f32));
    x.extend((0..2000).map(|_| f32::from_bits(rng.next() as u32)));
    let n = x.len() as i64;
    let x = Value::Tensor(Tensor::from_slice(&x, &[n]).unwrap());
    let mut module = IRModule::new();
    let f32 = DataType::F32;
    for (kind, it) in KINDS.into_iter().flat_map(|kind| functions.map(|it| (kind, it))) {
        let name = format!("{}_{kind:?}", it.name());
        let func = map(&name, kind, &[f32], f32, |x| x[0].clone().unary(it));
        module.add(name, BaseFunc::Prim(renew_defs(&func).into()));
    }
    let run = |built: &tvm_runtime::Module, name: &str| -> Vec<f32> {
        let mut args = [x.clone(), Value::Tensor(random(&[n], f32, &mut Rng(1), false))];
        call(built.get(name).unwrap(), &mut args).unwrap();
        args[1].as_tensor().unwrap().to_vec().unwrap()
    };
    // Reference: computed in double precision, then rounded.
    let exact = build(&module, &Target::interpreter()).unwrap();
    let inputs: Vec<f32> = x.as_tensor().unwrap().to_vec().unwrap();
    for target in targets() {
        let built = build(&module, &target).unwrap();
        for kernel in exact.iter() {
            let (want, got) = (run(&exact, kernel.name()), run(&built, kernel.name()));
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let off = ulps(*got, *want);
                assert!(off <= 4, "{} of {} on {target}: {got}, not {want}", kernel.name(), inputs[i]);
            }
        }
    }
}

#[test]
fn choices() {
    let mut rng = Rng(7);
    let mut cases = Vec::new();
    for dtype in DataType::all() {
        for kind in KINDS {
            let inputs = [DataType::BOOL, dtype, dtype, DataType::F64];
            let func = map(&format!("select_{dtype}_{kind:?}"), kind, &inputs, dtype, |x| {
                let condition = x[0].clone().and(!x[3].clone().less(PrimExpr::float(0.5, DataType::F64)));
                condition.select(x[1].clone(), x[2].clone())
            });
            cases.push(Case { func, args: runs(&inputs, dtype, true, &mut rng), tolerance: 0.0 });
        }
    }
    check(&cases);
}
