//! A call of a graph function on a GPU that is done again as one launch, with other contents of the same inputs.
//!
//! Requires, which the recorded run checks, that the host decides nothing by what the device computes. Ensures that the recorded work
//! finds the memory it was recorded with, which is its own.
#![allow(unsafe_code, reason = "launches recorded work; the block says why it is sound")]

use std::sync::Arc;

use crate::device::{Device, Graph, record};
use crate::error::RuntimeError;
use crate::tensor::Tensor;
use crate::value::{Adt, Value};
use crate::vm::{CaptureLog, Vm, Workspace};

/// Recorded work with all that has the memory which it uses: what the run allocated and freed belongs to the recording.
pub(crate) struct Replay {
    // The first to be dropped: waits for the work.
    graph: Graph,
    log: CaptureLog,
    result: Value,
    /// The rest of what the run allocated.
    _workspace: Workspace,
    /// Has the constants and the code.
    _vm: Arc<Vm>,
}

impl Replay {
    /// Calls the function `name` with copies of `args` on `device`, and records that. The work is done in the stream of `workspace`, when
    /// it is recorded and in each run.
    ///
    /// # Errors
    /// When the call fails, cannot be captured, or the device cannot be used.
    pub(crate) fn record(
        vm: &Arc<Vm>,
        mut workspace: Workspace,
        name: &str,
        args: &[Value],
        device: Device,
    ) -> Result<Replay, RuntimeError> {
        let mut log = CaptureLog::default();
        let inputs =
            args.iter().map(|arg| copy(arg, device, &mut log.inputs)).collect::<Result<Vec<_>, _>>()?;
        let run = || vm.invoke_captured(&mut workspace, &mut log, name, &inputs);
        let (result, recording) = record(device, run)?;
        // A kernel that fails, fails here.
        device.synchronize()?;
        let graph = Graph::new(recording)?;
        Ok(Replay { graph, log, result, _workspace: workspace, _vm: vm.clone() })
    }

    /// Does the work for other contents of the inputs, which have the types and shapes of those before. The result is that of the last
    /// run; it is not waited for. The thread runs a call in a workspace beside that of [`Replay::record`].
    ///
    /// # Errors
    /// When an index is out of range, or the device cannot be used.
    pub(crate) fn run(&mut self, inputs: &[Tensor]) -> Result<&Value, RuntimeError> {
        self.log.check(inputs)?;
        for (from, to) in inputs.iter().zip(&self.log.inputs) {
            from.copy_into(to)?;
        }
        // SAFETY: the recording has the memory that the run allocated and freed, and the fields here have all other: the workspace and
        // the result what the run left, the log its inputs, and the virtual machine constants and code. Nobody else gets a handle to
        // these, but to constants, which are only read. The work was recorded in the stream in which it is done again, and the inputs
        // and the result are marked by their copies. The graph is dropped first, and waits for the work.
        unsafe { self.graph.launch()? };
        Ok(&self.result)
    }

    /// Number of launches and copies.
    pub(crate) fn len(&self) -> usize {
        self.graph.len()
    }
}

/// A copy of a value whose tensors are on `device`; they are added to `tensors`, from left to right.
fn copy(value: &Value, device: Device, tensors: &mut Vec<Tensor>) -> Result<Value, RuntimeError> {
    Ok(match value {
        Value::Tensor(tensor) => {
            let tensor = tensor.deep_copy(device)?;
            tensors.push(tensor.clone());
            tensor.into()
        }
        Value::Adt(tuple) => {
            let fields = tuple.fields().iter().map(|it| copy(it, device, tensors));
            Adt::new(tuple.tag(), fields.collect::<Result<Vec<_>, _>>()?).into()
        }
        other => other.clone(),
    })
}
