//! The C functions that a tensor program calls; the printed kernel declares them at its start.

use std::sync::Arc;

use indexmap::IndexMap;
use tvm_runtime::DataType;

use super::names::identifier;
use crate::script::C_ARITY;
use crate::tir::{C_TYPES, PrimCallee, PrimExpr, PrimFunc, Visitor, walk_expr};

/// Types of the parameters and of the result.
type Signature = (Vec<DataType>, DataType);

/// The C functions that a program calls, in order of the first call, each with the types of its calls.
#[derive(Debug, Default)]
pub(super) struct CFunctions(IndexMap<Arc<str>, Vec<Signature>>);

impl CFunctions {
    pub(super) fn of(func: &PrimFunc) -> CFunctions {
        let mut res = CFunctions::default();
        res.visit_stmt(&func.body);
        res
    }

    pub(super) fn symbols(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|symbol| &**symbol)
    }

    /// Why `symbol` cannot be declared and called, if it cannot.
    pub(super) fn unsayable(&self, symbol: &str) -> Option<&'static str> {
        let types = self.0.get(symbol).map(Vec::as_slice).unwrap_or_default();
        let c_types =
            |(params, result): &Signature| params.iter().chain([result]).all(|it| C_TYPES.contains(it));
        if identifier(symbol) != symbol {
            return Some("whose name has another meaning in a kernel or is no name of Rust");
        }
        match types {
            [one] if !c_types(one) => Some("which has a type that C functions of kernels do not have"),
            [(params, _)] if params.len() > C_ARITY => Some("which has too many parameters"),
            [_] => None,
            _ => Some("which is called as a function of several types"),
        }
    }

    /// `unsafe extern "C" { .. }`, line by line; nothing if no C function is called.
    pub(super) fn declaration(&self) -> Vec<String> {
        if self.0.is_empty() {
            return vec![];
        }
        let declare = |(symbol, types): (&Arc<str>, &Vec<Signature>)| {
            let (params, result) = types.first()?;
            let params: Vec<String> =
                params.iter().enumerate().map(|(i, it)| format!("x{i}: {it}")).collect();
            Some(format!("    fn {symbol}({}) -> {result};", params.join(", ")))
        };
        let functions = self.0.iter().filter_map(declare);
        std::iter::once("unsafe extern \"C\" {".to_string())
            .chain(functions)
            .chain(["}".to_string()])
            .collect()
    }
}

impl Visitor for CFunctions {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Call(it) = expr
            && let PrimCallee::PureExtern(symbol) = &it.callee
        {
            let own: Signature = (it.args.iter().map(PrimExpr::dtype).collect(), it.dtype);
            let known = self.0.entry(symbol.clone()).or_default();
            if !known.contains(&own) {
                known.push(own);
            }
        }
        walk_expr(self, expr);
    }
}
