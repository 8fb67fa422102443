//! Regions of buffers that statements touch, as boxes of intervals.
//!
//! TVM counterpart: `DomainTouched`, `EstimateRegionUpperBound`.

use super::Analyzer;
use super::int_set::{DomMap, IntervalSet};
use crate::tir::{Buffer, BufferLoad, PrimExpr, Range, Stmt, Visitor, walk_expr, walk_stmt};

/// Which accesses count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads.
    Reads,
    /// Stores.
    Writes,
    /// Loads and stores.
    Both,
}

/// The smallest box of intervals around every element of `buffer` that `stmt` touches when its loops run; `None`
/// when it touches none. Variables that `stmt` does not bind stay symbolic.
pub fn domain_touched(
    stmt: &Stmt,
    buffer: &Buffer,
    access: Access,
    analyzer: &Analyzer,
) -> Option<Vec<IntervalSet>> {
    let mut touched =
        Touched { buffer, access, analyzer: analyzer.clone(), dom: DomMap::default(), res: None };
    touched.visit_stmt(stmt);
    touched.res
}

/// A box of intervals around `region` when the variables of `dom` take all of their values for which `predicate`
/// holds.
pub fn estimate_region_upper_bound(
    region: &[Range],
    dom: &DomMap,
    predicate: &PrimExpr,
    analyzer: &Analyzer,
) -> Vec<IntervalSet> {
    analyzer.with_constraint(predicate, |analyzer| {
        region
            .iter()
            .map(|range| {
                let first = analyzer.int_set(&range.min, dom);
                let last = analyzer.int_set(&(&range.min + &range.extent - 1), dom);
                IntervalSet { min: first.min, max: last.max }
            })
            .collect()
    })
}

struct Touched<'a> {
    buffer: &'a Buffer,
    access: Access,
    analyzer: Analyzer,
    dom: DomMap,
    res: Option<Vec<IntervalSet>>,
}

impl Touched<'_> {
    fn touch(&mut self, indices: &[PrimExpr]) {
        let sets: Vec<_> = indices.iter().map(|index| self.analyzer.int_set(index, &self.dom)).collect();
        self.res = Some(match self.res.take() {
            None => sets,
            Some(known) => known.iter().zip(&sets).map(|(a, b)| a.union(b, &self.analyzer)).collect(),
        });
    }
}

impl Visitor for Touched<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::BufferLoad(load) = expr
            && self.access != Access::Writes
            && load.buffer == *self.buffer
        {
            let BufferLoad { indices, .. } = &**load;
            self.touch(indices);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(it) => {
                let range = Range { min: it.min.clone(), extent: it.extent.clone() };
                let (first, last) = (
                    self.analyzer.int_set(&range.min, &self.dom),
                    self.analyzer.int_set(&(&range.min + &range.extent - 1), &self.dom),
                );
                self.dom.insert(it.loop_var.id(), IntervalSet { min: first.min, max: last.max });
            }
            Stmt::Bind(it) if it.value.dtype().is_integer() => {
                let set = self.analyzer.int_set(&it.value, &self.dom);
                self.dom.insert(it.var.id(), set);
            }
            Stmt::BlockRealize(it) => {
                for (iter, value) in it.block.iter_vars.iter().zip(it.iter_values.iter()) {
                    let set = self.analyzer.int_set(value, &self.dom);
                    self.dom.insert(iter.var.id(), set);
                }
            }
            Stmt::BufferStore(it) => {
                if self.access != Access::Reads && it.buffer == *self.buffer {
                    self.touch(&it.indices);
                }
            }
            Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => {}
        }
        walk_stmt(self, stmt);
    }
}

#[cfg(test)]
mod tests {
    use tvm_runtime::DataType;

    use super::*;
    use crate::arith::same;
    use crate::ir::Var;
    use crate::tir::For;

    #[test]
    fn a_window_over_a_row() {
        let [i, j, n] = ["i", "j", "n"].map(Var::index);
        let mut analyzer = Analyzer::new();
        analyzer.bind_dim(&n);
        let (a, b) = (
            Buffer::new("a", [&n + 2i64], DataType::F32),
            Buffer::new("b", [PrimExpr::from(&n)], DataType::F32),
        );
        let store = Stmt::store(&b, [PrimExpr::from(&i)], a.load([&i + &PrimExpr::from(&j)]));
        let nest = Stmt::from(For::serial(i.clone(), &n, For::serial(j.clone(), 3, store).into()));
        let touched = |buffer, access| domain_touched(&nest, buffer, access, &analyzer);
        let cases = [(&a, Access::Reads, &n + 1i64), (&b, Access::Both, &n - 1i64)];
        for (buffer, access, max) in cases {
            let sets = touched(buffer, access).unwrap();
            assert!(sets[0].min.as_ref().unwrap().is_const(0), "{sets:?}");
            assert!(same(sets[0].max.as_ref().unwrap(), &max), "{sets:?}");
        }
        assert!(touched(&b, Access::Reads).is_none() && touched(&a, Access::Writes).is_none());
    }

    #[test]
    fn a_predicate_narrows() {
        let i = Var::index("i");
        let dom = DomMap::from_iter([(i.id(), IntervalSet::new(0, 15))]);
        let region = [Range { min: &i * 4i64, extent: 4.into() }];
        let set = estimate_region_upper_bound(&region, &dom, &PrimExpr::bool(true), &Analyzer::new());
        assert!(set[0].min.as_ref().unwrap().is_const(0) && set[0].max.as_ref().unwrap().is_const(63));
    }
}
