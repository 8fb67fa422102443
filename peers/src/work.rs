//! Kernels by name: `matmul:512x384x1536,constant` and the like.

use serde_json::{Map, Value, json};

use crate::row::{Limit, Row};

/// A kernel that every program can be asked for, with the work that it is.
///
/// The text is `KIND:EXTENTS,OPTION,…`, where an option is `NAME` or `NAME=VALUE`:
///
/// | kind | extents | options |
/// |---|---|---|
/// | `matmul` | m, n, k | `constant` (right operand), `symbolic` (m), `dtype=f32\|int8\|bf16`, `then=gelu\|relu_residual`, `dequantized`, `fast_math` |
/// | `conv` | channels in, channels out, height and width of the image | `kernel` (3), `stride` (1), `groups` (1) |
/// | `softmax`, `layernorm`, `transpose` | rows, columns | |
/// | `sum` | rows, columns | `axis` (1) |
/// | `chain` | elements of relu(a·b+c) | |
/// | `attention` | heads, length, width | `operator` (one ONNX operator instead of its parts) |
/// | `resnet50` | – | `batch` (1) |
/// | `resnet50_convs` | – | |
/// | `minilm` | sentences, words of each | |
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Kind and extents, for people.
    pub name: String,
    /// Operations of the direct form: an addition or a multiplication counts one.
    pub flops: f64,
    /// Bytes that must be read and written.
    pub bytes: f64,
    /// What bounds it from below.
    pub limit: Limit,
    /// How far results may be apart, as a share of the largest.
    pub tolerance: f64,
    spec: String,
}

/// What is known about a kind.
struct Kind {
    name: &'static str,
    extents: &'static [&'static str],
    options: &'static [(&'static str, Takes)],
}

/// What an option takes.
enum Takes {
    Nothing,
    Number,
    One(&'static [&'static str]),
}

const fn kind(
    name: &'static str,
    extents: &'static [&'static str],
    options: &'static [(&'static str, Takes)],
) -> Kind {
    Kind { name, extents, options }
}

const KINDS: &[Kind] = &[
    kind(
        "matmul",
        &["m", "n", "k"],
        &[
            ("constant", Takes::Nothing),
            ("symbolic", Takes::Nothing),
            ("dtype", Takes::One(&["f32", "int8", "bf16"])),
            ("then", Takes::One(&["gelu", "relu_residual"])),
            ("dequantized", Takes::Nothing),
            ("fast_math", Takes::Nothing),
        ],
    ),
    kind(
        "conv",
        &["in", "out", "size"],
        &[("kernel", Takes::Number), ("stride", Takes::Number), ("groups", Takes::Number)],
    ),
    kind("softmax", &["rows", "columns"], &[]),
    kind("layernorm", &["rows", "columns"], &[]),
    kind("transpose", &["rows", "columns"], &[]),
    kind("sum", &["rows", "columns"], &[("axis", Takes::Number)]),
    kind("chain", &["n"], &[]),
    kind("attention", &["heads", "length", "width"], &[("operator", Takes::Nothing)]),
    kind("resnet50", &[], &[("batch", Takes::Number)]),
    kind("minilm", &["batch", "length"], &[]),
    kind("resnet50_convs", &[], &[]),
];

impl std::str::FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (head, options) = text.split_once(',').map_or((text, None), |(head, rest)| (head, Some(rest)));
        let (name, extents) = head.split_once(':').unwrap_or((head, ""));
        let kind = KINDS.iter().find(|it| it.name == name).ok_or_else(|| {
            let known: Vec<&str> = KINDS.iter().map(|it| it.name).collect();
            format!("`{name}` is not a kernel; kernels are {}", known.join(", "))
        })?;
        let mut spec = Map::new();
        spec.insert("id".to_string(), json!(text.replace([':', ',', '='], "_")));
        spec.insert("kind".to_string(), json!(name));
        let values: Vec<&str> = extents.split('x').filter(|it| !it.is_empty()).collect();
        let expected = kind.extents.join("x");
        if values.len() != kind.extents.len() {
            return Err(format!("`{head}` has {} extents, expected `{name}:{expected}`", values.len()));
        }
        for (key, value) in kind.extents.iter().zip(values) {
            let value = extent(value).ok_or_else(|| {
                format!("extent {key} of `{head}` is `{value}`, expected a number from 1 to 2^30")
            })?;
            spec.insert((*key).to_string(), json!(value));
        }
        for option in options.into_iter().flat_map(|it| it.split(',')) {
            let (key, value) = kind.option(option)?;
            spec.insert(key.to_string(), value);
        }
        Self::of(kind, spec)
    }
}

impl Kind {
    /// Name and value of an option.
    fn option<'a>(&self, option: &'a str) -> Result<(&'a str, Value), String> {
        let (key, value) = option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
        let known: Vec<&str> = self.options.iter().map(|it| it.0).collect();
        let (_, takes) = (self.options.iter().find(|it| it.0 == key))
            .ok_or_else(|| format!("`{key}` is not an option of {}: {}", self.name, known.join(", ")))?;
        let value = match (takes, value) {
            (Takes::Nothing, None) => Some(json!(true)),
            (Takes::Number, Some(value)) => value.parse::<u64>().ok().map(|it| json!(it)),
            (Takes::One(of), Some(value)) => of.contains(&value).then(|| json!(value)),
            _ => None,
        };
        let expected = match takes {
            Takes::Nothing => String::new(),
            Takes::Number => "=NUMBER".to_string(),
            Takes::One(of) => format!("={}", of.join("|")),
        };
        let value =
            value.ok_or_else(|| format!("`{option}` of {}: expected `{key}{expected}`", self.name))?;
        Ok((key, value))
    }
}

fn extent(text: &str) -> Option<u64> {
    text.parse().ok().filter(|it| (1..=1 << 30).contains(it))
}

impl Work {
    fn of(kind: &Kind, mut spec: Map<String, Value>) -> Result<Self, String> {
        let get = |spec: &Map<String, Value>, key: &str, otherwise: u64| {
            spec.get(key).and_then(Value::as_u64).unwrap_or(otherwise)
        };
        let extents: Vec<u64> = kind.extents.iter().map(|key| get(&spec, key, 1)).collect();
        let area = extents.iter().take(2).map(|it| *it as f64).product::<f64>();
        let shown = extents.iter().map(u64::to_string).collect::<Vec<_>>().join("×");
        let mut name = format!("{} {shown}", kind.name);
        if matches!(kind.extents, ["rows", "columns"]) {
            spec.insert("shape".to_string(), json!(extents));
        }
        let (flops, bytes, limit) = match (kind.name, extents.as_slice()) {
            ("matmul", &[m, n, k]) => {
                let [m, n, k] = [m, n, k].map(|it| it as f64);
                let limit = match spec.get("dtype").and_then(Value::as_str) {
                    Some("int8") => Limit::DotInt8,
                    Some("bf16") if spec.contains_key("fast_math") => Limit::DotBf16,
                    // Without the option, products are added as f32.
                    Some("bf16") => Limit::Fma,
                    _ if m == 1.0 => Limit::Read,
                    _ => Limit::Fma,
                };
                (2.0 * m * n * k, 4.0 * (m * k + k * n + m * n), limit)
            }
            ("conv", &[from, to, size]) => {
                let (width, stride) = (get(&spec, "kernel", 3), get(&spec, "stride", 1));
                let groups = get(&spec, "groups", 1);
                let fits = stride > 0 && width > 0 && width <= size + 2 * (width / 2);
                if !fits || groups == 0 || from % groups != 0 || to % groups != 0 {
                    return Err(format!(
                        "conv {shown}: a kernel of {width} with stride {stride} and {groups} groups does not fit"
                    ));
                }
                for (key, value) in [("kernel", width), ("stride", stride), ("groups", groups)] {
                    spec.insert(key.to_string(), json!(value));
                }
                let out = ((size + 2 * (width / 2) - width) / stride + 1) as f64;
                let weights = to as f64 * (from / groups) as f64 * (width * width) as f64;
                let image = (size * size) as f64;
                name = conv_name(from, to, size, (width, stride, groups));
                let bytes = 4.0 * (from as f64 * image + weights + to as f64 * out * out);
                (2.0 * weights * out * out, bytes, Limit::Fma)
            }
            ("attention", &[heads, length, width]) => {
                let [heads, length, width] = [heads, length, width].map(|it| it as f64);
                (4.0 * heads * length * length * width, 16.0 * heads * length * width, Limit::Fma)
            }
            ("sum", _) => {
                let axis = get(&spec, "axis", 1);
                if axis > 1 {
                    return Err(format!("axis {axis} of sum {shown}, expected 0 or 1"));
                }
                spec.insert("axis".to_string(), json!(axis));
                name = format!("{} sums {shown}", ["column", "row"][axis as usize]);
                (area, 4.0 * area, Limit::Read)
            }
            ("chain", _) => {
                name = format!("relu(a·b+c) {shown}");
                (3.0 * area, 16.0 * area, Limit::Copy)
            }
            ("resnet50" | "resnet50_convs", _) => {
                let batch = get(&spec, "batch", 1);
                if !(1..=1 << 16).contains(&batch) {
                    return Err(format!("batch {batch} of {}, expected 1 to 2^16", kind.name));
                }
                name =
                    if batch == 1 { kind.name.to_string() } else { format!("{}, batch {batch}", kind.name) };
                (batch as f64 * 2.0 * 3_855_925_248.0, 4.0 * 25.5e6, Limit::Fma)
            }
            ("minilm", &[batch, length]) => {
                let [batch, length] = [batch, length].map(|it| it as f64);
                name = format!("MiniLM, batch {batch}, length {length}");
                // Six layers of width 384: products with its weights, and attention.
                let of_word = 2.0 * (4.0 * 384.0 + 2.0 * 1536.0) * 384.0 + 4.0 * length * 384.0;
                (6.0 * batch * length * of_word, 4.0 * 10.9e6, Limit::Fma)
            }
            // Softmax, layer norm, transpose.
            _ => (0.0, 8.0 * area, Limit::Copy),
        };
        let tags = kind.options.iter().filter_map(|(key, takes)| match (takes, spec.get(*key)?) {
            (Takes::Nothing, _) => Some(format!(", {key}")),
            (Takes::One(_), value) => Some(format!(", {}", value.as_str()?)),
            (Takes::Number, _) => None,
        });
        name.extend(tags);
        // One unit in the last place of bf16; the order of additions in f32.
        let tolerance = if spec.get("dtype").is_some_and(|it| it == "bf16") { 8e-3 } else { 2e-3 };
        Ok(Self { name, flops, bytes, limit, tolerance, spec: Value::Object(spec).to_string() })
    }

    /// A whole model of a kind of `networks.py`, with the fields that the kind has. Its operations are known when it is made.
    pub fn network(kind: &str, fields: &Value) -> Self {
        let fields = fields.as_object().cloned().unwrap_or_default();
        let mut id = kind.to_string();
        for (key, value) in fields.iter().filter(|(key, _)| *key != "path") {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            id += &format!("_{key}_{}", value.replace(['/', '.', '-'], "_"));
        }
        let mut spec = fields;
        spec.insert("id".to_string(), json!(id));
        spec.insert("kind".to_string(), json!(kind));
        let spec = Value::Object(spec).to_string();
        Self { name: id, flops: 0.0, bytes: 0.0, limit: Limit::Fma, tolerance: 2e-3, spec }
    }

    /// What `models.py` reads.
    pub fn spec(&self) -> &str {
        &self.spec
    }

    /// A row of this work without contestants.
    pub fn row(&self, group: usize) -> Row {
        let row = Row::new(group, &self.name, self.flops, self.bytes).bound(self.limit);
        Row { tolerance: Some(self.tolerance), ..row }
    }
}

fn conv_name(from: u64, to: u64, size: u64, (width, stride, groups): (u64, u64, u64)) -> String {
    let step = if stride == 1 { String::new() } else { format!(", stride {stride}") };
    let channels = match groups {
        1 => format!("{from}→{to}"),
        _ if groups == from && from == to => format!("depthwise {from}"),
        _ => format!("{from}→{to} in {groups} groups"),
    };
    format!("{channels}, {size}², {width}×{width}{step}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(text: &str) -> Result<Work, String> {
        text.parse()
    }

    #[test]
    fn work_of_kernels() {
        let cases = [
            ("matmul:2x3x4", "matmul 2×3×4", 48.0, 4.0 * 26.0, Limit::Fma),
            ("matmul:1x3x4,constant", "matmul 1×3×4, constant", 24.0, 4.0 * 19.0, Limit::Read),
            ("matmul:2x3x4,dtype=int8", "matmul 2×3×4, int8", 48.0, 4.0 * 26.0, Limit::DotInt8),
            ("matmul:2x3x4,dtype=bf16", "matmul 2×3×4, bf16", 48.0, 4.0 * 26.0, Limit::Fma),
            ("conv:4x6x8", "4→6, 8², 3×3", 27648.0, 3424.0, Limit::Fma),
            ("conv:4x4x8,stride=2,groups=4", "depthwise 4, 8², 3×3, stride 2", 1152.0, 1424.0, Limit::Fma),
            ("softmax:3x5", "softmax 3×5", 0.0, 120.0, Limit::Copy),
            ("sum:3x5,axis=0", "column sums 3×5", 15.0, 60.0, Limit::Read),
            ("chain:10", "relu(a·b+c) 10", 30.0, 160.0, Limit::Copy),
            ("resnet50,batch=2", "resnet50, batch 2", 4.0 * 3_855_925_248.0, 4.0 * 25.5e6, Limit::Fma),
            ("minilm:2x4", "MiniLM, batch 2, length 4", 6.0 * 8.0 * 3_545_088.0, 4.0 * 10.9e6, Limit::Fma),
            ("attention:2x8x4,operator", "attention 2×8×4, operator", 2048.0, 1024.0, Limit::Fma),
        ];
        for (text, name, flops, bytes, limit) in cases {
            let it = kernel(text).unwrap();
            assert_eq!((it.name.as_str(), it.flops, it.bytes, it.limit), (name, flops, bytes, limit));
            let spec: Value = serde_json::from_str(it.spec()).unwrap();
            assert!(spec["id"].is_string() && spec["kind"].is_string(), "{spec}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("matmull:2x3x4", "kernels are matmul, conv"),
            ("matmul:2x3", "has 2 extents, expected `matmul:mxnxk`"),
            ("matmul:2x0x4", "extent n of `matmul:2x0x4` is `0`"),
            ("matmul:2x3x99999999999", "from 1 to 2^30"),
            ("matmul:2x3x4,stride=2", "`stride` is not an option of matmul"),
            ("matmul:2x3x4,dtype=f64", "expected `dtype=f32|int8|bf16`"),
            ("matmul:2x3x4,constant=1", "expected `constant`"),
            ("conv:4x6x8,groups=3", "3 groups does not fit"),
            ("conv:4x6x8,stride=0", "stride 0"),
            ("sum:3x5,axis=2", "expected 0 or 1"),
            ("resnet50,batch=0", "expected 1 to 2^16"),
        ];
        for (text, message) in cases {
            let err = kernel(text).unwrap_err();
            assert!(err.contains(message), "{text}: {err}");
        }
    }
}
