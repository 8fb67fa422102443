//! Constant arrays of the host program in a kernel: `TABLE[i]` reads a buffer that the kernel fills when it begins.

use std::sync::Arc;

use super::host::HostArray;
use super::value::KernelValue;
use crate::ir::Span;
use crate::tir::analysis::with_access_regions;
use crate::tir::{Block, BlockRealize, Buffer, PrimExpr, Scope, Stmt};

/// One array that the kernel reads.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Address of the array.
    address: usize,
    pub(super) buffer: Buffer,
    /// True when its elements are indices.
    pub(super) index: bool,
    values: Vec<PrimExpr>,
}

impl Table {
    /// The buffer of `array`; `None` where it has no elements.
    pub(super) fn new<A: HostArray>(name: &'static str, array: &A, span: &Span) -> Option<Table> {
        let elements = array.elements();
        let index = elements.first()?.is_index();
        let values: Vec<PrimExpr> = elements.into_iter().map(KernelValue::into_expr).collect();
        let shape: Vec<PrimExpr> = A::extents().into_iter().map(PrimExpr::index).collect();
        let buffer = Buffer::with_scope(name, shape, values.first()?.dtype(), Scope::Global);
        let buffer = buffer.renew(|node| node.span = span.clone());
        Some(Table { name, address: std::ptr::from_ref(array).addr(), buffer, index, values })
    }

    /// True when this is the table of `array`, which is read under the name `name`. Neither address nor name suffices: a
    /// constant may lie at several addresses, and two modules may have arrays of the same name.
    pub(super) fn holds<A: HostArray>(&self, name: &str, array: &A) -> bool {
        let same = |elements: &[PrimExpr]| {
            elements.len() == self.values.len()
                && elements.iter().zip(&self.values).all(|(a, b)| same_constant(a, b))
        };
        let values = || array.elements().into_iter().map(KernelValue::into_expr).collect::<Vec<_>>();
        self.name == name
            && self.buffer.shape.iter().filter_map(PrimExpr::as_int).eq(A::extents())
            && (self.address == std::ptr::from_ref(array).addr() || same(&values()))
    }

    /// The block `name` that fills the buffer.
    pub(super) fn fill(&self, name: Arc<str>) -> Stmt {
        let extents: Vec<i64> = self.buffer.shape.iter().filter_map(PrimExpr::as_int).collect();
        let stores = self.values.iter().enumerate().map(|(i, value)| {
            let mut rest = i as i64;
            let mut at: Vec<PrimExpr> = Vec::with_capacity(extents.len());
            for extent in extents.iter().rev() {
                at.push(PrimExpr::index(rest % extent));
                rest /= extent;
            }
            at.reverse();
            Stmt::store(&self.buffer, at, value.clone())
        });
        let block = Block { span: self.buffer.span.clone(), ..Block::new(name, Stmt::seq(stores)) };
        BlockRealize::opaque(with_access_regions(block))
    }
}

/// True when both constants have the same type and the same bits.
fn same_constant(a: &PrimExpr, b: &PrimExpr) -> bool {
    a.dtype() == b.dtype()
        && match (a, b) {
            (PrimExpr::IntImm(a), PrimExpr::IntImm(b)) => a.value == b.value,
            (PrimExpr::FloatImm(a), PrimExpr::FloatImm(b)) => a.value.to_bits() == b.value.to_bits(),
            _ => false,
        }
}
