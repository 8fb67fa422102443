//! Sorts of all element types, by each of the methods, against the sort of the standard library.

use std::cmp::Ordering;

use tvm_core::ir::Attrs;
use tvm_runtime::{DataType, Tensor};
use tvm_testing::Rng;

use crate::support::call;

const TYPES: [DataType; 13] = [
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
    DataType::BOOL,
];

/// Elements among which some are equal, the smallest and the largest of their type, or no numbers.
fn elements(rng: &mut Rng, len: usize, dtype: DataType) -> Tensor {
    let special: &[f64] = match dtype.is_float() {
        true => &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-45, -1e-45, 6e-8],
        false => &[0.0, 1.0],
    };
    let (low, high) = dtype.int_range().map_or((-1e6, 1e6), |(low, high)| (low as f64, high as f64));
    let element = |rng: &mut Rng| match rng.below(8) {
        0 | 1 => *rng.pick(special),
        2 => *rng.pick(&[low, high]),
        3 | 4 if !dtype.is_bool() => (rng.range(-3, 3) as f64).max(low),
        _ if dtype.is_bool() => rng.below(2) as f64,
        _ => low + (high - low) * (rng.below(1 << 30) as f64 / f64::from(1 << 30)),
    };
    let data: Vec<f64> = (0..len).map(|_| element(rng)).collect();
    Tensor::from_f64s(&data, &[len as i64], dtype).expect("a tensor")
}

/// NaN after all numbers, which are equal to each other.
fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The positions of each row in order: those of one row are `start + i * step`.
fn sorted(data: &[f64], rows: &[usize], (len, step): (usize, usize), descending: bool) -> Vec<Vec<usize>> {
    let row = |&start: &usize| {
        let mut at: Vec<usize> = (0..len).collect();
        at.sort_by(|&p, &q| {
            let [p, q] = [p, q].map(|it| data[start + it * step]);
            if descending { order(q, p) } else { order(p, q) }
        });
        at
    };
    rows.iter().map(row).collect()
}

#[test]
fn sorts_of_all_types_and_lengths() {
    let mut rng = Rng::new(11);
    for (i, dtype) in TYPES.into_iter().enumerate() {
        // The lengths around those at which the method changes; each type has some of them.
        for len in [[1, 33], [2, 70], [32, 140]][i % 3] {
            for (shape, axis) in [[([len, 1, 1], 0)], [([2, len, 2], 1)], [([1, 2, len], 2)]][(i + len) % 3] {
                let count = shape.iter().product::<usize>();
                // Integers of 64 bits are multiples of numbers that f64 has all digits of.
                let flat = elements(&mut rng, count, dtype);
                let dims = shape.map(|it| it as i64);
                let x = flat.reshape(&dims).expect("as many elements");
                let data = x.to_f64s().expect("numbers");
                let step: usize = shape[axis + 1..].iter().product();
                let starts: Vec<usize> = (0..count).filter(|it| (it / step).is_multiple_of(len)).collect();
                for descending in [false, true] {
                    let want = sorted(&data, &starts, (len, step), descending);
                    let attrs = Attrs::new().with("axis", axis as i64).with("descending", descending);
                    let about = format!("{dtype}, {shape:?} along {axis}, descending: {descending}");
                    let got = call("argsort", [x.clone().into()], attrs.clone());
                    check(&got[0], &want, &starts, (len, step), &about);
                    for k in [3, len].into_iter().filter(|&k| k <= len) {
                        let attrs = Attrs::new()
                            .with("axis", axis as i64)
                            .with("k", k as i64)
                            .with("largest", descending)
                            .with("ret_type", "indices");
                        let got = call("topk", [x.clone().into()], attrs);
                        let want: Vec<_> = want.iter().map(|it| it[..k].to_vec()).collect();
                        let starts: Vec<usize> =
                            (0..starts.len()).map(|row| row / step * step * k + row % step).collect();
                        check(&got[0], &want, &starts, (k, step), &format!("the first {k} of {about}"));
                    }
                }
            }
        }
    }
}

fn check(got: &Tensor, want: &[Vec<usize>], starts: &[usize], (len, step): (usize, usize), about: &str) {
    let got = got.to_vec::<i64>().expect("positions");
    for (want, start) in want.iter().zip(starts) {
        let got: Vec<usize> = (0..len).map(|i| got[start + i * step] as usize).collect();
        assert_eq!(&got, want, "{about}");
    }
}

/// Values keep their bits: those of zeros of either sign and of NaN.
#[test]
fn sorted_values_keep_their_bits() {
    let one: Vec<f32> = [0.0, -0.0, f32::NAN, 1.0, -f32::NAN, -0.0, f32::from_bits(0x7fc0_1234)].repeat(10);
    let x = Tensor::from_slice(&one, &[70]).expect("a tensor");
    let bits = |it: &[f32]| it.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
    let got = call("sort", [x.into()], Attrs::new());
    let mut want = one;
    want.sort_by(|&a, &b| order(a.into(), b.into()));
    assert_eq!(bits(&got[0].to_vec::<f32>().expect("f32")), bits(&want));
}
