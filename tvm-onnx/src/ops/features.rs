//! Operators of the domain `ai.onnx.ml` that prepare numbers, and linear models.

use rustc_hash::FxHashSet;
use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::product;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::{Row, With, numbers, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::strings::{decode_strings, encode_strings};
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("ArrayFeatureExtractor", 1, With(extract)),
    row("Binarizer", 1, With(binarize)),
    row("FeatureVectorizer", 1, With(vectorize)),
    row("Imputer", 1, With(impute)),
    row("LabelEncoder", 2, With(encode_labels)),
    row("LinearClassifier", 1, With(classify)),
    row("LinearRegressor", 1, With(regress)),
    row("Normalizer", 1, With(normalize)),
    row("OneHotEncoder", 1, With(one_hot)),
    row("SVMRegressor", 1, With(support_vectors)),
    row("Scaler", 1, With(scale)),
    row("ZipMap", 1, With(scores_by_label)),
];

type Results = Result<Vec<Value>, OnnxError>;

/// A constant of the given numbers.
pub(super) fn table(
    node: &mut Node<'_, '_>,
    values: &[f64],
    shape: &[i64],
    dtype: DataType,
) -> Result<Arg, OnnxError> {
    let tensor = Tensor::from_f64s(values, shape, dtype);
    let tensor = tensor.map_err(|_| node.malformed("the lengths of attributes do not fit together"))?;
    node.constant(tensor)
}

/// The attribute `name`, a list of floats; empty if it is not given.
fn floats(node: &Node<'_, '_>, name: &str) -> Result<Vec<f64>, OnnxError> {
    Ok(node.attr_floats(name)?.unwrap_or_default().iter().map(|&it| it.into()).collect())
}

/// The attribute `name`, a list of integers; empty if it is not given. Integers beyond 2^53 are not supported.
fn integers(node: &Node<'_, '_>, name: &str) -> Result<Vec<f64>, OnnxError> {
    let values = node.attr_ints(name)?.unwrap_or_default();
    if values.iter().any(|it| it.unsigned_abs() > 1 << 53) {
        return Err(node.unsupported(format!("large integers in attribute `{name}`")));
    }
    Ok(values.iter().map(|&it| it as f64).collect())
}

/// Input 0 in `f32`, with its rows and columns; a vector is one row.
pub(super) fn matrix(node: &mut Node<'_, '_>) -> Result<(Arg, PrimExpr, i64), OnnxError> {
    let x = node.arg(0)?;
    let x = node.cast(&x, DataType::F32)?;
    let shape = node.shape(&x)?;
    let (rows, columns) = match &shape[..] {
        [columns] => (PrimExpr::index(1), columns),
        [rows, columns] => (rows.clone(), columns),
        _ => return Err(node.malformed(format!("the input has one or two axes, got {}", shape.len()))),
    };
    let count = columns.as_int().ok_or_else(|| node.unsupported("an unknown number of features"))?;
    Ok((node.reshape(&x, &[rows.clone(), columns.clone()])?, rows, count))
}

/// `x` with an axis of extent 1 at the end.
fn with_axis(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg, OnnxError> {
    let mut shape = node.shape(x)?;
    shape.push(PrimExpr::index(1));
    node.reshape(x, &shape)
}

/// The places of the features are along the last axis; a vector gives one row.
fn extract(node: &mut Node<'_, '_>) -> Results {
    let (mut x, places) = (node.arg(0)?, node.arg(1)?);
    let mut shape = node.shape(&x)?;
    if shape.len() == 1 {
        shape.insert(0, PrimExpr::index(1));
        x = node.reshape(&x, &shape)?;
    }
    if shape.is_empty() {
        return Err(node.malformed("the input has no axis"));
    }
    let count = product(&node.shape(&places)?);
    let places = node.reshape(&places, &[count])?;
    one(node.take(&x, &places, shape.len() - 1))
}

fn binarize(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let dtype = node.dtype(&x)?;
    let above = node.with("greater", &x, node.float_or("threshold", 0.0)?)?;
    one(node.cast(&above, dtype))
}

/// The inputs beside each other, in `f32`.
fn vectorize(node: &mut Node<'_, '_>) -> Results {
    let sizes = node.attr_ints("inputdimensions")?.unwrap_or_default();
    let mut parts = Vec::new();
    for (i, x) in node.args()?.into_iter().enumerate() {
        let x = node.cast(&x, DataType::F32)?;
        let shape = node.shape(&x)?;
        let [rows, rest @ ..] = &shape[..] else { return Err(node.malformed("an input has no axis")) };
        let columns = product(rest);
        if columns.as_int().is_none() || columns.as_int() != sizes.get(i).copied() {
            return Err(node.malformed(format!("input {i} has not the number of features of its attribute")));
        }
        parts.push(node.reshape(&x, &[rows.clone(), columns])?);
    }
    if parts.is_empty() {
        return Err(node.malformed("there is no input"));
    }
    one(node.joined(parts, 1))
}

/// Replaces one value (NaN, say) by a number per feature.
fn impute(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let dtype = node.dtype(&x)?;
    let (values, replaced) = if dtype.is_float() {
        (floats(node, "imputed_value_floats")?, node.float_or("replaced_value_float", 0.0)?)
    } else {
        (integers(node, "imputed_value_int64s")?, node.int_or("replaced_value_int64", 0)? as f64)
    };
    if values.is_empty() {
        return Err(node.malformed("there are no values to impute"));
    }
    let values = table(node, &values, &[values.len() as i64], dtype)?;
    let found = if replaced.is_nan() { node.map("isnan", &x)? } else { node.with("equal", &x, replaced)? };
    one(node.choice(&found, &values, &x))
}

/// A list in an attribute.
enum List {
    Numbers(Vec<f64>, DataType),
    /// The bytes of strings.
    Strings(Tensor),
}

impl List {
    fn len(&self) -> usize {
        match self {
            List::Numbers(values, _) => values.len(),
            List::Strings(bytes) => usize::try_from(bytes.shape()[0]).unwrap_or(0),
        }
    }
}

/// The list in the attribute whose name ends in one of the kinds.
fn list(node: &Node<'_, '_>, what: &str) -> Result<List, OnnxError> {
    let (ints, reals) =
        (integers(node, &format!("{what}_int64s"))?, floats(node, &format!("{what}_floats"))?);
    let name = format!("{what}_tensor");
    if let Some(strings) = node.attr_text(&name)? {
        return match strings.shape() {
            [_, _] => Ok(List::Strings(strings)),
            _ => Err(node.malformed(format!("attribute `{name}` has one axis"))),
        };
    }
    let strings = node.attr_strings(&format!("{what}_strings"))?;
    if !strings.is_empty() {
        return Ok(List::Strings(encode_strings(&strings, &[strings.len() as i64])?));
    }
    if let Some(tensor) = node.attr_tensor(&name)? {
        return Ok(List::Numbers(numbers(&tensor), tensor.dtype()));
    }
    match (ints.is_empty(), reals.is_empty()) {
        (false, true) => Ok(List::Numbers(ints, DataType::I64)),
        (true, false) => Ok(List::Numbers(reals, DataType::F32)),
        _ => Err(node.malformed(format!("there are no {what}"))),
    }
}

/// Whether each element of input 0 equals each of the keys, which are along a new last axis.
fn equal_to(node: &mut Node<'_, '_>, keys: &List) -> Result<Arg, OnnxError> {
    match keys {
        List::Strings(keys) => {
            let distinct: FxHashSet<String> = decode_strings(keys)?.into_iter().collect();
            if distinct.len() as i64 != keys.shape()[0] {
                return Err(node.unsupported("keys that are not distinct"));
            }
            let x = node.strings(0)?;
            let mut shape = node.shape(&x)?;
            shape.insert(shape.len() - 1, PrimExpr::index(1));
            let x = node.reshape(&x, &shape)?;
            let keys = node.constant(keys.clone())?;
            node.same_strings(&x, &keys)
        }
        List::Numbers(keys, _) => {
            if keys.iter().enumerate().any(|(i, key)| key.is_nan() || keys[..i].contains(key)) {
                return Err(node.unsupported("keys that are not distinct numbers"));
            }
            let x = node.arg(0)?;
            let from = node.dtype(&x)?;
            let keys = table(node, keys, &[keys.len() as i64], from)?;
            let x = with_axis(node, &x)?;
            node.apply("equal", &x, &keys)
        }
    }
}

/// For each element of input 0, the number of the key that equals it, from 1 on; 0 if there is none.
fn places_of_keys(node: &mut Node<'_, '_>, keys: &List) -> Result<Arg, OnnxError> {
    let n = keys.len() as i64;
    let equal = equal_to(node, keys)?;
    let equal = node.cast(&equal, DataType::I64)?;
    let counted: Vec<f64> = (1..=n).map(|it| it as f64).collect();
    let counted = table(node, &counted, &[n], DataType::I64)?;
    let places = node.apply("multiply", &equal, &counted)?;
    let axis = node.rank(&places)? as i64 - 1;
    node.op("max", &[places], Attrs::new().with("axis", vec![axis]).with("keepdims", false))
}

/// The scores as they are: a matrix, where the standard has a sequence of maps from labels to scores. The columns are in the order
/// of the labels.
fn scores_by_label(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let labels = node.attr_ints("classlabels_int64s")?.map_or(0, <[i64]>::len);
    let labels = labels.max(node.attr_strings("classlabels_strings")?.len()) as i64;
    match node.shape(&x)?.last().and_then(PrimExpr::as_int) {
        Some(columns) if columns != labels => {
            Err(node.malformed(format!("there are {labels} labels for {columns} scores")))
        }
        _ => one(Ok(x)),
    }
}

/// The value of the key that equals the element; a default if there is none.
fn encode_labels(node: &mut Node<'_, '_>) -> Results {
    let (keys, values) = (list(node, "keys")?, list(node, "values")?);
    if keys.len() != values.len() {
        return Err(node.malformed(format!("there are {} keys and {} values", keys.len(), values.len())));
    }
    let places = places_of_keys(node, &keys)?;
    match values {
        List::Numbers(mut values, dtype) => {
            let default = match node.attr_tensor("default_tensor")? {
                Some(tensor) => {
                    super::number(&tensor).ok_or_else(|| node.malformed("the default is one number"))?
                }
                None if dtype.is_float() => node.float_or("default_float", -0.0)?,
                None => node.int_or("default_int64", -1)? as f64,
            };
            values.insert(0, default);
            let values = table(node, &values, &[values.len() as i64], dtype)?;
            one(node.take(&values, &places, 0))
        }
        List::Strings(values) => {
            let default = match node.attr_text("default_tensor")? {
                Some(text) => decode_strings(&text)?,
                None => vec![node.str_or("default_string", "_Unused")?.to_string()],
            };
            let values = node.text_table(&[default, decode_strings(&values)?].concat())?;
            Ok(vec![Value::Strings(node.take(&values, &places, 0)?)])
        }
    }
}

/// `x`, scores along axis 1, as the attribute `post_transform` says.
pub(super) fn transformed(node: &mut Node<'_, '_>, x: &Arg) -> Result<Arg, OnnxError> {
    match node.str_or("post_transform", "NONE")? {
        "NONE" => Ok(x.clone()),
        "LOGISTIC" => node.map("sigmoid", x),
        "SOFTMAX" => node.over("nn.softmax", x, 1),
        other => Err(node.unsupported(format!("post_transform {}", crate::names::show(other)))),
    }
}

/// The scores of a linear model with a row of coefficients for each of its `count` results.
fn linear(node: &mut Node<'_, '_>, x: &Arg, columns: i64, count: i64) -> Result<Arg, OnnxError> {
    let coefficients = floats(node, "coefficients")?;
    let weight = table(node, &coefficients, &[count, columns], DataType::F32)?;
    let weight = node.permuted(&weight, &[1, 0])?;
    let scores = node.apply("matmul", x, &weight)?;
    let intercepts = floats(node, "intercepts")?;
    if intercepts.is_empty() {
        return Ok(scores);
    }
    let intercepts = table(node, &intercepts, &[count], DataType::F32)?;
    node.apply("add", &scores, &intercepts)
}

fn regress(node: &mut Node<'_, '_>) -> Results {
    let (x, _, columns) = matrix(node)?;
    let count = node.int_or("targets", 1)?;
    let scores = linear(node, &x, columns, count)?;
    one(transformed(node, &scores))
}

/// The labels of classes.
pub(super) enum Labels {
    Ints(Vec<f64>),
    Strings(Vec<String>),
}

impl Labels {
    /// The labels in the attribute `ints`, or in the one for strings.
    pub(super) fn of(node: &Node<'_, '_>, ints: &str) -> Result<Labels, OnnxError> {
        let strings = node.attr_strings("classlabels_strings")?;
        match integers(node, ints)? {
            labels if !labels.is_empty() => Ok(Labels::Ints(labels)),
            _ if strings.is_empty() => Err(node.malformed("there are no labels")),
            _ => Ok(Labels::Strings(strings.into_iter().map(String::from).collect())),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Labels::Ints(labels) => labels.len(),
            Labels::Strings(labels) => labels.len(),
        }
    }

    /// The labels at `places`.
    fn at(&self, node: &mut Node<'_, '_>, places: &Arg) -> Result<Value, OnnxError> {
        match self {
            Labels::Ints(labels) => {
                let labels = table(node, labels, &[labels.len() as i64], DataType::I64)?;
                Ok(node.take(&labels, places, 0)?.into())
            }
            Labels::Strings(labels) => {
                let labels = node.text_table(labels)?;
                Ok(Value::Strings(node.take(&labels, places, 0)?))
            }
        }
    }
}

/// The label with the largest number in `ranked`, and the scores.
pub(super) fn largest(node: &mut Node<'_, '_>, labels: &Labels, ranked: &Arg, scores: &Arg) -> Results {
    let attrs = Attrs::new().with("axis", 1usize).with("keepdims", false);
    let place = node.op("argmax", std::slice::from_ref(ranked), attrs)?;
    let label = labels.at(node, &place)?;
    let scores = transformed(node, scores)?;
    Ok(vec![label, scores.into()])
}

/// The label by whether the only score is above `limit`, and scores of both classes.
pub(super) fn above(
    node: &mut Node<'_, '_>,
    labels: &Labels,
    score: &Arg,
    limit: f64,
    both: [Arg; 2],
) -> Results {
    let rows = node.extent(score, 0)?;
    let flat = node.reshape(score, &[rows])?;
    let second = node.with("greater", &flat, limit)?;
    let second = node.cast(&second, DataType::I64)?;
    let label = labels.at(node, &second)?;
    let scores = node.joined(both.into(), 1)?;
    Ok(vec![label, scores.into()])
}

/// The scores of both classes from the score of the second: without a transformation, the first is `1 - score` or `-score`.
pub(super) fn two_scores(
    node: &mut Node<'_, '_>,
    score: &Arg,
    sum_is_one: bool,
) -> Result<[Arg; 2], OnnxError> {
    let negative = node.map("negative", score)?;
    match node.str_or("post_transform", "NONE")? {
        "NONE" if sum_is_one => Ok([node.with("add", &negative, 1.0)?, score.clone()]),
        "NONE" => Ok([negative, score.clone()]),
        "LOGISTIC" => Ok([node.map("sigmoid", &negative)?, node.map("sigmoid", score)?]),
        other => Err(node.unsupported(format!("post_transform {} of one score", crate::names::show(other)))),
    }
}

/// A linear model with a score for each class, or with one score that is positive for the second of two classes.
fn classify(node: &mut Node<'_, '_>) -> Results {
    let (x, _, columns) = matrix(node)?;
    let labels = Labels::of(node, "classlabels_ints")?;
    let count = labels.len() as i64;
    let given = floats(node, "coefficients")?.len() as i64;
    if count != 2 || given != columns {
        let scores = linear(node, &x, columns, count)?;
        return largest(node, &labels, &scores, &scores);
    }
    let score = linear(node, &x, columns, 1)?;
    let both = two_scores(node, &score, true)?;
    above(node, &labels, &score, 0.0, both)
}

/// Divides each row by its maximum, the sum of its sizes, or its Euclidean length; rows where that is 0 stay.
fn normalize(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let x = node.cast(&x, DataType::F32)?;
    let keep = || Attrs::new().with("axis", vec![-1i64]).with("keepdims", true);
    let norm = match node.str_or("norm", "MAX")? {
        "MAX" => node.op("max", std::slice::from_ref(&x), keep())?,
        "L1" => {
            let size = node.map("abs", &x)?;
            node.op("sum", &[size], keep())?
        }
        "L2" => {
            let square = node.apply("multiply", &x, &x)?;
            let sum = node.op("sum", &[square], keep())?;
            node.map("sqrt", &sum)?
        }
        other => return Err(node.malformed(format!("attribute `norm` is `{}`", crate::names::show(other)))),
    };
    let empty = node.with("equal", &norm, 0.0)?;
    let unit = node.scalar(1.0, DataType::F32)?;
    let divisor = node.choice(&empty, &unit, &norm)?;
    one(node.apply("divide", &x, &divisor))
}

/// A 1 for the category that the element is, and 0 for the others.
fn one_hot(node: &mut Node<'_, '_>) -> Results {
    if !node.flag("zeros", true)? {
        return Err(node.unsupported("an error for unknown categories (zeros = 0)"));
    }
    let equal = equal_to(node, &list(node, "cats")?)?;
    one(node.cast(&equal, DataType::F32))
}

fn scale(node: &mut Node<'_, '_>) -> Results {
    let x = node.arg(0)?;
    let mut x = node.cast(&x, DataType::F32)?;
    for (name, op) in [("offset", "subtract"), ("scale", "multiply")] {
        let values = floats(node, name)?;
        if !values.is_empty() {
            let values = table(node, &values, &[values.len() as i64], DataType::F32)?;
            x = node.apply(op, &x, &values)?;
        }
    }
    Ok(vec![x.into()])
}

/// A weighted sum of kernels between the rows and the support vectors; without support vectors, a linear model.
fn support_vectors(node: &mut Node<'_, '_>) -> Results {
    let (x, rows, columns) = matrix(node)?;
    let (kernel, count) = (node.str_or("kernel_type", "LINEAR")?, node.int_or("n_supports", 0)?);
    let (weights, rho) = (floats(node, "coefficients")?, floats(node, "rho")?);
    if count < 0 || count > 0 && weights.len() as i64 != count {
        return Err(node.malformed(format!("there are {count} vectors and {} coefficients", weights.len())));
    }
    let n = if count == 0 { columns } else { count };
    let values = if count == 0 {
        x
    } else {
        let vectors = floats(node, "support_vectors")?;
        let vectors = table(node, &vectors, &[count, columns], DataType::F32)?;
        let params = floats(node, "kernel_params")?;
        let [gamma, shift, degree] = match params[..] {
            [gamma, shift, degree] => [gamma, shift, degree],
            [] => [0.0; 3],
            _ => return Err(node.malformed("attribute `kernel_params` is three numbers")),
        };
        kernels(node, &x, (rows, columns), &vectors, kernel, [gamma, shift, degree])?
    };
    let weights = table(node, &weights, &[n, 1], DataType::F32)?;
    let mut res = node.apply("matmul", &values, &weights)?;
    if let Some(rho) = rho.first() {
        res = node.with("add", &res, *rho)?;
    }
    if node.flag("one_class", false)? {
        let positive = node.with("greater", &res, 0.0)?;
        let (yes, no) = (node.scalar(1.0, DataType::F32)?, node.scalar(-1.0, DataType::F32)?);
        res = node.choice(&positive, &yes, &no)?;
    }
    one(transformed(node, &res))
}

/// The kernel between each row of `x` and each of the vectors.
fn kernels(
    node: &mut Node<'_, '_>,
    x: &Arg,
    (rows, columns): (PrimExpr, i64),
    vectors: &Arg,
    kernel: &str,
    [gamma, shift, degree]: [f64; 3],
) -> Result<Arg, OnnxError> {
    if kernel == "RBF" {
        let x = node.reshape(x, &[rows, PrimExpr::index(1), PrimExpr::index(columns)])?;
        let distance = node.apply("subtract", &x, vectors)?;
        let square = node.apply("multiply", &distance, &distance)?;
        let sum = node.op("sum", &[square], Attrs::new().with("axis", vec![2i64]))?;
        let scaled = node.with("multiply", &sum, -gamma)?;
        return node.map("exp", &scaled);
    }
    let turned = node.permuted(vectors, &[1, 0])?;
    let dot = node.apply("matmul", x, &turned)?;
    if kernel == "LINEAR" {
        return Ok(dot);
    }
    let line = node.with("multiply", &dot, gamma)?;
    let line = node.with("add", &line, shift)?;
    match kernel {
        "POLY" => node.with("power", &line, degree),
        "SIGMOID" => node.map("tanh", &line),
        _ => Err(node.malformed(format!("attribute `kernel_type` is `{}`", crate::names::show(kernel)))),
    }
}
