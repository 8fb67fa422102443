//! Tests of the graph function macros on tokens: no input makes them panic, and input that parses expands to Rust that
//! parses.

use proc_macro2::TokenStream;
use quote::quote;

use super::{Surface, adt, attribute, inline, ir_module};
use crate::tests::Tokens;

const SURFACES: [Surface; 2] = [Surface::Relax, Surface::Relay];

#[test]
fn random_tokens_do_not_panic() {
    let mut tokens = Tokens::new(0x2545_f491_4f6c_dd1d);
    for round in 0..2_000 {
        let random = tokens.stream(4);
        let surface = SURFACES[round % 2];
        for input in [
            quote!(#random),
            quote!(|x: Tensor<f32, n>| -> Tensor<f32, n> { #random }),
            quote!(|#random| -> Tensor<f32, n> { x }),
        ] {
            inline(surface, input);
        }
        for item in [
            quote!(#random),
            quote!(fn f(x: Tensor<f32, n>) -> Tensor<f32, n> { #random }),
            quote!(fn f(#random) -> #random { x }),
        ] {
            attribute(surface, TokenStream::new(), item);
        }
        for item in [quote!(#random), quote!(enum List { #random }), quote!(enum List { Nil, Cons(#random) })]
        {
            adt(item);
        }
        for item in [quote!(#random), quote!(mod net { #random })] {
            ir_module(TokenStream::new(), item);
        }
    }
}

/// Random bodies, which parse more often than random tokens do.
#[test]
fn random_bodies_expand_to_rust() {
    const EXPRS: &[&str] = &[
        "x",
        "y",
        "1.0",
        "-1",
        "n",
        "relu(E)",
        "E.matmul(E)",
        "softmax(E, axis = E)",
        "(E, E)",
        "[E, 2]",
        "E.0",
        "E + E",
        "E < E",
        "E && E",
        "!E",
        "if E { B } else { B }",
        "if E { B }",
        "match E { List::Nil => E, List::Cons(a, _) => E }",
        "match E { (a, b) => E, _ if E => E }",
        "|a, b| E",
        "|(a, b): T| E",
        "call_tir(matmul, (E, E))",
        "call_tir(E)",
        "call_packed(\"f\", (E,), Tensor::<f32, n, k>)",
        "match_cast(E, Tensor::<f32, q>)",
        "dataflow(|| { B })",
        "List::Cons(E, List::Nil)",
        "f(E)",
        "E(E)",
        "x[[E]]",
        "*E",
        "E as f32",
        "return E",
        "println!()",
    ];
    const STMTS: &[&str] = &[
        "let a = E;",
        "let (a, b) = E;",
        "let _ = E;",
        "let [a, b] = E;",
        "let mut a: Tensor<f32> = E;",
        "let a;",
        "E;",
        "for i in E { B }",
        "while E { B }",
        "a = E;",
        "fn g() {}",
    ];
    const TYPES: &[&str] = &[
        "Tensor<f32, n>",
        "Tensor<f31>",
        "Tensor",
        "TensorDyn<f16>",
        "Tensor<f32, n, { n * 2 }, 3>",
        "Tensor<f32, { f(n) }>",
        "(Tensor<f32>, List)",
        "fn(Tensor<f32>) -> f32",
        "Box<List>",
        "&f32",
        "[f32; 3]",
    ];
    fn expand(tokens: &mut Tokens, text: &str, depth: usize) -> String {
        let mut res = String::new();
        let mut word = String::new();
        for c in text.chars().chain(['\n']) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            match word.as_str() {
                "E" if depth == 0 => res += "x",
                "E" => {
                    let inner = EXPRS[tokens.below(EXPRS.len())];
                    res += &format!("({})", expand(tokens, inner, depth - 1).trim());
                }
                "B" => {
                    for _ in 0..tokens.below(3) {
                        let inner = STMTS[tokens.below(STMTS.len())];
                        res += &expand(tokens, inner, depth.saturating_sub(1));
                    }
                    res += &expand(tokens, "E", depth);
                }
                other => res += other,
            }
            word.clear();
            res.push(c);
        }
        res
    }
    let mut tokens = Tokens::new(11);
    for round in 0..1_000 {
        let body = expand(&mut tokens, "B", 3);
        let [a, b, c] = [0; 3].map(|_| TYPES[tokens.below(TYPES.len())]);
        let surface = SURFACES[round % 2];
        let closure = format!("|x: {a}, y: {b}| -> {c} {{ {body} }}");
        let func = format!("fn f(x: {a}, y: {b}) -> {c} {{ {body} }}");
        let closure: TokenStream = closure.parse().unwrap();
        let out = inline(surface, closure.clone());
        assert!(syn::parse2::<syn::Expr>(out).is_ok(), "{closure}");
        let out = attribute(surface, TokenStream::new(), func.parse().unwrap());
        assert!(syn::parse2::<syn::File>(out).is_ok(), "{func}");
        let list = format!("enum List {{ Nil, Cons({a}, Box<List>), Other {{ x: {b} }} }}");
        assert!(syn::parse2::<syn::File>(adt(list.parse().unwrap())).is_ok(), "{list}");
    }
}
