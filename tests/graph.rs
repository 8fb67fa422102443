//! Graph functions written with `relax!` and `relay!`: the IR that they build, and runs on the virtual machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tvm::ir::IRModule;
use tvm::prelude::*;
use tvm::relax::vm;
use tvm::runtime::{Value, vm::Vm};

fn run(module: IRModule, name: &str, args: &[Value]) -> Value {
    let (kernels, exe) = vm::compile(module).unwrap_or_else(|err| panic!("{err}"));
    let kernels = vm::interpreted_kernels(&kernels).unwrap();
    Vm::new(exe, &kernels).unwrap().invoke(name, args).unwrap_or_else(|err| panic!("{err}"))
}

fn tensor(data: &[f32], shape: &[i64]) -> Value {
    Value::Tensor(Tensor::from_slice(data, shape).unwrap())
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_tensor().unwrap().to_vec().unwrap()
}

#[prim_func]
fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j, p] in grid([m, n, k]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[relax::func]
fn mlp(
    x: Tensor<f32, n, 3>,
    w1: Tensor<f32, 3, 4>,
    b1: Tensor<f32, 4>,
    w2: Tensor<f32, 4, 2>,
) -> Tensor<f32, n, 2> {
    let h = relu(call_tir(matmul, (x, w1)) + b1);
    h.matmul(w2) * 2.0
}

#[relax::func]
fn twice(
    x: Tensor<f32, n, 3>,
    w1: Tensor<f32, 3, 4>,
    b1: Tensor<f32, 4>,
    w2: Tensor<f32, 4, 2>,
) -> Tensor<f32, n, 2> {
    let (a, b) = (mlp(x, w1, b1, w2), mlp(-x, w1, b1, w2));
    a - b
}

#[test]
fn kernels_operators_and_functions_together() {
    let x = [1.0, -2.0, 0.5, 0.0, 1.0, 2.0];
    let w1: Vec<f32> = (0..12).map(|i| i as f32 * 0.25 - 1.0).collect();
    let (b1, w2): (Vec<f32>, Vec<f32>) =
        (vec![0.1, -0.2, 0.3, 0.0], (0..8).map(|i| 1.0 - i as f32 * 0.5).collect());
    let args = [tensor(&x, &[2, 3]), tensor(&w1, &[3, 4]), tensor(&b1, &[4]), tensor(&w2, &[4, 2])];
    let layer = |sign: f32| -> Vec<f32> {
        let mut out = vec![0.0; 4];
        for (row, o) in out.chunks_mut(2).enumerate() {
            for h in 0..4 {
                let sum: f32 = (0..3).map(|k| sign * x[row * 3 + k] * w1[k * 4 + h]).sum();
                o.iter_mut()
                    .enumerate()
                    .for_each(|(j, o)| *o += 2.0 * (sum + b1[h]).max(0.0) * w2[h * 2 + j]);
            }
        }
        out
    };
    let want: Vec<f32> = layer(1.0).iter().zip(layer(-1.0)).map(|(a, b)| a - b).collect();
    for (got, want) in floats(&run(twice::module().unwrap(), "twice", &args)).iter().zip(&want) {
        assert!((got - want).abs() < 1e-5, "{got} {want}");
    }
}

#[test]
fn branches_take_one_arm() {
    let gate =
        relax!(|x: Tensor<f32, n>, on: Tensor<bool>| -> Tensor<f32, n> { if on { relu(x) } else { x } });
    for (on, want) in [(true, [0.0, 2.0]), (false, [-1.0, 2.0])] {
        let on = Value::Tensor(Tensor::scalar(on));
        assert_eq!(floats(&run(gate.module().unwrap(), "main", &[tensor(&[-1.0, 2.0], &[2]), on])), want);
    }
}

#[test]
fn reductions_over_nothing() {
    let rows = relax!(|x: Tensor<f32, 3, n>| -> (Tensor<f32, 3>, Tensor<f32, 3>) {
        (sum(x, axis = 1), max(x, axis = 1))
    });
    for target in [Target::interpreter(), Target::c(), Target::host()] {
        let vm = tvm::codegen::compile_module(&rows.module().unwrap(), &target).unwrap();
        for (n, total, top) in [(0, 0.0, f32::NEG_INFINITY), (2, 3.0, 1.5)] {
            let x = tensor(&vec![1.5; 3 * n as usize], &[3, n]);
            let result = vm.invoke("main", &[x]).unwrap();
            let Value::Adt(fields) = &result else { panic!("{result:?}") };
            let got: Vec<Vec<f32>> = fields.fields().iter().map(floats).collect();
            assert_eq!(got, [[total; 3], [top; 3]], "{target}: {n} columns");
        }
    }
}

#[test]
fn a_number_of_parts_is_not_a_cut() {
    let parts = relax!(|x: Tensor<f32, 6>| -> Tensor<f32, 2> {
        let (a, b, c) = split(x, 3);
        a + b * c
    });
    let x = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[6]);
    assert_eq!(floats(&run(parts.module().unwrap(), "main", &[x])), [16.0, 26.0]);
}

/// A kernel with a scalar parameter before its input.
#[prim_func]
fn scaled(s: f32, x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

#[test]
fn scalars_of_kernels_come_after_inputs() {
    let triple = relax!(|x: Tensor<f32, n>| -> Tensor<f32, n> { call_tir(scaled, (x, 3.0)) });
    assert_eq!(floats(&run(triple.module().unwrap(), "main", &[tensor(&[1.0, -2.0], &[2])])), [3.0, -6.0]);
}

#[test]
fn a_second_name_for_a_value() {
    let f = relax!(|x: Tensor<f32, n>| -> Tensor<f32, n> {
        let a = exp(x);
        let b = a;
        let c = (|v| {
            let w = v;
            v + w
        })(-x);
        a + b + c
    });
    assert_eq!(floats(&run(f.module().unwrap(), "main", &[tensor(&[0.0], &[1])])), [2.0]);
}

#[test]
fn helpers_inside_a_dataflow_block_leave_it_whole() {
    let f = relax!(|x: Tensor<f32, 4>, w: Tensor<f32, 3, 4>| -> Tensor<f32, 3, 4> {
        let y = dataflow(|| {
            let a = relu(x);
            let f = |v: Tensor<f32, m, 4>| -> Tensor<f32, m, 4> { v + a };
            let b = f(w);
            exp(b)
        });
        y
    });
    let module = f.module().unwrap();
    let main = module.relax_func(module.global_var("main").unwrap()).unwrap();
    let blocks: Vec<(bool, usize)> =
        main.body.blocks.iter().map(|block| (block.dataflow, block.bindings.len())).collect();
    assert_eq!(blocks, [(true, 4)]);
}

#[test]
fn dimensions_of_a_cast_are_visible_after_it() {
    let f = relax!(|x: TensorDyn<f32>| -> TensorDyn<f32> {
        let y = match_cast(x, Tensor::<f32, m, 2>);
        reshape(y, [m * 2])
    });
    let result = run(f.module().unwrap(), "main", &[tensor(&[1.0, 2.0, 3.0, 4.0], &[2, 2])]);
    assert_eq!(result.as_tensor().unwrap().shape(), [4]);
}

#[test]
fn scalar_parameters_are_extents() {
    let f =
        relax!(|x: Tensor<f32, { n * 2 }>, y: Tensor<f32, k>, k: i64, z: Tensor<f32, n>| -> Tensor<f32, k> {
            y + ones(shape([k]), f32)
        });
    let args = [tensor(&[0.0; 4], &[4]), tensor(&[1.0, 2.0], &[2]), Value::Int(2), tensor(&[0.0; 2], &[2])];
    assert_eq!(floats(&run(f.module().unwrap(), "main", &args)), [2.0, 3.0]);
}

#[relay::func]
fn compose<A, B>(f: fn(A) -> B, g: fn(B) -> A, x: A) -> A {
    g(f(x))
}

#[test]
fn type_parameters_and_functions_as_values() {
    let f = relay!(|x: Tensor<f32, 2>| -> Tensor<f32, 2> {
        let g = |v: Tensor<f32, 2>| -> Tensor<f32, 2> { v + x };
        let h = |v: Tensor<f32, 2>| -> Tensor<f32, 2> { v * 2.0 };
        compose(g, h, x)
    });
    assert_eq!(floats(&run(f.module().unwrap(), "main", &[tensor(&[1.0, -1.0], &[2])])), [4.0, -4.0]);
}

#[relay::adt]
enum List {
    Nil,
    Cons(Tensor<f32>, Box<List>),
}

#[relay::func]
fn fold(f: fn(Tensor<f32>, Tensor<f32>) -> Tensor<f32>, acc: Tensor<f32>, l: List) -> Tensor<f32> {
    match l {
        List::Nil => acc,
        List::Cons(h, t) => fold(f, f(acc, h), *t),
    }
}

/// A function with the name of an operator.
#[relay::func]
fn sum(l: List) -> Tensor<f32> {
    match l {
        List::Nil => 0.0,
        List::Cons(h, t) => h + sum(*t),
    }
}

#[relay::func]
fn counted(n: Tensor<i64>, l: List) -> List {
    if n > 0 { counted(n - 1, List::Cons(1.0, l)) } else { l }
}

#[test]
fn a_function_named_like_an_operator_calls_itself() {
    let vm = tvm::codegen::compile_module(&sum::module().unwrap(), &Target::interpreter()).unwrap();
    let lists = tvm::codegen::compile_module(&counted::module().unwrap(), &Target::interpreter()).unwrap();
    let nil = Value::Adt(tvm::runtime::Adt::new(0, []));
    let list = lists.invoke("counted", &[Value::Tensor(Tensor::scalar(3i64)), nil]).unwrap();
    assert_eq!(floats(&vm.invoke("sum", &[list]).unwrap()), [3.0]);
}

#[test]
fn recursion_over_a_list_with_a_closure() {
    let total = relay!(|scale: Tensor<f32>| -> Tensor<f32> {
        let l = List::Cons(1.0, List::Cons(2.0, List::Cons(4.0, List::Nil)));
        fold(|a, b| a + b * scale, 0.5, l)
    });
    assert_eq!(floats(&run(total.module().unwrap(), "main", &[tensor(&[10.0], &[])])), [70.5]);
}

#[ir_module]
mod net {
    use tvm::prelude::*;

    #[prim_func]
    pub fn double(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
        for i in 0..n {
            y[[i]] = x[[i]] * 2.0;
        }
    }

    #[relax::func]
    pub fn quadruple(x: Tensor<f32, n>) -> Tensor<f32, n> {
        call_tir(double, (call_tir(double, x),))
    }
}

#[test]
fn one_module_of_all_tiers() {
    let module = net::module().unwrap();
    assert_eq!(
        module.functions().map(|(gv, _)| gv.name().to_string()).collect::<Vec<_>>(),
        ["double", "quadruple"]
    );
    assert_eq!(floats(&run(module, "quadruple", &[tensor(&[1.0, -3.0], &[2])])), [4.0, -12.0]);
}

#[test]
fn every_operator_function_names_an_operator() {
    // The functions and methods of `ops` are written out so that rustc can suggest names; each must exist.
    let source = include_str!("../tvm-core/src/script/graph/ops.rs");
    let list = source.split("\nops! {").nth(1).unwrap().split('}').next().unwrap();
    for name in list.split_whitespace() {
        let full = ["", "nn.", "image."].map(|prefix| format!("{prefix}{name}"));
        let named = |op: &tvm::ir::Op| full.iter().any(|it| it == op.name) || op.function == Some(name);
        assert!(tvm::ir::OpRegistry::all().iter().any(named), "{name}");
    }
}

#[test]
fn errors_point_at_the_line() {
    let wrong = relax!(|x: TensorDyn<f32>, i: TensorDyn<i32>, w: Tensor<f32, 3, 4>| -> TensorDyn<f32> {
        let y = x + i;
        y + concat([w, w], axis = 5)
    });
    let err = wrong.module().unwrap_err();
    let text = err.to_string();
    assert_eq!(err.0.len(), 2, "{text}");
    for part in ["`add`: ", "`concat`: ", "tests/graph.rs:"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

mod names {
    use super::*;

    /// A function with the name of an operator, used in its own scope and in other scopes that see it.
    #[relax::func]
    fn softmax(x: Tensor<f32, n>) -> Tensor<f32, n> {
        x + 1.0
    }

    #[relax::func]
    fn uses_softmax(x: Tensor<f32, n>) -> Tensor<f32, n> {
        let relu = |v: Tensor<f32, n>| -> Tensor<f32, n> { v * 10.0 };
        relu(softmax(x))
    }

    mod nested {
        use super::*;

        #[relax::func]
        pub(super) fn through_a_glob(x: Tensor<f32, n>) -> Tensor<f32, n> {
            softmax(x)
        }
    }

    /// Functions that are imported by name, under another name, and through a re-export.
    mod imported {
        use super::softmax;
        use super::uses_softmax as sigmoid;
        use tvm::prelude::*;

        mod renamed {
            pub(super) use super::super::nested::through_a_glob as tanh;
        }
        use renamed::*;

        #[relax::func]
        pub(super) fn by_name(x: Tensor<f32, n>) -> Tensor<f32, n> {
            softmax(relu(x))
        }

        #[relax::func]
        pub(super) fn by_another_name(x: Tensor<f32, n>) -> Tensor<f32, n> {
            sigmoid(x) + tanh(x)
        }

        /// Parameters and closures take precedence.
        #[relax::func]
        pub(super) fn parameters(softmax: Tensor<f32, n>) -> Tensor<f32, n> {
            let sigmoid = |v| v + softmax;
            sigmoid(softmax) + softmax.exp().log()
        }
    }

    /// Items that are not graph functions hide no operator, but an imported kernel is an error.
    mod others {
        #[expect(unused_imports, reason = "a name of an operator")]
        use std::cmp::max;

        use tvm::prelude::*;

        mod kernels {
            use tvm::prelude::*;

            #[prim_func]
            pub(crate) fn relu(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
                for i in 0..n {
                    y[[i]] = x[[i]];
                }
            }

            #[prim_func]
            pub(crate) fn copied(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
                for i in 0..n {
                    block("y", [S(i)], |[vi]| {
                        y[[vi]] = x[[vi]];
                    });
                }
            }
        }
        use kernels::{copied, relu};

        #[schedule(copied)]
        fn split(s: &mut Schedule) -> Result<(), ScheduleError> {
            let y = s.block("y")?;
            let [i] = s.loops(y)?;
            s.parallel(i)
        }

        #[prim_helper]
        fn gelu(x: f32) -> f32 {
            x
        }

        #[relax::func]
        pub(super) fn operators(x: Tensor<f32, 2>) -> Tensor<f32, 2> {
            let (a, b) = split(x, 2);
            concat([a, b], 0) + max(gelu(x) * 0.0)
        }

        #[relax::func]
        pub(super) fn kernel(x: Tensor<f32, n>) -> Tensor<f32, n> {
            relu(x)
        }
    }

    #[test]
    fn imported_kernels_are_errors() {
        let err = others::kernel::module().unwrap_err().to_string();
        assert!(err.contains("`relu` is a kernel") && err.contains("call_tir(relu, (x, y))"), "{err}");
    }

    #[test]
    fn functions_of_the_user_hide_operators() {
        #[relax::func]
        fn exp(x: Tensor<f32, n>) -> Tensor<f32, n, 1> {
            expand_dims(x, 1)
        }
        let modules = [
            ("uses_softmax", uses_softmax::module(), [20.0, 30.0]),
            ("through_a_glob", nested::through_a_glob::module(), [2.0, 3.0]),
            ("main", relax!(|x: Tensor<f32, n>| -> Tensor<f32, n> { softmax(x) }).module(), [2.0, 3.0]),
            ("by_name", imported::by_name::module(), [2.0, 3.0]),
            ("by_another_name", imported::by_another_name::module(), [22.0, 33.0]),
            ("parameters", imported::parameters::module(), [3.0, 6.0]),
            ("operators", others::operators::module(), [1.0, 2.0]),
            // A declared type that differs from the type that the operator returns.
            ("main", relax!(|x: Tensor<f32, n>| -> Tensor<f32, n, 1> { exp(x) }).module(), [1.0, 2.0]),
            (
                "main",
                relax!(|x: Tensor<f32, n>| -> Tensor<f32, n, 1> {
                    let tanh = |v: Tensor<f32, n>| -> Tensor<f32, n, 1> { expand_dims(v, 1) };
                    tanh(x)
                })
                .module(),
                [1.0, 2.0],
            ),
        ];
        for (name, module, expected) in modules {
            let module = module.unwrap_or_else(|err| panic!("{name}: {err}"));
            assert_eq!(floats(&run(module, name, &[tensor(&[1.0, 2.0], &[2])])), expected, "{name}");
        }
    }

    #[test]
    fn names_of_the_expansion_are_free() {
        let func = relax!(|__d: Tensor<f32, __n>, __p: Tensor<f32, __n>| -> Tensor<f32, __n> {
            let __func = __d + __p;
            let (args, __check) = (__func, __p);
            args * __check
        });
        let x = tensor(&[1.0, 2.0], &[2]);
        assert_eq!(floats(&run(func.module().unwrap(), "main", &[x.clone(), x])), [2.0, 8.0]);
    }
}

/// If rustc cannot check a literal, building the module refuses it; large literals keep their value.
#[test]
fn literals_have_a_value_in_their_type() {
    let refused = [
        relax!(|x: TensorDyn<i32>| -> TensorDyn<i32> { x * 1.5 }).module(),
        relax!(|x: TensorDyn<u8>| -> TensorDyn<u8> { x + 300 }).module(),
        relax!(|x: TensorDyn<u64>| -> TensorDyn<u64> { -1 + x }).module(),
        relax!(|x: TensorDyn<bool>| -> TensorDyn<bool> { x & 1 }).module(),
        relax!(|x: TensorDyn<f16>| -> TensorDyn<f16> { x * 70000.0 }).module(),
        relax!(|x: TensorDyn<f32>| -> TensorDyn<bool> { x < 16777217 }).module(),
    ];
    for (i, module) in refused.into_iter().enumerate() {
        let text = module.unwrap_err().to_string();
        assert!(text.contains("the literal") || text.contains("cannot be"), "case {i}: {text}");
    }
    let large = relax!(|x: Tensor<i64, n>| -> Tensor<i64, n> { x + 9007199254740993 });
    let x = Value::Tensor(Tensor::from_slice(&[0i64], &[1]).unwrap());
    let sum = run(large.module().unwrap(), "main", &[x]);
    assert_eq!(sum.as_tensor().unwrap().to_vec::<i64>().unwrap(), [9007199254740993]);
}

/// A local function inside another one refers to dimensions of the enclosing scopes.
#[test]
fn local_functions_in_local_functions() {
    let nested = relax!(|x: Tensor<f32, n>, y: Tensor<f32, 2>, on: Tensor<bool>| -> Tensor<f32, n> {
        let f = |a: Tensor<f32, 2>| -> Tensor<f32, n> {
            let g_1 = |b: Tensor<f32, 2>| -> Tensor<f32, n> { ones([n], f32) };
            if on {
                let g = |b: Tensor<f32, 2>| -> Tensor<f32, n> { x + b.sum() };
                let h = g(a);
                h * g_1(a)
            } else {
                x
            }
        };
        let z = f(y);
        x + z
    });
    let module = nested.module().unwrap();
    for (on, want) in [(true, [7.0, 9.0]), (false, [2.0, 4.0])] {
        let on = Value::Tensor(Tensor::from_slice(&[on], &[]).unwrap());
        let args = [tensor(&[1.0, 2.0], &[2]), tensor(&[2.0, 3.0], &[2]), on];
        assert_eq!(floats(&run(module.clone(), "main", &args)), want);
    }
}

/// The valid literals depend on the element type, which is a type parameter.
#[prim_func]
fn halved<T: Element>(x: &Tensor<T, n>, y: &mut Tensor<T, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * 0.5;
    }
}

#[test]
fn literals_of_generic_kernels() {
    assert!(halved::<f32>::prim_func().is_ok());
    let text = halved::<i32>::prim_func().unwrap_err().to_string();
    assert!(text.contains("the literal 0.5 is no i32"), "{text}");
    assert!(halved::<i32>::reference(&[2i32], &mut [0i32]).is_err());
}
