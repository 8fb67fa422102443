//! `fuse_reduction_epilogue`: an element-wise consumer of a reduction becomes part of its init and its update.
//!
//! `c[i] = 0, c[i] += t(i, k)` and then `d[i] = c[i] + b[i]` becomes
//!
//! ```text
//! for i { for k { block(|[i, k]| { init(|| d[i] = b[i]); d[i] += t(i, k) }) } }
//! ```
//!
//! What the consumer computes of `c[i]` must be a chain of operations with other operands that goes through the
//! reduction step by step:
//!
//! | reduction | operations |
//! |---|---|
//! | sum | `x + e`, `e + x`, `x - e` |
//! | product, `&`, `\|`, `^` | the same operation |
//! | minimum, maximum | minima and maxima; those of the other kind, with an `e` that reads no memory, also apply to the terms |
//!
//! So the element holds the result of the chain for the terms so far, at each step. Everything else is refused: a maximum of a
//! partial sum, for example, is not the partial sum of a maximum. Integers stay exact. Floats are rounded in the order of the
//! new sum, and a zero may have another sign.
//!
//! Legal if the reduction writes an intermediate buffer whole, the consumer is its only reader, reads each element once,
//! and stands behind the reduction in its scope, outside of the loops of reduction axes; and if nothing between them
//! touches what the consumer reads and writes.
//!
//! TVM counterpart: `fuse_reduction_epilogue`, which applies any operation to each partial result.

use super::reverse_compute_inline::{check_nothing_between, covering_axes, loads_of, values_of_axes};
use crate::ir::BlockId;
use crate::tir::analysis::{drives, loads_buffer, reads_memory, same_indices, update, with_access_regions};
use crate::tir::schedule::rewrite::{self, drop_alloc_everywhere, remove_block, with_block};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{
    BinaryOp, Block, BlockRealize, Buffer, BufferStore, IterKind, PrimExpr, binary, substitute_expr,
};

const NAME: &str = "fuse_reduction_epilogue";

/// Fuses the block `epilogue` into the block `reduction`.
pub(in crate::tir::schedule) fn fuse_reduction_epilogue(
    state: &mut ScheduleState,
    reduction: BlockId,
    epilogue: BlockId,
) -> Result<(), ScheduleError> {
    let (reduce, consumer) = (state.get_block(reduction)?.clone(), state.get_block(epilogue)?.clone());
    let marked = [StmtSRef::Block(reduction), StmtSRef::Block(epilogue)];
    let show = |err: ScheduleError| err.show(state, &marked);
    analysis::check_reorderable(NAME, state, &reduce)?;
    analysis::check_reorderable(NAME, state, &consumer)?;
    let sum = Reduction::of(state, &reduce).map_err(show)?;
    check_places(state, &reduce, &consumer, sum.buffer()).map_err(show)?;
    let refuse = |why: &str| {
        let why = format!("block `{}` {why}", consumer.block.name);
        Err(ScheduleError::illegal(NAME, why).show(state, &marked))
    };
    let block = &consumer.block;
    if block.is_reduction() || block.init.is_some() {
        return refuse("is a reduction");
    }
    if !block.alloc_buffers.is_empty() || !block.match_buffers.is_empty() {
        return refuse("has buffers of its own");
    }
    let Some(store) = analysis::single_store(block) else { return refuse("is more than one store") };
    let loads = loads_of(&store.value, sum.buffer());
    let [load] = &loads[..] else { return refuse("does not read the result of the reduction once") };
    let Some(axes) = covering_axes(state, &consumer, &load.indices, sum.buffer())? else {
        return refuse("does not read each element of the result once");
    };
    if store.buffer.dtype != sum.buffer().dtype {
        return refuse("writes another type than that of the reduction");
    }
    rewrite::check_plain_layout(NAME, state, epilogue, &store.buffer)?;
    check_nothing_between(NAME, state, reduction, epilogue)?;
    let map = values_of_axes(block, &axes, &sum.store.indices);
    let value = substitute_expr(&store.value, &map);
    let Some(chain) = Chain::of(&value, sum.buffer()) else {
        return refuse("does more with the result of the reduction than operations with other operands");
    };
    let (first, term) = chain.through(&sum).map_err(show)?;
    let indices: std::sync::Arc<[PrimExpr]> =
        store.indices.iter().map(|index| substitute_expr(index, &map)).collect();
    let element = store.buffer.load(indices.to_vec());
    let written = |value: PrimExpr, like: &BufferStore| BufferStore {
        buffer: store.buffer.clone(),
        indices: indices.clone(),
        value,
        predicate: None,
        span: like.span.clone(),
    };
    let new = Block {
        init: Some(written(first, sum.init).into()),
        body: written(binary(sum.op, element, term), sum.store).into(),
        ..(*reduce.block).clone()
    };
    let body = remove_block(state, epilogue);
    let body = with_block(&body, reduction, |_| with_access_regions(new));
    if state.count_accesses(&body, sum.buffer()) > 0 {
        return refuse("is not the only one that names the result of the reduction");
    }
    let body = drop_alloc_everywhere(&body, sum.buffer());
    state.replace_body(body)
}

/// Checks that the consumer, the only reader of `buffer`, follows the reduction, and reads in each iteration of a loop
/// around both what this iteration reduced.
fn check_places(
    state: &ScheduleState,
    reduce: &std::sync::Arc<BlockRealize>,
    consumer: &std::sync::Arc<BlockRealize>,
    buffer: &Buffer,
) -> Result<(), ScheduleError> {
    let [id, reader] = [reduce, consumer].map(|it| StmtSRef::Block(it.block.id));
    let [name, user] = [&reduce.block.name, &consumer.block.name];
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why));
    let readers = rewrite::readers(state, buffer);
    if readers.len() != 1 || readers[0].block.id != consumer.block.id {
        return refuse(format!("block `{user}` is not the only reader of `{}`", buffer.name));
    }
    if state.scope_block(id) != state.scope_block(reader) {
        return refuse(format!("block `{user}` is in another scope than block `{name}`"));
    }
    let leaves = state.leaf_blocks();
    let place = |at: StmtSRef| leaves.iter().position(|it| StmtSRef::Block(it.block.id) == at);
    let (Some(made), Some(used)) = (place(id), place(reader)) else {
        return refuse(format!("block `{name}` or block `{user}` has blocks inside"));
    };
    if used < made {
        return refuse(format!("block `{user}` is before block `{name}`"));
    }
    let around = state.loops_above(reader);
    for var in state.loops_above(id).into_iter().filter(|var| around.contains(var)) {
        let node = state.get_for(var)?;
        if drives(reduce, node, true) {
            let loop_name = state.loop_name(var);
            return refuse(format!(
                "block `{user}` is in loop `{loop_name}`, which drives a reduction axis of block `{name}`"
            ));
        }
        let blocks = [reduce.clone(), consumer.clone()];
        analysis::check_no_carried_dependence(NAME, state, node, &blocks)?;
    }
    Ok(())
}

/// A reduction into an intermediate buffer: `store` combines what `init` wrote with `term` by `op`.
struct Reduction<'a> {
    init: &'a BufferStore,
    store: &'a BufferStore,
    op: BinaryOp,
    term: &'a PrimExpr,
}

impl Reduction<'_> {
    fn buffer(&self) -> &Buffer {
        &self.store.buffer
    }

    fn of<'a>(state: &ScheduleState, realize: &'a BlockRealize) -> Result<Reduction<'a>, ScheduleError> {
        let block = &realize.block;
        let refuse = |why: &str| Err(ScheduleError::illegal(NAME, format!("block `{}` {why}", block.name)));
        let whole = analysis::single_store(block).and_then(|store| Some((store, update(store)?)));
        let init = block.init.as_ref().and_then(|init| init.as_buffer_store());
        let (true, Some((store, (op, term))), Some(init)) = (block.is_reduction(), whole, init) else {
            let err = refuse("is no reduction of one update with an init");
            return err.map_err(|err| err.help("fuse before the reduction is decomposed"));
        };
        if init.buffer != store.buffer || !same_indices(&init.indices, &store.indices) {
            return refuse("starts another element than it updates");
        }
        if !block.alloc_buffers.is_empty() || !block.match_buffers.is_empty() {
            return refuse("has buffers of its own");
        }
        if analysis::reduces_with_outer(state, realize) {
            return refuse("goes on with the reduction of a block around it");
        }
        let buffer = &store.buffer;
        if !rewrite::is_intermediate(state, buffer) {
            return refuse(&format!("writes `{}`, a parameter of the function", buffer.name));
        }
        rewrite::check_plain_layout(NAME, state, block.id, buffer)?;
        if rewrite::writers(state, buffer).len() != 1 {
            return refuse(&format!("is not the only one that writes `{}`", buffer.name));
        }
        let axes = analysis::distinct_axes(block, &store.indices, &buffer.shape);
        let reduced = |axes: &[_]| {
            let trailing = analysis::trailing_axes(block, axes);
            trailing.iter().all(|iter| iter.kind == IterKind::Reduce || iter.dom.extent.is_const(1))
        };
        match axes {
            Some(axes) if reduced(&axes) && rewrite::covers(state, realize, &axes, buffer)? => {
                Ok(Reduction { init, store, op, term })
            }
            _ => refuse(&format!("is not known to reduce each element of `{}`", buffer.name)),
        }
    }
}

/// What an expression does with a load: operations with operands that do not read its buffer, the first one first.
struct Chain<'a>(Vec<Step<'a>>);

struct Step<'a> {
    op: BinaryOp,
    operand: &'a PrimExpr,
    /// True for `operand op x`.
    flipped: bool,
}

impl Step<'_> {
    fn apply(&self, x: PrimExpr) -> PrimExpr {
        let operand = self.operand.clone();
        if self.flipped { binary(self.op, operand, x) } else { binary(self.op, x, operand) }
    }
}

impl<'a> Chain<'a> {
    fn of(value: &'a PrimExpr, buffer: &Buffer) -> Option<Chain<'a>> {
        let mut steps = Vec::new();
        let mut at = value;
        while let PrimExpr::Binary(it) = at {
            let flipped = loads_buffer(&it.b, buffer);
            let (x, operand) = if flipped { (&it.b, &it.a) } else { (&it.a, &it.b) };
            if loads_buffer(operand, buffer) || rewrite::binds_names(operand) {
                return None;
            }
            steps.push(Step { op: it.op, operand, flipped });
            at = x;
        }
        steps.reverse();
        let loads = matches!(at, PrimExpr::BufferLoad(load) if load.buffer == *buffer);
        loads.then_some(Chain(steps))
    }

    /// What an element starts with and what updates it, where it holds the chain of what `sum` computes.
    fn through(&self, sum: &Reduction<'_>) -> Result<(PrimExpr, PrimExpr), ScheduleError> {
        let mut term = sum.term.clone();
        for step in &self.0 {
            let fits = match (sum.op, step.op) {
                (BinaryOp::Add, BinaryOp::Sub) => !step.flipped,
                (BinaryOp::Min, BinaryOp::Max) | (BinaryOp::Max, BinaryOp::Min) => {
                    term = step.apply(term);
                    // The result may be where the operand was: in-place calls.
                    !reads_memory(step.operand)
                }
                (
                    BinaryOp::Add
                    | BinaryOp::Mul
                    | BinaryOp::Min
                    | BinaryOp::Max
                    | BinaryOp::BitAnd
                    | BinaryOp::BitOr
                    | BinaryOp::BitXor,
                    op,
                ) => op == sum.op,
                _ => false,
            };
            if !fits {
                let why = format!(
                    "the operation with `{}` cannot be applied before the reduction is complete",
                    step.operand
                );
                let err = ScheduleError::illegal(NAME, why);
                return Err(err.help("move it into the loops of the result with `reverse_compute_at`"));
            }
        }
        let mut first = sum.init.value.clone();
        for (i, step) in self.0.iter().enumerate() {
            let zero = matches!(&first, PrimExpr::FloatImm(it) if it.value == 0.0);
            let replaces = i == 0 && zero && step.op == BinaryOp::Add;
            first = if replaces { step.operand.clone() } else { step.apply(first) };
        }
        Ok((first, term))
    }
}
