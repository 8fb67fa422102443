//! Tensor intrinsics: small tensor programs with another implementation, which `tensorize` puts in their place.
//!
//! A [`TensorIntrin`] has a description, one nest of loops around stores, and an implementation, which computes the same. The
//! built-in ones (`BUILT_IN`) are written in the operations that all targets have, and code generators choose instructions
//! for them: `f32` (`x86`), bytes (`vnni`, `arm`) and `bf16`. Programs register their own with [`TensorIntrin::register`];
//! nothing is registered before `main`.
//!
//! TVM counterpart: `tir::TensorIntrin`, `tir/tensor_intrin/*.py`.

mod arm;
mod bf16;
mod build;
mod description;
mod implementation;
#[cfg(test)]
mod tests;
mod values;
mod vnni;
mod x86;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, RwLock};

use crate::ir::{IrError, Span};
use crate::support::nearest;
use crate::tir::analysis::well_formed;
use crate::tir::schedule::check_loop_kinds;
use crate::tir::{Buffer, Param, PrimFunc};

pub(in crate::tir) use description::{Found, find};

/// A built-in intrinsic: its name, and what makes its description and its implementation.
type BuiltIn = (&'static str, fn() -> [PrimFunc; 2]);

/// The families of built-in intrinsics.
const BUILT_IN: &[&[BuiltIn]] = &[x86::TABLE, vnni::TABLE, bf16::TABLE, arm::TABLE];

/// A small tensor program and another implementation of it.
///
/// ```
/// # use tvm_core::ir::Var;
/// # use tvm_core::tir::{Buffer, For, Param, PrimExpr, PrimFunc, Stmt, TensorIntrin};
/// # use tvm_core::tir::{Block, BlockRealize};
/// # use tvm_runtime::DataType;
/// # fn double(by: fn(PrimExpr) -> PrimExpr) -> PrimFunc {
/// #     let [x, y] = ["x", "y"].map(|it| Buffer::new(it, [4.into()], DataType::F32));
/// #     let i = Var::index("i");
/// #     let body = For::serial(i.clone(), 4, Stmt::store(&y, [(&i).into()], by(x.load([(&i).into()])))).into();
/// #     let body = BlockRealize::opaque(Block::root(vec![], body));
/// #     PrimFunc::new("double", [Param::In(x), Param::Out(y)], body)
/// # }
/// # let (desc, imp) = (double(|x| x * 2), double(|x| x.clone() + x));
/// TensorIntrin::new("double_4", desc, imp)?.register()?;
/// let double = TensorIntrin::get("double_4")?;
/// double.check_values(1)?;
/// # Ok::<(), tvm_core::ir::IrError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorIntrin {
    name: Arc<str>,
    desc: PrimFunc,
    imp: PrimFunc,
}

type Registry = RwLock<BTreeMap<Arc<str>, Arc<TensorIntrin>>>;

/// The intrinsics that users registered.
fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::default)
}

fn built_in() -> impl Iterator<Item = &'static BuiltIn> {
    BUILT_IN.iter().flat_map(|table| table.iter())
}

impl TensorIntrin {
    /// An intrinsic of a description and its implementation. That they compute the same is the promise of the caller, as far as
    /// [`check_values`](Self::check_values) does not see otherwise; sums of floats may be rounded in another way.
    ///
    /// # Errors
    /// When the parameters of the two differ, in number, kind, type or shape, or are not buffers of constant shape; when the
    /// description is not one nest of serial loops of constant extents around stores, which touches all elements of its buffers;
    /// when the implementation runs on several threads, or does more with its parameters than to load and store elements.
    pub fn new(name: impl Into<Arc<str>>, desc: PrimFunc, imp: PrimFunc) -> Result<TensorIntrin, IrError> {
        let name = name.into();
        let refuse = |why: String| IrError::new(format!("tensor intrinsic `{name}`: {why}"), &Span::none());
        for func in [&desc, &imp] {
            well_formed(func)?;
            check_loop_kinds(func, false)?;
            if let Some(param) = func.params.iter().find(|it| !is_constant(it)) {
                return Err(refuse(format!("parameter `{}` is no buffer of constant shape", param.name())));
            }
        }
        check_signatures(&desc, &imp).map_err(refuse)?;
        description::check(&desc).map_err(|why| refuse(format!("the description {why}")))?;
        implementation::check(&imp).map_err(|why| refuse(format!("the implementation {why}")))?;
        Ok(TensorIntrin { name, desc, imp })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it computes.
    pub fn desc(&self) -> &PrimFunc {
        &self.desc
    }

    /// How it computes it.
    pub fn imp(&self) -> &PrimFunc {
        &self.imp
    }

    /// Makes the intrinsic known by its name, until the process ends.
    ///
    /// # Errors
    /// When an intrinsic of this name is known already.
    pub fn register(self) -> Result<(), IrError> {
        let mut known = registry().write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if known.contains_key(&self.name) || built_in().any(|(name, _)| *name == &*self.name) {
            let why = format!("tensor intrinsic `{}` is registered already", self.name);
            return Err(IrError::new(why, &Span::none()));
        }
        known.insert(self.name.clone(), Arc::new(self));
        Ok(())
    }

    /// The intrinsic of this name.
    ///
    /// # Errors
    /// When there is none; the help text suggests the nearest name.
    pub fn get(name: &str) -> Result<Arc<TensorIntrin>, IrError> {
        let own = registry().read().unwrap_or_else(|poisoned| poisoned.into_inner()).get(name).cloned();
        if let Some(own) = own {
            return Ok(own);
        }
        if let Some((name, make)) = built_in().find(|(it, _)| *it == name) {
            let [desc, imp] = make();
            return TensorIntrin::new(*name, desc, imp).map(Arc::new);
        }
        let names = TensorIntrin::names();
        let err = IrError::new(format!("unknown tensor intrinsic `{name}`"), &Span::none());
        Err(match nearest(name, names.iter().map(|it| &**it)) {
            Some(near) => err.help(format!("did you mean `{near}`?")),
            None => err.help(format!("the intrinsics are {}", names.join(", "))),
        })
    }

    /// The names of all intrinsics, in order.
    pub fn names() -> Vec<Arc<str>> {
        let own = registry().read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut names: Vec<Arc<str>> = own.keys().cloned().collect();
        names.extend(built_in().map(|(name, _)| Arc::from(*name)));
        names.sort();
        names
    }
}

fn is_constant(param: &Param) -> bool {
    param
        .buffer()
        .is_some_and(|it| it.const_shape().is_some() && it.strides.is_empty() && it.elem_offset.is_none())
}

fn check_signatures(desc: &PrimFunc, imp: &PrimFunc) -> Result<(), String> {
    let [a, b] = [desc, imp].map(|it| it.params.len());
    if a != b {
        return Err(format!("the description has {a} parameters, the implementation {b}"));
    }
    if a == 0 {
        return Err("it has no parameters".into());
    }
    for (i, (a, b)) in desc.params.iter().zip(imp.params.iter()).enumerate() {
        let [what, of_imp] = [a, b].map(describe);
        if what != of_imp {
            return Err(format!(
                "parameter {i} is {what} in the description, {of_imp} in the implementation"
            ));
        }
    }
    Ok(())
}

/// Kind, type and shape of a parameter.
fn describe(param: &Param) -> String {
    let kind = match param {
        Param::In(_) => "an input",
        Param::Out(_) => "an output",
        Param::Scalar(_) => "a scalar",
    };
    let of = |it: &Buffer| format!(" of {} {:?}", it.dtype, it.const_shape().unwrap_or_default());
    format!("{kind}{}", param.buffer().map(of).unwrap_or_default())
}
