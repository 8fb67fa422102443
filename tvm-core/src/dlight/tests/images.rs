//! Convolutions over images with strides, of symbolic size, in blocks, and transposed ones.

use super::*;

/// A convolution, and its maximum with 0. `layouts` are those of data, weights and result.
fn rectified(
    x: TensorExpr,
    weight: TensorExpr,
    params: &ConvParams,
    layouts: [&str; 3],
    shape: [PrimExpr; 5],
) -> PrimFunc {
    let [data, kernel, out] = layouts.map(|it| it.parse().unwrap());
    let layouts = ConvLayouts { letters: "NCHW".into(), data, kernel, out };
    let conv = topi::conv("conv2d", &x, &weight, params, &layouts, &shape, DataType::F32);
    let relu = compute("relu", shape, &[&conv], |i: &[PrimExpr]| {
        conv.at(i.to_vec()).max(PrimExpr::float(0.0, DataType::F32))
    });
    create_prim_func("f", &[x, weight], &[relu]).unwrap()
}

/// A convolution of 3×3 with stride 2 over images of `size` with 16 channels in one block, of each channel or of all, and its
/// maximum with 0.
fn strided(size: [PrimExpr; 2], depthwise: bool) -> PrimFunc {
    let [height, width] = size;
    let batch = PrimExpr::from(Var::index("n"));
    let x = input("x", &[batch.clone(), 1.into(), height.clone(), width.clone(), 16.into()]);
    let kernel: &[i64] = if depthwise { &[1, 1, 3, 3, 16] } else { &[1, 1, 3, 3, 16, 16] };
    let weight = input("weight", &kernel.iter().map(|&it| PrimExpr::index(it)).collect::<Vec<_>>());
    let [pads, ones] = [vec![1; 2], vec![1; 2]];
    let (strides, groups) = (vec![2; 2], if depthwise { 16 } else { 1 });
    let params = ConvParams {
        strides,
        pad_before: pads.clone(),
        pad_after: pads,
        dilation: ones,
        groups,
        skip_padding: false,
    };
    let kernel = if depthwise { "OIHW16o" } else { "OIHW16i16o" };
    let half = |extent: PrimExpr| simplify_dim(&((extent - 1i64).floordiv(2) + 1i64));
    let shape = [batch, 1.into(), half(height), half(width), 16.into()];
    rectified(x, weight, &params, ["NCHW16c", kernel, "NCHW16c"], shape)
}

/// The elements of plain images that windows of 1×1 with strides read are copied side by side before channels in blocks use them.
#[test]
fn strided_pixels_of_plain_images_are_picked_first() {
    let [x, weight] = [("x", &[1, 8, 15, 28][..]), ("weight", &[2, 8, 1, 1, 16])]
        .map(|(name, shape)| input(name, &shape.iter().map(|&it| PrimExpr::index(it)).collect::<Vec<_>>()));
    let [strides, ones, pads] = [vec![2, 1], vec![1; 2], vec![0; 2]];
    let params = ConvParams {
        strides,
        pad_before: pads.clone(),
        pad_after: pads,
        dilation: ones,
        groups: 1,
        skip_padding: false,
    };
    let [data, kernel, out] = ["NCHW", "OIHW16o", "NCHW16c"].map(|it| it.parse().unwrap());
    let layouts = ConvLayouts { letters: "NCHW".into(), data, kernel, out };
    let shape = [1, 2, 8, 28, 16].map(PrimExpr::index);
    let conv = topi::conv("conv2d", &x, &weight, &params, &layouts, &shape, DataType::F32);
    let (_, applied) = schedule(&create_prim_func("f", &[x, weight], &[conv]).unwrap(), &MACHINE).unwrap();
    let got: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
    assert_eq!(got, [("pixels", "spatial"), ("conv2d", "contraction")]);
}

/// Images of symbolic size, and such that are results of windows themselves: the rules are those of constant extents. Padding in front of
/// depthwise windows with strides is only computed in bands where the extents are constant.
#[test]
fn symbolic_images_have_the_rules_of_constant_ones() {
    let dims = || ["h", "w"].map(|name| PrimExpr::from(Var::index(name)));
    let half = |extent: PrimExpr| simplify_dim(&((extent - 1i64).floordiv(2) + 1i64));
    let padded = |extent: PrimExpr| extent + 64i64;
    let sizes = [
        [64, 64].map(PrimExpr::index),
        dims(),
        dims().map(half),
        dims().map(half).map(half),
        dims().map(padded),
    ];
    for size in sizes {
        for (depthwise, rule) in [(false, "contraction"), (true, "window")] {
            let func = strided(size.clone(), depthwise);
            let (_, applied) = schedule(&func, &MACHINE).unwrap();
            let got: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
            let is_constant = size.iter().all(|extent| extent.as_int().is_some());
            let want = [("pad_temp", "window"), ("pad_temp", "spatial"), ("conv2d", rule)];
            assert_eq!(got, if is_constant && depthwise { &want[..1] } else { &want[1..] }, "{func}");
        }
    }
}

/// Rows of symbolic images are multiplied one after another by weights that stay in a cache; larger weights are not read for each row.
#[test]
fn symbolic_images_are_multiplied_row_by_row() {
    let [n, h, w] = ["n", "h", "w"].map(|name| PrimExpr::from(Var::index(name)));
    for (batch, blocks, want) in [
        (1.into(), 4, "tile 8x32, row by row of the image"),
        (n.clone(), 4, "tile 8x32, row by row of the image"),
        (n.clone(), 64, "tile 8x32"),
    ] {
        let x = input("x", &[batch.clone(), blocks.into(), h.clone(), w.clone(), 32.into()]);
        let weight = input("weight", &[blocks, blocks, 1, 1, 32, 32].map(PrimExpr::index));
        let params = ConvParams {
            strides: vec![1; 2],
            pad_before: vec![0; 2],
            pad_after: vec![0; 2],
            dilation: vec![1; 2],
            groups: 1,
            skip_padding: false,
        };
        let shape = [batch, blocks.into(), h.clone(), w.clone(), 32.into()];
        let func = rectified(x, weight, &params, ["NCHW32c", "OIHW32i32o", "NCHW32c"], shape);
        let (scheduled, applied) = schedule(&func, &MACHINE).unwrap();
        let got: Vec<_> = applied.iter().map(|it| (it.rule, &*it.parameters)).collect();
        assert_eq!(got, [("contraction", want)], "{scheduled}");
    }
}

/// Pixels of images of one row, as convolutions over one axis have them, are the columns of a product as well.
#[test]
fn pixels_of_one_row_are_columns() {
    for size in [[1, 400], [400, 1], [1, 31]] {
        let (_, applied) = schedule(&conv([1, 64, 96], size, [1, 1, 0], 1), &MACHINE).unwrap();
        let rules: Vec<(&str, &str)> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
        assert_eq!(rules.last(), Some(&("conv2d_product", "flat product")), "{size:?}");
    }
}

/// Groups of whole blocks of channels, also of one block for each group, are products in tiles, as one group is.
#[test]
fn groups_of_blocks_are_products_of_their_own() {
    for (groups, [inputs, outputs], block) in
        [(2, [12, 8], 32), (2, [4, 2], 16), (3, [3, 9], 16), (1, [4, 4], 16)]
    {
        for (stride, pad) in [(1, 1), (2, 0)] {
            let out = (13 + 2 * pad - 3) / stride + 1;
            let x = input("x", &[1, inputs, 13, 13, block].map(PrimExpr::index));
            let weight =
                input("weight", &[outputs, inputs / groups, 3, 3, block, block].map(PrimExpr::index));
            let params = ConvParams {
                strides: vec![stride; 2],
                pad_before: vec![pad; 2],
                pad_after: vec![pad; 2],
                dilation: vec![1; 2],
                groups,
                skip_padding: false,
            };
            let [blocks, kernel] = [format!("NCHW{block}c"), format!("OIHW{block}i{block}o")];
            let shape = [1, outputs, out, out, block].map(PrimExpr::index);
            let func = rectified(x, weight, &params, [&blocks, &kernel, &blocks], shape);
            let (scheduled, applied) = schedule(&func, &MACHINE).unwrap();
            let last = applied.last().map(|it| (&*it.block, it.rule));
            let sums = if groups > 1 && outputs > groups { "conv2d_sums" } else { "conv2d" };
            assert_eq!(last, Some((sums, "contraction")), "{groups} groups, stride {stride}: {scheduled}");
        }
    }
}

/// Depthwise windows over blocks of channels: a tile is one vector of channels, and bytes become floats in bands of rows of one vector
/// beside the windows that read them, also where no image fits a cache.
#[test]
fn depthwise_windows_of_bytes_are_converted_in_bands() {
    let params = |stride: i64, pad: i64| ConvParams {
        strides: vec![stride; 2],
        pad_before: vec![pad; 2],
        pad_after: vec![pad; 2],
        dilation: vec![1; 2],
        groups: 64,
        skip_padding: false,
    };
    for (size, stride, pad, tile, band) in [
        (56, 1, 1, 8, "0..56"),
        (112, 2, 1, 8, "0..112"),
        // Images as a whole, for each of two blocks of two vectors.
        (14, 1, 1, 7, "0..4"),
        (14, 1, 0, 6, "0..4"),
        (13, 1, 1, 7, "0..4"),
    ] {
        let out = (size + 2 * pad - 3) / stride + 1;
        let [data, kernel, out_layout] = ["NCHW32c", "OIHW32o", "NCHW32c"].map(|it| it.parse().unwrap());
        let layouts = ConvLayouts { letters: "NCHW".into(), data, kernel, out: out_layout };
        let x = placeholder("x", [1, 2, size, size, 32].map(PrimExpr::index), DataType::U8);
        let weight = input("weight", &[2, 1, 3, 3, 32].map(PrimExpr::index));
        let shape = [1, 2, out, out, 32].map(PrimExpr::index);
        let conv = topi::conv("conv", &x, &weight, &params(stride, pad), &layouts, &shape, DataType::F32);
        let func = create_prim_func("f", &[x, weight], &[conv]).unwrap();
        let (scheduled, applied) = schedule(&func, &MACHINE).unwrap();
        let rules: Vec<(&str, &str)> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
        assert_eq!(rules, [("converted", "window")], "{size}: {scheduled}");
        let want = format!("tile {tile}x16 of windows of 9, inside of `conv`");
        assert_eq!(applied[0].parameters, want, "{size}: {scheduled}");
        let text = scheduled.to_string();
        let parallel =
            text.lines().skip_while(|line| !line.contains("#[parallel]")).nth(1).unwrap_or_default();
        assert!(parallel.contains(&format!(" in {band} ")), "{size}: {parallel}");
    }
}

/// Windows over channels in blocks read a band of padded rows, whatever the size of the image. Where rows in the padding are left
/// out, the condition is decided once for a row of a window.
#[test]
fn padding_of_symbolic_images_is_computed_in_bands() {
    let [h, w] = ["h", "w"].map(|name| PrimExpr::from(Var::index(name)));
    let half = |extent: &PrimExpr| simplify_dim(&((extent - 1i64).floordiv(2) + 1i64));
    let smaller = half(&half(&h));
    for skip_padding in [false, true] {
        for height in [&h, &half(&h), &smaller, &half(&half(&smaller))] {
            padding_in_bands(skip_padding, height.clone(), w.clone());
        }
    }
}

fn padding_in_bands(skip_padding: bool, h: PrimExpr, w: PrimExpr) {
    let shape = [1.into(), 3.into(), h, w, 32.into()];
    let x = input("x", &shape);
    let weight = input("weight", &[3, 1, 5, 5, 32].map(PrimExpr::index));
    let [pads, ones] = [vec![2; 2], vec![1; 2]];
    let params = ConvParams {
        strides: ones.clone(),
        pad_before: pads.clone(),
        pad_after: pads,
        dilation: ones,
        groups: 96,
        skip_padding,
    };
    let [data, kernel, out] = ["NCHW32c", "OIHW32o", "NCHW32c"].map(|it| it.parse().unwrap());
    let layouts = ConvLayouts { letters: "NCHW".into(), data, kernel, out };
    let conv = topi::conv("conv2d", &x, &weight, &params, &layouts, &shape, DataType::F32);
    let (scheduled, applied) =
        schedule(&create_prim_func("f", &[x, weight], &[conv]).unwrap(), &MACHINE).unwrap();
    let got: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
    assert_eq!(got, [("pad_temp", "window")], "{scheduled}");
    let text = scheduled.to_string();
    assert_eq!(text.matches("#[parallel]").count(), 1, "{text}");
    assert!(text.contains("grid([1, 1, 12, "), "12 padded rows for 8 of the result: {text}");
    let order = if skip_padding { "for [kh, kw, ci, i3_1] in" } else { "for [kw, kh, ci, i3_1] in" };
    assert!(text.contains(order), "{text}");
    let context = PassContext::new().target("llvm -cpu=x86-64-v4".parse().unwrap());
    let passes = lower_tir();
    let narrowed = passes.parts().iter().take_while(|it| it.info.name != "PartitionChoices");
    let module = narrowed
        .fold(IRModule::from_prim_func(scheduled), |module, pass| pass.apply_in(module, &context).unwrap());
    let text = module.to_string();
    // Between the loops over rows and over columns of a window.
    let rows = text.lines().skip_while(|line| !line.contains("for kh in 0..5")).nth(1).unwrap_or_default();
    assert_eq!(rows.contains("if "), skip_padding, "{text}");
}

/// Transposed convolutions are products of pixels for each phase.
#[test]
fn transposed_convolutions_are_products() {
    for [height, width] in [[20.into(), 20.into()], ["h", "w"].map(|name| PrimExpr::from(Var::index(name)))] {
        let x = input("x", &[1.into(), 24.into(), height.clone(), width.clone()]);
        let weight = input("weight", &[24, 8, 2, 2].map(PrimExpr::index));
        let [zeros, ones] = [vec![0; 2], vec![1; 2]];
        let (strides, pad_before) = (vec![2; 2], zeros.clone());
        let params = ConvParams {
            strides,
            pad_before,
            pad_after: zeros,
            dilation: ones,
            groups: 1,
            skip_padding: false,
        };
        let shape = [1.into(), 8.into(), height * 2i64, width * 2i64];
        let y = topi::conv_transpose("y", &x, &weight, &params, &shape, DataType::F32);
        let (_, applied) = schedule(&create_prim_func("f", &[x, weight], &[y]).unwrap(), &MACHINE).unwrap();
        let got: Vec<_> = applied.iter().map(|it| (&*it.block, it.rule)).collect();
        assert_eq!(got, [("y_phases", "contraction"), ("y", "spatial")]);
    }
}

/// A convolution over channels in blocks of 32, and its maximum with 0.
fn in_blocks([blocks, out]: [i64; 2], size: [i64; 2], window: i64, batch: i64) -> PrimFunc {
    let [height, width] = size;
    let x = input("x", &[batch, blocks, height, width, 32].map(PrimExpr::index));
    let weight = input("weight", &[out, blocks, window, window, 32, 32].map(PrimExpr::index));
    let [pads, ones] = [vec![window / 2; 2], vec![1; 2]];
    let (strides, dilation, pad_before) = (ones.clone(), ones, pads.clone());
    let params =
        ConvParams { strides, pad_before, pad_after: pads, dilation, groups: 1, skip_padding: false };
    let shape = [batch, out, height, width, 32].map(PrimExpr::index);
    rectified(x, weight, &params, ["NCHW32c", "OIHW32i32o", "NCHW32c"], shape)
}

/// Threads take rows of the image where its values are more than the weights, and the weights stay in a cache; else they take channels.
/// Of many images, they take images.
#[test]
fn convolutions_are_divided_by_rows_of_the_image() {
    let machine = Machine { cores: 2, l2_bytes: 1 << 20, ..MACHINE };
    for (channels, size, window, batch, want) in [
        ([4, 4], [56, 56], 1, 1, Some(4)),
        ([4, 4], [56, 56], 3, 1, None),
        ([4, 2], [28, 28], 3, 1, Some(2)),
        ([2, 2], [13, 11], 1, 1, Some(13)),
        ([32, 64], [7, 7], 1, 1, None),
        ([4, 4], [56, 56], 1, 8, None),
    ] {
        let (scheduled, applied) = schedule(&in_blocks(channels, size, window, batch), &machine).unwrap();
        let conv = applied.iter().find(|it| &*it.block == "conv2d").unwrap();
        let got = conv.parameters.split_once("x32, ").map(|(_, it)| it.to_string());
        let want = want.map(|count: i64| format!("{count} parts of the image"));
        assert_eq!(got, want, "{channels:?}, {size:?}, {window}: {scheduled}");
    }
}

/// The loop that threads share, by the axes of the result in the order of their loops: rows in front of blocks of channels.
#[test]
fn kernels_on_images_are_divided_by_rows_as_well() {
    let image = |batch: PrimExpr| {
        let [blocks, height, width, block] = [4, 28, 28, 32].map(PrimExpr::index);
        input("x", &[batch, blocks, height, width, block])
    };
    let scaled = |batch| {
        let (x, scale) = (image(batch), input("scale", &[1, 4, 1, 1, 32].map(PrimExpr::index)));
        let y = compute("y", x.shape(), &[&x, &scale], |i: &[PrimExpr]| {
            let [zero, channels] = [PrimExpr::index(0), i[1].clone()];
            x.at(i.to_vec()) * scale.at([zero.clone(), channels, zero.clone(), zero, i[4].clone()])
        });
        create_prim_func("f", &[x, scale], &[y]).unwrap()
    };
    let joined = || {
        let x = image(1.into());
        let shape = [1, 8, 28, 28, 32].map(PrimExpr::index);
        let y = topi::concat(&[x.clone(), x.clone()], 1, &shape);
        create_prim_func("f", &[x], &[y]).unwrap()
    };
    let transformed = |batch: PrimExpr| {
        let x = image(batch.clone());
        let shape = [6.into(), 6.into(), 4.into(), batch, 7.into(), 7.into(), 32.into()];
        let winograd = topi::Winograd::of(4).unwrap();
        let y = topi::winograd_data("y", &x, &winograd, ([1, 1], [1, 1]), &shape);
        create_prim_func("f", &[x], &[y]).unwrap()
    };
    let unknown = PrimExpr::from(Var::index("n"));
    for (func, want) in [
        (scaled(1.into()), "i0_i2_i1_fused"),
        (scaled(unknown.clone()), "i0_i2_i1_fused"),
        (joined(), "i0_i2_i1_fused"),
        (transformed(1.into()), "i4_i2_i3_fused"),
        // Images first, if there may be many.
        (transformed(unknown), "i3_i4_i2_fused"),
    ] {
        let (scheduled, _) = schedule(&func, &MACHINE).unwrap();
        let text = scheduled.to_string();
        assert!(text.contains("#[parallel]") && text.contains(&format!("for {want} in ")), "{want}: {text}");
    }
}

/// In a convolution by Winograd's algorithm, all that is transformed is computed for some rows of tiles at a time, which stay in the cache
/// with the weights, by as many threads as there are.
#[test]
fn winograd_runs_over_rows_of_tiles() {
    let winograd = topi::Winograd::of(4).unwrap();
    let machine = Machine { l2_bytes: 1 << 20, cores: 2, ..MACHINE };
    let unknown = PrimExpr::from(Var::index("n"));
    let known = |size: [i64; 2]| size.map(PrimExpr::index);
    let unknown_size = ["h", "w"].map(|name| PrimExpr::from(Var::index(name)));
    for (batch, size, columns, blocks, want) in [
        (1.into(), known([56, 56]), None, [4, 1], "1 rows of tiles at a time, tile 14x32"),
        (1.into(), known([28, 28]), None, [4, 1], "2 rows of tiles at a time, tile 7x32"),
        (unknown.clone(), known([28, 28]), None, [4, 1], "2 rows of tiles at a time, tile 7x32"),
        // No tile of the product divides 15.
        (1.into(), known([56, 60]), None, [4, 1], "8 columns of 1 rows of tiles at a time, tile 8x32"),
        (unknown, unknown_size, Some(8), [4, 1], "8 columns of 1 rows of tiles at a time, tile 8x32"),
    ] {
        let [height, width] = size;
        let [of_data, of_result] = blocks.map(PrimExpr::index);
        let x = input("x", &[batch.clone(), of_data.clone(), height.clone(), width.clone(), 32.into()]);
        let weight = [6.into(), 6.into(), of_result.clone(), of_data, 32.into(), 32.into()];
        let weight = input("weight", &weight);
        let shape = [batch, of_result, height, width, 32.into()];
        let conv = topi::winograd_conv("conv", [&x, &weight], &winograd, ([1, 1], [1, 1]), columns, &shape);
        let relu = compute("relu", shape, &[&conv], |i: &[PrimExpr]| {
            conv.at(i.to_vec()).max(PrimExpr::float(0.0, DataType::F32))
        });
        let (scheduled, applied) =
            schedule(&create_prim_func("f", &[x, weight], &[relu]).unwrap(), &machine).unwrap();
        let got: Vec<_> = applied.iter().map(|it| (it.rule, &*it.parameters)).collect();
        assert_eq!(got, [("winograd", want)], "{scheduled}");
    }
}
