//! Comparison of the executors on tables of programs.

use tvm_codegen::{build, compile};
use tvm_core::ir::{BaseFunc, IRModule, Var};
use tvm_core::pass::PassContext;
use tvm_core::target::Target;
use tvm_core::tir::IterKind::{Reduce, Spatial};
use tvm_core::tir::transform::renew_defs;
use tvm_core::tir::{ForKind, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::abi::kernel_symbol;
use tvm_runtime::{DataType, Device, Value};

use super::cuda::{self, copy};
use super::data::{Rng, assert_close, call, random};
use super::programs::{block, buffer, f32, func, loops};

/// The code generators for CPUs of this build, which must agree with the interpreter.
pub(crate) fn targets() -> Vec<Target> {
    let mut targets = vec![Target::c()];
    if cfg!(feature = "llvm") {
        targets.push(Target::llvm());
    }
    targets
}

/// A program, arguments to run it with, and the tolerance for floats.
pub(crate) struct Case {
    pub(crate) func: PrimFunc,
    pub(crate) args: Vec<Vec<Value>>,
    pub(crate) tolerance: f64,
}

/// Compiles the programs as one unit, runs them on every executor, and compares all tensors afterwards.
pub(crate) fn check(cases: &[Case]) {
    check_at(2, cases);
}

/// As [`check`], but only at this optimisation level: the C compiler takes long for hundreds of functions.
pub(crate) fn check_at(opt_level: u8, cases: &[Case]) {
    let want = check_on(opt_level, cases, &targets());
    check_cuda(cases, &want);
}

/// Runs the programs on the executors of CUDA kernels, and compares all tensors afterwards with those of `want`.
fn check_cuda(cases: &[Case], want: &[Results]) {
    let (module, names) = module_of(cases);
    let programs = cuda::lower(&module);
    // In the order of the cases.
    let of = |name: &String| {
        let symbol = kernel_symbol(name);
        programs.iter().find(|it| it.0 == symbol).cloned().unwrap_or_else(|| panic!("{name} is gone"))
    };
    let programs: Vec<_> = names.iter().map(of).collect();
    let calls: Vec<Results> = cases.iter().map(|case| case.args.clone()).collect();
    compare(&names, cases, "cuda, as threads", &cuda::interpret(&programs, &calls), want);
    if let Some(got) = cuda::emulate(&programs, &calls) {
        compare(&names, cases, "cuda, emulated", &got, want);
        if on_gpu() {
            compare(&names, cases, "cuda, on a GPU", &run_on(&Target::cuda(), &module, &names, cases), want);
        }
    }
}

/// True where kernels can be run on a GPU.
fn on_gpu() -> bool {
    cfg!(feature = "cuda") && Device::cuda(0).exists()
}

/// The arguments after each call of a program.
type Results = Vec<Vec<Value>>;

/// The programs as one module, and the name of each.
fn module_of(cases: &[Case]) -> (IRModule, Vec<String>) {
    let mut module = IRModule::new();
    let names = cases
        .iter()
        .map(|case| {
            let func = BaseFunc::Prim(renew_defs(&case.func).into());
            module.add(case.func.name.clone(), func).name().to_string()
        })
        .collect();
    (module, names)
}

/// As [`check_at`], on these executors; returns what the interpreter computes.
pub(crate) fn check_on(opt_level: u8, cases: &[Case], targets: &[Target]) -> Vec<Results> {
    let (module, names) = module_of(cases);
    let run = |target: &Target| {
        let context = PassContext { opt_level, ..PassContext::default() };
        context.scope(|| run_on(target, &module, &names, cases))
    };
    let want = run(&Target::interpreter());
    for target in targets {
        compare(&names, cases, &target.to_string(), &run(target), &want);
    }
    want
}

/// What the programs, of these names in `module`, compute on `target`.
fn run_on(target: &Target, module: &IRModule, names: &[String], cases: &[Case]) -> Vec<Results> {
    let built = build(module, target).unwrap_or_else(|err| panic!("{target}: {err}"));
    let run = |(name, case): (&String, &Case)| {
        let run = |args: &Vec<Value>| {
            let mut args: Vec<Value> = args.iter().map(copy).collect();
            let res = call(built.get(name).unwrap(), &mut args);
            res.unwrap_or_else(|err| panic!("{name} on {target}: {err}"));
            args
        };
        case.args.iter().map(run).collect()
    };
    names.iter().zip(cases).map(run).collect()
}

fn compare(names: &[String], cases: &[Case], executor: &str, got: &[Results], want: &[Results]) {
    for (((name, case), got), want) in names.iter().zip(cases).zip(got).zip(want) {
        for (k, (got, want)) in got.iter().zip(want).enumerate() {
            for (i, (got, want)) in got.iter().zip(want).enumerate() {
                if let (Value::Tensor(got), Value::Tensor(want)) = (got, want) {
                    let what = format!("{name} on {executor}, run {k}, argument {i}");
                    assert_close(got, want, case.tolerance, &what);
                }
            }
        }
    }
}

pub(crate) fn tensor(shape: &[i64], dtype: DataType, rng: &mut Rng) -> Value {
    Value::Tensor(random(shape, dtype, rng, false))
}

pub(crate) fn matmul(kinds: [ForKind; 3]) -> PrimFunc {
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let a = buffer("a", &[m.clone(), k.clone()], DataType::F32);
    let b = buffer("b", &[k.clone(), n.clone()], DataType::F32);
    let c = buffer("c", &[m.clone(), n.clone()], DataType::F32);
    let extents = [(kinds[0], m.clone()), (kinds[1], n.clone()), (kinds[2], k.clone())];
    let body = loops(&extents, |i| {
        let axes = [(Spatial, m, i[0].clone()), (Spatial, n, i[1].clone()), (Reduce, k, i[2].clone())];
        block("c", &axes, None, |v| {
            let at = [v[0].clone(), v[1].clone()];
            let product = a.load([v[0].clone(), v[2].clone()]) * b.load([v[2].clone(), v[1].clone()]);
            (Some(Stmt::store(&c, at.clone(), f32(0.0))), Stmt::store(&c, at.clone(), c.load(at) + product))
        })
    });
    func("matmul", vec![Param::In(a), Param::In(b), Param::Out(c)], vec![], body)
}

#[test]
fn matmul_of_symbolic_extents() {
    use ForKind::{Parallel, Serial, Unrolled, Vectorized};
    let mut rng = Rng(1);
    let cases = [
        [Serial; 3],
        [Parallel, Serial, Serial],
        [Serial, Vectorized, Serial],
        [Parallel, Vectorized, Serial],
        [Serial, Parallel, Unrolled],
        [Vectorized, Serial, Unrolled],
    ]
    .map(|kinds| {
        let shapes = [[1, 1, 1], [3, 5, 7], [16, 16, 16], [17, 33, 9], [0, 4, 4]];
        let args = shapes.map(|[m, n, k]| {
            [[m, k], [k, n], [m, n]].map(|shape| tensor(&shape, DataType::F32, &mut rng)).to_vec()
        });
        Case { func: matmul(kinds), args: args.to_vec(), tolerance: 1e-5 }
    });
    check(&cases);
}

#[test]
fn arguments_are_checked() {
    let mut rng = Rng(2);
    let func = matmul([ForKind::Serial; 3]);
    for target in targets() {
        let kernel = compile(&func, &target).unwrap();
        let mut args = [[4, 5], [6, 7], [4, 7]].map(|shape| tensor(&shape, DataType::F32, &mut rng));
        let err = call(&kernel, &mut args).unwrap_err().to_string();
        assert_eq!(err, "`matmul`: argument `b`: axis 0 is 6, expected 5 (= k)", "{target}");
        args[1] = tensor(&[5, 7], DataType::F64, &mut rng);
        let err = call(&kernel, &mut args).unwrap_err().to_string();
        assert_eq!(err, "`matmul`: argument `b`: element type is f64, expected f32", "{target}");
        args[1] = tensor(&[35], DataType::F32, &mut rng);
        let err = call(&kernel, &mut args).unwrap_err().to_string();
        assert_eq!(err, "`matmul`: argument `b`: rank is 1, expected 2", "{target}");
    }
}

#[test]
fn a_module_is_one_unit() {
    let mut module = IRModule::from_prim_func(matmul([ForKind::Serial; 3]));
    let mut other = matmul([ForKind::Parallel, ForKind::Serial, ForKind::Serial]);
    other.name = "exp".into();
    module.add("exp", BaseFunc::Prim(other.into()));
    for target in targets() {
        let built = build(&module, &target).unwrap();
        assert_eq!(
            built.iter().map(|kernel| kernel.name().to_string()).collect::<Vec<_>>(),
            ["exp", "matmul"]
        );
    }
}
