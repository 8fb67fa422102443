//! Tensors of the shadow: views of arguments and local buffers, indexed by `[[i, j]]`.

use std::ops::{Index, IndexMut};

use tvm_runtime::{Element, RuntimeError, TensorView, TensorViewMut};

/// An input tensor.
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T, const N: usize> {
    data: &'a [T],
    shape: [usize; N],
}

/// An output tensor.
#[derive(Debug)]
pub struct ViewMut<'a, T, const N: usize> {
    data: &'a mut [T],
    shape: [usize; N],
}

/// A local buffer.
#[derive(Clone, Debug)]
pub struct Local<T, const N: usize> {
    data: Vec<T>,
    shape: [usize; N],
}

/// The extents as an array; a call has checked the rank.
pub(super) fn extents<const N: usize>(shape: &[i64]) -> [usize; N] {
    std::array::from_fn(|axis| shape.get(axis).map_or(0, |&extent| extent as usize))
}

impl<'a, T: Element, const N: usize> View<'a, T, N> {
    /// A view of an argument.
    pub fn new(view: &'a TensorView<'_>) -> Result<Self, RuntimeError> {
        Ok(View { data: view.as_slice()?, shape: extents(view.shape()) })
    }
}

impl<'a, T: Element, const N: usize> ViewMut<'a, T, N> {
    /// A view of an argument.
    pub fn new(view: &'a mut TensorViewMut<'_>) -> Result<Self, RuntimeError> {
        let shape = extents(view.shape());
        Ok(ViewMut { data: view.as_mut_slice()?, shape })
    }
}

/// A local buffer of this shape; its content is zeros.
pub fn alloc<T: Default + Clone, const N: usize>(shape: [usize; N]) -> Local<T, N> {
    Local { data: vec![T::default(); shape.iter().product()], shape }
}

/// The region of a buffer that a matched buffer stands for: first index and extent in each dimension.
#[derive(Clone, Copy, Debug)]
pub struct Region<const N: usize> {
    mins: [usize; N],
    extents: [usize; N],
    /// Dimensions before those of the matched buffer.
    single: usize,
}

/// A range of one index.
pub fn single(index: usize) -> std::ops::Range<usize> {
    index..index + 1
}

/// The region of these ranges; the first `single` are of one index, and no dimensions of the matched buffer.
pub fn region<const N: usize>(single: usize, ranges: [std::ops::Range<usize>; N]) -> Region<N> {
    let mins = std::array::from_fn(|axis| ranges[axis].start);
    let extents = std::array::from_fn(|axis| ranges[axis].len());
    Region { mins, extents, single }
}

impl<const N: usize> Region<N> {
    /// The index in the source of the element of the matched buffer at `index`.
    #[track_caller]
    pub fn at<const M: usize>(&self, index: [usize; M]) -> [usize; N] {
        std::array::from_fn(|axis| match axis.checked_sub(self.single) {
            Some(own) => {
                let (i, extent) = (index[own], self.extents[axis]);
                assert!(i < extent, "index {i} is out of bounds: axis {own} has extent {extent}");
                self.mins[axis] + i
            }
            None => self.mins[axis],
        })
    }
}

/// Position of the element at `index` in a compact row-major tensor.
#[track_caller]
fn offset<const N: usize>(shape: &[usize; N], index: [usize; N]) -> usize {
    let mut res = 0;
    for axis in 0..N {
        let (i, extent) = (index[axis], shape[axis]);
        assert!(i < extent, "index {i} is out of bounds: axis {axis} has extent {extent}");
        res = res * extent + i;
    }
    res
}

macro_rules! readable {
    ($($ty:ty)*) => {$(
        impl<T, const N: usize> Index<[usize; N]> for $ty {
            type Output = T;

            #[track_caller]
            fn index(&self, index: [usize; N]) -> &T {
                &self.data[offset(&self.shape, index)]
            }
        }
    )*};
}

macro_rules! writable {
    ($($ty:ty)*) => {$(
        impl<T, const N: usize> IndexMut<[usize; N]> for $ty {
            #[track_caller]
            fn index_mut(&mut self, index: [usize; N]) -> &mut T {
                &mut self.data[offset(&self.shape, index)]
            }
        }
    )*};
}

/// A tensor that a kernel may pass to another kernel as an input of this element type and rank.
#[diagnostic::on_unimplemented(
    message = "the kernel takes a tensor of {T} with {N} dimensions here",
    label = "a tensor of another type or rank"
)]
pub trait AsView<T, const N: usize> {
    /// A view of the tensor.
    fn as_view(&self) -> View<'_, T, N>;
}

/// A tensor that a kernel may pass to another kernel as an output of this element type and rank.
#[diagnostic::on_unimplemented(
    message = "the kernel writes a tensor of {T} with {N} dimensions here",
    label = "no tensor of this type and rank that may be written"
)]
pub trait AsViewMut<T, const N: usize> {
    /// A view of the tensor.
    fn as_view_mut(&mut self) -> ViewMut<'_, T, N>;
}

macro_rules! viewed {
    ($($ty:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T, const N: usize> AsView<T, N> for $ty {
            fn as_view(&self) -> View<'_, T, N> {
                View { data: &self.data[..], shape: self.shape }
            }
        }

        impl<T, const N: usize> $ty {
            /// The extents.
            pub fn shape(&self) -> [i64; N] {
                self.shape.map(|extent| extent as i64)
            }
        }
    )*};
}

macro_rules! viewed_mut {
    ($($ty:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T, const N: usize> AsViewMut<T, N> for $ty {
            fn as_view_mut(&mut self) -> ViewMut<'_, T, N> {
                ViewMut { data: &mut self.data[..], shape: self.shape }
            }
        }
    )*};
}

viewed! { View<'_, T, N> ViewMut<'_, T, N> Local<T, N> }
viewed_mut! { ViewMut<'_, T, N> Local<T, N> }
readable! { View<'_, T, N> ViewMut<'_, T, N> Local<T, N> }
writable! { ViewMut<'_, T, N> Local<T, N> }
