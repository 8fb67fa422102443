//! Reads and writes several neighbours at once in kernels for GPUs: up to 16 bytes, at an address that is a multiple of them.
//!
//! ```text
//! for l in 0..4 (vectorized) {                  alloc v, r: 4 elements of a thread;
//!     y[4 * i + l] = f(x[4 * i + l], w[l * 7]); v[0..4] = x[4 * i..+4];
//! }                                             for l in 0..4 (unrolled) { r[l] = f(v[l], w[l * 7]); }
//!                                               y[4 * i..+4] = r[0..4];
//! ```
//!
//! An access becomes a vector if its index is proven to be a multiple of the lanes in the first iteration, and one more in each
//! next one. Buffers begin at a multiple of 16 bytes: the runtime launches kernels with such addresses alone, and memory of the
//! kernel is allocated so. All other accesses stay scalars. A condition that is proven to be the same for all lanes is tested once.
//! A copy, also one that is 0 where a condition does not hold, is one statement.
//!
//! TVM counterpart: `VectorizeLoop`; there alignment is a promise of the buffer (`offset_factor`).
//! Requires: flat buffers; vectorized loops of kernels as serial ones with the annotation [`LANES`]. Ensures: no loop has the
//! annotation. A statement with an index of several lanes copies them: it stores what it loads, or 0.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashSet;
use tvm_runtime::DataType;

use super::context::{analyzer_for, enter_loop};
use super::convert_ssa::convert;
use crate::arith::{Analyzer, detect_linear_equation, same};
use crate::ir::{BufferId, IrError, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::atomic_update;
use crate::tir::{
    AllocBuffer, Binary, BinaryOp, Buffer, BufferLoad, BufferStore, For, ForKind, IfThenElse, Intrinsic,
    Mutator, PrimCallee, PrimExpr, PrimFunc, Scope, Stmt, binary, uses_var,
};

/// Annotation of a serial loop of a kernel that was vectorized.
pub(super) const LANES: &str = "lanes";

/// The largest access of a thread in bytes, and what the address of a buffer is a multiple of.
const WIDEST: i64 = 16;

/// Reads and writes neighbours at once, in loops of kernels that were vectorized.
pub fn vectorize_accesses() -> Pass {
    prim_func_pass("VectorizeAccesses", |func, _, _| -> Result<_, IrError> {
        let mut loops = Loops { analyzer: analyzer_for(func), own: FxHashSet::default() };
        let body = loops.mutate_stmt(&func.body);
        let body = body.map(|body| convert(func, &body).unwrap_or(body));
        Ok(body.map(|body| PrimFunc { body, ..func.clone() }))
    })
}

struct Loops {
    analyzer: Analyzer,
    /// The memory of a thread, of which the host may make a part of a larger one.
    own: FxHashSet<BufferId>,
}

impl Mutator for Loops {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::AllocBuffer(alloc) => {
                if matches!(alloc.buffer.scope, Scope::Global | Scope::Local) {
                    self.own.insert(alloc.buffer.id);
                }
                None
            }
            Stmt::For(node) => {
                enter_loop(&mut self.analyzer, node);
                if node.annotations.get(LANES).is_none() {
                    return self.walk_stmt(stmt);
                }
                let mut plain = (**node).clone();
                plain.annotations.remove(LANES);
                plain.body = self.mutate_stmt(&node.body).unwrap_or(plain.body);
                // As many statements as lanes, whose elements of a thread stay in registers.
                let short = plain.extent.as_int().is_some_and(|extent| extent <= WIDEST);
                let vectors = self.vectors(&plain);
                plain.kind = if short { ForKind::Unrolled } else { ForKind::Serial };
                Some(vectors.unwrap_or_else(|| plain.into()))
            }
            _ => self.walk_stmt(stmt),
        }
    }
}

impl Loops {
    fn vectors(&self, node: &For) -> Option<Stmt> {
        let lanes = node.extent.as_int().filter(|it| [2, 4, 8, 16].contains(it) && node.min.is_const(0))?;
        let lanes = Lanes { loops: self, node, var: &node.loop_var, lanes: lanes as u16 };
        lanes.stmt(&node.body)
    }
}

/// A loop whose iterations are lanes.
struct Lanes<'a> {
    loops: &'a Loops,
    node: &'a For,
    var: &'a Var,
    lanes: u16,
}

impl Lanes<'_> {
    fn count(&self) -> i64 {
        self.lanes.into()
    }

    /// `stmt` for all lanes; `None` if no access of it is a vector.
    fn stmt(&self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::IfThenElse(node) if node.else_case.is_none() => {
                let condition = self.uniform(&node.condition)?;
                let then_case = self.stmt(&node.then_case)?;
                Some(IfThenElse { condition, then_case, ..(**node).clone() }.into())
            }
            Stmt::BufferStore(store) => self.store(store),
            Stmt::SeqStmt(stmts) => match &stmts[..] {
                [stmt] => self.stmt(stmt),
                _ => None,
            },
            Stmt::IfThenElse(_)
            | Stmt::For(_)
            | Stmt::BlockRealize(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => None,
        }
    }

    fn store(&self, store: &BufferStore) -> Option<Stmt> {
        if store.predicate.is_some() || atomic_update(store).is_some() {
            return None;
        }
        let to = self.access(&store.buffer, &store.indices);
        if let Some(to) = &to
            && let Some(value) = self.copied(&store.value)
        {
            let indices = [to.clone()].into();
            return Some(BufferStore { indices, value, ..store.clone() }.into());
        }
        let mut stage = Stage { lanes: self, loads: Vec::new() };
        let value = stage.mutate_expr(&store.value).unwrap_or_else(|| store.value.clone());
        if to.is_none() && stage.loads.is_empty() {
            return None;
        }
        let mut stmts = Vec::new();
        for (load, own) in &stage.loads {
            stmts.push(AllocBuffer::new(own.clone()).into());
            let from = self.load(load)?;
            stmts.push(Stmt::store(own, [self.all()], from));
        }
        let Some(to) = to else {
            let scalar = BufferStore { value, ..store.clone() };
            stmts.push(self.each(scalar.into()));
            return Some(Stmt::seq(stmts));
        };
        let own = self.buffer(&store.buffer);
        stmts.push(AllocBuffer::new(own.clone()).into());
        stmts.push(self.each(Stmt::store(&own, [PrimExpr::from(self.var)], value)));
        let result = own.load([self.all()]);
        stmts.push(BufferStore { indices: [to].into(), value: result, ..store.clone() }.into());
        Some(Stmt::seq(stmts))
    }

    /// `stmt` for one lane after the other.
    fn each(&self, stmt: Stmt) -> Stmt {
        For { kind: ForKind::Unrolled, body: stmt, ..self.node.clone() }.into()
    }

    /// The lanes as an index.
    fn all(&self) -> PrimExpr {
        PrimExpr::index(0).ramp(PrimExpr::index(1), self.lanes)
    }

    /// Memory of a thread for the lanes of an access of `like`.
    fn buffer(&self, like: &Buffer) -> Buffer {
        let name = format!("{}_lanes", like.name);
        Buffer::with_scope(name, [PrimExpr::index(self.count())], like.dtype, Scope::Local)
    }

    /// The vector of an access; `None` if it is not proven to be one.
    fn access(&self, buffer: &Buffer, indices: &[PrimExpr]) -> Option<PrimExpr> {
        let [index] = indices else { return None };
        let bytes = self.count() * buffer.dtype.bytes() as i64;
        let known = match buffer.scope {
            Scope::Shared | Scope::SharedDyn => true,
            Scope::Global => !self.loops.own.contains(&buffer.id),
            Scope::Local | Scope::Warp => false,
        };
        if !known || !(2..=WIDEST).contains(&bytes) || buffer.dtype.lanes() != 1 {
            return None;
        }
        let equation = detect_linear_equation(index, std::slice::from_ref(self.var), &self.loops.analyzer)?;
        let neighbours = equation.coefficients[0].is_const(1);
        let aligned = self.is_multiple(&equation.base);
        (neighbours && aligned).then(|| equation.base.ramp(PrimExpr::index(1), self.lanes))
    }

    fn is_multiple(&self, expr: &PrimExpr) -> bool {
        self.loops.analyzer.modular_set(expr).is_multiple_of(self.count())
    }

    fn load(&self, load: &BufferLoad) -> Option<PrimExpr> {
        let index = self.access(&load.buffer, &load.indices)?;
        Some(load.buffer.load([index]))
    }

    /// `value` for all lanes, if it is an element of memory, or one that is 0 where a condition does not hold.
    fn copied(&self, value: &PrimExpr) -> Option<PrimExpr> {
        let dtype = value.dtype().with_lanes(self.lanes);
        match value {
            PrimExpr::BufferLoad(load) if load.predicate.is_none() => self.load(load),
            PrimExpr::Call(call) => match (&call.callee, &*call.args) {
                (PrimCallee::Intrinsic(Intrinsic::AsyncCopy), [value]) => {
                    (dtype.bytes() >= 4).then_some(())?;
                    Some(PrimExpr::call(Intrinsic::AsyncCopy, [self.copied(value)?], dtype))
                }
                (
                    PrimCallee::Intrinsic(Intrinsic::IfThenElse),
                    [condition, PrimExpr::BufferLoad(load), other],
                ) if other.is_zero() => {
                    let args =
                        [self.uniform(condition)?, self.load(load)?, other.clone().broadcast(self.lanes)];
                    Some(PrimExpr::call(Intrinsic::IfThenElse, args, dtype))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// A condition of one lane, if it is the same for all.
    fn uniform(&self, condition: &PrimExpr) -> Option<PrimExpr> {
        if !uses_var(condition, self.var) {
            return Some(condition.clone());
        }
        match condition {
            PrimExpr::Binary(it) if it.op == BinaryOp::And => {
                Some(self.uniform(&it.a)?.and(self.uniform(&it.b)?))
            }
            PrimExpr::Binary(it) => self.comparison(it),
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
                self.uniform(&call.args[0])
            }
            _ => None,
        }
    }

    /// `a + lane < b` is the same as `a < b` if their difference is a multiple of the lanes.
    fn comparison(&self, it: &Binary) -> Option<PrimExpr> {
        let (with, without) = match it.op {
            BinaryOp::Lt | BinaryOp::Ge => (&it.a, &it.b),
            BinaryOp::Gt | BinaryOp::Le => (&it.b, &it.a),
            _ => return None,
        };
        if with.dtype() != DataType::I64 || uses_var(without, self.var) {
            return None;
        }
        let equation = detect_linear_equation(with, std::slice::from_ref(self.var), &self.loops.analyzer)?;
        let far = without.clone() - &equation.base;
        if !equation.coefficients[0].is_const(1) || !self.is_multiple(&far) {
            return None;
        }
        let [a, b] = match it.op {
            BinaryOp::Lt | BinaryOp::Ge => [equation.base, it.b.clone()],
            _ => [it.a.clone(), equation.base],
        };
        Some(binary(it.op, a, b))
    }
}

/// Replaces the loads that are vectors, and happen in each iteration, by elements of memory of the thread.
struct Stage<'a, 'b> {
    lanes: &'a Lanes<'b>,
    loads: Vec<(Arc<BufferLoad>, Buffer)>,
}

impl Mutator for Stage<'_, '_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::BufferLoad(load) if load.predicate.is_none() && self.lanes.load(load).is_some() => {
                let known = self.loads.iter().find(|(it, _)| {
                    it.buffer == load.buffer && it.indices.iter().zip(&*load.indices).all(|(a, b)| same(a, b))
                });
                let own = match known {
                    Some((_, own)) => own.clone(),
                    None => {
                        let own = self.lanes.buffer(&load.buffer);
                        self.loads.push((load.clone(), own.clone()));
                        own
                    }
                };
                Some(own.load([PrimExpr::from(self.lanes.var)]))
            }
            // What is evaluated under a condition may be outside of the buffer.
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                let condition = self.mutate_expr(&call.args[0])?;
                let args = [condition, call.args[1].clone(), call.args[2].clone()];
                Some(PrimExpr::call(Intrinsic::IfThenElse, args, call.dtype))
            }
            PrimExpr::Binary(it) if it.op.is_logical() => {
                Some(binary(it.op, self.mutate_expr(&it.a)?, it.b.clone()))
            }
            // A variable of the expression may be in the index.
            PrimExpr::Let(_) => None,
            _ => self.walk_expr(expr),
        }
    }
}
