//! Programs whose kernels run on a device: code for the device, and what the host does to launch it.
//!
//! A compiler gives the code ([`DeviceImage`]) and a function that plans a call ([`DeviceProgram`]), which it has as data
//! ([`HostProgram`]). The plan depends on the
//! shapes and scalars of the call alone ([`LaunchPlan`]). The runtime loads the code when a kernel is first called on a
//! device, allocates the memory that the plan lists, launches the kernels in order, and reads back what they report.
//!
//! TVM counterpart: `CUDAModuleNode`, `CUDAWrappedFunc`, `LaunchParamConfig`.

mod arch;
mod host;
mod number;
mod plan;
mod plans;
mod program;

pub(crate) use arch::{choose_code, gpu_arch};
pub use host::{HostInstr, HostParam, HostProgram, HostQuery, HostReg};
pub use number::{HostOp, float_to_int, wide_int, wrap_int};
pub use plan::{Argument, KernelFailure, LaunchArg, LaunchError, LaunchPlan, Step};
pub(crate) use program::Choice;
pub use program::{CodeFormat, DeviceImage, DeviceProgram};
