//! Extents that are not known to be equal: operators assume that they are, and the program checks it at run time.

use tvm_runtime::{DataType, Tensor, Value};

use crate::ir::{AttrValue, Attrs, IRModule, Op, Span, Type, Var};
use crate::relax::testing::*;
use crate::relax::{Arg, BlockBuilder};

/// Shapes of the arguments, one letter or digit per extent (after a letter for the element type), attributes, and whether
/// the arguments form one tuple.
struct Case {
    op: &'static str,
    shapes: &'static [&'static str],
    attrs: &'static [(&'static str, i64)],
    tuple: bool,
}

const fn case(op: &'static str, shapes: &'static [&'static str]) -> Case {
    Case { op, shapes, attrs: &[], tuple: false }
}

/// Every case is valid where all dimensions are 3, and invalid where `n` is 3 and `m` is 4.
const CASES: &[Case] = &[
    case("add", &["n", "m"]),
    case("add", &["n", "3"]),
    case("maximum", &["2n", "m"]),
    case("where", &["bn", "n", "m"]),
    case("matmul", &["2n", "m2"]),
    case("matmul", &["n", "m"]),
    case("matmul", &["n22", "m22"]),
    case("nn.conv2d", &["1n55", "2m33"]),
    Case { op: "nn.layer_norm", shapes: &["2n", "m", "m"], attrs: &[("axes", -1)], tuple: false },
    Case { op: "concat", shapes: &["2n", "2m"], attrs: &[("axis", 0)], tuple: true },
    Case { op: "stack", shapes: &["n", "m"], attrs: &[("axis", 0)], tuple: true },
    Case { op: "scatter_elements", shapes: &["5", "in", "m"], attrs: &[("axis", 0)], tuple: false },
];

/// The extents in `shape`, without the letter for the element type: `i` is i64, `b` is bool.
fn extents(shape: &str) -> impl Iterator<Item = char> {
    shape.trim_start_matches(['i', 'b']).chars()
}

fn module(case: &Case) -> IRModule {
    let dims = [("n", Var::index("n")), ("m", Var::index("m"))];
    let params: Vec<Var> = (case.shapes.iter())
        .map(|shape| {
            let dtype = if shape.starts_with('i') {
                DataType::I64
            } else if shape.starts_with('b') {
                DataType::BOOL
            } else {
                DataType::F32
            };
            let dim = |c: char| match dims.iter().find(|it| it.0.starts_with(c)) {
                Some((_, var)) => var.into(),
                None => crate::tir::PrimExpr::index(i64::from(c.to_digit(10).unwrap())),
            };
            let shape = extents(shape).map(dim).collect::<Vec<_>>();
            Var::new("x", Type::tensor(shape, dtype))
        })
        .collect();
    let attrs: Attrs = case.attrs.iter().map(|&(name, value)| (name, AttrValue::from(value))).collect();
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", &params, |b| {
            let args: Vec<Arg> = params.iter().map(Arg::from).collect();
            let args = if case.tuple { vec![Arg::Tuple(args.into())] } else { args };
            let y = b.emit_op("y", Op::get(case.op)?, args, attrs, &Span::none())?;
            Ok(b.emit_op("z", Op::get("negative")?, [y.into()], Attrs::new(), &Span::none())?.into())
        })
        .unwrap_or_else(|err| panic!("{}: {err}", case.op));
    builder.into_module()
}

fn arguments(case: &Case, module: &IRModule, n: i64, m: i64) -> Vec<Value> {
    let main = module.relax_func(module.global_var("main").unwrap()).unwrap();
    (main.params.iter().zip(case.shapes))
        .map(|(param, shape)| {
            let extent = |c: char| match c {
                'n' => n,
                'm' => m,
                digit => i64::from(digit.to_digit(10).unwrap()),
            };
            let shape: Vec<i64> = extents(shape).map(extent).collect();
            let dtype = param.ty().as_tensor().unwrap().dtype.unwrap();
            Tensor::zeros(&shape, dtype).unwrap().into()
        })
        .collect()
}

#[test]
fn extents_that_may_differ_are_compared_when_the_program_runs() {
    for case in CASES {
        let module = module(case);
        let vm = vm(&module);
        let run = |n, m| vm.invoke("main", arguments(case, &module, n, m));
        let name = format!("{} of {:?}", case.op, case.shapes);
        run(3, 3).unwrap_or_else(|err| panic!("{name}: {err}"));
        let wrong = if case.shapes.iter().any(|shape| shape.contains('m')) { run(3, 4) } else { run(4, 4) };
        let err = wrong.expect_err(&name).to_string();
        assert!(err.contains("match_cast"), "{name}: {err}");
    }
}
