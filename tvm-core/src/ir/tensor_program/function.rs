//! Tensor programs.
//!
//! TVM counterpart: `tir::PrimFunc`.

use std::sync::Arc;

use super::{Buffer, Stmt};
use crate::ir::{Attrs, Span, Var};

/// Attribute of a program that runs on the host although the target of its module is a GPU.
pub const ON_HOST: &str = "on_host";

/// A tensor program in destination-passing style.
#[derive(Clone, Debug)]
pub struct PrimFunc {
    /// Name hint; the unique name is the module's `GlobalVar`.
    pub name: Arc<str>,
    /// Parameters; variables in the shapes of buffers bind on first use, in order.
    pub params: Arc<[Param]>,
    /// The body. Before lowering, it is the `BlockRealize` of a root block.
    pub body: Stmt,
    /// Attributes.
    pub attrs: Attrs,
    /// Where it was written.
    pub span: Span,
}

/// One parameter of a tensor program.
#[derive(Clone, Debug)]
pub enum Param {
    /// A buffer that is read.
    In(Buffer),
    /// A buffer that is written, and may be read (`&mut`).
    Out(Buffer),
    /// A scalar.
    Scalar(Var),
}

impl Param {
    /// The buffer, if it is one.
    pub fn buffer(&self) -> Option<&Buffer> {
        match self {
            Param::In(buffer) | Param::Out(buffer) => Some(buffer),
            Param::Scalar(_) => None,
        }
    }

    /// Name hint of the buffer or variable.
    pub fn name(&self) -> &str {
        match self {
            Param::In(buffer) | Param::Out(buffer) => &buffer.name,
            Param::Scalar(var) => var.name(),
        }
    }
}

impl PrimFunc {
    /// A tensor program with these parts, without attributes and span.
    pub fn new(name: impl Into<Arc<str>>, params: impl Into<Arc<[Param]>>, body: Stmt) -> PrimFunc {
        PrimFunc { name: name.into(), params: params.into(), body, attrs: Attrs::new(), span: Span::none() }
    }

    /// True if the program runs on the host, whatever the target of its module is.
    pub fn is_on_host(&self) -> bool {
        self.attrs.bool(ON_HOST) == Some(true)
    }

    /// Buffers that are read only, in order.
    pub fn inputs(&self) -> impl Iterator<Item = &Buffer> {
        self.params.iter().filter_map(|param| if let Param::In(buffer) = param { Some(buffer) } else { None })
    }

    /// Buffers that are written, in order.
    pub fn outputs(&self) -> impl Iterator<Item = &Buffer> {
        self.params
            .iter()
            .filter_map(|param| if let Param::Out(buffer) = param { Some(buffer) } else { None })
    }

    /// Symbolic dimensions in order of binding: variables, other than scalar parameters, that are a whole extent of a
    /// parameter.
    pub fn symbolic_dims(&self) -> Vec<Var> {
        let mut dims: Vec<Var> = Vec::new();
        for extent in self.params.iter().filter_map(Param::buffer).flat_map(|buffer| buffer.shape.iter()) {
            if let Some(var) = extent.as_var()
                && !dims.contains(var)
                && !self.params.iter().any(|param| matches!(param, Param::Scalar(scalar) if scalar == var))
            {
                dims.push(var.clone());
            }
        }
        dims
    }

    /// Variables that have one value in the whole body: scalars, and symbolic dimensions in order of binding.
    pub fn param_vars(&self) -> Vec<Var> {
        let scalars = self.params.iter().filter_map(|param| match param {
            Param::Scalar(var) => Some(var.clone()),
            Param::In(_) | Param::Out(_) => None,
        });
        scalars.chain(self.symbolic_dims()).collect()
    }
}
