//! Buffers that kernels allocate.

use tvm_runtime::DataType;

use super::{FuncBuilder, Loc};
use crate::ir::{Type, Var};
use crate::script::KernelValue;
use crate::tir::analysis::reads_memory;
use crate::tir::{AllocBuffer, Bind, Buffer, PrimExpr, Scope, any_expr, substitute_expr};

/// Names in layouts are replaced by their values up to this many expression nodes.
const EXTENT_LIMIT: usize = 256;

impl FuncBuilder {
    /// Allocates a buffer that lives to the end of its scope: the block (or function) if it is allocated directly in it,
    /// else the iteration of the loop. If its extents depend on values read from memory, its life starts here.
    pub fn alloc<const N: usize>(
        &self,
        loc: Loc,
        name: &'static str,
        dtype: DataType,
        shape: [KernelValue; N],
        scope: Scope,
    ) -> Buffer {
        self.alloc_laid_out(loc, name, dtype, shape, scope, vec![], vec![])
    }

    /// [`alloc`](Self::alloc) with strides and an offset, in elements; the layout is compact if both are empty.
    #[expect(clippy::too_many_arguments, reason = "what a buffer is made of")]
    pub fn alloc_laid_out<const N: usize>(
        &self,
        loc: Loc,
        name: &'static str,
        dtype: DataType,
        shape: [KernelValue; N],
        scope: Scope,
        strides: Vec<KernelValue>,
        offset: Vec<KernelValue>,
    ) -> Buffer {
        let shape = shape.map(|extent| self.settled(loc, name, extent));
        let strides: Vec<KernelValue> = strides.into_iter().map(|it| self.settled(loc, name, it)).collect();
        let offset = offset.into_iter().map(|it| self.settled(loc, name, it)).next();
        let buffer = self.buffer(loc, name, dtype, shape, scope).renew(|node| {
            node.strides = strides.into_iter().map(KernelValue::into_index).collect();
            node.elem_offset = offset.map(KernelValue::into_index);
        });
        self.declare(&buffer);
        buffer
    }

    /// Allocates `buffer` in the open scope.
    pub(in crate::script) fn declare(&self, buffer: &Buffer) {
        let mut state = self.state.borrow_mut();
        let depth = state.frames.len();
        let mut parts = buffer.shape.iter().chain(buffer.strides.iter()).chain(&buffer.elem_offset);
        let named = |it: &PrimExpr| it.as_var().is_some_and(|var| state.lets.contains_key(&var.id()));
        let of_data = parts.any(|part| any_expr(part, &mut |it| named(it)));
        match state.blocks.last_mut() {
            Some(block) if block.depth == depth && !of_data => block.alloc_buffers.push(buffer.clone()),
            _ => {
                drop(state);
                self.push(AllocBuffer::new(buffer.clone()));
            }
        }
    }

    /// `part` with names replaced by their values if these are `fit`, as long as it is short.
    pub(super) fn without_lets(&self, mut part: PrimExpr, fit: fn(&PrimExpr) -> bool) -> PrimExpr {
        let mut lets = self.state.borrow().lets.clone();
        lets.retain(|_, value| fit(value));
        while !is_long(&part)
            && any_expr(&part, &mut |it| it.as_var().is_some_and(|var| lets.contains_key(&var.id())))
        {
            part = substitute_expr(&part, &lets);
        }
        part
    }

    /// `part` of the layout of the buffer `name`, with names replaced by their values unless these read memory. If the part
    /// itself reads memory, it is bound to a new variable, because layouts must not read memory.
    fn settled(&self, loc: Loc, name: &str, part: KernelValue) -> KernelValue {
        let part = self.without_lets(part.into_index(), |value| !reads_memory(value));
        if !reads_memory(&part) {
            return KernelValue::index(part);
        }
        let var = Var::with_span(format!("{name}_extent"), Type::Prim(DataType::I64), self.span(loc));
        self.state.borrow_mut().lets.insert(var.id(), part.clone());
        self.push(Bind { var: var.clone(), value: part });
        KernelValue::index(&var)
    }
}

fn is_long(expr: &PrimExpr) -> bool {
    let mut nodes = 0;
    any_expr(expr, &mut |_| {
        nodes += 1;
        nodes > EXTENT_LIMIT
    })
}
