//! Index maps: the indices of one space as expressions of the indices of another one, `|i, j| [j, i / 8, i % 8]`.
//!
//! Expressions are sums, differences, products, and quotients and remainders by positive constants; `/` rounds down, and
//! `%` is its remainder. A map that permutes, splits and fuses indices, or moves them by constants, is bijective, and has
//! an inverse. The text of a map is also its form in JSON.
//!
//! TVM counterpart: `tir::IndexMap`.

use std::fmt;
use std::iter::Peekable;
use std::str::{CharIndices, FromStr};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use tvm_runtime::DataType;

use crate::arith::{
    Analyzer, IterMapError, IterMapLevel, IterSum, detect_iter_map, inverse_affine_iter_map, same,
};
use crate::ir::{Var, VarId};
use crate::support::with_stack;
use crate::tir::{BinaryOp, PrimExpr, Range, binary, substitute_expr};

/// The most variables, operators and operands of a map; enough for any program.
const MAX_NODES: usize = 512;
const MAX_NAME: usize = 32;
const MAX_TEXT: usize = MAX_NODES * (MAX_NAME + 8);

/// A map from indices to indices.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IndexMap {
    initial: Arc<[Var]>,
    output: Arc<[PrimExpr]>,
}

/// Why there is no such index map, or it cannot be applied.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexMapError {
    /// A text is not an index map.
    #[error("`{text}` is no index map: {why}")]
    Text {
        /// The text; the first characters of a long one.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// Variables or expressions that an index map cannot have.
    #[error("an index map cannot have {0}")]
    Unsupported(String),
    /// Another number of indices is expected.
    #[error("the index map takes {expected} indices, got {got}")]
    Count {
        /// Number of indices that the map takes.
        expected: usize,
        /// Number of indices that it was applied to.
        got: usize,
    },
    /// The map is not bijective over the given indices.
    #[error("the index map `{map}` is not bijective here: {why}")]
    NotBijective {
        /// The map.
        map: String,
        /// What is wrong.
        why: String,
    },
}

impl IndexMap {
    /// The map from `initial` to `output`. Divisions in `output` round down.
    ///
    /// # Errors
    /// When a variable is not an `i64` of a name of its own, or an expression is not one of an index map.
    pub fn new(initial: Vec<Var>, output: Vec<PrimExpr>) -> Result<IndexMap, IndexMapError> {
        let unsupported = |what: String| Err(IndexMapError::Unsupported(what));
        for (i, var) in initial.iter().enumerate() {
            let name = var.name();
            if var.dtype() != DataType::I64 || !is_name(name) || name.len() > MAX_NAME {
                return unsupported(format!("the variable `{name}` of type {}", var.dtype()));
            }
            if initial[..i].iter().any(|it| it.name() == name) {
                return unsupported(format!("two variables `{name}`"));
            }
        }
        let mut budget = MAX_NODES.saturating_sub(initial.len() + output.len());
        let output = output.iter().map(|expr| checked(expr, &initial, &mut budget));
        let output = output.collect::<Result<Vec<_>, _>>()?;
        Ok(IndexMap { initial: initial.into(), output: output.into() })
    }

    /// The map that `f` computes of its arguments, which are named `i0`, `i1`, ….
    ///
    /// ```
    /// # use tvm_core::tir::{IndexMap, IndexMapError};
    /// let map = IndexMap::of(|[i, j]| [j.into(), i / 8, i % 8])?;
    /// assert_eq!(map.to_string(), "|i0, i1| [i1, i0 / 8, i0 % 8]");
    /// assert_eq!(map, "|i, j| [j, i / 8, i % 8]".parse()?);
    /// # Ok::<(), IndexMapError>(())
    /// ```
    ///
    /// # Errors
    /// When an expression is not one of an index map.
    pub fn of<const N: usize, const M: usize>(
        f: impl FnOnce([&Var; N]) -> [PrimExpr; M],
    ) -> Result<IndexMap, IndexMapError> {
        let vars: [Var; N] = std::array::from_fn(|i| Var::index(format!("i{i}")));
        let output = f(vars.each_ref()).to_vec();
        IndexMap::new(vars.to_vec(), output)
    }

    /// The variables of the indices that the map takes.
    pub fn initial(&self) -> &[Var] {
        &self.initial
    }

    /// The indices that it gives, as expressions of [`initial`](Self::initial).
    pub fn output(&self) -> &[PrimExpr] {
        &self.output
    }

    /// The map of `indices`.
    ///
    /// # Errors
    /// When the map takes another number of indices.
    pub fn map_indices(
        &self,
        indices: &[PrimExpr],
        analyzer: &Analyzer,
    ) -> Result<Vec<PrimExpr>, IndexMapError> {
        self.check_count(indices.len())?;
        let vars = self.initial.iter().map(Var::id).zip(indices.iter().cloned()).collect();
        Ok(self.output.iter().map(|expr| analyzer.simplify(&substitute_expr(expr, &vars))).collect())
    }

    /// The extents of the indices that the map gives, for all indices below `shape`.
    ///
    /// # Errors
    /// When the map is not known to be bijective over these indices, or does not start at 0.
    pub fn map_shape(&self, shape: &[PrimExpr], analyzer: &Analyzer) -> Result<Vec<PrimExpr>, IndexMapError> {
        let from_zero = |range: Range| match range.min.is_const(0) {
            true => Ok(range.extent),
            false => Err(self.not_bijective(format!("an index starts at {}", range.min))),
        };
        self.map_ranges(&ranges(shape), analyzer)?.into_iter().map(from_zero).collect()
    }

    /// The ranges of the indices that the map gives, for all indices in `ranges`.
    ///
    /// # Errors
    /// When the map is not known to be bijective from `ranges` to ranges.
    pub fn map_ranges(&self, ranges: &[Range], analyzer: &Analyzer) -> Result<Vec<Range>, IndexMapError> {
        self.detect(ranges, analyzer)?.into_iter().map(|sum| self.range_of(sum)).collect()
    }

    /// The map from the indices that this map gives back to those that it takes, which are all indices below `shape`.
    ///
    /// # Errors
    /// When the map is not known to be bijective over these indices, or its inverse is not an index map of constants.
    pub fn inverse(&self, shape: &[PrimExpr], analyzer: &Analyzer) -> Result<IndexMap, IndexMapError> {
        let vars: Vec<Var> = (0..self.output.len()).map(|i| Var::index(format!("i{i}"))).collect();
        let output = self.inverse_indices(&ranges(shape), &vars, analyzer)?;
        IndexMap::new(vars, output)
    }

    /// The indices in `ranges` whose map is `outputs`, variables over the mapped ranges.
    pub(crate) fn inverse_indices(
        &self,
        ranges: &[Range],
        outputs: &[Var],
        analyzer: &Analyzer,
    ) -> Result<Vec<PrimExpr>, IndexMapError> {
        let sums = self.detect(ranges, analyzer)?;
        let mut analyzer = analyzer.clone();
        for (var, sum) in outputs.iter().zip(&sums) {
            analyzer.bind_range(var, &self.range_of(sum.clone())?);
        }
        let values: Vec<PrimExpr> = outputs.iter().map(PrimExpr::from).collect();
        let mut inverse = inverse_affine_iter_map(&sums, &values, &analyzer);
        // An index of one value may not occur in the map.
        let value =
            |(var, range): (&Var, &Range)| inverse.remove(&var.id()).unwrap_or_else(|| range.min.clone());
        Ok(self.initial.iter().zip(ranges).map(value).collect())
    }

    fn detect(&self, ranges: &[Range], analyzer: &Analyzer) -> Result<Vec<IterSum>, IndexMapError> {
        self.check_count(ranges.len())?;
        if let Some(range) = ranges.iter().find(|range| range.extent.as_int().is_some_and(|it| it < 0)) {
            return Err(self.not_bijective(format!("a range has the extent {}", range.extent)));
        }
        let iters: Vec<(Var, Range)> = self.initial.iter().cloned().zip(ranges.iter().cloned()).collect();
        let always = PrimExpr::bool(true);
        // The detection knows no bounds of an index of one value.
        let single = iters.iter().filter(|(_, range)| range.extent.is_const(1));
        let single = single.map(|(var, range)| (var.id(), range.min.clone())).collect();
        let output: Vec<PrimExpr> = self.output.iter().map(|expr| substitute_expr(expr, &single)).collect();
        detect_iter_map(&output, &iters, &always, IterMapLevel::Bijective, analyzer)
            .map_err(|why: IterMapError| self.not_bijective(why.to_string()))
    }

    fn range_of(&self, sum: IterSum) -> Result<Range, IndexMapError> {
        match &sum.args[..] {
            [] => Ok(Range::point(sum.base)),
            [split] if split.scale.is_const(1) => Ok(Range { min: sum.base, extent: split.extent.clone() }),
            _ => Err(self.not_bijective(format!("`{}` has gaps", sum.to_expr()))),
        }
    }

    fn check_count(&self, got: usize) -> Result<(), IndexMapError> {
        let expected = self.initial.len();
        if got == expected { Ok(()) } else { Err(IndexMapError::Count { expected, got }) }
    }

    fn not_bijective(&self, why: String) -> IndexMapError {
        IndexMapError::NotBijective { map: self.to_string(), why }
    }
}

fn ranges(shape: &[PrimExpr]) -> Vec<Range> {
    shape.iter().cloned().map(Range::from_extent).collect()
}

fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(letter) && text.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// `expr`, whose divisions round down, if it is an expression of an index map.
fn checked(expr: &PrimExpr, vars: &[Var], budget: &mut usize) -> Result<PrimExpr, IndexMapError> {
    let unsupported = |what: String| Err(IndexMapError::Unsupported(what));
    let Some(left) = budget.checked_sub(1) else {
        return unsupported(format!("more than {MAX_NODES} variables, operators and operands"));
    };
    *budget = left;
    match expr {
        PrimExpr::Var(var) if vars.contains(var) => Ok(expr.clone()),
        PrimExpr::IntImm(it) if it.dtype == DataType::I64 => Ok(expr.clone()),
        PrimExpr::Binary(it) => {
            let op = match it.op {
                BinaryOp::Div => BinaryOp::FloorDiv,
                BinaryOp::Mod => BinaryOp::FloorMod,
                op => op,
            };
            let divides = matches!(op, BinaryOp::FloorDiv | BinaryOp::FloorMod);
            if !divides && !matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul) {
                return unsupported(format!("the operator of `{expr}`"));
            }
            if divides && it.b.as_int().is_none_or(|by| by < 1) {
                return unsupported(format!("the divisor of `{expr}`, which is no positive constant"));
            }
            let [a, b] = [&it.a, &it.b].map(|it| with_stack(|| checked(it, vars, budget)));
            Ok(binary(op, a?, b?))
        }
        other => unsupported(format!("the operand `{other}`")),
    }
}

impl PartialEq for IndexMap {
    /// Equal expressions of variables in the same places; names do not count.
    fn eq(&self, other: &IndexMap) -> bool {
        let vars: FxHashMap<VarId, PrimExpr> =
            other.initial.iter().map(Var::id).zip(self.initial.iter().map(PrimExpr::from)).collect();
        let mut pairs = self.output.iter().zip(other.output.iter());
        self.initial.len() == other.initial.len()
            && self.output.len() == other.output.len()
            && pairs.all(|(a, b)| same(a, &substitute_expr(b, &vars)))
    }
}

impl fmt::Display for IndexMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.initial.iter().map(Var::name).collect();
        let output: Vec<String> = self.output.iter().map(|expr| show(expr, 0)).collect();
        write!(f, "|{}| [{}]", names.join(", "), output.join(", "))
    }
}

/// The text of `expr` as an operand of an operator that binds as tightly as `around`: 1 for sums, 2 for products.
fn show(expr: &PrimExpr, around: u8) -> String {
    let PrimExpr::Binary(it) = expr else {
        return expr.as_int().map_or_else(|| expr.to_string(), |value| value.to_string());
    };
    let (symbol, level) = match it.op {
        BinaryOp::Sub => ("-", 1),
        BinaryOp::Mul => ("*", 2),
        BinaryOp::FloorDiv => ("/", 2),
        BinaryOp::FloorMod => ("%", 2),
        _ => ("+", 1),
    };
    let [a, b] = [(&it.a, level), (&it.b, level + 1)].map(|(it, level)| with_stack(|| show(it, level)));
    if level < around { format!("({a} {symbol} {b})") } else { format!("{a} {symbol} {b}") }
}

impl From<IndexMap> for String {
    fn from(map: IndexMap) -> String {
        map.to_string()
    }
}

impl TryFrom<String> for IndexMap {
    type Error = IndexMapError;

    fn try_from(text: String) -> Result<IndexMap, IndexMapError> {
        text.parse()
    }
}

impl FromStr for IndexMap {
    type Err = IndexMapError;

    fn from_str(text: &str) -> Result<IndexMap, IndexMapError> {
        let fail = |why: String| IndexMapError::Text { text: text.chars().take(80).collect(), why };
        if text.len() > MAX_TEXT {
            return Err(fail("it is too long".into()));
        }
        let mut parser = Parser { text, chars: text.char_indices().peekable(), vars: Vec::new() };
        let output = parser.map().map_err(fail)?;
        IndexMap::new(parser.vars, output)
    }
}

struct Parser<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    vars: Vec<Var>,
}

impl<'a> Parser<'a> {
    fn map(&mut self) -> Result<Vec<PrimExpr>, String> {
        self.expect('|')?;
        while self.peek() != Some('|') {
            let name = self.word();
            self.vars.push(Var::index(name));
            if !self.take(',') {
                break;
            }
        }
        self.expect('|')?;
        self.expect('[')?;
        let mut output = Vec::new();
        while self.peek() != Some(']') {
            output.push(self.sum()?);
            if !self.take(',') {
                break;
            }
        }
        self.expect(']')?;
        self.peek().map_or(Ok(output), |c| Err(format!("nothing follows the last bracket, got `{c}`")))
    }

    fn sum(&mut self) -> Result<PrimExpr, String> {
        let mut sum = self.product()?;
        while let Some(op) = self.operator(&[('+', BinaryOp::Add), ('-', BinaryOp::Sub)]) {
            sum = binary(op, sum, self.product()?);
        }
        Ok(sum)
    }

    fn product(&mut self) -> Result<PrimExpr, String> {
        let ops = [('*', BinaryOp::Mul), ('/', BinaryOp::FloorDiv), ('%', BinaryOp::FloorMod)];
        let mut product = self.operand()?;
        while let Some(op) = self.operator(&ops) {
            product = binary(op, product, self.operand()?);
        }
        Ok(product)
    }

    fn operand(&mut self) -> Result<PrimExpr, String> {
        if self.take('(') {
            let inner = with_stack(|| self.sum())?;
            return self.expect(')').map(|()| inner);
        }
        let sign = if self.take('-') { "-" } else { "" };
        let word = self.word();
        if let Ok(value) = format!("{sign}{word}").parse::<i64>() {
            return Ok(PrimExpr::index(value));
        }
        let var = self.vars.iter().find(|var| sign.is_empty() && var.name() == word);
        var.map(PrimExpr::from).ok_or_else(|| match self.peek() {
            Some(c) if word.is_empty() => format!("expected a variable or an integer, got `{c}`"),
            _ => format!("`{sign}{word}` is no variable of it, and no integer"),
        })
    }

    fn operator(&mut self, ops: &[(char, BinaryOp)]) -> Option<BinaryOp> {
        ops.iter().find(|(c, _)| self.take(*c)).map(|(_, op)| *op)
    }

    /// The letters, digits and underscores that follow.
    fn word(&mut self) -> &'a str {
        self.peek();
        let at = |chars: &mut Peekable<CharIndices<'_>>| chars.peek().map(|(at, _)| *at);
        let start = at(&mut self.chars).unwrap_or(self.text.len());
        while self.chars.next_if(|(_, c)| c.is_ascii_alphanumeric() || *c == '_').is_some() {}
        let end = at(&mut self.chars).unwrap_or(self.text.len());
        &self.text[start..end]
    }

    /// The character that follows, after spaces.
    fn peek(&mut self) -> Option<char> {
        while self.chars.next_if(|(_, c)| c.is_ascii_whitespace()).is_some() {}
        self.chars.peek().map(|(_, c)| *c)
    }

    fn take(&mut self, wanted: char) -> bool {
        self.peek() == Some(wanted) && self.chars.next().is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        let found = |got: Option<char>| got.map_or("the end".into(), |c| format!("`{c}`"));
        if self.take(wanted) {
            Ok(())
        } else {
            Err(format!("expected `{wanted}`, got {}", found(self.peek())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> IndexMap {
        text.parse().unwrap_or_else(|err| panic!("{err}"))
    }

    fn dims(values: &[i64]) -> Vec<PrimExpr> {
        values.iter().map(|&it| PrimExpr::index(it)).collect()
    }

    fn ints(values: &[PrimExpr]) -> Vec<i64> {
        values.iter().map(|it| it.as_int().unwrap()).collect()
    }

    #[test]
    fn texts() {
        for text in [
            "|i, j| [j, i / 8, i % 8]",
            "|| []",
            "|i| [i - (3 - i), (i + 1) * 2 % 3, i / (7 % 4), i + -3]",
            "|i, _j2| [(i * 4 + _j2) / 16, i * 4 + _j2 - 1]",
            "|i| [i + -9223372036854775808]",
        ] {
            let it = map(text);
            let json = serde_json::to_string(&it).unwrap();
            assert_eq!(serde_json::from_str::<IndexMap>(&json).unwrap(), it, "{text}");
            assert_eq!(map(&it.to_string()).to_string(), it.to_string());
        }
        assert_eq!(map("|i, j| [j, i / 8, i % 8]").to_string(), "|i, j| [j, i / 8, i % 8]");
        assert_eq!(map(" | a,b | [ b , a/8,a % 8 ] "), map("|i, j| [j, i / 8, i % 8]"));
        assert_ne!(map("|a, b| [a]"), map("|a, b| [b]"));
        assert_ne!(map("|a, b| [a]"), map("|a| [a]"));
        let deep = format!("|i| [{}i{}]", "(".repeat(5_000), ")".repeat(5_000));
        let long = format!("|i| [i{}]", " + i".repeat(2_000));
        for text in [
            "",
            "|i|",
            "i",
            "|i| [j]",
            "|i| [i",
            "|i| [i] i",
            "|i, i| [i]",
            "|i j| [i]",
            "|i| [i / 0]",
            "|i| [i / i]",
            "|i| [i % -2]",
            "|i| [99999999999999999999]",
            "|i| [-i]",
            "|1| [1]",
            "|i| [i < 2]",
            "|ö| [ö]",
            "|i| [,]",
            "|i| [i ++ 1]",
            &long,
        ] {
            assert!(text.parse::<IndexMap>().is_err(), "{text}");
        }
        assert_eq!(map(&deep).to_string(), "|i| [i]");
        assert!("(".repeat(1 << 20).parse::<IndexMap>().is_err());
    }

    #[test]
    fn closures() {
        let of = IndexMap::of(|[i, j]| [j.into(), (i + 3) / 8, i % 8]).unwrap();
        assert_eq!(of.to_string(), "|i0, i1| [i1, (i0 + 3) / 8, i0 % 8]");
        let n = Var::index("n");
        assert!(IndexMap::of(|[i]| [i * &n]).is_err());
        assert!(IndexMap::of(|[i]| [PrimExpr::from(i).min(3)]).is_err());
        let mut deep = PrimExpr::from(&n);
        (0..64).for_each(|_| deep = &deep + &deep);
        assert!(IndexMap::new(vec![n], vec![deep]).is_err());
        assert!(IndexMap::new(vec![Var::prim("i", DataType::I32)], vec![]).is_err());
    }

    #[test]
    fn shapes_and_inverses() {
        let analyzer = Analyzer::new();
        let cases: [(&str, &[i64], &[i64], &str); 8] = [
            ("|i, j| [j, i]", &[3, 4], &[4, 3], "|i0, i1| [i1, i0]"),
            ("|i, j| [j, i / 8, i % 8]", &[24, 5], &[5, 3, 8], "|i0, i1, i2| [i1 * 8 + i2, i0]"),
            ("|i, j| [i * 5 + j]", &[3, 5], &[15], "|i0| [i0 / 5, i0 % 5]"),
            ("|i, j| [(i * 6 + j) / 4, j % 4 * 0 + (i * 6 + j) % 4]", &[4, 6], &[6, 4], ""),
            ("|i| [i / 4 % 2, i / 8, i % 4]", &[16], &[2, 2, 4], "|i0, i1, i2| [i0 * 4 + i1 * 8 + i2]"),
            ("|i, j| [i]", &[6, 1], &[6], "|i0| [i0, 0]"),
            ("|i| [0, i]", &[6], &[1, 6], "|i0, i1| [i1]"),
            ("|i| [i / 8, i % 8]", &[0], &[0, 8], ""),
        ];
        for (text, shape, want, inverse) in cases {
            let it = map(text);
            assert_eq!(ints(&it.map_shape(&dims(shape), &analyzer).unwrap()), want, "{text}");
            let back = it.inverse(&dims(shape), &analyzer).unwrap_or_else(|err| panic!("{err}"));
            if !inverse.is_empty() {
                assert_eq!(back.to_string(), inverse, "{text}");
            }
            for flat in 0..shape.iter().product() {
                let mut rest = flat;
                let digit = |&extent: &i64| {
                    let digit = rest % extent;
                    rest /= extent;
                    digit
                };
                let index: Vec<i64> = shape.iter().map(digit).collect();
                let there = it.map_indices(&dims(&index), &analyzer).unwrap();
                assert!(ints(&there).iter().zip(want).all(|(at, extent)| (0..*extent).contains(at)));
                assert_eq!(ints(&back.map_indices(&there, &analyzer).unwrap()), index, "{text}");
            }
        }
        let moved = map("|i| [i + 3]");
        assert!(moved.map_shape(&dims(&[4]), &analyzer).is_err());
        let ranges = moved.map_ranges(&ranges(&dims(&[4])), &analyzer).unwrap();
        assert_eq!((ranges[0].min.as_int(), ranges[0].extent.as_int()), (Some(3), Some(4)));
        for (text, shape) in [
            ("|i| [i / 8, i % 8]", &[9][..]),
            ("|i| [i * 2]", &[4]),
            ("|i, j| [i + j]", &[4, 4]),
            ("|i, j| [i]", &[4, 4]),
            ("|i| [i, i]", &[4]),
            ("|i, j| [j, i]", &[4]),
            ("|i| [i * i]", &[4]),
            ("|i, j| [i * -3 + j]", &[-2, -3]),
        ] {
            assert!(map(text).inverse(&dims(shape), &analyzer).is_err(), "{text}");
            assert!(map(text).map_shape(&dims(shape), &analyzer).is_err(), "{text}");
        }
    }
}
