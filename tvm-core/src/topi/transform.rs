//! Rearrangements of elements without change: permutations, concatenations, repetitions.

use super::{ravel, unravel};
use crate::arith::Analyzer;
use crate::te::{TensorExpr, compute};
use crate::tir::{Intrinsic, Layout, PrimExpr};

/// `condition ? a : b`. Only the selected side is evaluated: the other one may be outside of its buffer.
pub(super) fn lazy(condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    match condition.as_int() {
        Some(0) => b,
        Some(_) => a,
        None => {
            let dtype = a.dtype();
            PrimExpr::call(Intrinsic::IfThenElse, [condition, a, b], dtype)
        }
    }
}

/// `x` with permuted axes: axis `i` of the result is axis `axes[i]` of `x`.
pub fn permute(x: &TensorExpr, axes: &[usize]) -> TensorExpr {
    let shape: Vec<PrimExpr> = axes.iter().map(|&axis| x.dim(axis)).collect();
    compute("transpose", shape, &[x], |i| {
        let mut at = vec![PrimExpr::index(0); axes.len()];
        axes.iter().zip(i).for_each(|(&axis, index)| at[axis] = index.clone());
        x.at(at)
    })
}

/// The same elements in the same order under another shape.
pub fn reshape(x: &TensorExpr, shape: &[PrimExpr]) -> TensorExpr {
    compute("reshape", shape, &[x], |i| x.at(unravel(ravel(i, shape), x.shape())))
}

/// The elements of `x`, whose layout is `src`, in the layout `dst`; `letters` are the undivided axes.
pub fn layout_transform(
    x: &TensorExpr,
    letters: &str,
    src: &Layout,
    dst: &Layout,
    shape: &[PrimExpr],
) -> TensorExpr {
    compute("layout_transform", shape, &[x], |i| {
        let analyzer = Analyzer::of_extents(i, shape);
        let at = src.index(letters, &dst.undivided_index(letters, i));
        x.at(at.iter().map(|it| analyzer.simplify(it)).collect::<Vec<_>>())
    })
}

/// Concatenates tensors along `axis`.
pub fn concat(xs: &[TensorExpr], axis: usize, shape: &[PrimExpr]) -> TensorExpr {
    let inputs: Vec<&TensorExpr> = xs.iter().collect();
    compute("concat", shape, &inputs, |i| {
        // Start of each tensor along the axis.
        let starts = xs.iter().scan(PrimExpr::index(0), |end, x| {
            let start = end.clone();
            *end = &start + x.dim(axis);
            Some(start)
        });
        let parts: Vec<(PrimExpr, &TensorExpr)> = starts.zip(xs).collect();
        part_at(&parts, i, axis)
    })
}

/// The element at `i` of the concatenated parts, which are given with their start along `axis`; bisects to find the
/// part.
fn part_at(parts: &[(PrimExpr, &TensorExpr)], i: &[PrimExpr], axis: usize) -> PrimExpr {
    match parts {
        [] => PrimExpr::index(0),
        [(start, x)] => {
            let mut at = i.to_vec();
            at[axis] = &at[axis] - start;
            x.at(at)
        }
        _ => {
            let (before, after) = parts.split_at(parts.len() / 2);
            lazy(i[axis].clone().less(&after[0].0), part_at(before, i, axis), part_at(after, i, axis))
        }
    }
}

/// Stacks tensors of one shape along a new axis `axis`.
pub fn stack(xs: &[TensorExpr], axis: usize, shape: &[PrimExpr]) -> TensorExpr {
    let inputs: Vec<&TensorExpr> = xs.iter().collect();
    compute("stack", shape, &inputs, |i| {
        let mut at = i.to_vec();
        let which = at.remove(axis);
        let mut elements = xs.iter().enumerate().rev().map(|(k, x)| (k, x.at(at.clone())));
        let last = elements.next().map_or_else(|| PrimExpr::index(0), |(_, it)| it);
        elements.fold(last, |res, (k, element)| lazy(which.clone().equal(k as i64), element, res))
    })
}

/// The parts of `x` along `axis` that start at `starts`, of the given shapes.
pub fn split(x: &TensorExpr, axis: usize, starts: &[PrimExpr], shapes: &[&[PrimExpr]]) -> Vec<TensorExpr> {
    let part = |(start, shape): (&PrimExpr, &&[PrimExpr])| {
        compute("split", *shape, &[x], |i| {
            let mut at = i.to_vec();
            at[axis] = &at[axis] + start;
            x.at(at)
        })
    };
    starts.iter().zip(shapes).map(part).collect()
}

/// `x` repeated as a whole along every axis.
pub fn tile(x: &TensorExpr, shape: &[PrimExpr]) -> TensorExpr {
    compute("tile", shape, &[x], |i| {
        let last = &i[i.len() - x.ndim()..];
        x.at(last.iter().zip(x.shape()).map(|(i, extent)| i.clone().floormod(extent)).collect::<Vec<_>>())
    })
}

/// `x` with every element repeated `times` times along `axis`.
pub fn repeat(x: &TensorExpr, times: i64, axis: usize, shape: &[PrimExpr]) -> TensorExpr {
    compute("repeat", shape, &[x], |i| {
        let mut at = i.to_vec();
        at[axis] = at[axis].clone().floordiv(times);
        x.at(at)
    })
}

/// `x` reversed along `axes`.
pub fn flip(x: &TensorExpr, axes: &[usize]) -> TensorExpr {
    compute("flip", x.shape(), &[x], |i| {
        let mut at = i.to_vec();
        for &axis in axes {
            at[axis] = x.dim(axis) - 1i64 - &at[axis];
        }
        x.at(at)
    })
}
