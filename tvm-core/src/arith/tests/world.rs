//! Random settings: variables of every kind, what an analyzer knows about them, fitting values, expressions over them.

use tvm_runtime::DataType;

use super::Rng;
use super::reference::{Values, as_number};
use crate::arith::{Analyzer, ConstIntBound, ModularSet};
use crate::ir::Var;
use crate::ir::tensor_program::{BinaryOp, Intrinsic, Let, PrimExpr, Range, binary, wrap_int};

/// The kind of a variable.
#[derive(Clone, Debug)]
enum Kind {
    /// Values in `low..=high` that are congruent to `remainder` modulo `modulus`.
    Data { low: i128, high: i128, modulus: i128, remainder: i128 },
    /// A dimension.
    Dim,
    /// An index that may be negative.
    Index,
    /// Values that start at a constant and are as many as an earlier dimension (given by its position).
    Within(i64, usize),
}

pub(super) struct World {
    pub(super) analyzer: Analyzer,
    pub(super) dtype: DataType,
    /// The variables of type `dtype`.
    pub(super) vars: Vec<Var>,
    /// A data variable of another type, to be cast.
    other: Var,
    pub(super) bools: Vec<Var>,
    kinds: Vec<Kind>,
}

const TYPES: [DataType; 8] = [
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
];

/// A number in `low..=high`, often near an end or near zero.
fn between(rng: &mut Rng, low: i128, high: i128) -> i128 {
    let span = (high - low + 1) as u128;
    let near = |it: i128| it.clamp(low, high);
    let small = i128::from(rng.range(-20, 40));
    match rng.below(6) {
        0 => near(low + small.abs()),
        1 => near(high - small.abs()),
        2 | 3 => near(small),
        4 => near((1 << rng.below(64)) + i128::from(rng.range(-1, 1))),
        _ => low + (u128::from(rng.next()) % span) as i128,
    }
}

/// Any constant of type `dtype`: mostly small, sometimes near a power of two or a limit.
fn any_number(rng: &mut Rng, dtype: DataType) -> i128 {
    let (low, high) = dtype.int_range().unwrap_or((0, 0));
    let value = match rng.below(12) {
        0 => low,
        1 => high,
        2 | 3 => {
            let power = 1i128 << rng.below(usize::from(dtype.bits()));
            let value = power + i128::from(rng.range(-1, 1));
            if rng.one_in(2) { value } else { -value }
        }
        4..=6 => i128::from(*rng.pick(&[0, 1, 2, 3, 4, 7, 8, 16, 32])),
        7 => between(rng, low, high),
        _ => i128::from(rng.range(-9, 16)),
    };
    as_number(value, dtype)
}

impl World {
    /// A world with four variables of a random type, each of a random kind.
    pub(super) fn any(rng: &mut Rng) -> World {
        let dtype = if rng.one_in(2) { DataType::I64 } else { *rng.pick(&TYPES) };
        World::new(rng, dtype)
    }

    /// A world with four variables of type `dtype`, each of a random kind.
    pub(super) fn new(rng: &mut Rng, dtype: DataType) -> World {
        let mut analyzer = Analyzer::new();
        let names = ["a", "b", "c", "d"];
        let vars: Vec<Var> = names.map(|name| Var::prim(name, dtype)).into();
        let bools: Vec<Var> = ["p", "q"].map(|name| Var::prim(name, DataType::BOOL)).into();
        let mut kinds: Vec<Kind> = Vec::new();
        let indices = dtype == DataType::I64 && rng.one_in(2);
        for var in &vars {
            let dims: Vec<usize> = (0..kinds.len()).filter(|&k| matches!(kinds[k], Kind::Dim)).collect();
            let kind = match rng.below(4) {
                0 if indices => Kind::Dim,
                1 if indices && rng.one_in(3) => Kind::Index,
                1 | 2 if indices && !dims.is_empty() => Kind::Within(rng.range(-2, 2), *rng.pick(&dims)),
                _ => Kind::data(rng, dtype),
            };
            kind.bind(rng, &mut analyzer, var, &vars);
            kinds.push(kind);
        }
        let other = Var::prim("e", *rng.pick(&TYPES));
        World { analyzer, dtype, vars, other, bools, kinds }
    }

    /// Random values of all variables.
    pub(super) fn values(&self, rng: &mut Rng) -> Values {
        let mut values = Values::default();
        for (var, kind) in self.vars.iter().zip(&self.kinds) {
            let value = match *kind {
                Kind::Data { low, high, modulus, remainder } => {
                    let value = between(rng, low, high);
                    let down = value - (value - remainder).rem_euclid(modulus);
                    if down < low { down + modulus } else { down }
                }
                // A dimension that is an extent is not 0.
                Kind::Dim => i128::from(rng.range(0, 20).max(i64::from(self.is_extent(var)))),
                Kind::Index => i128::from(rng.range(-20, 20)),
                Kind::Within(min, dim) => {
                    let extent = values.ints[&self.vars[dim].id()];
                    i128::from(rng.range(min, min + extent - 1))
                }
            };
            values.ints.insert(var.id(), value as i64);
            match *kind {
                Kind::Data { low, high, .. } if low < -(1 << 31) || high > 1 << 31 => {
                    values.wide.insert(var.id());
                }
                Kind::Data { .. } => {}
                Kind::Dim | Kind::Index | Kind::Within(..) => {
                    values.indices.insert(var.id());
                }
            }
        }
        let other = any_number(rng, self.other.dtype());
        values.ints.insert(self.other.id(), other as i64);
        values.wide.insert(self.other.id());
        values.ints.extend(self.bools.iter().map(|var| (var.id(), rng.range(0, 1))));
        values
    }

    fn is_extent(&self, dim: &Var) -> bool {
        self.kinds.iter().any(|kind| matches!(kind, Kind::Within(_, at) if self.vars[*at] == *dim))
    }

    pub(super) fn constant(&self, rng: &mut Rng) -> PrimExpr {
        PrimExpr::int(wrap_int(any_number(rng, self.dtype), self.dtype), self.dtype)
    }

    fn leaf(&self, rng: &mut Rng) -> PrimExpr {
        match rng.below(9) {
            0..=2 => self.constant(rng),
            3 if rng.one_in(2) => PrimExpr::from(&self.other).cast(self.dtype),
            _ => PrimExpr::from(rng.pick(&self.vars)),
        }
    }

    /// A random expression of the world's type.
    pub(super) fn int(&self, rng: &mut Rng, depth: u32) -> PrimExpr {
        if depth == 0 || rng.one_in(8) {
            return self.leaf(rng);
        }
        match rng.below(24) {
            0 | 1 => {
                let (a, b) = (self.int(rng, depth - 1), self.int(rng, depth - 1));
                return self.bool(rng, depth - 1).select(a, b);
            }
            2 => {
                let (a, b) = (self.int(rng, depth - 1), self.int(rng, depth - 1));
                return PrimExpr::call(Intrinsic::IfThenElse, [self.bool(rng, depth - 1), a, b], self.dtype);
            }
            3 => {
                let via = *rng.pick(&TYPES);
                return self.int(rng, depth - 1).cast(via).cast(self.dtype);
            }
            4 => {
                let var = Var::prim("let", self.dtype);
                let value = self.int(rng, depth - 1);
                let body = binary(*rng.pick(&ARITHMETIC), PrimExpr::from(&var), self.int(rng, depth - 1));
                return PrimExpr::Let(std::sync::Arc::new(Let { var, value, body }));
            }
            _ => {}
        }
        let op = if rng.one_in(12) { *rng.pick(&BITWISE) } else { *rng.pick(&ARITHMETIC) };
        let by_const = !matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Min | BinaryOp::Max);
        let a = self.int(rng, depth - 1);
        let b = if by_const && rng.below(6) > 0 { self.constant(rng) } else { self.int(rng, depth - 1) };
        binary(op, a, b)
    }

    /// A random condition.
    pub(super) fn bool(&self, rng: &mut Rng, depth: u32) -> PrimExpr {
        if depth == 0 {
            return PrimExpr::from(rng.pick(&self.bools));
        }
        match rng.below(8) {
            0 => self.bool(rng, depth - 1).and(self.bool(rng, depth - 1)),
            1 => self.bool(rng, depth - 1).or(self.bool(rng, depth - 1)),
            2 => !self.bool(rng, depth - 1),
            3 => {
                // A condition on a remainder.
                let rest = self.constant(rng);
                let modulo = self.int(rng, depth - 1).floormod(self.constant(rng));
                modulo.equal(rest)
            }
            _ => binary(*rng.pick(&COMPARISONS), self.int(rng, depth - 1), self.int(rng, depth - 1)),
        }
    }
}

impl Kind {
    fn data(rng: &mut Rng, dtype: DataType) -> Kind {
        let (low, high) = dtype.int_range().unwrap_or((0, 1));
        let (low, high) = match rng.below(4) {
            0 => (low, high),
            1 => {
                let (a, b) = (any_number(rng, dtype), any_number(rng, dtype));
                (a.min(b), a.max(b))
            }
            _ => {
                let at = any_number(rng, dtype);
                (at, (at + i128::from(rng.range(0, 40))).min(high))
            }
        };
        let (modulus, remainder) = match rng.below(5) {
            0 if dtype != DataType::U64 && high - low > 64 => {
                (i128::from(rng.range(1, 16)), i128::from(rng.range(0, 15)))
            }
            _ => (1, 0),
        };
        Kind::Data { low, high, modulus, remainder }
    }

    fn bind(&self, rng: &mut Rng, analyzer: &mut Analyzer, var: &Var, vars: &[Var]) {
        match *self {
            Kind::Data { low, high, modulus, remainder } => {
                let range = var.dtype().int_range().unwrap_or((0, 0));
                let extent = i64::try_from(high - low + 1).ok();
                match extent.filter(|_| var.dtype() == DataType::I64 && rng.one_in(2)) {
                    Some(extent) => {
                        analyzer.bind_range(var, &Range { min: (low as i64).into(), extent: extent.into() });
                    }
                    None if range == (low, high) => {}
                    None => analyzer.bind_bound(var, ConstIntBound::new(low, high)),
                }
                if modulus > 1 {
                    analyzer.bind_modular(var, ModularSet::new(modulus as i64, remainder as i64));
                }
            }
            Kind::Dim => analyzer.bind_dim(var),
            Kind::Index => analyzer.bind_index(var),
            Kind::Within(min, dim) => {
                analyzer.bind_range(var, &Range { min: min.into(), extent: (&vars[dim]).into() });
            }
        }
    }
}

pub(super) const ARITHMETIC: [BinaryOp; 10] = [
    BinaryOp::Add,
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::FloorDiv,
    BinaryOp::FloorMod,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::Min,
    BinaryOp::Max,
];

const BITWISE: [BinaryOp; 5] =
    [BinaryOp::BitAnd, BinaryOp::BitOr, BinaryOp::BitXor, BinaryOp::Shl, BinaryOp::Shr];

const COMPARISONS: [BinaryOp; 6] =
    [BinaryOp::Eq, BinaryOp::Ne, BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge];
