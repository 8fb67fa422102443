//! The table of operators in the guide (`docs/guide/src/operators.md`), made of their definitions and of what they accept:
//! `UPDATE_EXPECT=1 cargo test --test operator_table` writes it. Also checks that the defaults that definitions state are true.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod samples;

use std::fmt::Write;

use samples::{literal, names, sample};
use tvm::ir::{
    ArgKind, AttrDef, AttrKind, AttrValue, Attrs, IRModule, Op, OpRegistry, Span, Type, structural_equal,
    well_formed,
};
use tvm::prelude::*;
use tvm::relax::BlockBuilder;
use tvm::relax::transform::legalize_ops;

/// The element types, as programs name them.
pub(crate) const DTYPES: [DataType; 13] = [
    DataType::F16,
    DataType::BF16,
    DataType::F32,
    DataType::F64,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
    DataType::BOOL,
];

/// The titles of the tables in `OpRegistry::BUILT_IN`; tables of one title stand together, those without one are not shown.
const TITLES: [&str; 23] = [
    "Arithmetic, comparisons and logic of two arguments",
    "Creation",
    "Creation",
    "Element types",
    "Devices",
    "Images",
    "Elements by index",
    "Layouts",
    "Matrix products",
    "Shapes and order of elements",
    "",
    "Activations",
    "Attention",
    "Convolutions",
    "Matrix products",
    "Norms",
    "Shapes and order of elements",
    "Pooling",
    "Convolutions",
    "Shapes as values",
    "Sorting",
    "Reductions and running sums",
    "Functions of one argument",
];

const HEAD: &str = "\
# Operators

`UPDATE_EXPECT=1 cargo test --test operator_table` writes this page from the definitions of the operators (`OpDef`), and a test
keeps it as they are.

An operator is called by its function (`softmax(x, axis = 1)`, also as a method: `x.softmax(axis = 1)`), or, where the first column shows
`call_op`, by its name. Arguments come before attributes; attributes are named, or follow in their order. \"Elements\" are the
element types of the data (of `one_hot`, of the two values) that type inference and lowering accept; indices may be of any integer
type, conditions are `bool`.
*Numbers* are floats (`f16`, `bf16`, `f32`, `f64`) and integers (`i8` to `i64`, `u8` to `u64`); *all* are these and `bool`. An argument
that is *any* is a tensor or a scalar, and the arguments of arithmetic broadcast as in NumPy.

A single integer stands for a list of integers. Axes may be negative: they count from the end. An attribute after which \"=\" stands may
be left out; what stands there then holds.

The operators of memory and of the virtual machine, which lowering makes, are not listed.
";

/// The module of one call, legalised, and the type of its result; `None` if the operator refuses it.
fn call(op: Op, dtype: DataType, attrs: &Attrs) -> Option<(IRModule, Type)> {
    let sample = sample(op, dtype);
    let mut builder = BlockBuilder::new(IRModule::new());
    let mut ty = None;
    let added = builder.add_function("main", &sample.params, |builder| {
        let y = builder.emit_op("y", op, sample.args.clone(), attrs.clone(), &Span::none())?;
        ty = Some(y.ty().clone());
        Ok(y.into())
    });
    added.ok()?;
    let module = legalize_ops().apply(builder.into_module()).ok()?;
    well_formed(&module).ok()?;
    Some((module, ty?))
}

/// What the operator accepts and returns, as the table shows it.
fn elements(op: Op) -> (String, String) {
    let results: Vec<(DataType, Type)> = DTYPES
        .into_iter()
        .filter_map(|dtype| Some((dtype, call(op, dtype, &sample(op, dtype).attrs)?.1)))
        .collect();
    assert!(!results.is_empty(), "{}: the sample is accepted for no element type", op.name);
    let accepted: Vec<DataType> = results.iter().map(|(dtype, _)| *dtype).collect();
    let set = |of: &dyn Fn(&DataType) -> bool| -> Vec<DataType> { DTYPES.into_iter().filter(of).collect() };
    let groups: [(&str, Vec<DataType>); 6] = [
        ("all", set(&|_| true)),
        ("numbers", set(&|it| !it.is_bool())),
        ("floats", set(&|it| it.is_float())),
        ("integers", set(&|it| it.is_integer())),
        ("integers, `bool`", set(&|it| !it.is_float())),
        ("floats, `bool`", set(&|it| !it.is_integer())),
    ];
    let group = groups.iter().find(|(_, group)| *group == accepted).map(|(name, _)| name.to_string());
    let list = || accepted.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    let fixed = sample(op, DataType::F32).fixed;
    let takes = if fixed { String::new() } else { group.unwrap_or_else(list) };
    // With each type, what the fields of the result have.
    let fields = |ty: &Type| -> Vec<Option<DataType>> {
        let fields = if let Type::Tuple(fields) = ty { &**fields } else { std::slice::from_ref(ty) };
        fields.iter().map(|ty| ty.as_tensor().and_then(|ty| ty.dtype)).collect()
    };
    let named = sample(op, DataType::F32).attrs.get("dtype").is_some();
    let count = fields(&results[0].1).len();
    let mut gives: Vec<String> = (0..count)
        .map(|i| {
            let first = fields(&results[0].1)[i];
            let mut all = results.iter().map(|(tried, ty)| (*tried, fields(ty)[i]));
            match first {
                _ if named => "`dtype`".into(),
                None => "a shape".into(),
                _ if !fixed && all.clone().all(|(tried, got)| got == Some(tried)) => "the same".into(),
                Some(dtype) if all.all(|(_, got)| got == first) => format!("`{dtype}`"),
                Some(_) => panic!("{}: the type of the result", op.name),
            }
        })
        .collect();
    gives.dedup();
    (takes, gives.join(", "))
}

/// The function of graph functions that calls `op`.
fn function(op: Op) -> Option<&'static str> {
    let source = include_str!("../../tvm-core/src/script/graph/ops.rs");
    let list = source.split("\nops! {").nth(1)?.split('}').next()?;
    let plain = op.name.strip_prefix("nn.").or(op.name.strip_prefix("image.")).unwrap_or(op.name);
    list.split_whitespace().find(|name| op.function.map_or(plain == *name, |it| it == *name))
}

fn kind(attr: &AttrDef) -> &'static str {
    match attr.kind {
        AttrKind::Bool => "flag",
        AttrKind::Int => "integer",
        AttrKind::Float => "float",
        AttrKind::Str => "string",
        AttrKind::DType => "element type",
        AttrKind::Ints => "integers",
        AttrKind::Floats => "floats",
        AttrKind::Strs => "strings",
    }
}

/// The default of `attr` as a value, if it is one.
fn default(attr: &AttrDef) -> Option<AttrValue> {
    let text = match attr.kind {
        AttrKind::Str => attr.default.strip_prefix('"')?.strip_suffix('"')?,
        _ => attr.default,
    };
    literal(attr.kind, text)
}

fn row(op: Op) -> String {
    let name = match function(op) {
        Some(function) if function == op.name => format!("`{function}`"),
        Some(function) => format!("`{function}` (`{}`)", op.name),
        None => format!("`call_op(\"{}\", ..)`", op.name),
    };
    let args = op.args.iter().map(|arg| {
        let kind = match arg.kind {
            ArgKind::Tensor => "",
            ArgKind::Optional => " (optional)",
            ArgKind::Variadic => " (any number)",
            ArgKind::Shape => " (shape)",
            ArgKind::Prim => " (scalar)",
            ArgKind::Any => " (any)",
        };
        format!("`{}`{kind}", arg.name)
    });
    let attrs = op.attrs.iter().map(|attr| {
        let default = match (attr.required, default(attr)) {
            (true, _) => String::new(),
            (false, Some(_)) => format!(" = `{}`", attr.default),
            (false, None) => format!(" = {}", attr.default),
        };
        format!("`{}` ({}){default}", attr.name, kind(attr))
    });
    let (args, attrs) = (args.collect::<Vec<_>>().join(", "), attrs.collect::<Vec<_>>().join("; "));
    let ((takes, gives), doc) = (elements(op), op.doc.replace('|', "\\|"));
    format!("| {name} | {args} | {attrs} | {takes} | {gives} | {doc} |\n")
}

#[test]
fn the_guide_shows_the_operators() {
    assert_eq!(OpRegistry::BUILT_IN.len(), TITLES.len(), "each table has a title here");
    let mut text = HEAD.to_string();
    for (i, title) in TITLES.iter().enumerate().filter(|(_, title)| !title.is_empty()) {
        if TITLES[..i].contains(title) {
            continue;
        }
        write!(text, "\n## {title}\n| function | arguments | attributes | elements | result | |\n|---|---|---|---|---|---|\n")
            .unwrap();
        for (table, _) in OpRegistry::BUILT_IN.iter().zip(TITLES).filter(|(_, other)| other == title) {
            let ops =
                table.iter().filter(|op| !op.name.starts_with("builtin.") && !op.name.starts_with("vm."));
            ops.for_each(|op| text += &row(Op::get(op.name).unwrap()));
        }
    }
    expect_test::expect_file!["../../docs/guide/src/operators.md"].assert_eq(&text);
}

#[test]
fn every_sample_is_of_an_operator() {
    for name in names() {
        assert!(Op::get(name).is_ok(), "{name}");
    }
}

/// A call with the default of an attribute is the call without it.
#[test]
fn defaults_are_what_holds() {
    let mut checked = 0;
    for op in OpRegistry::all() {
        for attr in op.attrs.iter().filter(|attr| !attr.required) {
            assert!(!attr.default.is_empty(), "{}: attribute `{}` states no default", op.name, attr.name);
            let Some(value) = default(attr) else { continue };
            let accepted = |dtype: &DataType| call(op, *dtype, &sample(op, *dtype).attrs).is_some();
            let dtype = [DataType::F32].into_iter().chain(DTYPES).find(accepted).unwrap();
            let given = sample(op, dtype).attrs.with(attr.name, value);
            let mut omitted = given.clone();
            omitted.remove(attr.name);
            let [given, omitted] = [given, omitted].map(|attrs| call(op, dtype, &attrs));
            let (Some((given, _)), Some((omitted, _))) = (given, omitted) else {
                panic!("{}: attribute `{}`: its default is refused", op.name, attr.name)
            };
            structural_equal(&given, &omitted).unwrap_or_else(|err| {
                panic!("{}: attribute `{}` is not `{}` by default: {err}", op.name, attr.name, attr.default)
            });
            checked += 1;
        }
    }
    assert!(checked > 80, "only {checked} defaults were checked");
}
