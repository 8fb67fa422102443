//! Products whose tiles are tensor intrinsics.

use tvm::prelude::*;

#[prim_func]
pub fn tile_product(a: &Tensor<f32, 16, 3>, b: &Tensor<f32, 3, 32>, c: &mut Tensor<f32, 16, 32>) {
    for [i, j, p] in grid([16, 32, 3]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

/// Any number of rows and terms.
#[prim_func]
pub fn tile_rows(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, 16>, c: &mut Tensor<f32, m, 16>) {
    for [i, j, p] in grid([m, 16, k]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

/// With an operand that is computed first, and an epilogue.
#[prim_func]
pub fn tile_relu(a: &Tensor<f32, 8, 5>, b: &Tensor<f32, 5, 16>, y: &mut Tensor<f32, 8, 16>) {
    let x = alloc::<f32>([8, 5]);
    let c = alloc::<f32>([8, 16]);
    for [i, p] in grid([8, 5]) {
        block("X", [S(i), S(p)], |[vi, vp]| {
            x[[vi, vp]] = a[[vi, vp]] * 2.0;
        });
    }
    for [i, j, p] in grid([8, 16, 5]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 1.0);
            c[[vi, vj]] += x[[vi, vp]] * b[[vp, vj]];
        });
    }
    for [i, j] in grid([8, 16]) {
        block("relu", [S(i), S(j)], |[vi, vj]| {
            y[[vi, vj]] = max(c[[vi, vj]], 0.0);
        });
    }
}

/// Bytes, the weights in tiles of 16 columns and 4 terms.
#[prim_func]
pub fn tile_packed(a: &Tensor<u8, m, 8>, b: &Tensor<i8, 2, 2, 16, 4>, c: &mut Tensor<i32, m, 32>) {
    for [i, j, p] in grid([m, 32, 8]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0);
            c[[vi, vj]] += a[[vi, vp]] as i32 * b[[vj / 16, vp / 4, vj % 16, vp % 4]] as i32;
        });
    }
}

#[prim_func]
pub fn tile_signed(a: &Tensor<i8, 3, 8>, b: &Tensor<i8, 2, 2, 4, 4>, c: &mut Tensor<i32, 3, 8>) {
    for [i, j, p] in grid([3, 8, 8]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0);
            c[[vi, vj]] += a[[vi, vp]] as i32 * b[[vj / 4, vp / 4, vj % 4, vp % 4]] as i32;
        });
    }
}

#[prim_func]
pub fn tile_unsigned(a: &Tensor<u8, 3, 8>, b: &Tensor<u8, 8, 8>, c: &mut Tensor<u32, 3, 8>) {
    for [i, j, p] in grid([3, 8, 8]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0);
            c[[vi, vj]] += b[[vj, vp]] as u32 * a[[vi, vp]] as u32;
        });
    }
}

#[prim_func]
pub fn tile_pairs(a: &Tensor<bf16, m, 6>, b: &Tensor<bf16, 16, 6>, c: &mut Tensor<f32, m, 16>) {
    for [i, j, p] in grid([m, 16, 6]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] as f32 * b[[vj, vp]] as f32;
        });
    }
}

/// Several products; the terms are a plain loop.
#[prim_func]
pub fn tile_batch(a: &Tensor<f32, m, 4, 3>, b: &Tensor<f32, 3, 16>, c: &mut Tensor<f32, m, 4, 16>) {
    for [h, i, j] in grid([m, 4, 16]) {
        c[[h, i, j]] = 0.0;
        for p in 0..3 {
            c[[h, i, j]] += a[[h, i, p]] * b[[p, j]];
        }
    }
}
