//! Checks of the statements in a block beside loops and nested blocks.
//!
//! Primitives rely on the accesses that blocks declare. They do not see a statement outside of nested blocks, and they
//! see loads in loop bounds and predicates only as reads of the block around them.

use crate::ir::BlockId;
use crate::support::with_stack;
use crate::tir::analysis::reads_memory;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{Block, For, Stmt};

/// True when the blocks in the body of `block` declare everything that happens in it: it has no init, and holds only loops
/// and blocks, whose bounds, bindings and predicates read no memory.
pub(in crate::tir::schedule) fn is_plain(block: &Block) -> bool {
    block.init.is_none() && holds_only_blocks(&block.body) && !heads_read_memory(&block.body)
}

/// Refuses `sref` if the block around it holds anything but loops and blocks. With `moves`, for primitives that move
/// blocks or values, this holds for all blocks around `sref`, and bounds, bindings and predicates there must read no
/// memory.
pub(in crate::tir::schedule) fn check_scope(
    name: &'static str,
    state: &ScheduleState,
    sref: StmtSRef,
    moves: bool,
) -> Result<(), ScheduleError> {
    let scopes = state.ancestors(sref).filter_map(|it| match it {
        StmtSRef::Block(id) => Some(id),
        StmtSRef::Loop(_) => None,
    });
    for scope in scopes.take(if moves { usize::MAX } else { 1 }) {
        check(name, state, scope, moves).map_err(|err| err.show(state, &[sref]))?;
    }
    Ok(())
}

fn check(
    name: &'static str,
    state: &ScheduleState,
    scope: BlockId,
    moves: bool,
) -> Result<(), ScheduleError> {
    let block = &state.get_block(scope)?.block;
    if !holds_only_blocks(&block.body) {
        let message = format!("block `{}` holds statements outside of the blocks in it", block.name);
        return Err(ScheduleError::illegal(name, message).help("put the statements into blocks"));
    }
    if moves && heads_read_memory(&block.body) {
        let message = format!("loops or conditions in block `{}` read memory", block.name);
        return Err(
            ScheduleError::illegal(name, message).help(format!("move block `{}` as a whole", block.name))
        );
    }
    Ok(())
}

fn holds_only_blocks(stmt: &Stmt) -> bool {
    match skip_loops(stmt, |_| ()) {
        Stmt::For(_) => false,
        Stmt::SeqStmt(stmts) => stmts.iter().all(|it| with_stack(|| holds_only_blocks(it))),
        Stmt::BlockRealize(_) => true,
        Stmt::IfThenElse(_)
        | Stmt::While(_)
        | Stmt::BufferStore(_)
        | Stmt::Bind(_)
        | Stmt::AllocBuffer(_)
        | Stmt::DeclBuffer(_)
        | Stmt::Evaluate(_)
        | Stmt::AssertStmt(_) => false,
    }
}

fn heads_read_memory(stmt: &Stmt) -> bool {
    let mut bounds = false;
    let inside = skip_loops(stmt, |it| bounds |= reads_memory(&it.min) || reads_memory(&it.extent));
    bounds
        || match inside {
            Stmt::BlockRealize(it) => it.iter_values.iter().chain([&it.predicate]).any(reads_memory),
            other => with_stack(|| other.children().into_iter().any(heads_read_memory)),
        }
}

/// The statement inside the loops that `stmt` starts with; calls `f` on each of these loops.
fn skip_loops(mut stmt: &Stmt, mut f: impl FnMut(&For)) -> &Stmt {
    while let Stmt::For(it) = stmt {
        f(it);
        stmt = &it.body;
    }
    stmt
}
