//! Graph functions compiled and run on the virtual machine, kernels interpreted.

mod dims;
mod indices;
mod models;
mod scale;

use std::sync::Arc;

use tvm_runtime::{DataType, Tensor, Value};

use crate::ir::{AdtType, ConstructorDef, FuncType, IRModule, Type, TypeDef, Var};
use crate::relax::testing::*;
use crate::relax::{Arg, Binding, Callee, Clause, Constructor, Expr, If, Match, Pattern};
use crate::tir::PrimExpr;

fn index(n: i64) -> PrimExpr {
    PrimExpr::index(n)
}

fn scalar(value: f32) -> Value {
    Value::Tensor(Tensor::scalar(value))
}

#[test]
fn call_tir_with_symbolic_shapes() {
    let mut module = IRModule::new();
    let n = Var::index("n");
    let add_func = add_prim(&mut module, zip("add", vec![(&n).into()], |a, b| a + b));
    let m = Var::index("m");
    let ty = f32s(&[(&m).into()]);
    let (x, y) = (Var::new("x", ty.clone()), Var::new("y", ty.clone()));
    let (a, first) = bind("a", ty.clone(), call_tir(&add_func, &[(&x).into(), (&y).into()], ty.clone()));
    let (b, second) = bind("b", ty.clone(), call_tir(&add_func, &[(&a).into(), (&y).into()], ty));
    add(&mut module, function("main", &[&x, &y], vec![first, second], b));
    let vm = vm(&module);
    for n in [0, 1, 5] {
        let data: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let got = vm.invoke("main", &[vector(&data).into(), vector(&data).into()]).unwrap();
        assert_eq!(elements(&got), data.iter().map(|v| 3.0 * v).collect::<Vec<_>>());
    }
    let cases: [(Value, Value, &str); 3] = [
        (vector(&[1.0]).into(), vector(&[1.0, 2.0]).into(), "`main`: argument `y`"),
        (scalar(1.0), vector(&[1.0]).into(), "`main`: argument `x`"),
        (Tensor::scalar(1i64).into(), vector(&[1.0]).into(), "`main`: argument `x`"),
    ];
    for (x, y, want) in cases {
        let err = vm.invoke("main", &[x, y]).unwrap_err().to_string();
        assert!(err.starts_with(want), "{err}");
    }
}

#[test]
fn computed_extents_are_checked_and_allocated() {
    let mut module = IRModule::new();
    // out[i] = x[i / 2], out of extent 2 n; the kernel binds both.
    let n = Var::index("n");
    let extent = PrimExpr::from(&n) * 2i64;
    let repeat = compute("repeat", &[("x", vec![(&n).into()])], vec![extent], |bufs, at| {
        bufs[0].load([at[0].clone().floordiv(2i64)])
    });
    let repeat = add_prim(&mut module, repeat);
    let m = Var::index("m");
    let (narrow, wide) = (f32s(&[(&m).into()]), f32s(&[PrimExpr::from(&m) * 2i64]));
    let (w, x) = (Var::new("w", wide.clone()), Var::new("x", narrow));
    let (y, first) = bind("y", wide, call_tir(&repeat, &[(&x).into()], w.ty().clone()));
    let pair = Arg::Tuple(Arc::new([(&w).into(), y.into()]));
    add(&mut module, function("main", &[&w, &x], vec![first], pair));
    let vm = vm(&module);
    let x = vector(&[1.0, 2.0]);
    let got = vm.invoke("main", &[vector(&[0.0; 4]).into(), x.clone().into()]).unwrap();
    assert_eq!(elements(&got.as_adt().unwrap().fields()[1]), [1.0, 1.0, 2.0, 2.0]);
    let err = vm.invoke("main", &[vector(&[0.0; 5]).into(), x.into()]).unwrap_err().to_string();
    assert!(err.contains("`main`: argument `w`") && err.contains('4') && err.contains('5'), "{err}");
}

#[test]
fn branches_and_match_cast() {
    let mut module = IRModule::new();
    let n = Var::index("n");
    let double = add_prim(&mut module, map("double", vec![(&n).into()], |x| x * 2i64));
    let cond = Var::new("cond", Type::tensor(vec![], DataType::BOOL));
    let x = Var::new("x", Type::Tensor(crate::ir::TensorType::unknown(None)));
    let ty = f32s(&[Var::index("m").into()]);
    let cast = Var::new("cast", ty.clone());
    let cast_binding = Binding { var: cast.clone(), value: Expr::Arg((&x).into()), match_cast: true };
    let branch = |then: bool| {
        if !then {
            return body(vec![], &cast);
        }
        let (y, binding) = bind("y", ty.clone(), call_tir(&double, &[(&cast).into()], ty.clone()));
        body(vec![binding], y)
    };
    let value = If {
        cond: (&cond).into(),
        then_branch: branch(true),
        else_branch: branch(false),
        span: crate::ir::Span::none(),
    };
    // The branch is computed both as the result and in the middle of a body.
    for tail in [true, false] {
        let mut module = module.clone();
        let (r, choice) = bind("r", ty.clone(), Expr::If(Arc::new(value.clone())));
        let (s, again) = bind("s", ty.clone(), call_tir(&double, &[(&r).into()], ty.clone()));
        let func = if tail {
            function("main", &[&cond, &x], vec![cast_binding.clone(), choice], r)
        } else {
            function("main", &[&cond, &x], vec![cast_binding.clone(), choice, again], s)
        };
        add(&mut module, func);
        let vm = vm(&module);
        let factor = if tail { 1.0 } else { 2.0 };
        for (on, want) in [(true, 6.0), (false, 3.0)] {
            let args = [Tensor::scalar(on).into(), vector(&[3.0]).into()];
            assert_eq!(elements(&vm.invoke("main", &args).unwrap()), [want * factor]);
        }
        let err = vm.invoke("main", &[Tensor::scalar(true).into(), scalar(1.0)]).unwrap_err().to_string();
        assert!(err.contains("match_cast to `cast`"), "{err}");
    }
}

fn list_type() -> (Type, TypeDef, Constructor, Constructor) {
    let list = Type::Adt(AdtType { name: "List".into(), args: Arc::new([]) });
    let constructor =
        |name: &str, fields: Vec<Type>| ConstructorDef { name: name.into(), fields: fields.into() };
    let def = TypeDef {
        name: "List".into(),
        params: Arc::new([]),
        constructors: Arc::new([
            constructor("Nil", vec![]),
            constructor("Cons", vec![fixed(&[]), list.clone()]),
        ]),
    };
    let tag = |name: &str, tag| Constructor { ty: "List".into(), name: name.into(), tag };
    (list, def, tag("Nil", 0), tag("Cons", 1))
}

/// `fold(f, acc, l) = match l { Nil => acc, Cons(h, t) => fold(f, f(acc, h), t) }` and
/// `main(l, bias) = fold(|a, b| a + b + bias, 0, l)`.
fn fold_module() -> IRModule {
    let mut module = IRModule::new();
    let add3 = compute("add3", &[("a", vec![]), ("b", vec![]), ("c", vec![])], vec![], |bufs, _| {
        bufs[0].load([]) + bufs[1].load([]) + bufs[2].load([])
    });
    let add3 = add_prim(&mut module, add3);
    let (list, def, nil, cons) = list_type();
    module.add_type(def.into());
    let elem = fixed(&[]);
    let func_ty = Type::Func(Arc::new(FuncType {
        type_params: Arc::new([]),
        params: Arc::new([elem.clone(), elem.clone()]),
        ret: elem.clone(),
        pure: true,
    }));

    let (f, acc, l) =
        (Var::new("f", func_ty.clone()), Var::new("acc", elem.clone()), Var::new("l", list.clone()));
    let fold = add(&mut module, function("fold", &[&f, &acc, &l], vec![], &acc));
    let (h, t) = (Var::new("h", elem.clone()), Var::new("t", list.clone()));
    let (next, step) =
        bind("next", elem.clone(), call(Callee::Var(f.clone()), &[(&acc).into(), (&h).into()]));
    let rest = call(Callee::Global(fold.clone()), &[(&f).into(), next.into(), (&t).into()]);
    let (rest, recurse) = bind("rest", elem.clone(), rest);
    let clauses = Arc::new([
        Clause { pattern: Pattern::Constructor(nil, Arc::new([])), body: body(vec![], &acc) },
        Clause {
            pattern: Pattern::Constructor(cons, Arc::new([Pattern::Var(h), Pattern::Var(t)])),
            body: body(vec![step, recurse], rest),
        },
    ]);
    let value = Expr::Match(Arc::new(Match { value: (&l).into(), clauses, span: crate::ir::Span::none() }));
    let (res, matching) = bind("res", elem.clone(), value);
    let func = function("fold", &[&f, &acc, &l], vec![matching], res);
    module.update(fold.clone(), crate::ir::BaseFunc::Relax(Arc::new(func)));

    let (l, bias) = (Var::new("l", list), Var::new("bias", elem.clone()));
    let (a, b) = (Var::new("a", elem.clone()), Var::new("b", elem.clone()));
    let (c, sum) =
        bind("c", elem.clone(), call_tir(&add3, &[(&a).into(), (&b).into(), (&bias).into()], elem.clone()));
    let lambda = function("lambda", &[&a, &b], vec![sum], c);
    let (lambda, closure) = bind("lambda", func_ty, Expr::Function(Arc::new(lambda)));
    let zero = Arg::Const(Tensor::scalar(0f32));
    let total = call(Callee::Global(fold), &[lambda.into(), zero, (&l).into()]);
    let (total, folding) = bind("total", elem, total);
    add(&mut module, function("main", &[&l, &bias], vec![closure, folding], total));
    module
}

fn list(values: impl DoubleEndedIterator<Item = f32>) -> Value {
    let nil = Value::Adt(tvm_runtime::Adt::new(0, []));
    values.rev().fold(nil, |tail, head| Value::Adt(tvm_runtime::Adt::new(1, [scalar(head), tail])))
}

#[test]
fn fold_over_a_list_with_a_closure() {
    let vm = vm(&fold_module());
    let code = vm.executable().to_string();
    assert_eq!(code.matches("get_tag").count(), 1, "the second clause needs no test:\n{code}");
    for (n, bias) in [(0, 1.0), (3, 0.5), (10_000, 0.0)] {
        let got = vm.invoke("main", &[list((0..n).map(|i| (i % 7) as f32)), scalar(bias)]).unwrap();
        let want: f32 = (0..n).map(|i| (i % 7) as f32 + bias).sum();
        assert_eq!(elements(&got), [want]);
    }
}

#[test]
fn deep_tail_recursion_needs_no_stack() {
    let vm = vm(&fold_module());
    let config = tvm_runtime::vm::VmConfig { max_depth: 4, ..Default::default() };
    let (kernels, exe) = crate::relax::vm::compile(fold_module()).unwrap();
    let kernels = crate::relax::vm::interpreted_kernels(&kernels).unwrap();
    let shallow = tvm_runtime::vm::Vm::with_config(exe, &kernels, config).unwrap();
    for vm in [vm, shallow] {
        let got = vm.invoke("main", &[list((0..10_000).map(|_| 1.0)), scalar(0.0)]).unwrap();
        assert_eq!(elements(&got), [10_000.0]);
    }
}

#[test]
fn local_recursion_refs_and_nested_patterns() {
    // main(l) = { r = ref(0); go = fn(x) { match x { Cons(h, Cons(_, t)) => { r := h; go(t) }, rest => () } };
    //             go(l); *r }
    let mut module = IRModule::new();
    let (list_ty, def, _, cons) = list_type();
    module.add_type(def.into());
    let elem = fixed(&[]);
    let l = Var::new("l", list_ty.clone());
    let zero = Arg::Const(Tensor::scalar(0f32));
    let (r, make) = bind("r", Type::Ref(Arc::new(elem.clone())), Expr::RefCreate(zero));
    let go = Var::new("go", Type::Object);
    let (x, h, t) =
        (Var::new("x", list_ty.clone()), Var::new("h", elem.clone()), Var::new("t", list_ty.clone()));
    let (_, set) = bind("_", Type::unit(), Expr::RefWrite((&r).into(), (&h).into()));
    let (again, recurse) = bind("again", Type::unit(), call(Callee::Var(go.clone()), &[(&t).into()]));
    let inner = Pattern::Constructor(cons.clone(), Arc::new([Pattern::Wildcard, Pattern::Var(t)]));
    let clauses = Arc::new([
        Clause {
            pattern: Pattern::Constructor(cons, Arc::new([Pattern::Var(h), inner])),
            body: body(vec![set, recurse], again),
        },
        Clause {
            pattern: Pattern::Var(Var::new("rest", list_ty)),
            body: body(vec![], Arg::Tuple(Arc::new([]))),
        },
    ]);
    let value = Expr::Match(Arc::new(Match { value: (&x).into(), clauses, span: crate::ir::Span::none() }));
    let (res, matching) = bind("res", Type::unit(), value);
    let func = crate::relax::Function { pure: false, ..function("go", &[&x], vec![matching], res) };
    let local = Binding::new(go.clone(), Expr::Function(Arc::new(func)));
    let (_, start) = bind("_", Type::unit(), call(Callee::Var(go), &[(&l).into()]));
    let (end, read) = bind("end", elem, Expr::RefRead((&r).into()));
    let main = function("main", &[&l], vec![make, local, start, read], end);
    add(&mut module, crate::relax::Function { pure: false, ..main });
    let vm = vm(&module);
    for (n, want) in [(0, 0.0), (1, 0.0), (2, 0.0), (5, 2.0), (6, 4.0)] {
        let got = vm.invoke("main", &[list((0..n).map(|i| i as f32))]).unwrap();
        assert_eq!(elements(&got), [want], "list of {n}");
    }
}

#[test]
fn what_is_not_lowered_is_an_error_that_says_so() {
    let mut module = IRModule::new();
    let gv = add_prim(&mut module, map("double", vec![index(2)], |x| x * 2i64));
    let x = Var::new("x", fixed(&[2]));
    let (y, binding) = bind("y", fixed(&[2]), call_tir(&gv, &[(&x).into()], fixed(&[2])));
    add(&mut module, function("main", &[&x], vec![binding], y));
    let err = disassemble(&module).unwrap_err().to_string();
    assert!(err.contains("`double`") && err.contains("CallTIRRewrite"), "{err}");

    let mut module = IRModule::new();
    let x = Var::new("x", f32s(&[PrimExpr::from(&Var::index("n")) * 2i64]));
    add(&mut module, function("main", &[&x], vec![], &x));
    let err = disassemble(&module).unwrap_err().to_string();
    assert!(err.contains("symbolic dimension `n`"), "{err}");
}

#[test]
fn tensors_are_moved_to_the_device_of_the_kernels() {
    let mut module = IRModule::new();
    let double = add_prim(&mut module, zip("add", vec![index(2)], |a, b| a + b));
    let ty = fixed(&[2]);
    let x = Var::new("x", ty.clone());
    let one = Arg::Const(vector(&[1.0, 2.0]));
    let (y, binding) = bind("y", ty.clone(), call_tir(&double, &[(&x).into(), one], ty));
    add(&mut module, function("main", &[&x], vec![binding], y));
    let text = crate::relax::vm::compile_for(module, &crate::target::Target::cuda()).unwrap().1.to_string();
    let copies = text.matches("device_copy").count();
    assert_eq!(copies, 2, "the argument and the constant: {text}");
    assert!(text.contains("cuda:0"), "{text}");
}
