//! A user-defined pass is a closure. This one replaces division by a constant with multiplication; it runs next to the
//! built-in passes, under instruments.
//!
//! `cargo run --example custom_pass`
#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use std::sync::Arc;

use tvm::pass::{Pass, PassContext, PassTimingInstrument, Sequential, prim_func_pass};
use tvm::prelude::*;
use tvm::tir::{BinaryOp, Mutator, PrimExpr};

#[prim_func]
fn average(x: &Tensor<f32, n>, y: &Tensor<f32, n>, z: &mut Tensor<f32, n>) {
    for i in 0..n {
        z[[i]] = (x[[i]] + y[[i]]) / 2.0;
    }
}

/// Replaces `x / c` by `x * (1 / c)` if `c` is a power of two: all bits of the result are the same.
struct DivToMul;

impl Mutator for DivToMul {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let new = self.walk_expr(expr);
        match new.as_ref().unwrap_or(expr) {
            PrimExpr::Binary(it) if it.op == BinaryOp::Div => match &it.b {
                PrimExpr::FloatImm(c) if c.value.log2().fract() == 0.0 => {
                    Some(it.a.clone() * PrimExpr::float(1.0 / c.value, c.dtype))
                }
                _ => new,
            },
            _ => new,
        }
    }
}

fn div_to_mul() -> Pass {
    prim_func_pass("DivToMul", |func, _, _| {
        Ok(DivToMul.mutate_stmt(&func.body).map(|body| tvm::tir::PrimFunc { body, ..func.clone() }))
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let timing = Arc::new(PassTimingInstrument::new());
    let ctx = PassContext::new().instrument(timing.clone());
    let module = average::module()?;
    println!("before\n{module}");
    let module = Sequential::new("demo", vec![div_to_mul(), tvm::tir::transform::simplify()])
        .apply_in(module, &ctx)?;
    println!("after\n{module}");
    println!("{}", timing.table());
    if module.to_string().contains('/') {
        return Err("the division is still there".into());
    }
    Ok(())
}
