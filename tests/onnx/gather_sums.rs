//! Sums of products by index, samples of images, bits under another type.

use tvm_core::target::Target;
use tvm_runtime::Tensor;

use crate::build::{Build, assert_near, compiled, float, floats, int, model, node, refusal, run, string};

fn einsum(equation: &'static str, operands: &[Tensor]) -> Tensor {
    let names: Vec<String> = (0..operands.len()).map(|i| format!("c{i}")).collect();
    let node = node("Einsum", &names.join(" "), "y", vec![string("equation", equation)]);
    let mut model = model(17, vec![node]).output("y");
    for (name, operand) in names.iter().zip(operands) {
        model = model.constant(name, operand);
    }
    run(&compiled(&model, &Target::interpreter()).unwrap(), &[]).remove(0)
}

#[test]
fn sums_of_products() {
    let a = || floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let square = || floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let b = || floats(&[1.0, 0.0, 2.0, 1.0, 0.0, 3.0], &[3, 2]);
    let v = || floats(&[1.0, 10.0], &[2]);
    let cases: &[(&str, Vec<Tensor>, Tensor)] = &[
        ("ij->ji", vec![a()], floats(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &[3, 2])),
        ("ij->i", vec![a()], floats(&[6.0, 15.0], &[2])),
        ("ij", vec![a()], a()),
        ("ij->", vec![a()], floats(&[21.0], &[])),
        ("ii->i", vec![square()], floats(&[1.0, 4.0], &[2])),
        ("ii", vec![square()], floats(&[5.0], &[])),
        ("ij, jk -> ik", vec![a(), b()], floats(&[5.0, 11.0, 14.0, 23.0], &[2, 2])),
        ("ij,jk", vec![a(), b()], floats(&[5.0, 11.0, 14.0, 23.0], &[2, 2])),
        ("i,j->ij", vec![v(), v()], floats(&[1.0, 10.0, 10.0, 100.0], &[2, 2])),
        ("ij,jk,k->i", vec![a(), b(), v()], floats(&[115.0, 244.0], &[2])),
        ("i,ij,i->ij", vec![v(), a(), v()], floats(&[1.0, 2.0, 3.0, 400.0, 500.0, 600.0], &[2, 3])),
        ("...j->...", vec![a()], floats(&[6.0, 15.0], &[2])),
        ("...ij,jk->...ik", vec![a(), b()], floats(&[5.0, 11.0, 14.0, 23.0], &[2, 2])),
    ];
    for (equation, operands, want) in cases {
        assert_near(&einsum(equation, operands), want, equation);
    }
    for (equation, message) in [
        ("ij->k", "names an axis that no input has"),
        ("ij->ii", "names an axis twice"),
        ("ijk->i", "rank 2"),
        ("i1->i", "'1' in it"),
        ("i,j->i", "2 inputs"),
    ] {
        let node = node("Einsum", "c", "y", vec![string("equation", equation)]);
        let err = refusal(&model(17, vec![node]).output("y").constant("c", &a()));
        assert!(err.contains(message), "{equation}: {err}");
    }
}

#[test]
fn samples() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 2, 2]);
    // The middle, a corner of the image, half a pixel outside of it, two images to the right.
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
fn bits() {
    let x = floats(&[1.0, -0.0], &[2]);
    let model =
        |to: i64| model(26, vec![node("BitCast", "x", "y", vec![int("to", to)])]).input("x", "2").output("y");
    for target in [Target::interpreter(), Target::host()] {
        let got = run(&compiled(&model(6), &target).unwrap(), std::slice::from_ref(&x)).remove(0);
        assert_eq!(got.to_vec::<i32>().unwrap(), [0x3f80_0000, i32::MIN]);
    }
    assert!(refusal(&model(7)).contains("not as large as"));
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
    // Not a whole number of elements: 4 · 0.6.
    assert_near(&resized(vec![], 0.6), &floats(&[1.0, 3.0], &[1, 2]), "nearest");
}

#[test]
fn transforms_of_signals() {
    let x = floats(&[1.0, 2.0, 0.0, -1.0], &[1, 4, 1]);
    let run_dft = |inputs: &str, attrs, x: &Tensor| {
        let dims: Vec<String> = x.shape().iter().map(i64::to_string).collect();
        let model = model(19, vec![node("DFT", inputs, "y", attrs)]).input("x", &dims.join(" ")).output("y");
        run(&compiled(&model, &Target::interpreter()).unwrap(), std::slice::from_ref(x)).remove(0)
    };
    // Sums of the signal times 1, -i, -1, i to the power of the moment.
    let all = [2.0, 0.0, 1.0, -3.0, 0.0, 0.0, 1.0, 3.0];
    let whole = run_dft("x", vec![], &x);
    assert_near(&whole, &floats(&all, &[1, 4, 2]), "DFT");
    let half = run_dft("x", vec![int("onesided", 1)], &x);
    assert_near(&half, &floats(&all[..6], &[1, 3, 2]), "half of it");
    let back = run_dft("x", vec![int("inverse", 1)], &whole);
    assert_near(&back, &floats(&[1.0, 0.0, 2.0, 0.0, 0.0, 0.0, -1.0, 0.0], &[1, 4, 2]), "back");
    let back = run_dft("x", vec![int("inverse", 1), int("onesided", 1)], &half);
    assert_near(&back, &x, "back from half of it");
}

#[test]
fn causal_convolution() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0], &[1, 2, 2]);
    let weights = floats(&[1.0, 10.0, 100.0, 1.0, 0.0, 2.0], &[2, 1, 3]);
    let past = floats(&[5.0, 6.0, 7.0, 8.0], &[1, 2, 2]);
    let node = node("CausalConvWithState", "x w _ p", "y s", vec![]);
    let model = model(27, vec![node]).input("x", "1 2 2").output("y").output("s");
    let model = model.constant("w", &weights).constant("p", &past);
    let got = run(&compiled(&model, &Target::interpreter()).unwrap(), std::slice::from_ref(&x));
    assert_near(&got[0], &floats(&[165.0, 216.0, 13.0, 16.0], &[1, 2, 2]), "result");
    assert_near(&got[1], &x, "state");
}

#[test]
fn middle() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0], &[1, 4]);
    let shape = Tensor::from_slice(&[3i64, 1], &[2]).unwrap();
    let model = model(18, vec![node("CenterCropPad", "x s", "y", vec![])]).input("x", "1 4").output("y");
    let vm = compiled(&model.constant("s", &shape), &Target::interpreter()).unwrap();
    assert_near(&run(&vm, &[x])[0], &floats(&[0.0, 2.0, 0.0], &[3, 1]), "CenterCropPad");
}
