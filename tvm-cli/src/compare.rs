//! Comparison of results with expected values, for tests by the rule of ONNX's own test runner: shape and element type must be
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

/// The absolute difference allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absolute {
    Of(f64),
    /// This share of the largest finite element: values that cancel out are as exact as what they are made of.
    OfLargest(f64),
}

/// How two tensors differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Difference {
    /// Largest absolute difference; infinite where only one is a number.
    pub(crate) absolute: f64,
    /// Largest absolute difference as a share of the expected element, of elements that are not tiny beside the largest one.
    pub(crate) relative: f64,
    /// Root of the sum of the squares of the differences, as a share of that of the expected elements.
    pub(crate) rms: f64,
    /// For how many rows of the last axis of several elements the largest one has the same place, and the number of rows.
    pub(crate) largest: Option<(usize, usize)>,
    /// Number of elements beyond the tolerance.
    pub(crate) wrong: usize,
    /// Number of elements.
    pub(crate) total: usize,
    /// Why there are no elements to compare: other shapes or element types.
    pub(crate) kind: Option<String>,
}

impl Difference {
    /// Compares `got` with `want`: elements differ if `|got - want| > atol + rtol * |want|`.
    pub(crate) fn of(got: &Tensor, want: &Tensor, rtol: f64, atol: Absolute) -> Result<Difference, Error> {
        let total = want.len();
        if got.shape() != want.shape() || got.dtype() != want.dtype() {
            let describe = |it: &Tensor| format!("{} {:?}", it.dtype(), it.shape());
            let kind = Some(format!("{}, expected {}", describe(got), describe(want)));
            return Ok(Difference { wrong: total.max(1), total, kind, ..Difference::default() });
        }
        let columns = want.shape().iter().rfind(|&&it| it != 1).map_or(1, |&it| it as usize);
        let (got, want) = (got.to_f64s()?, want.to_f64s()?);
        let largest = want.iter().filter(|it| it.is_finite()).fold(0.0, |most: f64, it| most.max(it.abs()));
        let atol = match atol {
            Absolute::Of(atol) => atol,
            Absolute::OfLargest(share) => share * largest,
        };
        let mut found = Difference { total, ..Difference::default() };
        if columns > 1 {
            let pairs = got.chunks(columns).zip(want.chunks(columns));
            let same = pairs.filter(|(got, want)| place_of_largest(got) == place_of_largest(want)).count();
            found.largest = Some((same, want.len() / columns));
        }
        let (mut squares, mut of_want) = (0.0, 0.0);
        for (&got, &want) in got.iter().zip(&want) {
            of_want += if want.is_finite() { want * want } else { 0.0 };
            if got == want || got.is_nan() && want.is_nan() {
                continue;
            }
            let absolute =
                if got.is_finite() && want.is_finite() { (got - want).abs() } else { f64::INFINITY };
            found.absolute = found.absolute.max(absolute);
            squares += absolute * absolute;
            if want.abs() > 1e-6 * largest {
                found.relative = found.relative.max(absolute / want.abs());
            }
            found.wrong += usize::from(absolute > atol + rtol * want.abs());
        }
        if squares > 0.0 {
            found.rms = (squares / of_want).sqrt();
        }
        Ok(found)
    }

    /// True if the tensors differ by more than the tolerance.
    pub(crate) fn differs(&self) -> bool {
        self.wrong > 0
    }
}

/// The place of the first of the largest numbers; NaN are less than numbers.
fn place_of_largest(row: &[f64]) -> Option<usize> {
    let better = |at: usize, best: usize| row[at] > row[best] || row[best].is_nan() && !row[at].is_nan();
    (0..row.len()).reduce(|best, at| if better(at, best) { at } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_measured() {
        let tensor = |values: &[f32]| Tensor::from_slice(values, &[values.len() as i64]).unwrap();
        // Absolute and relative difference, and how many elements are beyond 1e-3 of their size and 1e-5 of the largest one.
        type Case = (&'static [f32], &'static [f32], f64, f64, usize);
        let cases: &[Case] = &[
            (&[1.0, 2.0], &[1.0, 2.0], 0.0, 0.0, 0),
            (&[1.5, 2.0], &[1.0, 2.0], 0.5, 0.5, 1),
            (&[0.0, 1000.0], &[0.007_812_5, 1000.0], 0.007_812_5, 1.0, 0),
            (&[0.0, 1.0], &[0.007_812_5, 1.0], 0.007_812_5, 1.0, 1),
            (&[f32::NAN, f32::INFINITY], &[f32::NAN, f32::INFINITY], 0.0, 0.0, 0),
            (&[f32::NAN, 1.0], &[1.0, 1.0], f64::INFINITY, f64::INFINITY, 1),
            (&[], &[], 0.0, 0.0, 0),
        ];
        for (got, want, absolute, relative, wrong) in cases {
            let found = Difference::of(&tensor(got), &tensor(want), 1e-3, Absolute::OfLargest(1e-5)).unwrap();
            assert_eq!(
                (found.absolute, found.relative, found.wrong),
                (*absolute, *relative, *wrong),
                "{got:?}"
            );
        }
        let other =
            Difference::of(&tensor(&[1.0]), &tensor(&[1.0, 2.0]), 1e-3, Absolute::OfLargest(1e-5)).unwrap();
        assert!(other.differs() && other.kind.unwrap() == "f32 [1], expected f32 [2]");
    }

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
