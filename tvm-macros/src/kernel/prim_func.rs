//! `#[prim_func]`: parse, check, generate.

use proc_macro2::TokenStream;
use syn::ItemFn;

use super::{check, fallback, generate, parse};
use crate::error::Errors;
use crate::options::options;

/// The arguments that the attribute takes.
pub(crate) const ARGS: &[&str] = &["dims", "name", "attrs", "root"];

/// The expansion of `item` with the arguments `attr` of the attribute.
pub(crate) fn expand(attr: TokenStream, item: TokenStream) -> TokenStream {
    let func = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(func) => func,
        Err(error) => return fallback::item(&item, &error),
    };
    let mut errors = Errors::default();
    let options = options(attr, ARGS, &mut errors);
    let ast = parse::prim_func(&func, options, &mut errors);
    if errors.is_empty() {
        check::check(&ast, &mut errors);
    }
    generate::prim_func(&func, &ast, &errors)
}
