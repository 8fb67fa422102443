//! Bounds of dimensions, `dims(n = 1..=64)`: from the surface through the passes to the checks of a call.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tvm::ir::{BaseFunc, IRModule, json, structural_equal, structural_hash};
use tvm::prelude::*;
use tvm::relax::{transform as relax_passes, vm};
use tvm::runtime::vm::{Instruction, IntOperand, Vm};
use tvm::runtime::{DimBound, Value};
use tvm::tir::{PrimFunc, Stmt, Visitor, walk_stmt};

#[relax::func(dims(n = 4..=64, n % 4 == 0))]
fn layer(x: Tensor<f32, n, 8>, w: Tensor<f32, 8, 8>) -> Tensor<f32, n, 8> {
    let h = relu(x.matmul(w)) + 1.0;
    let h = softmax(h.matmul(w), -1) * 2.0;
    relu(h.matmul(w))
}

#[relax::func(dims(n = 4..=64))]
fn wider(x: Tensor<f32, n, 8>, w: Tensor<f32, 8, 8>) -> Tensor<f32, n, 8> {
    let h = relu(x.matmul(w)) + 1.0;
    let h = softmax(h.matmul(w), -1) * 2.0;
    relu(h.matmul(w))
}

#[relax::func(name = "scalars", dims(k = 2..=3, m <= 4))]
fn parameters(k: i64, pair: (Tensor<f32, m>, Tensor<f32, m>), x: Tensor<f32, k>) -> Tensor<f32, k> {
    let (a, b) = pair;
    x + sum(a + b)
}

#[relay::func(dims(n = 1..=8))]
fn closures(x: Tensor<f32, n>, y: Tensor<f32, n>) -> Tensor<f32, n> {
    let add = |v: Tensor<f32, n>| -> Tensor<f32, n> { v + y };
    add(add(x))
}

#[prim_func(dims(n = 8.., n % 8 == 0, k = 1..=4))]
fn copies(x: &Tensor<f32, n>, k: i64, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i / 8 * 8]] * k as f32;
    }
}

#[relax::func]
fn calls_kernel(x: Tensor<f32, m>) -> Tensor<f32, m> {
    call_tir(copies, (x, 2))
}

/// The bounds of the dimensions and scalars of each function, in the syntax of `dims(..)`.
fn bounds(module: &IRModule) -> Vec<(String, String)> {
    let source = |dims: Vec<tvm::ir::Var>| {
        let bounds = dims.iter().filter_map(|dim| Some(dim.bound()?.source(dim.name())));
        bounds.collect::<Vec<_>>().join(", ")
    };
    let all = module.functions().map(|(gv, func)| {
        let dims = match func {
            BaseFunc::Prim(func) => func.param_vars(),
            BaseFunc::Relax(func) => {
                let mut dims: Vec<tvm::ir::Var> = Vec::new();
                for param in func.params.iter() {
                    let new =
                        std::iter::once(param.clone()).chain(tvm::relax::analysis::type_dims(param.ty()));
                    new.for_each(|dim| dims.extend((!dims.contains(&dim)).then_some(dim)));
                }
                dims
            }
            BaseFunc::Extern(_) => vec![],
        };
        (gv.name().to_string(), source(dims))
    });
    all.collect()
}

fn run_passes(module: IRModule, passes: Vec<tvm::pass::Pass>) -> IRModule {
    tvm::pass::Sequential::new("passes", passes).apply(module).unwrap_or_else(|err| panic!("{err}"))
}

fn fused(module: IRModule) -> IRModule {
    let passes = vec![
        relax_passes::legalize_ops(),
        relax_passes::annotate_tir_op_pattern(),
        relax_passes::fuse_ops(),
        relax_passes::fuse_tir(),
    ];
    run_passes(module, passes)
}

fn machine(module: IRModule) -> Vm {
    let (kernels, exe) = vm::compile(module).unwrap_or_else(|err| panic!("{err}"));
    Vm::new(exe, &vm::interpreted_kernels(&kernels).unwrap()).unwrap()
}

fn ones(shape: &[i64]) -> Value {
    let len = shape.iter().product::<i64>() as usize;
    Value::Tensor(Tensor::from_vec(vec![1.0f32; len], shape).unwrap())
}

#[test]
fn the_surface_says_bounds() {
    let of = |module: IRModule| bounds(&module).into_iter().map(|(_, bound)| bound).collect::<Vec<_>>();
    assert_eq!(of(layer::module().unwrap()), ["n = 4..=64, n % 4 == 0"]);
    assert_eq!(of(parameters::module().unwrap()), ["k = 2..=3, m = 0..=4"]);
    assert_eq!(of(closures::module().unwrap()), ["n = 1..=8"]);
    assert_eq!(of(copies::module().unwrap()), ["k = 1..=4, n = 8.., n % 8 == 0"]);
    assert!(copies::reference(&[1f32; 8], 3, &mut [0f32; 8]).is_ok());
    let err = copies::reference(&[1f32; 8], 5, &mut [0f32; 8]).unwrap_err().to_string();
    assert_eq!(err, "`copies`: argument `k` is 5, dimension `k` was compiled for 1..=4");
}

#[test]
fn bounds_are_part_of_the_structure() {
    let (a, b) = (layer::module().unwrap(), wider::module().unwrap());
    let func = |module: &IRModule| match module.functions().next() {
        Some((_, BaseFunc::Relax(func))) => func.clone(),
        other => panic!("a graph function, got {other:?}"),
    };
    let mismatch = structural_equal(&*func(&a), &*func(&b)).unwrap_err();
    assert_eq!(mismatch.left, "variable `n` in 4..=64 in steps of 4");
    assert_ne!(structural_hash(&*func(&a)), structural_hash(&*func(&b)));

    for module in [a, b, parameters::module().unwrap(), copies::module().unwrap()] {
        let text = json::to_json(&module).unwrap();
        structural_equal(&module, &json::from_json(&text).unwrap()).unwrap();
    }
    let text = json::to_json(&wider::module().unwrap()).unwrap();
    assert!(text.contains("[4,64,1,0]"), "{text}");
    for (wrong, message) in [
        ("[4,2,1,0]", "`n`: no number from 4 to 2"),
        ("[-1,64,1,0]", "`n`: the minimum -1 is negative"),
        ("[4,64]", "`bound` is not minimum, maximum, modulus and remainder"),
    ] {
        let err = json::from_json(&text.replace("[4,64,1,0]", wrong)).unwrap_err().to_string();
        assert!(err.contains(message), "{err}");
    }
}

#[test]
fn passes_that_make_functions_keep_bounds() {
    let bound = "n = 4..=64, n % 4 == 0";
    for module in [layer::module().unwrap(), fused(layer::module().unwrap())] {
        let legal = run_passes(module, vec![relax_passes::legalize_ops()]);
        assert!(bounds(&legal).iter().all(|(_, it)| it == bound), "{:?}", bounds(&legal));
    }
    let lifted = run_passes(closures::module().unwrap(), vec![relax_passes::lambda_lift()]);
    let found = bounds(&lifted);
    assert!(found.len() == 2 && found.iter().all(|(_, it)| it == "n = 1..=8"), "{found:?}");
}

#[test]
fn kernels_of_bounded_functions_check_no_size() {
    struct Overflow(usize);
    impl Visitor for Overflow {
        fn visit_stmt(&mut self, stmt: &Stmt) {
            let overflow = tvm::runtime::abi::Status::IndexOverflow as i32;
            self.0 += usize::from(matches!(stmt, Stmt::AssertStmt(it) if it.failure.status == overflow));
            walk_stmt(self, stmt);
        }
    }
    let checks = |module: IRModule| {
        let module = run_passes(module, vec![tvm::tir::transform::check_bounds()]);
        let mut count = Overflow(0);
        let kernels = module.functions().filter_map(|(gv, _)| module.prim_func(gv));
        kernels.for_each(|func: &std::sync::Arc<PrimFunc>| count.visit_stmt(&func.body));
        count.0
    };
    let unbounded = relax!(|x: Tensor<f32, n, 8>| -> Tensor<f32, n, 8> { relu(x) });
    assert_eq!(checks(fused(unbounded.module().unwrap())), 1);
    assert_eq!(checks(fused(layer::module().unwrap())), 0);
}

#[test]
fn memory_is_planned_for_the_maximum() {
    let storages = |module| {
        let vm = machine(module);
        let sizes = vm.executable().functions[0].code.iter().filter_map(|it| match it {
            Instruction::AllocStorage { size, .. } => Some(*size),
            _ => None,
        });
        sizes.collect::<Vec<_>>()
    };
    let planned = storages(layer::module().unwrap());
    // Two tensors of at most 64 × 8 floats lie in one storage; the result has the size that it has.
    assert!(matches!(planned[..], [IntOperand::Const(4096), IntOperand::Reg(_)]), "{planned:?}");
}

/// Asserts that a call of `name` fails because of a dimension: argument, axis, dimension, its bounds, its value.
fn out_of_bounds(vm: &Vm, name: &str, args: &[Value], want: (&str, Option<i64>, &str, &str, i64)) {
    match vm.invoke(name, args).unwrap_err() {
        RuntimeError::ArgBound { func, arg, axis, dim, expected, got } => {
            assert_eq!((&*func, (&*arg, axis, &*dim, &*expected, got)), (name, want));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_check_bounds() {
    for target in [Target::host(), Target::interpreter()] {
        let vm = tvm::codegen::compile_module(&layer::module().unwrap(), &target).unwrap();
        assert!(vm.invoke("layer", &[ones(&[8, 8]), ones(&[8, 8])]).is_ok());
        for n in [0, 6, 68] {
            let want = ("x", Some(0), "n", "4..=64 in steps of 4", n);
            out_of_bounds(&vm, "layer", &[ones(&[n, 8]), ones(&[8, 8])], want);
        }
        let x = Tensor::zeros(&[65, 8], DataType::F32).unwrap();
        let w = Tensor::zeros(&[8, 8], DataType::F32).unwrap();
        let call = vm.call("layer").unwrap().input::<f32, 2>(&x).unwrap().input::<f32, 2>(&w).unwrap();
        let err = call.run().err().unwrap();
        assert!(matches!(&err, RuntimeError::ArgBound { dim, got: 65, .. } if **dim == *"n"), "{err}");
        assert_eq!(
            err.to_string(),
            "`layer`: argument `x`: axis 0 is 65, dimension `n` was compiled for 4..=64 in steps of 4"
        );
    }
    let vm = machine(parameters::module().unwrap());
    let args = |k: i64, m: i64| {
        let pair = Value::Adt(tvm::runtime::Adt::new(0, vec![ones(&[m]), ones(&[m])]));
        [Value::Int(k), pair, ones(&[k])]
    };
    assert!(vm.invoke("scalars", args(2, 4)).is_ok());
    out_of_bounds(&vm, "scalars", &args(4, 1), ("k", None, "k", "2..=3", 4));
    out_of_bounds(&vm, "scalars", &args(3, 5), ("pair.0", Some(0), "m", "0..=4", 5));

    // The caller does not know the bound; the kernel checks it.
    let vm = machine(calls_kernel::module().unwrap());
    let err = vm.invoke("calls_kernel", &[ones(&[12])]).unwrap_err().to_string();
    assert!(
        err.contains("`copies`: argument `x`: axis 0 is 12, dimension `n` was compiled for 8.."),
        "{err}"
    );
}

#[relax::func(dims(w % 2 == 0))]
fn windows(
    x: Tensor<f32, 1, 1, h, w>,
    k: Tensor<f32, 1, 1, 4, 3>,
) -> Tensor<f32, 1, 1, { h - 3 }, { w / 2 - 1 }> {
    max_pool2d(conv2d(x, k), pool_size = [1, 2], strides = [1, 2])
}

#[relax::func]
fn total(x: Tensor<f32, 1, 1, h, w>, k: Tensor<f32, 1, 1, 3, 2>, filtered: Tensor<bool>) -> Tensor<f32> {
    if filtered { sum(conv2d(x, k)) } else { sum(x) }
}

#[test]
fn branches_check_what_they_need() {
    let vm = machine(total::module().unwrap());
    let call = |h, w, filtered: bool| {
        let filtered = Tensor::from_slice(&[filtered], &[]).unwrap().into();
        vm.invoke("total", &[ones(&[1, 1, h, w]), ones(&[1, 1, 3, 2]), filtered])
    };
    for (h, w, filtered, want) in
        [(4, 3, true, 24.0), (2, 1, true, 0.0), (4, 3, false, 12.0), (1, 0, false, 0.0)]
    {
        assert_eq!(call(h, w, filtered).unwrap().as_tensor().unwrap().to_f64s().unwrap(), [want]);
    }
    let err = call(1, 3, true).unwrap_err().to_string();
    assert_eq!(err, "`total`: argument `x`: axis 2 is 1, dimension `h` was compiled for 2..");
    let err = call(2, 0, true).unwrap_err().to_string();
    assert_eq!(err, "`total`: argument `x`: axis 3 is 0, dimension `w` was compiled for 1..");
}

#[test]
fn arguments_that_are_too_small_for_a_tensor_are_named() {
    for target in [Target::host(), Target::interpreter()] {
        let vm = tvm::codegen::compile_module(&windows::module().unwrap(), &target).unwrap();
        let call = |h, w| vm.invoke("windows", &[ones(&[1, 1, h, w]), ones(&[1, 1, 4, 3])]);
        assert_eq!(call(5, 6).unwrap().as_tensor().unwrap().shape(), [1, 1, 2, 2]);
        // An extent of 0 is none that is negative.
        assert_eq!(call(3, 6).unwrap().as_tensor().unwrap().shape(), [1, 1, 0, 2]);
        let err = call(2, 6).unwrap_err();
        assert!(matches!(&err, RuntimeError::ArgBound { axis: Some(2), got: 2, .. }), "{err}");
        assert_eq!(
            err.to_string(),
            "`windows`: argument `x`: axis 2 is 2, dimension `h` was compiled for 3.."
        );
        let err = call(5, 0).unwrap_err().to_string();
        assert!(err.ends_with("axis 3 is 0, dimension `w` was compiled for 2.. in steps of 2"), "{err}");
    }
}

#[test]
fn calls_that_never_fit_do_not_compile() {
    let too_long =
        relax!(|x: Tensor<f32, 68, 8>, w: Tensor<f32, 8, 8>| -> Tensor<f32, 68, 8> { layer(x, w) });
    let err = too_long.module().unwrap_err().to_string();
    assert!(err.contains("expected n in 4..=64 in steps of 4 at axis 0, got 68"), "{err}");
    let odd = relax!(|x: Tensor<f32, 12>| -> Tensor<f32, 12> { call_tir(copies, (x, 1)) });
    let err = odd.module().unwrap_err().to_string();
    assert!(err.contains("expected n in 8.. in steps of 8 at axis 0, got 12"), "{err}");
}

#[test]
fn only_parameters_have_bounds() {
    use tvm::tir::{Buffer, For, Param, PrimExpr};
    let bounded = || tvm::ir::Var::index("i").within(DimBound::between(0, 3).ok());
    let y = Buffer::new("y", [PrimExpr::index(100)], DataType::F32);
    let i = bounded();
    let store = Stmt::store(&y, [PrimExpr::from(&i)], PrimExpr::float(1.0, DataType::F32));
    let root = |body| tvm::tir::BlockRealize::opaque(tvm::tir::Block::root(vec![], body));
    let func = PrimFunc::new("f", vec![Param::Out(y)], root(For::serial(i, 100, store).into()));
    let err = tvm::tir::analysis::well_formed(&func).unwrap_err().to_string();
    assert!(err.contains("W18: `i` has bounds, but is no `i64` among scalars and dimensions"), "{err}");
}
