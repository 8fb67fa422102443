//! Facts about a block on which the rules decide: its axes and loops, what it stores and loads, and with which strides.

use std::sync::Arc;

use crate::arith::{Analyzer, ConstIntBound, detect_linear_equation};
use crate::ir::Var;
use crate::tir::analysis::{estimate_cost, pair_update};
use crate::tir::schedule::{Schedule, StmtSRef};
use crate::tir::{
    BinaryOp, Block, BlockRealize, Buffer, BufferLoad, BufferNode, BufferStore, ForKind, Intrinsic, IterKind,
    PrimCallee, PrimExpr, any_expr, for_each_load, uses_var,
};

/// The largest value of a symbolic dimension for which a schedule is made.
#[derive(Clone)]
pub(super) struct AtMost {
    pub(super) dim: Var,
    pub(super) most: i64,
}

/// A leaf block, each of whose loops runs one axis.
pub(super) struct BlockInfo {
    /// Name of the block.
    pub(super) name: Arc<str>,
    /// One axis per loop around the block, outermost first.
    pub(super) axes: Vec<Axis>,
    /// The store that is the whole body, if it is one store.
    pub(super) store: Option<BufferStore>,
    /// That store, or both of a body that updates a position and a value, or a similar pair.
    pub(super) stores: Vec<BufferStore>,
    /// Loads of buffers other than the ones that the block writes.
    pub(super) loads: Vec<Arc<BufferLoad>>,
    /// True if the block updates what it stores along reduction axes.
    pub(super) reduces: bool,
    /// What is assumed of a dimension.
    pub(super) at_most: Option<AtMost>,
    /// How much longer an iteration takes than one that stores an element, for bodies that are programs of their own.
    pub(super) weight: i64,
    /// True if an axis is the variable of its loop plus a number.
    pub(super) shifted: bool,
}

/// Operations of an iteration that stores an element.
const OPERATIONS: u64 = 8;

/// An axis that a loop runs.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) var: Var,
    pub(super) kind: IterKind,
    pub(super) extent: PrimExpr,
}

/// True if `var` occurs in an index of `load`.
pub(super) fn indexed_by(load: &BufferLoad, var: &Var) -> bool {
    load.indices.iter().any(|index| uses_var(index, var))
}

/// The number of iterations of the loops over `axes` together, if it is known.
pub(super) fn iterations<'a>(axes: impl IntoIterator<Item = &'a Axis>) -> Option<i64> {
    axes.into_iter().try_fold(1i64, |count, axis| count.checked_mul(axis.extent.as_int()?))
}

fn leaf<'a>(s: &'a Schedule, name: &str) -> Option<&'a BlockRealize> {
    s.state().leaf_blocks().iter().map(|it| &**it).find(|it| &*it.block.name == name)
}

/// True if `value` is made of a product of words.
pub(super) fn multiplies_words(value: &PrimExpr) -> bool {
    any_expr(value, &mut |it| {
        matches!(it, PrimExpr::Call(call)
            if matches!(call.callee, PrimCallee::Intrinsic(Intrinsic::Dot4 | Intrinsic::Dot2)))
    })
}

/// How an access moves when an axis takes its next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stride {
    /// Not at all.
    Zero,
    /// To the next element.
    One,
    /// Over a few elements: vectors gather them from few cache lines.
    Few,
    /// Elsewhere.
    Other,
}

impl BlockInfo {
    /// The facts of the block `name`; `None` if its loops and axes do not correspond.
    pub(super) fn of(s: &Schedule, name: &str) -> Option<BlockInfo> {
        let realize = leaf(s, name)?;
        let block = &realize.block;
        let sref = StmtSRef::Block(block.id);
        let (mut axes, mut shifted) = (Vec::new(), false);
        for var in s.state().loops_above(sref) {
            let node = s.state().get_for(var).ok()?;
            if node.kind != ForKind::Serial || !node.min.is_const(0) {
                return None;
            }
            let mut of_loop = block.iter_vars.iter().zip(realize.iter_values.iter());
            let of_var = |value: &PrimExpr| offset(value, &node.loop_var);
            let (iter, value) = of_loop.find(|(_, value)| of_var(value).is_some())?;
            shifted |= of_var(value) != Some(0);
            axes.push(Axis { var: iter.var.clone(), kind: iter.kind, extent: node.extent.clone() });
        }
        // The other axes have one value.
        let with_loop = |var: &Var| axes.iter().any(|axis| axis.var == *var);
        let rest =
            block.iter_vars.iter().zip(realize.iter_values.iter()).filter(|(iter, _)| !with_loop(&iter.var));
        if axes.is_empty() || rest.into_iter().any(|(_, value)| value.as_int().is_none()) {
            return None;
        }
        let reduces = axes.iter().any(|axis| axis.kind == IterKind::Reduce);
        let store = block.body.as_buffer_store().map(|store| (**store).clone());
        let stores = match (&store, pair_update(&block.body)) {
            (Some(store), _) => vec![store.clone()],
            (None, Some(pair)) => pair.stores.map(BufferStore::clone).into(),
            (None, None) => Vec::new(),
        };
        let mut loads = Vec::new();
        for_each_load(&block.body, &mut |load| loads.push(load.clone()));
        loads.retain(|load| block.writes.iter().all(|write| write.buffer != load.buffer));
        let weight = match store {
            Some(_) => 1,
            None => i64::try_from(estimate_cost(&block.body) / OPERATIONS).unwrap_or(i64::MAX).max(1),
        };
        Some(BlockInfo {
            name: block.name.clone(),
            axes,
            store,
            stores,
            loads,
            reduces,
            at_most: None,
            weight,
            shifted,
        })
    }

    /// The largest extent of an axis, if a bound of its dimensions says so.
    pub(super) fn most(&self, axis: &Axis) -> Option<i64> {
        let mut analyzer = Analyzer::new();
        any_expr(&axis.extent, &mut |it| {
            it.as_var().into_iter().for_each(|dim| analyzer.bind_dim(dim));
            false
        });
        if let Some(AtMost { dim, most }) = &self.at_most {
            analyzer.bind_bound(dim, ConstIntBound::new(0, (*most).into()));
        }
        i64::try_from(analyzer.const_int_bound(&axis.extent).max).ok()
    }

    /// True if the block multiplies words of four bytes, or of two `bf16`.
    pub(super) fn multiplies_words(&self) -> bool {
        self.store.as_ref().is_some_and(|store| multiplies_words(&store.value))
    }

    /// The block itself.
    pub(super) fn realize<'a>(&self, s: &'a Schedule) -> Option<&'a BlockRealize> {
        leaf(s, &self.name)
    }

    /// The block that reads what this one stores, if it is the only one.
    pub(super) fn only_reader(&self, s: &Schedule) -> Option<BlockInfo> {
        let store = self.store.as_ref()?;
        let reads = |block: &Block| block.reads.iter().any(|read| read.buffer == store.buffer);
        let mut readers =
            s.state().leaf_blocks().iter().filter(|it| it.block.name != self.name && reads(&it.block));
        let (reader, None) = (readers.next()?, readers.next()) else { return None };
        BlockInfo::of(s, &reader.block.name)
    }

    /// The number of iterations, if it is a constant.
    pub(super) fn iterations(&self) -> Option<i64> {
        iterations(&self.axes)
    }

    /// The facts with views of the buffers that have no last dimensions of extent 1.
    pub(super) fn without_last_ones(self) -> BlockInfo {
        let view = |buffer: &Buffer, indices: &[PrimExpr]| {
            let len = buffer.shape.iter().rposition(|extent| !extent.is_const(1)).map_or(0, |last| last + 1);
            let strides = buffer.strides.get(..len).unwrap_or_default().into();
            // The same buffer, as the identity says.
            let node = BufferNode { shape: buffer.shape[..len].into(), strides, ..(**buffer).clone() };
            (Buffer::from_node(node), indices[..len].into())
        };
        let of_store = |store: BufferStore| {
            let (buffer, indices) = view(&store.buffer, &store.indices);
            BufferStore { buffer, indices, ..store }
        };
        let store = self.store.map(of_store);
        let stores = self.stores.into_iter().map(of_store).collect();
        let loads = self.loads.iter().map(|load| {
            let (buffer, indices) = view(&load.buffer, &load.indices);
            let mut load = (**load).clone();
            (load.buffer, load.indices) = (buffer, indices);
            Arc::new(load)
        });
        BlockInfo { loads: loads.collect(), store, stores, ..self }
    }

    /// The axis along which the store moves to the next element, as an index of `axes`.
    pub(super) fn contiguous_axis(&self) -> Option<usize> {
        self.contiguous_axis_of(self.store.as_ref()?)
    }

    /// The axis along which `store` moves to the next element.
    pub(super) fn contiguous_axis_of(&self, store: &BufferStore) -> Option<usize> {
        let last = store.indices.last()?.as_var()?;
        let axis = self.axes.iter().position(|axis| axis.var == *last)?;
        (self.axes[axis].kind == IterKind::Spatial && stride(&store.indices, last) == Stride::One)
            .then_some(axis)
    }
}

/// The stride of an access with these indices along `axis`.
pub(super) fn stride(indices: &[PrimExpr], axis: &Var) -> Stride {
    let Some((last, others)) = indices.split_last() else { return Stride::Zero };
    if others.iter().any(|index| uses_var(index, axis)) {
        return Stride::Other;
    }
    if !uses_var(last, axis) {
        return Stride::Zero;
    }
    match coefficient(last, axis) {
        Some(1) => Stride::One,
        Some(2..=4) => Stride::Few,
        _ => Stride::Other,
    }
}

/// The number of elements of a panel, if the access moves through panels along `axis`: it has `axis // width` as an index,
/// `axis % width` as the last one, and no other use of `axis`.
pub(super) fn panel_width(indices: &[PrimExpr], axis: &Var) -> Option<i64> {
    let by_number = |index: &PrimExpr, op: BinaryOp| match index {
        PrimExpr::Binary(it) if it.op == op && it.a.as_var() == Some(axis) => it.b.as_int(),
        _ => None,
    };
    let (last, others) = indices.split_last()?;
    let width = by_number(last, BinaryOp::FloorMod)?;
    let mut used = others.iter().filter(|index| uses_var(index, axis));
    let (panel, None) = (used.next()?, used.next()) else { return None };
    (by_number(panel, BinaryOp::FloorDiv) == Some(width)).then_some(width)
}

/// The number that `value` adds to `var`, if it does no more than that.
fn offset(value: &PrimExpr, var: &Var) -> Option<i64> {
    match value {
        PrimExpr::Binary(it) if it.op == BinaryOp::Add && it.a.as_var() == Some(var) => it.b.as_int(),
        _ => (value.as_var() == Some(var)).then_some(0),
    }
}

/// The number of which `index` grows when `axis` takes its next value, if it always is the same one.
pub(super) fn coefficient(index: &PrimExpr, axis: &Var) -> Option<i64> {
    detect_linear_equation(index, std::slice::from_ref(axis), &Analyzer::new())?.coefficients[0].as_int()
}
