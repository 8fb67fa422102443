//! Tests of fusion: which calls are grouped, and that the fused program computes the same.

use tvm_runtime::{DataType, Tensor, Value};

use crate::ir::{Attrs, BaseFunc, GlobalVar, IRModule, Type, Var};
use crate::pass::Sequential;
use crate::relax::testing::*;
use crate::relax::transform::random_graphs::Graph;
use crate::relax::transform::{annotate_tir_op_pattern, fuse_ops, fuse_tir, legalize_ops};
use crate::relax::{Arg, Binding, Callee, Expr};
use crate::tir::{PrimExpr, PrimFunc};

fn n(n: i64) -> PrimExpr {
    PrimExpr::index(n)
}

fn relu(name: &str, shape: Vec<PrimExpr>) -> PrimFunc {
    map(name, shape, |x| x.max(PrimExpr::float(0.0, DataType::F32)))
}

/// `a[rows, 3] @ b[3, 2]`
fn matmul(rows: &PrimExpr) -> PrimFunc {
    sum_over(
        "matmul",
        &[("a", vec![rows.clone(), n(3)]), ("b", vec![n(3), n(2)])],
        vec![rows.clone(), n(2)],
        n(3),
        |b, at| b[0].load([at[0].clone(), at[2].clone()]) * b[1].load([at[2].clone(), at[1].clone()]),
    )
}

fn bias(rows: &PrimExpr) -> PrimFunc {
    let shape = vec![rows.clone(), n(2)];
    compute("bias", &[("x", shape.clone()), ("b", vec![n(2)])], shape, |bufs, at| {
        bufs[0].load(at.to_vec()) + bufs[1].load([at[1].clone()])
    })
}

/// Two layers `relu(x @ w + b)`, where the second takes the first 3 columns of the first doubled; `rows` is symbolic.
fn two_layers() -> IRModule {
    let mut module = IRModule::new();
    let dim = || PrimExpr::from(&Var::index("rows"));
    let matmul = add_prim(&mut module, matmul(&dim()));
    let bias = add_prim(&mut module, bias(&dim()));
    let relu = add_prim(&mut module, relu("relu", vec![dim(), n(2)]));
    let widen_rows = dim();
    let widen =
        compute("widen", &[("x", vec![widen_rows.clone(), n(2)])], vec![widen_rows, n(3)], |bufs, at| {
            bufs[0].load([at[0].clone(), at[1].clone().floordiv(2i64)])
        });
    let widen = add_prim(&mut module, widen);
    let rows = dim();
    let (narrow, wide) = (f32s(&[rows.clone(), n(2)]), f32s(&[rows, n(3)]));
    let (x, w) = (Var::new("x", wide.clone()), Var::new("w", fixed(&[3, 2])));
    let b = Arg::Const(Tensor::from_slice(&[0.5f32, -4.0], &[2]).unwrap());
    let layer = |x: &Var, bindings: &mut Vec<Binding>| {
        let (m, first) =
            bind("m", narrow.clone(), call_tir(&matmul, &[x.into(), (&w).into()], narrow.clone()));
        let (a, second) = bind("a", narrow.clone(), call_tir(&bias, &[m.into(), b.clone()], narrow.clone()));
        let (r, third) = bind("r", narrow.clone(), call_tir(&relu, &[a.into()], narrow.clone()));
        bindings.extend([first, second, third]);
        r
    };
    let mut bindings = Vec::new();
    let hidden = layer(&x, &mut bindings);
    let (h, widening) = bind("h", wide.clone(), call_tir(&widen, &[hidden.into()], wide.clone()));
    bindings.push(widening);
    let out = layer(&h, &mut bindings);
    add(&mut module, function("main", &[&x, &w], bindings, out));
    module
}

fn fused(module: &IRModule) -> IRModule {
    let passes = Sequential::new("fuse", vec![annotate_tir_op_pattern(), fuse_ops(), fuse_tir()]);
    passes.apply(module.clone()).unwrap_or_else(|err| panic!("{err}"))
}

fn called(module: &IRModule, name: &str) -> Vec<String> {
    let Some(BaseFunc::Relax(func)) = module.lookup(name) else { panic!("no {name}") };
    let callee = |expr: &Expr| match expr {
        Expr::Call(call) => match &call.callee {
            Callee::Tir(gv) | Callee::Global(gv) => Some(gv.name().to_string()),
            _ => None,
        },
        _ => None,
    };
    func.body.bindings().filter_map(|binding| callee(&binding.value)).collect()
}

/// Number of blocks, the root aside.
fn num_blocks(func: &PrimFunc) -> usize {
    struct Count(usize);
    impl crate::tir::Visitor for Count {
        fn visit_block(&mut self, block: &crate::tir::Block) {
            self.0 += 1;
            crate::tir::walk_block(self, block);
        }
    }
    let mut count = Count(0);
    crate::tir::Visitor::visit_stmt(&mut count, &func.body);
    count.0 - 1
}

fn same_result(before: &IRModule, after: &IRModule, args: &[Value]) {
    let (want, got) = (run(before, "main", args).unwrap(), run(after, "main", args).unwrap());
    assert_eq!(elements(&got), elements(&want));
    assert!(!elements(&want).is_empty());
}

#[test]
fn layers_become_one_kernel_each_and_equal_ones_are_shared() {
    let before = two_layers();
    let after = fused(&before);
    assert_eq!(
        called(&after, "main"),
        ["fused_matmul_bias_relu", "widen", "fused_matmul_bias_relu"],
        "the injective program stays alone: it follows one heavy group and precedes another"
    );
    let prim = |gv: &GlobalVar| after.prim_func(gv).cloned();
    let func = prim(after.global_var("fused_matmul_bias_relu").unwrap()).unwrap();
    crate::tir::analysis::well_formed(&func).unwrap_or_else(|err| panic!("{err}"));
    assert_eq!(func.params.len(), 4);
    // The bias is added where the result is computed; the sum of products has memory of its own.
    assert_eq!(num_blocks(&func), 2);
    for rows in [1, 3] {
        let x = Tensor::from_vec((0..rows * 3).map(|i| i as f32 - 2.0).collect(), &[rows, 3]).unwrap();
        let w = Tensor::from_vec((0..6).map(|i| i as f32 * 0.5 - 1.0).collect(), &[3, 2]).unwrap();
        same_result(&before, &after, &[x.into(), w.into()]);
    }
}

#[test]
fn dimensions_inside_larger_extents_are_passed() {
    let mut module = IRModule::new();
    let dim = Var::index("n");
    let double = map("double", vec![(&dim).into()], |x| x * 2i64);
    let double = add_prim(&mut module, double);
    // `shift(x, k)` adds the scalar parameter to each element.
    let k = Var::prim("k", DataType::I64);
    let dim = Var::index("n");
    let shift = map("shift", vec![(&dim).into()], |x| x + PrimExpr::from(&k).cast(DataType::F32));
    let params = shift.params.iter().cloned().chain([crate::tir::Param::Scalar(k.clone())]).collect();
    let shift = add_prim(&mut module, PrimFunc { params, ..shift });
    let m = Var::index("m");
    let ty = f32s(&[PrimExpr::from(&m) * 2i64]);
    let (x, y) = (Var::new("x", ty.clone()), Var::new("y", f32s(&[(&m).into()])));
    let (a, first) = bind("a", ty.clone(), call_tir(&double, &[(&x).into()], ty.clone()));
    let arg = Arg::Prim(PrimExpr::from(&m) + 1i64);
    let (b, second) = bind("b", ty.clone(), call_tir(&shift, &[a.into(), arg], ty));
    add(&mut module, function("main", &[&x, &y], vec![first, second], b));
    let after = fused(&module);
    assert_eq!(called(&after, "main"), ["fused_double_shift"]);
    same_result(&module, &after, &[vector(&[1.0, 2.0, 3.0, 4.0]).into(), vector(&[0.0; 2]).into()]);
}

#[test]
fn what_is_used_outside_stays_outside() {
    let mut module = IRModule::new();
    let double = add_prim(&mut module, map("double", vec![n(2)], |x| x * 2i64));
    let sum = add_prim(&mut module, zip("add", vec![n(2)], |a, b| a + b));
    let ty = fixed(&[2]);
    let x = Var::new("x", ty.clone());
    let (a, first) = bind("a", ty.clone(), call_tir(&double, &[(&x).into()], ty.clone()));
    let (b, second) = bind("b", ty.clone(), call_tir(&double, &[(&a).into()], ty.clone()));
    let (c, third) = bind("c", ty.clone(), call_tir(&sum, &[(&a).into(), b.into()], ty.clone()));
    let extern_call = call(Callee::Packed("test.fuse_ops.first".into()), &[(&c).into()]);
    let (d, fourth) = bind("d", Type::Object, extern_call);
    let ret = Arg::Tuple(std::sync::Arc::new([c.into(), d.into()]));
    let main = function("main", &[&x], vec![first, second, third, fourth], ret);
    add(&mut module, crate::relax::Function { pure: false, ..main });
    assert_eq!(called(&fused(&module), "main"), ["fused_double_double_add"], "a diamond is one group");

    let mut module = module;
    let func = module.lookup("main").cloned().unwrap();
    if let BaseFunc::Relax(func) = func {
        let mut func = (*func).clone();
        func.body.ret = Arg::Var(a);
        let gv = module.global_var("main").unwrap().clone();
        module.update(gv, BaseFunc::Relax(func.into()));
    }
    assert_eq!(called(&fused(&module), "main"), ["double", "fused_double_add"], "its start is the result");
}

/// The types of the results of kernels, of a product that is rounded to bytes and then made floats, which `read` takes with another
/// product.
fn stored(read: impl Fn(&mut Graph, &Var, &Var) -> Var) -> Vec<Option<DataType>> {
    let mut graph = Graph::new(5);
    let x = graph.param("x", vec![n(5), n(5)]);
    let w = Tensor::from_vec((0..25).map(|i| (i % 7) as f32 - 3.0).collect(), &[5, 5]).unwrap();
    let mut op = |name, args: &[Arg]| graph.op(name, args, Attrs::new()).unwrap();
    let [a, b] = [0, 1].map(|_| op("matmul", &[(&x).into(), Arg::Const(w.clone())]));
    let rounded = op("round", &[a.into()]);
    let cast = |graph: &mut Graph, x: Var, dtype: DataType| {
        graph.op("astype", &[x.into()], Attrs::new().with("dtype", dtype)).unwrap()
    };
    let bytes = cast(&mut graph, rounded, DataType::I8);
    let wide = cast(&mut graph, bytes, DataType::F32);
    let half = Arg::Const(Tensor::from_slice(&[0.5f32], &[1]).unwrap());
    let scaled = graph.op("multiply", &[wide.into(), half], Attrs::new()).unwrap();
    let result = read(&mut graph, &scaled, &b);
    let before = legalize_ops().apply(graph.function_of(x, result)).unwrap();
    let after = fused(&before);
    let numbers = (0..25).map(|i| i as f32 * 0.37 - 4.0).collect();
    same_result(&before, &after, &[Tensor::from_vec(numbers, &[5, 5]).unwrap().into()]);
    let Some(BaseFunc::Relax(func)) = after.lookup("main") else { panic!("no main") };
    func.body.bindings().map(|it| it.var.ty().as_tensor()?.dtype).collect()
}

#[test]
fn narrow_values_are_stored_and_made_wide_where_they_are_read() {
    let op = |graph: &mut Graph, name: &str, args: [&Var; 2]| {
        graph.op(name, &args.map(Arg::from), Attrs::new()).unwrap()
    };
    let [bytes, floats] = [Some(DataType::I8), Some(DataType::F32)];
    assert_eq!(stored(|graph, x, other| op(graph, "add", [x, other])), [bytes, floats]);
    // A product uses each element many times.
    assert_eq!(stored(|graph, x, other| op(graph, "matmul", [x, other])), [floats, floats, floats]);
    // Each of two readers would make it wide.
    let twice = stored(|graph, x, other| {
        let read = op(graph, "matmul", [x, other]);
        let sum = op(graph, "add", [x, other]);
        op(graph, "matmul", [&read, &sum])
    });
    assert!(!twice.contains(&bytes), "{twice:?}");
}
