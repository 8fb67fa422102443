use tvm::prelude::*;

#[prim_func]
fn copy(x: &Tensor<f32, m, n, 8>, y: &mut Tensor<f32, m, n, 8>) {
    #[parallel]
    for i in 0..m {
        #[unroll]
        for j in 0..n {
            #[vectorize]
            for k in 0..8 {
                y[[i, j, k]] = x[[i, j, k]];
            }
        }
    }
}

#[prim_func]
fn on_gpu(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    #[bind("blockIdx.x")]
    for i in 0..m {
        #[bind("threadIdx.x")]
        for j in 0..n {
            y[[i, j]] = x[[i, j]];
        }
    }
}

#[test]
fn main() {
    copy::prim_func().unwrap();
    on_gpu::prim_func().unwrap();
}
