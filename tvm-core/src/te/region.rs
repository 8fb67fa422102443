//! The regions that a stage reads, from the loads of its body.

use crate::arith::same;
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
                                let equal = same(&a.min, &b.min) && same(&a.extent, &b.extent);
                                if equal { a.clone() } else { Range::from_extent(extent.clone()) }
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
