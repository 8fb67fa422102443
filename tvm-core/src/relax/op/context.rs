//! Helpers for type inference and legalisation: the tensors, axes and attributes of a call, and errors about it.

use tvm_runtime::DataType;

use crate::ir::{InferContext, IrError, LegalizeContext, TensorShape, TensorType, Type};
use crate::relax::Arg;
use crate::relax::analysis::{differ, prove_equal, show_dim, show_dims, show_type};
use crate::te;
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi::Operand;

impl<'a> InferContext<'a> {
    /// An error about this call: `message` after the operator's name, at the call's span.
    pub fn error(&self, message: impl AsRef<str>) -> IrError {
        IrError::new(format!("`{}`: {}", self.op.name, message.as_ref()), self.span)
    }

    /// The tensor type of argument `i`.
    ///
    /// # Errors
    /// When there is no such argument, or it is not a tensor.
    pub fn tensor(&self, i: usize) -> Result<&'a TensorType, IrError> {
        let ty = self.types.get(i).ok_or_else(|| self.error(format!("argument {i} is missing")))?;
        ty.as_tensor().ok_or_else(|| self.error(format!("argument {i} is a tensor, got {}", show_type(ty))))
    }

    /// The types of all tensors among the arguments, those in tuples included.
    pub fn tensors(&self) -> Vec<&'a TensorType> {
        tensors(self.types)
    }

    /// The values of shape argument `i`, when known.
    pub fn shape(&self, i: usize) -> Option<&'a [PrimExpr]> {
        if let Type::Shape(shape) = self.types.get(i)? { shape.values.as_deref() } else { None }
    }

    /// The extents of argument `i`, which must have rank `ndim`; `None` when they are not all known.
    ///
    /// # Errors
    /// When the argument is not a tensor or is known to have another rank.
    pub fn dims(&self, i: usize, ndim: usize) -> Result<Option<&'a [PrimExpr]>, IrError> {
        let ty = self.tensor(i)?;
        match ty.ndim() {
            Some(got) if got != ndim => Err(self.error(format!(
                "argument `{}` has rank {ndim}, got {}",
                self.op.args[i].name,
                show_type(&self.types[i])
            ))),
            _ => Ok(ty.known_shape()),
        }
    }

    /// The common element type of the tensor arguments; `None` when one of their element types is unknown.
    ///
    /// # Errors
    /// When two tensors have different element types.
    pub fn same_dtype(&self) -> Result<Option<DataType>, IrError> {
        let tensors = self.tensors();
        let mut known: Option<DataType> = None;
        for dtype in tensors.iter().filter_map(|it| it.dtype) {
            if *known.get_or_insert(dtype) != dtype {
                let list: Vec<String> =
                    tensors.iter().map(|it| show_type(&Type::Tensor((*it).clone()))).collect();
                let message = format!("the arguments have different element types: {}", list.join(", "));
                return Err(self.error(message).help("convert one with `astype`"));
            }
        }
        Ok(if tensors.iter().all(|it| it.dtype.is_some()) { known } else { None })
    }

    /// `axis` as an index into `ndim` axes; a negative `axis` counts from the end.
    ///
    /// # Errors
    /// When there is no such axis.
    pub fn axis(&self, axis: i64, ndim: usize) -> Result<usize, IrError> {
        let n = ndim as i64;
        if (-n..n).contains(&axis) {
            return Ok(axis.rem_euclid(n) as usize);
        }
        Err(self.error(format!("axis {axis} is outside of a tensor of rank {ndim}")))
    }

    /// The axes of attribute `name` in increasing order; all `ndim` axes when the attribute is not set.
    ///
    /// # Errors
    /// When one does not exist or is named twice.
    pub fn axes(&self, name: &str, ndim: usize) -> Result<Vec<usize>, IrError> {
        let Some(given) = self.attrs.int_list(name) else { return Ok((0..ndim).collect()) };
        let mut axes = given.iter().map(|&axis| self.axis(axis, ndim)).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        if axes.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(self.error(format!("attribute `{name}` names an axis twice: {given:?}")));
        }
        Ok(axes)
    }

    /// Attribute `name` as `n` integers. A single integer is repeated `n` times, as is `default` when there is none.
    ///
    /// # Errors
    /// When the attribute has neither one nor `n` integers.
    pub fn ints(&self, name: &str, n: usize, default: i64) -> Result<Vec<i64>, IrError> {
        match self.attrs.int_list(name) {
            None => Ok(vec![default; n]),
            Some(it) if it.len() == n => Ok(it),
            Some(it) if it.len() == 1 => Ok(vec![it[0]; n]),
            Some(it) => {
                Err(self.error(format!("attribute `{name}` is {n} integers, got {}: {it:?}", it.len())))
            }
        }
    }

    /// The float attribute `name`; `default` when it is not set.
    pub fn float(&self, name: &str, default: f64) -> f64 {
        self.attrs.float(name).unwrap_or(default)
    }

    /// The shape that `shapes` broadcast to by NumPy's rules.
    ///
    /// # Errors
    /// When two known extents do not broadcast to one.
    pub fn broadcast(&self, shapes: &[&TensorShape]) -> Result<TensorShape, IrError> {
        let mut res = TensorShape::Known([].into());
        for shape in shapes {
            res = self.broadcast_two(&res, shape)?;
        }
        Ok(res)
    }

    fn broadcast_two(&self, a: &TensorShape, b: &TensorShape) -> Result<TensorShape, IrError> {
        let rank = |shape: &TensorShape| match shape {
            TensorShape::Known(dims) => Some(dims.len()),
            TensorShape::Rank(ndim) => Some(*ndim),
            TensorShape::Unknown => None,
        };
        match (a, b) {
            (TensorShape::Known(x), TensorShape::Known(y)) => match broadcast_dims(x, y) {
                Ok(dims) => Ok(TensorShape::Known(dims.into())),
                Err((p, q)) => Err(self
                    .error(format!(
                        "shapes {} and {} do not broadcast: {} against {}",
                        show_dims(x),
                        show_dims(y),
                        show_dim(&p),
                        show_dim(&q)
                    ))
                    .help("extents must be equal, or one of them 1, counted from the last axis")),
            },
            _ => Ok(match (rank(a), rank(b)) {
                (Some(p), Some(q)) => TensorShape::Rank(p.max(q)),
                (None, _) | (_, None) => TensorShape::Unknown,
            }),
        }
    }
}

/// The extents that `a` and `b` broadcast to. Only the constant 1 is broadcast: a symbolic extent is assumed to be equal to
/// the extent that it meets, unless they are proved to differ.
///
/// # Errors
/// Two extents that do not broadcast to one.
pub fn broadcast_dims(a: &[PrimExpr], b: &[PrimExpr]) -> Result<Vec<PrimExpr>, (PrimExpr, PrimExpr)> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let (leading, matched) = long.split_at(long.len() - short.len());
    let mut dims = leading.to_vec();
    for (x, y) in matched.iter().zip(short) {
        if y.is_const(1) || prove_equal(x, y) {
            dims.push(x.clone());
        } else if x.is_const(1) {
            dims.push(y.clone());
        } else if x.as_int().is_some() && y.as_int().is_some() {
            return Err(if a.len() >= b.len() { (x.clone(), y.clone()) } else { (y.clone(), x.clone()) });
        } else if differ(x, y) {
            // `n` and `n + 1` fit only when one of them is 1, which no caller intends.
            return Err((x.clone(), y.clone()));
        } else {
            dims.push(if y.as_int().is_some() { y.clone() } else { x.clone() });
        }
    }
    Ok(dims)
}

fn tensors(types: &[Type]) -> Vec<&TensorType> {
    let mut found = Vec::new();
    for ty in types {
        let fields = if let Type::Tuple(fields) = ty { &**fields } else { std::slice::from_ref(ty) };
        found.extend(fields.iter().filter_map(Type::as_tensor));
    }
    found
}

impl<'a> LegalizeContext<'a> {
    /// The context of type inference for the same call.
    pub fn infer(&self) -> InferContext<'a> {
        InferContext { op: self.op, args: self.args, types: self.types, attrs: self.attrs, span: self.span }
    }

    /// One placeholder for each tensor among the arguments, those in tuples included.
    ///
    /// # Errors
    /// When the shape or element type of one is not known.
    pub fn inputs(&self) -> Result<Vec<te::TensorExpr>, IrError> {
        let tensors = tensors(self.types);
        let input = |(i, ty): (usize, &&TensorType)| {
            let name = if self.op.args.len() == tensors.len() {
                self.op.args[i].name.to_string()
            } else {
                format!("x{i}")
            };
            match (ty.known_shape(), ty.dtype) {
                (Some(shape), Some(dtype)) => Ok(te::placeholder(&name, shape.to_vec(), dtype)),
                (None, _) | (_, None) => {
                    Err(self.infer().error("the shape or element type of an argument is not known"))
                }
            }
        };
        tensors.iter().enumerate().map(input).collect()
    }

    /// The operands of an element-wise operator: the values of scalar arguments, and `inputs` in order for all others.
    pub fn operands(&self, inputs: &[te::TensorExpr]) -> Vec<Operand> {
        let mut inputs = inputs.iter();
        (self.args.iter())
            .filter_map(|arg| match arg {
                Arg::Prim(value) => Some(Operand::Scalar(value.clone())),
                _ => inputs.next().cloned().map(Operand::Tensor),
            })
            .collect()
    }

    /// Types of the result tensors.
    pub fn outputs(&self) -> Vec<&'a TensorType> {
        tensors(std::slice::from_ref(self.out))
    }

    /// Extents of result `i`.
    ///
    /// # Errors
    /// When they are not known.
    pub fn out_shape(&self, i: usize) -> Result<&'a [PrimExpr], IrError> {
        let known = self.outputs().get(i).and_then(|ty| ty.known_shape());
        known.ok_or_else(|| self.infer().error("the shape of the result is not known"))
    }

    /// Element type of result `i`.
    ///
    /// # Errors
    /// When it is not known.
    pub fn out_dtype(&self, i: usize) -> Result<DataType, IrError> {
        let known = self.outputs().get(i).and_then(|ty| ty.dtype);
        known.ok_or_else(|| self.infer().error("the element type of the result is not known"))
    }

    /// The tensor program that computes `outputs` from `inputs`, named after the operator without its family (`nn.`).
    ///
    /// # Errors
    /// When a stage reads a tensor that is neither in `inputs` nor declared by the stage.
    pub fn finish(&self, inputs: &[te::TensorExpr], outputs: &[te::TensorExpr]) -> Result<PrimFunc, IrError> {
        let name = self.op.name.rsplit('.').next().unwrap_or(self.op.name);
        let func = te::create_prim_func(name, inputs, outputs)?;
        Ok(PrimFunc { span: self.span.clone(), ..func })
    }
}

/// The tensor program of a call with one result, which `f` computes from the inputs.
pub(super) fn single(
    cx: &LegalizeContext<'_>,
    f: impl FnOnce(&[te::TensorExpr]) -> Result<te::TensorExpr, IrError>,
) -> Result<PrimFunc, IrError> {
    let inputs = cx.inputs()?;
    let out = f(&inputs)?;
    cx.finish(&inputs, &[out])
}

/// A tensor type of the given shape and element type, without a virtual device.
pub(super) fn tensor_type(shape: TensorShape, dtype: Option<DataType>) -> Type {
    Type::Tensor(TensorType { shape, dtype, vdevice: None })
}

/// A known shape, with `dims` in normal form.
pub(super) fn known(dims: Vec<PrimExpr>) -> TensorShape {
    TensorShape::Known(dims.iter().map(crate::relax::analysis::simplify_dim).collect())
}

/// A shape of which at most the rank is known.
pub(super) fn rank(ndim: Option<usize>) -> TensorShape {
    ndim.map_or(TensorShape::Unknown, TensorShape::Rank)
}
