//! Type inference: unknown shapes, and what errors say.

use tvm_core::ir::{Attrs, TensorType, Type, Var};
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::show_type;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::support::{infer, param};

fn of(ty: TensorType) -> Arg {
    Var::new("x", Type::Tensor(ty)).into()
}

#[test]
fn what_is_unknown_stays_unknown() {
    let n = PrimExpr::from(Var::index("n"));
    let m = PrimExpr::from(Var::index("m"));
    let known = |dims: &[PrimExpr]| of(TensorType::new(dims.to_vec(), DataType::F32));
    let cases: Vec<(Arg, Arg, &str)> = vec![
        (known(&[n.clone(), 1.into()]), known(&[m.clone()]), "Tensor<f32, n, m>"),
        (known(&[&n + 1i64]), known(&[PrimExpr::index(1) + &n]), "Tensor<f32, n + 1>"),
        (known(&[n.clone()]), known(&[m.clone()]), "Tensor<f32, _>"),
        (of(TensorType::ranked(3, Some(DataType::F32))), known(&[n.clone()]), "Tensor<f32, _, _, _>"),
        (of(TensorType::unknown(Some(DataType::F32))), known(&[n.clone()]), "TensorDyn<f32>"),
        (of(TensorType::unknown(None)), known(&[n]), "TensorDyn<_>"),
    ];
    for (a, b, want) in cases {
        assert_eq!(show_type(&infer("add", [a, b], Attrs::new()).unwrap()), want);
    }
}

#[test]
fn errors_name_the_operator_and_help() {
    let x = |dims: &[i64]| -> Arg {
        param(&dims.iter().map(|&dim| dim.into()).collect::<Vec<_>>(), DataType::F32).into()
    };
    let ints: Arg = param(&[3.into()], DataType::I64).into();
    let cases: Vec<(&str, Vec<Arg>, Attrs, &str)> = vec![
        (
            "add",
            vec![x(&[2, 3]), x(&[4])],
            Attrs::new(),
            "`add`: shapes [2, 3] and [4] do not broadcast: 3 against 4\n  help: extents must be equal, or one of them 1, counted from the last axis",
        ),
        ("add", vec![x(&[2])], Attrs::new(), "`add`: expected 2 arguments (x1, x2), got 1"),
        (
            "add",
            vec![x(&[3]), ints.clone()],
            Attrs::new(),
            "`add`: the arguments have different element types: Tensor<f32, 3> and Tensor<i64, 3>\n  help: convert one with `astype`",
        ),
        (
            "exp",
            vec![ints],
            Attrs::new(),
            "`exp`: expected float elements, got i64\n  help: convert the argument with `astype`",
        ),
        (
            "exp",
            vec![x(&[3])],
            Attrs::new().with("axis", 1i64),
            "`exp`: there is no attribute `axis`\n  help: it takes none",
        ),
        ("expp", vec![], Attrs::new(), "unknown operator `expp`\n  help: did you mean `exp`?"),
    ];
    for (op, args, attrs, want) in cases {
        let err = infer(op, args, attrs).expect_err(op);
        assert_eq!(err.to_string(), want);
    }
}
