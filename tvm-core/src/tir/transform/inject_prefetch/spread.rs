//! Spreads prefetches over the loop that runs while their lines are on the way.
//!
//! Many prefetches at once occupy the buffers for misses of the first-level cache, so that what the loop itself reads waits for
//! them. The lines of a tile lie at equal distances along its rows and columns, so iterations of the loop compute the places.

use tvm_runtime::DataType;

use super::{Line, prefetch};
use crate::arith::Analyzer;
use crate::ir::Var;
use crate::tir::transform::util::one_iteration;
use crate::tir::{For, ForKind, Intrinsic, Mutator, PrimExpr, Stmt};

/// Lines of one buffer from which on they are spread.
const FEWEST: usize = 4;

/// Iterations of the loop between two prefetches at least: a shorter loop has no time for both.
const FEWEST_TERMS: i64 = 4;

/// Lines of one buffer at equal distances: rows of `columns` lines.
struct Lattice {
    first: Line,
    count: i64,
    columns: i64,
    /// Distances between neighbours, in elements.
    row_step: i64,
    column_step: i64,
}

impl Lattice {
    /// `lines`, if their places are those of a lattice, row by row.
    fn of(lines: &[Line]) -> Option<Lattice> {
        let analyzer = Analyzer::new();
        let first = lines.first()?;
        let offset = |line: &Line| analyzer.simplify(&(&line.1 - &first.1)).as_int();
        let offsets: Vec<i64> = lines.iter().map(offset).collect::<Option<_>>()?;
        let &column_step = offsets.get(1)?;
        let columns =
            offsets.windows(2).position(|it| it[1] - it[0] != column_step).map_or(lines.len(), |at| at + 1);
        let row_step = offsets.get(columns).copied().unwrap_or(0);
        let expected = |at: usize| (at / columns) as i64 * row_step + (at % columns) as i64 * column_step;
        let fits = offsets.iter().enumerate().all(|(at, &offset)| offset == expected(at));
        let (first, count) = (first.clone(), lines.len() as i64);
        fits.then_some(if columns == lines.len() {
            Lattice { first, count, columns: 1, row_step: column_step, column_step: 0 }
        } else {
            Lattice { first, count, columns: columns as i64, row_step, column_step }
        })
    }

    /// Prefetches line `number`, counted row by row.
    fn prefetch(&self, number: &PrimExpr, intrinsic: Intrinsic) -> Stmt {
        let (buffer, first) = &self.first;
        let row = number.clone().floordiv(self.columns) * self.row_step;
        let column = number.clone().floormod(self.columns) * self.column_step;
        let place = Analyzer::new().simplify(&(first + row + column));
        prefetch((buffer.clone(), place), intrinsic)
    }
}

/// `body` with prefetches of `lines`: spread over its first serial loop where that is possible, before it otherwise.
pub(super) fn with_prefetches(lines: Vec<Line>, body: Stmt, intrinsic: Intrinsic) -> Stmt {
    let mut of_buffer: Vec<Vec<Line>> = Vec::new();
    for line in lines {
        match of_buffer.iter_mut().find(|of| of[0].0 == line.0) {
            Some(of) => of.push(line),
            None => of_buffer.push(vec![line]),
        }
    }
    let (mut before, mut body) = (Vec::new(), body);
    for lines in of_buffer {
        let lattice = Lattice::of(&lines).filter(|_| lines.len() >= FEWEST);
        let spread = lattice.and_then(|lattice| {
            let mut spread = Spread { lattice, intrinsic, at_loop: false };
            spread.mutate_stmt(&body)
        });
        match spread {
            Some(spread) => body = spread,
            None => before.extend(lines.into_iter().map(|line| prefetch(line, intrinsic))),
        }
    }
    Stmt::seq(before.into_iter().chain([body]))
}

struct Spread {
    lattice: Lattice,
    intrinsic: Intrinsic,
    /// True once a loop was met.
    at_loop: bool,
}

impl Mutator for Spread {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            _ if self.at_loop => None,
            Stmt::For(node) => {
                self.at_loop = true;
                self.over(node)
            }
            Stmt::IfThenElse(_) => None,
            _ => self.walk_stmt(stmt),
        }
    }
}

impl Spread {
    /// `node` with one or two of the prefetches in each of equal groups of its iterations.
    fn over(&self, node: &For) -> Option<Stmt> {
        let is_plain = node.kind == ForKind::Serial && node.min.is_const(0);
        let extent = node.extent.as_int().filter(|_| is_plain && node.loop_var.dtype() == DataType::I64)?;
        let count = self.lattice.count;
        let most = count.min(extent / FEWEST_TERMS);
        let groups = (count / 2..=most).rev().find(|groups| extent % groups == 0)?;
        let (share, terms) = ((count + groups - 1) / groups, extent / groups);
        let group = Var::index(format!("{}_group", node.loop_var.name()));
        let line = |at: i64| self.lattice.prefetch(&(PrimExpr::from(&group) * share + at), self.intrinsic);
        let term = node.loop_var.renew();
        let value = PrimExpr::from(&group) * terms + &term;
        let body = one_iteration(&node.loop_var, &value, &node.body);
        let inner = For { loop_var: term, extent: PrimExpr::index(terms), body, ..node.clone() };
        let body = Stmt::seq((0..share).map(line).chain([inner.into()]));
        let outer = For::serial(group.clone(), PrimExpr::index(groups), body);
        Some(For { span: node.span.clone(), ..outer }.into())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::tir::Buffer;

    /// A loop of `extent` iterations after a statement, with prefetches of lines of `x` at `places`.
    fn prefetched(extent: i64, places: &[i64]) -> String {
        let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(4096)], DataType::F32));
        let k = Var::index("k");
        let lines = places.iter().map(|&at| (x.clone(), PrimExpr::index(at))).collect();
        let store = |at: PrimExpr| Stmt::store(&y, [at], PrimExpr::float(0.0, DataType::F32));
        let sum = For::serial(k.clone(), extent, store((&k).into())).into();
        let body = Stmt::seq([store(PrimExpr::index(0)), sum]);
        with_prefetches(lines, body, Intrinsic::Prefetch).to_string()
    }

    #[test]
    fn lines_of_a_tile_are_spread() {
        expect![[r#"
            y[[0]] = 0.0;
            for k_group in 0..6 {
                prefetch(x[[k_group / 2 * 168 + k_group * 16 + 100]]);
                for k in 0..8 {
                    y[[k_group * 8 + k]] = 0.0;
                }
            }"#]]
        .assert_eq(&prefetched(48, &[100, 116, 300, 316, 500, 516]));
        // Seven groups for eight lines.
        expect![[r#"
            y[[0]] = 0.0;
            for k_group in 0..7 {
                prefetch(x[[k_group * 128]]);
                prefetch(x[[k_group * 128 + 64]]);
                for k in 0..7 {
                    y[[k_group * 7 + k]] = 0.0;
                }
            }"#]]
        .assert_eq(&prefetched(49, &[0, 64, 128, 192, 256, 320, 384, 448]));
    }

    #[test]
    fn other_lines_stay_before_the_loop() {
        let regular = [0, 16, 32, 48];
        let cases = [(64, &[0, 16, 32][..]), (64, &[0, 16, 100, 117, 200]), (7, &regular), (53, &regular)];
        for (extent, places) in cases {
            let text = prefetched(extent, places);
            assert_eq!(text.matches("\nprefetch").count() + 1, places.len(), "{text}");
            assert!(text.starts_with("prefetch") && !text.contains("group"), "{text}");
        }
    }
}
