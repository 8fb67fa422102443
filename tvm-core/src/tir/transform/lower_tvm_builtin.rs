//! Decides where buffers live: on the stack or in scratch memory of the call.
//!
//! TVM counterpart: the allocations of `LowerTVMBuiltin`.
//! Requires: flat buffers. Ensures: an `AllocBuffer` is `Global`, or `Local` with a constant extent; the `Local` ones of
//! a program take at most [`STACK_BYTES`] together. GPU scopes stay.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::util::body_pass;
use crate::ir::BufferId;
use crate::pass::Pass;
use crate::tir::{AllocBuffer, Buffer, Mutator, PrimExpr, Scope, Stmt, Visitor, walk_stmt};

/// Maximum number of bytes that the buffers of one program take on the stack.
pub const STACK_BYTES: i64 = 64 * 1024;

/// Places small buffers on the stack: those of the scope `Local` first, which hold what belongs into registers, and small ones before larger
/// ones.
pub fn lower_tvm_builtin() -> Pass {
    body_pass("LowerTVMBuiltin", |func| placed(&func.body))
}

fn placed(body: &Stmt) -> Option<Stmt> {
    let mut sizes = Sizes(Vec::new());
    sizes.visit_stmt(body);
    // The order is stable: of buffers of one size, the first ones are on the stack.
    sizes.0.sort_by_key(|&(_, scope, bytes)| (scope != Scope::Local, bytes));
    let mut left = STACK_BYTES;
    let mut on_stack = FxHashSet::default();
    for (id, _, bytes) in sizes.0 {
        if bytes <= left {
            left -= bytes;
            on_stack.insert(id);
        }
    }
    Place { on_stack, new: FxHashMap::default() }.mutate_stmt(body)
}

/// The buffers of constant size that a program allocates: scopes and bytes.
struct Sizes(Vec<(BufferId, Scope, i64)>);

impl Visitor for Sizes {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::AllocBuffer(alloc) = stmt
            && let Some(bytes) = bytes(&alloc.buffer)
            && matches!(alloc.buffer.scope, Scope::Global | Scope::Local)
        {
            self.0.push((alloc.buffer.id, alloc.buffer.scope, bytes.max(0)));
        }
        walk_stmt(self, stmt);
    }
}

/// The size of the buffer, if it is constant.
fn bytes(buffer: &Buffer) -> Option<i64> {
    let size = buffer.dtype.bytes() as i64;
    buffer.shape.iter().try_fold(size, |size, extent| size.checked_mul(extent.as_int()?))
}

struct Place {
    on_stack: FxHashSet<BufferId>,
    new: FxHashMap<BufferId, Buffer>,
}

impl Mutator for Place {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::AllocBuffer(alloc) = stmt else { return self.walk_stmt(stmt) };
        let buffer = &alloc.buffer;
        let scope = match buffer.scope {
            Scope::Global | Scope::Local if self.on_stack.contains(&buffer.id) => Scope::Local,
            Scope::Global | Scope::Local => Scope::Global,
            Scope::Shared | Scope::SharedDyn | Scope::Warp => return None,
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

#[cfg(test)]
mod tests {
    use tvm_runtime::DataType;

    use super::*;
    use crate::tir::Evaluate;

    /// The buffers that are on the stack, of `f32` buffers with a name, a number of elements and a scope.
    fn on_stack(buffers: &[(&str, i64, Scope)]) -> Vec<String> {
        let alloc = |&(name, len, scope): &(&str, i64, Scope)| {
            AllocBuffer::new(Buffer::with_scope(name, [PrimExpr::index(len)], DataType::F32, scope)).into()
        };
        let body = Stmt::seq(buffers.iter().map(alloc).chain([Evaluate { value: 0.into() }.into()]));
        let body = placed(&body).unwrap_or(body);
        let allocs = body.children().into_iter().filter_map(Stmt::as_alloc_buffer);
        let local = allocs.filter(|alloc| alloc.buffer.scope == Scope::Local);
        local.map(|alloc| alloc.buffer.name.to_string()).collect()
    }

    #[test]
    fn accumulators_and_small_buffers_are_on_the_stack_before_others() {
        let kib = |count: i64| count * 1024 / 4;
        let large = ("large", kib(63), Scope::Global);
        assert_eq!(on_stack(&[large]), ["large"]);
        assert_eq!(on_stack(&[large, ("sums", kib(2), Scope::Local)]), ["sums"]);
        assert_eq!(on_stack(&[large, ("small", kib(2), Scope::Global)]), ["small"]);
        let sums = ("sums", kib(40), Scope::Local);
        assert_eq!(
            on_stack(&[("small", kib(30), Scope::Global), sums, ("one", 1, Scope::Global)]),
            ["sums", "one"]
        );
        assert_eq!(on_stack(&[("huge", kib(65), Scope::Local), ("empty", 0, Scope::Global)]), ["empty"]);
    }
}
