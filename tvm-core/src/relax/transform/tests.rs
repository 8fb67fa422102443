//! Tests of single passes: the module before, the expected module, and equal results on the virtual machine.

use std::sync::Arc;

use tvm_runtime::Value;

use super::*;
use crate::ir::{Attrs, FuncType, IRModule, Type, Var, structural_equal, well_formed};
use crate::pass::Pass;
use crate::relax::op::memory;
use crate::relax::testing::*;
use crate::relax::{Arg, Binding, Callee, Expr, Function};
use crate::tir::PrimExpr;

/// Applies `pass` and compares with `expected`.
fn check(pass: Pass, before: &IRModule, expected: &IRModule) {
    let name = pass.info.name;
    let after = pass.apply(before.clone()).unwrap_or_else(|err| panic!("{err}"));
    structural_equal(&after, expected).unwrap_or_else(|err| panic!("{name}: {err}\n{after:#?}"));
}

/// The value of `main(args)` is the same in all modules.
fn same(modules: &[&IRModule], args: &[Value]) {
    let results: Vec<Vec<f32>> =
        modules.iter().map(|module| elements(&run(module, "main", args).unwrap())).collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:?}");
}

/// A module with `add(x, y)` over vectors of any length.
fn base() -> (IRModule, crate::ir::GlobalVar) {
    let mut module = IRModule::new();
    let n = Var::index("n");
    let gv = add_prim(&mut module, zip("add", vec![(&n).into()], |a, b| a + b));
    (module, gv)
}

fn with_main(module: &IRModule, func: Function) -> IRModule {
    let mut module = module.clone();
    add(&mut module, func);
    module
}

/// Binds `value`, whose type is the empty tuple, to `_`.
fn unit(value: Expr) -> Binding {
    bind("_", Type::unit(), value).1
}

fn mem(name: &str, args: &[Arg], attrs: Attrs) -> Expr {
    memory::call(name, args, attrs).unwrap()
}

#[test]
fn canonicalize_bindings_follows_copies_and_tuples() {
    let (module, gv) = base();
    let ty = fixed(&[2]);
    let (x, y) = (Var::new("x", ty.clone()), Var::new("y", ty.clone()));
    let pair = || Arg::Tuple(Arc::new([(&x).into(), (&y).into()]));
    let pair_ty = Type::Tuple(Arc::new([ty.clone(), ty.clone()]));
    let build = |canonical: bool| {
        let (a, copy) = bind("a", ty.clone(), Expr::Arg((&x).into()));
        let (t, tuple) = bind("t", pair_ty.clone(), Expr::Arg(pair()));
        let field = if canonical { Expr::Arg((&y).into()) } else { Expr::TupleGetItem((&t).into(), 1) };
        let (b, field) = bind("b", ty.clone(), field);
        let (left, right) = if canonical { (&x, &y) } else { (&a, &b) };
        let (c, sum) = bind("c", ty.clone(), call_tir(&gv, &[left.into(), right.into()], ty.clone()));
        let (d, alias) = bind("d", ty.clone(), Expr::Arg((&c).into()));
        let ret = if canonical { c } else { d };
        with_main(&module, function("main", &[&x, &y], vec![copy, tuple, field, sum, alias], ret))
    };
    check(canonicalize_bindings(), &build(false), &build(true));
    // The bindings that nothing uses any more are dead.
    let (c, sum) = bind("c", ty.clone(), call_tir(&gv, &[(&x).into(), (&y).into()], ty.clone()));
    let small = with_main(&module, function("main", &[&x, &y], vec![sum], c));
    check(dead_code_elimination(), &build(true), &small);
    same(&[&build(false), &small], &[vector(&[1.0, 2.0]).into(), vector(&[5.0, 6.0]).into()]);
}

#[test]
fn dead_code_keeps_effects_and_what_can_be_called() {
    let (module, gv) = base();
    let ty = fixed(&[2]);
    let x = Var::new("x", ty.clone());
    let build = |dead: bool| {
        let mut module = module.clone();
        let (p, q) = (Var::new("p", ty.clone()), Var::new("q", ty.clone()));
        let private = |name: &str, var: &Var| Function {
            attrs: Attrs::new().with("private", true),
            ret: ty.clone(),
            ..function(name, &[var], vec![], var)
        };
        let used = add(&mut module, private("used", &p));
        if dead {
            add(&mut module, private("unused", &q));
        }
        let (_, unused) = bind("a", ty.clone(), call_tir(&gv, &[(&x).into(), (&x).into()], ty.clone()));
        let effect = unit(call(Callee::Packed("test.effect".into()), &[(&x).into()]));
        let (b, last) = bind("b", ty.clone(), call(Callee::Global(used), &[(&x).into()]));
        let bindings = if dead { vec![unused, effect, last] } else { vec![effect, last] };
        let main = Function { pure: false, ..function("main", &[&x], bindings, b) };
        with_main(&module, main)
    };
    check(dead_code_elimination(), &build(true), &build(false));
}

#[test]
fn call_tir_rewrite_and_kills() {
    let (module, gv) = base();
    let n = Var::index("n");
    let ty = f32s(&[(&n).into()]);
    let x = Var::new("x", ty.clone());
    let (a, first) = bind("a", ty.clone(), call_tir(&gv, &[(&x).into(), (&x).into()], ty.clone()));
    let (b, second) = bind("b", ty.clone(), call_tir(&gv, &[(&a).into(), (&x).into()], ty.clone()));
    let before = with_main(&module, function("main", &[&x], vec![first, second], &b));
    let build = |killed: bool| {
        let shape = Arg::Shape(Arc::new([PrimExpr::from(&n)]));
        let alloc = || {
            mem(memory::ALLOC, std::slice::from_ref(&shape), memory::dtype_attr(tvm_runtime::DataType::F32))
        };
        let invoke = |inputs: [&Var; 2], out: &Var| {
            let inputs = Arg::Tuple(inputs.map(Arg::from).into());
            let outputs = Arg::Tuple(Arc::new([out.into()]));
            unit(mem(memory::INVOKE_TVM_OP, &[Arg::Global(gv.clone()), inputs, outputs], Attrs::new()))
        };
        let (a, first) = bind("a", ty.clone(), alloc());
        let (b, second) = bind("b", ty.clone(), alloc());
        let mut bindings = vec![first, invoke([&x, &x], &a), second, invoke([&a, &x], &b)];
        if killed {
            bindings.push(unit(mem(memory::KILL, &[(&a).into()], Attrs::new())));
        }
        let func = function("main", &[&x], bindings, b);
        let attrs = Attrs::new().with(crate::relax::analysis::FORCE_PURE, true);
        with_main(&module, Function { attrs, ..func })
    };
    check(call_tir_rewrite(), &before, &build(false));
    check(kill_after_last_use(), &build(false), &build(true));
}

#[test]
fn lambda_lift_passes_what_is_captured() {
    let (module, gv) = base();
    let n = Var::index("n");
    let ty = f32s(&[(&n).into()]);
    let func_ty = Type::Func(Arc::new(FuncType {
        type_params: Arc::new([]),
        params: Arc::new([ty.clone()]),
        ret: ty.clone(),
        pure: true,
    }));
    let (x, y) = (Var::new("x", ty.clone()), Var::new("y", ty.clone()));
    let p = Var::new("p", ty.clone());
    let (s, sum) = bind("s", ty.clone(), call_tir(&gv, &[(&p).into(), (&x).into()], ty.clone()));
    let local = Function { ret: ty.clone(), ..function("f", &[&p], vec![sum], s) };
    let (f, closure) = bind("f", func_ty.clone(), Expr::Function(Arc::new(local)));
    let (r, called) = bind("r", ty.clone(), call(Callee::Var(f), &[(&y).into()]));
    let main = Function { ret: ty.clone(), ..function("main", &[&x, &y], vec![closure, called], r) };
    let before = with_main(&module, main);

    let m = Var::index("m");
    let inner = f32s(&[(&m).into()]);
    let (captured, own) = (Var::new("x", inner.clone()), Var::new("p", inner.clone()));
    let sum = call_tir(&gv, &[(&own).into(), (&captured).into()], inner.clone());
    let (s, sum) = bind("s", inner.clone(), sum);
    let lifted = Function {
        ret: inner,
        attrs: Attrs::new().with("private", true),
        ..function("main_f", &[&captured, &own], vec![sum], s)
    };
    let mut expected = module;
    let main = add(&mut expected, function("main", &[], vec![], Arg::Tuple(Arc::new([]))));
    let lifted = add(&mut expected, lifted);
    let args = [Arg::Global(lifted.clone()), Arg::Tuple(Arc::new([(&x).into()]))];
    let (_, closure) = bind("f", func_ty, mem(memory::ALLOC_CLOSURE, &args, Attrs::new()));
    let (r, called) = bind("r", ty.clone(), call(Callee::Global(lifted), &[(&x).into(), (&y).into()]));
    let func = Function { ret: ty, ..function("main", &[&x, &y], vec![closure, called], r) };
    expected.update(main, crate::ir::BaseFunc::Relax(Arc::new(func)));

    check(lambda_lift(), &before, &expected);
    well_formed(&expected).unwrap_or_else(|err| panic!("{err}"));
    same(&[&before, &expected], &[vector(&[1.0, 2.0]).into(), vector(&[10.0, 20.0]).into()]);
}

#[test]
fn closures_capture_dimensions_by_value() {
    // The local function allocates a vector of length 2 n; n is an extent of no value that it captures.
    let mut module = IRModule::new();
    let n = Var::index("n");
    let spread = compute("spread", &[("x", vec![])], vec![(&n).into()], |bufs, _| bufs[0].load([]));
    let spread = add_prim(&mut module, spread);
    let m = Var::index("m");
    let wide = f32s(&[PrimExpr::from(&m) * 2i64]);
    let (x, p) = (Var::new("x", f32s(&[(&m).into()])), Var::new("p", fixed(&[])));
    let (s, fill) = bind("s", wide.clone(), call_tir(&spread, &[(&p).into()], wide.clone()));
    let local = Function { ret: wide.clone(), ..function("f", &[&p], vec![fill], s) };
    let func_ty = Type::Func(Arc::new(FuncType {
        type_params: Arc::new([]),
        params: Arc::new([fixed(&[])]),
        ret: wide.clone(),
        pure: true,
    }));
    let (f, closure) = bind("f", func_ty.clone(), Expr::Function(Arc::new(local)));
    // Through a cell, so that the call is not a direct one.
    let (cell, make) = bind("cell", Type::Ref(Arc::new(func_ty.clone())), Expr::RefCreate(f.into()));
    let (g, read) = bind("g", func_ty, Expr::RefRead(cell.into()));
    let one = Arg::Const(tvm_runtime::Tensor::scalar(1.5f32));
    let (r, called) = bind("r", wide.clone(), call(Callee::Var(g), &[one]));
    let main = Function { ret: wide, ..function("main", &[&x], vec![closure, make, read, called], r) };
    let module = with_main(&module, main);
    let got = run(&module, "main", &[vector(&[0.0; 3]).into()]).unwrap();
    assert_eq!(elements(&got), [1.5; 6]);
}
