//! Divides loops so that most iterations carry no conditions.
//!
//! A loop that was split with a remainder holds conditions such as `i_0 * 8 + i_1 < n`, under the inner loops. They hold
//! in all iterations but the last ones. The loop becomes two: one over the iterations in which the conditions hold
//! whatever the inner loops do, without them, and one over the rest. The rest ends where the conditions fail whatever the inner loops
//! do; a long vectorized loop that ends so becomes a loop over vectors.
//!
//! In a kernel, threads around a loop count as loops inside of it: there are two loops, which all threads run, and conditions are
//! left in the last iterations alone. This is done for loops without other loops and barriers inside.
//!
//! TVM counterpart: `LoopPartition`, which also divides loops at conditions of the source.
//! Requires: statements without blocks. Ensures: the iterations run in the same order, under the same conditions.

use super::context::{analyzer_for, conjuncts, enter_loop};
use super::convert_ssa::convert;
use super::util::{DeepSubstitute, one_iteration};
use rustc_hash::FxHashMap;

use crate::arith::{Analyzer, DomMap, IntervalSet, detect_linear_equation, same};
use crate::ir::Var;
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::{conjunction, slack};
use crate::tir::{
    For, ForKind, IfThenElse, Mutator, PrimExpr, PrimFunc, Stmt, ThreadTag, Visitor, any_expr, uses_var,
    walk_stmt,
};

/// How many loops around one another are divided: each doubles the code.
const MAX_DEPTH: usize = 3;

/// Iterations of a part of a vectorized loop that ends early; longer ones become a loop over such parts.
const PART: i64 = 64;

/// Iterations from which on a loop of a thread is divided: shorter ones are unrolled, and their conditions cost little.
const LEAST_OF_THREAD: i64 = 8;

/// Larger constants are not taken for parts of an index.
const MAX_INDEX_CONSTANT: u64 = 1 << 40;

/// Annotation of a loop that is not divided: conditions stay where they are. It is for loops around much code of which little has
/// conditions, as all of it would be there twice.
pub const UNDIVIDED: &str = "undivided";

/// Divides loops at the iterations from which on conditions may fail.
pub fn loop_partition() -> Pass {
    prim_func_pass("LoopPartition", |func, _, _| Ok(partitioned(func, false)))
}

/// Divides loops of constant extent at constant iterations, while buffers still have their axes: then
/// [`unguard_lanes`](super::unguard_lanes()) finds conditions that are constant.
pub fn partition_constant_loops() -> Pass {
    prim_func_pass("PartitionConstantLoops", |func, _, _| Ok(partitioned(func, true)))
}

fn partitioned(func: &PrimFunc, constant: bool) -> Option<PrimFunc> {
    let mut partition = LoopPartition {
        constant,
        analyzer: analyzer_for(func),
        indices: func.symbolic_dims(),
        depth: 0,
        blocks: Vec::new(),
        threads: Vec::new(),
    };
    let body = partition.mutate_stmt(&func.body)?;
    let body = convert(func, &body).unwrap_or(body);
    Some(PrimFunc { body, ..func.clone() })
}

struct LoopPartition {
    /// True if loops of constant extent are divided alone, at constant iterations.
    constant: bool,
    analyzer: Analyzer,
    /// Dimensions, and variables of loops over them.
    indices: Vec<Var>,
    /// Number of divided loops around the statement.
    depth: usize,
    /// The variables of loops over blocks around the statement.
    blocks: Vec<Var>,
    /// The loops over threads around it.
    threads: Vec<For>,
}

impl Mutator for LoopPartition {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::For(node) = stmt else { return self.walk_stmt(stmt) };
        enter_loop(&mut self.analyzer, node);
        let over_indices = |expr: &PrimExpr| {
            !any_expr(expr, &mut |it| match it {
                PrimExpr::Var(var) => !self.indices.contains(var),
                PrimExpr::IntImm(_) | PrimExpr::Binary(_) => false,
                _ => true,
            })
        };
        if over_indices(&node.min) && over_indices(&node.extent) {
            self.indices.push(node.loop_var.clone());
        }
        if let ForKind::ThreadBinding(tag) = node.kind {
            let (blocks, threads) = (self.blocks.len(), self.threads.len());
            if matches!(tag, ThreadTag::BlockIdxX | ThreadTag::BlockIdxY | ThreadTag::BlockIdxZ) {
                self.blocks.push(node.loop_var.clone());
            } else {
                self.threads.push(For { body: Stmt::nop(), ..(**node).clone() });
            }
            let new = self.walk_stmt(stmt);
            self.blocks.truncate(blocks);
            self.threads.truncate(threads);
            return new;
        }
        match self.divided(node) {
            Some((whole, rest)) => {
                self.depth += 1;
                let [whole, rest] = [whole, rest].map(|part| self.walk_stmt(&part).unwrap_or(part));
                self.depth -= 1;
                Some(Stmt::seq([whole, rest]))
            }
            None if self.constant => self.walk_stmt(stmt),
            None => match self.shortened(node) {
                Some(shorter) => Some(self.walk_stmt(&shorter).unwrap_or(shorter)),
                None => self.walk_stmt(stmt),
            },
        }
    }
}

impl LoopPartition {
    /// The iterations in which all conditions hold that have a last iteration, and the rest; `None` if there is no such
    /// condition, or none of the iterations is known to be free of it.
    fn divided(&self, node: &For) -> Option<(Stmt, Stmt)> {
        let kind = matches!(node.kind, ForKind::Serial | ForKind::Parallel);
        let kept = node.annotations.get(UNDIVIDED).is_some();
        if !kind
            || kept
            || self.depth == MAX_DEPTH
            || !node.min.is_const(0)
            || !self.indices.contains(&node.loop_var)
        {
            return None;
        }
        if !self.threads.is_empty() && !is_plain(node) {
            return None;
        }
        let mut conditions = self.conditions(node);
        conditions.visit_stmt(&node.body);
        let mut end = None;
        for limit in &conditions.ends {
            end = Some(end.map_or_else(|| limit.clone(), |end| self.smaller(end, limit)));
        }
        let end = self.smaller(node.extent.clone(), &end?);
        let end = self.analyzer.simplify(&if self.analyzer.const_int_bound(&end).min >= 0 {
            end
        } else {
            end.max(0)
        });
        if self.constant && (end.as_int().is_none() || node.extent.as_int().is_none()) {
            return None;
        }
        // Each block would have other loops.
        if self.blocks.iter().any(|it| uses_var(&end, it)) {
            return None;
        }
        if self.analyzer.const_int_bound(&end).max < 1 {
            return None;
        }
        let body =
            Without { conditions: Conditions { ends: Vec::new(), ..conditions } }.mutate_stmt(&node.body)?;
        let whole = For { extent: end.clone(), body, ..node.clone() };
        let count = self.analyzer.simplify(&(&node.extent - &end));
        let rest = if count.is_const(1) {
            one_iteration(&node.loop_var, &end, &node.body)
        } else {
            let few = self.analyzer.const_int_bound(&count).max <= 1;
            let kind = if few { ForKind::Serial } else { node.kind };
            let rest = For { min: end, extent: count, kind, ..node.clone() };
            let shorter = if self.constant { None } else { self.shortened(&rest) };
            shorter.unwrap_or_else(|| rest.into())
        };
        Some((whole.into(), rest))
    }

    /// `node` without the last iterations, if they do nothing; `None` if they are no symbolic number.
    fn shortened(&self, node: &For) -> Option<Stmt> {
        let vectorized = node.kind == ForKind::Vectorized;
        // Parts make no more iterations than there were.
        let long = node.extent.as_int().is_some_and(|extent| extent > PART && extent % PART == 0);
        let in_kernel = !self.threads.is_empty() || !self.blocks.is_empty();
        if in_kernel
            || !(node.kind == ForKind::Serial || vectorized && long)
            || !self.indices.contains(&node.loop_var)
        {
            return None;
        }
        let last = self.conditions(node).last_of(&node.body)?;
        let extent = self.smaller(node.extent.clone(), &self.analyzer.simplify(&(last - &node.min)));
        if extent.as_int().is_some() || same(&extent, &node.extent) {
            return None;
        }
        let extent = self.analyzer.simplify(&extent.max(0));
        if !vectorized {
            return Some(For { extent, ..node.clone() }.into());
        }
        let (part, lane) = (node.loop_var.renew(), node.loop_var.renew());
        let at = &node.min + &part * PART + &lane;
        let body = DeepSubstitute::stmt(FxHashMap::from_iter([(node.loop_var.id(), at)]), &node.body);
        let lanes = For { kind: ForKind::Vectorized, ..For::serial(lane, PrimExpr::index(PART), body) };
        let parts = (extent + (PART - 1)).floordiv(PART);
        Some(For { annotations: node.annotations.clone(), ..For::serial(part, parts, lanes.into()) }.into())
    }

    fn conditions<'a>(&'a self, node: &'a For) -> Conditions<'a> {
        Conditions {
            analyzer: &self.analyzer,
            indices: &self.indices,
            var: &node.loop_var,
            inner: self.threads.clone(),
            bound: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn smaller(&self, a: PrimExpr, b: &PrimExpr) -> PrimExpr {
        if self.analyzer.can_prove_less_equal(b, &a) {
            b.clone()
        } else if self.analyzer.can_prove_less_equal(&a, b) {
            a
        } else {
            a.min(b)
        }
    }
}

/// True for a loop of a thread that is long enough for two, and has neither loops nor barriers inside.
fn is_plain(node: &For) -> bool {
    fn has_loop(stmt: &Stmt) -> bool {
        matches!(stmt, Stmt::For(_) | Stmt::While(_) | Stmt::Evaluate(_))
            || stmt.children().into_iter().any(has_loop)
    }
    node.extent.as_int().is_none_or(|extent| extent >= LEAST_OF_THREAD) && !has_loop(&node.body)
}

/// Finds the conditions in the body of a loop that hold before some iteration, whatever the loops inside do.
struct Conditions<'a> {
    analyzer: &'a Analyzer,
    /// Dimensions, and variables of loops over them.
    indices: &'a [Var],
    /// Variable of the loop.
    var: &'a Var,
    /// The loops between the loop and the statement.
    inner: Vec<For>,
    /// Other variables that are bound in the body.
    bound: Vec<Var>,
    /// For each condition, the iteration from which on it may fail.
    ends: Vec<PrimExpr>,
}

impl Conditions<'_> {
    /// The iteration from which on `condition` may fail; `None` if it is not known to hold before any, or is not inside of
    /// an inner loop.
    fn end_of(&self, condition: &PrimExpr) -> Option<PrimExpr> {
        if self.inner.is_empty() {
            return None;
        }
        self.end_by(condition, |slack| slack.min)
    }

    /// The iteration from which on `condition` has a slack of 0 or less, if `bound` of its slacks counts.
    fn end_by(
        &self,
        condition: &PrimExpr,
        bound: impl FnOnce(IntervalSet) -> Option<PrimExpr>,
    ) -> Option<PrimExpr> {
        if !uses_var(condition, self.var) || !self.is_index_arithmetic(condition) {
            return None;
        }
        let linear =
            detect_linear_equation(&slack(condition)?, std::slice::from_ref(self.var), self.analyzer)?;
        let step = linear.coefficients[0].as_int().filter(|&it| it < 0)?.checked_neg()?;
        let mut domain = DomMap::default();
        for node in &self.inner {
            domain.insert(node.loop_var.id(), self.analyzer.range_set(&node.range(), &domain));
        }
        let base = bound(self.analyzer.int_set(&linear.base, &domain))?;
        let inside = self.inner.iter().map(|node| &node.loop_var).chain(&self.bound).chain([self.var]);
        if inside.into_iter().any(|var| uses_var(&base, var)) || !self.is_index_arithmetic(&base) {
            return None;
        }
        Some(self.analyzer.simplify(&((base - 1).floordiv(step) + 1)))
    }

    /// The iteration from which on `stmt` does nothing, whatever the loops inside do; `None` if there is no such condition.
    fn last_of(&mut self, stmt: &Stmt) -> Option<PrimExpr> {
        match stmt {
            Stmt::For(node) if !matches!(node.kind, ForKind::ThreadBinding(_)) => {
                self.inner.push(For { body: Stmt::nop(), ..(**node).clone() });
                let last = self.last_of(&node.body);
                self.inner.pop();
                last
            }
            Stmt::IfThenElse(node) if node.else_case.is_none() => {
                let last = |it: &PrimExpr| self.end_by(it, |slack| slack.max);
                let by_condition = conjuncts(&node.condition).iter().find_map(last);
                by_condition.or_else(|| self.last_of(&node.then_case))
            }
            Stmt::SeqStmt(stmts) => {
                let (first, others) = stmts.split_first()?;
                let last = self.last_of(first)?;
                let alike = |it: &Stmt| self.last_of(it).is_some_and(|it| same(&it, &last));
                others.iter().all(alike).then_some(last)
            }
            _ => None,
        }
    }

    /// True if `expr` has only variables that are dimensions or loops over them, and small constants: such arithmetic
    /// does not wrap.
    fn is_index_arithmetic(&self, expr: &PrimExpr) -> bool {
        let inner = |var: &Var| self.inner.iter().any(|node| node.loop_var == *var);
        !any_expr(expr, &mut |it| match it {
            PrimExpr::Var(var) => !self.indices.contains(var) && !inner(var),
            PrimExpr::IntImm(it) => it.value.unsigned_abs() > MAX_INDEX_CONSTANT,
            PrimExpr::Binary(_) | PrimExpr::Not(_) => false,
            _ => true,
        })
    }
}

impl Visitor for Conditions<'_> {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) => {
                self.inner.push(For { body: Stmt::nop(), ..(**node).clone() });
                walk_stmt(self, stmt);
                self.inner.pop();
            }
            Stmt::IfThenElse(node) if node.else_case.is_none() => {
                let ends: Vec<PrimExpr> =
                    conjuncts(&node.condition).iter().filter_map(|it| self.end_of(it)).collect();
                self.ends.extend(ends);
                walk_stmt(self, stmt);
            }
            Stmt::Bind(node) => self.bound.push(node.var.clone()),
            _ => walk_stmt(self, stmt),
        }
    }
}

/// Removes the conditions that [`Conditions`] finds.
struct Without<'a> {
    conditions: Conditions<'a>,
}

impl Mutator for Without<'_> {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                self.conditions.inner.push(For { body: Stmt::nop(), ..(**node).clone() });
                let new = self.walk_stmt(stmt);
                self.conditions.inner.pop();
                new
            }
            Stmt::IfThenElse(node) if node.else_case.is_none() => {
                let parts = conjuncts(&node.condition);
                let kept: Vec<PrimExpr> =
                    parts.iter().filter(|it| self.conditions.end_of(it).is_none()).cloned().collect();
                if kept.len() == parts.len() {
                    return self.walk_stmt(stmt);
                }
                let then_case = self.mutate_stmt(&node.then_case).unwrap_or_else(|| node.then_case.clone());
                Some(IfThenElse { condition: conjunction(kept), then_case, ..(**node).clone() }.folded())
            }
            _ => self.walk_stmt(stmt),
        }
    }
}
