//! Local buffers whose extents are read from memory, or named.

use ndarray::{Array1, Array2, array};
use tvm::prelude::*;

use crate::targets;

#[prim_func]
fn named(len: &Tensor<i64, 1>, x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let k = len[[0]] as usize;
    let mut t = alloc::<f32>([k]);
    for i in 0..k {
        t[[i]] = x[[i]] + 1.0;
    }
    for i in 0..n {
        y[[i]] = if i < k { t[[i]] } else { 0.0 };
    }
}

#[prim_func]
fn direct(len: &Tensor<i32, m>, x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    for r in 0..m {
        let mut row = alloc::<f32>([len[[r]] as usize, 2]);
        for j in 0..len[[r]] as usize {
            row[[j, 0]] = x[[r, j]];
            row[[j, 1]] = 1.0;
        }
        y[[r]] = 0.0;
        for j in 0..len[[r]] as usize {
            y[[r]] += row[[j, 0]] * row[[j, 1]];
        }
    }
}

#[prim_func]
fn twice_named(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let half = n / 2;
    let most = half + 1;
    let mut t = alloc::<f32>([most]);
    for i in 0..half {
        t[[i]] = x[[i]];
    }
    for i in 0..half {
        y[[i]] = t[[i]];
    }
    for i in half..n {
        y[[i]] = t[[most - 1]];
    }
}

/// The extent is named outside the loop that allocates, and derived from another name.
#[prim_func]
fn outside(len: &Tensor<i64, 1>, x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let k = len[[0]] as usize;
    let wide = k * 2;
    for i in 0..n {
        let mut t = alloc::<f32>([wide]);
        for j in 0..wide {
            t[[j]] = x[[i]];
        }
        y[[i]] = 0.0;
        for j in 0..k {
            y[[i]] += t[[j]] + t[[j + k]];
        }
    }
}

#[prim_func]
fn in_a_block(len: &Tensor<i64, m>, x: &Tensor<f32, n>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        block("B", [S(i)], |[vi]| {
            let k = len[[vi]] as usize;
            let mut t = alloc::<f32>([k]);
            for j in 0..k {
                t[[j]] = x[[j]];
            }
            y[[vi]] = 0.0;
            for j in 0..k {
                y[[vi]] += t[[j]];
            }
        });
    }
}

/// Two negative extents have a positive product.
#[prim_func]
fn product(len: &Tensor<i64, 2>, y: &mut Tensor<f32, 1>) {
    let mut t = alloc::<f32>([len[[0]] as usize, len[[1]] as usize]);
    t[[0, 0]] = 1.0;
    y[[0]] = t[[0, 0]];
}

#[test]
fn extents_come_from_memory() {
    let x = array![1.0f32, 2.0, 3.0, 4.0];
    let (zeros, odd) = (Array1::<f32>::zeros(4), array![5.0f32, 6.0, 7.0]);
    crate::agree!(twice_named, (&x) -> zeros, 0.0);
    crate::agree!(twice_named, (&odd) -> odd, 0.0);
    for target in targets() {
        let f = named::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        for k in 0..=4i64 {
            let (mut got, mut want) = (Array1::zeros(4), Array1::zeros(4));
            f.call(&array![k], &x, &mut got).unwrap();
            named::reference(&array![k], &x, &mut want).unwrap();
            assert_eq!(got, want, "{target}, {k}");
        }
        let lengths = array![0i32, 2, 3];
        let rows = Array2::from_shape_fn((3, 3), |(i, j)| (3 * i + j) as f32);
        let mut y = Array1::zeros(3);
        direct::compile(&target).unwrap_or_else(|err| panic!("{err}")).call(&lengths, &rows, &mut y).unwrap();
        assert_eq!(y, array![0.0, 7.0, 21.0], "{target}");
        let f = outside::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        let mut y = Array1::zeros(4);
        f.call(&array![3i64], &x, &mut y).unwrap();
        assert_eq!(y, &x * 6.0, "{target}");
        let f = in_a_block::compile(&target).unwrap_or_else(|err| panic!("{err}"));
        let mut y = Array1::zeros(2);
        f.call(&array![4i64, 1], &x, &mut y).unwrap();
        assert_eq!(y, array![10.0, 1.0], "{target}");
    }
}

#[test]
fn negative_extents_are_errors() {
    for target in targets() {
        let f = named::compile(&target).unwrap();
        let err = f.call(&array![-3i64], &Array1::zeros(4), &mut Array1::zeros(4)).unwrap_err();
        let RuntimeError::NegativeExtent { buffer: Some(buffer), axis: 0, extent: -3, .. } = &err else {
            panic!("{target}: {err}");
        };
        assert_eq!(&**buffer, "t");
        let f = product::compile(&target).unwrap();
        f.call(&array![2i64, 3], &mut Array1::zeros(1)).unwrap();
        let err = f.call(&array![-2i64, -3], &mut Array1::zeros(1)).unwrap_err();
        assert!(matches!(err, RuntimeError::NegativeExtent { extent: -2, .. }), "{target}: {err}");
        // More than the available memory.
        for huge in [1i64 << 50, i64::MAX] {
            assert!(f.call(&array![huge, huge], &mut Array1::zeros(1)).is_err(), "{target}");
        }
    }
}
