//! Tests of memory planning: which memory is shared, and that sharing does not change results.

use std::sync::Arc;

use tvm_runtime::vm::{Instruction, IntOperand, Vm, Workspace};
use tvm_runtime::{DataType, Device, DimBound, RuntimeError, Tensor, Value};

use super::static_plan_block_memory;
use crate::ir::{AdtType, Attrs, BaseFunc, ConstructorDef, IRModule, Type, TypeDef, Var};
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
fn chain(dim: PrimExpr) -> IRModule {
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
    add(&mut module, function("main", &[&x], bindings, last));
    module
}

#[test]
fn a_chain_needs_the_memory_of_two_tensors_and_its_result() {
    let m = |bound| PrimExpr::from(Var::index("m").within(bound));
    let cases: [(IRModule, &[i64]); 3] = [
        (chain(PrimExpr::index(3)), &[2 * 64, 12]),
        (chain(m(None)), &[-1, -1, -1]),
        (chain(m(DimBound::between(1, 20).ok())), &[2 * 128, -1]),
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
fn a_dimension_beyond_its_bound_is_an_error() {
    let m = PrimExpr::from(Var::index("m").within(DimBound::between(1, 20).ok()));
    let vm = lower(&chain(m), true);
    for len in [0, 1, 20, 21, 33, 100] {
        let res = vm.invoke("main", &[vector(&vec![1.0; len]).into()]);
        if (1..=20).contains(&len) {
            assert_eq!(elements(&res.unwrap()), vec![11.0; len]);
        } else {
            let err = res.unwrap_err();
            assert!(matches!(err, RuntimeError::ArgBound { .. }), "{err}");
        }
    }
}

#[test]
fn tensors_of_all_sizes_share_the_arena() {
    let mut module = IRModule::new();
    let resize = |from: i64, to: i64| {
        let index = PrimExpr::index;
        compute("resize", &[("x", vec![index(from)])], vec![index(to)], |bufs, at| {
            bufs[0].load([at[0].clone().floormod(from)])
        })
    };
    let x = Var::new("x", fixed(&[8]));
    let (mut last, mut bindings) = (x.clone(), Vec::new());
    for (from, to) in [(8, 4), (4, 1), (1, 64), (64, 17), (17, 1), (1, 100)] {
        let gv = add_prim(&mut module, resize(from, to));
        let (y, binding) = bind("y", fixed(&[to]), call_tir(&gv, &[(&last).into()], fixed(&[to])));
        bindings.push(binding);
        last = y;
    }
    add(&mut module, function("main", &[&x], bindings, last));
    let vm = lower(&module, true);
    assert_eq!(storages(&vm), [256 + 128, 400], "64 and 17 floats are alive at the same time");
    let got = vm.invoke("main", &[vector(&[7.0; 8]).into()]).unwrap();
    assert_eq!(elements(&got), [7.0; 100]);
}

#[test]
fn tensors_whose_sizes_are_multiples_of_a_dimension_share_an_arena() {
    let mut module = IRModule::new();
    let shape = |n: &Var, width: i64| vec![PrimExpr::from(n), PrimExpr::index(width)];
    let resize = |from: i64, to: i64| {
        let n = Var::index("n");
        compute("resize", &[("x", shape(&n, from))], shape(&n, to), |bufs, at| {
            bufs[0].load([at[0].clone(), at[1].clone().floormod(from)])
        })
    };
    let batch = Var::index("batch");
    let ty = |width: i64| f32s(&shape(&batch, width));
    let x = Var::new("x", ty(32));
    let (mut last, mut bindings) = (x.clone(), Vec::new());
    // The tensor of 5 elements for each unit is not rounded up to 16: it has a storage of its own.
    for (from, to) in [(32, 64), (64, 16), (16, 150), (150, 5), (5, 48), (48, 32), (32, 1)] {
        let gv = add_prim(&mut module, resize(from, to));
        let (y, binding) = bind("y", ty(to), call_tir(&gv, &[(&last).into()], ty(to)));
        bindings.push(binding);
        last = y;
    }
    add(&mut module, function("main", &[&x], bindings, last));
    let (plain, planned) = (lower(&module, false), lower(&module, true));
    assert_eq!(storages(&planned), [-1; 3], "the arena, the tensor of 5 elements, the result");
    for n in [0, 1, 3, 7] {
        let values: Vec<f32> = (0..32 * n).map(|it| it as f32).collect();
        let x = Value::from(Tensor::from_vec(values, &[n, 32]).unwrap());
        let mut workspace = Workspace::new();
        let got = planned.invoke_in(&mut workspace, "main", std::slice::from_ref(&x)).unwrap();
        assert_eq!(elements(&got), elements(&plain.invoke("main", &[x]).unwrap()));
        // 64 and 16 floats, then 16 and 150 rounded up to 160, are alive at the same time.
        let (arena, five) = (n * 4 * (160 + 16), n * 4 * 5);
        assert_eq!(workspace.bytes() as i64, arena + five, "{n}");
    }
}

#[test]
fn branches_share_memory_and_keep_that_of_the_outer_body() {
    let mut module = IRModule::new();
    let n = || vec![PrimExpr::index(16)];
    let inc = add_prim(&mut module, map("inc", n(), |x| x + PrimExpr::float(1.0, DataType::F32)));
    let mix = add_prim(&mut module, zip("mix", n(), |a, b| a * 3i64 + b));
    let ty = fixed(&[16]);
    let (x, cond) = (Var::new("x", ty.clone()), Var::new("cond", Type::tensor(vec![], DataType::BOOL)));
    let step = |from: &Var| bind("y", ty.clone(), call_tir(&inc, &[from.into()], ty.clone()));
    let (outer, first) = step(&x);
    // Three steps; the last one is the result of the branch, so it has memory of its own.
    let branch = || {
        let (a, first) = step(&outer);
        let (b, second) = step(&a);
        let (c, third) = step(&b);
        body(vec![first, second, third], c)
    };
    let span = crate::ir::Span::none();
    let choose = If { cond: (&cond).into(), then_branch: branch(), else_branch: branch(), span };
    let (r, choose) = bind("r", ty.clone(), Expr::If(Arc::new(choose)));
    let (end, sum) = bind("end", ty.clone(), call_tir(&mix, &[(&outer).into(), r.into()], ty.clone()));
    add(&mut module, function("main", &[&x, &cond], vec![first, choose, sum], end));
    let vm = lower(&module, true);
    assert_eq!(storages(&vm), [3 * 64, 64, 64, 64], "`outer` and two tensors of one branch; the results");
    for on in [true, false] {
        let got = vm.invoke("main", &[vector(&[1.0; 16]).into(), Tensor::scalar(on).into()]).unwrap();
        assert_eq!(elements(&got), [11.0; 16]);
    }
}

#[test]
fn memory_that_is_updated_in_place_is_not_shared() {
    let mut module = IRModule::new();
    let n = || vec![PrimExpr::index(16)];
    let inc = add_prim(&mut module, map("inc", n(), |x| x + PrimExpr::float(1.0, DataType::F32)));
    let ty = fixed(&[16]);
    let x = Var::new("x", ty.clone());
    let alloc = |name: &str| {
        let args = [Arg::Shape(Arc::new([PrimExpr::index(16)]))];
        let value = memory::call(memory::ALLOC, args, memory::dtype_attr(DataType::F32)).unwrap();
        bind(name, ty.clone(), value)
    };
    let invoke = |from: &Var, to: &Var| {
        let args =
            [Arg::Global(inc.clone()), Arg::Tuple([from.into()].into()), Arg::Tuple([to.into()].into())];
        Binding::new(
            Var::new("_", Type::unit()),
            memory::call(memory::INVOKE_TVM_OP, args, Attrs::new()).unwrap(),
        )
    };
    let (a, new_a) = alloc("a");
    let (b, new_b) = alloc("b");
    let (c, new_c) = alloc("c");
    let last_use = Attrs::new().with("last_use", true);
    let unique = memory::call(memory::MAKE_UNIQUE, [(&b).into()], last_use).unwrap();
    let (d, take) = bind("d", ty.clone(), unique);
    // a = x + 1; b = a + 1; c = b + 1; d is b, to be written to: d = c + 1.
    let bindings =
        vec![new_a, invoke(&x, &a), new_b, invoke(&a, &b), new_c, invoke(&b, &c), take, invoke(&c, &d)];
    let (e, new_e) = alloc("e");
    let bindings = bindings.into_iter().chain([new_e, invoke(&d, &e)]).collect();
    let func = function("main", &[&x], bindings, e);
    let attrs = func.attrs.clone().with(crate::relax::analysis::FORCE_PURE, true);
    add(&mut module, Function { attrs, ..func });
    let vm = lower(&module, true);
    // The arena of `a` and `c`, which are not alive at the same time; `b`; `e`.
    assert_eq!(storages(&vm), [64, 64, 64]);
    let mut workspace = Workspace::new();
    let got = vm.invoke_in(&mut workspace, "main", &[vector(&[1.0; 16]).into()]).unwrap();
    assert_eq!(elements(&got), [6.0; 16]);
    assert_eq!(workspace.bytes(), 2 * 64, "`b` was not copied");
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
