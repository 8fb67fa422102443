//! `fuse`: nested loops become one.
//!
//! `for i in 0..m { for j in 0..n }` becomes `for i_j_fused in 0..m * n` with `i = i_j_fused / n`, `j = i_j_fused % n`.

use rustc_hash::FxHashMap;

use crate::arith::Analyzer;
use crate::ir::{Var, VarId};
use crate::tir::analysis::drives;
use crate::tir::schedule::rewrite::simplify_bindings;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::{BlockRealize, Buffer, For, PrimExpr, substitute_stmt};

const NAME: &str = "fuse";

/// The largest product of constant extents beside a symbolic one.
const MAX_BESIDE_SYMBOLIC: i64 = 1 << 32;

/// Fuses perfectly nested loops, outermost first.
pub(in crate::tir::schedule) fn fuse(
    state: &mut ScheduleState,
    loops: &[VarId],
) -> Result<VarId, ScheduleError> {
    let [first, .., last] = loops else {
        return loops
            .first()
            .copied()
            .ok_or_else(|| ScheduleError::argument(NAME, "expected at least one loop, got none"));
    };
    let nodes = loops.iter().map(|&var| state.get_for(var).cloned()).collect::<Result<Vec<_>, _>>()?;
    let marked: Vec<StmtSRef> = loops.iter().map(|&var| StmtSRef::Loop(var)).collect();
    let illegal = |message: String| ScheduleError::illegal(NAME, message).show(state, &marked);
    analysis::check_perfectly_nested(NAME, state, &nodes)
        .map_err(|err| err.help("fuse takes perfectly nested loops, outermost first").show(state, &marked))?;
    for node in &nodes {
        let name = state.loop_name(node.loop_var.id());
        if !node.min.is_const(0) {
            return Err(illegal(format!("loop `{name}` does not start at 0")));
        }
        if node.kind != nodes[0].kind || !node.annotations.is_empty() {
            return Err(illegal(format!("loop `{name}` is annotated or does not run as the first one does")));
        }
        if nodes.iter().any(|other| analysis::uses_var(&node.extent, &other.loop_var)) {
            return Err(illegal(format!("the extent of loop `{name}` depends on another of the loops")));
        }
    }
    let constants = nodes.iter().filter_map(|node| node.extent.as_int());
    let product = constants.map(|n| n.max(0)).try_fold(1i64, i64::checked_mul);
    let symbolic: Vec<&PrimExpr> =
        nodes.iter().map(|node| &node.extent).filter(|extent| extent.as_int().is_none()).collect();
    let fits = match product {
        None => false,
        Some(_) if symbolic.is_empty() => true,
        Some(n) => n <= MAX_BESIDE_SYMBOLIC && (symbolic.len() == 1 || fit_a_buffer(state, &symbolic)),
    };
    if !fits {
        return Err(illegal("the product of the extents may not fit an i64".into()).help(
            "fuse fewer loops; extents that multiply to at most the size of one buffer are known to fit",
        ));
    }
    for realize in analysis::child_blocks(&nodes[nodes.len() - 1].body) {
        check_init(state, &realize, &nodes).map_err(|err| err.show(state, &marked))?;
    }
    let names: Vec<&str> = nodes.iter().map(|node| node.loop_var.name()).collect();
    let fused = Var::index(format!("{}_fused", names.join("_")));
    let extent = nodes.iter().fold(PrimExpr::index(1), |product, node| product * &node.extent);
    let mut map = FxHashMap::default();
    let mut rest = PrimExpr::from(&fused);
    for (i, node) in nodes.iter().enumerate().rev() {
        let value = if i == 0 { rest.clone() } else { rest.clone().floormod(&node.extent) };
        rest = rest.floordiv(&node.extent);
        map.insert(node.loop_var.id(), value);
    }
    let body = substitute_stmt(&state.get_for(*last)?.body, &map);
    let new =
        For { kind: nodes[0].kind, span: nodes[0].span.clone(), ..For::serial(fused.clone(), extent, body) };
    let sref = StmtSRef::Loop(*first);
    state.replace(sref, simplify_bindings(state, sref, &new.into()))?;
    Ok(fused.id())
}

/// Where the loops of a reduction have no iteration its init runs all the same. A fused loop keeps that only when all of
/// its loops drive the reduction alone, or those that do are not empty.
fn check_init(
    state: &ScheduleState,
    realize: &BlockRealize,
    nodes: &[std::sync::Arc<For>],
) -> Result<(), ScheduleError> {
    let reduces = |node: &&std::sync::Arc<For>| drives(realize, node, true);
    if realize.block.init.is_none()
        || nodes.iter().all(|node| reduces(&node) && !drives(realize, node, false))
    {
        return Ok(());
    }
    let analyzer = Analyzer::new();
    match nodes.iter().filter(reduces).find(|node| analyzer.const_int_bound(&node.extent).min < 1) {
        None => Ok(()),
        Some(node) => {
            let message = format!(
                "loop `{}` drives the reduction of block `{}` and may be empty: the init would be lost",
                state.loop_name(node.loop_var.id()),
                realize.block.name
            );
            Err(ScheduleError::illegal(NAME, message).help("decompose the reduction first"))
        }
    }
}

/// True when the extents are at most those of different dimensions of one buffer, whose size fits an `i64`.
fn fit_a_buffer(state: &ScheduleState, extents: &[&PrimExpr]) -> bool {
    let mut analyzer = Analyzer::new();
    state.func().symbolic_dims().iter().for_each(|dim| analyzer.bind_dim(dim));
    let params = state.func().params.iter().filter_map(|param| param.buffer().cloned());
    let allocated = state.blocks().into_iter().flat_map(|it| it.block.alloc_buffers.to_vec());
    let holds = |buffer: Buffer| {
        let mut free: Vec<&PrimExpr> = buffer.shape.iter().collect();
        extents.iter().all(|extent| {
            let found = free.iter().position(|dim| analyzer.can_prove_less_equal(extent, dim));
            found.map(|at| free.swap_remove(at)).is_some()
        })
    };
    params.chain(allocated).any(holds)
}
