//! Operators whose results have as many elements as a condition holds for, with symbolic and known extents.

use tvm_onnx::proto::{AttributeProto, ModelProto};
use tvm_runtime::{DataType, Tensor};

use crate::build::{Build, assert_near, compiled, floats, int, longs, model, node, run, targets};

/// A model of one node on `x` with the extents `dims`, and its outputs.
fn single(op: &str, inputs: &str, outputs: &str, attrs: Vec<AttributeProto>, dims: &str) -> ModelProto {
    let mut res = model(18, vec![node(op, inputs, outputs, attrs)]).input("x", dims);
    for name in outputs.split_whitespace() {
        res = res.output(name);
    }
    res
}

fn indices(values: &[i64], shape: &[i64]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

#[test]
fn elements_that_are_not_zero() {
    let x = floats(&[0.0, 1.0, 0.0, -2.0, 3.0, 0.0], &[2, 3]);
    for target in targets() {
        for dims in ["2 3", "n m"] {
            let vm = compiled(&single("NonZero", "x", "y", vec![], dims), &target).unwrap();
            let got = run(&vm, std::slice::from_ref(&x));
            assert_eq!(got[0], indices(&[0, 1, 1, 1, 0, 1], &[2, 3]), "{dims} on {target}");
        }
        let vm = compiled(&single("NonZero", "x", "y", vec![], "n 2"), &target).unwrap();
        let got = run(&vm, &[floats(&[0.0; 6], &[3, 2])]);
        assert_eq!(got[0].shape(), [2, 0], "nothing is chosen");
        let got = run(&vm, &[floats(&[], &[0, 2])]);
        assert_eq!(got[0].shape(), [2, 0], "there is nothing");
    }
}

#[test]
fn slices_by_a_condition() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
    let flags = Tensor::from_slice(&[false, true, true], &[3]).unwrap();
    for (attrs, want) in [
        (vec![int("axis", 0)], floats(&[3.0, 4.0, 5.0, 6.0], &[2, 2])),
        (vec![int("axis", -2)], floats(&[3.0, 4.0, 5.0, 6.0], &[2, 2])),
        (vec![], floats(&[2.0, 3.0], &[2])),
    ] {
        for target in targets() {
            let model = single("Compress", "x c", "y", attrs.clone(), "n 2").typed("c", DataType::BOOL, "k");
            let got = run(&compiled(&model, &target).unwrap(), &[x.clone(), flags.clone()]);
            assert_near(&got[0], &want, &format!("Compress on {target}"));
        }
    }
}

#[test]
fn distinct_elements() {
    let x = floats(&[2.0, 1.0, 1.0, 3.0, 4.0, 3.0], &[6]);
    let outputs = "y first inverse counts";
    for target in targets() {
        let sorted = single("Unique", "x", outputs, vec![], "n");
        let got = run(&compiled(&sorted, &target).unwrap(), std::slice::from_ref(&x));
        assert_near(&got[0], &floats(&[1.0, 2.0, 3.0, 4.0], &[4]), "values");
        assert_eq!(got[1].to_vec::<i64>().unwrap(), [1, 0, 3, 4]);
        assert_eq!(got[2].to_vec::<i64>().unwrap(), [1, 0, 0, 2, 3, 2]);
        assert_eq!(got[3].to_vec::<i64>().unwrap(), [2, 1, 2, 1]);
        let unsorted = single("Unique", "x", outputs, vec![int("sorted", 0)], "n");
        let got = run(&compiled(&unsorted, &target).unwrap(), std::slice::from_ref(&x));
        assert_near(&got[0], &floats(&[2.0, 1.0, 3.0, 4.0], &[4]), "in the order of first occurrence");
        assert_eq!(got[2].to_vec::<i64>().unwrap(), [0, 1, 1, 2, 3, 2]);
        let rows = floats(&[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], &[4, 2]);
        let by_rows = single("Unique", "x", outputs, vec![int("axis", 0)], "n 2");
        let got = run(&compiled(&by_rows, &target).unwrap(), &[rows]);
        assert_near(
            &got[0],
            &floats(&[0.0, 0.0, 0.0, 1.0, 1.0, 0.0], &[3, 2]),
            "rows in lexicographic order",
        );
        assert_eq!(got[3].to_vec::<i64>().unwrap(), [1, 1, 2]);
        let columns = floats(&[1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 3.0, 3.0], &[3, 3]);
        let by_columns = single("Unique", "x", outputs, vec![int("axis", -1)], "3 3");
        let got = run(&compiled(&by_columns, &target).unwrap(), &[columns]);
        assert_near(&got[0], &floats(&[0.0, 1.0, 0.0, 1.0, 3.0, 2.0], &[3, 2]), "columns");
        assert_eq!(got[3].to_vec::<i64>().unwrap(), [2, 1]);
    }
}

/// Boxes along a line: each overlaps its neighbours by half, an intersection over union of a third.
#[test]
fn boxes_that_do_not_overlap() {
    let count = 5usize;
    let boxes: Vec<f32> = (0..count).flat_map(|i| [0.0, i as f32, 1.0, i as f32 + 2.0]).collect();
    let scores = [0.5f32, 0.9, 0.6, 0.2, 0.8];
    let nodes = vec![node("NonMaxSuppression", "boxes scores most overlap least", "y", vec![])];
    for (overlap, least, most, want) in [
        (0.3f32, 0.0f32, 10i64, &[1i64, 4][..]),
        (0.4, 0.0, 10, &[1, 4, 2, 0, 3]),
        (0.4, 0.55, 10, &[1, 4, 2]),
        (0.4, 0.0, 2, &[1, 4]),
        (0.4, 0.0, 0, &[]),
    ] {
        let model = (model(18, nodes.clone()).input("boxes", "1 n 4").input("scores", "1 1 n"))
            .output("y")
            .constant("most", &longs(&[most]))
            .constant("overlap", &floats(&[overlap], &[1]))
            .constant("least", &floats(&[least], &[1]));
        for target in targets() {
            let vm = compiled(&model, &target).unwrap();
            let got =
                run(&vm, &[floats(&boxes, &[1, count as i64, 4]), floats(&scores, &[1, 1, count as i64])]);
            let want: Vec<i64> = want.iter().flat_map(|&it| [0, 0, it]).collect();
            let rows = want.len() as i64 / 3;
            assert_eq!(got[0], indices(&want, &[rows, 3]), "{overlap} {least} {most} on {target}");
        }
    }
}
