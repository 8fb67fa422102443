//! Expansion of `#[relax::func] fn` and `relax!(|x: ..| -> .. { .. })`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned;
use syn::{Expr, ExprClosure, File, FnArg, GenericParam, Item, ItemFn, LitStr, Pat, ReturnType, Stmt, Type};

use super::body::Body;
use super::ty::{self, Dims, NewDims};
use super::{Surface, check, special};
use crate::bounds::Bounds;
use crate::error::Errors;
use crate::options::{self, Options};
use crate::{dims, operators, paths};

/// `#[relax::func]`, `#[relay::func]`.
pub(crate) fn attribute(surface: Surface, attr: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2::<ItemFn>(item.clone()) {
        Ok(func) => item_fn(surface, attr, &func),
        Err(_) if syn::parse2::<Item>(item.clone()).is_ok() => {
            let mut errors = Errors::default();
            let message = format!("`#[{}::func]` stands on a function", surface.name());
            errors.push_at(
                Span::call_site(),
                message,
                "write `fn f(x: Tensor<f32, n>) -> Tensor<f32, n> { .. }`",
            );
            errors.to_tokens()
        }
        Err(error) => crate::kernel::fallback::item(&item, &error),
    }
}

/// `relax!( .. )`, `relay!( .. )`: a closure, or several functions.
pub(crate) fn inline(surface: Surface, input: TokenStream) -> TokenStream {
    if let Ok(closure) = syn::parse2::<ExprClosure>(input.clone()) {
        return closure_fn(surface, &closure);
    }
    match syn::parse2::<File>(input.clone()) {
        Ok(file) if !file.items.is_empty() => file
            .items
            .iter()
            .map(|item| match item {
                Item::Fn(func) => item_fn(surface, TokenStream::new(), func),
                other => {
                    let mut errors = Errors::default();
                    errors.push(
                        other,
                        "only functions can stand here",
                        "write `fn name(x: Tensor<f32, n>) -> ..`",
                    );
                    errors.to_tokens()
                }
            })
            .collect(),
        _ => {
            let help = format!("write {}!(|x: Tensor<f32, n>| -> Tensor<f32, n> {{ .. }})", surface.name());
            let mut errors = Errors::default();
            // rustc reports a syntax error in the body itself; an expression that is not a closure gets this error.
            match syn::parse2::<Expr>(input.clone()) {
                Ok(expr) => errors.push(&expr, "a closure is expected", &help),
                Err(_) if input.is_empty() => {
                    errors.push_at(Span::call_site(), "a closure is expected", &help)
                }
                Err(_) => return quote!({ #input }),
            }
            errors.to_tokens()
        }
    }
}

/// A parameter: name and type.
pub(crate) struct GraphParam {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
}

/// The parts that only a function with a name has.
#[derive(Default)]
struct Head {
    name: Option<Ident>,
    options: Options,
    type_params: Vec<Ident>,
}

/// The expansion that both forms share, declarations and body, and its errors.
struct Parts {
    definition: TokenStream,
    errors: Errors,
}

fn parts(
    surface: Surface,
    head: Head,
    params: Vec<GraphParam>,
    ret: &ReturnType,
    body: &Expr,
    place: Span,
    mut errors: Errors,
) -> Parts {
    let Head { name: own, options, type_params } = head;
    let generic = type_params.iter().map(ToString::to_string);
    let d = paths::own("d");
    let generic = quote!(#(#d.type_param(#generic);)*);
    let dims = Dims { names: Vec::new(), type_params };
    let (declare, mut dims) = declarations(&params, &options.bounds, dims, &mut errors);
    let ret_type = match ret {
        ReturnType::Default => {
            let ir = paths::ir(Span::call_site());
            quote!(#ir::Type::unit())
        }
        // A dimension that a wrong parameter would have bound is not reported as an error of the result.
        ReturnType::Type(_, ty) => {
            let new = if errors.is_empty() { NewDims::Refuse } else { NewDims::Bind };
            ty::tokens(ty, &mut dims, new, &mut errors)
        }
    };
    let mut checks = TokenStream::new();
    if errors.is_empty() {
        checks = check::function(own.as_ref(), &params, ret, body, &mut errors);
    }
    let mut rewriter = Body::new(surface, own, &mut errors);
    params.iter().for_each(|param| rewriter.declare(&param.name));
    rewriter.names.names.extend(dims.names);
    rewriter.names.type_params = dims.type_params;
    let body = rewriter.expr(body);
    let names = operators::names(&rewriter.operators);
    checks.extend(rewriter.checks);
    let begin = quote_spanned!(place=> #d.begin(#ret_type););
    let set = options.set();
    let graph = paths::graph(Span::call_site());
    let definition = quote! {
        // `bind`, `call_op` and the like, and the operators, so that rustc suggests similar names.
        use #graph::ops::*;
        #names
        #set
        #generic
        #declare
        #begin
        #checks
        #graph::item(#body).into_value()
    };
    Parts { definition, errors }
}

/// The statements that declare dimensions and parameters, and the names that types may use after them.
///
/// Scalars bind first, then dimensions, then the other parameters.
pub(super) fn declarations(
    params: &[GraphParam],
    bounds: &Bounds,
    mut dims: Dims,
    errors: &mut Errors,
) -> (TokenStream, Dims) {
    let (graph, d) = (paths::graph(Span::call_site()), paths::own("d"));
    let scalar = |param: &GraphParam| match &param.ty {
        Type::Path(it) => {
            it.path.get_ident().filter(|name| !dims.type_params.contains(name)).and_then(dims::dtype)
        }
        _ => None,
    };
    let scalars: Vec<Option<TokenStream>> = params.iter().map(scalar).collect();
    let mut res = TokenStream::new();
    for (param, dtype) in params.iter().zip(&scalars) {
        if let Some(dtype) = dtype {
            let (name, text, bound) = (&param.name, param.name.to_string(), bounds.of(&param.name));
            dims.names.push(name.clone());
            res.extend(quote_spanned!(name.span()=> let #name = #d.scalar(#text, #dtype, #bound);));
        }
    }
    let known = dims.names.len();
    for param in params {
        ty::tokens(&param.ty, &mut dims, NewDims::Collect, &mut Errors::default());
    }
    for dim in &dims.names[known..] {
        let (text, bound) = (dim.to_string(), bounds.of(dim));
        res.extend(quote!(let #dim = #graph::dim(#text, #bound);));
    }
    let is_i64 = |param: &&GraphParam| matches!(&param.ty, Type::Path(it) if it.path.is_ident("i64"));
    let own = params.iter().filter(is_i64).map(|param| &param.name).chain(&dims.names[known..]);
    bounds.check(&own.collect::<Vec<_>>(), errors);
    for (param, dtype) in params.iter().zip(&scalars) {
        let (name, text) = (&param.name, param.name.to_string());
        res.extend(if dtype.is_some() {
            quote!(#d.scalar_param(&#name);)
        } else {
            let ty = ty::tokens(&param.ty, &mut dims, NewDims::Bind, errors);
            quote_spanned!(name.span()=> let #name = #d.param(#text, #ty);)
        });
    }
    (res, dims)
}

impl Options {
    /// The statements that set the options of the attribute.
    pub(super) fn set(&self) -> TokenStream {
        let d = paths::own("d");
        let attrs = self.attrs.iter().map(|(name, value)| quote!(#d.attr(#name, #value);));
        let impure = self.impure.then(|| quote!(#d.impure();));
        quote!(#(#attrs)* #impure)
    }
}

/// The type parameters; anything else that is generic is an error.
fn type_params(func: &ItemFn, errors: &mut Errors) -> Vec<Ident> {
    let mut names = Vec::new();
    for param in &func.sig.generics.params {
        match param {
            GenericParam::Type(it) if it.bounds.is_empty() && it.default.is_none() => {
                names.push(it.ident.clone())
            }
            _ => {
                let help = "write the element type out; kernels (#[prim_func]) may be generic";
                errors.push(param, "a graph function is generic over whole types only", help);
                break;
            }
        }
    }
    names
}

fn item_fn(surface: Surface, attr: TokenStream, func: &ItemFn) -> TokenStream {
    let mut errors = Errors::default();
    let options = options::options(attr, &["name", "impure", "dims", "attrs"], &mut errors);
    let mut params = Vec::new();
    for input in &func.sig.inputs {
        match input {
            FnArg::Typed(it) => match &*it.pat {
                Pat::Ident(name) => {
                    params.push(GraphParam { name: name.ident.clone(), ty: (*it.ty).clone() })
                }
                pat => errors.push(pat, "a parameter is a name", "write `x: Tensor<f32, n>`"),
            },
            FnArg::Receiver(it) => errors.push(it, "a graph function has no `self`", ""),
        }
    }
    let body = Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block: (*func.block).clone() });
    if matches!(func.sig.output, ReturnType::Default)
        && matches!(func.block.stmts.last(), Some(Stmt::Expr(_, None)))
    {
        errors.push(
            &func.sig.ident,
            "the result type is missing",
            "write `-> Tensor<f32, n>` after the parameters",
        );
    }
    if operators::is_operator(&func.sig.ident) && !matches!(func.vis, syn::Visibility::Inherited) {
        let name = &func.sig.ident;
        let message = format!("`{name}` is an operator: where the function is imported, its name calls that");
        let help = format!("write `#[{}::func(name = \"{name}\")] fn my_{name}(..)`", surface.name());
        errors.push(name, message, &help);
    }
    if special::is_form(&func.sig.ident) {
        let message = format!(
            "`{}` is a form of the surface: calls of the function would not reach it",
            func.sig.ident
        );
        errors.push(&func.sig.ident, message, "give the function another name");
    }
    let mut generic = Errors::default();
    let type_params = type_params(func, &mut generic);
    let text = options.name.as_ref().map_or_else(|| func.sig.ident.unraw().to_string(), LitStr::value);
    let arity = params.len();
    let Parts { definition, mut errors } = parts(
        surface,
        Head { name: Some(func.sig.ident.clone()), options, type_params },
        params,
        &func.sig.output,
        &body,
        func.sig.ident.span(),
        errors,
    );
    if !generic.is_empty() {
        // The other errors follow from this one: the parameter is neither an element type nor an extent.
        errors = generic;
    }
    let (name, vis) = (&func.sig.ident, &func.vis);
    let docs = func.attrs.iter().filter(|attr| attr.path().is_ident("doc"));
    let (graph, ir) = (paths::graph(Span::call_site()), paths::ir(Span::call_site()));
    let (definition, errors) = definition_or_errors(definition, &errors);
    let d = paths::own("d");
    let value = quote!(#graph::CallOf<#name>);
    let hides = operators::hide(name, &value, &quote!(#graph::call_def::<#name>(self.0)));
    let call = quote_spanned!(name.span()=> #name);
    quote! {
        #(#docs)*
        #[allow(non_camel_case_types, reason = "named like the function")]
        #vis struct #name {}

        impl #graph::FuncDef for #name {
            const NAME: &'static str = #text;
            const ARITY: usize = #arity;

            #[allow(unused, unexpected_cfgs, clippy::all, clippy::pedantic, clippy::restriction, reason = "the body of a graph function")]
            fn define(#d: &mut #graph::Definition) -> #graph::GraphValue {
                #definition
            }
        }

        #[doc(hidden)]
        #[track_caller]
        #vis fn #call(args: #graph::Args) -> #graph::CallOf<#name> {
            #graph::call_def::<#name>(args)
        }
        #hides

        impl #name {
            /// A module of this function and all that it uses.
            ///
            /// # Errors
            /// All errors in them, with their places in the source.
            #vis fn module() -> ::std::result::Result<#ir::IRModule, #ir::IrError> {
                <Self as #graph::FuncDef>::module()
            }

            /// `module` with this function and all that it uses; it may call the functions there with `call_global`.
            ///
            /// # Errors
            /// As [`module`](Self::module).
            #vis fn extend(module: #ir::IRModule) -> ::std::result::Result<#ir::IRModule, #ir::IrError> {
                <Self as #graph::FuncDef>::extend(module)
            }
        }
        #errors
    }
}

fn closure_fn(surface: Surface, closure: &ExprClosure) -> TokenStream {
    let mut errors = Errors::default();
    let mut params = Vec::new();
    for input in &closure.inputs {
        match input {
            Pat::Type(it) => match &*it.pat {
                Pat::Ident(name) => {
                    params.push(GraphParam { name: name.ident.clone(), ty: (*it.ty).clone() })
                }
                pat => errors.push(pat, "a parameter is a name", "write `x: Tensor<f32, n>`"),
            },
            other => errors.push(other, "a parameter needs a type", "write `x: Tensor<f32, n>`"),
        }
    }
    if matches!(closure.output, ReturnType::Default) {
        let help = "write `|x: Tensor<f32, n>| -> Tensor<f32, n> { .. }`";
        errors.push(&closure.or2_token, "the result type is missing", help);
    }
    let place = closure.or1_token.span();
    let Parts { definition, errors } =
        parts(surface, Head::default(), params, &closure.output, &closure.body, place, errors);
    let graph = paths::graph(Span::call_site());
    let (definition, errors) = definition_or_errors(definition, &errors);
    let (d, func) = (paths::own("d"), paths::own("func"));
    quote! {{
        #[allow(unused, unexpected_cfgs, clippy::all, clippy::pedantic, clippy::restriction, reason = "the body of a graph function")]
        let #func = #graph::define(|#d: &mut #graph::Definition| -> #graph::GraphValue { #definition });
        #errors
        #func
    }}
}

/// If there are errors, the body is for the editor alone: rustc would report the same errors in other words.
fn definition_or_errors(definition: TokenStream, errors: &Errors) -> (TokenStream, TokenStream) {
    if errors.is_empty() {
        return (definition, TokenStream::new());
    }
    let (graph, d) = (paths::graph(Span::call_site()), paths::own("d"));
    let stub = quote! {
        #[cfg(rust_analyzer)]
        { #definition }
        #[cfg(not(rust_analyzer))]
        { let _ = #d; #graph::GraphValue::poison() }
    };
    (stub, errors.to_tokens())
}
