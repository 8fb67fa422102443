//! Buffers that match regions, in the shadow: the region is a value, and an access to the matched buffer is one to its
//! source at the index that the region gives.

use proc_macro2::TokenStream;
use quote::{format_ident, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Local, Stmt, parse_quote_spanned};

use crate::kernel::parse::matched_region;
use crate::paths;

/// The variable that holds the region of the matched buffer `name`.
fn region_of(name: &Ident) -> Ident {
    paths::own(&format!("region_{name}"))
}

/// For `let v = match_buffer(y[[i, a..b]]);`: `v`, `y`, and the parts of the region.
pub(super) fn matched(local: &Local) -> Option<(Ident, Ident, Vec<Expr>)> {
    let syn::Pat::Ident(pat) = &local.pat else { return None };
    let Expr::Call(call) = &*local.init.as_ref()?.expr else { return None };
    let (source, parts) = matched_region(call)?;
    Some((pat.ident.clone(), source.clone(), parts.into_iter().cloned().collect()))
}

/// The statement that keeps the region of the matched buffer `name`.
pub(super) fn keep(name: &Ident, parts: &[Expr]) -> Stmt {
    let span = name.span();
    let shadow = paths::shadow(span);
    let single = parts.iter().filter(|part| !matches!(part, Expr::Range(_))).count();
    let ranges: Vec<TokenStream> = parts
        .iter()
        .map(|part| match part {
            Expr::Range(range) => quote_spanned!(span=> #range),
            index => quote_spanned!(span=> #shadow::single(#index)),
        })
        .collect();
    let region = region_of(name);
    parse_quote_spanned!(span=> let #region = #shadow::region(#single, [#(#ranges),*]);)
}

/// `name[[i]]` as `source[region.at([i])]`.
pub(super) fn access(it: &mut syn::ExprIndex, name: &Ident, source: &Ident) {
    let (span, region, index) = (it.index.span(), region_of(name), &it.index);
    it.index = parse_quote_spanned!(span=> #region.at(#index));
    let source = format_ident!("{source}", span = it.expr.span());
    it.expr = parse_quote_spanned!(span=> #source);
}

/// The error at `name`, which matches a buffer whose name `source` has another meaning here.
pub(super) fn hidden(name: &Ident, source: &Ident) -> Expr {
    let message = format!("`{name}` matches a region of `{source}`, but another `{source}` hides it here");
    parse_quote_spanned!(name.span()=> ::core::compile_error!(#message))
}
