//! A smaller version of a program, for equivalence tests where the program itself takes too long.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use crate::ir::BufferId;
use crate::tir::{Buffer, Mutator, Param, PrimExpr, PrimFunc, Stmt, Visitor, walk_stmt};

/// Extents up to this are kept, as part of what the program computes.
const SMALL: i64 = 16;

/// `func` with its large constant extents divided by `1 << shift`, but not below half of `SMALL`; `None` when there is none
/// to divide. The result is a program like `func`, not an instance of it: every constant that equals an extent is replaced
/// like that extent.
pub(super) fn smaller(func: &PrimFunc, shift: u32) -> Option<PrimFunc> {
    let mut extents = Extents(FxHashMap::default(), shift);
    func.params
        .iter()
        .filter_map(Param::buffer)
        .for_each(|it| it.shape.iter().for_each(|it| extents.add(it)));
    extents.visit_stmt(&func.body);
    let mut shrink = Shrink { extents: extents.0, buffers: FxHashMap::default() };
    let params = func.params.iter().map(|param| match param {
        Param::In(buffer) => Param::In(shrink.buffer(buffer)),
        Param::Out(buffer) => Param::Out(shrink.buffer(buffer)),
        Param::Scalar(var) => Param::Scalar(var.clone()),
    });
    let params = params.collect();
    let body = shrink.mutate_stmt(&func.body)?;
    Some(PrimFunc { params, body, ..func.clone() })
}

/// Large constant extents with what replaces them, and the shift.
struct Extents(FxHashMap<i64, i64>, u32);

impl Extents {
    fn add(&mut self, extent: &PrimExpr) {
        if let Some(extent) = extent.as_int().filter(|it| *it > SMALL) {
            self.0.insert(extent, (extent >> self.1).max(SMALL / 2));
        }
    }
}

impl Visitor for Extents {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::For(it) = stmt {
            self.add(&it.extent);
        }
        walk_stmt(self, stmt);
    }
}

struct Shrink {
    extents: FxHashMap<i64, i64>,
    buffers: FxHashMap<BufferId, Buffer>,
}

impl Shrink {
    fn buffer(&mut self, buffer: &Buffer) -> Buffer {
        if let Some(new) = self.buffers.get(&buffer.id) {
            return new.clone();
        }
        let shape = self.mutate_exprs(&buffer.shape);
        let new = match shape {
            Some(shape) => buffer.renew(|node| node.shape = shape),
            None => buffer.clone(),
        };
        self.buffers.insert(buffer.id, new.clone());
        new
    }
}

impl Mutator for Shrink {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::IntImm(it) if it.dtype == DataType::I64 => {
                self.extents.get(&it.value).map(|extent| PrimExpr::index(*extent))
            }
            other => self.walk_expr(other),
        }
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        let new = self.buffer(buffer);
        (new != *buffer).then_some(new)
    }
}
