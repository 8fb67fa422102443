//! Tests of common subexpressions: what gets a name, what does not, and that random programs keep their results.

use expect_test::expect;
use tvm_runtime::DataType;
use tvm_testing::{Budget, Rng};

use super::super::random_programs::Case;
use super::common_subexpr_elim;
use crate::ir::{IRModule, Var};
use crate::pass::PassContext;
use crate::tir::transform::renew_defs;
use crate::tir::{Buffer, Intrinsic, Mutator, Param, PrimExpr, PrimFunc, Stmt};

const F32: DataType = DataType::F32;

fn after(func: &PrimFunc) -> PrimFunc {
    let module = IRModule::from_prim_func(renew_defs(func));
    let module = common_subexpr_elim().apply_in(module, &PassContext::default()).unwrap();
    (**module.prim_func(module.functions().next().unwrap().0).unwrap()).clone()
}

fn program(body: impl FnOnce(&Buffer, &Buffer) -> Stmt) -> PrimFunc {
    let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(8)], F32));
    let body = body(&x, &y);
    PrimFunc::new("f", [Param::In(x), Param::Out(y)], body)
}

fn at(buffer: &Buffer, index: i64) -> PrimExpr {
    buffer.load([PrimExpr::index(index)])
}

fn put(buffer: &Buffer, index: i64, value: PrimExpr) -> Stmt {
    Stmt::store(buffer, [PrimExpr::index(index)], value)
}

#[test]
fn equal_expressions_get_a_name_until_a_write() {
    let func = program(|x, y| {
        let silu = |x: PrimExpr| x.clone() * x.unary(Intrinsic::Sigmoid);
        let twice = silu(silu(at(x, 0)));
        Stmt::seq([
            put(y, 0, twice.clone()),
            put(y, 1, twice + at(y, 0).unary(Intrinsic::Exp)),
            put(y, 2, at(y, 0).unary(Intrinsic::Exp)),
            put(y, 3, at(x, 1) + at(x, 1)),
        ])
    });
    expect![[r#"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f32, 8>, y: &mut Tensor<f32, 8>) {
            let common = x[[0]] * sigmoid(x[[0]]);
            let common_1 = common * sigmoid(common);
            y[[0]] = common_1;
            y[[1]] = common_1 + exp(y[[0]]);
            y[[2]] = exp(y[[0]]);
            y[[3]] = x[[1]] + x[[1]];
        }
    "#]]
    .assert_eq(&format!("{}\n", after(&func).to_string().trim_end()));
}

/// What an arm of a choice computes twice is computed there, once; and not before it, where an index may be outside.
#[test]
fn arms_have_names_of_their_own() {
    let func = program(|x, y| {
        let inside = at(x, 0).less(PrimExpr::float(1.0, F32));
        let value = at(x, 9).unary(Intrinsic::Exp);
        let root = at(x, 0).unary(Intrinsic::Exp);
        let args = [inside, value.clone() * &value, root.clone()];
        put(y, 0, root + PrimExpr::call(Intrinsic::IfThenElse, args, F32))
    });
    expect![[r#"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f32, 8>, y: &mut Tensor<f32, 8>) {
            let common = exp(x[[0]]);
            y[[0]] = common + (if x[[0]] < 1.0 { { let common_1 = bind(exp(x[[9]])); common_1 * common_1 } } else { common });
        }
    "#]].assert_eq(&format!("{}\n", after(&func).to_string().trim_end()));
}

/// An operator that uses its argument twice, 24 times in itself: 2^24 occurrences of the innermost, 24 names.
#[test]
fn compositions_stay_linear() {
    let func = program(|x, y| {
        let value = (0..24).fold(at(x, 0), |x, _| x.clone() * x.unary(Intrinsic::Sigmoid));
        put(y, 0, value)
    });
    let module = IRModule::from_prim_func(func);
    let (gv, _) = module.functions().next().unwrap();
    let body = super::CommonSubexprElim.mutate_stmt(&module.prim_func(gv).unwrap().body);
    let Some(Stmt::SeqStmt(stmts)) = body else { panic!("no names") };
    assert_eq!(stmts.len(), 24);
}

#[test]
fn the_same_program_gives_the_same_text() {
    for seed in 0..20 {
        let func = Case::random(&mut Rng::new(seed)).func;
        assert_eq!(after(&func).to_string(), after(&func).to_string());
    }
}

/// Of the place of a contiguous access, the first index gets a name: the access stays contiguous.
#[test]
fn places_of_vectors_stay_ramps() {
    let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(64)], F32));
    let n = Var::index("n");
    let first = PrimExpr::from(&n).floordiv(3) + PrimExpr::from(&n).floormod(7);
    let place = || [first.clone().ramp(PrimExpr::index(1), 4)];
    let body = Stmt::store(&y, place(), x.load(place()) + y.load(place()));
    let func = PrimFunc::new("f", [Param::In(x), Param::Out(y), Param::Scalar(n)], body);
    let text = after(&func).to_string();
    assert_eq!(
        (text.matches("ramp(common as usize, 1, 4)").count(), text.matches("floordiv(n, 3)").count()),
        (3, 1),
        "{text}"
    );
}

#[test]
fn fuzz_common_subexpr_elim() {
    let mut changed = 0;
    let mut cases = 0;
    for seed in Budget::new("common_subexpr_elim", 300) {
        let case = Case::random(&mut Rng::new(seed));
        let func = case.check(&[common_subexpr_elim()], seed);
        cases += 1;
        changed += usize::from(func.to_string().contains("common"));
    }
    assert!(changed * 5 >= cases, "{changed} of {cases}");
}
