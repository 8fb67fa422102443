//! Expansion of `#[relay::adt] enum`.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Fields, GenericParam, Item, ItemEnum};

use super::ty::{self, Dims, NewDims};
use crate::error::Errors;
use crate::paths;

/// The enum with its fields erased (for rustc's exhaustiveness check), and its definition.
pub(crate) fn adt(item: TokenStream) -> TokenStream {
    let def = match syn::parse2::<ItemEnum>(item.clone()) {
        Ok(def) => def,
        Err(_) => return not_an_enum(item),
    };
    let mut errors = Errors::default();
    let (ir, graph) = (paths::ir(Span::call_site()), paths::graph(Span::call_site()));
    let mut dims = Dims::default();
    for param in &def.generics.params {
        match param {
            GenericParam::Type(it) => dims.type_params.push(it.ident.clone()),
            _ => errors.push(param, "a data type is generic over types only", "write enum List<A> { .. }"),
        }
    }
    if ty::is_reserved(&def.ident) {
        let message = format!("`{}` is a type of the surface already", def.ident);
        errors.push(&def.ident, message, "give the data type another name");
    }
    let (mut variants, mut constructors) = (Vec::new(), Vec::new());
    for variant in &def.variants {
        let fields: Vec<&syn::Type> = match &variant.fields {
            Fields::Unit => Vec::new(),
            Fields::Unnamed(it) => it.unnamed.iter().map(|field| &field.ty).collect(),
            Fields::Named(it) => {
                errors.push(
                    it,
                    "fields of a constructor have no names",
                    "write Cons(Tensor<f32>, Box<List>)",
                );
                Vec::new()
            }
        };
        let types: Vec<TokenStream> =
            fields.iter().map(|ty| ty::tokens(ty, &mut dims, NewDims::Bind, &mut errors)).collect();
        let (name, text) = (&variant.ident, variant.ident.to_string());
        let erased = fields.iter().map(|_| quote!(()));
        let docs = variant.attrs.iter().filter(|attr| attr.path().is_ident("doc"));
        variants.push(if fields.is_empty() {
            quote!(#(#docs)* #name)
        } else {
            quote!(#(#docs)* #name(#(#erased),*))
        });
        constructors.push(
            quote!(#ir::ConstructorDef { name: #text.into(), fields: ::std::vec::Vec::from([#(#types),*]).into() }),
        );
    }
    if let Some(dim) = dims.names.first() {
        errors.push(
            dim,
            format!("dimension `{dim}` in a field"),
            "fields have constant extents, or TensorDyn<f32>",
        );
    }
    let (name, vis, text) = (&def.ident, &def.vis, def.ident.to_string());
    let docs = def.attrs.iter().filter(|attr| attr.path().is_ident("doc"));
    let constructors = if errors.is_empty() { quote!(#(#constructors),*) } else { quote!() };
    let errors = errors.to_tokens();
    let params = dims.type_params.iter().map(ToString::to_string);
    quote! {
        #(#docs)*
        #[allow(dead_code, missing_docs, reason = "its values live in the virtual machine")]
        #vis enum #name { #(#variants),* }

        impl #graph::AdtDef for #name {
            const NAME: &'static str = #text;

            fn type_def() -> #ir::TypeDef {
                #ir::TypeDef {
                    name: #text.into(),
                    params: ::std::vec::Vec::from([#(#ir::TypeParam(#params.into())),*]).into(),
                    constructors: ::std::vec::Vec::from([#constructors]).into(),
                }
            }
        }
        #errors
    }
}

/// The expansion of an item that is not an enum. If the item does not parse, it is left to rustc, which reports it. If it
/// parses, its field types mean something in an enum alone: an error, and an empty enum for a struct or union, replace it.
fn not_an_enum(item: TokenStream) -> TokenStream {
    let Ok(other) = syn::parse2::<Item>(item.clone()) else { return item };
    let mut errors = Errors::default();
    errors.push_at(
        keyword(item),
        "`#[relay::adt]` stands on an enum",
        "write `enum List { Nil, Cons(Tensor<f32>, Box<List>) }`",
    );
    let errors = errors.to_tokens();
    let name = match other {
        Item::Struct(it) => Some(it.ident),
        Item::Union(it) => Some(it.ident),
        _ => None,
    };
    let stub = name.map(|name| adt(quote!(pub enum #name {})));
    quote!(#stub #errors)
}

/// The span of the keyword of the item, such as `struct` or `fn`.
fn keyword(item: TokenStream) -> Span {
    let words = ["struct", "union", "fn", "mod", "trait", "type", "impl", "const", "static", "use"];
    let mut idents = item.into_iter().filter_map(|token| match token {
        TokenTree::Ident(it) => Some(it),
        _ => None,
    });
    idents.find(|it| words.iter().any(|word| it == word)).map_or_else(Span::call_site, |it| it.span())
}
