//! Operators on images: sampling at positions, resizing, cropping.

use tvm_core::target::Target;
use tvm_runtime::{DataType, Tensor};

use crate::build::{Build, assert_near, compiled, float, floats, int, ints, model, node, run, string};

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

/// `auto_pad` over symbolic extents gives what it gives over the same numbers, which the node tests of the onnx package check.
#[test]
fn same_extents_divided_by_strides() {
    let size =
        |kernel: i64, stride: i64| vec![ints("kernel_shape", &[kernel, 2]), ints("strides", &[stride, 2])];
    let average = |kernel| [size(kernel, 2), vec![int("count_include_pad", 1)]].concat();
    let operators = [
        ("Conv", "x w", size(3, 2)),
        ("Conv", "x w", size(3, 3)),
        ("Conv", "x w", size(3, 5)),
        ("MaxPool", "x", size(2, 2)),
        ("MaxPool", "x", size(3, 2)),
        ("AveragePool", "x", size(3, 2)),
        ("AveragePool", "x", average(3)),
        ("LpPool", "x", size(4, 2)),
    ];
    let weights: Vec<f32> = (0..24).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
    for (op, inputs, attrs) in operators {
        for mode in ["SAME_UPPER", "SAME_LOWER"] {
            let attrs = [attrs.clone(), vec![string("auto_pad", mode)]].concat();
            let made = |dims: &str| {
                let model =
                    model(19, vec![node(op, inputs, "y", attrs.clone())]).input("x", dims).output("y");
                if op == "Conv" { model.constant("w", &floats(&weights, &[2, 2, 3, 2])) } else { model }
            };
            let any =
                [Target::interpreter(), Target::host()].map(|it| compiled(&made("1 2 h w"), &it).unwrap());
            for (h, w) in [(1, 1), (4, 5), (5, 4), (6, 2), (7, 3)] {
                let x: Vec<f32> = (0..2 * h * w).map(|i| (i * 5 % 17) as f32 - 20.0).collect();
                let x = floats(&x, &[1, 2, h, w]);
                let fixed = compiled(&made(&format!("1 2 {h} {w}")), &Target::interpreter()).unwrap();
                let want = run(&fixed, std::slice::from_ref(&x)).remove(0);
                for vm in &any {
                    let got = run(vm, std::slice::from_ref(&x)).remove(0);
                    assert_near(&got, &want, &format!("{op} {attrs:?} of {h}x{w}"));
                }
            }
        }
    }
}

/// Padding is less than all integers, also where it is put around an image of symbolic extents, or looked for by its index.
#[test]
fn largest_of_negative_integers() {
    let x = Tensor::from_slice(&[-9i8, -8, -7, -6, -5, -4, -3, -2, -1], &[1, 1, 3, 3]).unwrap();
    let pooled = |mode: &str, dims: &str, outputs: &str| {
        let attrs =
            vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2]), string("auto_pad", "SAME_LOWER")];
        let attrs =
            if mode.is_empty() { attrs } else { [&attrs[..2], &[ints("pads", &[1, 1, 0, 0])]].concat() };
        let model = model(12, vec![node("MaxPool", "x", outputs, attrs)]).typed("x", DataType::I8, dims);
        let model = outputs.split(' ').fold(model, |model, name| model.output(name));
        run(&compiled(&model, &Target::interpreter()).unwrap(), std::slice::from_ref(&x))
    };
    let want = [-9i8, -7, -3, -1];
    for (mode, dims) in [("", "1 1 3 3"), ("", "1 1 h w"), ("pads", "1 1 3 3"), ("pads", "1 1 h w")] {
        assert_eq!(pooled(mode, dims, "y")[0].to_vec::<i8>().unwrap(), want, "{mode} {dims}");
    }
    let got = pooled("pads", "1 1 3 3", "y places");
    assert_eq!(got[1].to_vec::<i64>().unwrap(), [0, 2, 6, 8]);
}
