//! Blocks that update an element atomically, `b[i] = atomic_add(b[i], x)`: their iterations may run as threads, whichever
//! elements they update.
//!
//! TVM counterpart: none (TVM trusts thread bindings).

use super::single_store;
use crate::tir::analysis::{atomic_update, is_own_update, loads_buffer};
use crate::tir::{BlockRealize, Scope};

/// True if all that the block does is one atomic update of an element of memory of the GPU, by a term that does not depend on
/// the updated buffer.
pub(in crate::tir::schedule) fn is_atomic_update(realize: &BlockRealize) -> bool {
    let block = &realize.block;
    let Some(store) = single_store(block) else { return false };
    let Some((_, term)) = atomic_update(store) else { return false };
    let heads = realize.iter_values.iter().chain([&realize.predicate]);
    is_own_update(store)
        && block.init.is_none()
        && block.match_buffers.is_empty()
        && block.alloc_buffers.is_empty()
        && store.buffer.scope == Scope::Global
        && !heads.chain(store.indices.iter()).chain([term]).any(|it| loads_buffer(it, &store.buffer))
}
