//! Errors of one macro expansion, collected: each stands at the user's tokens and says what to do instead.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Maximum number of errors that are shown.
const MAX_ERRORS: usize = 10;

/// The errors of one expansion.
#[derive(Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// Adds `message` at `tokens`; `help` says what to do instead.
    pub(crate) fn push(&mut self, tokens: &impl ToTokens, message: impl std::fmt::Display, help: &str) {
        let text = if help.is_empty() { message.to_string() } else { format!("{message}\nhelp: {help}") };
        self.add(syn::Error::new_spanned(tokens, text));
    }

    /// [`push`](Self::push) at a span.
    pub(crate) fn push_at(&mut self, span: Span, message: impl std::fmt::Display, help: &str) {
        self.push(&proc_macro2::Ident::new("_x", span), message, help);
    }

    /// Adds an error made elsewhere.
    pub(crate) fn add(&mut self, error: syn::Error) {
        if self.0.len() < MAX_ERRORS {
            self.0.push(error);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The errors as `compile_error!` calls.
    pub(crate) fn to_tokens(&self) -> TokenStream {
        self.0.iter().map(syn::Error::to_compile_error).collect()
    }

    /// The messages, for tests.
    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

/// The candidate nearest to `name`, if one is near enough for `name` to be a typo.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.len() + 1) / 3;
    let near = candidates.into_iter().map(|it| (distance(name, it), it)).filter(|(d, _)| *d <= limit);
    near.min().map(|(_, it)| it)
}

/// `did you mean ..?`, or `otherwise`.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    nearest(name, candidates).map_or_else(|| otherwise.to_string(), |it| format!("did you mean `{it}`?"))
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}
