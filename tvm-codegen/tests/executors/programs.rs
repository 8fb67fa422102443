//! Building blocks of the test programs.

use std::sync::Arc;

use tvm_core::ir::Var;
use tvm_core::tir::{
    Block, BlockRealize, Buffer, For, ForKind, IterKind, IterVar, Param, PrimExpr, PrimFunc, Range, Stmt,
};
use tvm_runtime::DataType;

pub(crate) fn f32(value: f64) -> PrimExpr {
    PrimExpr::float(value, DataType::F32)
}

pub(crate) fn buffer(name: &str, shape: &[PrimExpr], dtype: DataType) -> Buffer {
    Buffer::new(name, shape.to_vec(), dtype)
}

/// A block with these axes (kind, extent, value); `body` builds its body from their variables.
pub(crate) fn block(
    name: &str,
    axes: &[(IterKind, PrimExpr, PrimExpr)],
    predicate: Option<PrimExpr>,
    body: impl FnOnce(&[PrimExpr]) -> (Option<Stmt>, Stmt),
) -> Stmt {
    let vars: Vec<Var> = (0..axes.len()).map(|i| Var::index(format!("v{i}"))).collect();
    let iter_vars = vars.iter().zip(axes).map(|(var, (kind, extent, _))| IterVar {
        var: var.clone(),
        dom: Range::from_extent(extent.clone()),
        kind: *kind,
    });
    let values: Vec<PrimExpr> = vars.iter().map(PrimExpr::from).collect();
    let (init, body) = body(&values);
    let block = Block { iter_vars: iter_vars.collect(), init, ..Block::new(name, body) };
    BlockRealize {
        iter_values: axes.iter().map(|(_, _, value)| value.clone()).collect(),
        predicate: predicate.unwrap_or(PrimExpr::bool(true)),
        block: Arc::new(block),
    }
    .into()
}

/// Nested `for` loops of these kinds and extents; `body` builds the innermost body from their variables.
pub(crate) fn loops(extents: &[(ForKind, PrimExpr)], body: impl FnOnce(&[PrimExpr]) -> Stmt) -> Stmt {
    let vars: Vec<Var> = (0..extents.len()).map(|i| Var::index(format!("i{i}"))).collect();
    let values: Vec<PrimExpr> = vars.iter().map(PrimExpr::from).collect();
    let mut stmt = body(&values);
    for (var, (kind, extent)) in vars.iter().zip(extents).rev() {
        stmt = For { kind: *kind, ..For::serial(var.clone(), extent.clone(), stmt) }.into();
    }
    stmt
}

pub(crate) fn func(name: &str, params: Vec<Param>, alloc: Vec<Buffer>, body: Stmt) -> PrimFunc {
    PrimFunc::new(name, params, BlockRealize::opaque(Block::root(alloc, body)))
}
