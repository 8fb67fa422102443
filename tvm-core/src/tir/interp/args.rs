//! Arguments: checks them against the parameters, binds scalars and symbolic dimensions, borrows the tensors' memory.

use std::sync::Arc;

use tvm_runtime::{DataType, Device, DimBound, RuntimeError, Value};

use super::machine::{Dim, Handle, IntFn, Machine, Mem, Packed};
use super::stmt::{Compiler, compact, scalar_kind};
use super::{InterpError, InterpErrorKind, Program};
use crate::ir::Var;
use crate::tir::{Param, PrimFunc, dim_sig, wrap_int};

/// One parameter.
pub(super) struct ParamCode {
    name: Arc<str>,
    kind: Kind,
}

enum Kind {
    /// The whole argument list.
    Packed,
    Scalar {
        slot: usize,
        dtype: DataType,
        bound: Option<DimBound>,
    },
    Tensor {
        view: usize,
        write: bool,
        dtype: DataType,
        /// Per axis, the slot of the variable that the extent binds, and the variable, if any.
        binds: Vec<Option<(usize, Var)>>,
        /// Per axis, the expected extent (computed once all variables are bound) and its label for messages.
        checks: Vec<(IntFn, Option<Arc<str>>)>,
    },
}

impl Compiler {
    /// Compiles the parameters of `func` in two rounds: first, each extent that is a variable binds it at its first
    /// occurrence; then all extents are compiled.
    pub(super) fn params(&mut self, func: &PrimFunc) -> Result<Vec<ParamCode>, InterpError> {
        self.span = func.span.clone();
        let mut res = Vec::new();
        for param in func.params.iter() {
            if let Param::Scalar(var) = param {
                let kind = if var.dtype().is_handle() {
                    self.new_handle(var);
                    Kind::Packed
                } else {
                    Kind::Scalar { slot: self.new_slot(var), dtype: var.dtype(), bound: var.bound() }
                };
                res.push(ParamCode { name: var.name().into(), kind });
                continue;
            }
            let buffer = param.buffer().expect("a parameter is a scalar or a buffer");
            let binds = buffer
                .shape
                .iter()
                .map(|extent| {
                    let var = extent.as_var().filter(|var| !self.is_bound(var))?;
                    let scalar = |it: &Param| matches!(it, Param::Scalar(scalar) if scalar == var);
                    (!func.params.iter().any(scalar)).then(|| (self.new_slot(var), var.clone()))
                })
                .collect();
            let kind = Kind::Tensor {
                view: self.new_view(buffer),
                write: matches!(param, Param::Out(_)),
                dtype: buffer.dtype,
                binds,
                checks: Vec::new(),
            };
            res.push(ParamCode { name: buffer.name.clone(), kind });
        }
        for (code, param) in res.iter_mut().zip(func.params.iter()) {
            let (Kind::Tensor { checks, .. }, Some(buffer)) = (&mut code.kind, param.buffer()) else {
                continue;
            };
            for extent in buffer.shape.iter() {
                checks.push((self.int(extent)?, dim_sig(extent).label()));
            }
        }
        Ok(res)
    }
}

impl Program {
    /// Checks `args` and stores them in `m`.
    pub(super) fn bind<'a>(&self, m: &mut Machine<'a>, args: &'a mut [Value]) -> Result<(), InterpError> {
        let func = || self.name.clone();
        if let [ParamCode { kind: Kind::Packed, .. }, rest @ ..] = self.params.as_slice() {
            return self.bind_packed(m, rest, args);
        }
        if args.len() != self.params.len() {
            let (expected, got) = (self.params.len(), args.len());
            return Err(RuntimeError::ArgCount { func: func(), expected, got }.into());
        }
        let mut shapes = Vec::new();
        for (param, arg) in self.params.iter().zip(args) {
            let name = || param.name.clone();
            match &param.kind {
                Kind::Packed => return Err(self.arg_kind(&param.name, "the only parameter", arg)),
                Kind::Scalar { slot, dtype, bound } => {
                    m.slots[*slot] = match arg {
                        Value::Int(value) if !dtype.is_float() => wrap_int(i128::from(*value), *dtype),
                        Value::Float(value) if dtype.is_float() => {
                            super::math::round_to(*value, *dtype).to_bits() as i64
                        }
                        _ => return Err(self.arg_kind(&param.name, scalar_kind(*dtype), arg)),
                    };
                    self.check_bound(*bound, param, None, &param.name, m.slots[*slot])?;
                }
                Kind::Tensor { view, write, dtype, binds, .. } => {
                    let (got, shape) = self.tensor(arg, &param.name)?;
                    if got != *dtype {
                        let (expected, got) = (*dtype, got.to_string().into());
                        return Err(
                            RuntimeError::ArgDType { func: func(), arg: name(), expected, got }.into()
                        );
                    }
                    if shape.len() != binds.len() {
                        let (expected, got) = (binds.len() as i64, shape.len() as i64);
                        return Err(RuntimeError::ArgRank { func: func(), arg: name(), expected, got }.into());
                    }
                    for (axis, (bind, &extent)) in binds.iter().zip(&shape).enumerate() {
                        if let Some((slot, var)) = bind {
                            m.slots[*slot] = extent;
                            self.check_bound(var.bound(), param, Some(axis as i64), var.name(), extent)?;
                        }
                    }
                    let Value::Tensor(tensor) = arg else { continue };
                    m.views[*view].at = Handle { mem: m.mems.len(), byte: 0 };
                    m.mems.push(if *write {
                        Mem::Write(tensor.bytes_mut()?)
                    } else {
                        Mem::Read(tensor.bytes()?)
                    });
                    m.views[*view].dims = shape.iter().map(|&extent| Dim { extent, stride: 0 }).collect();
                    compact(&mut m.views[*view].dims, dtype.bytes() as i64);
                    shapes.push((param, shape));
                }
            }
        }
        shapes.iter().try_for_each(|(param, shape)| self.check_extents(m, param, shape))
    }

    fn check_bound(
        &self,
        bound: Option<DimBound>,
        param: &ParamCode,
        axis: Option<i64>,
        dim: &str,
        got: i64,
    ) -> Result<(), InterpError> {
        let Some(bound) = bound.filter(|it| !it.contains(got)) else { return Ok(()) };
        let (func, arg, dim) = (self.name.clone(), param.name.clone(), dim.into());
        Err(RuntimeError::ArgBound { func, arg, axis, dim, expected: bound.to_string().into(), got }.into())
    }

    fn check_extents(
        &self,
        m: &mut Machine<'_>,
        param: &ParamCode,
        shape: &[i64],
    ) -> Result<(), InterpError> {
        let Kind::Tensor { checks, .. } = &param.kind else { return Ok(()) };
        for (axis, ((check, dim), &got)) in checks.iter().zip(shape).enumerate() {
            let expected = check(m).map_err(|_| InterpErrorKind::StepLimit)?;
            if expected != got {
                let (func, arg) = (self.name.clone(), param.name.clone());
                let (axis, dim) = (axis as i64, dim.clone());
                return Err(RuntimeError::ArgExtent { func, arg, axis, expected, got, dim }.into());
            }
        }
        Ok(())
    }

    /// Stores the arguments of a packed function; `rest` are the parameters after the argument list.
    fn bind_packed<'a>(
        &self,
        m: &mut Machine<'a>,
        rest: &[ParamCode],
        args: &'a mut [Value],
    ) -> Result<(), InterpError> {
        if let [ParamCode { kind: Kind::Scalar { slot, .. }, .. }, ..] = rest {
            // The number of arguments, as in the kernel ABI.
            m.slots[*slot] = args.len() as i64;
        }
        for (i, arg) in args.iter_mut().enumerate() {
            let packed = match arg {
                Value::Int(value) => Packed::Int(*value),
                Value::Float(value) => Packed::Float(*value),
                arg => {
                    let (dtype, shape) = self.tensor(arg, &format!("#{i}").into())?;
                    let Value::Tensor(tensor) = arg else { continue };
                    m.mems.push(Mem::Write(tensor.bytes_mut()?));
                    Packed::Tensor { mem: m.mems.len() - 1, dtype, shape }
                }
            };
            m.packed.push(packed);
        }
        Ok(())
    }

    /// Element type and shape of `arg`, which must be a tensor on the host.
    fn tensor(&self, arg: &Value, name: &Arc<str>) -> Result<(DataType, Vec<i64>), InterpError> {
        match arg {
            Value::Tensor(tensor) if tensor.device() == Device::cpu() => {
                Ok((tensor.dtype(), tensor.shape().to_vec()))
            }
            _ => Err(self.arg_kind(name, "a tensor on the host", arg)),
        }
    }

    fn arg_kind(&self, name: &Arc<str>, expected: &str, got: &Value) -> InterpError {
        RuntimeError::ArgKind {
            func: self.name.clone(),
            arg: name.clone(),
            expected: expected.into(),
            got: got.kind().into(),
        }
        .into()
    }
}
