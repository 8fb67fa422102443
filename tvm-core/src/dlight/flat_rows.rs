//! One axis for the rows of a product in several axes: those of a batch of sequences that are multiplied with one matrix.
//!
//! `c[b, m, n] += a[b, m, k] * w[k, n]` becomes `c[r, n] += a[r / M, r % M, k] * w[k, n]`, for `M` rows of each element of the batch.
//! A tile of rows then may reach over the end of a sequence, and all rows use a panel of `w` while it is in a cache. Blocks that read
//! `c` along the same axes follow. A result that is a parameter keeps its axes: a block copies the rows there.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::analysis::indexed_by;
use super::nest::{Nest, statements, with_statements};
use crate::arith::{Analyzer, same};
use crate::ir::{BlockId, BufferId, Var};
use crate::tir::analysis::with_access_regions;
use crate::tir::{
    Block, BlockRealize, Buffer, BufferStore, For, IterKind, IterVar, Mutator, PrimExpr, PrimFunc, Range,
    Stmt, Visitor, for_each_load, substitute_stmt, walk_expr, walk_stmt,
};

/// `func` with one axis of rows in its products; `None` if it has no such products, or other blocks use their results otherwise.
pub(super) fn flattened(func: &PrimFunc) -> Option<PrimFunc> {
    let (root, stmts) = statements(func)?;
    let nests: Vec<Option<Nest<'_>>> = stmts.iter().map(Nest::of).collect();
    let (product, axes) =
        (nests.iter().enumerate()).find_map(|(i, nest)| Some((i, nest.as_ref()?.rows_of_product()?)))?;
    let follows = |nest: &Nest<'_>| nest.has_rows(&axes);
    // Buffers of the program along the rows, in which all accesses have the rows as their first indices.
    let mut flat: FxHashMap<BufferId, Buffer> = FxHashMap::default();
    let rows = Analyzer::new().simplify(&(&axes[0] * &axes[1]));
    for buffer in root.block.alloc_buffers.iter() {
        let along = buffer.shape.len() > 2 && (0..2).all(|at| same(&buffer.shape[at], &axes[at]));
        if along && buffer.strides.is_empty() {
            let shape = [rows.clone()].into_iter().chain(buffer.shape[2..].iter().cloned()).collect();
            flat.insert(buffer.id, buffer.renew(|it| it.shape = shape));
        }
    }
    let copy = nests[product].as_ref().and_then(|nest| nest.copy_of_rows(&rows, &axes[1]));
    let copy = copy.filter(|it| !root.block.alloc_buffers.contains(&it.to));
    if let Some(it) = &copy {
        flat.insert(it.to.id, it.from.clone());
    }
    for (stmt, nest) in stmts.iter().zip(&nests) {
        let vars = nest.as_ref().filter(|it| follows(it)).map(|it| it.first_vars());
        let mut accesses = Accesses::default();
        accesses.visit_stmt(stmt);
        for (buffer, indices) in accesses.found {
            let kept = vars.is_some_and(|vars| {
                (0..2).all(|at| indices.get(at).and_then(PrimExpr::as_var) == Some(vars[at]))
            });
            if !kept && flat.contains_key(&buffer) {
                return None;
            }
        }
    }
    let mut made: Vec<Stmt> = (stmts.iter().zip(&nests))
        .map(|(stmt, nest)| match nest {
            Some(nest) if follows(nest) => nest.flattened(&rows, &axes[1], &flat),
            _ => stmt.clone(),
        })
        .collect();
    let mut buffers: Vec<Buffer> =
        root.block.alloc_buffers.iter().map(|it| flat.get(&it.id).unwrap_or(it).clone()).collect();
    if let Some(it) = copy {
        made.insert(product + 1, it.stmt);
        buffers.push(it.from);
    }
    Some(with_statements(func, root, made, buffers))
}

/// A statement that copies rows to the tensor that they are the rows of.
struct Copy {
    from: Buffer,
    to: Buffer,
    stmt: Stmt,
}

impl<'a> Nest<'a> {
    fn first_vars(&self) -> [&'a Var; 2] {
        [0, 1].map(|at| &self.realize.block.iter_vars[at].var)
    }

    /// The extents of the first two axes, if they number the rows of a product with a matrix.
    fn rows_of_product(&self) -> Option<[PrimExpr; 2]> {
        let block = &self.realize.block;
        let [batch, row, .., last] = &block.iter_vars[..] else { return None };
        let spatial =
            [batch, row].iter().all(|axis| axis.kind == IterKind::Spatial && !axis.dom.extent.is_const(1));
        let store = block.body.as_buffer_store()?;
        let [first, second, .., column] = &store.indices[..] else { return None };
        let at_rows = first.as_var() == Some(&batch.var) && second.as_var() == Some(&row.var);
        if !spatial
            || !at_rows
            || column.as_var().is_none()
            || last.kind != IterKind::Reduce
            || block.init.is_none()
        {
            return None;
        }
        let (mut matrix, mut operand) = (false, false);
        for_each_load(&block.body, &mut |load| {
            if load.buffer != store.buffer {
                matrix |= ![batch, row].iter().any(|axis| indexed_by(load, &axis.var));
                let along =
                    |it: &[PrimExpr]| it[0].as_var() == Some(&batch.var) && it[1].as_var() == Some(&row.var);
                operand |= load.indices.windows(2).any(along);
            }
        });
        (matrix && operand).then(|| [batch, row].map(|axis| axis.dom.extent.clone()))
    }

    /// The copy of the `rows` of the result to where the nest has it, `row` of them for each element of the batch; `None` if its
    /// indices are not the axes in their order.
    fn copy_of_rows(&self, rows: &PrimExpr, row: &PrimExpr) -> Option<Copy> {
        let block = &self.realize.block;
        let to = block.body.as_buffer_store()?;
        let spatial = || block.iter_vars.iter().filter(|axis| axis.kind == IterKind::Spatial);
        let in_order = to.indices.len() == spatial().count()
            && to.indices.iter().zip(spatial()).all(|(index, axis)| index.as_var() == Some(&axis.var));
        if !in_order {
            return None;
        }
        let mut axes: Vec<IterVar> =
            spatial().skip(1).map(|axis| IterVar { var: axis.var.renew(), ..axis.clone() }).collect();
        axes[0].dom = Range::from_extent(rows.clone());
        let at: Vec<PrimExpr> = axes.iter().map(|axis| PrimExpr::from(&axis.var)).collect();
        let shape = axes.iter().map(|axis| axis.dom.extent.clone()).collect();
        let from = to.buffer.renew(|it| {
            it.name = format!("{}_rows", it.name).into();
            (it.shape, it.strides, it.elem_offset) = (shape, [].into(), None);
        });
        let places = [at[0].clone().floordiv(row), at[0].clone().floormod(row)];
        let body = BufferStore {
            indices: places.into_iter().chain(at[1..].iter().cloned()).collect(),
            value: from.load(at),
            ..(**to).clone()
        };
        let vars: Vec<Var> = axes.iter().map(|axis| axis.var.renew()).collect();
        let extents: Vec<PrimExpr> = axes.iter().map(|axis| axis.dom.extent.clone()).collect();
        let block = with_access_regions(Block {
            id: BlockId::fresh(),
            name: format!("{}_rows", block.name).into(),
            iter_vars: axes.into(),
            init: None,
            body: body.into(),
            ..(**block).clone()
        });
        let realize = BlockRealize {
            iter_values: vars.iter().map(PrimExpr::from).collect(),
            block: block.into(),
            ..self.realize.clone()
        };
        let loops = vars.into_iter().zip(extents).rev();
        let stmt = loops.fold(realize.into(), |body, (var, extent)| For::serial(var, extent, body).into());
        Some(Copy { from, to: to.buffer.clone(), stmt })
    }

    /// True if the first two axes have these extents, and so have their loops.
    fn has_rows(&self, extents: &[PrimExpr; 2]) -> bool {
        let axes = self.realize.block.iter_vars.iter().zip(&self.loops).zip(extents);
        let is = |((axis, node), extent): ((&IterVar, &&For), &PrimExpr)| {
            axis.kind == IterKind::Spatial && same(&axis.dom.extent, extent) && same(&node.extent, extent)
        };
        self.loops.len() >= 2 && self.realize.block.body.as_buffer_store().is_some() && axes.take(2).all(is)
    }

    /// The nest with one axis of the extent `rows` instead of the first two, of which the second one has the extent `row`.
    fn flattened(&self, rows: &PrimExpr, row: &PrimExpr, flat: &FxHashMap<BufferId, Buffer>) -> Stmt {
        let block = &self.realize.block;
        let (first, second) = (&block.iter_vars[0], &block.iter_vars[1]);
        let axis =
            IterVar { var: second.var.renew(), dom: Range::from_extent(rows.clone()), ..second.clone() };
        let at = PrimExpr::from(&axis.var);
        let mut flatten = Flatten { flat, at: at.clone() };
        let vars = FxHashMap::from_iter([
            (first.var.id(), at.clone().floordiv(row)),
            (second.var.id(), at.clone().floormod(row)),
        ]);
        let mut part = |stmt: &Stmt| {
            let new = flatten.mutate_stmt(stmt);
            substitute_stmt(new.as_ref().unwrap_or(stmt), &vars)
        };
        let (body, init) = (part(&block.body), block.init.as_ref().map(&mut part));
        let iter_vars = [axis].into_iter().chain(block.iter_vars[2..].iter().cloned()).collect();
        let block = with_access_regions(Block { iter_vars, body, init, ..(**block).clone() });
        let var = self.loops[1].loop_var.renew();
        let values = [PrimExpr::from(&var)].into_iter().chain(self.realize.iter_values[2..].iter().cloned());
        let realize =
            BlockRealize { iter_values: values.collect(), block: block.into(), ..self.realize.clone() };
        let inner = self.loops[2..]
            .iter()
            .rev()
            .fold(Stmt::from(realize), |body, node| For { body, ..(*node).clone() }.into());
        For::serial(var, rows.clone(), inner).into()
    }
}

/// Accesses flat buffers at the row `at`.
struct Flatten<'a> {
    flat: &'a FxHashMap<BufferId, Buffer>,
    at: PrimExpr,
}

impl Flatten<'_> {
    fn access(&self, buffer: &Buffer, indices: &[PrimExpr]) -> Option<(Buffer, Arc<[PrimExpr]>)> {
        let flat = self.flat.get(&buffer.id)?;
        Some((flat.clone(), [self.at.clone()].into_iter().chain(indices[2..].iter().cloned()).collect()))
    }
}

impl Mutator for Flatten<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let walked = self.walk_expr(expr);
        let PrimExpr::BufferLoad(load) = walked.as_ref().unwrap_or(expr) else { return walked };
        match self.access(&load.buffer, &load.indices) {
            Some((buffer, indices)) => Some(buffer.load(indices)),
            None => walked,
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let Stmt::BufferStore(store) = walked.as_ref().unwrap_or(stmt) else { return walked };
        match self.access(&store.buffer, &store.indices) {
            Some((buffer, indices)) => Some(BufferStore { buffer, indices, ..(**store).clone() }.into()),
            None => walked,
        }
    }
}

/// All accesses of buffers.
#[derive(Default)]
struct Accesses {
    found: Vec<(BufferId, Arc<[PrimExpr]>)>,
}

impl Visitor for Accesses {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr {
            self.found.push((load.buffer.id, load.indices.clone()));
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt {
            self.found.push((store.buffer.id, store.indices.clone()));
        }
        walk_stmt(self, stmt);
    }
}
