//! Every path that an expansion names. All of them go through `::tvm::__private`, which re-exports what they need.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

macro_rules! paths {
    ($($name:ident = $($path:ident)::+;)*) => {
        $(
            /// The path, with its tokens at `span`.
            pub(crate) fn $name(span: Span) -> TokenStream {
                quote_spanned!(span=> ::tvm::__private::$($path)::+)
            }
        )*
    };
}

/// A variable of the expansion itself: it neither hides one of the user's nor is hidden by one.
pub(crate) fn own(name: &str) -> Ident {
    Ident::new(&format!("__{name}"), Span::mixed_site())
}

/// The root of all paths.
pub(crate) fn private(span: Span) -> TokenStream {
    quote_spanned!(span=> ::tvm::__private)
}

paths! {
    graph = script::graph;
    script = script;
    shadow = shadow;
    view = shadow::View;
    view_mut = shadow::ViewMut;
    ir = ir;
    tir = tir;
    runtime = runtime;
}
