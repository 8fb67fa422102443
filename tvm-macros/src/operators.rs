//! The operators that are called by name, and users' functions that have such a name.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use crate::paths;

/// The operators, as `script::graph::ops` defines them.
const NAMES: &[&str] = &[
    "abs",
    "acos",
    "acosh",
    "adaptive_avg_pool2d",
    "add",
    "arange",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atanh",
    "avg_pool2d",
    "batch_flatten",
    "batch_norm",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "ceil",
    "clip",
    "concat",
    "conv1d",
    "conv2d",
    "cos",
    "cosh",
    "divide",
    "dropout",
    "equal",
    "erf",
    "exp",
    "expand_dims",
    "eye",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "gather_elements",
    "gather_nd",
    "gelu",
    "greater",
    "greater_equal",
    "instance_norm",
    "isfinite",
    "isinf",
    "isnan",
    "layer_norm",
    "layout_transform",
    "leakyrelu",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lrn",
    "matmul",
    "max",
    "max_pool2d",
    "maximum",
    "mean",
    "min",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "permute_dims",
    "power",
    "prelu",
    "prod",
    "relu",
    "repeat",
    "reshape",
    "resize2d",
    "rms_norm",
    "round",
    "rsqrt",
    "scatter_elements",
    "scatter_nd",
    "select",
    "shape_of",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "softmax",
    "softplus",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "strided_slice",
    "subtract",
    "sum",
    "take",
    "tan",
    "tanh",
    "tile",
    "to_vdevice",
    "tril",
    "triu",
    "trunc",
    "variance",
    "zeros",
    "zeros_like",
];

/// True when `name(..)` calls an operator unless the user has a function of that name.
pub(crate) fn is_operator(name: &Ident) -> bool {
    NAMES.iter().any(|it| name == it)
}

/// The items that let `value`, of type `ty`, hide the operator `name`; none if there is no such operator.
pub(crate) fn hide(name: &Ident, ty: &TokenStream, value: &TokenStream) -> TokenStream {
    if !is_operator(name) {
        return TokenStream::new();
    }
    let graph = paths::graph(Span::call_site());
    let hides = format_ident!("__Calls_{name}");
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, reason = "hides the operator of the same name")]
        trait #hides {
            fn #name(self) -> #ty;
        }
        #[allow(clippy::all, reason = "hides the operator of the same name")]
        impl<F> #hides for #graph::NamedCall<F> {
            #[track_caller]
            fn #name(self) -> #ty {
                #value
            }
        }
    }
}

/// `NamedCall(args, __names::__call_name).name()`
pub(crate) fn call(name: &Ident, args: &TokenStream) -> TokenStream {
    let (graph, function) = (paths::graph(name.span()), function_of(name));
    quote_spanned!(name.span()=> #graph::NamedCall(#args, __names::#function).#name())
}

fn function_of(name: &Ident) -> Ident {
    format_ident!("__call_{name}", span = Span::call_site())
}

/// The module `__names`, which resolves `names`, all names of operators, where the function stands: an item of that name
/// in the enclosing module, imported or not, takes precedence over the operator.
pub(crate) fn names(names: &[Ident]) -> TokenStream {
    if names.is_empty() {
        return TokenStream::new();
    }
    let graph = paths::graph(Span::call_site());
    let functions = names.iter().map(|name| {
        let (function, op) = (function_of(name), name.to_string());
        quote! {
            pub(super) fn #function(args: #graph::Args, at: #graph::At) -> impl #graph::Outcome {
                use super::*;
                (&#graph::Named::<#name>::new()).call(#op, args, at)
            }
        }
    });
    quote! {
        mod __names {
            use #graph::names::*;
            use #graph::{CallsFunction as _, CallsKernel as _, CallsOperator as _};
            #(#functions)*
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn the_names_are_those_of_the_functions() {
        let source = include_str!("../../tvm-core/src/script/graph/ops.rs");
        let table = source.split("\nops! {").nth(1).and_then(|it| it.split('}').next()).unwrap();
        let mut names: Vec<&str> = table.split_whitespace().collect();
        names.sort_unstable();
        assert_eq!(NAMES, names);
    }
}
