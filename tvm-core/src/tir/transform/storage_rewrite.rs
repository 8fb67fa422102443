//! Buffers that are not in use at the same time share memory.
//!
//! Among the buffers that one sequence of statements allocates, a buffer takes the memory of another one of its type and
//! scope if the sequence has passed all statements that access the other. A loop is one statement of the sequence around
//! it, so what a loop allocates in each iteration stays there. Where both sizes are constant, the memory gets the larger one;
//! else the new buffer must be known to fit.
//!
//! The last statement that reads a buffer may overwrite it: `b[i] = f(a[i])`, for one store in loops that visit each place once,
//! with every load of `a` at the place of the store.
//!
//! Buffers of less than 4 KiB stay, because compilers keep them in registers. So do buffers whose address is
//! taken, and programs for GPUs, where threads may run one statement while others run the next.
//!
//! TVM counterpart: `StorageRewrite`, which also shares memory between types.
//! Requires: flat buffers, whose elements are written before they are read
//! ([`zero_unwritten`](super::zero_unwritten)). Ensures: the same.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::context::{analyzer_for, enter_loop, reads};
use super::util::body_pass;
use crate::arith::{Analyzer, IterMapLevel, detect_iter_map};
use crate::ir::{BufferId, Var};
use crate::pass::Pass;
use crate::tir::analysis::{Addresses, same_indices};
use crate::tir::{
    AllocBuffer, Buffer, BufferStore, For, ForKind, Mutator, PrimExpr, Range, Scope, Stmt, Substitute,
    Visitor, any_expr, uses_var, walk_expr, walk_stmt,
};

/// Buffers of fewer bytes keep memory of their own: twice what the largest register files of vectors hold.
const SMALLEST: i64 = 4096;

/// Lets buffers share memory.
pub fn storage_rewrite() -> Pass {
    sharing_from(SMALLEST)
}

/// Lets buffers of at least `smallest` bytes share memory.
fn sharing_from(smallest: i64) -> Pass {
    body_pass("StorageRewrite", move |func| {
        if any_loop(&func.body, |kind| matches!(kind, ForKind::ThreadBinding(_))) {
            return None;
        }
        let mut fixed = Addresses::default();
        fixed.visit_stmt(&func.body);
        Rewrite { analyzer: analyzer_for(func), smallest, fixed: fixed.0 }.mutate_stmt(&func.body)
    })
}

fn any_loop(stmt: &Stmt, wanted: fn(ForKind) -> bool) -> bool {
    struct Find(fn(ForKind) -> bool, bool);
    impl Visitor for Find {
        fn visit_expr(&mut self, _: &PrimExpr) {}
        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.1 |= matches!(stmt, Stmt::For(node) if (self.0)(node.kind));
            if !self.1 {
                walk_stmt(self, stmt);
            }
        }
    }
    let mut find = Find(wanted, false);
    find.visit_stmt(stmt);
    find.1
}

struct Rewrite {
    analyzer: Analyzer,
    /// Buffers of fewer bytes do not share.
    smallest: i64,
    /// Buffers whose address is taken.
    fixed: FxHashSet<BufferId>,
}

impl Mutator for Rewrite {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::For(node) = stmt {
            enter_loop(&mut self.analyzer, node);
        }
        let walked = self.walk_stmt(stmt);
        let Stmt::SeqStmt(stmts) = walked.as_ref().unwrap_or(stmt) else { return walked };
        self.share(stmts).map(Stmt::seq).or(walked)
    }
}

/// Memory that buffers take one after the other.
struct Slot<'a> {
    /// The first buffer, in whose place the memory is allocated.
    first: &'a Buffer,
    extent: PrimExpr,
    /// The buffer that is in the memory, and the last statement that accesses it.
    last: (&'a Buffer, usize),
    others: Vec<BufferId>,
}

impl Rewrite {
    /// The sequence `stmts`, in which buffers share memory; `None` if none of them can.
    fn share(&self, stmts: &[Stmt]) -> Option<Vec<Stmt>> {
        let allocs = stmts.iter().filter_map(|stmt| match stmt {
            Stmt::AllocBuffer(alloc) if self.may_share(alloc) => Some(&alloc.buffer),
            _ => None,
        });
        let allocs: Vec<&Buffer> = allocs.collect();
        if allocs.len() < 2 {
            return None;
        }
        let mut lives: Vec<(&Buffer, usize, usize)> = Vec::new();
        let accessed: Vec<FxHashSet<BufferId>> = stmts.iter().map(Accessed::of).collect();
        for buffer in allocs {
            let mut users = (0..stmts.len()).filter(|&at| accessed[at].contains(&buffer.id));
            if let Some(first) = users.next() {
                lives.push((buffer, first, users.next_back().unwrap_or(first)));
            }
        }
        lives.sort_by_key(|(_, first, _)| *first);
        let mut slots: Vec<Slot<'_>> = Vec::new();
        for (buffer, first, last) in lives {
            match self.slot_for(&slots, buffer, (first, &stmts[first])) {
                Some((at, extent)) => {
                    let slot = &mut slots[at];
                    slot.extent = extent;
                    slot.last = (buffer, last);
                    slot.others.push(buffer.id);
                }
                None => {
                    let (extent, others) = (buffer.shape[0].clone(), Vec::new());
                    slots.push(Slot { first: buffer, extent, last: (buffer, last), others });
                }
            }
        }
        let mut new = Substitute::default();
        let mut gone: FxHashSet<BufferId> = FxHashSet::default();
        for slot in slots.into_iter().filter(|slot| !slot.others.is_empty()) {
            let memory = slot.first.renew(|node| node.shape = Arc::new([slot.extent.clone()]));
            gone.extend(slot.others.iter().copied());
            let all = slot.others.iter().copied().chain([slot.first.id]);
            new.buffers.extend(all.map(|id| (id, memory.clone())));
        }
        if gone.is_empty() {
            return None;
        }
        let kept = stmts.iter().filter_map(|stmt| match stmt {
            Stmt::AllocBuffer(alloc) if gone.contains(&alloc.buffer.id) => None,
            Stmt::AllocBuffer(alloc) => match new.buffers.get(&alloc.buffer.id) {
                Some(memory) => Some(AllocBuffer { buffer: memory.clone(), ..(**alloc).clone() }.into()),
                None => Some(stmt.clone()),
            },
            _ => Some(new.mutate_stmt(stmt).unwrap_or_else(|| stmt.clone())),
        });
        Some(kept.collect())
    }

    fn may_share(&self, alloc: &AllocBuffer) -> bool {
        let buffer = &alloc.buffer;
        let [extent] = &*buffer.shape else { return false };
        let bytes = extent.as_int().map(|extent| extent.checked_mul(buffer.dtype.bytes() as i64));
        buffer.scope == Scope::Global
            && buffer.strides.is_empty()
            && buffer.elem_offset.is_none()
            && alloc.annotations.is_empty()
            && bytes.is_none_or(|bytes| bytes.is_some_and(|bytes| bytes >= self.smallest))
            && !reads(extent)
            && !self.fixed.contains(&buffer.id)
    }

    /// A slot for `buffer`, which `stmt`, the statement `at` of the sequence, is the first to access; and the size that the slot
    /// then has.
    fn slot_for(
        &self,
        slots: &[Slot<'_>],
        buffer: &Buffer,
        (at, stmt): (usize, &Stmt),
    ) -> Option<(usize, PrimExpr)> {
        let fits = |slot: &Slot<'_>| {
            let (had, needed) = (&slot.extent, &buffer.shape[0]);
            if slot.first.dtype != buffer.dtype || slot.first.scope != buffer.scope {
                return None;
            }
            match (had.as_int(), needed.as_int()) {
                (Some(a), Some(b)) => Some(PrimExpr::index(a.max(b))),
                _ => self.analyzer.can_prove_less_equal(needed, had).then(|| had.clone()),
            }
        };
        let sized = slots.iter().enumerate().filter_map(|(i, slot)| Some((i, slot, fits(slot)?)));
        let sized: Vec<(usize, &Slot<'_>, PrimExpr)> = sized.collect();
        let in_place = sized.iter().find(|(_, slot, _)| {
            slot.last.1 == at && Overwrite::is_possible(&self.analyzer, stmt, slot.last.0, buffer)
        });
        if let Some((i, _, extent)) = in_place {
            return Some((*i, extent.clone()));
        }
        // The slot that grows least, and of those the smallest one.
        let growth = |(_, slot, extent): &&(usize, &Slot<'_>, PrimExpr)| {
            let (old, new) = (slot.extent.as_int().unwrap_or(0), extent.as_int().unwrap_or(0));
            (new - old, old)
        };
        let free = sized.iter().filter(|(_, slot, _)| slot.last.1 < at).min_by_key(growth);
        free.map(|(i, _, extent)| (*i, extent.clone()))
    }
}

/// The buffers that a statement accesses.
#[derive(Default)]
struct Accessed(FxHashSet<BufferId>);

impl Accessed {
    fn of(stmt: &Stmt) -> FxHashSet<BufferId> {
        let mut accessed = Accessed::default();
        accessed.visit_stmt(stmt);
        accessed.0
    }
}

impl Visitor for Accessed {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr {
            self.0.insert(load.buffer.id);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt {
            self.0.insert(store.buffer.id);
        }
        walk_stmt(self, stmt);
    }
}

/// The accesses of two buffers in a statement: `old`, whose last reads it holds, and `new`, which it writes.
struct Overwrite<'a> {
    old: &'a Buffer,
    new: &'a Buffer,
    loops: Vec<For>,
    /// The store to `new`, and the loops around it.
    store: Option<(BufferStore, Vec<For>)>,
    loads: usize,
    /// Variables that the statement binds, other than those of loops.
    bound: Vec<Var>,
    fails: bool,
}

impl Overwrite<'_> {
    /// True if `new` may be in the memory of `old` while `stmt` runs.
    fn is_possible(analyzer: &Analyzer, stmt: &Stmt, old: &Buffer, new: &Buffer) -> bool {
        let (loops, bound) = (Vec::new(), Vec::new());
        let mut found = Overwrite { old, new, loops, store: None, loads: 0, bound, fails: false };
        found.visit_stmt(stmt);
        let (false, Some((store, loops))) = (found.fails, &found.store) else { return false };
        let (mut here, mut moved) = (0, false);
        any_expr(&store.value, &mut |expr| {
            match expr {
                PrimExpr::BufferLoad(load) if load.buffer == *old => {
                    here += 1;
                    moved |= !same_indices(&load.indices, &store.indices);
                }
                // Lanes at other places.
                PrimExpr::Shuffle(_) => moved = true,
                _ => {}
            }
            false
        });
        let [index] = &*store.indices else { return false };
        let known = !reads(index) && !found.bound.iter().any(|var| uses_var(index, var));
        known && !moved && here == found.loads && visits_once(analyzer, index, loops)
    }
}

/// True if no two iterations of `loops`, and no two lanes, have the same `index`.
fn visits_once(analyzer: &Analyzer, index: &PrimExpr, loops: &[For]) -> bool {
    let mut iters: Vec<(Var, Range)> = Vec::new();
    for node in loops {
        let range = node.range();
        let known = |it: &PrimExpr| !reads(it) && !iters.iter().any(|(outer, _)| uses_var(it, outer));
        if !known(&range.min) || !known(&range.extent) {
            return false;
        }
        iters.push((node.loop_var.clone(), range));
    }
    let index = match index {
        PrimExpr::Ramp(ramp) => {
            let lane = Var::index("lane");
            let place = ramp.base.clone() + PrimExpr::from(&lane) * &ramp.stride;
            iters.push((lane, Range::from_extent(PrimExpr::index(ramp.lanes.into()))));
            place
        }
        scalar if scalar.dtype().is_scalar() => scalar.clone(),
        _ => return false,
    };
    let everywhere = PrimExpr::bool(true);
    detect_iter_map(&[index], &iters, &everywhere, IterMapLevel::Bijective, analyzer).is_ok()
}

impl Visitor for Overwrite<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr {
            self.loads += usize::from(load.buffer == *self.old);
            self.fails |= load.buffer == *self.new;
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(node) => {
                self.loops.push((**node).clone());
                walk_stmt(self, stmt);
                self.loops.pop();
                return;
            }
            Stmt::BufferStore(store) => {
                self.fails |= store.buffer == *self.old;
                if store.buffer == *self.new {
                    self.fails |= self.store.is_some();
                    self.store = Some(((**store).clone(), self.loops.clone()));
                }
            }
            Stmt::Bind(bind) => self.bound.push(bind.var.clone()),
            // Its iterations may store to the same place.
            Stmt::While(_) => self.fails = true,
            Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::BlockRealize(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => {}
        }
        walk_stmt(self, stmt);
    }
}

#[cfg(test)]
mod tests {
    use tvm_testing::{Budget, Rng};

    use super::*;
    use crate::ir::IRModule;
    use crate::pass::PassContext;
    use crate::pipeline::lower_tir;
    use crate::te::{self, TensorExpr};
    use crate::tir::PrimFunc;
    use crate::tir::analysis::well_formed;
    use crate::tir::schedule::Schedule;
    use crate::tir::testing::{I64, arguments, dense, random_step, run, stencil};

    /// What a stage of a chain does with the stage before it.
    #[derive(Clone, Copy, Debug)]
    enum Kind {
        Map,
        Transpose,
        Shift,
        Sum,
        Half,
        Both,
    }

    /// Stages over `n` × `n` elements, each of which reads the one before it; `Both` also reads the one before that.
    fn chain(n: &PrimExpr, kinds: &[Kind]) -> PrimFunc {
        let x = te::placeholder("x", [n.clone(), n.clone()], I64);
        let mut stages: Vec<TensorExpr> = vec![x.clone()];
        for (at, kind) in kinds.iter().enumerate() {
            let (from, older) = (stages[at].clone(), stages[at.saturating_sub(1)].clone());
            let name = format!("s{at}");
            let shape = [n.clone(), n.clone()];
            let k = te::reduce_axis("k", n.clone());
            stages.push(match kind {
                Kind::Map => {
                    te::compute(&name, shape, &[&from], |i: &[PrimExpr]| from.at(i.to_vec()) * 3 + 1)
                }
                Kind::Transpose => te::compute(&name, shape, &[&from], |i: &[PrimExpr]| {
                    from.at([i[1].clone(), i[0].clone()]) + &i[0]
                }),
                Kind::Shift => te::compute(&name, shape, &[&from], |i: &[PrimExpr]| {
                    from.at([(&i[0] + 1).min(n - 1), i[1].clone()]) - from.at(i.to_vec())
                }),
                Kind::Sum => te::compute(&name, shape, &[&from], |i: &[PrimExpr]| {
                    te::sum(from.at([i[0].clone(), k.expr()]) * from.at([k.expr(), i[1].clone()]), &[&k])
                }),
                Kind::Half => te::compute(&name, shape, &[&from], |i: &[PrimExpr]| {
                    from.at([i[0].clone().floordiv(2), i[1].clone()]) + from.at(i.to_vec())
                }),
                Kind::Both => te::compute(&name, shape, &[&from, &older], |i: &[PrimExpr]| {
                    from.at(i.to_vec()) - older.at(i.to_vec()) * 2
                }),
            });
        }
        let y = stages.pop().expect("a chain has stages");
        te::create_prim_func("chain", &[x], &[y]).unwrap()
    }

    /// Bytes that the allocations of `func` take together, in a sequence and in what is inside it at the same time.
    fn peak(stmt: &Stmt) -> i64 {
        match stmt {
            Stmt::AllocBuffer(alloc) => {
                let shape = alloc.buffer.const_shape().expect("constant shapes");
                shape.iter().product::<i64>() * alloc.buffer.dtype.bytes() as i64
            }
            Stmt::SeqStmt(stmts) => {
                let own = stmts.iter().filter(|stmt| matches!(stmt, Stmt::AllocBuffer(_))).map(peak);
                let inside = stmts.iter().filter(|stmt| !matches!(stmt, Stmt::AllocBuffer(_))).map(peak);
                own.sum::<i64>() + inside.max().unwrap_or(0)
            }
            other => other.children().into_iter().map(peak).max().unwrap_or(0),
        }
    }

    /// `func` lowered as far as this pass, without it and with it.
    fn lowered(func: &PrimFunc, smallest: i64) -> [Arc<PrimFunc>; 2] {
        let mut module = IRModule::from_prim_func(func.clone());
        let only =
            |module: &IRModule| module.prim_func(module.functions().next().unwrap().0).unwrap().clone();
        for pass in lower_tir().parts() {
            if pass.info.name == "StorageRewrite" {
                break;
            }
            module =
                pass.apply_in(module, &PassContext::default()).unwrap_or_else(|err| panic!("{err}\n{func}"));
        }
        let before = only(&module);
        let after = sharing_from(smallest).apply_in(module, &PassContext::default()).unwrap();
        [before, only(&after)]
    }

    #[test]
    fn chains_need_the_memory_of_two_stages_or_one() {
        use Kind::*;
        let bytes = 64 * 64 * 8;
        let cases: [(&[Kind], i64, i64); 7] = [
            (&[Map, Map, Map, Map, Map], 4, 1),
            (&[Transpose, Transpose, Transpose, Transpose, Transpose], 4, 2),
            (&[Sum, Map, Sum, Map, Sum], 4, 2),
            (&[Shift, Shift, Map, Map, Transpose], 4, 2),
            (&[Map, Both, Both, Map, Map], 4, 2),
            (&[Half, Half, Map], 2, 2),
            (&[Map, Map], 1, 1),
        ];
        for (kinds, before, after) in cases {
            let func = chain(&PrimExpr::index(64), kinds);
            let [old, new] = lowered(&func, SMALLEST);
            assert_eq!(peak(&old.body), before * bytes, "{kinds:?}\n{old}");
            assert_eq!(peak(&new.body), after * bytes, "{kinds:?}\n{new}");
            well_formed(&new).unwrap();
            let want = run(&func, arguments(&func, &[]));
            assert_eq!(run(&new, arguments(&func, &[])), want, "{kinds:?}\n{new}");
        }
    }

    /// Bytes on the stack and in memory of the caller after all of lowering, without this pass and with it.
    #[test]
    fn fewer_buffers_leave_the_stack() {
        struct Placed([i64; 2]);
        impl Visitor for Placed {
            fn visit_expr(&mut self, _: &PrimExpr) {}
            fn visit_stmt(&mut self, stmt: &Stmt) {
                if let Stmt::AllocBuffer(alloc) = stmt {
                    self.0[usize::from(alloc.buffer.scope == Scope::Global)] += peak(stmt);
                }
                walk_stmt(self, stmt);
            }
        }
        let placed = |kind: Kind, context: PassContext| {
            let module = IRModule::from_prim_func(chain(&PrimExpr::index(64), &[kind; 5]));
            let module = lower_tir().apply_in(module, &context).unwrap();
            let mut placed = Placed([0; 2]);
            placed.visit_stmt(&module.prim_func(module.functions().next().unwrap().0).unwrap().body);
            placed.0.map(|bytes| bytes / 1024)
        };
        for (kind, with) in [(Kind::Map, [32, 0]), (Kind::Transpose, [64, 0])] {
            assert_eq!(placed(kind, PassContext::new().disable("StorageRewrite")), [64, 64], "{kind:?}");
            assert_eq!(placed(kind, PassContext::new()), with, "{kind:?}");
        }
    }

    #[test]
    fn small_buffers_stay() {
        let func = chain(&PrimExpr::index(16), &[Kind::Map, Kind::Map, Kind::Map]);
        let [old, new] = lowered(&func, SMALLEST);
        assert_eq!(peak(&new.body), peak(&old.body));
        let [_, new] = lowered(&func, 1);
        assert!(peak(&new.body) < peak(&old.body));
    }

    #[test]
    fn what_is_shared_reads_as_code() {
        let func = chain(&PrimExpr::index(32), &[Kind::Map, Kind::Transpose, Kind::Map, Kind::Sum]);
        let [_, new] = lowered(&func, SMALLEST);
        expect_test::expect![[r#"
            #[prim_func(lowered)]
            fn chain(x: &Tensor<i64, 32, 32>, s3: &mut Tensor<i64, 32, 32>) {
                let x_1 = decl_buffer::<i64>([1024], address_of(x[[0, 0]]));
                let s3_1 = decl_buffer::<i64>([1024], address_of(s3[[0, 0]]));
                let mut s0 = alloc::<i64>([1024]);
                let mut s1 = alloc::<i64>([1024]);
                for [i0, i1] in grid([32, 32]) {
                    s0[[i0 * 32 + i1]] = x_1[[i0 * 32 + i1]] * 3 + 1;
                }
                for [i0, i1] in grid([32, 32]) {
                    s1[[i0 * 32 + i1]] = s0[[i1 * 32 + i0]] + (i0 as i64);
                }
                for [i0, i1] in grid([32, 32]) {
                    s1[[i0 * 32 + i1]] = s1[[i0 * 32 + i1]] * 3 + 1;
                }
                for [i0, i1] in grid([32, 32]) {
                    s3_1[[i0 * 32 + i1]] = 0;
                    for k in 0..32 {
                        s3_1[[i0 * 32 + i1]] += s1[[i0 * 32 + k]] * s1[[k * 32 + i1]];
                    }
                }
            }"#]]
        .assert_eq(&new.to_string());
    }

    /// A buffer that a loop allocates in each iteration stays in the loop, and a buffer that the iterations share is alive in
    /// all of it.
    #[test]
    fn loops_keep_their_buffers() {
        let func = chain(&PrimExpr::index(32), &[Kind::Map, Kind::Transpose, Kind::Map, Kind::Map]);
        let mut s = Schedule::new(func.clone()).unwrap();
        let (s2, s3) = (s.block("s2").unwrap(), s.block("s3").unwrap());
        let [i, _] = s.loops(s3).unwrap();
        s.parallel(i).unwrap();
        s.compute_at(s2, i).unwrap();
        let [old, new] = lowered(s.func(), 1);
        let row = 32 * 8;
        assert_eq!([peak(&old.body), peak(&new.body)], [65 * row, 65 * row], "{new}");
        assert_eq!(run(&new, arguments(&func, &[])), run(&func, arguments(&func, &[])));
    }

    #[test]
    fn fuzz_storage_rewrite() {
        let kinds = [Kind::Map, Kind::Transpose, Kind::Shift, Kind::Sum, Kind::Half, Kind::Both];
        for seed in Budget::new("storage_rewrite", 40) {
            let mut rng = Rng::new(seed);
            let n = PrimExpr::from(Var::index("n"));
            let stages: Vec<Kind> = (0..2 + rng.below(5)).map(|_| *rng.pick(&kinds)).collect();
            let [m, k] = ["m", "k"].map(|name| PrimExpr::from(Var::index(name)));
            let (program, dims) = match rng.below(4) {
                0 => (chain(&PrimExpr::index(6), &stages), vec![]),
                1 => (chain(&n, &stages), vec![5]),
                2 => (dense(m, n, k), vec![7, 5, 11]),
                _ => (stencil(m, n), vec![9, 7]),
            };
            let mut s = Schedule::new(program.clone()).unwrap();
            for _ in 0..rng.below(10) {
                let _ = random_step(&mut s, &mut rng);
            }
            let want = run(&program, arguments(&program, &dims));
            let [_, new] = lowered(s.func(), 1);
            well_formed(&new).unwrap_or_else(|err| panic!("{err}\n{new}"));
            assert_eq!(run(&new, arguments(&program, &dims)), want, "{seed}\n{}\n{new}", s.func());
        }
    }
}
