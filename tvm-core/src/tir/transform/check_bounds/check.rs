//! One check: compares an integer with one end of a range; and the assertion that performs it.

use tvm_runtime::abi::Status;

use super::super::context::reads;
use super::extents::LIMIT;
use crate::arith::{Analyzer, same};
use crate::ir::{IrError, Span, Var};
use crate::tir::{AssertStmt, Buffer, Failure, Intrinsic, PrimExpr, PrimFunc, Range, Stmt};

/// Variables of loops or axes, with their ranges.
pub(super) type Axes = Vec<(Var, Range)>;

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

/// The quantity that a check tests.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// An index into an axis of a buffer.
    Access(Buffer, usize),
    /// An extent of a view, which matches a region of this axis of the buffer.
    View(Buffer, usize),
    /// An extent of an allocated buffer.
    Extent(Buffer, usize),
    /// The size of an allocated buffer in bytes.
    Size(Buffer),
    /// The value of an axis of a block, counted from the start of its domain.
    Axis { block: String, axis: String, number: usize, start: PrimExpr },
}

/// If all `guards` hold, `index` must not be beyond the end `side` of `0..extent`.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) subject: Subject,
    pub(super) side: Side,
    pub(super) index: PrimExpr,
    pub(super) extent: PrimExpr,
    /// In the order in which they are evaluated.
    pub(super) guards: Vec<PrimExpr>,
    pub(super) span: Span,
}

impl Subject {
    fn same(&self, other: &Subject) -> bool {
        match (self, other) {
            (Subject::Access(a, i), Subject::Access(b, k))
            | (Subject::View(a, i), Subject::View(b, k))
            | (Subject::Extent(a, i), Subject::Extent(b, k)) => a == b && i == k,
            (Subject::Size(a), Subject::Size(b)) => a == b,
            (Subject::Axis { block: a, number: i, .. }, Subject::Axis { block: b, number: k, .. }) => {
                a == b && i == k
            }
            (
                Subject::Access(..)
                | Subject::View(..)
                | Subject::Extent(..)
                | Subject::Size(_)
                | Subject::Axis { .. },
                _,
            ) => false,
        }
    }
}

impl Check {
    /// The condition that must hold.
    pub(super) fn condition(&self) -> PrimExpr {
        match self.side {
            Side::Low => self.index.clone().greater_equal(0),
            Side::High => self.index.clone().less(self.extent.clone()),
        }
    }

    /// True when both checks are equal, up to their spans.
    pub(super) fn same(&self, other: &Check) -> bool {
        self.side == other.side
            && self.subject.same(&other.subject)
            && same(&self.index, &other.index)
            && same(&self.extent, &other.extent)
            && self.guards.len() == other.guards.len()
            && self.guards.iter().zip(&other.guards).all(|(a, b)| same(a, b))
    }

    /// All expressions that the check evaluates.
    pub(super) fn parts(&self) -> impl Iterator<Item = &PrimExpr> {
        self.guards.iter().chain([&self.index, &self.extent])
    }

    /// The assertion that performs the check; it reports a buffer that is a parameter of `func` by position.
    pub(super) fn to_stmt(&self, func: &PrimFunc) -> Stmt {
        // A guarded expression must not be evaluated if a guard does not hold.
        let guarded = |value: PrimExpr, otherwise: PrimExpr| {
            self.guards
                .iter()
                .rev()
                .fold(value, |value, guard| if_then_else(guard.clone(), value, otherwise.clone()))
        };
        let report = |value: &PrimExpr| match reads(value) {
            true => guarded(value.clone(), PrimExpr::index(0)),
            false => value.clone(),
        };
        let param = |buffer: &Buffer| {
            func.params
                .iter()
                .position(|param| param.buffer() == Some(buffer))
                .map_or(-1, |param| param as i32)
        };
        let (status, arg, axis, start) = match &self.subject {
            Subject::Access(buffer, axis) | Subject::View(buffer, axis) => {
                (Status::OutOfBounds, param(buffer), *axis as i32, None)
            }
            Subject::Extent(_, axis) => (Status::NegativeExtent, -1, *axis as i32, None),
            Subject::Size(_) => (Status::OutOfMemory, -1, -1, None),
            Subject::Axis { number, start, .. } => (Status::AxisDomain, -1, *number as i32, Some(start)),
        };
        let from_start = |value: PrimExpr| match start {
            Some(start) if !start.is_const(0) => start + value,
            _ => value,
        };
        let (expected, got) = match &self.subject {
            Subject::Size(_) => (report(&self.index), PrimExpr::index(LIMIT)),
            Subject::Extent(..) => (PrimExpr::index(0), report(&self.index)),
            Subject::Access(..) | Subject::View(..) | Subject::Axis { .. } => {
                (report(&from_start(self.extent.clone())), report(&from_start(self.index.clone())))
            }
        };
        let what = match &self.subject {
            Subject::Access(buffer, _)
            | Subject::View(buffer, _)
            | Subject::Extent(buffer, _)
            | Subject::Size(buffer) => buffer.name.clone(),
            Subject::Axis { block, axis, .. } => format!("axis `{axis}` of block `{block}`").into(),
        };
        let span = if self.span.is_none() { &func.span } else { &self.span }.clone();
        let failure = Failure { status: status as i32, arg, axis, expected, got, what, span };
        AssertStmt { condition: guarded(self.condition(), PrimExpr::bool(true)), failure }.into()
    }

    /// The compile-time error of a check that fails in every run.
    pub(super) fn error(&self, analyzer: &Analyzer) -> IrError {
        let (index, extent) = (analyzer.simplify(&self.index), &self.extent);
        match &self.subject {
            Subject::Access(buffer, axis) => IrError::new(
                format!(
                    "this index reaches {index}, but axis {axis} of `{}` has extent {extent}",
                    buffer.name
                ),
                &self.span,
            )
            .help("let the loops end earlier, or guard the access with an `if`"),
            Subject::View(buffer, axis) => IrError::new(
                format!(
                    "the extent of axis {axis} of `{}` is {index}, more than its region has",
                    buffer.name
                ),
                &self.span,
            )
            .help("give the matched buffer the extents of its region"),
            Subject::Extent(buffer, axis) => IrError::new(
                format!("the extent of axis {axis} of buffer `{}` is {index}", buffer.name),
                &self.span,
            )
            .help("use extents that are not negative"),
            Subject::Size(buffer) => {
                IrError::new(format!("buffer `{}` has {index} bytes", buffer.name), &self.span)
                    .help("use smaller extents")
            }
            Subject::Axis { block, axis, start, .. } => {
                let value = analyzer.simplify(&(start + &self.index));
                let end = analyzer.simplify(&(start + extent));
                IrError::new(
                    format!("block `{block}`: axis `{axis}` reaches {value}, its domain is {start}..{end}"),
                    &self.span,
                )
                .help("let the loops end earlier, or make the domain larger")
            }
        }
    }
}

/// `a` if `condition` holds, else `b`; the other one is not evaluated.
fn if_then_else(condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let dtype = a.dtype();
    PrimExpr::call(Intrinsic::IfThenElse, [condition, a, b], dtype)
}
