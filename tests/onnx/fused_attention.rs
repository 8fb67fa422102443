//! Attention layers of the domain `com.microsoft`, with results that onnxruntime computed.

use tvm_core::target::Target;
use tvm_onnx::proto::AttributeProto;
use tvm_runtime::Tensor;

use crate::build::{compiled, float, floats, int, longs};
use crate::extensions::build;

/// Numbers between -1.25 and 1.25 that do not repeat along short axes.
fn ramp(shape: &[i64], from: i64) -> Tensor {
    let number = |i: i64| ((i * 7 + from) % 11 - 5) as f32 / 4.0;
    let count = shape.iter().product();
    floats(&(0..count).map(number).collect::<Vec<f32>>(), shape)
}

fn whole(values: &[i32], shape: &[i64]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

fn check(op: &str, inputs: &str, attrs: Vec<AttributeProto>, args: &[Tensor], want: &[Tensor]) {
    crate::extensions::check("com.microsoft", (op, inputs), attrs, args, want);
}

/// Keys after each query, and keys that the mask excludes, do not count; earlier keys come first.
#[test]
fn multi_head_attention_with_earlier_keys() {
    let args = [
        ramp(&[1, 2, 4], 0),
        ramp(&[1, 2, 4], 1),
        ramp(&[1, 2, 4], 2),
        ramp(&[12], 3),
        whole(&[1, 0, 1], &[1, 3]),
        ramp(&[1, 2, 1, 2], 4),
        ramp(&[1, 2, 1, 2], 5),
    ];
    let want = [
        floats(&[0.0, -1.0, 0.75, -0.25, 0.244_477, -1.244_477, 0.351_425, -0.183_571], &[1, 2, 4]),
        floats(&[-0.25, -1.25, 0.0, 0.75, 1.5, -0.5, 0.5, -0.5, -1.25, -0.5, 0.25, 1.0], &[1, 2, 3, 2]),
        floats(&[0.0, -1.0, -1.0, -0.25, 0.5, -1.5, 0.75, -0.25, 0.5, -1.5, -0.75, 0.0], &[1, 2, 3, 2]),
    ];
    let attrs = vec![int("num_heads", 2), int("unidirectional", 1)];
    check("MultiHeadAttention", "i0 i1 i2 i3 i4 _ i5 i6", attrs, &args, &want);
}

/// The layer projects its input; the mask says that only the first key counts.
#[test]
fn attention_with_its_projection() {
    let args =
        [ramp(&[1, 2, 3], 0), ramp(&[3, 12], 1), ramp(&[12], 2), whole(&[1], &[1]), ramp(&[1, 1, 2, 2], 5)];
    let keys_and_values = [
        -0.75, 0.875, 0.3125, -0.75, -2.3125, -0.6875, 0.9375, -0.125, 0.9375, 0.5, -1.1875, 3.25, -0.625,
        1.0, -0.5625, -1.625,
    ];
    let want = [
        floats(&[0.9375, 0.5, -0.625, 1.0, 0.9375, 0.5, -0.625, 1.0], &[1, 2, 4]),
        floats(&keys_and_values, &[2, 1, 2, 2, 2]),
    ];
    check("Attention", "i0 i1 i2 i3 _ i4", vec![int("num_heads", 2)], &args, &want);
}

/// One new key goes to place 1 of a cache of 3, whose place 2 is free.
#[test]
fn group_query_attention_with_a_cache() {
    let args = [
        ramp(&[1, 1, 32], 0),
        ramp(&[1, 1, 16], 1),
        ramp(&[1, 1, 16], 2),
        ramp(&[1, 1, 3, 16], 3),
        ramp(&[1, 1, 3, 16], 4),
        whole(&[1], &[1]),
        Tensor::scalar(2i32),
    ];
    let heads = [
        [-0.625_849, 0.441_319, 0.124_151, -0.875_849, 0.874_151, -0.125_849, -1.125_849, 0.624_151],
        [-0.375_849, 0.691_319, 0.374_151, -0.625_849, 0.441_319, 0.124_151, -0.875_849, 0.874_151],
        [-0.5, -0.125, 0.25, -0.75, 1.0, 0.0, -1.0, 0.75],
        [-0.25, 0.125, 0.5, -0.5, -0.125, 0.25, -0.75, 1.0],
    ];
    let keys = [
        [-0.5, 1.25, 0.25, -0.75, 1.0, 0.0, -1.0, 0.75],
        [-0.25, -1.25, 0.5, -0.5, 1.25, 0.25, -0.75, 1.0],
        [-1.0, 0.75, -0.25, -1.25, 0.5, -0.5, 1.25, 0.25],
        [-0.75, 1.0, 0.0, -1.0, 0.75, -0.25, -1.25, 0.5],
        [0.0; 8],
        [0.0; 8],
    ];
    let attrs =
        vec![int("num_heads", 2), int("kv_num_heads", 1), int("local_window_size", 4), float("softcap", 2.0)];
    let want = [floats(heads.as_flattened(), &[1, 1, 32]), floats(keys.as_flattened(), &[1, 1, 3, 16])];
    check("GroupQueryAttention", "i0 i1 i2 i3 i4 i5 i6", attrs, &args, &want);
}

#[test]
fn rotation_from_a_position_on() {
    let args = [ramp(&[1, 2, 8], 0), longs(&[1]), ramp(&[4, 2], 1), ramp(&[4, 2], 2)];
    let want = [
        0.3125, -0.125, 1.875, -1.0625, -0.0625, 0.1875, -1.25, -1.0, -1.0625, -0.375, -0.1875, 0.6875,
        0.625, 0.125, -0.5625, -0.4375,
    ];
    let attrs = vec![int("interleaved", 1)];
    check("RotaryEmbedding", "i0 i1 i2 i3", attrs, &args, &[floats(&want, &[1, 2, 8])]);
}

#[test]
fn embeddings_and_the_number_of_words() {
    let args = [
        whole(&[1, 0], &[1, 2]),
        whole(&[0, 1], &[1, 2]),
        ramp(&[2, 4], 0),
        ramp(&[3, 4], 1),
        ramp(&[2, 4], 2),
        ramp(&[4], 3),
        ramp(&[4], 4),
        whole(&[1, 0], &[1, 2]),
    ];
    let want = [0.106_348, 0.086_306, 0.722_718, 0.435_414, -0.092_201, -1.960_094, 0.294_862, -1.778_169];
    let want = [floats(&want, &[1, 2, 4]), whole(&[1], &[1])];
    check("EmbedLayerNormalization", "i0 i1 i2 i3 i4 i5 i6 i7", vec![], &args, &want);
}

/// What is refused, with the reason.
#[test]
fn refused_variants() {
    let x = || ramp(&[1, 2, 4], 0);
    for (op, inputs, attrs, args, want) in [
        ("MultiHeadAttention", "i0 i1", vec![int("num_heads", 2)], vec![x(), x()], "do not fit together"),
        (
            "MultiHeadAttention",
            "i0 i1 i2",
            vec![int("num_heads", 3)],
            vec![x(), x(), x()],
            "3 heads do not divide",
        ),
        (
            "MultiHeadAttention",
            "i0 i1 i2 _ _ _ _ _ i3",
            vec![int("num_heads", 2)],
            vec![x(), x(), x(), whole(&[1], &[1])],
            "a buffer for later keys",
        ),
        (
            "Attention",
            "i0 i1",
            vec![int("num_heads", 2), int("do_rotary", 1)],
            vec![x(), ramp(&[4, 12], 0)],
            "do_rotary",
        ),
    ] {
        let model = build("com.microsoft", op, inputs, attrs, &args, "o0");
        let err =
            compiled(&model, &Target::interpreter()).err().map(|err| err.to_string()).unwrap_or_default();
        assert!(err.contains(want), "{op}: {err}");
    }
}
