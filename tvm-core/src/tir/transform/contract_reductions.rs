//! Marks where multiplication and addition may be fused: in the updates of reduction blocks.
//!
//! Float operations keep the order and rounding of the source program, except in the update of a reduction block (a block
//! with reduce axes and an init), which declares it associative. `c = c + a * b` in its body becomes
//! `c = fmuladd(a, b, c)`, which a code generator fuses into one rounding where that is faster. A block whose init was
//! moved out by `decompose_reduction` has the annotation [`DECOMPOSED`]. `c = c + if p { a * b } else { 0 }`
//! becomes `c = if p { fmuladd(a, b, c) } else { c }`. In any block, `c = c + dot4(a, b, 0)` becomes
//! `c = dot4(a, b, c)`.
//! Requires: blocks with their inits, before `LowerInitBlock`. TVM has no counterpart: its code generators fuse everywhere.

use std::sync::Arc;

use super::util::body_pass;
use crate::pass::Pass;
use crate::tir::analysis::{loads_element, update};
use crate::tir::{
    Binary, BinaryOp, Block, BufferStore, Intrinsic, IterKind, Mutator, PrimCallee, PrimExpr, Stmt,
};

/// Annotation of a block whose init is in a separate block.
pub const DECOMPOSED: &str = "decomposed_reduction";

/// Annotation of a block whose terms are added in the order of the text, with its rounding, although it has an `init`.
pub const IN_ORDER: &str = "in_order";

/// Allows fused multiply-adds in the updates of reductions.
pub fn contract_reductions() -> Pass {
    body_pass("ContractReductions", |func| ContractReductions { in_reduction: false }.mutate_stmt(&func.body))
}

struct ContractReductions {
    in_reduction: bool,
}

impl Mutator for ContractReductions {
    fn mutate_expr(&mut self, _expr: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let outer = std::mem::replace(&mut self.in_reduction, is_declared(block));
        let res = self.walk_block(block);
        self.in_reduction = outer;
        res
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::BufferStore(it) = stmt
            && self.in_reduction
            && it.buffer.dtype.is_float()
        {
            let value = conditional(it).or_else(|| contracted(&it.value, it));
            return value.map(|value| BufferStore { value, ..(**it).clone() }.into());
        }
        if let Stmt::BufferStore(it) = stmt {
            return joined(it).map(|value| BufferStore { value, ..(**it).clone() }.into());
        }
        self.walk_stmt(stmt)
    }
}

/// `if p { fmuladd(a, b, c) } else { c }`, if the value of `store` is `c + if p { a * b } else { 0 }`: a term of 0 is not added.
fn conditional(store: &BufferStore) -> Option<PrimExpr> {
    let (BinaryOp::Add, PrimExpr::Call(call)) = update(store)? else { return None };
    match (&call.callee, &*call.args) {
        (PrimCallee::Intrinsic(Intrinsic::IfThenElse), [condition, term, zero]) if zero.is_zero() => {
            let old = store.buffer.load(store.indices.clone());
            let sum = old.clone() + term.clone();
            let sum = contracted(&sum, store)?;
            Some(PrimExpr::call(Intrinsic::IfThenElse, [condition.clone(), sum, old], call.dtype))
        }
        _ => None,
    }
}

/// `dot4(a, b, c)`, if the value of `store` is `c + dot4(a, b, 0)`: integers are added in any order.
fn joined(store: &BufferStore) -> Option<PrimExpr> {
    let (BinaryOp::Add, PrimExpr::Call(call)) = update(store)? else { return None };
    match (&call.callee, &*call.args) {
        (PrimCallee::Intrinsic(Intrinsic::Dot4), [a, b, zero]) if zero.is_const(0) => {
            let old = store.buffer.load(store.indices.clone());
            Some(PrimExpr::call(Intrinsic::Dot4, [a.clone(), b.clone(), old], call.dtype))
        }
        _ => None,
    }
}

/// True if the order in which the block adds its terms is free.
pub(in crate::tir) fn is_declared(block: &Block) -> bool {
    let reduces = block.iter_vars.iter().any(|axis| axis.kind == IterKind::Reduce);
    let has = |name| block.annotations.get(name).is_some();
    reduces && !has(IN_ORDER) && (block.init.is_some() || has(DECOMPOSED))
}

/// `value` with the products that are added to the element that `store` writes fused into the sums; `None` if there are
/// no such products.
fn contracted(value: &PrimExpr, store: &BufferStore) -> Option<PrimExpr> {
    let PrimExpr::Binary(it) = value else { return None };
    let Binary { op: BinaryOp::Add, a, b } = &**it else { return None };
    let (sum, term) = if accumulates(a, store) {
        (a, b)
    } else if accumulates(b, store) {
        (b, a)
    } else {
        return None;
    };
    let inner = contracted(sum, store);
    let sum = inner.clone().unwrap_or_else(|| sum.clone());
    match term {
        PrimExpr::Binary(it) if it.op == BinaryOp::Mul => {
            let dtype = value.dtype();
            Some(PrimExpr::call(Intrinsic::FMulAdd, [it.a.clone(), it.b.clone(), sum], dtype))
        }
        PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Dot2) && it.args[2].is_zero() => {
            let args = [it.args[0].clone(), it.args[1].clone(), sum];
            Some(PrimExpr::call(Intrinsic::Dot2, args, value.dtype()))
        }
        _ => inner.map(|sum| crate::tir::binary(BinaryOp::Add, sum, term.clone())),
    }
}

/// True when `expr` is the element that `store` writes, or a sum that contains it.
fn accumulates(expr: &PrimExpr, store: &BufferStore) -> bool {
    match expr {
        PrimExpr::BufferLoad(_) => loads_element(expr, store),
        PrimExpr::Binary(it) if it.op == BinaryOp::Add => {
            accumulates(&it.a, store) || accumulates(&it.b, store)
        }
        _ => false,
    }
}
