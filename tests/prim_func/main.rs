//! Kernels written with `#[prim_func]`: the IR that they build, and agreement of shadow, interpreter and compiled code.

mod accepted;
mod assertions;
mod attributes;
mod bounds;
mod c_functions;
mod calls;
mod checks;
mod floats;
mod init_conditions;
#[path = "../fuzz/kernels/inits.rs"]
mod inits;
mod inlining;
mod kernels;
mod literals;
mod match_buffer;
mod memory;
mod parts;
mod places;
mod private_buffers;
mod reductions;
mod rust_semantics;
mod schedules;
mod sized;
mod sparse;
mod structure;
mod tables;
mod tensorize;
mod threads;
mod values;
mod wrapping;

use tvm::prelude::*;
use tvm::target::TargetKind;

/// The executors that every kernel runs on in addition to its shadow.
fn targets() -> [Target; 2] {
    [Target::native(TargetKind::Interpreter), Target::host()]
}

/// Tolerance for contraction: a compiler may fuse the products and sums of declared reductions.
const CONTRACTION: f64 = 1e-6;

/// Runs a kernel as plain Rust and compiled, and compares the outputs.
///
/// `agree!(kernel(inputs..) -> output, tolerance)`: `output` is an expression for the initial value of the output.
#[macro_export]
macro_rules! agree {
    ($kernel:ty, ($($arg:expr),*) -> $out:expr, $tolerance:expr) => {{
        let mut expected = $out.clone();
        <$kernel>::reference($($arg,)* &mut expected).unwrap();
        for target in $crate::targets() {
            let mut got = $out.clone();
            let f = <$kernel>::compile(&target).unwrap_or_else(|err| panic!("{target}: {err}"));
            f.call($($arg,)* &mut got).unwrap();
            let contraction = if f.kernel().is_native() { $crate::CONTRACTION } else { 0.0 };
            let tolerance = f64::max($tolerance, contraction);
            for (i, (got, expected)) in got.iter().zip(expected.iter()).enumerate() {
                let close = $crate::close((*got).into(), (*expected).into(), tolerance);
                assert!(close, "{target}: element {i} is {got:?}, expected {expected:?}");
            }
        }
        expected
    }};
}

/// Equal up to a relative tolerance; NaN equals NaN.
fn close(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
}

/// Pseudo-random numbers between -1 and 1.
fn data(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(next).collect()
}

/// A matrix of pseudo-random numbers between -1 and 1.
fn matrix(rows: usize, columns: usize, seed: u64) -> ndarray::Array2<f32> {
    ndarray::Array2::from_shape_vec((rows, columns), data(rows * columns, seed))
        .expect("one number per element")
}
