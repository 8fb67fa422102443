//! Inlines element-wise blocks into the element-wise blocks that read them: what stays are reductions, and at most one
//! element-wise block between two of them.

use super::analysis::{is_store, leaves};
use crate::tir::schedule::Schedule;
use crate::tir::{BlockRealize, IterKind};

/// Inlines every element-wise block all of whose readers are element-wise.
pub(super) fn inline(s: &mut Schedule) {
    let mut refused = Vec::new();
    loop {
        let blocks = leaves(s);
        let next = blocks.iter().find(|it| {
            let output = &it.block.writes.first().map(|write| write.buffer.clone());
            let readers: Vec<_> = blocks
                .iter()
                .filter(|other| other.block.reads.iter().any(|read| Some(&read.buffer) == output.as_ref()))
                .collect();
            !refused.contains(&it.block.name)
                && is_element_wise(it)
                && !readers.is_empty()
                && readers.iter().all(|reader| is_element_wise(reader))
        });
        let Some(next) = next else { return };
        let name = next.block.name.clone();
        let mut fork = s.clone();
        match fork.block(&name).and_then(|block| fork.compute_inline(block)) {
            Ok(()) => *s = fork,
            Err(_) => refused.push(name),
        }
    }
}

/// True if the block is one store and all of its axes are spatial.
fn is_element_wise(realize: &BlockRealize) -> bool {
    let block = &realize.block;
    block.init.is_none()
        && is_store(&block.body)
        && block.iter_vars.iter().all(|axis| axis.kind == IterKind::Spatial)
}
