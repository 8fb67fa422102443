//! Printed tensor programs of the round-trip test; written by `UPDATE_EXPECT=1 cargo test --test roundtrip`.
#![allow(warnings, clippy::all, reason = "printed code")]

use tvm::prelude::*;

#[prim_func]
fn op_add(x1: &Tensor<f32, n, 4>, x2: &Tensor<f32, 4>, add_: &mut Tensor<f32, n, 4>) {
    for [i0, i1] in grid([n, 4]) {
        block("add", [S(i0), S(i1)], |[v_i0, v_i1]| {
            add_[[v_i0, v_i1]] = x1[[v_i0, v_i1]] + x2[[v_i1]];
        });
    }
}

#[prim_func]
fn op_divide(x1: &Tensor<i64, n>, x2: &Tensor<i64, n>, divide: &mut Tensor<i64, n>) {
    for i0 in 0..n {
        block("divide", [S(i0)], |[v_i0]| {
            divide[[v_i0]] = select(x2[[v_i0]] == 0, 0, x1[[v_i0]] / select(x2[[v_i0]] == 0, 1, x2[[v_i0]]));
        });
    }
}

#[prim_func]
fn op_floor_divide(x1: &Tensor<i64, n>, x2: &Tensor<i64, n>, floor_divide: &mut Tensor<i64, n>) {
    for i0 in 0..n {
        block("floor_divide", [S(i0)], |[v_i0]| {
            floor_divide[[v_i0]] = select(x2[[v_i0]] == 0, 0, floordiv(x1[[v_i0]], select(x2[[v_i0]] == 0, 1, x2[[v_i0]])));
        });
    }
}

#[prim_func]
fn op_mod(x1: &Tensor<i32, n>, x2: &Tensor<i32, n>, mod_: &mut Tensor<i32, n>) {
    for i0 in 0..n {
        block("mod", [S(i0)], |[v_i0]| {
            mod_[[v_i0]] = select(x2[[v_i0]] == 0, 0, x1[[v_i0]] % select(x2[[v_i0]] == 0, 1, x2[[v_i0]]));
        });
    }
}

#[prim_func]
fn op_right_shift(x1: &Tensor<u8, n>, x2: &Tensor<u8, n>, right_shift: &mut Tensor<u8, n>) {
    for i0 in 0..n {
        block("right_shift", [S(i0)], |[v_i0]| {
            right_shift[[v_i0]] = select((x2[[v_i0]] <= 7) & (x2[[v_i0]] >= 0), x1[[v_i0]] >> select((x2[[v_i0]] <= 7) & (x2[[v_i0]] >= 0), x2[[v_i0]], 7), 0);
        });
    }
}

#[prim_func]
fn op_logical_and(x1: &Tensor<bool, n>, x2: &Tensor<bool, n>, logical_and: &mut Tensor<bool, n>) {
    for i0 in 0..n {
        block("logical_and", [S(i0)], |[v_i0]| {
            logical_and[[v_i0]] = x1[[v_i0]] & x2[[v_i0]];
        });
    }
}

#[prim_func]
fn op_less_equal(x1: &Tensor<f32, n, m>, x2: &Tensor<f32, n, m>, less_equal: &mut Tensor<bool, n, m>) {
    for [i0, i1] in grid([n, m]) {
        block("less_equal", [S(i0), S(i1)], |[v_i0, v_i1]| {
            less_equal[[v_i0, v_i1]] = x1[[v_i0, v_i1]] <= x2[[v_i0, v_i1]];
        });
    }
}

#[prim_func]
fn op_where(condition: &Tensor<bool, n>, x1: &Tensor<f32, n>, x2: &Tensor<f32, n>, where_: &mut Tensor<f32, n>) {
    for i0 in 0..n {
        block("where", [S(i0)], |[v_i0]| {
            where_[[v_i0]] = select(condition[[v_i0]], x1[[v_i0]], x2[[v_i0]]);
        });
    }
}

#[prim_func]
fn op_maximum(x1: &Tensor<f32, n>, x2: &Tensor<f32, 1>, maximum: &mut Tensor<f32, n>) {
    for i0 in 0..n {
        block("maximum", [S(i0)], |[v_i0]| {
            maximum[[v_i0]] = max(x1[[v_i0]], x2[[0]]);
        });
    }
}

#[prim_func]
fn op_astype(x: &Tensor<f32, n>, cast_: &mut Tensor<f16, n>) {
    for i0 in 0..n {
        block("cast", [S(i0)], |[v_i0]| {
            cast_[[v_i0]] = x[[v_i0]] as f16;
        });
    }
}

#[prim_func]
fn op_sign(x: &Tensor<f32, n>, sign: &mut Tensor<f32, n>) {
    for i0 in 0..n {
        block("sign", [S(i0)], |[v_i0]| {
            sign[[v_i0]] = select(x[[v_i0]] > 0.0, 1.0, select(x[[v_i0]] < 0.0, -1.0, x[[v_i0]]));
        });
    }
}

#[prim_func]
fn op_square(x: &Tensor<f16, n>, square: &mut Tensor<f16, n>) {
    for i0 in 0..n {
        block("square", [S(i0)], |[v_i0]| {
            square[[v_i0]] = x[[v_i0]] * x[[v_i0]];
        });
    }
}

#[prim_func]
fn op_nn_gelu(x: &Tensor<f32, n, 8>, gelu: &mut Tensor<f32, n, 8>) {
    for [i0, i1] in grid([n, 8]) {
        block("gelu", [S(i0), S(i1)], |[v_i0, v_i1]| {
            gelu[[v_i0, v_i1]] = x[[v_i0, v_i1]] * 0.5 * (erf(x[[v_i0, v_i1]] * 0.70710677) + 1.0);
        });
    }
}

#[prim_func]
fn op_nn_leakyrelu(data: &Tensor<f32, n>, leakyrelu: &mut Tensor<f32, n>) {
    for i0 in 0..n {
        block("leakyrelu", [S(i0)], |[v_i0]| {
            leakyrelu[[v_i0]] = select(data[[v_i0]] > 0.0, data[[v_i0]], data[[v_i0]] * 0.2);
        });
    }
}

#[prim_func]
fn op_nn_selu(x: &Tensor<f64, n>, selu: &mut Tensor<f64, n>) {
    for i0 in 0..n {
        block("selu", [S(i0)], |[v_i0]| {
            selu[[v_i0]] = select(x[[v_i0]] > 0.0, x[[v_i0]], (exp(x[[v_i0]]) - 1.0) * 1.6732632423543772) * 1.0507009873554805;
        });
    }
}

#[prim_func]
fn op_isnan(x: &Tensor<f32, n>, isnan: &mut Tensor<bool, n>) {
    for i0 in 0..n {
        block("isnan", [S(i0)], |[v_i0]| {
            isnan[[v_i0]] = x[[v_i0]] != x[[v_i0]];
        });
    }
}

#[prim_func]
fn op_power(x1: &Tensor<f32, n>, x2: &Tensor<f32, n>, power: &mut Tensor<f32, n>) {
    for i0 in 0..n {
        block("power", [S(i0)], |[v_i0]| {
            power[[v_i0]] = pow(x1[[v_i0]], x2[[v_i0]]);
        });
    }
}

#[prim_func]
fn op_erf(x: &Tensor<f32, n>, erf_: &mut Tensor<f32, n>) {
    for i0 in 0..n {
        block("erf", [S(i0)], |[v_i0]| {
            erf_[[v_i0]] = erf(x[[v_i0]]);
        });
    }
}

#[prim_func]
fn op_sum(x: &Tensor<f32, n, 8, m>, sum: &mut Tensor<f32, n, 1, m>) {
    for [i0, i1, i2, k0] in grid([n, 1, m, 8]) {
        block("sum", [S(i0), S(i1), S(i2), R(k0)], |[v_i0, v_i1, v_i2, v_k0]| {
            init(|| sum[[v_i0, v_i1, v_i2]] = 0.0);
            sum[[v_i0, v_i1, v_i2]] += x[[v_i0, v_k0, v_i2]];
        });
    }
}

#[prim_func]
fn op_max(x: &Tensor<f32, n, 8>, max_: &mut Tensor<f32>) {
    for [k0, k1] in grid([n, 8]) {
        block("max", [R(k0), R(k1)], |[v_k0, v_k1]| {
            init(|| max_[[]] = f32::NEG_INFINITY);
            max_[[]] = max(max_[[]], x[[v_k0, v_k1]]);
        });
    }
}

#[prim_func]
fn op_prod(x: &Tensor<i32, n, 8>, prod: &mut Tensor<i32, 8>) {
    for [i0, k0] in grid([8, n]) {
        block("prod", [S(i0), R(k0)], |[v_i0, v_k0]| {
            init(|| prod[[v_i0]] = 1);
            prod[[v_i0]] *= x[[v_k0, v_i0]];
        });
    }
}

#[prim_func]
fn op_mean(x: &Tensor<f32, n, 8>, mean: &mut Tensor<f32, n>) {
    let mut mean_sum = alloc::<f32>([n]);
    for [i0, k0] in grid([n, 8]) {
        block("mean_sum", [S(i0), R(k0)], |[v_i0, v_k0]| {
            init(|| mean_sum[[v_i0]] = 0.0);
            mean_sum[[v_i0]] += x[[v_i0, v_k0]];
        });
    }
    for i0 in 0..n {
        block("mean", [S(i0)], |[v_i0]| {
            mean[[v_i0]] = mean_sum[[v_i0]] / 8.0;
        });
    }
}

#[prim_func]
fn op_argmax(x: &Tensor<f32, n, 8>, argmax_v0: &mut Tensor<i64, n>) {
    let mut argmax_v1 = alloc::<f32>([n]);
    for [i0, k0] in grid([n, 8]) {
        block("argmax", [S(i0), R(k0)], |[v_i0, v_k0]| {
            init(|| {
                argmax_v0[[v_i0]] = 9223372036854775807;
                argmax_v1[[v_i0]] = f32::NEG_INFINITY;
            });
            let v_argmax_v0 = select((argmax_v1[[v_i0]] > x[[v_i0, v_k0]]) | (argmax_v1[[v_i0]] != argmax_v1[[v_i0]]) & !(x[[v_i0, v_k0]] != x[[v_i0, v_k0]]) | ((argmax_v1[[v_i0]] == x[[v_i0, v_k0]]) | (argmax_v1[[v_i0]] != argmax_v1[[v_i0]]) & (x[[v_i0, v_k0]] != x[[v_i0, v_k0]])) & ((argmax_v0[[v_i0]] as usize) < v_k0), argmax_v0[[v_i0]] as usize, v_k0);
            let v_argmax_v1 = select((argmax_v1[[v_i0]] > x[[v_i0, v_k0]]) | (argmax_v1[[v_i0]] != argmax_v1[[v_i0]]) & !(x[[v_i0, v_k0]] != x[[v_i0, v_k0]]) | ((argmax_v1[[v_i0]] == x[[v_i0, v_k0]]) | (argmax_v1[[v_i0]] != argmax_v1[[v_i0]]) & (x[[v_i0, v_k0]] != x[[v_i0, v_k0]])) & ((argmax_v0[[v_i0]] as usize) < v_k0), argmax_v1[[v_i0]], x[[v_i0, v_k0]]);
            argmax_v0[[v_i0]] = v_argmax_v0 as i64;
            argmax_v1[[v_i0]] = v_argmax_v1;
        });
    }
}

#[prim_func]
fn op_matmul(x1: &Tensor<f32, n, 16>, x2: &Tensor<f32, 16, m>, matmul: &mut Tensor<f32, n, m>) {
    for [i0, i1, k] in grid([n, m, 16]) {
        block("matmul", [S(i0), S(i1), R(k)], |[v_i0, v_i1, v_k]| {
            init(|| matmul[[v_i0, v_i1]] = 0.0);
            matmul[[v_i0, v_i1]] += x1[[v_i0, v_k]] * x2[[v_k, v_i1]];
        });
    }
}

#[prim_func]
fn op_matmul_1(x1: &Tensor<f32, 2, n, 16>, x2: &Tensor<f32, 16, 4>, matmul: &mut Tensor<f32, 2, n, 4>) {
    for [i0, i1, i2, k] in grid([2, n, 4, 16]) {
        block("matmul", [S(i0), S(i1), S(i2), R(k)], |[v_i0, v_i1, v_i2, v_k]| {
            init(|| matmul[[v_i0, v_i1, v_i2]] = 0.0);
            matmul[[v_i0, v_i1, v_i2]] += x1[[v_i0, v_i1, v_k]] * x2[[v_k, v_i2]];
        });
    }
}

#[prim_func]
fn op_nn_softmax(data: &Tensor<f32, n, m>, softmax: &mut Tensor<f32, n, m>) {
    let mut softmax_max = alloc::<f32>([n, 1]);
    let mut softmax_exp = alloc::<f32>([n, m]);
    let mut softmax_sum = alloc::<f32>([n, 1]);
    let mut softmax_scale = alloc::<f32>([n, 1]);
    for [i0, i1, k0] in grid([n, 1, m]) {
        block("softmax_max", [S(i0), S(i1), R(k0)], |[v_i0, v_i1, v_k0]| {
            init(|| softmax_max[[v_i0, v_i1]] = f32::NEG_INFINITY);
            softmax_max[[v_i0, v_i1]] = max(softmax_max[[v_i0, v_i1]], data[[v_i0, v_k0]]);
        });
    }
    for [i0, i1] in grid([n, m]) {
        block("softmax_exp", [S(i0), S(i1)], |[v_i0, v_i1]| {
            softmax_exp[[v_i0, v_i1]] = exp(data[[v_i0, v_i1]] - softmax_max[[v_i0, 0]]);
        });
    }
    for [i0, i1, k0] in grid([n, 1, m]) {
        block("softmax_sum", [S(i0), S(i1), R(k0)], |[v_i0, v_i1, v_k0]| {
            init(|| softmax_sum[[v_i0, v_i1]] = 0.0);
            softmax_sum[[v_i0, v_i1]] += softmax_exp[[v_i0, v_k0]];
        });
    }
    for [i0, i1] in grid([n, 1]) {
        block("softmax_scale", [S(i0), S(i1)], |[v_i0, v_i1]| {
            softmax_scale[[v_i0, v_i1]] = 1.0 / softmax_sum[[v_i0, v_i1]];
        });
    }
    for [i0, i1] in grid([n, m]) {
        block("softmax", [S(i0), S(i1)], |[v_i0, v_i1]| {
            softmax[[v_i0, v_i1]] = softmax_exp[[v_i0, v_i1]] * softmax_scale[[v_i0, 0]];
        });
    }
}

#[prim_func]
fn op_nn_log_softmax(data: &Tensor<f32, n, 10>, log_softmax: &mut Tensor<f32, n, 10>) {
    let mut log_softmax_max = alloc::<f32>([n, 1]);
    let mut log_softmax_shift = alloc::<f32>([n, 10]);
    let mut log_softmax_sum = alloc::<f32>([n, 1]);
    for [i0, i1, k0] in grid([n, 1, 10]) {
        block("log_softmax_max", [S(i0), S(i1), R(k0)], |[v_i0, v_i1, v_k0]| {
            init(|| log_softmax_max[[v_i0, v_i1]] = f32::NEG_INFINITY);
            log_softmax_max[[v_i0, v_i1]] = max(log_softmax_max[[v_i0, v_i1]], data[[v_i0, v_k0]]);
        });
    }
    for [i0, i1] in grid([n, 10]) {
        block("log_softmax_shift", [S(i0), S(i1)], |[v_i0, v_i1]| {
            log_softmax_shift[[v_i0, v_i1]] = data[[v_i0, v_i1]] - log_softmax_max[[v_i0, 0]];
        });
    }
    for [i0, i1, k0] in grid([n, 1, 10]) {
        block("log_softmax_sum", [S(i0), S(i1), R(k0)], |[v_i0, v_i1, v_k0]| {
            init(|| log_softmax_sum[[v_i0, v_i1]] = 0.0);
            log_softmax_sum[[v_i0, v_i1]] += exp(log_softmax_shift[[v_i0, v_k0]]);
        });
    }
    for [i0, i1] in grid([n, 10]) {
        block("log_softmax", [S(i0), S(i1)], |[v_i0, v_i1]| {
            log_softmax[[v_i0, v_i1]] = log_softmax_shift[[v_i0, v_i1]] - log(log_softmax_sum[[v_i0, 0]]);
        });
    }
}

#[prim_func]
fn op_nn_layer_norm(data: &Tensor<f32, n, 8>, gamma: &Tensor<f32, 8>, beta: &Tensor<f32, 8>, layer_norm: &mut Tensor<f32, n, 8>) {
    let mut mean_sum = alloc::<f32>([n, 1]);
    let mut mean = alloc::<f32>([n, 1]);
    let mut squares = alloc::<f32>([n, 1]);
    let mut variance = alloc::<f32>([n, 1]);
    for [i0, i1, k0] in grid([n, 1, 8]) {
        block("mean_sum", [S(i0), S(i1), R(k0)], |[v_i0, v_i1, v_k0]| {
            init(|| mean_sum[[v_i0, v_i1]] = 0.0);
            mean_sum[[v_i0, v_i1]] += data[[v_i0, v_k0]];
        });
    }
    for [i0, i1] in grid([n, 1]) {
        block("mean", [S(i0), S(i1)], |[v_i0, v_i1]| {
            mean[[v_i0, v_i1]] = mean_sum[[v_i0, v_i1]] / 8.0;
        });
    }
    for [i0, i1, k0] in grid([n, 1, 8]) {
        block("squares", [S(i0), S(i1), R(k0)], |[v_i0, v_i1, v_k0]| {
            init(|| squares[[v_i0, v_i1]] = 0.0);
            squares[[v_i0, v_i1]] += (data[[v_i0, v_k0]] - mean[[v_i0, 0]]) * (data[[v_i0, v_k0]] - mean[[v_i0, 0]]);
        });
    }
    for [i0, i1] in grid([n, 1]) {
        block("variance", [S(i0), S(i1)], |[v_i0, v_i1]| {
            variance[[v_i0, v_i1]] = squares[[v_i0, v_i1]] / 8.0;
        });
    }
    for [i0, i1] in grid([n, 8]) {
        block("layer_norm", [S(i0), S(i1)], |[v_i0, v_i1]| {
            layer_norm[[v_i0, v_i1]] = (data[[v_i0, v_i1]] - mean[[v_i0, 0]]) * (1.0 / sqrt(variance[[v_i0, 0]] + 1e-5)) * gamma[[v_i1]] + beta[[v_i1]];
        });
    }
}

#[prim_func]
fn op_nn_batch_norm(data: &Tensor<f32, n, 3, 8, 8>, gamma: &Tensor<f32, 3>, beta: &Tensor<f32, 3>, moving_mean: &Tensor<f32, 3>, moving_var: &Tensor<f32, 3>, batch_norm: &mut Tensor<f32, n, 3, 8, 8>) {
    for [i0, i1, i2, i3] in grid([n, 3, 8, 8]) {
        block("batch_norm", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
            batch_norm[[v_i0, v_i1, v_i2, v_i3]] = (data[[v_i0, v_i1, v_i2, v_i3]] - moving_mean[[v_i1]]) / sqrt(moving_var[[v_i1]] + 1e-5) * gamma[[v_i1]] + beta[[v_i1]];
        });
    }
}

#[prim_func]
fn op_nn_conv2d(data: &Tensor<f32, n, 3, 8, 8>, weight: &Tensor<f32, 4, 3, 3, 3>, conv2d: &mut Tensor<f32, n, 4, 4, 4>) {
    let mut pad_temp = alloc::<f32>([n, 3, 10, 10]);
    for [i0, i1, i2, i3] in grid([n, 3, 10, 10]) {
        block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
            pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 8 && v_i3 - 1 >= 0 && v_i3 - 1 < 8 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
        });
    }
    for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 4, 4, 4, 3, 3, 3]) {
        block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
            init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
            conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 * 2 + v_kh, v_i3 * 2 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
        });
    }
}

#[prim_func]
fn op_nn_conv2d_transpose(data: &Tensor<f32, 1, 2, 4, 4>, weight: &Tensor<f32, 2, 3, 3, 3>, conv2d_transpose: &mut Tensor<f32, 1, 3, 9, 9>) {
    let mut pad_temp = alloc::<f32>([1, 2, 6, 6]);
    let mut conv2d_transpose_phases = alloc::<f32>([1, 12, 5, 5]);
    for [i0, i1, i2, i3] in grid([1, 2, 6, 6]) {
        block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
            pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 4 && v_i3 - 1 >= 0 && v_i3 - 1 < 4 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
        });
    }
    for [i0, i1, i2, i3, ci, th, tw] in grid([1, 12, 5, 5, 2, 2, 2]) {
        block("conv2d_transpose_phases", [S(i0), S(i1), S(i2), S(i3), R(ci), R(th), R(tw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_th, v_tw]| {
            init(|| conv2d_transpose_phases[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
            conv2d_transpose_phases[[v_i0, v_i1, v_i2, v_i3]] += if v_th * 2 + v_i1 / 3 / 2 < 3 && v_tw * 2 + v_i1 / 3 % 2 < 3 { pad_temp[[v_i0, v_ci, v_i2 + 1 - v_th, v_i3 + 1 - v_tw]] * weight[[v_ci, v_i1 % 3, v_th * 2 + v_i1 / 3 / 2, v_tw * 2 + v_i1 / 3 % 2]] } else { 0.0 };
        });
    }
    for [i0, i1, i2, i3] in grid([1, 3, 9, 9]) {
        block("conv2d_transpose", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
            conv2d_transpose[[v_i0, v_i1, v_i2, v_i3]] = conv2d_transpose_phases[[v_i0, (v_i2 % 2 * 2 + v_i3 % 2) * 3 + v_i1, v_i2 / 2, v_i3 / 2]];
        });
    }
}

#[prim_func]
fn op_nn_max_pool2d(data: &Tensor<f32, n, 3, 8, 8>, max_pool2d: &mut Tensor<f32, n, 3, 4, 4>) {
    for [i0, i1, i2, i3, k0, k1] in grid([n, 3, 4, 4, 2, 2]) {
        block("max_pool2d", [S(i0), S(i1), S(i2), S(i3), R(k0), R(k1)], |[v_i0, v_i1, v_i2, v_i3, v_k0, v_k1]| {
            init(|| max_pool2d[[v_i0, v_i1, v_i2, v_i3]] = f32::NEG_INFINITY);
            max_pool2d[[v_i0, v_i1, v_i2, v_i3]] = max(max_pool2d[[v_i0, v_i1, v_i2, v_i3]], data[[v_i0, v_i1, v_i2 * 2 + v_k0, v_i3 * 2 + v_k1]]);
        });
    }
}

#[prim_func]
fn op_nn_avg_pool2d(data: &Tensor<f32, n, 3, 8, 8>, avg_pool2d: &mut Tensor<f32, n, 3, 8, 8>) {
    let mut pad_temp = alloc::<f32>([n, 3, 10, 10]);
    let mut pool_sum = alloc::<f32>([n, 3, 8, 8]);
    for [i0, i1, i2, i3] in grid([n, 3, 10, 10]) {
        block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
            pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 8 && v_i3 - 1 >= 0 && v_i3 - 1 < 8 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
        });
    }
    for [i0, i1, i2, i3, k0, k1] in grid([n, 3, 8, 8, 3, 3]) {
        block("pool_sum", [S(i0), S(i1), S(i2), S(i3), R(k0), R(k1)], |[v_i0, v_i1, v_i2, v_i3, v_k0, v_k1]| {
            init(|| pool_sum[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
            pool_sum[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_i1, v_i2 + v_k0, v_i3 + v_k1]];
        });
    }
    for [i0, i1, i2, i3] in grid([n, 3, 8, 8]) {
        block("avg_pool2d", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
            avg_pool2d[[v_i0, v_i1, v_i2, v_i3]] = pool_sum[[v_i0, v_i1, v_i2, v_i3]] / ((max(min(8 - (v_i2 - 1), 3) - max((-1i64 as usize) * (v_i2 - 1), 0), 1) * max(min(8 - (v_i3 - 1), 3) - max((-1i64 as usize) * (v_i3 - 1), 0), 1)) as f32);
        });
    }
}

#[prim_func]
fn op_nn_adaptive_avg_pool2d(data: &Tensor<f32, n, 3, 8, 8>, adaptive_avg_pool2d: &mut Tensor<f32, n, 3, 8, 8>) {
    let mut adaptive_pool_sum = alloc::<f32>([n, 3, 8, 8]);
    for [i0, i1, i2, i3, k0, k1] in grid([n, 3, 8, 8, 1, 1]) {
        block("adaptive_pool_sum", [S(i0), S(i1), S(i2), S(i3), R(k0), R(k1)], |[v_i0, v_i1, v_i2, v_i3, v_k0, v_k1]| {
            init(|| adaptive_pool_sum[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
            adaptive_pool_sum[[v_i0, v_i1, v_i2, v_i3]] += data[[v_i0, v_i1, v_i2 + v_k0, v_i3 + v_k1]];
        });
    }
    for [i0, i1, i2, i3] in grid([n, 3, 8, 8]) {
        block("adaptive_avg_pool2d", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
            adaptive_avg_pool2d[[v_i0, v_i1, v_i2, v_i3]] = adaptive_pool_sum[[v_i0, v_i1, v_i2, v_i3]] / 1.0;
        });
    }
}

#[prim_func]
fn op_nn_pad(data: &Tensor<f32, n, 4>, pad: &mut Tensor<f32, n, 7>) {
    for [i0, i1] in grid([n, 7]) {
        block("pad", [S(i0), S(i1)], |[v_i0, v_i1]| {
            pad[[v_i0, v_i1]] = if v_i1 - 1 >= 0 && v_i1 - 1 < 4 { data[[v_i0, v_i1 - 1]] } else { -1.5 };
        });
    }
}

#[prim_func]
fn op_nn_pad_1(data: &Tensor<f32, 4, 4>, pad: &mut Tensor<f32, 6, 6>) {
    for [i0, i1] in grid([6, 6]) {
        block("pad", [S(i0), S(i1)], |[v_i0, v_i1]| {
            pad[[v_i0, v_i1]] = data[[min((v_i0 - 1) % 6, 6 - (v_i0 - 1) % 6), min((v_i1 - 1) % 6, 6 - (v_i1 - 1) % 6)]];
        });
    }
}

#[prim_func]
fn op_permute_dims(x: &Tensor<f32, n, 4, m>, transpose: &mut Tensor<f32, m, n, 4>) {
    for [i0, i1, i2] in grid([m, n, 4]) {
        block("transpose", [S(i0), S(i1), S(i2)], |[v_i0, v_i1, v_i2]| {
            transpose[[v_i0, v_i1, v_i2]] = x[[v_i1, v_i2, v_i0]];
        });
    }
}

#[prim_func]
fn op_concat(x0: &Tensor<f32, n, 4>, x1: &Tensor<f32, n, 2>, concat: &mut Tensor<f32, n, 6>) {
    for [i0, i1] in grid([n, 6]) {
        block("concat", [S(i0), S(i1)], |[v_i0, v_i1]| {
            concat[[v_i0, v_i1]] = if v_i1 < 4 { x0[[v_i0, v_i1]] } else { x1[[v_i0, v_i1 - 4]] };
        });
    }
}

#[prim_func]
fn op_flip(x: &Tensor<f32, n, 4>, flip: &mut Tensor<f32, n, 4>) {
    for [i0, i1] in grid([n, 4]) {
        block("flip", [S(i0), S(i1)], |[v_i0, v_i1]| {
            flip[[v_i0, v_i1]] = x[[v_i0, 3 - v_i1]];
        });
    }
}

#[prim_func]
fn op_tile(x: &Tensor<f32, n, 2>, tile: &mut Tensor<f32, { n * 2 }, 6>) {
    for [i0, i1] in grid([n * 2, 6]) {
        block("tile", [S(i0), S(i1)], |[v_i0, v_i1]| {
            tile[[v_i0, v_i1]] = x[[v_i0 % n, v_i1 % 2]];
        });
    }
}

#[prim_func]
fn op_repeat(x: &Tensor<f32, n, 2>, repeat: &mut Tensor<f32, n, 6>) {
    for [i0, i1] in grid([n, 6]) {
        block("repeat", [S(i0), S(i1)], |[v_i0, v_i1]| {
            repeat[[v_i0, v_i1]] = x[[v_i0, v_i1 / 3]];
        });
    }
}

#[prim_func]
fn op_flatten(x: &Tensor<f32, 2, 3, 4>, reshape: &mut Tensor<f32, 24>) {
    for i0 in 0..24 {
        block("reshape", [S(i0)], |[v_i0]| {
            reshape[[v_i0]] = x[[v_i0 / 4 / 3, v_i0 / 4 % 3, v_i0 % 4]];
        });
    }
}

#[prim_func]
fn op_squeeze(x: &Tensor<f32, n, 1, 4>, reshape: &mut Tensor<f32, n, 4>) {
    for [i0, i1] in grid([n, 4]) {
        block("reshape", [S(i0), S(i1)], |[v_i0, v_i1]| {
            reshape[[v_i0, v_i1]] = x[[(v_i0 * 4 + v_i1) / 4, 0, (v_i0 * 4 + v_i1) % 4]];
        });
    }
}

#[prim_func]
fn op_take(x: &Tensor<f32, n, 4>, indices: &Tensor<i64, m>, take: &mut Tensor<f32, m, 4>) {
    for [i0, i1] in grid([m, 4]) {
        block("take", [S(i0), S(i1)], |[v_i0, v_i1]| {
            take[[v_i0, v_i1]] = x[[min(max(select(indices[[v_i0]] < 0, (indices[[v_i0]] as usize) + n, indices[[v_i0]] as usize), 0), n - 1), v_i1]];
        });
    }
}

#[prim_func]
fn op_gather_elements(data: &Tensor<f32, n, 4>, indices: &Tensor<i64, n, 2>, gather_elements: &mut Tensor<f32, n, 2>) {
    for [i0, i1] in grid([n, 2]) {
        block("gather_elements", [S(i0), S(i1)], |[v_i0, v_i1]| {
            gather_elements[[v_i0, v_i1]] = data[[v_i0, min(max(select(indices[[v_i0, v_i1]] < 0, (indices[[v_i0, v_i1]] as usize) + 4, indices[[v_i0, v_i1]] as usize), 0), 3)]];
        });
    }
}

#[prim_func]
fn op_scatter_elements(data: &Tensor<f32, 8>, indices: &Tensor<i64, 3>, updates: &Tensor<f32, 3>, scatter_elements: &mut Tensor<f32, 8>) {
    for i0 in 0..8 {
        block("scatter_elements_init", [S(i0)], |[v_i0]| {
            scatter_elements[[v_i0]] = data[[v_i0]];
        });
    }
    for i0 in 0..3 {
        block("scatter_elements", [O(i0)], |[v_i0]| {
            scatter_elements[[min(max(select(indices[[v_i0]] < 0, (indices[[v_i0]] as usize) + 8, indices[[v_i0]] as usize), 0), 7)]] = updates[[v_i0]];
        });
    }
}

#[prim_func]
fn op_cumsum(x: &Tensor<f32, n, 4>, cumsum: &mut Tensor<f32, n, 4>) {
    for [i0, i1] in grid([n, 4]) {
        block("cumsum", [S(i0), O(i1)], |[v_i0, v_i1]| {
            cumsum[[v_i0, v_i1]] = if v_i1 == 0 { x[[v_i0, v_i1]] } else { cumsum[[v_i0, v_i1 - 1]] + x[[v_i0, v_i1]] };
        });
    }
}

#[prim_func]
fn op_zeros_like(x: &Tensor<f32, n>, full: &mut Tensor<f32, n>) {
    for i0 in 0..n {
        block("full", [S(i0)], |[v_i0]| {
            full[[v_i0]] = 0.0;
        });
    }
}

#[prim_func]
fn op_nn_lrn(data: &Tensor<f32, n, 4, 2, 2>, lrn: &mut Tensor<f32, n, 4, 2, 2>) {
    let mut lrn_squares = alloc::<f32>([n, 4, 2, 2]);
    for [i0, i1, i2, i3, window] in grid([n, 4, 2, 2, 3]) {
        block("lrn_squares", [S(i0), S(i1), S(i2), S(i3), R(window)], |[v_i0, v_i1, v_i2, v_i3, v_window]| {
            init(|| lrn_squares[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
            lrn_squares[[v_i0, v_i1, v_i2, v_i3]] += if v_i1 + v_window - 1 >= 0 && v_i1 + v_window - 1 < 4 { data[[v_i0, v_i1 + v_window - 1, v_i2, v_i3]] * data[[v_i0, v_i1 + v_window - 1, v_i2, v_i3]] } else { 0.0 };
        });
    }
    for [i0, i1, i2, i3] in grid([n, 4, 2, 2]) {
        block("lrn", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
            lrn[[v_i0, v_i1, v_i2, v_i3]] = data[[v_i0, v_i1, v_i2, v_i3]] / pow(lrn_squares[[v_i0, v_i1, v_i2, v_i3]] * 3.3333334e-5 + 1.0, 0.75);
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn tiled(a: &Tensor<f32, 16, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 16, n>) {
    for i_0 in 0..3 {
        #[attrs("pragma.unroll" = 4)]
        for i_1 in 0..6 {
            for [j, p_0, p_1] in grid([n, (k + 4) / 5, 5]) {
                if i_0 * 6 + i_1 < 16 && p_0 * 5 + p_1 < k {
                    #[attrs(tile = [3, 5])]
                    block("C", [S(i_0 * 6 + i_1).within(0..16), S(j), R(p_0 * 5 + p_1).within(0..k)], |[vi, vj, vp]| {
                        init(|| c[[vi, vj]] = 0.0);
                        c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
                    });
                }
            }
        }
    }
}

#[prim_func]
fn constants_of_kernels(y_i8: &mut Tensor<i8, 64>, y_i32: &mut Tensor<i32, 64>, y_i64: &mut Tensor<i64, 64>, y_u8: &mut Tensor<u8, 64>, y_u32: &mut Tensor<u32, 64>, y_u64: &mut Tensor<u64, 64>, y_bool: &mut Tensor<bool, 64>, y_f32: &mut Tensor<f32, 64>, y_f64: &mut Tensor<f64, 64>, y_f16: &mut Tensor<f16, 64>, y_bf16: &mut Tensor<bf16, 64>) {
    block("all", [], |[]| {
        y_i8[[0]] = -128;
        y_i8[[1]] = -1;
        y_i8[[2]] = 0;
        y_i8[[3]] = 127;
        y_i32[[0]] = -2147483648;
        y_i32[[1]] = 2147483647;
        y_i64[[0]] = -9223372036854775808;
        y_i64[[1]] = -9223372036854775807;
        y_i64[[2]] = -1;
        y_i64[[3]] = 9223372036854775807;
        y_u8[[0]] = 0;
        y_u8[[1]] = 255;
        y_u32[[0]] = 4294967295;
        y_u64[[0]] = 0;
        y_u64[[1]] = 1;
        y_u64[[2]] = 9223372036854775807;
        y_u64[[3]] = 9223372036854775808u64;
        y_u64[[4]] = 18446744073709551615u64;
        y_bool[[0]] = false;
        y_bool[[1]] = true;
        y_f32[[0]] = 3.4028235e38;
        y_f32[[1]] = 1.1754944e-38;
        y_f32[[2]] = 1e-45;
        y_f32[[3]] = 0.1;
        y_f32[[4]] = 16777216.0;
        y_f32[[5]] = f32::NAN;
        y_f32[[6]] = f32::INFINITY;
        y_f32[[7]] = f32::NEG_INFINITY;
        y_f32[[8]] = 0.0;
        y_f32[[9]] = -0.0;
        y_f32[[10]] = -1.5;
        y_f64[[0]] = 1.7976931348623157e308;
        y_f64[[1]] = 5e-324;
        y_f64[[2]] = 0.1;
        y_f64[[3]] = 1e300;
        y_f64[[4]] = f64::NAN;
        y_f64[[5]] = f64::INFINITY;
        y_f64[[6]] = f64::NEG_INFINITY;
        y_f64[[7]] = 0.0;
        y_f64[[8]] = -0.0;
        y_f64[[9]] = -1.5;
        y_f16[[0]] = 65504.0;
        y_f16[[1]] = 5.960464477539063e-8;
        y_f16[[2]] = 0.0999755859375;
        y_f16[[3]] = f16::NAN;
        y_f16[[4]] = f16::INFINITY;
        y_f16[[5]] = f16::NEG_INFINITY;
        y_f16[[6]] = 0.0;
        y_f16[[7]] = -0.0;
        y_f16[[8]] = -1.5;
        y_bf16[[0]] = 3.3895313892515355e38;
        y_bf16[[1]] = 9.183549615799121e-41;
        y_bf16[[2]] = 0.10009765625;
        y_bf16[[3]] = bf16::NAN;
        y_bf16[[4]] = bf16::INFINITY;
        y_bf16[[5]] = bf16::NEG_INFINITY;
        y_bf16[[6]] = 0.0;
        y_bf16[[7]] = -0.0;
        y_bf16[[8]] = -1.5;
    });
}

#[prim_func(name = "self", root("root.key" = true))]
fn self_(x: &Tensor<i64, fn_>, x_1: &mut Tensor<i64, fn_>) {
    #[strides(16, 1)]
    #[offset(3)]
    #[scope("local")]
    let mut t = alloc::<i64>([4, 8]);
    #[attrs("a.b" = f64::NEG_INFINITY, text = "a \"b\"\n")]
    for let_ in 0..fn_ {
        #[attrs(k = 1)]
        block("plain", [Q(let_)], |[let__1]| {
            x_1[[let__1]] = x[[let__1]];
        });
    }
    #[attrs("a.b" = f64::NEG_INFINITY, text = "a \"b\"\n")]
    for let_ in 0..fn_ {
        if fn_ > 3 {
            #[attrs(k = 1)]
            block("domain", [Q(let_).within(0..fn_ + 7)], |[let__1]| {
                let a = bind(5i64);
                let a_1 = x[[let__1]];
                let move_ = bind(a_1);
                x_1[[let__1]] = a + a_1 + move_;
            });
        }
    }
    #[attrs("a.b" = f64::NEG_INFINITY, text = "a \"b\"\n")]
    for let_ in 2..fn_ {
        #[attrs(k = 1)]
        block("begins", [Q(let_)], |[let__1]| {
            x_1[[let__1]] = x[[let__1 - 2]];
        });
    }
    #[attrs("a.b" = f64::NEG_INFINITY, text = "a \"b\"\n")]
    for let_ in (fn_ - 1)..fn_ - 1 + 1 {
        #[attrs(k = 1)]
        block("symbolic", [Q(let_)], |[let__1]| {
            x_1[[let__1]] = x[[let__1]];
        });
    }
    #[attrs("a.b" = f64::NEG_INFINITY, text = "a \"b\"\n")]
    for let_ in -3..2 {
        #[attrs(k = 1)]
        block("below", [Q(let_ as usize)], |[let__1]| {
            x_1[[max(let__1, 0)]] = let__1 as i64;
        });
    }
    #[attrs("a.b" = f64::NEG_INFINITY, text = "a \"b\"\n")]
    for let_ in 0..fn_ {
        #[attrs(k = 1)]
        block("counts", [Q(let_)], |[let__1]| {
            t[[0, 1]] = count_ones(x[[let__1]]) as i64;
            x_1[[let__1]] = t[[0, 1]];
        });
    }
}

#[prim_func]
fn with_helpers(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("y", [S(i)], |[vi]| {
            let last = (n - 1 - vi) / 2 + (n - 1 - vi) % 2;
            y[[vi]] = { let t = bind(tanh({ let t = bind(tanh(exp(x[[vi]]))); if t > 0.5 { 0.5 + (t - 0.5) * (t - 0.5) } else { t * t } } + 1.0)); if t > 0.5 { 0.5 + (t - 0.5) * (t - 0.5) } else { t * t } } * { let w = bind(2.0f32); w * w } + x[[last]];
        });
    }
}

#[prim_func]
fn with_calls(x: &Tensor<i64, n>, times: &Tensor<i64, 1>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    for i in 0..n {
        block("t", [S(i)], |[vi]| {
            t[[vi]] = 0;
        });
    }
    block("reads", [], |[]| {
        for _i in 0..(times[[0]] as usize) {
            block("t_scope", [Q(_i)], |[v_i]| {
                let mut t_1 = alloc::<i64>([n]);
                let mut t_2 = alloc::<i64>([n]);
                for i in 0..n {
                    block("T", [S(i)], |[vi]| {
                        t_1[[vi]] = t[[vi]] * 3;
                    });
                }
                for i in 1..n {
                    block("Y", [S(i)], |[vi]| {
                        y[[vi]] = t_1[[vi]] - t_1[[vi - 1]];
                    });
                }
                for i in 0..n {
                    block("T_1", [S(i)], |[vi]| {
                        t_2[[vi]] = x[[vi]] * 3;
                    });
                }
                for i in 1..n {
                    block("Y_1", [S(i)], |[vi]| {
                        t[[vi]] = t_2[[vi]] - t_2[[vi - 1]];
                    });
                }
            });
        }
    });
}

#[prim_func(attrs(is_scheduled = true))]
fn with_assertions_0(x: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("assert", [S(i)], |[vi]| {
            assert!(if x[[vi]] >= 0 { (x[[vi]] as usize) < n } else { false }, "x[[i]] >= 0 && (x[[i]] as usize) < n");
        });
        block("block", [S(i)], |[vi]| {
            if vi % 2 == 0 {
                assert!(x[[vi]] != 7, "seven: \"{{}}\" \\ \n\t\u{7f} é");
            }
        });
        block("y", [Q(i)], |[vi]| {
            let at = x[[vi]];
            assert!((at as usize) > vi, "");
            y[[at as usize]] = 1.0;
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn with_assertions_1(x: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    #[unroll]
    #[attrs(pragma_x = 8)]
    for i_0_i_1_fused in 0..(n + 4) / 5 * 5 {
        if i_0_i_1_fused < n {
            block("assert", [S(i_0_i_1_fused).within(0..n)], |[vi]| {
                assert!(if x[[vi]] >= 0 { (x[[vi]] as usize) < n } else { false }, "x[[i]] >= 0 && (x[[i]] as usize) < n");
            });
        }
        if i_0_i_1_fused < n {
            block("block", [S(i_0_i_1_fused).within(0..n)], |[vi]| {
                if vi % 2 == 0 {
                    assert!(x[[vi]] != 7, "seven: \"{{}}\" \\ \n\t\u{7f} é");
                }
            });
        }
        if i_0_i_1_fused < n {
            block("y", [Q(i_0_i_1_fused).within(0..n)], |[vi]| {
                let at = x[[vi]];
                assert!((at as usize) > vi, "");
                y[[at as usize]] = 1.0;
            });
        }
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn with_assertions_2(x: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    #[attrs(pragma_x = 3)]
    for i in 0..n {
        block("assert", [S(i)], |[vi]| {
            assert!(if x[[vi]] >= 0 { (x[[vi]] as usize) < n } else { false }, "x[[i]] >= 0 && (x[[i]] as usize) < n");
        });
        block("block", [S(i)], |[vi]| {
            if vi % 2 == 0 {
                assert!(x[[vi]] != 7, "seven: \"{{}}\" \\ \n\t\u{7f} é");
            }
        });
        block("y", [Q(i)], |[vi]| {
            let at = x[[vi]];
            assert!((at as usize) > vi, "");
            y[[at as usize]] = 1.0;
        });
    }
}

#[prim_func]
fn with_assertions(x: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("assert", [S(i)], |[vi]| {
            assert!(if x[[vi]] >= 0 { (x[[vi]] as usize) < n } else { false }, "x[[i]] >= 0 && (x[[i]] as usize) < n");
        });
        block("block", [S(i)], |[vi]| {
            if vi % 2 == 0 {
                assert!(x[[vi]] != 7, "seven: \"{{}}\" \\ \n\t\u{7f} é");
            }
        });
        block("y", [Q(i)], |[vi]| {
            let at = x[[vi]];
            assert!((at as usize) > vi, "");
            y[[at as usize]] = 1.0;
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn with_c_functions_0(x: &Tensor<f32, n>, k: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    unsafe extern "C" {
        fn cbrtf(x0: f32) -> f32;
        fn labs(x0: i64) -> i64;
        fn ldexpf(x0: f32, x1: i32) -> f32;
        fn getpid() -> i32;
    }
    for i in 0..n {
        block("y_init", [S(i)], |[vi]| {
            if (unsafe { cbrtf(x[[vi]] - 1.5) }) > 0.0 && vi < ((unsafe { labs((vi as i64) - 3) }) as usize) {
                let t = unsafe { cbrtf(unsafe { ldexpf(2.0, -1) }) };
                y[[vi]] = { let u = bind(unsafe { cbrtf(t) }); u * u } - t;
            }
        });
        block("y", [S(i)], |[vi]| {
            y[[vi]] += (unsafe { getpid() }) as f32;
        });
        block("y_init_1", [Q(i)], |[vi]| {
            y[[((unsafe { labs(k[[vi]]) }) as usize) % n]] = unsafe { cbrtf(-0.0) };
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn with_c_functions_1(x: &Tensor<f32, n>, k: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    unsafe extern "C" {
        fn cbrtf(x0: f32) -> f32;
        fn labs(x0: i64) -> i64;
        fn ldexpf(x0: f32, x1: i32) -> f32;
        fn getpid() -> i32;
    }
    #[unroll]
    #[attrs(pragma_x = 8)]
    for i_0_i_1_fused in 0..(n + 4) / 5 * 5 {
        if i_0_i_1_fused < n {
            block("y_init", [S(i_0_i_1_fused).within(0..n)], |[vi]| {
                if (unsafe { cbrtf(x[[vi]] - 1.5) }) > 0.0 && vi < ((unsafe { labs((vi as i64) - 3) }) as usize) {
                    let t = unsafe { cbrtf(unsafe { ldexpf(2.0, -1) }) };
                    y[[vi]] = { let u = bind(unsafe { cbrtf(t) }); u * u } - t;
                }
            });
        }
        if i_0_i_1_fused < n {
            block("y", [S(i_0_i_1_fused).within(0..n)], |[vi]| {
                y[[vi]] += (unsafe { getpid() }) as f32;
            });
        }
        if i_0_i_1_fused < n {
            block("y_init_1", [Q(i_0_i_1_fused).within(0..n)], |[vi]| {
                y[[((unsafe { labs(k[[vi]]) }) as usize) % n]] = unsafe { cbrtf(-0.0) };
            });
        }
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn with_c_functions_2(x: &Tensor<f32, n>, k: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    unsafe extern "C" {
        fn cbrtf(x0: f32) -> f32;
        fn labs(x0: i64) -> i64;
        fn ldexpf(x0: f32, x1: i32) -> f32;
        fn getpid() -> i32;
    }
    #[attrs(pragma_x = 3)]
    for i in 0..n {
        block("y_init", [S(i)], |[vi]| {
            if (unsafe { cbrtf(x[[vi]] - 1.5) }) > 0.0 && vi < ((unsafe { labs((vi as i64) - 3) }) as usize) {
                let t = unsafe { cbrtf(unsafe { ldexpf(2.0, -1) }) };
                y[[vi]] = { let u = bind(unsafe { cbrtf(t) }); u * u } - t;
            }
        });
        block("y", [S(i)], |[vi]| {
            y[[vi]] += (unsafe { getpid() }) as f32;
        });
        block("y_init_1", [Q(i)], |[vi]| {
            y[[((unsafe { labs(k[[vi]]) }) as usize) % n]] = unsafe { cbrtf(-0.0) };
        });
    }
}

#[prim_func]
fn with_c_functions(x: &Tensor<f32, n>, k: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    unsafe extern "C" {
        fn cbrtf(x0: f32) -> f32;
        fn labs(x0: i64) -> i64;
        fn ldexpf(x0: f32, x1: i32) -> f32;
        fn getpid() -> i32;
    }
    for i in 0..n {
        block("y_init", [S(i)], |[vi]| {
            if (unsafe { cbrtf(x[[vi]] - 1.5) }) > 0.0 && vi < ((unsafe { labs((vi as i64) - 3) }) as usize) {
                let t = unsafe { cbrtf(unsafe { ldexpf(2.0, -1) }) };
                y[[vi]] = { let u = bind(unsafe { cbrtf(t) }); u * u } - t;
            }
        });
        block("y", [S(i)], |[vi]| {
            y[[vi]] += (unsafe { getpid() }) as f32;
        });
        block("y_init_1", [Q(i)], |[vi]| {
            y[[((unsafe { labs(k[[vi]]) }) as usize) % n]] = unsafe { cbrtf(-0.0) };
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn with_matched_buffers_0(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>, z: &mut Tensor<f32, m, n>) {
    for [k, i] in grid([n, m]) {
        block("sum", [S(i), R(k)], |[vi, vk]| {
            let row = match_buffer(x[[vi, 0..n]]);
            let total = match_buffer(y[[vi..vi + 1]]);
            init(|| total[[0]] = 0.0);
            total[[0]] += row[[vk]];
        });
    }
    for [i, j] in grid([m / 2, n / 4]) {
        block("tile", [S(i), S(j)], |[vi, vj]| {
            let mut t = alloc::<f32>([2, 4]);
            let from = match_buffer(x[[(vi * 2)..vi * 2 + 2, (4 * vj)..n]]);
            let to = match_buffer(z[[(vi * 2)..vi * 2 + 2, (vj * 4)..vj * 4 + 4]]);
            let last = match_buffer(t[[1, 0..4]]);
            let point = match_buffer(last[[3]]);
            for [a, b] in grid([2, 4]) {
                t[[a, b]] = from[[a, b]];
            }
            point[[]] = 3.0;
            for [a, b] in grid([2, 4]) {
                to[[a, b]] = t[[a, b]] + last[[b]];
            }
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn with_matched_buffers_1(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>, z: &mut Tensor<f32, m, n>) {
    for [i, k] in grid([m, n]) {
        block("sum", [S(i), R(k)], |[vi, vk]| {
            let row = match_buffer(x[[vi, 0..n]]);
            let total = match_buffer(y[[vi..vi + 1]]);
            init(|| total[[0]] = 0.0);
            total[[0]] += row[[vk]];
        });
    }
    for [i_0_0, i_0_1, i_1, j] in grid([((m / 2 + 4) / 5 + 7) / 8, 8, 5, n / 4]) {
        if i_0_0 * 40 + i_0_1 * 5 + i_1 < m / 2 && i_0_0 * 8 + i_0_1 < (m / 2 + 4) / 5 {
            block("tile", [S(i_0_0 * 40 + i_0_1 * 5 + i_1).within(0..m / 2), S(j)], |[vi, vj]| {
                let mut t = alloc::<f32>([2, 4]);
                let from = match_buffer(x[[(vi * 2)..vi * 2 + 2, (4 * vj)..n]]);
                let to = match_buffer(z[[(vi * 2)..vi * 2 + 2, (vj * 4)..vj * 4 + 4]]);
                let last = match_buffer(t[[1, 0..4]]);
                let point = match_buffer(last[[3]]);
                for [a, b] in grid([2, 4]) {
                    t[[a, b]] = from[[a, b]];
                }
                point[[]] = 3.0;
                for [a, b] in grid([2, 4]) {
                    to[[a, b]] = t[[a, b]] + last[[b]];
                }
            });
        }
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn with_matched_buffers_2(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>, z: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        #[attrs(pragma_x = 2)]
        for k in 0..n {
            block("sum", [S(i), R(k)], |[vi, vk]| {
                let row = match_buffer(x[[vi, 0..n]]);
                let total = match_buffer(y[[vi..vi + 1]]);
                init(|| total[[0]] = 0.0);
                total[[0]] += row[[vk]];
            });
        }
    }
    #[attrs(pragma_x = 5)]
    for i in 0..m / 2 {
        for j in 0..n / 4 {
            block("tile", [S(i), S(j)], |[vi, vj]| {
                let mut t = alloc::<f32>([2, 4]);
                let from = match_buffer(x[[(vi * 2)..vi * 2 + 2, (4 * vj)..n]]);
                let to = match_buffer(z[[(vi * 2)..vi * 2 + 2, (vj * 4)..vj * 4 + 4]]);
                let last = match_buffer(t[[1, 0..4]]);
                let point = match_buffer(last[[3]]);
                for [a, b] in grid([2, 4]) {
                    t[[a, b]] = from[[a, b]];
                }
                point[[]] = 3.0;
                for [a, b] in grid([2, 4]) {
                    to[[a, b]] = t[[a, b]] + last[[b]];
                }
            });
        }
    }
}

#[prim_func]
fn with_matched_buffers(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>, z: &mut Tensor<f32, m, n>) {
    for [i, k] in grid([m, n]) {
        block("sum", [S(i), R(k)], |[vi, vk]| {
            let row = match_buffer(x[[vi, 0..n]]);
            let total = match_buffer(y[[vi..vi + 1]]);
            init(|| total[[0]] = 0.0);
            total[[0]] += row[[vk]];
        });
    }
    for [i, j] in grid([m / 2, n / 4]) {
        block("tile", [S(i), S(j)], |[vi, vj]| {
            let mut t = alloc::<f32>([2, 4]);
            let from = match_buffer(x[[(vi * 2)..vi * 2 + 2, (4 * vj)..n]]);
            let to = match_buffer(z[[(vi * 2)..vi * 2 + 2, (vj * 4)..vj * 4 + 4]]);
            let last = match_buffer(t[[1, 0..4]]);
            let point = match_buffer(last[[3]]);
            for [a, b] in grid([2, 4]) {
                t[[a, b]] = from[[a, b]];
            }
            point[[]] = 3.0;
            for [a, b] in grid([2, 4]) {
                to[[a, b]] = t[[a, b]] + last[[b]];
            }
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_0(a: &Tensor<f32, 16, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 16, n>) {
    for [i, j, p] in grid([16, n, k]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_1(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    for i in 0..n {
        block("T", [S(i)], |[vi]| {
            t[[vi]] = x[[vi]] * 3;
        });
    }
    #[parallel]
    for i in 1..n {
        block("Y", [S(i)], |[vi]| {
            y[[vi]] = t[[vi]] - t[[vi - 1]];
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_2(a: &Tensor<f32, 16, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 16, n>) {
    for [i, j, p] in grid([16, n, k]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_3(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    for i_0_i_1_fused in 0..(n + 7) / 8 * 8 {
        if i_0_i_1_fused < n {
            block("T", [S(i_0_i_1_fused).within(0..n)], |[vi]| {
                t[[vi]] = x[[vi]] * 3;
            });
        }
    }
    for i in 1..n {
        block("Y", [S(i)], |[vi]| {
            y[[vi]] = t[[vi]] - t[[vi - 1]];
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_4(a: &Tensor<f32, 16, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 16, n>) {
    for [i_0, i_1, j, p] in grid([2, 8, n, k]) {
        block("C", [S(i_0 * 8 + i_1), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_5(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    for i in 0..n {
        block("T", [S(i)], |[vi]| {
            t[[vi]] = x[[vi]] * 3;
        });
    }
    #[unroll]
    for i in 1..n {
        block("Y", [S(i)], |[vi]| {
            y[[vi]] = t[[vi]] - t[[vi - 1]];
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_6(a: &Tensor<f32, 16, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 16, n>) {
    for [i_0, i_1, j, p] in grid([4, 5, n, k]) {
        if i_0 * 5 + i_1 < 16 {
            block("C", [S(i_0 * 5 + i_1).within(0..16), S(j), R(p)], |[vi, vj, vp]| {
                init(|| c[[vi, vj]] = 0.0);
                c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
            });
        }
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_7(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    #[scope("local")]
    let mut y_local = alloc::<i64>([n]);
    for [i_0, i_1] in grid([(n + 2) / 3, 3]) {
        if i_0 * 3 + i_1 < n {
            block("T", [S(i_0 * 3 + i_1).within(0..n)], |[vi]| {
                t[[vi]] = x[[vi]] * 3;
            });
        }
    }
    for i in 1..n {
        block("Y", [S(i)], |[vi]| {
            y_local[[vi]] = t[[vi]] - t[[vi - 1]];
        });
    }
    for ax0 in 0..n - 1 {
        block("y_local", [S(1 + ax0)], |[v0]| {
            y[[v0]] = y_local[[v0]];
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_8(a: &Tensor<f32, 16, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 16, n>) {
    for [i, j_0, j_1, p] in grid([16, (n + 1) / 2, 2, k]) {
        if j_0 * 2 + j_1 < n {
            block("C", [S(i), S(j_0 * 2 + j_1).within(0..n), R(p)], |[vi, vj, vp]| {
                init(|| c[[vi, vj]] = 0.0);
                c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
            });
        }
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_9(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    for i in 0..n {
        block("T", [S(i)], |[vi]| {
            t[[vi]] = x[[vi]] * 3;
        });
    }
    for i in 1..n {
        block("Y", [S(i)], |[vi]| {
            y[[vi]] = t[[vi]] - t[[vi - 1]];
        });
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_10(a: &Tensor<f32, 16, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 16, n>) {
    for [i_0, i_1, j, p_0, p_1] in grid([4, 5, n, (k + 1) / 2, 2]) {
        if i_0 * 5 + i_1 < 16 && p_0 * 2 + p_1 < k {
            block("C", [S(i_0 * 5 + i_1).within(0..16), S(j), R(p_0 * 2 + p_1).within(0..k)], |[vi, vj, vp]| {
                init(|| c[[vi, vj]] = 0.0);
                c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
            });
        }
    }
}

#[prim_func(attrs(is_scheduled = true))]
fn scheduled_11(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    #[scope("local")]
    let mut t_local = alloc::<i64>([n]);
    #[parallel]
    for i in 0..n {
        block("T", [S(i)], |[vi]| {
            t_local[[vi]] = x[[vi]] * 3;
        });
    }
    for [ax0_0, ax0_1] in grid([(n + 4) / 5, 5]) {
        if ax0_0 * 5 + ax0_1 < n {
            block("t_local", [S(ax0_0 * 5 + ax0_1).within(0..n)], |[v0]| {
                t[[v0]] = t_local[[v0]];
            });
        }
    }
    for i in 1..n {
        block("Y", [S(i)], |[vi]| {
            y[[vi]] = t[[vi]] - t[[vi - 1]];
        });
    }
}

/// All programs in order.
pub(crate) fn all() -> Vec<Result<tvm::tir::PrimFunc, IrError>> {
    vec![
        op_add::prim_func(),
        op_divide::prim_func(),
        op_floor_divide::prim_func(),
        op_mod::prim_func(),
        op_right_shift::prim_func(),
        op_logical_and::prim_func(),
        op_less_equal::prim_func(),
        op_where::prim_func(),
        op_maximum::prim_func(),
        op_astype::prim_func(),
        op_sign::prim_func(),
        op_square::prim_func(),
        op_nn_gelu::prim_func(),
        op_nn_leakyrelu::prim_func(),
        op_nn_selu::prim_func(),
        op_isnan::prim_func(),
        op_power::prim_func(),
        op_erf::prim_func(),
        op_sum::prim_func(),
        op_max::prim_func(),
        op_prod::prim_func(),
        op_mean::prim_func(),
        op_argmax::prim_func(),
        op_matmul::prim_func(),
        op_matmul_1::prim_func(),
        op_nn_softmax::prim_func(),
        op_nn_log_softmax::prim_func(),
        op_nn_layer_norm::prim_func(),
        op_nn_batch_norm::prim_func(),
        op_nn_conv2d::prim_func(),
        op_nn_conv2d_transpose::prim_func(),
        op_nn_max_pool2d::prim_func(),
        op_nn_avg_pool2d::prim_func(),
        op_nn_adaptive_avg_pool2d::prim_func(),
        op_nn_pad::prim_func(),
        op_nn_pad_1::prim_func(),
        op_permute_dims::prim_func(),
        op_concat::prim_func(),
        op_flip::prim_func(),
        op_tile::prim_func(),
        op_repeat::prim_func(),
        op_flatten::prim_func(),
        op_squeeze::prim_func(),
        op_take::prim_func(),
        op_gather_elements::prim_func(),
        op_scatter_elements::prim_func(),
        op_cumsum::prim_func(),
        op_zeros_like::prim_func(),
        op_nn_lrn::prim_func(),
        tiled::prim_func(),
        constants_of_kernels::prim_func(),
        self_::prim_func(),
        with_helpers::prim_func(),
        with_calls::prim_func(),
        with_assertions_0::prim_func(),
        with_assertions_1::prim_func(),
        with_assertions_2::prim_func(),
        with_assertions::prim_func(),
        with_c_functions_0::prim_func(),
        with_c_functions_1::prim_func(),
        with_c_functions_2::prim_func(),
        with_c_functions::prim_func(),
        with_matched_buffers_0::prim_func(),
        with_matched_buffers_1::prim_func(),
        with_matched_buffers_2::prim_func(),
        with_matched_buffers::prim_func(),
        scheduled_0::prim_func(),
        scheduled_1::prim_func(),
        scheduled_2::prim_func(),
        scheduled_3::prim_func(),
        scheduled_4::prim_func(),
        scheduled_5::prim_func(),
        scheduled_6::prim_func(),
        scheduled_7::prim_func(),
        scheduled_8::prim_func(),
        scheduled_9::prim_func(),
        scheduled_10::prim_func(),
        scheduled_11::prim_func(),
    ]
}
