//! The arguments of the attributes: `#[relax::func(name = "a.b", impure, dims(n = 1..=64), attrs(opt_level = 3))]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Ident, Lit, LitStr, Meta, Token, UnOp};

use crate::bounds::Bounds;
use crate::dims;
use crate::error::Errors;
use crate::paths;

/// The arguments of an attribute.
#[derive(Default)]
pub(crate) struct Options {
    /// The name in the module, if it is not the function's.
    pub(crate) name: Option<LitStr>,
    /// True when calling the function has a side effect.
    pub(crate) impure: bool,
    /// Bounds of dimensions.
    pub(crate) bounds: Bounds,
    /// Names of attributes, and the tokens of their values as `ir::AttrValue`s.
    pub(crate) attrs: Vec<(String, TokenStream)>,
    /// The same for the attributes of the root block of a kernel.
    pub(crate) root: Vec<(String, TokenStream)>,
}

/// Reads the arguments; `known` are the names of those that are allowed here.
pub(crate) fn options(attr: TokenStream, known: &[&str], errors: &mut Errors) -> Options {
    let mut res = Options::default();
    match Punctuated::<Meta, Token![,]>::parse_terminated.parse2(attr) {
        Ok(metas) => metas.iter().for_each(|meta| res.meta(meta, known, errors)),
        Err(error) => errors.add(error),
    }
    res
}

impl Options {
    /// Reads one argument.
    fn meta(&mut self, meta: &Meta, known: &[&str], errors: &mut Errors) {
        let name = meta.path().get_ident().map(Ident::to_string).filter(|name| known.contains(&&**name));
        match (name.as_deref(), meta) {
            (Some("name"), Meta::NameValue(it)) => match &it.value {
                Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => self.name = Some(text.clone()),
                other => errors.push(other, "a name is a string", "write name = \"main\""),
            },
            (Some("impure"), Meta::Path(_)) => self.impure = true,
            (Some("dims"), Meta::List(list)) => self.bounds.read(list, errors),
            (Some("attrs"), Meta::List(list)) => self.attrs.extend(entries(list, errors)),
            (Some("root"), Meta::List(list)) => self.root.extend(entries(list, errors)),
            _ => {
                let forms: Vec<&str> = known.iter().map(|name| form(name)).collect();
                let help = match &forms[..] {
                    [] => "it takes none".to_string(),
                    forms => format!("`{}` is what it takes", forms.join(", ")),
                };
                errors.push(meta.path(), "unknown argument of the attribute", &help);
            }
        }
    }
}

/// The names and values in `attrs(key = value, ..)`.
pub(crate) fn entries(list: &syn::MetaList, errors: &mut Errors) -> Vec<(String, TokenStream)> {
    match list.parse_args_with(Punctuated::<Entry, Token![,]>::parse_terminated) {
        Ok(entries) => {
            entries.iter().filter_map(|it| Some((it.key.clone(), value(&it.value, errors)?))).collect()
        }
        Err(error) => {
            errors.add(error);
            Vec::new()
        }
    }
}

fn form(name: &str) -> &str {
    match name {
        "root" => "root(key = 1)",
        "name" => "name = \"main\"",
        "attrs" => "attrs(opt_level = 3)",
        "dims" => "dims(n = 1..=64, m % 8 == 0)",
        other => other,
    }
}

/// `key = value`; a key that is not an identifier is written as a string.
struct Entry {
    key: String,
    value: Expr,
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Entry> {
        let key = if input.peek(LitStr) {
            input.parse::<LitStr>()?.value()
        } else {
            input.parse::<Ident>()?.to_string()
        };
        input.parse::<Token![=]>()?;
        Ok(Entry { key, value: input.parse()? })
    }
}

/// The tokens of an `ir::AttrValue`.
fn value(expr: &Expr, errors: &mut Errors) -> Option<TokenStream> {
    let ir = paths::ir(Span::call_site());
    let number = |lit: &Lit, sign: TokenStream| match lit {
        Lit::Int(it) => it.base10_parse::<i64>().ok().map(|it| quote!(#ir::AttrValue::Int(#sign #it))),
        Lit::Float(it) => it.base10_parse::<f64>().ok().map(|it| quote!(#ir::AttrValue::Float(#sign #it))),
        _ => None,
    };
    let found = match expr {
        Expr::Lit(it) => match &it.lit {
            Lit::Str(text) => Some(quote!(#ir::AttrValue::Str(#text.into()))),
            Lit::Bool(it) => Some(quote!(#ir::AttrValue::Bool(#it))),
            other => number(other, TokenStream::new()),
        },
        Expr::Unary(it) if matches!(it.op, UnOp::Neg(_)) => match &*it.expr {
            Expr::Lit(it) => number(&it.lit, quote!(-)),
            _ => None,
        },
        Expr::Array(it) => {
            let items: Option<Vec<TokenStream>> = it.elems.iter().map(|it| value(it, errors)).collect();
            let items = items?;
            Some(quote!(#ir::AttrValue::List(::std::vec::Vec::from([#(#items),*]).into())))
        }
        Expr::Path(it) => match it.path.get_ident() {
            Some(name) => dims::dtype(name).map(|dtype| quote!(#ir::AttrValue::DType(#dtype))),
            // `f64::NAN`, `i64::MIN`
            None => Some(quote!(#ir::AttrValue::from(#it))),
        },
        _ => None,
    };
    if found.is_none() {
        let help = "values are numbers, strings, true and false, data types and lists of these";
        errors.push(expr, "this is not the value of an attribute", help);
    }
    found
}
