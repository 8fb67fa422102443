//! Fusion pattern of a tensor program: how it may be fused with its neighbours, derived from its blocks.
//!
//! TVM counterpart: `AnalyzeOpPatternKind`.

use crate::ir::{OpPattern, VarId};
use crate::tir::{
    BinaryOp, Block, BlockRealize, BufferLoad, BufferStore, Intrinsic, IterKind, PrimCallee, PrimExpr,
    PrimFunc, Stmt, Visitor, any_expr, for_each_load, uses_var, walk_block, walk_stmt,
};

/// The pattern of `func`: the most complex pattern among its blocks. Element-wise work after a reduction makes it
/// [`OpPattern::OutEWiseFusable`] (softmax). A program that the analysis does not understand is [`OpPattern::Opaque`].
pub fn op_pattern(func: &PrimFunc) -> OpPattern {
    let mut detect = Detect { pattern: OpPattern::ElemWise, blocks: 0 };
    if func.outputs().count() != 1 {
        return OpPattern::Opaque;
    }
    detect.visit_stmt(&func.body);
    if detect.blocks == 0 { OpPattern::Opaque } else { detect.pattern }
}

struct Detect {
    pattern: OpPattern,
    blocks: usize,
}

impl Visitor for Detect {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::BlockRealize(realize) => self.realize(realize),
            Stmt::SeqStmt(_) | Stmt::For(_) => walk_stmt(self, stmt),
            Stmt::BufferStore(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => self.pattern = OpPattern::Opaque,
        }
    }
}

impl Detect {
    fn realize(&mut self, realize: &BlockRealize) {
        let block = &realize.block;
        let plain = block.iter_vars.is_empty() && block.init.is_none() && block.match_buffers.is_empty();
        if plain && matches!(block.body, Stmt::SeqStmt(_) | Stmt::For(_) | Stmt::BlockRealize(_)) {
            return walk_block(self, block);
        }
        self.blocks += 1;
        let found = if realize.predicate.is_const(1) { block_pattern(block) } else { OpPattern::Opaque };
        self.pattern = match (self.pattern, found) {
            (OpPattern::CommReduce, OpPattern::ElemWise | OpPattern::Broadcast | OpPattern::Injective) => {
                OpPattern::OutEWiseFusable
            }
            (before, found) => before.max(found),
        };
    }
}

fn block_pattern(block: &Block) -> OpPattern {
    let Stmt::BufferStore(store) = &block.body else { return OpPattern::Opaque };
    let Some(axes) = store_axes(store) else { return OpPattern::Opaque };
    if !block.match_buffers.is_empty() || !block.alloc_buffers.is_empty() {
        return OpPattern::Opaque;
    }
    let mut loads = Vec::new();
    for_each_load(&block.body, &mut |load| loads.push(load.clone()));
    let reduces = block.iter_vars.iter().any(|iter| iter.kind == IterKind::Reduce);
    if reduces {
        let known = block.iter_vars.iter().all(|it| matches!(it.kind, IterKind::Reduce | IterKind::Spatial));
        return match &store.value {
            _ if !known => OpPattern::Opaque,
            PrimExpr::Binary(sum) if sum.op == BinaryOp::Add && is_product(&sum.b) => {
                OpPattern::OutEWiseFusable
            }
            _ => OpPattern::CommReduce,
        };
    }
    if block.iter_vars.iter().any(|iter| iter.kind != IterKind::Spatial)
        || loads.iter().any(|load| load.buffer == store.buffer)
    {
        return OpPattern::Opaque;
    }
    let patterns: Vec<OpPattern> = loads.iter().map(|load| load_pattern(load, store, &axes)).collect();
    let worst = patterns.iter().copied().max().unwrap_or(OpPattern::ElemWise);
    // A bias beside an operand of the full shape does not make an operation less element-wise.
    if worst == OpPattern::Broadcast && patterns.contains(&OpPattern::ElemWise) {
        OpPattern::ElemWise
    } else {
        worst
    }
}

/// The axes that index the store; `None` unless they are distinct and every other index is 0 into an extent of 1.
fn store_axes(store: &BufferStore) -> Option<Vec<VarId>> {
    let mut axes = Vec::new();
    for (index, extent) in store.indices.iter().zip(store.buffer.shape.iter()) {
        match index.as_var() {
            Some(var) if !axes.contains(&var.id()) => axes.push(var.id()),
            None if index.is_const(0) && extent.is_const(1) => {}
            _ => return None,
        }
    }
    Some(axes)
}

fn load_pattern(load: &BufferLoad, store: &BufferStore, axes: &[VarId]) -> OpPattern {
    let extents = store.buffer.shape.iter();
    // The index along an extent of 1 may be written as 0.
    let same = |((a, b), extent): ((&PrimExpr, &PrimExpr), &PrimExpr)| {
        a.ptr_eq(b) || a.is_const(0) && extent.is_const(1)
    };
    if load.indices.len() == store.indices.len()
        && load.indices.iter().zip(store.indices.iter()).zip(extents).all(same)
    {
        return OpPattern::ElemWise;
    }
    // Broadcast: a subsequence of the axes, and constants.
    let mut rest = axes.iter();
    let in_order = load.indices.iter().all(|index| match index.as_var() {
        Some(var) => rest.any(|axis| *axis == var.id()),
        None => index.as_int().is_some(),
    });
    if in_order {
        return OpPattern::Broadcast;
    }
    let foreign = load.indices.iter().any(|index| {
        any_expr(index, &mut |it| {
            it.as_var().is_some_and(|var| !axes.contains(&var.id()) && !is_dim(var, load))
        })
    });
    if foreign { OpPattern::Opaque } else { OpPattern::Injective }
}

/// True when `var` is a symbolic dimension of the loaded buffer, and so no axis of the block: those all index the store.
fn is_dim(var: &crate::ir::Var, load: &BufferLoad) -> bool {
    load.buffer.shape.iter().any(|extent| uses_var(extent, var))
}

/// A product of two loads, perhaps converted, or of the parts of two words, also if it is 0 under a condition: the body of a matrix
/// multiplication or convolution.
fn is_product(expr: &PrimExpr) -> bool {
    fn is_load(expr: &PrimExpr) -> bool {
        match expr {
            PrimExpr::Cast(it) => is_load(&it.value),
            PrimExpr::BufferLoad(_) => true,
            _ => false,
        }
    }
    match expr {
        PrimExpr::Cast(it) => is_product(&it.value),
        PrimExpr::Binary(it) => it.op == BinaryOp::Mul && is_load(&it.a) && is_load(&it.b),
        PrimExpr::Call(it) => match (&it.callee, &*it.args) {
            (PrimCallee::Intrinsic(Intrinsic::Dot2 | Intrinsic::Dot4), [a, b, _]) => is_load(a) && is_load(b),
            (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [_, product, other]) => {
                is_product(product) && other.is_zero()
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relax::testing::{compute, map, sum_over, zip};

    fn n(n: i64) -> PrimExpr {
        PrimExpr::index(n)
    }

    #[test]
    fn patterns_of_typical_programs() {
        let matmul = sum_over(
            "matmul",
            &[("a", vec![n(2), n(3)]), ("b", vec![n(3), n(4)])],
            vec![n(2), n(4)],
            n(3),
            |b, at| b[0].load([at[0].clone(), at[2].clone()]) * b[1].load([at[2].clone(), at[1].clone()]),
        );
        let sum =
            sum_over("sum", &[("a", vec![n(2), n(3)])], vec![n(2)], n(3), |b, at| b[0].load(at.to_vec()));
        let unary =
            |name, from: Vec<PrimExpr>, to: Vec<PrimExpr>, index: fn(&[PrimExpr]) -> Vec<PrimExpr>| {
                compute(name, &[("x", from)], to, |b, at| b[0].load(index(at)))
            };
        let bias =
            compute("bias", &[("x", vec![n(2), n(3)]), ("b", vec![n(3)])], vec![n(2), n(3)], |b, at| {
                b[0].load(at.to_vec()) + b[1].load([at[1].clone()])
            });
        let one = |at: &[PrimExpr]| vec![n(0), at[1].clone()];
        let cases = [
            (unary("batch_of_one", vec![n(1), n(3)], vec![n(1), n(3)], one), OpPattern::ElemWise),
            (unary("rows", vec![n(1), n(3)], vec![n(2), n(3)], one), OpPattern::Broadcast),
            (map("exp", vec![n(4)], |x| x * 2i64), OpPattern::ElemWise),
            (zip("add", vec![n(4)], |a, b| a + b), OpPattern::ElemWise),
            (bias, OpPattern::ElemWise),
            (unary("spread", vec![n(3)], vec![n(2), n(3)], |at| vec![at[1].clone()]), OpPattern::Broadcast),
            (
                unary("transpose", vec![n(3), n(2)], vec![n(2), n(3)], |at| {
                    vec![at[1].clone(), at[0].clone()]
                }),
                OpPattern::Injective,
            ),
            (unary("slice", vec![n(8)], vec![n(4)], |at| vec![at[0].clone() + 2i64]), OpPattern::Injective),
            (sum, OpPattern::CommReduce),
            (matmul, OpPattern::OutEWiseFusable),
        ];
        for (func, want) in cases {
            assert_eq!(op_pattern(&func), want, "{}", func.name);
        }
    }
}
