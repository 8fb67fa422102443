//! Comparison of results with expected values, by the rule of ONNX's own test runner: shape and element type must be
//! equal, and `|got - want| <= atol + rtol * |want|`. Infinities and NaN are equal only to themselves.

use tvm_runtime::Tensor;

use crate::error::Error;

/// Allowed differences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub(crate) rtol: f64,
    pub(crate) atol: f64,
}

/// Describes the difference between `got` and `want`; `None` if they agree.
pub(crate) fn mismatch(got: &Tensor, want: &Tensor, tolerance: Tolerance) -> Result<Option<String>, Error> {
    if got.shape() != want.shape() {
        return Ok(Some(format!("shape is {:?}, expected {:?}", got.shape(), want.shape())));
    }
    if got.dtype() != want.dtype() {
        return Ok(Some(format!("element type is {}, expected {}", got.dtype(), want.dtype())));
    }
    let (got, want) = (got.to_f64s()?, want.to_f64s()?);
    let near = |(got, want): &(&f64, &f64)| {
        got == want
            || got.is_nan() && want.is_nan()
            || want.is_finite() && (*got - *want).abs() <= tolerance.atol + tolerance.rtol * want.abs()
    };
    let total = got.len();
    let wrong: Vec<(usize, (&f64, &f64))> =
        got.iter().zip(&want).enumerate().filter(|(_, pair)| !near(pair)).collect();
    Ok(wrong.first().map(|(i, (got, want))| {
        let n = wrong.len();
        format!("{n} of {total} elements differ; the first, at {i}, is {got}, expected {want}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances() {
        let tensor = |values: &[f32]| Tensor::from_slice(values, &[values.len() as i64]).unwrap();
        let tolerance = Tolerance { rtol: 1e-3, atol: 1e-5 };
        let cases: &[(&[f32], &[f32], bool)] = &[
            (&[1.0], &[1.0005], true),
            (&[1.0], &[1.01], false),
            (&[0.0], &[5e-6], true),
            (&[f32::NAN], &[f32::NAN], true),
            (&[f32::NAN], &[1.0], false),
            (&[f32::INFINITY], &[f32::INFINITY], true),
            (&[f32::INFINITY], &[f32::NEG_INFINITY], false),
            (&[1.0, 2.0], &[1.0], false),
            (&[], &[], true),
        ];
        for (got, want, same) in cases {
            let found = mismatch(&tensor(got), &tensor(want), tolerance).unwrap();
            assert_eq!(found.is_none(), *same, "{got:?} {want:?} {found:?}");
        }
        let ints = Tensor::from_vec(vec![1i64], &[1]).unwrap();
        assert!(mismatch(&ints, &tensor(&[1.0]), tolerance).unwrap().unwrap().contains("element type"));
    }
}
