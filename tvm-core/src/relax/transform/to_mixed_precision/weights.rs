//! Constant weights as narrow numbers.

use half::{bf16, f16};
use tvm_runtime::{DataType, Element, Tensor};

/// Terms of a column that share a scale.
const GROUP: usize = 32;

/// The numbers of `tensor`, of f32, as `bf16` or `f16`; `None` if one is too large for it.
pub(super) fn floats(tensor: &Tensor, dtype: DataType) -> Option<Tensor> {
    if dtype == DataType::BF16 {
        converted(tensor, bf16::from_f32, |it| it.is_finite())
    } else {
        converted(tensor, f16::from_f32, |it| it.is_finite())
    }
}

fn converted<T: Element>(tensor: &Tensor, to: fn(f32) -> T, is_finite: fn(&T) -> bool) -> Option<Tensor> {
    let values = tensor.as_slice::<f32>().ok()?;
    let narrow: Vec<T> = values.iter().map(|&it| to(it)).collect();
    let fits = narrow.iter().zip(values).all(|(narrow, it)| is_finite(narrow) || !it.is_finite());
    if fits { Tensor::from_vec(narrow, tensor.shape()).ok() } else { None }
}

/// The matrix `tensor` of f32 as `i8`, and the scale of each column; `columns` is the axis of the columns. `None` if a number is
/// not finite.
pub(super) fn int8(tensor: &Tensor, columns: usize) -> Option<(Tensor, Tensor)> {
    let matrix = Matrix::of(tensor, columns)?;
    let mut narrow = vec![0i8; matrix.values.len()];
    let mut scales = Vec::with_capacity(matrix.columns);
    for column in 0..matrix.columns {
        let scale = matrix.scale(column, 0..matrix.terms, 127.0);
        for term in 0..matrix.terms {
            let at = matrix.at(column, term);
            narrow[at] = quantised(matrix.values[at], scale, 127.0);
        }
        scales.push(scale);
    }
    let scales = Tensor::from_vec(scales, &[matrix.columns as i64]).ok()?;
    Some((Tensor::from_vec(narrow, tensor.shape()).ok()?, scales))
}

/// The matrix `tensor` of f32 in the form of `nn.dense_int4`, in panels of `block` columns; `None` if groups do not divide the
/// terms, or a number is not finite.
pub(super) fn int4(tensor: &Tensor, columns: usize, block: i64) -> Option<(Tensor, Tensor)> {
    let matrix = Matrix::of(tensor, columns)?;
    let block = usize::try_from(block).ok().filter(|&it| it > 0)?;
    if matrix.terms == 0 || matrix.terms % GROUP != 0 {
        return None;
    }
    let (panels, groups) = (matrix.columns.div_ceil(block), matrix.terms / GROUP);
    let mut bytes = vec![0u8; panels * matrix.terms / 2 * block];
    let mut scales = vec![0f32; panels * groups * block];
    for column in 0..matrix.columns {
        let (panel, inner) = (column / block, column % block);
        for group in 0..groups {
            let terms = group * GROUP..(group + 1) * GROUP;
            let values: [f32; GROUP] =
                std::array::from_fn(|i| matrix.values[matrix.at(column, terms.start + i)]);
            let scale = closest_scale(&values);
            scales[(panel * groups + group) * block + inner] = scale;
            for (term, value) in terms.zip(values) {
                let number = of_four_bits(value, scale);
                let byte = &mut bytes[(panel * matrix.terms / 2 + term / 2) * block + inner];
                *byte |= (number as u8 & 0xf) << (4 * (term % 2));
            }
        }
    }
    let shape = |rows: usize| [panels, rows, block].map(|it| it as i64);
    let bytes = Tensor::from_vec(bytes, &shape(matrix.terms / 2)).ok()?;
    Some((bytes, Tensor::from_vec(scales, &shape(groups)).ok()?))
}

/// The scale with which numbers of 4 bits are closest to `values`: the sum of the squares of the differences is the least among some scales
/// that map the largest value to -8 or ±7, or to a bit more, so that it is cut and the others are closer.
fn closest_scale(values: &[f32; GROUP]) -> f32 {
    let largest = values.iter().fold(0f32, |most, it| if it.abs() > most.abs() { *it } else { most });
    let error = |scale: f32| -> f32 {
        let squares = values.iter().map(|&it| (it - f32::from(of_four_bits(it, scale)) * scale).powi(2));
        squares.sum()
    };
    let candidates = (0..8).flat_map(|step| {
        let cut = 1.0 - step as f32 * 0.04;
        [largest.abs() / 7.0 * cut, largest / -8.0 * cut]
    });
    let usable = candidates.filter(|it| it.is_normal());
    let closest = usable.map(|it| (error(it), it)).reduce(|best, it| if it.0 < best.0 { it } else { best });
    closest.map_or(1.0, |(_, scale)| scale)
}

/// The nearest multiple of the scale from -8 to 7.
fn of_four_bits(value: f32, scale: f32) -> i8 {
    (value / scale).round_ties_even().clamp(-8.0, 7.0) as i8
}

/// The nearest multiple of the scale.
fn quantised(value: f32, scale: f32, most: f32) -> i8 {
    (value / scale).round_ties_even().clamp(-most, most) as i8
}

/// A matrix of finite numbers.
struct Matrix<'a> {
    values: &'a [f32],
    columns: usize,
    terms: usize,
    /// True if the terms of a column are contiguous.
    turned: bool,
}

impl Matrix<'_> {
    fn of(tensor: &Tensor, columns: usize) -> Option<Matrix<'_>> {
        let values = tensor.as_slice::<f32>().ok().filter(|it| it.iter().all(|it| it.is_finite()))?;
        let [first, second] = tensor.shape() else { return None };
        let (columns, terms) = if columns == 1 { (second, first) } else { (first, second) };
        let [extent_of_columns, extent_of_terms] = [columns, terms].map(|&it| usize::try_from(it).ok());
        let turned = std::ptr::eq(columns, first);
        Some(Matrix { values, columns: extent_of_columns?, terms: extent_of_terms?, turned })
    }

    fn at(&self, column: usize, term: usize) -> usize {
        if self.turned { column * self.terms + term } else { term * self.columns + column }
    }

    /// The scale by which the largest of these terms becomes `most`; 1 if all are 0.
    fn scale(&self, column: usize, terms: std::ops::Range<usize>, most: f32) -> f32 {
        let largest = terms.map(|term| self.values[self.at(column, term)].abs()).fold(0f32, f32::max);
        let scale = largest / most;
        if scale > 0.0 { scale } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_within_half_a_step() {
        let values: Vec<f32> = (0..64 * 3).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let weights = Tensor::from_vec(values.clone(), &[64, 3]).unwrap();
        let (narrow, scale) = int8(&weights, 1).unwrap();
        let (narrow, scale) = (narrow.to_vec::<i8>().unwrap(), scale.to_vec::<f32>().unwrap());
        for (at, value) in values.iter().enumerate() {
            let scale = scale[at % 3];
            assert!((f32::from(narrow[at]) * scale - value).abs() <= scale * 0.501);
        }
        let (bytes, scale) = int4(&weights, 1, 4).unwrap();
        assert_eq!((bytes.shape(), scale.shape()), (&[1, 32, 4][..], &[1, 2, 4][..]));
        let (bytes, scale) = (bytes.to_vec::<u8>().unwrap(), scale.to_vec::<f32>().unwrap());
        for (at, value) in values.iter().enumerate() {
            let (term, column) = (at / 3, at % 3);
            let half = bytes[term / 2 * 4 + column] >> (4 * (term % 2)) & 0xf;
            let number = f32::from((half << 4) as i8 >> 4);
            let scale = scale[term / GROUP * 4 + column];
            // The largest numbers are cut by up to 28 % of 8 steps.
            assert!((number * scale - value).abs() <= scale.abs() * 2.74, "{number} * {scale}, {value}");
        }
    }

    #[test]
    fn scales_of_groups_are_close() {
        let mut values: [f32; GROUP] = std::array::from_fn(|i| ((i * 37) % 31) as f32 / 15.0 - 1.0);
        let error = |values: &[f32; GROUP], scale: f32| -> f32 {
            values.iter().map(|&it| (it - f32::from(of_four_bits(it, scale)) * scale).powi(2)).sum()
        };
        values[5] = -3.0;
        assert!(error(&values, closest_scale(&values)) < error(&values, 3.0 / 7.0));
        // Whole numbers have no error.
        let whole: [f32; GROUP] = std::array::from_fn(|i| i as f32 % 15.0 - 7.0);
        assert_eq!(error(&whole, closest_scale(&whole)), 0.0);
        assert_eq!(closest_scale(&[0.0; GROUP]), 1.0);
    }

    #[test]
    fn what_has_no_narrow_form() {
        let of = |value: f32, shape: &[i64]| {
            Tensor::from_vec(vec![value; shape.iter().product::<i64>() as usize], shape).unwrap()
        };
        assert!(int8(&of(f32::NAN, &[8, 8]), 1).is_none());
        assert!(int4(&of(1.0, &[33, 8]), 1, 8).is_none());
        assert!(int4(&of(1.0, &[0, 8]), 1, 8).is_none());
        assert!(floats(&of(1e6, &[2, 2]), DataType::F16).is_none());
        assert!(floats(&of(f32::INFINITY, &[2, 2]), DataType::F16).is_some());
        // Weights of 0, and numbers so small that their scale is 0.
        assert_eq!(int8(&of(0.0, &[8, 8]), 0).unwrap().0.to_vec::<i8>().unwrap(), [0; 64]);
        assert_eq!(int8(&of(1e-45, &[8, 8]), 0).unwrap().0.to_vec::<i8>().unwrap(), [0; 64]);
    }
}
