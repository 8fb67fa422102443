//! The functional surface syntax: an algebraic data type, a recursive function, and a closure that captures a tensor.
//!
//! `cargo run --example relay_list`
#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use tvm::codegen::compile_module;
use tvm::prelude::*;
use tvm::runtime::Value;

#[relay::adt]
enum List {
    Nil,
    Cons(Tensor<f32>, Box<List>),
}

#[relay::func]
fn fold(f: fn(Tensor<f32>, Tensor<f32>) -> Tensor<f32>, acc: Tensor<f32>, l: List) -> Tensor<f32> {
    match l {
        List::Nil => acc,
        List::Cons(h, t) => fold(f, f(acc, h), *t),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let weighted = relay!(|x: Tensor<f32>, w: Tensor<f32>| -> Tensor<f32> {
        let list = List::Cons(x, List::Cons(2.0, List::Cons(4.0, List::Nil)));
        fold(|a, b| a + b * w, 0.0, list)
    });
    let module = weighted.module()?;
    let vm = compile_module(&module, &Target::host())?;
    let scalar = |value: f32| Value::Tensor(Tensor::scalar(value));
    let sum = vm.invoke("main", &[scalar(1.0), scalar(10.0)])?;
    let sum = sum.as_tensor().ok_or("the result is a tensor")?.as_slice::<f32>()?[0];
    println!("{module}");
    println!("{}", vm.executable());
    println!("(1 + 2 + 4) * 10 = {sum}");
    if sum != 70.0 {
        return Err(format!("expected 70, got {sum}").into());
    }
    Ok(())
}
