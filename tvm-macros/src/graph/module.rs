//! `#[ir_module] mod net { .. }`: one module of all functions and types in it.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, Item, ItemMod};

use crate::error::Errors;
use crate::options::options;
use crate::paths;

/// The module unchanged, with a function `module()` that builds an `IRModule` of its functions and types.
pub(crate) fn ir_module(attr: TokenStream, item: TokenStream) -> TokenStream {
    let module = match syn::parse2::<ItemMod>(item.clone()) {
        Ok(module) => module,
        Err(_) => {
            let mut errors = Errors::default();
            if syn::parse2::<Item>(item.clone()).is_ok() {
                errors.push_at(
                    Span::call_site(),
                    "`#[ir_module]` stands on a module",
                    "write `mod net { .. }`",
                );
            }
            let errors = errors.to_tokens();
            return quote!(#item #errors);
        }
    };
    let Some((_, items)) = &module.content else {
        let mut errors = Errors::default();
        errors.push(&module, "`#[ir_module]` needs the module's content here", "write `mod net { .. }`");
        return errors.to_tokens();
    };
    let (ir, graph) = (paths::ir(Span::call_site()), paths::graph(Span::call_site()));
    let includes = items.iter().filter_map(|item| match item {
        Item::Fn(func) => {
            let name = &func.sig.ident;
            match kind(&func.attrs)? {
                Kind::Kernel => Some(quote!(#graph::include_tir::<#name>();)),
                Kind::Graph => Some(quote!(#graph::include::<#name>();)),
            }
        }
        Item::Enum(def) if def.attrs.iter().any(|attr| last_segment(attr) == "adt") => {
            let name = &def.ident;
            Some(quote!(<#name as #graph::AdtDef>::include();))
        }
        _ => None,
    });
    let mut errors = Errors::default();
    let options = options(attr, &["attrs"], &mut errors);
    let set = options.attrs.iter().map(|(name, value)| quote!(#graph::module_attr(#name, #value);));
    let errors = errors.to_tokens();
    let (attrs, vis, name) = (&module.attrs, &module.vis, &module.ident);
    quote! {
        #errors
        #(#attrs)*
        #vis mod #name {
            #(#items)*

            /// One module of all functions and types written here.
            ///
            /// # Errors
            /// All errors in them, with their places in the source.
            pub fn module() -> ::std::result::Result<#ir::IRModule, #ir::IrError> {
                #graph::module_of(|| { #(#set)* #(#includes)* })
            }
        }
    }
}

enum Kind {
    Kernel,
    Graph,
}

fn kind(attrs: &[Attribute]) -> Option<Kind> {
    attrs.iter().find_map(|attr| match last_segment(attr).as_str() {
        "prim_func" => Some(Kind::Kernel),
        "func" => Some(Kind::Graph),
        _ => None,
    })
}

fn last_segment(attr: &Attribute) -> String {
    attr.path().segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}
