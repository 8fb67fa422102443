//! Which rule schedules what, with which parameters.

mod elements;
mod images;
mod reductions;

use tvm_runtime::DataType;

use super::*;
use crate::arith::dims::simplify_dim;
use crate::ir::{IRModule, Var};
use crate::pass::PassContext;
use crate::te::{self, TensorExpr, compute, create_prim_func, placeholder, reduce_axis, sum};
use crate::tir::pipeline::lower_tir;
use crate::tir::{
    AllocBuffer, Block, BlockNames, BlockRealize, Buffer, For, Param, PrimExpr, Stmt, derive_blocks,
};
use crate::topi::{self, ConvLayouts, ConvParams};

const MACHINE: Machine = Machine { vector_bits: 512, vector_registers: 32, ..Machine::baseline() };

fn input(name: &str, shape: &[PrimExpr]) -> TensorExpr {
    placeholder(name, shape.to_vec(), DataType::F32)
}

/// `a b`, and `max(a b, 0)` if it is fused.
fn product([m, n, k]: [PrimExpr; 3], fused: bool) -> PrimFunc {
    let (a, b) = (input("a", &[m.clone(), k.clone()]), input("b", &[k.clone(), n.clone()]));
    let k = reduce_axis("k", k);
    let product = compute("product", [m.clone(), n.clone()], &[&a, &b], |i: &[PrimExpr]| {
        sum(a.at([i[0].clone(), k.expr()]) * b.at([k.expr(), i[1].clone()]), &[&k])
    });
    let relu = compute("relu", [m, n], &[&product], |i: &[PrimExpr]| {
        product.at(i.to_vec()).max(PrimExpr::float(0.0, DataType::F32))
    });
    create_prim_func("f", &[a, b], &[if fused { relu } else { product }]).unwrap()
}

/// Products of `m` rows with weights in panels of `width` columns; of these `max(y, 0)` if it is fused.
fn in_panels(m: PrimExpr, [n, k, width]: [i64; 3], fused: bool) -> PrimFunc {
    let x = input("x", &[m.clone(), k.into()]);
    let weight = input("weight", &[(n + width - 1) / width, k, width].map(PrimExpr::index));
    let layout = format!("NK{width}n").parse().unwrap();
    let y = topi::dense_pack(&x, &weight, &layout, &[m, n.into()], DataType::F32);
    let relu = compute("relu", y.shape(), &[&y], |i: &[PrimExpr]| {
        y.at(i.to_vec()).max(PrimExpr::float(0.0, DataType::F32))
    });
    create_prim_func("f", &[x, weight], &[if fused { relu } else { y }]).unwrap()
}

/// `f` applied to a chain of three element-wise tensors, the last with its axes in the order that `axes` gives.
fn chain(shape: &[i64; 2], axes: [usize; 2]) -> PrimFunc {
    let shape = shape.map(PrimExpr::index);
    let x = input("x", &shape);
    let one = compute("one", shape.clone(), &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) + 1);
    let two = compute("two", shape.clone(), &[&one], |i: &[PrimExpr]| one.at(i.to_vec()) * 2);
    let out = axes.map(|axis| shape[axis].clone());
    let y = compute("y", out, &[&two], |i: &[PrimExpr]| two.at(axes.map(|axis| i[axis].clone())) - 3);
    te::create_prim_func("f", &[x], &[y]).unwrap()
}

/// A tensor with its axes in another order.
fn transpose(shape: &[i64], axes: &[usize]) -> PrimFunc {
    let x = input("x", &shape.iter().map(|&it| it.into()).collect::<Vec<_>>());
    let y = topi::permute(&x, axes);
    create_prim_func("f", &[x], &[y]).unwrap()
}

/// Four times the sums and differences of `x` along its middle axis: `y[i, c, j]` is a sum for `c = 0` and a difference for
/// `c = 1`. If `twice` is true, the sums and differences of these.
fn butterflies(n: i64, twice: bool) -> PrimFunc {
    let shape = [n, 2, 64].map(PrimExpr::index);
    let x = input("x", &shape);
    let of = |x: &TensorExpr, i: &[PrimExpr]| {
        let [a, b] = [0, 1].map(|c| x.at([i[0].clone(), PrimExpr::index(c), i[2].clone()]));
        PrimExpr::select(i[1].clone().equal(0), a.clone() + b.clone(), a - b)
    };
    let y = compute("y", shape.clone(), &[&x], |i: &[PrimExpr]| of(&x, i) * 3 + of(&x, i));
    let z = compute("z", shape, &[&y], |i: &[PrimExpr]| of(&y, i));
    te::create_prim_func("f", &[x], &[if twice { z } else { y }]).unwrap()
}

/// `a b` in plain loops that set `c` to 0 before each sum; with `local`, the sum is in a variable.
fn plain_product([m, n, k]: [i64; 3], local: bool) -> PrimFunc {
    let buffer = |name: &str, shape: &[i64]| {
        let shape: Vec<PrimExpr> = shape.iter().map(|&it| PrimExpr::index(it)).collect();
        Buffer::new(name, shape, DataType::F32)
    };
    let (a, b, c) = (buffer("a", &[m, k]), buffer("b", &[k, n]), buffer("c", &[m, n]));
    let [i, j, p] = ["i", "j", "p"].map(Var::index);
    let [vi, vj, vp] = [&i, &j, &p].map(PrimExpr::from);
    let sum = buffer("sum", &[1]);
    let (sums, at) =
        if local { (&sum, vec![PrimExpr::index(0)]) } else { (&c, vec![vi.clone(), vj.clone()]) };
    let term = a.load([vi.clone(), vp.clone()]) * b.load([vp, vj.clone()]);
    let zero = Stmt::store(sums, at.clone(), PrimExpr::float(0.0, DataType::F32));
    let update = Stmt::store(sums, at.clone(), sums.load(at.clone()) + term);
    let terms = For::serial(p, PrimExpr::index(k), update);
    let mut stmts = vec![zero, terms.into()];
    if local {
        stmts.insert(0, AllocBuffer::new(sum.clone()).into());
        stmts.push(Stmt::store(&c, [vi, vj], sums.load(at)));
    }
    let columns = For::serial(j, PrimExpr::index(n), Stmt::seq(stmts));
    let body = For::serial(i, PrimExpr::index(m), columns.into()).into();
    let root = Block::root(vec![], derive_blocks(&body, BlockNames::default()));
    PrimFunc::new("f", vec![Param::In(a), Param::In(b), Param::Out(c)], BlockRealize::opaque(root))
}

/// A convolution over an image of `size` by `window` squared, and its maximum with 0.
fn conv([batch, channels, out]: [i64; 3], size: [i64; 2], window: [i64; 3], groups: i64) -> PrimFunc {
    conv_of_batch(batch.into(), [channels, out], size, window, groups)
}

fn conv_of_batch(
    batch: PrimExpr,
    [channels, out]: [i64; 2],
    size: [i64; 2],
    [window, stride, pad]: [i64; 3],
    groups: i64,
) -> PrimFunc {
    let of_batch = |extents: [i64; 3]| [&[batch.clone()][..], &extents.map(PrimExpr::index)].concat();
    let x = input("x", &of_batch([channels, size[0], size[1]]));
    let weight = input("weight", &[out, channels / groups, window, window].map(PrimExpr::index));
    let params = ConvParams {
        strides: vec![stride; 2],
        pad_before: vec![pad; 2],
        pad_after: vec![pad; 2],
        dilation: vec![1; 2],
        groups,
        skip_padding: false,
    };
    let [data, kernel, out_layout] = ["NCHW", "OIHW", "NCHW"].map(|it| it.parse().unwrap());
    let layouts = ConvLayouts { letters: "NCHW".into(), data, kernel, out: out_layout };
    let [rows, columns] = size.map(|size| (size + 2 * pad - window) / stride + 1);
    let shape = of_batch([out, rows, columns]);
    let conv = topi::conv("conv2d", &x, &weight, &params, &layouts, &shape, DataType::F32);
    let relu = compute("relu", shape, &[&conv], |i: &[PrimExpr]| {
        conv.at(i.to_vec()).max(PrimExpr::float(0.0, DataType::F32))
    });
    create_prim_func("f", &[x, weight], &[relu]).unwrap()
}

/// A convolution of 1×1 over an image of `size`, and its maximum with 0.
fn pointwise(channels: [i64; 3], size: [i64; 2]) -> PrimFunc {
    conv(channels, size, [1, 1, 0], 1)
}

#[test]
fn batches_of_unknown_size_have_the_rules_of_known_ones() {
    for (channels, size, window, groups) in [
        ([64, 64], [56, 56], [1, 1, 0], 1),
        ([272, 272], [14, 14], [1, 1, 0], 4),
        ([544, 544], [7, 7], [1, 1, 0], 4),
        ([3, 32], [64, 64], [3, 2, 1], 1),
        ([16, 32], [28, 28], [3, 1, 1], 1),
        ([112, 112], [28, 28], [3, 1, 1], 112),
        ([112, 112], [28, 28], [3, 2, 1], 112),
    ] {
        let rules = |batch: PrimExpr| {
            let func = conv_of_batch(batch, channels, size, window, groups);
            let applied = schedule(&func, &MACHINE).map(|it| it.1).unwrap_or_default();
            applied.into_iter().map(|it| (it.block, it.rule)).collect::<Vec<_>>()
        };
        let known = rules(2.into());
        assert_eq!(rules(Var::index("n").into()), known, "{channels:?} {window:?} {groups}");
        assert!(!known.is_empty());
    }
}

#[test]
fn strided_convolutions_read_phases() {
    // Columns of the padded image, and the layout of its rows.
    let cases = [
        (conv([1, 8, 8], [14, 14], [3, 2, 1], 8), "16, 2, 8]"),
        (conv([1, 3, 8], [32, 32], [7, 2, 3], 1), "38, 2, 19]"),
        (conv([2, 3, 8], [31, 31], [3, 3, 1], 1), "33, 3, 11]"),
        // 17 columns are no whole number of pairs.
        (conv([1, 3, 8], [15, 15], [3, 2, 1], 1), "17, 17]"),
        (conv([1, 3, 8], [14, 14], [3, 1, 1], 1), "16, 16]"),
    ];
    for (func, want) in cases {
        let (scheduled, _) = schedule(&func, &Machine::baseline()).unwrap();
        let text = scheduled.to_string();
        let padded = text.lines().find(|line| line.contains("alloc::") && line.contains("pad_temp")).unwrap();
        assert!(padded.ends_with(&format!("{want});")), "{padded}: expected {want}");
    }
}

/// The channels of a group are rows of a tile, and what follows the convolution is part of it.
#[test]
fn groups_are_products_of_their_own() {
    let cases = [
        (conv([1, 272, 272], [14, 14], [1, 1, 0], 4), ("conv2d_product", "flat product", "tile 7x32")),
        (conv([1, 24, 112], [56, 56], [1, 1, 0], 4), ("conv2d_product", "flat product", "tile 7x32")),
        (conv([1, 128, 128], [56, 56], [3, 1, 1], 32), ("conv2d_sums", "contraction", "tile 4x32")),
        (conv([2, 64, 128], [14, 14], [3, 1, 1], 2), ("conv2d_sums", "contraction", "tile 8x14")),
    ];
    for (func, want) in cases {
        let (scheduled, applied) = schedule(&func, &MACHINE).unwrap();
        let rows: Vec<(&str, &str, &str)> =
            applied.iter().map(|it| (&*it.block, it.rule, &*it.parameters)).collect();
        assert_eq!(rows.last(), Some(&want), "{scheduled}");
        assert!(scheduled.to_string().contains("#[parallel]"), "{scheduled}");
    }
}

/// Block, rule, parameters.
type Row = (&'static str, &'static str, &'static str);

/// `make` of a matrix.
fn of_rows(shape: [PrimExpr; 2], make: impl FnOnce(&TensorExpr) -> TensorExpr) -> PrimFunc {
    let x = input("x", &shape);
    create_prim_func("f", std::slice::from_ref(&x), &[make(&x)]).unwrap()
}

/// `(x - mean) / sqrt(variance)`
fn layer_norm(x: &TensorExpr) -> TensorExpr {
    topi::normalize("norm", x, &[1], 1e-5, true, &[], |it, _| it)
}

#[test]
fn chains_over_rows_are_one_sweep() {
    let (index, symbol) = (PrimExpr::index, |name| PrimExpr::from(Var::index(name)));
    let softmax = |x: &TensorExpr| topi::softmax(x, 1);
    let one = |first, text| Some((first, text));
    let of_softmax = one("softmax_max", "4 blocks in one sweep, up to `softmax`");
    let cases: [(PrimFunc, Option<(&str, &str)>); 9] = [
        (of_rows([64, 256].map(index), softmax), of_softmax),
        (of_rows([64, 100].map(index), softmax), of_softmax),
        (of_rows([index(1), index(1)], softmax), None),
        (of_rows(["m", "n"].map(symbol), softmax), of_softmax),
        (of_rows([symbol("m"), index(0)], softmax), of_softmax),
        (
            of_rows([64, 100].map(index), |x| topi::log_softmax(x, 1)),
            one("log_softmax_max", "4 blocks in one sweep, up to `log_softmax`"),
        ),
        (of_rows([64, 100].map(index), layer_norm), one("mean_sum", "4 blocks in one sweep, up to `norm`")),
        // A row that is larger than the caches is divided among threads; columns are contractions.
        (of_rows([4, 1 << 20].map(index), softmax), None),
        (of_rows([64, 100].map(index), |x| topi::softmax(x, 0)), None),
    ];
    for (func, want) in cases {
        let (scheduled, applied) = schedule(&func, &MACHINE).unwrap();
        let got = applied.iter().find(|it| it.rule == "rows").map(|it| (&*it.block, it.parameters.as_str()));
        assert_eq!(got, want, "{scheduled}");
        assert!(want.is_none() || applied.len() == 1, "{scheduled}");
    }
}

/// Elements in whole strips are summed while they are computed.
#[test]
fn a_row_is_reduced_beside_its_elements() {
    let softmax = |columns| {
        let func = of_rows([64, columns].map(PrimExpr::index), |x| topi::softmax(x, 1));
        schedule(&func, &MACHINE).unwrap().0.to_string()
    };
    let whole = softmax(256);
    let strips = whole.find("for ax1 in 0..4 {").unwrap_or_else(|| panic!("{whole}"));
    let [elements, sum] =
        ["block(\"softmax_exp\"", "block(\"softmax_sum_rf\""].map(|it| whole.find(it).unwrap());
    assert!(strips < elements && elements < sum, "{whole}");
    assert_eq!(whole.matches("#[vectorize]").count(), 4, "{whole}");
    assert!(!softmax(100).contains("softmax_sum_rf"));
}

/// What a rule takes up to the block whose result is read in other rows.
#[test]
fn a_chain_over_rows_ends_where_all_rows_are_used() {
    let func = of_rows([64, 64].map(PrimExpr::index), |x| {
        let y = topi::softmax(x, 1);
        let total = topi::sum_axes("total", &y, &[0], false, |it| it);
        compute("z", x.shape(), &[&y, &total], |i: &[PrimExpr]| y.at(i.to_vec()) * total.at([i[1].clone()]))
    });
    let (scheduled, applied) = schedule(&func, &MACHINE).unwrap();
    let rules: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
    let want = [("softmax_max", "rows"), ("total", "contraction"), ("z", "spatial")];
    assert_eq!(rules, want, "{scheduled}");
}

/// Results of twice the last cache are stored past it; smaller ones and those of unknown size are not.
#[test]
fn large_results_are_streamed() {
    let [l2, l3] = [MACHINE.l2_bytes, MACHINE.l3_bytes];
    let n = 2 * l2.max(l3) as i64 / 4;
    for (rows, streamed) in [(n / 64, true), (n / 64 - 1, false)] {
        for axes in [[0, 1], [1, 0]] {
            let (scheduled, _) = schedule(&chain(&[rows, 64], axes), &MACHINE).unwrap();
            let text = scheduled.to_string();
            assert_eq!(text.contains("streamed = true"), streamed, "{text}");
        }
    }
}

/// Sequences of a batch, multiplied with one matrix, with a bias and a residual.
fn sequences(shape: [PrimExpr; 3]) -> PrimFunc {
    let [batch, length, terms] = shape.clone();
    let (a, w) = (input("a", &shape), input("w", &[terms.clone(), 96.into()]));
    let out = [batch, length, 96.into()];
    let (bias, residual) = (input("bias", &[96.into()]), input("residual", &out));
    let k = te::reduce_axis("k", terms);
    let product = compute("product", out.clone(), &[&a, &w], |i: &[PrimExpr]| {
        te::sum(a.at([i[0].clone(), i[1].clone(), k.expr()]) * w.at([k.expr(), i[2].clone()]), &[&k])
    });
    let y = compute("y", out, &[&product, &bias, &residual], |i: &[PrimExpr]| {
        product.at(i.to_vec()) + bias.at([i[2].clone()]) + residual.at(i.to_vec())
    });
    te::create_prim_func("f", &[a, w, bias, residual], &[y]).unwrap()
}

#[test]
fn rows_of_a_batch_are_one_axis() {
    let index = PrimExpr::index;
    let symbol = |name| PrimExpr::from(Var::index(name));
    let cases = [
        ([index(8), index(16), index(80)], Some("[128, 96]")),
        ([index(3), index(5), index(80)], Some("[15, 96]")),
        ([symbol("batch"), index(5), index(80)], Some("[batch * 5, 96]")),
        ([index(8), symbol("length"), index(80)], Some("[length * 8, 96]")),
        ([symbol("batch"), symbol("length"), index(80)], Some("[batch * length, 96]")),
        // One sequence.
        ([index(1), index(16), index(80)], None),
    ];
    for (shape, flat) in cases {
        let (scheduled, applied) = schedule(&sequences(shape), &MACHINE).unwrap();
        let text = scheduled.to_string();
        assert!(applied.iter().any(|it| it.rule == "contraction"), "{applied:?}");
        let local = text.lines().find(|line| line.contains("let mut product_local")).unwrap();
        let Some(flat) = flat else {
            assert_eq!(local.matches(", ").count(), 2, "{text}");
            continue;
        };
        assert!(local.contains(flat), "{text}");
        // Indices are linear again.
        let context = PassContext::new().target("c -vector-bits=512".parse().unwrap());
        let lowered =
            lower_tir().apply_in(IRModule::from_prim_func(scheduled), &context).unwrap().to_string();
        let body = lowered.split_once("arg_data(args, 4)").unwrap().1;
        assert!(!body.contains(" % ") && !body.contains(" / 5"), "{lowered}");
    }
}

/// Attention of queries, keys and values of one shape.
fn attention(shape: [PrimExpr; 4]) -> PrimFunc {
    let [q, k, v] = ["q", "k", "v"].map(|name| input(name, &shape));
    let y = topi::attention([&q, &k, &v], None, 0.125, DataType::F32);
    create_prim_func("f", &[q, k, v], &[y]).unwrap()
}

/// An element-wise block with the name of a block of attention.
fn named_as_attention() -> PrimFunc {
    let x = input("x", &[PrimExpr::index(300)]);
    let y =
        compute("attention_scores", x.shape(), &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) * x.at(i.to_vec()));
    create_prim_func("f", &[x], &[y]).unwrap()
}

#[test]
fn each_rule_takes_its_programs() {
    let index = PrimExpr::index;
    let rows = PrimExpr::from(Var::index("m"));
    let symbolic = |extent| if extent == 300 { rows.clone() } else { index(extent) };
    let symbol = |name| PrimExpr::from(Var::index(name));
    let cases: [(PrimFunc, &[Row]); 31] = [
        (product([64, 96, 80].map(index), false), &[("product", "contraction", "tile 8x32, packed")]),
        (product([64, 96, 80].map(index), true), &[("product", "contraction", "tile 8x32, packed")]),
        (product([49, 96, 80].map(index), true), &[("product", "contraction", "tile 7x32, packed")]),
        (product(["m", "n", "k"].map(symbol), true), &[("product", "contraction", "tile 8x32, packed")]),
        (product([3, 5, 80].map(index), false), &[("product", "contraction", "tile 3x5")]),
        (
            product([1, 4096, 512].map(index), false),
            &[("product", "skinny product", "up to 1 rows, strips of 8x1024")],
        ),
        (
            product([1, 4096, 512].map(index), true),
            &[("product", "skinny product", "up to 1 rows, strips of 8x1024")],
        ),
        (
            product([Var::index("m").into(), index(384), index(512)], true),
            &[
                ("product_one", "skinny product", "up to 1 rows, strips of 8x192"),
                ("product_at_most_32", "skinny product", "up to 32 rows, strips of 8x192"),
                ("product", "contraction", "tile 8x32, packed"),
            ],
        ),
        (
            product([Var::index("m").into(), index(4096), index(512)], true),
            &[
                ("product_one", "skinny product", "up to 1 rows, strips of 8x1024"),
                ("product_at_most_4", "skinny product", "up to 4 rows, strips of 8x1024"),
                ("product_at_most_32", "skinny product", "up to 32 rows, strips of 8x256"),
                ("product", "contraction", "tile 8x32, packed"),
            ],
        ),
        (in_panels(rows.clone(), [1000, 80, 32], true), &[("matmul", "contraction", "tile 8x32, in panels")]),
        (
            in_panels(&rows * 196i64, [1000, 80, 32], true),
            &[("matmul", "contraction", "tile 8x32, in panels")],
        ),
        (
            // 1 MiB of them: an eighth is half of the second-level cache.
            in_panels(1024.into(), [96, 256, 32], true),
            &[("matmul", "contraction", "tile 8x32, in panels, 128 rows at a time")],
        ),
        // Its rows are in no equal blocks.
        (in_panels(1018.into(), [96, 256, 32], true), &[("matmul", "contraction", "tile 14x32, in panels")]),
        (in_panels(196.into(), [96, 80, 32], true), &[("matmul", "contraction", "tile 14x32, in panels")]),
        (in_panels(197.into(), [96, 80, 32], true), &[("matmul", "contraction", "tile 11x32, in panels")]),
        (in_panels(16.into(), [96, 80, 16], true), &[("matmul", "contraction", "tile 16x16, in panels")]),
        (in_panels(18.into(), [96, 80, 16], false), &[("matmul", "contraction", "tile 9x16, in panels")]),
        (in_panels(1.into(), [96, 80, 32], true), &[("matmul", "contraction", "tile 1x32, in panels")]),
        (in_panels(64.into(), [96, 80, 24], false), &[("matmul", "reduction", "1 of 3 axes reduced")]),
        (pointwise([1, 64, 64], [56, 56]), &[("conv2d_product", "flat product", "tile 8x32")]),
        (pointwise([2, 24, 20], [7, 7]), &[("conv2d_product", "flat product", "tile 7x32")]),
        (
            attention([1, 12, 128, 64].map(index)),
            &[("attention_scores", "attention", "32 rows at a time, tile 8x32")],
        ),
        (
            attention([1, 2, 300, 64].map(symbolic)),
            &[
                ("attention_scores", "attention", "8 rows at a time, tile 8x32"),
                ("attention_bias", "spatial", "1 axes as one vector loop"),
            ],
        ),
        (named_as_attention(), &[("attention_scores", "spatial", "1 axes as one vector loop")]),
        (chain(&[30, 50], [0, 1]), &[("y", "spatial", "2 axes as one vector loop")]),
        (chain(&[300, 500], [1, 0]), &[("y", "spatial", "tiles of 16x16")]),
        (transpose(&[2, 300, 500, 1], &[0, 2, 1, 3]), &[("transpose", "spatial", "tiles of 16x16")]),
        (plain_product([64, 96, 80], false), &[("c", "contraction", "tile 8x32, packed")]),
        (plain_product([64, 96, 80], true), &[("sum", "contraction", "tile 8x32, packed")]),
        (butterflies(8, false), &[("y", "choice", "2 copies")]),
        (butterflies(8, true), &[("y", "choice", "2 copies, inside of `z`")]),
    ];
    for (func, want) in cases {
        let (_, applied) = schedule(&func, &MACHINE).unwrap();
        let got: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule, it.parameters.as_str())).collect();
        assert_eq!(got, want, "{func}");
    }
}

#[test]
fn what_somebody_scheduled_stays() {
    let func = chain(&[30, 50], [0, 1]);
    let mut s = Schedule::new(func.clone()).unwrap();
    let y = s.block("y").unwrap();
    s.get_loops(y).unwrap();
    assert_eq!(schedule(s.func(), &MACHINE).map(|it| it.1.len()), Some(1), "nothing was changed yet");
    let [i, _] = s.loops(y).unwrap();
    s.parallel(i).unwrap();
    assert_eq!(schedule(s.func(), &MACHINE).map(|it| it.1), None, "a loop is parallel");
    assert_eq!(schedule(&s.into_func(), &MACHINE).map(|it| it.1), None);
    let (scheduled, _) = schedule(&func, &MACHINE).unwrap();
    assert_eq!(schedule(&scheduled, &MACHINE).map(|it| it.1), None, "it is scheduled now");
}

/// `a b`, of these types, summed in the last one.
fn narrow_product([m, n, k]: [PrimExpr; 3], [a, b, wide]: [DataType; 3], transposed: bool) -> PrimFunc {
    let a = placeholder("a", vec![m.clone(), k.clone()], a);
    let shape = if transposed { [n.clone(), k.clone()] } else { [k.clone(), n.clone()] };
    let b = placeholder("b", shape.to_vec(), b);
    let k = reduce_axis("k", k);
    let product = compute("product", [m, n], &[&a, &b], |i: &[PrimExpr]| {
        let at = if transposed { [i[1].clone(), k.expr()] } else { [k.expr(), i[1].clone()] };
        sum(a.at([i[0].clone(), k.expr()]).cast(wide) * b.at(at).cast(wide), &[&k])
    });
    create_prim_func("f", &[a, b], &[product]).unwrap()
}

#[test]
fn products_of_narrow_operands_use_copies() {
    let (bytes, half) = ([DataType::U8, DataType::I8, DataType::I32], DataType::BF16);
    let index = |shape: [i64; 3]| shape.map(PrimExpr::index);
    let symbols = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let copied: [Row; 2] =
        [("product", "contraction", "tile 8x32, packed"), ("product_left", "words", "neighbours to a word")];
    let loaded: [Row; 2] =
        [copied[0], ("product_left", "words", "neighbours to a word, where they are used")];
    let wide: [Row; 2] = [copied[0], ("product_left", "spatial", "2 axes as one vector loop")];
    let cases: [(PrimFunc, &[Row]); 5] = [
        (narrow_product(index([64, 96, 80]), bytes, false), &loaded),
        // The last word has parts that are no terms; few rows are copied to where their terms are contiguous.
        (narrow_product(index([64, 96, 79]), bytes, false), &copied),
        (narrow_product(index([32, 96, 80]), bytes, false), &copied),
        (narrow_product(symbols, bytes, false), &copied),
        (narrow_product(index([64, 96, 80]), [half, half, DataType::F32], false), &wide),
    ];
    for (func, want) in cases {
        let (scheduled, applied) = schedule(&func, &MACHINE).unwrap();
        let got: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule, it.parameters.as_str())).collect();
        assert_eq!(got, want, "{scheduled}");
    }
}

#[test]
fn products_with_words_in_panels_copy_the_left_operand_only() {
    let x = placeholder("x", [64, 81].map(PrimExpr::index), DataType::BF16);
    let weight = placeholder("weight", [3, 41, 32].map(PrimExpr::index), DataType::I32);
    let layout = "NK32n".parse().unwrap();
    let y = topi::dense_pack(&x, &weight, &layout, &[64, 96].map(PrimExpr::index), DataType::BF16);
    let func = create_prim_func("f", &[x, weight], &[y]).unwrap();
    let (scheduled, applied) = schedule(&func, &Machine { bf16_dot: true, ..MACHINE }).unwrap();
    let got: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule, it.parameters.as_str())).collect();
    let want =
        [("matmul_left", "words", "neighbours to a word"), ("matmul", "contraction", "tile 8x32, in panels")];
    assert_eq!(got, want, "{scheduled}");
}

/// Vectors narrower than one element, as `-vector-bits=8` asks for, hold one element; odd and huge ones are no fault.
#[test]
fn machines_with_vectors_of_any_width_have_schedules() {
    let few = product([1, 2048, 512].map(PrimExpr::index), true);
    let of_size = |n: i64| product([n, 96, 80].map(PrimExpr::index), true);
    for vector_bits in [8, 24, 384, u32::MAX] {
        let machine = Machine { vector_bits, vector_registers: 1, ..MACHINE };
        for func in [few.clone(), of_size(49), chain(&[300, 500], [1, 0]), butterflies(8, true)] {
            let (_, applied) = schedule(&func, &machine).unwrap();
            assert!(!applied.is_empty(), "{vector_bits}: {func}");
        }
    }
}

/// Running sums, updates at given places, sorts: what depends on the iterations before keeps its order, and rows are divided.
#[test]
fn blocks_in_order_are_divided_along_their_other_axes() {
    let index = PrimExpr::index;
    let symbol = |name| PrimExpr::from(Var::index(name));
    let sums = |shape: [PrimExpr; 2], axis| {
        let zero = PrimExpr::float(0.0, DataType::F32);
        of_rows(shape, |x| topi::cumulative("sums", x, axis, false, zero, |a, b| a + b))
    };
    let updated = |axis| {
        let shape = [200, 300].map(index);
        let at = placeholder("at", shape.to_vec(), DataType::I64);
        let [x, u] = ["x", "u"].map(|name| input(name, &shape));
        let y = topi::scatter_elements(&x, &at, &u, axis, |a, b| a + b);
        create_prim_func("f", &[x, at, u], &[y]).unwrap()
    };
    let sorted = |rows| of_rows([rows, 200].map(index), |x| topi::sorted_positions(x, 1, false, x.shape()));
    let init = ("scatter_elements_init", "spatial", "2 axes as one vector loop");
    let cases: [(PrimFunc, &[Row], bool); 10] = [
        (
            sums([64, 300].map(index), 1),
            &[("sums", "ordered", "1 of 2 axes in order, 4 rows side by side")],
            true,
        ),
        (sums(["m", "n"].map(symbol), 1), &[("sums", "ordered", "1 of 2 axes in order")], true),
        (sums([3, 2000].map(index), 1), &[("sums", "ordered", "1 of 2 axes in order")], true),
        (
            sums([64, 300].map(index), 0),
            &[("sums", "ordered", "1 of 2 axes in order, vectors of pieces of 256")],
            true,
        ),
        (sums(["m", "n"].map(symbol), 0), &[("sums", "ordered", "1 of 2 axes in order")], false),
        (
            sums([3, 4].map(index), 0),
            &[("sums", "ordered", "1 of 2 axes in order, vectors of pieces of 256")],
            false,
        ),
        (updated(0), &[init, ("scatter_elements", "ordered", "1 of 2 axes in order, pieces of 256")], true),
        (updated(1), &[init, ("scatter_elements", "ordered", "1 of 2 axes in order")], true),
        (sorted(40), &[("sorted_positions", "spatial", "no contiguous axis")], true),
        (sorted(1), &[("sorted_positions", "spatial", "no contiguous axis")], false),
    ];
    for (func, want, threads) in cases {
        let (scheduled, applied) = schedule(&func, &MACHINE).unwrap();
        let got: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule, it.parameters.as_str())).collect();
        assert_eq!(got, want, "{scheduled}");
        assert_eq!(scheduled.to_string().contains("parallel"), threads, "{scheduled}");
    }
}
