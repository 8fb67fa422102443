//! The regions that a stage reads, from the loads of its body.

use crate::tir::{BufferRegion, PrimExpr, Range, Visitor, any_expr, walk_expr};

/// Regions read by `values`, one per buffer in order of first use. A dimension that is read at several indices, or at
/// one that is itself read from memory, counts as a whole.
pub(super) fn read_regions(values: &[PrimExpr]) -> Vec<BufferRegion> {
    struct Loads(Vec<BufferRegion>);

    impl Visitor for Loads {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if let PrimExpr::BufferLoad(load) = expr {
                let index = |(i, index): (usize, &PrimExpr)| {
                    if any_expr(index, &mut |it| matches!(it, PrimExpr::BufferLoad(_))) {
                        Range::from_extent(load.buffer.shape[i].clone())
                    } else {
                        Range::point(index.clone())
                    }
                };
                let region: Vec<Range> = load.indices.iter().enumerate().map(index).collect();
                match self.0.iter_mut().find(|it| it.buffer == load.buffer) {
                    Some(known) => {
                        let union = known.region.iter().zip(&region).zip(load.buffer.shape.iter());
                        known.region = union
                            .map(|((a, b), extent)| {
                                let same = same_expr(&a.min, &b.min) && same_expr(&a.extent, &b.extent);
                                if same { a.clone() } else { Range::from_extent(extent.clone()) }
                            })
                            .collect();
                    }
                    None => {
                        self.0.push(BufferRegion { buffer: load.buffer.clone(), region: region.into() });
                    }
                }
            }
            walk_expr(self, expr);
        }
    }

    let mut loads = Loads(Vec::new());
    values.iter().for_each(|value| loads.visit_expr(value));
    loads.0
}

/// True when both are the same index expression, node by node.
pub(crate) fn same_expr(a: &PrimExpr, b: &PrimExpr) -> bool {
    a.ptr_eq(b)
        || match (a, b) {
            (PrimExpr::Binary(a), PrimExpr::Binary(b)) => {
                a.op == b.op && same_expr(&a.a, &b.a) && same_expr(&a.b, &b.b)
            }
            (PrimExpr::Cast(a), PrimExpr::Cast(b)) => a.dtype == b.dtype && same_expr(&a.value, &b.value),
            _ => false,
        }
}
