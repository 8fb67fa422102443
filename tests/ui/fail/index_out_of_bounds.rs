use tvm::prelude::*;

#[prim_func]
fn matmul(a: &Tensor<f32, m, 128>, b: &Tensor<f32, 256, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j, p] in grid([m, n, 256]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

fn main() {}
