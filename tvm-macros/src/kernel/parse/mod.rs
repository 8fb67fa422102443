//! Parser from Rust syntax to [`crate::kernel::ast`]: resolves names and reports what kernels do not support.

mod assert;
mod blocks;
mod c_functions;
mod calls;
mod expr;
mod infer;
mod literal;
mod loops;
mod match_buffer;
mod scope;
mod signature;
mod stmt;

use syn::{Generics, Ident, ItemFn};

use crate::error::Errors;
use crate::kernel::ast::{Param, ParamKind, PrimFunc};
use crate::options::Options;

pub(crate) use assert::Assertion;
pub(crate) use calls::prim_helper;
pub(crate) use match_buffer::matched_region;
use scope::Scopes;

/// State of one parse.
struct Parser<'a> {
    errors: &'a mut Errors,
    generics: &'a Generics,
    /// Name of the function itself.
    name: Ident,
    is_helper: bool,
    scopes: Scopes,
    uses_math: bool,
    c_functions: Vec<syn::ItemForeignMod>,
}

/// Parses the kernel `func`; its errors go to `errors`.
pub(crate) fn prim_func(func: &ItemFn, options: Options, errors: &mut Errors) -> PrimFunc {
    let generics = &func.sig.generics;
    let mut parser = Parser {
        errors,
        generics,
        name: func.sig.ident.clone(),
        is_helper: false,
        scopes: Scopes::new(),
        uses_math: false,
        c_functions: vec![],
    };
    let (params, dims) = parser.signature(&func.sig);
    let is_i64 = |param: &&Param| matches!(&param.kind, ParamKind::Scalar { dtype } if dtype.0 == "i64");
    let scalars = params.iter().filter(is_i64).map(|param| &param.name);
    options.bounds.check(&dims.iter().chain(scalars).collect::<Vec<_>>(), parser.errors);
    parser.scopes.open();
    // A result type is an error already; the last expression of the body would be reported for the same reason.
    let returns = matches!(func.sig.output, syn::ReturnType::Type(..));
    let body = if returns { vec![] } else { parser.block(&func.block) };
    let (uses_math, c_functions) = (parser.uses_math, std::mem::take(&mut parser.c_functions));
    let soft = |name: &syn::Ident| {
        crate::dims::is_half(&name.to_string()) || crate::dims::is_type_param(name, generics)
    };
    let soft_literals = uses_dtype(&params, &body, &soft);
    PrimFunc {
        docs: func.attrs.iter().filter(|attr| attr.path().is_ident("doc")).cloned().collect(),
        vis: func.vis.clone(),
        name: func.sig.ident.clone(),
        generics: generics.clone(),
        dims,
        params,
        options,
        c_functions,
        body,
        soft_literals,
        uses_math,
    }
}

/// Whether a parameter or local buffer has an element type that `pred` holds for.
fn uses_dtype(
    params: &[crate::kernel::ast::Param],
    body: &[crate::kernel::ast::Stmt],
    pred: &dyn Fn(&syn::Ident) -> bool,
) -> bool {
    use crate::kernel::ast::{ParamKind, Stmt};
    let in_params = params.iter().any(|param| match &param.kind {
        ParamKind::Tensor { dtype, .. } | ParamKind::Scalar { dtype } => pred(&dtype.0),
    });
    fn in_body(body: &[Stmt], pred: &dyn Fn(&syn::Ident) -> bool) -> bool {
        body.iter().any(|stmt| match stmt {
            Stmt::Alloc { dtype, .. } => pred(&dtype.0),
            Stmt::For { body, .. }
            | Stmt::Block { body, .. }
            | Stmt::Init { body, .. }
            | Stmt::While { body, .. }
            | Stmt::Scope(body) => in_body(body, pred),
            Stmt::If { then, otherwise, .. } => {
                in_body(then, pred) || otherwise.as_ref().is_some_and(|it| in_body(it, pred))
            }
            Stmt::Store { .. }
            | Stmt::Let { .. }
            | Stmt::Helper { .. }
            | Stmt::Call { .. }
            | Stmt::Assert { .. }
            | Stmt::Match { .. } => false,
        })
    }
    in_params || in_body(body, pred)
}
