//! Constants in another layout, or with zeros around them.

use std::slice::ChunksExactMut;

use tvm_runtime::{DataType, Tensor};

use crate::tir::Layout;

/// The elements of `tensor`, whose axes are `letters`, in `layout`; `None` if blocks do not divide an extent.
pub(super) fn to_layout(tensor: &Tensor, letters: &str, layout: &Layout) -> Option<Tensor> {
    let extents = tensor.shape();
    let of_letter = |letter: char| letters.find(letter);
    let mut strides = vec![1i64; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    let (mut shape, mut steps) = (Vec::new(), Vec::new());
    for axis in layout.axes() {
        let at = of_letter(axis.letter)?;
        if extents[at] % layout.block(axis.letter) != 0 {
            return None;
        }
        shape.push(axis.factor.unwrap_or(extents[at] / axis.step));
        steps.push(strides[at] * axis.step);
    }
    let (bytes, size) = (tensor.bytes().ok()?, tensor.dtype().bytes());
    let mut res = Tensor::zeros(&shape, tensor.dtype()).ok()?;
    let mut places = res.bytes_mut().ok()?.chunks_exact_mut(size.max(1));
    copy(bytes, size, 0, &shape, &steps, &mut places);
    Some(res)
}

/// The weights (in, out, rows, columns) of a transposed convolution as those of the convolution that computes some of its phases: along
/// each spatial axis, so many from the first one on. The channels are (phase of rows, phase of columns, out). `None` if these
/// phases do not read as many elements.
pub(super) fn phases(tensor: &Tensor, phases: [[i64; 2]; 2], strides: [i64; 2]) -> Option<Tensor> {
    let [inputs, outputs, height, width] = *tensor.shape() else { return None };
    let taps = |extent: i64, stride: i64, phase: i64| (extent - phase + stride - 1) / stride;
    let mut counts = [0; 2];
    for (axis, extent) in [height, width].into_iter().enumerate() {
        let ([first, count], stride) = (phases[axis], strides[axis]);
        counts[axis] = taps(extent, stride, first);
        if counts[axis] < 1 || taps(extent, stride, first + count - 1) != counts[axis] {
            return None;
        }
    }
    let ([[top, down], [left, right]], [rows, columns], window) = (phases, counts, height * width);
    // The taps of a phase are in the opposite order.
    let shape = [down, right, outputs, inputs, rows, columns];
    let steps = [width, 1, window, outputs * window, -strides[0] * width, -strides[1]];
    let last = (top + (rows - 1) * strides[0]) * width + left + (columns - 1) * strides[1];
    let mut res = Tensor::zeros(&[down * right * outputs, inputs, rows, columns], tensor.dtype()).ok()?;
    let (bytes, size) = (tensor.bytes().ok()?, tensor.dtype().bytes());
    copy(bytes, size, last, &shape, &steps, &mut res.bytes_mut().ok()?.chunks_exact_mut(size.max(1)));
    Some(res)
}

/// The elements along the last axis as one word of `i32`; they are 32 bits.
pub(super) fn words(tensor: &Tensor) -> Option<Tensor> {
    let (_, shape) = tensor.shape().split_last()?;
    Tensor::from_bytes(tensor.bytes().ok()?, shape, DataType::I32).ok()
}

/// `tensor` with zeros after the elements of an axis, up to `extent` of them.
pub(super) fn pad(tensor: &Tensor, axis: usize, extent: i64) -> Option<Tensor> {
    let mut shape = tensor.shape().to_vec();
    if shape[axis] == extent {
        return Some(tensor.clone());
    }
    let inner: i64 = shape[axis + 1..].iter().product();
    let row = inner as usize * tensor.dtype().bytes();
    let (from, to) = (shape[axis] as usize * row, extent as usize * row);
    shape[axis] = extent;
    let mut res = Tensor::zeros(&shape, tensor.dtype()).ok()?;
    let slices = tensor.bytes().ok()?.chunks(from.max(1));
    for (slice, place) in slices.zip(res.bytes_mut().ok()?.chunks_mut(to.max(1))) {
        place[..slice.len()].copy_from_slice(slice);
    }
    Some(res)
}

/// Copies the elements at `offset` to the next of `places`, in the order of the indices below `shape`; an index is `steps`
/// elements.
fn copy(
    bytes: &[u8],
    size: usize,
    offset: i64,
    shape: &[i64],
    steps: &[i64],
    places: &mut ChunksExactMut<'_, u8>,
) {
    let (Some((&extent, shape)), Some((&step, steps))) = (shape.split_first(), steps.split_first()) else {
        let start = offset as usize * size;
        if let Some(place) = places.next() {
            place.copy_from_slice(&bytes[start..start + size]);
        }
        return;
    };
    for i in 0..extent {
        copy(bytes, size, offset + i * step, shape, steps, places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_in_blocks() {
        let values: Vec<f32> = (0..12).map(|it| it as f32).collect();
        let weights = Tensor::from_slice(&values, &[4, 3, 1, 1]).unwrap();
        let blocks = to_layout(&weights, "OIHW", &"OIHW2o".parse().unwrap()).unwrap();
        assert_eq!(blocks.shape(), [2, 3, 1, 1, 2]);
        let expected = [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 6.0, 9.0, 7.0, 10.0, 8.0, 11.0];
        assert_eq!(blocks.to_vec::<f32>().unwrap(), expected);
        assert!(to_layout(&weights, "OIHW", &"OIHW2i".parse().unwrap()).is_none());
    }
}
