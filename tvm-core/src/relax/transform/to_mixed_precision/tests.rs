//! What becomes narrow, and that results stay close.

use super::*;
use crate::ir::well_formed;
use crate::pass::PassContext;
use crate::relax::transform::random_graphs::{Graph, difference, random_graph, results};
use crate::target::{Machine, Target};
use crate::tir::PrimExpr;

fn converted(module: &IRModule, precision: Precision, bf16_dot: bool) -> IRModule {
    let machine = Machine { bf16_dot, ..Machine::baseline() };
    let context = PassContext::new().target(Target { machine, ..Target::llvm() });
    let context = context.configure(|config| config.precision = precision);
    let new = context.scope(|| to_mixed_precision().apply(module.clone())).unwrap();
    well_formed(&new).unwrap_or_else(|err| panic!("{err}"));
    new
}

#[test]
fn random_graphs_compute_nearly_the_same() {
    let mut narrow = 0;
    for seed in 100..130 {
        let (module, args) = random_graph(seed);
        let before = results(&module, &args);
        let same = converted(&module, Precision::Full, true);
        assert!(before == results(&same, &args), "seed {seed}");
        for (precision, bf16_dot, bound) in [
            (Precision::Bf16, true, 0.05),
            (Precision::Bf16, false, 0.05),
            (Precision::F16, true, 0.01),
            (Precision::Int8Weights, true, 0.05),
        ] {
            let new = converted(&module, precision, bf16_dot);
            narrow += usize::from(format!("{new:?}").contains("out_dtype"));
            for (before, after) in before.iter().zip(&results(&new, &args)) {
                let apart = difference(before, after);
                assert!(apart.is_some_and(|it| it <= bound), "seed {seed}, {precision}: {apart:?}");
            }
        }
    }
    assert!(narrow > 45, "{narrow} graphs have narrow products");
}

/// The operators of `main` in their order, with the type of their results.
fn operators(module: &IRModule) -> Vec<String> {
    let func = module.relax_func(module.global_var("main").unwrap()).unwrap();
    let calls = func.body.bindings().filter_map(|binding| match &binding.value {
        Expr::Call(call) => match call.callee {
            Callee::Op(op) => Some((op.name, binding.var.ty().as_tensor()?.dtype?)),
            _ => None,
        },
        _ => None,
    });
    calls.map(|(name, dtype)| format!("{name} {dtype}")).collect()
}

/// `relu(x w1)`, moved by `moving`, times `w2`.
fn chain(moving: &str, scale: f32) -> IRModule {
    let mut graph = Graph::new(3);
    let x = graph.param("x", [8, 16].map(PrimExpr::index).to_vec());
    let first = Arg::Const(graph.numbers(&[16, 16]));
    let y = graph.op("matmul", &[(&x).into(), first], Attrs::new()).unwrap();
    let y = graph.op("nn.relu", &[y.into()], Attrs::new()).unwrap();
    let y = graph.op(moving, &[y.into()], Attrs::new()).unwrap();
    let second = Tensor::from_vec(vec![scale; 8 * 16], &[8, 16]).unwrap();
    let extent = y.ty().as_tensor().unwrap().known_shape().unwrap()[1].as_int();
    let second = if extent == Some(8) { second } else { graph.numbers(&[16, 16]) };
    let y = graph.op("matmul", &[y.into(), Arg::Const(second)], Attrs::new()).unwrap();
    graph.function_of(x, y)
}

#[test]
fn values_are_rounded_once_where_they_are_computed() {
    let got = operators(&converted(&chain("permute_dims", 1.0), Precision::Bf16, true));
    let want = ["astype bf16", "matmul f32", "nn.relu f32", "astype bf16", "permute_dims bf16", "matmul f32"];
    assert_eq!(got, want);
    // What is computed between is computed in f32.
    let got = operators(&converted(&chain("negative", 1.0), Precision::Bf16, true));
    let want = ["astype bf16", "matmul f32", "nn.relu f32", "negative f32", "astype bf16", "matmul f32"];
    assert_eq!(got, want);
    // Without instructions for products of bf16, only the weights are narrow.
    let got = operators(&converted(&chain("permute_dims", 1.0), Precision::Bf16, false));
    assert_eq!(got, ["matmul f32", "nn.relu f32", "permute_dims f32", "matmul f32"]);
}

/// `x w` and `max(x w + b, 0)`, concatenated; `bias` is the shape of `b`.
fn joined(bias: &[i64]) -> IRModule {
    let mut graph = Graph::new(3);
    let x = graph.param("x", [8, 16].map(PrimExpr::index).to_vec());
    let weight = Arg::Const(graph.numbers(&[16, 16]));
    let first = graph.op("matmul", &[(&x).into(), weight], Attrs::new()).unwrap();
    let bias = Arg::Const(graph.numbers(bias));
    let second = graph.op("add", &[first.clone().into(), bias], Attrs::new()).unwrap();
    let second = graph.op("nn.relu", &[second.into()], Attrs::new()).unwrap();
    let fields = Arg::Tuple([first, second].iter().map(Arg::from).collect());
    let y = graph.op("concat", &[fields], Attrs::new().with("axis", 1i64)).unwrap();
    let y = graph.op("negative", &[y.into()], Attrs::new()).unwrap();
    graph.function_of(x, y)
}

#[test]
fn concatenated_results_of_products_are_rounded() {
    let rounded = ["matmul f32", "astype bf16", "astype f32", "add f32", "nn.relu f32", "astype bf16"];
    let exact = ["matmul f32", "add f32", "nn.relu f32"];
    for (bias, products, concat) in [
        (&[16][..], &rounded[..], &["concat bf16", "astype f32"][..]),
        (&[8, 1], &rounded, &["concat bf16", "astype f32"]),
        // As places in an image are.
        (&[8, 16], &exact, &["concat f32"]),
    ] {
        let got = operators(&converted(&joined(bias), Precision::Bf16, true));
        let want = [&["astype bf16"], products, concat, &["negative f32"]].concat();
        assert_eq!(got, want, "{bias:?}");
    }
}

#[test]
fn weights_that_do_not_fit_stay() {
    let new = converted(&chain("permute_dims", 1e6), Precision::F16, true);
    let text = format!("{new:?}");
    assert_eq!(text.matches("out_dtype").count(), 1, "{text}");
    let new = converted(&chain("permute_dims", 1e6), Precision::Bf16, true);
    assert_eq!(format!("{new:?}").matches("out_dtype").count(), 2);
}

/// `x w` with whole numbers, the largest of which is `most` in every group of terms: its scale is 1.
fn whole(turned: bool, [terms, columns]: [i64; 2], most: f32) -> (IRModule, Vec<f32>) {
    let mut graph = Graph::new(5);
    let x = graph.param("x", [PrimExpr::index(3), PrimExpr::index(terms)].to_vec());
    let of = |at: i64| if at % 5 == 0 { -most } else { (at * 7 % 13) as f32 - 6.0 };
    let at = |term: i64, column: i64| of(term + 3 * column);
    let shape = if turned { [columns, terms] } else { [terms, columns] };
    let elements =
        (0..shape[0]).flat_map(|i| (0..shape[1]).map(move |j| if turned { (j, i) } else { (i, j) }));
    let weight: Vec<f32> = elements.map(|(term, column)| at(term, column)).collect();
    let mut weight = Arg::Const(Tensor::from_vec(weight, &shape).unwrap());
    if turned {
        weight = graph.op("permute_dims", &[weight], Attrs::new()).unwrap().into();
    }
    let y = graph.op("matmul", &[(&x).into(), weight], Attrs::new()).unwrap();
    let input: Vec<f32> = (0..3 * terms).map(|it| (it % 7) as f32 - 3.0).collect();
    (graph.function_of(x, y), input)
}

#[test]
fn weights_of_integers_are_scaled() {
    let context = PassContext::new().target(Target::interpreter());
    for (precision, most, [terms, columns], op) in [
        (Precision::Int8Weights, 127.0, [40, 9], "multiply f32"),
        (Precision::Int4Weights, 7.0, [64, 19], "nn.dense_int4 f32"),
        // Groups of 32 do not divide the terms.
        (Precision::Int4Weights, 127.0, [40, 9], "multiply f32"),
    ] {
        for turned in [false, true] {
            let (module, input) = whole(turned, [terms, columns], most);
            let new = converted(&module, precision, true);
            assert!(operators(&new).iter().any(|it| it == op), "{precision}: {:?}", operators(&new));
            let x = Tensor::from_vec(input, &[3, terms]).unwrap();
            let run = |module: &IRModule| {
                let vm = context.clone().scope(|| crate::relax::testing::vm(module));
                crate::relax::testing::elements(&vm.invoke("main", &[x.clone().into()]).unwrap())
            };
            assert_eq!(run(&module), run(&new), "{precision}, {terms}×{columns}");
        }
    }
}
