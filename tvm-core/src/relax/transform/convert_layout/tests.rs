//! Random graphs over images compute the same before and after the pass.

use tvm_runtime::{DataType, Tensor, Value};

use super::*;
use crate::ir::well_formed;
use crate::pass::PassContext;
use crate::relax::Callee;
use crate::relax::testing::vm;
use crate::relax::transform::random_graphs::{Graph, difference, random_graph, results};
use crate::target::Target;

/// The module after the pass, for a machine with vectors of four elements.
fn converted(module: &IRModule) -> IRModule {
    let target = Target { machine: Machine::baseline(), ..Target::llvm() };
    let converted =
        PassContext::new().target(target).scope(|| convert_layout().apply(module.clone())).unwrap();
    well_formed(&converted).unwrap_or_else(|err| panic!("{err}\n{module}"));
    converted
}

#[test]
fn random_graphs_compute_the_same() {
    let mut in_blocks = 0;
    for seed in 0..60 {
        let (module, args) = random_graph(seed);
        let converted = converted(&module);
        let text = format!("{converted:?}");
        in_blocks += usize::from(text.contains("NCHW8c") || text.contains("NCHW4c"));
        let (before, after) = (results(&module, &args), results(&converted, &args));
        for (before, after) in before.iter().zip(&after) {
            let apart = difference(before, after);
            assert!(apart.is_some_and(|it| it <= 1e-4), "seed {seed}: {apart:?}");
        }
    }
    assert!(in_blocks > 30, "{in_blocks} graphs have blocks");
}

/// A convolution of 3×3 with constant weights over images of which some axes are `symbolic`, after the pass: its operators, and
/// the largest difference to what the module computed before, relative to the largest value.
fn convolution(
    shape: [i64; 4],
    out: i64,
    attrs: Attrs,
    winograd: bool,
    symbolic: &[usize],
) -> (Vec<&'static str>, f32) {
    let mut graph = Graph::new(7);
    let dim = |(axis, extent): (usize, i64)| match axis {
        _ if symbolic.contains(&axis) => PrimExpr::from(&Var::index(["n", "c", "h", "w"][axis])),
        _ => extent.into(),
    };
    let data = graph.param("x", shape.into_iter().enumerate().map(dim).collect());
    let weight = graph.numbers(&[out, shape[1], 3, 3]);
    let result = graph.op("nn.conv2d", &[(&data).into(), Arg::Const(weight)], attrs).unwrap();
    let args = [Value::from(graph.numbers(&shape))];
    let module = graph.function_of(data, result);
    let target = Target { machine: Machine::baseline(), ..Target::llvm() };
    let context = PassContext::new().target(target).configure(|config| config.winograd = winograd);
    let converted = context.scope(|| convert_layout().apply(module.clone())).unwrap();
    well_formed(&converted).unwrap();
    let func = converted.relax_func(converted.global_var("main").unwrap()).unwrap();
    let ops = func.body.bindings().filter_map(|binding| match &binding.value {
        Expr::Call(call) => match &call.callee {
            Callee::Op(op) => Some(op.name),
            _ => None,
        },
        _ => None,
    });
    let ops = ops.filter(|name| name.starts_with("nn.")).collect();
    let (before, after) = (results_of_one(&module, &args), results_of_one(&converted, &args));
    assert_eq!(before.len(), after.len());
    let most = before.iter().fold(0f32, |most, it| most.max(it.abs()));
    let error = before.iter().zip(&after).fold(0f32, |error, (a, b)| error.max((a - b).abs()));
    (ops, error / most)
}

/// The layouts of data and weights after the pass, if the weights have words; the result of a convolution of bytes does not change.
fn convolution_of_bytes(shape: [i64; 4], weights: [i64; 4], attrs: Attrs) -> Option<(String, Vec<i64>)> {
    let mut graph = Graph::new(11);
    let data = Var::new("x", Type::tensor(shape.map(PrimExpr::index).to_vec(), DataType::U8));
    let mut numbers = |shape: &[i64], dtype| {
        let len: i64 = shape.iter().product();
        let values: Vec<f32> = (0..len).map(|_| graph.rng.range(-100, 100) as f32).collect();
        bytes(&values, shape, dtype)
    };
    let args = [Value::from(numbers(&shape, DataType::U8))];
    let weight = Arg::Const(numbers(&weights, DataType::I8));
    let attrs = attrs.with("out_dtype", DataType::I32);
    let sums = graph.op("nn.conv2d", &[(&data).into(), weight], attrs).unwrap();
    let result = graph.op("astype", &[sums.into()], Attrs::new().with("dtype", DataType::F32)).unwrap();
    let module = graph.function_of(data, result);
    let converted = converted(&module);
    assert_eq!(results_of_one(&module, &args), results_of_one(&converted, &args));
    let func = converted.relax_func(converted.global_var("main").unwrap()).unwrap();
    let conv = func.body.bindings().find_map(|binding| match &binding.value {
        Expr::Call(call) if matches!(call.callee, Callee::Op(op) if op.name == "nn.conv2d") => {
            Some(call.clone())
        }
        _ => None,
    });
    let conv = conv?;
    let weights = conv.args[1].as_const().unwrap();
    let layout = conv.attrs.str("data_layout")?.to_string();
    (weights.dtype() == DataType::I32).then(|| (layout, weights.shape().to_vec()))
}

#[test]
fn convolutions_of_bytes_have_words() {
    let padded = || Attrs::new().with("padding", vec![1i64, 1]);
    // The baseline has vectors of four elements.
    for (shape, weights, attrs, want) in [
        ([1, 16, 5, 6], [24, 16, 3, 3], padded(), ("NCHW8c", [3, 2, 3, 3, 2, 8])),
        (
            [2, 8, 5, 4],
            [6, 8, 1, 1],
            Attrs::new().with("strides", vec![2i64, 2]),
            ("NCHW8c", [1, 1, 1, 1, 2, 8]),
        ),
        ([1, 12, 4, 4], [12, 12, 2, 2], padded(), ("NCHW4c", [3, 3, 2, 2, 1, 4])),
        // Channels that fill no word.
        ([1, 9, 4, 4], [8, 9, 2, 2], padded(), ("NCHW4c", [1, 3, 2, 2, 1, 8])),
        ([1, 3, 7, 6], [5, 3, 3, 3], padded(), ("NCHW4c", [1, 1, 3, 3, 1, 8])),
    ] {
        let got = convolution_of_bytes(shape, weights, attrs);
        assert_eq!(got, Some((want.0.to_string(), want.1.to_vec())), "{shape:?} {weights:?}");
    }
    for (channels, weights, groups, want) in [
        (16, [8, 8, 2, 2], 2, Some(("NCHW8c", [2, 1, 2, 2, 2, 4]))),
        (12, [12, 4, 3, 3], 3, Some(("NCHW4c", [3, 1, 3, 3, 1, 4]))),
        (24, [16, 12, 3, 1], 2, Some(("NCHW4c", [2, 3, 3, 1, 1, 8]))),
        // No whole words, no whole blocks of the result, and a product of matrices.
        (12, [8, 6, 2, 2], 2, None),
        (16, [12, 8, 2, 2], 2, None),
        (16, [8, 8, 1, 1], 2, None),
    ] {
        let pad = if weights[2] == 1 { 0 } else { 1 };
        let attrs = Attrs::new().with("padding", vec![pad, pad]).with("groups", groups);
        let got = convolution_of_bytes([1, channels, 4, 4], weights, attrs);
        let want = want.map(|(layout, shape): (&str, [i64; 6])| (layout.to_string(), shape.to_vec()));
        assert_eq!(got, want, "{groups} groups of {weights:?}");
    }
}

/// Groups are whole blocks: smaller ones than those of the data, if need be. Plain data are only changed for windows of several pixels.
#[test]
fn blocks_do_not_reach_from_one_group_into_the_next() {
    for (channels, groups, window, reads_blocks, want) in [
        (24, 2, 3, true, Some("NCHW4c")),
        (24, 3, 3, true, Some("NCHW8c")),
        (24, 2, 1, true, Some("NCHW4c")),
        (24, 2, 3, false, Some("NCHW4c")),
        (24, 2, 1, false, None),
        (24, 4, 3, true, None),
    ] {
        let mut graph = Graph::new(13);
        let of_data = if reads_blocks { 3 } else { channels };
        let shape = [2, of_data, 6, 5];
        let data = graph.param("x", shape.map(PrimExpr::index).to_vec());
        let mut y = data.clone();
        if reads_blocks {
            let first = Arg::Const(graph.numbers(&[channels, 3, 1, 1]));
            y = graph.op("nn.conv2d", &[(&data).into(), first], Attrs::new()).unwrap();
        }
        let weight = Arg::Const(graph.numbers(&[8 * groups, channels / groups, window, window]));
        let attrs = Attrs::new().with("groups", groups).with("padding", vec![window / 2; 2]);
        let result = graph.op("nn.conv2d", &[y.into(), weight], attrs).unwrap();
        let args = [Value::from(graph.numbers(&shape))];
        let module = graph.function_of(data, result);
        let converted = converted(&module);
        let func = converted.relax_func(converted.global_var("main").unwrap()).unwrap();
        let layouts = func.body.bindings().filter_map(|binding| match &binding.value {
            Expr::Call(call) => call.attrs.int("groups").and(call.attrs.str("data_layout")).map(String::from),
            _ => None,
        });
        assert_eq!(layouts.collect::<Vec<_>>(), Vec::from_iter(want), "{groups} groups: {converted}");
        for (a, b) in results_of_one(&module, &args).iter().zip(results_of_one(&converted, &args)) {
            assert!((a - b).abs() < 1e-3, "{groups} groups: {a} {b}");
        }
    }
}

/// What only fills a block may be infinite times zero: it is not a term of the next convolution.
#[test]
fn channels_that_fill_a_block_are_not_read() {
    let mut graph = Graph::new(5);
    let shape = [1, 3, 6, 5];
    let data = graph.param("x", shape.map(PrimExpr::index).to_vec());
    let [first, second] = [[13, 3, 1, 1], [16, 13, 3, 3]].map(|shape| Arg::Const(graph.numbers(&shape)));
    let y = graph.op("nn.conv2d", &[(&data).into(), first], Attrs::new()).unwrap();
    let padded = Attrs::new().with("padding", vec![1i64, 1]);
    let result = graph.op("nn.conv2d", &[y.into(), second], padded).unwrap();
    let module = graph.function_of(data, result);
    let converted = converted(&module);
    let text = converted.to_string();
    assert!(text.contains("OHWI8o") && !text.contains("strided_slice"), "{text}");
    let mut values: Vec<f32> = (0..shape.iter().product()).map(|i| (i % 7) as f32 - 3.0).collect();
    values[40] = f32::INFINITY;
    let args = [Tensor::from_slice(&values, &shape).unwrap().into()];
    let (before, after) = (results_of_one(&module, &args), results_of_one(&converted, &args));
    let finite = before.iter().filter(|it| it.is_finite()).count();
    assert!(finite > before.len() / 2, "{finite}");
    for (before, after) in before.iter().zip(&after) {
        let close = (before - after).abs() <= 1e-4 * before.abs().max(1.0);
        assert!(close || before.is_nan() && after.is_nan() || before == after, "{before} {after}");
    }
}

#[test]
fn winograd_is_chosen_where_it_is_faster() {
    let padded = || Attrs::new().with("padding", vec![1i64, 1]);
    let winograd = ["nn.winograd_data", "nn.winograd_product", "nn.winograd_result"];
    for (shape, out, attrs) in [
        ([1, 32, 9, 10], 40, padded()),
        ([2, 64, 6, 9], 24, Attrs::new()),
        ([1, 24, 12, 12], 64, Attrs::new().with("padding", vec![2i64, 0, 1, 2])),
    ] {
        for symbolic in [&[][..], &[0, 2, 3]] {
            let (ops, error) = convolution(shape, out, attrs.clone(), true, symbolic);
            assert_eq!(ops, winograd, "{shape:?}");
            assert!(error <= 2e-5, "{shape:?}: {error}");
        }
        let (ops, error) = convolution(shape, out, attrs, false, &[]);
        assert_eq!(ops, ["nn.conv2d"], "{shape:?}");
        assert!(error <= 1e-5, "{shape:?}: {error}");
    }
    // More than the second-level cache holds, but for the weights and a row of tiles; one image is expected where batches are symbolic.
    let (fixed, any): (&[&[usize]], &[&[usize]]) = (&[&[]], &[&[], &[0], &[0, 2, 3]]);
    for (shape, out, attrs, axes) in [
        ([1, 16, 34, 32], 16, padded(), any),
        ([2, 12, 17, 35], 20, Attrs::new(), fixed),
        ([3, 20, 13, 30], 8, Attrs::new().with("padding", vec![0i64, 2, 1, 1]), fixed),
    ] {
        for symbolic in axes {
            let (ops, error) = convolution(shape, out, attrs.clone(), true, symbolic);
            assert_eq!(ops, ["nn.winograd_conv2d"], "{shape:?}, axes {symbolic:?} symbolic");
            assert!(error <= 2e-5, "{shape:?}: {error}");
        }
    }
    for (shape, attrs) in [
        ([1, 4, 9, 10], padded()),
        ([1, 64, 1, 1], padded()),
        ([1, 32, 9, 10], padded().with("strides", vec![2i64, 1])),
        ([1, 32, 9, 10], padded().with("dilation", vec![1i64, 2])),
    ] {
        let (ops, _) = convolution(shape, 32, attrs, true, &[]);
        assert_eq!(ops, ["nn.conv2d"], "{shape:?}");
    }
}

/// `x w` with constant `w` of shape `[k, n]`, which is a constant `[n, k]` transposed if so asked; the operator that computes
/// it after the pass, and that the results are the same. Numbers are whole: their sums are exact in any order.
fn dense(rows: Option<i64>, [k, n]: [i64; 2], transposed: bool, dtype: DataType) -> (String, Vec<i64>) {
    let mut graph = Graph::new(7);
    let m = rows.map_or_else(|| PrimExpr::from(&graph.n), PrimExpr::index);
    let data = Var::new("x", Type::tensor(vec![m, k.into()], dtype));
    let mut numbers = |shape: &[i64], dtype| -> Tensor {
        let len: i64 = shape.iter().product();
        let values: Vec<f32> = (0..len).map(|_| graph.rng.range(-4, 4) as f32).collect();
        match dtype {
            DataType::U8 | DataType::I8 => bytes(&values, shape, dtype),
            DataType::BF16 => {
                let values: Vec<_> = values.into_iter().map(half::bf16::from_f32).collect();
                Tensor::from_slice(&values, shape).unwrap()
            }
            _ => Tensor::from_slice(&values, shape).unwrap(),
        }
    };
    let args = [Value::from(numbers(&[rows.unwrap_or(5), k], dtype))];
    let [of_weights, of_result] = match dtype {
        DataType::U8 => [DataType::I8, DataType::I32],
        _ => [dtype; 2],
    };
    let mut weight = Arg::Const(numbers(&if transposed { [n, k] } else { [k, n] }, of_weights));
    if transposed {
        let swapped = graph.op("permute_dims", &[weight], Attrs::new().with("axes", vec![1i64, 0]));
        weight = swapped.unwrap().into();
    }
    let attrs = Attrs::new().with("out_dtype", of_result);
    let product = graph.op("matmul", &[(&data).into(), weight], attrs).unwrap();
    let result = graph.op("astype", &[product.into()], Attrs::new().with("dtype", DataType::F32)).unwrap();
    let module = graph.function_of(data, result);
    let machine = Machine { bf16_dot: true, ..Machine::baseline() };
    let context = PassContext::new().target(Target { machine, ..Target::llvm() });
    let context = context.configure(|config| config.fast_math = true);
    let converted = context.scope(|| convert_layout().apply(module.clone())).unwrap();
    well_formed(&converted).unwrap();
    assert_eq!(results_of_one(&module, &args), results_of_one(&converted, &args));
    let func = converted.relax_func(converted.global_var("main").unwrap()).unwrap();
    let bindings: Vec<&Binding> = func.body.bindings().collect();
    let of_product = bindings[bindings.len() - 2];
    let Expr::Call(call) = &of_product.value else { panic!("the product is a call") };
    let Callee::Op(op) = call.callee else { panic!("of an operator") };
    let weight = call.args[1].as_const().map(|it| it.shape().to_vec());
    (op.name.to_string(), weight.unwrap_or_default())
}

/// Numbers as bytes; those of `u8` are 100 more.
fn bytes(values: &[f32], shape: &[i64], dtype: DataType) -> Tensor {
    let values: Vec<f64> =
        values.iter().map(|&it| f64::from(it) + if dtype == DataType::U8 { 100.0 } else { 0.0 }).collect();
    Tensor::from_f64s(&values, shape, dtype).unwrap()
}

fn results_of_one(module: &IRModule, args: &[Value]) -> Vec<f32> {
    let context = PassContext::new().target(Target::interpreter());
    crate::relax::testing::elements(&context.scope(|| vm(module)).invoke("main", args).unwrap())
}

#[test]
fn constant_weights_of_products_get_panels() {
    // The baseline has vectors of four elements.
    for (rows, shape, want) in [
        (Some(64), [12, 16], vec![2, 12, 8]),
        (Some(64), [12, 19], vec![5, 12, 4]),
        (Some(12), [12, 16], vec![4, 12, 4]),
        (Some(1), [12, 16], vec![2, 12, 8]),
        (None, [9, 30], vec![4, 9, 8]),
        (Some(0), [9, 30], vec![4, 9, 8]),
    ] {
        for transposed in [false, true] {
            let got = dense(rows, shape, transposed, DataType::F32);
            assert_eq!(got, ("nn.dense_pack".into(), want.clone()), "{rows:?} {shape:?}");
        }
    }
    // Pairs of terms are words of four bytes.
    for (shape, want) in [([12, 16], vec![2, 6, 8]), ([13, 15], vec![2, 7, 8])] {
        let got = dense(Some(64), shape, true, DataType::BF16);
        assert_eq!(got, ("nn.dense_pack".into(), want), "{shape:?}");
    }
    // So are four of bytes.
    for (shape, want) in [([12, 16], vec![2, 3, 8]), ([13, 19], vec![5, 4, 4])] {
        for transposed in [false, true] {
            let got = dense(Some(64), shape, transposed, DataType::U8);
            assert_eq!(got, ("nn.dense_pack".into(), want.clone()), "{shape:?}");
        }
    }
    // Too few columns for a vector, too few terms.
    for shape in [[12, 1], [3, 32]] {
        assert_eq!(dense(Some(64), shape, false, DataType::F32).0, "matmul", "{shape:?}");
    }
}

/// Parts of the channels are whole blocks, or whole halves of them; the other parts are plain.
#[test]
fn parts_of_channels_stay_in_blocks() {
    for (channels, cuts, in_blocks) in
        [(16, vec![8i64], 2), (24, vec![4, 16], 3), (13, vec![8], 3), (16, vec![5], 0)]
    {
        let mut graph = Graph::new(3);
        let shape = [2, 3, 4, 5];
        let data = graph.param("x", shape.map(PrimExpr::index).to_vec());
        let weight = Arg::Const(graph.numbers(&[channels, 3, 3, 3]));
        let y = graph.op("nn.conv2d", &[(&data).into(), weight], Attrs::new().with("padding", vec![1i64, 1]));
        let y = y.unwrap();
        let count = cuts.len() + 1;
        let attrs = Attrs::new().with("axis", 1i64).with("indices_or_sections", cuts);
        let parts = graph.op("split", &[y.clone().into()], attrs).unwrap();
        let mut fields: Vec<Arg> = (0..count).map(|i| graph.field(&parts, i).unwrap().into()).collect();
        fields.reverse();
        let joined =
            graph.op("concat", &[Arg::Tuple(fields.into())], Attrs::new().with("axis", 1i64)).unwrap();
        let result = graph.op("nn.relu", &[joined.into()], Attrs::new()).unwrap();
        let args = [Value::from(graph.numbers(&shape))];
        let module = graph.function_of(data, result);
        let converted = converted(&module);
        let text = converted.to_string();
        let of_blocks = |line: &&str| line.contains("strided_slice(") && !line.contains("[13]");
        assert_eq!(text.lines().filter(of_blocks).count(), in_blocks, "{text}");
        assert_eq!(results_of_one(&module, &args), results_of_one(&converted, &args));
    }
}

/// 28 channels are three and a half blocks of 8, and seven of 4.
#[test]
fn channels_that_fill_no_block_are_joined_in_smaller_ones() {
    let mut graph = Graph::new(9);
    let shape = [2, 3, 4, 5];
    let data = graph.param("x", shape.map(PrimExpr::index).to_vec());
    let weights = [0; 2].map(|_| Arg::Const(graph.numbers(&[28, 3, 1, 1])));
    let images =
        weights.map(|weight| graph.op("nn.conv2d", &[(&data).into(), weight], Attrs::new()).unwrap());
    let fields = Arg::Tuple(images.iter().map(Arg::from).collect());
    let joined = graph.op("concat", &[fields], Attrs::new().with("axis", 1i64)).unwrap();
    let result = graph.op("nn.relu", &[joined.into()], Attrs::new()).unwrap();
    let args = [Value::from(graph.numbers(&shape))];
    let module = graph.function_of(data, result);
    let converted = converted(&module);
    let text = converted.to_string();
    let changes = text.matches("src_layout = \"NCHW8c\"").count();
    assert!(changes == 2 && !text.contains("dst_layout = \"NCHW\", src_layout = \"NCHW8c\""), "{text}");
    assert_eq!(results_of_one(&module, &args), results_of_one(&converted, &args));
}

/// The maximum of an image in blocks and a plain one with 0: in blocks if a convolution in blocks reads it, at whatever distance.
#[test]
fn images_of_both_layouts_become_blocks_where_they_are_read_in_blocks() {
    for (join, in_blocks) in [("concat", true), ("concat", false), ("add", true), ("add", false)] {
        let mut graph = Graph::new(11);
        let shape = [1, 16, 6, 5];
        let data = graph.param("x", shape.map(PrimExpr::index).to_vec());
        let conv = |graph: &mut Graph, x: Arg, channels: i64, groups: i64| {
            let weight = Arg::Const(graph.numbers(&[16, channels / groups, 3, 3]));
            let attrs = Attrs::new().with("padding", vec![1i64, 1]).with("groups", groups);
            graph.op("nn.conv2d", &[x, weight], attrs).unwrap()
        };
        let images = [1, 8].map(|groups| Arg::from(conv(&mut graph, (&data).into(), 16, groups)));
        let joined = match join {
            "concat" => {
                graph.op(join, &[Arg::Tuple(images.into())], Attrs::new().with("axis", 1i64)).unwrap()
            }
            _ => graph.op(join, &images, Attrs::new()).unwrap(),
        };
        let relu = graph.op("nn.relu", &[joined.into()], Attrs::new()).unwrap();
        let channels = if join == "concat" { 32 } else { 16 };
        // Two channels of a group are no block.
        let groups = if in_blocks { 1 } else { channels / 2 };
        let result = conv(&mut graph, relu.into(), channels, groups);
        let args = [Value::from(graph.numbers(&shape))];
        let module = graph.function_of(data, result);
        let converted = converted(&module);
        let text = converted.to_string();
        let to_blocks = text.lines().filter(|line| line.contains("dst_layout = \"NCHW8c\"")).count();
        let to_plain = text.lines().filter(|line| line.contains("dst_layout = \"NCHW\"")).count();
        // The result of the last convolution, or that of the first one, becomes plain.
        assert_eq!([to_blocks, to_plain], [usize::from(in_blocks), 1], "{join}: {text}");
        let apart = difference(&results_of_one(&module, &args), &results_of_one(&converted, &args));
        assert!(apart.is_some_and(|it| it < 1e-5), "{join}: {apart:?}");
    }
}

/// The phases of transposed convolutions are channels of one convolution in blocks where all have windows of the same size, otherwise
/// convolutions, if their channels are whole blocks. Images may be of symbolic size.
#[test]
fn phases_of_transposed_convolutions_are_convolutions() {
    for (channels, window, strides, padding, more, in_blocks) in [
        (8, [2, 2], [2, 2], [0, 0, 0, 0], [0, 0], true),
        (8, [4, 4], [2, 2], [1, 1, 1, 1], [0, 0], true),
        (12, [4, 2], [2, 1], [1, 0, 2, 0], [0, 0], true),
        (4, [3, 6], [3, 2], [0, 3, 1, 1], [2, 0], true),
        (16, [3, 3], [1, 1], [1, 1, 1, 1], [0, 0], true),
        (16, [3, 3], [1, 1], [0, 0, 2, 0], [0, 0], true),
        (8, [4, 4], [2, 2], [1, 0, 0, 2], [1, 1], true),
        // Phases of several sizes.
        (8, [3, 3], [2, 2], [1, 1, 1, 1], [1, 1], true),
        (4, [5, 4], [2, 3], [1, 0, 0, 1], [0, 2], true),
        (8, [3, 2], [2, 2], [0, 1, 0, 1], [0, 0], true),
        // A window that leaves results out, channels that are no block, data that are cut off.
        (8, [2, 2], [3, 3], [0, 0, 0, 0], [0, 0], false),
        (8, [3, 3], [2, 2], [2, 2, 2, 2], [0, 0], false),
        // Many phases, of the same size and of several.
        (8, [4, 4], [4, 4], [0, 0, 0, 0], [0, 0], true),
        (8, [5, 5], [4, 4], [0, 0, 0, 0], [0, 0], false),
        (6, [2, 2], [2, 2], [0, 0, 0, 0], [0, 0], false),
        (8, [2, 2], [1, 1], [2, 2, 2, 2], [0, 0], false),
    ] {
        for symbolic in [false, true] {
            let mut graph = Graph::new(17);
            let shape = [2, 8, 5, 7];
            let names = if symbolic { ["n", "", "h", "w"] } else { [""; 4] };
            let dim = |(name, extent): (&str, i64)| match name {
                "" => extent.into(),
                name => PrimExpr::from(&Var::index(name)),
            };
            let data = graph.param("x", names.into_iter().zip(shape).map(dim).collect());
            let weight = Arg::Const(graph.numbers(&[8, channels, window[0], window[1]]));
            let attrs = Attrs::new().with("strides", strides.to_vec()).with("padding", padding.to_vec());
            let attrs = attrs.with("output_padding", more.to_vec());
            let result = graph.op("nn.conv2d_transpose", &[(&data).into(), weight], attrs).unwrap();
            let result = graph.op("nn.relu", &[result.into()], Attrs::new()).unwrap();
            let args = [Value::from(graph.numbers(&shape))];
            let module = graph.function_of(data, result);
            let converted = converted(&module);
            well_formed(&converted).unwrap();
            let text = converted.to_string();
            assert_eq!(!text.contains("nn.conv2d_transpose"), in_blocks, "{window:?} by {strides:?}: {text}");
            let apart = difference(&results_of_one(&module, &args), &results_of_one(&converted, &args));
            assert!(apart.is_some_and(|it| it < 1e-5), "{window:?} by {strides:?}: {apart:?}");
        }
    }
}

/// Depthwise convolutions of bytes keep the blocks of their data, and so does padding of the image in front of them; other groups and
/// padding of channels have the plain layout.
#[test]
fn depthwise_convolutions_of_bytes_keep_blocks() {
    let whole = |shape: &[i64]| {
        let values: Vec<f64> = (0..shape.iter().product()).map(|i: i64| (i * 37 % 23 - 11) as f64).collect();
        Tensor::from_f64s(&values, shape, DataType::F32).unwrap()
    };
    let image = vec![0i64, 0, 0, 0, 1, 1, 2, 0];
    for (channels, dtype, groups, widths, in_blocks) in [
        (16, DataType::U8, 16, None, true),
        (16, DataType::I8, 16, Some(image.clone()), true),
        // The last block is not full.
        (13, DataType::U8, 13, Some(image), true),
        (16, DataType::U8, 8, None, false),
        (16, DataType::U8, 18, Some(vec![0, 0, 1, 1, 0, 0, 0, 0]), false),
    ] {
        let mut graph = Graph::new(3);
        let shape = [2i64, 3, 5, 6];
        let data = graph.param("x", shape.map(PrimExpr::index).to_vec());
        let first = Arg::Const(whole(&[channels, 3, 1, 1]));
        let mut y = graph.op("nn.conv2d", &[(&data).into(), first], Attrs::new()).unwrap();
        for (op, attrs) in [
            ("round", Attrs::new()),
            ("nn.relu", Attrs::new()),
            ("astype", Attrs::new().with("dtype", dtype)),
        ] {
            y = graph.op(op, &[y.into()], attrs).unwrap();
        }
        if let Some(widths) = widths {
            let attrs = Attrs::new().with("pad_width", widths).with("pad_value", 7.0);
            y = graph.op("nn.pad", &[y.into()], attrs).unwrap();
        }
        let of_data = y.ty().as_tensor().unwrap().known_shape().unwrap()[1].as_int().unwrap();
        let weight = Arg::Const(whole(&[of_data, of_data / groups, 3, 2]));
        let attrs = Attrs::new().with("groups", groups).with("padding", vec![1i64, 0]);
        let attrs = attrs.with("out_dtype", DataType::F32);
        let result = graph.op("nn.conv2d", &[y.into(), weight], attrs).unwrap();
        let args = [Value::from(graph.numbers(&shape))];
        let module = graph.function_of(data, result);
        let converted = converted(&module);
        let text = converted.to_string();
        let blocks = text.matches("data_layout = \"NCHW8c\"").count()
            + text.matches("data_layout = \"NCHW4c\"").count();
        assert_eq!(blocks, usize::from(in_blocks), "{text}");
        assert_eq!(results_of_one(&module, &args), results_of_one(&converted, &args), "{text}");
    }
}

/// Single pixels in groups are products of matrices; windows, strides and other types are left alone.
#[test]
fn pixels_of_bytes_in_groups_are_products() {
    let number = |i: i64| (i * 37 % 251) as f64;
    let bytes = |shape: &[i64], dtype: DataType, offset: f64| {
        let values: Vec<f64> = (0..shape.iter().product()).map(|i| number(i) - offset).collect();
        Tensor::from_f64s(&values, shape, dtype).unwrap()
    };
    for (window, stride, out_dtype, is_product) in
        [(1i64, 1i64, DataType::I32, true), (3, 1, DataType::I32, false), (1, 2, DataType::I32, false)]
    {
        let mut graph = Graph::new(11);
        let shape = [2i64, 12, 5, 7];
        let data = Var::new("x", Type::tensor(shape.map(PrimExpr::index).to_vec(), DataType::U8));
        let weight = bytes(&[8, 6, window, window], DataType::I8, 125.0);
        let attrs = Attrs::new().with("groups", 2i64).with("strides", vec![stride; 2]);
        let attrs = attrs.with("out_dtype", out_dtype);
        let result = graph.op("nn.conv2d", &[(&data).into(), Arg::Const(weight)], attrs).unwrap();
        let result = graph.op("astype", &[result.into()], Attrs::new().with("dtype", DataType::F32)).unwrap();
        let module = graph.function_of(data, result);
        let converted = converted(&module);
        let text = converted.to_string();
        assert_eq!(text.contains("matmul"), is_product, "{text}");
        let args = [Value::from(bytes(&shape, DataType::U8, 0.0))];
        assert_eq!(results_of_one(&module, &args), results_of_one(&converted, &args));
    }
}
