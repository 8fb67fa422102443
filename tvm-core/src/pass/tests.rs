//! Tests of how passes run: order, levels, requirements, instruments, errors.

use std::sync::{Arc, Mutex};

use super::*;
use crate::ir::graph::{Arg, Binding, BindingBlock, Body, Expr, Function};
use crate::ir::structural::sample::matmul;
use crate::ir::tensor_program::{PrimFunc, Stmt};
use crate::ir::{BaseFunc, IRModule, IrError, Span, structural_equal};

type Log = Arc<Mutex<Vec<String>>>;

fn module() -> IRModule {
    IRModule::from_prim_func(matmul())
}

/// A pass that writes its name to a log.
fn logs(name: &'static str, log: &Log) -> Pass {
    let log = log.clone();
    module_pass(name, move |module, _| {
        log.lock().unwrap().push(name.to_string());
        Ok(module)
    })
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[test]
fn a_pass_is_a_closure() {
    let pass = prim_func_pass("Mark", |func, _, _| {
        Ok(Some(PrimFunc { attrs: func.attrs.clone().with("marked", true), ..func.clone() }))
    });
    let out = pass.apply(module()).unwrap();
    let Some(BaseFunc::Prim(func)) = out.lookup("matmul") else { panic!("the function is kept") };
    assert_eq!(func.attrs.bool("marked"), Some(true));
    let mismatch = structural_equal(&module(), &out).unwrap_err();
    assert_eq!(mismatch.path, "functions.matmul.attrs");
}

#[test]
fn levels_requirements_and_disabled_passes() {
    let log = Log::default();
    let passes = || vec![logs("A", &log), logs("B", &log).opt_level(3), logs("C", &log)];
    let run = |ctx: PassContext| {
        Sequential::new("All", passes()).apply_in(module(), &ctx).unwrap();
        taken(&log).concat()
    };
    assert_eq!(run(PassContext::new()), "AC");
    assert_eq!(run(PassContext::new().opt_level(3)), "ABC");
    assert_eq!(run(PassContext::new().require("B")), "ABC");
    assert_eq!(run(PassContext::new().disable("A").require("A")), "C");
    assert_eq!(run(PassContext::new().disable("All")), "");
    PassContext::new().disable("C").scope(|| Sequential::new("All", passes()).apply(module())).unwrap();
    assert_eq!(taken(&log).concat(), "A", "the scope's context counts");
    assert!(PassContext::current().disabled.is_empty(), "the scope has ended");
}

#[test]
fn required_passes_come_from_the_registry() {
    let log = Log::default();
    register_pass(logs("test.Deep", &log)).unwrap();
    register_pass(logs("test.Base", &log).requires(&["test.Deep"])).unwrap();
    let top = || logs("test.Top", &log).requires(&["test.Base"]);
    Sequential::new("S", vec![top(), top()]).apply(module()).unwrap();
    assert_eq!(taken(&log), ["test.Deep", "test.Base", "test.Top", "test.Top"]);
    Sequential::new("S", vec![get_pass("test.Base").unwrap(), top()]).apply(module()).unwrap();
    assert_eq!(taken(&log), ["test.Deep", "test.Base", "test.Top"]);

    let err = register_pass(logs("test.Base", &log)).unwrap_err();
    assert_eq!(err.to_string(), "pass `test.Base` is registered already");
    let missing = logs("X", &log).requires(&["test.Bse"]);
    let err = Sequential::new("S", vec![missing]).apply(module()).unwrap_err();
    assert_eq!(err.to_string(), "unknown pass `test.Bse`; did you mean `test.Base`?");
}

#[test]
fn what_a_pass_requires_runs_whatever_its_level() {
    let log = Log::default();
    register_pass(logs("level.Deep", &log).opt_level(4)).unwrap();
    register_pass(logs("level.Base", &log).opt_level(3).requires(&["level.Deep"])).unwrap();
    let top = || logs("level.Top", &log).requires(&["level.Base"]);
    let run = |passes: Vec<Pass>, ctx: PassContext| {
        Sequential::new("S", passes).apply_in(module(), &ctx).unwrap();
        taken(&log)
    };
    let all = ["level.Deep", "level.Base", "level.Top"];
    assert_eq!(run(vec![top()], PassContext::new()), all);
    // A pass that was skipped because of its level has not run.
    assert_eq!(run(vec![get_pass("level.Base").unwrap(), top()], PassContext::new()), all);
    assert_eq!(run(vec![top()], PassContext::new().disable("level.Base")), ["level.Top"]);
}

#[test]
fn names_in_a_context_are_those_of_passes() {
    let log = Log::default();
    let run = |ctx: PassContext| logs("names.Mine", &log).apply_in(module(), &ctx);
    for ctx in [PassContext::new().disable("FuseOp"), PassContext::new().require("FuseOp")] {
        let err = run(ctx).unwrap_err();
        assert_eq!(err.to_string(), "unknown pass `FuseOp`; did you mean `FuseOps`?");
    }
    assert!(run(PassContext::new().disable("FuseOps").disable("names.Mine")).is_ok());
    assert!(taken(&log).is_empty());
}

/// The registry has every pass of the pipelines and every pass constructor in the sources, each under its own name.
#[test]
fn the_registry_has_every_pass() {
    let names = pass_names();
    for pipeline in [crate::pipeline::default_build(), crate::pipeline::lower_tir()] {
        assert!(pipeline.parts().len() > 10, "{pipeline:?} has no parts");
        for pass in pipeline.parts() {
            assert!(names.contains(&pass.info.name), "`{}` is not registered", pass.info.name);
        }
    }
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut constructors = 0;
    let mut open = ["relax/transform", "tir/transform", "dlight"].map(|it| src.join(it)).to_vec();
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else if entry.path().extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(entry.path()).unwrap();
                let is_constructor =
                    |line: &&str| line.starts_with("pub fn ") && line.ends_with("() -> Pass {");
                constructors += text.lines().filter(is_constructor).count();
            }
        }
    }
    let built_in = Pass::BUILT_IN.iter().map(|make| make().info.name);
    let distinct: std::collections::BTreeSet<&str> = built_in.collect();
    assert_eq!(distinct.len(), Pass::BUILT_IN.len(), "two built-in passes have one name");
    assert_eq!(constructors, distinct.len(), "constructors of passes in the sources, and in the registry");
}

#[test]
fn instruments_see_every_pass_in_order() {
    struct Watch(&'static str, Log);
    impl Watch {
        fn note(&self, what: &str, pass: &str) {
            self.1.lock().unwrap().push(format!("{}.{what} {pass}", self.0));
        }
    }
    impl PassInstrument for Watch {
        fn enter(&self, _: &PassContext) {
            self.note("enter", "");
        }
        fn exit(&self, _: &PassContext) {
            self.note("exit", "");
        }
        fn should_run(&self, pass: &Pass, _: &IRModule) -> bool {
            pass.info.name != "Skipped"
        }
        fn before(&self, pass: &Pass, _: &IRModule) -> Result<(), PassError> {
            self.note("before", pass.info.name);
            Ok(())
        }
        fn after(&self, pass: &Pass, _: &IRModule) -> Result<(), PassError> {
            self.note("after", pass.info.name);
            Ok(())
        }
    }
    let log = Log::default();
    let ctx = PassContext::new()
        .instrument(Arc::new(Watch("a", log.clone())))
        .instrument(Arc::new(Watch("b", log.clone())));
    let seq = Sequential::new("S", vec![logs("Skipped", &log), logs("P", &log)]);
    ctx.scope(|| seq.apply(module())).unwrap();
    let want = [
        "a.enter ",
        "b.enter ",
        "a.before S",
        "b.before S",
        "a.before P",
        "b.before P",
        "P",
        "a.after P",
        "b.after P",
        "a.after S",
        "b.after S",
        "b.exit ",
        "a.exit ",
    ];
    assert_eq!(taken(&log), want);
}

#[test]
fn times_and_texts_go_to_the_caller() {
    let log = Log::default();
    let timing = Arc::new(PassTimingInstrument::new());
    let sink = |log: &Log| {
        let log = log.clone();
        move |title: &str, text: &str| {
            assert!(text.contains("fn matmul"));
            log.lock().unwrap().push(title.to_string());
        }
    };
    let ctx = PassContext::new()
        .instrument(timing.clone())
        .instrument(Arc::new(PrintIR::before_all(sink(&log)).only(&["P"])))
        .instrument(Arc::new(PrintIR::dump(sink(&log))));
    let quiet = Log::default();
    let fails = module_pass("Fails", |_, _| Err(IrError::new("no", &Span::none())));
    let seq = Sequential::new("S", vec![logs("P", &quiet), logs("Q", &quiet)]);
    seq.apply_in(module(), &ctx).unwrap();
    fails.apply_in(module(), &ctx).unwrap_err();
    seq.apply_in(module(), &ctx).unwrap();
    let rows: Vec<_> = timing.timings().into_iter().map(|row| (row.name, row.depth)).take(4).collect();
    assert_eq!(rows, [("S", 0), ("P", 1), ("Q", 1), ("Fails", 0)]);
    assert!(timing.table().lines().nth(1).is_some_and(|line| line.starts_with("  P ")));
    let titles = taken(&log);
    assert_eq!(titles[..5], ["before P", "000_P.before", "001_P.after", "002_Q.before", "003_Q.after"]);
}

#[test]
fn errors_name_the_pass() {
    let fails = prim_func_pass("Fails", |_, _, _| Err(IrError::new("no such thing", &Span::none())));
    let err = Sequential::new("S", vec![fails]).apply(module()).unwrap_err();
    assert_eq!(err.to_string(), "pass `Fails`: no such thing");

    let breaks = prim_func_pass("Breaks", |func, _, _| {
        let out = func.outputs().next().unwrap();
        let body =
            Stmt::store(out, [crate::ir::Var::index("q").into(), 0.into()], out.load([0.into(), 0.into()]));
        Ok(Some(PrimFunc { body, ..func.clone() }))
    });
    let ctx = PassContext::new().without_instruments().instrument(Arc::new(VerifyEach));
    let err = breaks.apply_in(module(), &ctx).unwrap_err();
    assert!(matches!(&err, PassError::Verify { pass, .. } if pass == "Breaks"), "{err}");
    assert!(err.to_string().contains("W1: variable `q`"), "{err}");
    let broken = breaks.apply_in(module(), &PassContext::new().without_instruments()).unwrap();
    let err = logs("Innocent", &Log::default()).apply_in(broken, &ctx).unwrap_err();
    assert!(matches!(err, PassError::Ir { .. }), "{err}");
}

#[test]
fn dataflow_blocks_of_nested_bodies_are_reached() {
    let arg = |value: i64| Arg::Prim(value.into());
    let block = |value: Expr| {
        let var = crate::ir::Var::new("x", crate::ir::Type::Object);
        BindingBlock { dataflow: true, bindings: [Binding::new(var, value)].into() }
    };
    let body = |block: BindingBlock| Body { blocks: [block].into(), ret: arg(0) };
    let func = |body: Body| Function {
        name: "f".into(),
        type_params: [].into(),
        params: [].into(),
        body,
        ret: crate::ir::Type::Object,
        pure: true,
        attrs: Default::default(),
        span: Span::none(),
    };
    let inner = func(body(block(Expr::Arg(arg(1)))));
    let outer = func(body(block(Expr::Function(inner.into()))));
    let mut module = IRModule::new();
    module.add("f", BaseFunc::Relax(outer.into()));
    let count = Arc::new(Mutex::new(0));
    let seen = count.clone();
    let pass = dataflow_block_pass("Count", move |block, _, _| {
        *seen.lock().unwrap() += block.bindings.len();
        Ok(Some(BindingBlock { dataflow: false, ..block.clone() }))
    });
    let out = pass.apply_in(module, &PassContext::new().without_instruments()).unwrap();
    assert_eq!(*count.lock().unwrap(), 2);
    let Some(BaseFunc::Relax(func)) = out.lookup("f") else { panic!("the function is kept") };
    let Expr::Function(inner) = &func.body.blocks[0].bindings[0].value else { panic!("a local function") };
    assert!(!func.body.blocks[0].dataflow && !inner.body.blocks[0].dataflow);
}

#[test]
fn own_options_are_typed() {
    #[derive(Debug, PartialEq)]
    struct MyOptions(u32);
    let pass = module_pass("Mine", |module, ctx| match ctx.config.option::<MyOptions>() {
        Some(MyOptions(7)) => Ok(module),
        other => Err(IrError::new(format!("{other:?}"), &Span::none())),
    });
    let ctx = PassContext::new().configure(|config| config.set_option(MyOptions(7)));
    pass.apply_in(module(), &ctx).unwrap();
    assert!(pass.apply_in(module(), &PassContext::new()).is_err());
}
