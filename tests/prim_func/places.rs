//! Run-time errors of kernels name their subject and the place where it was written, on every executor.

use ndarray::Array1;
use tvm::prelude::*;

use crate::targets;

#[prim_func]
fn leaves(x: &Tensor<f32, n>, long: &Tensor<f32, m>, y: &mut Tensor<f32, n>) {
    for row in 0..m {
        block("Body", [S(row).within(0..n)], |[v_row]| {
            y[[v_row]] = x[[v_row]] + 1.0;
        });
    }
}

#[prim_func]
fn local(x: &Tensor<f32, n>, y: &mut Tensor<f32, m>) {
    let mut scratch = alloc::<f32>([n]);
    for i in 0..n {
        scratch[[i]] = x[[i]];
    }
    for i in 0..m {
        y[[i]] = scratch[[i]];
    }
}

#[test]
fn errors_name_block_axis_buffer_and_place() {
    let zeros = |n: usize| Array1::<f32>::zeros(n);
    for target in targets() {
        let f = leaves::compile(&target).unwrap();
        f.call(&zeros(4), &zeros(4), &mut zeros(4)).unwrap();
        let err = f.call(&zeros(4), &zeros(6), &mut zeros(4)).unwrap_err();
        let text = err.to_string();
        let RuntimeError::AxisDomain { axis, value, end: 4, place: Some(place), .. } = err else {
            panic!("{target}: {text}");
        };
        assert_eq!(&*axis, "axis `v_row` of block `Body`", "{target}");
        assert!((4..6).contains(&value), "{target}: {value}");
        assert!(place.contains("places.rs:11:"), "{target}: {place}");
        assert!(text.starts_with("`leaves`: axis `v_row` of block `Body` is "), "{target}: {text}");

        let err = local::compile(&target).unwrap().call(&zeros(4), &mut zeros(6)).unwrap_err();
        let RuntimeError::OutOfBounds { buffer: Some(buffer), extent: 4, place: Some(place), .. } = &err
        else {
            panic!("{target}: {err}");
        };
        assert_eq!(&**buffer, "scratch", "{target}");
        assert!(place.contains("places.rs:24:"), "{target}: {place}");
    }
}
