//! The rows of the comparison.

use tvm_peers::{Group, Limit, Measure, Row, Work};

/// The groups in order.
pub(crate) const GROUPS: &[Group] = &[
    Group::new(
        "f32 matmul",
        "per shape the best peer: geometric mean ≤ 1.00, none > 1.10; few rows ≤ 0.90; 90 % of the peak at 512³ and 1024³ on one \
         core; 90 % of the bandwidth with one row",
        Some(1.0),
    ),
    Group::new("f32 matmul, m symbolic", "our build for each m: ≤ 1.10", None),
    Group::new("f32 matmul with an epilogue", "our bare matmul: ≤ 1.03", None),
    Group::new("convolutions of resnet50", "the best peer: geometric mean ≤ 0.80, none > 1.00", Some(0.8)),
    Group::new("convolutions of mobilenet", "the best peer: geometric mean ≤ 0.80, none > 1.00", Some(0.8)),
    Group::new(
        "the 53 convolutions of resnet50 in sequence",
        "the whole network of the best peer: ≤ 0.90",
        None,
    ),
    Group::new(
        "bound by memory",
        "the best peer: ≤ 0.80, layer norm ≤ 0.65; 90 % of the bandwidth where memory binds",
        None,
    ),
    Group::new("attention, 12 heads of width 64", "the best peer: ≤ 1.00", None),
    Group::new("int8 and bf16 matmul", "the best peer: ≤ 1.00", None),
    Group::new("compile time of a matmul", "≤ 150 ms from the graph to the loaded kernel", None),
];

/// All rows.
///
/// # Errors
/// Of a kernel's text; none, as a test shows.
pub(crate) fn rows() -> Result<Vec<Row>, String> {
    let mut res = Vec::new();
    for add in [matmul, symbolic, fused, resnet, mobilenet, memory, attention, narrow, compile] {
        add(&mut res)?;
    }
    Ok(res)
}

type Extents = (u64, u64, u64);

/// Extents m, n, k of the products.
const PRODUCTS: [Extents; 10] = [
    (128, 128, 128),
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (512, 384, 384),
    (512, 1536, 384),
    (512, 384, 1536),
    (16, 4096, 4096),
    (1, 4096, 4096),
];

const PEERS_OF_PRODUCTS: [&str; 10] =
    ["gemm", "faer", "matrixmultiply", "candle", "rten", "ort", "openvino", "numpy", "jax", "torch"];

/// A product with further options.
fn product((m, n, k): Extents, options: &str) -> Result<Work, String> {
    format!("matmul:{m}x{n}x{k}{options}").parse()
}

/// The row of a kernel under another name.
fn named(group: usize, name: impl Into<String>, kernel: &Work) -> Row {
    Row { name: name.into(), ..kernel.row(group) }
}

fn name((m, n, k): Extents) -> String {
    if m == n && n == k { format!("{m}³") } else { format!("{m}×{n}×{k}") }
}

fn matmul(rows: &mut Vec<Row>) -> Result<(), String> {
    for (i, extents) in PRODUCTS.into_iter().chain(PRODUCTS).enumerate() {
        let constant = i >= PRODUCTS.len();
        let few = extents.0 <= 16;
        let kernel = product(extents, if constant { ",constant" } else { "" })?;
        let title = name(extents) + if constant { ", right operand constant" } else { "" };
        let row = named(0, title, &kernel).ratio(if few { 0.9 } else { 1.1 }).ours(&kernel);
        let mut row = if constant {
            row.peers(&["ort", "openvino", "rten"], &kernel).long(!few && extents.0 != 1024)
        } else {
            row.peers(&PEERS_OF_PRODUCTS, &kernel)
        };
        if extents.0 == 1 || name(extents) == "512³" || name(extents) == "1024³" {
            row = row.share(0.9);
            row.goal.one_thread = extents.0 != 1;
        }
        rows.push(row);
    }
    Ok(())
}

fn symbolic(rows: &mut Vec<Row>) -> Result<(), String> {
    for (m, long) in [(1, false), (7, true), (16, false), (64, true), (200, false), (512, false)] {
        for (n, k) in [(1536, 384), (4096, 4096)] {
            let kernel = product((m, n, k), ",symbolic")?;
            let row = named(1, format!("{m} of m×{n}×{k}"), &kernel).ratio(1.1).ours(&kernel);
            let row = row.against("tvm, m static", &product((m, n, k), "")?);
            rows.push(row.long(long || m > 16 && n == 4096));
        }
    }
    Ok(())
}

fn fused(rows: &mut Vec<Row>) -> Result<(), String> {
    for extents in [(512, 1536, 384), (512, 384, 1536), (1024, 1024, 1024)] {
        for (then, title) in [("gelu", "bias, gelu"), ("relu_residual", "bias, relu, residual")] {
            let kernel = product(extents, &format!(",constant,then={then}"))?;
            let row = named(2, format!("{} + {title}", name(extents)), &kernel).ratio(1.03).ours(&kernel);
            let row = row.against("tvm, bare", &product(extents, ",constant")?);
            rows.push(Row { tolerance: None, ..row.long(extents.0 == 1024) });
        }
    }
    Ok(())
}

/// A convolution: channels in and out, extent of the image, of the kernel, stride; groups as many as channels, or one.
fn conv(
    rows: &mut Vec<Row>,
    group: usize,
    (from, to, size, width, stride): (u64, u64, u64, u64, u64),
    groups: u64,
) -> Result<(), String> {
    let kernel: Work =
        format!("conv:{from}x{to}x{size},kernel={width},stride={stride},groups={groups}").parse()?;
    rows.push(kernel.row(group).ratio(1.0).ours(&kernel).peers(&["ort", "openvino"], &kernel));
    Ok(())
}

fn resnet(rows: &mut Vec<Row>) -> Result<(), String> {
    conv(rows, 3, (3, 64, 224, 7, 2), 1)?;
    let (mut from, mut size) = (64, 56);
    for width in [64, 128, 256, 512] {
        let stride = if width == 64 { 1 } else { 2 };
        conv(rows, 3, (from, width, size, 1, stride), 1)?;
        if width > 64 {
            conv(rows, 3, (from, 4 * width, size, 1, stride), 1)?;
        }
        size /= stride;
        conv(rows, 3, (width, width, size, 3, 1), 1)?;
        conv(rows, 3, (width, 4 * width, size, 1, 1), 1)?;
        conv(rows, 3, (4 * width, width, size, 1, 1), 1)?;
        from = 4 * width;
    }
    let (ours, network): (Work, Work) = ("resnet50_convs".parse()?, "resnet50".parse()?);
    let row = named(5, "53 convolutions", &ours).ratio(0.9).ours(&ours);
    let row = row.peer("ort", "ort, whole network", &network);
    let row = row.peer("openvino", "openvino, whole network", &network);
    rows.push(Row { tolerance: None, ..row });
    Ok(())
}

fn mobilenet(rows: &mut Vec<Row>) -> Result<(), String> {
    let layers = [
        (32, 64, 112, 1),
        (64, 128, 112, 2),
        (128, 128, 56, 1),
        (128, 256, 56, 2),
        (256, 256, 28, 1),
        (256, 512, 28, 2),
        (512, 512, 14, 1),
        (512, 1024, 14, 2),
        (1024, 1024, 7, 1),
    ];
    for (from, to, size, stride) in layers {
        conv(rows, 4, (from, from, size, 3, stride), from)?;
        conv(rows, 4, (from, to, size / stride, 1, 1), 1)?;
    }
    Ok(())
}

fn memory(rows: &mut Vec<Row>) -> Result<(), String> {
    let work = [
        ("softmax 1024²", "softmax:1024x1024", 0.8),
        ("layer norm 512×768", "layernorm:512x768", 0.65),
        ("relu(a·b+c), 16 M", "chain:16777216", 0.8),
        ("transpose 4096²", "transpose:4096x4096", 0.8),
        ("row sums 4096²", "sum:4096x4096,axis=1", 0.8),
        ("column sums 4096²", "sum:4096x4096,axis=0", 0.8),
    ];
    for (name, text, ratio) in work {
        let kernel: Work = text.parse()?;
        let row = named(6, name, &kernel).ratio(ratio).ours(&kernel);
        let row = row.peers(&["ort", "openvino", "rten", "numpy", "jax", "iree", "torch"], &kernel);
        rows.push(if row.bytes > 16e6 { row.share(0.9) } else { row });
    }
    Ok(())
}

fn attention(rows: &mut Vec<Row>) -> Result<(), String> {
    for length in [128, 512, 2048] {
        let parts: Work = format!("attention:12x{length}x64").parse()?;
        let fused: Work = format!("attention:12x{length}x64,operator").parse()?;
        let row = named(7, format!("length {length}"), &parts).ratio(1.0).ours(&fused).ours(&parts);
        let row = row.peer("ort", "ort, operator", &fused).peer("openvino", "openvino, operator", &fused);
        let row = row.peer("ort", "ort, parts", &parts).peer("openvino", "openvino, parts", &parts);
        rows.push(row.peers(&["jax", "iree", "torch"], &parts));
    }
    Ok(())
}

fn narrow(rows: &mut Vec<Row>) -> Result<(), String> {
    let cube = |options: &str| product((1024, 1024, 1024), options);
    for (constant, suffix) in [("", ""), (",constant", ", right operand constant")] {
        let kernel = cube(&format!("{constant},dtype=int8"))?;
        let dequantized = cube(&format!("{constant},dtype=int8,dequantized"))?;
        let row = named(8, format!("int8 1024³{suffix}"), &kernel).ratio(1.0).ours(&kernel);
        let row = row.peers(&["ort", "jax", "openvino"], &kernel);
        let row = row.peer("ort", "ort, to f32", &dequantized);
        rows.push(row.peer("openvino", "openvino, to f32", &dequantized));
        let kernel = cube(&format!("{constant},dtype=bf16"))?;
        // The instruction for bf16, which the peer uses as well, does not round as f32 does.
        let relaxed = cube(&format!("{constant},dtype=bf16,fast_math"))?;
        let row = named(8, format!("bf16 1024³{suffix}"), &relaxed).ratio(1.0).ours(&relaxed);
        let row = row.peers(&["ort", "jax", "openvino-bf16"], &kernel);
        rows.push(row.peer("openvino-bf16", "openvino-bf16, f32 outside", &cube(constant)?));
    }
    Ok(())
}

fn compile(rows: &mut Vec<Row>) -> Result<(), String> {
    let kernel = product((1024, 1024, 1024), "")?;
    let mut row = named(9, "1024³", &kernel).bound(Limit::Unknown).ours(&kernel);
    row.measure = Measure::Compile;
    row.goal.seconds = Some(0.15);
    rows.push(row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let rows = rows().unwrap();
        let count = |group: usize| rows.iter().filter(|row| row.group == group).count();
        let counts: Vec<usize> = (0..GROUPS.len()).map(count).collect();
        assert_eq!(counts, [20, 12, 6, 20, 18, 1, 6, 3, 4, 1]);
        assert!(rows.iter().all(|row| row.contestants.iter().any(|it| it.label == "tvm")));
    }

    #[test]
    fn a_product_of_one_row_is_bound_by_memory() {
        let rows = rows().unwrap();
        let row = rows.iter().find(|it| it.name == "1×4096×4096").unwrap();
        assert!(row.in_bytes());
        assert!((row.rate(1.0) - 4.0 * (4096.0 * 4096.0 + 8192.0) / 1e9).abs() < 1e-9);
    }
}
