//! The rows of the comparison.

use super::row::{Limit, Measure, Row};

/// A group of rows.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    /// What it is compared with, and what is to be reached.
    pub(crate) goal: &'static str,
    /// The geometric mean of the ratios, at most.
    pub(crate) mean: Option<f64>,
}

const fn group(title: &'static str, goal: &'static str, mean: Option<f64>) -> Group {
    Group { title, goal, mean }
}

/// The groups in order.
pub(crate) const GROUPS: &[Group] = &[
    group(
        "f32 matmul",
        "per shape the best peer: geometric mean ≤ 1.00, none > 1.10; few rows ≤ 0.90; 90 % of the peak at 512³ and 1024³ on one \
         core; 90 % of the bandwidth with one row",
        Some(1.0),
    ),
    group("f32 matmul, m symbolic", "our build for each m: ≤ 1.10", None),
    group("f32 matmul with an epilogue", "our bare matmul: ≤ 1.03", None),
    group("convolutions of resnet50", "the best peer: geometric mean ≤ 0.80, none > 1.00", Some(0.8)),
    group("convolutions of mobilenet", "the best peer: geometric mean ≤ 0.80, none > 1.00", Some(0.8)),
    group("the 53 convolutions of resnet50 in sequence", "the whole network of the best peer: ≤ 0.90", None),
    group(
        "bound by memory",
        "the best peer: ≤ 0.80, layer norm ≤ 0.65; 90 % of the bandwidth where memory binds",
        None,
    ),
    group("attention, 12 heads of width 64", "the best peer: ≤ 1.00", None),
    group("int8 and bf16 matmul", "the best peer: ≤ 1.00", None),
    group("compile time of a matmul", "≤ 150 ms from the graph to the loaded kernel", None),
];

/// All rows.
pub(crate) fn rows() -> Vec<Row> {
    let mut res = Vec::new();
    matmul(&mut res);
    symbolic(&mut res);
    fused(&mut res);
    resnet(&mut res);
    mobilenet(&mut res);
    memory(&mut res);
    attention(&mut res);
    narrow(&mut res);
    res.push(compile());
    res
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

/// The specification of a product; `more` are further members, which `tag` names.
fn product((m, n, k): Extents, tag: &str, more: &str) -> String {
    format!(r#"{{"id":"matmul_{m}x{n}x{k}{tag}","kind":"matmul","m":{m},"n":{n},"k":{k}{more}}}"#)
}

const CONSTANT: (&str, &str) = ("_const", r#","constant":true"#);

fn product_row(group: usize, name: String, (m, n, k): Extents) -> Row {
    let bytes = 4 * (m * k + k * n + m * n);
    let row = Row::new(group, name, (2 * m * n * k) as f64, bytes as f64);
    if m == 1 { row.bound(Limit::Read) } else { row }
}

fn name((m, n, k): Extents) -> String {
    if m == n && n == k { format!("{m}³") } else { format!("{m}×{n}×{k}") }
}

fn matmul(rows: &mut Vec<Row>) {
    for (i, extents) in PRODUCTS.into_iter().chain(PRODUCTS).enumerate() {
        let constant = i >= PRODUCTS.len();
        let few = extents.0 <= 16;
        let (tag, more) = if constant { CONSTANT } else { ("", "") };
        let spec = product(extents, tag, more);
        let title = name(extents) + if constant { ", right operand constant" } else { "" };
        let row = product_row(0, title, extents).ratio(if few { 0.9 } else { 1.1 }).ours(&spec);
        let mut row = if constant {
            row.peers(&["ort", "openvino", "rten"], &spec).long(!few && extents.0 != 1024)
        } else {
            let peers = [
                "gemm",
                "faer",
                "matrixmultiply",
                "candle",
                "rten",
                "ort",
                "openvino",
                "numpy",
                "jax",
                "torch",
            ];
            row.peers(&peers, &spec)
        };
        if extents.0 == 1 || name(extents) == "512³" || name(extents) == "1024³" {
            row = row.share(0.9);
            row.goal.one_thread = extents.0 != 1;
        }
        rows.push(row);
    }
}

fn symbolic(rows: &mut Vec<Row>) {
    for (m, long) in [(1, false), (7, true), (16, false), (64, true), (200, false), (512, false)] {
        for (n, k) in [(1536, 384), (4096, 4096)] {
            let extents = (m, n, k);
            let row = product_row(1, format!("{m} of m×{n}×{k}"), extents).ratio(1.1);
            let row = row.ours(&product(extents, "_symbolic", r#","symbolic":true"#));
            rows.push(
                row.against("tvm, m static", &product(extents, "", "")).long(long || m > 16 && n == 4096),
            );
        }
    }
}

fn fused(rows: &mut Vec<Row>) {
    let (tag, constant) = CONSTANT;
    for extents in [(512, 1536, 384), (512, 384, 1536), (1024, 1024, 1024)] {
        for (then, title) in [("gelu", "bias, gelu"), ("relu_residual", "bias, relu, residual")] {
            let more = format!(r#"{constant},"then":"{then}""#);
            let row = product_row(2, format!("{} + {title}", name(extents)), extents).ratio(1.03);
            let row = row.ours(&product(extents, &format!("{tag}_{then}"), &more));
            let mut row = row.against("tvm, bare", &product(extents, tag, constant)).long(extents.0 == 1024);
            row.tolerance = None;
            rows.push(row);
        }
    }
}

/// A convolution: channels in and out, extent of the image, of the kernel, stride; groups as many as channels, or one.
fn conv(group: usize, (from, to, size, kernel, stride): (u64, u64, u64, u64, u64), depthwise: bool) -> Row {
    let groups = if depthwise { from } else { 1 };
    let out = (size + 2 * (kernel / 2) - kernel) / stride + 1;
    let weights = to * (from / groups) * kernel * kernel;
    let bytes = 4 * (from * size * size + weights + to * out * out);
    let spec = format!(
        r#"{{"id":"conv_{from}_{to}_{size}_{kernel}_{stride}_{groups}","kind":"conv","in":{from},"out":{to},"size":{size},"kernel":{kernel},"stride":{stride},"groups":{groups}}}"#
    );
    let step = if stride == 1 { String::new() } else { format!(", stride {stride}") };
    let name = if depthwise {
        format!("depthwise {from}, {size}², {kernel}×{kernel}{step}")
    } else {
        format!("{from}→{to}, {size}², {kernel}×{kernel}{step}")
    };
    let row = Row::new(group, name, (2 * weights * out * out) as f64, bytes as f64).ratio(1.0);
    row.ours(&spec).peers(&["ort", "openvino"], &spec)
}

fn resnet(rows: &mut Vec<Row>) {
    rows.push(conv(3, (3, 64, 224, 7, 2), false));
    let (mut from, mut size) = (64, 56);
    for width in [64, 128, 256, 512] {
        let stride = if width == 64 { 1 } else { 2 };
        rows.push(conv(3, (from, width, size, 1, stride), false));
        if width > 64 {
            rows.push(conv(3, (from, 4 * width, size, 1, stride), false));
        }
        size /= stride;
        rows.push(conv(3, (width, width, size, 3, 1), false));
        rows.push(conv(3, (width, 4 * width, size, 1, 1), false));
        rows.push(conv(3, (4 * width, width, size, 1, 1), false));
        from = 4 * width;
    }
    let network = r#"{"id":"resnet50","kind":"resnet50"}"#;
    let flops = 2.0 * 3_855_925_248.0;
    let mut row = Row::new(5, "53 convolutions", flops, 4.0 * 25.5e6).ratio(0.9);
    row.tolerance = None;
    let row = row.ours(r#"{"id":"resnet50_convs","kind":"resnet50_convs"}"#);
    rows.push(row.peer("ort", "ort, whole network", network).peer(
        "openvino",
        "openvino, whole network",
        network,
    ));
}

fn mobilenet(rows: &mut Vec<Row>) {
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
        rows.push(conv(4, (from, from, size, 3, stride), true));
        rows.push(conv(4, (from, to, size / stride, 1, 1), false));
    }
}

fn memory(rows: &mut Vec<Row>) {
    let mut add = |name: &str, (flops, bytes): (f64, f64), limit, ratio, spec: &str| {
        let row = Row::new(6, name, flops, 4.0 * bytes).bound(limit).ratio(ratio).ours(spec);
        let row = row.peers(&["ort", "openvino", "rten", "numpy", "jax", "iree", "torch"], spec);
        rows.push(if bytes > 4e6 { row.share(0.9) } else { row });
    };
    let mib = f64::from(1 << 20);
    let square = r#""shape":[4096,4096]"#;
    let softmax = r#"{"id":"softmax","kind":"softmax","shape":[1024,1024]}"#;
    add("softmax 1024²", (0.0, 2.0 * mib), Limit::Copy, 0.8, softmax);
    let norm = r#"{"id":"layernorm","kind":"layernorm","shape":[512,768]}"#;
    add("layer norm 512×768", (0.0, 2.0 * 512.0 * 768.0), Limit::Copy, 0.65, norm);
    let chain = r#"{"id":"chain_16m","kind":"chain","n":16777216}"#;
    add("relu(a·b+c), 16 M", (48.0 * mib, 64.0 * mib), Limit::Copy, 0.8, chain);
    let transpose = format!(r#"{{"id":"transpose","kind":"transpose",{square}}}"#);
    add("transpose 4096²", (0.0, 32.0 * mib), Limit::Copy, 0.8, &transpose);
    for (axis, name) in [(1, "row sums 4096²"), (0, "column sums 4096²")] {
        let spec = format!(r#"{{"id":"sum_{axis}","kind":"sum",{square},"axis":{axis}}}"#);
        add(name, (16.0 * mib, 16.0 * mib), Limit::Read, 0.8, &spec);
    }
}

fn attention(rows: &mut Vec<Row>) {
    for length in [128u64, 512, 2048] {
        let spec = |tag: &str, more: &str| {
            format!(
                r#"{{"id":"attention_{length}{tag}","kind":"attention","heads":12,"length":{length},"width":64{more}}}"#
            )
        };
        let (fused, parts) = (spec("_op", r#","operator":true"#), spec("", ""));
        let flops = 4 * 12 * length * length * 64;
        let bytes = 4 * 4 * 12 * length * 64;
        let row = Row::new(7, format!("length {length}"), flops as f64, bytes as f64).ratio(1.0);
        let row = row.ours(&fused).ours(&parts);
        let row = row.peer("ort", "ort, operator", &fused).peer("openvino", "openvino, operator", &fused);
        let row = row.peer("ort", "ort, parts", &parts).peer("openvino", "openvino, parts", &parts);
        rows.push(row.peers(&["jax", "iree", "torch"], &parts));
    }
}

fn narrow(rows: &mut Vec<Row>) {
    let extents = (1024, 1024, 1024);
    for (constant, suffix) in [(false, ""), (true, ", right operand constant")] {
        let (tag, more) = if constant { CONSTANT } else { ("", "") };
        for dtype in ["int8", "bf16"] {
            let spec = product(extents, &format!("{tag}_{dtype}"), &format!(r#"{more},"dtype":"{dtype}""#));
            let mut row = product_row(8, format!("{dtype} 1024³{suffix}"), extents).bound(Limit::Unknown);
            let relaxed = product(
                extents,
                &format!("{tag}_{dtype}_fast_math"),
                &format!(r#"{more},"dtype":"{dtype}","fast_math":true"#),
            );
            // The instruction for bf16, which the peer uses as well, does not round as f32 does.
            let ours = if dtype == "bf16" { relaxed } else { spec.clone() };
            row = row.ratio(1.0).ours(&ours).peers(&["ort", "jax"], &spec);
            row = if dtype == "int8" {
                let dequantized = product(
                    extents,
                    &format!("{tag}_dq"),
                    &format!(r#"{more},"dtype":"int8","dequantized":true"#),
                );
                let row = row.peers(&["openvino"], &spec).peer("ort", "ort, to f32", &dequantized);
                row.peer("openvino", "openvino, to f32", &dequantized)
            } else {
                row.tolerance = Some(3e-2);
                let wide = product(extents, tag, more);
                row.peers(&["openvino-bf16"], &spec).peer(
                    "openvino-bf16",
                    "openvino-bf16, f32 outside",
                    &wide,
                )
            };
            rows.push(row);
        }
    }
}

fn compile() -> Row {
    let mut row = product_row(9, "1024³".to_string(), (1024, 1024, 1024)).bound(Limit::Unknown);
    row.measure = Measure::Compile;
    row.goal.seconds = Some(0.15);
    row.ours(&product((1024, 1024, 1024), "", ""))
}

#[cfg(test)]
mod tests {
    use super::super::json::Json;
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let rows = rows();
        let count = |group: usize| rows.iter().filter(|row| row.group == group).count();
        let counts: Vec<usize> = (0..GROUPS.len()).map(count).collect();
        assert_eq!(counts, [20, 12, 6, 20, 18, 1, 6, 3, 4, 1]);
        assert!(rows.iter().all(|row| row.contestants.iter().any(|it| it.label == "tvm")));
    }

    #[test]
    fn specifications_are_json_and_their_names_determine_them() {
        let mut seen = std::collections::HashMap::new();
        for contestant in rows().iter().flat_map(|row| &row.contestants) {
            let id = Json::parse(&contestant.spec).unwrap().get("id").text().unwrap().to_string();
            assert_eq!(seen.entry(id).or_insert_with(|| contestant.spec.clone()), &contestant.spec);
        }
    }

    #[test]
    fn a_product_of_one_row_is_bound_by_memory() {
        let rows = rows();
        let row = rows.iter().find(|it| it.name == "1×4096×4096").unwrap();
        assert!(row.in_bytes());
        assert!((row.rate(1.0) - 4.0 * (4096.0 * 4096.0 + 8192.0) / 1e9).abs() < 1e-9);
    }
}
