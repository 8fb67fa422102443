//! Tests of hoisted expressions: what moves, what stays, and that random programs keep their results.

use expect_test::expect;
use tvm_runtime::DataType;
use tvm_testing::{Budget, Rng};

use super::super::random_programs::Case;
use super::hoist_expressions;
use crate::ir::{IRModule, Var};
use crate::pass::PassContext;
use crate::tir::transform::{common_subexpr_elim, renew_defs};
use crate::tir::{AssertStmt, Buffer, Failure, For, ForKind, Intrinsic, Param, PrimExpr, PrimFunc, Stmt};

const F64: DataType = DataType::F64;

fn after(func: &PrimFunc) -> String {
    let module = IRModule::from_prim_func(renew_defs(func));
    let module = hoist_expressions().apply_in(module, &PassContext::default()).unwrap();
    let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
    format!("{}\n", func.to_string().trim_end())
}

/// `for i in 0..4 { for j in 0..extent { body } }`
fn program(
    extent: &dyn Fn(&Var) -> PrimExpr,
    body: impl FnOnce(&Buffer, &Buffer, &Var, &Var) -> Stmt,
) -> PrimFunc {
    let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(64)], F64));
    let [i, j, n] = ["i", "j", "n"].map(Var::index);
    let body = body(&x, &y, &i, &j);
    let inner = For::serial(j, extent(&n), body).into();
    PrimFunc::new("f", [Param::In(x), Param::Out(y), Param::Scalar(n)], For::serial(i, 4, inner).into())
}

fn eight(_: &Var) -> PrimExpr {
    PrimExpr::index(8)
}

#[test]
fn functions_move_as_far_as_they_can() {
    let func = program(&eight, |x, y, i, j| {
        let row = x.load([i.into()]).unary(Intrinsic::Tanh);
        let all = x.load([PrimExpr::index(63)]).unary(Intrinsic::Tanh);
        Stmt::store(y, [i * 8i64 + j], (x.load([j.into()]) * row + all).unary(Intrinsic::Erf))
    });
    expect![[r#"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f64, 64>, y: &mut Tensor<f64, 64>, n: i64) {
            let fixed = tanh(x[[63]]);
            for i in 0..4 {
                let fixed_1 = tanh(x[[i]]);
                for j in 0..8 {
                    y[[i * 8 + j]] = erf(x[[j]] * fixed_1 + fixed);
                }
            }
        }
    "#]]
    .assert_eq(&after(&func));
}

/// A loop that may have no iteration: a load moves with a condition, and no further; arithmetic moves as it is.
#[test]
fn loads_do_not_move_out_of_empty_loops() {
    let func = program(&|n| n.into(), |x, y, i, j| {
        let row = x.load([i.into()]).unary(Intrinsic::Tanh);
        Stmt::store(y, [j.into()], x.load([j.into()]) * row)
    });
    expect![[r#"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f64, 64>, y: &mut Tensor<f64, 64>, n: i64) {
            for i in 0..4 {
                if n >= 1 {
                    let fixed = tanh(x[[i]]);
                    for j in 0..(n as usize) {
                        y[[j]] = x[[j]] * fixed;
                    }
                }
            }
        }
    "#]]
    .assert_eq(&after(&func));
    let func = program(&|n| n.into(), |_, y, i, j| {
        Stmt::store(y, [j.into()], PrimExpr::from(i).cast(F64).unary(Intrinsic::Tanh))
    });
    expect![[r#"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f64, 64>, y: &mut Tensor<f64, 64>, n: i64) {
            for i in 0..4 {
                let fixed = tanh(i as f64);
                for j in 0..(n as usize) {
                    y[[j]] = fixed;
                }
            }
        }
    "#]]
    .assert_eq(&after(&func));
}

#[test]
fn what_a_loop_changes_or_guards_stays() {
    let stays = |body: &dyn Fn(&Buffer, &Buffer, &Var, &Var) -> Stmt| {
        let func = program(&eight, |x, y, i, j| body(x, y, i, j));
        let text = after(&func);
        assert!(!text.contains("fixed"), "{text}");
    };
    let tanh = |x: &Buffer, at: PrimExpr| x.load([at]).unary(Intrinsic::Tanh);
    // The loop writes what is read.
    stays(&|_, y, i, j| Stmt::store(y, [i * 8i64 + j], tanh(y, PrimExpr::index(0))));
    // It is evaluated in some iterations only.
    stays(&|x, y, i, j| {
        let condition = PrimExpr::from(j).less(4);
        Stmt::if_then_else(condition, Stmt::store(y, [j.into()], tanh(x, i.into())), None)
    });
    stays(&|x, y, i, j| {
        let args = [PrimExpr::from(j).less(2), tanh(x, i.into()), PrimExpr::float(0.0, F64)];
        Stmt::store(y, [j.into()], PrimExpr::call(Intrinsic::IfThenElse, args, F64))
    });
    // An assertion stands before it.
    stays(&|x, y, i, j| {
        let zero = PrimExpr::index(0);
        let failure = Failure::new(7, -1, -1, zero.clone(), zero);
        let inside = AssertStmt { condition: PrimExpr::from(i).less(64), failure };
        Stmt::seq([inside.into(), Stmt::store(y, [j.into()], tanh(x, i.into()))])
    });
    // It is cheap.
    stays(&|x, y, i, j| Stmt::store(y, [j.into()], x.load([i.into()]) * PrimExpr::float(2.0, F64)));
}

/// Scalars move out of parallel loops, vectors do not.
#[test]
fn vectors_stay_in_parallel_loops() {
    for (lanes, moves) in [(1, true), (4, false)] {
        let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(64)], F64));
        let i = Var::index("i");
        let at = |base: PrimExpr| if lanes == 1 { base } else { base.ramp(PrimExpr::index(1), lanes) };
        let value = x.load([at(PrimExpr::index(0))]).unary(Intrinsic::Tanh);
        let body = Stmt::store(&y, [at(&i * 4i64)], value);
        let body = For { kind: ForKind::Parallel, ..For::serial(i, 16, body) }.into();
        let func = PrimFunc::new("f", [Param::In(x), Param::Out(y)], body);
        assert_eq!(after(&func).contains("fixed"), moves);
    }
}

/// Of the place of a contiguous access, the first index moves: the access stays contiguous.
#[test]
fn places_of_vectors_stay_ramps() {
    let func = program(&eight, |x, y, i, _| {
        let first = PrimExpr::from(i).floordiv(3) + PrimExpr::from(i).floormod(7);
        let place = || [first.clone().ramp(PrimExpr::index(1), 4)];
        Stmt::store(y, place(), x.load(place()) + y.load(place()))
    });
    let text = after(&func);
    assert!(text.contains("y[[ramp(fixed, 1, 4)]] ="), "{text}");
}

#[test]
fn fuzz_hoist_expressions() {
    let (mut changed, mut cases) = (0, 0);
    for seed in Budget::new("hoist_expressions", 300) {
        let case = Case::random(&mut Rng::new(seed));
        let func = case.check(&[hoist_expressions()], seed);
        case.check(&[hoist_expressions(), common_subexpr_elim(), hoist_expressions()], seed);
        cases += 1;
        changed += usize::from(func.to_string().contains("fixed"));
    }
    assert!(changed * 8 >= cases, "{changed} of {cases}");
}
