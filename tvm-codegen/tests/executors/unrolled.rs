//! Loops with the annotation `pragma_unroll`: any number of copies, also of loops that are shorter, and of parallel ones.

use tvm_codegen::{EmitKind, emit};
use tvm_core::ir::{Attrs, IRModule, Var};
use tvm_core::target::Target;
use tvm_core::tir::IterKind::Spatial;
use tvm_core::tir::transform::PRAGMA_UNROLL;
use tvm_core::tir::{For, ForKind, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::DataType;

use super::data::Rng;
use super::programs::{block, buffer, func};
use super::suite::{Case, check, tensor};

/// `y[i] = x[i] * x[i] + x[i]` in a loop with the annotation.
fn squares(copies: i64, kind: ForKind) -> PrimFunc {
    let n = PrimExpr::from(Var::index("n"));
    let [x, y] = ["x", "y"].map(|name| buffer(name, std::slice::from_ref(&n), DataType::F32));
    let i = Var::index("i");
    let body = block("y", &[(Spatial, n.clone(), PrimExpr::from(&i))], None, |v| {
        let at = || x.load([v[0].clone()]);
        (None, Stmt::store(&y, [v[0].clone()], at() * at() + at()))
    });
    let annotations = Attrs::new().with(PRAGMA_UNROLL, copies);
    let body = For { kind, annotations, ..For::serial(i, n, body) }.into();
    func(&format!("squares_{copies}_{}", kind.name()), vec![Param::In(x), Param::Out(y)], vec![], body)
}

#[test]
fn all_executors_unroll_as_annotated() {
    let mut rng = Rng(9);
    let mut cases = Vec::new();
    for copies in [1, 2, 3, 8, 1024] {
        for kind in [ForKind::Serial, ForKind::Parallel] {
            let args = [0, 1, 7, 64, 1000]
                .map(|n| [(); 2].iter().map(|()| tensor(&[n], DataType::F32, &mut rng)).collect());
            cases.push(Case { func: squares(copies, kind), args: args.into(), tolerance: 0.0 });
        }
    }
    check(&cases);
    for kind in [ForKind::Serial, ForKind::Parallel] {
        let module = IRModule::from_prim_func(squares(3, kind));
        let text = String::from_utf8(emit(&module, &Target::c(), EmitKind::C).unwrap()).unwrap();
        let mut lines = text.lines().map(str::trim).skip_while(|it| *it != "TVM_UNROLL(3)");
        assert!(lines.nth(1).is_some_and(|it| it.starts_with("for (int64_t")), "{text}");
    }
}
