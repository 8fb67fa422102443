//! Parameters and their dimensions.

use quote::{ToTokens, format_ident};
use syn::spanned::Spanned;
use syn::{
    Expr, FnArg, GenericArgument, GenericParam, Ident, Pat, PathArguments, ReturnType, Signature, Type,
};

use super::Parser;
use super::scope::{Name, ValueKind, Written};
use crate::dims::{DTYPES, is_host_constant, is_type_param};
use crate::error::did_you_mean;
use crate::kernel::ast::{DType, Dim, Param, ParamKind};

const PARAM_HELP: &str =
    "parameters are `x: &Tensor<f32, m, n>`, `y: &mut Tensor<f32, n>` or scalars such as `s: f32`";

/// Maximum number of parameters, which is that of typed calls.
const MAX_PARAMS: usize = 12;

impl Parser<'_> {
    /// Parameters, and the symbolic dimensions in order of first use.
    pub(super) fn signature(&mut self, sig: &Signature) -> (Vec<Param>, Vec<Ident>) {
        self.modifiers(sig);
        if DTYPES.contains(&sig.ident.to_string().as_str()) {
            let message = format!("`{}` is an element type", sig.ident);
            self.errors.push(&sig.ident, message, "give the kernel another name");
        }
        let mut dims = Vec::new();
        for input in &sig.inputs {
            if let FnArg::Typed(input) = input {
                collect_dims(&input.ty, &mut dims);
            }
        }
        dims.retain(|dim: &Ident| {
            !is_host_constant(dim, self.generics) && !is_type_param(dim, self.generics)
        });
        for dim in &dims {
            let dtype = Some(DType(Ident::new("usize", dim.span())));
            self.scopes.declare(dim, Name::Value { dtype, kind: ValueKind::Dim });
        }
        let mut params: Vec<Param> = Vec::new();
        for input in &sig.inputs {
            let before = self.errors.len();
            if let Some(mut param) = self.param(input) {
                if params.iter().any(|it| it.name == param.name) {
                    let message = format!("the parameter `{}` is declared twice", param.name);
                    self.errors.push(&param.name, message, "give each parameter a name of its own");
                    param.name = format_ident!("__{}", param.name);
                }
                if dims.contains(&param.name) {
                    let message = format!("`{}` is a dimension already", param.name);
                    let help =
                        "remove the parameter: dimensions take their value from the shapes of the tensors";
                    self.errors.push(&param.name, message, help);
                    param.name = format_ident!("__{}", param.name);
                }
                if self.errors.len() > before {
                    self.scopes.declare(&param.name, Name::Unknown);
                } else {
                    self.declare_param(&param);
                }
                params.push(param);
            } else if let FnArg::Typed(input) = input
                && let Pat::Ident(pat) = &*input.pat
            {
                self.scopes.declare(&pat.ident, Name::Unknown);
            }
        }
        self.bound_dims(&params);
        if let Some(excess) = sig.inputs.iter().nth(MAX_PARAMS) {
            let message = format!("a kernel has at most {MAX_PARAMS} parameters, this has {}", params.len());
            self.errors.push(excess, message, "join tensors, or split the kernel");
            params.truncate(MAX_PARAMS);
        }
        if !params.iter().any(|it| matches!(it.kind, ParamKind::Tensor { output: true, .. }))
            && self.errors.is_empty()
        {
            let message = format!("`{}` has no output", sig.ident);
            self.errors.push(
                &sig.ident,
                message,
                "results are written to parameters: add one such as `y: &mut Tensor<f32, n>`",
            );
        }
        if params.is_empty() {
            // A placeholder, so that there is a parameter type; the error was reported.
            params.push(Param {
                name: format_ident!("__none"),
                kind: ParamKind::Scalar { dtype: placeholder("f32") },
            });
        }
        (params, dims)
    }

    /// Reports what may not stand before or after the parameters.
    fn modifiers(&mut self, sig: &Signature) {
        if let ReturnType::Type(_, ty) = &sig.output {
            self.errors.push(ty, "a kernel returns nothing", "write the result to a `&mut Tensor` parameter");
        }
        self.plain_function(sig);
    }

    /// Reports a function that is not plain: `async`, `const`, `unsafe`, `extern`, or with lifetime parameters.
    pub(super) fn plain_function(&mut self, sig: &Signature) {
        let odd: [(Option<&dyn ToTokens>, &str); 4] = [
            (sig.asyncness.as_ref().map(|it| it as _), "async"),
            (sig.constness.as_ref().map(|it| it as _), "const"),
            (sig.unsafety.as_ref().map(|it| it as _), "unsafe"),
            (sig.abi.as_ref().map(|it| it as _), "extern"),
        ];
        for (tokens, what) in odd.into_iter().filter_map(|(tokens, what)| Some((tokens?, what))) {
            self.errors.push(&tokens.to_token_stream(), format!("a kernel cannot be `{what}`"), "remove it");
        }
        for param in &sig.generics.params {
            if let GenericParam::Lifetime(it) = param {
                self.errors.push(
                    it,
                    "a kernel has no lifetime parameters",
                    "remove it: `&Tensor` needs none",
                );
            }
        }
    }

    fn declare_param(&mut self, param: &Param) {
        let name = match &param.kind {
            ParamKind::Tensor { output, dtype, dims, .. } => Name::Tensor {
                rank: dims.len(),
                dtype: dtype.clone(),
                written: if *output { Written::Output } else { Written::Input },
                matched: false,
            },
            ParamKind::Scalar { dtype } => Name::Value { dtype: Some(dtype.clone()), kind: ValueKind::Param },
        };
        self.scopes.declare(&param.name, name);
    }

    fn param(&mut self, input: &FnArg) -> Option<Param> {
        let FnArg::Typed(input) = input else {
            self.errors.push(input, "a kernel has no `self`", PARAM_HELP);
            return None;
        };
        if let Some(attr) = input.attrs.iter().find(|attr| !attr.path().is_ident("doc")) {
            self.errors.push(attr, "a parameter has no attributes", "remove it");
        }
        let Pat::Ident(pat) = &*input.pat else {
            self.errors.push(&input.pat, "a parameter is a plain name", PARAM_HELP);
            return None;
        };
        let kind = match &*input.ty {
            Type::Reference(it) => {
                let output = it.mutability.is_some();
                let (dtype, dims) = self.tensor(&it.elem)?;
                ParamKind::Tensor { output, dtype, dims, span: it.elem.span() }
            }
            Type::Path(path) if path.path.segments.last().is_some_and(|it| it.ident == "Tensor") => {
                let ty = &input.ty;
                let help = format!("write `&{0}` for an input, `&mut {0}` for an output", text(ty));
                self.errors.push(ty, "tensors are passed by reference", &help);
                let (dtype, dims) = self.tensor(ty)?;
                ParamKind::Tensor { output: false, dtype, dims, span: ty.span() }
            }
            ty => ParamKind::Scalar { dtype: self.dtype(ty).unwrap_or_else(|| placeholder("i64")) },
        };
        Some(Param { name: pat.ident.clone(), kind })
    }

    /// `Tensor<f32, m, n>`
    fn tensor(&mut self, ty: &Type) -> Option<(DType, Vec<Dim>)> {
        let segment = match ty {
            Type::Path(path) => path.path.segments.last().filter(|it| it.ident == "Tensor"),
            _ => None,
        };
        let Some(segment) = segment else {
            self.errors.push(ty, format!("`{}` is not a tensor type", text(ty)), PARAM_HELP);
            return None;
        };
        let PathArguments::AngleBracketed(args) = &segment.arguments else {
            self.errors.push(ty, "the element type is missing", "write `Tensor<f32, m, n>`");
            return None;
        };
        let mut args = args.args.iter();
        let dtype = match args.next() {
            Some(GenericArgument::Type(ty)) => self.dtype(ty).unwrap_or_else(|| placeholder("f32")),
            _ => {
                self.errors.push(segment, "the element type comes first", "write `Tensor<f32, m, n>`");
                return None;
            }
        };
        let dims = args.filter_map(|arg| self.dim(arg)).collect();
        Some((dtype, dims))
    }

    fn dim(&mut self, arg: &GenericArgument) -> Option<Dim> {
        const HELP: &str =
            "a dimension is a name, a literal, a constant or an expression in braces: `{ n * 2 }`";
        match arg {
            GenericArgument::Type(Type::Path(path)) if path.qself.is_none() => match path.path.get_ident() {
                Some(name) if !is_host_constant(name, self.generics) => Some(Dim::Var(name.clone())),
                _ => Some(Dim::Host(syn::parse_quote!(#path))),
            },
            GenericArgument::Const(expr @ Expr::Lit(_)) => {
                if !is_int(expr) {
                    self.errors.push(expr, "a dimension is an integer", HELP);
                    return None;
                }
                Some(Dim::Host(expr.clone()))
            }
            GenericArgument::Const(Expr::Block(block)) => match block.block.stmts.as_slice() {
                [syn::Stmt::Expr(inner, None)] => {
                    let parsed = self.expr(inner);
                    Some(Dim::Expr(inner.clone(), Box::new(parsed)))
                }
                _ => {
                    self.errors.push(block, "this is not a dimension", HELP);
                    None
                }
            },
            other => {
                self.errors.push(other, "this is not a dimension", HELP);
                None
            }
        }
    }

    /// An element type.
    pub(super) fn dtype(&mut self, ty: &Type) -> Option<DType> {
        let name = match ty {
            Type::Path(path) => path.path.segments.last().filter(|it| it.arguments.is_empty()),
            _ => None,
        };
        let Some(name) = name.map(|it| &it.ident) else {
            self.errors.push(
                ty,
                format!("`{}` is not an element type", text(ty)),
                "element types are f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool",
            );
            return None;
        };
        let text = name.to_string();
        if is_type_param(name, self.generics) && self.is_helper {
            return Some(DType(format_ident!("{}{name}", DType::PARAM)));
        }
        if DTYPES.contains(&text.as_str()) || is_type_param(name, self.generics) {
            return Some(DType(name.clone()));
        }
        let help = match text.as_str() {
            "usize" | "isize" => "write `i64`, and `x as usize` where it is an index".to_string(),
            _ => did_you_mean(
                &text,
                DTYPES.iter().copied(),
                "element types are f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool, or a type parameter `T: Element`",
            ),
        };
        self.errors.push(name, format!("`{text}` is not an element type"), &help);
        None
    }

    /// Reports dimensions that are not by themselves the extent of some parameter.
    fn bound_dims(&mut self, params: &[Param]) {
        let all = || {
            params.iter().flat_map(|param| match &param.kind {
                ParamKind::Tensor { dims, .. } => dims.as_slice(),
                ParamKind::Scalar { .. } => &[],
            })
        };
        let bound: Vec<&Ident> =
            all().filter_map(|dim| if let Dim::Var(name) = dim { Some(name) } else { None }).collect();
        let mut missing: Vec<Ident> = Vec::new();
        for dim in all() {
            if let Dim::Expr(_, expr) = dim {
                expr.walk(&mut |it| {
                    if let crate::kernel::ast::ExprKind::Var(name) = &it.kind
                        && !bound.contains(&name)
                        && !missing.contains(name)
                    {
                        missing.push(name.clone());
                    }
                });
            }
        }
        for name in missing {
            let message = format!("dimension `{name}` is not bound: it is not the extent of any parameter");
            self.errors.push(
                &name,
                message,
                "dimensions bind where they stand alone, as in `x: &Tensor<f32, n>`",
            );
        }
    }
}

/// A placeholder for an invalid element type.
fn placeholder(name: &str) -> DType {
    DType(Ident::new(name, proc_macro2::Span::call_site()))
}

fn is_int(expr: &Expr) -> bool {
    matches!(expr, Expr::Lit(lit) if matches!(lit.lit, syn::Lit::Int(_)))
}

/// Source text of a type.
fn text(ty: &impl ToTokens) -> String {
    crate::kernel::generate::source_text(&ty.to_token_stream())
}

/// Identifiers that stand for dimensions in a type, in order.
fn collect_dims(ty: &Type, dims: &mut Vec<Ident>) {
    let mut add = |name: &Ident| {
        if !dims.contains(name) {
            dims.push(name.clone());
        }
    };
    let elem = if let Type::Reference(it) = ty { &it.elem } else { ty };
    let Type::Path(path) = elem else { return };
    let Some(PathArguments::AngleBracketed(args)) = path.path.segments.last().map(|it| &it.arguments) else {
        return;
    };
    for arg in args.args.iter().skip(1) {
        match arg {
            GenericArgument::Type(Type::Path(path)) => path.path.get_ident().into_iter().for_each(&mut add),
            GenericArgument::Const(expr) => {
                struct Idents<'a>(&'a mut dyn FnMut(&Ident));
                impl<'ast> syn::visit::Visit<'ast> for Idents<'_> {
                    fn visit_expr_call(&mut self, it: &'ast syn::ExprCall) {
                        it.args.iter().for_each(|arg| self.visit_expr(arg));
                    }

                    fn visit_expr_path(&mut self, it: &'ast syn::ExprPath) {
                        it.path.get_ident().into_iter().for_each(&mut *self.0);
                    }
                }
                syn::visit::Visit::visit_expr(&mut Idents(&mut add), expr);
            }
            _ => {}
        }
    }
}
