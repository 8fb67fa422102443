//! Linear equations: the coefficients of variables in an expression.
//!
//! TVM counterpart: `DetectLinearEquation` (`detect_linear_equation.cc`).

use super::Analyzer;
use super::same::any_node;
use super::sum::{LinearSum, Products};
use crate::ir::Var;
use crate::ir::tensor_program::PrimExpr;

/// `coefficients[k] * vars[k] + … + base`, with no variable of `vars` in the coefficients and the base.
#[derive(Clone, Debug)]
pub struct LinearEquation {
    /// One coefficient per variable.
    pub coefficients: Vec<PrimExpr>,
    /// The part without these variables.
    pub base: PrimExpr,
}

/// `expr` as a linear equation in `vars`; `None` when it is not linear in them, or not an integer.
pub fn detect_linear_equation(expr: &PrimExpr, vars: &[Var], analyzer: &Analyzer) -> Option<LinearEquation> {
    if !expr.dtype().is_integer() {
        return None;
    }
    let mut rest = LinearSum::of(&analyzer.simplify(expr), Products::Expand);
    let mut coefficients = Vec::new();
    for var in vars {
        let (slope, others) = rest.split_linear(&PrimExpr::from(var))?;
        let slope = slope.to_expr();
        if mentions(&slope, vars) {
            return None;
        }
        coefficients.push(slope);
        rest = others;
    }
    let base = rest.to_expr();
    (!mentions(&base, vars)).then_some(LinearEquation { coefficients, base })
}

/// True when a variable of `vars` occurs in `expr`.
pub(super) fn mentions(expr: &PrimExpr, vars: &[Var]) -> bool {
    any_node(expr, &mut |it| it.as_var().is_some_and(|var| vars.contains(var)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients() {
        let [i, j, n] = ["i", "j", "n"].map(Var::index);
        let analyzer = Analyzer::new();
        let vars = [i.clone(), j.clone()];
        let cases = [
            (&i * 4i64 + &j + 3, Some(["4", "1", "3"])),
            ((&i * &n + &j) * 2 - &n, Some(["n * 2", "2", "-n"])),
            ((&i + &j) * 2 - &i * 2i64, Some(["0", "2", "0"])),
            (&i * &j, None),
            (PrimExpr::from(&i).floordiv(2) + &j, None),
            (PrimExpr::from(&i).min(&j), None),
        ];
        let expected = |text: &str| match text {
            "n * 2" => &n * 2i64,
            "-n" => -PrimExpr::from(&n),
            number => number.parse::<i64>().unwrap().into(),
        };
        for (expr, want) in cases {
            let got = detect_linear_equation(&expr, &vars, &analyzer);
            assert_eq!(got.is_some(), want.is_some(), "{expr:?}");
            let (Some(got), Some(want)) = (got, want) else { continue };
            for (got, want) in got.coefficients.iter().chain([&got.base]).zip(want) {
                assert!(analyzer.can_prove_equal(got, &expected(want)), "{expr:?}: {got:?} is not {want}");
            }
        }
    }
}
