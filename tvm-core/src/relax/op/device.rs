//! Operators that move tensors between devices. The virtual machine executes them.
//!
//! TVM counterpart: `src/relax/op/op.cc` (`to_vdevice`), `RealizeVDevice`.

use tvm_runtime::Device;

use super::def::{required, tensor};
use crate::ir::{AttrKind, Attrs, IrError, MemoryEffect, OpDef, TensorType, Type};

/// `to_vdevice`: a tensor on another device.
pub const TO_VDEVICE: &str = "to_vdevice";

/// Table of the operators of this module.
pub(super) static OPS: &[OpDef] = &[OpDef::new(
    TO_VDEVICE,
    "the tensor on another device: itself if it is there, otherwise a copy (Relax `to_vdevice`)",
    |cx| {
        let vdevice = Some(device(cx.attrs).map_err(|err| err.at(cx.span))?);
        Ok(Type::Tensor(TensorType { vdevice, ..cx.tensor(0)?.clone() }))
    },
)
.args(&[tensor("x")])
.attrs(&[required("device", AttrKind::Str)])
.memory(MemoryEffect::Forwards)];

/// The device that a call of [`TO_VDEVICE`] names.
///
/// # Errors
/// When the text is not the name of a device.
pub fn device(attrs: &Attrs) -> Result<Device, IrError> {
    let name = attrs.str("device").unwrap_or_default();
    name.parse().map_err(|err| IrError::new(format!("`{TO_VDEVICE}`: {err}"), &crate::ir::Span::none()))
}
