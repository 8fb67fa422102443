//! Compiles statements to closures, and assigns slots to variables and buffers.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tvm_runtime::{DataType, byte_size};

use super::access::Access;
use super::deep::with_room;
use super::init::Enclosing;
use super::machine::{Dim, Handle, IntFn, Machine, Mem, Run, Sizes, Trap};
use super::simt;
use super::strict::{Concurrent, shuffled};
use super::{InterpError, InterpErrorKind};
use crate::ir::{BufferId, Span, Var, VarId};
use crate::support::with_stack;
use crate::tir::analysis::atomic_update;
use crate::tir::schedule::analysis::reduces_across;
use crate::tir::{
    AssertStmt, BlockRealize, Buffer, BufferStore, For, ForKind, MatchBufferRegion, PrimExpr, Stmt,
};

type Compiled<T> = Result<T, InterpError>;

/// Limit of an allocation in bytes; those that reach it are rejected.
const MAX_BYTES: usize = 1 << 36;

/// Compiles a function to closures: every variable and buffer gets a slot.
#[derive(Default)]
pub(super) struct Compiler {
    pub(super) sizes: Sizes,
    pub(super) slots: FxHashMap<VarId, usize>,
    handles: FxHashMap<VarId, usize>,
    pub(super) views: FxHashMap<BufferId, usize>,
    /// Place of the statement being compiled.
    pub(super) span: Span,
    /// The constructs around that statement, outermost first.
    pub(super) enclosing: Vec<Enclosing>,
    /// Number of statements and expressions around it.
    pub(super) depth: u32,
}

impl Compiler {
    /// The first of the new slots for `var`: one slot per lane.
    pub(super) fn new_slot(&mut self, var: &Var) -> usize {
        let slot = self.sizes.slots;
        self.sizes.slots += usize::from(var.dtype().lanes());
        self.slots.insert(var.id(), slot);
        slot
    }

    pub(super) fn new_handle(&mut self, var: &Var) -> usize {
        let slot = self.sizes.handles;
        self.sizes.handles += 1;
        self.handles.insert(var.id(), slot);
        slot
    }

    pub(super) fn new_view(&mut self, buffer: &Buffer) -> usize {
        let view = self.sizes.views;
        self.sizes.views += 1;
        self.views.insert(buffer.id, view);
        view
    }

    pub(super) fn is_bound(&self, var: &Var) -> bool {
        self.slots.contains_key(&var.id())
    }

    pub(super) fn slot_of(&self, var: &Var) -> Compiled<usize> {
        let slot = self.slots.get(&var.id()).copied();
        slot.ok_or_else(|| self.malformed(format!("variable `{}`", var.name()), "it is not defined here"))
    }

    pub(super) fn handle_of(&self, var: &Var) -> Compiled<usize> {
        let slot = self.handles.get(&var.id()).copied();
        slot.ok_or_else(|| self.malformed(format!("variable `{}`", var.name()), "it is not defined here"))
    }

    pub(super) fn view_of(&self, buffer: &Buffer) -> Compiled<usize> {
        let view = self.views.get(&buffer.id).copied();
        view.ok_or_else(|| self.malformed(format!("buffer `{}`", buffer.name), "it is not declared here"))
    }

    /// Compiles a statement.
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Compiled<Run> {
        let span = match stmt {
            Stmt::BufferStore(it) => &it.span,
            Stmt::For(it) => &it.span,
            Stmt::BlockRealize(it) => &it.block.span,
            Stmt::IfThenElse(it) => &it.span,
            Stmt::While(it) => &it.span,
            Stmt::SeqStmt(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => &Span::none(),
        };
        let outer = self.span.clone();
        if !span.is_none() {
            self.span = span.clone();
        }
        self.depth += 1;
        let res = with_stack(|| self.stmt_inner(stmt));
        self.depth -= 1;
        self.span = outer;
        res.map(|run| with_room(self.depth, run))
    }

    fn stmt_inner(&mut self, stmt: &Stmt) -> Compiled<Run> {
        match stmt {
            Stmt::BufferStore(it) => self.store(it),
            Stmt::For(it) => self.for_loop(it),
            Stmt::BlockRealize(it) => self.block(it),
            Stmt::SeqStmt(it) => {
                let depth = self.enclosing.len();
                let mut body = Vec::with_capacity(it.len());
                for stmt in it.iter() {
                    body.push(self.stmt(stmt)?);
                    self.after(stmt);
                }
                self.enclosing.truncate(depth);
                Ok(Box::new(move |m| body.iter().try_for_each(|run| run(m))))
            }
            Stmt::IfThenElse(it) => {
                let condition = self.int(&it.condition)?;
                let then_case = self.inside(Enclosing::If(it.condition.clone()), &it.then_case)?;
                let other = |stmt| self.inside(Enclosing::If(!it.condition.clone()), stmt);
                let Some(else_case) = it.else_case.as_ref().map(other).transpose()? else {
                    return Ok(Box::new(move |m| if condition(m)? != 0 { then_case(m) } else { Ok(()) }));
                };
                Ok(Box::new(move |m| if condition(m)? != 0 { then_case(m) } else { else_case(m) }))
            }
            Stmt::While(it) => {
                let condition = self.int(&it.condition)?;
                let body = self.inside(Enclosing::While, &it.body)?;
                Ok(Box::new(move |m| {
                    while condition(m)? != 0 {
                        m.step()?;
                        body(m)?;
                    }
                    Ok(())
                }))
            }
            Stmt::Bind(it) if it.var.dtype().is_handle() => {
                let value = self.handle(&it.value)?;
                let slot = self.new_handle(&it.var);
                Ok(Box::new(move |m| value(m).map(|handle| m.handles[slot] = handle)))
            }
            Stmt::Bind(it) => Ok(Box::new(self.bind_var(&it.var, &it.value)?)),
            Stmt::AllocBuffer(it) => self.alloc(&it.buffer),
            Stmt::DeclBuffer(it) => {
                let data = self.handle(&it.data)?;
                self.declare(&it.buffer, move |m| data(m))
            }
            Stmt::Evaluate(it) => {
                let lanes = usize::from(it.value.dtype().lanes());
                let value = match self.expr(&it.value)? {
                    super::ops::Code::Int(f) => f,
                    super::ops::Code::Float(f) => {
                        Box::new(move |m: &mut Machine<'_>| f(m).map(|_| 0i64)) as IntFn
                    }
                };
                Ok(Box::new(move |m| {
                    m.step()?;
                    super::access::each_lane(m, lanes, &value).map(|_| ())
                }))
            }
            Stmt::AssertStmt(it) => self.assertion(it),
        }
    }

    /// Compiles `stmt` inside `enclosing`.
    fn inside(&mut self, enclosing: Enclosing, stmt: &Stmt) -> Compiled<Run> {
        self.enclosing.push(enclosing);
        let run = self.stmt(stmt);
        self.enclosing.pop();
        run
    }

    /// Records that the statements after `stmt` are in the scope of its binding or allocation, if it is one.
    pub(super) fn after(&mut self, stmt: &Stmt) {
        self.enclosing.extend(match stmt {
            Stmt::Bind(it) => Some(Enclosing::Let(it.var.clone(), it.value.clone())),
            Stmt::AllocBuffer(it) => Some(Enclosing::Alloc(it.buffer.id)),
            Stmt::DeclBuffer(it) => Some(Enclosing::Alloc(it.buffer.id)),
            Stmt::BufferStore(_)
            | Stmt::For(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => None,
        });
    }

    fn store(&mut self, it: &BufferStore) -> Compiled<Run> {
        if let Some((op, term)) = atomic_update(it) {
            let element = |compiler: &mut Compiler| -> Compiled<Access> {
                Ok(Access { atomic: true, ..compiler.access(&it.buffer, &it.indices, &it.span)? })
            };
            let (old, term) = (element(self)?.load(), self.expr(term)?);
            let new = self.binary(op, it.buffer.dtype, old, term)?;
            return Ok(element(self)?.store(new, 1, None));
        }
        let (value, lanes) = (self.expr(&it.value)?, usize::from(it.value.dtype().lanes()));
        let is_float = matches!(value, super::ops::Code::Float(_));
        if is_float != it.buffer.dtype.is_float() {
            return Err(
                self.malformed(format!("a store to `{}`", it.buffer.name), "the value has another type")
            );
        }
        let predicate = it.predicate.as_ref().map(|it| self.int(it)).transpose()?;
        Ok(self.access(&it.buffer, &it.indices, &it.span)?.store(value, lanes, predicate))
    }

    fn for_loop(&mut self, it: &For) -> Compiled<Run> {
        let (concurrent, thread) = match it.kind {
            ForKind::ThreadBinding(tag) if simt::is_thread(tag) && simt::has_barrier(&it.body) => {
                return self.threads(it);
            }
            // Threads that divide the terms of a reduction among them: its terms, one after the other.
            ForKind::ThreadBinding(_) if reduces_across(it) => (None, None),
            ForKind::ThreadBinding(tag) => (Some(Concurrent::of(it)), Some(tag)),
            ForKind::Parallel | ForKind::Vectorized => (Some(Concurrent::of(it)), None),
            ForKind::Serial | ForKind::Unrolled => (None, None),
        };
        let (min, extent) = (self.int(&it.min)?, self.int(&it.extent)?);
        let slot = self.new_slot(&it.loop_var);
        let (loop_var, span): (Arc<str>, Span) = (it.loop_var.name().into(), it.span.clone());
        let enclosing = Enclosing::Loop { var: it.loop_var.clone(), range: it.range(), inits: Vec::new() };
        self.enclosing.push(enclosing);
        let body = self.stmt(&it.body)?;
        let inits = match self.enclosing.pop() {
            Some(Enclosing::Loop { inits, .. }) => inits,
            _ => Vec::new(),
        };
        Ok(Box::new(move |m| {
            inits.iter().try_for_each(|init| init(m))?;
            let (min, extent) = (min(m)?, extent(m)?.max(0));
            let Some(end) = min.checked_add(extent) else {
                let kind = InterpErrorKind::LoopRange { loop_var: loop_var.clone(), min, extent };
                return Err(m.fail(kind, &span));
            };
            if let Some(concurrent) = &concurrent
                && m.watch.is_some()
            {
                return shuffled(m, concurrent, thread, (min, extent), |m, i| {
                    m.step()?;
                    m.slots[slot] = i;
                    body(m)
                });
            }
            for i in min..end {
                m.step()?;
                m.slots[slot] = i;
                body(m)?;
            }
            Ok(())
        }))
    }

    fn assertion(&mut self, it: &AssertStmt) -> Compiled<Run> {
        let condition = self.int(&it.condition)?;
        let (expected, got) = (self.int(&it.failure.expected)?, self.int(&it.failure.got)?);
        let (status, arg, axis) = (it.failure.status, it.failure.arg, it.failure.axis);
        let (what, span) = (it.failure.what.clone(), it.failure.span.clone());
        Ok(Box::new(move |m| {
            if condition(m)? != 0 {
                return Ok(());
            }
            let (expected, got) = (expected(m)?, got(m)?);
            let kind = InterpErrorKind::Assert { what: what.clone(), status, arg, axis, expected, got };
            Err(m.fail(kind, &span))
        }))
    }

    fn block(&mut self, realize: &BlockRealize) -> Compiled<Run> {
        let block = &realize.block;
        let enter = self.enter_block(realize)?;
        let mut prepare = Vec::new();
        for buffer in block.alloc_buffers.iter() {
            prepare.push(self.alloc(buffer)?);
        }
        for it in block.match_buffers.iter() {
            prepare.push(self.match_buffer(it)?);
        }
        let init = self.init(realize)?;
        let body = self.inside(Enclosing::Block(realize.clone()), &block.body)?;
        Ok(Box::new(move |m| {
            if enter(m)? == 0 {
                return Ok(());
            }
            prepare.iter().try_for_each(|run| run(m))?;
            init.iter().try_for_each(|init| init(m))?;
            body(m)
        }))
    }

    /// Compiles the code that sets the axes of a block to their values; it returns 0 if the block does not run.
    pub(super) fn enter_block(&mut self, realize: &BlockRealize) -> Compiled<super::machine::IntFn> {
        let block = &realize.block;
        if block.iter_vars.len() != realize.iter_values.len() {
            return Err(self.malformed(format!("block `{}`", block.name), "it needs one value per axis"));
        }
        let predicate = self.int(&realize.predicate)?;
        let always = realize.predicate.is_const(1);
        let mut axes = Vec::new();
        for (iter, value) in block.iter_vars.iter().zip(realize.iter_values.iter()) {
            let (value, min, extent) =
                (self.int(value)?, self.int(&iter.dom.min)?, self.int(&iter.dom.extent)?);
            axes.push((value, min, extent, iter));
        }
        let axes: Vec<Axis> = axes
            .into_iter()
            .map(|(value, min, extent, iter)| Axis {
                value,
                min,
                extent,
                slot: self.new_slot(&iter.var),
                name: iter.var.name().into(),
            })
            .collect();
        let (name, span) = (block.name.clone(), block.span.clone());
        Ok(Box::new(move |m| {
            // Values may fail where the block does not run, as quotients by an empty dimension do.
            if !always && predicate(m)? == 0 {
                return Ok(0);
            }
            let mut values: SmallVec<[i64; 6]> = SmallVec::new();
            for axis in &axes {
                values.push((axis.value)(m)?);
            }
            for (axis, &value) in axes.iter().zip(&values) {
                let min = (axis.min)(m)?;
                let end = min.saturating_add((axis.extent)(m)?);
                if value < min || value >= end {
                    let (block, axis) = (name.clone(), axis.name.clone());
                    return Err(m.fail(InterpErrorKind::AxisDomain { block, axis, value, min, end }, &span));
                }
                m.slots[axis.slot] = value;
            }
            Ok(1)
        }))
    }

    /// Compiles the allocation of `buffer`, with its own memory.
    pub(super) fn alloc(&mut self, buffer: &Buffer) -> Compiled<Run> {
        let mem = self.sizes.mems;
        self.sizes.mems += 1;
        let (name, dtype, span) = (buffer.name.clone(), buffer.dtype, buffer.span.clone());
        let place = self.declare(buffer, move |_| Ok(Handle { mem, byte: 0 }))?;
        let view = self.view_of(buffer)?;
        Ok(Box::new(move |m| {
            m.step()?;
            place(m)?;
            let shape: Vec<i64> = m.views[view].dims.iter().map(|dim| dim.extent).collect();
            // End of the last element in bytes; with strides it may exceed the size of the elements.
            let end = m.views[view].dims.iter().try_fold(dtype.bytes() as i64, |end, dim| {
                dim.extent.checked_sub(1)?.checked_mul(dim.stride)?.checked_add(end)
            });
            let size =
                byte_size(&shape, dtype).zip(end).map(|(size, end)| size.min(1).saturating_mul(end as usize));
            match size {
                Some(size) if size < MAX_BYTES => {
                    let Mem::Owned(memory) = &mut m.mems[mem] else { return Ok(()) };
                    memory.clear();
                    memory.resize(size, 0);
                    if let Some(watch) = &mut m.watch {
                        watch.track(mem, size, dtype.scalar().bytes().max(1), false);
                    }
                    Ok(())
                }
                _ => {
                    let kind = InterpErrorKind::Allocation { buffer: name.clone(), dtype, shape };
                    Err(m.fail(kind, &span))
                }
            }
        }))
    }

    /// Compiles the declaration of `buffer` over the memory at `data`.
    fn declare(
        &mut self,
        buffer: &Buffer,
        data: impl Fn(&mut Machine<'_>) -> Result<Handle, Trap> + Send + Sync + 'static,
    ) -> Compiled<Run> {
        let shape = buffer.shape.iter().map(|extent| self.int(extent)).collect::<Compiled<Vec<_>>>()?;
        let strides = buffer.strides.iter().map(|stride| self.int(stride)).collect::<Compiled<Vec<_>>>()?;
        let offset = buffer.elem_offset.as_ref().map(|offset| self.int(offset)).transpose()?;
        let (view, bytes) = (self.new_view(buffer), buffer.dtype.bytes() as i64);
        Ok(Box::new(move |m| {
            let mut at = data(m)?;
            if let Some(offset) = &offset {
                at.byte += offset(m)?.wrapping_mul(bytes);
            }
            let mut dims: SmallVec<[Dim; 4]> = SmallVec::new();
            for extent in &shape {
                dims.push(Dim { extent: extent(m)?, stride: 0 });
            }
            compact(&mut dims, bytes);
            for (dim, stride) in dims.iter_mut().zip(&strides) {
                dim.stride = stride(m)?.wrapping_mul(bytes);
            }
            m.views[view].at = at;
            m.views[view].dims = dims;
            Ok(())
        }))
    }

    /// Compiles the match of a buffer to a region: the last axes of the region become its axes; unbound variables that
    /// are its extents, strides or offset get the values of the region.
    pub(super) fn match_buffer(&mut self, it: &MatchBufferRegion) -> Compiled<Run> {
        let source = self.view_of(&it.source.buffer)?;
        let mut region = Vec::new();
        for range in it.source.region.iter() {
            region.push((self.int(&range.min)?, self.int(&range.extent)?));
        }
        let rank = it.buffer.ndim();
        if rank > region.len() || region.len() != it.source.buffer.ndim() {
            return Err(
                self.malformed(format!("`{}`", it.buffer.name), "it does not fit the region it names")
            );
        }
        let skip = region.len() - rank;
        let mut bind = |expr: &PrimExpr| match expr.as_var() {
            Some(var) if !self.is_bound(var) => Some(self.new_slot(var)),
            _ => None,
        };
        let extents: Vec<_> = it.buffer.shape.iter().map(&mut bind).collect();
        let strides: Vec<_> = it.buffer.strides.iter().map(&mut bind).collect();
        let offset = it.buffer.elem_offset.as_ref().and_then(&mut bind);
        let (view, bytes) = (self.new_view(&it.buffer), it.buffer.dtype.bytes().max(1) as i64);
        let bytes = if it.buffer.dtype == it.source.buffer.dtype { bytes } else { 1 };
        let buffer = it.source.buffer.name.clone();
        let span = if it.buffer.span.is_none() { self.span.clone() } else { it.buffer.span.clone() };
        Ok(Box::new(move |m| {
            let mut at = m.views[source].at;
            let mut dims: SmallVec<[Dim; 4]> = SmallVec::new();
            let mut ranges: SmallVec<[(i64, i64); 4]> = SmallVec::new();
            for (min, extent) in &region {
                ranges.push((min(m)?, extent(m)?));
            }
            let empty = ranges.iter().any(|(_, extent)| *extent <= 0);
            for (axis, (min, extent)) in ranges.into_iter().enumerate() {
                let (whole, last) = (m.views[source].dims[axis].extent, min.saturating_add(extent - 1));
                if !empty && (min < 0 || last >= whole) {
                    let index = if min < 0 { min } else { last };
                    let buffer = buffer.clone();
                    let kind = InterpErrorKind::OutOfBounds { buffer, axis, index, extent: whole };
                    return Err(m.fail(kind, &span));
                }
                let stride = m.views[source].dims[axis].stride;
                at.byte += min.wrapping_mul(stride);
                if axis >= skip {
                    dims.push(Dim { extent, stride });
                }
            }
            let axes = extents.iter().zip(&dims).map(|(slot, dim)| (slot, dim.extent));
            let strides = strides.iter().zip(&dims).map(|(slot, dim)| (slot, dim.stride / bytes));
            for (slot, value) in axes.chain(strides).chain([(&offset, at.byte / bytes)]) {
                if let Some(slot) = slot {
                    m.slots[*slot] = value;
                }
            }
            m.views[view].at = at;
            m.views[view].dims = dims;
            Ok(())
        }))
    }
}

struct Axis {
    value: IntFn,
    min: IntFn,
    extent: IntFn,
    slot: usize,
    name: std::sync::Arc<str>,
}

/// Sets the strides of `dims` to those of a compact row-major buffer.
pub(super) fn compact(dims: &mut [Dim], bytes: i64) {
    let mut stride = bytes;
    for dim in dims.iter_mut().rev() {
        dim.stride = stride;
        stride = stride.wrapping_mul(dim.extent);
    }
}

/// A name for the element type of a scalar, in messages.
pub(super) fn scalar_kind(dtype: DataType) -> &'static str {
    if dtype.is_float() { "a float" } else { "an integer" }
}
