//! Makes every buffer one-dimensional.
//!
//! TVM counterpart: `FlattenBuffer`.
//! Requires: no blocks. Ensures: every access in the body has one index, into a buffer without strides and offset; a
//! parameter is accessed through a flat buffer declared over `address_of` its first element.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::check_bounds::elements;
use super::lower_match_buffer::row_major_strides;
use super::util::body_pass;
use super::vector;
use crate::ir::BufferId;
use crate::pass::Pass;
use crate::tir::{
    Buffer, BufferLoad, BufferStore, DeclBuffer, Intrinsic, Mutator, Param, PrimExpr, PrimFunc, Stmt,
};

/// Makes buffers one-dimensional.
pub fn flatten_buffer() -> Pass {
    body_pass("FlattenBuffer", flatten)
}

fn flatten(func: &PrimFunc) -> Option<Stmt> {
    let mut flattener = FlattenBuffer::default();
    let body = flattener.mutate_stmt(&func.body)?;
    let params = func.params.iter().filter_map(Param::buffer);
    let declared = params.filter_map(|buffer| {
        let flat = flattener.flat.get(&buffer.id)?.clone();
        let first = buffer.load(vec![PrimExpr::index(0); buffer.ndim()]);
        let data = PrimExpr::call(Intrinsic::AddressOf, [first], tvm_runtime::DataType::HANDLE);
        Some(Stmt::from(DeclBuffer { buffer: flat, data }))
    });
    Some(Stmt::seq(declared.chain([body])))
}

#[derive(Default)]
struct FlattenBuffer {
    flat: FxHashMap<BufferId, Buffer>,
}

impl FlattenBuffer {
    fn flat(&mut self, buffer: &Buffer) -> Buffer {
        let extent = elements(buffer);
        let flat = self.flat.entry(buffer.id).or_insert_with(|| {
            buffer.renew(|node| {
                node.shape = Arc::new([extent]);
                node.strides = Arc::new([]);
                node.elem_offset = None;
            })
        });
        flat.clone()
    }

    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr]) -> (Buffer, Arc<[PrimExpr]>) {
        let indices = indices.iter().map(|index| self.mutate_expr(index).unwrap_or_else(|| index.clone()));
        let terms = row_major_strides(buffer).into_iter().zip(indices);
        let terms =
            buffer.elem_offset.clone().into_iter().chain(terms.map(|(s, index)| vector::mul(index, s)));
        let index = terms.reduce(vector::add).unwrap_or(PrimExpr::index(0));
        (self.flat(buffer), Arc::new([index]))
    }
}

impl Mutator for FlattenBuffer {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let PrimExpr::BufferLoad(load) = expr else { return self.walk_expr(expr) };
        let (buffer, indices) = self.access(&load.buffer, &load.indices);
        let (predicate, span) = (load.predicate.clone(), load.span.clone());
        Some(PrimExpr::BufferLoad(Arc::new(BufferLoad { buffer, indices, predicate, span })))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::BufferStore(store) = stmt else { return self.walk_stmt(stmt) };
        let value = self.mutate_expr(&store.value).unwrap_or_else(|| store.value.clone());
        let (buffer, indices) = self.access(&store.buffer, &store.indices);
        Some(BufferStore { buffer, value, indices, ..(**store).clone() }.into())
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        Some(self.flat(buffer))
    }
}
