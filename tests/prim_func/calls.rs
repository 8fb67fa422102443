//! Kernels that call other kernels and inline helpers.

use tvm::prelude::*;

use super::{data, matrix};
use ndarray::{Array1, Array2};

#[prim_func]
fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j, p] in grid([m, n, k]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func]
fn add_bias(x: &Tensor<f32, m, n>, b: &Tensor<f32, n>, y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        for j in 0..n {
            y[[i, j]] = x[[i, j]] + b[[j]];
        }
    }
}

/// Two dense layers: both have blocks of the same name, with buffers in between.
#[prim_func]
fn two_layers(
    x: &Tensor<f32, m, k>,
    w1: &Tensor<f32, k, h>,
    b1: &Tensor<f32, h>,
    w2: &Tensor<f32, h, n>,
    y: &mut Tensor<f32, m, n>,
) {
    let mut t = alloc::<f32>([m, h]);
    let mut r = alloc::<f32>([m, h]);
    matmul(x, w1, &mut t);
    add_bias(&t, b1, &mut r);
    for [i, j] in grid([m, h]) {
        block("C", [S(i), S(j)], |[vi, vj]| {
            t[[vi, vj]] = relu(r[[vi, vj]]);
        });
    }
    matmul(&t, w2, y);
}

#[prim_helper]
fn relu(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|it| it.to_bits()).collect()
}

#[test]
fn layers_agree() {
    for (m, k, h, n) in [(3, 5, 4, 2), (1, 1, 1, 1), (0, 3, 2, 2), (2, 0, 3, 4), (2, 3, 0, 1), (5, 4, 3, 0)] {
        let (x, w1, w2) = (matrix(m, k, 1), matrix(k, h, 2), matrix(h, n, 3));
        let b1 = Array1::from_vec(data(h, 4));
        let expected = (&x.dot(&w1) + &b1).mapv(|it| it.max(0.0)).dot(&w2);
        let y = Array2::<f32>::from_elem((m, n), 7.0);
        let got = crate::agree!(two_layers, (&x, &w1, &b1, &w2) -> y, 0.0);
        assert!((&got - &expected).iter().all(|it| it.abs() < 1e-4), "{m} {k} {h} {n}: {got} {expected}");
    }
}

#[test]
fn blocks_of_callees_are_scheduled() {
    let func = two_layers::prim_func().unwrap();
    let mut s = Schedule::new(func).unwrap();
    for name in ["C_1", "r", "C", "C_2"] {
        let block = s.get_block(name).unwrap_or_else(|err| panic!("{name}: {err}\n{}", s.func()));
        let loops = s.get_loops(block).unwrap();
        let [_, inner] = s.split(loops[1], [None, Some(2)]).unwrap();
        if name != "C" {
            s.parallel(loops[0]).unwrap();
        }
        let _ = inner;
    }
}

#[prim_func]
fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

#[prim_func]
fn shift(s: f32, y: &mut Tensor<f32, n>) {
    let mut t = alloc::<f32>([n]);
    for i in 0..n {
        t[[i]] = y[[i]];
    }
    for i in 0..n {
        y[[i]] = t[[n - 1 - i]] + s;
    }
}

/// Calls in loops and under conditions that read memory, with scalar arguments that read memory.
#[prim_func]
fn in_control_flow(x: &Tensor<f32, n>, times: &Tensor<i32, 1>, y: &mut Tensor<f32, n>) {
    scale(&x, x[[0]] + 1.0, &mut y);
    for t in 0..times[[0]] as usize {
        if x[[t % n]] > 0.0 {
            shift((t as f32) * 0.5, y);
        } else {
            scale(x, y[[0]], y);
        }
    }
}

#[test]
fn calls_in_control_flow_agree() {
    for n in [1, 2, 7] {
        let x = Array1::from_vec(data(n, 11));
        for times in [0, 1, 5] {
            let times = Array1::from_vec(vec![times]);
            crate::agree!(in_control_flow, (&x, &times) -> Array1::<f32>::zeros(n), 0.0);
        }
    }
}

/// `0.5 x (1 + tanh(...))`
#[prim_helper]
fn gelu(x: f32) -> f32 {
    let inner = C * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + tanh(inner))
}

const C: f32 = 0.797_884_6;

#[prim_helper]
fn nested(x: f32, limit: f32) -> f32 {
    let y = if x > limit {
        let over = x - limit;
        limit + twice(over).min(1.0)
    } else {
        twice(twice(twice(twice(x))))
    };
    y * y
}

#[prim_helper]
fn twice(x: f32) -> f32 {
    x + x
}

#[prim_helper]
fn clamped(i: i64, n: usize) -> usize {
    if i < 0 {
        0
    } else if i >= n as i64 {
        n - 1
    } else {
        i as usize
    }
}

#[prim_helper]
fn sum_of_squares<T: Element>(a: T, b: T) -> T {
    a * a + b * b
}

#[prim_func]
fn helpers(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        let left = clamped(i as i64 - 1, n);
        let right = clamped(i as i64 + 1, n);
        y[[i]] = nested(x[[left]], 0.25) + gelu(x[[right]]) - sum_of_squares(x[[i]], 2.0);
    }
}

#[test]
fn helpers_agree() {
    for n in [0, 1, 2, 33] {
        let x = Array1::from_vec(data(n, 5));
        let y = crate::agree!(helpers, (&x) -> Array1::<f32>::zeros(n), 1e-6);
        for i in 0..n {
            let (l, r) = (i.saturating_sub(1), (i + 1).min(n - 1));
            let expected = nested(x[l], 0.25) + gelu(x[r]) - sum_of_squares(x[i], 2.0);
            assert_eq!(y[i].to_bits(), expected.to_bits(), "{i}");
        }
    }
    assert_eq!((clamped(-3, 4), clamped(9, 4), twice(1.5)), (0, 3, 3.0));
}

#[prim_func]
fn generic<T: Element>(x: &Tensor<T, n>, y: &mut Tensor<T, n>) {
    for i in 0..n {
        let square = |a| a * a;
        y[[i]] = sum_of_squares(x[[i]], square(x[[i]]));
    }
}

#[prim_func]
fn of_a_generic_kernel(
    x: &Tensor<f32, n>,
    i: &Tensor<i32, n>,
    y: &mut Tensor<f32, n>,
    j: &mut Tensor<i32, n>,
) {
    generic::<f32>(x, y);
    generic::<i32>(i, j);
}

#[test]
fn generic_kernels_are_called() {
    let (x, i) = (data(5, 3), [1i32, -2, 300_000, i32::MIN, 7]);
    let (mut y, mut j) = ([0f32; 5], [0i32; 5]);
    of_a_generic_kernel::reference(&x, &i, &mut y, &mut j).unwrap();
    for target in super::targets() {
        let (mut y2, mut j2) = ([0f32; 5], [0i32; 5]);
        of_a_generic_kernel::compile(&target).unwrap().call(&x, &i, &mut y2, &mut j2).unwrap();
        assert_eq!((bits(&y), j), (bits(&y2), j2), "{target}");
    }
    let wrapping =
        |it: i32| it.wrapping_mul(it).wrapping_add(it.wrapping_mul(it).wrapping_mul(it.wrapping_mul(it)));
    assert_eq!(j, i.map(wrapping));
}

mod tables {
    use super::prim_helper;

    const TABLE: [f32; 2] = [10.0, 20.0];

    #[prim_helper]
    pub(super) fn from_table(i: usize) -> f32 {
        TABLE[i % 2]
    }

    use tvm::prelude::*;

    #[prim_func]
    pub(super) fn fill(y: &mut Tensor<f32, n>) {
        for i in 0..n {
            y[[i]] = TABLE[i % 2] + 1.0;
        }
    }
}

use tvm::prim_helper;

const TABLE: [f32; 2] = [1.0, 2.0];

/// Constant arrays of the same name in two modules are distinct.
#[prim_func]
fn tables_of_one_name(y: &mut Tensor<f32, n>, z: &mut Tensor<f32, n>) {
    tables::fill(z);
    for i in 0..n {
        y[[i]] = TABLE[i % 2] + tables::from_table(i);
    }
}

#[test]
fn tables_of_one_name_are_two() {
    for target in super::targets() {
        let (mut y, mut z) = ([0f32; 3], [0f32; 3]);
        tables_of_one_name::compile(&target).unwrap().call(&mut y, &mut z).unwrap();
        assert_eq!((y, z), ([11.0, 22.0, 11.0], [11.0, 21.0, 11.0]), "{target}");
    }
}

#[prim_func]
fn ping(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    pong(x, y);
}

#[prim_func]
fn pong(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    ping(x, y);
}

#[test]
fn recursion_is_an_error() {
    let err = ping::prim_func().unwrap_err().to_string();
    assert!(err.contains("calls itself: `pong` calls `ping` calls `pong`"), "{err}");
    assert!(err.contains("calls.rs:"), "{err}");
    let err = pong::reference(&[1f32], &mut [0f32]).unwrap_err().to_string();
    assert!(err.contains("calls itself"), "{err}");
    // The refusal leaves no state behind.
    assert!(two_layers::prim_func().is_ok());
}

#[prim_func]
fn of_eight(x: &Tensor<f32, 8>, y: &mut Tensor<f32, 8>) {
    for i in 0..8 {
        y[[i]] = x[[i]] * 2.0;
    }
}

#[prim_func]
fn wrong_extent(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    of_eight(x, y);
}

#[prim_func]
fn two_extents(x: &Tensor<f32, n>, y: &mut Tensor<f32, m>) {
    scale(x, 2.0, y);
}

#[prim_func(dims(n = 4..=64, n % 4 == 0))]
fn bounded(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] + 1.0;
    }
}

#[prim_func(dims(n = 8..=32, n % 8 == 0))]
fn within_bounds(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    bounded(x, y);
}

#[prim_func(dims(n = 8..=128, n % 8 == 0))]
fn out_of_bounds(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    bounded(x, y);
}

#[test]
fn extents_fit_or_are_errors() {
    let err = wrong_extent::prim_func().unwrap_err().to_string();
    assert!(err.contains("axis 0 of `x` has extent n where `of_eight` expects 8 for `x`"), "{err}");
    let err = two_extents::prim_func().unwrap_err().to_string();
    assert!(err.contains("axis 0 of `y` has extent m where `scale` expects n for `y`"), "{err}");
    let err = two_extents::reference(&[1f32, 2.0], &mut [0f32]).unwrap_err().to_string();
    assert!(err.contains("scale"), "{err}");
    assert!(within_bounds::prim_func().is_ok(), "{:?}", within_bounds::prim_func());
    let err = out_of_bounds::prim_func().unwrap_err().to_string();
    assert!(
        err.contains("`bounded` is written for `n = 4..=64, n % 4 == 0`, which is not known of n"),
        "{err}"
    );
    let err = out_of_bounds::reference(&[1f32; 128], &mut [0f32; 128]).unwrap_err().to_string();
    assert!(err.contains("64"), "{err}");
}

/// The result of a helper is evaluated once, even if the next helper uses it several times.
#[prim_func]
fn deep(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        let a = twice(twice(twice(twice(twice(twice(twice(twice(x[[i]]))))))));
        let b = twice(twice(twice(twice(twice(twice(twice(twice(exp(a)))))))));
        y[[i]] = twice(twice(twice(twice(twice(twice(twice(twice(b))))))));
    }
}

#[test]
fn arguments_are_evaluated_once() {
    let text = deep::prim_func().unwrap().to_string();
    assert!(text.len() < 4000, "{text}");
    assert_eq!(text.matches("exp(").count(), 1, "{text}");
    crate::agree!(deep, (&Array1::from_vec(data(6, 8))) -> Array1::<f32>::zeros(6), 1e-6);
}
