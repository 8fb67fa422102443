//! Operators on signals: Fourier transforms, causal convolution.

use tvm_core::target::Target;
use tvm_runtime::Tensor;

use crate::build::{Build, assert_near, compiled, floats, int, model, node, run};

#[test]
fn transforms_of_signals() {
    let x = floats(&[1.0, 2.0, 0.0, -1.0], &[1, 4, 1]);
    let run_dft = |inputs: &str, attrs, x: &Tensor| {
        let dims: Vec<String> = x.shape().iter().map(i64::to_string).collect();
        let model = model(19, vec![node("DFT", inputs, "y", attrs)]).input("x", &dims.join(" ")).output("y");
        run(&compiled(&model, &Target::interpreter()).unwrap(), std::slice::from_ref(x)).remove(0)
    };
    // Sums of the signal times powers of -i: 1, -i, -1, i.
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
