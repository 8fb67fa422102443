//! Compile-time checks of calls in graph functions: the macros put [`misuse`], [`wrong_call`] and [`wrong_call_tir`] into
//! `const` assertions, which read the tables of the operators.
//!
//! Only what is certainly wrong is an error here; building the function checks the rest.

use tvm_runtime::ParamKind;

use super::{Args, CallResult};
use crate::ir::{ArgKind, AttrKind, OpDef, OpRegistry};
use crate::relax::op::device::PLACE;
use crate::script::PrimFuncDef;

/// Kind of an argument expression, as far as its syntax shows it.
#[derive(Clone, Copy)]
pub enum Written {
    /// Anything: a name, a call.
    Unknown,
    /// An integer.
    Int,
    /// A float.
    Float,
    /// `true` or `false`.
    Bool,
    /// A string.
    Str,
    /// A data type.
    DType,
    /// `[..]`
    List(&'static [Written]),
}

/// An error message that is assembled at compile time.
pub struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Text {
    const fn new() -> Text {
        Text { bytes: [0; 512], len: 0 }
    }

    /// Appends `part`, or leaves it out if it does not fit.
    const fn then(mut self, part: &str) -> Text {
        let part = part.as_bytes();
        if self.len + part.len() <= self.bytes.len() {
            let mut i = 0;
            while i < part.len() {
                self.bytes[self.len + i] = part[i];
                i += 1;
            }
            self.len += part.len();
        }
        self
    }

    const fn number(self, value: usize) -> Text {
        let digit = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"][value % 10];
        if value < 10 { self.then(digit) } else { self.number(value / 10).then(digit) }
    }

    /// The message, empty if nothing is wrong.
    pub const fn of(wrong: &Option<Text>) -> &str {
        match wrong {
            Some(text) => text.as_str(),
            None => "",
        }
    }

    const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "this call is wrong",
        }
    }
}

/// The error in the call `name(items.., named..)`, if any, where `name` is the function of an operator.
pub const fn misuse(name: &str, items: &[Written], named: &[(&str, Written)]) -> Option<Text> {
    let Some(op) = find(name) else { return None };
    let start = Text::new().then("`").then(op.name).then("`: ");
    let (args, attrs) = (op.args, op.attrs);
    // Optional and variadic arguments make positions uncertain.
    let mut needed = 0;
    while needed < args.len() && !matches!(args[needed].kind, ArgKind::Optional | ArgKind::Variadic) {
        if needed >= items.len() {
            return Some(start.then("argument `").then(args[needed].name).then("` is missing"));
        }
        if matches!(args[needed].kind, ArgKind::Tensor) && !may_be_tensor(items[needed]) {
            let start = start.then("argument `").then(args[needed].name).then("`: expected a tensor, got ");
            return Some(start.then(noun(items[needed])));
        }
        needed += 1;
    }
    let certain = needed == args.len();
    let variadic = !args.is_empty() && matches!(args[args.len() - 1].kind, ArgKind::Variadic);
    if !variadic && items.len() > args.len() + attrs.len() {
        let most = start.then("too many arguments: it takes ").number(args.len() + attrs.len());
        return Some(most.then(", got ").number(items.len()));
    }
    let mut i = needed;
    while certain && i < items.len() {
        let def = attrs[i - needed];
        if !may_be(def.kind, items[i]) {
            return Some(wrong_kind(start, def.name, def.kind, items[i]));
        }
        i += 1;
    }
    let mut i = 0;
    while i < named.len() {
        let (name, value) = named[i];
        match attr(op, name) {
            None => return Some(attributes(start.then("there is no attribute `").then(name).then("`"), op)),
            Some(kind) if !may_be(kind, value) => return Some(wrong_kind(start, name, kind, value)),
            Some(_) => {}
        }
        i += 1;
    }
    let mut i = if certain { items.len() - needed } else { attrs.len() };
    while i < attrs.len() {
        if attrs[i].required && !has(named, attrs[i].name) {
            return Some(start.then("attribute `").then(attrs[i].name).then("` is missing"));
        }
        i += 1;
    }
    None
}

/// The error in the call `name(items..)`, if any. The result type of the closure, which makes the call, shows whether the
/// name is that of a user's function or of an operator.
pub const fn wrong_call<R: CallResult>(
    name: &str,
    _: &impl Fn(Args) -> R,
    items: &[Written],
) -> Option<Text> {
    match R::ARITY {
        _ if !R::IS_USERS => misuse(name, items, &[]),
        Some(expected) if expected != items.len() => Some(wrong_count(name, expected, items.len())),
        _ => None,
    }
}

/// The error in a `call_tir` of the kernel `P` with `got` arguments, if any: it takes its inputs and scalars.
pub const fn wrong_call_tir<P: PrimFuncDef>(got: usize) -> Option<Text> {
    let (params, mut expected, mut i) = (P::SIG.params, 0, 0);
    while i < params.len() {
        expected += !matches!(params[i].kind, ParamKind::Out) as usize;
        i += 1;
    }
    if expected == got { None } else { Some(wrong_count(P::SIG.name, expected, got)) }
}

const fn wrong_count(name: &str, expected: usize, got: usize) -> Text {
    let text = Text::new().then("`").then(name).then("` takes ").number(expected);
    text.then(if expected == 1 { " argument" } else { " arguments" }).then(", got ").number(got)
}

/// The operator that the function `name` calls.
const fn find(name: &str) -> Option<&'static OpDef> {
    let mut table = 0;
    while table < OpRegistry::BUILT_IN.len() {
        let mut row = 0;
        while row < OpRegistry::BUILT_IN[table].len() {
            let op = &OpRegistry::BUILT_IN[table][row];
            let function = match op.function {
                Some(function) => function,
                None => bare(op.name),
            };
            if same(function, name) {
                return Some(op);
            }
            row += 1;
        }
        table += 1;
    }
    None
}

/// The name without the operator family, which the names of functions leave out.
const fn bare(name: &str) -> &str {
    match name.as_bytes() {
        [b'n', b'n', b'.', ..] => name.split_at(3).1,
        [b'i', b'm', b'a', b'g', b'e', b'.', ..] => name.split_at(6).1,
        _ => name,
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

const fn attr(op: &OpDef, name: &str) -> Option<AttrKind> {
    let mut i = 0;
    while i < op.attrs.len() {
        if same(op.attrs[i].name, name) {
            return Some(op.attrs[i].kind);
        }
        i += 1;
    }
    // Every operator can say where it computes.
    if same(PLACE, name) { Some(AttrKind::Str) } else { None }
}

const fn has(named: &[(&str, Written)], name: &str) -> bool {
    let mut i = 0;
    while i < named.len() {
        if same(named[i].0, name) {
            return true;
        }
        i += 1;
    }
    false
}

const fn attributes(mut text: Text, op: &OpDef) -> Text {
    text = text.then("\nhelp: ");
    if op.attrs.is_empty() {
        return text.then("it has none");
    }
    text = text.then(if op.attrs.len() == 1 { "its attribute is " } else { "its attributes are " });
    let mut i = 0;
    while i < op.attrs.len() {
        text = text.then(if i == 0 { "" } else { ", " }).then(op.attrs[i].name);
        i += 1;
    }
    text
}

const fn wrong_kind(start: Text, name: &str, kind: AttrKind, got: Written) -> Text {
    let expected = match kind {
        AttrKind::Bool => "true or false",
        AttrKind::Int => "an integer",
        AttrKind::Float => "a number",
        AttrKind::Str => "a string",
        AttrKind::DType => "a data type",
        AttrKind::Ints => "integers",
        AttrKind::Floats => "numbers",
        AttrKind::Strs => "strings",
    };
    start.then("attribute `").then(name).then("`: expected ").then(expected).then(", got ").then(noun(got))
}

const fn noun(written: Written) -> &'static str {
    match written {
        Written::Unknown => "a value",
        Written::Int => "an integer",
        Written::Float => "a float",
        Written::Bool => "a bool",
        Written::Str => "a string",
        Written::DType => "a data type",
        Written::List(_) => "a list",
    }
}

const fn may_be_tensor(written: Written) -> bool {
    !matches!(written, Written::Str | Written::DType | Written::List(_))
}

const fn may_be(kind: AttrKind, written: Written) -> bool {
    match (kind, written) {
        (_, Written::Unknown) => true,
        (_, Written::List(items)) => {
            let mut i = 0;
            while i < items.len() && may_be(kind, items[i]) {
                i += 1;
            }
            i == items.len()
        }
        (AttrKind::Bool, it) => matches!(it, Written::Bool),
        (AttrKind::Int | AttrKind::Ints, it) => matches!(it, Written::Int),
        (AttrKind::Float | AttrKind::Floats, it) => matches!(it, Written::Float | Written::Int),
        (AttrKind::Str | AttrKind::Strs, it) => matches!(it, Written::Str),
        (AttrKind::DType, it) => matches!(it, Written::DType),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::graph::ops::NAMES;

    #[test]
    fn what_is_wrong_with_calls() {
        use Written::{Float, Int, List, Str, Unknown};
        type Case = (&'static str, &'static [Written], &'static [(&'static str, Written)], &'static str);
        let cases: &[Case] = &[
            ("softmax", &[Unknown], &[("axis", Int)], ""),
            ("softmax", &[Unknown, Int], &[], ""),
            ("select", &[Unknown, Unknown, Float], &[], ""),
            ("matmul", &[Unknown], &[], "`matmul`: argument `x2` is missing"),
            ("softmax", &[Unknown, Int, Int], &[], "`nn.softmax`: too many arguments: it takes 2, got 3"),
            (
                "softmax",
                &[Unknown, Str],
                &[],
                "`nn.softmax`: attribute `axis`: expected an integer, got a string",
            ),
            (
                "softmax",
                &[Unknown],
                &[("axs", Int)],
                "`nn.softmax`: there is no attribute `axs`\nhelp: its attribute is axis",
            ),
            (
                "relu",
                &[Unknown],
                &[("axis", Int)],
                "`nn.relu`: there is no attribute `axis`\nhelp: it has none",
            ),
            ("relu", &[List(&[Int])], &[], "`nn.relu`: argument `x`: expected a tensor, got a list"),
            ("sum", &[Unknown], &[("axis", List(&[Int, Int])), ("keepdims", Unknown)], ""),
            (
                "sum",
                &[Unknown],
                &[("axis", List(&[Int, Float]))],
                "`sum`: attribute `axis`: expected integers, got a list",
            ),
        ];
        for (name, items, named, want) in cases {
            let got = misuse(name, items, named);
            assert_eq!(Text::of(&got), *want, "{name}");
        }
    }

    #[test]
    fn every_function_of_an_operator_is_found() {
        for name in NAMES {
            assert!(find(name).is_some(), "{name}");
        }
        assert_eq!(find("select").unwrap().name, "where");
        assert!(find("no_such").is_none());
    }

    #[test]
    fn numbers_and_long_texts() {
        assert_eq!(Text::new().number(0).then(" ").number(1907).as_str(), "0 1907");
        let long = "é".repeat(300);
        assert_eq!(Text::new().then("a").then(&long).then("b").as_str(), "ab");
    }
}
