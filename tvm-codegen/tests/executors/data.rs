//! Generation of argument values, and comparison of results.

use half::{bf16, f16};
use tvm_runtime::{DataType, HostArg, Kernel, RuntimeError, Tensor, TensorView, TensorViewMut, Value};

/// A small generator of random numbers (SplitMix64).
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A float in -4..4.
    pub(crate) fn float(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64 * 8.0 - 4.0
    }
}

/// Floats that often break naive code.
const SPECIAL: [f64; 10] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 1e30, -1e30, 1e-40];

/// A tensor of random values; with `special`, some of them are special values.
pub(crate) fn random(shape: &[i64], dtype: DataType, rng: &mut Rng, special: bool) -> Tensor {
    let len = shape.iter().product::<i64>() as usize;
    let mut bytes = Vec::with_capacity(len * dtype.bytes());
    for _ in 0..len {
        let float = match rng.next() % 5 {
            0 if special => SPECIAL[(rng.next() % 10) as usize],
            _ => rng.float(),
        };
        let int = rng.next();
        match dtype {
            DataType::F32 => bytes.extend((float as f32).to_ne_bytes()),
            DataType::F64 => bytes.extend(float.to_ne_bytes()),
            DataType::F16 => bytes.extend(f16::from_f64(float).to_ne_bytes()),
            DataType::BF16 => bytes.extend(bf16::from_f64(float).to_ne_bytes()),
            DataType::BOOL => bytes.push((int & 1) as u8),
            _ => bytes.extend(&int.to_ne_bytes()[..dtype.bytes()]),
        }
    }
    Tensor::from_bytes(&bytes, shape, dtype).unwrap()
}

/// The elements: floats as `f64`, integers exactly, as `i128`.
fn elements(tensor: &Tensor) -> Vec<Result<f64, i128>> {
    let dtype = tensor.dtype();
    let bytes = tensor.bytes().unwrap();
    let items = bytes.chunks_exact(dtype.bytes());
    items
        .map(|item| {
            let mut word = [0u8; 8];
            word[..item.len()].copy_from_slice(item);
            let word = u64::from_ne_bytes(word);
            match dtype {
                DataType::F32 => Ok(f64::from(f32::from_bits(word as u32))),
                DataType::F64 => Ok(f64::from_bits(word)),
                DataType::F16 => Ok(f16::from_bits(word as u16).to_f64()),
                DataType::BF16 => Ok(bf16::from_bits(word as u16).to_f64()),
                _ => Err(i128::from(word)),
            }
        })
        .collect()
}

/// Asserts that the elements agree: integers exactly, floats within `tolerance` relative to their magnitude. With
/// tolerance 0, all bits of a float must agree, except that any NaN equals any NaN.
pub(crate) fn assert_close(got: &Tensor, want: &Tensor, tolerance: f64, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    for (i, (got, want)) in elements(got).into_iter().zip(elements(want)).enumerate() {
        let same = match (got, want) {
            (Ok(got), Ok(want)) => {
                got.to_bits() == want.to_bits()
                    || (got == want && tolerance > 0.0)
                    || (got.is_nan() && want.is_nan())
                    || (tolerance > 0.0 && (got - want).abs() <= tolerance * want.abs().max(1.0))
            }
            (got, want) => got == want,
        };
        assert!(same, "{what}: element {i} is {got:?}, expected {want:?}");
    }
}

/// Calls `kernel` on `args`; outputs are written in place.
pub(crate) fn call(kernel: &Kernel, args: &mut [Value]) -> Result<(), RuntimeError> {
    use tvm_runtime::ParamKind;
    let mut shapes = vec![Vec::new(); args.len()];
    let mut views = Vec::new();
    for ((arg, param), shape) in args.iter_mut().zip(&kernel.signature().params).zip(&mut shapes) {
        views.push(match (arg, param.kind) {
            (Value::Tensor(tensor), ParamKind::In) => HostArg::In(TensorView::of(tensor)?),
            (Value::Tensor(tensor), _) => HostArg::Out(TensorViewMut::of(tensor, shape)?),
            (Value::Int(value), _) => HostArg::Int(*value),
            (Value::Float(value), _) => HostArg::Float(*value),
            (other, _) => panic!("{other:?} is no argument"),
        });
    }
    kernel.call(&mut views, None)
}
