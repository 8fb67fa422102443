//! Tests of kernels that the build script compiled: each CPU level that this machine has is run, and compared with the same
//! arithmetic in Rust.
#![allow(clippy::unwrap_used, reason = "tests")]

use tvm_runtime::{RuntimeError, SerialPool, cpu_features, level_features};

tvm_runtime::include_kernel!("normalize");
tvm_runtime::include_kernel!("blend_c");
#[cfg(feature = "llvm")]
tvm_runtime::include_kernel!("blend_llvm");

const LEVELS: [&str; 3] = ["x86-64", "x86-64-v3", "x86-64-v4"];

/// The levels that this machine has; `None` is the choice of the wrapper.
fn levels() -> Vec<Option<&'static str>> {
    let has = cpu_features();
    let on_x86 = LEVELS.into_iter().filter(|_| cfg!(target_arch = "x86_64"));
    let there = on_x86.filter(|level| level_features(level).unwrap().iter().all(|it| has.contains(it)));
    [None].into_iter().chain(there.map(Some)).collect()
}

#[test]
fn images_are_normalized() {
    let pixels = ndarray::Array3::from_shape_fn((5, 8, 8), |(b, i, j)| ((b * 7 + i * 3 + j) % 17) as u8);
    let expected = pixels.mapv(|it| f32::from(it) / 16.0).into_shape_with_order((5, 1, 8, 8)).unwrap();
    for level in levels() {
        let kernel = Normalize::with_cpu_level(level).unwrap();
        let mut image = ndarray::Array4::<f32>::zeros((5, 1, 8, 8));
        kernel.call(&pixels, &mut image).unwrap();
        assert_eq!(image, expected, "{level:?}");
        let best = levels().last().copied().flatten();
        assert_eq!(kernel.cpu_level(), level.or(best));
    }
}

/// Checks a kernel of `a * weight + b` on rows of 4.
fn check(call: impl Fn(&ndarray::Array2<f32>, f32, &ndarray::Array2<f32>, &mut ndarray::Array2<f32>)) {
    for rows in [0, 1, 3, 64] {
        let value = |seed: usize| move |(i, j): (usize, usize)| ((i * 31 + j * 7) * seed % 101) as f32 / 8.0;
        let a = ndarray::Array2::from_shape_fn((rows, 4), value(3));
        let b = ndarray::Array2::from_shape_fn((rows, 4), value(5));
        let mut y = ndarray::Array2::from_elem((rows, 4), f32::NAN);
        call(&a, 0.25, &b, &mut y);
        // The values are small multiples of powers of two: there is no rounding.
        assert_eq!(y, a * 0.25 + b);
    }
}

#[test]
fn a_schedule_through_c() {
    for level in levels() {
        let kernel = BlendC::with_cpu_level(level).unwrap();
        check(|a, weight, b, y| kernel.call(a, weight, b, y).unwrap());
    }
}

#[test]
#[cfg(feature = "llvm")]
fn a_schedule_through_llvm() {
    for level in levels() {
        let kernel = BlendLlvm::with_cpu_level(level).unwrap();
        check(|a, weight, b, y| kernel.call(a, weight, b, y).unwrap());
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let kernel = BlendC::new().unwrap();
    let (a, b) = (ndarray::Array2::<f32>::zeros((3, 4)), ndarray::Array2::<f32>::zeros((2, 4)));
    let mut y = ndarray::Array2::<f32>::zeros((3, 4));
    let err = kernel.call(&a, 1.0, &b, &mut y).unwrap_err();
    assert!(
        matches!(&err, RuntimeError::ArgExtent { func, arg, .. } if &**func == "blend" && &**arg == "b"),
        "{err}"
    );
    let err = BlendC::with_cpu_level(Some("x86-64-v2")).unwrap_err();
    assert!(matches!(&err, RuntimeError::CpuLevel { level, .. } if level == "x86-64-v2"), "{err}");
    assert_eq!(BlendC::BACKEND, "c");
}

#[test]
fn kernels_are_shared_by_threads() {
    let kernel = BlendC::new().unwrap();
    std::thread::scope(|scope| {
        (0..4).for_each(|_| {
            scope.spawn(|| check(|a, weight, b, y| kernel.call(a, weight, b, y).unwrap()));
        });
    });
    let own = kernel.function().clone().with_pool(std::sync::Arc::new(SerialPool));
    check(|a, weight, b, y| own.call(a, weight, b, y).unwrap());
}
