//! Reductions over some axes.

use tvm_runtime::DataType;

use crate::te::{Combiner, Reduce, ReduceAxis, TensorExpr, compute, compute_many, reduce, reduce_axis};
use crate::tir::PrimExpr;

/// The reduced axes, and how indices of the result map to indices of the input.
struct Axes<'a> {
    axes: &'a [usize],
    keepdims: bool,
    reduced: Vec<ReduceAxis>,
}

impl<'a> Axes<'a> {
    fn new(x: &TensorExpr, axes: &'a [usize], keepdims: bool) -> Axes<'a> {
        let reduced =
            axes.iter().enumerate().map(|(i, &axis)| reduce_axis(&format!("k{i}"), x.dim(axis))).collect();
        Axes { axes, keepdims, reduced }
    }

    fn refs(&self) -> Vec<&ReduceAxis> {
        self.reduced.iter().collect()
    }

    fn out_shape(&self, x: &TensorExpr) -> Vec<PrimExpr> {
        let kept = |axis: usize| match (self.axes.contains(&axis), self.keepdims) {
            (false, _) => Some(x.dim(axis)),
            (true, true) => Some(PrimExpr::index(1)),
            (true, false) => None,
        };
        (0..x.ndim()).filter_map(kept).collect()
    }

    /// The index into `x`, from the index `out` into the result and the reduction variables.
    fn source(&self, x: &TensorExpr, out: &[PrimExpr]) -> Vec<PrimExpr> {
        self.index(x, out, |k| self.reduced[k].expr())
    }

    /// The index into a tensor like `x`: `reduced(k)` on the `k`-th reduced axis, the index of `out` on the others.
    fn index(&self, x: &TensorExpr, out: &[PrimExpr], reduced: impl Fn(usize) -> PrimExpr) -> Vec<PrimExpr> {
        let mut out = out.iter();
        let mut index = Vec::with_capacity(x.ndim());
        for axis in 0..x.ndim() {
            let given = (self.keepdims || !self.axes.contains(&axis)).then(|| out.next()).flatten();
            index.push(match self.axes.iter().position(|&it| it == axis) {
                Some(k) => reduced(k),
                None => given.cloned().unwrap_or_else(|| PrimExpr::index(0)),
            });
        }
        index
    }
}

/// `f` of the elements, reduced by `make` along `axes`.
pub fn reduce_axes(
    name: &str,
    x: &TensorExpr,
    axes: &[usize],
    keepdims: bool,
    f: impl FnOnce(PrimExpr) -> PrimExpr,
    make: fn(PrimExpr, &[&ReduceAxis]) -> Reduce,
) -> TensorExpr {
    let axes = Axes::new(x, axes, keepdims);
    compute(name, axes.out_shape(x), &[x], |i| make(f(x.at(axes.source(x, i))), &axes.refs()))
}

/// The type in which elements of `dtype` are added up: 16-bit floats are too narrow for sums.
pub(super) fn accumulator(dtype: DataType) -> DataType {
    if dtype.is_float() && dtype.bits() < 32 { DataType::F32 } else { dtype }
}

/// `x`, computed in the type of [`accumulator`], cast to `dtype`.
pub(super) fn narrowed(x: TensorExpr, dtype: DataType) -> TensorExpr {
    if x.dtype() == dtype { x } else { super::map("narrowed", &x, |it| it.cast(dtype)) }
}

/// Sum over `axes` of `f` of the elements.
pub fn sum_axes(
    name: &str,
    x: &TensorExpr,
    axes: &[usize],
    keepdims: bool,
    f: impl FnOnce(PrimExpr) -> PrimExpr,
) -> TensorExpr {
    let wide = accumulator(x.dtype());
    let sum = reduce_axes(name, x, axes, keepdims, |it| f(it.cast(wide)), crate::te::sum);
    narrowed(sum, x.dtype())
}

/// Number of elements along `axes`, as `dtype`.
pub(super) fn count(x: &TensorExpr, axes: &[usize], dtype: DataType) -> PrimExpr {
    axes.iter().fold(PrimExpr::index(1), |count, &axis| count * x.dim(axis)).cast(dtype)
}

/// Mean over `axes`: the sum divided by the number of elements.
pub fn scaled_sum(name: &str, x: &TensorExpr, axes: &[usize], keepdims: bool) -> TensorExpr {
    let sum = sum_axes(&format!("{name}_sum"), x, axes, keepdims, |it| it);
    let count = count(x, axes, x.dtype());
    super::map(name, &sum, |it| it / count)
}

/// Mean of the squared distance to the mean, over `axes`.
pub fn variance(x: &TensorExpr, axes: &[usize], keepdims: bool) -> TensorExpr {
    variance_about(&scaled_sum("mean", x, axes, true), x, axes, keepdims)
}

/// Mean of the squared distance to `mean`, which has the reduced axes, over `axes`.
pub(super) fn variance_about(
    mean: &TensorExpr,
    x: &TensorExpr,
    axes: &[usize],
    keepdims: bool,
) -> TensorExpr {
    let over = Axes::new(x, axes, keepdims);
    let sum = compute("squares", over.out_shape(x), &[x, mean], |i| {
        let at_mean = over.index(x, i, |_| PrimExpr::index(0));
        let distance = x.at(over.source(x, i)) - mean.at(at_mean);
        crate::te::sum(&distance * &distance, &over.refs())
    });
    let count = count(x, axes, x.dtype());
    super::map("variance", &sum, |it| it / count)
}

/// Position of the largest (or smallest) element over `axes`, in row-major order of these axes.
pub fn arg_extreme(
    name: &str,
    x: &TensorExpr,
    axes: &[usize],
    keepdims: bool,
    largest: bool,
    last: bool,
) -> TensorExpr {
    let axes = Axes::new(x, axes, keepdims);
    let mut both = compute_many(name, axes.out_shape(x), &[x], |i| {
        let extents: Vec<PrimExpr> = axes.axes.iter().map(|&axis| x.dim(axis)).collect();
        let position: Vec<PrimExpr> = axes.reduced.iter().map(ReduceAxis::expr).collect();
        let sources = vec![super::ravel(&position, &extents), x.at(axes.source(x, i))];
        reduce(Combiner::arg_extreme(x.dtype(), largest, last), sources, &axes.refs())
    });
    both.swap_remove(0)
}
