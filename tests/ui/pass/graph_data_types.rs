use tvm::prelude::*;

#[relay::adt]
enum List {
    Nil,
    Cons(Tensor<f32>, Box<List>),
}

#[relay::func]
fn map(f: fn(Tensor<f32>) -> Tensor<f32>, l: List) -> List {
    match l {
        List::Nil => List::Nil,
        List::Cons(h, t) => List::Cons(f(h), map(f, *t)),
    }
}

#[relay::func]
fn head(l: List, otherwise: Tensor<f32>) -> Tensor<f32> {
    match l {
        List::Cons(h, _) => h,
        _ => otherwise,
    }
}

#[test]
fn main() {
    let f = relay!(|l: List, k: Tensor<f32>| -> Tensor<f32> { head(map(|x| x * k, l), 0.0) });
    f.module().unwrap();
}
