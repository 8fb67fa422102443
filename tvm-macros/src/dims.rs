//! Classification of identifiers: constants of the host program, type parameters, element types; others are dimensions.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{GenericParam, Generics, Ident};

use crate::paths;

/// True when `name` is a constant of the host program: a const generic, or written in upper case as constants are.
pub(crate) fn is_host_constant(name: &Ident, generics: &Generics) -> bool {
    let text = name.to_string();
    let upper = text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase);
    upper || generics.params.iter().any(|it| matches!(it, GenericParam::Const(it) if it.ident == *name))
}

/// True when `name` is a type parameter.
pub(crate) fn is_type_param(name: &Ident, generics: &Generics) -> bool {
    generics.params.iter().any(|it| matches!(it, GenericParam::Type(it) if it.ident == *name))
}

/// The element types for which Rust has a name.
pub(crate) const DTYPES: &[&str] =
    &["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"];

/// `DataType::F32` for `f32`.
pub(crate) fn dtype(name: &Ident) -> Option<TokenStream> {
    let text = name.to_string();
    let runtime = paths::runtime(name.span());
    DTYPES.contains(&text.as_str()).then(|| {
        let constant = Ident::new(&text.to_uppercase(), name.span());
        quote!(#runtime::DataType::#constant)
    })
}

/// Least and greatest value of an integer type.
pub(crate) fn int_limits(name: &str) -> Option<(i128, i128)> {
    Some(match name {
        "i8" => (i8::MIN.into(), i8::MAX.into()),
        "i16" => (i16::MIN.into(), i16::MAX.into()),
        "i32" => (i32::MIN.into(), i32::MAX.into()),
        "i64" => (i64::MIN.into(), i64::MAX.into()),
        "u8" => (0, u8::MAX.into()),
        "u16" => (0, u16::MAX.into()),
        "u32" => (0, u32::MAX.into()),
        "u64" => (0, u64::MAX.into()),
        "usize" => (0, i64::MAX.into()),
        _ => return None,
    })
}

/// The greatest number that a float type rounds to a finite value.
pub(crate) fn float_limit(name: &str) -> Option<f64> {
    Some(match name {
        "f16" => 65519.0,
        "bf16" => 3.396_177_529_230_495_7e38,
        "f32" => 3.402_823_567_797_336_4e38,
        "f64" => f64::MAX,
        _ => return None,
    })
}

/// True for types for which Rust has no literals.
pub(crate) fn is_half(name: &str) -> bool {
    matches!(name, "f16" | "bf16")
}
