//! Index arithmetic: which integers it consists of, how large they get, and the check that they fit.
//!
//! Proofs assume that sums and products of *index variables* do not overflow `i64`. Index variables are dimensions, and
//! loop variables and axes whose ranges consist of index variables. A check at the start of the kernel establishes the
//! assumption: for every expression of index variables in the program, and for the size of every buffer, a polynomial of
//! the dimensions bounds the magnitude; the kernel compares the largest of these with [`LIMIT`] before anything else.
//! All other integers are *data* (scalars, elements of tensors, casts, calls, large constants), whose arithmetic may
//! wrap: see [`Extents::size`].

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;
use tvm_runtime::abi::Status;

use crate::arith::{Analyzer, ConstIntBound};
use crate::ir::{Attrs, BufferId, IrError, Var, VarId};
use crate::support::with_stack;
use crate::tir::transform::align_storage::{alignments_in, most_elements};
use crate::tir::{
    AssertStmt, Binary, BinaryOp, Block, Buffer, Failure, Intrinsic, Param, PrimCallee, PrimExpr, PrimFunc,
    Range, Stmt, Visitor, any_expr, arithmetic, bitwise, comparison, logical, walk_block, walk_expr,
    walk_stmt,
};

/// Maximum magnitude of an index: the sum of two smaller ones fits in `i64`.
pub(super) const LIMIT: i64 = 1 << 62;
/// Maximum magnitude of an index constant; larger constants are data (those of hash functions, say).
const LARGEST_CONSTANT: u64 = 1 << 40;
/// Maximum number of terms in the product of two polynomials; a longer one is taken to be infinite.
const LARGEST_PRODUCT: usize = 4096;
/// 2^63: every value of `i64` is less.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// A bound of a magnitude: a polynomial of the dimensions with non-negative coefficients, which are stored by the sorted
/// numbers of the dimensions in each product.
#[derive(Clone, Debug, Default, PartialEq)]
struct Magnitude(BTreeMap<Vec<usize>, f64>);

impl Magnitude {
    fn constant(value: f64) -> Magnitude {
        Magnitude(BTreeMap::from([(vec![], value)]))
    }

    fn scaled(mut self, by: f64) -> Magnitude {
        self.0.values_mut().for_each(|c| *c *= by);
        self
    }

    fn plus(mut self, other: &Magnitude) -> Magnitude {
        other.0.iter().for_each(|(product, c)| *self.0.entry(product.clone()).or_default() += c);
        self
    }

    fn times(&self, other: &Magnitude) -> Magnitude {
        if self.0.len() * other.0.len() > LARGEST_PRODUCT {
            return Magnitude::constant(f64::INFINITY);
        }
        let mut res = Magnitude::default();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut product = [a.as_slice(), b].concat();
                product.sort_unstable();
                *res.0.entry(product).or_default() += x * y;
            }
        }
        res
    }

    /// Raises `self` to an upper bound of both.
    fn raise(&mut self, other: &Magnitude) {
        for (product, &c) in &other.0 {
            let known = self.0.entry(product.clone()).or_default();
            *known = known.max(c);
        }
    }

    /// The products that divide no other product, each with the sum of its coefficient and those of its divisors.
    fn maximal(&self) -> impl Iterator<Item = (&Vec<usize>, f64)> {
        let part_of = |part: &[usize], whole: &[usize]| {
            let mut rest = whole.iter();
            part.len() < whole.len() && part.iter().all(|dim| rest.any(|it| it == dim))
        };
        let is_maximal = move |product: &Vec<usize>| !self.0.keys().any(|whole| part_of(product, whole));
        self.0.keys().filter(move |product| is_maximal(product)).map(move |whole| {
            let parts = self.0.iter().filter(|(product, _)| *product == whole || part_of(product, whole));
            (whole, parts.map(|(_, c)| c).sum())
        })
    }

    fn or(mut self, other: &Magnitude) -> Magnitude {
        self.raise(other);
        self
    }
}

/// The index variables of a program.
#[derive(Default)]
pub(super) struct Extents {
    dims: Vec<Var>,
    known: FxHashMap<VarId, Magnitude>,
    /// Upper bound of all indices and of the bytes of all buffers.
    largest: Magnitude,
    /// The alignments of buffers.
    aligned: FxHashMap<BufferId, Attrs>,
}

impl Extents {
    pub(super) fn new(func: &PrimFunc) -> Extents {
        let mut extents = Extents { aligned: alignments_in(&func.body), ..Extents::default() };
        let params = || func.params.iter().filter_map(Param::buffer);
        for extent in params().flat_map(|buffer| buffer.shape.iter()) {
            if let Some(var) = extent.as_var()
                && !extents.known.contains_key(&var.id())
            {
                let magnitude = match var.bound().and_then(|bound| bound.max()) {
                    Some(max) if max <= LARGEST_CONSTANT as i64 => Magnitude::constant(max as f64),
                    _ => Magnitude(BTreeMap::from([(vec![extents.dims.len()], 1.0)])),
                };
                extents.dims.push(var.clone());
                extents.known.insert(var.id(), magnitude);
            }
        }
        params().for_each(|buffer| extents.buffer(buffer));
        extents.visit_stmt(&func.body);
        extents
    }

    /// The check at the start of the kernel; `None` if the bound does not depend on dimensions.
    pub(super) fn check(&self, func: &PrimFunc) -> Result<Option<Stmt>, IrError> {
        let too_large = |c: &f64| *c > LIMIT as f64;
        if self.largest.0.values().any(too_large) {
            let message = format!("an index or the size of a buffer of `{}` does not fit in i64", func.name);
            return Err(IrError::new(message, &func.span).help("use smaller extents"));
        }
        if self.largest.0.keys().all(Vec::is_empty) {
            return Ok(None);
        }
        let float = |value| PrimExpr::float(value, DataType::F64);
        // At least 1: a product must bound its divisors also when another factor is 0.
        let dim = |dim: &usize| PrimExpr::from(&self.dims[*dim]).max(1).cast(DataType::F64);
        let product = |(dims, c): (&Vec<usize>, f64)| match dims.iter().map(dim).reduce(|a, b| a * b) {
            Some(product) if c == 1.0 => product,
            Some(product) => product * float(c),
            None => float(c),
        };
        let sum = self.largest.maximal().map(product).reduce(|a, b| a + b).unwrap_or_else(|| float(0.0));
        let failure = Failure {
            status: Status::IndexOverflow as i32,
            arg: -1,
            axis: -1,
            expected: PrimExpr::index(LIMIT),
            got: sum.clone().cast(DataType::I64),
            what: "".into(),
            span: func.span.clone(),
        };
        Ok(Some(AssertStmt { condition: sum.less_equal(float(LIMIT as f64)), failure }.into()))
    }

    /// True when `expr` consists of index variables and index constants only.
    pub(super) fn is_index(&self, expr: &PrimExpr) -> bool {
        let data = |it: &PrimExpr| match it {
            PrimExpr::Var(var) => !self.known.contains_key(&var.id()),
            PrimExpr::IntImm(it) => it.value.unsigned_abs() > LARGEST_CONSTANT,
            PrimExpr::Binary(it) => it.a.dtype() != DataType::I64 || !matches!(it.op, arithmetic!()),
            _ => true,
        };
        !any_expr(expr, &mut |it| data(it))
    }

    /// An upper bound of the magnitude of `expr`; `None` if an operation in it may wrap.
    pub(super) fn size(&self, expr: &PrimExpr, analyzer: &Analyzer) -> Option<f64> {
        self.bounded(expr, analyzer).map(|(size, _)| size)
    }

    /// True when no integer operation in the condition can wrap.
    pub(super) fn is_exact(&self, condition: &PrimExpr, analyzer: &Analyzer) -> bool {
        with_stack(|| match condition {
            PrimExpr::Not(it) => self.is_exact(&it.value, analyzer),
            PrimExpr::Binary(it) if it.a.dtype() == DataType::I64 || it.a.dtype().is_bool() => match it.op {
                logical!() | comparison!() => {
                    let side = |side: &PrimExpr| match side.dtype().is_bool() {
                        true => self.is_exact(side, analyzer),
                        false => self.bounded(side, analyzer).is_some(),
                    };
                    side(&it.a) && side(&it.b)
                }
                _ => true,
            },
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::Likely) => {
                self.is_exact(&it.args[0], analyzer)
            }
            _ => true,
        })
    }

    /// As `size`; also whether `expr` consists of index variables and index constants only.
    fn bounded(&self, expr: &PrimExpr, analyzer: &Analyzer) -> Option<(f64, bool)> {
        let magnitude = |bound: ConstIntBound| {
            let infinite = bound.min == ConstIntBound::NEG_INF || bound.max == ConstIntBound::POS_INF;
            let size = (bound.min as f64).abs().max((bound.max as f64).abs());
            // An infinite bound is one in terms of index variables, which do not exceed the limit.
            if infinite { LIMIT as f64 } else { size }
        };
        let leaf = |index: bool| {
            let size = magnitude(analyzer.const_int_bound(expr));
            (if index { size.min(LIMIT as f64) } else { size }, index)
        };
        with_stack(|| match expr {
            PrimExpr::Var(var) => Some(leaf(self.known.contains_key(&var.id()))),
            PrimExpr::IntImm(it) => Some(leaf(it.value.unsigned_abs() <= LARGEST_CONSTANT)),
            PrimExpr::Binary(it) if it.a.dtype() == DataType::I64 => {
                let ((a, a_index), (b, b_index)) =
                    (self.bounded(&it.a, analyzer)?, self.bounded(&it.b, analyzer)?);
                let index = a_index && b_index && matches!(it.op, arithmetic!());
                let size = match it.op {
                    BinaryOp::Add | BinaryOp::Sub => a + b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::FloorDiv | BinaryOp::Div => a,
                    BinaryOp::FloorMod | BinaryOp::Mod => b,
                    BinaryOp::Min | BinaryOp::Max => a.max(b),
                    comparison!() | logical!() | bitwise!() => return Some(leaf(false)),
                };
                if index {
                    // The check at the start of the kernel bounds it.
                    return Some((size.min(LIMIT as f64), true));
                }
                (size < TWO_TO_63 || !is_ring(it.op)).then_some((size.min(TWO_TO_63), false))
            }
            _ => Some(leaf(false)),
        })
    }

    /// The magnitude of `expr`, if it consists of index variables; otherwise counts those parts of `expr` that do.
    fn scan(&mut self, expr: &PrimExpr) -> Option<Magnitude> {
        with_stack(|| match expr {
            PrimExpr::IntImm(it) if it.dtype == DataType::I64 => {
                let size = it.value.unsigned_abs();
                (size <= LARGEST_CONSTANT).then(|| Magnitude::constant(size as f64))
            }
            PrimExpr::Var(var) => self.known.get(&var.id()).cloned(),
            PrimExpr::Binary(it) if it.a.dtype() == DataType::I64 => self.scan_binary(it),
            _ => {
                walk_expr(self, expr);
                None
            }
        })
    }

    fn scan_binary(&mut self, it: &Binary) -> Option<Magnitude> {
        let (a, b) = match (self.scan(&it.a), self.scan(&it.b)) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => {
                a.iter().chain(&b).for_each(|part| self.largest.raise(part));
                return None;
            }
        };
        if matches!(it.op, BinaryOp::Mul) {
            return Some(a.times(&b));
        }
        if matches!(it.op, BinaryOp::Add | BinaryOp::Sub) {
            return Some(a.plus(&b));
        }
        self.largest.raise(&a);
        self.largest.raise(&b);
        match it.op {
            BinaryOp::FloorDiv | BinaryOp::Div => Some(match it.b.as_int() {
                Some(by) if by > 1 => a.scaled(1.0 / by as f64).plus(&Magnitude::constant(1.0)),
                _ => a,
            }),
            BinaryOp::FloorMod | BinaryOp::Mod => Some(b),
            op => matches!(op, arithmetic!()).then(|| a.or(&b)),
        }
    }

    fn count(&mut self, expr: &PrimExpr) -> Option<Magnitude> {
        let magnitude = self.scan(expr)?;
        self.largest.raise(&magnitude);
        Some(magnitude)
    }

    /// Records that `var` runs over `range`.
    fn bind(&mut self, var: &Var, range: &Range) {
        if let (Some(min), Some(extent)) = (self.count(&range.min), self.count(&range.extent)) {
            let end = min.plus(&extent);
            self.largest.raise(&end);
            self.known.insert(var.id(), end);
        }
    }

    fn name(&mut self, var: &Var, value: &PrimExpr) {
        if let Some(magnitude) = self.count(value) {
            self.known.insert(var.id(), magnitude);
        }
    }

    /// Counts the bytes of `buffer`.
    fn buffer(&mut self, buffer: &Buffer) {
        let elements = super::elements(buffer);
        let bytes = PrimExpr::index(buffer.dtype.bytes() as i64);
        self.count(&(elements * bytes.clone()));
        if let Some(dims) = self.aligned.get(&buffer.id) {
            self.count(&(most_elements(buffer, dims) * bytes));
        }
    }
}

impl Visitor for Extents {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Let(it) = expr {
            self.name(&it.var, &it.value);
            return self.visit_expr(&it.body);
        }
        if let PrimExpr::Ramp(it) = expr
            && let (Some(base), Some(stride)) = (self.count(&it.base), self.count(&it.stride))
        {
            let last = base.plus(&stride.times(&Magnitude::constant(it.lanes.into())));
            return self.largest.raise(&last);
        }
        self.count(expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(it) => self.bind(&it.loop_var, &it.range()),
            Stmt::Bind(it) => return self.name(&it.var, &it.value),
            Stmt::AllocBuffer(it) => self.buffer(&it.buffer),
            _ => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_block(&mut self, block: &Block) {
        for iter in block.iter_vars.iter() {
            self.bind(&iter.var, &iter.dom);
        }
        for matched in block.match_buffers.iter() {
            let hidden = matched.source.region.len().saturating_sub(matched.buffer.ndim());
            for (formal, range) in matched.buffer.shape.iter().zip(&matched.source.region[hidden..]) {
                if let Some(var) = formal.as_var()
                    && !self.known.contains_key(&var.id())
                {
                    self.name(var, &range.extent);
                }
            }
        }
        block.alloc_buffers.iter().for_each(|buffer| self.buffer(buffer));
        walk_block(self, block);
    }
}

/// True for the operations that may wrap (apart from `MIN / -1`).
fn is_ring(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul)
}
