//! Gives reductions that are written as plain loops the form that the rules know: one block with an `init`.
//!
//! ```text
//! c[[i, j]] = 0.0;                             let mut sum = 0.0;
//! for p in 0..k {                              for p in 0..k {
//!     c[[i, j]] += a[[i, p]] * b[[p, j]];          sum += a[[i, p]] * b[[p, j]];
//! }                                            }
//!                                              c[[i, j]] = sum;
//! ```
//!
//! On the left, the store of the first value becomes the `init` of the block of the sum. On the right, the variable becomes
//! a buffer with an element for each iteration first, and the block around the iteration goes. Then each block gets loops of
//! its own. Sums that are written as plain loops keep their order and rounding, so the block gets the annotation
//! [`IN_ORDER`].

mod distribute;
mod expand;
mod merge;

use crate::tir::{Block, BlockRealize, IterKind, IterVar, Mutator, PrimFunc, Stmt};

use distribute::Distribute;
use expand::Expand;
use merge::Merge;

/// `func` with its reductions in blocks with an `init`; `None` if nothing changes.
pub(super) fn with_inits(func: &PrimFunc) -> Option<PrimFunc> {
    let Stmt::BlockRealize(root) = &func.body else { return None };
    let mut expand = Expand::default();
    let expanded = expand.mutate_stmt(&root.block.body);
    let body = expanded.as_ref().unwrap_or(&root.block.body);
    let body = Merge.mutate_stmt(body)?;
    let body = Distribute.mutate_stmt(&body).unwrap_or(body);
    let alloc_buffers = root.block.alloc_buffers.iter().cloned().chain(expand.allocated).collect();
    let block = Block { alloc_buffers, body, ..(*root.block).clone() };
    Some(PrimFunc { body: BlockRealize { block: block.into(), ..(**root).clone() }.into(), ..func.clone() })
}

/// `func` with a loop for each statement of a loop, as far as every iteration uses elements of its own; `None` if nothing
/// changes, and if none of the statements depends on its iterations before.
pub(super) fn apart(func: &PrimFunc) -> Option<PrimFunc> {
    if !recurs(&func.body) {
        return None;
    }
    let body = Distribute.mutate_stmt(&func.body)?;
    Some(PrimFunc { body, ..func.clone() })
}

/// True if a block in `stmt` has an axis that keeps its order.
fn recurs(stmt: &Stmt) -> bool {
    let of_block = |block: &Block| {
        let in_order = |it: &IterVar| matches!(it.kind, IterKind::Ordered | IterKind::Opaque);
        block.iter_vars.iter().any(in_order) || recurs(&block.body)
    };
    match stmt {
        Stmt::BlockRealize(it) => of_block(&it.block),
        _ => stmt.children().into_iter().any(recurs),
    }
}
