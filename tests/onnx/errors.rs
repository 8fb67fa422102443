//! Tests of refused models and of the error messages.

use tvm_onnx::proto::{ModelProto, NodeProto, Segment, TensorProto};
use tvm_onnx::{ImportOptions, OnnxError, import, import_proto};
use tvm_runtime::DataType;

use crate::build::{Build, float, floats, info, int, ints, longs, model, node, refusal, string};

#[test]
fn all_unsupported_operators_are_listed_at_once() {
    let mut custom = node("Fancy", "c", "y", vec![]);
    custom.domain = "com.example".into();
    let nodes = vec![
        node("Relux", "x", "a", vec![]),
        node("StringSplit", "a", "b", vec![]),
        node("Relux", "b", "c", vec![]),
        custom,
        node("Nope", "x", "dead", vec![]),
    ];
    let model = model(17, nodes).input("x", "4").output("y");
    let Err(OnnxError::Unsupported(report)) = import_proto(&model, None, &ImportOptions::default()) else {
        panic!("expected a report")
    };
    let found: Vec<(&str, usize)> = report.items.iter().map(|it| (&*it.what, it.nodes.len())).collect();
    let want = [
        ("operator Relux of opset 17", 2),
        ("operator StringSplit of opset 17", 1),
        ("operator Fancy of domain com.example", 1),
    ];
    assert_eq!(found, want);
    assert_eq!(report.items[0].nodes, ["g/Relux_a (Relux)", "g/Relux_c (Relux)"]);
    assert_eq!(report.items[0].help.as_deref(), Some("there is an operator Relu"));
}

/// A model with one node on the input `x: 2 3`, with the output `y`.
fn single(opset: i64, op: &str, inputs: &str, attrs: Vec<tvm_onnx::proto::AttributeProto>) -> ModelProto {
    model(opset, vec![node(op, inputs, "y", attrs)]).input("x", "2 3").output("y")
}

#[test]
fn errors_name_the_node_and_what_is_wrong() {
    let cases: Vec<(ModelProto, &[&str])> = vec![
        (
            single(17, "Add", "x w", vec![]).constant("w", &floats(&[0.0; 4], &[4])),
            &["`add`", "3", "4", "g/Add_y (Add)"],
        ),
        (single(17, "Transpose", "x", vec![ints("perm", &[0, 2])]), &["axis 2 is outside", "rank 2"]),
        (single(17, "Transpose", "x", vec![ints("perm", &[0, 0])]), &["axis 0 is given twice"]),
        (single(17, "Softmax", "x", vec![float("axis", 1.0)]), &["attribute `axis` is Int, got Float"]),
        (single(17, "Concat", "x x", vec![]), &["attribute `axis` is missing", "g/Concat_y (Concat)"]),
        (single(17, "Relu", "_", vec![]), &["input 0 is missing"]),
        (single(17, "Relu", "x", vec![]).output("z"), &["nothing makes the output `z`"]),
        (single(17, "Split", "x", vec![int("axis", 1)]).output("z"), &["nothing makes the output `z`"]),
        (single(17, "MaxPool", "x", vec![ints("kernel_shape", &[2])]), &["rank 2"]),
        (
            single(17, "Reshape", "x s", vec![]).constant("s", &longs(&[4, -1])),
            &["6 elements do not divide into groups of 4"],
        ),
        (single(17, "Reshape", "x s", vec![]).constant("s", &longs(&[0, 0, 0])), &["no axis 2 to keep"]),
        (
            single(17, "Gather", "x i", vec![int("axis", 7)]).constant("i", &longs(&[0])),
            &["axis 7 is outside"],
        ),
        (single(17, "Cast", "x", vec![int("to", 99)]), &["99 is not an element type"]),
        (single(17, "Cast", "x", vec![int("to", 8)]), &["element type String", "supported: f32"]),
        (
            single(17, "Pad", "x p", vec![string("mode", "odd")]).constant("p", &longs(&[1, 1, 1, 1])),
            &["mode odd"],
        ),
        (single(10, "GreaterOrEqual", "x x", vec![]), &["supported from opset 12 on", "opset 10"]),
        (single(0, "Relu", "x", vec![]), &["there is no operator set 0"]),
        (single(1_000_000, "Relu", "x", vec![]), &["operator set 1000000", "the newest one supported"]),
    ];
    for (model, wants) in cases {
        let message = refusal(&model);
        for want in wants {
            assert!(message.contains(want), "expected `{want}` in:\n{message}");
        }
    }
}

/// Operands with fewer axes than their operator needs, and so many axes that a run chooses among them.
#[test]
fn operands_of_other_ranks() {
    let on = |dims: &str, it: NodeProto, opset: i64| model(opset, vec![it]).input("x", dims).output("y");
    let scalar = || tvm_runtime::Tensor::scalar(2i64);
    let number = || floats(&[1.0], &[]);
    let heads = vec![int("q_num_heads", 1), int("kv_num_heads", 1), string("update_rule", "delta")];
    let cases: Vec<(ModelProto, &str)> = vec![
        (
            on("1 8 1", node("STFT", "x s w", "y", vec![]), 17)
                .constant("s", &scalar())
                .constant("w", &number()),
            "0 axes, there is none at 0",
        ),
        (
            on("2 4 3", node("TensorScatter", "x x i", "y", vec![]), 24).constant("i", &scalar()),
            "0 axes, there is none at 0",
        ),
        (
            on("1 2 4", node("LinearAttention", "x x x _ _ b", "y", heads), 27)
                .constant("b", &floats(&[1.0], &[1])),
            "1 axes, there is none at 2",
        ),
        (
            on("1 1 1 1 1 1 1 1 2", node("ReduceSum", "x a", "y", vec![]), 18).typed("a", DataType::I64, "1"),
            "one of 9 positions, which only a run knows",
        ),
    ];
    for (model, want) in cases {
        let message = refusal(&model);
        assert!(message.contains(want), "expected `{want}` in:\n{message}");
    }
}

#[test]
fn graphs_that_contradict_themselves() {
    let relu = |input: &str, output: &str| node("Relu", input, output, vec![]);
    let with = |nodes: Vec<NodeProto>| model(17, nodes).input("x", "2").output("y");
    let cases: Vec<(ModelProto, &str)> = vec![
        (with(vec![relu("a", "b"), relu("b", "a"), relu("x", "y")]), "cycle"),
        (with(vec![relu("y", "y")]), "cycle"),
        (with(vec![relu("nope", "y")]), "nothing makes the value `nope`"),
        (with(vec![relu("x", "y"), relu("x", "y")]), "`y` is made twice"),
        (with(vec![relu("x", "x")]), "`x` is made twice"),
        (with(vec![relu("x", "y")]).input("x", "2"), "two inputs are named `x`"),
        (with(vec![]), "nothing makes the output `y`"),
        (model(17, vec![relu("x", "y")]).input("x", "2"), "no output"),
        (model(17, vec![relu("x", "y")]).input("x", "-2").output("y"), "extent -2 of axis 0 is negative"),
        (ModelProto::default(), "there is no graph"),
    ];
    for (model, want) in cases {
        let message = refusal(&model);
        assert!(message.contains(want), "expected `{want}` in:\n{message}");
    }
}

#[test]
fn sizes_are_limited_before_memory_is_taken() {
    let shape = |dims: &[i64]| {
        (model(17, vec![node("ConstantOfShape", "s", "y", vec![])]).output("y")).constant("s", &longs(dims))
    };
    for dims in [&[1 << 40][..], &[1 << 31, 1 << 33], &[i64::MAX, i64::MAX], &[1 << 62, 1 << 62, 4]] {
        let message = refusal(&shape(dims));
        assert!(message.contains("the limit is"), "{message}");
    }
    let message = refusal(&shape(&[-1]));
    assert!(message.contains("[-1] is not a shape"), "{message}");

    let small =
        ImportOptions { max_tensor_bytes: 1 << 10, max_total_bytes: 2 << 10, ..ImportOptions::default() };
    let chain = |n: &str| {
        let nodes = vec![node("Relu", "x", "a", vec![]), node("Relu", "a", "y", vec![])];
        import_proto(&model(17, nodes).input("x", n).output("y"), None, &small)
    };
    assert!(chain("64").is_ok());
    assert!(chain("257").unwrap_err().to_string().contains("a tensor of shape [257] has 1028 bytes"));
    assert!(chain("200").unwrap_err().to_string().contains("the sum of all values"));
    let huge =
        model(17, vec![node("Relu", "x", "y", vec![])]).input("x", "9223372036854775807 4").output("y");
    assert!(refusal(&huge).contains("the limit is"));
}

#[test]
fn damaged_tensors() {
    let base = || model(17, vec![node("Add", "x w", "y", vec![])]).input("x", "2").output("y");
    let with = |proto: TensorProto| {
        let mut model = base();
        model.graph.as_mut().unwrap().initializer.push(TensorProto { name: "w".into(), ..proto });
        refusal(&model)
    };
    let f32s = |dims: &[i64], bytes: usize| TensorProto {
        dims: dims.to_vec(),
        data_type: 1,
        raw_data: vec![0; bytes].into(),
        ..TensorProto::default()
    };
    let cases = [
        (f32s(&[2], 7), "takes 8 bytes, got 7"),
        (f32s(&[2], 0), "takes 2 elements, got 0"),
        (f32s(&[1 << 62, 1 << 62], 8), "is not a shape"),
        (f32s(&[-2], 8), "is not a shape"),
        (TensorProto { data_type: 77, ..f32s(&[2], 8) }, "77 is not an element type"),
        (TensorProto { data_type: 0, ..f32s(&[2], 8) }, "0 is not an element type"),
        (TensorProto { segment: Some(Segment::default()), ..f32s(&[2], 8) }, "segments"),
        (TensorProto { data_location: 1, ..f32s(&[2], 0) }, "external data of tensor `w`"),
    ];
    for (proto, want) in cases {
        let message = with(proto);
        assert!(message.contains(want), "expected `{want}` in:\n{message}");
    }
}

#[test]
fn bytes_that_are_no_model() {
    for bytes in [&b"\xff\xff\xff"[..], b"\x08", b"PK\x03\x04 not a model"] {
        let err = import(bytes, None, &ImportOptions::default()).unwrap_err();
        assert!(matches!(err, OnnxError::Decode { .. }), "{err}");
    }
    assert!(import(&b""[..], None, &ImportOptions::default()).is_err());
}

#[test]
fn deep_nesting_is_refused() {
    use prost::Message;
    let mut inner = model(17, vec![]).graph.unwrap();
    for _ in 0..60 {
        let mut branch = node("If", "c", "o", vec![]);
        branch.attribute = vec![tvm_onnx::proto::AttributeProto {
            name: "then_branch".into(),
            ty: 5,
            g: Some(inner),
            ..Default::default()
        }];
        inner = model(17, vec![branch]).graph.unwrap();
    }
    let deep = ModelProto { graph: Some(inner), ..model(17, vec![]) };
    let err = import(&deep.encode_to_vec()[..], None, &ImportOptions::default()).unwrap_err().to_string();
    assert!(err.contains("recursion"), "{err}");
}

#[test]
fn what_inputs_may_not_be() {
    let mut model = model(17, vec![node("Identity", "x", "y", vec![])]).output("y");
    let graph = model.graph.as_mut().unwrap();
    graph.input.push(info("x", DataType::F32, "2"));
    graph.input[0].ty =
        Some(tvm_onnx::proto::TypeProto { sequence_type: Some(Box::default()), ..Default::default() });
    assert!(refusal(&model).contains("sequences of unknown length as inputs"));
    model.graph.as_mut().unwrap().input[0].ty = None;
    assert!(refusal(&model).contains("input `x`"));
}
