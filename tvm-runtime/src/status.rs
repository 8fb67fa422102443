//! Converts the status that a kernel returns to an error that names the parameter.

use std::sync::Arc;

use crate::abi::{CallError, Status, pack_dtype};
use crate::device::Device;
use crate::dtype::DataType;
use crate::error::RuntimeError;
use crate::kernel::KernelSig;

/// The error that `error` describes; `status` is the return value of the kernel. Both may hold any value.
pub(crate) fn render(
    sig: &KernelSig,
    status: i32,
    error: &CallError,
    what: Option<Arc<str>>,
    place: Option<Arc<str>>,
) -> RuntimeError {
    let func: Arc<str> = sig.name.as_str().into();
    let param = usize::try_from(error.arg).ok().and_then(|arg| sig.params.get(arg));
    let arg: Arc<str> = match param {
        Some(param) => param.name.as_str().into(),
        None => format!("#{}", error.arg).into(),
    };
    let (axis, expected, got) = (i64::from(error.axis), error.expected, error.got);
    let dim = param.and_then(|param| param.shape.get(usize::try_from(axis).ok()?)?.label());
    match status {
        s if s == Status::ArgCount as i32 => RuntimeError::ArgCount {
            func,
            expected: usize::try_from(expected).unwrap_or(sig.params.len()),
            got: usize::try_from(got).unwrap_or_default(),
        },
        s if s == Status::Rank as i32 => RuntimeError::ArgRank { func, arg, expected, got },
        s if s == Status::DType as i32 => {
            let expected = unpack_dtype(expected).or(param.map(|param| param.dtype));
            let got = unpack_dtype(got).map_or_else(|| format!("unknown ({got:#x})"), |got| got.to_string());
            match expected {
                Some(expected) => RuntimeError::ArgDType { func, arg, expected, got: got.into() },
                None => RuntimeError::UnknownStatus { func, status },
            }
        }
        s if s == Status::Extent as i32 => RuntimeError::ArgExtent { func, arg, axis, expected, got, dim },
        s if s == Status::Bound as i32 => {
            let axis = (axis >= 0).then_some(axis);
            let dim = dim.unwrap_or_else(|| arg.clone());
            let expected = what.unwrap_or_else(|| "other extents".into());
            RuntimeError::ArgBound { func, arg, axis, dim, expected, got }
        }
        s if s == Status::OutOfBounds as i32 => {
            let buffer = if param.is_some() { Some(arg) } else { what };
            RuntimeError::OutOfBounds { func, buffer, axis, index: got, extent: expected, place }
        }
        s if s == Status::IndexOverflow as i32 => {
            RuntimeError::IndexOverflow { func, reached: got, limit: expected, place }
        }
        s if s == Status::AxisDomain as i32 => {
            let axis = what.unwrap_or_else(|| format!("axis {axis} of a block").into());
            RuntimeError::AxisDomain { func, axis, value: got, end: expected, place }
        }
        s if s == Status::NegativeExtent as i32 => {
            RuntimeError::NegativeExtent { func, buffer: what, axis, extent: got, place }
        }
        s if s == Status::Strides as i32 => RuntimeError::ArgStrides { func, arg, axis, expected, got },
        s if s == Status::Null as i32 => RuntimeError::ArgNull { func, arg },
        s if s == Status::Assert as i32 => RuntimeError::Assert { func, message: what, place },
        s if s == Status::OutOfMemory as i32 => {
            RuntimeError::OutOfMemory { bytes: expected as u64, device: Device::cpu() }
        }
        _ => RuntimeError::UnknownStatus { func, status },
    }
}

/// Inverse of [`pack_dtype`]; `None` if the number is not a packed data type.
fn unpack_dtype(packed: i64) -> Option<DataType> {
    let [code, bits, l0, l1, 0, 0, 0, 0] = packed.to_le_bytes() else { return None };
    DataType::from_dlpack(code, bits, u16::from_le_bytes([l0, l1]))
        .filter(|dtype| pack_dtype(*dtype) == packed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{DimSig, ParamKind, ParamSig};

    #[test]
    fn statuses_name_the_parameter() {
        let dims = |names: &[&str]| names.iter().map(|name| DimSig::Var(name.to_string())).collect();
        let param =
            |name: &str, kind, shape| ParamSig { name: name.into(), kind, dtype: DataType::F32, shape };
        let sig = KernelSig {
            name: "matmul".into(),
            params: vec![
                param("a", ParamKind::In, dims(&["m", "k"])),
                param("b", ParamKind::In, dims(&["k", "n"])),
                param("c", ParamKind::Out, vec![DimSig::Const(8), DimSig::Expr("n * 2".into())]),
                param("s", ParamKind::Scalar, vec![]),
            ],
        };
        assert_eq!(
            sig.to_string(),
            "fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 8, { n * 2 }>, s: f32)"
        );
        let error = |status, arg, axis, expected, got| CallError {
            status,
            arg,
            axis,
            reserved: 0,
            expected,
            got,
            what: std::ptr::null(),
            place: std::ptr::null(),
        };
        let f64_code = pack_dtype(DataType::F64);
        let f32_code = pack_dtype(DataType::F32);
        for (status, arg, axis, expected, got, message) in [
            (1, -1, -1, 4, 3, "`matmul`: expected 4 argument(s), got 3"),
            (2, 0, -1, 2, 1, "`matmul`: argument `a`: rank is 1, expected 2"),
            (3, 1, -1, f32_code, f64_code, "`matmul`: argument `b`: element type is f64, expected f32"),
            (
                3,
                1,
                -1,
                f32_code,
                0xff,
                "`matmul`: argument `b`: element type is unknown (0xff), expected f32",
            ),
            (4, 1, 0, 4, 5, "`matmul`: argument `b`: axis 0 is 5, expected 4 (= k)"),
            (4, 2, 0, 8, 5, "`matmul`: argument `c`: axis 0 is 5, expected 8"),
            (4, 2, 1, 8, 5, "`matmul`: argument `c`: axis 1 is 5, expected 8 (= n * 2)"),
            (4, 9, 1, 8, 5, "`matmul`: argument `#9`: axis 1 is 5, expected 8"),
            (6, 0, -1, 0, 0, "`matmul`: argument `a`: the tensor is null"),
            (7, -1, -1, 0, 0, "`matmul`: assertion failed"),
            (9, 1, 0, 4, -1, "`matmul`: index -1 is outside of axis 0 of `b`, whose extent is 4"),
            (
                9,
                -1,
                1,
                4,
                4,
                "`matmul`: index 4 is outside of axis 1 of a buffer of the kernel, whose extent is 4",
            ),
            (
                10,
                0,
                1,
                0,
                5,
                "`matmul`: argument `a`: axis 1 is 5, dimension `k` was compiled for other extents",
            ),
            (10, 3, -1, 0, 9, "`matmul`: argument `s` is 9, dimension `s` was compiled for other extents"),
            (
                13,
                -1,
                -1,
                1 << 62,
                i64::MAX,
                "`matmul`: the extents are too large: an index may reach 9223372036854775807, expected at most 4611686018427387904",
            ),
            (14, -1, 1, 8, 9, "`matmul`: axis 1 of a block is 9, its domain ends before 8"),
            (8, -1, -1, 64, 0, "out of memory: cannot allocate 64 bytes on cpu:0"),
            (-77, -1, -1, 0, 0, "`matmul`: unknown status -77"),
        ] {
            let error = error(status, arg, axis, expected, got);
            assert_eq!(render(&sig, status, &error, None, None).to_string(), message);
        }
        for (status, arg, what, message) in [
            (9, -1, "t", "`matmul`: index 4 is outside of axis 1 of `t`, whose extent is 8 (at a.rs:3:5)"),
            (10, 0, "8..=64", "`matmul`: argument `a`: axis 1 is 4, dimension `k` was compiled for 8..=64"),
            (9, 0, "t", "`matmul`: index 4 is outside of axis 1 of `a`, whose extent is 8 (at a.rs:3:5)"),
            (
                13,
                -1,
                "",
                "`matmul`: the extents are too large: an index may reach 4, expected at most 8 (at a.rs:3:5)",
            ),
            (
                14,
                -1,
                "axis `i` of block `B`",
                "`matmul`: axis `i` of block `B` is 4, its domain ends before 8 (at a.rs:3:5)",
            ),
        ] {
            let (error, place) = (error(status, arg, 1, 8, 4), Some("a.rs:3:5".into()));
            assert_eq!(render(&sig, status, &error, Some(what.into()), place).to_string(), message);
        }
    }
}
