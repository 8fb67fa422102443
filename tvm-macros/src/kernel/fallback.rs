//! The shadow of an item that does not parse, made token by token, without syn. rustc reports the syntax error; this
//! shadow keeps the item's name defined and completion working inside its body.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;

use crate::paths;

/// The expansion of an item that does not parse.
pub(crate) fn item(item: &TokenStream, error: &syn::Error) -> TokenStream {
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    let name = tokens.windows(2).find_map(|pair| match pair {
        [TokenTree::Ident(keyword), TokenTree::Ident(name)] if keyword == "fn" => Some(name.clone()),
        _ => None,
    });
    let Some(name) = name else { return item.clone() };
    let vis: TokenStream = tokens
        .iter()
        .take_while(|it| !matches!(it, TokenTree::Ident(it) if it == "fn"))
        .skip_while(|it| !matches!(it, TokenTree::Ident(it) if it == "pub"))
        .cloned()
        .collect();
    let body = lenient(item.clone());
    let span = proc_macro2::Span::call_site();
    let (shadow, ir, tir) = (paths::shadow(span), paths::ir(span), paths::tir(span));
    let shadow = crate::kernel::shadow::scope(&quote!(use #shadow::kernel::*; #body), true);
    let message = format!("the kernel `{name}` does not parse: {error}");
    quote! {
        #shadow
        #[allow(non_camel_case_types, dead_code, reason = "named like the kernel")]
        #vis struct #name {}
        #[allow(dead_code, reason = "stands for the kernel that does not parse")]
        impl #name {
            /// The error.
            #vis fn prim_func() -> ::core::result::Result<#tir::PrimFunc, #ir::IrError> {
                ::core::result::Result::Err(#ir::IrError::new(#message, &#ir::Span::none()))
            }
        }
    }
}

/// Replaces `Tensor<T, d1, d2>` with a view of rank 2 and removes attributes; works on code that does not parse.
fn lenient(tokens: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut out: Vec<TokenTree> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        match &tokens[i] {
            TokenTree::Punct(hash)
                if hash.as_char() == '#'
                    && matches!(tokens.get(i + 1), Some(TokenTree::Group(it)) if it.delimiter() == Delimiter::Bracket) =>
            {
                i += 2;
            }
            TokenTree::Group(group) => {
                let mut new = Group::new(group.delimiter(), lenient(group.stream()));
                new.set_span(group.span());
                out.push(new.into());
                i += 1;
            }
            TokenTree::Ident(name) if name == "Tensor" && is_punct(tokens.get(i + 1), '<') => {
                let (dtype, rank, next) = tensor_args(&tokens, i + 2);
                out.extend(quote!(::tvm::__private::shadow::ViewMut<'_, #dtype, #rank>));
                i = next;
            }
            token => {
                out.push(token.clone());
                i += 1;
            }
        }
    }
    out.into_iter().collect()
}

fn is_punct(token: Option<&TokenTree>, char: char) -> bool {
    matches!(token, Some(TokenTree::Punct(it)) if it.as_char() == char)
}

/// Element type and rank of `Tensor<..>`, and the index of the token after it; `start` is after the `<`.
fn tensor_args(tokens: &[TokenTree], start: usize) -> (TokenStream, usize, usize) {
    let (mut i, mut depth, mut rank) = (start, 1, 0);
    let mut dtype = TokenStream::new();
    while i < tokens.len() {
        if let TokenTree::Punct(punct) = &tokens[i] {
            match punct.as_char() {
                '<' => depth += 1,
                '>' => depth -= 1,
                ',' if depth == 1 => {
                    rank += 1;
                    i += 1;
                    continue;
                }
                _ => {}
            }
        }
        if depth == 0 {
            break;
        }
        if rank == 0 {
            dtype.extend([tokens[i].clone()]);
        }
        i += 1;
    }
    (dtype, rank, i + 1)
}
