//! Prepares products of narrow numbers for the rules: what the inner loop would do to each operand again and again is done
//! once per element, in a block of its own.
//!
//! `c[i, j] += cast(a[i, k]) * cast(b[k, j])` becomes
//!
//! - for integers of 8 bits that are summed in `i32`: four neighbouring elements along `k` become one word, and `c` sums
//!   [`Dot4`](Intrinsic::Dot4)s of words. Sums of `i32` wrap, so their order does not matter. `Dot4` multiplies unsigned by
//!   signed bytes. For operands of one type, the bytes of `b` get their highest bit flipped: `b + 128` as an unsigned byte,
//!   or `b - 128` as a signed one. The sums of `a` times 128, which this adds, are subtracted from the result;
//! - for `bf16` that are summed in `f32`, if the machine has [`bf16_dot`](Machine::bf16_dot): two neighbouring elements become
//!   one word, and `c` sums [`Dot2`](Intrinsic::Dot2)s of words;
//! - for other floats of 16 bits that are summed in `f32`: both operands are copied as `f32`.
//!
//! The blocks that make such copies have the annotation [`COPY`]. The rule for contractions computes that of `b` inside of
//! the copy of a panel, if it packs one.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::analysis::indexed_by;
use super::nest::{Nest, statements, with_statements};
use crate::arith::Analyzer;
use crate::ir::{Attrs, Var};
use crate::target::Machine;
use crate::tir::analysis::{self, with_access_regions};
use crate::tir::{
    BinaryOp, Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, Intrinsic, IterKind, IterVar,
    PrimExpr, PrimFunc, Range, Stmt, binary, substitute_expr, uses_var,
    words::{parts, word},
};

/// Annotation of blocks that copy a narrow operand in the form in which products use it.
pub(super) const COPY: &str = "copy_of_narrow";

/// Terms of a sum from which on words are made.
const TERMS: i64 = 8;

/// Rows of a result from which on words are made, and floats are widened.
const ROWS: [i64; 2] = [8, 32];

/// The highest bit of each byte.
const HIGH_BITS: i64 = 0x8080_8080_u32 as i32 as i64;

/// `func` with copies of the narrow operands of its products, and the names of the blocks of the products; `None` if it has
/// no such products.
pub(super) fn prepared(func: &PrimFunc, machine: &Machine) -> Option<(PrimFunc, Vec<std::sync::Arc<str>>)> {
    let (root, stmts) = statements(func)?;
    let mut made = Made { stmts: Vec::new(), buffers: Vec::new() };
    let mut names = Vec::new();
    for stmt in stmts {
        match Product::of(stmt, machine) {
            Some(product) => {
                names.push(product.realize.block.name.clone());
                product.prepare(stmt, &mut made);
            }
            None => made.stmts.push(stmt.clone()),
        }
    }
    if names.is_empty() {
        return None;
    }
    let buffers = root.block.alloc_buffers.iter().cloned().chain(made.buffers);
    Some((with_statements(func, root, made.stmts, buffers), names))
}

/// What is made of a program: its statements, and buffers.
struct Made {
    stmts: Vec<Stmt>,
    buffers: Vec<Buffer>,
}

/// A loop nest around `c = c + cast(a) * cast(b)`.
struct Product<'a> {
    realize: &'a BlockRealize,
    store: &'a BufferStore,
    /// The operand that is the same in all columns, and the other one.
    operands: [&'a BufferLoad; 2],
    /// The axis whose terms become words, and the dimension of each operand that it is the index of; `None` for floats.
    words: Option<(&'a IterVar, [usize; 2])>,
}

impl<'a> Product<'a> {
    fn of(stmt: &'a Stmt, machine: &Machine) -> Option<Product<'a>> {
        let realize = Nest::of(stmt)?.realize;
        let block = &realize.block;
        block.init.as_ref()?.as_buffer_store()?;
        let store = block.body.as_buffer_store()?;
        let (BinaryOp::Add, PrimExpr::Binary(term)) = analysis::update(store)? else { return None };
        let (BinaryOp::Mul, Some(a), Some(b)) = (term.op, narrow(&term.a), narrow(&term.b)) else {
            return None;
        };
        let column = store.indices.last()?.as_var()?;
        let moves = |load: &BufferLoad| indexed_by(load, column);
        let operands = match (moves(a), moves(b)) {
            (false, true) => [a, b],
            (true, false) => [b, a],
            _ => return None,
        };
        let [is_bytes, is_half] =
            [is_byte, is_half].map(|fits| operands.iter().all(|it| fits(it.buffer.dtype)));
        let mut product = Product { realize, store, operands, words: None };
        match store.buffer.dtype {
            DataType::I32 if is_bytes => {}
            DataType::F32 if is_half => {}
            _ => return None,
        }
        if is_bytes || machine.bf16_dot && operands.iter().all(|it| it.buffer.dtype == DataType::BF16) {
            let reduced = block.iter_vars.iter().filter(|axis| axis.kind == IterKind::Reduce);
            let places = |axis: &'a IterVar| {
                let [a, b] = product.operands.map(|load| only_index(load, &axis.var));
                Some((axis, [a?, b?]))
            };
            let many = |axis: &IterVar| axis.dom.extent.as_int().is_none_or(|extent| extent >= TERMS);
            product.words = reduced.filter(|axis| many(axis)).find_map(places);
            if is_bytes && product.words.is_none() {
                return None;
            }
        }
        let least = ROWS[usize::from(product.words.is_none())];
        product.rows().is_none_or(|rows| rows >= least).then_some(product)
    }

    /// The number of rows for which the second operand is used, if it is a constant.
    fn rows(&self) -> Option<i64> {
        let used = |var: &Var| indexed_by(self.operands[1], var);
        let rows = self.spatial().filter(|axis| !used(&axis.var));
        rows.into_iter().try_fold(1i64, |rows, axis| rows.checked_mul(axis.dom.extent.as_int()?))
    }

    fn spatial(&self) -> impl Iterator<Item = &'a IterVar> {
        self.realize.block.iter_vars.iter().filter(|axis| axis.kind == IterKind::Spatial)
    }

    fn prepare(&self, stmt: &Stmt, made: &mut Made) {
        let Some((axis, places)) = self.words else {
            let [a, b] = [0, 1].map(|i| {
                let wide = self.copy(i, DataType::F32, self.operands[i].buffer.shape.to_vec(), made, |at| {
                    self.operands[i].buffer.load(at).cast(DataType::F32)
                });
                wide.load(self.operands[i].indices.clone())
            });
            let value = self.old() + a * b;
            made.stmts.push(self.rewritten(stmt, &self.store.buffer, value, None));
            return;
        };
        let [x, y] = self.operands.map(|it| it.buffer.dtype);
        let parts = parts(x);
        let groups = (axis.dom.extent.clone() + (parts - 1)).floordiv(parts);
        let groups = Analyzer::new().simplify(&groups);
        let flipped = x == y && is_byte(x);
        let words = [0, 1].map(|i| {
            let (buffer, place) = (&self.operands[i].buffer, places[i]);
            let mut shape = buffer.shape.to_vec();
            shape[place] = groups.clone();
            self.copy(i, DataType::I32, shape, made, |at| {
                let word = word(buffer.dtype, &axis.dom.extent, at, place, |at| buffer.load(at));
                if flipped && i == 1 { binary(BinaryOp::BitXor, word, int(HIGH_BITS)) } else { word }
            })
        });
        let word_of = |i: usize| words[i].load(self.operands[i].indices.clone());
        let dot = |a: PrimExpr, b: PrimExpr| {
            // Unsigned bytes first. Flipped, those of `b` are what those of `a` are not.
            match x {
                DataType::BF16 => {
                    let zero = PrimExpr::float(0.0, DataType::F32);
                    PrimExpr::call(Intrinsic::Dot2, [a, b, zero], DataType::F32)
                }
                DataType::U8 => PrimExpr::call(Intrinsic::Dot4, [a, b, int(0)], DataType::I32),
                _ => PrimExpr::call(Intrinsic::Dot4, [b, a, int(0)], DataType::I32),
            }
        };
        if !flipped {
            let value = self.old() + dot(word_of(0), word_of(1));
            made.stmts.push(self.rewritten(stmt, &self.store.buffer, value, Some(&groups)));
            return;
        }
        let product = self.store.buffer.renew(|node| {
            node.name = format!("{}_words", node.name).into();
            (node.strides, node.elem_offset) = (std::sync::Arc::new([]), None);
        });
        made.buffers.push(product.clone());
        let value = product.load(self.store.indices.clone()) + dot(word_of(0), word_of(1));
        made.stmts.push(self.rewritten(stmt, &product, value, Some(&groups)));
        let excess = self.excess(&groups, made, &dot(word_of(0), int(HIGH_BITS)));
        self.subtract(&product, &excess, made);
    }

    /// The element that the block updates.
    fn old(&self) -> PrimExpr {
        self.store.buffer.load(self.store.indices.clone())
    }

    /// Adds a block that fills a buffer with a copy of operand `i`.
    fn copy(
        &self,
        i: usize,
        dtype: DataType,
        shape: Vec<PrimExpr>,
        made: &mut Made,
        value: impl FnOnce(Vec<PrimExpr>) -> PrimExpr,
    ) -> Buffer {
        let name = format!("{}_{}", self.realize.block.name, ["left", "right"][i]);
        let copy = Buffer::new(name.as_str(), shape.clone(), dtype);
        made.buffers.push(copy.clone());
        let axes: Vec<IterVar> = shape
            .into_iter()
            .enumerate()
            .map(|(i, extent)| axis(&format!("i{i}"), extent, IterKind::Spatial))
            .collect();
        let at: Vec<PrimExpr> = axes.iter().map(|axis| PrimExpr::from(&axis.var)).collect();
        let body = Stmt::store(&copy, at.clone(), value(at));
        let annotations = Attrs::new().with(COPY, true);
        made.stmts.push(nest(Block { annotations, ..Block::new(name, body) }, axes));
        copy
    }

    /// The nest of the product with this value in `target`, and its axis of words with the extent `groups`.
    fn rewritten(&self, stmt: &Stmt, target: &Buffer, value: PrimExpr, groups: Option<&PrimExpr>) -> Stmt {
        if let Stmt::For(node) = stmt {
            let of_words = self.words.is_some_and(|(axis, _)| {
                let mut axes = self.realize.block.iter_vars.iter().zip(self.realize.iter_values.iter());
                axes.any(|(it, value)| it.var == axis.var && value.as_var() == Some(&node.loop_var))
            });
            let extent = groups.filter(|_| of_words).unwrap_or(&node.extent).clone();
            return For {
                extent,
                body: self.rewritten(&node.body, target, value, groups),
                ..(**node).clone()
            }
            .into();
        }
        let block = &self.realize.block;
        let iter_vars = block.iter_vars.iter().map(|it| match (self.words, groups) {
            (Some((axis, _)), Some(groups)) if axis.var == it.var => {
                IterVar { dom: Range::from_extent(groups.clone()), ..it.clone() }
            }
            _ => it.clone(),
        });
        let init = block
            .init
            .as_ref()
            .and_then(|it| it.as_buffer_store())
            .map(|init| Stmt::from(BufferStore { buffer: target.clone(), ..(**init).clone() }));
        let body = BufferStore { buffer: target.clone(), value, ..self.store.clone() }.into();
        let block = Block { iter_vars: iter_vars.collect(), init, body, ..(**block).clone() };
        BlockRealize { block: with_access_regions(block).into(), ..self.realize.clone() }.into()
    }

    /// Adds a block that sums the words of the first operand; the element that belongs to one of the result.
    fn excess(&self, groups: &PrimExpr, made: &mut Made, term: &PrimExpr) -> BufferLoad {
        let used = |axis: &IterVar| indexed_by(self.operands[0], &axis.var);
        let spatial: Vec<&IterVar> = self.spatial().filter(|axis| used(axis)).collect();
        let reduced = self.realize.block.iter_vars.iter().filter(|axis| axis.kind == IterKind::Reduce);
        let shape: Vec<PrimExpr> = spatial.iter().map(|axis| axis.dom.extent.clone()).collect();
        let name = format!("{}_excess", self.realize.block.name);
        let sums = Buffer::new(name.as_str(), shape, DataType::I32);
        made.buffers.push(sums.clone());
        let of_words = |it: &IterVar| self.words.is_some_and(|(axis, _)| axis.var == it.var);
        let extent = |it: &IterVar| if of_words(it) { groups.clone() } else { it.dom.extent.clone() };
        let (mut vars, mut axes) = (FxHashMap::default(), Vec::new());
        for it in spatial.iter().copied().chain(reduced) {
            let new = IterVar { var: it.var.renew(), dom: Range::from_extent(extent(it)), kind: it.kind };
            vars.insert(it.var.id(), PrimExpr::from(&new.var));
            axes.push(new);
        }
        let at: Vec<PrimExpr> = spatial.iter().map(|axis| PrimExpr::from(&axis.var)).collect();
        let own: Vec<PrimExpr> = at.iter().map(|index| substitute_expr(index, &vars)).collect();
        let term = substitute_expr(term, &vars);
        let body = Stmt::store(&sums, own.clone(), sums.load(own.clone()) + term);
        let init = Some(Stmt::store(&sums, own, int(0)));
        made.stmts.push(nest(Block { init, ..Block::new(name, body) }, axes));
        BufferLoad { buffer: sums, indices: at.into(), predicate: None, span: self.store.span.clone() }
    }

    /// Adds a block that stores `product - excess` as the result.
    fn subtract(&self, product: &Buffer, excess: &BufferLoad, made: &mut Made) {
        let (mut vars, mut axes) = (FxHashMap::default(), Vec::new());
        for it in self.spatial() {
            let new = IterVar { var: it.var.renew(), ..it.clone() };
            vars.insert(it.var.id(), PrimExpr::from(&new.var));
            axes.push(new);
        }
        let own = |indices: &[PrimExpr]| -> Vec<PrimExpr> {
            indices.iter().map(|index| substitute_expr(index, &vars)).collect()
        };
        let at = own(&self.store.indices);
        let value = product.load(at.clone()) - excess.buffer.load(own(&excess.indices));
        let body = Stmt::store(&self.store.buffer, at, value);
        made.stmts.push(nest(Block::new(format!("{}_result", self.realize.block.name), body), axes));
    }
}

fn int(value: i64) -> PrimExpr {
    PrimExpr::int(value, DataType::I32)
}

fn is_byte(dtype: DataType) -> bool {
    matches!(dtype, DataType::I8 | DataType::U8)
}

fn is_half(dtype: DataType) -> bool {
    matches!(dtype, DataType::BF16 | DataType::F16)
}

/// The load in a cast of a narrow element.
fn narrow(value: &PrimExpr) -> Option<&BufferLoad> {
    let PrimExpr::Cast(cast) = value else { return None };
    let PrimExpr::BufferLoad(load) = &cast.value else { return None };
    (is_byte(load.buffer.dtype) || is_half(load.buffer.dtype)).then_some(load)
}

/// The dimension of which `var` is the index, if no other index depends on it.
fn only_index(load: &BufferLoad, var: &Var) -> Option<usize> {
    let place = load.indices.iter().position(|index| index.as_var() == Some(var))?;
    let others = load.indices.iter().enumerate().filter(|(i, _)| *i != place);
    others.into_iter().all(|(_, index)| !uses_var(index, var)).then_some(place)
}

fn axis(name: &str, extent: PrimExpr, kind: IterKind) -> IterVar {
    IterVar { var: Var::index(name), dom: Range::from_extent(extent), kind }
}

/// `block` with these axes, in a loop for each.
fn nest(block: Block, axes: Vec<IterVar>) -> Stmt {
    let loops: Vec<Var> = axes.iter().map(|axis| axis.var.renew()).collect();
    let extents: Vec<PrimExpr> = axes.iter().map(|axis| axis.dom.extent.clone()).collect();
    let realize = BlockRealize {
        iter_values: loops.iter().map(PrimExpr::from).collect(),
        predicate: PrimExpr::bool(true),
        block: with_access_regions(Block { iter_vars: axes.into(), ..block }).into(),
    };
    let around = |body: Stmt, (var, extent): (Var, PrimExpr)| For::serial(var, extent, body).into();
    loops.into_iter().zip(extents).rev().fold(realize.into(), around)
}
