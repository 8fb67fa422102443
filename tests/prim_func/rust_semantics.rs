//! Kernels behave as their text does in Rust: guarded expressions are not evaluated, methods are Rust's, extents may be
//! expressions.

use ndarray::{Array1, Array2, array};
use tvm::prelude::*;

use crate::agree;

#[prim_func]
fn guarded(x: &Tensor<i32, n>, d: &Tensor<i32, n>, y: &mut Tensor<i32, n>) {
    for i in 0..n {
        if d[[i]] != 0 && x[[i]] / d[[i]] > 2 {
            y[[i]] = 1;
        } else if d[[i]] == 0 || x[[i]] % d[[i]] == 1 {
            y[[i]] = 2;
        } else {
            y[[i]] = 3;
        }
    }
}

#[prim_func]
fn first_negative(x: &Tensor<f32, n>, y: &mut Tensor<i32, 1>) {
    let mut i = 0;
    while i < n && x[[i]] >= 0.0 {
        i += 1;
    }
    y[[0]] = i as i32;
}

#[test]
fn the_right_side_is_evaluated_where_the_left_does_not_decide() {
    let (x, d) = (array![7, 1, -9, 5, 10, 4], array![0, 3, 2, 0, 3, -1]);
    assert_eq!(agree!(guarded, (&x, &d) -> Array1::<i32>::zeros(6), 0.0), array![2, 2, 3, 2, 1, 3]);
    let got = agree!(first_negative, (&array![1.0f32, 2.0]) -> Array1::<i32>::zeros(1), 0.0);
    assert_eq!(got, array![2]);
}

#[prim_func]
fn quotients(x: &Tensor<i32, n>, d: &Tensor<i32, n>, q: &mut Tensor<i32, n>, r: &mut Tensor<i32, n>) {
    for i in 0..n {
        q[[i]] = x[[i]] / d[[i]];
        r[[i]] = x[[i]] % d[[i]];
    }
}

/// Rust panics and the interpreter reports an error; machine code continues.
#[test]
fn compiled_division_does_not_trap() {
    let (x, d) = (array![7, i32::MIN, -7], array![0, -1, 2]);
    let f = quotients::compile(&Target::host()).unwrap();
    let (mut q, mut r) = (Array1::<i32>::ones(3), Array1::<i32>::ones(3));
    f.call(&x, &d, &mut q, &mut r).unwrap();
    assert_eq!((q, r), (array![0, i32::MIN, -3], array![0, 0, -1]));
    let f = quotients::compile(&Target::interpreter()).unwrap();
    let (mut q, mut r) = (Array1::<i32>::ones(3), Array1::<i32>::ones(3));
    let text = f.call(&x, &d, &mut q, &mut r).unwrap_err().to_string();
    assert!(text.contains("integer division by zero"), "{text}");
}

#[prim_func]
fn clamped<T: Element>(x: &Tensor<T, n>, low: &Tensor<T, n>, y: &mut Tensor<T, n>) {
    for i in 0..n {
        y[[i]] = x[[i]].max(low[[i]]).min(x[[i]]);
    }
}

#[prim_func]
fn relu_and_larger(x: &Tensor<f32, n>, z: &Tensor<f32, n>, y: &mut Tensor<f32, n>, w: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]].max(0.0);
        w[[i]] = max(x[[i]], z[[i]]);
    }
}

#[test]
fn methods_ignore_nan_and_functions_keep_it() {
    let (x, z) = (array![f32::NAN, 1.0, 2.0, -1.0], array![1.0, f32::NAN, 0.0f32, -2.0]);
    assert_eq!(agree!(clamped::<f32>, (&x, &z) -> Array1::<f32>::zeros(4), 0.0), array![1.0, 1.0, 2.0, -1.0]);
    let half = |it: &Array1<f32>| it.mapv(f16::from_f32);
    agree!(clamped::<f16>, (&half(&x), &half(&z)) -> Array1::<f16>::zeros(4), 0.0);
    agree!(clamped::<i8>, (&array![1i8, -2], &array![3i8, -4]) -> Array1::<i8>::zeros(2), 0.0);
    let mut y = Array1::<f32>::ones(4);
    let got = agree!(relu_and_larger, (&x, &z, &mut y) -> Array1::<f32>::zeros(4), 0.0);
    assert_eq!(y, array![0.0, 1.0, 2.0, 0.0]);
    assert!(got[0].is_nan() && got[1].is_nan() && got[2] == 2.0);
}

#[prim_func]
fn pooled(
    x: &Tensor<f32, h, w>,
    y: &mut Tensor<f32, { h / 2 }, { (w + 2) / 3 }>,
    z: &mut Tensor<f32, { min(h, w) % 4 }>,
) {
    for [i, j] in grid([h / 2, (w + 2) / 3]) {
        y[[i, j]] = x[[2 * i, 3 * j]] + x[[2 * i + 1, 3 * j]];
    }
    for i in 0..min(h, w) % 4 {
        z[[i]] = x[[i, i]];
    }
}

#[test]
fn extents_are_quotients_and_minima() {
    let x = Array2::from_shape_fn((5, 4), |(i, j)| (i * 4 + j) as f32);
    for target in crate::targets() {
        let f = pooled::compile(&target).unwrap();
        let (mut y, mut z) = (Array2::<f32>::zeros((2, 2)), Array1::<f32>::zeros(0));
        f.call(&x, &mut y, &mut z).unwrap();
        assert_eq!(y, array![[4.0, 10.0], [20.0, 26.0]], "{target}");
        let text = f.call(&x, &mut Array2::<f32>::zeros((3, 2)), &mut z).unwrap_err().to_string();
        assert_eq!(text, "`pooled`: argument `y`: axis 0 is 3, expected 2 (= h / 2)", "{target}");
    }
}

const NEGATIVE: i64 = -1;

#[prim_func]
fn negative(y: &mut Tensor<f32, NEGATIVE>) {
    y[[0]] = 0.0;
}

#[test]
fn extents_are_not_negative() {
    let text = negative::prim_func().unwrap_err().to_string();
    assert!(text.contains("an extent of `y` is -1"), "{text}");
}

#[prim_func]
fn ranges(x: &Tensor<f32, n>, k: i32, y: &mut Tensor<f32, n>, s: &mut Tensor<i32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        for d in -1..2 {
            let at = i as i64 + d;
            if at >= 0 && at < n as i64 {
                y[[i]] += x[[at as usize]] * (d + 2) as f32;
            }
        }
        s[[i]] = 0;
        for j in -k..k {
            s[[i]] += j / 2 + j.wrapping_mul(j);
        }
    }
}

#[test]
fn loops_count_in_the_type_of_their_range() {
    let x = array![1.0f32, 2.0, 4.0];
    let mut y = Array1::<f32>::zeros(3);
    let s = agree!(ranges, (&x, 3, &mut y) -> Array1::<i32>::zeros(3), 0.0);
    assert_eq!((y, s[0]), (array![8.0, 17.0, 10.0], 18));
}

#[prim_func]
fn differences(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = if i - 1 < n { x[[i]] } else { 0.0 };
    }
}

#[prim_func]
fn shrinking(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        let mut at = i;
        at -= 1;
        y[[i]] = if at < 1 { 1.0 } else { x[[at]] };
    }
}

/// Rust's operators check this in debug builds only, so the plain Rust form would differ from the kernel in release builds.
#[test]
fn plain_rust_has_no_index_below_0() {
    let x = [1.0f32, 2.0, 3.0];
    let mut y = [0.0f32; 3];
    for text in [
        differences::reference(&x, &mut y).unwrap_err().to_string(),
        shrinking::reference(&x, &mut y).unwrap_err().to_string(),
    ] {
        assert!(text.contains("the index 0 - 1 is below 0"), "{text}");
    }
    for target in crate::targets() {
        differences::compile(&target).unwrap().call(&x, &mut y).unwrap();
        assert_eq!(y, x, "{target}");
        shrinking::compile(&target).unwrap().call(&x, &mut y).unwrap();
        assert_eq!(y, [1.0, 1.0, 2.0], "{target}");
    }
}
