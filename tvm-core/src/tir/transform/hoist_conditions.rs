//! Decides before a loop what is decided alike in all its iterations.
//!
//! `for i { a; if c { b } }` becomes `if c { for i { a; b } } else { for i { a } }`, if `c` depends on nothing that the loop binds or
//! changes, every iteration evaluates it, and its evaluation cannot fail, or the loop has an iteration. All branches on the condition directly
//! in the loop take part. Each loop is divided once, and only if it has at most [`MOST`] statements.
//!
//! It is in no pipeline: the pass `NarrowLoops` moves conditions around whole bodies already, and LLVM and gcc (`-O3`) divide
//! loops by other conditions themselves.
//!
//! TVM counterpart: `HoistIfThenElse`.
//! Requires: flat buffers.

use super::context::reads;
use super::convert_ssa::convert;
use super::util::{Inside, body_pass, rewrite_loops};
use crate::arith::same;
use crate::pass::Pass;
use crate::tir::analysis::is_total;
use crate::tir::{For, IfThenElse, PrimExpr, Stmt, Visitor, walk_stmt};

/// Statements of a loop that is copied, at most.
const MOST: usize = 32;

/// Divides loops by conditions that do not depend on them.
pub fn hoist_conditions() -> Pass {
    body_pass("HoistConditions", |func| {
        rewrite_loops(func, divided).map(|body| convert(func, &body).unwrap_or(body))
    })
}

/// `node` with the body `body`, once for each value of a condition that it does not change.
fn divided(node: &For, body: &Stmt, runs: bool) -> Option<Stmt> {
    let mut inside = Inside::of(body);
    inside.vars.insert(node.loop_var.id());
    let stmts = match body {
        Stmt::SeqStmt(stmts) => &**stmts,
        other => std::slice::from_ref(other),
    };
    let mut may_fail = runs;
    let mut found = None;
    for stmt in stmts {
        if let Stmt::IfThenElse(branch) = stmt {
            let condition = &branch.condition;
            let certain = !reads(condition) && is_total(condition);
            if inside.is_fixed(condition) && (certain || may_fail) {
                found = Some(branch);
                break;
            }
        }
        may_fail &= !Inside::of(stmt).ends;
    }
    let branch = found?;
    if count(body) > MOST {
        return None;
    }
    let version = |holds: bool| -> Stmt {
        let taken = stmts.iter().map(|stmt| match stmt {
            Stmt::IfThenElse(it) if same(&it.condition, &branch.condition) => match holds {
                true => it.then_case.clone(),
                false => it.else_case.clone().unwrap_or_else(Stmt::nop),
            },
            other => other.clone(),
        });
        match Stmt::seq(taken) {
            Stmt::SeqStmt(none) if none.is_empty() => Stmt::nop(),
            body => For { body, ..node.clone() }.into(),
        }
    };
    let otherwise = version(false);
    let empty = matches!(&otherwise, Stmt::SeqStmt(none) if none.is_empty());
    let all = IfThenElse {
        condition: branch.condition.clone(),
        then_case: version(true),
        else_case: (!empty).then_some(otherwise),
        span: branch.span.clone(),
    };
    Some(all.into())
}

/// Number of statements in `stmt`, without sequences.
fn count(stmt: &Stmt) -> usize {
    struct Count(usize);
    impl Visitor for Count {
        fn visit_expr(&mut self, _: &PrimExpr) {}

        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.0 += usize::from(!matches!(stmt, Stmt::SeqStmt(_)));
            walk_stmt(self, stmt);
        }
    }
    let mut counter = Count(0);
    counter.visit_stmt(stmt);
    counter.0
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use tvm_runtime::DataType;
    use tvm_testing::{Budget, Rng};

    use super::super::random_programs::Case;
    use super::*;
    use crate::ir::{IRModule, Var};
    use crate::pass::PassContext;
    use crate::tir::transform::hoist_expressions;
    use crate::tir::{Buffer, Param, PrimFunc};

    fn after(body: impl FnOnce(&Buffer, &Buffer, &Var, &Var) -> Stmt) -> String {
        let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(8)], DataType::F32));
        let [i, n] = ["i", "n"].map(Var::index);
        let body = body(&x, &y, &i, &n);
        let body = For::serial(i, 8, body).into();
        let func = PrimFunc::new("f", [Param::In(x), Param::Out(y), Param::Scalar(n)], body);
        let module = IRModule::from_prim_func(func);
        let module = hoist_conditions().apply_in(module, &PassContext::default()).unwrap();
        let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
        format!("{}\n", func.to_string().trim_end())
    }

    fn number(value: f64) -> PrimExpr {
        PrimExpr::float(value, DataType::F32)
    }

    #[test]
    fn a_loop_is_divided_by_all_branches_on_the_condition() {
        let text = after(|x, y, i, n| {
            let branch = |value: f64, other: Option<f64>| {
                let put = |value| Stmt::store(y, [i.into()], x.load([i.into()]) + number(value));
                Stmt::if_then_else(PrimExpr::from(n).less(3), put(value), other.map(put))
            };
            let between = Stmt::store(y, [i.into()], number(0.5));
            Stmt::seq([branch(1.0, Some(2.0)), between, branch(3.0, None)])
        });
        expect![[r#"
            #[prim_func(lowered)]
            fn f(x: &Tensor<f32, 8>, y: &mut Tensor<f32, 8>, n: i64) {
                if n < 3 {
                    for i in 0..8 {
                        y[[i]] = x[[i]] + 1.0;
                        y[[i]] = 0.5;
                        y[[i]] = x[[i]] + 3.0;
                    }
                } else {
                    for i in 0..8 {
                        y[[i]] = x[[i]] + 2.0;
                        y[[i]] = 0.5;
                    }
                }
            }
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn what_the_loop_changes_is_decided_in_it() {
        let whole = |text: String| assert_eq!(text.matches("for ").count(), 1, "{text}");
        whole(after(|_, y, i, _| {
            let condition = y.load([PrimExpr::index(0)]).less(number(1.0));
            Stmt::if_then_else(
                condition,
                Stmt::store(y, [i.into()], number(2.0)),
                Some(Stmt::store(y, [i.into()], number(3.0))),
            )
        }));
        // Too long a body.
        whole(after(|_, y, i, n| {
            let put = Stmt::store(y, [i.into()], number(2.0));
            let long = Stmt::seq(vec![put; MOST]);
            Stmt::seq([Stmt::if_then_else(PrimExpr::from(n).less(3), long, None)])
        }));
    }

    #[test]
    fn fuzz_hoist_conditions() {
        for seed in Budget::new("hoist_conditions", 300) {
            let case = Case::random(&mut Rng::new(seed));
            case.check(&[hoist_conditions()], seed);
            case.check(&[hoist_conditions(), hoist_conditions(), hoist_expressions()], seed);
        }
    }
}
