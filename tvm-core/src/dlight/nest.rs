//! Blocks in the form in which tensor expressions make them: a loop for each axis, one block after the other.

use std::slice;

use tvm_runtime::DataType;

use crate::tir::{Block, BlockRealize, Buffer, For, ForKind, PrimFunc, Stmt};

/// A block in a loop for each of its axes, in their order.
pub(super) struct Nest<'a> {
    pub(super) loops: Vec<&'a For>,
    pub(super) realize: &'a BlockRealize,
}

impl<'a> Nest<'a> {
    /// `stmt` as a nest; `None` if its author chose how a loop runs, or an axis is not the variable of its loop.
    pub(super) fn of(stmt: &'a Stmt) -> Option<Nest<'a>> {
        let (mut loops, mut inner) = (Vec::new(), stmt);
        while let Stmt::For(node) = inner {
            if node.kind != ForKind::Serial || !node.annotations.is_empty() || !node.min.is_const(0) {
                return None;
            }
            loops.push(&**node);
            inner = &node.body;
        }
        let Stmt::BlockRealize(realize) = inner else { return None };
        let axes = &realize.block.iter_vars;
        let driven =
            realize.iter_values.iter().zip(&loops).all(|(value, it)| value.as_var() == Some(&it.loop_var));
        let indexed = axes.iter().all(|axis| axis.dom.min.is_const(0) && axis.var.dtype() == DataType::I64);
        let plain = driven && indexed && loops.len() == axes.len() && realize.predicate.is_const(1);
        plain.then_some(Nest { loops, realize })
    }
}

/// The root block of `func`, and the statements in it.
pub(super) fn statements(func: &PrimFunc) -> Option<(&BlockRealize, &[Stmt])> {
    let Stmt::BlockRealize(root) = &func.body else { return None };
    let stmts = match &root.block.body {
        Stmt::SeqStmt(stmts) => &**stmts,
        other => slice::from_ref(other),
    };
    Some((root, stmts))
}

/// `func` with other statements in its block `root`, and other buffers.
pub(super) fn with_statements(
    func: &PrimFunc,
    root: &BlockRealize,
    stmts: Vec<Stmt>,
    alloc_buffers: impl IntoIterator<Item = Buffer>,
) -> PrimFunc {
    let alloc_buffers = alloc_buffers.into_iter().collect();
    let block = Block { alloc_buffers, body: Stmt::seq(stmts), ..(*root.block).clone() };
    let body = BlockRealize { block: block.into(), ..root.clone() }.into();
    PrimFunc { body, ..func.clone() }
}
