//! Decides where buffers live: on the stack or in scratch memory of the call.
//!
//! TVM counterpart: the allocations of `LowerTVMBuiltin`.
//! Requires: flat buffers. Ensures: an `AllocBuffer` is `Global`, or `Local` with a constant extent; the `Local` ones of
//! a program take at most [`STACK_BYTES`] together. GPU scopes stay.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::util::body_pass;
use crate::ir::BufferId;
use crate::pass::Pass;
use crate::tir::{AllocBuffer, Buffer, Mutator, PrimExpr, Scope, Stmt};

/// Maximum number of bytes that the buffers of one program take on the stack.
pub const STACK_BYTES: i64 = 64 * 1024;

/// Places small buffers on the stack.
pub fn lower_tvm_builtin() -> Pass {
    body_pass("LowerTVMBuiltin", |func| {
        Place { left: STACK_BYTES, new: FxHashMap::default() }.mutate_stmt(&func.body)
    })
}

struct Place {
    left: i64,
    new: FxHashMap<BufferId, Buffer>,
}

impl Mutator for Place {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::AllocBuffer(alloc) = stmt else { return self.walk_stmt(stmt) };
        let buffer = &alloc.buffer;
        let bytes = buffer
            .shape
            .iter()
            .try_fold(buffer.dtype.bytes() as i64, |n, extent| n.checked_mul(extent.as_int()?));
        let scope = match (buffer.scope, bytes) {
            (Scope::Global | Scope::Local, Some(bytes)) if bytes <= self.left => {
                self.left -= bytes.max(0);
                Scope::Local
            }
            (Scope::Global | Scope::Local, _) => Scope::Global,
            (Scope::Shared | Scope::SharedDyn | Scope::Warp, _) => return None,
        };
        if scope == buffer.scope {
            return None;
        }
        let new = buffer.renew(|node| {
            node.scope = scope;
            // No buffer has a negative size; an empty one still needs a place.
            node.shape = Arc::from(
                node.shape
                    .iter()
                    .map(|n| if n.is_const(0) { PrimExpr::index(1) } else { n.clone() })
                    .collect::<Vec<_>>(),
            );
        });
        self.new.insert(buffer.id, new.clone());
        Some(AllocBuffer::new(new).into())
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        self.new.get(&buffer.id).cloned()
    }
}
