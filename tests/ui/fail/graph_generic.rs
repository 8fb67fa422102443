use tvm::prelude::*;

#[relax::func]
fn f<T: Element>(x: Tensor<T, n>) -> Tensor<T, n> {
    relu(x)
}

fn main() {}
