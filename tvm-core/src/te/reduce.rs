//! Reductions: an associative and commutative combiner over the values of some axes.
//!
//! TVM counterpart: `tir::CommReducer`, `te.reduce_axis`, `te.sum`, `te.max`, … .

use tvm_runtime::DataType;

use crate::ir::Var;
use crate::tir::analysis::PairOp;
use crate::tir::{IterKind, IterVar, PrimExpr, Range};

/// How two (tuples of) values are combined.
#[derive(Clone, Debug)]
pub struct Combiner {
    /// The value so far, one variable per component.
    pub lhs: Vec<Var>,
    /// The next value, one variable per component.
    pub rhs: Vec<Var>,
    /// The combined value, over `lhs` and `rhs`.
    pub result: Vec<PrimExpr>,
    /// The neutral value, one per component: combined with another value, it gives that value.
    pub identity: Vec<PrimExpr>,
}

/// A reduction of `sources` over `axes`, starting from `init`.
#[derive(Clone, Debug)]
pub struct Reduce {
    /// How values are combined.
    pub combiner: Combiner,
    /// The values to combine, one per component.
    pub sources: Vec<PrimExpr>,
    /// Reduced axes.
    pub axes: Vec<IterVar>,
    /// Value before the first element.
    pub init: Vec<PrimExpr>,
}

/// An axis to reduce over.
#[derive(Clone, Debug)]
pub struct ReduceAxis(IterVar);

impl ReduceAxis {
    /// The variable of the axis, as an index.
    pub fn expr(&self) -> PrimExpr {
        self.0.var.clone().into()
    }

    /// Extent of the axis.
    pub fn extent(&self) -> &PrimExpr {
        &self.0.dom.extent
    }
}

/// The reduction axis `0..extent`.
pub fn reduce_axis(name: &str, extent: impl Into<PrimExpr>) -> ReduceAxis {
    ReduceAxis(IterVar {
        var: Var::index(format!("v_{name}")),
        dom: Range::from_extent(extent),
        kind: IterKind::Reduce,
    })
}

/// `sources` combined over `axes`, starting from the combiner's identity.
pub fn reduce(combiner: Combiner, sources: Vec<PrimExpr>, axes: &[&ReduceAxis]) -> Reduce {
    let init = combiner.identity.clone();
    Reduce { combiner, sources, axes: axes.iter().map(|axis| axis.0.clone()).collect(), init }
}

impl Combiner {
    /// A combiner of one component.
    pub fn single(identity: PrimExpr, combine: impl FnOnce(PrimExpr, PrimExpr) -> PrimExpr) -> Combiner {
        let dtype = identity.dtype();
        Combiner::tuple(vec![("x", dtype)], vec![identity], |x, y| vec![combine(x[0].clone(), y[0].clone())])
    }

    /// A combiner of several components of the given names and types.
    pub fn tuple(
        components: Vec<(&str, DataType)>,
        identity: Vec<PrimExpr>,
        combine: impl FnOnce(&[PrimExpr], &[PrimExpr]) -> Vec<PrimExpr>,
    ) -> Combiner {
        let vars = |side: &str| -> Vec<Var> {
            components.iter().map(|(name, dtype)| Var::prim(format!("{name}_{side}"), *dtype)).collect()
        };
        let (lhs, rhs) = (vars("lhs"), vars("rhs"));
        let exprs = |vars: &[Var]| -> Vec<PrimExpr> { vars.iter().map(PrimExpr::from).collect() };
        let result = combine(&exprs(&lhs), &exprs(&rhs));
        Combiner { lhs, rhs, result, identity }
    }

    /// Sum of values of type `dtype`.
    pub fn sum(dtype: DataType) -> Combiner {
        Combiner::single(PrimExpr::constant(0.0, dtype), |x, y| x + y)
    }

    /// Product of values of type `dtype`.
    pub fn prod(dtype: DataType) -> Combiner {
        Combiner::single(PrimExpr::constant(1.0, dtype), |x, y| x * y)
    }

    /// Maximum; NaN if any value is NaN.
    pub fn max(dtype: DataType) -> Combiner {
        Combiner::single(min_value(dtype), |x, y| x.max(y))
    }

    /// Minimum; NaN if any value is NaN.
    pub fn min(dtype: DataType) -> Combiner {
        Combiner::single(max_value(dtype), |x, y| x.min(y))
    }

    /// Index and value of the largest (`largest`) or smallest value: components (`i64` index, value). NaN wins over
    /// numbers; among equals the first index wins, or the last one with `last`.
    pub fn arg_extreme(dtype: DataType, largest: bool, last: bool) -> Combiner {
        let (index, value) = if last { (-1, DataType::I64) } else { (i64::MAX, DataType::I64) };
        let start = if largest { min_value(dtype) } else { max_value(dtype) };
        let components = vec![("i", value), ("v", dtype)];
        let op = PairOp::ArgExtreme { largest, last };
        Combiner::tuple(components, vec![PrimExpr::index(index), start], |x, y| {
            op.combine([&x[0], &x[1]], [&y[0], &y[1]]).into()
        })
    }
}

macro_rules! reducers {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(source: PrimExpr, axes: &[&ReduceAxis]) -> Reduce {
            reduce(Combiner::$name(source.dtype()), vec![source], axes)
        })*
    };
}

reducers! {
    /// Sum of `source` over `axes`.
    sum;
    /// Product of `source` over `axes`.
    prod;
    /// Largest `source` over `axes`; NaN if any is NaN.
    max;
    /// Smallest `source` over `axes`; NaN if any is NaN.
    min;
}

/// The smallest value of `dtype` (minus infinity for floats).
pub fn min_value(dtype: DataType) -> PrimExpr {
    if dtype.is_float() {
        PrimExpr::float(f64::NEG_INFINITY, dtype)
    } else if dtype.is_int() {
        PrimExpr::int(i64::MIN >> (64 - u32::from(dtype.bits())), dtype)
    } else {
        PrimExpr::int(0, dtype)
    }
}

/// The largest value of `dtype` (infinity for floats).
pub fn max_value(dtype: DataType) -> PrimExpr {
    if dtype.is_float() {
        PrimExpr::float(f64::INFINITY, dtype)
    } else if dtype.is_int() {
        PrimExpr::int(i64::MAX >> (64 - u32::from(dtype.bits())), dtype)
    } else if dtype.is_bool() {
        PrimExpr::bool(true)
    } else {
        // The bit pattern of all ones.
        PrimExpr::int((u64::MAX >> (64 - u32::from(dtype.bits()))) as i64, dtype)
    }
}
