//! Graph functions of 100,000 bindings: checked, printed, saved, compared; aliases are built and run, operators rewritten.

use tvm_core::ir::{Attrs, IRModule, Op, Span, Type, Var, json, structural_equal, structural_hash};
use tvm_core::pass::PassContext;
use tvm_core::pipeline::default_build;
use tvm_core::relax::transform::{canonicalize_bindings, dead_code_elimination, eliminate_common_subexpr};
use tvm_core::relax::vm::{interpreted_kernels, vm_codegen};
use tvm_core::relax::{Arg, BlockBuilder, Expr};
use tvm_core::tir::PrimExpr;
use tvm_runtime::vm::Vm;
use tvm_runtime::{DataType, Device, Tensor};

const SIZE: usize = 100_000;

/// `main(x)`, whose body applies `step` `SIZE` times.
fn module(step: impl Fn(&mut BlockBuilder, &Var, &Var) -> Var) -> IRModule {
    let x = Var::new("x", Type::tensor(vec![PrimExpr::index(2)], DataType::F32));
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", std::slice::from_ref(&x), |b| {
            Ok((0..SIZE).fold(x.clone(), |v, _| step(b, &v, &x)).into())
        })
        .unwrap_or_else(|err| panic!("{err}"));
    builder.into_module()
}

fn check(module: &IRModule) {
    tvm_core::ir::well_formed(module).unwrap();
    assert!(module.to_string().lines().count() > SIZE);
    let back = json::from_json(&json::to_json(module).unwrap()).unwrap();
    structural_equal(module, &back).unwrap();
    assert_eq!(structural_hash(module), structural_hash(&back));
}

#[test]
fn aliases_are_built_and_run() {
    let module = module(|b, v, _| b.emit("v", Expr::Arg(Arg::from(v)), &Span::none()).unwrap());
    check(&module);
    let context = PassContext::new().without_instruments();
    let built = context.scope(|| default_build().apply(module)).unwrap_or_else(|err| panic!("{err}"));
    let (kernels, exe) = vm_codegen(&built, Device::cpu()).unwrap();
    let vm = Vm::new(exe, &interpreted_kernels(&kernels).unwrap()).unwrap();
    let x = Tensor::from_slice(&[1f32, -2.0], &[2]).unwrap();
    let got = vm.invoke("main", &[x.into()]).unwrap();
    assert_eq!(got.as_tensor().unwrap().to_vec::<f32>().unwrap(), [1.0, -2.0]);
}

#[test]
fn operators_are_checked_and_rewritten() {
    let module = module(|b, v, x| {
        let op = Op::get("maximum").unwrap();
        b.emit_op("v", op, vec![Arg::from(v), Arg::from(x)], Attrs::new(), &Span::none()).unwrap()
    });
    check(&module);
    let context = PassContext::new().without_instruments();
    for pass in [canonicalize_bindings(), dead_code_elimination(), eliminate_common_subexpr()] {
        let after = context.clone().scope(|| pass.apply(module.clone())).unwrap();
        structural_equal(&module, &after).unwrap();
    }
}
