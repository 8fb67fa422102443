//! Tests of memory planning: which memory is shared, and that sharing does not change results.

use std::sync::Arc;

use tvm_runtime::vm::{Instruction, IntOperand, Vm};
use tvm_runtime::{DataType, Device, Tensor, Value};

use super::static_plan_block_memory;
use crate::ir::{AdtType, BaseFunc, ConstructorDef, IRModule, Type, TypeDef, Var};
use crate::pass::Sequential;
use crate::relax::op::memory;
use crate::relax::testing::*;
use crate::relax::transform::call_tir_rewrite;
use crate::relax::vm::{interpreted_kernels, vm_codegen};
use crate::relax::{Arg, Binding, Callee, Clause, Constructor, Expr, Function, If, Match, Pattern};
use crate::tir::PrimExpr;
use tvm_testing::Rng;

fn lower(module: &IRModule, plan: bool) -> Vm {
    let mut passes = vec![call_tir_rewrite()];
    passes.extend(plan.then(static_plan_block_memory));
    let module = Sequential::new("lower", passes).apply(module.clone()).unwrap_or_else(|err| panic!("{err}"));
    let (kernels, exe) = vm_codegen(&module, Device::cpu()).unwrap();
    Vm::new(exe, &interpreted_kernels(&kernels).unwrap()).unwrap()
}

/// Sizes of the storages that `main` allocates; -1 for sizes computed at run time.
fn storages(vm: &Vm) -> Vec<i64> {
    let code = &vm.executable().function("main").unwrap().code;
    let size = |it: &Instruction| match it {
        Instruction::AllocStorage { size: IntOperand::Const(size), .. } => Some(*size),
        Instruction::AllocStorage { .. } => Some(-1),
        _ => None,
    };
    code.iter().filter_map(size).collect()
}

/// `x -> x + 1`, ten times; every dimension is `dim`.
fn chain(dim: PrimExpr, attrs: &[(&str, i64)]) -> IRModule {
    let mut module = IRModule::new();
    let n = Var::index("n");
    let inc =
        add_prim(&mut module, map("inc", vec![(&n).into()], |x| x + PrimExpr::float(1.0, DataType::F32)));
    let ty = f32s(&[dim]);
    let x = Var::new("x", ty.clone());
    let mut last = x.clone();
    let mut bindings = Vec::new();
    for _ in 0..10 {
        let (y, binding) = bind("y", ty.clone(), call_tir(&inc, &[(&last).into()], ty.clone()));
        bindings.push(binding);
        last = y;
    }
    let mut func = function("main", &[&x], bindings, last);
    func.attrs = attrs.iter().map(|(name, value)| (*name, *value)).collect();
    add(&mut module, func);
    module
}

#[test]
fn a_chain_needs_two_storages_and_its_result() {
    let m = || PrimExpr::from(&Var::index("m"));
    let cases: [(IRModule, &[i64]); 3] = [
        (chain(PrimExpr::index(3), &[]), &[12, 12, 12]),
        (chain(m(), &[]), &[-1, -1, -1]),
        (chain(m(), &[("tir_var_upper_bound.m", 8)]), &[32, 32, -1]),
    ];
    for (module, want) in cases {
        let vm = lower(&module, true);
        assert_eq!(storages(&vm), want);
        assert_eq!(storages(&lower(&module, false)).len(), 10);
        let got = vm.invoke("main", &[vector(&[0.0, 1.0, 2.0]).into()]).unwrap();
        assert_eq!(elements(&got), [10.0, 11.0, 12.0]);
    }
}

#[test]
fn sizes_grow_and_stay_in_range() {
    let mut module = IRModule::new();
    let resize = |from: i64, to: i64| {
        let index = PrimExpr::index;
        compute("resize", &[("x", vec![index(from)])], vec![index(to)], |bufs, at| {
            bufs[0].load([at[0].clone().floormod(from)])
        })
    };
    let x = Var::new("x", fixed(&[8]));
    let (mut last, mut bindings) = (x.clone(), Vec::new());
    for (from, to) in [(8, 4), (4, 1), (1, 64), (64, 2), (2, 1), (1, 1)] {
        let gv = add_prim(&mut module, resize(from, to));
        let (y, binding) = bind("y", fixed(&[to]), call_tir(&gv, &[(&last).into()], fixed(&[to])));
        bindings.push(binding);
        last = y;
    }
    add(&mut module, function("main", &[&x], bindings, last));
    let vm = lower(&module, true);
    assert_eq!(storages(&vm), [256, 8, 4, 4], "4 and 64 floats share, and 1 and 2; 64 and 1 do not");
    let got = vm.invoke("main", &[vector(&[7.0; 8]).into()]).unwrap();
    assert_eq!(elements(&got), [7.0]);
}

#[test]
fn random_graphs_compute_the_same() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut module = IRModule::new();
        let n = PrimExpr::index(5);
        let zip = add_prim(&mut module, zip("mix", vec![n.clone()], |a, b| a * 3i64 + b));
        let ty = fixed(&[5]);
        let (x, cond) = (Var::new("x", ty.clone()), Var::new("cond", Type::tensor(vec![], DataType::BOOL)));
        let mut vars = vec![x.clone()];
        let mut bindings = Vec::new();
        for _ in 0..20 {
            let binding = random_binding(&mut rng, &vars, &zip, &cond, 2);
            if matches!(binding.var.ty(), Type::Tensor(_)) {
                vars.push(binding.var.clone());
            }
            bindings.push(binding);
        }
        let ret: Vec<Arg> = (0..3).map(|_| Arg::from(rng.pick(&vars))).collect();
        let (t, tuple) = bind("t", Type::Object, Expr::Arg(Arg::Tuple(ret.into())));
        bindings.push(tuple);
        add(&mut module, function("main", &[&x, &cond], bindings, t));
        let (plain, planned) = (lower(&module, false), lower(&module, true));
        for on in [true, false] {
            let args: [Value; 2] = [vector(&[1.0, -2.0, 0.5, 3.0, 0.0]).into(), Tensor::scalar(on).into()];
            let results = [&plain, &planned].map(|vm| {
                let got = vm.invoke("main", &args).unwrap();
                got.as_adt().unwrap().fields().iter().map(elements).collect::<Vec<_>>()
            });
            assert_eq!(results[0], results[1], "seed {seed}");
        }
        assert!(storages(&planned).len() < storages(&plain).len(), "seed {seed} shares nothing");
    }
}

fn random_binding(
    rng: &mut Rng,
    vars: &[Var],
    zip: &crate::ir::GlobalVar,
    cond: &Var,
    depth: usize,
) -> Binding {
    let ty = fixed(&[5]);
    // Mostly recent values, so that others die.
    let recent = &vars[vars.len().saturating_sub(3)..];
    let arg = |rng: &mut Rng| Arg::from(rng.pick(recent));
    let value = match rng.below(8) {
        0 if rng.below(2) == 0 => Expr::Arg(arg(rng)),
        0 => first_of(arg(rng), arg(rng)),
        1 => Expr::TupleGetItem(Arg::Tuple(Arc::new([arg(rng), arg(rng)])), 1),
        2 | 3 if depth > 0 => {
            let mut branch = || {
                let mut vars = vars.to_vec();
                let mut bindings = Vec::new();
                for _ in 0..rng.below(4) {
                    let binding = random_binding(rng, &vars, zip, cond, depth - 1);
                    vars.push(binding.var.clone());
                    bindings.push(binding);
                }
                let ret = Arg::from(rng.pick(&vars[vars.len().saturating_sub(2)..]));
                body(bindings, ret)
            };
            let (then_branch, else_branch) = (branch(), branch());
            let span = crate::ir::Span::none();
            Expr::If(Arc::new(If { cond: cond.into(), then_branch, else_branch, span }))
        }
        _ => call_tir(zip, &[arg(rng), arg(rng)], ty.clone()),
    };
    bind("v", ty, value).1
}

/// `match (a, b) { (p, _) => p }`.
fn first_of(a: Arg, b: Arg) -> Expr {
    let p = Var::new("p", fixed(&[5]));
    let pattern = Pattern::Tuple(Arc::new([Pattern::Var(p.clone()), Pattern::Wildcard]));
    let clauses = Arc::new([Clause { pattern, body: body(vec![], p) }]);
    Expr::Match(Arc::new(Match {
        value: Arg::Tuple(Arc::new([a, b])),
        clauses,
        span: crate::ir::Span::none(),
    }))
}

/// A function that returns its argument.
fn same(module: &mut IRModule) -> crate::ir::GlobalVar {
    let x = Var::new("x", fixed(&[5]));
    add(module, function("same", &[&x], vec![], &x))
}

/// `enum Boxed { First(Tensor), Rest(Boxed) }`.
fn boxes(module: &mut IRModule) -> (Type, [Constructor; 2]) {
    let boxed = Type::Adt(AdtType { name: "Boxed".into(), args: Arc::new([]) });
    let def = |name: &str, field: Type| ConstructorDef { name: name.into(), fields: Arc::new([field]) };
    let constructors = Arc::new([def("First", fixed(&[5])), def("Rest", boxed.clone())]);
    module.add_type(Arc::new(TypeDef { name: "Boxed".into(), params: Arc::new([]), constructors }));
    let constructor = |name: &str, tag| Constructor { ty: "Boxed".into(), name: name.into(), tag };
    (boxed, [constructor("First", 0), constructor("Rest", 1)])
}

/// `again(x, n) = if n > 0 { again(x, n - 1) } else { x }`.
fn recursive(module: &mut IRModule) -> crate::ir::GlobalVar {
    let (x, n) = (Var::new("x", fixed(&[5])), Var::index("n"));
    let whole =
        |bindings, ret: &Var| Function { ret: fixed(&[5]), ..function("again", &[&x, &n], bindings, ret) };
    let gv = add(module, whole(vec![], &x));
    let less = Arg::Prim(PrimExpr::from(&n) - 1i64);
    let (next, recurse) = bind("next", fixed(&[5]), call(Callee::Global(gv.clone()), &[(&x).into(), less]));
    let branch = If {
        cond: Arg::Prim(PrimExpr::from(&n).greater(0)),
        then_branch: body(vec![recurse], next),
        else_branch: body(vec![], &x),
        span: crate::ir::Span::none(),
    };
    let (r, choose) = bind("r", fixed(&[5]), Expr::If(Arc::new(branch)));
    module.update(gv.clone(), BaseFunc::Relax(Arc::new(whole(vec![choose], &r))));
    gv
}

/// Ways to refer to the memory of `a` under another name: for each, bindings of which the last one binds the tensor.
fn holds(module: &mut IRModule, a: &Var, cond: &Var) -> Vec<(&'static str, Vec<Binding>)> {
    let ty = fixed(&[5]);
    let tensor = |value: Expr| bind("r", ty.clone(), value).1;
    let span = crate::ir::Span::none();
    let pair = Arg::Tuple(Arc::new([a.into(), a.into()]));
    let (t, tuple) = bind("t", Type::Tuple(Arc::new([ty.clone(), ty.clone()])), Expr::Arg(pair.clone()));
    let field = |index| tensor(Expr::TupleGetItem((&t).into(), index));
    let (c, cell) = bind("c", Type::Ref(Arc::new(ty.clone())), Expr::RefCreate(a.into()));
    let flat = Arg::Shape(Arc::new([PrimExpr::index(5)]));
    let view = memory::call(memory::RESHAPE_TENSOR, [a.into(), flat], Default::default()).unwrap();
    let whole = Var::new("whole", t.ty().clone());
    let arm = vec![bind("q", ty.clone(), Expr::TupleGetItem((&whole).into(), 1)).1];
    let named = Clause { pattern: Pattern::Var(whole), body: body(arm.clone(), &arm[0].var) };
    let matched = Match { value: (&t).into(), clauses: Arc::new([named]), span: span.clone() };
    let branch = If {
        cond: cond.into(),
        then_branch: body(vec![], a),
        else_branch: body(vec![], a),
        span: span.clone(),
    };
    let gv = same(module);
    let id = Var::new("id", Type::Object);
    let closure = Binding::new(id.clone(), Expr::Arg(Arg::Global(gv.clone())));
    let captured = [Arg::Global(gv.clone()), Arg::Tuple(Arc::new([a.into()]))];
    let thunk = memory::call(memory::ALLOC_CLOSURE, captured, Default::default()).unwrap();
    let (thunk, make) = bind("thunk", Type::Object, thunk);
    let (boxed, [first, rest]) = boxes(module);
    let unbox = Clause {
        pattern: Pattern::Constructor(first.clone(), Arc::new([Pattern::Var(Var::new("p", ty.clone()))])),
        body: body(vec![], a),
    };
    let (p, inner) = (Var::new("p", ty.clone()), Var::new("inner", boxed.clone()));
    let again = Clause {
        pattern: Pattern::Constructor(rest.clone(), Arc::new([Pattern::Var(inner.clone())])),
        body: {
            let one = Clause {
                pattern: Pattern::Constructor(first.clone(), Arc::new([Pattern::Var(p.clone())])),
                body: body(vec![], &p),
            };
            let other = Clause { pattern: Pattern::Wildcard, body: body(vec![], a) };
            let deep = Match { value: inner.into(), clauses: Arc::new([one, other]), span: span.clone() };
            let (deep, binding) = bind("deep", ty.clone(), Expr::Match(Arc::new(deep)));
            body(vec![binding], deep)
        },
    };
    let (one, make_one) = bind("one", boxed.clone(), call(Callee::Constructor(first), &[a.into()]));
    let (two, make_two) = bind("two", boxed, call(Callee::Constructor(rest), &[one.into()]));
    let unboxed = Match { value: two.into(), clauses: Arc::new([unbox, again]), span: span.clone() };
    let recursive = recursive(module);
    vec![
        ("fields of a data type", vec![make_one, make_two, tensor(Expr::Match(Arc::new(unboxed)))]),
        ("a recursive call", vec![tensor(call(Callee::Global(recursive), &[a.into(), Arg::Prim(3.into())]))]),
        ("a pattern of a tuple", vec![tensor(first_of(a.into(), a.into()))]),
        ("a pattern of a whole value", vec![tuple.clone(), tensor(Expr::Match(Arc::new(matched)))]),
        ("a field", vec![tuple, field(0)]),
        ("a field at once", vec![tensor(Expr::TupleGetItem(pair, 1))]),
        ("a cell", vec![cell, tensor(Expr::RefRead((&c).into()))]),
        ("a view", vec![tensor(view)]),
        ("a branch", vec![tensor(Expr::If(Arc::new(branch)))]),
        ("a call", vec![tensor(call(Callee::Global(gv), &[a.into()]))]),
        ("a closure's argument", vec![closure, tensor(call(Callee::Var(id), &[a.into()]))]),
        ("a captured value", vec![make, tensor(call(Callee::Var(thunk), &[]))]),
    ]
}

#[test]
fn memory_under_another_name_is_not_taken() {
    let mut scratch = IRModule::new();
    let (a, cond) = (Var::new("a", fixed(&[5])), Var::new("cond", Type::tensor(vec![], DataType::BOOL)));
    let ways: Vec<_> = holds(&mut scratch, &a, &cond).into_iter().map(|(name, _)| name).collect();
    for (i, way) in ways.iter().enumerate() {
        // a = x + 1; r = (a, another way); b, c = other results, of which one could lie where `a` does; r + b + c.
        let mut module = IRModule::new();
        let n = || vec![PrimExpr::index(5)];
        let inc = add_prim(&mut module, map("inc", n(), |x| x + PrimExpr::float(1.0, DataType::F32)));
        let mix = add_prim(&mut module, zip("mix", n(), |a, b| a * 3i64 + b));
        let ty = fixed(&[5]);
        let (x, cond) = (Var::new("x", ty.clone()), Var::new("cond", Type::tensor(vec![], DataType::BOOL)));
        let (a, first) = bind("a", ty.clone(), call_tir(&inc, &[(&x).into()], ty.clone()));
        let mut bindings = vec![first];
        bindings.extend(holds(&mut module, &a, &cond).swap_remove(i).1);
        let r = bindings.last().unwrap().var.clone();
        let mut last = x.clone();
        for _ in 0..3 {
            let (b, binding) =
                bind("b", ty.clone(), call_tir(&mix, &[(&last).into(), (&x).into()], ty.clone()));
            bindings.push(binding);
            last = b;
        }
        let (end, binding) = bind("end", ty.clone(), call_tir(&mix, &[r.into(), last.into()], ty));
        bindings.push(binding);
        let main = function("main", &[&x, &cond], bindings, end);
        add(&mut module, crate::relax::Function { pure: false, ..main });
        let args: [Value; 2] = [vector(&[1.0, -2.0, 0.5, 3.0, 0.0]).into(), Tensor::scalar(true).into()];
        let want: Vec<f32> = [1.0f32, -2.0, 0.5, 3.0, 0.0].map(|x| 3.0 * (x + 1.0) + 40.0 * x).to_vec();
        for killed in [false, true] {
            let mut passes = vec![call_tir_rewrite(), static_plan_block_memory()];
            passes.extend(killed.then(crate::relax::transform::kill_after_last_use));
            let lowered =
                Sequential::new("lower", passes).apply(module.clone()).unwrap_or_else(|err| panic!("{err}"));
            let (kernels, exe) = vm_codegen(&lowered, Device::cpu()).unwrap();
            let vm = Vm::new(exe, &interpreted_kernels(&kernels).unwrap()).unwrap();
            assert_eq!(elements(&vm.invoke("main", &args).unwrap()), want, "{way}, killed: {killed}");
        }
    }
}
