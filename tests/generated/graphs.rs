//! Printed modules of the round-trip test; written by `UPDATE_EXPECT=1 cargo test --test roundtrip`.
#![allow(warnings, clippy::all, reason = "printed code")]

use tvm::prelude::*;

#[ir_module]
mod operators {
    use tvm::prelude::*;

    #[relax::func]
    fn op_add(arg: Tensor<f32, n, 4>, arg_1: Tensor<f32, 4>) -> Tensor<f32, n, 4> {
        let lv = arg + arg_1;
        lv
    }

    #[relax::func]
    fn op_divide(arg: Tensor<i64, n>, arg_1: Tensor<i64, n>) -> Tensor<i64, n> {
        let lv = arg / arg_1;
        lv
    }

    #[relax::func]
    fn op_floor_divide(arg: Tensor<i64, n>, arg_1: Tensor<i64, n>) -> Tensor<i64, n> {
        let lv = floor_divide(arg, arg_1);
        lv
    }

    #[relax::func]
    fn op_mod(arg: Tensor<i32, n>, arg_1: Tensor<i32, n>) -> Tensor<i32, n> {
        let lv = arg % arg_1;
        lv
    }

    #[relax::func]
    fn op_right_shift(arg: Tensor<u8, n>, arg_1: Tensor<u8, n>) -> Tensor<u8, n> {
        let lv = call_op("right_shift", arg, arg_1);
        lv
    }

    #[relax::func]
    fn op_logical_and(arg: Tensor<bool, n>, arg_1: Tensor<bool, n>) -> Tensor<bool, n> {
        let lv = arg & arg_1;
        lv
    }

    #[relax::func]
    fn op_less_equal(arg: Tensor<f32, n, m>, arg_1: Tensor<f32, n, m>) -> Tensor<bool, n, m> {
        let lv = arg <= arg_1;
        lv
    }

    #[relax::func]
    fn op_where(arg: Tensor<bool, n>, arg_1: Tensor<f32, n>, arg_2: Tensor<f32, n>) -> Tensor<f32, n> {
        let lv = select(arg, arg_1, arg_2);
        lv
    }

    #[relax::func]
    fn op_maximum(arg: Tensor<f32, n>, arg_1: Tensor<f32, 1>) -> Tensor<f32, n> {
        let lv = maximum(arg, arg_1);
        lv
    }

    #[relax::func]
    fn op_astype(arg: Tensor<f32, n>) -> Tensor<f16, n> {
        let lv = astype(arg, dtype = f16);
        lv
    }

    #[relax::func]
    fn op_sign(arg: Tensor<f32, n>) -> Tensor<f32, n> {
        let lv = sign(arg);
        lv
    }

    #[relax::func]
    fn op_square(arg: Tensor<f16, n>) -> Tensor<f16, n> {
        let lv = square(arg);
        lv
    }

    #[relax::func]
    fn op_nn_gelu(arg: Tensor<f32, n, 8>) -> Tensor<f32, n, 8> {
        let lv = gelu(arg);
        lv
    }

    #[relax::func]
    fn op_nn_leakyrelu(arg: Tensor<f32, n>) -> Tensor<f32, n> {
        let lv = leakyrelu(arg, alpha = 0.2);
        lv
    }

    #[relax::func]
    fn op_nn_selu(arg: Tensor<f64, n>) -> Tensor<f64, n> {
        let lv = call_op("nn.selu", arg);
        lv
    }

    #[relax::func]
    fn op_isnan(arg: Tensor<f32, n>) -> Tensor<bool, n> {
        let lv = isnan(arg);
        lv
    }

    #[relax::func]
    fn op_power(arg: Tensor<f32, n>, arg_1: Tensor<f32, n>) -> Tensor<f32, n> {
        let lv = power(arg, arg_1);
        lv
    }

    #[relax::func]
    fn op_erf(arg: Tensor<f32, n>) -> Tensor<f32, n> {
        let lv = erf(arg);
        lv
    }

    #[relax::func]
    fn op_sum(arg: Tensor<f32, n, 8, m>) -> Tensor<f32, n, 1, m> {
        let lv = sum(arg, axis = [1], keepdims = true);
        lv
    }

    #[relax::func]
    fn op_max(arg: Tensor<f32, n, 8>) -> Tensor<f32> {
        let lv = max(arg);
        lv
    }

    #[relax::func]
    fn op_prod(arg: Tensor<i32, n, 8>) -> Tensor<i32, 8> {
        let lv = prod(arg, axis = [0]);
        lv
    }

    #[relax::func]
    fn op_mean(arg: Tensor<f32, n, 8>) -> Tensor<f32, n> {
        let lv = mean(arg, axis = [-1]);
        lv
    }

    #[relax::func]
    fn op_argmax(arg: Tensor<f32, n, 8>) -> Tensor<i64, n> {
        let lv = argmax(arg, axis = 1);
        lv
    }

    #[relax::func]
    fn op_matmul(arg: Tensor<f32, n, 16>, arg_1: Tensor<f32, 16, m>) -> Tensor<f32, n, m> {
        let lv = matmul(arg, arg_1);
        lv
    }

    #[relax::func]
    fn op_matmul_1(arg: Tensor<f32, 2, n, 16>, arg_1: Tensor<f32, 16, 4>) -> Tensor<f32, 2, n, 4> {
        let lv = matmul(arg, arg_1);
        lv
    }

    #[relax::func]
    fn op_nn_softmax(arg: Tensor<f32, n, m>) -> Tensor<f32, n, m> {
        let lv = softmax(arg, axis = -1);
        lv
    }

    #[relax::func]
    fn op_nn_log_softmax(arg: Tensor<f32, n, 10>) -> Tensor<f32, n, 10> {
        let lv = log_softmax(arg);
        lv
    }

    #[relax::func]
    fn op_nn_layer_norm(arg: Tensor<f32, n, 8>, arg_1: Tensor<f32, 8>, arg_2: Tensor<f32, 8>) -> Tensor<f32, n, 8> {
        let lv = layer_norm(arg, arg_1, arg_2, axes = [-1], epsilon = 1e-5);
        lv
    }

    #[relax::func]
    fn op_nn_batch_norm(arg: Tensor<f32, n, 3, 8, 8>, arg_1: Tensor<f32, 3>, arg_2: Tensor<f32, 3>, arg_3: Tensor<f32, 3>, arg_4: Tensor<f32, 3>) -> Tensor<f32, n, 3, 8, 8> {
        let lv = batch_norm(arg, arg_1, arg_2, arg_3, arg_4, axis = 1, epsilon = 1e-5);
        lv
    }

    #[relax::func]
    fn op_nn_conv2d(arg: Tensor<f32, n, 3, 8, 8>, arg_1: Tensor<f32, 4, 3, 3, 3>) -> Tensor<f32, n, 4, 4, 4> {
        let lv = conv2d(arg, arg_1, padding = [1, 1, 1, 1], strides = [2, 2]);
        lv
    }

    #[relax::func]
    fn op_nn_conv2d_transpose(arg: Tensor<f32, 1, 2, 4, 4>, arg_1: Tensor<f32, 2, 3, 3, 3>) -> Tensor<f32, 1, 3, 9, 9> {
        let lv = call_op("nn.conv2d_transpose", arg, arg_1, strides = [2, 2]);
        lv
    }

    #[relax::func]
    fn op_nn_max_pool2d(arg: Tensor<f32, n, 3, 8, 8>) -> Tensor<f32, n, 3, 4, 4> {
        let lv = max_pool2d(arg, pool_size = [2, 2], strides = [2, 2]);
        lv
    }

    #[relax::func]
    fn op_nn_avg_pool2d(arg: Tensor<f32, n, 3, 8, 8>) -> Tensor<f32, n, 3, 8, 8> {
        let lv = avg_pool2d(arg, padding = [1, 1, 1, 1], pool_size = [3, 3]);
        lv
    }

    #[relax::func]
    fn op_nn_adaptive_avg_pool2d(arg: Tensor<f32, n, 3, 8, 8>) -> Tensor<f32, n, 3, 8, 8> {
        let lv = adaptive_avg_pool2d(arg);
        lv
    }

    #[relax::func]
    fn op_nn_pad(arg: Tensor<f32, n, 4>) -> Tensor<f32, n, 7> {
        let lv = pad(arg, pad_value = -1.5, pad_width = [0, 0, 1, 2]);
        lv
    }

    #[relax::func]
    fn op_nn_pad_1(arg: Tensor<f32, 4, 4>) -> Tensor<f32, 6, 6> {
        let lv = pad(arg, pad_mode = "reflect", pad_width = [1, 1, 1, 1]);
        lv
    }

    #[relax::func]
    fn op_permute_dims(arg: Tensor<f32, n, 4, m>) -> Tensor<f32, m, n, 4> {
        let lv = permute_dims(arg, axes = [2, 0, 1]);
        lv
    }

    #[relax::func]
    fn op_concat(arg: Tensor<f32, n, 4>, arg_1: Tensor<f32, n, 2>) -> Tensor<f32, n, 6> {
        let lv = concat((arg, arg_1), axis = 1);
        lv
    }

    #[relax::func]
    fn op_flip(arg: Tensor<f32, n, 4>) -> Tensor<f32, n, 4> {
        let lv = flip(arg, axis = 1);
        lv
    }

    #[relax::func]
    fn op_tile(arg: Tensor<f32, n, 2>) -> Tensor<f32, { n * 2 }, 6> {
        let lv = tile(arg, repeats = [2, 3]);
        lv
    }

    #[relax::func]
    fn op_repeat(arg: Tensor<f32, n, 2>) -> Tensor<f32, n, 6> {
        let lv = repeat(arg, axis = 1, repeats = 3);
        lv
    }

    #[relax::func]
    fn op_flatten(arg: Tensor<f32, 2, 3, 4>) -> Tensor<f32, 24> {
        let lv = flatten(arg);
        lv
    }

    #[relax::func]
    fn op_squeeze(arg: Tensor<f32, n, 1, 4>) -> Tensor<f32, n, 4> {
        let lv = squeeze(arg, axis = [1]);
        lv
    }

    #[relax::func]
    fn op_take(arg: Tensor<f32, n, 4>, arg_1: Tensor<i64, m>) -> Tensor<f32, m, 4> {
        let lv = take(arg, arg_1, axis = 0);
        lv
    }

    #[relax::func]
    fn op_gather_elements(arg: Tensor<f32, n, 4>, arg_1: Tensor<i64, n, 2>) -> Tensor<f32, n, 2> {
        let lv = gather_elements(arg, arg_1, axis = 1);
        lv
    }

    #[relax::func]
    fn op_scatter_elements(arg: Tensor<f32, 8>, arg_1: Tensor<i64, 3>, arg_2: Tensor<f32, 3>) -> Tensor<f32, 8> {
        let lv = scatter_elements(arg, arg_1, arg_2, axis = 0);
        lv
    }

    #[relax::func]
    fn op_cumsum(arg: Tensor<f32, n, 4>) -> Tensor<f32, n, 4> {
        let lv = call_op("cumsum", arg, axis = 1);
        lv
    }

    #[relax::func]
    fn op_zeros_like(arg: Tensor<f32, n>) -> Tensor<f32, n> {
        let lv = zeros_like(arg);
        lv
    }

    #[relax::func]
    fn op_nn_lrn(arg: Tensor<f32, n, 4, 2, 2>) -> Tensor<f32, n, 4, 2, 2> {
        let lv = lrn(arg, size = 3);
        lv
    }
}

#[ir_module]
mod arguments {
    use tvm::prelude::*;

    #[relax::func]
    fn dims(x: Tensor<f32, n, m>, s: f32, i: i32) -> Tensor<f32, n, m> {
        let flat = reshape(x, shape([n * m]));
        let back = reshape(flat, shape([n, m]));
        let s_1 = strided_slice(back, shape([0, 0]), shape([n - 1, min(m, 4)]), shape([1, 2]));
        let c = clip(back, -0.5, 0.1);
        let c_1 = clip(back, prim(s), s);
        let r = arange(0, prim(n * 3 + 1), 2, dtype = i32);
        let f = full(shape([n]), constant::<f32>([2.5]), dtype = f32);
        let sh = bind(shape([n, 4]));
        let empty = bind(shape([]));
        let unit = bind(());
        let one = bind((back,));
        let field = one.0;
        let other = tuple_get_item((back, s), 1);
        let alias = bind(back);
        let text = bind("a \"quoted\"\n text");
        let dtype = bind(bf16);
        back
    }

    #[relax::func]
    fn scalars(x: Tensor<f32, n, m>, on: bool, i: i32) -> Tensor<f32, n, m> {
        let p = bind(prim(1.5f64));
        let p_1 = bind(prim(1.5f16));
        let p_2 = bind(prim(f32::NEG_INFINITY));
        let p_3 = bind(prim(f32::NAN));
        let p_4 = bind(prim(i64::MIN));
        let p_5 = bind(prim(18446744073709551615u64));
        let p_6 = bind(prim(i8::MIN));
        let p_7 = bind(prim(true));
        let p_8 = bind(prim((i - 2i32) * 3i32 + (i - (i + 1i32))));
        let p_9 = bind(prim(div(i, 3i32) + rem(i, -3i32)));
        let p_10 = bind(prim(i / 2i32 % 5i32 * max(i, 7i32)));
        let p_11 = bind(prim((i ^ 3i32) + (i << 1i32)));
        let p_12 = bind(prim((i as i64) + n));
        let p_13 = bind(prim((i as f32) < 0.5 && !on));
        let p_14 = bind(prim((on || i != 1i32) == on));
        let p_15 = bind(prim(select(on, i, 4i32)));
        x
    }
}

#[ir_module(attrs("a.b" = "text", "type" = [1, -2]))]
mod names {
    use tvm::prelude::*;

    #[relax::func(name = "main.0")]
    fn main_0(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let f32_ = type__1 + _d;
        let f32__1 = f32_ * lv;
        let dataflow_ = f32__1 + _d;
        let dataflow__1 = dataflow_ * lv;
        let constant_ = dataflow__1 + _d;
        let constant__1 = constant_ * lv;
        let call_tir_ = constant__1 + _d;
        let call_tir__1 = call_tir_ * lv;
        let v_1 = call_tir__1 + _d;
        let v_2 = v_1 * lv;
        let v_3 = v_2 + _d;
        let v_4 = v_3 * lv;
        let x_y = v_4 + _d;
        let x_y_1 = x_y * lv;
        let n = x_y_1 + _d;
        let n_1 = n * lv;
        let main_0_1 = n_1 + _d;
        let main_0_2 = main_0_1 * lv;
        main_0_2
    }

    #[relax::func(name = "relu")]
    fn relu_1(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = main_0(type__1, relu_2, type__1);
        graph
    }

    #[relax::func(name = "match")]
    fn match_(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = relu_1(type__1, relu_2, type__1);
        graph
    }

    #[relax::func(name = "self")]
    fn self_(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = match_(type__1, relu_2, type__1);
        graph
    }

    #[relax::func]
    fn add_(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = self_(type__1, relu_2, type__1);
        graph
    }

    #[relax::func(name = "add")]
    fn add__1(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = add_(type__1, relu_2, type__1);
        graph
    }

    #[relax::func(name = "a.b")]
    fn a_b(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = add__1(type__1, relu_2, type__1);
        graph
    }

    #[relax::func(name = "a_b")]
    fn a_b_1(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = a_b(type__1, relu_2, type__1);
        graph
    }

    #[relax::func(name = "")]
    fn v(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = a_b_1(type__1, relu_2, type__1);
        graph
    }

    #[relax::func]
    fn Upper(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = v(type__1, relu_2, type__1);
        graph
    }

    #[relax::func(name = "0")]
    fn v0(relu_2: Tensor<f32, fn_, 3>, _d: Tensor<f32, fn_, 3>, lv: Tensor<f32, fn_, 3>) -> Tensor<f32, fn_, 3> {
        let lv_1 = relu(relu_2);
        let type_ = lv_1 + _d;
        let type__1 = type_ * lv;
        let graph = Upper(type__1, relu_2, type__1);
        graph
    }
}

#[ir_module]
mod casts {
    use tvm::prelude::*;

    #[relax::func(impure)]
    fn casts(w: Tensor<f32, { n * 2 }, n>, x: TensorDyn<f32>, y: TensorRank<_, 2>, z: Tensor<_, n>, o: Object, s: Shape, s_1: ShapeRank<2>, s_2: Shape<>, s_3: Shape<n, 4>) -> TensorDyn<f32> {
        let a = match_cast(x, Tensor::<f32, k, 3>);
        let lv = relu(a);
        let p = match_cast(o, (Tensor::<f32, l, { k + n }>, Object));
        let f = match_cast(o, Impure::<fn(Tensor<f32, 2>) -> Tensor<f32, 3>>);
        let g = match_cast(o, Box::<fn() -> ()>);
        let s_4 = match_cast(o, ShapeRank::<3>);
        let i = match_cast(o, i32);
        let sh = shape_of(y);
        let weak: TensorDyn<f32> = relu(lv);
        weak
    }
}

#[ir_module]
mod dataflow_blocks {
    use tvm::prelude::*;

    #[relax::func]
    fn main(x: Tensor<f32, n>, on: Tensor<bool>) -> (Tensor<f32, n>, Tensor<f32, n>) {
        let lv = exp(x);
        let (lv_1, lv_2) = dataflow(|| {
            let lv_1 = relu(lv);
            let lv_2 = tanh(lv_1);
            let lv_3 = sqrt(lv_2);
            (lv_1, lv_3)
        });
        let () = dataflow(|| {
            let lv_3 = floor(lv_1);
            ()
        });
        let d = dataflow(|| {
            let f = |p: Tensor<f32, n>| -> Tensor<f32, n> {
                let lv_3 = negative(p);
                lv_3
            };
            let d = f(lv_2);
            d
        });
        let branch = if on {
            let lv_3 = dataflow(|| {
                let lv_3 = exp(lv_1);
                lv_3
            });
            lv_3
        } else {
            d
        };
        let sum_1 = branch + d;
        let () = dataflow(|| {
            let cast_ = match_cast(sum_1, Tensor::<f32, k>);
            let lv_3 = exp(cast_);
            ()
        });
        let k_1 = bind(shape([k * 2]));
        (sum_1, lv_2)
    }
}

#[ir_module]
mod control {
    use tvm::prelude::*;

    #[relax::func]
    fn main(x: Tensor<f32, n>, on: bool) -> Tensor<bool, n> {
        let lv = exp(x);
        let outer = if prim(n < 9) {
            let inner = if on {
                lv
            } else {
                let lv_1 = relu(lv);
                lv_1
            };
            (inner, constant::<i64>([1]))
        } else {
            (x, constant::<i64>([2]))
        };
        let first = outer.0;
        let less_1 = first < x;
        less_1
    }
}

#[ir_module]
mod functions {
    use tvm::prelude::*;

    #[relax::func(attrs(alpha = f64::NAN, beta = -1e-9, dtype = f16, global_symbol = "step", list = [1, -2, i64::MIN], "relax.force_pure" = true))]
    fn step(x: Tensor<f32, 4>) -> Tensor<f32, 4> {
        let lv = exp(x);
        lv
    }

    #[relax::func]
    fn twice(f: fn(Tensor<f32, 4>) -> Tensor<f32, 4>, x: Tensor<f32, 4>) -> Tensor<f32, 4> {
        let y = f(constant::<f32, 4>([1.0, 1.0, 1.0, 1.0]));
        let z = f(y);
        z
    }

    #[relax::func(impure)]
    fn main(x: Tensor<f32, 4>) -> Tensor<f32, 4> {
        let captures = |p: Tensor<f32, n>| -> Tensor<f32, n> {
            let q = captures(p);
            let h = bind(x);
            q
        };
        let r = captures(x);
        #[relax::func(impure, attrs(note = "impure"))]
        let same = |same_1: Tensor<f32, 4>| -> Tensor<f32, 4> {
            let lv = tanh(same_1);
            lv
        };
        let effect = same(x);
        let value = bind(function(step));
        let out = twice(function(step), x);
        out
    }
}

#[ir_module]
mod matches {
    use tvm::prelude::*;

    #[relay::adt]
    enum Maybe {
        Nothing,
        Just(List),
    }

    #[relay::adt]
    enum List {
        Nil,
        Cons((Maybe, Tensor<f32, 4>), Box<List>),
    }

    #[relay::func]
    fn make(x: Tensor<f32, 4>) -> List {
        let it = List::Nil;
        let it_1 = Maybe::Just(it);
        let it_2 = List::Cons((it_1, x), it);
        it_2
    }

    #[relay::func]
    fn first(l: List, x: Tensor<f32, 4>) -> Tensor<f32, 4> {
        let m = match l {
            List::Cons((Maybe::Just(List::Cons(_, t)), h), _) => {
                let rest = bind(t);
                let lv = exp(h);
                lv
            }
            all => {
                constant::<f32, 4>([0.0, -0.0, 1.0, 2.0])
            }
        };
        m
    }
}

#[ir_module]
mod cells {
    use tvm::prelude::*;

    #[relay::func(impure)]
    fn main(cell: Ref<Tensor<f32, 2>>) -> Ref<Tensor<f32, 2>> {
        let old = ref_read(cell);
        let other = ref_create(old);
        let v = ref_write(other, old);
        other
    }
}

#[ir_module]
mod calls {
    use tvm::prelude::*;

    #[prim_func(name = "tanh")]
    fn tanh_(x: &Tensor<f32, n>, a: f32, y: &Tensor<f32, n>, z: &mut Tensor<f32, n>) {
        for i in 0..n {
            block("z", [S(i)], |[vi]| {
                z[[vi]] = a * x[[vi]] + y[[vi]];
            });
        }
    }

    #[prim_func(name = "two.outputs")]
    fn two_outputs(x: &Tensor<f32, n>, low: &mut Tensor<f32, n>, high: &mut Tensor<f32, n>) {
        for i in 0..n {
            block("low", [S(i)], |[vi]| {
                low[[vi]] = min(x[[vi]], 0.0);
            });
            block("high", [S(i)], |[vi]| {
                high[[vi]] = max(x[[vi]], 0.0);
            });
        }
    }

    #[relax::func(impure)]
    fn main(x: Tensor<f32, n>, a: f32, w: Tensor<f32, m>) -> Tensor<f32, n> {
        let y = call_tir(tanh_, (x, x, a), Tensor::<f32, n>);
        let y_1 = call_tir(tanh_, (x, y, prim(0.5)), Tensor::<f32, n>);
        let y_2 = call_tir(tanh_, (x, y_1, prim(a)), Tensor::<f32, n>);
        let two = call_tir(two_outputs, (x,), (Tensor::<f32, n>, Tensor::<f32, n>));
        let two_1 = call_tir_inplace(two_outputs, (x,), (y_2, x), (Tensor::<f32, n>, Tensor::<f32, n>));
        let z = call_tir_inplace(tanh_, (x, y_2, a), (x,), Tensor::<f32, n>);
        let d = call_dps_packed("my.dps", (x,), Tensor::<f32, { n * 2 }, { (n + m) / 2 }>);
        let d_1 = call_dps_packed("none", (), Tensor::<f32, n>);
        let p = call_packed("my.packed", ((x, z), x, "s"), Object);
        let p_1 = call_packed("my.packed", (z,));
        let p_2 = call_packed("my.packed", (shape([n]),), (Box::<fn() -> ()>, f32));
        z
    }
}

#[ir_module]
mod constants {
    use tvm::prelude::*;

    #[relax::func]
    fn main() -> (Tensor<f32, 2>, Tensor<i8, 2, 2>) {
        let c = bind(constant::<i8, 2, 2>([-128, 0, 7, 127]));
        let c_1 = bind(constant::<i16, 2, 2>([-32768, 0, 7, 32767]));
        let c_2 = bind(constant::<i32, 2, 2>([-2147483648, 0, 7, 2147483647]));
        let c_3 = bind(constant::<i64, 2, 2>([-9223372036854775808, 0, 7, 9223372036854775807]));
        let c_4 = bind(constant::<u8, 2, 2>([0, 0, 7, 255]));
        let c_5 = bind(constant::<u16, 2, 2>([0, 0, 7, 65535]));
        let c_6 = bind(constant::<u32, 2, 2>([0, 0, 7, 4294967295]));
        let c_7 = bind(constant::<u64, 2, 2>([0, 0, 7, 18446744073709551615]));
        let c_8 = bind(constant::<f32, 3, 2, 2>([f32::NAN, f32::from_bits(0x7fc00001), f32::from_bits(0xffffffff), f32::INFINITY, f32::NEG_INFINITY, 1e-45, 2.6526928e-13, 3.4028235e38, 1.1754944e-38, 2.3509887e-38, -0.0, -3.4028235e38]));
        let c_9 = bind(constant::<f64, 3, 2, 2>([f64::NAN, f64::from_bits(0x7ff8000000000001), f64::from_bits(0xffffffffffffffff), f64::INFINITY, f64::NEG_INFINITY, 5e-324, 3.34859587289729e-103, 1.7976931348623157e308, 2.2250738585072014e-308, 4.450147717014403e-308, -0.0, -1.7976931348623157e308]));
        let c_10 = bind(constant::<f16, 3, 2, 2>([f16::NAN, f16::from_bits(0x7e01), f16::from_bits(0xffff), f16::INFINITY, f16::NEG_INFINITY, 5.9604645e-8, 0.046875, 65504.0, 6.1035156e-5, 0.00012207031, -0.0, -65504.0]));
        let c_11 = bind(constant::<bf16, 3, 2, 2>([bf16::NAN, bf16::from_bits(0x7fc1), bf16::from_bits(0xffff), bf16::INFINITY, bf16::NEG_INFINITY, 9.1835e-41, 2.6467717e-13, 3.3895314e38, 1.1754944e-38, 2.3509887e-38, -0.0, -3.3895314e38]));
        let c_12 = bind(constant::<bool, 2, 1>([true, false]));
        let c_13 = bind(constant::<f32>([0.1]));
        let c_14 = bind(constant::<f32, 0, 3>([]));
        let c_15 = bind(constant::<f64, 4>([0.1, 1e300, 1e-300, 123456789.0]));
        let c_16 = bind(constant::<f64, 4, 25>("0000000000000000555555555555d53f555555555555e53f000000000000f03f555555555555f53fabaaaaaaaaaafa3f0000000000000040ffffffffffffffff55555555555505400000000000000840abaaaaaaaaaa0a405555555555550d4000000000000010405555555555551140abaaaaaaaaaa124000000000000014405555555555551540abaaaaaaaaaa164000000000000018405555555555551940abaaaaaaaaaa1a400000000000001c405555555555551d40abaaaaaaaaaa1e400000000000002040abaaaaaaaaaa204055555555555521400000000000002240abaaaaaaaaaa224055555555555523400000000000002440abaaaaaaaaaa244055555555555525400000000000002640abaaaaaaaaaa264055555555555527400000000000002840abaaaaaaaaaa284055555555555529400000000000002a40abaaaaaaaaaa2a405555555555552b400000000000002c40abaaaaaaaaaa2c405555555555552d400000000000002e40abaaaaaaaaaa2e405555555555552f4000000000000030405555555555553040abaaaaaaaaaa304000000000000031405555555555553140abaaaaaaaaaa314000000000000032405555555555553240abaaaaaaaaaa324000000000000033405555555555553340abaaaaaaaaaa334000000000000034405555555555553440abaaaaaaaaaa344000000000000035405555555555553540abaaaaaaaaaa354000000000000036405555555555553640abaaaaaaaaaa364000000000000037405555555555553740abaaaaaaaaaa374000000000000038405555555555553840abaaaaaaaaaa384000000000000039405555555555553940abaaaaaaaaaa39400000000000003a405555555555553a40abaaaaaaaaaa3a400000000000003b405555555555553b40abaaaaaaaaaa3b400000000000003c405555555555553c40abaaaaaaaaaa3c400000000000003d405555555555553d40abaaaaaaaaaa3d400000000000003e405555555555553e40abaaaaaaaaaa3e400000000000003f405555555555553f40abaaaaaaaaaa3f400000000000004040abaaaaaaaa2a404055555555555540400000000000804040"));
        let c_17 = bind(constant::<bool, 17>("0101010101010101010101010101010101"));
        let c_18 = bind(constant::<f32, 5>([0.1, 1e30, 1e-30, 16777216.0, -1.5]));
        let s = constant::<f32, 2>([1.0, 2.0]) + constant::<f32, 1>([-1.0]);
        (s, constant::<i8, 2, 2>([-128, 0, 7, 127]))
    }
}

#[ir_module]
mod prelude {
    use tvm::prelude::*;

    #[relay::adt]
    enum List<A> {
        Nil,
        Cons(A, Box<List<A>>),
    }

    #[relay::adt]
    enum Option<A> {
        None,
        Some(A),
    }

    #[relay::adt]
    enum Tree<A> {
        Rose(A, List<Tree<A>>),
    }

    #[relay::func(attrs(private = true))]
    fn map<A, B>(f: fn(A) -> B, l: List<A>) -> List<B> {
        let it = match l {
            List::Nil => {
                let it = List::<B>::Nil;
                it
            }
            List::Cons(h, t) => {
                let it = f(h);
                let it_1 = map(f, t);
                let it_2 = List::<B>::Cons(it, it_1);
                it_2
            }
        };
        it
    }

    #[relay::func(attrs(private = true))]
    fn foldl<A, B>(f: fn(A, B) -> A, acc: A, l: List<B>) -> A {
        let it = match l {
            List::Nil => {
                acc
            }
            List::Cons(h, t) => {
                let it = f(acc, h);
                let it_1 = foldl(f, it, t);
                it_1
            }
        };
        it
    }

    #[relay::func(attrs(private = true))]
    fn foldr<A, B>(f: fn(A, B) -> B, acc: B, l: List<A>) -> B {
        let it = match l {
            List::Nil => {
                acc
            }
            List::Cons(h, t) => {
                let it = foldr(f, acc, t);
                let it_1 = f(h, it);
                it_1
            }
        };
        it
    }

    #[relay::func(name = "concat", attrs(private = true))]
    fn concat_1<A>(l: List<A>, m: List<A>) -> List<A> {
        let it = match l {
            List::Nil => {
                m
            }
            List::Cons(h, t) => {
                let it = concat_1(t, m);
                let it_1 = List::<A>::Cons(h, it);
                it_1
            }
        };
        it
    }

    #[relay::func(attrs(private = true))]
    fn rev<A>(l: List<A>) -> List<A> {
        let push = |acc: List<A>, x: A| -> List<A> {
            let it = List::<A>::Cons(x, acc);
            it
        };
        let it = List::<A>::Nil;
        let it_1 = foldl(push, it, l);
        it_1
    }

    #[relay::func(attrs(private = true))]
    fn filter<A>(f: fn(A) -> Tensor<bool>, l: List<A>) -> List<A> {
        let it = match l {
            List::Nil => {
                let it = List::<A>::Nil;
                it
            }
            List::Cons(h, t) => {
                let it = f(h);
                let kept = if it {
                    let it_1 = filter(f, t);
                    let it_2 = List::<A>::Cons(h, it_1);
                    it_2
                } else {
                    let it_1 = filter(f, t);
                    it_1
                };
                kept
            }
        };
        it
    }

    #[relay::func(attrs(private = true))]
    fn tmap<A, B>(f: fn(A) -> B, t: Tree<A>) -> Tree<B> {
        let it = match t {
            Tree::Rose(v, children) => {
                let it = f(v);
                let recurse = |c: Tree<A>| -> Tree<B> {
                    let it_1 = tmap(f, c);
                    it_1
                };
                let it_1 = map(recurse, children);
                let it_2 = Tree::<B>::Rose(it, it_1);
                it_2
            }
        };
        it
    }
}

#[ir_module]
mod bounds {
    use tvm::prelude::*;

    #[relax::func(dims(k = 3, n = 4..=64, n % 4 == 0, m = 1..))]
    fn bounded(y: Tensor<f32, k>, x: Tensor<f32, n, m, k>, k: i64) -> Tensor<f32, n, m, k> {
        let lv = exp(x);
        #[relax::func(dims(i = 2..=8))]
        let local = |p: Tensor<f32, i>| -> Tensor<f32, i> {
            p
        };
        let lv_1 = tanh(lv);
        lv_1
    }
}

#[ir_module]
mod bounds_fused {
    use tvm::prelude::*;

    #[relax::func(dims(k = 3, n = 4..=64, n % 4 == 0, m = 1..))]
    fn bounded(y: Tensor<f32, k>, x: Tensor<f32, n, m, k>, k: i64) -> Tensor<f32, n, m, k> {
        #[relax::func(dims(i = 2..=8))]
        let local = |p: Tensor<f32, i>| -> Tensor<f32, i> {
            p
        };
        let lv = call_tir(fused_exp_tanh, (x,), Tensor::<f32, n, m, k>);
        lv
    }

    #[prim_func(name = "exp", dims(n = 4..=64, n % 4 == 0, m = 1.., k = 3), attrs(op_pattern = "ElemWise", private = true))]
    fn exp_(x: &Tensor<f32, n, m, k>, exp_: &mut Tensor<f32, n, m, k>) {
        for [i0, i1, i2] in grid([n, m, k]) {
            block("exp", [S(i0), S(i1), S(i2)], |[v_i0, v_i1, v_i2]| {
                exp_[[v_i0, v_i1, v_i2]] = exp(x[[v_i0, v_i1, v_i2]]);
            });
        }
    }

    #[prim_func(name = "tanh", dims(n = 4..=64, n % 4 == 0, m = 1.., k = 3), attrs(op_pattern = "ElemWise", private = true))]
    fn tanh_(x: &Tensor<f32, n, m, k>, tanh_: &mut Tensor<f32, n, m, k>) {
        for [i0, i1, i2] in grid([n, m, k]) {
            block("tanh", [S(i0), S(i1), S(i2)], |[v_i0, v_i1, v_i2]| {
                tanh_[[v_i0, v_i1, v_i2]] = tanh(x[[v_i0, v_i1, v_i2]]);
            });
        }
    }

    #[prim_func(dims(n = 4..=64, n % 4 == 0, m = 1.., k = 3), attrs(private = true))]
    fn fused_exp_tanh(x: &Tensor<f32, n, m, k>, lv_1: &mut Tensor<f32, n, m, k>) {
        for [i0, i1, i2] in grid([n, m, k]) {
            block("tanh", [S(i0), S(i1), S(i2)], |[v_i0, v_i1, v_i2]| {
                lv_1[[v_i0, v_i1, v_i2]] = tanh(exp(x[[v_i0, v_i1, v_i2]]));
            });
        }
    }
}

#[ir_module]
mod digits {
    use tvm::prelude::*;

    #[relax::func(attrs(input_names = ["image"], num_inputs = 1, output_names = ["probabilities"]))]
    fn main(image: Tensor<f32, n, 1, 8, 8>, weight: Tensor<f32, 16, 1, 3, 3>, weight_1: Tensor<f32, 32, 16, 3, 3>, weight_2: Tensor<f32, 1, 32, 1, 1>, weight_3: Tensor<f32, 32>, weight_4: Tensor<f32, 32>, weight_5: Tensor<f32, 32>, weight_6: Tensor<f32, 32>, weight_7: Tensor<f32, 32, 32, 3, 3>, weight_8: Tensor<f32, 1, 32, 1, 1>, weight_9: Tensor<f32, 64, 512>, weight_10: Tensor<f32, 64>, weight_11: Tensor<f32, 64, 10>) -> Tensor<f32, n, 10> {
        let softmax_1 = dataflow(|| {
            let conv2d_1 = conv2d(image, weight, dilation = [1, 1], groups = 1, padding = [1, 1, 1, 1], strides = [1, 1]);
            let add_ = conv2d_1 + constant::<f32, 1, 16, 1, 1>([0.061375562, 0.042521205, 0.16108733, 0.10881211, -0.02682616, -0.13117436, -0.02805879, 0.056192704, -0.08592325, 0.03300295, 0.0439354, 0.022774346, -0.02806915, 0.0013859695, 0.057283558, 0.061589696]);
            let relu_1 = relu(add_);
            let conv2d_2 = conv2d(relu_1, weight_1, dilation = [1, 1], groups = 1, padding = [1, 1, 1, 1], strides = [1, 1]);
            let add__1 = conv2d_2 + weight_2;
            let batch_norm_1 = batch_norm(add__1, weight_3, weight_4, weight_5, weight_6, axis = 1, epsilon = 9.999999747378752e-6);
            let relu_2 = relu(batch_norm_1);
            let max_pool2d_1 = max_pool2d(relu_2, ceil_mode = false, dilation = [1, 1], padding = [0, 0, 0, 0], pool_size = [2, 2], strides = [2, 2]);
            let conv2d_3 = conv2d(max_pool2d_1, weight_7, dilation = [1, 1], groups = 1, padding = [1, 1, 1, 1], strides = [1, 1]);
            let add__2 = conv2d_3 + weight_8;
            let add__3 = add__2 + max_pool2d_1;
            let relu_3 = relu(add__3);
            let reshape_1 = reshape(relu_3, shape([n, 512]));
            let permute_dims_1 = permute_dims(weight_9, axes = [1, 0]);
            let matmul_1 = matmul(reshape_1, permute_dims_1);
            let add__4 = matmul_1 + weight_10;
            let relu_4 = relu(add__4);
            let matmul_2 = matmul(relu_4, weight_11);
            let add__5 = matmul_2 + constant::<f32, 10>([0.063670844, 0.028938428, -0.00254076, -0.019189496, -0.021511855, -0.028269093, -0.03799475, -0.04100906, 0.08503099, -0.030247586]);
            let softmax_1 = softmax(add__5, axis = 1);
            softmax_1
        });
        softmax_1
    }
}

#[ir_module]
mod digits_legalized {
    use tvm::prelude::*;

    #[relax::func(attrs(input_names = ["image"], num_inputs = 1, output_names = ["probabilities"]))]
    fn main(image: Tensor<f32, n, 1, 8, 8>, weight: Tensor<f32, 16, 1, 3, 3>, weight_1: Tensor<f32, 32, 16, 3, 3>, weight_2: Tensor<f32, 1, 32, 1, 1>, weight_3: Tensor<f32, 32>, weight_4: Tensor<f32, 32>, weight_5: Tensor<f32, 32>, weight_6: Tensor<f32, 32>, weight_7: Tensor<f32, 32, 32, 3, 3>, weight_8: Tensor<f32, 1, 32, 1, 1>, weight_9: Tensor<f32, 64, 512>, weight_10: Tensor<f32, 64>, weight_11: Tensor<f32, 64, 10>) -> Tensor<f32, n, 10> {
        let softmax_2 = dataflow(|| {
            let conv2d_3 = call_tir(conv2d_1, (image, weight), Tensor::<f32, n, 16, 8, 8>);
            let add__1 = call_tir(add_, (conv2d_3, constant::<f32, 1, 16, 1, 1>([0.061375562, 0.042521205, 0.16108733, 0.10881211, -0.02682616, -0.13117436, -0.02805879, 0.056192704, -0.08592325, 0.03300295, 0.0439354, 0.022774346, -0.02806915, 0.0013859695, 0.057283558, 0.061589696])), Tensor::<f32, n, 16, 8, 8>);
            let relu_4 = call_tir(relu_1, (add__1,), Tensor::<f32, n, 16, 8, 8>);
            let conv2d_4 = call_tir(conv2d_1_1, (relu_4, weight_1), Tensor::<f32, n, 32, 8, 8>);
            let add__2 = call_tir(add_1, (conv2d_4, weight_2), Tensor::<f32, n, 32, 8, 8>);
            let batch_norm_2 = call_tir(batch_norm_1, (add__2, weight_3, weight_4, weight_5, weight_6), Tensor::<f32, n, 32, 8, 8>);
            let relu_5 = call_tir(relu_1_1, (batch_norm_2,), Tensor::<f32, n, 32, 8, 8>);
            let max_pool2d_2 = call_tir(max_pool2d_1, (relu_5,), Tensor::<f32, n, 32, 4, 4>);
            let conv2d_5 = call_tir(conv2d_2, (max_pool2d_2, weight_7), Tensor::<f32, n, 32, 4, 4>);
            let add__3 = call_tir(add_2, (conv2d_5, weight_8), Tensor::<f32, n, 32, 4, 4>);
            let add__4 = call_tir(add_3, (add__3, max_pool2d_2), Tensor::<f32, n, 32, 4, 4>);
            let relu_6 = call_tir(relu_2, (add__4,), Tensor::<f32, n, 32, 4, 4>);
            let reshape_1 = reshape(relu_6, shape([n, 512]));
            let permute_dims_2 = call_tir(permute_dims_1, (weight_9,), Tensor::<f32, 512, 64>);
            let matmul_2 = call_tir(matmul_1, (reshape_1, permute_dims_2), Tensor::<f32, n, 64>);
            let add__5 = call_tir(add_4, (matmul_2, weight_10), Tensor::<f32, n, 64>);
            let relu_7 = call_tir(relu_3, (add__5,), Tensor::<f32, n, 64>);
            let matmul_3 = call_tir(matmul_1_1, (relu_7, weight_11), Tensor::<f32, n, 10>);
            let add__6 = call_tir(add_5, (matmul_3, constant::<f32, 10>([0.063670844, 0.028938428, -0.00254076, -0.019189496, -0.021511855, -0.028269093, -0.03799475, -0.04100906, 0.08503099, -0.030247586])), Tensor::<f32, n, 10>);
            let softmax_2 = call_tir(softmax_1, (add__6,), Tensor::<f32, n, 10>);
            softmax_2
        });
        softmax_2
    }

    #[prim_func(name = "conv2d", attrs(private = true))]
    fn conv2d_1(data: &Tensor<f32, n, 1, 8, 8>, weight: &Tensor<f32, 16, 1, 3, 3>, conv2d: &mut Tensor<f32, n, 16, 8, 8>) {
        let mut pad_temp = alloc::<f32>([n, 1, 10, 10]);
        for [i0, i1, i2, i3] in grid([n, 1, 10, 10]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 8 && v_i3 - 1 >= 0 && v_i3 - 1 < 8 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 16, 8, 8, 1, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
    }

    #[prim_func(name = "add", attrs(private = true))]
    fn add_(x1: &Tensor<f32, n, 16, 8, 8>, x2: &Tensor<f32, 1, 16, 1, 1>, add_: &mut Tensor<f32, n, 16, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 16, 8, 8]) {
            block("add", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                add_[[v_i0, v_i1, v_i2, v_i3]] = x1[[v_i0, v_i1, v_i2, v_i3]] + x2[[0, v_i1, 0, 0]];
            });
        }
    }

    #[prim_func(name = "relu", attrs(private = true))]
    fn relu_1(x: &Tensor<f32, n, 16, 8, 8>, relu: &mut Tensor<f32, n, 16, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 16, 8, 8]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu[[v_i0, v_i1, v_i2, v_i3]] = max(x[[v_i0, v_i1, v_i2, v_i3]], 0.0);
            });
        }
    }

    #[prim_func(name = "conv2d_1", attrs(private = true))]
    fn conv2d_1_1(data: &Tensor<f32, n, 16, 8, 8>, weight: &Tensor<f32, 32, 16, 3, 3>, conv2d: &mut Tensor<f32, n, 32, 8, 8>) {
        let mut pad_temp = alloc::<f32>([n, 16, 10, 10]);
        for [i0, i1, i2, i3] in grid([n, 16, 10, 10]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 8 && v_i3 - 1 >= 0 && v_i3 - 1 < 8 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 32, 8, 8, 16, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn add_1(x1: &Tensor<f32, n, 32, 8, 8>, x2: &Tensor<f32, 1, 32, 1, 1>, add_: &mut Tensor<f32, n, 32, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 32, 8, 8]) {
            block("add", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                add_[[v_i0, v_i1, v_i2, v_i3]] = x1[[v_i0, v_i1, v_i2, v_i3]] + x2[[0, v_i1, 0, 0]];
            });
        }
    }

    #[prim_func(name = "batch_norm", attrs(private = true))]
    fn batch_norm_1(data: &Tensor<f32, n, 32, 8, 8>, gamma: &Tensor<f32, 32>, beta: &Tensor<f32, 32>, moving_mean: &Tensor<f32, 32>, moving_var: &Tensor<f32, 32>, batch_norm: &mut Tensor<f32, n, 32, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 32, 8, 8]) {
            block("batch_norm", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                batch_norm[[v_i0, v_i1, v_i2, v_i3]] = (data[[v_i0, v_i1, v_i2, v_i3]] - moving_mean[[v_i1]]) / sqrt(moving_var[[v_i1]] + 1e-5) * gamma[[v_i1]] + beta[[v_i1]];
            });
        }
    }

    #[prim_func(name = "relu_1", attrs(private = true))]
    fn relu_1_1(x: &Tensor<f32, n, 32, 8, 8>, relu: &mut Tensor<f32, n, 32, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 32, 8, 8]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu[[v_i0, v_i1, v_i2, v_i3]] = max(x[[v_i0, v_i1, v_i2, v_i3]], 0.0);
            });
        }
    }

    #[prim_func(name = "max_pool2d", attrs(private = true))]
    fn max_pool2d_1(data: &Tensor<f32, n, 32, 8, 8>, max_pool2d: &mut Tensor<f32, n, 32, 4, 4>) {
        for [i0, i1, i2, i3, k0, k1] in grid([n, 32, 4, 4, 2, 2]) {
            block("max_pool2d", [S(i0), S(i1), S(i2), S(i3), R(k0), R(k1)], |[v_i0, v_i1, v_i2, v_i3, v_k0, v_k1]| {
                init(|| max_pool2d[[v_i0, v_i1, v_i2, v_i3]] = f32::NEG_INFINITY);
                max_pool2d[[v_i0, v_i1, v_i2, v_i3]] = max(max_pool2d[[v_i0, v_i1, v_i2, v_i3]], data[[v_i0, v_i1, v_i2 * 2 + v_k0, v_i3 * 2 + v_k1]]);
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn conv2d_2(data: &Tensor<f32, n, 32, 4, 4>, weight: &Tensor<f32, 32, 32, 3, 3>, conv2d: &mut Tensor<f32, n, 32, 4, 4>) {
        let mut pad_temp = alloc::<f32>([n, 32, 6, 6]);
        for [i0, i1, i2, i3] in grid([n, 32, 6, 6]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 4 && v_i3 - 1 >= 0 && v_i3 - 1 < 4 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 32, 4, 4, 32, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn add_2(x1: &Tensor<f32, n, 32, 4, 4>, x2: &Tensor<f32, 1, 32, 1, 1>, add_: &mut Tensor<f32, n, 32, 4, 4>) {
        for [i0, i1, i2, i3] in grid([n, 32, 4, 4]) {
            block("add", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                add_[[v_i0, v_i1, v_i2, v_i3]] = x1[[v_i0, v_i1, v_i2, v_i3]] + x2[[0, v_i1, 0, 0]];
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn add_3(x1: &Tensor<f32, n, 32, 4, 4>, x2: &Tensor<f32, n, 32, 4, 4>, add_: &mut Tensor<f32, n, 32, 4, 4>) {
        for [i0, i1, i2, i3] in grid([n, 32, 4, 4]) {
            block("add", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                add_[[v_i0, v_i1, v_i2, v_i3]] = x1[[v_i0, v_i1, v_i2, v_i3]] + x2[[v_i0, v_i1, v_i2, v_i3]];
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn relu_2(x: &Tensor<f32, n, 32, 4, 4>, relu: &mut Tensor<f32, n, 32, 4, 4>) {
        for [i0, i1, i2, i3] in grid([n, 32, 4, 4]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu[[v_i0, v_i1, v_i2, v_i3]] = max(x[[v_i0, v_i1, v_i2, v_i3]], 0.0);
            });
        }
    }

    #[prim_func(name = "permute_dims", attrs(private = true))]
    fn permute_dims_1(x: &Tensor<f32, 64, 512>, transpose: &mut Tensor<f32, 512, 64>) {
        for [i0, i1] in grid([512, 64]) {
            block("transpose", [S(i0), S(i1)], |[v_i0, v_i1]| {
                transpose[[v_i0, v_i1]] = x[[v_i1, v_i0]];
            });
        }
    }

    #[prim_func(name = "matmul", attrs(private = true))]
    fn matmul_1(x1: &Tensor<f32, n, 512>, x2: &Tensor<f32, 512, 64>, matmul: &mut Tensor<f32, n, 64>) {
        for [i0, i1, k] in grid([n, 64, 512]) {
            block("matmul", [S(i0), S(i1), R(k)], |[v_i0, v_i1, v_k]| {
                init(|| matmul[[v_i0, v_i1]] = 0.0);
                matmul[[v_i0, v_i1]] += x1[[v_i0, v_k]] * x2[[v_k, v_i1]];
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn add_4(x1: &Tensor<f32, n, 64>, x2: &Tensor<f32, 64>, add_: &mut Tensor<f32, n, 64>) {
        for [i0, i1] in grid([n, 64]) {
            block("add", [S(i0), S(i1)], |[v_i0, v_i1]| {
                add_[[v_i0, v_i1]] = x1[[v_i0, v_i1]] + x2[[v_i1]];
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn relu_3(x: &Tensor<f32, n, 64>, relu: &mut Tensor<f32, n, 64>) {
        for [i0, i1] in grid([n, 64]) {
            block("relu", [S(i0), S(i1)], |[v_i0, v_i1]| {
                relu[[v_i0, v_i1]] = max(x[[v_i0, v_i1]], 0.0);
            });
        }
    }

    #[prim_func(name = "matmul_1", attrs(private = true))]
    fn matmul_1_1(x1: &Tensor<f32, n, 64>, x2: &Tensor<f32, 64, 10>, matmul: &mut Tensor<f32, n, 10>) {
        for [i0, i1, k] in grid([n, 10, 64]) {
            block("matmul", [S(i0), S(i1), R(k)], |[v_i0, v_i1, v_k]| {
                init(|| matmul[[v_i0, v_i1]] = 0.0);
                matmul[[v_i0, v_i1]] += x1[[v_i0, v_k]] * x2[[v_k, v_i1]];
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn add_5(x1: &Tensor<f32, n, 10>, x2: &Tensor<f32, 10>, add_: &mut Tensor<f32, n, 10>) {
        for [i0, i1] in grid([n, 10]) {
            block("add", [S(i0), S(i1)], |[v_i0, v_i1]| {
                add_[[v_i0, v_i1]] = x1[[v_i0, v_i1]] + x2[[v_i1]];
            });
        }
    }

    #[prim_func(name = "softmax", attrs(private = true))]
    fn softmax_1(data: &Tensor<f32, n, 10>, softmax: &mut Tensor<f32, n, 10>) {
        let mut softmax_max = alloc::<f32>([n, 1]);
        let mut softmax_exp = alloc::<f32>([n, 10]);
        let mut softmax_sum = alloc::<f32>([n, 1]);
        let mut softmax_scale = alloc::<f32>([n, 1]);
        for [i0, i1, k0] in grid([n, 1, 10]) {
            block("softmax_max", [S(i0), S(i1), R(k0)], |[v_i0, v_i1, v_k0]| {
                init(|| softmax_max[[v_i0, v_i1]] = f32::NEG_INFINITY);
                softmax_max[[v_i0, v_i1]] = max(softmax_max[[v_i0, v_i1]], data[[v_i0, v_k0]]);
            });
        }
        for [i0, i1] in grid([n, 10]) {
            block("softmax_exp", [S(i0), S(i1)], |[v_i0, v_i1]| {
                softmax_exp[[v_i0, v_i1]] = exp(data[[v_i0, v_i1]] - softmax_max[[v_i0, 0]]);
            });
        }
        for [i0, i1, k0] in grid([n, 1, 10]) {
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
        for [i0, i1] in grid([n, 10]) {
            block("softmax", [S(i0), S(i1)], |[v_i0, v_i1]| {
                softmax[[v_i0, v_i1]] = softmax_exp[[v_i0, v_i1]] * softmax_scale[[v_i0, 0]];
            });
        }
    }
}

#[ir_module]
mod digits_fused {
    use tvm::prelude::*;

    #[relax::func(attrs(input_names = ["image"], num_inputs = 1, output_names = ["probabilities"]))]
    fn main(image: Tensor<f32, n, 1, 8, 8>, weight: Tensor<f32, 16, 1, 3, 3>, weight_1: Tensor<f32, 32, 16, 3, 3>, weight_2: Tensor<f32, 1, 32, 1, 1>, weight_3: Tensor<f32, 32>, weight_4: Tensor<f32, 32>, weight_5: Tensor<f32, 32>, weight_6: Tensor<f32, 32>, weight_7: Tensor<f32, 32, 32, 3, 3>, weight_8: Tensor<f32, 1, 32, 1, 1>, weight_9: Tensor<f32, 64, 512>, weight_10: Tensor<f32, 64>, weight_11: Tensor<f32, 64, 10>) -> Tensor<f32, n, 10> {
        let softmax_2 = dataflow(|| {
            let relu_4 = call_tir(fused_conv2d_add_relu, (image, weight, constant::<f32, 1, 16, 1, 1>([0.061375562, 0.042521205, 0.16108733, 0.10881211, -0.02682616, -0.13117436, -0.02805879, 0.056192704, -0.08592325, 0.03300295, 0.0439354, 0.022774346, -0.02806915, 0.0013859695, 0.057283558, 0.061589696])), Tensor::<f32, n, 16, 8, 8>);
            let relu_5 = call_tir(fused_conv2d_1_add_1_batch_norm_relu_1, (relu_4, weight_1, weight_2, weight_3, weight_4, weight_5, weight_6), Tensor::<f32, n, 32, 8, 8>);
            let max_pool2d_2 = call_tir(max_pool2d_1, (relu_5,), Tensor::<f32, n, 32, 4, 4>);
            let relu_6 = call_tir(fused_conv2d_2_add_2_add_3_relu_2, (max_pool2d_2, weight_7, weight_8), Tensor::<f32, n, 32, 4, 4>);
            let reshape_1 = reshape(relu_6, shape([n, 512]));
            let permute_dims_2 = call_tir(permute_dims_1, (weight_9,), Tensor::<f32, 512, 64>);
            let relu_7 = call_tir(fused_matmul_add_4_relu_3, (reshape_1, permute_dims_2, weight_10), Tensor::<f32, n, 64>);
            let add__1 = call_tir(fused_matmul_1_add_5, (relu_7, weight_11, constant::<f32, 10>([0.063670844, 0.028938428, -0.00254076, -0.019189496, -0.021511855, -0.028269093, -0.03799475, -0.04100906, 0.08503099, -0.030247586])), Tensor::<f32, n, 10>);
            let softmax_2 = call_tir(softmax_1, (add__1,), Tensor::<f32, n, 10>);
            softmax_2
        });
        softmax_2
    }

    #[prim_func(name = "conv2d", attrs(op_pattern = "OutEWiseFusable", private = true))]
    fn conv2d_1(data: &Tensor<f32, n, 1, 8, 8>, weight: &Tensor<f32, 16, 1, 3, 3>, conv2d: &mut Tensor<f32, n, 16, 8, 8>) {
        let mut pad_temp = alloc::<f32>([n, 1, 10, 10]);
        for [i0, i1, i2, i3] in grid([n, 1, 10, 10]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 8 && v_i3 - 1 >= 0 && v_i3 - 1 < 8 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 16, 8, 8, 1, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
    }

    #[prim_func(name = "add", attrs(op_pattern = "ElemWise", private = true))]
    fn add_(x1: &Tensor<f32, n, 16, 8, 8>, x2: &Tensor<f32, 1, 16, 1, 1>, add_: &mut Tensor<f32, n, 16, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 16, 8, 8]) {
            block("add", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                add_[[v_i0, v_i1, v_i2, v_i3]] = x1[[v_i0, v_i1, v_i2, v_i3]] + x2[[0, v_i1, 0, 0]];
            });
        }
    }

    #[prim_func(name = "relu", attrs(op_pattern = "ElemWise", private = true))]
    fn relu_1(x: &Tensor<f32, n, 16, 8, 8>, relu: &mut Tensor<f32, n, 16, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 16, 8, 8]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu[[v_i0, v_i1, v_i2, v_i3]] = max(x[[v_i0, v_i1, v_i2, v_i3]], 0.0);
            });
        }
    }

    #[prim_func(name = "conv2d_1", attrs(op_pattern = "OutEWiseFusable", private = true))]
    fn conv2d_1_1(data: &Tensor<f32, n, 16, 8, 8>, weight: &Tensor<f32, 32, 16, 3, 3>, conv2d: &mut Tensor<f32, n, 32, 8, 8>) {
        let mut pad_temp = alloc::<f32>([n, 16, 10, 10]);
        for [i0, i1, i2, i3] in grid([n, 16, 10, 10]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 8 && v_i3 - 1 >= 0 && v_i3 - 1 < 8 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 32, 8, 8, 16, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
    }

    #[prim_func(attrs(op_pattern = "ElemWise", private = true))]
    fn add_1(x1: &Tensor<f32, n, 32, 8, 8>, x2: &Tensor<f32, 1, 32, 1, 1>, add_: &mut Tensor<f32, n, 32, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 32, 8, 8]) {
            block("add", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                add_[[v_i0, v_i1, v_i2, v_i3]] = x1[[v_i0, v_i1, v_i2, v_i3]] + x2[[0, v_i1, 0, 0]];
            });
        }
    }

    #[prim_func(name = "batch_norm", attrs(op_pattern = "ElemWise", private = true))]
    fn batch_norm_1(data: &Tensor<f32, n, 32, 8, 8>, gamma: &Tensor<f32, 32>, beta: &Tensor<f32, 32>, moving_mean: &Tensor<f32, 32>, moving_var: &Tensor<f32, 32>, batch_norm: &mut Tensor<f32, n, 32, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 32, 8, 8]) {
            block("batch_norm", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                batch_norm[[v_i0, v_i1, v_i2, v_i3]] = (data[[v_i0, v_i1, v_i2, v_i3]] - moving_mean[[v_i1]]) / sqrt(moving_var[[v_i1]] + 1e-5) * gamma[[v_i1]] + beta[[v_i1]];
            });
        }
    }

    #[prim_func(name = "relu_1", attrs(op_pattern = "ElemWise", private = true))]
    fn relu_1_1(x: &Tensor<f32, n, 32, 8, 8>, relu: &mut Tensor<f32, n, 32, 8, 8>) {
        for [i0, i1, i2, i3] in grid([n, 32, 8, 8]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu[[v_i0, v_i1, v_i2, v_i3]] = max(x[[v_i0, v_i1, v_i2, v_i3]], 0.0);
            });
        }
    }

    #[prim_func(name = "max_pool2d", attrs(op_pattern = "CommReduce", private = true))]
    fn max_pool2d_1(data: &Tensor<f32, n, 32, 8, 8>, max_pool2d: &mut Tensor<f32, n, 32, 4, 4>) {
        for [i0, i1, i2, i3, k0, k1] in grid([n, 32, 4, 4, 2, 2]) {
            block("max_pool2d", [S(i0), S(i1), S(i2), S(i3), R(k0), R(k1)], |[v_i0, v_i1, v_i2, v_i3, v_k0, v_k1]| {
                init(|| max_pool2d[[v_i0, v_i1, v_i2, v_i3]] = f32::NEG_INFINITY);
                max_pool2d[[v_i0, v_i1, v_i2, v_i3]] = max(max_pool2d[[v_i0, v_i1, v_i2, v_i3]], data[[v_i0, v_i1, v_i2 * 2 + v_k0, v_i3 * 2 + v_k1]]);
            });
        }
    }

    #[prim_func(attrs(op_pattern = "OutEWiseFusable", private = true))]
    fn conv2d_2(data: &Tensor<f32, n, 32, 4, 4>, weight: &Tensor<f32, 32, 32, 3, 3>, conv2d: &mut Tensor<f32, n, 32, 4, 4>) {
        let mut pad_temp = alloc::<f32>([n, 32, 6, 6]);
        for [i0, i1, i2, i3] in grid([n, 32, 6, 6]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 4 && v_i3 - 1 >= 0 && v_i3 - 1 < 4 { data[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 32, 4, 4, 32, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
    }

    #[prim_func(attrs(op_pattern = "ElemWise", private = true))]
    fn add_2(x1: &Tensor<f32, n, 32, 4, 4>, x2: &Tensor<f32, 1, 32, 1, 1>, add_: &mut Tensor<f32, n, 32, 4, 4>) {
        for [i0, i1, i2, i3] in grid([n, 32, 4, 4]) {
            block("add", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                add_[[v_i0, v_i1, v_i2, v_i3]] = x1[[v_i0, v_i1, v_i2, v_i3]] + x2[[0, v_i1, 0, 0]];
            });
        }
    }

    #[prim_func(attrs(op_pattern = "ElemWise", private = true))]
    fn add_3(x1: &Tensor<f32, n, 32, 4, 4>, x2: &Tensor<f32, n, 32, 4, 4>, add_: &mut Tensor<f32, n, 32, 4, 4>) {
        for [i0, i1, i2, i3] in grid([n, 32, 4, 4]) {
            block("add", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                add_[[v_i0, v_i1, v_i2, v_i3]] = x1[[v_i0, v_i1, v_i2, v_i3]] + x2[[v_i0, v_i1, v_i2, v_i3]];
            });
        }
    }

    #[prim_func(attrs(op_pattern = "ElemWise", private = true))]
    fn relu_2(x: &Tensor<f32, n, 32, 4, 4>, relu: &mut Tensor<f32, n, 32, 4, 4>) {
        for [i0, i1, i2, i3] in grid([n, 32, 4, 4]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu[[v_i0, v_i1, v_i2, v_i3]] = max(x[[v_i0, v_i1, v_i2, v_i3]], 0.0);
            });
        }
    }

    #[prim_func(name = "permute_dims", attrs(op_pattern = "Injective", private = true))]
    fn permute_dims_1(x: &Tensor<f32, 64, 512>, transpose: &mut Tensor<f32, 512, 64>) {
        for [i0, i1] in grid([512, 64]) {
            block("transpose", [S(i0), S(i1)], |[v_i0, v_i1]| {
                transpose[[v_i0, v_i1]] = x[[v_i1, v_i0]];
            });
        }
    }

    #[prim_func(name = "matmul", attrs(op_pattern = "OutEWiseFusable", private = true))]
    fn matmul_1(x1: &Tensor<f32, n, 512>, x2: &Tensor<f32, 512, 64>, matmul: &mut Tensor<f32, n, 64>) {
        for [i0, i1, k] in grid([n, 64, 512]) {
            block("matmul", [S(i0), S(i1), R(k)], |[v_i0, v_i1, v_k]| {
                init(|| matmul[[v_i0, v_i1]] = 0.0);
                matmul[[v_i0, v_i1]] += x1[[v_i0, v_k]] * x2[[v_k, v_i1]];
            });
        }
    }

    #[prim_func(attrs(op_pattern = "ElemWise", private = true))]
    fn add_4(x1: &Tensor<f32, n, 64>, x2: &Tensor<f32, 64>, add_: &mut Tensor<f32, n, 64>) {
        for [i0, i1] in grid([n, 64]) {
            block("add", [S(i0), S(i1)], |[v_i0, v_i1]| {
                add_[[v_i0, v_i1]] = x1[[v_i0, v_i1]] + x2[[v_i1]];
            });
        }
    }

    #[prim_func(attrs(op_pattern = "ElemWise", private = true))]
    fn relu_3(x: &Tensor<f32, n, 64>, relu: &mut Tensor<f32, n, 64>) {
        for [i0, i1] in grid([n, 64]) {
            block("relu", [S(i0), S(i1)], |[v_i0, v_i1]| {
                relu[[v_i0, v_i1]] = max(x[[v_i0, v_i1]], 0.0);
            });
        }
    }

    #[prim_func(name = "matmul_1", attrs(op_pattern = "OutEWiseFusable", private = true))]
    fn matmul_1_1(x1: &Tensor<f32, n, 64>, x2: &Tensor<f32, 64, 10>, matmul: &mut Tensor<f32, n, 10>) {
        for [i0, i1, k] in grid([n, 10, 64]) {
            block("matmul", [S(i0), S(i1), R(k)], |[v_i0, v_i1, v_k]| {
                init(|| matmul[[v_i0, v_i1]] = 0.0);
                matmul[[v_i0, v_i1]] += x1[[v_i0, v_k]] * x2[[v_k, v_i1]];
            });
        }
    }

    #[prim_func(attrs(op_pattern = "ElemWise", private = true))]
    fn add_5(x1: &Tensor<f32, n, 10>, x2: &Tensor<f32, 10>, add_: &mut Tensor<f32, n, 10>) {
        for [i0, i1] in grid([n, 10]) {
            block("add", [S(i0), S(i1)], |[v_i0, v_i1]| {
                add_[[v_i0, v_i1]] = x1[[v_i0, v_i1]] + x2[[v_i1]];
            });
        }
    }

    #[prim_func(name = "softmax", attrs(op_pattern = "OutEWiseFusable", private = true))]
    fn softmax_1(data: &Tensor<f32, n, 10>, softmax: &mut Tensor<f32, n, 10>) {
        let mut softmax_max = alloc::<f32>([n, 1]);
        let mut softmax_exp = alloc::<f32>([n, 10]);
        let mut softmax_sum = alloc::<f32>([n, 1]);
        let mut softmax_scale = alloc::<f32>([n, 1]);
        for [i0, i1, k0] in grid([n, 1, 10]) {
            block("softmax_max", [S(i0), S(i1), R(k0)], |[v_i0, v_i1, v_k0]| {
                init(|| softmax_max[[v_i0, v_i1]] = f32::NEG_INFINITY);
                softmax_max[[v_i0, v_i1]] = max(softmax_max[[v_i0, v_i1]], data[[v_i0, v_k0]]);
            });
        }
        for [i0, i1] in grid([n, 10]) {
            block("softmax_exp", [S(i0), S(i1)], |[v_i0, v_i1]| {
                softmax_exp[[v_i0, v_i1]] = exp(data[[v_i0, v_i1]] - softmax_max[[v_i0, 0]]);
            });
        }
        for [i0, i1, k0] in grid([n, 1, 10]) {
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
        for [i0, i1] in grid([n, 10]) {
            block("softmax", [S(i0), S(i1)], |[v_i0, v_i1]| {
                softmax[[v_i0, v_i1]] = softmax_exp[[v_i0, v_i1]] * softmax_scale[[v_i0, 0]];
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn fused_conv2d_add_relu(image: &Tensor<f32, n, 1, 8, 8>, weight: &Tensor<f32, 16, 1, 3, 3>, const_: &Tensor<f32, 1, 16, 1, 1>, relu: &mut Tensor<f32, n, 16, 8, 8>) {
        let mut pad_temp = alloc::<f32>([n, 1, 10, 10]);
        let mut conv2d = alloc::<f32>([n, 16, 8, 8]);
        for [i0, i1, i2, i3] in grid([n, 1, 10, 10]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 8 && v_i3 - 1 >= 0 && v_i3 - 1 < 8 { image[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 16, 8, 8, 1, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
        for [i0, i1, i2, i3] in grid([n, 16, 8, 8]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu[[v_i0, v_i1, v_i2, v_i3]] = max(conv2d[[v_i0, v_i1, v_i2, v_i3]] + const_[[0, v_i1, 0, 0]], 0.0);
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn fused_conv2d_1_add_1_batch_norm_relu_1(relu: &Tensor<f32, n, 16, 8, 8>, weight: &Tensor<f32, 32, 16, 3, 3>, weight_1: &Tensor<f32, 1, 32, 1, 1>, weight_2: &Tensor<f32, 32>, weight_3: &Tensor<f32, 32>, weight_4: &Tensor<f32, 32>, weight_5: &Tensor<f32, 32>, relu_1: &mut Tensor<f32, n, 32, 8, 8>) {
        let mut pad_temp = alloc::<f32>([n, 16, 10, 10]);
        let mut conv2d = alloc::<f32>([n, 32, 8, 8]);
        for [i0, i1, i2, i3] in grid([n, 16, 10, 10]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 8 && v_i3 - 1 >= 0 && v_i3 - 1 < 8 { relu[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 32, 8, 8, 16, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
        for [i0, i1, i2, i3] in grid([n, 32, 8, 8]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu_1[[v_i0, v_i1, v_i2, v_i3]] = max((conv2d[[v_i0, v_i1, v_i2, v_i3]] + weight_1[[0, v_i1, 0, 0]] - weight_4[[v_i1]]) / sqrt(weight_5[[v_i1]] + 1e-5) * weight_2[[v_i1]] + weight_3[[v_i1]], 0.0);
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn fused_conv2d_2_add_2_add_3_relu_2(max_pool2d: &Tensor<f32, n, 32, 4, 4>, weight: &Tensor<f32, 32, 32, 3, 3>, weight_1: &Tensor<f32, 1, 32, 1, 1>, relu: &mut Tensor<f32, n, 32, 4, 4>) {
        let mut pad_temp = alloc::<f32>([n, 32, 6, 6]);
        let mut conv2d = alloc::<f32>([n, 32, 4, 4]);
        for [i0, i1, i2, i3] in grid([n, 32, 6, 6]) {
            block("pad_temp", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                pad_temp[[v_i0, v_i1, v_i2, v_i3]] = if v_i2 - 1 >= 0 && v_i2 - 1 < 4 && v_i3 - 1 >= 0 && v_i3 - 1 < 4 { max_pool2d[[v_i0, v_i1, v_i2 - 1, v_i3 - 1]] } else { 0.0 };
            });
        }
        for [i0, i1, i2, i3, ci, kh, kw] in grid([n, 32, 4, 4, 32, 3, 3]) {
            block("conv2d", [S(i0), S(i1), S(i2), S(i3), R(ci), R(kh), R(kw)], |[v_i0, v_i1, v_i2, v_i3, v_ci, v_kh, v_kw]| {
                init(|| conv2d[[v_i0, v_i1, v_i2, v_i3]] = 0.0);
                conv2d[[v_i0, v_i1, v_i2, v_i3]] += pad_temp[[v_i0, v_ci, v_i2 + v_kh, v_i3 + v_kw]] * weight[[v_i1, v_ci, v_kh, v_kw]];
            });
        }
        for [i0, i1, i2, i3] in grid([n, 32, 4, 4]) {
            block("relu", [S(i0), S(i1), S(i2), S(i3)], |[v_i0, v_i1, v_i2, v_i3]| {
                relu[[v_i0, v_i1, v_i2, v_i3]] = max(conv2d[[v_i0, v_i1, v_i2, v_i3]] + weight_1[[0, v_i1, 0, 0]] + max_pool2d[[v_i0, v_i1, v_i2, v_i3]], 0.0);
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn fused_matmul_add_4_relu_3(reshape: &Tensor<f32, n, 512>, permute_dims: &Tensor<f32, 512, 64>, weight: &Tensor<f32, 64>, relu: &mut Tensor<f32, n, 64>) {
        let mut matmul = alloc::<f32>([n, 64]);
        for [i0, i1, k] in grid([n, 64, 512]) {
            block("matmul", [S(i0), S(i1), R(k)], |[v_i0, v_i1, v_k]| {
                init(|| matmul[[v_i0, v_i1]] = 0.0);
                matmul[[v_i0, v_i1]] += reshape[[v_i0, v_k]] * permute_dims[[v_k, v_i1]];
            });
        }
        for [i0, i1] in grid([n, 64]) {
            block("relu", [S(i0), S(i1)], |[v_i0, v_i1]| {
                relu[[v_i0, v_i1]] = max(matmul[[v_i0, v_i1]] + weight[[v_i1]], 0.0);
            });
        }
    }

    #[prim_func(attrs(private = true))]
    fn fused_matmul_1_add_5(relu: &Tensor<f32, n, 64>, weight: &Tensor<f32, 64, 10>, const_: &Tensor<f32, 10>, add_: &mut Tensor<f32, n, 10>) {
        let mut matmul = alloc::<f32>([n, 10]);
        for [i0, i1, k] in grid([n, 10, 64]) {
            block("matmul", [S(i0), S(i1), R(k)], |[v_i0, v_i1, v_k]| {
                init(|| matmul[[v_i0, v_i1]] = 0.0);
                matmul[[v_i0, v_i1]] += relu[[v_i0, v_k]] * weight[[v_k, v_i1]];
            });
        }
        for [i0, i1] in grid([n, 10]) {
            block("add", [S(i0), S(i1)], |[v_i0, v_i1]| {
                add_[[v_i0, v_i1]] = matmul[[v_i0, v_i1]] + const_[[v_i1]];
            });
        }
    }
}

/// All modules in order.
pub(crate) fn all() -> Vec<Result<tvm::ir::IRModule, IrError>> {
    vec![
        operators::module(),
        arguments::module(),
        names::module(),
        casts::module(),
        dataflow_blocks::module(),
        control::module(),
        functions::module(),
        matches::module(),
        cells::module(),
        calls::module(),
        constants::module(),
        prelude::module(),
        bounds::module(),
        bounds_fused::module(),
        digits::module(),
        digits_legalized::module(),
        digits_fused::module(),
    ]
}
