//! Signatures of `#[prim_func]`s as constants, so that other items can check against them at compile time.

use tvm_runtime::{DataType, DimSig, KernelSig, ParamKind, ParamSig};

/// The signature of a tensor program.
#[derive(Clone, Copy, Debug)]
pub struct FuncSig {
    /// Name of the program in the module.
    pub name: &'static str,
    /// Parameters in order.
    pub params: &'static [ParamSpec],
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// Name of the parameter.
    pub name: &'static str,
    /// Input, output or scalar.
    pub kind: ParamKind,
    /// Element type, or type of the scalar.
    pub dtype: DataType,
    /// Extents; empty for a scalar.
    pub dims: &'static [DimSpec],
}

/// One extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimSpec {
    /// A constant.
    Const(i64),
    /// A symbolic dimension.
    Var(&'static str),
    /// An expression of symbolic dimensions.
    Expr(&'static str),
}

impl FuncSig {
    /// The signature in the form that the runtime uses.
    pub fn to_kernel_sig(&self) -> KernelSig {
        let dim = |dim: &DimSpec| match dim {
            DimSpec::Const(value) => DimSig::Const(*value),
            DimSpec::Var(name) => DimSig::Var((*name).to_string()),
            DimSpec::Expr(text) => DimSig::Expr((*text).to_string()),
        };
        let params = self.params.iter().map(|param| ParamSig {
            name: param.name.to_string(),
            kind: param.kind,
            dtype: param.dtype,
            shape: param.dims.iter().map(dim).collect(),
        });
        KernelSig { name: self.name.to_string(), params: params.collect() }
    }

    /// Number of output parameters.
    pub const fn num_outputs(&self) -> usize {
        let (mut i, mut res) = (0, 0);
        while i < self.params.len() {
            if matches!(self.params[i].kind, ParamKind::Out) {
                res += 1;
            }
            i += 1;
        }
        res
    }
}
