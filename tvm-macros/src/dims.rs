//! Which identifiers are symbolic dimensions and which are constants of the host program.

use syn::{GenericParam, Generics, Ident};

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

/// The element types Rust has a name for.
pub(crate) const DTYPES: &[&str] =
    &["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"];

/// True for types that Rust has no literals of.
pub(crate) fn is_half(name: &str) -> bool {
    matches!(name, "f16" | "bf16")
}
