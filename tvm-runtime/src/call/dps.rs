//! Calls of packed functions in destination-passing style, for the virtual machine.
//!
//! The invariant for outputs is that of kernels (see `values`): the memory belongs to the current run alone.
#![allow(
    unsafe_code,
    reason = "lends memory of the current run for writing; each block says why it is sound"
)]

use std::ops::Range;

use smallvec::SmallVec;

use crate::error::RuntimeError;
use crate::host_arg::TensorViewMut;
use crate::packed::PackedFunc;
use crate::tensor::Tensor;
use crate::value::Value;

impl PackedFunc {
    /// Calls the function `name` for run number `writer` of a virtual machine. Memory inside nested inputs (data types,
    /// closures, cells) has lost the right to be written to.
    pub(crate) fn fill(
        &self,
        name: &str,
        inputs: &[Value],
        outputs: &[Tensor],
        writer: u64,
    ) -> Result<(), RuntimeError> {
        let span = |tensor: &Tensor| {
            let start = tensor.data_ptr().addr();
            start..start.wrapping_add(tensor.byte_len())
        };
        let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let inputs_at = inputs.iter().filter_map(Value::as_tensor).map(span);
        let mut used: SmallVec<[(Range<usize>, String); 8]> =
            inputs_at.enumerate().map(|(i, it)| (it, format!("input {i}"))).collect();
        for (i, output) in outputs.iter().enumerate() {
            let (storage, arg) = (output.storage(), format!("output {i}"));
            output.bytes()?;
            if storage.writer() != writer || !storage.is_writable() {
                let reason = "its memory was not allocated by this run, or was handed out";
                return Err(RuntimeError::ArgReadOnly { func: name.into(), arg: arg.into(), reason });
            }
            let at = span(output);
            if let Some((_, other)) = used.iter().find(|(other, _)| overlap(other, &at)) {
                let (func, other) = (name.into(), other.as_str().into());
                return Err(RuntimeError::ArgOverlap { func, arg: arg.into(), other });
            }
            used.push((at, arg));
        }
        // SAFETY: the memory was allocated by this run and not handed out; no input and no other output overlaps it.
        let views = outputs.iter().map(|output| unsafe { TensorViewMut::lent(output) });
        let mut views: SmallVec<[TensorViewMut<'_>; 4]> = views.collect::<Result<_, _>>()?;
        let res = self.call_into(inputs, &mut views);
        views.iter_mut().for_each(TensorViewMut::normalise);
        res
    }
}
