//! Tests of the parser on tokens: its error messages, and that no input makes it panic.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::error::Errors;
use crate::kernel::{check, parse, prim_func};
use crate::schedule;

/// The error messages about a kernel.
fn messages(attr: &str, source: &str) -> Vec<String> {
    let func: syn::ItemFn = syn::parse_str(source).unwrap();
    let mut errors = Errors::default();
    let options = crate::options::options(attr.parse().unwrap(), prim_func::ARGS, &mut errors);
    let ast = parse::prim_func(&func, options, &mut errors);
    if errors.is_empty() {
        check::check(&ast, &mut errors);
    }
    errors.messages()
}

/// The error messages about a kernel with this body.
fn in_body(body: &str) -> Vec<String> {
    messages(
        "",
        &format!(
            "fn f(x: &Tensor<f32, n>, m: &Tensor<i32, n, 4>, s: f32, y: &mut Tensor<f32, n>) {{ {body} }}"
        ),
    )
}

#[test]
fn right_bodies() {
    let bodies = [
        "for i in 0..n { y[[i]] = x[[i]]; }",
        "for i in 1..=n { y[[i - 1]] = x[[i - 1]] * s; }",
        "for [i, j] in grid([n, 4]) { y[[i]] += m[[i, j]] as f32; }",
        "for i in 0..n { let mut a = 0.0; a += x[[i]]; y[[i]] = a; }",
        "for i in 0..n { let mut a: f64 = 0.0; a += x[[i]] as f64; y[[i]] = a as f32; }",
        "let mut k = 0; while k < n { y[[k]] = 1.0; k += 1; }",
        "let f = |v: f32| v * v; for i in 0..n { y[[i]] = f(x[[i]]); }",
        "for i in 0..n { y[[i]] = if x[[i]] > 0.0 { x[[i]] } else if i == 0 { 1.0 } else { 0.0 }; }",
        "for i in 0..n { if i > 0 && x[[i]] > 0.0 { y[[i]] = BIAS; } else { y[[i]] = cfg::BIAS; } }",
        "for i in 0..8 { if i < 4 { y[[0]] = m[[0, i]] as f32; } }",
        "for i in 0..n { for d in -1..2 { y[[(i as i64 + d) as usize]] = d as f32; } }",
        "for i in 0..n { for d in 0..m[[i, 0]] { y[[i]] = (m[[i, 1]] + d) as f32; } }",
        "for i in 0..n { y[[i]] = f32::max(x[[i]], 0.0); y[[i]] = std::cmp::max(m[[i, 0]], 3) as f32; }",
        "for i in 0..n { y[[i]] = m[[i, 0]].wrapping_mul(7) as f32; }",
        "for i in 0..n { y[[i]] = (m[[i, 0]] as i64 + -9223372036854775808) as f32; }",
        "for i in 0..n { y[[i]] = (m[[i, 0]] as u64 ^ 18446744073709551615) as f32; }",
        "for i in 0..n { assert!(x[[i]] > 0.0); assert!(s != 0.0, \"s is {{0}}\",); y[[i]] = x[[i]] / s; }",
        "for i in 0..n { y[[i]] = unsafe { c::exp(x[[i]]) } + unsafe { cbrtf(s) }; }",
        "unsafe extern \"C\" { fn cbrtf(x: f32) -> f32; } for i in 0..n { y[[i]] = unsafe { cbrtf(s) }; }",
        "block(\"b\", [S(0)], |[v]| { let t = match_buffer(m[[v, 1..4]]); y[[v]] = t[[2]] as f32; });",
        "{ let n2 = n * 2; for i in 0..n2 { y[[i / 2]] = 0.0; } }",
    ];
    for body in bodies {
        assert_eq!(in_body(body), Vec::<String>::new(), "{body}");
    }
}

/// Each mistake causes one message, which begins with the given text and has a help.
#[test]
fn wrong_bodies() {
    let cases = [
        ("for i in 0..n { y[[i]] = x[[i, i]]; }", "`x` has 1 dimension, but 2 indices are given"),
        ("for i in 0..n { y[[i]] = x[i]; }", "tensors are indexed by an array"),
        ("for i in 0..n { y[[i]] = s[[i]]; }", "`s` is a scalar"),
        ("for i in 0..n { y[[i]] = x; }", "`x` is a tensor"),
        ("for i in 0..n { y[[i]] = m[[i, 0]]; }", "`y` holds f32, but the value is i32"),
        ("for i in 0..n { y[[i]] = x[[i]] * i; }", "the left side is f32, the right side is usize"),
        (
            "for i in 0..n { y[[i]] = m[[i, 4]] as f32; }",
            "this index reaches 4, but axis 1 of `m` has extent 4",
        ),
        ("for i in 0..n { x[[i]] = 0.0; }", "cannot write to `x`"),
        ("for i in 0..n { y[[i]] = q; }", "cannot find `q`"),
        ("let exp = s; for i in 0..n { y[[i]] = exp(x[[i]]); }", "`exp` is a variable here"),
        ("for i in 0..n { s = 0.0; }", "cannot assign to `s`"),
        ("for i in 0..n { y[[i]] = x[[i]].foo(); }", "unknown method `foo`"),
        ("for i in x { y[[0]] = 0.0; }", "a kernel cannot loop over this"),
        ("for (i, j) in grid([n, n]) { y[[0]] = 0.0; }", "a loop variable is a plain name"),
        ("for i in grid([n]) { y[[0]] = 0.0; }", "`grid` gives an array of loop variables"),
        ("loop { y[[0]] = 0.0; }", "`loop` is not supported"),
        ("for i in 0..n { y[[i]] == 0.0; }", "this has no effect"),
        ("println!(\"\");", "macros are not supported"),
        ("fn g() {}", "items are not supported"),
        ("let (a, b) = (1, 2);", "`let` binds one name"),
        ("let t = alloc([n]);", "the element type is missing"),
        ("#[scope(\"shred\")] let t = alloc::<f32>([n]);", "unknown attribute of a local buffer"),
        ("block(\"b\", [S(0)], |v| { y[[0]] = 0.0; });", "the body of a block takes its axes as an array"),
        ("block(\"b\", [X(0)], |[v]| { y[[v]] = 0.0; });", "unknown kind of axis `X`"),
        ("block(name, [S(0)], |[v]| { y[[v]] = 0.0; });", "the name of a block is a string literal"),
        ("#[vectorize(8)] for i in 0..n { y[[i]] = 0.0; }", "`vectorize` takes no arguments"),
        ("let v; v = 1.0; y[[0]] = v;", "`v` has no value"),
        ("let t = vec![0.0; n]; y[[0]] = t[0];", "a kernel has no `Vec`"),
        ("let (a, b) = (1.0, 2.0); y[[0]] = a + b;", "`let` binds one name"),
        ("fn g(v: f32) -> f32 { v } y[[0]] = g(s);", "items are not supported"),
        ("for (i, v) in y { y[[i]] = v; }", "a kernel cannot loop over this"),
        ("for i in 0..x.len() { y[[i]] = 0.0; }", "`x` is a tensor: it has no methods"),
        ("for i in 0..x.shape()[0] { y[[i]] = 0.0; }", "`x` is a tensor: it has no methods"),
        ("for i in (0..n).rev() { y[[i]] = 0.0; }", "`.rev()` of a range is not supported"),
        ("for i in 0..n { y[[i]] = x[[m[[i, 0]]]]; }", "an index is usize, this is i32"),
        ("for i in 0..n { y[[i]] = f32::round(x[[i]]); }", "`.round()` is not supported"),
        (
            "for i in 0..n { y[[i]] = (m[[i, 0]] * 1.5) as f32; }",
            "the literal `1.5` is a float where i32 is expected",
        ),
        ("for i in 0..n { y[[i]] = (m[[i, 0]] as u8 + 300) as f32; }", "the literal `300` is no u8"),
        ("for i in 0..n { y[[i]] = (m[[i, 0]] as u8 + -1) as f32; }", "the literal `-1` is no u8"),
        ("for i in 0..n { y[[i]] = max(m[[i, 0]], 2.0) as f32; }", "the literal `2.0` is a float where i32"),
        ("for i in 0..n { y[[i]] = x[[i]] + 1; }", "the literal `1` is an integer where f32 is expected"),
        ("for i in 0..n { y[[i]] = 1e40; }", "the literal `1e40` is too large for f32"),
        (
            "for i in 0..n { let h: f16 = 70000.0; y[[i]] = h as f32; }",
            "the literal `70000.0` is too large for f16",
        ),
        ("for i in 0..n { let t: u8 = 256; y[[i]] = t as f32; }", "the literal `256` is no u8"),
        ("for i in 0..n { y[[i]] = -200i8 as f32; }", "the literal `-200` is no i8"),
        ("for i in 0..n { if m[[i, 0]] < 0.5 { y[[i]] = 0.0; } }", "the literal `0.5` is a float where i32"),
        ("for i in 0..n { if m[[i, 0]] { y[[i]] = 0.0; } }", "a condition is bool, this is i32"),
        ("for i in 0..n { if 1 { y[[i]] = 0.0; } }", "the literal `1` is a number where a bool is expected"),
        ("for i in 0..n { y[[i]] = x[[-1]]; }", "the literal `-1` is no usize"),
        ("#[parallel] #[unroll] for i in 0..n { y[[i]] = 0.0; }", "a loop has one kind"),
    ];
    check_messages(&cases);
}

/// As `wrong_bodies`: assertions, C functions and matched buffers.
#[test]
fn wrong_assertions_c_functions_and_matched_buffers() {
    let cases = [
        (
            "for i in 0..n { assert!(x[[i]] > s, \"{i} of {}\", i); }",
            "`assert!` in a kernel: unexpected token",
        ),
        (
            "for i in 0..n { assert!(x[[i]] > s, \"{i}\"); }",
            "the message of an assertion in a kernel contains no values",
        ),
        ("for i in 0..n { assert!(x[[i]]); }", "a condition is bool, this is f32"),
        ("for i in 0..n { assert!(); }", "`assert!` in a kernel: unexpected end of input"),
        ("for i in 0..n { debug_assert!(s > 0.0); }", "macros are not supported"),
        ("for i in 0..n { y[[i]] = unsafe { x[[i]] }; }", "this `unsafe` block is no call of a function"),
        ("for i in 0..n { y[[i]] = unsafe { exp(x[[i]]) }; }", "`exp` is a function of kernels"),
        ("for i in 0..n { y[[i]] = unsafe { s(x[[i]]) }; }", "`s` is no function"),
        ("for i in 0..n { y[[i]] = unsafe { g(x) }; }", "a C function of kernels takes scalars"),
        ("for i in 0..n { unsafe { g(x[[i]]) }; }", "this has no effect"),
        (
            "for i in 0..n { unsafe extern \"C\" { fn g(x: f32) -> f32; } y[[i]] = s; }",
            "C functions are declared at the start",
        ),
        ("unsafe extern \"C\" { fn exp(x: f32) -> f32; } y[[0]] = s;", "`exp` is a function of kernels"),
        (
            "unsafe extern \"C\" { #[link_name = \"h\"] fn g(x: f32) -> f32; } y[[0]] = s;",
            "the name of a C function is its symbol",
        ),
        (
            "block(\"b\", [S(0)], |[v]| { #[strides(2)] let t = match_buffer(y[[0..1]]); t[[0]] = 0.0; });",
            "attributes are for loops and local buffers",
        ),
        ("#[cfg(any())] assert!(s > 0.0); y[[0]] = s;", "attributes are for loops and local buffers"),
        ("unsafe extern \"C\" { static A: f32; } y[[0]] = s;", "a kernel declares only functions here"),
        (
            "block(\"b\", [S(0)], |[v]| { let t = match_buffer(y); y[[v]] = 0.0; });",
            "`match_buffer` takes a region",
        ),
        (
            "block(\"b\", [S(0)], |[v]| { let t = match_buffer(s[[0..1]]); y[[v]] = 0.0; });",
            "`s` is no buffer",
        ),
        (
            "block(\"b\", [S(0)], |[v]| { let t = match_buffer(m[[0..1]]); y[[v]] = 0.0; });",
            "`m` has 2 dimensions, the region has 1 range",
        ),
        (
            "block(\"b\", [S(0)], |[v]| { let t = match_buffer(m[[0..1, v]]); y[[v]] = 0.0; });",
            "an index stands before all ranges",
        ),
        (
            "block(\"b\", [S(0)], |[v]| { let t = match_buffer(x[[0..=1]]); y[[v]] = 0.0; });",
            "the range of a region excludes its end",
        ),
        (
            "block(\"b\", [S(0)], |[v]| { let t = match_buffer(x[[0..1]]); t[[0]] = 0.0; });",
            "cannot write to `t`",
        ),
        (
            "block(\"b\", [S(0)], |[v]| { let t = match_buffer(y[[0..4]]); t[[4]] = 0.0; });",
            "this index reaches 4, but axis 0 of `t`",
        ),
        (
            "block(\"b\", [S(0)], |[v]| { let t = match_buffer(y[[0..4]]); g(x, &mut t); });",
            "`t` matches a region: it is passed to no kernel",
        ),
    ];
    check_messages(&cases);
}

fn check_messages(cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        let got = in_body(body);
        assert!(got.len() == 1 && got[0].starts_with(expected), "{body}: {got:?}");
        assert!(got[0].contains("\nhelp: "), "{body}: {got:?}");
    }
}

#[test]
fn wrong_signatures() {
    let cases = [
        ("", "fn f(y: &mut Tensor<f32, { q + 1 }>) {}", "dimension `q` is not bound"),
        ("", "fn f(y: &mut Tensor<f31, n>) {}", "`f31` is not an element type"),
        ("", "fn f(y: &mut Tensor<f32, n>, y: f32) {}", "the parameter `y` is declared twice"),
        ("", "fn f(x: &Tensor<f32, n>) {}", "`f` has no output"),
        ("", "fn f() {}", "`f` has no output"),
        ("", "fn f(n: i64, y: &mut Tensor<f32, n>) {}", "`n` is a dimension already"),
        (
            "",
            "fn f(a: f32, b: f32, c: f32, d: f32, e: f32, g: f32, h: f32, i: f32, j: f32, k: f32, l: f32, m: f32, \
             y: &mut Tensor<f32, n>) {}",
            "a kernel has at most 12 parameters",
        ),
        ("", "fn f(y: &mut Vec<f32>) {}", "`Vec<f32>` is not a tensor type"),
        ("", "async fn f(y: &mut Tensor<f32, n>) {}", "a kernel cannot be `async`"),
        ("dims(q = 1)", "fn f(y: &mut Tensor<f32, n>) {}", "`q` is not a symbolic dimension"),
        ("dims(n < m)", "fn f(y: &mut Tensor<f32, n>) {}", "this is not a bound"),
        ("dims(n % 0 == 0)", "fn f(y: &mut Tensor<f32, n>) {}", "this is not a bound"),
        ("dims(n = -1..=4)", "fn f(y: &mut Tensor<f32, n>) {}", "`n` is an extent, which is not negative"),
        ("dims(n = 5..=3)", "fn f(y: &mut Tensor<f32, n>) {}", "`n` has no value: the range is empty"),
        ("dims(n < 0)", "fn f(y: &mut Tensor<f32, n>) {}", "`n` has no value: the range is empty"),
        ("dims(n % 8 == 9)", "fn f(y: &mut Tensor<f32, n>) {}", "there is no remainder 9 modulo 8"),
        ("dims(n % 8 == 0, n % 6 == 0)", "fn f(y: &mut Tensor<f32, n>) {}", "`n` has a modulus already"),
        ("dims(n <= 4, n > 4)", "fn f(y: &mut Tensor<f32, n>) {}", "`n` has no value: this contradicts"),
        (
            "dims(n % 8 == 0, n = 1..=7)",
            "fn f(y: &mut Tensor<f32, n>) {}",
            "`n` has no value: this contradicts",
        ),
        ("dims(s = 1)", "fn f(s: i32, y: &mut Tensor<f32, n>) {}", "`s` is not a symbolic dimension"),
        ("fast", "fn f(y: &mut Tensor<f32, n>) {}", "unknown argument"),
    ];
    for (attr, source, expected) in cases {
        let got = messages(attr, source);
        assert!(got.len() == 1 && got[0].starts_with(expected), "{source}: {got:?}");
    }
}

#[test]
fn at_most_ten_errors() {
    assert_eq!(in_body(&"y[[0]] = q;".repeat(30)).len(), 10);
}

/// Random tokens.
pub(crate) struct Tokens(u64);

impl Tokens {
    pub(crate) fn new(seed: u64) -> Tokens {
        Tokens(seed)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }

    pub(crate) fn stream(&mut self, depth: usize) -> TokenStream {
        let len = self.below(8);
        (0..len).map(|_| self.token(depth)).collect()
    }

    fn token(&mut self, depth: usize) -> TokenTree {
        const WORDS: &[&str] = &[
            "fn", "for", "in", "let", "mut", "if", "else", "while", "match", "pub", "return", "as", "Tensor",
            "f32", "usize", "x", "y", "i", "n", "grid", "block", "init", "alloc", "S", "R", "exp", "max",
            "select", "_",
        ];
        const PUNCTUATION: &[char] =
            &['+', '-', '*', '/', '%', '=', '<', '>', '!', '&', '|', '.', ',', ';', ':', '#', '?'];
        match self.below(10) {
            0..4 => Ident::new(WORDS[self.below(WORDS.len())], Span::call_site()).into(),
            4..7 => {
                let spacing = if self.below(2) == 0 { Spacing::Joint } else { Spacing::Alone };
                Punct::new(PUNCTUATION[self.below(PUNCTUATION.len())], spacing).into()
            }
            7 => match self.below(3) {
                0 => Literal::i64_unsuffixed(self.below(300) as i64).into(),
                1 => Literal::f32_unsuffixed(0.5).into(),
                _ => Literal::string("C").into(),
            },
            _ if depth == 0 => Ident::new("x", Span::call_site()).into(),
            _ => {
                const DELIMITERS: [Delimiter; 3] =
                    [Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket];
                let delimiter = DELIMITERS[self.below(3)];
                Group::new(delimiter, self.stream(depth - 1)).into()
            }
        }
    }
}

#[test]
fn random_tokens_do_not_panic() {
    let mut tokens = Tokens(0x9e37_79b9_7f4a_7c15);
    for round in 0..10_000 {
        let (attr, random) = (tokens.stream(1), tokens.stream(4));
        let item = match round % 3 {
            0 => random,
            1 => quote::quote!(fn f(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) { #random }),
            _ => quote::quote!(fn f(y: &mut Tensor<f32, n>, #random) { y[[0]] = 0.0; }),
        };
        prim_func::expand(attr.clone(), item.clone());
        schedule::expand(attr, item);
    }
}

/// Random statements, which parse more often than random tokens do.
#[test]
fn random_statements_do_not_panic() {
    const EXPRS: &[&str] = &[
        "x[[i]]",
        "1.0",
        "2",
        "n",
        "i + 1",
        "s",
        "exp(x[[i]])",
        "x[[i]].max(0.0)",
        "if i > 0 { 1.0 } else { s }",
        "q",
        "x[[i, i]]",
        "-s",
        "!true",
        "s as f64",
        "(1, 2)",
        "|v| v",
        "alloc::<f32>([n])",
        "m[[i, 0]]",
        "C::D",
        "f(1.0)",
    ];
    const STMTS: &[&str] = &[
        "let a = E;",
        "let mut b = E;",
        "y[[E]] = E;",
        "y[[i]] += E;",
        "E;",
        "b = E;",
        "for i in E..E { B }",
        "for [i, j] in grid([E, E]) { B }",
        "if E { B } else { B }",
        "while E { B }",
        "block(\"c\", [S(E), R(E)], |[i, j]| { B });",
        "init(|| y[[i]] = E);",
        "let f = |v: f32| E;",
        "{ B }",
        "#[parallel] for i in 0..n { B }",
    ];
    fn statements(tokens: &mut Tokens, depth: usize) -> String {
        let count = tokens.below(4);
        let mut res = String::new();
        for _ in 0..count {
            let mut text = STMTS[tokens.below(STMTS.len())].to_string();
            while let Some(at) = text.find('E') {
                let expr = EXPRS[tokens.below(EXPRS.len())];
                text.replace_range(at..=at, expr);
            }
            while let Some(at) = text.find('B') {
                let inner = if depth == 0 { String::new() } else { statements(tokens, depth - 1) };
                text.replace_range(at..=at, &inner);
            }
            res += &text;
        }
        res
    }
    let mut tokens = Tokens(7);
    for _ in 0..2_000 {
        let body = statements(&mut tokens, 3);
        let source = format!(
            "fn f(x: &Tensor<f32, n>, m: &Tensor<i32, n, 4>, s: f32, y: &mut Tensor<f32, n>) {{ {body} }}"
        );
        let Ok(item) = source.parse::<TokenStream>() else { continue };
        let out = prim_func::expand(TokenStream::new(), item);
        assert!(syn::parse2::<syn::File>(out).is_ok(), "{source}");
    }
}
