//! Loops over the elements of sequences.

use tvm_onnx::proto::AttributeProto;
use tvm_runtime::{DataType, Value};

use crate::build::{
    Build, assert_near, compiled, floats, graph, int, ints, longs, model, node, refusal, run, targets,
};

#[test]
fn scans_in_both_directions() {
    let body = || {
        let inputs = [("s", DataType::F32, "2"), ("e", DataType::F32, "2")];
        let nodes = vec![node("Add", "s e", "t", vec![]), node("Identity", "t", "r", vec![])];
        graph("body", &inputs, nodes, "t r")
    };
    let scan = |attrs: Vec<AttributeProto>| {
        let attrs = [vec![body(), int("num_scan_inputs", 1)], attrs].concat();
        let nodes = vec![node("Scan", "x xs", "y rows", attrs)];
        model(17, nodes).input("x", "2").input("xs", "n 2").output("y").output("rows")
    };
    let x = [floats(&[0.0, 10.0], &[2]), floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])];
    for target in targets() {
        let got = run(&compiled(&scan(vec![]), &target).unwrap(), &x);
        assert_near(&got[0], &floats(&[9.0, 22.0], &[2]), "the state");
        assert_near(&got[1], &floats(&[1.0, 12.0, 4.0, 16.0, 9.0, 22.0], &[3, 2]), "rows");
        let back = vec![ints("scan_input_directions", &[1]), ints("scan_output_directions", &[1])];
        let got = run(&compiled(&scan(back), &target).unwrap(), &x);
        assert_near(&got[1], &floats(&[9.0, 22.0, 8.0, 20.0, 5.0, 16.0], &[3, 2]), "backwards");
        let across = vec![ints("scan_output_axes", &[1])];
        let got = run(&compiled(&scan(across), &target).unwrap(), &x);
        assert_near(&got[1], &floats(&[1.0, 4.0, 9.0, 12.0, 16.0, 22.0], &[2, 3]), "along the last axis");
    }
}

/// Up to opset 8, a scan has a batch of sequences, which may end before the last step. Values are those of onnxruntime.
#[test]
fn scans_of_batches() {
    let body = || {
        let inputs = [("s", DataType::F32, "2"), ("e", DataType::F32, "2")];
        let nodes = vec![
            node("Add", "s e", "t", vec![]),
            node("Sub", "t e", "d", vec![]),
            node("Concat", "t d", "r", vec![int("axis", 0)]),
        ];
        graph("body", &inputs, nodes, "t r")
    };
    let scan = |inputs: &str, dims: [&str; 2], attrs: Vec<AttributeProto>| {
        let attrs = [vec![body(), int("num_scan_inputs", 1)], attrs].concat();
        let [initial, sequences] = dims;
        (model(8, vec![node("Scan", inputs, "y rows", attrs)]).input("x", initial).input("xs", sequences))
            .typed("n", DataType::I64, "b")
            .output("y")
            .output("rows")
    };
    let x = floats(&[0.0, 10.0, 1.0, 2.0], &[2, 2]);
    let xs = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5, 0.25, -1.0, 0.0, 2.0, 8.0], &[2, 3, 2]);
    let args = |lengths: [i64; 2]| [x.clone(), xs.clone(), longs(&lengths)];
    // A row is the state after an element and the state before it.
    let row = |t: [f32; 2], s: [f32; 2]| [t[0], t[1], s[0], s[1]];
    let forward = [
        [row([1.0, 12.0], [0.0, 10.0]), row([4.0, 16.0], [1.0, 12.0]), row([9.0, 22.0], [4.0, 16.0])],
        [row([1.5, 2.25], [1.0, 2.0]), row([0.5, 2.25], [1.5, 2.25]), row([2.5, 10.25], [0.5, 2.25])],
    ];
    let forward = floats(forward.as_flattened().as_flattened(), &[2, 3, 4]);
    let none = [0.0; 4];
    let backward = [
        [row([3.0, 14.0], [0.0, 10.0]), row([4.0, 16.0], [3.0, 14.0]), none],
        [row([1.5, 2.25], [1.0, 2.0]), none, none],
    ];
    let backward = floats(backward.as_flattened().as_flattened(), &[2, 3, 4]);
    for target in targets() {
        for dims in [["2 2", "2 3 2"], ["b 2", "b k 2"]] {
            let vm = compiled(&scan("_ x xs", dims, vec![]), &target).unwrap();
            let got = run(&vm, &args([3, 3]));
            assert_near(&got[0], &floats(&[9.0, 22.0, 2.5, 10.25], &[2, 2]), "states");
            assert_near(&got[1], &forward, "whole sequences");
            let vm = compiled(&scan("n x xs", dims, vec![ints("directions", &[1])]), &target).unwrap();
            let got = run(&vm, &args([2, 1]));
            assert_near(&got[0], &floats(&[4.0, 16.0, 1.5, 2.25], &[2, 2]), "states");
            assert_near(&got[1], &backward, "parts of sequences, backwards");
            for lengths in [[4, 1], [-1, 1]] {
                let args = args(lengths).map(|it| Value::from(&it));
                assert!(vm.invoke("main", &args).is_err(), "{lengths:?}");
            }
        }
    }
    let bad = model(8, vec![node("Scan", "_ xs", "y", vec![body(), int("num_scan_inputs", 1)])]);
    let message = refusal(&bad.input("xs", "2 3 2").output("y"));
    assert!(message.contains("the numbers of inputs, outputs and scanned inputs contradict"), "{message}");
}
