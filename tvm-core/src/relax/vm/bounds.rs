//! Checks of the bounds of dimensions: those that the program was compiled for, and the minimum below which a tensor would
//! have a negative extent, as the result of a convolution of an image that is smaller than the kernel.
//!
//! TVM counterpart: the function attributes `tir_var_upper_bound` and `tir_var_lower_bound`; nothing for negative extents.

use rustc_hash::FxHashMap;
use tvm_runtime::DimBound;
use tvm_runtime::vm::{Instruction, Reg};

use super::codegen::FunctionCodegen;
use super::shape::int_op;
use crate::ir::{Type, Var, VarId};
use crate::relax::op::memory;
use crate::relax::{Arg, Body, Callee, Expr};
use crate::support::with_stack;
use crate::tir::{PrimExpr, any_expr};

/// The largest minimum that is looked for: windows are not larger.
const LIMIT: i64 = 1 << 12;

/// A dimension of a parameter.
pub(super) struct Dim {
    var: Var,
    /// The parameter, or the field of one.
    arg: Box<str>,
    /// `None` if it is the parameter itself, a scalar.
    axis: Option<u32>,
}

impl Dim {
    fn check(&self, src: Reg, bound: DimBound) -> Instruction {
        let (dim, arg) = (self.var.name().into(), self.arg.clone());
        Instruction::CheckBound { src, bound, dim, arg, axis: self.axis }
    }

    /// The bounds of the dimension with the minimum `least`.
    fn at_least(&self, least: i64) -> Option<DimBound> {
        let [min, max, modulus, remainder] = self.var.bound().unwrap_or(DimBound::ANY).parts();
        // Where no value is left, making the tensor fails.
        DimBound::new(min.max(least), max, modulus, remainder).ok()
    }
}

/// The dimensions with a minimum below which a tensor that `body` makes, outside of its branches, would have a negative extent.
fn least_values(body: &Body) -> FxHashMap<VarId, i64> {
    let mut least = FxHashMap::default();
    for binding in body.bindings() {
        let Expr::Call(call) = &binding.value else { continue };
        let (Callee::Op(op), Some(Arg::Shape(shape))) = (&call.callee, call.args.last()) else { continue };
        if ![memory::ALLOC, memory::ALLOC_TENSOR].contains(&op.name) {
            continue;
        }
        for (dim, value) in shape.iter().filter_map(least_value) {
            least.entry(dim).and_modify(|it: &mut i64| *it = value.max(*it)).or_insert(value);
        }
    }
    least
}

/// The only dimension in `extent`, and the smallest of its values for which `extent` is not negative; `None` if that is the first
/// value, or none up to [`LIMIT`].
fn least_value(extent: &PrimExpr) -> Option<(VarId, i64)> {
    let mut dims = Vec::new();
    any_expr(extent, &mut |it| {
        dims.extend(it.as_var().cloned());
        false
    });
    let dim = dims.pop()?;
    if dims.iter().any(|other| other.id() != dim.id()) {
        return None;
    }
    let first = dim.bound().map_or(0, |it| it.min());
    let mut at = first;
    while value(extent, at)? < 0 {
        at = Some(at + 1).filter(|it| *it <= LIMIT)?;
    }
    (at > first).then(|| (dim.id(), at))
}

/// The value of an integer expression whose only dimension is `dim`; `None` where it overflows or is of another kind.
fn value(expr: &PrimExpr, dim: i64) -> Option<i64> {
    with_stack(|| match expr {
        PrimExpr::IntImm(it) => Some(it.value),
        PrimExpr::Var(_) => Some(dim),
        PrimExpr::Cast(it) if it.dtype.bits() >= it.value.dtype().bits() => value(&it.value, dim),
        PrimExpr::Not(it) => Some(i64::from(value(&it.value, dim)? == 0)),
        PrimExpr::Binary(it) => int_op(it.op).eval(value(&it.a, dim)?, value(&it.b, dim)?),
        PrimExpr::Select(it) => {
            let chosen = if value(&it.condition, dim)? != 0 { &it.true_value } else { &it.false_value };
            value(chosen, dim)
        }
        _ => None,
    })
}

impl FunctionCodegen<'_, '_> {
    /// Emits checks of the bounds of the dimensions that `ty` mentions and that are not checked yet. It is the type of a
    /// parameter, or of a field of one, which `place` names.
    pub(super) fn check_bounds(&mut self, ty: &Type, place: &str) {
        let dims: &[PrimExpr] = match ty {
            Type::Tensor(it) => it.known_shape().unwrap_or_default(),
            Type::Shape(it) => it.values.as_deref().unwrap_or_default(),
            Type::Tuple(fields) => {
                for (i, field) in fields.iter().enumerate() {
                    self.check_bounds(field, &format!("{place}.{i}"));
                }
                return;
            }
            Type::Prim(_) | Type::Func(_) | Type::Adt(_) | Type::Ref(_) | Type::Param(_) | Type::Object => {
                return;
            }
        };
        for (axis, dim) in (0..).zip(dims) {
            dim.as_var().into_iter().for_each(|dim| self.check_bound(dim, place, Some(axis)));
        }
    }

    /// Emits a check of the bounds of `dim`, if it has bounds, and remembers where it comes from.
    pub(super) fn check_bound(&mut self, dim: &Var, arg: &str, axis: Option<u32>) {
        if self.dims.iter().any(|it| it.var.id() == dim.id()) {
            return;
        }
        let dim = Dim { var: dim.clone(), arg: arg.into(), axis };
        if let (Some(bound), Some(&src)) = (dim.var.bound(), self.regs.get(&dim.var.id())) {
            self.code.emit(dim.check(src, bound));
        }
        self.dims.push(dim);
    }

    /// Emits checks that no tensor which `body` makes, outside of its branches, has a negative extent.
    pub(super) fn check_least_values(&mut self, body: &Body) {
        let least = least_values(body);
        for dim in &self.dims {
            if let (Some(&least), Some(&src)) = (least.get(&dim.var.id()), self.regs.get(&dim.var.id()))
                && let Some(bound) = dim.at_least(least)
            {
                self.code.emit(dim.check(src, bound));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tir::{BinaryOp, binary};

    #[test]
    fn the_least_value_is_the_first_without_a_negative_extent() {
        let (n, m) = (Var::index("n"), Var::index("m"));
        let at_least_8 = Var::index("k").within(DimBound::between(8, i64::MAX).ok());
        let dim = |it: &Var| PrimExpr::from(it);
        let of = |op, a: PrimExpr, b: i64| binary(op, a, PrimExpr::index(b));
        let select = |a: PrimExpr, negative: PrimExpr| {
            let condition = of(BinaryOp::Lt, a.clone(), 0);
            PrimExpr::select(condition, negative, a)
        };
        for (extent, least) in [
            (dim(&n), None),
            (dim(&n) - 2, Some(2)),
            (dim(&n) * 2 - 7, Some(4)),
            (of(BinaryOp::FloorDiv, dim(&n) - 3, 2) + 1, Some(1)),
            (of(BinaryOp::FloorDiv, dim(&n) - 300, 7) - 4, Some(328)),
            (of(BinaryOp::Max, dim(&n) - 5, 0), None),
            (of(BinaryOp::Min, dim(&n), 4) - 2, Some(2)),
            // The end of a slice without its last element, which counts from the end for 0.
            (binary(BinaryOp::Max, select(dim(&n) - 1, dim(&n) * 2 - 1), PrimExpr::index(0)) - 3, Some(4)),
            // Never enough; the extent decreases; two dimensions; the bounds suffice.
            (of(BinaryOp::Min, dim(&n), 4) - 5, None),
            (PrimExpr::index(3) - dim(&n), None),
            (dim(&n) - dim(&m), None),
            (dim(&at_least_8) - 2, None),
            (dim(&at_least_8) - 9, Some(9)),
        ] {
            assert_eq!(least_value(&extent).map(|it| it.1), least, "{extent:?}");
        }
    }
}
