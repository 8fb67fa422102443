//! `decompose_reduction`: the init of a reduction becomes a block of its own, before a loop.
//!
//! Legal where every loop that drives a reduction axis is that loop or inside it.

use crate::ir::{BlockId, VarId};
use crate::tir::analysis::{Frame, drives, init_nest};
use crate::tir::schedule::rewrite::unique_block_name;
use crate::tir::schedule::state::blocks_in;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::transform::DECOMPOSED;
use crate::tir::{Block, BlockRealize, BufferRegion, For, Stmt};

const NAME: &str = "decompose_reduction";

/// Moves the init of block `id` before the loop `var`. Returns the init block.
pub(in crate::tir::schedule) fn decompose_reduction(
    state: &mut ScheduleState,
    id: BlockId,
    var: VarId,
) -> Result<BlockId, ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let marked = [StmtSRef::Block(id), StmtSRef::Loop(var)];
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &marked));
    state.get_for(var)?;
    let Some(init) = &block.init else { return refuse(format!("block `{}` has no init", block.name)) };
    let loops = state.loops_above(StmtSRef::Block(id));
    let Some(at) = loops.iter().position(|&it| it == var) else {
        return refuse(format!("the loop is not around block `{}`", block.name));
    };
    let nodes = loops.iter().map(|&it| state.get_for(it).cloned()).collect::<Result<Vec<_>, _>>()?;
    let drives = |node: &For, reduce: bool| drives(&realize, node, reduce);
    if let Some(outer) = nodes[..at].iter().find(|node| drives(node, true)) {
        let (outer, name) = (state.loop_name(outer.loop_var.id()), &block.name);
        return Err(ScheduleError::illegal(
            NAME,
            format!("loop `{outer}` outside drives a reduction axis of block `{name}`"),
        )
        .help(format!("decompose at loop `{outer}` or further out"))
        .show(state, &marked));
    }
    let idle =
        |node: &&std::sync::Arc<For>| !drives(node, true) && !drives(node, false) && !node.extent.is_const(1);
    if let Some(node) = nodes[at..].iter().find(idle) {
        return refuse(format!(
            "loop `{}` repeats block `{}`",
            state.loop_name(node.loop_var.id()),
            block.name
        ));
    }
    if !analysis::visits_once(state, &realize, &nodes[at..])? {
        let message = format!(
            "block `{}` is not known to visit each element once inside the loop: it would be reduced twice after one init",
            block.name
        );
        return Err(ScheduleError::illegal(NAME, message)
            .help("decompose at a loop further in, inside the loops that compute elements again")
            .show(state, &marked));
    }
    analysis::check_init_before(NAME, state, &realize, at).map_err(|err| err.show(state, &marked))?;
    if analysis::reduces_with_outer(state, &realize) {
        return refuse(format!("a block around block `{}` goes on with its reduction", block.name));
    }
    let name = unique_block_name(state, &format!("{}_init", block.name));
    let frames: Vec<Frame> = nodes[at..].iter().cloned().map(Frame::Loop).collect();
    let nest = init_nest(&realize, init, &frames, name);
    let Some(init_id) = blocks_in(&nest).first().map(|it| it.block.id) else {
        return refuse(format!("the init of block `{}` is no block", block.name));
    };
    let updated_reads: Vec<BufferRegion> = block.writes.iter().chain(block.reads.iter()).cloned().collect();
    let annotations = block.annotations.clone().with(DECOMPOSED, true);
    let update = BlockRealize {
        block: Block { init: None, reads: updated_reads.into(), annotations, ..(**block).clone() }.into(),
        ..(*realize).clone()
    };
    let mut forked = state.clone();
    forked.replace(StmtSRef::Block(id), update.into())?;
    let old_loop = forked.get(StmtSRef::Loop(var))?.clone();
    forked.replace(StmtSRef::Loop(var), Stmt::SeqStmt([nest, old_loop].into()))?;
    forked.flatten()?;
    *state = forked;
    Ok(init_id)
}
