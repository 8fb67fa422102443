//! Plain loops and the blocks they become.

use expect_test::{Expect, expect};
use tvm_runtime::{DataType, ParamKind};

use crate::script::{DimSpec, FuncBuilder, FuncSig, KernelValue, LoopSpec, ParamSpec};
use crate::tir::{BinaryOp, Scope};

const F32: DataType = DataType::F32;
const AT: (u32, u32) = (1, 1);
const SIG: FuncSig = FuncSig {
    name: "f",
    params: &[ParamSpec { name: "x", kind: ParamKind::In, dtype: F32, dims: &[DimSpec::Var("n")] }],
};

fn check(build: impl FnOnce(&FuncBuilder, &KernelValue), expected: Expect) {
    let builder = FuncBuilder::new(&SIG, "test.rs", AT);
    let n = builder.dim(AT, "n");
    build(&builder, &n);
    let func = builder.finish().unwrap();
    crate::tir::analysis::well_formed(&func).unwrap();
    expected.assert_eq(&func.to_string());
}

fn serial(b: &FuncBuilder, name: &'static str, end: &KernelValue, body: impl FnOnce(KernelValue)) {
    b.for_range(AT, LoopSpec::default(), name, (KernelValue::int(0), end.clone()), body);
}

#[test]
fn a_plain_matrix_product() {
    check(
        |b, n| {
            let a = b.input(AT, "a", F32, [n.clone(), n.clone()]);
            let c = b.output(AT, "c", F32, [n.clone(), n.clone()]);
            serial(b, "i", n, |i| {
                serial(b, "j", n, |j| {
                    b.store(AT, &c, [i.clone(), j.clone()], KernelValue::float(0.0));
                    serial(b, "k", n, |k| {
                        let x = b.load(AT, &a, [i.clone(), k.clone()]);
                        let y = b.load(AT, &a, [k, j.clone()]);
                        b.update(AT, &c, [i.clone(), j.clone()], BinaryOp::Add, x.binary(BinaryOp::Mul, y));
                    });
                });
            });
        },
        expect![[r##"
            #[prim_func]
            fn f(a: &Tensor<f32, n, n>, c: &mut Tensor<f32, n, n>) {
                for [i, j] in grid([n, n]) {
                    block("c_init", [S(i), S(j)], |[vi, vj]| {
                        c[[vi, vj]] = 0.0;
                    });
                    for k in 0..n {
                        block("c", [S(i), S(j), R(k)], |[vi, vj, vk]| {
                            c[[vi, vj]] += a[[vi, vk]] * a[[vk, vj]];
                        });
                    }
                }
            }"##]],
    );
}

#[test]
fn dependences_are_opaque() {
    check(
        |b, n| {
            let x = b.input(AT, "x", F32, [n.clone()]);
            let y = b.output(AT, "y", F32, [n.clone()]);
            serial(b, "i", n, |i| {
                let before = i.clone().binary(BinaryOp::Sub, KernelValue::int(1));
                let sum = b.load(AT, &y, [before]).binary(BinaryOp::Add, b.load(AT, &x, [i.clone()]));
                b.store(AT, &y, [i], sum);
            });
            serial(b, "j", n, |j| {
                serial(b, "k", &KernelValue::int(3), |k| {
                    let value = b.load(AT, &x, [j.clone()]);
                    b.update(AT, &y, [j.binary(BinaryOp::Add, k)], BinaryOp::Add, value);
                });
            });
            serial(b, "l", n, |l| {
                serial(b, "m", &KernelValue::int(4), |m| {
                    let at = l.binary(BinaryOp::Mul, KernelValue::int(4)).binary(BinaryOp::Add, m);
                    b.store(AT, &y, [at], KernelValue::float(1.0));
                });
            });
        },
        expect![[r##"
            #[prim_func]
            fn f(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
                for i in 0..n {
                    block("y_init", [Q(i)], |[vi]| {
                        y[[vi]] = y[[vi - 1]] + x[[vi]];
                    });
                }
                for [j, k] in grid([n, 3]) {
                    block("y", [Q(j), Q(k)], |[vj, vk]| {
                        y[[vj + vk]] += x[[vj]];
                    });
                }
                for [l, m] in grid([n, 4]) {
                    block("y_init_1", [S(l), S(m)], |[vl, vm]| {
                        y[[vl * 4 + vm]] = 1.0;
                    });
                }
            }"##]],
    );
}

#[test]
fn values_and_local_buffers() {
    check(
        |b, n| {
            let x = b.input(AT, "x", F32, [n.clone(), n.clone()]);
            let y = b.output(AT, "y", F32, [n.clone()]);
            serial(b, "i", n, |i| {
                let acc = b.alloc(AT, "acc", F32, [], Scope::Local);
                b.store(AT, &acc, [], KernelValue::float(0.0));
                serial(b, "j", n, |j| {
                    let value = b.load(AT, &x, [i.clone(), j]);
                    b.update(AT, &acc, [], BinaryOp::Add, value);
                });
                let double =
                    b.bind(AT, "double", b.load(AT, &acc, []).binary(BinaryOp::Mul, KernelValue::float(2.0)));
                b.store(AT, &y, [i], double.clone().binary(BinaryOp::Mul, double));
            });
        },
        expect![[r##"
            #[prim_func]
            fn f(x: &Tensor<f32, n, n>, y: &mut Tensor<f32, n>) {
                for i in 0..n {
                    block("acc_scope", [S(i)], |[vi]| {
                        #[scope("local")]
                        let mut acc = alloc::<f32>([]);
                        block("acc_init", [], |[]| {
                            acc[[]] = 0.0;
                        });
                        for j in 0..n {
                            block("acc", [R(j)], |[vj]| {
                                acc[[]] += x[[vi, vj]];
                            });
                        }
                        block("y", [], |[]| {
                            let double = acc[[]] * 2.0;
                            y[[vi]] = double * double;
                        });
                    });
                }
            }"##]],
    );
}
