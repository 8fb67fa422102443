use tvm::prelude::*;

#[relay::adt]
enum List {
    Nil,
    Cons(Tensor<f32>, Box<List>),
}

#[relay::func]
fn head(l: List) -> Tensor<f32> {
    match l {
        List::Cons(h, t) => h,
    }
}

fn main() {}
