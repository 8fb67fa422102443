//! Checks whether a statement writes every element of a buffer before it reads it.
//!
//! For every read there must be an earlier write that stored the element: the analysis solves the equations "index
//! written = index read" for the loop variables of the write. The solution must lie in the ranges of the loops around the
//! write and satisfy the conditions around it. A write that is conditional on a first iteration (`k == 0`, from an init)
//! counts as executed in that iteration. A store that reads its own buffer (a scan) reads the elements that it wrote in
//! earlier iterations of a serial loop. A buffer with zero elements is covered.

use std::cell::Cell;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::arith::Analyzer;
use crate::ir::{Var, VarId};
use crate::tir::{
    BinaryOp, Buffer, ForKind, Intrinsic, PrimCallee, PrimExpr, PrimFunc, Range, Stmt, Visitor, any_expr,
    substitute_expr, uses_var, walk_expr, walk_stmt,
};

use super::context::{analyzer_for, enter_loop};
use super::convert_blocks_to_opaque::without_axes;
use super::lower_init_block::without_inits;
use super::lower_opaque_block::without_blocks;

/// True when `stmt` writes each element of `buffer` that it reads before reading it.
pub(super) fn is_covered(analyzer: &Analyzer, buffer: &Buffer, stmt: &Stmt) -> bool {
    let mut coverage = Coverage::new(analyzer, buffer);
    coverage.visit_stmt(stmt);
    coverage.covered || is_empty(analyzer, buffer)
}

/// True when every iteration of the loop `var` of `func` (`None`: the whole program) writes each element of `buffer` that
/// it reads before reading it, as far as lowering will be able to prove: such a buffer may be allocated inside the loop.
pub(in crate::tir) fn is_covered_in(func: &PrimFunc, var: Option<VarId>, buffer: &Buffer) -> bool {
    let steps = [without_inits, without_axes, without_blocks];
    let body = steps.iter().fold(func.body.clone(), |body, step| step(&body).unwrap_or(body));
    let analyzer = analyzer_for(func);
    let Some(var) = var else { return is_covered(&analyzer, buffer, &body) };
    let mut find = Find { var, buffer, analyzer, covered: false };
    find.visit_stmt(&body);
    find.covered
}

/// Finds the loop `var` and checks its body.
struct Find<'a> {
    var: VarId,
    buffer: &'a Buffer,
    analyzer: Analyzer,
    covered: bool,
}

impl Visitor for Find<'_> {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        let Stmt::For(node) = stmt else { return walk_stmt(self, stmt) };
        enter_loop(&mut self.analyzer, node);
        if node.loop_var.id() == self.var {
            self.covered = is_covered(&self.analyzer, self.buffer, &node.body);
        } else {
            walk_stmt(self, stmt);
        }
    }
}

/// True when `stmt` writes every element of `buffer`, and does so before reading it.
pub(super) fn writes_all(analyzer: &Analyzer, buffer: &Buffer, stmt: &Stmt) -> bool {
    let mut coverage = Coverage::new(analyzer, buffer);
    coverage.visit_stmt(stmt);
    coverage.covered && coverage.is_written() || is_empty(analyzer, buffer)
}

fn is_empty(analyzer: &Analyzer, buffer: &Buffer) -> bool {
    let none = PrimExpr::index(0);
    buffer.shape.iter().any(|extent| analyzer.can_prove_less_equal(extent, &none))
}

impl<'a> Coverage<'a> {
    fn new(analyzer: &Analyzer, buffer: &'a Buffer) -> Coverage<'a> {
        Coverage {
            buffer,
            analyzer: analyzer.clone(),
            loops: Vec::new(),
            conditions: Vec::new(),
            writes: Vec::new(),
            under_way: None,
            uncertain: false,
            opaque: FxHashSet::default(),
            covered: true,
            budget: Cell::new(BUDGET),
        }
    }
}

/// Maximum number of pairs of a read and a write that are compared, so that programs of thousands of statements stay
/// cheap.
const BUDGET: u32 = 4096;

/// The largest number of lanes by which a condition may differ from an index.
const MOST_LANES: i64 = 16;

struct Loop {
    var: Var,
    range: Range,
    /// True when its iterations run one after another.
    in_order: bool,
}

struct Write {
    indices: Vec<PrimExpr>,
    loops: Vec<(Var, Range)>,
    conditions: Vec<PrimExpr>,
}

struct Coverage<'a> {
    buffer: &'a Buffer,
    analyzer: Analyzer,
    loops: Vec<Loop>,
    conditions: Vec<PrimExpr>,
    writes: Vec<Write>,
    /// The store whose operands are being visited; `None` inside a `while` or if its place is unknown.
    under_way: Option<Write>,
    /// True inside a `while`, which may have no iteration.
    uncertain: bool,
    /// Variables bound inside, whose values are unknown.
    opaque: FxHashSet<VarId>,
    covered: bool,
    /// Number of pairs of a read and a write that may still be compared.
    budget: Cell<u32>,
}

impl Coverage<'_> {
    /// True when `expr` is arithmetic on loop variables and on variables bound outside.
    fn is_known(&self, expr: &PrimExpr) -> bool {
        !any_expr(expr, &mut |expr| match expr {
            PrimExpr::Var(var) => self.opaque.contains(&var.id()),
            PrimExpr::BufferLoad(_)
            | PrimExpr::Call(_)
            | PrimExpr::Let(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_) => true,
            _ => false,
        })
    }

    /// A store at `indices` here; `None` if its place is not known arithmetic (see `is_known`).
    fn write(&self, indices: &[PrimExpr]) -> Option<Write> {
        let ranges = self.loops.iter().flat_map(|it| [&it.range.min, &it.range.extent]);
        let known = indices.iter().chain(&self.conditions).chain(ranges).all(|expr| self.is_known(expr));
        known.then(|| Write {
            indices: indices.to_vec(),
            loops: self.loops.iter().map(|it| (it.var.clone(), it.range.clone())).collect(),
            conditions: self.conditions.clone(),
        })
    }

    fn read(&mut self, indices: &[PrimExpr]) {
        if !self.covered {
            return;
        }
        let known = indices.iter().all(|expr| self.is_known(expr));
        self.covered = known && self.is_written_at(indices) || self.is_written();
    }

    /// True when the element at `indices` was written.
    fn is_written_at(&self, indices: &[PrimExpr]) -> bool {
        let analyzer = self.here();
        self.find(&analyzer, indices) || self.was_written_earlier(&analyzer, indices)
    }

    /// An analyzer that knows the conditions here.
    fn here(&self) -> Analyzer {
        let mut analyzer = self.analyzer.clone();
        for condition in self.conditions.iter().filter(|condition| self.is_known(condition)) {
            analyzer.enter_constraint(condition);
        }
        analyzer
    }

    /// True when the store being visited stored the element at `indices` in an earlier iteration of a loop around it.
    fn was_written_earlier(&self, analyzer: &Analyzer, indices: &[PrimExpr]) -> bool {
        let Some(write) = &self.under_way else { return false };
        (0..self.loops.len()).any(|at| {
            self.loops[at].in_order && {
                let solution = self.covers_from(analyzer, write, indices, at);
                let var = &self.loops[at].var;
                let iteration = solution.and_then(|mut it| it.remove(&var.id()));
                iteration.is_some_and(|it| analyzer.can_prove_less(&it, &var.into()))
            }
        })
    }

    /// True when one of the writes is found, within the budget, to have stored the element at `indices`.
    fn find(&self, analyzer: &Analyzer, indices: &[PrimExpr]) -> bool {
        self.writes.iter().rev().any(|write| {
            let left = self.budget.get();
            self.budget.set(left.saturating_sub(1));
            left > 0 && self.covers(analyzer, write, indices).is_some()
        })
    }

    /// True when every element was written.
    fn is_written(&self) -> bool {
        let mut analyzer = self.here();
        let any = |extent: &PrimExpr| {
            let var = Var::index("any");
            analyzer.bind_range(&var, &Range::from_extent(extent.clone()));
            PrimExpr::from(var)
        };
        let indices: Vec<PrimExpr> = self.buffer.shape.iter().map(any).collect();
        self.find(&analyzer, &indices)
    }

    /// Visits `expr`, which is evaluated only where `condition` holds.
    fn under(&mut self, condition: PrimExpr, expr: &PrimExpr) {
        self.conditions.push(condition);
        self.visit_expr(expr);
        self.conditions.pop();
    }

    /// `Some` when `write` stored the element at `indices` before.
    fn covers(&self, analyzer: &Analyzer, write: &Write, indices: &[PrimExpr]) -> Option<()> {
        let common = self.loops.iter().zip(&write.loops).take_while(|(a, (b, _))| a.var == *b).count();
        self.covers_from(analyzer, write, indices, common).map(drop)
    }

    /// The iteration of the loops from number `common` on in which `write` stores the element at `indices`; the loops
    /// before are in the same iteration as the read.
    fn covers_from(
        &self,
        analyzer: &Analyzer,
        write: &Write,
        indices: &[PrimExpr],
        common: usize,
    ) -> Option<FxHashMap<VarId, PrimExpr>> {
        let mut solution: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
        let mut solved: Vec<&(Var, Range)> = Vec::new();
        for (at, loop_) in write.loops.iter().enumerate() {
            let (var, range) = loop_;
            if write.indices.iter().any(|index| uses_var(index, var)) {
                if at >= common {
                    solved.push(loop_);
                }
            } else if write.conditions.iter().any(|condition| uses_var(condition, var)) || at >= common {
                // Take the first iteration: it exists if the loop is also around the read, else that must be proven.
                if at >= common && !analyzer.can_prove(&range.extent.clone().greater(0)) {
                    return None;
                }
                solution.insert(var.id(), range.min.clone());
            }
        }
        for (var, _) in &solved {
            if let Some(value) = from_digits(&write.indices, indices, var) {
                solution.insert(var.id(), value);
            }
        }
        let at_indices = || write.indices.iter().zip(indices);
        let mut enumerated = Vec::new();
        for (written, read) in at_indices() {
            enumerated.push(solve(analyzer, written, read, &solved, &mut solution)?);
        }
        let at_solution = |expr: &PrimExpr| substitute_expr(expr, &solution);
        for ((written, read), enumerated) in at_indices().zip(&enumerated) {
            let equal = *enumerated || analyzer.can_prove_equal(&at_solution(written), read);
            equal.then_some(())?;
        }
        for (var, range) in &solved {
            let value = solution.get(&var.id())?;
            let (min, extent) = (at_solution(&range.min), at_solution(&range.extent));
            analyzer.can_prove_less_equal(&min, value).then_some(())?;
            analyzer.can_prove_less(value, &(min + extent)).then_some(())?;
        }
        // `a < b` holds if `f * a` is an index written plus `rest`, and `f * b` is larger than the index read plus this rest.
        let below = |condition: &PrimExpr| {
            let PrimExpr::Binary(it) = condition else { return false };
            let factors = solved.iter().filter_map(|it| it.1.extent.as_int());
            it.op == BinaryOp::Lt
                && [1].into_iter().chain(factors).filter(|it| (1..=MOST_LANES).contains(it)).any(|factor| {
                    at_indices().any(|(written, read)| {
                        let rest = analyzer.simplify(&(it.a.clone() * factor - written));
                        let below = read + at_solution(&rest);
                        analyzer.can_prove_less(&below, &(at_solution(&it.b) * factor))
                    })
                })
        };
        let holds = |it: &PrimExpr| analyzer.can_prove(&at_solution(it)) || below(it);
        write.conditions.iter().all(holds).then_some(solution)
    }
}

/// The value of `var` for which the indices `written` are those that are `read`, if they are digits of `var`, as after loops
/// were fused: `var / 12`, `var / 4 % 3`, `var % 4`.
fn from_digits(written: &[PrimExpr], read: &[PrimExpr], var: &Var) -> Option<PrimExpr> {
    let mut digits = written.iter().zip(read).filter(|(index, _)| uses_var(index, var)).peekable();
    digits.peek().filter(|(index, _)| index.as_var().is_none())?;
    digits.try_fold(PrimExpr::int(0, var.dtype()), |value, (index, read)| {
        Some(value + read * digit_place(index, var)?)
    })
}

/// What a digit of `var` counts.
fn digit_place(digit: &PrimExpr, var: &Var) -> Option<i64> {
    match digit {
        PrimExpr::Var(it) => (it == var).then_some(1),
        PrimExpr::Binary(it) if it.op == BinaryOp::FloorMod && it.b.as_int()? > 0 => digit_place(&it.a, var),
        PrimExpr::Binary(it) if it.op == BinaryOp::FloorDiv => {
            let by = it.b.as_int().filter(|&by| by > 0)?;
            digit_place(&it.a, var)?.checked_mul(by)
        }
        _ => None,
    }
}

/// Solves `written = read` for those of `vars` that `written` uses, and adds their values to `solution`. `written` must
/// be `rest + v`, or `rest + c1 * v1 + c2 * v2 + …` that enumerates an interval without gaps. True if that is proven, so that the
/// values give `read`.
fn solve(
    analyzer: &Analyzer,
    written: &PrimExpr,
    read: &PrimExpr,
    vars: &[&(Var, Range)],
    solution: &mut FxHashMap<VarId, PrimExpr>,
) -> Option<bool> {
    let used: Vec<&(Var, Range)> = vars
        .iter()
        .filter(|(var, _)| uses_var(written, var) && !solution.contains_key(&var.id()))
        .copied()
        .collect();
    let zero = |except: Option<&Var>| {
        let value = |var: &Var| PrimExpr::int(i64::from(except == Some(var)), var.dtype());
        used.iter().map(|(var, _)| (var.id(), value(var))).collect::<FxHashMap<_, _>>()
    };
    let rest = analyzer.simplify(&substitute_expr(written, &zero(None)));
    let mut digits = Vec::new();
    for (var, range) in &used {
        let with_one = substitute_expr(written, &zero(Some(var)));
        let coefficient = analyzer.simplify(&(with_one - &rest)).as_int().filter(|&c| c > 0)?;
        digits.push((coefficient, var, range));
    }
    digits.sort_by_key(|(coefficient, ..)| *coefficient);
    let offset = analyzer.simplify(&(read.clone() - &rest));
    if let [(1, var, _)] = &digits[..] {
        solution.insert(var.id(), offset);
        return Some(false);
    }
    let sum = digits
        .iter()
        .fold(rest.clone(), |sum, (coefficient, var, _)| sum + PrimExpr::from(*var) * *coefficient);
    let linear = !vars.iter().any(|(var, _)| uses_var(&rest, var)) && analyzer.can_prove_equal(&sum, written);
    let mut expected = 1;
    for (place, (coefficient, var, range)) in digits.iter().enumerate() {
        let extent = range.extent.as_int();
        if *coefficient != expected || !range.min.is_const(0) {
            return None;
        }
        let digit = offset.clone().floordiv(*coefficient);
        let last = place + 1 == digits.len();
        let digit = if last { digit } else { digit.floormod(extent?) };
        solution.insert(var.id(), analyzer.simplify(&digit));
        if !last {
            expected = coefficient.checked_mul(extent?)?;
        }
    }
    Some(linear && !digits.is_empty())
}

impl Visitor for Coverage<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::BufferLoad(load) if load.buffer == *self.buffer => self.read(&load.indices),
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf) => {
                let hidden = any_expr(
                    expr,
                    &mut |expr| matches!(expr, PrimExpr::BufferLoad(load) if load.buffer == *self.buffer),
                );
                self.covered &= !hidden;
            }
            PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                if let [condition, then, other] = &*call.args {
                    self.visit_expr(condition);
                    self.under(condition.clone(), then);
                    self.under(!condition.clone(), other);
                    return;
                }
            }
            PrimExpr::Let(it) => drop(self.opaque.insert(it.var.id())),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) => {
                self.visit_expr(&node.min);
                self.visit_expr(&node.extent);
                enter_loop(&mut self.analyzer, node);
                let in_order = matches!(node.kind, ForKind::Serial | ForKind::Unrolled);
                self.loops.push(Loop { var: node.loop_var.clone(), range: node.range(), in_order });
                self.visit_stmt(&node.body);
                self.loops.pop();
            }
            Stmt::IfThenElse(node) => {
                self.visit_expr(&node.condition);
                self.conditions.push(node.condition.clone());
                self.visit_stmt(&node.then_case);
                self.conditions.pop();
                if let Some(other) = &node.else_case {
                    self.conditions.push(!node.condition.clone());
                    self.visit_stmt(other);
                    self.conditions.pop();
                }
            }
            Stmt::BufferStore(store) => {
                if store.buffer != *self.buffer {
                    return walk_stmt(self, stmt);
                }
                self.under_way = if self.uncertain { None } else { self.write(&store.indices) };
                walk_stmt(self, stmt);
                let made = self.under_way.take().or_else(|| self.write(&store.indices));
                self.writes.extend(made);
            }
            Stmt::While(node) => {
                // Its writes count only within one iteration: there may be no iteration.
                self.visit_expr(&node.condition);
                let before = self.writes.len();
                let outer = std::mem::replace(&mut self.uncertain, true);
                self.visit_stmt(&node.body);
                self.uncertain = outer;
                self.visit_expr(&node.condition);
                self.writes.truncate(before);
            }
            Stmt::Bind(node) => {
                self.opaque.insert(node.var.id());
                walk_stmt(self, stmt);
            }
            Stmt::SeqStmt(_)
            | Stmt::BlockRealize(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => walk_stmt(self, stmt),
        }
    }
}
