//! The expansions, run by the interpreter, against the exact functions. (`tvm-codegen` tests them as machine code.)

use tvm_runtime::{DataType, Tensor};

use super::{Cpu, expand_math};
use crate::ir::{BaseFunc, IRModule, Var};
use crate::pass::PassContext;
use crate::target::Target;
use crate::tir::interp::{Program, Value};
use crate::tir::{Buffer, For, Intrinsic, Param, PrimExpr, PrimFunc, Stmt};

/// A function, its exact value, and the largest errors in units in the last place: with and without fused multiply-adds.
type Function = (Intrinsic, fn(f64) -> f64, [f64; 2]);

const F32: DataType = DataType::F32;

/// `y[i] = f(x[i])`, with `f` expanded for `target`.
fn expanded(f: Intrinsic, dtype: DataType, target: &str) -> PrimFunc {
    expanded_map(|x| x.unary(f), dtype, target)
}

fn expanded_map(f: impl Fn(PrimExpr) -> PrimExpr, dtype: DataType, target: &str) -> PrimFunc {
    let (n, i) = (PrimExpr::from(Var::index("n")), Var::index("i"));
    let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [n.clone()], dtype));
    let store = Stmt::store(&y, [PrimExpr::from(&i)], f(x.load([PrimExpr::from(&i)])));
    let func = PrimFunc::new("f", [Param::In(x), Param::Out(y)], For::serial(i, n, store).into());
    let context = PassContext::default().target(target.parse::<Target>().unwrap());
    let module = expand_math().apply_in(IRModule::from_prim_func(func), &context).unwrap();
    let Some((_, BaseFunc::Prim(func))) = module.functions().next() else { unreachable!("a tensor program") };
    (**func).clone()
}

fn run(func: &PrimFunc, inputs: &[f32]) -> Vec<f32> {
    let n = inputs.len() as i64;
    let tensor = |data: &[f32]| Value::Tensor(Tensor::from_slice(data, &[n]).unwrap());
    let mut args = [tensor(inputs), tensor(&vec![0.0; inputs.len()])];
    Program::compile(func).and_then(|it| it.run(&mut args)).unwrap();
    args[1].as_tensor().unwrap().to_vec().unwrap()
}

#[test]
fn errors_are_small_with_and_without_fused_multiply_adds() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let functions: [Function; 5] = [
        (Intrinsic::Exp, f64::exp, [0.9, 1.7]),
        (Intrinsic::Log, f64::ln, [0.9, 0.9]),
        (Intrinsic::Tanh, f64::tanh, [2.7, 2.8]),
        (Intrinsic::Erf, libm::erf, [2.3, 3.0]),
        (Intrinsic::Sigmoid, sigmoid, [3.3, 3.7]),
    ];
    // Normal arguments of both signs, from all exponents.
    let inputs: Vec<f32> = (0..u32::MAX).step_by(200_003).map(f32::from_bits).collect();
    for (f, exact, bounds) in functions {
        for (target, bound) in ["c -cpu=x86-64-v3", "llvm -cpu=x86-64-v2"].into_iter().zip(bounds) {
            check(&expanded(f, F32, target), &inputs, exact, bound, &format!("{} for {target}", f.name()));
        }
    }
}

/// Compares the results of `func` with the exact ones, in units in the last place.
fn check(func: &PrimFunc, inputs: &[f32], exact: impl Fn(f64) -> f64, bound: f64, what: &str) {
    for (x, got) in inputs.iter().zip(run(func, inputs)) {
        let want = exact(f64::from(*x));
        let rounded = want as f32;
        if !rounded.is_normal() {
            let same = (got - rounded).abs() <= f32::from_bits(1);
            assert!(got == rounded || same || got.is_nan() && rounded.is_nan(), "{x}: {got}, {want}");
            continue;
        }
        let unit = f64::from(f32::from_bits(rounded.abs().to_bits() & 0x7f80_0000)) * f64::from(f32::EPSILON);
        let error = (f64::from(got) - want).abs() / unit;
        assert!(error <= bound, "{what} of {x}: {got}, not {want}: {error}");
    }
}

#[test]
fn powers_with_known_exponents() {
    let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, -1e-40];
    let inputs: Vec<f32> = (0..u32::MAX).step_by(200_003).map(f32::from_bits).chain(special).collect();
    let pow = |exponent: f64| {
        let exponent = PrimExpr::float(exponent, F32);
        expanded_map(|x| PrimExpr::call(Intrinsic::Pow, [x, exponent.clone()], F32), F32, "c -cpu=x86-64-v3")
    };
    for (exponent, _, bound) in super::pow::POWERS {
        let func = pow(exponent);
        assert!(!func.to_string().contains("pow"), "{func}");
        check(&func, &inputs, |x| x.powf(exponent), bound, &format!("power {exponent}"));
        for (x, got) in special.iter().zip(run(&func, &special)) {
            let want = x.powf(exponent as f32);
            assert_eq!(
                got.is_sign_negative() && !got.is_nan(),
                want.is_sign_negative() && !want.is_nan(),
                "{x}"
            );
        }
    }
    assert!(pow(0.7).to_string().contains("pow"));
}

#[test]
fn what_is_expanded() {
    let calls = |f, dtype, target| expanded(f, dtype, target).to_string();
    let has = |text: &str, f: &str| text.contains(f);
    for target in ["host", "c", "llvm"] {
        assert!(!has(&calls(Intrinsic::Tanh, F32, target), "tanh("), "{target}");
        assert!(has(&calls(Intrinsic::Tanh, DataType::F64, target), "tanh("), "{target}");
        assert!(has(&calls(Intrinsic::Sin, F32, target), "sin("), "{target}");
    }
    for target in ["cuda", "interpreter"] {
        assert!(has(&calls(Intrinsic::Tanh, F32, target), "tanh("), "{target}");
    }
    let fuses = [
        ("c -cpu=x86-64-v3", true),
        ("c -cpu=x86-64-v3 -features=-fma", false),
        ("llvm -cpu=x86-64", false),
        ("llvm -cpu=haswell -features=+fma", true),
        ("llvm -triple=aarch64-linux-gnu", true),
        ("c -triple=x86_64-linux-gnu", false),
    ];
    for (target, fuses) in fuses {
        assert_eq!(Cpu::of(&target.parse().unwrap()).mul_add == Intrinsic::Fma, fuses, "{target}");
    }
}

/// Vectors of f32 become narrow integers by the rule of `Cast`: towards 0, within the range, 0 for NaN.
/// Results of `func` of `given` that have the type `dtype`, and the program, for the interpreter and for LLVM on a CPU with fused multiply-adds.
fn unexpanded_and_expanded(func: &PrimFunc, given: &[f32], dtype: DataType) -> [(Vec<f64>, String); 2] {
    let n = [given.len() as i64];
    ["interpreter", "llvm -cpu=x86-64-v3"].map(|target| {
        let context = PassContext::default().target(target.parse::<Target>().unwrap());
        let module = expand_math().apply_in(IRModule::from_prim_func(func.clone()), &context).unwrap();
        let Some((_, BaseFunc::Prim(func))) = module.functions().next() else {
            unreachable!("a tensor program")
        };
        let mut args = [
            Value::Tensor(Tensor::from_slice(given, &n).unwrap()),
            Value::Tensor(Tensor::zeros(&n, dtype).unwrap()),
        ];
        Program::compile(func).and_then(|it| it.run(&mut args)).unwrap();
        (args[1].as_tensor().unwrap().to_f64s().unwrap(), func.to_string())
    })
}

#[test]
fn narrow_integers() {
    let odd_nan = f32::from_bits(0x7fc1_2345);
    let given = [
        0.0,
        -0.0,
        0.9,
        -0.9,
        1.5,
        -1.5,
        127.9,
        128.0,
        -128.9,
        -129.0,
        254.999,
        255.0,
        256.0,
        32767.5,
        65535.9,
        -40000.0,
        1e10,
        -1e10,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        odd_nan,
        f32::MIN_POSITIVE,
    ];
    let n = given.len() as u16;
    for dtype in [DataType::U8, DataType::I8, DataType::U16, DataType::I16] {
        let [x, y] = [("x", F32), ("y", dtype)]
            .map(|(name, dtype)| Buffer::new(name, [PrimExpr::from(i64::from(n))], dtype));
        let lanes = PrimExpr::index(0).ramp(PrimExpr::index(1), n);
        let store = Stmt::store(&y, [lanes.clone()], x.load([lanes]).cast(dtype));
        let func = PrimFunc::new("f", [Param::In(x), Param::Out(y)], store);
        let results = unexpanded_and_expanded(&func, &given, dtype);
        assert_eq!(results[0].0, results[1].0, "{dtype}");
        assert!(
            results[1].1.contains("reinterpret") && !results[0].1.contains("reinterpret"),
            "{}",
            results[1].1
        );
    }
}

/// Whole numbers of a narrow type that become integers and floats again need no integers.
#[test]
fn integers_in_between() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let given =
        [0.0, -0.0, -0.4, 0.5, 1.5, 2.5, 254.7, 300.0, -300.0, 1e30, infinity, -infinity, nan, -7.5, 33.3];
    let n = given.len() as u16;
    let number = |value: f64| PrimExpr::float(value, F32).broadcast(n);
    for (dtype, zero, [low, high], fits) in [
        (DataType::U8, 0.0, [0.0, 255.0], true),
        (DataType::U8, 3.0, [0.0, 255.0], true),
        (DataType::I8, -5.0, [-128.0, 127.0], true),
        (DataType::I16, 7.0, [-200.0, 127.0], true),
        (DataType::I8, 0.0, [-128.0, 128.0], false),
        (DataType::U8, 0.5, [0.0, 200.0], false),
    ] {
        let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::from(i64::from(n))], F32));
        let lanes = PrimExpr::index(0).ramp(PrimExpr::index(1), n);
        let rounded = x.load([lanes.clone()]).unary(Intrinsic::Round) + number(zero);
        let limited = rounded.max(number(low)).min(number(high));
        for by in [None, Some(-zero as i64), Some(7), Some(-300)] {
            let integer = limited.clone().cast(dtype).cast(DataType::I32.with_lanes(n));
            let by = by.map(|it| PrimExpr::int(it, DataType::I32).broadcast(n));
            let integers = match by {
                None => vec![integer],
                Some(by) => vec![integer.clone() + by.clone(), integer - by],
            };
            for integer in integers {
                // The sign of zeros shows in their inverses.
                let back = number(1.0) / integer.cast(F32);
                let store = Stmt::store(&y, [lanes.clone()], back);
                let func = PrimFunc::new("f", [Param::In(x.clone()), Param::Out(y.clone())], store);
                let [(want, _), (got, text)] = unexpanded_and_expanded(&func, &given, F32);
                assert_eq!(got, want, "{dtype} with the zero point {zero}: {func}");
                assert_eq!(!text.contains(&format!("as {dtype}")), fits, "{text}");
            }
        }

        let [x, y] = [("x", F32), ("y", dtype)]
            .map(|(name, dtype)| Buffer::new(name, [PrimExpr::from(i64::from(n))], dtype));
        let lanes = PrimExpr::index(0).ramp(PrimExpr::index(1), n);
        let rounded = x.load([lanes.clone()]).unary(Intrinsic::Round) + number(zero);
        let limited = rounded.max(number(low)).min(number(high));
        let store = Stmt::store(&y, [lanes], limited.cast(dtype));
        let func = PrimFunc::new("f", [Param::In(x), Param::Out(y)], store);
        let [(want, _), (got, text)] = unexpanded_and_expanded(&func, &given, dtype);
        assert_eq!(got, want, "{dtype} with the zero point {zero}");
        assert_eq!(!text.contains("trunc"), fits, "{text}");
    }
}

/// Quotients that become narrow integers are products of the same result.
#[test]
fn divisions_before_roundings() {
    let mut rng = tvm_testing::Rng::new(3);
    let mut products = 0;
    for (dtype, zero, [low, high]) in [
        (DataType::U8, 0.0, [0.0, 255.0]),
        (DataType::U8, 131.0, [0.0, 255.0]),
        (DataType::I8, -5.0, [-128.0, 127.0]),
        (DataType::I8, -128.0, [-128.0, 127.0]),
        (DataType::I16, 0.0, [-300.0, 300.0]),
    ] {
        for scale in [0.25f32, 0.018063193, 1.0 / 3.0, 7.7e-5, 123.4, -0.5, 1e-35] {
            let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-40];
            let near = (0..40).map(|_| {
                let bits = ((rng.range(-300, 300) as f32 + 0.5) * scale).to_bits();
                f32::from_bits((i64::from(bits) + rng.range(-3, 3)).max(0) as u32)
            });
            let values: Vec<f32> = near.chain(special).collect();
            let n = values.len() as u16;
            let number = |value: f64| PrimExpr::float(value, F32).broadcast(n);
            let [x, y] = [("x", F32), ("y", dtype)]
                .map(|(name, dtype)| Buffer::new(name, [PrimExpr::from(i64::from(n))], dtype));
            let lanes = PrimExpr::index(0).ramp(PrimExpr::index(1), n);
            for relu in [false, true] {
                let given = x.load([lanes.clone()]);
                let dividend = if relu { given.max(number(0.0)) } else { given };
                let quotient = dividend / number(f64::from(scale));
                let rounded = quotient.unary(Intrinsic::Round) + number(zero);
                let limited = rounded.max(number(low)).min(number(high));
                let store = Stmt::store(&y, [lanes.clone()], limited.cast(dtype));
                let func = PrimFunc::new("f", [Param::In(x.clone()), Param::Out(y.clone())], store);
                let [(want, _), (got, text)] = unexpanded_and_expanded(&func, &values, dtype);
                assert_eq!(got, want, "{dtype} with the scale {scale} and the zero point {zero}: {func}");
                let divides = text.contains(" / ");
                assert!(divides || scale > 1e-30, "{text}");
                products += usize::from(!divides);
                // What is below 0 is more than the lower limit, or is divided by a negative number.
                let needed = scale < 0.0 || low < zero;
                assert_eq!(text.contains("max("), relu && needed, "{text}");
            }
        }
    }
    // Four ranges of 8 bits with five scales, and one of 16 bits with three: not with the power of two, nor with a scale that some
    // products are not the quotients for. With and without the limit at 0.
    assert_eq!(products, (4 * 5 + 3) * 2);
}

/// Quotients by constants are products with the same results, where the CPU fuses them with a sum.
#[test]
fn quotients_by_constants() {
    let inputs: Vec<f32> = (0..u32::MAX).step_by(200_003).map(f32::from_bits).collect();
    let by = |divisor: f64, dtype: DataType, target: &str| {
        expanded_map(|x| x / PrimExpr::float(divisor, dtype), dtype, target)
    };
    for divisor in [6.0, 49.0, 0.299] {
        let func = by(divisor, F32, "llvm -cpu=x86-64-v3");
        assert!(!func.to_string().contains(" / "), "{func}");
        for (x, got) in inputs.iter().zip(run(&func, &inputs)) {
            let want = x / divisor as f32;
            let off = want.to_bits().abs_diff(got.to_bits());
            let most = u32::from(want.abs() < 2f32.powi(-100));
            assert!(off <= most || want.is_nan() && got.is_nan(), "{x:e} / {divisor}: {got:e}, not {want:e}");
        }
    }
    for (divisor, dtype, target) in [
        (6.0, F32, "llvm -cpu=x86-64-v2"),
        (6.0, DataType::F64, "llvm -cpu=x86-64-v3"),
        // A power of two, a negative number, and one by which products may overflow.
        (8.0, F32, "llvm -cpu=x86-64-v3"),
        (-6.0, F32, "llvm -cpu=x86-64-v3"),
        (3e-30, F32, "llvm -cpu=x86-64-v3"),
    ] {
        let text = by(divisor, dtype, target).to_string();
        assert!(text.contains(" / "), "{text}");
    }
}
