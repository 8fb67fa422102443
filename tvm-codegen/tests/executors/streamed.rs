//! Stores past the caches, at aligned and other addresses, for vectors of all sizes.

use tvm_codegen::{EmitKind, emit};
use tvm_core::ir::{Attrs, IRModule};
use tvm_core::target::Target;
use tvm_core::tir::transform::STREAMED;
use tvm_core::tir::{For, ForKind, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::{DataType, Value};

use super::data::Rng;
use super::programs::{buffer, func, loops};
use super::suite::{Case, check_on, targets, tensor};

/// `y = x + x` in a streamed loop over rows of `columns` elements, in vectors of `lanes` and a remainder; then `z = y`, which
/// reads what was stored.
fn doubled(name: &str, dtype: DataType, [columns, lanes]: [i64; 2], outer: ForKind) -> PrimFunc {
    let shape = [5, columns].map(PrimExpr::index);
    let [x, y, z] = ["x", "y", "z"].map(|name| buffer(name, &shape, dtype));
    let extents = [
        (outer, PrimExpr::index(5)),
        (ForKind::Serial, PrimExpr::index((columns + lanes - 1) / lanes)),
        (ForKind::Vectorized, PrimExpr::index(lanes)),
    ];
    let body = |value: &dyn Fn(&[PrimExpr]) -> (Stmt, PrimExpr)| {
        loops(&extents, |v| {
            let j = v[1].clone() * lanes + &v[2];
            let (store, j) = value(&[v[0].clone(), j]);
            Stmt::if_then_else(j.less(columns), store, None)
        })
    };
    let first =
        body(&|at| (Stmt::store(&y, at.to_vec(), x.load(at.to_vec()) + x.load(at.to_vec())), at[1].clone()));
    let second = body(&|at| (Stmt::store(&z, at.to_vec(), y.load(at.to_vec())), at[1].clone()));
    let Stmt::For(node) = first else { panic!("the program is a loop") };
    let streamed: Stmt = For { annotations: Attrs::new().with(STREAMED, true), ..(*node).clone() }.into();
    func(name, vec![Param::In(x), Param::Out(y), Param::Out(z)], vec![], Stmt::seq([streamed, second]))
}

#[test]
fn all_executors_store_past_the_caches() {
    let mut rng = Rng(41);
    let mut cases = Vec::new();
    for dtype in [DataType::F32, DataType::F64, DataType::F16, DataType::I8, DataType::I64] {
        for (columns, lanes) in [(64, 16), (67, 8), (48, 4), (33, 32), (130, 64)] {
            for outer in [ForKind::Serial, ForKind::Parallel] {
                let func = doubled(&format!("doubled_{}", cases.len()), dtype, [columns, lanes], outer);
                let args =
                    vec![(0..3).map(|_| tensor(&[5, columns], dtype, &mut rng)).collect::<Vec<Value>>()];
                cases.push(Case { func, args, tolerance: 0.0 });
            }
        }
    }
    let mut on: Vec<Target> = targets();
    if cfg!(target_arch = "x86_64") {
        on.extend(targets().iter().map(|it| format!("{} -cpu=x86-64", it.kind.name()).parse().unwrap()));
    }
    check_on(2, &cases, &on);
}

#[test]
fn streamed_loops_end_with_a_fence() {
    let func = doubled("doubled", DataType::F32, [64, 16], ForKind::Serial);
    let source = emit(&IRModule::from_prim_func(func), &Target::c(), EmitKind::C).unwrap();
    let source = String::from_utf8(source).unwrap();
    assert_eq!(source.matches("TVM_STREAM_BARRIER;").count(), 1, "{source}");
    assert!(source.contains("tvm_stream_f32x16(y + "), "{source}");
    assert!(!source.contains("tvm_stream_f32x16(z + "), "{source}");
}
