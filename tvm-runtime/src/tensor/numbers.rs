//! Elements of any type as plain numbers, for tools and for building constants.

use half::{bf16, f16};
use num_traits::AsPrimitive;

use super::Tensor;
use crate::dtype::{DataType, Element};
use crate::error::RuntimeError;

/// Calls `$f::<T>(..)` with the number type `T` that `$dtype` names; evaluates `$bool` for bools.
macro_rules! for_number {
    ($dtype:expr, $f:ident($($arg:expr),*), $bool:expr) => {
        for_number!(@ $dtype, $f($($arg),*), $bool,
            F32 f32, F64 f64, F16 f16, BF16 bf16, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64)
    };
    (@ $dtype:expr, $f:ident $args:tt, $bool:expr, $($name:ident $ty:ty),*) => {
        match $dtype {
            $(DataType::$name => $f::<$ty> $args,)*
            DataType::BOOL => $bool,
            _ => Err(RuntimeError::BadData("elements of this type are not numbers")),
        }
    };
}

impl Tensor {
    /// The elements, in row-major order. Integers beyond 2^53 are rounded.
    pub fn to_f64s(&self) -> Result<Vec<f64>, RuntimeError> {
        fn read<T: Element + AsPrimitive<f64>>(tensor: &Tensor) -> Result<Vec<f64>, RuntimeError> {
            Ok(tensor.as_slice::<T>()?.iter().map(|it| it.as_()).collect())
        }
        for_number!(
            self.dtype(),
            read(self),
            Ok(self.as_slice::<bool>()?.iter().map(|&it| it.into()).collect())
        )
    }

    /// Makes a tensor of these elements, converted as by `as`. For bools, every value but 0 is true.
    pub fn from_f64s(values: &[f64], shape: &[i64], dtype: DataType) -> Result<Tensor, RuntimeError> {
        fn make<T: Element>(values: &[f64], shape: &[i64]) -> Result<Tensor, RuntimeError>
        where
            f64: AsPrimitive<T>,
        {
            Tensor::from_vec(values.iter().map(|it| it.as_()).collect(), shape)
        }
        let bools = || Tensor::from_vec(values.iter().map(|&it| it != 0.0).collect(), shape);
        for_number!(dtype, make(values, shape), bools())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_in_every_type() {
        for dtype in DataType::all() {
            let tensor = Tensor::from_f64s(&[0.0, 1.0, 1.0], &[3, 1], dtype);
            if dtype.is_handle() {
                assert!(
                    tensor.is_err() && Tensor::zeros(&[1], dtype).map_or(true, |it| it.to_f64s().is_err())
                );
                continue;
            }
            let tensor = tensor.unwrap();
            assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &[3, 1][..]));
            assert_eq!(tensor.to_f64s().unwrap(), [0.0, 1.0, 1.0], "{dtype}");
        }
        let cut = Tensor::from_f64s(&[300.0, -1.5, f64::NAN], &[3], DataType::U8).unwrap();
        assert_eq!(cut.to_f64s().unwrap(), [255.0, 0.0, 0.0]);
        assert!(Tensor::from_f64s(&[1.0], &[2], DataType::F32).is_err());
    }
}
