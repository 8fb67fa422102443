//! Loops that are bound to the same thread index inside another loop over threads. The same threads run all of them,
//! and do not wait for each other between two such loops, nor between the iterations of a serial loop around one: except
//! for shared memory, for which lowering inserts barriers ([`thread_sync`](crate::tir::transform::thread_sync)).

use rustc_hash::FxHashMap;

use super::injective::bindings;
use super::{child_blocks, is_atomic_update, is_private, reduces_across};
use crate::arith::{Analyzer, DomMap, IntervalSet, detect_linear_equation};
use crate::ir::{Var, VarId};
use crate::tir::schedule::rewrite::{bind_loop, dims_analyzer};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef};
use crate::tir::{
    BlockRealize, Buffer, BufferRegion, For, ForKind, Intrinsic, PrimCallee, PrimExpr, Range, Scope, Stmt,
    ThreadTag, Visitor, any_expr, substitute_expr,
};

/// Checks the loop `a` against the loops over the same threads: no two threads access the same element, unless both
/// only read it, or threads of one block wait for each other (`waits`) and it is in shared memory. Each pair of loops is
/// checked from one of them.
pub(in crate::tir::schedule) fn check_same_threads(
    name: &'static str,
    state: &ScheduleState,
    a: VarId,
    waits: bool,
) -> Result<(), ScheduleError> {
    let Some(tag) = thread_tag(state, a) else { return Ok(()) };
    let same = |&b: &VarId| a <= b && thread_tag(state, b) == Some(tag);
    let mut others: Vec<VarId> = state.side_by_side().iter().copied().filter(same).collect();
    others.sort_unstable();
    let waits = waits && of_one_block(tag);
    for b in others {
        if let Some(pair) = Pair::of(state, a, b)? {
            pair.check(name, waits)?;
        }
    }
    Ok(())
}

fn thread_tag(state: &ScheduleState, var: VarId) -> Option<ThreadTag> {
    match state.get_for(var).ok()?.kind {
        ForKind::ThreadBinding(tag) => Some(tag),
        ForKind::Serial | ForKind::Unrolled | ForKind::Parallel | ForKind::Vectorized => None,
    }
}

/// True when `tag` numbers threads of one block.
fn of_one_block(tag: ThreadTag) -> bool {
    match tag {
        ThreadTag::ThreadIdxX | ThreadTag::ThreadIdxY | ThreadTag::ThreadIdxZ => true,
        ThreadTag::BlockIdxX | ThreadTag::BlockIdxY | ThreadTag::BlockIdxZ | ThreadTag::Vthread => false,
    }
}

/// The loops around `sref`, outermost first.
fn loops_around(state: &ScheduleState, sref: StmtSRef) -> Vec<VarId> {
    let loop_of = |it| if let StmtSRef::Loop(var) = it { Some(var) } else { None };
    let mut loops: Vec<VarId> = state.ancestors(sref).filter_map(loop_of).collect();
    loops.reverse();
    loops
}

/// Two loops of one kernel, neither inside the other; or the same loop twice, if the kernel runs it several times.
struct Pair<'a> {
    state: &'a ScheduleState,
    sides: [&'a For; 2],
    /// Substitutions for loop variables: `thread` for the two loops of the pair, and one variable for both sides where
    /// loops around them are over the same threads.
    threads: FxHashMap<VarId, PrimExpr>,
    thread: Var,
    /// The loops outside of the kernel.
    outside: Vec<VarId>,
    analyzer: Analyzer,
}

/// The indices that a thread touches in one dimension: `slope * thread + rest`.
struct Line {
    slope: i64,
    rest: IntervalSet,
    /// True if the thread is a digit of the index: all else in it is either a multiple of what all threads span, or less than
    /// the slope.
    digit: bool,
}

impl<'a> Pair<'a> {
    fn of(state: &'a ScheduleState, a: VarId, b: VarId) -> Result<Option<Pair<'a>>, ScheduleError> {
        let [over_a, over_b] = [a, b].map(|var| loops_around(state, StmtSRef::Loop(var)));
        let shared = over_a.iter().zip(&over_b).take_while(|(a, b)| a == b).count();
        let tag = |var: &VarId| thread_tag(state, *var);
        let Some(kernel) = over_a[..shared].iter().position(|it| tag(it).is_some()) else { return Ok(None) };
        let once = |var: &VarId| state.get_for(*var).is_ok_and(|node| node.extent.is_const(1));
        let runs_once = || over_a[kernel..].iter().all(|it| tag(it).is_some() || once(it));
        if over_a.contains(&b) || over_b.contains(&a) || (a == b && runs_once()) {
            return Ok(None);
        }
        let sides = [state.get_for(a)?.as_ref(), state.get_for(b)?.as_ref()];
        let thread = Var::index("thread");
        let mut threads = FxHashMap::from_iter([(a, PrimExpr::from(&thread)), (b, PrimExpr::from(&thread))]);
        for of_a in &over_a[kernel..] {
            let same = over_b[kernel..].iter().find(|it| tag(it).is_some() && tag(it) == tag(of_a));
            if let Some(of_b) = same {
                let var = PrimExpr::from(&state.get_for(*of_a)?.loop_var);
                threads.extend([(*of_a, var.clone()), (*of_b, var)]);
            }
        }
        let outside = over_a[..kernel].to_vec();
        let mut analyzer = dims_analyzer(state);
        // The same loop around both sides: its variable has one value, in its range.
        for var in over_a.iter().zip(&over_b).take_while(|(a, b)| a == b).map(|it| it.0) {
            if outside.contains(var) || tag(var).is_some() {
                bind_loop(&mut analyzer, state.get_for(*var)?);
            }
        }
        Ok(Some(Pair { state, sides, threads, thread, outside, analyzer }))
    }

    fn check(&self, name: &'static str, waits: bool) -> Result<(), ScheduleError> {
        let [blocks_a, blocks_b] = self.sides.map(|node| child_blocks(&node.body));
        for (a, b) in blocks_a.iter().flat_map(|a| blocks_b.iter().map(move |b| (a, b))) {
            for (region_a, writes_a) in accesses(a) {
                let buffer = &region_a.buffer;
                for (region_b, writes_b) in accesses(b).filter(|(it, _)| it.buffer == *buffer) {
                    let private = || self.sides.iter().all(|node| is_private(self.state, node, buffer));
                    let ordered = match buffer.scope {
                        Scope::Shared | Scope::SharedDyn => waits || has_barriers(&self.state.func().body),
                        Scope::Global | Scope::Warp => has_barriers(&self.state.func().body),
                        // Each thread has its own.
                        Scope::Local => false,
                    };
                    // The first thread writes what threads reduce.
                    let by_first = self.reduces(0, a, buffer) && self.reduces(1, b, buffer);
                    // In any order, as those of one run of the loop.
                    let atomic = a.block.id == b.block.id && is_atomic_update(a);
                    if (writes_a || writes_b)
                        && !ordered
                        && !by_first
                        && !atomic
                        && !self.are_apart((a, region_a), (b, region_b))?
                        && !private()
                    {
                        return Err(self.refused(name, buffer));
                    }
                }
            }
        }
        Ok(())
    }

    /// True if the threads of a side divide the terms of `buffer` among them, which `realize` computes.
    fn reduces(&self, side: usize, realize: &BlockRealize, buffer: &Buffer) -> bool {
        reduces_across(self.sides[side]) && realize.block.writes.iter().any(|it| it.buffer == *buffer)
    }

    fn refused(&self, name: &'static str, buffer: &Buffer) -> ScheduleError {
        let [a, b] = self.sides.map(|node| self.state.loop_name(node.loop_var.id()));
        let who = if a == b {
            format!("threads run loop `{a}` several times, and do not wait for each other")
        } else {
            format!("loops `{a}` and `{b}` are run by the same threads, which do not wait for each other")
        };
        let message = format!("{who}: one may touch elements of `{}` that another one writes", buffer.name);
        ScheduleError::illegal(name, message)
            .help("compute what is shared in the loop that uses it (`compute_at`), in memory that the threads share (`set_scope`), or in a kernel of its own")
            .show(self.state, &self.sides.map(|node| StmtSRef::Loop(node.loop_var.id())))
    }

    /// True when different threads touch different elements: in some dimension their lines have the same slope, and any
    /// two values of their rests differ by less than the absolute slope, or the thread is a digit of both.
    fn are_apart(
        &self,
        (a, region_a): (&BlockRealize, &BufferRegion),
        (b, region_b): (&BlockRealize, &BufferRegion),
    ) -> Result<bool, ScheduleError> {
        for (range_a, range_b) in region_a.region.iter().zip(region_b.region.iter()) {
            let lines = (self.line(a, range_a)?, self.line(b, range_b)?);
            let (Some(a), Some(b)) = lines else { continue };
            let narrow = |max: &Option<PrimExpr>, min: &Option<PrimExpr>| match (max, min) {
                (Some(max), Some(min)) => {
                    self.analyzer.can_prove_less(&(max - min), &PrimExpr::index(a.slope.saturating_abs()))
                }
                _ => false,
            };
            let near = || narrow(&a.rest.max, &b.rest.min) && narrow(&b.rest.max, &a.rest.min);
            if a.slope == b.slope && ((a.digit && b.digit) || near()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The line of `range`, whose ends are over the axes of `realize`; `None` if its start does not depend linearly on
    /// the thread.
    fn line(&self, realize: &BlockRealize, range: &Range) -> Result<Option<Line>, ScheduleError> {
        let sref = StmtSRef::Block(realize.block.id);
        let mut values = self.threads.clone();
        let mut blocks: Vec<StmtSRef> = self.state.ancestors(sref).collect();
        blocks.reverse();
        for outer in blocks.into_iter().chain([sref]) {
            if let StmtSRef::Block(id) = outer {
                let axes = bindings(self.state.get_block(id)?);
                let axes = axes.into_iter().map(|(axis, value)| (axis, substitute_expr(&value, &values)));
                let axes: Vec<_> = axes.collect();
                values.extend(axes);
            }
        }
        let at_loops = |range: &Range| Range {
            min: substitute_expr(&range.min, &values),
            extent: substitute_expr(&range.extent, &values),
        };
        let mut dom = DomMap::default();
        let mut inner = self.analyzer.clone();
        for var in loops_around(self.state, sref) {
            if !self.outside.contains(&var) && !self.threads.contains_key(&var) {
                let node = self.state.get_for(var)?;
                let range = at_loops(&node.range());
                inner.bind_range(&node.loop_var, &range);
                dom.insert(var, self.analyzer.range_set(&range, &dom));
            }
        }
        let Range { min, extent } = at_loops(range);
        let Some(line) = detect_linear_equation(&min, std::slice::from_ref(&self.thread), &self.analyzer)
        else {
            return Ok(None);
        };
        let slope = line.coefficients[0].as_int();
        let digit = slope.is_some_and(|slope| self.is_digit(slope, &line.base, &extent, &inner));
        let rest = self.analyzer.range_set(&Range { min: line.base, extent }, &dom);
        let ends = [&rest.min, &rest.max];
        let fixed = ends.into_iter().flatten().all(|end| {
            !any_expr(end, &mut |it| {
                matches!(it, PrimExpr::BufferLoad(_)) || it.as_var() == Some(&self.thread)
            })
        });
        let slope = slope.filter(|slope| *slope != 0 && fixed);
        Ok(slope.map(|slope| Line { slope, rest, digit }))
    }

    /// True if the thread is a digit of all indices `slope * thread + base + i`, with `i` below `extent`.
    fn is_digit(&self, slope: i64, base: &PrimExpr, extent: &PrimExpr, inner: &Analyzer) -> bool {
        let extent_of = |node: &For| node.extent.as_int().filter(|_| node.min.is_const(0));
        let [Some(a), Some(b)] = self.sides.map(extent_of) else { return false };
        let all = a.max(b).checked_mul(slope).filter(|all| *all > 0);
        all.is_some_and(|all| inner.can_prove_less(&(base.clone().floormod(all) + extent - 1), &slope.into()))
    }
}

/// True when `stmt` contains barriers. Only modules that were built or read contain any; whether the barriers stand
/// where they must is not checked.
fn has_barriers(stmt: &Stmt) -> bool {
    struct Barriers(bool);
    impl Visitor for Barriers {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.0 |= any_expr(expr, &mut |it| match it {
                PrimExpr::Call(call) => call.callee == PrimCallee::Intrinsic(Intrinsic::StorageSync),
                _ => false,
            });
        }
    }
    let mut barriers = Barriers(false);
    barriers.visit_stmt(stmt);
    barriers.0
}

/// The regions that `realize` reads and writes; the flag is true for writes.
fn accesses(realize: &BlockRealize) -> impl Iterator<Item = (&BufferRegion, bool)> {
    let reads = realize.block.reads.iter().map(|it| (it, false));
    reads.chain(realize.block.writes.iter().map(|it| (it, true)))
}
