//! Transposes square tiles in vector registers.
//!
//! `for i in 0..16 { for j in vectorized(16) { y[.., i, j] = x[.., j, i] } }` reads one element per cache line and lane. It
//! becomes 16 vectors along `i`, of which shuffles of two vectors at a time make 16 vectors along `j`. What else the value
//! reads stays as it is.
//!
//! TVM counterpart: none.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::util::{DeepSubstitute, body_pass};
use crate::arith::{Analyzer, detect_linear_equation};
use crate::ir::Var;
use crate::pass::Pass;
use crate::tir::analysis::same_indices;
use crate::tir::{
    AllocBuffer, Bind, Buffer, BufferLoad, BufferStore, For, ForKind, Intrinsic, Mutator, PrimCallee,
    PrimExpr, Scope, Shuffle, Stmt, any_expr, for_each_load, uses_var,
};

/// Bits within which instructions interleave elements; they move whole lanes of this size otherwise.
const LANE_BITS: u16 = 128;

/// Transposes tiles of 4, 8 or 16 elements squared, where the inner loop is vectorized and an operand is contiguous along the
/// outer one only.
/// Requires: flat buffers, no blocks, scalar loads and stores.
pub fn vectorize_transposes() -> Pass {
    body_pass("VectorizeTransposes", |func| VectorizeTransposes.mutate_stmt(&func.body))
}

struct VectorizeTransposes;

impl Mutator for VectorizeTransposes {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::For(outer) = stmt else { return self.walk_stmt(stmt) };
        transposed(outer).or_else(|| transposed_squares(outer)).or_else(|| self.walk_stmt(stmt))
    }
}

fn transposed(outer: &For) -> Option<Stmt> {
    Tile::of(outer)?.transposed()
}

/// The loop as one over squares, if it is longer than the vectorized loop in it, as that of a last tile with few columns is.
fn transposed_squares(outer: &For) -> Option<Stmt> {
    let Stmt::For(inner) = &outer.body else { return None };
    let (rows, side) = (outer.extent.as_int()?, inner.extent.as_int()?);
    if !outer.min.is_const(0) || side <= 0 || rows <= side || rows % side != 0 {
        return None;
    }
    let [square, row] = [(); 2].map(|()| outer.loop_var.renew());
    let index = PrimExpr::from(&square) * side + &row;
    let body = DeepSubstitute::stmt(FxHashMap::from_iter([(outer.loop_var.id(), index)]), &outer.body);
    let extent = |count: i64| PrimExpr::int(count, outer.extent.dtype());
    let rows_of_square = For { loop_var: row, extent: extent(side), body, ..outer.clone() };
    Some(For::serial(square, extent(rows / side), transposed(&rows_of_square)?).into())
}

/// `for i in 0..size { for j in vectorized(size) { store } }`
struct Tile<'a> {
    size: u16,
    i: &'a Var,
    inner: &'a For,
    store: &'a BufferStore,
}

impl Tile<'_> {
    fn of(outer: &For) -> Option<Tile<'_>> {
        let Stmt::For(inner) = &outer.body else { return None };
        let Stmt::BufferStore(store) = &inner.body else { return None };
        let size = u16::try_from(outer.extent.as_int()?).ok()?;
        let vectorized = inner.kind == ForKind::Vectorized && inner.extent.is_const(i64::from(size));
        let in_order = matches!(outer.kind, ForKind::Serial | ForKind::Unrolled);
        let from_zero = outer.min.is_const(0) && inner.min.is_const(0);
        (vectorized && in_order && from_zero && [4, 8, 16].contains(&size)).then_some(Tile {
            size,
            i: &outer.loop_var,
            inner,
            store,
        })
    }

    /// The statement with its crossing loads transposed; `None` if it has none.
    fn transposed(&self) -> Option<Stmt> {
        if self.is_lazy() {
            return None;
        }
        let mut crossing: Vec<(BufferLoad, [PrimExpr; 2])> = Vec::new();
        for_each_load(&Stmt::from(self.store.clone()), &mut |load| {
            if crossing.iter().all(|(known, _)| !is_same(known, load)) {
                crossing.extend(self.crossing(load).map(|place| ((**load).clone(), place)));
            }
        });
        if crossing.is_empty() {
            return None;
        }
        let (mut stmts, mut tiles) = (Vec::new(), Vec::new());
        for (load, place) in crossing {
            tiles.push((self.transpose(&load, &place, &mut stmts), load));
        }
        let mut replace = Replace { tile: self, tiles };
        let store = replace.mutate_stmt(&self.store.clone().into())?;
        let columns = For { body: store, ..self.inner.clone() };
        let rows = For::serial(self.i.clone(), self.inner.extent.clone(), columns.into());
        stmts.push(For { kind: ForKind::Unrolled, ..rows }.into());
        Some(Stmt::seq(stmts))
    }

    /// True if the value is evaluated in part only, or calls what is not known.
    fn is_lazy(&self) -> bool {
        any_expr(&self.store.value, &mut |it| match it {
            PrimExpr::Call(call) => match call.callee {
                PrimCallee::Intrinsic(intrinsic) => intrinsic == Intrinsic::IfThenElse,
                PrimCallee::PureExtern(_) => true,
            },
            _ => false,
        })
    }

    /// The index of the tile's first element and the step from one value of `j` to the next, if the load is contiguous
    /// along `i` and not along `j`, and the tile does not write what is loaded.
    fn crossing(&self, load: &BufferLoad) -> Option<[PrimExpr; 2]> {
        let [index] = &*load.indices else { return None };
        let (i, j) = (self.i, &self.inner.loop_var);
        let apart = load.buffer != self.store.buffer;
        let whole = load.buffer.dtype.lanes() == 1 && !load.buffer.dtype.is_bool();
        if !apart || !whole || !uses_var(index, i) || !uses_var(index, j) {
            return None;
        }
        let linear = detect_linear_equation(index, &[i.clone(), j.clone()], &Analyzer::new())?;
        let [along, across] = <[PrimExpr; 2]>::try_from(linear.coefficients).ok()?;
        let reads = any_expr(index, &mut |it| matches!(it, PrimExpr::BufferLoad(_)));
        (along.is_const(1) && !reads && !across.is_const(1)).then_some([linear.base, across])
    }

    /// Statements that fill a buffer with the transposed tile at `place`, row after row.
    fn transpose(&self, load: &BufferLoad, [base, step]: &[PrimExpr; 2], stmts: &mut Vec<Stmt>) -> Buffer {
        let dtype = load.buffer.dtype;
        let one = PrimExpr::int(1, base.dtype());
        let mut bind = |name: &str, value: PrimExpr| {
            let var = Var::prim(name, dtype.with_lanes(self.size));
            stmts.push(Bind { var: var.clone(), value }.into());
            PrimExpr::from(&var)
        };
        let row = |j: u16| (base + step * i64::from(j)).ramp(one.clone(), self.size);
        let mut rows: Vec<PrimExpr> =
            (0..self.size).map(|j| bind("row", load.buffer.load([row(j)]))).collect();
        for stage in 0..self.size.ilog2() {
            let lanes = [0, 1].map(|half| self.lanes(stage, half, dtype));
            let before = rows.clone();
            for (at, row) in rows.iter_mut().enumerate() {
                let half = at >> stage & 1;
                let pair = [at & !(1 << stage), at | 1 << stage].map(|it| before[it].clone());
                let shuffle = Shuffle { vectors: pair.into(), indices: lanes[half].clone().into() };
                *row = bind("part", PrimExpr::Shuffle(shuffle.into()));
            }
        }
        let count = i64::from(self.size);
        let tile = Buffer::with_scope("tile", [PrimExpr::index(count * count)], dtype, Scope::Local);
        stmts.push(AllocBuffer::new(tile.clone()).into());
        for (c, row) in rows.into_iter().enumerate() {
            let at = PrimExpr::index(self.column(c as u16, dtype) * count);
            stmts.push(Stmt::store(&tile, [at.ramp(PrimExpr::index(1), self.size)], row));
        }
        tile
    }

    /// Of a vector's lane numbers, the bits that count elements within 128 bits; the others count the parts of 128 bits.
    fn inner_bits(&self, dtype: DataType) -> u32 {
        (LANE_BITS / u16::from(dtype.bits())).ilog2().min(self.size.ilog2())
    }

    /// The lanes of a pair of vectors that make one new vector in `stage`: the first stages interleave elements, the others
    /// take every second part of both vectors. In both, the bit of a lane number that goes becomes a bit of the vector's
    /// number, and the bit that comes tells the vectors of the pair apart.
    fn lanes(&self, stage: u32, half: u16, dtype: DataType) -> Vec<u16> {
        let (inner, all) = (self.inner_bits(dtype), self.size.ilog2());
        // Where the new bit enters, and the run of bits through which the old ones move to make room.
        let (enters, leaves) = if stage < inner { (stage, inner - 1) } else { (all - 1, inner) };
        let bit = |value: u16, at: u32| value >> at & 1;
        let of_lane = |lane: u16| {
            let mut from = half << leaves;
            for at in 0..all {
                let source = match at {
                    _ if at == enters => continue,
                    _ if stage < inner && at > enters && at < inner => at - 1,
                    _ if stage >= inner && at >= inner => at + 1,
                    _ => at,
                };
                from |= bit(lane, at) << source;
            }
            from + bit(lane, enters) * self.size
        };
        (0..self.size).map(of_lane).collect()
    }

    /// The column that vector number `number` holds after all stages: the inner bits are in reverse order.
    fn column(&self, number: u16, dtype: DataType) -> i64 {
        let inner = self.inner_bits(dtype);
        let low = (0..inner).fold(0, |low, at| low << 1 | (number >> at & 1));
        i64::from((number >> inner << inner) | low)
    }
}

/// Replaces the crossing loads by loads of their transposed tiles.
struct Replace<'a> {
    tile: &'a Tile<'a>,
    tiles: Vec<(Buffer, BufferLoad)>,
}

impl Mutator for Replace<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if let PrimExpr::BufferLoad(load) = expr
            && let Some((tile, _)) = self.tiles.iter().find(|(_, known)| is_same(known, load))
        {
            let count = i64::from(self.tile.size);
            return Some(tile.load([PrimExpr::from(self.tile.i) * count + &self.tile.inner.loop_var]));
        }
        self.walk_expr(expr)
    }
}

fn is_same(a: &BufferLoad, b: &BufferLoad) -> bool {
    a.buffer == b.buffer && same_indices(&a.indices, &b.indices)
}
