//! A user-defined pass is a closure. This one replaces division by a constant with multiplication; it becomes a part of the
//! pipeline with which kernels are compiled, and runs under instruments.
//!
//! `cargo run --example custom_pass`
#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use std::sync::Arc;

use tvm::pass::{Pass, PassContext, PassTimingInstrument, Pipelines, prim_func_pass};
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
    let target = Target::host();
    let default = Pipelines::for_target(&target);
    // The pass runs on programs as they are written, before those that lower them.
    let tir = default.tir.insert_before("VerifySource", div_to_mul())?;
    let timing = Arc::new(PassTimingInstrument::new());
    let context =
        PassContext::new().pipelines(Pipelines { tir, ..default.clone() }).instrument(timing.clone());
    let f = context.scope(|| average::compile(&target))?;
    let mut z = [0f32; 2];
    f.call(&[1f32, 2.0], &[3f32, 5.0], &mut z)?;
    println!("{z:?}\n{}", timing.table());

    println!("before\n{}\n\nafter\n{}", average::module()?, div_to_mul().apply(average::module()?)?);

    // Passes on which safety and correctness rest cannot be left out, and names are checked.
    println!("{}", default.tir.without("CheckBounds").err().ok_or("checks were left out")?);
    println!("{}", default.graph.without("FuseOp").err().ok_or("there is no such pass")?);
    if z != [2.0, 3.5] || !timing.timings().iter().any(|it| it.name == "DivToMul") {
        return Err("the pass did not run".into());
    }
    Ok(())
}
