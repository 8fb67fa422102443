//! Tests of graph functions that are compiled for each target, run, saved and loaded.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use tvm_codegen::{CodegenError, Compiled, EmitKind, build, compile_module, export_module};
use tvm_core::ir::{Attrs, BaseFunc, IRModule, Op, Span, TensorType, Type, Var};
use tvm_core::relax::{Arg, BlockBuilder, Function};
use tvm_core::target::Target;
use tvm_core::tir::PrimExpr;
use tvm_runtime::vm::{Executable, Vm, VmConfig};
use tvm_runtime::{DataType, RuntimeError, Tensor, Value};

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

const LEVELS: [&str; 3] = ["x86-64", "x86-64-v3", "x86-64-v4"];

/// The code generators that this build has and that know levels of CPUs.
fn compilers() -> Vec<Target> {
    if cfg!(feature = "llvm") { vec![Target::c(), Target::llvm()] } else { vec![Target::c()] }
}

/// The levels that this machine has.
fn present() -> impl Iterator<Item = &'static str> {
    let has = tvm_runtime::cpu_features();
    let fits =
        move |level: &&str| tvm_runtime::level_features(level).unwrap().iter().all(|it| has.contains(it));
    LEVELS.into_iter().filter(fits)
}

fn forced(level: &str) -> VmConfig {
    VmConfig { cpu_level: Some(level.into()), ..VmConfig::default() }
}

/// The results of `main` for 100 rows, as bits.
fn bits(vm: &Vm) -> Vec<u32> {
    let x: Vec<f32> = (0..200).map(|i| i as f32 * 0.03 - 3.0).collect();
    let (x, y) =
        (Tensor::from_slice(&x, &[100, 2]).unwrap(), Tensor::from_slice(&[0.5f32, -0.5], &[2]).unwrap());
    let out = vm.invoke("main", &[x.into(), y.into()]).unwrap();
    out.as_tensor().unwrap().to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn levels_in_one_artifact() {
    for compiler in compilers() {
        let target = compiler.clone().with_cpu_levels(LEVELS).unwrap();
        let bytes = export_module(&module(), &target).unwrap().save().unwrap();
        assert_eq!(bytes, export_module(&module(), &target).unwrap().save().unwrap(), "deterministic");
        let exe = Arc::new(Executable::load(&bytes).unwrap());
        assert_eq!(exe.cpu_levels().collect::<Vec<_>>(), LEVELS);
        assert_eq!(exe.target.parse::<Target>().unwrap().cpu_levels(), LEVELS);
        assert_eq!(exe.objects.len(), 3);
        assert_eq!(exe.cpu_features().collect::<Vec<_>>(), ["sse", "sse2"], "those of the lowest level");
        // SAFETY: the artifact was compiled above.
        let link = |config| unsafe { Vm::linked_with_config(exe.clone(), config) };
        let best = link(VmConfig::default()).unwrap();
        assert_eq!(best.cpu_level(), present().last());
        check(&best);
        for level in present() {
            let vm = link(forced(level)).unwrap();
            assert_eq!(vm.cpu_level(), Some(level));
            check(&vm);
            let single = compile_module(&module(), &compiler.clone().with_cpu(level)).unwrap();
            assert_eq!(single.cpu_level(), None);
            assert_eq!(bits(&vm), bits(&single), "{compiler} {level}");
            let config = forced(level);
            let here = Compiled::new(module(), &target).unwrap().into_vm(config).unwrap();
            assert_eq!((here.cpu_level(), bits(&here)), (Some(level), bits(&vm)));
        }
        for level in LEVELS.into_iter().filter(|level| !present().any(|it| it == *level)) {
            assert!(matches!(link(forced(level)), Err(RuntimeError::CpuFeatures { .. })), "{level}");
        }
        let err = link(forced("x86-64-v2")).unwrap_err();
        assert!(matches!(&err, RuntimeError::CpuLevel { has, .. } if has == &LEVELS), "{err}");
        let compiled = Compiled::new(module(), &target).unwrap();
        assert!(matches!(compiled.emit(EmitKind::Object), Err(CodegenError::Target { .. })));
    }
    let err = Compiled::new(module(), &Target::c()).unwrap().into_vm(forced("x86-64")).unwrap_err();
    assert!(matches!(err, CodegenError::Runtime(RuntimeError::CpuLevel { .. })), "{err}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn damaged_levels_are_refused() {
    let target = Target::c().with_cpu_levels(&LEVELS[..2]).unwrap();
    let exe = export_module(&module(), &target).unwrap();
    let changed = |change: &dyn Fn(&mut Executable)| {
        let mut exe = exe.clone();
        change(&mut exe);
        let exe = Executable::load(&exe.save().unwrap()).unwrap();
        // SAFETY: the libraries were compiled above, or are no libraries.
        unsafe { Vm::linked_with_config(exe, forced("x86-64")) }.unwrap_err()
    };
    let list = |text: &'static str| {
        move |exe: &mut Executable| {
            exe.metadata.iter_mut().filter(|it| it.0 == "cpu.levels").for_each(|it| it.1 = text.into());
        }
    };
    type Damage<'a> = &'a dyn Fn(&mut Executable);
    let cases: [(Damage<'_>, &str); 7] = [
        (&|exe| drop(exe.objects.remove(0)), "no kernels for `x86-64`"),
        (&|exe| drop(exe.objects.remove(1)), "no kernels for `x86-64-v3`"),
        (&|exe| exe.objects.push(exe.objects[1].clone()), "kernels for `x86-64-v3` twice"),
        (&|exe| exe.metadata.retain(|it| it.0 != "cpu.levels"), "which is not listed"),
        (&list("x86-64-v3,x86-64"), "is not above"),
        (&list("x86-64,x86-64-v9"), "is no level"),
        (&list(""), "is no level"),
    ];
    for (change, expected) in cases {
        let err = changed(change);
        assert!(matches!(err, RuntimeError::CpuLevelList { .. }), "{err}");
        assert!(err.to_string().contains(expected), "{err}\nexpected: {expected}");
    }
    // A library that is cut, or that has other symbols.
    let err = changed(&|exe| exe.objects[0].bytes = exe.objects[0].bytes[..100].into());
    assert!(matches!(err, RuntimeError::Library { .. }), "{err}");
    let err = changed(&|exe| exe.kernels[0].name.push('x'));
    assert!(matches!(err, RuntimeError::NotFound { .. }), "{err}");
    let bytes = exe.save().unwrap();
    for len in (0..bytes.len()).step_by(97) {
        assert!(Executable::load(&bytes[..len]).is_err());
    }
}
