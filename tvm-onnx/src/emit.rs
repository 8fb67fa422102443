//! What converters emit: calls of operators, constants, dimensions that are read when the program runs.

use tvm_core::ir::{Attrs, IRModule, Op, ShapeType, Span, TensorType, Type, Var};
use tvm_core::relax::op::device::PLACE;
use tvm_core::relax::transform::{fold_constant, legalize_ops};
use tvm_core::relax::{Arg, BlockBuilder};
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor, byte_size};

use crate::error::{OnnxError, UnsupportedReport};
use crate::importer::Importer;
use crate::tensor::{MAX_RANK, show_dims};
use crate::value::{Form, Ints, Value, is_large};

impl Importer<'_> {
    /// The value named `name`, if a node before, an input or an initializer defines it.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Converts the value to a variable or constant.
    pub(crate) fn materialise(&mut self, value: Value, span: &Span) -> Result<Arg, OnnxError> {
        let ints = match value {
            Value::Arg(arg) => return Ok(arg),
            Value::Ints(ints) => ints,
            Value::Strings(_) => return Err(OnnxError::unsupported("strings in place of numbers")),
            Value::Sequence(_) => return Err(OnnxError::unsupported("a sequence in place of a tensor")),
            Value::Absent => {
                return Err(OnnxError::malformed("an empty optional value in place of a tensor"));
            }
            // The node that the report names is noted already.
            Value::Unknown => return Err(OnnxError::Unsupported(UnsupportedReport::default())),
        };
        if let Some(tensor) = ints.to_tensor() {
            return Ok(Arg::Const(tensor));
        }
        let Ints { dims, values, dtype } = ints;
        let shape = Arg::Shape(values.into());
        let mut arg = self.emit("shape_to_tensor", &[shape], Attrs::new(), span)?;
        if dims.len() != 1 {
            let dims: Vec<PrimExpr> = dims.iter().map(|&it| PrimExpr::index(it)).collect();
            arg = self.emit("reshape", &[arg, Arg::Shape(dims.into())], Attrs::new(), span)?;
        }
        if dtype != DataType::I64 {
            arg = self.emit("astype", &[arg], Attrs::new().with("dtype", dtype), span)?;
        }
        Ok(arg)
    }

    /// The tensors of the values, and how the values are made up of them.
    pub(crate) fn tensors(
        &mut self,
        values: Vec<Value>,
        span: &Span,
    ) -> Result<(Vec<Arg>, Vec<Form>), OnnxError> {
        let (mut args, mut forms) = (Vec::new(), Vec::new());
        for value in values {
            forms.push(match value {
                Value::Sequence(elements) => {
                    let (elements, inner) = self.tensors(elements, span)?;
                    args.extend(elements);
                    Form::Sequence(inner)
                }
                Value::Absent => Form::Absent,
                Value::Strings(bytes) => {
                    args.push(bytes);
                    Form::Strings
                }
                Value::Arg(_) | Value::Ints(_) | Value::Unknown => {
                    args.push(self.materialise(value, span)?);
                    Form::Tensor
                }
            });
        }
        Ok((args, forms))
    }

    /// Type of an argument.
    pub(crate) fn type_of(&self, arg: &Arg) -> Type {
        self.builder.type_of(arg)
    }

    /// Emits a call of the operator `op`, binds its result, and checks the size of the result.
    pub(crate) fn emit(
        &mut self,
        op: &str,
        args: &[Arg],
        attrs: Attrs,
        span: &Span,
    ) -> Result<Arg, OnnxError> {
        let found = Op::get(op).map_err(|_| OnnxError::unsupported(format!("graph operator `{op}`")))?;
        if let Some(tensor) = evaluated(found, args, &attrs) {
            return self.constant(tensor);
        }
        let attrs = match self.place {
            Some(device) => attrs.with(PLACE, device.to_string()),
            None => attrs,
        };
        let hint = op.rsplit('.').next().unwrap_or(op);
        let var = self.builder.emit_op(hint, found, args, attrs, span)?;
        self.account(var.ty())?;
        Ok(self.named(Arg::Var(var), span))
    }

    /// The value with a symbolic dimension for each extent that its type does not know, or that is too large an expression:
    /// the program reads the extents when it runs.
    pub(crate) fn named(&mut self, arg: Arg, span: &Span) -> Arg {
        let Type::Tensor(ty) = self.type_of(&arg) else { return arg };
        let (Some(ndim), Some(dtype)) = (ty.ndim(), ty.dtype) else { return arg };
        let known = ty.known_shape();
        if known.is_some_and(|extents| !extents.iter().any(is_large)) {
            return arg;
        }
        let kept = |axis: usize| known.map(|extents| &extents[axis]).filter(|it| !is_large(it));
        let dim = |axis| PrimExpr::from(&Var::index(format!("extent{axis}")));
        let dims: Vec<PrimExpr> =
            (0..ndim).map(|axis| kept(axis).cloned().unwrap_or_else(|| dim(axis))).collect();
        Arg::Var(self.builder.emit_match_cast("sized", arg, Type::tensor(dims, dtype), span))
    }

    /// Emits a read of a tuple field and binds it.
    pub(crate) fn field(&mut self, tuple: &Arg, index: usize, span: &Span) -> Result<Arg, OnnxError> {
        let value = tvm_core::relax::Expr::TupleGetItem(tuple.clone(), index);
        Ok(Arg::Var(self.builder.emit("field", value, span)?))
    }

    /// Reads the elements of a short integer vector, or of a scalar, at run time, as dimensions.
    pub(crate) fn read_dims(&mut self, arg: &Arg, span: &Span) -> Result<Option<Vec<PrimExpr>>, OnnxError> {
        let ty = self.type_of(arg);
        let Some((shape, dtype)) = ty.as_tensor().and_then(|ty| Some((ty.const_shape()?, ty.dtype?))) else {
            return Ok(None);
        };
        let len = match shape[..] {
            [] => 1,
            [len] => len,
            _ => return Ok(None),
        };
        if !dtype.is_integer() || len > MAX_RANK as i64 {
            return Ok(None);
        }
        let mut arg = arg.clone();
        if shape.is_empty() {
            let vector = Arg::Shape([PrimExpr::index(1)].into());
            arg = self.emit("reshape", &[arg, vector], Attrs::new(), span)?;
        }
        if dtype != DataType::I64 {
            arg = self.emit("astype", &[arg], Attrs::new().with("dtype", DataType::I64), span)?;
        }
        // Extents cannot be negative, so the positive part and the negative part are read separately.
        let limit = |it: i64| Arg::Prim(PrimExpr::index(it));
        let above = self.emit("maximum", &[arg.clone(), limit(0)], Attrs::new(), span)?;
        let below = self.emit("maximum", &[arg, limit(-i64::MAX)], Attrs::new(), span)?;
        let below = self.emit("negative", &[below], Attrs::new(), span)?;
        let below = self.emit("maximum", &[below, limit(0)], Attrs::new(), span)?;
        let both = Arg::Tuple([above, below].into());
        let both = self.emit("concat", &[both], Attrs::new().with("axis", 0i64), span)?;
        let shape = self.emit("tensor_to_shape", &[both], Attrs::new(), span)?;
        let read = |i| PrimExpr::from(&Var::index(format!("read{i}")));
        let values: Vec<PrimExpr> = (0..2 * len).map(read).collect();
        let (above, below) = values.split_at(len as usize);
        let dims = above.iter().zip(below).map(|(above, below)| above - below).collect();
        let ty = Type::Shape(ShapeType { values: Some(values.clone().into()), ndim: Some(values.len()) });
        self.builder.emit_match_cast("dims", shape, ty, span);
        Ok(Some(dims))
    }

    /// Size in bytes of a tensor of this shape; an error if it is not a valid shape or too large.
    pub(crate) fn check_size(&self, extents: &[i64], dtype: DataType) -> Result<usize, OnnxError> {
        let limit = self.options.max_tensor_bytes;
        let what = || format!("a tensor of shape {}", show_dims(extents));
        match byte_size(extents, dtype) {
            _ if extents.iter().any(|&it| it < 0) => {
                Err(OnnxError::malformed(format!("{} is not a shape", show_dims(extents))))
            }
            Some(bytes) if bytes as u64 <= limit => Ok(bytes),
            bytes => {
                let bytes = bytes.map_or(u128::from(u64::MAX), |it| it as u128);
                Err(OnnxError::TooLarge { what: what(), bytes, limit, place: Span::none() })
            }
        }
    }

    /// Adds the size of a value of type `ty`, if it is known, to the total; rejects values that are too large.
    pub(crate) fn account(&mut self, ty: &Type) -> Result<(), OnnxError> {
        if let Some(fields) = ty.as_tuple() {
            return fields.iter().try_for_each(|field| self.account(field));
        }
        let Some((shape, dtype)) = ty.as_tensor().and_then(|ty| Some((ty.const_shape()?, ty.dtype?))) else {
            return Ok(());
        };
        self.total_bytes += self.check_size(&shape, dtype)? as u128;
        let (bytes, limit) = (self.total_bytes, self.options.max_total_bytes);
        if bytes > limit.into() {
            let what = "the sum of all values".to_string();
            return Err(OnnxError::TooLarge { what, bytes, limit, place: Span::none() });
        }
        Ok(())
    }

    /// Makes an intermediate constant and adds its size to the total.
    pub(crate) fn constant(&mut self, tensor: Tensor) -> Result<Arg, OnnxError> {
        self.account(&Type::Tensor(TensorType::fixed(tensor.shape(), tensor.dtype())))?;
        Ok(Arg::Const(tensor))
    }
}

/// Largest number of elements of operands and result of a call that is evaluated at import.
const MAX_EVALUATED: usize = 4096;

/// The result of an operator on small constants. Later nodes may need it at import, as the extents of a shape, say.
fn evaluated(op: Op, args: &[Arg], attrs: &Attrs) -> Option<Tensor> {
    let small = |ty: &Type| {
        let shape = ty.as_tensor().and_then(TensorType::const_shape)?;
        let count = shape.iter().try_fold(1i64, |count, extent| count.checked_mul(*extent))?;
        (count <= MAX_EVALUATED as i64).then_some(())
    };
    if !args.iter().all(is_constant) || !args.iter().any(|it| matches!(it, Arg::Const(_) | Arg::Tuple(_))) {
        return None;
    }
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", &[], |builder| {
            let var = builder.emit_op("result", op, args, attrs.clone(), &Span::none())?;
            Ok(Arg::Var(var))
        })
        .ok()?;
    let module = builder.into_module();
    let main = module.global_var("main")?.clone();
    small(&module.relax_func(&main)?.ret)?;
    let module = legalize_ops().apply(module).and_then(|module| fold_constant().apply(module)).ok()?;
    let last = module.relax_func(&main)?.body.bindings().last()?.value.clone();
    match last {
        tvm_core::relax::Expr::Arg(Arg::Const(tensor)) => Some(tensor),
        _ => None,
    }
}

/// True for small constants, and for what is no tensor and depends on no dimension.
fn is_constant(arg: &Arg) -> bool {
    match arg {
        Arg::Const(tensor) => tensor.len() <= MAX_EVALUATED,
        Arg::Tuple(fields) => !fields.is_empty() && fields.iter().all(is_constant),
        Arg::Shape(values) => values.iter().all(|it| it.as_int().is_some()),
        Arg::Prim(value) => matches!(value, PrimExpr::IntImm(_) | PrimExpr::FloatImm(_)),
        Arg::DType(_) | Arg::Str(_) => true,
        Arg::Var(_) | Arg::Global(_) => false,
    }
}
