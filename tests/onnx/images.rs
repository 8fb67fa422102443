//! Operators on images: sampling at positions, resizing, cropping.

use tvm_core::target::Target;
use tvm_runtime::Tensor;

use crate::build::{Build, assert_near, compiled, float, floats, int, model, node, run, string};

#[test]
fn samples() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 2, 2]);
    // The middle, a corner of the image, a point half a pixel outside, a point two image widths to the right.
    let grid = floats(&[0.0, 0.0, -0.5, -0.5, -1.5, -0.5, 4.5, 0.5], &[1, 1, 4, 2]);
    let sampled = |mode, padding| {
        let attrs = vec![string("mode", mode), string("padding_mode", padding)];
        let model = model(20, vec![node("GridSample", "x g", "y", attrs)]).input("x", "1 1 2 2").output("y");
        run(&compiled(&model.constant("g", &grid), &Target::interpreter()).unwrap(), std::slice::from_ref(&x))
            .remove(0)
    };
    let cases = [
        ("linear", "zeros", [2.5, 1.0, 0.0, 0.0]),
        ("linear", "border", [2.5, 1.0, 1.0, 4.0]),
        ("linear", "reflection", [2.5, 1.0, 1.0, 4.0]),
        ("nearest", "border", [1.0, 1.0, 1.0, 4.0]),
        ("nearest", "zeros", [1.0, 1.0, 0.0, 0.0]),
        ("cubic", "border", [2.5, 1.0, 1.0, 4.0]),
    ];
    for (mode, padding, want) in cases {
        assert_near(&sampled(mode, padding), &floats(&want, &[1, 1, 1, 4]), &format!("{mode} {padding}"));
    }
}

#[test]
fn images_of_other_sizes() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0], &[1, 4]);
    let resized = |attrs, scale: f32| {
        let scales = floats(&[1.0, scale], &[2]);
        let model = model(19, vec![node("Resize", "x _ s", "y", attrs)]).input("x", "1 4").output("y");
        run(
            &compiled(&model.constant("s", &scales), &Target::interpreter()).unwrap(),
            std::slice::from_ref(&x),
        )
        .remove(0)
    };
    let linear = || string("mode", "linear");
    assert_near(&resized(vec![linear()], 0.5), &floats(&[1.5, 3.5], &[1, 2]), "linear");
    let got = resized(vec![linear(), int("antialias", 1)], 0.5);
    assert_near(&got, &floats(&[1.625, 3.375], &[1, 2]), "antialias");
    let got = resized(vec![string("mode", "cubic"), float("cubic_coeff_a", -0.5)], 0.5);
    assert_near(&got, &floats(&[1.4375, 3.5625], &[1, 2]), "cubic");
    // 4 · 0.6 is not a whole number of elements.
    assert_near(&resized(vec![], 0.6), &floats(&[1.0, 3.0], &[1, 2]), "nearest");
}

#[test]
fn middle() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0], &[1, 4]);
    let shape = Tensor::from_slice(&[3i64, 1], &[2]).unwrap();
    let model = model(18, vec![node("CenterCropPad", "x s", "y", vec![])]).input("x", "1 4").output("y");
    let vm = compiled(&model.constant("s", &shape), &Target::interpreter()).unwrap();
    assert_near(&run(&vm, &[x])[0], &floats(&[0.0, 2.0, 0.0], &[3, 1]), "CenterCropPad");
}
