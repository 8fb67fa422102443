//! Converters of operators, one file per family. Each file has a table with one row per operator and version of its
//! definition.
//!
//! TVM counterpart: the `OnnxOpConverter` classes of `onnx_frontend.py`.

mod activation;
mod arith;
mod arity;
mod attention;
mod bilinear;
mod control;
mod conv;
mod depthwise;
mod det;
mod einsum;
mod elementwise;
mod features;
mod flex_attention;
mod fused;
mod fused_attention;
mod fused_quant;
mod generate;
mod grid;
mod image;
pub(crate) mod index;
mod integer;
mod linear_attention;
mod loss;
mod matmul;
mod narrow;
mod ngrams;
mod norm;
mod optimizer;
mod patches;
mod pool;
mod quant;
mod random;
mod recurrent;
mod reduce;
mod regex;
mod resample;
mod resample_when_run;
mod scan;
mod select;
mod sequence;
mod shape;
mod signal;
mod source;
mod string_split;
mod strings;
mod trees;
mod window;

pub(crate) use integer::Quantized;

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use tvm_runtime::Tensor;

use crate::error::{OnnxError, UnsupportedItem, UnsupportedReport};
use crate::importer::is_standard;
use crate::names::show;
use crate::node::Node;
use crate::proto::NodeProto;
use crate::value::Value;

/// The newest version of the standard operator set whose definitions are supported.
pub(crate) const MAX_OPSET: i64 = 28;

/// Converter of an operator, valid from version `since` of the operator set until the next row's version.
pub(crate) struct Row {
    /// Name of the operator.
    pub(crate) name: &'static str,
    /// First version of the operator set with this definition.
    pub(crate) since: i64,
    /// The conversion, which returns the values of the node's outputs.
    pub(crate) convert: Convert,
}

/// How a node is converted to graph operators.
pub(crate) enum Convert {
    /// Calls the graph operator of this name on the only input.
    Unary(&'static str),
    /// Calls the graph operator of this name on two inputs, with broadcasting.
    Binary(&'static str),
    /// Folds the graph operator of this name over any number of inputs, with broadcasting.
    Variadic(&'static str),
    /// Calls this function.
    With(fn(&mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError>),
}

use Convert::{Binary, Unary, Variadic, With};

/// The tables of all families.
static TABLES: &[&[Row]] = &[
    activation::ROWS,
    attention::ROWS,
    bilinear::ROWS,
    control::ROWS,
    conv::ROWS,
    det::ROWS,
    einsum::ROWS,
    elementwise::ROWS,
    fused::WITHOUT_DOMAIN,
    generate::ROWS,
    grid::ROWS,
    image::ROWS,
    index::ROWS,
    linear_attention::ROWS,
    loss::ROWS,
    matmul::ROWS,
    ngrams::ROWS,
    norm::ROWS,
    patches::ROWS,
    pool::ROWS,
    quant::ROWS,
    random::ROWS,
    recurrent::ROWS,
    reduce::ROWS,
    regex::ROWS,
    scan::ROWS,
    select::ROWS,
    sequence::ROWS,
    shape::ROWS,
    signal::ROWS,
    source::ROWS,
    string_split::ROWS,
    strings::ROWS,
];

/// The domains beside the standard one, with their tables. Rows do not depend on the version of these domains.
static EXTENSIONS: &[(&str, &[&[Row]])] = &[
    ("ai.onnx.ml", &[features::ROWS, trees::ROWS]),
    ("ai.onnx.preview", &[flex_attention::ROWS]),
    ("ai.onnx.preview.training", &[optimizer::ROWS]),
    ("com.microsoft", &[fused::ROWS, fused_attention::ROWS, fused_quant::ROWS, recurrent::QUANTISED]),
];

/// The rows of the operators of a domain beside the standard one.
fn extension_rows(domain: &str) -> impl Iterator<Item = &'static Row> {
    let tables = EXTENSIONS.iter().find(|it| it.0 == domain).map_or(&[][..], |it| it.1);
    tables.iter().flat_map(|table| table.iter())
}

const fn row(name: &'static str, since: i64, convert: Convert) -> Row {
    Row { name, since, convert }
}

/// Rows by operator name, in order of version.
fn rows() -> &'static FxHashMap<&'static str, Vec<&'static Row>> {
    static ROWS: OnceLock<FxHashMap<&'static str, Vec<&'static Row>>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let mut rows: FxHashMap<&'static str, Vec<&'static Row>> = FxHashMap::default();
        for row in TABLES.iter().flat_map(|table| table.iter()) {
            rows.entry(row.name).or_default().push(row);
        }
        rows.values_mut().for_each(|rows| rows.sort_by_key(|row| row.since));
        rows
    })
}

/// The row for the operator of `node` in version `opset` of the operator set; if there is none, what is missing.
pub(crate) fn find(node: &NodeProto, opset: i64) -> Result<&'static Row, UnsupportedItem> {
    let name = show(&node.op_type);
    let missing = |what: String, help| UnsupportedItem { what, nodes: Vec::new(), help };
    if !is_standard(&node.domain) {
        let found = extension_rows(&node.domain).find(|row| row.name == node.op_type);
        return found.ok_or_else(|| {
            let names = extension_rows(&node.domain).map(|row| row.name);
            let near = tvm_core::support::nearest(&node.op_type, names);
            let help = near.map(|near| format!("there is an operator {near}"));
            missing(format!("operator {name} of domain {}", show(&node.domain)), help)
        });
    }
    let rows = rows().get(&*node.op_type).map_or(&[][..], |rows| rows);
    rows.iter()
        .rev()
        .find(|row| row.since <= opset)
        .copied()
        .ok_or_else(|| missing(format!("operator {name} of opset {opset}"), help(&node.op_type, opset)))
}

/// Help text for an operator without a row.
fn help(name: &str, opset: i64) -> Option<String> {
    if let Some(rows) = rows().get(name) {
        let since = rows.iter().map(|row| row.since).min()?;
        return Some(format!("it is supported from opset {since} on, the model uses opset {opset}"));
    }
    let near = tvm_core::support::nearest(name, rows().keys().copied())?;
    Some(format!("there is an operator {near}"))
}

/// The ONNX operators that can be imported, sorted by name, each with the first operator set of each definition.
pub fn supported_ops() -> Vec<(&'static str, Vec<i64>)> {
    let since = |rows: &Vec<&'static Row>| rows.iter().map(|row| row.since).collect();
    let mut ops: Vec<_> = rows().iter().map(|(&name, rows)| (name, since(rows))).collect();
    ops.sort_unstable();
    ops
}

/// The operators of other domains that can be imported, as domain and name, sorted.
pub fn supported_extension_ops() -> Vec<(&'static str, &'static str)> {
    let domains = EXTENSIONS.iter().map(|it| it.0);
    let mut ops: Vec<_> =
        domains.flat_map(|domain| extension_rows(domain).map(move |row| (domain, row.name))).collect();
    ops.sort_unstable();
    ops
}

/// Operators that only move elements, and so accept every element type.
const MOVES: &[&str] = &[
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Operators that compute with narrow elements.
const CONVERSIONS: &[&str] = &["Cast", "CastLike", "DequantizeLinear", "QuantizeLinear"];

/// Rejects narrow elements if the operator would interpret their bits as numbers. For operators that move elements,
/// sets the type of the outputs.
fn check_narrow(node: &mut Node<'_, '_>) -> Result<(), OnnxError> {
    let mut narrow = (0..node.num_inputs()).filter_map(|i| node.narrow(i));
    let Some(first) = narrow.next() else { return Ok(()) };
    if MOVES.contains(&node.op_type()) && narrow.all(|it| it == first) && node.narrow(0).is_some() {
        node.gives(first);
    } else if !CONVERSIONS.contains(&node.op_type()) {
        return Err(node.unsupported(format!("elements of type {}", first.name)));
    }
    Ok(())
}

/// Converts the node; returns the values of its outputs.
pub(crate) fn convert(node: &mut Node<'_, '_>) -> Result<Vec<Value>, OnnxError> {
    let row = find(node.proto(), node.opset)
        .map_err(|item| OnnxError::Unsupported(UnsupportedReport { items: vec![item] }))?;
    check_narrow(node)?;
    let standard = is_standard(&node.proto().domain);
    let most = if standard {
        arity::max_inputs(row.name, &row.convert)
    } else {
        arity::max_inputs_of_extension(row.name)
    };
    if let Some(most) = most
        && node.num_inputs() > most
    {
        return Err(
            node.malformed(format!("there are {} inputs, the operator takes {most}", node.num_inputs()))
        );
    }
    if standard && let Some(ints) = crate::fold::fold(node)? {
        return Ok(vec![ints.into()]);
    }
    if MOVES.contains(&row.name) && standard && (0..node.num_inputs()).any(|i| node.is_strings(i)) {
        return strings::moved(node, &row.convert);
    }
    if standard && row.name == "Equal" && node.is_strings(0) {
        return strings::equal(node);
    }
    apply(node, &row.convert)
}

fn apply(node: &mut Node<'_, '_>, convert: &Convert) -> Result<Vec<Value>, OnnxError> {
    match convert {
        Unary(op) => {
            let x = node.arg(0)?;
            one(node.call(op, &[x]))
        }
        Binary(op) => {
            let (a, b) = elementwise::operands(node)?;
            one(node.call(op, &[a, b]))
        }
        Variadic(op) => {
            let mut args = node.args()?.into_iter();
            let mut res = args.next().ok_or_else(|| node.malformed("there is no input"))?;
            for arg in args {
                res = node.call(op, &[res, arg])?;
            }
            one(Ok(res))
        }
        With(convert) => convert(node),
    }
}

/// The result of a node with one output.
fn one(res: Result<tvm_core::relax::Arg, OnnxError>) -> Result<Vec<Value>, OnnxError> {
    Ok(vec![res?.into()])
}

/// The only element of a constant, as a float; large integers are rounded. `None` if there is not exactly one number.
fn number(tensor: &Tensor) -> Option<f64> {
    if tensor.len() == 1 { numbers(tensor).pop() } else { None }
}

/// The elements of a constant, as floats; empty if they are not numbers.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_f64s().unwrap_or_default()
}
