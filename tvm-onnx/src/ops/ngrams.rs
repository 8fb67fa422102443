//! Counts of n-grams, weighted: `TfIdfVectorizer`.
//!
//! An n-gram occurs at every place of a row, and with every distance up to `max_skip_count + 1` between neighbouring tokens.

use std::ops::Range;

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("TfIdfVectorizer", 9, With(vectorize))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Tokens of n-grams, one n-gram after the other.
enum Tokens<'a> {
    Numbers(&'a [i64]),
    Strings(Vec<&'a str>),
}

impl<'a> Tokens<'a> {
    fn len(&self) -> usize {
        match self {
            Tokens::Numbers(numbers) => numbers.len(),
            Tokens::Strings(strings) => strings.len(),
        }
    }

    fn part(&self, range: Range<usize>) -> Option<Tokens<'a>> {
        match self {
            Tokens::Numbers(numbers) => numbers.get(range).map(Tokens::Numbers),
            Tokens::Strings(strings) => strings.get(range).map(|it| Tokens::Strings(it.to_vec())),
        }
    }

    /// Whether `x`, tokens with an axis of extent 1 for the n-grams, equals token `at` of each n-gram.
    fn same(&self, node: &mut Node<'_, '_>, x: &Arg, at: usize, length: usize) -> Result<Arg> {
        match self {
            Tokens::Numbers(numbers) => {
                let wanted: Vec<i64> = numbers.iter().skip(at).step_by(length).copied().collect();
                let count = wanted.len() as i64;
                let wanted = node.constant(Tensor::from_vec(wanted, &[count])?)?;
                node.apply("equal", x, &wanted)
            }
            Tokens::Strings(strings) => {
                let wanted: Vec<&str> = strings.iter().skip(at).step_by(length).copied().collect();
                let wanted = node.text_table(&wanted)?;
                node.same_strings(x, &wanted)
            }
        }
    }
}

/// The n-grams of one length.
struct Grams<'a> {
    length: usize,
    tokens: Tokens<'a>,
}

/// The n-grams of the attributes, shortest first.
fn grams<'m>(node: &Node<'_, 'm>) -> Result<Vec<Grams<'m>>> {
    let pool = match (node.attr_ints("pool_int64s")?, node.attr_strings("pool_strings")?) {
        (Some(numbers), strings) if strings.is_empty() => Tokens::Numbers(numbers),
        (None, strings) => Tokens::Strings(strings),
        (Some(_), _) => return Err(node.malformed("there are n-grams of numbers and of strings")),
    };
    let starts = node.attr_ints("ngram_counts")?;
    let starts = node.required("ngram_counts", starts)?;
    let mut all = Vec::new();
    for (i, &start) in starts.iter().enumerate() {
        let (length, end) = (i + 1, starts.get(i + 1).copied().unwrap_or(pool.len() as i64));
        let part = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let part = part.and_then(|(start, end)| pool.part(start..end)).filter(|it| it.len() % length == 0);
        let tokens = part.ok_or_else(|| {
            node.malformed(format!("the {length}-grams are {start}..{end} of a pool of {}", pool.len()))
        })?;
        all.push(Grams { length, tokens });
    }
    Ok(all)
}

fn attr_at_least(node: &Node<'_, '_>, name: &str, least: i64) -> Result<usize> {
    let value = node.attr_int(name)?;
    let value = node.required(name, value)?;
    let in_range = usize::try_from(value).ok().filter(|_| (least..1 << 16).contains(&value));
    in_range.ok_or_else(|| node.malformed(format!("attribute `{name}` is {value}")))
}

/// The number of occurrences of each n-gram in each row of `x` (row, position): (row, n-gram). It is a sum over places and
/// distances of products: whether all tokens of the n-gram are there.
fn counts(node: &mut Node<'_, '_>, x: &Arg, grams: &Grams<'_>, distances: usize) -> Result<Arg> {
    let [rows, columns, bytes @ ..] = &node.shape(x)?[..] else {
        return Err(node.malformed("the input has two axes"));
    };
    let (length, number) = (grams.length, PrimExpr::index((grams.tokens.len() / grams.length) as i64));
    // The distance has no meaning for a single token. Those that reach beyond a row find nothing.
    let distances = match length as i64 - 1 {
        0 => PrimExpr::index(1),
        steps => simplify_dim(&(columns.clone() - 1).floordiv(steps).max(0).min(distances as i64)),
    };
    if distances.is_const(0) {
        return node.full(&[rows.clone(), number], 0.0, DataType::F32);
    }
    let token = node.reshape(x, &[&[rows.clone(), columns.clone(), PrimExpr::index(1)], bytes].concat())?;
    let none = node.full(&[rows.clone(), PrimExpr::index(1), number], 0.0, DataType::F32)?;
    let first = node.count(columns, DataType::I64)?;
    let first = node.along(&first, 1, 2)?;
    let distance = node.count(&distances, DataType::I64)?;
    let distance = node.with("add", &distance, 1.0)?;
    let distance = node.along(&distance, 0, 2)?;
    let mut found: Option<Arg> = None;
    for at in 0..length {
        let same = grams.tokens.same(node, &token, at, length)?;
        let same = node.cast(&same, DataType::F32)?;
        // After the last token there is none.
        let same = node.joined(vec![same, none.clone()], 1)?;
        let places = node.with("multiply", &distance, at as f64)?;
        let places = node.apply("add", &first, &places)?;
        let places = node.with_dim("minimum", &places, columns.clone())?;
        let same = node.take(&same, &places, 1)?;
        found = Some(match found {
            Some(found) => node.apply("multiply", &found, &same)?,
            None => same,
        });
    }
    let Some(found) = found else { return Err(node.malformed("an n-gram has no token")) };
    node.op("sum", &[found], Attrs::new().with("axis", vec![1i64, 2]).with("keepdims", false))
}

fn vectorize(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let all = grams(node)?;
    let least = attr_at_least(node, "min_gram_length", 1)?;
    let most = attr_at_least(node, "max_gram_length", least as i64)?;
    let distances = attr_at_least(node, "max_skip_count", 0)? + 1;
    let places = node.attr_ints("ngram_indexes")?;
    let places = node.required("ngram_indexes", places)?;
    let number: usize = all.iter().map(|it| it.tokens.len() / it.length).sum();
    let width = places.iter().max().map_or(0, |it| it + 1);
    if places.len() != number || places.iter().any(|&it| it < 0) || width > 1 << 24 {
        let got = places.len();
        return Err(
            node.malformed(format!("attribute `ngram_indexes` has {got} places for {number} n-grams"))
        );
    }
    let (x, mut shape, bytes);
    if all.iter().any(|it| matches!(it.tokens, Tokens::Strings(_))) {
        x = node.strings(0)?;
        shape = node.shape(&x)?;
        bytes = shape.pop();
    } else {
        let numbers = node.arg(0)?;
        x = node.cast(&numbers, DataType::I64)?;
        (shape, bytes) = (node.shape(&x)?, None);
    }
    let x = match &shape[..] {
        [_, _] => x,
        [columns] => {
            let row = [PrimExpr::index(1), columns.clone()].into_iter().chain(bytes);
            node.reshape(&x, &row.collect::<Vec<_>>())?
        }
        _ => return Err(node.malformed(format!("the input has one or two axes, got {}", shape.len()))),
    };
    // The counts of the n-grams that are looked for, and the place of each in the result.
    let (mut found, mut found_at, mut first) = (Vec::new(), Vec::<i64>::new(), 0);
    for grams in all {
        let count = grams.tokens.len() / grams.length;
        if (least..=most).contains(&grams.length) && count > 0 {
            found_at.extend(&places[first..first + count]);
            found.push(counts(node, &x, &grams, distances)?);
        }
        first += count;
    }
    let rows = node.extent(&x, 0)?;
    // A place that no n-gram has gets the zeros after all counts.
    found.push(node.full(&[rows.clone(), PrimExpr::index(1)], 0.0, DataType::F32)?);
    let mut source = vec![found_at.len() as i64; width as usize];
    for (i, &place) in found_at.iter().enumerate() {
        if source[place as usize] != found_at.len() as i64 {
            return Err(node.unsupported(format!("two n-grams that share place {place}")));
        }
        source[place as usize] = i as i64;
    }
    let all = node.joined(found, 1)?;
    let source = node.constant(Tensor::from_vec(source, &[width])?)?;
    let mut res = node.take(&all, &source, 1)?;

    let mode = node.str_or("mode", "")?;
    if !["TF", "IDF", "TFIDF"].contains(&mode) {
        return Err(node.malformed(format!("attribute `mode` is `{mode}`")));
    }
    if mode == "IDF" {
        res = node.with("minimum", &res, 1.0)?;
    }
    if let (Some(weights), true) = (node.attr_floats("weights")?, mode != "TF") {
        if weights.len() != number {
            return Err(node.malformed(format!("there are {} weights for {number} n-grams", weights.len())));
        }
        let mut by_place = vec![0.0f32; width as usize];
        places.iter().zip(weights).for_each(|(&place, &weight)| by_place[place as usize] = weight);
        let by_place = node.constant(Tensor::from_vec(by_place, &[width])?)?;
        res = node.apply("multiply", &res, &by_place)?;
    }
    if shape.len() == 1 {
        res = node.reshape(&res, &[PrimExpr::index(width)])?;
    }
    one(Ok(res))
}
