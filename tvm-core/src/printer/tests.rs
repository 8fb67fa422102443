//! Tests of printed programs.

use expect_test::expect;

use crate::ir::structural::sample::matmul;

#[test]
fn a_matrix_product() {
    expect![[r##"
        #[prim_func]
        fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
            for [i, j, p] in grid([m, n, k]) {
                block("C", [S(i), S(j), R(p)], |[vi, vj, vk]| {
                    init(|| c[[vi, vj]] = 0.0);
                    c[[vi, vj]] += a[[vi, vk]] * b[[vk, vj]];
                });
            }
        }"##]]
    .assert_eq(&matmul().to_string());
}

#[test]
fn indices_and_numbers() {
    use crate::ir::Var;
    use crate::tir::{Buffer, PrimExpr, Stmt, binary};
    use tvm_runtime::DataType;
    let [i, n] = ["i", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let x = Buffer::new("X", [n.clone()], DataType::I64);
    let at = |index: PrimExpr| x.load([index]);
    use crate::tir::BinaryOp::{Add, Div, FloorDiv, FloorMod, Mul, Sub};
    let cases = [
        (i.clone().floordiv(4) * 4i64 + i.clone().floormod(4), "i / 4 * 4 + i % 4"),
        (i.clone() - (n.clone() - &i), "i - (n - i)"),
        (binary(FloorDiv, at(i.clone()), 2.into()), "(x[[i]] as usize) / 2"),
        (binary(Div, at(i.clone()), 2.into()), "(x[[i]] / 2) as usize"),
        (binary(Add, at(i.clone()), i.clone()), "(x[[i]] as usize) + i"),
        (binary(Sub, i.clone(), (-2).into()), "i - (-2i64 as usize)"),
        (binary(Mul, i.clone(), binary(FloorMod, n.clone(), 3.into())), "i * (n % 3)"),
    ];
    for (expr, want) in cases {
        let text = Stmt::store(&x, [expr], PrimExpr::index(0)).to_string();
        assert_eq!(text, format!("x[[{want}]] = 0;"));
    }
    let stored = Stmt::store(&x, [i.clone()], binary(FloorDiv, i, at(n)) + 1i64).to_string();
    assert_eq!(stored, "x[[i]] = floordiv(i as i64, x[[n]]) + 1;");
}

#[test]
fn a_graph_function() {
    expect![[r##"
        #[relay::adt]
        enum List {
            Cons(Tensor<f32, 4>, Box<List>),
            Nil,
        }

        #[prim_func]
        fn neg(x: &Tensor<f32, n>, out: &mut Tensor<f32, n>) {
            for i0 in 0..n {
                block("compute", [S(i0)], |[v0]| {
                    out[[v0]] = -1.0 * x[[v0]];
                });
            }
        }

        #[relay::func]
        fn main(x: Tensor<f32, 4>, l: List) -> Tensor<f32, 4> {
            let z = dataflow(|| {
                let y = call_tir(neg, (x,), Tensor::<f32, 4>);
                let t = bind((y, x));
                let z = t.0;
                z
            });
            let m = match l {
                List::Cons(h, rest) => {
                    h
                }
                List::Nil => {
                    z
                }
            };
            m
        }"##]]
    .assert_eq(&crate::ir::well_formed::graph_sample().to_string());
}

#[test]
fn what_the_surface_cannot_say_does_not_compile() {
    use std::sync::Arc;

    use tvm_runtime::{DataType, Device, Tensor};

    use crate::ir::{Attrs, BaseFunc, ExternFunc, IRModule, TensorType, Type, Var};
    use crate::relax::testing::{bind, function};
    use crate::relax::{Arg, Expr};

    let mut module = IRModule::new();
    let symbol = ExternFunc { symbol: "blur".into(), attrs: Attrs::new() };
    module.add("blur", BaseFunc::Extern(symbol.into()));
    let ty = TensorType { vdevice: Some(Device::cuda(1)), ..TensorType::fixed(&[2], DataType::F32) };
    let x = Var::new("x", Type::Tensor(ty));
    let large = Tensor::zeros(&[4, 8], DataType::F32).unwrap();
    let large_ty = Type::Tensor(TensorType::fixed(&[4, 8], DataType::F32));
    let (_, binding) = bind("w", large_ty, Expr::Arg(Arg::Const(large)));
    let func = function("main", &[&x], vec![binding], x.clone());
    module.add("main", BaseFunc::Relax(Arc::new(func)));
    module.attrs.set("kind", "test");
    expect![[r##"
        #[ir_module(attrs(kind = "test"))]
        mod net {
            use tvm::prelude::*;

            compile_error!("blur = extern_fn!(\"blur\")");

            #[relax::func]
            fn main(x: Tensor<f32, 2, { on!("cuda:1") }>) -> Object {
                let w = bind(constant::<f32, 4, 8>("0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"));
                x
            }
        }
    "##]]
    .assert_eq(&module.source("net"));
}
