//! Vectors along the reduced axis of a declared reduction.
//!
//! A schedule annotates the innermost reduction loop with [`REDUCTION_LANES`]. The loop `for k in 0..n { c = c + f(k) }`
//! becomes four vectors of sums that run over `k`, which are added to one another in halves, down to one sum
//! ([`Intrinsic::ReduceAdd`]), which is added to `c`. Of the last terms, fewer than four vectors, those of whole vectors are added in
//! the same way in one vector of sums, and the others to `c` one by one. So the order of the terms changes, as a declared reduction
//! allows.
//!
//! TVM counterpart: none; `rfactor` in a schedule comes near.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::context::reads;
use super::convert_ssa::convert;
use super::inject_prefetch::{PREFETCH, PREFETCH_L2};
use super::util::DeepSubstitute;
use crate::arith::Analyzer;
use crate::ir::{AttrValue, Attrs};
use crate::pass::{Pass, prim_func_pass};
use crate::target::Machine;
use crate::tir::analysis::{self, loads_buffer, loads_element};
use crate::tir::{
    AllocBuffer, BinaryOp, Buffer, BufferStore, For, ForKind, Intrinsic, Mutator, PrimCallee, PrimExpr,
    PrimFunc, Scope, Stmt, binary, uses_var,
};

/// Annotation of a loop over a reduced axis: the terms may be added in the lanes of vectors.
pub const REDUCTION_LANES: &str = "reduction_lanes";

/// Vectors of sums: enough to hide the latency of an addition.
const VECTORS: i64 = 4;

/// Divides the terms of annotated reductions among the lanes of vectors.
/// Requires: flat buffers, no blocks.
pub fn vectorize_reductions() -> Pass {
    prim_func_pass("VectorizeReductions", |func, _, context| {
        let body = VectorizeReductions { machine: &context.target.machine }.mutate_stmt(&func.body);
        Ok(body.map(|body| {
            let body = convert(func, &body).unwrap_or(body);
            PrimFunc { body, ..func.clone() }
        }))
    })
}

struct VectorizeReductions<'a> {
    machine: &'a Machine,
}

impl Mutator for VectorizeReductions<'_> {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        match walked.as_ref().unwrap_or(stmt) {
            Stmt::For(node) if node.annotations.get(REDUCTION_LANES).is_some() => {
                self.lanes(node, VECTORS).or(walked)
            }
            _ => walked,
        }
    }
}

/// `target = target op term`, or `target = a * b + target` in one instruction.
struct Update<'a> {
    target: &'a BufferStore,
    value: Value<'a>,
}

enum Value<'a> {
    Op(BinaryOp, &'a PrimExpr),
    /// [`Intrinsic::FMulAdd`] or [`Intrinsic::Dot4`].
    Fused(Intrinsic, &'a PrimExpr, &'a PrimExpr),
}

impl Update<'_> {
    /// The first value of a sum.
    fn first(&self) -> PrimExpr {
        match self.value {
            Value::Op(_, term) => term.clone(),
            Value::Fused(Intrinsic::FMulAdd, a, b) => a * b,
            Value::Fused(_, _, b) => self.next(PrimExpr::int(0, b.dtype())),
        }
    }

    /// `sum` with one more term.
    fn next(&self, sum: PrimExpr) -> PrimExpr {
        match self.value {
            Value::Op(op, term) => binary(op, sum, term.clone()),
            Value::Fused(intrinsic, a, b) => {
                let dtype = sum.dtype();
                PrimExpr::call(intrinsic, [a.clone(), b.clone(), sum], dtype)
            }
        }
    }

    /// The operation between two sums.
    fn op(&self) -> BinaryOp {
        match self.value {
            Value::Op(op, _) => op,
            Value::Fused(..) => BinaryOp::Add,
        }
    }
}

impl VectorizeReductions<'_> {
    /// `node` with its terms in the lanes of at most `most` vectors; `None` if its body is no update of one element, or it has too
    /// few iterations.
    fn lanes(&self, node: &For, most: i64) -> Option<Stmt> {
        let update = update(node)?;
        let (var, target) = (&node.loop_var, update.target);
        let index = |value: i64| PrimExpr::int(value, var.dtype());
        let vector = i64::from(self.machine.lanes(target.buffer.dtype));
        let count = match node.extent.as_int() {
            Some(extent) => (extent / vector).min(most) * vector,
            None => {
                let terms = Analyzer::of_indices([&node.extent]).modular_set(&node.extent);
                let mut counts = (0..=most.ilog2()).map(|halved| (most >> halved) * vector);
                // Of a multiple of so many terms, none is left over.
                counts.find(|&count| terms.is_multiple_of(count)).unwrap_or(most * vector)
            }
        };
        if vector < 2 || count == 0 || reads(&node.min) || reads(&node.extent) {
            return None;
        }
        // A power of two, so that halves can be added.
        let count = 1i64 << count.ilog2();
        let sums = Buffer::with_scope("sums", [index(count)], target.buffer.dtype, Scope::Local);
        let lane = var.renew();
        let sum_at = |at: PrimExpr| sums.load([at]);
        let store_at = |at: PrimExpr, value: PrimExpr| Stmt::store(&sums, [at], value);
        let vectors = |extent: i64, body: Stmt| -> Stmt {
            For { kind: ForKind::Vectorized, ..For::serial(lane.clone(), index(extent), body) }.into()
        };
        let term = |k: PrimExpr, expr: PrimExpr| {
            let stmt = store_at((&lane).into(), expr);
            DeepSubstitute::stmt(FxHashMap::from_iter([(var.id(), k)]), &stmt)
        };
        let whole = node.extent.clone().floordiv(count);
        let group = var.renew();
        let first = term(&node.min + &lane, update.first());
        let at = &node.min + (&group * count + &lane);
        let more = term(at, update.next(sum_at((&lane).into())));
        let groups = For {
            min: index(1),
            extent: whole.clone() - 1,
            annotations: prefetches(node, count),
            ..For::serial(group.clone(), whole.clone(), vectors(count, more))
        };
        let mut stmts: Vec<Stmt> =
            vec![AllocBuffer::new(sums.clone()).into(), vectors(count, first), groups.into()];
        // Halves of several vectors are added as vectors, the lanes of the last one in registers.
        let last = Intrinsic::of_lanes(update.op()).filter(|_| has_lanes(target.buffer.dtype));
        let end = if last.is_some() { count.min(vector) } else { 1 };
        let mut half = count / 2;
        while half >= end {
            let upper = sum_at(&lane + half);
            let both = binary(update.op(), sum_at((&lane).into()), upper);
            stmts.push(vectors(half, store_at((&lane).into(), both)));
            half /= 2;
        }
        let old = target.buffer.load(target.indices.clone());
        let sum = match last.filter(|_| end > 1) {
            Some(last) => {
                let lanes = sum_at(index(0).ramp(index(1), end as u16));
                PrimExpr::call(last, [lanes], target.buffer.dtype)
            }
            None => sum_at(index(0)),
        };
        let value = binary(update.op(), old, sum);
        stmts.push(BufferStore { value, ..target.clone() }.into());
        let done = whole * count;
        let left = Analyzer::of_indices([&node.extent]).simplify(&(&node.extent - &done));
        let rest = For { min: &node.min + &done, extent: left, ..node.clone() };
        let rest =
            if count > vector { self.lanes(&rest, 1).unwrap_or_else(|| rest.into()) } else { rest.into() };
        let enough = node.extent.clone().greater_equal(count);
        Some(Stmt::seq([Stmt::if_then_else(enough, Stmt::seq(stmts), None), rest]))
    }
}

/// True for types of which [`Intrinsic::ReduceAdd`] and the like take vectors.
fn has_lanes(dtype: DataType) -> bool {
    dtype.is_integer() || dtype.is_float() && dtype.bits() >= 32
}

/// The annotations of `node` that look ahead, for a loop over `count` iterations at once.
fn prefetches(node: &For, count: i64) -> Attrs {
    let ahead = |key| match node.annotations.get(key) {
        Some(AttrValue::Int(iterations)) => Some((key, AttrValue::Int((iterations + count - 1) / count))),
        _ => None,
    };
    [PREFETCH, PREFETCH_L2].into_iter().filter_map(ahead).collect()
}

/// The update that is the body of `node`, of one element.
fn update(node: &For) -> Option<Update<'_>> {
    let Stmt::BufferStore(target) = &node.body else { return None };
    let free = |expr: &PrimExpr| !loads_buffer(expr, &target.buffer);
    let fixed = |expr: &PrimExpr| !uses_var(expr, &node.loop_var);
    if !target.indices.iter().all(|index| fixed(index) && free(index))
        || !matches!(node.kind, ForKind::Serial)
    {
        return None;
    }
    let value = match &target.value {
        PrimExpr::Binary(_) => match analysis::update(target)? {
            (op @ (BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max), term) => {
                Value::Op(op, term)
            }
            _ => return None,
        },
        PrimExpr::Call(it) => match (&it.callee, &*it.args) {
            (PrimCallee::Intrinsic(fused @ (Intrinsic::FMulAdd | Intrinsic::Dot4)), [a, b, sum])
                if loads_element(sum, target) && free(a) && free(b) =>
            {
                Value::Fused(*fused, a, b)
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(Update { target, value })
}
