//! One number for the lanes of a vector, which are combined in halves.

use std::fmt::Write as _;

use tvm_core::tir::{BinaryOp, Intrinsic};
use tvm_runtime::DataType;

use super::expr::scalar_binary;
use super::function::Function;
use super::{not_supported, types};
use crate::CodegenError;

impl Function<'_> {
    /// Returns the helper that combines the lanes of a vector of type `dtype`.
    pub(super) fn reduce_helper(
        &mut self,
        intrinsic: Intrinsic,
        dtype: DataType,
    ) -> Result<String, CodegenError> {
        let unsupported = || format!("`{}` of {dtype}", intrinsic.name());
        let Some(op) = intrinsic.lane_op().filter(|_| dtype.lanes() > 1 && types::carrier(dtype) == dtype)
        else {
            return not_supported(unsupported());
        };
        let Some(last) = scalar_binary(op, dtype.scalar(), "x2[0]", "x2[1]") else {
            return not_supported(unsupported());
        };
        let helper = format!("tvm_{}_{dtype}", intrinsic.name());
        let mut body = String::new();
        let mut lanes = dtype.lanes();
        while lanes > 2 {
            let half = dtype.with_lanes(lanes / 2);
            let (whole_ty, half_ty) = (self.ty(dtype.with_lanes(lanes)), self.ty(half));
            let (lower, upper) = (format!("h{lanes}.at[0]"), format!("h{lanes}.at[1]"));
            let both = match op {
                BinaryOp::Min | BinaryOp::Max => {
                    format!("{}({lower}, {upper})", self.minmax_helper(op, half))
                }
                BinaryOp::Mul => format!("{lower} * {upper}"),
                _ => format!("{lower} + {upper}"),
            };
            let next = lanes / 2;
            let _ = write!(
                body,
                "  union {{ {whole_ty} all; {half_ty} at[2]; }} h{lanes} = {{x{lanes}}};\n  {half_ty} x{next} = {both};\n"
            );
            lanes = next;
        }
        let (ty, scalar, lanes) = (self.ty(dtype), types::scalar(dtype.scalar()), dtype.lanes());
        self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
            format!("TVM_INLINE {scalar} {helper}({ty} x{lanes}) {{\n{body}  return {last};\n}}\n")
        });
        Ok(helper)
    }
}
