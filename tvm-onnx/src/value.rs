//! What the importer knows about a value of the model.

use tvm_core::relax::Arg;
use tvm_core::tir::{PrimExpr, any_expr};
use tvm_runtime::{DataType, Tensor};

/// Largest number of elements of an integer tensor that is tracked symbolically.
pub(crate) const MAX_INTS: usize = 4096;

/// Largest number of nodes of an expression that is tracked symbolically, shared parts counted as often as they are read.
const MAX_NODES: usize = 256;

/// True for an expression that is too large to be tracked. Every link of a chain of shape arithmetic may read the one before
/// twice, and everything that looks at expressions takes time in proportion to their size.
pub(crate) fn is_large(expr: &PrimExpr) -> bool {
    let mut nodes = 0;
    any_expr(expr, &mut |_| {
        nodes += 1;
        nodes > MAX_NODES
    })
}

/// A value of the model.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A variable or constant of the graph function.
    Arg(Arg),
    /// Integers known symbolically: a shape, or values computed from shapes. They are converted to a tensor only where
    /// an operator needs one.
    Ints(Ints),
    /// A tensor of strings: their bytes, along one more axis at the end.
    Strings(Arg),
    /// A sequence of known length.
    Sequence(Vec<Value>),
    /// An optional value that is empty.
    Absent,
    /// The result of a node that cannot be converted. Import fails at its end, after it has noted all such nodes.
    Unknown,
}

/// How a value is made up of tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A tensor.
    Tensor,
    /// A tensor of strings.
    Strings,
    /// An optional value that is empty.
    Absent,
    /// A sequence.
    Sequence(Vec<Form>),
}

impl Form {
    /// A value of this form, of the next tensors.
    pub(crate) fn value(&self, tensors: &mut impl Iterator<Item = Value>) -> Value {
        match self {
            Form::Tensor => tensors.next().unwrap_or(Value::Unknown),
            Form::Strings => match tensors.next() {
                Some(Value::Arg(bytes)) => Value::Strings(bytes),
                other => other.unwrap_or(Value::Unknown),
            },
            Form::Absent => Value::Absent,
            Form::Sequence(elements) => {
                Value::Sequence(elements.iter().map(|it| it.value(tensors)).collect())
            }
        }
    }

    /// The names of the tensors of a value of this form named `name`: `x`, or `x[0]`, `x[1]`, … for a sequence.
    /// With each comes whether it is a tensor of strings.
    pub(crate) fn names(&self, name: &str, names: &mut Vec<(String, bool)>) {
        match self {
            Form::Tensor | Form::Strings => names.push((name.to_string(), *self == Form::Strings)),
            Form::Absent => {}
            Form::Sequence(elements) => {
                let all = elements.iter().enumerate();
                all.for_each(|(i, it)| it.names(&format!("{name}[{i}]"), names));
            }
        }
    }
}

/// Magnitude from which on `f32` does not have all whole numbers.
const MAX_WHOLE: i64 = 1 << 24;

/// A small tensor of integers, or of floats that are whole numbers, whose elements are expressions over symbolic
/// dimensions.
#[derive(Clone, Debug)]
pub(crate) struct Ints {
    /// Extents of the tensor.
    pub(crate) dims: Vec<i64>,
    /// Elements, as `i64` expressions.
    pub(crate) values: Vec<PrimExpr>,
    /// Element type in the model.
    pub(crate) dtype: DataType,
}

impl Ints {
    /// A vector of `i64`.
    pub(crate) fn vector(values: Vec<PrimExpr>) -> Ints {
        Ints { dims: vec![values.len() as i64], values, dtype: DataType::I64 }
    }

    /// A scalar `i64`.
    pub(crate) fn scalar(value: PrimExpr) -> Ints {
        Ints { dims: Vec::new(), values: vec![value], dtype: DataType::I64 }
    }

    /// The elements of a small tensor of integers, truth values or whole numbers.
    pub(crate) fn from_tensor(tensor: &Tensor) -> Option<Ints> {
        fn all<T: Copy + Into<i64>>(data: &[T]) -> Vec<PrimExpr> {
            data.iter().map(|&it| PrimExpr::index(it.into())).collect()
        }
        if tensor.len() > MAX_INTS {
            return None;
        }
        let values = match tensor.dtype() {
            DataType::I64 => all(tensor.as_slice::<i64>().ok()?),
            DataType::I32 => all(tensor.as_slice::<i32>().ok()?),
            DataType::I16 => all(tensor.as_slice::<i16>().ok()?),
            DataType::I8 => all(tensor.as_slice::<i8>().ok()?),
            DataType::U8 => all(tensor.as_slice::<u8>().ok()?),
            DataType::BOOL => all(tensor.as_slice::<bool>().ok()?),
            DataType::F32 => {
                let whole = |it: &f32| {
                    let exact = it.fract() == 0.0 && it.abs() < MAX_WHOLE as f32 && it.to_bits() != 1 << 31;
                    exact.then(|| PrimExpr::index(*it as i64))
                };
                tensor.as_slice::<f32>().ok()?.iter().map(whole).collect::<Option<Vec<_>>>()?
            }
            _ => return None,
        };
        Some(Ints { dims: tensor.shape().to_vec(), values, dtype: tensor.dtype() })
    }

    /// True if the type has all elements that are constants.
    pub(crate) fn is_exact(&self) -> bool {
        let fits = |it: &PrimExpr| it.as_int().is_none_or(|it| it.abs() < MAX_WHOLE);
        self.dtype != DataType::F32 || self.values.iter().all(fits)
    }

    /// The elements, if all are constants.
    pub(crate) fn as_const(&self) -> Option<Vec<i64>> {
        self.values.iter().map(PrimExpr::as_int).collect()
    }

    /// Converts to a tensor, if all elements are constants.
    pub(crate) fn to_tensor(&self) -> Option<Tensor> {
        let values = self.as_const()?;
        let dims = &self.dims;
        let tensor = match self.dtype {
            DataType::I64 => Tensor::from_vec(values, dims),
            DataType::I32 => Tensor::from_vec(values.iter().map(|&it| it as i32).collect(), dims),
            DataType::I16 => Tensor::from_vec(values.iter().map(|&it| it as i16).collect(), dims),
            DataType::I8 => Tensor::from_vec(values.iter().map(|&it| it as i8).collect(), dims),
            DataType::U8 => Tensor::from_vec(values.iter().map(|&it| it as u8).collect(), dims),
            DataType::BOOL => Tensor::from_vec(values.iter().map(|&it| it != 0).collect(), dims),
            DataType::F32 => Tensor::from_vec(values.iter().map(|&it| it as f32).collect(), dims),
            _ => return None,
        };
        tensor.ok()
    }
}

impl Value {
    /// The integers of the value, if they are known.
    pub(crate) fn ints(&self) -> Option<Ints> {
        match self {
            Value::Ints(ints) => Some(ints.clone()),
            Value::Arg(arg) => Ints::from_tensor(arg.as_const()?),
            Value::Strings(_) | Value::Sequence(_) | Value::Absent | Value::Unknown => None,
        }
    }

    /// The tensor of the value, if it is constant.
    pub(crate) fn tensor(&self) -> Option<Tensor> {
        match self {
            Value::Ints(ints) => ints.to_tensor(),
            Value::Arg(arg) => arg.as_const().cloned(),
            Value::Strings(_) | Value::Sequence(_) | Value::Absent | Value::Unknown => None,
        }
    }
}

impl From<Arg> for Value {
    fn from(arg: Arg) -> Value {
        Value::Arg(arg)
    }
}

impl From<Ints> for Value {
    fn from(ints: Ints) -> Value {
        Value::Ints(ints)
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Arg(Arg::Const(tensor))
    }
}
