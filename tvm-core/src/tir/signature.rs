//! The signature of a tensor program as a kernel, on which code generators, the virtual machine and the runtime agree.
//!
//! TVM counterpart: none (there the packed calling convention carries no signature).

use tvm_runtime::{DimSig, KernelSig, ParamKind, ParamSig};

use super::{Buffer, Param, PrimExpr, PrimFunc};
use crate::ir::show::show_dim;

/// The signature of `func` as a kernel named `name`.
pub fn kernel_sig(name: &str, func: &PrimFunc) -> KernelSig {
    let tensor = |buffer: &Buffer, kind| ParamSig {
        name: buffer.name.to_string(),
        kind,
        dtype: buffer.dtype,
        shape: buffer.shape.iter().map(dim_sig).collect(),
    };
    let params = func.params.iter().map(|param| match param {
        Param::In(buffer) => tensor(buffer, ParamKind::In),
        Param::Out(buffer) => tensor(buffer, ParamKind::Out),
        Param::Scalar(var) => ParamSig {
            name: var.name().to_string(),
            kind: ParamKind::Scalar,
            dtype: var.dtype(),
            shape: Vec::new(),
        },
    });
    KernelSig { name: name.to_string(), params: params.collect() }
}

/// The extent `dim` as it appears in a signature.
pub fn dim_sig(dim: &PrimExpr) -> DimSig {
    match (dim.as_int(), dim.as_var()) {
        (Some(value), _) => DimSig::Const(value),
        (None, Some(var)) => DimSig::Var(var.name().to_string()),
        (None, None) => DimSig::Expr(show_dim(dim)),
    }
}
