//! `set_scope`: a buffer that the program allocates lives in another memory; all accesses follow.
//!
//! Legal if the loops whose iterations run side by side may still do so: lowering gives each iteration a buffer of its
//! own only in some memories. A buffer that GPU threads share is not filled with zeros, so it must be written before it
//! is read.
//!
//! TVM counterpart: `set_scope`.

use rustc_hash::FxHashMap;

use crate::ir::BlockId;
use crate::tir::schedule::{BufferArg, ScheduleError, ScheduleState, StmtSRef, rewrite};
use crate::tir::transform::is_covered_in;
use crate::tir::{BufferRegion, Mutator, Scope, Substitute};

const NAME: &str = "set_scope";

/// Moves the buffer `which`, one of those that block `id` writes or reads, to `scope`.
pub(in crate::tir::schedule) fn set_scope(
    state: &mut ScheduleState,
    id: BlockId,
    which: &BufferArg,
    scope: Scope,
) -> Result<(), ScheduleError> {
    let block = &state.get_block(id)?.block;
    let regions: Vec<BufferRegion> = block.writes.iter().chain(block.reads.iter()).cloned().collect();
    let buffer = which.find(NAME, (&block.name, "accesses"), &regions)?.buffer.clone();
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &[StmtSRef::Block(id)]));
    if !rewrite::is_intermediate(state, &buffer) {
        return refuse(format!("the program does not allocate `{}`", buffer.name));
    }
    if scope == buffer.scope {
        return Ok(());
    }
    let filled = match scope {
        Scope::Global | Scope::Local => true,
        Scope::Shared | Scope::SharedDyn | Scope::Warp => false,
    };
    if !filled && !is_covered_in(state.func(), None, &buffer) {
        return refuse(format!(
            "`{}` may be read before it is written, and memory that threads share is not filled with zeros",
            buffer.name
        ));
    }
    let new = buffer.renew(|node| node.scope = scope);
    let buffers = FxHashMap::from_iter([(buffer.id, new)]);
    match (Substitute { buffers, ..Substitute::default() }).mutate_stmt(&state.func().body) {
        Some(body) => state.replace_body(body),
        None => Ok(()),
    }
}
