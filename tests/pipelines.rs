//! Pipelines of the user, in the place of those of the target: they run in every driver, and wrong ones are errors.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tvm::codegen::{CodegenError, Compiled, compile_module, export_module};
use tvm::ir::{BaseFunc, IRModule, Var};
use tvm::pass::{
    Pass, PassContext, PassError, PassKind, Pipelines, Sequential, dataflow_block_pass, function_pass,
    module_pass, prim_func_pass,
};
use tvm::prelude::*;
use tvm::relax::Function;
use tvm::runtime::vm::Vm;
use tvm::runtime::{Trust, Value};
use tvm::target::TargetKind;
use tvm::tir::{Mutator, Param, PrimExpr, PrimFunc, Stmt};

#[prim_func]
fn twice(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * 2.0;
    }
}

#[prim_func]
fn twice_rows(x: &Tensor<f32, n, 4>, y: &mut Tensor<f32, n, 4>) {
    for [i, j] in grid([n, 4]) {
        y[[i, j]] = x[[i, j]] * 2.0;
    }
}

#[relax::func]
fn main_of(x: Tensor<f32, n, 4>, w: Tensor<f32, 4, 4>) -> Tensor<f32, n, 4> {
    let add = |v: Tensor<f32, n, 4>| -> Tensor<f32, n, 4> { v + x };
    call_tir(twice_rows, (softmax(relu(add(x.matmul(w))).reshape([n, 4]), -1),))
}

/// Replaces the constant 2 by 3.
struct Third;

impl Mutator for Third {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::FloatImm(it) if it.value == 2.0 => Some(PrimExpr::float(3.0, it.dtype)),
            _ => self.walk_expr(expr),
        }
    }
}

fn third() -> Pass {
    prim_func_pass("test.Third", |func, _, _| {
        Ok(Third.mutate_stmt(&func.body).map(|body| PrimFunc { body, ..func.clone() }))
    })
}

/// A pass over graph functions that counts how often it runs.
fn counting(count: &Arc<AtomicUsize>) -> Pass {
    let count = count.clone();
    module_pass("test.Count", move |module, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(module)
    })
}

fn targets() -> Vec<Target> {
    let llvm = cfg!(feature = "llvm").then(Target::llvm);
    [Target::interpreter(), Target::c()].into_iter().chain(llvm).collect()
}

fn pipelines() -> Pipelines {
    Pipelines::for_target(&Target::host())
}

fn with_tir(tir: Pass) -> PassContext {
    PassContext::new().pipelines(Pipelines { tir, ..pipelines() })
}

fn with_graph(graph: Pass) -> PassContext {
    PassContext::new().pipelines(Pipelines { graph, ..pipelines() })
}

fn pass_error<T>(res: Result<T, CodegenError>) -> PassError {
    match res.map(drop) {
        Err(CodegenError::Pass(err)) => err,
        other => panic!("{other:?}"),
    }
}

fn compile(context: PassContext) -> Result<tvm::runtime::Kernel, CodegenError> {
    context.scope(|| tvm::codegen::compile(&twice::prim_func().unwrap(), &Target::c()))
}

fn inputs() -> [Value; 2] {
    [3i64, 4].map(|n| {
        let data = (0..n * 4).map(|i| i as f32 * 0.25 - 1.0).collect();
        Value::Tensor(Tensor::from_vec(data, &[n, 4]).unwrap())
    })
}

fn results(vm: &Vm) -> Result<Vec<f32>, RuntimeError> {
    vm.invoke("main_of", inputs())?.as_tensor().unwrap().to_vec()
}

#[test]
fn every_target_has_pipelines() {
    for kind in [TargetKind::Host, TargetKind::C, TargetKind::Llvm, TargetKind::Cuda, TargetKind::Interpreter]
    {
        let own = Pipelines::for_target(&Target::native(kind));
        for pipeline in [&own.graph, &own.tir] {
            assert!(pipeline.kind == PassKind::Sequential && pipeline.parts().len() > 10, "{kind:?}");
        }
        // The default pipelines are pipelines that a user may set.
        let context = PassContext::new().target(Target::native(kind)).pipelines(own);
        Pipelines::of(&context).unwrap();
    }
}

#[test]
fn a_pass_over_tensor_programs_runs_in_every_driver() {
    let tir = pipelines().tir.insert_before("VerifySource", third()).unwrap();
    for target in targets() {
        let mut y = [0f32; 2];
        let f = with_tir(tir.clone()).scope(|| twice::compile(&target)).unwrap();
        f.call(&[1f32, 2.0], &mut y).unwrap();
        assert_eq!(y, [3.0, 6.0], "{target}");
        let module = main_of::module().unwrap();
        let plain = results(&compile_module(&module, &target).unwrap()).unwrap();
        let vm = with_tir(tir.clone()).scope(|| compile_module(&module, &target)).unwrap();
        let want: Vec<f32> = plain.iter().map(|it| it * 1.5).collect();
        assert!(results(&vm).unwrap().iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5), "{target}");
    }
    let module = main_of::module().unwrap();
    let code = |context: PassContext| {
        let units = context.scope(|| Compiled::new(module.clone(), &Target::c()).unwrap().units().unwrap());
        units.iter().flat_map(|unit| &unit.kernels).map(|(_, func)| func.to_string()).collect::<String>()
    };
    assert!(code(PassContext::new()) != code(with_tir(tir.clone())));
    assert!(with_tir(tir).scope(|| export_module(&module, &Target::c())).is_ok());
}

#[test]
fn a_pass_over_graph_functions_runs_in_every_driver() {
    let count = Arc::new(AtomicUsize::new(0));
    let graph = pipelines().graph.insert_after("FuseTIR", counting(&count)).unwrap();
    let module = main_of::module().unwrap();
    for target in targets() {
        with_graph(graph.clone()).scope(|| compile_module(&module, &target)).unwrap();
    }
    assert_eq!(count.swap(0, Ordering::Relaxed), targets().len());
    with_graph(graph.clone()).scope(|| export_module(&module, &Target::c())).unwrap();
    with_graph(graph).scope(|| tvm::relax::vm::compile(module.clone())).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[test]
fn passes_are_found_by_name() {
    let tir = pipelines().tir;
    let err = tir.insert_after("CompactBufferAlocation", third()).unwrap_err();
    assert!(matches!(&err, PassError::NotInPipeline { pipeline, near: Some(near), .. }
        if pipeline == "LowerTIR" && near == "CompactBufferAllocation"));
    assert_eq!(
        err.to_string(),
        "`LowerTIR` has no pass `CompactBufferAlocation`; did you mean `CompactBufferAllocation`?"
    );
    let names = |pass: &Pass| pass.parts().iter().map(|it| it.info.name).collect::<Vec<_>>();
    assert!(!names(&tir.without("Simplify").unwrap()).contains(&"Simplify"));
    let graph = pipelines().graph;
    let twice =
        graph.insert_before("LambdaLift", third()).unwrap().insert_after("LambdaLift", third()).unwrap();
    assert_eq!(names(&twice)[2..5], ["test.Third", "LambdaLift", "test.Third"]);
    let fold = names(&graph).iter().position(|name| *name == "FoldConstant").unwrap();
    assert_eq!(names(&graph.replace("FoldConstant", third()).unwrap())[fold], "test.Third");
    for name in ["CheckBounds", "VerifySource", "VerifyLowered", "LowerIntrin"] {
        for res in [tir.without(name), tir.replace(name, third())] {
            assert!(matches!(res, Err(PassError::Mandatory(it)) if it == name));
        }
    }
    assert!(matches!(third().without("X"), Err(PassError::NotInPipeline { .. })));
}

#[test]
fn what_code_generation_relies_on_is_there() {
    let default = pipelines().tir;
    let all = default.parts();
    // Each pass left out alone, from a list of one's own.
    for i in 0..all.len() {
        let rest = all.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, pass)| pass.clone()).collect();
        let res = compile(with_tir(Sequential::new("Own", rest)));
        let name = all[i].info.name;
        match res {
            Err(CodegenError::Pass(PassError::Mandatory(it))) => assert_eq!(it, name),
            other => assert!(!all[i].is_mandatory() && other.is_ok(), "{name}: {other:?}"),
        }
    }
    // Each two neighbours in the other order.
    for i in 1..all.len() {
        let mut parts = all.to_vec();
        parts.swap(i - 1, i);
        let err = pass_error(compile(with_tir(Sequential::new("Own", parts))));
        assert!(
            matches!(&err, PassError::Order { pass, after, .. }
            if pass == all[i - 1].info.name && after == all[i].info.name),
            "{err}"
        );
    }
    for wrong in [Sequential::new("LowerTIR", vec![]), third(), pipelines().graph] {
        let err = pass_error(compile(with_tir(wrong)));
        assert!(matches!(&err, PassError::Mandatory(name) if name == "VerifySource"), "{err}");
    }
    let err = pass_error(compile(with_graph(default)));
    assert!(matches!(&err, PassError::Mandatory(name) if name == "ZeroOutputs"), "{err}");
}

#[test]
fn a_pass_among_those_that_make_kernels_safe_needs_a_promise() {
    let default = pipelines().tir;
    let err = pass_error(compile(with_tir(default.insert_before("Simplify", third()).unwrap())));
    assert_eq!(
        err.to_string(),
        "`LowerTIR` has the pass `test.Third` after `LowerOpaqueBlock`, which vouches for the programs from there on\n  \
         help: put it before `VerifySource`, or vouch for it in `PassConfig::trust` (`Trust::unchecked_passes`), which is unsafe"
    );
    // A pass with the name of a mandatory one is not that.
    let fake = prim_func_pass("CheckBounds", |_, _, _| Ok(None));
    let parts = default.parts().iter();
    let parts = parts.map(|it| if it.info.name == "CheckBounds" { fake.clone() } else { it.clone() });
    let err = pass_error(compile(with_tir(Sequential::new("Own", parts.collect()))));
    assert!(matches!(&err, PassError::Unvouched { pass, .. } if pass == "CheckBounds"), "{err}");
    // Neither is one that makes another pass run before itself.
    let parts = default.parts().iter().map(|it| it.clone().requires(&["test.Other"])).collect();
    let err = pass_error(compile(with_tir(Sequential::new("Own", parts))));
    assert!(matches!(&err, PassError::Mandatory(name) if name == "VerifySource"), "{err}");

    let tir = default.insert_after("MakePackedAPI", third()).unwrap();
    // SAFETY: the pass replaces a constant.
    let trust = unsafe { Trust::none().unchecked_passes() };
    let vouched = || with_tir(tir.clone()).configure(|config| config.trust = trust.clone());
    let mut y = [0f32];
    vouched().scope(|| twice::compile(&Target::c())).unwrap().call(&[2f32], &mut y).unwrap();
    assert_eq!(y, [6.0]);
}

#[test]
fn what_a_pass_returns_is_checked() {
    // An undefined variable.
    let breaks = prim_func_pass("test.Breaks", |func, _, _| {
        let out = func.outputs().next().unwrap();
        let body = Stmt::store(out, [Var::index("q").into()], PrimExpr::float(0.0, out.dtype));
        Ok(Some(PrimFunc { body, ..func.clone() }))
    });
    // Another function in its place.
    let reads = prim_func_pass("test.Reads", |func, _, _| {
        let params = func.params.iter().map(|param| match param {
            Param::In(buffer) => Param::Out(buffer.clone()),
            other => other.clone(),
        });
        Ok(Some(PrimFunc { params: params.collect(), ..func.clone() }))
    });
    let removes = module_pass("test.Removes", |_, _| Ok(IRModule::new()));
    let front = |pass| pipelines().tir.insert_before("VerifySource", pass).unwrap();
    for target in targets() {
        let compile = |pass| {
            let context = with_tir(front(pass)).without_instruments();
            let res = context.scope(|| tvm::codegen::compile(&twice::prim_func().unwrap(), &target));
            pass_error(res).to_string()
        };
        let err = compile(breaks.clone());
        assert!(err.contains("pass `test.Breaks` broke the module: W1: variable `q` is used"), "{err}");
        let err = compile(reads.clone());
        assert!(err.contains("has become `fn twice(x: &mut Tensor<f32, n>"), "{err}");
        assert!(compile(removes.clone()).contains("has become nothing"));
    }
    let unbound =
        function_pass("test.Unbound", |func, _, _| Ok(Some(Function { params: [].into(), ..func.clone() })));
    let graph = pipelines().graph.insert_before("LegalizeOps", unbound).unwrap();
    let context = with_graph(graph).without_instruments();
    let err =
        pass_error(context.scope(|| compile_module(&main_of::module().unwrap(), &Target::interpreter())));
    assert!(matches!(&err, PassError::Verify { pass, .. } if pass == "test.Unbound"), "{err}");
}

/// Each pass of the graph pipeline is left out alone, and each is moved to each other place as a pass of the user.
#[test]
fn graph_pipelines_compute_the_same_or_are_errors() {
    let module = main_of::module().unwrap();
    let run = |graph: Pass| {
        let context = with_graph(graph).without_instruments();
        context.scope(|| compile_module(&module, &Target::interpreter()))
    };
    let want = results(&run(pipelines().graph).unwrap()).unwrap();
    let same = |got: Vec<f32>| got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5);
    let default = pipelines().graph;
    let all = default.parts();
    let mut errors = Vec::new();
    for i in 0..all.len() {
        let mut rest = all.to_vec();
        let pass = rest.remove(i);
        match run(Sequential::new("Own", rest.clone())) {
            Ok(vm) => assert!(same(results(&vm).unwrap()), "without {pass:?}"),
            Err(CodegenError::Pass(_)) => errors.push(pass.info.name),
            Err(other) => panic!("without {pass:?}: {other:?}"),
        }
        // The same pass, made again, is a pass of the user.
        let own = tvm::pass::get_pass(pass.info.name).unwrap();
        let moves_kills = own.info.name == "KillAfterLastUse";
        for j in 0..=rest.len() {
            let mut moved = rest.clone();
            moved.insert(j, own.clone());
            match run(Sequential::new("Own", moved)) {
                // Memory that is given back too early is missed when the program runs.
                Ok(vm) => assert!(results(&vm).map_or(moves_kills, same), "{pass:?} at {j}"),
                Err(CodegenError::Pass(_)) => {}
                Err(other) => panic!("{pass:?} at {j}: {other:?}"),
            }
        }
    }
    assert_eq!(
        errors,
        ["LambdaLift", "LegalizeOps", "RewriteDataflowReshape", "ZeroOutputs", "CallTIRRewrite"]
    );
}

#[test]
fn passes_of_every_kind() {
    let blocks = dataflow_block_pass("test.Blocks", |_, _, _| Ok(None));
    let functions = function_pass("test.Functions", |_, _, _| Ok(None));
    let nested = Sequential::new("test.Nested", vec![blocks, functions]);
    let graph = pipelines().graph.insert_before("CanonicalizeBindings", nested).unwrap();
    let vm = with_graph(graph).scope(|| compile_module(&main_of::module().unwrap(), &Target::interpreter()));
    assert_eq!(results(&vm.unwrap()).unwrap().len(), 12);
    let kernels =
        |module: &IRModule| module.functions().filter(|(_, it)| matches!(it, BaseFunc::Prim(_))).count();
    let unfused = pipelines().graph.without("FuseOps").unwrap();
    let of = |context: PassContext| {
        context.scope(|| Compiled::new(main_of::module().unwrap(), &Target::c()).unwrap())
    };
    assert!(kernels(&of(with_graph(unfused)).programs) > kernels(&of(PassContext::new()).programs));
}
