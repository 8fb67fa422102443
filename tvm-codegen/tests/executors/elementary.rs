//! The elementary functions that are expanded into arithmetic: their errors, their special values, and that all code
//! generators compute the same bits, in scalars and in vectors.

use tvm_codegen::build;
use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::pass::PassContext;
use tvm_core::target::Target;
use tvm_core::tir::transform::renew_defs;
use tvm_core::tir::{ForKind, Intrinsic, PrimExpr};
use tvm_runtime::{DataType, Module, Tensor, Value};
use tvm_testing::Budget;

use super::data::call;
use super::elementwise::map;
use super::narrow::levels;
use super::suite::targets;

/// A function, its exact value, and the largest error in units in the last place.
type Function = (Intrinsic, fn(f64) -> f64, f64);

/// The errors are those in the documentation of `ExpandMath`.
const FUNCTIONS: [Function; 5] = [
    (Intrinsic::Exp, f64::exp, 0.9),
    (Intrinsic::Log, f64::ln, 0.9),
    (Intrinsic::Tanh, f64::tanh, 2.7),
    (Intrinsic::Erf, libm::erf, 2.3),
    (Intrinsic::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 3.3),
];

const KINDS: [ForKind; 2] = [ForKind::Serial, ForKind::Vectorized];

/// Patterns of bits are tested in steps of this number, a prime.
const STEP: u32 = 4099;

/// The distance of `got` from `want`, in units in the last place of `want`.
fn error(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    // From here on, the nearest f32 is an infinity.
    let overflows = want.abs() >= f64::from(f32::MAX) + 2f64.powi(103);
    if got.is_infinite() || overflows {
        let same = got.is_infinite() && overflows && (got > 0.0) == (want > 0.0);
        return if same { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((want.abs().to_bits() >> 52) as i32 - 1023).max(-126);
    (f64::from(got) - want).abs() / 2f64.powi(exponent - 23)
}

/// All functions for each of `targets`, with the name of the target.
fn kernels(targets: Vec<Target>) -> Vec<(String, Module)> {
    let f32 = DataType::F32;
    let mut module = IRModule::new();
    for (kind, (it, ..)) in KINDS.into_iter().flat_map(|kind| FUNCTIONS.map(|it| (kind, it))) {
        let name = format!("{}_{kind:?}", it.name());
        let func = map(&name, kind, &[f32], f32, |x| x[0].clone().unary(it));
        module.add(name, BaseFunc::Prim(renew_defs(&func).into()));
    }
    targets.into_iter().map(|target| (target.to_string(), build(&module, &target).unwrap())).collect()
}

/// Runs every function on `inputs` in all ways; the results have the same bits. Returns them, one row per function.
fn run(kernels: &[(String, Module)], inputs: &[f32]) -> Vec<Vec<f32>> {
    let n = inputs.len() as i64;
    let x = Tensor::from_slice(inputs, &[n]).unwrap();
    let results = |it: Intrinsic| {
        let mut first: Option<Vec<f32>> = None;
        for (target, built) in kernels {
            for kind in KINDS {
                let name = format!("{}_{kind:?}", it.name());
                let y = Tensor::from_slice(&vec![0f32; inputs.len()], &[n]).unwrap();
                let mut args = [Value::Tensor(x.clone()), Value::Tensor(y)];
                call(built.get(&name).unwrap(), &mut args).unwrap();
                let got: Vec<f32> = args[1].as_tensor().unwrap().to_vec().unwrap();
                let Some(first) = &first else {
                    first = Some(got);
                    continue;
                };
                let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                if let Some(at) = first.iter().zip(&got).position(|pair| !same(pair)) {
                    panic!("{name} of {:?} on {target}: {:?}, not {:?}", inputs[at], got[at], first[at]);
                }
            }
        }
        first.unwrap()
    };
    FUNCTIONS.iter().map(|(it, ..)| results(*it)).collect()
}

/// A case is a residue of the patterns of bits modulo `STEP`: `STEP` cases are all arguments.
#[test]
fn fuzz_elementary_functions() {
    let kernels = kernels(targets());
    let mut worst = [0f64; FUNCTIONS.len()];
    for seed in Budget::new("elementary_functions", 1) {
        let first = (seed % u64::from(STEP)) as u32;
        let inputs: Vec<f32> = (first..=u32::MAX).step_by(STEP as usize).map(f32::from_bits).collect();
        for (k, got) in run(&kernels, &inputs).iter().enumerate() {
            let (it, exact, bound) = FUNCTIONS[k];
            for (x, got) in inputs.iter().zip(got) {
                let want = exact(f64::from(*x));
                let error = error(*got, want);
                assert!(error <= bound, "{} of {x:?} is {got:?}, not {want:?}: {error} ulp", it.name());
                worst[k] = worst[k].max(error);
            }
        }
    }
    let names = FUNCTIONS.map(|(it, ..)| it.name());
    println!("largest errors: {:.3?}", names.iter().zip(worst).collect::<Vec<_>>());
}

/// Vectors of 128 bits without fused multiply-adds, and of 256 bits with them.
#[test]
#[cfg(target_arch = "x86_64")]
fn other_cpus() {
    let inputs: Vec<f32> = (0..=u32::MAX).step_by(100_003).map(f32::from_bits).collect();
    for level in ["x86-64-v2", "x86-64-v3"] {
        let runs = tvm_runtime::level_features(level).unwrap();
        if runs.iter().all(|it| tvm_runtime::cpu_features().contains(it)) {
            run(&kernels(targets().into_iter().map(|it| it.with_cpu(level)).collect()), &inputs);
        }
    }
}

/// With and without an instruction that multiplies by a power of two.
#[test]
#[cfg(target_arch = "x86_64")]
fn cpus_with_fused_multiply_adds_agree() {
    let inputs: Vec<f32> = (0..=u32::MAX).step_by(100_003).map(f32::from_bits).collect();
    let has = |level: &&str| {
        let features = tvm_runtime::level_features(level).unwrap();
        features.iter().all(|it| tvm_runtime::cpu_features().contains(it))
    };
    let levels = ["x86-64-v3", "x86-64-v4"].into_iter().filter(has);
    run(
        &kernels(levels.flat_map(|level| targets().into_iter().map(move |it| it.with_cpu(level))).collect()),
        &inputs,
    );
}

/// Results beyond the range of floats, subnormal ones, which are rounded once, and exponents beyond all of them.
#[test]
fn products_with_powers_of_two_are_rounded_once() {
    let mut module = IRModule::new();
    for (kind, float) in KINDS.into_iter().flat_map(|kind| [(kind, DataType::F32), (kind, DataType::F64)]) {
        let name = format!("ldexp_{kind:?}_{float}");
        let ldexp = |x: &[PrimExpr]| PrimExpr::call(Intrinsic::Ldexp, x.to_vec(), float);
        module.add(
            name.as_str(),
            BaseFunc::Prim(map(&name, kind, &[float, DataType::I32], float, ldexp).into()),
        );
    }
    let exponents: Vec<i32> = (-300..300).chain([-2000, 2000, i32::MIN, i32::MAX]).collect();
    let n = exponents.len() as i64;
    let numbers = [
        1.5f32,
        -1.000_000_1,
        0.75,
        f32::MIN_POSITIVE,
        f32::from_bits(3),
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NAN,
    ];
    for target in levels() {
        let built = build(&module, &target).unwrap_or_else(|err| panic!("{target}: {err}"));
        for (name, x) in KINDS.into_iter().flat_map(|kind| numbers.map(|x| (format!("ldexp_{kind:?}"), x))) {
            let run = |float: DataType| {
                let xs = Tensor::from_f64s(&vec![f64::from(x); exponents.len()], &[n], float).unwrap();
                let exponents = Tensor::from_slice(&exponents, &[n]).unwrap();
                let mut args = [xs, exponents, Tensor::zeros(&[n], float).unwrap()].map(Value::Tensor);
                call(built.get(&format!("{name}_{float}")).unwrap(), &mut args).unwrap();
                args[2].as_tensor().unwrap().to_f64s().unwrap()
            };
            for ((exponent, single), double) in
                exponents.iter().zip(run(DataType::F32)).zip(run(DataType::F64))
            {
                let exact = libm::ldexp(f64::from(x), *exponent);
                for (got, want) in [(single, f64::from(exact as f32)), (double, exact)] {
                    let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                    assert!(same, "{name} of {x} and {exponent} on {target}: {got}, not {want}");
                }
            }
        }
    }
}

#[test]
fn fast_math_keeps_the_rounding_to_integers() {
    let mut context = PassContext::default();
    context.config.fast_math = true;
    let mut all = targets();
    if cfg!(target_arch = "x86_64") {
        // Without fused multiply-adds there are sums to reassociate.
        all.extend(targets().into_iter().map(|it| it.with_cpu("x86-64")));
    }
    let kernels = context.scope(|| kernels(all));
    let inputs: Vec<f32> = (1..=800).map(|i| i as f32 * 0.1).flat_map(|x| [x, -x]).collect();
    let x = Tensor::from_slice(&inputs, &[1600]).unwrap();
    for (target, built) in &kernels {
        for (kind, (it, exact, _)) in KINDS.into_iter().flat_map(|kind| FUNCTIONS.map(|it| (kind, it))) {
            let y = Tensor::from_slice(&[0f32; 1600], &[1600]).unwrap();
            let mut args = [Value::Tensor(x.clone()), Value::Tensor(y)];
            call(built.get(&format!("{}_{kind:?}", it.name())).unwrap(), &mut args).unwrap();
            let got: Vec<f32> = args[1].as_tensor().unwrap().to_vec().unwrap();
            for (x, got) in inputs.iter().zip(got).filter(|(x, _)| it != Intrinsic::Log || **x > 0.0) {
                let want = exact(f64::from(*x));
                assert!(error(got, want) <= 100.0, "{} of {x} on {target}: {got}, not {want}", it.name());
            }
        }
    }
}

#[test]
fn special_values() {
    const INF: f32 = f32::INFINITY;
    let tiny = f32::from_bits(1);
    let inputs =
        [0.0, -0.0, INF, -INF, f32::NAN, -f32::NAN, tiny, -tiny, 1.0, -1.0, f32::MAX, f32::MIN, -100.0];
    let nan = f32::NAN;
    let log_tiny = -103.278_93;
    // exp(-100), rounded.
    let small = f32::from_bits(27);
    let table: [[f32; 13]; 5] = [
        [1.0, 1.0, INF, 0.0, nan, nan, 1.0, 1.0, 2.718_281_7, 0.367_879_45, INF, 0.0, small],
        [-INF, -INF, INF, nan, nan, nan, log_tiny, nan, 0.0, nan, 88.722_84, nan, nan],
        [0.0, -0.0, 1.0, -1.0, nan, nan, tiny, -tiny, 0.761_594_2, -0.761_594_2, 1.0, -1.0, -1.0],
        [0.0, -0.0, 1.0, -1.0, nan, nan, tiny, -tiny, 0.842_700_8, -0.842_700_8, 1.0, -1.0, -1.0],
        [0.5, 0.5, 1.0, 0.0, nan, nan, 0.5, 0.5, 0.731_058_6, 0.268_941_43, 1.0, 0.0, small],
    ];
    for (row, (want, (it, ..))) in run(&kernels(targets()), &inputs).iter().zip(table.iter().zip(FUNCTIONS)) {
        for (x, (got, want)) in inputs.iter().zip(row.iter().zip(want)) {
            let near = if want.is_normal() { (got - want).abs() <= want.abs() * 3e-7 } else { got == want };
            let same = near && got.is_sign_negative() == want.is_sign_negative();
            assert!(same || got.is_nan() && want.is_nan(), "{} of {x:?} is {got:?}, not {want:?}", it.name());
        }
    }
}
