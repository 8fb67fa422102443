//! Types of graph functions: how they are read, and the tokens that build them.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, PathArguments, ReturnType, Type};

use super::scalar;
use crate::dims::{DTYPES, dtype};
use crate::error::Errors;
use crate::paths;

/// Names that have a meaning in types.
#[derive(Clone, Default)]
pub(crate) struct Dims {
    /// Symbolic dimensions in order of first use, and scalars.
    pub(crate) names: Vec<Ident>,
    /// Type parameters.
    pub(crate) type_params: Vec<Ident>,
}

impl Dims {
    pub(crate) fn contains(&self, name: &Ident) -> bool {
        self.names.contains(name)
    }
}

/// How new dimension names are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewDims {
    /// They are bound here.
    Bind,
    /// They are an error: a result may use only the dimensions that parameters bind.
    Refuse,
    /// They are bound where they stand alone; elsewhere they may be bound later.
    Collect,
}

/// The tokens of an `ir::Type`.
pub(crate) fn tokens(ty: &Type, dims: &mut Dims, new: NewDims, errors: &mut Errors) -> TokenStream {
    let span = ty.span();
    let (ir, graph) = (paths::ir(span), paths::graph(span));
    let unsupported = |errors: &mut Errors| {
        let help = "types are Tensor<f32, n, 10>, TensorDyn<f32>, scalars, tuples, fn(A) -> B and #[relay::adt] types";
        errors.push(ty, "this type is not supported in a graph function", help);
        quote!(#ir::Type::Object)
    };
    match ty {
        Type::Paren(it) => tokens(&it.elem, dims, new, errors),
        Type::Group(it) => tokens(&it.elem, dims, new, errors),
        Type::Tuple(it) => {
            let fields: Vec<TokenStream> =
                it.elems.iter().map(|field| tokens(field, dims, new, errors)).collect();
            quote_spanned!(span=> #ir::Type::Tuple(::std::vec::Vec::from([#(#fields),*]).into()))
        }
        Type::BareFn(it) => func(it, true, dims, new, errors),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return unsupported(errors) };
            let args: Vec<&GenericArgument> = match &last.arguments {
                PathArguments::AngleBracketed(it) => it.args.iter().collect(),
                PathArguments::None | PathArguments::Parenthesized(_) => Vec::new(),
            };
            let name = last.ident.to_string();
            match (name.as_str(), &args[..]) {
                (_, []) if dims.type_params.contains(&last.ident) => {
                    quote_spanned!(span=> #ir::Type::Param(#ir::TypeParam(#name.into())))
                }
                ("Tensor", [dtype, extents @ ..]) => {
                    let Some(dtype) = dtype_of(dtype, errors) else { return quote!(#ir::Type::Object) };
                    let extents: Vec<TokenStream> =
                        extents.iter().map(|it| dim(it, dims, new, errors)).collect();
                    quote_spanned!(span=> #ir::Type::Tensor(#ir::TensorType {
                        shape: #ir::TensorShape::Known(::std::vec::Vec::from([#(#extents),*]).into()),
                        dtype: #dtype,
                        vdevice: ::std::option::Option::None,
                    }))
                }
                ("TensorDyn", [dtype]) => {
                    let Some(dtype) = dtype_of(dtype, errors) else { return quote!(#ir::Type::Object) };
                    quote_spanned!(span=> #ir::Type::Tensor(#ir::TensorType::unknown(#dtype)))
                }
                ("TensorRank", [dtype, GenericArgument::Const(ndim)]) => {
                    let Some(dtype) = dtype_of(dtype, errors) else { return quote!(#ir::Type::Object) };
                    quote_spanned!(span=> #ir::Type::Tensor(#ir::TensorType::ranked(#ndim, #dtype)))
                }
                ("Shape", _) if matches!(last.arguments, PathArguments::AngleBracketed(_)) => {
                    let extents: Vec<TokenStream> =
                        args.iter().map(|it| dim(it, dims, new, errors)).collect();
                    let ndim = extents.len();
                    quote_spanned!(span=> #ir::Type::Shape(#ir::ShapeType {
                        values: ::std::option::Option::Some(::std::vec::Vec::from([#(#extents),*]).into()),
                        ndim: ::std::option::Option::Some(#ndim),
                    }))
                }
                ("Shape", []) => quote_spanned!(span=> #ir::Type::Shape(#ir::ShapeType {
                    values: ::std::option::Option::None,
                    ndim: ::std::option::Option::None,
                })),
                ("ShapeRank", [GenericArgument::Const(ndim)]) => {
                    quote_spanned!(span=> #ir::Type::Shape(#ir::ShapeType {
                        values: ::std::option::Option::None,
                        ndim: ::std::option::Option::Some(#ndim),
                    }))
                }
                ("Ref", [GenericArgument::Type(inner)]) => {
                    let inner = tokens(inner, dims, new, errors);
                    quote_spanned!(span=> #ir::Type::Ref(::std::sync::Arc::new(#inner)))
                }
                ("Impure", [GenericArgument::Type(Type::BareFn(it))]) => func(it, false, dims, new, errors),
                ("Object", []) => quote_spanned!(span=> #ir::Type::Object),
                ("Box", [GenericArgument::Type(inner)]) => tokens(inner, dims, new, errors),
                (_, []) if dtype(&last.ident).is_some() => {
                    let dtype = dtype(&last.ident);
                    quote_spanned!(span=> #ir::Type::Prim(#dtype))
                }
                ("Tensor" | "TensorDyn", []) => {
                    errors.push(ty, format!("`{name}` needs an element type"), "write Tensor<f32, n, 10>");
                    quote!(#ir::Type::Object)
                }
                _ if args.iter().all(|arg| matches!(arg, GenericArgument::Type(_))) => {
                    let args = type_args(&last.arguments, dims, new, errors).unwrap_or_default();
                    let mut adt = path.path.clone();
                    adt.segments.iter_mut().for_each(|it| it.arguments = PathArguments::None);
                    quote_spanned!(span=> <#adt as #graph::AdtDef>::ty(::std::vec::Vec::from([#(#args),*])))
                }
                _ => unsupported(errors),
            }
        }
        _ => unsupported(errors),
    }
}

/// The type arguments that are written, if any are.
pub(super) fn type_args(
    args: &PathArguments,
    dims: &mut Dims,
    new: NewDims,
    errors: &mut Errors,
) -> Option<Vec<TokenStream>> {
    let PathArguments::AngleBracketed(args) = args else { return None };
    let types =
        args.args.iter().filter_map(|arg| if let GenericArgument::Type(ty) = arg { Some(ty) } else { None });
    Some(types.map(|ty| tokens(ty, dims, new, errors)).collect())
}

/// The tokens of the type of a function.
fn func(it: &syn::TypeBareFn, pure: bool, dims: &mut Dims, new: NewDims, errors: &mut Errors) -> TokenStream {
    let ir = paths::ir(it.span());
    let params: Vec<TokenStream> = it.inputs.iter().map(|arg| tokens(&arg.ty, dims, new, errors)).collect();
    let ret = match &it.output {
        ReturnType::Default => quote!(#ir::Type::unit()),
        ReturnType::Type(_, ret) => tokens(ret, dims, new, errors),
    };
    quote_spanned! {it.span()=>
        #ir::Type::Func(::std::sync::Arc::new(#ir::FuncType {
            type_params: ::std::vec::Vec::from([]).into(),
            params: ::std::vec::Vec::from([#(#params),*]).into(),
            ret: #ret,
            pure: #pure,
        }))
    }
}

/// True for names that have a meaning in types; a data type cannot have them.
pub(super) fn is_reserved(name: &Ident) -> bool {
    const TYPES: [&str; 9] =
        ["Tensor", "TensorDyn", "TensorRank", "Shape", "ShapeRank", "Ref", "Impure", "Object", "Box"];
    TYPES.iter().any(|it| name == it) || dtype(name).is_some()
}

/// The tokens of an `Option<DataType>`: `_` is an unknown element type.
fn dtype_of(arg: &GenericArgument, errors: &mut Errors) -> Option<TokenStream> {
    let found = match arg {
        GenericArgument::Type(Type::Path(path)) => {
            let found = path.path.get_ident().and_then(dtype);
            found.map(|dtype| quote!(::std::option::Option::Some(#dtype)))
        }
        GenericArgument::Type(Type::Infer(_)) => Some(quote!(::std::option::Option::None)),
        _ => None,
    };
    if found.is_none() {
        let help = format!("element types are {}", DTYPES.join(" "));
        errors.push(arg, format!("`{}` is not an element type", quote!(#arg)), &help);
    }
    found
}

/// The tokens of one extent, a `PrimExpr`.
fn dim(arg: &GenericArgument, dims: &mut Dims, new: NewDims, errors: &mut Errors) -> TokenStream {
    // A dimension binds only where it stands alone.
    let inside = if new == NewDims::Bind { NewDims::Refuse } else { new };
    match arg {
        GenericArgument::Type(Type::Path(path)) if path.path.get_ident().is_some() => {
            let Some(name) = path.path.get_ident() else { return TokenStream::new() };
            let alone = if new == NewDims::Collect { NewDims::Bind } else { new };
            scalar::name(name, dims, alone, errors)
        }
        GenericArgument::Const(expr) => scalar::tokens(expr, dims, inside, errors),
        _ => {
            errors.push(
                arg,
                "an extent is a name, a number or an expression in braces",
                "write n, 10 or { n * 2 }",
            );
            quote!(0i64.into())
        }
    }
}

/// True for names that are constants of the host program.
pub(super) fn is_constant(name: &Ident) -> bool {
    let text = name.to_string();
    text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase)
}
