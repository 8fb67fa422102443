//! The tensor expression language: tensors are defined by the value of each element, and turned into tensor programs.
//!
//! ```
//! use tvm_core::te;
//! use tvm_runtime::DataType;
//!
//! let a = te::placeholder("a", [4.into(), 8.into()], DataType::F32);
//! let k = te::reduce_axis("k", 8);
//! let sum = te::compute("sum", [4.into()], &[&a], |i| te::sum(a.at([i[0].clone(), k.expr()]), &[&k]));
//! let func = te::create_prim_func("row_sum", &[a], &[sum])?;
//! assert_eq!(func.params.len(), 2);
//! # Ok::<(), tvm_core::ir::IrError>(())
//! ```
//!
//! TVM counterpart: `tvm::te` (`te.placeholder`, `te.compute`, `te.reduce_axis`, `te.create_prim_func`).

mod create_prim_func;
mod reduce;
mod tensor;
#[cfg(test)]
mod tests;

pub use create_prim_func::create_prim_func;
pub use reduce::{
    Combiner, Reduce, ReduceAxis, max, max_value, min, min_value, prod, reduce, reduce_axis, sum,
};
pub use tensor::{
    ComputeBody, Routine, Scatter, TensorExpr, compute, compute_many, placeholder, routine, scan, scatter,
};
