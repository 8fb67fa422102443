//! `assert!(condition, "message")`

use syn::parse::{Parse, ParseStream};
use syn::{Expr as SynExpr, LitStr, Macro, Token};

use super::Parser;
use crate::kernel::ast::Stmt;

const HELP: &str = "write `assert!(i < n, \"the index is too large\")`";

/// The arguments of `assert!`.
pub(crate) struct Assertion {
    pub(crate) condition: SynExpr,
    message: Option<LitStr>,
}

impl Parse for Assertion {
    fn parse(input: ParseStream<'_>) -> syn::Result<Assertion> {
        let condition = input.parse()?;
        let comma = input.parse::<Option<Token![,]>>()?;
        let message = if comma.is_some() && !input.is_empty() { Some(input.parse()?) } else { None };
        let _trailing = input.parse::<Option<Token![,]>>()?;
        Ok(Assertion { condition, message })
    }
}

impl Assertion {
    /// The message of the assertion that `it` calls; the text of the condition if there is none. `None` if it contains values.
    pub(crate) fn text(&self, it: &Macro) -> Option<String> {
        let Some(message) = &self.message else {
            let text = it.tokens.to_string();
            return Some(text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches(',').into());
        };
        let text = message.value();
        let rest = text.replace("{{", "").replace("}}", "");
        (!rest.contains(['{', '}'])).then(|| text.replace("{{", "{").replace("}}", "}"))
    }
}

impl Parser<'_> {
    pub(super) fn assert(&mut self, it: &Macro) -> Option<Stmt> {
        let assertion: Assertion = match it.parse_body() {
            Ok(assertion) => assertion,
            Err(error) => {
                self.errors.push(&it.tokens, format!("`assert!` in a kernel: {error}"), HELP);
                return None;
            }
        };
        let condition = self.condition(&assertion.condition);
        let Some(message) = assertion.text(it) else {
            let message = "the message of an assertion in a kernel contains no values";
            self.errors.push(&assertion.message, message, "write the text alone; `{{` is a brace");
            return None;
        };
        let span = syn::spanned::Spanned::span(&it.path);
        Some(Stmt::Assert { condition, message, span })
    }
}
