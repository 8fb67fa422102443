//! Floats: operations that no reduction block declares associative have the same bits in plain Rust, the interpreter, C
//! and LLVM.

use half::{bf16, f16};
use tvm::prelude::*;
use tvm::target::TargetKind;

#[prim_func]
fn mandelbrot(cx: &Tensor<f32, n>, cy: &Tensor<f32, n>, count: &mut Tensor<i32, n>) {
    for i in 0..n {
        let mut x = 0.0f32;
        let mut y = 0.0f32;
        let mut steps = 0i32;
        while steps < 100 && x * x + y * y <= 4.0 {
            let t = x * x - y * y + cx[[i]];
            y = 2.0 * x * y + cy[[i]];
            x = t;
            steps += 1;
        }
        count[[i]] = steps;
    }
}

#[prim_func]
fn mixed<T: Element>(a: &Tensor<T, n>, b: &Tensor<T, n>, c: &Tensor<T, n>, y: &mut Tensor<T, 10, n>) {
    for i in 0..n {
        y[[0, i]] = a[[i]] * b[[i]] + c[[i]];
        y[[1, i]] = (a[[i]] + b[[i]]) + c[[i]] - a[[i]] * c[[i]];
        y[[2, i]] = max(a[[i]], b[[i]]);
        y[[3, i]] = min(a[[i]], b[[i]]);
        y[[4, i]] = fma(a[[i]], b[[i]], c[[i]]);
        y[[5, i]] = a[[i]] / b[[i]];
        y[[6, i]] = a[[i]] % b[[i]];
        y[[7, i]] = rsqrt(a[[i]]) * sqrt(b[[i]]);
        y[[8, i]] = floor(a[[i]]) + copysign(b[[i]], c[[i]]) - round(c[[i]]);
        y[[9, i]] = -a[[i]] * 0.1 + abs(b[[i]]) / 3.0;
    }
}

#[prim_func]
fn methods(a: &Tensor<f32, n>, b: &Tensor<f32, n>, y: &mut Tensor<f32, 8, n>) {
    for i in 0..n {
        y[[0, i]] = a[[i]].max(b[[i]]);
        y[[1, i]] = a[[i]].min(b[[i]]);
        y[[2, i]] = a[[i]].max(0.0);
        y[[3, i]] = max(a[[i]], 0.0);
        y[[4, i]] = max(-0.0, a[[i]]);
        y[[5, i]] = a[[i]].mul_add(b[[i]], 1.0);
        y[[6, i]] = (a[[i]] as f64 * b[[i]] as f64 + 1e-9) as f32;
        y[[7, i]] = (a[[i]] as i32) as f32 + (b[[i]] as u8) as f32 + (a[[i]] as i64) as f32;
    }
}

#[prim_func]
fn narrow(a: &Tensor<f64, n>, k: &Tensor<i64, n>, h: &mut Tensor<f16, 2, n>, b: &mut Tensor<bf16, 2, n>) {
    for i in 0..n {
        h[[0, i]] = a[[i]] as f16;
        h[[1, i]] = k[[i]] as f16;
        b[[0, i]] = a[[i]] as bf16;
        b[[1, i]] = k[[i]] as bf16;
    }
}

/// A sum in the order of the source text: it is not declared a reduction.
#[prim_func]
fn dot_in_order(a: &Tensor<f32, n>, b: &Tensor<f32, n>, y: &mut Tensor<f32, 1>) {
    let mut sum = 0.0f32;
    for i in 0..n {
        sum += a[[i]] * b[[i]];
    }
    y[[0]] = sum;
}

/// The same sum, declared a reduction.
#[prim_func]
fn dot(a: &Tensor<f32, n>, b: &Tensor<f32, n>, y: &mut Tensor<f32, 1>) {
    for [i, k] in grid([1, n]) {
        block("y", [S(i), R(k)], |[i, k]| {
            init(|| y[[i]] = 0.0);
            y[[i]] += a[[k]] * b[[k]];
        });
    }
}

fn targets() -> Vec<Target> {
    let mut kinds = vec![TargetKind::Interpreter, TargetKind::C];
    kinds.extend(cfg!(feature = "llvm").then_some(TargetKind::Llvm));
    kinds.into_iter().map(Target::native).collect()
}

/// Values that often break naive code, and random values of all magnitudes.
fn values(seed: u64, len: usize) -> Vec<f64> {
    const SPECIAL: [f64; 14] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.5,
        1e-40,
        -1e-45,
        65504.0,
        3.3e38,
        2147483648.0,
    ];
    let mut rng = tvm_testing::Rng::new(seed);
    let mut value = || match rng.next() % 4 {
        0 => SPECIAL[(rng.next() % 14) as usize],
        1 => f64::from(f32::from_bits(rng.next() as u32)),
        _ => (rng.next() >> 11) as f64 / (1u64 << 53) as f64 * 8.0 - 4.0,
    };
    (0..len).map(|_| value()).collect()
}

/// The bits of a number; all NaNs have the same ones.
trait Bits: Copy {
    fn bits(self) -> u64;
}

macro_rules! bits {
    ($($ty:ty)*) => {
        $(impl Bits for $ty {
            fn bits(self) -> u64 {
                if self.is_nan() { u64::MAX } else { self.to_bits().into() }
            }
        })*
    };
}

bits! { f32 f64 f16 bf16 }

fn assert_bits<T: Bits + std::fmt::Debug>(got: &[T], want: &[T], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(got.bits() == want.bits(), "{what}: element {i} is {got:?}, expected {want:?}");
    }
}

#[test]
fn a_float_loop_takes_the_same_decisions_everywhere() {
    // Around c = -i, the orbit stays bounded only if each product is rounded.
    let cx: Vec<f32> = (0..200).map(|i| i as f32 * 1e-8 - 1e-6).chain([0.0, -0.75, 0.3]).collect();
    let cy: Vec<f32> = cx.iter().map(|x| -1.0 - x / 3.0).collect();
    let mut want = vec![0i32; cx.len()];
    mandelbrot::reference(&cx, &cy, &mut want).unwrap();
    assert!(want.contains(&100));
    for target in targets() {
        let mut got = vec![0i32; cx.len()];
        mandelbrot::compile(&target).unwrap().call(&cx, &cy, &mut got).unwrap();
        assert_eq!(got, want, "{target}");
    }
}

macro_rules! same_bits_of {
    ($ty:ty, $convert:expr, $seed:expr) => {{
        let n = 203;
        let [a, b, c] =
            [1, 2, 3].map(|k| values($seed * 10 + k, n).into_iter().map($convert).collect::<Vec<$ty>>());
        let zeros = || tvm::ndarray::Array2::<$ty>::from_elem((10, n), $convert(0.0));
        let mut want = zeros();
        mixed::<$ty>::reference(&a, &b, &c, &mut want).unwrap();
        for target in targets() {
            let mut got = zeros();
            mixed::<$ty>::compile(&target).unwrap().call(&a, &b, &c, &mut got).unwrap();
            let what = format!("{} on {target}", stringify!($ty));
            assert_bits(got.as_slice().unwrap(), want.as_slice().unwrap(), &what);
        }
    }};
}

#[test]
fn operations_have_the_same_bits_everywhere() {
    same_bits_of!(f32, |x: f64| x as f32, 1);
    same_bits_of!(f64, |x: f64| x, 2);
    same_bits_of!(f16, f16::from_f64, 3);
    same_bits_of!(bf16, bf16::from_f64, 4);
}

#[test]
fn methods_and_casts_have_the_same_bits_everywhere() {
    let n = 203;
    let [a, b] = [8, 9].map(|seed| values(seed, n).into_iter().map(|x| x as f32).collect::<Vec<f32>>());
    let zeros = || tvm::ndarray::Array2::<f32>::zeros((8, n));
    let mut want = zeros();
    methods::reference(&a, &b, &mut want).unwrap();
    for target in targets() {
        let mut got = zeros();
        methods::compile(&target).unwrap().call(&a, &b, &mut got).unwrap();
        assert_bits(got.as_slice().unwrap(), want.as_slice().unwrap(), &target.to_string());
    }
}

#[test]
fn half_precision_is_rounded_once() {
    // Slightly above the middle between two short floats; rounded to `f32`, exactly the middle.
    let mut a: Vec<f64> = [11, 8].map(|bits| 1.0 + 2f64.powi(-bits) + 2f64.powi(-40)).into();
    a.extend(values(5, 198));
    let mut rng = tvm_testing::Rng::new(6);
    let mut k: Vec<i64> = (0..a.len()).map(|_| rng.next() as i64 >> (rng.next() % 60)).collect();
    k[0] = (1 << 24) + (1 << 16) + 1;
    let zeros = || {
        let shape = (2, a.len());
        (
            tvm::ndarray::Array2::from_elem(shape, f16::ZERO),
            tvm::ndarray::Array2::from_elem(shape, bf16::ZERO),
        )
    };
    let mut want = zeros();
    narrow::reference(&a, &k, &mut want.0, &mut want.1).unwrap();
    assert_eq!(want.0[[0, 0]].to_f64(), 1.0 + 2f64.powi(-10));
    for target in targets() {
        let mut got = zeros();
        narrow::compile(&target).unwrap().call(&a, &k, &mut got.0, &mut got.1).unwrap();
        assert_bits(got.0.as_slice().unwrap(), want.0.as_slice().unwrap(), &format!("f16 on {target}"));
        assert_bits(got.1.as_slice().unwrap(), want.1.as_slice().unwrap(), &format!("bf16 on {target}"));
    }
}

#[test]
fn only_declared_reductions_are_contracted() {
    let [a, b] = [21, 22].map(|seed| {
        let mut rng = tvm_testing::Rng::new(seed);
        (0..1000).map(|_| (rng.next() >> 40) as f32 / 1e6 - 8.0).collect::<Vec<f32>>()
    });
    let mut want = [0.0f32];
    dot_in_order::reference(&a, &b, &mut want).unwrap();
    for target in targets() {
        let mut got = [0.0f32];
        dot_in_order::compile(&target).unwrap().call(&a, &b, &mut got).unwrap();
        assert_bits(&got, &want, &format!("in order on {target}"));
        dot::compile(&target).unwrap().call(&a, &b, &mut got).unwrap();
        assert!((got[0] - want[0]).abs() <= 1e-3 * want[0].abs().max(1.0), "{target}: {got:?} {want:?}");
    }
    let source = |func: &tvm::tir::PrimFunc| {
        let module = tvm::ir::IRModule::from_prim_func(func.clone());
        let source = tvm::codegen::emit(&module, &Target::c(), tvm::codegen::EmitKind::C).unwrap();
        let source = String::from_utf8(source).unwrap();
        source[source.find("tvm_abi_version").unwrap()..].contains("tvm_fmuladd_f32(")
    };
    assert!(source(&dot::prim_func().unwrap()), "a reduction may be fused");
    assert!(!source(&dot_in_order::prim_func().unwrap()), "what is none may not");
    let mut s = Schedule::new(dot::prim_func().unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [_, k] = s.loops(y).unwrap();
    s.decompose_reduction(y, k).unwrap();
    assert!(source(&s.into_func()), "nor does a schedule take that away");
}

#[prim_func]
fn product(a: &Tensor<f32, 64, 64>, b: &Tensor<f32, 64, 64>, c: &mut Tensor<f32, 64, 64>) {
    for [i, j, k] in grid([64, 64, 64]) {
        block("C", [S(i), S(j), R(k)], |[i, j, k]| {
            init(|| c[[i, j]] = 0.0);
            c[[i, j]] += a[[i, k]] * b[[k, j]];
        });
    }
}

/// On machines with fused instructions, the updates of scheduled reductions are single instructions, and no other
/// operation is fused.
#[test]
#[cfg(target_arch = "x86_64")]
fn scheduled_reductions_are_fused_instructions() {
    let mut s = Schedule::new(product::prim_func().unwrap()).unwrap();
    let c = s.block("C").unwrap();
    let [i, j, k] = s.loops(c).unwrap();
    let [j0, j1] = s.split(j, [None, Some(8)]).unwrap();
    s.reorder([i, j0, k, j1]).unwrap();
    s.vectorize(j1).unwrap();
    s.decompose_reduction(c, k).unwrap();
    let fused = |func: &tvm::tir::PrimFunc, target: &str| {
        let module = tvm::ir::IRModule::from_prim_func(func.clone());
        let target = target.parse().unwrap();
        let text = tvm::codegen::emit(&module, &target, tvm::codegen::EmitKind::Asm).unwrap();
        let text = String::from_utf8(text).unwrap();
        let packed = text.lines().any(|line| line.contains("vfmadd") && line.contains("ps"));
        (packed, text.contains("vfmadd"))
    };
    let product = s.into_func();
    for kind in ["c"].into_iter().chain(cfg!(feature = "llvm").then_some("llvm")) {
        assert!(fused(&product, &format!("{kind} -mcpu=x86-64-v3")).0, "{kind}");
        assert!(!fused(&product, &format!("{kind} -mcpu=x86-64-v2")).1, "{kind}");
        assert!(fused(&dot::prim_func().unwrap(), &format!("{kind} -mcpu=x86-64-v3")).1, "{kind}");
        let in_order = dot_in_order::prim_func().unwrap();
        assert!(!fused(&in_order, &format!("{kind} -mcpu=x86-64-v3")).1, "{kind}");
    }
}

#[prim_func]
fn wraps(a: &Tensor<i32, n>, b: &Tensor<i32, n>, y: &mut Tensor<i32, 5, n>, z: &mut Tensor<u8, n>) {
    for i in 0..n {
        y[[0, i]] = a[[i]] + b[[i]];
        y[[1, i]] = a[[i]] * b[[i]] - 7;
        y[[2, i]] = -a[[i]];
        y[[3, i]] = a[[i]].abs();
        y[[4, i]] = a[[i]];
        y[[4, i]] -= b[[i]];
        let low = a[[i]] as u8;
        z[[i]] = low * 3 + 200;
    }
}

/// Rust's own operators panic on overflow in debug builds.
#[test]
fn integers_wrap_in_the_shadow_too() {
    let (a, b) = ([i32::MAX, i32::MIN, 5, -1], [1, -1, i32::MIN, i32::MIN]);
    let zeros = || (tvm::ndarray::Array2::<i32>::zeros((5, 4)), vec![0u8; 4]);
    let mut want = zeros();
    wraps::reference(&a, &b, &mut want.0, &mut want.1).unwrap();
    for i in 0..4 {
        let (a, b) = (a[i], b[i]);
        let column =
            [a.wrapping_add(b), a.wrapping_mul(b).wrapping_sub(7), a.wrapping_neg(), a.wrapping_abs()];
        assert_eq!(want.0.column(i).to_vec(), [&column[..], &[a.wrapping_sub(b)]].concat());
        assert_eq!(want.1[i], (a as u8).wrapping_mul(3).wrapping_add(200));
    }
    for target in targets() {
        let mut got = zeros();
        wraps::compile(&target).unwrap().call(&a, &b, &mut got.0, &mut got.1).unwrap();
        assert_eq!(got, want, "{target}");
    }
}
