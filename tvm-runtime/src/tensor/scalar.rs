//! Conversion between tensors of one element and scalar values.

use half::{bf16, f16};

use super::{Tensor, checked_size};
use crate::device::Device;
use crate::dtype::DataType;
use crate::error::RuntimeError;
use crate::value::Value;

impl Tensor {
    /// The only element of the tensor: integers and bools as [`Value::Int`], floats as [`Value::Float`].
    pub fn read_scalar(&self) -> Result<Value, RuntimeError> {
        if self.len() != 1 {
            return Err(RuntimeError::ShapeCheck {
                context: "scalar".into(),
                detail: format!("expected one element, got a tensor of shape {:?}", self.shape()),
            });
        }
        if self.device() != Device::cpu() {
            return self.to_device(Device::cpu())?.read_scalar();
        }
        self.element(0)
    }

    /// Element `index` in row-major order, converted as by [`Tensor::read_scalar`].
    pub(crate) fn element(&self, index: usize) -> Result<Value, RuntimeError> {
        macro_rules! read {
            ($($name:ident $ty:ty => $variant:ident $conv:expr),*) => {
                match self.dtype() {
                    $(DataType::$name => match self.as_slice::<$ty>()?.get(index) {
                        Some(&it) => Ok(Value::$variant($conv(it))),
                        None => Err(RuntimeError::BadData("no such element")),
                    },)*
                    _ => Err(RuntimeError::BadData("elements of this type are not scalars")),
                }
            };
        }
        read! {
            F32 f32 => Float f64::from, F64 f64 => Float f64::from,
            F16 f16 => Float f64::from, BF16 bf16 => Float f64::from,
            I8 i8 => Int i64::from, I16 i16 => Int i64::from, I32 i32 => Int i64::from, I64 i64 => Int i64::from,
            U8 u8 => Int i64::from, U16 u16 => Int i64::from, U32 u32 => Int i64::from,
            U64 u64 => Int u64::cast_signed, BOOL bool => Int i64::from
        }
    }

    /// Makes a tensor of rank 0 that holds an integer or float, converted to `dtype`. Integers must fit.
    pub fn from_scalar(value: &Value, dtype: DataType) -> Result<Tensor, RuntimeError> {
        checked_size(&[], dtype)?;
        let float = match value {
            Value::Float(it) => *it,
            Value::Int(it) => *it as f64,
            value => {
                return Err(RuntimeError::ValueKind {
                    what: "scalar".into(),
                    expected: "an integer or float",
                    got: value.kind(),
                });
            }
        };
        macro_rules! int {
            ($ty:ty) => {
                match value {
                    Value::Int(it) => <$ty>::try_from(*it)
                        .map(Tensor::scalar)
                        .map_err(|_| RuntimeError::BadData("an integer does not fit its element type")),
                    _ => Err(RuntimeError::BadData("a float where an integer is needed")),
                }
            };
        }
        match dtype {
            DataType::F32 => Ok(Tensor::scalar(float as f32)),
            DataType::F64 => Ok(Tensor::scalar(float)),
            DataType::F16 => Ok(Tensor::scalar(f16::from_f64(float))),
            DataType::BF16 => Ok(Tensor::scalar(bf16::from_f64(float))),
            DataType::BOOL => Ok(Tensor::scalar(float != 0.0)),
            DataType::I8 => int!(i8),
            DataType::I16 => int!(i16),
            DataType::I32 => int!(i32),
            DataType::I64 => int!(i64),
            DataType::U8 => int!(u8),
            DataType::U16 => int!(u16),
            DataType::U32 => int!(u32),
            DataType::U64 => match value {
                // As everywhere, the upper half of the `u64` range maps to negative `i64` values.
                Value::Int(it) => Ok(Tensor::scalar(it.cast_unsigned())),
                _ => int!(u64),
            },
            _ => Err(RuntimeError::BadData("elements of this type are not scalars")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_round_trip() {
        for dtype in DataType::all() {
            for value in [0i64, 1] {
                let tensor = Tensor::from_scalar(&Value::Int(value), dtype).unwrap();
                assert_eq!((tensor.dtype(), tensor.rank()), (dtype, 0));
                match tensor.read_scalar().unwrap() {
                    Value::Int(it) => assert_eq!(it, value),
                    Value::Float(it) => assert_eq!(it, value as f64),
                    other => panic!("{other:?}"),
                }
            }
        }
        let read =
            |value: Value, dtype| Tensor::from_scalar(&value, dtype).map(|tensor| format!("{tensor:?}"));
        assert_eq!(read(Value::Float(2.5), DataType::F16).unwrap(), "Tensor<f16>[] [2.5]");
        assert_eq!(read(Value::Int(-1), DataType::U64).unwrap(), format!("Tensor<u64>[] [{}]", u64::MAX));
        assert!(read(Value::Int(300), DataType::U8).is_err());
        assert!(read(Value::Float(1.0), DataType::I32).is_err());
        assert!(read(Value::unit(), DataType::I32).is_err());
        assert!(Tensor::zeros(&[2], DataType::I32).unwrap().read_scalar().is_err());
        assert!(Tensor::zeros(&[1, 1], DataType::I32).unwrap().read_scalar().is_ok());
    }
}
