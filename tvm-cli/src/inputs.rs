//! The inputs of a model: read from files, or made up.

use std::collections::HashMap;

use tvm_runtime::vm::ValueType;
use tvm_runtime::{DataType, DimSig, Tensor};

use crate::data::{self, Fill, Tensors};
use crate::error::Error;
use crate::model::{Model, Options};

/// Options that say what the inputs are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Inputs {
    /// Reads an input from a .npy or .pb file, or several by name from a .npz file; `-` is standard input. Files without a
    /// name belong to the inputs in order.
    #[arg(long = "input", visible_alias = "inputs", value_name = "[NAME=]FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<String>,
    /// Content of the inputs that are not given.
    #[arg(long)]
    fill: Option<Fill>,
}

/// Extents of symbolic dimensions, by name.
type Extents = HashMap<String, i64>;

impl Inputs {
    /// The inputs of `model`, read or made up. The dimensions of what is made up are those of what is read, or else the least that
    /// `options` allow.
    pub(crate) fn read(&self, model: &Model, options: &Options) -> Result<Vec<Tensor>, Error> {
        self.read_or(self.fill, model, options)
    }

    /// As [`Inputs::read`]; inputs are random if nothing else is said.
    pub(crate) fn read_or_random(&self, model: &Model, options: &Options) -> Result<Vec<Tensor>, Error> {
        self.read_or(self.fill.or(Some(Fill::Random)), model, options)
    }

    fn read_or(&self, fill: Option<Fill>, model: &Model, options: &Options) -> Result<Vec<Tensor>, Error> {
        let params = model.params()?;
        let given = self.given(&params)?;
        let mut extents = options.least_extents();
        for ((_, ty), tensor) in params.iter().zip(&given) {
            if let (ValueType::Tensor { shape: Some(dims), .. }, Some(tensor)) = (ty, tensor) {
                for (dim, &extent) in dims.iter().zip(tensor.shape()) {
                    if let DimSig::Var(name) = dim {
                        extents.insert(name.to_string(), extent);
                    }
                }
            }
        }
        let one = |((name, ty), given): (&(String, ValueType), Option<Tensor>)| match (given, fill) {
            (Some(tensor), _) => Ok(tensor),
            (None, Some(fill)) => made_up(fill, name, ty, &extents),
            (None, None) => {
                let help = format!("give --input {name}=FILE, or --fill");
                Err(Error::usage(format!("input `{name}`: {ty} is missing\n  help: {help}")))
            }
        };
        params.iter().zip(given).map(one).collect()
    }

    /// The inputs that are read from files.
    fn given(&self, params: &[(String, ValueType)]) -> Result<Vec<Option<Tensor>>, Error> {
        let mut given: Vec<Option<Tensor>> = vec![None; params.len()];
        let position = |name: &str| params.iter().position(|(param, _)| param == name);
        let unknown = |name: &str| {
            let names: Vec<&str> = params.iter().map(|(name, _)| &**name).collect();
            Error::usage(format!("`{name}` names no input; the inputs are {}", names.join(", ")))
        };
        for spec in &self.files {
            let named = spec.split_once('=').and_then(|(name, file)| Some((position(name)?, file)));
            if let Some((i, file)) = named {
                let about = |err: Error| err.context(&format!("input `{}`", params[i].0));
                given[i] = Some(data::read(file.as_ref()).map_err(about)?);
                continue;
            }
            if spec.contains('=') {
                return Err(unknown(spec));
            }
            match data::read_any(spec.as_ref())? {
                Tensors::One(tensor) => {
                    let next = given.iter().position(Option::is_none).ok_or_else(|| {
                        Error::usage(format!("{spec}: all {} inputs are given already", params.len()))
                    })?;
                    given[next] = Some(tensor);
                }
                Tensors::Named(arrays) => {
                    for (name, tensor) in arrays {
                        // `numpy.savez` numbers what has no name.
                        let number = name.strip_prefix("arr_").and_then(|it| it.parse().ok());
                        let number = number.filter(|it: &usize| *it < params.len());
                        let i = position(&name).or(number);
                        given[i.ok_or_else(|| unknown(&name).context(spec))?] = Some(tensor);
                    }
                }
            }
        }
        Ok(given)
    }
}

/// Generates an input; dimensions that are not in `extents` become 1.
pub(crate) fn made_up(fill: Fill, name: &str, ty: &ValueType, extents: &Extents) -> Result<Tensor, Error> {
    let ValueType::Tensor { dtype, shape: Some(shape) } = ty else {
        return Err(Error::usage(format!("input `{name}`: {ty} cannot be made up; give it with --input")));
    };
    let extent = |dim: &DimSig| match dim {
        DimSig::Const(extent) => *extent,
        DimSig::Var(name) => extents.get(name).copied().unwrap_or(1),
        DimSig::Expr(_) => 1,
    };
    let shape: Vec<i64> = shape.iter().map(extent).collect();
    data::filled(fill, &shape, dtype.unwrap_or(DataType::F32))
}
