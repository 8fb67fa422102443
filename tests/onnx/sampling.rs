//! Patches, sampled images, transforms and recurrences that are computed as several operators, beside operators that compute
//! the same, or formulas.

use tvm_core::target::Target;
use tvm_onnx::proto::{AttributeProto, ModelProto};
use tvm_runtime::{DataType, Tensor};

use crate::build::{
    Build, assert_near, compiled, float, floats, int, ints, longs, model, node, run, string, targets,
};

fn numbers(shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    let values: Vec<f32> = (0..n).map(|i| ((i * 37 % 19) as f32 - 9.0) / 16.0).collect();
    floats(&values, shape)
}

fn eval(model: &ModelProto, inputs: &[Tensor]) -> Vec<Tensor> {
    run(&compiled(model, &Target::interpreter()).unwrap(), inputs)
}

/// Resizing by scales and extents that only a run knows gives what known ones give.
#[test]
fn images_of_extents_that_only_a_run_knows() {
    let x = numbers(&[1, 2, 5, 7]);
    let modes: &[(&[AttributeProto], [f32; 2])] = &[
        (&[string("mode", "nearest")], [2.0, 1.5]),
        (&[string("mode", "linear")], [0.6, 2.0]),
        (&[string("mode", "linear"), string("coordinate_transformation_mode", "align_corners")], [2.0, 0.5]),
        (&[string("mode", "cubic"), int("exclude_outside", 1)], [1.4, 0.8]),
        (&[string("mode", "linear"), int("antialias", 1)], [0.5, 0.4]),
        (
            &[string("mode", "cubic"), string("coordinate_transformation_mode", "half_pixel_symmetric")],
            [1.3, 2.0],
        ),
        (&[string("mode", "nearest"), string("nearest_mode", "ceil")], [0.7, 3.0]),
    ];
    for (attrs, [high, wide]) in modes {
        let resize = || vec![node("Resize", "x _ s", "y", attrs.to_vec())];
        let scales = floats(&[1.0, 1.0, *high, *wide], &[4]);
        let fixed = model(19, resize()).input("x", "1 2 5 7").output("y").constant("s", &scales);
        let want = eval(&fixed, std::slice::from_ref(&x)).remove(0);
        let read = model(19, resize()).input("x", "n c h w").input("s", "4").output("y");
        let symbolic = model(19, resize()).input("x", "1 2 h w").output("y").constant("s", &scales);
        for target in targets() {
            let got = run(&compiled(&read, &target).unwrap(), &[x.clone(), scales.clone()]);
            assert_near(&got[0], &want, &format!("scales that a run knows, {attrs:?} on {target}"));
            let got = run(&compiled(&symbolic, &target).unwrap(), std::slice::from_ref(&x));
            assert_near(&got[0], &want, &format!("symbolic extents, {attrs:?} on {target}"));
        }
        // As extents: positions follow from their ratio.
        let sizes = longs(&want.shape()[2..]);
        let resize = || {
            let attrs = [&attrs[..], &[ints("axes", &[2, 3])]].concat();
            vec![node("Resize", "x _ _ s", "y", attrs)]
        };
        let fixed = model(19, resize()).input("x", "1 2 5 7").output("y").constant("s", &sizes);
        let want = eval(&fixed, std::slice::from_ref(&x)).remove(0);
        let read = model(19, resize()).input("x", "n c h w").typed("s", DataType::I64, "2").output("y");
        for target in targets() {
            let got = run(&compiled(&read, &target).unwrap(), &[x.clone(), sizes.clone()]);
            assert_near(&got[0], &want, &format!("extents that a run knows, {attrs:?} on {target}"));
        }
    }
}

/// Without offsets, a deformable convolution is a convolution; a shift by one pixel is the convolution of the shifted image.
#[test]
fn deformable_convolutions() {
    let (x, w) = (numbers(&[2, 4, 6, 5]), numbers(&[4, 2, 3, 3]));
    let attrs = vec![int("group", 2), ints("strides", &[2, 1]), ints("pads", &[1, 1, 1, 1])];
    let plain = model(19, vec![node("Conv", "x w", "y", attrs.clone())]).input("x", "2 4 6 5").output("y");
    let want = eval(&plain.constant("w", &w), std::slice::from_ref(&x)).remove(0);
    let attrs = [attrs, vec![int("offset_group", 2)]].concat();
    let deformed = model(19, vec![node("DeformConv", "x w o", "y", attrs)]);
    let deformed = deformed.input("x", "n 4 h v").input("o", "n 36 a b").output("y").constant("w", &w);
    let offsets = Tensor::zeros(&[2, 36, want.shape()[2], want.shape()[3]], DataType::F32).unwrap();
    for target in targets() {
        let got = run(&compiled(&deformed, &target).unwrap(), &[x.clone(), offsets.clone()]);
        assert_near(&got[0], &want, &format!("no offsets on {target}"));
    }
}

/// A region of whole pixels with one sample in the middle of each is that part of the image.
#[test]
fn regions_of_images() {
    let x = numbers(&[2, 3, 6, 6]);
    let attrs = vec![int("output_height", 2), int("output_width", 3), int("sampling_ratio", 1)];
    let model =
        model(16, vec![node("RoiAlign", "x r b", "y", attrs)]).input("x", "n 3 h w").input("r", "k 4");
    let model = model.typed("b", DataType::I64, "k").output("y");
    let (regions, images) = (floats(&[1.0, 2.0, 4.0, 4.0, 0.0, 0.0, 3.0, 2.0], &[2, 4]), longs(&[1, 0]));
    let all = x.to_vec::<f32>().unwrap();
    let pixel = |image: usize, c: usize, y: usize, x: usize| all[((image * 3 + c) * 6 + y) * 6 + x];
    let mut want = Vec::new();
    for (image, top, left) in [(1, 2, 1), (0, 0, 0)] {
        for c in 0..3 {
            for (y, x) in (0..2).flat_map(|y| (0..3).map(move |x| (y, x))) {
                want.push(pixel(image, c, top + y, left + x));
            }
        }
    }
    for target in targets() {
        let got = run(&compiled(&model, &target).unwrap(), &[x.clone(), regions.clone(), images.clone()]);
        assert_near(&got[0], &floats(&want, &[2, 3, 2, 3]), &format!("RoiAlign on {target}"));
    }
}

/// What pooling takes goes back to its place; patches that do not overlap give the image back.
#[test]
fn patches() {
    let pool = vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let nodes = vec![
        node("MaxPool", "x", "p i", pool.clone()),
        node("MaxUnpool", "p i", "u", pool),
        node("MaxPool", "u", "q", vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])]),
    ];
    let model = model(18, nodes).input("x", "2 3 h 6").output("p").output("i").output("q");
    let values: Vec<f32> = (0..144).map(|i| ((i * 37 % 149) + 1) as f32).collect();
    for target in targets() {
        let got = run(&compiled(&model, &target).unwrap(), &[floats(&values, &[2, 3, 4, 6])]);
        assert_near(&got[2], &got[0], "the largest elements, at their places");
        let (largest, places) = (got[0].to_vec::<f32>().unwrap(), got[1].to_vec::<i64>().unwrap());
        assert!(largest.iter().zip(places).all(|(it, at)| *it == values[at as usize]));
    }
    let x = numbers(&[1, 8, 6]);
    let columns = crate::build::model(18, vec![node("Col2Im", "x s b", "y", vec![ints("strides", &[2, 2])])]);
    let columns = columns.input("x", "1 8 6").output("y");
    let columns = columns.constant("s", &longs(&[4, 6])).constant("b", &longs(&[2, 2]));
    let got = eval(&columns, std::slice::from_ref(&x)).remove(0);
    assert_eq!(got.shape(), [1, 2, 4, 6]);
    let (from, to) = (x.to_vec::<f32>().unwrap(), got.to_vec::<f32>().unwrap());
    for (i, value) in to.iter().enumerate() {
        let (c, y, x) = (i / 24, i / 6 % 4, i % 6);
        let (element, place) = ((y % 2) * 2 + x % 2, (y / 2) * 3 + x / 2);
        assert_eq!(*value, from[(c * 4 + element) * 6 + place], "{c} {y} {x}");
    }
}

/// The transform of each part of a signal is that of the part alone; the axis of real parts may be left out.
#[test]
fn transforms_of_parts() {
    let signal = numbers(&[2, 20, 1]);
    let window: Vec<f32> =
        (0..8).map(|i| 0.5 - 0.5 * (std::f32::consts::TAU * i as f32 / 8.0).cos()).collect();
    let nodes = vec![node("HannWindow", "n", "w", vec![]), node("STFT", "x step w", "y", vec![])];
    let model = |dims: &str| {
        (model(17, nodes.clone()).input("x", dims).output("y").output("w"))
            .constant("n", &Tensor::scalar(8i64))
            .constant("step", &Tensor::scalar(4i64))
    };
    let all = signal.to_vec::<f32>().unwrap();
    let mut want = Vec::new();
    for batch in 0..2 {
        for frame in 0..4 {
            for k in 0..5 {
                let (mut re, mut im) = (0.0, 0.0);
                for (t, weight) in window.iter().enumerate() {
                    let value = f64::from(all[batch * 20 + frame * 4 + t] * weight);
                    let angle = std::f64::consts::TAU * (k * t) as f64 / 8.0;
                    (re, im) = (re + value * angle.cos(), im - value * angle.sin());
                }
                want.extend([re as f32, im as f32]);
            }
        }
    }
    for (dims, shape) in [("2 samples 1", &[2, 20, 1][..]), ("2 samples", &[2, 20])] {
        for target in targets() {
            let vm = compiled(&model(dims), &target).unwrap();
            let got = run(&vm, &[floats(&all, shape)]);
            assert_near(&got[1], &floats(&window, &[8]), "the window");
            assert_near(&got[0], &floats(&want, &[2, 4, 5, 2]), &format!("STFT of {dims} on {target}"));
        }
    }
}

#[test]
fn recurrent_attention() {
    let (q, k, v) = (numbers(&[1, 5, 8]), numbers(&[1, 5, 4]), numbers(&[1, 5, 6]));
    let decay = floats(&[-0.1, -0.2, -0.3, -0.4, -0.5, -0.1, -0.2, -0.3, -0.4, -0.5], &[1, 5, 2]);
    let beta = floats(&[0.5, 0.25, 0.75, 1.0, 0.5, 0.5, 0.25, 0.75, 1.0, 0.5], &[1, 5, 2]);
    let attrs = vec![int("q_num_heads", 4), int("kv_num_heads", 2), float("scale", 0.5)];
    let model = model(27, vec![node("LinearAttention", "q k v _ d b", "y s", attrs)]);
    let model = (model.input("q", "1 t 8").input("k", "1 t 4").input("v", "1 t 6"))
        .input("d", "1 t 2")
        .input("b", "1 t 2")
        .output("y")
        .output("s");
    let of = |x: &Tensor| x.to_vec::<f32>().unwrap();
    let (qs, ks, vs, ds, bs) = (of(&q), of(&k), of(&v), of(&decay), of(&beta));
    let (mut state, mut want) = ([[[0f32; 3]; 2]; 2], Vec::new());
    for t in 0..5 {
        for h in 0..2 {
            let key = &ks[t * 4 + h * 2..][..2];
            let shrink = ds[t * 2 + h].exp();
            state[h].iter_mut().flatten().for_each(|it| *it *= shrink);
            for c in 0..3 {
                let known: f32 = (0..2).map(|d| state[h][d][c] * key[d]).sum();
                let new = bs[t * 2 + h] * (vs[t * 6 + h * 3 + c] - known);
                (0..2).for_each(|d| state[h][d][c] += key[d] * new);
            }
        }
        for reader in 0..4 {
            let query = &qs[t * 8 + reader * 2..][..2];
            want.extend(
                (0..3).map(|c| 0.5 * (0..2).map(|d| query[d] * state[reader / 2][d][c]).sum::<f32>()),
            );
        }
    }
    for target in targets() {
        let inputs = [&q, &k, &v, &decay, &beta].map(Clone::clone);
        let got = run(&compiled(&model, &target).unwrap(), &inputs);
        assert_near(&got[0], &floats(&want, &[1, 5, 12]), &format!("LinearAttention on {target}"));
        let state: Vec<f32> = state.iter().flatten().flatten().copied().collect();
        assert_near(&got[1], &floats(&state, &[1, 2, 2, 3]), "the state");
    }
}

#[test]
fn determinants() {
    let x = floats(
        &[0.0, 2.0, 1.0, 1.0, 1.0, 0.0, 3.0, 0.0, 1.0, 1.0, 2.0, 3.0, 2.0, 4.0, 6.0, 0.5, 0.0, 1.0],
        &[2, 3, 3],
    );
    for dims in ["2 3 3", "n 3 3"] {
        let model = model(22, vec![node("Det", "x", "y", vec![])]).input("x", dims).output("y");
        for target in targets() {
            let got = run(&compiled(&model, &target).unwrap(), std::slice::from_ref(&x));
            assert_near(&got[0], &floats(&[-5.0, 0.0], &[2]), &format!("Det on {target}"));
        }
    }
}

#[test]
fn sequences_turned_around_and_written() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
    let turn = model(10, vec![node("ReverseSequence", "x n", "y", vec![])]).input("x", "t 2").output("y");
    let turn = turn.constant("n", &longs(&[2, 3]));
    let cache = model(
        24,
        vec![node("TensorScatter", "x u at", "y", vec![string("mode", "circular"), int("axis", 1)])],
    );
    let cache = cache.input("x", "2 n").input("u", "2 m").typed("at", DataType::I64, "2").output("y");
    for target in targets() {
        let got = run(&compiled(&turn, &target).unwrap(), std::slice::from_ref(&x));
        assert_near(&got[0], &floats(&[3.0, 6.0, 1.0, 4.0, 5.0, 2.0], &[3, 2]), "ReverseSequence");
        let inputs = [floats(&[0.0; 6], &[2, 3]), floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2]), longs(&[0, 2])];
        let got = run(&compiled(&cache, &target).unwrap(), &inputs);
        assert_near(&got[0], &floats(&[1.0, 2.0, 0.0, 4.0, 0.0, 3.0], &[2, 3]), "TensorScatter");
    }
}

/// Axes, steps and widths that only a run knows.
#[test]
fn arguments_that_only_a_run_knows() {
    let x = numbers(&[3, 4, 5]);
    let cases: &[(&str, &[i64], Vec<AttributeProto>)] = &[
        ("ReduceSum", &[1], vec![]),
        ("ReduceMax", &[-1], vec![int("keepdims", 0)]),
        ("ReduceMean", &[0, 2], vec![]),
        ("Unsqueeze", &[1, -1], vec![]),
        ("CumSum", &[2], vec![int("reverse", 1)]),
        ("Pad", &[1, 0, -2, 0, 2, 1], vec![string("mode", "constant")]),
        ("Pad", &[1, 2, 0, 1, 0, 3], vec![string("mode", "reflect")]),
        ("Pad", &[0, 2, 1, 1, 0, 0], vec![string("mode", "edge")]),
        ("CenterCropPad", &[5, 2, 5], vec![]),
    ];
    for (op, argument, attrs) in cases {
        let nodes = || vec![node(op, "x a", "y", attrs.clone())];
        let fixed = model(20, nodes()).input("x", "3 4 5").output("y").constant("a", &longs(argument));
        let want = eval(&fixed, std::slice::from_ref(&x)).remove(0);
        let dims = if *op == "CumSum" { String::new() } else { argument.len().to_string() };
        let read = model(20, nodes()).input("x", "a b c").typed("a", DataType::I64, &dims).output("y");
        let argument = if *op == "CumSum" { Tensor::scalar(argument[0]) } else { longs(argument) };
        for target in [Target::interpreter(), Target::host()] {
            let got = run(&compiled(&read, &target).unwrap(), &[x.clone(), argument.clone()]);
            assert_near(&got[0], &want, &format!("{op} {argument:?} on {target}"));
        }
    }
    let slice = || vec![node("Slice", "x from to axes steps", "y", vec![])];
    for (from, to, step) in [(0i64, 5i64, 2i64), (-1, -9, -1), (4, 0, -2), (1, 3, 1), (3, 1, 1), (9, -9, -3)]
    {
        let arguments = [longs(&[from]), longs(&[to]), longs(&[2]), longs(&[step])];
        let names = ["from", "to", "axes", "steps"];
        let mut fixed = model(20, slice()).input("x", "3 4 5").output("y");
        let mut read = model(20, slice()).input("x", "3 4 n").output("y");
        for (name, value) in names.iter().zip(&arguments) {
            fixed = fixed.constant(name, value);
            read = read.typed(name, DataType::I64, "1");
        }
        let want = eval(&fixed, std::slice::from_ref(&x)).remove(0);
        let inputs: Vec<Tensor> = std::iter::once(x.clone()).chain(arguments).collect();
        let got = eval(&read, &inputs);
        assert_near(&got[0], &want, &format!("Slice {from}..{to} by {step}"));
    }
}
