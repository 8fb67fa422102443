//! Float literals are rounded once, to the type in which they are used.

use half::f16;
use ndarray::{Array1, array};
use tvm::prelude::*;

use crate::targets;

/// Literals slightly above, at, and slightly below the middle between two `f32` values.
#[prim_func]
fn beside_the_middle(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 8>) {
    y[[0]] = x[[0]] * 1.000000059604644775390625001;
    y[[1]] = x[[0]] * 1.000000059604644775390625;
    y[[2]] = x[[0]] * 1.000000059604644775390624999;
    y[[3]] = 1.000000059604644775390625001f32;
    y[[4]] = -1.000000059604644775390625001;
    y[[5]] = x[[0]] * (1.000000059604644775390625001 * 1.0);
    y[[6]] = 16777217.0000000001;
    let named = 1.000000059604644775390625001;
    y[[7]] = named;
}

#[prim_func]
fn of_any_type<T: Element>(x: &Tensor<T, 1>, y: &mut Tensor<T, 3>) {
    y[[0]] = x[[0]] * 1.000000059604644775390625001;
    y[[1]] = x[[0]] * 1.000488281250000000000000001;
    y[[2]] = x[[0]] * 1.000488281250000000000000000;
}

#[prim_func]
fn wide(x: &Tensor<f64, 1>, y: &mut Tensor<f64, 2>) {
    y[[0]] = x[[0]] * 1.000000059604644775390625001;
    y[[1]] = x[[0]] * 1.000000059604644775390624999;
}

#[test]
#[expect(clippy::excessive_precision, reason = "that is what is tested")]
fn literals_are_rounded_once() {
    let next = 1.0f32 + f32::EPSILON;
    let want = array![next, 1.0, 1.0, next, -next, next, 16777218.0, next];
    let zeros = Array1::<f32>::zeros(8);
    let got = crate::agree!(beside_the_middle, (&array![1.0f32]) -> zeros, 0.0);
    assert_eq!(got, want);
    let middle = 1.000000059604644775390625;
    for target in targets() {
        let mut y = Array1::zeros(8);
        beside_the_middle::compile(&target).unwrap().call(&array![1.0f32], &mut y).unwrap();
        assert_eq!(y, want, "{target}");
        let mut y = Array1::zeros(3);
        of_any_type::<f32>::compile(&target).unwrap().call(&array![1.0f32], &mut y).unwrap();
        assert_eq!(y[0], next, "{target}");
        let mut y = Array1::from_elem(3, f16::ZERO);
        of_any_type::<f16>::compile(&target).unwrap().call(&array![f16::ONE], &mut y).unwrap();
        assert_eq!(y, array![f16::ONE, f16::from_bits(0x3c01), f16::ONE], "{target}");
        let mut y = Array1::zeros(2);
        wide::compile(&target).unwrap().call(&array![1.0f64], &mut y).unwrap();
        assert_eq!(y, array![middle, middle], "{target}");
    }
    let mut y = Array1::from_elem(3, f16::ZERO);
    of_any_type::<f16>::reference(&array![f16::ONE], &mut y).unwrap();
    assert_eq!(y, array![f16::ONE, f16::from_bits(0x3c01), f16::ONE]);
    let mut y = Array1::zeros(2);
    wide::reference(&array![1.0f64], &mut y).unwrap();
    assert_eq!(y, array![middle, middle]);
}
