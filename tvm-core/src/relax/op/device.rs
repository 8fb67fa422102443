//! Operators that move tensors between devices. The virtual machine executes them.
//!
//! TVM counterpart: `src/relax/op/op.cc` (`to_vdevice`), `RealizeVDevice`.

use tvm_runtime::Device;

use super::def::{required, tensor};
use crate::ir::{AttrKind, Attrs, IrError, MemoryEffect, OpDef, TensorType, Type};

/// `to_vdevice`: a tensor on another device.
pub const TO_VDEVICE: &str = "to_vdevice";

/// `shape_to_tensor`: a vector of the extents of a shape.
pub(crate) const SHAPE_TO_TENSOR: &str = "shape_to_tensor";

/// `shape_of` and `tensor_to_shape`, which the host executes wherever the tensor is.
pub(crate) const SHAPE_OF: &str = "shape_of";
pub(crate) const TENSOR_TO_SHAPE: &str = "tensor_to_shape";

/// Attribute of the call of any operator: the name of the device on which it computes. `RealizePlaces` moves its arguments there.
pub const PLACE: &str = "place";

/// Attribute that names a device: of [`TO_VDEVICE`], and of allocations that are not on the default device.
pub const DEVICE: &str = "device";

/// Table of the operators of this module.
pub(super) static OPS: &[OpDef] = &[OpDef::new(
    TO_VDEVICE,
    "the tensor on another device: itself if it is there, otherwise a copy (Relax `to_vdevice`)",
    |cx| {
        let vdevice = Some(device(cx.op.name, cx.attrs).map_err(|err| err.at(cx.span))?);
        Ok(Type::Tensor(TensorType { vdevice, ..cx.tensor(0)?.clone() }))
    },
)
.args(&[tensor("x")])
.attrs(&[required(DEVICE, AttrKind::Str)])
.memory(MemoryEffect::Forwards)];

/// The device that the attribute [`DEVICE`] of a call of `op` names.
///
/// # Errors
/// When the text is not the name of a device.
pub fn device(op: &str, attrs: &Attrs) -> Result<Device, IrError> {
    let name = attrs.str(DEVICE).unwrap_or_default();
    name.parse().map_err(|err| IrError::new(format!("`{op}`: {err}"), &crate::ir::Span::none()))
}
