//! The corpus of tensor programs: legalised operators, with symbolic and constant extents.

use tvm::ir::{AttrValue, Attrs, InferContext, Legalize, LegalizeContext, Op, Span, Type, Var};
use tvm::relax::Arg;
use tvm::runtime::DataType;
use tvm::tir::{PrimExpr, PrimFunc};

const F: DataType = DataType::F32;
const I: DataType = DataType::I64;
const B: DataType = DataType::BOOL;

/// Extents: `N` and `M` stand for symbolic dimensions.
const N: i64 = -1;
const M: i64 = -2;

type Case = (&'static str, &'static [(DataType, &'static [i64])], &'static [(&'static str, Value)]);

/// Value of an attribute.
enum Value {
    Int(i64),
    Float(f64),
    Str(&'static str),
    DType(DataType),
    Ints(&'static [i64]),
    Bool(bool),
}

use Value::{Bool, DType, Float, Int, Ints, Str};

/// Operator, arguments, attributes.
const CASES: &[Case] = &[
    ("add", &[(F, &[N, 4]), (F, &[4])], &[]),
    ("divide", &[(I, &[N]), (I, &[N])], &[]),
    ("floor_divide", &[(I, &[N]), (I, &[N])], &[]),
    ("mod", &[(DataType::I32, &[N]), (DataType::I32, &[N])], &[]),
    ("right_shift", &[(DataType::U8, &[N]), (DataType::U8, &[N])], &[]),
    ("logical_and", &[(B, &[N]), (B, &[N])], &[]),
    ("less_equal", &[(F, &[N, M]), (F, &[N, M])], &[]),
    ("where", &[(B, &[N]), (F, &[N]), (F, &[N])], &[]),
    ("maximum", &[(F, &[N]), (F, &[1])], &[]),
    ("astype", &[(F, &[N])], &[("dtype", DType(DataType::F16))]),
    ("sign", &[(F, &[N])], &[]),
    ("square", &[(DataType::F16, &[N])], &[]),
    ("nn.gelu", &[(F, &[N, 8])], &[]),
    ("nn.leakyrelu", &[(F, &[N])], &[("alpha", Float(0.2))]),
    ("nn.selu", &[(DataType::F64, &[N])], &[]),
    ("isnan", &[(F, &[N])], &[]),
    ("power", &[(F, &[N]), (F, &[N])], &[]),
    ("erf", &[(F, &[N])], &[]),
    ("sum", &[(F, &[N, 8, M])], &[("axis", Ints(&[1])), ("keepdims", Bool(true))]),
    ("max", &[(F, &[N, 8])], &[]),
    ("prod", &[(DataType::I32, &[N, 8])], &[("axis", Ints(&[0]))]),
    ("mean", &[(F, &[N, 8])], &[("axis", Ints(&[-1]))]),
    ("argmax", &[(F, &[N, 8])], &[("axis", Int(1))]),
    ("matmul", &[(F, &[N, 16]), (F, &[16, M])], &[]),
    ("matmul", &[(F, &[2, N, 16]), (F, &[16, 4])], &[]),
    ("nn.softmax", &[(F, &[N, M])], &[("axis", Int(-1))]),
    ("nn.log_softmax", &[(F, &[N, 10])], &[]),
    (
        "nn.layer_norm",
        &[(F, &[N, 8]), (F, &[8]), (F, &[8])],
        &[("axes", Ints(&[-1])), ("epsilon", Float(1e-5))],
    ),
    (
        "nn.batch_norm",
        &[(F, &[N, 3, 8, 8]), (F, &[3]), (F, &[3]), (F, &[3]), (F, &[3])],
        &[("axis", Int(1)), ("epsilon", Float(1e-5))],
    ),
    (
        "nn.conv2d",
        &[(F, &[N, 3, 8, 8]), (F, &[4, 3, 3, 3])],
        &[("strides", Ints(&[2, 2])), ("padding", Ints(&[1, 1, 1, 1]))],
    ),
    ("nn.conv2d_transpose", &[(F, &[1, 2, 4, 4]), (F, &[2, 3, 3, 3])], &[("strides", Ints(&[2, 2]))]),
    ("nn.max_pool2d", &[(F, &[N, 3, 8, 8])], &[("pool_size", Ints(&[2, 2])), ("strides", Ints(&[2, 2]))]),
    (
        "nn.avg_pool2d",
        &[(F, &[N, 3, 8, 8])],
        &[("pool_size", Ints(&[3, 3])), ("padding", Ints(&[1, 1, 1, 1]))],
    ),
    ("nn.adaptive_avg_pool2d", &[(F, &[N, 3, 8, 8])], &[]),
    ("nn.pad", &[(F, &[N, 4])], &[("pad_width", Ints(&[0, 0, 1, 2])), ("pad_value", Float(-1.5))]),
    ("nn.pad", &[(F, &[4, 4])], &[("pad_width", Ints(&[1, 1, 1, 1])), ("pad_mode", Str("reflect"))]),
    ("permute_dims", &[(F, &[N, 4, M])], &[("axes", Ints(&[2, 0, 1]))]),
    ("concat", &[(F, &[N, 4]), (F, &[N, 2])], &[("axis", Int(1))]),
    ("flip", &[(F, &[N, 4])], &[("axis", Int(1))]),
    ("tile", &[(F, &[N, 2])], &[("repeats", Ints(&[2, 3]))]),
    ("repeat", &[(F, &[N, 2])], &[("repeats", Int(3)), ("axis", Int(1))]),
    ("flatten", &[(F, &[2, 3, 4])], &[]),
    ("squeeze", &[(F, &[N, 1, 4])], &[("axis", Ints(&[1]))]),
    ("take", &[(F, &[N, 4]), (I, &[M])], &[("axis", Int(0))]),
    ("gather_elements", &[(F, &[N, 4]), (I, &[N, 2])], &[("axis", Int(1))]),
    ("scatter_elements", &[(F, &[8]), (I, &[3]), (F, &[3])], &[("axis", Int(0))]),
    ("cumsum", &[(F, &[N, 4])], &[("axis", Int(1))]),
    ("zeros_like", &[(F, &[N])], &[]),
    ("nn.lrn", &[(F, &[N, 4, 2, 2])], &[("size", Int(3))]),
];

/// The programs, with unique names.
pub(crate) fn programs() -> Vec<PrimFunc> {
    let mut programs: Vec<PrimFunc> = Vec::new();
    for case in CASES {
        let func = legalized(case).unwrap_or_else(|err| panic!("{}: {err}", case.0));
        let count =
            CASES.iter().take_while(|other| !std::ptr::eq(*other, case)).filter(|it| it.0 == case.0).count();
        let base = case.0.replace('.', "_");
        let name = if count == 0 { base } else { format!("{base}_{count}") };
        programs.push(PrimFunc { name: format!("op_{name}").into(), ..func });
    }
    programs
}

fn legalized(case: &Case) -> Result<PrimFunc, tvm::ir::IrError> {
    let (op, vars, attrs) = call(case)?;
    let types: Vec<Type> = vars.iter().map(|var| var.ty().clone()).collect();
    let args: Vec<Arg> = vars.iter().map(Arg::from).collect();
    let (attrs, span) = (&attrs, &Span::none());
    let out = (op.infer)(&InferContext { op, args: &args, types: &types, attrs, span })?;
    let Some(Legalize::TensorProgram(lower)) = op.legalize else {
        return Err(tvm::ir::IrError::new("it has no tensor program", span));
    };
    let out = &out;
    let func = lower(&LegalizeContext { op, args: &args, types: &types, attrs, out, span })?;
    Ok(tvm::tir::transform::renew_defs(&func))
}

/// All calls: operator, variables for its arguments, attributes.
pub(crate) fn calls() -> impl Iterator<Item = (Op, Vec<Var>, Attrs)> {
    CASES.iter().map(|case| call(case).unwrap_or_else(|err| panic!("{}: {err}", case.0)))
}

fn call((name, args, attrs): &Case) -> Result<(Op, Vec<Var>, Attrs), tvm::ir::IrError> {
    let symbols = ["n", "m"].map(Var::index);
    let extent = |&extent: &i64| match extent {
        N => (&symbols[0]).into(),
        M => (&symbols[1]).into(),
        extent => PrimExpr::index(extent),
    };
    let ty = |shape: &[i64], dtype| Type::tensor(shape.iter().map(extent).collect::<Vec<_>>(), dtype);
    let vars = args.iter().map(|(dtype, shape)| Var::new("arg", ty(shape, *dtype))).collect();
    Ok((Op::get(name)?, vars, attrs.iter().map(|(name, value)| (name, attr(value))).collect()))
}

fn attr(value: &Value) -> AttrValue {
    match value {
        Int(it) => (*it).into(),
        Float(it) => (*it).into(),
        Str(it) => (*it).into(),
        DType(it) => (*it).into(),
        Ints(it) => (*it).into(),
        Bool(it) => (*it).into(),
    }
}
