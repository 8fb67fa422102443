//! Tests of graph functions that are compiled for each target, run, saved and loaded.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use tvm_codegen::{build, compile_module, export_module};
use tvm_core::ir::{Attrs, BaseFunc, IRModule, Op, Span, TensorType, Type, Var};
use tvm_core::relax::{Arg, BlockBuilder, Function};
use tvm_core::target::Target;
use tvm_core::tir::PrimExpr;
use tvm_runtime::vm::{Executable, Vm};
use tvm_runtime::{DataType, Tensor, Value};

/// `main(x: [n, 2], y: [2]) = exp(x + y) * x`
fn module() -> IRModule {
    let n = PrimExpr::from(&Var::index("n"));
    let x = Var::new("x", Type::tensor(vec![n, PrimExpr::index(2)], DataType::F32));
    let y = Var::new("y", Type::Tensor(TensorType::fixed(&[2], DataType::F32)));
    let mut builder = BlockBuilder::new(IRModule::new());
    let none = Span::none();
    let mut emit = |op: &str, args: &[&Var]| {
        let args: Vec<Arg> = args.iter().map(|&arg| Arg::from(arg)).collect();
        builder.emit_op(op, Op::get(op).unwrap(), args, Attrs::new(), &none).unwrap()
    };
    let sum = emit("add", &[&x, &y]);
    let exp = emit("exp", &[&sum]);
    let product = emit("multiply", &[&exp, &x]);
    let ret = product.ty().clone();
    let body = builder.end_scope(product.into());
    let func = Function {
        name: "main".into(),
        type_params: Arc::new([]),
        params: Arc::new([x, y]),
        body,
        ret,
        pure: true,
        attrs: Attrs::new(),
        span: Span::none(),
    };
    let mut module = builder.into_module();
    module.add("main", BaseFunc::Relax(Arc::new(func)));
    module
}

fn check(vm: &Vm) {
    for n in [1usize, 3] {
        let x: Vec<f32> = (0..2 * n).map(|i| i as f32 * 0.25 - 1.0).collect();
        let y = [0.5f32, -0.5];
        let args: [Value; 2] = [
            Tensor::from_slice(&x, &[n as i64, 2]).unwrap().into(),
            Tensor::from_slice(&y, &[2]).unwrap().into(),
        ];
        let got = vm.invoke("main", &args).unwrap();
        let got = got.as_tensor().unwrap();
        assert_eq!(got.shape(), [n as i64, 2]);
        for (i, (got, x)) in got.to_vec::<f32>().unwrap().into_iter().zip(&x).enumerate() {
            let want = (x + y[i % 2]).exp() * x;
            assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "{i}: {got} instead of {want}");
        }
    }
    assert_eq!(vm.executable().kernels.len(), 1, "the three operators are one kernel");
}

#[test]
fn runs_on_every_target() {
    for target in [Target::interpreter(), Target::c(), Target::host()] {
        check(&compile_module(&module(), &target).unwrap_or_else(|err| panic!("{target}: {err}")));
    }
}

#[test]
fn saved_and_loaded() {
    let bytes = export_module(&module(), &Target::c()).unwrap().save().unwrap();
    assert_eq!(
        bytes,
        export_module(&module(), &Target::c()).unwrap().save().unwrap(),
        "compiling is deterministic"
    );
    let exe = Executable::load(&bytes).unwrap();
    assert_eq!(exe.objects.len(), 1);
    let (programs, _) = tvm_core::relax::vm::compile(module()).unwrap();
    let kernels = build(&programs, &Target::c()).unwrap();
    check(&Vm::new(exe, &kernels).unwrap());
}

#[test]
fn errors_name_function_and_parameter() {
    let vm = compile_module(&module(), &Target::interpreter()).unwrap();
    let x = Value::from(Tensor::zeros(&[3, 2], DataType::F32).unwrap());
    let cases: [(Value, &str); 3] = [
        (Tensor::zeros(&[3], DataType::F32).unwrap().into(), "`main`: argument `y`"),
        (Tensor::zeros(&[2], DataType::F64).unwrap().into(), "`main`: argument `y`"),
        (Value::Int(1), "`main`: argument `y`"),
    ];
    for (y, want) in cases {
        let err = vm.invoke("main", &[x.clone(), y]).unwrap_err().to_string();
        assert!(err.contains(want), "{err}");
    }
}
