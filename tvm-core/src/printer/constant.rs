//! Printing constants of graph functions: `constant::<f32, 2>([1.0, 2.0])`; large ones as the hexadecimal digits of
//! their bytes.

use half::{bf16, f16};
use tvm_runtime::{DataType, Element, Tensor};

/// Maximum number of elements of a constant that is printed as a list of literals.
const LIMIT: usize = 16;

/// A small constant as a literal. A large one as its bytes if `whole`; otherwise as its type and element count, a form
/// that does not compile.
pub(super) fn constant(tensor: &Tensor, whole: bool) -> String {
    let elements = if tensor.len() <= LIMIT { values(tensor) } else { None };
    let elements = match (elements, tensor.bytes()) {
        (Some(values), _) => format!("[{}]", values.join(", ")),
        (None, Ok(bytes)) if whole => format!("\"{}\"", hexadecimal(bytes)),
        (None, _) => format!("/* {} elements */", tensor.len()),
    };
    let shape: String = tensor.shape().iter().map(|extent| format!(", {extent}")).collect();
    format!("constant::<{}{shape}>({elements})", tensor.dtype())
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The elements as Rust literals; `None` for a tensor that is not in host memory or whose type has none.
fn values(tensor: &Tensor) -> Option<Vec<String>> {
    fn list<T: Element>(tensor: &Tensor, show: impl Fn(T) -> String) -> Option<Vec<String>> {
        Some(tensor.as_slice::<T>().ok()?.iter().map(|it| show(*it)).collect())
    }
    macro_rules! float {
        ($ty:ident) => {
            list::<$ty>(tensor, |it| {
                let name = stringify!($ty);
                let special =
                    [("NAN", $ty::NAN), ("INFINITY", $ty::INFINITY), ("NEG_INFINITY", $ty::NEG_INFINITY)];
                match special.iter().find(|(_, value)| value.to_bits() == it.to_bits()) {
                    Some((text, _)) => format!("{name}::{text}"),
                    None if it.is_nan() => format!("{name}::from_bits({:#x})", it.to_bits()),
                    None => shown(f64::from(it), tensor.dtype()),
                }
            })
        };
    }
    match tensor.dtype() {
        DataType::F32 => float!(f32),
        DataType::F64 => float!(f64),
        DataType::F16 => float!(f16),
        DataType::BF16 => float!(bf16),
        DataType::I8 => list(tensor, |it: i8| it.to_string()),
        DataType::I16 => list(tensor, |it: i16| it.to_string()),
        DataType::I32 => list(tensor, |it: i32| it.to_string()),
        DataType::I64 => list(tensor, |it: i64| it.to_string()),
        DataType::U8 => list(tensor, |it: u8| it.to_string()),
        DataType::U16 => list(tensor, |it: u16| it.to_string()),
        DataType::U32 => list(tensor, |it: u32| it.to_string()),
        DataType::U64 => list(tensor, |it: u64| it.to_string()),
        DataType::BOOL => list(tensor, |it: bool| it.to_string()),
        _ => None,
    }
}

/// The shortest text that reads back as the same number; `f32` represents every half-precision number.
fn shown(value: f64, dtype: DataType) -> String {
    if dtype == DataType::F64 { format!("{value:?}") } else { format!("{:?}", value as f32) }
}
