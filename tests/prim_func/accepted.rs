//! Schedules as users write them are accepted, and compute the same on symbolic shapes.

use ndarray::Array2;
use tvm::prelude::*;
use tvm::script::{CheckError, check_schedule};

use crate::targets;

#[prim_func]
fn softmax(x: &Tensor<f32, n, m>, y: &mut Tensor<f32, n, m>) {
    let mut largest = alloc::<f32>([n]);
    let mut e = alloc::<f32>([n, m]);
    let mut sum = alloc::<f32>([n]);
    for [i, j] in grid([n, m]) {
        block("largest", [S(i), R(j)], |[vi, vj]| {
            init(|| largest[[vi]] = f32::NEG_INFINITY);
            largest[[vi]] = max(largest[[vi]], x[[vi, vj]]);
        });
    }
    for [i, j] in grid([n, m]) {
        block("e", [S(i), S(j)], |[vi, vj]| {
            e[[vi, vj]] = (x[[vi, vj]] - largest[[vi]]).exp();
        });
    }
    for [i, j] in grid([n, m]) {
        block("sum", [S(i), R(j)], |[vi, vj]| {
            init(|| sum[[vi]] = 0.0);
            sum[[vi]] += e[[vi, vj]];
        });
    }
    for [i, j] in grid([n, m]) {
        block("y", [S(i), S(j)], |[vi, vj]| {
            y[[vi, vj]] = e[[vi, vj]] / sum[[vi]];
        });
    }
}

#[prim_func]
fn matmul(a: &Tensor<f32, n, k>, b: &Tensor<f32, k, m>, c: &mut Tensor<f32, n, m>) {
    for [i, j, l] in grid([n, m, k]) {
        block("C", [S(i), S(j), R(l)], |[vi, vj, vl]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vl]] * b[[vl, vj]];
        });
    }
}

#[prim_func]
fn blur(x: &Tensor<f32, { n + 2 }, { m + 2 }>, y: &mut Tensor<f32, n, m>) {
    let mut t = alloc::<f32>([n + 2, m]);
    for [i, j] in grid([n + 2, m]) {
        t[[i, j]] = x[[i, j]] + x[[i, j + 1]] + x[[i, j + 2]];
    }
    for [i, j] in grid([n, m]) {
        y[[i, j]] = t[[i, j]] + t[[i + 1, j]] + t[[i + 2, j]];
    }
}

#[prim_func]
fn transpose(x: &Tensor<f32, n, m>, y: &mut Tensor<f32, m, n>) {
    for [i, j] in grid([n, m]) {
        y[[j, i]] = x[[i, j]];
    }
}

/// The result depends on the order of the elements in a row.
#[prim_func]
fn argmax(x: &Tensor<f32, n, m>, at: &mut Tensor<i64, n>, v: &mut Tensor<f32, n>) {
    for [i, j] in grid([n, m]) {
        block("at", [S(i), R(j)], |[vi, vj]| {
            init(|| {
                at[[vi]] = 0;
                v[[vi]] = f32::NEG_INFINITY;
            });
            if x[[vi, vj]] > v[[vi]] {
                at[[vi]] = vj as i64;
                v[[vi]] = x[[vi, vj]];
            }
        });
    }
}

/// Writes only the inner elements; there may be none.
#[prim_func]
fn inner(x: &Tensor<f32, n, m>, y: &mut Tensor<f32, n, m>) {
    for [i, j] in grid([n - 4, m - 4]) {
        block("y", [S(i + 2), S(j + 2)], |[vi, vj]| {
            y[[vi, vj]] = x[[vi, vj]];
        });
    }
}

#[prim_func(dims(n = 4.., m = 4..))]
fn inner_of_some(x: &Tensor<f32, n, m>, y: &mut Tensor<f32, n, m>) {
    for [i, j] in grid([n - 4, m - 4]) {
        block("y", [S(i + 2), S(j + 2)], |[vi, vj]| {
            y[[vi, vj]] = x[[vi, vj]];
        });
    }
}

/// Asserts that `change` is accepted and that the scheduled kernel is equivalent.
macro_rules! accepted {
    ($kernel:ident, |$s:ident| $change:expr) => {
        if let Err(err) = checked!($kernel, |$s| $change) {
            panic!("{}: {err}", stringify!($change));
        }
    };
}

macro_rules! checked {
    ($kernel:ident, |$s:ident| $change:expr) => {
        check_schedule::<$kernel>(|func| {
            let mut schedule = Schedule::new(func)?;
            let change: fn(&mut Schedule) -> Result<(), ScheduleError> = |$s| $change;
            change(&mut schedule)?;
            Ok(schedule.into_func())
        })
    };
}

#[test]
fn rows_of_a_softmax() {
    accepted!(softmax, |s| {
        let y = s.block("y")?;
        let [i, j] = s.loops(y)?;
        let [outer, inner] = s.split(i, [None, Some(4)])?;
        for producer in ["sum", "e", "largest"] {
            let block = s.block(producer)?;
            s.compute_at(block, outer)?;
        }
        s.parallel(outer)?;
        let [_, lanes] = s.split(j, [None, Some(8)])?;
        s.vectorize(lanes)?;
        s.unroll(inner)
    });
    accepted!(softmax, |s| {
        let sum = s.block("sum")?;
        let copy = s.cache_write(sum, 0, Scope::Local)?;
        let [i, j] = s.loops(sum)?;
        s.reverse_compute_at(copy, i)?;
        s.decompose_reduction(sum, j)?;
        s.parallel(i)
    });
}

#[test]
fn tiles_of_a_product() {
    accepted!(matmul, |s| {
        let c = s.block("C")?;
        let [i, j, k] = s.loops(c)?;
        let [io, ii] = s.split(i, [None, Some(4)])?;
        let [jo, ji] = s.split(j, [None, Some(16)])?;
        let [ko, ki] = s.split(k, [None, Some(8)])?;
        s.reorder([io, jo, ko, ki, ii, ji])?;
        let copy = s.cache_write(c, 0, Scope::Local)?;
        s.reverse_compute_at(copy, jo)?;
        s.decompose_reduction(c, ko)?;
        s.vectorize(ji)?;
        s.unroll(ii)?;
        let tiles = s.fuse([io, jo])?;
        s.parallel(tiles)
    });
    accepted!(matmul, |s| {
        let c = s.block("C")?;
        let [i, j, k] = s.loops(c)?;
        let [io, ii] = s.split(i, [None, Some(4)])?;
        let [jo, ji] = s.split(j, [None, Some(16)])?;
        s.reorder([io, jo, k, ii, ji])?;
        for (operand, at) in [(1, jo), (0, io)] {
            let copy = s.cache_read(c, operand, Scope::Global)?;
            s.compute_at(copy, at)?;
        }
        s.parallel(io)
    });
}

#[test]
fn tiles_with_a_halo() {
    accepted!(blur, |s| {
        let y = s.block("y")?;
        let [i, j] = s.loops(y)?;
        let [io, ii] = s.split(i, [None, Some(8)])?;
        let [jo, ji] = s.split(j, [None, Some(16)])?;
        s.reorder([io, jo, ii, ji])?;
        let t = s.block("t")?;
        s.compute_at(t, jo)?;
        let tiles = s.fuse([io, jo])?;
        s.parallel(tiles)?;
        s.vectorize(ji)
    });
}

#[test]
fn fused_loops_of_a_transposition() {
    accepted!(transpose, |s| {
        let y = s.block("y")?;
        let [i, j] = s.loops(y)?;
        let [io, ii] = s.split(i, [None, Some(8)])?;
        let [jo, ji] = s.split(j, [None, Some(8)])?;
        s.reorder([io, jo, ji, ii])?;
        let tiles = s.fuse([io, jo])?;
        s.parallel(tiles)?;
        s.vectorize(ii)
    });
    accepted!(transpose, |s| {
        let y = s.block("y")?;
        let [i, j] = s.loops(y)?;
        let elements = s.fuse([i, j])?;
        let [outer, lanes] = s.split(elements, [None, Some(8)])?;
        s.parallel(outer)?;
        s.vectorize(lanes)
    });
}

#[test]
fn rows_pass_a_loop_that_keeps_its_order() {
    accepted!(argmax, |s| {
        let at = s.block("at")?;
        let [i, j] = s.loops(at)?;
        s.reorder([j, i])
    });
    let err = checked!(argmax, |s| {
        let at = s.block("at")?;
        let [_, j] = s.loops(at)?;
        let [outer, inner] = s.split(j, [None, Some(4)])?;
        s.reorder([inner, outer])
    });
    assert!(matches!(err, Err(CheckError::Schedule(_))), "{err:?}");
}

/// Two loops with negative extents run zero times, but the product of their extents is positive.
#[test]
fn extents_that_may_be_negative() {
    let err = checked!(inner, |s| {
        let y = s.block("y")?;
        let [i, j] = s.loops(y)?;
        s.fuse([i, j]).map(drop)
    });
    let text = err.unwrap_err().to_string();
    assert!(text.contains("may both be negative") && text.contains("dims("), "{text}");
    accepted!(inner_of_some, |s| {
        let y = s.block("y")?;
        let [i, j] = s.loops(y)?;
        let elements = s.fuse([i, j])?;
        s.parallel(elements)
    });
}

#[prim_func]
fn products(x: &Tensor<f32, n, k>, w: &Tensor<f32, m, k>, y: &mut Tensor<f32, 1>) {
    for [i, j, l] in grid([n, m, k]) {
        block("y", [R(i), R(j), R(l)], |[vi, vj, vl]| {
            init(|| y[[0]] = 0.0);
            y[[0]] += x[[vi, vl]] * w[[vj, vl]];
        });
    }
}

#[schedule(products)]
fn one_loop(s: &mut Schedule) -> Result<(), ScheduleError> {
    let y = s.block("y")?;
    let [i, j, k] = s.loops(y)?;
    s.fuse([i, j, k]).map(drop)
}

/// The call checks that the product of dimensions fits.
#[test]
fn fused_extents_that_do_not_fit() {
    let empty = || Array2::<f32>::zeros((1 << 33, 0));
    for target in targets().into_iter().filter(|it| *it != Target::interpreter()) {
        let f = one_loop::compile(&target).unwrap();
        let mut y = [1.0f32];
        let err = f.call(&empty(), &empty(), &mut y).unwrap_err();
        assert!(matches!(err, RuntimeError::IndexOverflow { .. }), "{err}");
        f.call(&Array2::ones((3, 2)), &Array2::ones((5, 2)), &mut y).unwrap();
        assert_eq!(y, [30.0]);
    }
}

#[prim_func]
fn double(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * 2.0;
    }
}

/// Factors far beyond the extent: the analysis must know that quotients are small.
#[test]
fn large_factors_compile() {
    let mut s = Schedule::new(double::prim_func().unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [i] = s.loops(y).unwrap();
    let [_, middle, inner] = s.split(i, [Some(6), Some(1 << 20), None]).unwrap();
    s.fuse([middle, inner]).unwrap();
    tvm::codegen::lowered(&IRModule::from_prim_func(s.into_func()), &Target::host())
        .unwrap_or_else(|err| panic!("{err}"));
}
