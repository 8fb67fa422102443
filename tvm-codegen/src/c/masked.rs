//! Loads and stores of the lanes of a vector in which a predicate holds: one instruction with AVX-512, conditional accesses
//! lane by lane elsewhere.
//!
//! The first lane may lie in front of the buffer, where no pointer may point: `TVM_PLACE` computes the address as a number.
//!
//! A predicate is the bits of an integer: those of the lanes in which it holds are set. Bits above the lanes mean nothing.

use tvm_core::tir::{BinaryOp, BufferLoad, BufferStore, PrimExpr};
use tvm_runtime::DataType;

use super::function::Function;
use super::{not_supported, types};
use crate::CodegenError;

/// Lanes that a predicate has at most.
const MAX_LANES: u16 = 64;

impl Function<'_> {
    /// Writes a read of the lanes of `it` in which `predicate` holds; the others are zero.
    pub(super) fn masked_load(
        &mut self,
        it: &BufferLoad,
        index: &PrimExpr,
        predicate: &PrimExpr,
    ) -> Result<String, CodegenError> {
        let (base, first) = (self.buffer(&it.buffer)?, self.first_index(index)?);
        let bits = self.predicate(predicate)?;
        let dtype = it.buffer.dtype.with_lanes(index.dtype().lanes());
        let (helper, ty, scalar) = self.masked_helper("load", dtype);
        self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
            let lanes = (0..dtype.lanes()).map(|l| format!("m >> {l} & 1 ? p[at + {l}] : 0")).collect::<Vec<_>>();
            let whole = instruction(dtype).map(|it| {
                let Instruction { name, element, pointer, bytes, condition } = it;
                format!(
                    "#if {condition}\n  typedef {element} all __attribute__((vector_size({bytes})));\n  \
                     return ({ty})__builtin_ia32_load{name}_mask((const {pointer} *)TVM_PLACE(p, at), (all){{0}}, m);\n#else\n"
                )
            });
            let end = if whole.is_some() { "#endif\n" } else { "" };
            format!(
                "TVM_INLINE {ty} {helper}(const {scalar} *p, int64_t at, uint64_t m) {{\n{}  return ({ty}){{{}}};\n{end}}}\n",
                whole.unwrap_or_default(),
                lanes.join(", ")
            )
        });
        Ok(format!("{helper}({base}, {first}, {bits})"))
    }

    /// Writes a write of the lanes of `value` in which `predicate` holds.
    pub(super) fn masked_store(
        &mut self,
        it: &BufferStore,
        index: &PrimExpr,
        predicate: &PrimExpr,
        value: &str,
    ) -> Result<(), CodegenError> {
        let (base, first) = (self.buffer(&it.buffer)?, self.first_index(index)?);
        let bits = self.predicate(predicate)?;
        let dtype = it.buffer.dtype.with_lanes(index.dtype().lanes());
        let (helper, ty, scalar) = self.masked_helper("store", dtype);
        self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
            let lanes = (0..dtype.lanes()).map(|l| format!("  if (m >> {l} & 1) p[at + {l}] = x[{l}];\n"));
            let whole = instruction(dtype).map(|it| {
                let Instruction { name, element, pointer, bytes, condition } = it;
                format!(
                    "#if {condition}\n  typedef {element} all __attribute__((vector_size({bytes})));\n  \
                     __builtin_ia32_store{name}_mask(({pointer} *)TVM_PLACE(p, at), (all)x, m);\n#else\n"
                )
            });
            let end = if whole.is_some() { "#endif\n" } else { "" };
            format!(
                "TVM_INLINE void {helper}({scalar} *p, int64_t at, uint64_t m, {ty} x) {{\n{}{}{end}}}\n",
                whole.unwrap_or_default(),
                lanes.collect::<String>()
            )
        });
        self.line(&format!("{helper}({base}, {first}, {bits}, {value});"));
        Ok(())
    }

    fn first_index(&mut self, index: &PrimExpr) -> Result<String, CodegenError> {
        match index {
            PrimExpr::Ramp(it) if it.stride.is_const(1) => self.expr(&it.base),
            _ => not_supported("a masked access that is not contiguous"),
        }
    }

    /// Name of a helper, the C type of its vector, and that of an element in memory.
    fn masked_helper(&mut self, what: &str, dtype: DataType) -> (String, String, &'static str) {
        let carrier = types::carrier(dtype);
        let ty = self.ty(dtype);
        (format!("tvm_masked_{what}_{carrier}"), ty, types::scalar(carrier.scalar()))
    }

    /// Writes the bool vector `expr` as the bits of an integer.
    fn predicate(&mut self, expr: &PrimExpr) -> Result<String, CodegenError> {
        let lanes = expr.dtype().lanes();
        if lanes > MAX_LANES {
            return not_supported(format!("a predicate of {lanes} lanes"));
        }
        let known =
            (0..lanes).try_fold(0u64, |bits, lane| Some(bits | u64::from(lane_of(expr, lane)? != 0) << lane));
        if let Some(bits) = known {
            return Ok(format!("{bits:#x}u"));
        }
        if let Some(first) = first_lanes(expr) {
            let FirstLanes { count, inclusive, others } = first;
            let count = self.expr(count)?;
            let (plus, not) = (if inclusive { " + 1" } else { "" }, if others { "~" } else { "" });
            return Ok(format!("({not}tvm_first_lanes((int64_t){count}{plus}))"));
        }
        match expr {
            PrimExpr::Binary(it) if it.op.is_logical() => {
                let op = if it.op == BinaryOp::And { '&' } else { '|' };
                Ok(format!("({} {op} {})", self.predicate(&it.a)?, self.predicate(&it.b)?))
            }
            PrimExpr::Not(it) => Ok(format!("(~{})", self.predicate(&it.value)?)),
            PrimExpr::Broadcast(it) => Ok(format!("(-(uint64_t){})", self.expr(&it.value)?)),
            PrimExpr::Select(it) if it.condition.dtype().is_scalar() => {
                let condition = self.expr(&it.condition)?;
                let (a, b) = (self.predicate(&it.true_value)?, self.predicate(&it.false_value)?);
                Ok(format!("({condition} ? {a} : {b})"))
            }
            _ => {
                let mask = self.mask(expr, 8)?;
                let ty = self.ty(DataType::I8.with_lanes(lanes));
                let helper = format!("tvm_bits_x{lanes}");
                self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
                    let bits =
                        (0..lanes).map(|l| format!("(uint64_t)(m[{l}] & 1) << {l}")).collect::<Vec<_>>();
                    format!("TVM_INLINE uint64_t {helper}({ty} m) {{ return {}; }}\n", bits.join(" | "))
                });
                Ok(format!("{helper}({mask})"))
            }
        }
    }
}

/// An instruction that accesses a vector under a mask.
struct Instruction {
    /// Part of its name.
    name: String,
    /// The type of the lanes of its vector.
    element: &'static str,
    /// The type that its pointer points to.
    pointer: &'static str,
    bytes: usize,
    /// When the CPU has it.
    condition: &'static str,
}

/// The instruction for vectors of `dtype`, if there is one.
fn instruction(dtype: DataType) -> Option<Instruction> {
    let bytes = types::carrier(dtype).bytes();
    if !matches!(bytes, 16 | 32 | 64) {
        return None;
    }
    let (letters, element, pointer, condition) = match types::carrier(dtype.scalar()).bytes() {
        1 => ("dquqi", "char", "char", "defined(__AVX512BW__) && defined(__AVX512VL__)"),
        2 => ("dquhi", "short", "short", "defined(__AVX512BW__) && defined(__AVX512VL__)"),
        4 => ("dqusi", "int", "int", "defined(__AVX512VL__)"),
        _ => ("dqudi", "long long", "long long", "defined(__AVX512VL__)"),
    };
    Some(Instruction { name: format!("{letters}{}", bytes * 8), element, pointer, bytes, condition })
}

/// The lanes whose number is less than `count`, or at most that.
struct FirstLanes<'a> {
    /// An `i32`.
    count: &'a PrimExpr,
    inclusive: bool,
    /// Instead, the lanes of which this does not hold.
    others: bool,
}

/// `expr` as a comparison of the numbers of lanes with an `i32`, if it is one.
fn first_lanes(expr: &PrimExpr) -> Option<FirstLanes<'_>> {
    let PrimExpr::Binary(it) = expr else { return None };
    let (PrimExpr::Ramp(lanes), PrimExpr::Broadcast(count)) = (&it.a, &it.b) else { return None };
    if !lanes.base.is_const(0) || !lanes.stride.is_const(1) || count.value.dtype() != DataType::I32 {
        return None;
    }
    let (inclusive, others) = match it.op {
        BinaryOp::Lt => (false, false),
        BinaryOp::Le => (true, false),
        BinaryOp::Gt => (true, true),
        BinaryOp::Ge => (false, true),
        _ => return None,
    };
    Some(FirstLanes { count: &count.value, inclusive, others })
}

/// The value of a lane of an integer or bool vector; `None` if it is not a constant.
fn lane_of(expr: &PrimExpr, lane: u16) -> Option<i64> {
    match expr {
        PrimExpr::Ramp(it) => {
            let steps = it.stride.as_int()?.checked_mul(lane.into())?;
            let value = it.base.as_int()?.checked_add(steps)?;
            (it.base.dtype() == DataType::I64 || i32::try_from(value).is_ok()).then_some(value)
        }
        PrimExpr::Broadcast(it) => it.value.as_int(),
        PrimExpr::Not(it) => Some(i64::from(lane_of(&it.value, lane)? == 0)),
        PrimExpr::Binary(it) => {
            let (a, b) = (lane_of(&it.a, lane)?, lane_of(&it.b, lane)?);
            match it.op {
                BinaryOp::And => Some(a & b),
                BinaryOp::Or => Some(a | b),
                op if op.is_comparison() && it.a.dtype().is_int() && it.a.dtype().bits() >= 32 => {
                    Some(i64::from(match op {
                        BinaryOp::Eq => a == b,
                        BinaryOp::Ne => a != b,
                        BinaryOp::Lt => a < b,
                        BinaryOp::Le => a <= b,
                        BinaryOp::Gt => a > b,
                        _ => a >= b,
                    }))
                }
                _ => None,
            }
        }
        PrimExpr::Select(it) => {
            let condition = match it.condition.as_int() {
                Some(it) => it,
                None => lane_of(&it.condition, lane)?,
            };
            lane_of(if condition != 0 { &it.true_value } else { &it.false_value }, lane)
        }
        PrimExpr::IntImm(_)
        | PrimExpr::FloatImm(_)
        | PrimExpr::StringImm(_)
        | PrimExpr::Var(_)
        | PrimExpr::Cast(_)
        | PrimExpr::BufferLoad(_)
        | PrimExpr::Shuffle(_)
        | PrimExpr::Let(_)
        | PrimExpr::Call(_) => None,
    }
}
