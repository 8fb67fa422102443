//! Branches and loops: those that import decides, and those that run.

use tvm_onnx::proto::{AttributeProto, FunctionProto, ModelProto, NodeProto, OperatorSetIdProto};
use tvm_onnx::{ImportOptions, import_proto};
use tvm_runtime::{DataType, Tensor, Value};

use crate::build::{
    Build, assert_near, compiled, floats, graph, int, ints, longs, model, node, refusal, run, targets,
};

fn flag(value: bool) -> Tensor {
    Tensor::scalar(value)
}

fn number(value: i64) -> Tensor {
    Tensor::scalar(value)
}

/// `if c { then } else { otherwise }` with the result `y`.
fn branch(cond: &str, then: Vec<NodeProto>, otherwise: Vec<NodeProto>) -> NodeProto {
    let arms = vec![graph("then_branch", &[], then, "a"), graph("else_branch", &[], otherwise, "b")];
    node("If", cond, "y", arms)
}

#[test]
fn branches_run_one_arm() {
    let then = vec![node("Relu", "x", "a", vec![])];
    // The name `t` means another value in the arm than in the graph around it.
    let otherwise = vec![node("Neg", "x", "t", vec![]), node("Add", "t t", "b", vec![])];
    let nodes =
        vec![node("Abs", "x", "t", vec![]), branch("c", then, otherwise), node("Add", "y t", "z", vec![])];
    let model = model(17, nodes).input("x", "n").typed("c", DataType::BOOL, "").output("z");
    for target in targets() {
        let vm = compiled(&model, &target).unwrap();
        for (cond, want) in [(true, [2.0, 2.0]), (false, [-1.0, 6.0])] {
            let got = run(&vm, &[floats(&[1.0, -2.0], &[2]), flag(cond)]);
            assert_near(&got[0], &floats(&want, &[2]), &format!("{cond} on {target}"));
        }
    }
}

#[test]
fn known_conditions_cost_nothing() {
    let missing = || vec![node("NoSuchOperator", "x", "b", vec![])];
    for (cond, want) in [("yes", "relu("), ("long", "relu(")] {
        let nodes = vec![
            node("Shape", "x", "s", vec![]),
            node("Size", "s", "rank", vec![]),
            node("Greater", "rank one", "long", vec![]),
            branch(cond, vec![node("Relu", "x", "a", vec![])], missing()),
        ];
        let model = (model(17, nodes).input("x", "n 2").output("y"))
            .constant("yes", &flag(true))
            .constant("one", &number(1));
        let text = import_proto(&model, None, &ImportOptions::default()).unwrap().to_string();
        assert!(text.contains(want) && !text.contains("if "), "{text}");
    }
}

/// Exporters squeeze an axis if its extent is 1; the rest of the model accepts one of the ranks only.
#[test]
fn arms_of_different_ranks() {
    let squeeze = |then: &str| {
        vec![
            node("Shape", "x", "s", vec![]),
            node("Gather", "s last", "n", vec![]),
            node("Equal", "n one", "c", vec![]),
            branch(
                "c",
                vec![node("Squeeze", "x last1", "a", vec![])],
                vec![node("Identity", "x", "b", vec![])],
            ),
            node(then, "y w", "z", vec![]),
        ]
    };
    let make = |then: &str, w: &Tensor| {
        (model(17, squeeze(then)).input("x", "2 n").output("z"))
            .constant("last", &number(-1))
            .constant("last1", &longs(&[-1]))
            .constant("one", &number(1))
            .constant("w", w)
    };
    for target in targets() {
        // Both ranks can be added to a scalar.
        let vm = compiled(&make("Add", &floats(&[1.0], &[])), &target).unwrap();
        let got = run(&vm, &[floats(&[1.0, 2.0], &[2, 1])]);
        assert_near(&got[0], &floats(&[2.0, 3.0], &[2]), "rank 1");
        let got = run(&vm, &[floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2])]);
        assert_near(&got[0], &floats(&[2.0, 3.0, 4.0, 5.0], &[2, 2]), "rank 2");
        // Only a vector has this permutation of axes.
        let mut vector = make("Transpose", &floats(&[], &[0]));
        vector.graph.as_mut().unwrap().node[4] = node("Transpose", "y", "z", vec![ints("perm", &[0])]);
        let vm = compiled(&vector, &target).unwrap();
        let got = run(&vm, &[floats(&[1.0, 2.0], &[2, 1])]);
        assert_near(&got[0], &floats(&[1.0, 2.0], &[2]), "the only valid arm");
        let args = [Value::from(&floats(&[0.0; 4], &[2, 2]))];
        let err = vm.invoke("main", &args).unwrap_err().to_string();
        assert!(err.contains("the_only_valid_choice"), "{err}");
    }
}

/// `Squeeze` without axes removes those that have extent 1 in a run.
/// A branch in an arm decides the rank of the arm's output, which the graph around the arm needs. The name `h` means another
/// value in the arm than around it.
#[test]
fn ranks_that_branches_in_arms_decide() {
    let inner = || {
        let whole = graph("then_branch", &[], vec![node("Neg", "h", "whole", vec![])], "whole");
        let sums = vec![
            node("Neg", "h", "back", vec![]),
            node("ReduceSum", "back first", "sums", vec![int("keepdims", 0)]),
        ];
        let sums = graph("else_branch", &[], sums, "sums");
        vec![node("Neg", "x", "h", vec![]), node("If", "c", "a", vec![whole, sums])]
    };
    let nodes = |cond: &str| {
        vec![
            node("Abs", "x", "h", vec![]),
            branch(cond, inner(), vec![node("Identity", "x", "b", vec![])]),
            node("Transpose", "y", "t", vec![]),
            node("MatMul", "t h", "z", vec![]),
        ]
    };
    let x = floats(&[1.0, -2.0, 3.0, 4.0], &[2, 2]);
    let (whole, sums) = (floats(&[10.0, 14.0, 10.0, 12.0], &[2, 2]), floats(&[10.0, 16.0], &[2]));
    for cond in ["yes", "d"] {
        let model = (model(17, nodes(cond)).input("x", "2 2").typed("c", DataType::BOOL, ""))
            .typed("d", DataType::BOOL, "")
            .output("z")
            .constant("yes", &flag(true))
            .constant("first", &longs(&[0]));
        for target in targets() {
            let vm = compiled(&model, &target).unwrap();
            for (c, want) in [(true, &whole), (false, &sums)] {
                let got = run(&vm, &[x.clone(), flag(c), flag(true)]);
                assert_near(&got[0], want, &format!("{cond}, {c} on {target}"));
            }
            let got = run(&vm, &[x.clone(), flag(true), flag(false)]);
            assert_near(&got[0], &whole, cond);
        }
    }
}

#[test]
fn squeezes_of_symbolic_extents() {
    let nodes = vec![node("Squeeze", "x", "a", vec![]), node("Neg", "a", "y", vec![])];
    let model = model(17, nodes).input("x", "n 1 m 2").output("y");
    for target in targets() {
        let vm = compiled(&model, &target).unwrap();
        for (shape, want) in [
            ([1i64, 1, 1, 2], &[2i64][..]),
            ([3, 1, 1, 2], &[3, 2]),
            ([1, 1, 3, 2], &[3, 2]),
            ([2, 1, 3, 2], &[2, 3, 2]),
        ] {
            let n = shape.iter().product::<i64>();
            let values: Vec<f32> = (0..n).map(|it| it as f32).collect();
            let negated: Vec<f32> = values.iter().map(|it| -it).collect();
            let got = run(&vm, &[floats(&values, &shape)]);
            assert_near(&got[0], &floats(&negated, want), &format!("{shape:?} on {target}"));
        }
    }
}

const COUNT: (&str, DataType, &str) = ("i", DataType::I64, "");
const COND: (&str, DataType, &str) = ("go", DataType::BOOL, "");

/// A loop that hands on `v`, and makes rows `r` where the body does.
fn repeat(inputs: &str, outputs: &str, nodes: Vec<NodeProto>, results: &str) -> NodeProto {
    let state = ("v", DataType::F32, "?");
    node("Loop", inputs, outputs, vec![graph("body", &[COUNT, COND, state], nodes, results)])
}

/// Doubles `v` and makes rows `v + i`.
fn doubling() -> Vec<NodeProto> {
    vec![
        node("Identity", "go", "go_on", vec![]),
        node("Add", "v v", "w", vec![]),
        node("Cast", "i", "f", vec![int("to", 1)]),
        node("Add", "v f", "r", vec![]),
    ]
}

fn doubled(n: usize) -> (Tensor, Tensor) {
    let (mut v, mut rows) = ([1.0f32, 3.0], Vec::new());
    for i in 0..n {
        rows.extend(v.map(|it| it + i as f32));
        v = v.map(|it| it + it);
    }
    (floats(&v, &[2]), floats(&rows, &[n as i64, 2]))
}

#[test]
fn loops_of_any_number_of_iterations() {
    let nodes = || vec![repeat("m _ x", "y rows", doubling(), "go_on w r")];
    let any = model(17, nodes()).typed("m", DataType::I64, "").input("x", "2").output("y").output("rows");
    let x = floats(&[1.0, 3.0], &[2]);
    for target in targets() {
        let vm = compiled(&any, &target).unwrap();
        for n in [0usize, 1, 5, 70] {
            let got = run(&vm, &[number(n as i64), x.clone()]);
            let (v, rows) = doubled(n);
            assert_near(&got[0], &v, &format!("{n} iterations on {target}"));
            assert_near(&got[1], &rows, &format!("rows of {n} iterations on {target}"));
        }
        // Known numbers: few iterations become a part of the graph, many do not.
        for n in [3usize, 100] {
            let fixed = model(17, nodes()).input("x", "2").output("y").output("rows");
            let vm = compiled(&fixed.constant("m", &number(n as i64)), &target).unwrap();
            let (got, (v, rows)) = (run(&vm, std::slice::from_ref(&x)), doubled(n));
            assert_near(&got[0], &v, "a known number of iterations");
            assert_near(&got[1], &rows, "rows of a known number of iterations");
        }
    }
}

/// Doubles `v` while its largest element is less than 20; rows are `v`.
fn while_small() -> Vec<NodeProto> {
    vec![
        node("Add", "v v", "w", vec![]),
        node("ReduceMax", "w", "top", vec![int("keepdims", 0)]),
        node("Less", "top limit", "go_on", vec![]),
        node("Identity", "v", "r", vec![]),
    ]
}

#[test]
fn loops_that_a_condition_ends() {
    for (limit, has_trip) in [(20.0f32, true), (20.0, false), (0.0, true)] {
        let inputs = if has_trip { "m c x" } else { "_ c x" };
        let nodes = vec![repeat(inputs, "y rows", while_small(), "go_on w r")];
        let model = (model(17, nodes).typed("c", DataType::BOOL, "").input("x", "2"))
            .output("y")
            .output("rows")
            .constant("limit", &floats(&[limit], &[]))
            .constant("m", &number(100));
        for target in targets() {
            let vm = compiled(&model, &target).unwrap();
            let iterations = if limit == 0.0 { 1 } else { 3 };
            for begins in [true, false] {
                let n = if begins { iterations } else { 0 };
                let got = run(&vm, &[flag(begins), floats(&[1.0, 3.0], &[2])]);
                let scale = f32::powi(2.0, n);
                assert_near(&got[0], &floats(&[scale, 3.0 * scale], &[2]), "the value");
                let rows: Vec<f32> =
                    (0..n).flat_map(|i| [1.0, 3.0].map(|it| it * f32::powi(2.0, i))).collect();
                assert_near(&got[1], &floats(&rows, &[n.into(), 2]), &format!("rows on {target}"));
            }
        }
    }
}

/// An iteration appends an element to the value.
#[test]
fn iterations_change_extents() {
    let nodes = vec![
        node("Identity", "go", "go_on", vec![]),
        node("Cast", "i", "f", vec![int("to", 1)]),
        node("Unsqueeze", "f zero", "f1", vec![]),
        node("Concat", "v f1", "w", vec![int("axis", 0)]),
    ];
    let model = (model(17, vec![repeat("m _ x", "y", nodes, "go_on w")]).typed("m", DataType::I64, ""))
        .input("x", "n")
        .output("y")
        .constant("zero", &longs(&[0]));
    for target in targets() {
        let vm = compiled(&model, &target).unwrap();
        let got = run(&vm, &[number(4), floats(&[7.0, 8.0], &[2])]);
        assert_near(&got[0], &floats(&[7.0, 8.0, 0.0, 1.0, 2.0, 3.0], &[6]), "appended");
    }
}

/// The first iteration replaces a number, which stands for a value that there is not yet, by a vector; the last one is `x`
/// times the number of iterations before it, and the loop ends after that number or if an iteration made more than `limit`.
#[test]
fn the_first_iteration_changes_the_rank() {
    let body = || {
        vec![
            node("Cast", "i", "f", vec![int("to", 1)]),
            node("Mul", "x f", "w", vec![]),
            node("ReduceMax", "w", "top", vec![int("keepdims", 0)]),
            node("LessOrEqual", "top limit", "go_on", vec![]),
        ]
    };
    for (trip, limit, last) in [(100, 1e9f32, 99.0), (100, 40.0, 21.0), (1, 1e9, 0.0), (1000, -1.0, 0.0)] {
        for inputs in ["m _ none", "_ yes none"] {
            if inputs.starts_with('_') && limit > 100.0 {
                continue; // A loop without an end.
            }
            let model = (model(17, vec![repeat(inputs, "y", body(), "go_on w")]).input("x", "n").output("y"))
                .constant("m", &number(trip))
                .constant("yes", &flag(true))
                .constant("none", &floats(&[7.0], &[]))
                .constant("limit", &floats(&[limit], &[]));
            for target in targets() {
                let vm = compiled(&model, &target).unwrap();
                let got = run(&vm, &[floats(&[1.0, 2.0, 0.5], &[3])]);
                let want = [1.0, 2.0, 0.5].map(|it| it * last);
                assert_near(&got[0], &floats(&want, &[3]), &format!("{trip}, {limit} on {target}"));
            }
        }
    }
    // Only a run knows whether there is a first iteration.
    let open = model(17, vec![repeat("m _ none", "y", body(), "go_on w")]).typed("m", DataType::I64, "");
    let open = open.input("x", "n").output("y").constant("none", &floats(&[7.0], &[]));
    let message = refusal(&open.constant("limit", &floats(&[1.0], &[])));
    assert!(message.contains("change the rank or the element type"), "{message}");
}

/// The elements of `x` whose values are those of `keep` in this iteration, as rows; `keep` has a row for each iteration.
fn selecting() -> Vec<NodeProto> {
    vec![
        node("Identity", "go", "go_on", vec![]),
        node("Gather", "keep i", "k", vec![int("axis", 0)]),
        node("Compress", "x k", "r", vec![]),
        node("Add", "v v", "w", vec![]),
    ]
}

/// Only an iteration knows how long its row is; all rows must be as long as the first.
#[test]
fn rows_of_unknown_extents() {
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let keep = |rows: &[[bool; 3]]| Tensor::from_slice(rows.as_flattened(), &[rows.len() as i64, 3]).unwrap();
    for trip in ["m", "known"] {
        let nodes = vec![repeat(&format!("{trip} c x"), "y rows", selecting(), "go_on w r")];
        let model = (model(17, nodes).input("x", "3").typed("keep", DataType::BOOL, "n 3"))
            .typed("m", DataType::I64, "")
            .typed("c", DataType::BOOL, "")
            .output("rows")
            .constant("known", &number(2));
        for target in targets() {
            let vm = compiled(&model, &target).unwrap();
            let alike = keep(&[[true, false, true], [false, true, true]]);
            let got = run(&vm, &[x.clone(), alike.clone(), number(2), flag(true)]);
            assert_near(&got[0], &floats(&[1.0, 3.0, 2.0, 3.0], &[2, 2]), "alike");
            let got = run(&vm, &[x.clone(), keep(&[[false; 3]; 2]), number(2), flag(true)]);
            assert_near(&got[0], &floats(&[], &[2, 0]), "empty");
            let got = run(&vm, &[x.clone(), alike, number(2), flag(false)]);
            assert_near(&got[0], &floats(&[], &[0, 0]), "none");
            let other = keep(&[[true, false, true], [true; 3]]);
            let args = [x.clone(), other, number(2), flag(true)].map(|it| Value::from(&it));
            let message = vm.invoke("main", &args).unwrap_err().to_string();
            assert!(message.contains("same_in_all_iterations`: axis 0 is 3, expected 2"), "{message}");
        }
    }
}

#[test]
fn malformed_control_flow_is_refused() {
    let relu = || vec![node("Relu", "x", "a", vec![])];
    let with = |it: NodeProto| model(17, vec![it]).input("x", "2").typed("c", DataType::BOOL, "").output("y");
    let two = graph("else_branch", &[], vec![node("Relu", "x", "b", vec![])], "b b");
    let cases: Vec<(ModelProto, &str)> = vec![
        (
            with(node("If", "c", "y", vec![graph("then_branch", &[], relu(), "a")])),
            "`else_branch` is missing",
        ),
        (with(node("If", "c", "y", vec![graph("then_branch", &[], relu(), "a"), two])), "1 and 2 outputs"),
        (
            with(branch("c", relu(), vec![node("Relu", "nope", "b", vec![])])),
            "nothing makes the value `nope`",
        ),
        (with(branch("c", relu(), vec![])), "nothing makes the value `b`"),
        (
            with(node("Loop", "_ c x", "y", vec![graph("body", &[COUNT], relu(), "a")])),
            "the body has 1 inputs",
        ),
        (with(repeat("_ c x", "y", vec![node("Relu", "v", "w", vec![])], "go")), "the body has 3 inputs"),
    ];
    for (model, want) in cases {
        let message = refusal(&model);
        assert!(message.contains(want), "expected `{want}` in:\n{message}");
    }
}

/// Branches in branches to a depth at which each would be converted again for both values of the ones around it.
#[test]
fn entangled_branches_end_in_an_error() {
    let mut inner = vec![node("Squeeze", "x", "a", vec![])];
    for depth in 0..40 {
        let arms =
            |nodes: Vec<NodeProto>, name: &str| graph(name, &[], nodes, if depth == 0 { "a" } else { "y" });
        let otherwise = vec![node("Unsqueeze", "x zero", "y", vec![]), node("Identity", "y", "a", vec![])];
        let nodes =
            vec![node("If", "c", "y", vec![arms(inner, "then_branch"), arms(otherwise, "else_branch")])];
        inner = nodes;
    }
    let model = (model(17, inner).input("x", "1 2").typed("c", DataType::BOOL, "").output("y"))
        .constant("zero", &longs(&[0]));
    let message = refusal(&model);
    assert!(message.contains("nodes are converted too often"), "{message}");
}

#[test]
fn functions_of_the_model() {
    let scaled = FunctionProto {
        name: "Scaled".into(),
        domain: "own".into(),
        input: vec!["v".into()],
        output: vec!["w".into()],
        attribute: vec!["by".into()],
        node: vec![
            NodeProto {
                attribute: vec![AttributeProto {
                    name: "value_float".into(),
                    ref_attr_name: "by".into(),
                    ty: 1,
                    ..AttributeProto::default()
                }],
                ..node("Constant", "", "t", vec![])
            },
            node("Mul", "v t", "w", vec![]),
        ],
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 17 }],
        ..FunctionProto::default()
    };
    let call = |input: &str, output: &str, by: f32| NodeProto {
        domain: "own".into(),
        ..node("Scaled", input, output, vec![crate::build::float("by", by)])
    };
    // The graph's own `t` is another value than that of the function.
    let nodes = vec![node("Abs", "x", "t", vec![]), call("t", "u", 2.0), call("u", "y", 5.0)];
    let mut model = model(17, nodes).input("x", "2").output("y").output("t");
    model.functions.push(scaled.clone());
    let got = run(
        &compiled(&model, &tvm_core::target::Target::interpreter()).unwrap(),
        &[floats(&[-1.0, 2.0], &[2])],
    );
    assert_near(&got[0], &floats(&[10.0, 20.0], &[2]), "scaled twice");
    assert_near(&got[1], &floats(&[1.0, 2.0], &[2]), "the graph's value");
    // Each function calls the one before it twice, and nothing else.
    let twice = |i: usize| FunctionProto {
        name: format!("F{i}"),
        node: ["w", "u"]
            .map(|to| NodeProto { domain: "own".into(), ..node(&format!("F{}", i - 1), "v", to, vec![]) })
            .to_vec(),
        ..scaled.clone()
    };
    let mut multiplied = model.clone();
    multiplied.functions =
        (1..60).map(twice).chain([FunctionProto { name: "F0".into(), ..scaled.clone() }]).collect();
    multiplied.graph.as_mut().unwrap().node =
        vec![NodeProto { domain: "own".into(), ..node("F59", "x", "y", vec![]) }];
    multiplied.graph.as_mut().unwrap().output.truncate(1);
    assert!(
        refusal(&multiplied).contains("functions that become more than 17352 nodes"),
        "{}",
        refusal(&multiplied)
    );
    // A large constant in a function that is called often.
    let bytes = vec![1.0; 1 << 20];
    let value = AttributeProto { floats: bytes, ..ints("value_floats", &[]) };
    let value = AttributeProto { ty: tvm_onnx::proto::AttributeType::Floats as i32, ints: vec![], ..value };
    multiplied.functions =
        vec![FunctionProto { node: vec![node("Constant", "", "w", vec![value])], ..scaled.clone() }];
    let call = |i: usize| {
        let name = if i == 0 { "y".to_string() } else { format!("y{i}") };
        NodeProto { domain: "own".into(), ..node(&scaled.name, "x", &name, vec![]) }
    };
    multiplied.graph.as_mut().unwrap().node = (0..100).map(call).collect();
    let message = refusal(&multiplied);
    assert!(message.contains("functions that become more than") && message.contains("bytes"), "{message}");
    let mut endless = scaled;
    endless.node = vec![NodeProto { domain: "own".into(), ..node("Scaled", "v", "w", vec![]) }];
    model.functions = vec![endless];
    assert!(refusal(&model).contains("calls itself"));
}

#[test]
fn sequences_of_known_length() {
    let body = graph("body", &[("e", DataType::F32, "?")], vec![node("Neg", "e", "f", vec![])], "f");
    let nodes = vec![
        node("SplitToSequence", "x parts", "s", vec![int("axis", 0)]),
        node("SequenceMap", "s", "t", vec![body]),
        node("SequenceAt", "t zero", "first", vec![]),
        node("SequenceInsert", "t first", "u", vec![]),
        node("SequenceErase", "u zero", "v", vec![]),
        node("SequenceLength", "u", "n", vec![]),
        node("ConcatFromSequence", "v", "y", vec![int("axis", 0)]),
        node("OptionalHasElement", "v", "has", vec![]),
    ];
    let model = (model(18, nodes).input("x", "6").output("y").output("n").output("has"))
        .constant("parts", &longs(&[1, 3, 2]))
        .constant("zero", &number(0));
    let got = run(
        &compiled(&model, &tvm_core::target::Target::interpreter()).unwrap(),
        &[floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[6])],
    );
    assert_near(&got[0], &floats(&[-2.0, -3.0, -4.0, -5.0, -6.0, -1.0], &[6]), "sequence");
    assert_eq!(got[1].to_vec::<i64>().unwrap(), [4]);
    assert_eq!(got[2].to_vec::<bool>().unwrap(), [true]);
}

/// Each node is a choice that only a run makes, so the rest of the graph would be converted for both values of each.
#[test]
fn many_choices_one_after_the_other_end_in_an_error() {
    let mut nodes = Vec::new();
    let mut it = model(17, vec![]);
    for i in 0..3000 {
        it = it.input(&format!("x{i}"), &format!("d{i} 2"));
        nodes.push(node("Squeeze", &format!("x{i}"), &format!("y{i}"), vec![]));
        nodes.push(node("ReduceSum", &format!("y{i}"), &format!("n{i}"), vec![int("keepdims", 0)]));
        nodes.push(node("Add", &format!("n{} n{i}", i.max(1) - 1), &format!("s{i}"), vec![]));
    }
    it.graph.as_mut().unwrap().node = nodes;
    let message = refusal(&(0..3000).fold(it, |it, i| it.output(&format!("s{i}"))));
    assert!(message.contains("more than 256 choices that only a run makes"), "{message}");
}
