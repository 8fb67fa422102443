//! One check: an integer against one end of a range, and the statement that makes it.

use tvm_runtime::abi::Status;

use super::super::context::reads;
use super::extents::LIMIT;
use crate::arith::{Analyzer, same};
use crate::ir::{IrError, Span, Var};
use crate::tir::{AssertStmt, Buffer, Failure, Intrinsic, PrimExpr, PrimFunc, Range, Stmt};

/// Variables of loops or axes and what they run over.
pub(super) type Axes = Vec<(Var, Range)>;

/// Which end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Low,
    High,
}

/// What is checked.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// An index of an axis of a buffer.
    Access(Buffer, usize),
    /// An extent of a view of a buffer, which is a region of an axis of it.
    View(Buffer, usize),
    /// An extent of a buffer that is allocated.
    Extent(Buffer, usize),
    /// The bytes of a buffer that is allocated.
    Size(Buffer),
    /// The value of an axis of a block, counted from the start of its domain.
    Axis { block: String, axis: String, number: usize, start: PrimExpr },
}

/// Where all `guards` hold, `index` is on the right side of the end of `0..extent`.
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
    /// What is to hold.
    pub(super) fn condition(&self) -> PrimExpr {
        match self.side {
            Side::Low => self.index.clone().greater_equal(0),
            Side::High => self.index.clone().less(self.extent.clone()),
        }
    }

    /// True when both check the same.
    pub(super) fn same(&self, other: &Check) -> bool {
        self.side == other.side
            && self.subject.same(&other.subject)
            && same(&self.index, &other.index)
            && same(&self.extent, &other.extent)
            && self.guards.len() == other.guards.len()
            && self.guards.iter().zip(&other.guards).all(|(a, b)| same(a, b))
    }

    /// All that is evaluated.
    pub(super) fn parts(&self) -> impl Iterator<Item = &PrimExpr> {
        self.guards.iter().chain([&self.index, &self.extent])
    }

    /// The statement that checks; `func` names the parameters.
    pub(super) fn to_stmt(&self, func: &PrimFunc) -> Stmt {
        // What the guards guard is not evaluated without them.
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
        let span = if self.span.is_none() { &func.span } else { &self.span };
        let failure = Failure { status: status as i32, arg, axis, expected, got, what, place: span.text() };
        AssertStmt { condition: guarded(self.condition(), PrimExpr::bool(true)), failure }.into()
    }

    /// The error of something that is outside in every run.
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

/// `a` where `condition` holds, else `b`; the other one is not evaluated.
fn if_then_else(condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let dtype = a.dtype();
    PrimExpr::call(Intrinsic::IfThenElse, [condition, a, b], dtype)
}
