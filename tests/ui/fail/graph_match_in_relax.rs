use tvm::prelude::*;

#[relay::adt]
enum List {
    Nil,
    Cons(Tensor<f32>, Box<List>),
}

#[relax::func]
fn head(l: List) -> Tensor<f32> {
    match l {
        List::Nil => 0.0,
        List::Cons(h, t) => h,
    }
}

fn main() {}
