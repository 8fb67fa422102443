//! Large graphs: work grows no faster than the graph, and deep graphs do not overflow the stack.

use std::time::{Duration, Instant};

use tvm_runtime::Tensor;

use crate::ir::{Attrs, IRModule, Op, Span, Var};
use crate::pass::{PassContext, Sequential};
use crate::relax::testing::*;
use crate::relax::transform::{canonicalize_bindings, dead_code_elimination, eliminate_common_subexpr};
use crate::relax::vm::compile;
use crate::relax::{Arg, BlockBuilder};
use crate::tir::{PrimExpr, PrimFunc, walk_expr};

/// `main(x) = body(x)` over vectors of two elements.
fn module(body: impl FnOnce(&mut dyn FnMut(&str, &[&Var]) -> Var, &Var) -> Var) -> IRModule {
    let x = Var::new("x", fixed(&[2]));
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", std::slice::from_ref(&x), |b| {
            let mut call = |name: &str, args: &[&Var]| {
                let args: Vec<Arg> = args.iter().map(|&it| it.into()).collect();
                b.emit_op("v", Op::get(name).unwrap(), args, Attrs::new(), &Span::none()).unwrap()
            };
            Ok(body(&mut call, &x).into())
        })
        .unwrap_or_else(|err| panic!("{err}"));
    builder.into_module()
}

fn without_checks<R>(f: impl FnOnce() -> R) -> R {
    PassContext::new().without_instruments().scope(f)
}

fn nodes(func: &PrimFunc) -> usize {
    struct Count(usize);
    impl crate::tir::Visitor for Count {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.0 += 1;
            walk_expr(self, expr);
        }
    }
    let mut count = Count(0);
    crate::tir::Visitor::visit_stmt(&mut count, &func.body);
    count.0
}

/// Nodes of all kernels of the compiled module.
fn kernel_nodes(module: IRModule) -> usize {
    let (kernels, _) = without_checks(|| compile(module)).unwrap_or_else(|err| panic!("{err}"));
    kernels.functions().filter_map(|(gv, _)| kernels.prim_func(gv)).map(|func| nodes(func)).sum()
}

#[test]
fn values_used_twice_are_not_computed_exponentially_often() {
    type Step = fn(&mut dyn FnMut(&str, &[&Var]) -> Var, &Var) -> Var;
    let steps: [(&str, Step); 3] = [
        ("v + v", |call, v| call("add", &[v, v])),
        ("v + relu(v)", |call, v| {
            let r = call("nn.relu", &[v]);
            call("add", &[v, &r])
        }),
        ("v * v - relu(v)", |call, v| {
            let (r, s) = (call("nn.relu", &[v]), call("multiply", &[v, v]));
            call("subtract", &[&s, &r])
        }),
    ];
    for (name, step) in steps {
        let grown = |n: usize| module(|call, x| (0..n).fold(x.clone(), |v, _| step(call, &v)));
        let (small, large) = (kernel_nodes(grown(10)), kernel_nodes(grown(40)));
        assert!(large <= 5 * small, "{name}: {small} nodes for 10 steps, {large} for 40");
    }
    let vm = vm(&module(|call, x| (0..30).fold(x.clone(), |v, _| call("add", &[&v, &v]))));
    let got = vm.invoke("main", &[vector(&[1.0, -0.5]).into()]).unwrap();
    assert_eq!(elements(&got), [(1u64 << 30) as f32, -((1u64 << 29) as f32)]);
}

fn concat(parts: usize) -> IRModule {
    let x = Var::new("x", fixed(&[2]));
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", std::slice::from_ref(&x), |b| {
            let all = Arg::Tuple((0..parts).map(|_| Arg::from(&x)).collect());
            Ok(b.emit_op("y", Op::get("concat")?, [all], Attrs::new(), &Span::none())?.into())
        })
        .unwrap_or_else(|err| panic!("{err}"));
    builder.into_module()
}

#[test]
fn concat_of_many_tensors_is_flat() {
    let module = concat(1000);
    let (kernels, _) = without_checks(|| compile(module.clone())).unwrap();
    let kernel = kernels.functions().find_map(|(gv, _)| kernels.prim_func(gv)).unwrap();
    struct Choices<'a>(&'a mut usize);
    impl crate::tir::Visitor for Choices<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if let PrimExpr::Call(call) = expr {
                let conditions = call.args.first().map_or(0, |it| usize::from(it.dtype().is_bool()));
                *self.0 += conditions;
            }
            walk_expr(self, expr);
        }
    }
    let mut choices = 0;
    crate::tir::Visitor::visit_stmt(&mut Choices(&mut choices), &kernel.body);
    assert_eq!(choices, 999, "one choice between each two parts");
    let got = vm(&module).invoke("main", &[vector(&[1.0, 2.0]).into()]).unwrap();
    assert_eq!(elements(&got), [1.0, 2.0].repeat(1000));
}

/// Shortest of a few runs.
fn time(mut f: impl FnMut()) -> Duration {
    let mut run = || {
        let start = Instant::now();
        f();
        start.elapsed()
    };
    (0..2).map(|_| run()).min().unwrap()
}

#[test]
fn time_to_compile_grows_with_the_graph() {
    let chain = |n: usize| {
        module(|call, x| {
            (0..n).fold(x.clone(), |v, i| {
                if i % 7 == 0 { call("nn.softmax", &[&v]) } else { call("maximum", &[&v, x]) }
            })
        })
    };
    for (name, make, small) in [("chain", &chain as &dyn Fn(usize) -> IRModule, 200), ("concat", &concat, 50)]
    {
        let of = |n: usize| {
            let module = make(n);
            time(|| drop(without_checks(|| compile(module.clone())).unwrap()))
        };
        let (short, long) = (of(small), of(4 * small));
        println!("{name}: {small} nodes {short:?}, {} nodes {long:?}", 4 * small);
        assert!(
            long < 10 * short.max(Duration::from_millis(20)),
            "{name}: {short:?}, four times as much {long:?}"
        );
    }
}

#[test]
fn thousands_of_operators() {
    let chain = |n: usize| module(|call, x| (0..n).fold(x.clone(), |v, _| call("maximum", &[&v, x])));
    let module = chain(10_000);
    let start = Instant::now();
    let note = |what: &str| println!("{what}: {:?}", start.elapsed());
    crate::ir::well_formed(&module).unwrap();
    note("well-formed");
    let text = module.to_string();
    assert_eq!(text.matches("maximum(").count(), 10_000);
    note("printed");
    let json = crate::ir::json::to_json(&module).unwrap();
    note("to JSON");
    let back = crate::ir::json::from_json(&json).unwrap();
    note("from JSON");
    assert!(crate::ir::structural_equal(&module, &back).is_ok());
    drop(back);
    note("compared");
    let passes = vec![canonicalize_bindings(), dead_code_elimination(), eliminate_common_subexpr()];
    let passed = without_checks(|| Sequential::new("graph", passes).apply(module)).unwrap();
    drop(passed);
    note("rewritten");
    let (kernels, exe) = without_checks(|| compile(chain(1_000))).unwrap();
    note("compiled");
    let vm =
        tvm_runtime::vm::Vm::new(exe, &crate::relax::vm::interpreted_kernels(&kernels).unwrap()).unwrap();
    let x = Tensor::from_slice(&[1f32, -2.0], &[2]).unwrap();
    assert_eq!(elements(&vm.invoke("main", &[x.into()]).unwrap()), [1.0, -2.0]);
    note("run");
}
