//! `ScatterElements` and `ScatterND` with their reductions, beside updates one after the other.

use tvm_core::target::Target;
use tvm_runtime::{DataType, Tensor};

use crate::build::{Build, compiled, int, model, node, run, string, targets};

/// Rows, columns and updates.
const SIZES: [[usize; 3]; 4] = [[4, 7, 40], [1, 1, 1], [3, 5, 0], [9, 33, 70]];

/// What a reduction does with an element and an update, before the result wraps.
fn reduced(reduction: &str, old: i128, new: i128) -> i128 {
    match reduction {
        "add" => old + new,
        "mul" => old.wrapping_mul(new),
        "min" => old.min(new),
        "max" => old.max(new),
        _ => panic!("{reduction}"),
    }
}

/// Numbers of both signs: of all sizes, or small ones, whose sums are exact as floats.
fn numbers(count: usize, seed: u64, dtype: DataType) -> Vec<i64> {
    let of = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed).rotate_left(17) as i64;
    let small = |it: i64| if dtype == DataType::F32 { it % 100 } else { it };
    (0..count as u64).map(|i| small(of(i))).collect()
}

/// The numbers, which wrap.
fn tensor(values: &[i64], shape: &[usize], dtype: DataType) -> Tensor {
    let shape: Vec<i64> = shape.iter().map(|it| *it as i64).collect();
    match dtype {
        DataType::I8 => Tensor::from_vec(values.iter().map(|it| *it as i8).collect(), &shape),
        DataType::I32 => Tensor::from_vec(values.iter().map(|it| *it as i32).collect(), &shape),
        DataType::U32 => Tensor::from_vec(values.iter().map(|it| *it as u32).collect(), &shape),
        DataType::I64 => Tensor::from_vec(values.to_vec(), &shape),
        DataType::U64 => Tensor::from_vec(values.iter().map(|it| *it as u64).collect(), &shape),
        DataType::F32 => Tensor::from_vec(values.iter().map(|it| *it as f32).collect(), &shape),
        other => panic!("{other}"),
    }
    .unwrap()
}

/// The value of a number that wraps.
fn value(number: i64, dtype: DataType) -> i128 {
    match dtype {
        DataType::I8 => (number as i8).into(),
        DataType::I32 => (number as i32).into(),
        DataType::U32 => (number as u32).into(),
        DataType::I64 | DataType::F32 => number.into(),
        DataType::U64 => (number as u64).into(),
        other => panic!("{other}"),
    }
}

#[test]
fn reductions_at_the_same_places() {
    let cases: [(DataType, &[&'static str]); 6] = [
        (DataType::I32, &["add", "mul", "min", "max"]),
        (DataType::U64, &["add", "mul", "min", "max"]),
        (DataType::I64, &["add", "min"]),
        (DataType::U32, &["mul", "max"]),
        // In order on GPUs.
        (DataType::I8, &["add"]),
        (DataType::F32, &["add"]),
    ];
    for target in targets() {
        for (dtype, reductions) in cases {
            reductions.iter().for_each(|reduction| check(&target, dtype, reduction));
        }
    }
}

fn check(target: &Target, dtype: DataType, reduction: &'static str) {
    let of = |op: &str, at: &str, attrs| {
        let model = model(18, vec![node(op, "x at u", "y", attrs)]).typed("x", dtype, "m n");
        let model = model.typed("at", DataType::I64, at).typed("u", dtype, "k n").output("y");
        compiled(&model, target).unwrap()
    };
    let attr = string("reduction", reduction);
    let slices = of("ScatterND", "k 1", vec![attr.clone()]);
    let elements = of("ScatterElements", "k n", vec![attr, int("axis", 0)]);
    for [rows, columns, count] in SIZES {
        let (x, u) = (numbers(rows * columns, 1, dtype), numbers(count * columns, 2, dtype));
        // From either end.
        let places: Vec<i64> = (0..count as i64).map(|i| (i * i) % (2 * rows as i64) - rows as i64).collect();
        let mut want = x.clone();
        for (i, update) in u.iter().enumerate() {
            let row = places[i / columns].rem_euclid(rows as i64) as usize;
            let element = &mut want[row * columns + i % columns];
            *element = reduced(reduction, value(*element, dtype), value(*update, dtype)) as i64;
        }
        let want = tensor(&want, &[rows, columns], dtype);
        let all: Vec<i64> = (0..count * columns).map(|i| places[i / columns]).collect();
        let what = format!("{reduction} of {dtype}, {rows}x{columns}, {count} updates on {target}");
        for (vm, at) in [
            (&slices, tensor(&places, &[count, 1], DataType::I64)),
            (&elements, tensor(&all, &[count, columns], DataType::I64)),
        ] {
            let inputs = [tensor(&x, &[rows, columns], dtype), at, tensor(&u, &[count, columns], dtype)];
            assert_eq!(run(vm, &inputs)[0], want, "{what}");
        }
    }
}
