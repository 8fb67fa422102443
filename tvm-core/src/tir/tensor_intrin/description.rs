//! Descriptions of intrinsics: which programs are one, and where one is found in a block.
//!
//! A description is one nest of serial loops of constant extents, with or without blocks in it, around stores. Its indices are
//! linear in the loops. A statement fits it if it has the same loops in the same order, loops of one iteration aside, and
//! stores the same values: the same operations, where operands of sums and products may be exchanged, on elements of buffers
//! that stand for its own. The indices differ by offsets that do not change in the loops. Dimensions of a buffer before those
//! of the one in the description have one index.
//!
//! TVM counterpart: `TensorizeComparator` (`tir/schedule/ir_comparator.cc`).

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::arith::{Analyzer, detect_linear_equation};
use crate::ir::{BufferId, Var, VarId};
use crate::tir::analysis::reads_memory;
use crate::tir::{
    BinaryOp, BlockRealize, Buffer, BufferStore, ForKind, Param, PrimExpr, PrimFunc, Range, Stmt, any_expr,
    substitute_expr,
};

/// A description that was found in a statement.
pub(in crate::tir) struct Found {
    /// For each parameter of the description, the buffer that stands for it and the index of its first element.
    pub(in crate::tir) places: Vec<(Buffer, Vec<PrimExpr>)>,
    /// The innermost block around the stores.
    pub(in crate::tir) block: Option<Arc<BlockRealize>>,
    /// True if floats are stored where they are read: in sums.
    pub(in crate::tir) sums_floats: bool,
}

/// Loops around stores.
struct Nest<'a> {
    loops: Vec<(Var, i64)>,
    /// The values of axes, and of loops of one iteration, over the other loops.
    values: FxHashMap<VarId, PrimExpr>,
    stores: Vec<&'a BufferStore>,
    block: Option<Arc<BlockRealize>>,
}

impl<'a> Nest<'a> {
    /// The nest of `stmt`; the error is the end of a sentence.
    fn of(mut stmt: &'a Stmt) -> Result<Nest<'a>, String> {
        let mut nest =
            Nest { loops: Vec::new(), values: FxHashMap::default(), stores: Vec::new(), block: None };
        loop {
            match stmt {
                Stmt::For(node) => {
                    let name = node.loop_var.name();
                    let (true, Some(extent)) = (node.min.is_const(0), node.extent.as_int()) else {
                        return Err(format!("has loop `{name}`, which does not count from 0 to a constant"));
                    };
                    if let ForKind::ThreadBinding(_) = node.kind {
                        return Err(format!("has loop `{name}`, which is bound to threads"));
                    }
                    if extent < 1 {
                        return Err(format!("has loop `{name}`, which has no iteration"));
                    }
                    match extent {
                        1 => drop(nest.values.insert(node.loop_var.id(), PrimExpr::index(0))),
                        _ => nest.loops.push((node.loop_var.clone(), extent)),
                    }
                    stmt = &node.body;
                }
                Stmt::BlockRealize(realize) => {
                    let block = &realize.block;
                    let plain = block.init.is_none()
                        && block.alloc_buffers.is_empty()
                        && block.match_buffers.is_empty()
                        && realize.predicate.is_const(1);
                    if !plain {
                        let name = &block.name;
                        return Err(format!(
                            "has block `{name}`, which has an init, a condition or buffers of its own"
                        ));
                    }
                    for (iter, value) in block.iter_vars.iter().zip(realize.iter_values.iter()) {
                        let value = substitute_expr(value, &nest.values);
                        nest.values.insert(iter.var.id(), value);
                    }
                    nest.block = Some(realize.clone());
                    stmt = &block.body;
                }
                Stmt::BufferStore(store) => {
                    nest.stores.push(store);
                    return Ok(nest);
                }
                Stmt::SeqStmt(stmts) if stmts.iter().all(|it| it.as_buffer_store().is_some()) => {
                    nest.stores.extend(stmts.iter().filter_map(|it| it.as_buffer_store()).map(|it| &**it));
                    return Ok(nest);
                }
                Stmt::SeqStmt(_)
                | Stmt::IfThenElse(_)
                | Stmt::While(_)
                | Stmt::Bind(_)
                | Stmt::AllocBuffer(_)
                | Stmt::DeclBuffer(_)
                | Stmt::Evaluate(_)
                | Stmt::AssertStmt(_) => {
                    return Err("is more than one nest of loops around stores".into());
                }
            }
        }
    }
}

/// The nest of a description.
fn nest_of(desc: &PrimFunc) -> Result<Nest<'_>, String> {
    match &desc.body {
        Stmt::BlockRealize(root) if !root.block.alloc_buffers.is_empty() => Err("allocates buffers".into()),
        body => Nest::of(body),
    }
}

/// Checks that `desc` is a description; the error is the end of a sentence about it.
pub(super) fn check(desc: &PrimFunc) -> Result<(), String> {
    let nest = nest_of(desc)?;
    if nest.stores.is_empty() {
        return Err("stores nothing".into());
    }
    let found = find(desc, &desc.body, &Analyzer::new())
        .map_err(|why| format!("uses operations that are not compared: {why}"))?;
    let same = found.places.iter().zip(desc.params.iter()).all(|((buffer, offsets), param)| {
        Some(buffer) == param.buffer() && offsets.iter().all(|it| it.is_const(0))
    });
    if !same {
        return Err("does not match itself".into());
    }
    let mut touched = Touched { nest: &nest, loaded: FxHashMap::default(), stored: FxHashMap::default() };
    for store in &nest.stores {
        touched.value(&store.value)?;
        touched.access(&store.buffer, &store.indices, true)?;
    }
    for param in desc.params.iter() {
        let Some(buffer) = param.buffer() else { continue };
        let by = if let Param::Out(_) = param { &touched.stored } else { &touched.loaded };
        let shape = buffer.const_shape().unwrap_or_default();
        let whole = by
            .get(&buffer.id)
            .is_some_and(|ranges| ranges.iter().zip(&shape).all(|(range, extent)| *range == (0, extent - 1)));
        if !whole {
            return Err(format!("does not touch all of `{}`", buffer.name));
        }
    }
    Ok(())
}

/// The first and the last index of accesses in each dimension.
type Hull = FxHashMap<BufferId, Vec<(i64, i64)>>;

struct Touched<'a> {
    nest: &'a Nest<'a>,
    loaded: Hull,
    stored: Hull,
}

impl Touched<'_> {
    fn value(&mut self, value: &PrimExpr) -> Result<(), String> {
        let mut loads = Vec::new();
        any_expr(value, &mut |it| {
            if let PrimExpr::BufferLoad(load) = it {
                loads.push(load.clone());
            }
            false
        });
        loads.iter().try_for_each(|load| self.access(&load.buffer, &load.indices, false))
    }

    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr], store: bool) -> Result<(), String> {
        let mut analyzer = Analyzer::new();
        for (var, extent) in &self.nest.loops {
            analyzer.bind_range(var, &Range::from_extent(*extent));
        }
        let vars: Vec<Var> = self.nest.loops.iter().map(|(var, _)| var.clone()).collect();
        let ends = |index: &PrimExpr| {
            let index = substitute_expr(index, &self.nest.values);
            let line = detect_linear_equation(&index, &vars, &analyzer)?;
            let base = line.base.as_int()?;
            let mut ends = (base, base);
            for (step, (_, extent)) in line.coefficients.iter().zip(&self.nest.loops) {
                let last = step.as_int()?.checked_mul(extent - 1)?;
                ends = (ends.0.checked_add(last.min(0))?, ends.1.checked_add(last.max(0))?);
            }
            Some(ends)
        };
        let ends = indices.iter().map(ends).collect::<Option<Vec<_>>>();
        let Some(ends) = ends else {
            return Err(format!("has an index of `{}` that is not linear in the loops", buffer.name));
        };
        let hull = if store { &mut self.stored } else { &mut self.loaded };
        let known = hull.entry(buffer.id).or_insert_with(|| ends.clone());
        known.iter_mut().zip(ends).for_each(|(it, new)| *it = (it.0.min(new.0), it.1.max(new.1)));
        Ok(())
    }
}

/// Where `stmt` is what `desc` describes. `analyzer` knows the variables around `stmt`. The error says what differs.
pub(in crate::tir) fn find(desc: &PrimFunc, stmt: &Stmt, analyzer: &Analyzer) -> Result<Found, String> {
    let wanted = nest_of(desc).map_err(|why| format!("the description {why}"))?;
    let nest = Nest::of(stmt).map_err(|why| format!("the block {why}"))?;
    let show = |loops: &[(Var, i64)]| {
        let loops: Vec<String> =
            loops.iter().map(|(var, extent)| format!("`{}` in 0..{extent}", var.name())).collect();
        if loops.is_empty() { "no loops".into() } else { loops.join(", ") }
    };
    if !nest.loops.iter().map(|(_, n)| n).eq(wanted.loops.iter().map(|(_, n)| n)) {
        return Err(format!(
            "the block loops over {}, the description over {}",
            show(&nest.loops),
            show(&wanted.loops)
        ));
    }
    let [count, of_desc] = [&nest, &wanted].map(|it| it.stores.len());
    if count != of_desc {
        return Err(format!("the block has {count} stores, the description {of_desc}"));
    }
    let loops: FxHashMap<VarId, PrimExpr> = wanted
        .loops
        .iter()
        .zip(&nest.loops)
        .map(|((old, _), (new, _))| (old.id(), PrimExpr::from(new)))
        .collect();
    let mut compare = Compare {
        inner: nest.loops.iter().map(|(var, _)| var.id()).collect(),
        wanted: wanted.values.iter().map(|(id, value)| (*id, substitute_expr(value, &loops))).collect(),
        got: nest.values,
        analyzer,
        places: FxHashMap::default(),
    };
    compare.wanted.extend(loops);
    let mut sums_floats = false;
    for (got, want) in nest.stores.iter().zip(&wanted.stores) {
        compare.access((&want.buffer, &want.indices), (&got.buffer, &got.indices))?;
        compare.value(&want.value, &got.value)?;
        sums_floats |= want.buffer.dtype.is_float() && reads(&want.value, &wanted.stores);
    }
    let place = |param: &Param| {
        let buffer = param.buffer().ok_or_else(|| "the description has scalars".to_string())?;
        let place = compare.places.get(&buffer.id).cloned();
        place.ok_or_else(|| format!("the description does not use `{}`", buffer.name))
    };
    let places = desc.params.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    Ok(Found { places, block: nest.block, sums_floats })
}

/// True if `value` reads a buffer that one of `stores` writes.
fn reads(value: &PrimExpr, stores: &[&BufferStore]) -> bool {
    any_expr(value, &mut |it| match it {
        PrimExpr::BufferLoad(load) => stores.iter().any(|store| store.buffer == load.buffer),
        _ => false,
    })
}

struct Compare<'a> {
    /// The loops of the block.
    inner: FxHashSet<VarId>,
    /// Values of the variables of the description, over the loops of the block.
    wanted: FxHashMap<VarId, PrimExpr>,
    /// Values of axes of the block, over its loops.
    got: FxHashMap<VarId, PrimExpr>,
    analyzer: &'a Analyzer,
    /// For each buffer of the description, the one that stands for it, and the index of its first element.
    places: FxHashMap<BufferId, (Buffer, Vec<PrimExpr>)>,
}

impl Compare<'_> {
    fn access(
        &mut self,
        (want, want_at): (&Buffer, &[PrimExpr]),
        (got, got_at): (&Buffer, &[PrimExpr]),
    ) -> Result<(), String> {
        let (name, of) = (&got.name, &want.name);
        if want.dtype != got.dtype {
            return Err(format!("`{name}` holds {}, `{of}` of the description {}", got.dtype, want.dtype));
        }
        let Some(hidden) = got_at.len().checked_sub(want_at.len()) else {
            return Err(format!("`{name}` has fewer dimensions than `{of}` of the description"));
        };
        let mut offsets = Vec::new();
        for (i, index) in got_at.iter().enumerate() {
            let index = substitute_expr(index, &self.got);
            let offset = match i.checked_sub(hidden) {
                Some(k) => index.clone() - substitute_expr(&want_at[k], &self.wanted),
                None => index.clone(),
            };
            if !offset.dtype().is_scalar() || reads_memory(&offset) {
                return Err(format!("index `{index}` of `{name}` is a vector or reads memory"));
            }
            let offset = self.analyzer.simplify(&offset);
            let moves = |it: &PrimExpr| it.as_var().is_some_and(|var| self.inner.contains(&var.id()));
            if any_expr(&offset, &mut |it| moves(it)) {
                let want = i.checked_sub(hidden).map_or("one index".into(), |k| format!("`{}`", want_at[k]));
                return Err(format!(
                    "dimension {i} of `{name}` has the index `{index}`, that of `{of}` in the description is {want}"
                ));
            }
            offsets.push(offset);
        }
        match self.places.get(&want.id) {
            None => {
                self.places.insert(want.id, (got.clone(), offsets));
                Ok(())
            }
            Some((known, _)) if known != got => {
                Err(format!("`{of}` of the description is `{}` and `{name}`", known.name))
            }
            Some((_, known)) => {
                let mut both = known.iter().zip(&offsets);
                match both.all(|(a, b)| self.analyzer.can_prove_equal(a, b)) {
                    true => Ok(()),
                    false => Err(format!("`{name}` is accessed at several places, `{of}` at one")),
                }
            }
        }
    }

    fn value(&mut self, want: &PrimExpr, got: &PrimExpr) -> Result<(), String> {
        let differ = || Err(format!("`{got}` is not `{want}`, as in the description"));
        let loads = matches!((want, got), (PrimExpr::BufferLoad(_), PrimExpr::BufferLoad(_)));
        if want.dtype() != got.dtype() && !loads {
            return differ();
        }
        match (want, got) {
            (PrimExpr::BufferLoad(a), PrimExpr::BufferLoad(b)) => {
                self.access((&a.buffer, &a.indices), (&b.buffer, &b.indices))
            }
            (PrimExpr::IntImm(a), PrimExpr::IntImm(b)) if a.value == b.value => Ok(()),
            (PrimExpr::FloatImm(a), PrimExpr::FloatImm(b)) if a.value.to_bits() == b.value.to_bits() => {
                Ok(())
            }
            (PrimExpr::Cast(a), PrimExpr::Cast(b)) => self.value(&a.value, &b.value),
            (PrimExpr::Not(a), PrimExpr::Not(b)) => self.value(&a.value, &b.value),
            (PrimExpr::Binary(a), PrimExpr::Binary(b)) if a.op == b.op => {
                let before = self.places.clone();
                let straight = self.value(&a.a, &b.a).and_then(|()| self.value(&a.b, &b.b));
                if straight.is_ok() || !matches!(a.op, BinaryOp::Add | BinaryOp::Mul) {
                    return straight;
                }
                let tried = std::mem::replace(&mut self.places, before);
                let crossed = self.value(&a.a, &b.b).and_then(|()| self.value(&a.b, &b.a));
                crossed.or_else(|_| {
                    self.places = tried;
                    straight
                })
            }
            (PrimExpr::Select(a), PrimExpr::Select(b)) => {
                self.value(&a.condition, &b.condition)?;
                self.value(&a.true_value, &b.true_value)?;
                self.value(&a.false_value, &b.false_value)
            }
            (PrimExpr::Call(a), PrimExpr::Call(b))
                if a.callee == b.callee && a.args.len() == b.args.len() =>
            {
                a.args.iter().zip(b.args.iter()).try_for_each(|(a, b)| self.value(a, b))
            }
            _ => differ(),
        }
    }
}
