//! Legality checks of the primitives: which blocks may be reordered, moved, inlined.
//!
//! TVM counterpart: `tir/schedule/analysis`.

mod atomic;
mod block;
mod cross_thread;
mod dependence;
mod divide;
mod init;
mod injective;
mod reducer;
mod scope;
mod threads;

pub(super) use atomic::is_atomic_update;
pub(super) use block::{
    check_perfectly_nested, check_reorderable, child_blocks, counted_axes, counts_to_dimension,
    distinct_axes, own_nest, single_store, trailing_axes,
};
pub(super) use cross_thread::check_cross_thread;
pub(in crate::tir) use cross_thread::{CrossThread, reduces_across};
pub(super) use dependence::{Iteration, bindings_of, box_read, check_no_carried_dependence, is_private};
pub(super) use divide::{Divided, divide_axes};
pub(super) use init::{check_init_before, check_inits};
pub(super) use injective::{
    covers_domain, is_independent, reduces_with_outer, same_iteration, shared_spatial_axis, touches_apart,
    visits_once,
};
pub(in crate::tir) use reducer::{Reducer, load_all, store_all};
pub(super) use scope::{check_scope, is_plain};
pub(super) use threads::check_same_threads;
