use tvm::prelude::*;

#[prim_func]
fn pick(x: &Tensor<i32, n>, y: &mut Tensor<i32, n>) {
    for i in 0..n {
        match x[[i]] {
            0 => y[[i]] = 1,
            _ => y[[i]] = 0,
        }
    }
}

fn main() {}
