//! Tests of round trips and of malformed text.

use super::{from_json, to_json};
use crate::ir::structural::graph_sample::random_graph_module;
use crate::ir::structural::sample::{matmul, random_prim_func};
use crate::ir::tensor_program::{Block, BlockRealize, PrimExpr, PrimFunc, Stmt};
use crate::ir::{BaseFunc, IRModule, Var, structural_equal};
use tvm_testing::Rng;

fn modules() -> impl Iterator<Item = IRModule> {
    let programs = (0..100).map(random_prim_func).chain([matmul()]).map(IRModule::from_prim_func);
    let graphs = (0..100).map(random_graph_module).chain([crate::ir::well_formed::graph_sample()]);
    programs.chain(graphs)
}

#[test]
fn round_trips() {
    for module in modules() {
        let text = to_json(&module).unwrap();
        let back = from_json(&text).unwrap_or_else(|err| panic!("{err}\n{module}"));
        structural_equal(&module, &back).unwrap_or_else(|err| panic!("{err}\n{module}"));
        assert_eq!(to_json(&back).unwrap(), text, "names and spans are kept");
    }
}

#[test]
fn deep_programs_round_trip() {
    let mut func = matmul();
    let out = func.outputs().next().unwrap().clone();
    let one = || PrimExpr::float(1.0, tvm_runtime::DataType::F32);
    let sum = (0..10_000).fold(one(), |sum, _| out.load([0.into(), 0.into()]) + sum);
    let body = Stmt::store(&out, [0.into(), 0.into()], sum);
    func = PrimFunc { body: BlockRealize::opaque(Block::root(vec![], body)), ..func };
    let module = IRModule::from_prim_func(func);
    structural_equal(&module, &from_json(&to_json(&module).unwrap()).unwrap()).unwrap();
}

#[test]
fn mistakes_are_named() {
    let func = matmul();
    let out = func.outputs().next().unwrap().clone();
    let free = PrimFunc { body: Stmt::store(&out, [], Var::index("q").into()), ..func };
    let mut module = IRModule::new();
    module.add("f", BaseFunc::Prim(free.into()));
    assert!(to_json(&module).unwrap_err().to_string().contains("`q` is used where it is not bound"));
    let body = |nodes: &str| {
        format!(r#"{{"tvm_ir": 1, "nodes": [{nodes}], "types": [], "functions": [], "attrs": {{}}}}"#)
    };
    let deep = |kind: &str| {
        let chain: Vec<String> = (0..20_000).map(|i| format!(r#"{{"kind": "Not", "value": {i}}}"#)).collect();
        body(&format!(r#"{{"kind": "IntImm", "value": 1, "dtype": "{kind}"}}, {}"#, chain.join(", ")))
    };
    let wide = || {
        let chain: Vec<String> =
            (0..60).map(|i| format!(r#"{{"kind": "Add", "a": {i}, "b": {i}}}"#)).collect();
        body(&format!(r#"{{"kind": "IntImm", "value": 1, "dtype": "i64"}}, {}"#, chain.join(", ")))
    };
    let cases = [
        (String::new(), "not JSON"),
        (r#"{"nodes": []}"#.to_string(), "`tvm_ir` is missing"),
        (r#"{"tvm_ir": 2}"#.to_string(), "the format is version 1, the text says 2"),
        (body(r#"{"kind": "Nat"}"#), "node 0: unknown kind `Nat`"),
        (body(r#"{"kind": "Not", "value": 0}"#), "node 0: `value` refers to 0, which is no earlier node"),
        (body(r#"{"kind": "IntImm", "value": 1, "dtype": "i65"}"#), "node 0: `dtype` is no data type"),
        (body(r#"{"kind": "ObjectType"}, {"kind": "Not", "value": 0}"#), "expected a node of Expr"),
        (deep("bool"), "too deep or too large"),
        (wide(), "too deep or too large"),
    ];
    for (text, want) in cases {
        let err = from_json(&text).unwrap_err().to_string();
        assert!(err.contains(want), "{err}");
    }
}

#[test]
fn mutated_text_is_an_error_or_a_valid_module() {
    let texts: Vec<String> =
        modules().map(|module| to_json(&module).unwrap()).filter(|text| text.len() < 20_000).collect();
    let mut rng = Rng::new(7);
    let mut refused = 0;
    for i in 0..2000 {
        let mut bytes = rng.pick(&texts).clone().into_bytes();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(bytes.len());
            match rng.below(4) {
                0 => bytes[at] = b"0123456789\"[]{},:-"[rng.below(18)],
                1 => {
                    bytes.remove(at);
                }
                2 => {
                    // Change a digit: the field may then refer to another node, perhaps of another kind.
                    if let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) {
                        bytes[at + digit] = b'0' + rng.below(10) as u8;
                    }
                }
                _ => bytes.truncate(bytes.len() - rng.below(bytes.len().min(50))),
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        match from_json(&text) {
            Err(_) => refused += 1,
            Ok(module) => {
                to_json(&module).unwrap_or_else(|err| panic!("mutation {i}: {err}"));
            }
        }
    }
    assert!(refused > 500, "only {refused} of the mutations were refused");
}
