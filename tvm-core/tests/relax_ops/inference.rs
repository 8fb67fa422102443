//! Type inference: unknown shapes, and error messages.

use tvm_core::ir::{
    ArgKind, AttrKind, AttrValue, Attrs, IRModule, Legalize, LegalizeContext, OpRegistry, Span, TensorType,
    Type, Var,
};
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{show_type, type_of_arg};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::support::{Rng, infer, ints, param};

fn of(ty: TensorType) -> Arg {
    Var::new("x", Type::Tensor(ty)).into()
}

#[test]
fn what_is_unknown_stays_unknown() {
    let n = PrimExpr::from(Var::index("n"));
    let m = PrimExpr::from(Var::index("m"));
    let known = |dims: Vec<PrimExpr>| of(TensorType::new(dims, DataType::F32));
    let cases: Vec<(Arg, Arg, &str)> = vec![
        (known(vec![n.clone(), 1.into()]), known(vec![m.clone()]), "Tensor<f32, n, m>"),
        (known(vec![&n + 1i64]), known(vec![PrimExpr::index(1) + &n]), "Tensor<f32, n + 1>"),
        // The extents are compared when the program runs.
        (known(vec![n.clone()]), known(vec![m.clone()]), "Tensor<f32, n>"),
        (of(TensorType::ranked(3, Some(DataType::F32))), known(vec![n.clone()]), "Tensor<f32, _, _, _>"),
        (of(TensorType::unknown(Some(DataType::F32))), known(vec![n.clone()]), "TensorDyn<f32>"),
        (of(TensorType::unknown(None)), known(vec![n]), "TensorDyn<_>"),
    ];
    for (a, b, want) in cases {
        assert_eq!(show_type(&infer("add", [a, b], Attrs::new()).unwrap()), want);
    }
}

#[test]
fn errors_name_the_operator_and_help() {
    let x = |dims: &[i64]| -> Arg {
        param(&dims.iter().map(|&dim| dim.into()).collect::<Vec<_>>(), DataType::F32).into()
    };
    let ints: Arg = param(&[3.into()], DataType::I64).into();
    let cases: Vec<(&str, Vec<Arg>, Attrs, &str)> = vec![
        (
            "add",
            vec![x(&[2, 3]), x(&[4])],
            Attrs::new(),
            "`add`: shapes [2, 3] and [4] do not broadcast: 3 against 4\n  help: extents must be equal, or one of them 1, counted from the last axis",
        ),
        ("add", vec![x(&[2])], Attrs::new(), "`add`: expected 2 arguments (x1, x2), got 1"),
        (
            "add",
            vec![x(&[3]), ints.clone()],
            Attrs::new(),
            "`add`: the arguments have different element types: Tensor<f32, 3> and Tensor<i64, 3>\n  help: convert one with `astype`",
        ),
        (
            "exp",
            vec![ints],
            Attrs::new(),
            "`exp`: expected float elements, got i64\n  help: convert the argument with `astype`",
        ),
        (
            "exp",
            vec![x(&[3])],
            Attrs::new().with("axis", 1i64),
            "`exp`: there is no attribute `axis`\n  help: it takes none",
        ),
        ("expp", vec![], Attrs::new(), "unknown operator `expp`\n  help: did you mean `exp`?"),
    ];
    for (op, args, attrs, want) in cases {
        let err = infer(op, args, attrs).expect_err(op);
        assert_eq!(err.to_string(), want);
    }
}

/// Result types over symbolic dimensions, in their simplest form.
#[test]
fn symbolic_shapes() {
    let [n, m] = ["n", "m"].map(|name| PrimExpr::from(Var::index(name)));
    let x = |dims: &[PrimExpr]| -> Arg { param(dims, DataType::F32).into() };
    let dims = |dims: &[PrimExpr]| Arg::Shape(dims.to_vec().into());
    let fixed = |values: &[i64]| Arg::Shape(values.iter().map(|&it| it.into()).collect());
    let one = || PrimExpr::index(1);
    let none = Attrs::new;
    let matrix = x(&[n.clone(), m.clone()]);
    let image = x(&[n.clone(), 3.into(), m.clone(), 32.into()]);
    let kernel = x(&[8.into(), 3.into(), 3.into(), 3.into()]);
    let same = none().with("padding", 1i64);
    let cases: Vec<(&str, Vec<Arg>, Attrs, &str)> = vec![
        ("matmul", vec![matrix.clone(), x(&[m.clone(), 4.into()])], none(), "Tensor<f32, n, 4>"),
        ("nn.conv2d", vec![image.clone(), kernel.clone()], same.clone(), "Tensor<f32, n, 8, m, 32>"),
        (
            "nn.conv2d",
            vec![image.clone(), kernel],
            same.with("strides", 2i64),
            "Tensor<f32, n, 8, (m - 1) / 2 + 1, 16>",
        ),
        (
            "nn.max_pool2d",
            vec![image],
            none().with("pool_size", 2i64).with("strides", 2i64),
            "Tensor<f32, n, 3, (m - 2) / 2 + 1, 16>",
        ),
        ("flatten", vec![matrix.clone()], none(), "Tensor<f32, n * m>"),
        (
            "reshape",
            vec![matrix.clone(), dims(&[m.clone(), PrimExpr::index(-1)])],
            none(),
            "Tensor<f32, m, n>",
        ),
        ("reshape", vec![x(&[n.clone(), 6.into()]), fixed(&[-1, 2])], none(), "Tensor<f32, n * 3, 2>"),
        ("permute_dims", vec![matrix.clone()], none(), "Tensor<f32, m, n>"),
        ("concat", vec![matrix.clone(), x(&[one(), m.clone()])], none(), "Tensor<f32, n + 1, m>"),
        ("concat", vec![x(&[&n + 1i64]), x(&[&n - 1i64])], none(), "Tensor<f32, n * 2>"),
        (
            "split",
            vec![matrix.clone()],
            none().with("indices_or_sections", ints(&[2])),
            "(Tensor<f32, 2, m>, Tensor<f32, n - 2, m>)",
        ),
        ("tile", vec![matrix.clone()], none().with("repeats", ints(&[2, 1])), "Tensor<f32, n * 2, m>"),
        (
            "strided_slice",
            vec![matrix.clone(), fixed(&[1]), fixed(&[i64::MAX]), fixed(&[1])],
            none(),
            "Tensor<f32, n - 1, m>",
        ),
        (
            "strided_slice",
            vec![matrix.clone(), fixed(&[0]), fixed(&[-2]), fixed(&[1])],
            none(),
            "Tensor<f32, n - 2, m>",
        ),
        (
            "strided_slice",
            vec![matrix.clone(), fixed(&[0]), fixed(&[5]), fixed(&[1])],
            none(),
            "Tensor<f32, max(min(5, n), 0), m>",
        ),
        ("sum", vec![matrix.clone()], none().with("axis", 0i64).with("keepdims", true), "Tensor<f32, 1, m>"),
        ("argmax", vec![matrix.clone()], none().with("axis", 0i64), "Tensor<i64, m>"),
        (
            "nn.pad",
            vec![matrix.clone()],
            none().with("pad_width", ints(&[1, 2, 0, 0])),
            "Tensor<f32, n + 3, m>",
        ),
        (
            "take",
            vec![matrix.clone(), param(std::slice::from_ref(&m), DataType::I64).into()],
            none().with("axis", 0i64),
            "Tensor<f32, m, m>",
        ),
        ("zeros", vec![dims(&[n.clone(), 2.into()])], none().with("dtype", DataType::I8), "Tensor<i8, n, 2>"),
        ("arange", [0.into(), n.clone(), one()].map(Arg::Prim).to_vec(), none(), "Tensor<i64, max(n, 0)>"),
        ("shape_of", vec![matrix], none(), "Shape[n, m]"),
    ];
    for (op, args, attrs, want) in cases {
        let ty = infer(op, args, attrs).unwrap_or_else(|err| panic!("{op}: {err}"));
        assert_eq!(show_type(&ty), want, "{op}");
    }
}

/// Every operator has a test of its results.
#[test]
fn every_operator_is_run() {
    let sources = [
        include_str!("attention.rs"),
        include_str!("binary.rs"),
        include_str!("conv.rs"),
        include_str!("create.rs"),
        include_str!("dense.rs"),
        include_str!("index.rs"),
        include_str!("layout.rs"),
        include_str!("linear_algebra.rs"),
        include_str!("manipulate.rs"),
        include_str!("norm.rs"),
        include_str!("pool.rs"),
        include_str!("statistical.rs"),
        include_str!("unary.rs"),
        include_str!("winograd.rs"),
    ];
    for op in OpRegistry::all().into_iter().filter(|op| op.legalize.is_some()) {
        let by_rank =
            ["1d", "2d", "3d"].iter().fold(op.name.to_string(), |name, it| name.replace(it, "{d}d"));
        let found = sources.iter().any(|text| {
            text.contains(&format!("\"{}\"", op.name)) || text.contains(&format!("\"{by_rank}\""))
        });
        assert!(found, "operator `{}` has no test", op.name);
    }
}

/// Whatever an operator is called with, inference and legalisation return a type, a program or an error.
#[test]
fn random_calls_do_not_panic() {
    let mut rng = Rng::new(1);
    let n = PrimExpr::from(Var::index("n"));
    let ops = OpRegistry::all();
    let mut accepted = 0;
    for _ in 0..20_000 {
        let op = ops[rng.int(0, ops.len() as i64) as usize];
        let extent = |rng: &mut Rng| match rng.int(0, 9) {
            0 => n.clone(),
            1 => &n + 1i64,
            other => PrimExpr::index(other - 2),
        };
        let any = |rng: &mut Rng| match rng.int(0, 12) {
            0 => i64::MAX,
            1 => i64::MIN,
            _ => rng.int(-3, 6),
        };
        let arg = |rng: &mut Rng, kind: ArgKind| -> Arg {
            let dims: Vec<PrimExpr> = (0..rng.int(0, 5)).map(|_| extent(rng)).collect();
            let dtypes = [DataType::F32, DataType::I64, DataType::BOOL, DataType::U8];
            let dtype = dtypes[rng.int(0, 6).min(3) as usize % 4];
            match (kind, rng.int(0, 12)) {
                (ArgKind::Shape, 1..) => {
                    Arg::Shape((0..rng.int(0, 4)).map(|_| PrimExpr::index(any(rng))).collect())
                }
                (ArgKind::Prim, 1..) => Arg::Prim(PrimExpr::index(any(rng))),
                (_, 0) => of(TensorType::unknown(None)),
                (_, 1) => of(TensorType::ranked(dims.len(), Some(dtype))),
                _ => of(TensorType::new(dims, dtype)),
            }
        };
        let count = op.args.len() as i64 + i64::from(rng.int(0, 12) == 0);
        let args: Vec<Arg> = (0..count as usize)
            .map(|i| arg(&mut rng, op.args.get(i).map_or(ArgKind::Any, |def| def.kind)))
            .collect();
        let mut attrs = Attrs::new();
        for def in op.attrs {
            let value: AttrValue = match def.kind {
                _ if rng.int(0, 3) == 0 => continue,
                AttrKind::Bool => (rng.int(0, 2) == 1).into(),
                AttrKind::Int => any(&mut rng).into(),
                AttrKind::Float => 0.5.into(),
                AttrKind::Str => "constant".into(),
                AttrKind::DType => DataType::F32.into(),
                AttrKind::Ints | AttrKind::Floats | AttrKind::Strs => {
                    (0..rng.int(0, 5)).map(|_| any(&mut rng)).collect::<Vec<i64>>().into()
                }
            };
            attrs.set(def.name, value);
        }
        if let Ok(ty) = infer(op.name, args.clone(), attrs.clone()) {
            let types: Vec<Type> = args.iter().map(|arg| type_of_arg(arg, &IRModule::new())).collect();
            let span = Span::none();
            if let Some(Legalize::TensorProgram(lower)) = op.legalize {
                let cx =
                    LegalizeContext { op, args: &args, types: &types, attrs: &attrs, out: &ty, span: &span };
                accepted += i64::from(lower(&cx).is_ok());
            }
        }
    }
    assert!(accepted > 1000, "only {accepted} calls were legal");
}
