//! The range of an index expression over the ranges of loop variables.

use crate::arith::{Analyzer, DomMap};
use crate::ir::{Var, structural_equal};
use crate::tir::{BinaryOp, PrimExpr, Range};

/// The range of `expr` while `vars` run over their ranges, outermost first; `None` when it is not bounded.
pub(crate) fn range_of(expr: &PrimExpr, vars: &[(Var, Range)]) -> Option<Range> {
    if let Some((_, range)) = vars.iter().find(|(var, _)| expr.as_var() == Some(var))
        && !depends(&range.min, vars)
        && !depends(&range.extent, vars)
    {
        return Some(range.clone());
    }
    // Accesses are inside their buffers, so the index does not overflow.
    let ends = vars.iter().flat_map(|(_, range)| [&range.min, &range.extent]);
    let analyzer = Analyzer::of_indices(ends.chain([expr]));
    let mut dom = DomMap::default();
    for (var, range) in vars {
        dom.insert(var.id(), analyzer.range_set(range, &dom));
    }
    analyzer.int_set(expr, &dom).to_range(&analyzer)
}

/// Number of values in `min..end`.
pub(crate) fn extent_between(min: &PrimExpr, end: PrimExpr) -> PrimExpr {
    if min.is_const(0) {
        return end;
    }
    match &end {
        PrimExpr::Binary(it) if it.op == BinaryOp::Add && structural_equal(&it.a, min).is_ok() => {
            it.b.clone()
        }
        _ => end - min,
    }
}

/// True when `expr` uses one of the variables.
fn depends(expr: &PrimExpr, vars: &[(Var, Range)]) -> bool {
    crate::tir::any_expr(expr, &mut |it| {
        it.as_var().is_some_and(|var| vars.iter().any(|(other, _)| other == var))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_tiles() {
        let (io, ii, n) = (Var::index("io"), Var::index("ii"), Var::index("n"));
        let tiles = PrimExpr::from(&n).floordiv(32);
        let vars =
            vec![(io.clone(), Range::from_extent(tiles.clone())), (ii.clone(), Range::from_extent(32))];
        let range = range_of(&(&io * 32i64 + &ii), &vars).unwrap();
        assert!(range.min.is_const(0));
        assert!(
            Analyzer::of_indices([&tiles]).can_prove_equal(&range.extent, &(tiles * 32)),
            "{}",
            range.extent
        );
        let shifted = range_of(&(&ii - 1i64), &vars).unwrap();
        assert!(shifted.min.is_const(-1) && shifted.extent.is_const(32));
    }
}
