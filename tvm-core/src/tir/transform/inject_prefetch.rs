//! Brings what later iterations of a loop read into the cache.
//!
//! A schedule annotates a loop with [`PREFETCH`] or [`PREFETCH_L2`], the number of iterations to look ahead. Vectors that the body loads, and
//! that depend on the loop, are prefetched so many iterations earlier: once for each cache line, in the innermost loop on
//! which their place depends, spread over the iterations of a loop in its body. What the loop writes is not prefetched. The last iterations prefetch places behind the ones that
//! are read, perhaps outside of the buffer: prefetching them has no effect.
//!
//! TVM counterpart: `InjectPrefetch`, which takes what the primitive `prefetch` of a `te` schedule named.

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::DataType;

use super::util::Inside;
use crate::arith::Analyzer;
use crate::ir::{AttrValue, BufferId, IrError, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::{
    Buffer, Evaluate, For, Intrinsic, Mutator, PrimExpr, PrimFunc, Scope, Stmt, any_expr, for_each_load,
    substitute_expr, uses_var,
};

mod spread;

use spread::with_prefetches;

/// Annotation of a loop: how many iterations ahead the vectors that its body loads are prefetched into the caches, 1 or more.
pub const PREFETCH: &str = "prefetch";

/// As [`PREFETCH`], into the second-level cache: for what the first-level cache cannot hold until it is used, as the lines
/// of many rows that are a multiple of a page apart.
pub const PREFETCH_L2: &str = "prefetch_l2";

/// The annotations and what they insert.
const LEVELS: [(&str, Intrinsic); 2] =
    [(PREFETCH, Intrinsic::Prefetch), (PREFETCH_L2, Intrinsic::PrefetchL2)];

/// Bytes of a cache line.
const LINE: i64 = 64;

/// Prefetches in one body at most.
const MOST: usize = 64;

/// Prefetches what loops annotated with [`PREFETCH`] or [`PREFETCH_L2`] load.
/// Requires: flat buffers, no blocks, no vectorized and unrolled loops. Fails if an annotation is no positive integer.
pub fn inject_prefetch() -> Pass {
    prim_func_pass("InjectPrefetch", |func, _, _| {
        let mut inject = InjectPrefetch { ahead: Vec::new(), error: None };
        let body = inject.mutate_stmt(&func.body);
        match inject.error {
            Some(error) => Err(error),
            None => Ok(body.map(|body| PrimFunc { body, ..func.clone() })),
        }
    })
}

/// A loop around the statement that looks ahead.
struct Ahead {
    var: Var,
    iterations: i64,
    intrinsic: Intrinsic,
    /// What its body writes.
    written: FxHashSet<BufferId>,
}

/// A cache line: its first element.
type Line = (Buffer, PrimExpr);

struct InjectPrefetch {
    ahead: Vec<Ahead>,
    error: Option<IrError>,
}

impl Mutator for InjectPrefetch {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::For(node) = stmt else { return self.walk_stmt(stmt) };
        let of_key = |(key, intrinsic)| node.annotations.get(key).map(|value| (key, value, intrinsic));
        let annotation = LEVELS.into_iter().find_map(of_key);
        match annotation {
            None => {}
            Some((_, AttrValue::Int(iterations @ 1..), intrinsic)) => self.ahead.push(Ahead {
                var: node.loop_var.clone(),
                iterations: *iterations,
                intrinsic,
                written: Inside::of(&node.body).buffers,
            }),
            Some((key, other, _)) => {
                let name = node.loop_var.name();
                let message = format!("loop `{name}` has the annotation `{key}` with the value {other:?}");
                let help = "give the number of iterations to look ahead, 1 or more";
                self.error.get_or_insert_with(|| IrError::new(message, &node.span).help(help));
                return None;
            }
        }
        let here = self.prefetches(node);
        let body = self.mutate_stmt(&node.body);
        if annotation.is_some() {
            self.ahead.pop();
        }
        let Some((lines, intrinsic)) = here else {
            return body.map(|body| For { body, ..(**node).clone() }.into());
        };
        let body = with_prefetches(lines, body.unwrap_or_else(|| node.body.clone()), intrinsic);
        Some(For { body, ..(**node).clone() }.into())
    }
}

impl InjectPrefetch {
    /// The cache lines of vectors in the body of `node` whose place `node` is the innermost loop to determine.
    fn prefetches(&self, node: &For) -> Option<(Vec<Line>, Intrinsic)> {
        let Ahead { var, iterations, intrinsic, written } = self.ahead.last()?;
        let inside = Inside::of(&node.body);
        let later = FxHashMap::from_iter([(var.id(), PrimExpr::from(var) + *iterations)]);
        let analyzer = Analyzer::new();
        let mut found: Vec<Line> = Vec::new();
        for_each_load(&node.body, &mut |load| {
            let ([PrimExpr::Ramp(ramp)], true) = (&*load.indices, found.len() < MOST) else { return };
            let fits = ramp.stride.is_const(1)
                && load.buffer.scope == Scope::Global
                && uses_var(&ramp.base, var)
                && uses_var(&ramp.base, &node.loop_var)
                && !any_expr(&ramp.base, &mut |it| {
                    it.as_var().is_some_and(|var| inside.vars.contains(&var.id()))
                })
                && !written.contains(&load.buffer.id);
            if !fits {
                return;
            }
            let bytes = load.buffer.dtype.bytes() as i64;
            let first = substitute_expr(&ramp.base, &later);
            for line in 0..(i64::from(ramp.lanes) * bytes + LINE - 1) / LINE {
                let place = analyzer.simplify(&(&first + line * LINE / bytes));
                let same_line = |(known, at): &Line| {
                    let distance = analyzer.simplify(&(&place - at)).as_int();
                    *known == load.buffer && distance.is_some_and(|it| it.abs() * bytes < LINE)
                };
                if !found.iter().any(same_line) {
                    found.push((load.buffer.clone(), place));
                }
            }
        });
        (!found.is_empty()).then_some((found, *intrinsic))
    }
}

/// The prefetch of a line.
fn prefetch((buffer, place): Line, intrinsic: Intrinsic) -> Stmt {
    Evaluate { value: PrimExpr::call(intrinsic, [buffer.load([place])], DataType::HANDLE) }.into()
}
