//! C functions in kernels: `unsafe { f(x) }`, with a promise of whoever compiles the kernel.

use tvm::pass::PassContext;
use tvm::prelude::*;
use tvm::runtime::Trust;
use tvm::target::TargetKind;

mod c {
    unsafe extern "C" {
        pub(super) fn cbrtf(x: f32) -> f32;
        pub(super) fn exp(x: f64) -> f64;
        pub(super) fn labs(x: i64) -> i64;
    }
}

/// Declared here, called in loops, blocks, arguments and operands.
#[prim_func]
fn roots(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    unsafe extern "C" {
        fn hypotf(x: f32, y: f32) -> f32;
        fn cbrtf(x: f32) -> f32;
    }
    for i in 0..n {
        let t = unsafe { cbrtf(x[[i]]) };
        y[[i]] = unsafe { hypotf(t + 1.0, unsafe { cbrtf(2.0) }) } * 0.5 + t;
    }
}

/// Declared elsewhere, called by their paths, also where a function of kernels has the name.
#[prim_func]
fn of_module(x: &Tensor<f64, n>, k: &Tensor<i64, n>, y: &mut Tensor<f64, n>) {
    for i in 0..n {
        block("y", [S(i)], |[vi]| {
            y[[vi]] = unsafe { c::exp(-x[[vi]]) } + exp(x[[vi]]) + (unsafe { c::labs(k[[vi]] - 3) }) as f64;
        });
    }
}

fn trusted(symbols: &[&str]) -> PassContext {
    let trust = symbols.iter().fold(Trust::none(), |trust, symbol| {
        // SAFETY: the functions are those of the C library, with the types of its headers.
        unsafe { trust.extern_function(symbol) }
    });
    PassContext::new().configure(|config| config.trust = trust)
}

#[test]
fn compiled_kernels_call_c_functions() {
    let x: Vec<f32> = (0..19).map(|i| i as f32 * 0.7 - 5.0).collect();
    let f = trusted(&["hypotf", "cbrtf"]).scope(|| roots::compile(&Target::host())).unwrap();
    let (mut y, mut want) = (vec![0f32; 19], vec![0f32; 19]);
    f.call(&x, &mut y).unwrap();
    roots(&x, &mut want).unwrap();
    // The C library and the compiler that folds a constant call may round differently.
    for ((y, want), x) in y.iter().zip(&want).zip(&x) {
        let t = f64::from(*x).cbrt();
        let exact = (t + 1.0).hypot(2f64.cbrt()) * 0.5 + t;
        assert!(crate::close(f64::from(*y), exact, 1e-6), "{y} {exact}");
        assert!(crate::close(f64::from(*want), exact, 1e-6), "{want} {exact}");
    }

    let (x, k) = (vec![0.5f64, -1.0, 2.0], vec![-4i64, 3, i64::from(i32::MAX)]);
    let f = trusted(&["exp", "labs"]).scope(|| of_module::compile(&Target::host())).unwrap();
    let (mut y, mut want) = (vec![0f64; 3], vec![0f64; 3]);
    f.call(&x, &k, &mut y).unwrap();
    of_module(&x, &k, &mut want).unwrap();
    for (y, want) in y.iter().zip(&want) {
        assert!((y - want).abs() <= 1e-12 * want.abs(), "{y} {want}");
    }
}

#[test]
fn a_c_function_needs_a_promise() {
    let err = roots::compile(&Target::host()).unwrap_err().to_string();
    for part in [
        "`roots` calls the C function `cbrtf`, for which nobody vouches",
        "Trust::extern_function",
        "c_functions.rs:24",
    ] {
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn the_interpreter_has_no_c_functions() {
    let target = Target::native(TargetKind::Interpreter);
    let f = trusted(&["hypotf", "cbrtf"]).scope(|| roots::compile(&target)).unwrap();
    let err = f.call(&[1f32], &mut [0f32]).unwrap_err().to_string();
    assert!(err.contains("`cbrtf`") && err.contains("exist only on a target"), "{err}");
}

mod other {
    unsafe extern "C" {
        #[allow(clashing_extern_declarations, reason = "the types of one symbol are compared")]
        pub(super) fn cbrtf(x: f64) -> f64;
    }
}

/// One symbol with two types.
#[prim_func]
fn two_types(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = (unsafe { c::cbrtf(x[[i]]) }) + (unsafe { other::cbrtf(x[[i]] as f64) }) as f32;
    }
}

#[test]
fn a_c_function_has_one_type() {
    let err = trusted(&["cbrtf"]).scope(|| two_types::compile(&Target::host())).unwrap_err().to_string();
    let want = "`two_types` calls the C function `cbrtf` as (f64) -> f64, another call is of (f32) -> f32";
    assert!(err.contains(want), "{err}");
    let err = two_types::prim_func().unwrap().source().unwrap_err().to_string();
    assert!(err.contains("called as a function of several types"), "{err}");
}
