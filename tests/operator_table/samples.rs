//! One call of each operator, in words: what the table of operators is measured with.

use tvm::ir::{ArgKind, AttrKind, AttrValue, Attrs, Op, Type, Var};
use tvm::prelude::*;
use tvm::relax::Arg;
use tvm::tir::PrimExpr;

/// Arguments and attributes of the operators that do not take tensors of 2 × 3 and no attributes.
///
/// `T:2x3` is a tensor of the element type that is tried, `i64:2x3` one of that type, `t:1` a scalar of the type that is tried,
/// `i:1` one of i64, `S:2x3` a shape. The value `T` of an attribute is the type that is tried.
const SAMPLES: &[(&str, &str, &str)] = &[
    ("arange", "t:0 t:4 t:1", ""),
    ("astype", "T:2x3", "dtype=T"),
    ("bitcast", "T:2x3", "dtype=T"),
    ("broadcast_to", "T:1x3 S:2x3", ""),
    ("clip", "T:2x3 t:0 t:1", ""),
    ("cumprod", "T:2x3", "axis=1"),
    ("cumsum", "T:2x3", "axis=1"),
    ("expand_dims", "T:2x3", "axis=0"),
    ("eye", "i:2 i:3 i:0", "dtype=T"),
    ("full", "S:2x3 t:1", ""),
    ("full_like", "T:2x3 t:1", ""),
    ("gather_elements", "T:2x3 i64:2x3", ""),
    ("gather_nd", "T:2x3 i64:2x1", ""),
    ("image.resize2d", "T:1x1x4x4 S:8x8", ""),
    ("layout_transform", "T:1x32", "src_layout=NC dst_layout=NC16c"),
    ("matmul", "T:2x3 T:3x4", ""),
    ("nn.adaptive_avg_pool1d", "T:1x4x8", "output_size=2"),
    ("nn.adaptive_avg_pool2d", "T:1x4x8x8", "output_size=2"),
    ("nn.adaptive_avg_pool3d", "T:1x4x8x8x8", "output_size=2"),
    ("nn.attention", "T:2x3x4 T:2x5x4 T:2x5x4", ""),
    ("nn.avg_pool1d", "T:1x4x8", "pool_size=2"),
    ("nn.avg_pool2d", "T:1x4x8x8", "pool_size=2"),
    ("nn.avg_pool3d", "T:1x4x8x8x8", "pool_size=2"),
    ("nn.batch_norm", "T:2x3x4 T:3 T:3 T:3 T:3", ""),
    ("nn.conv1d", "T:1x4x8 T:4x4x3", ""),
    ("nn.conv1d_transpose", "T:1x4x8 T:4x4x3", ""),
    ("nn.conv2d", "T:1x4x8x8 T:4x4x3x3", ""),
    ("nn.conv2d_transpose", "T:1x4x8x8 T:4x4x3x3", ""),
    ("nn.conv3d", "T:1x4x8x8x8 T:4x4x3x3x3", ""),
    ("nn.conv3d_transpose", "T:1x4x8x8x8 T:4x4x3x3x3", ""),
    ("nn.dense_int4", "T:2x8 u8:2x4x8 T:2x1x8", ""),
    ("nn.dense_pack", "T:2x4 T:8x4", "weight_layout=NK"),
    ("nn.instance_norm", "T:2x3x4 T:3 T:3", "axes=[2]"),
    ("nn.layer_norm", "T:2x3 T:3 T:3", "axes=[1]"),
    ("nn.lrn", "T:1x4x2x2", "size=3"),
    ("nn.max_pool1d", "T:1x4x8", "pool_size=2"),
    ("nn.max_pool2d", "T:1x4x8x8", "pool_size=2"),
    ("nn.max_pool3d", "T:1x4x8x8x8", "pool_size=2"),
    ("nn.pad", "T:2x3", "pad_width=[1,1,0,0]"),
    ("nn.prelu", "T:2x3 T:3", ""),
    ("nn.rms_norm", "T:2x3 T:3", "axes=[1]"),
    ("nn.winograd_conv2d", "T:1x1x4x4x16 T:4x4x1x1x16x16", "tile=2"),
    ("nn.winograd_data", "T:1x1x4x4x16", "tile=2"),
    ("nn.winograd_product", "T:4x4x1x4x16 T:4x4x1x1x16x16", ""),
    ("nn.winograd_result", "T:4x4x1x1x2x2x16 S:4x4", "tile=2"),
    ("one_hot", "i64:4 t:1 t:0", "depth=3"),
    ("ones", "S:2x3", "dtype=T"),
    ("repeat", "T:2x3", "repeats=2 axis=0"),
    ("reshape", "T:2x3 S:3x2", ""),
    ("scatter_elements", "T:2x3 i64:2x3 T:2x3", ""),
    ("scatter_nd", "T:2x3 i64:2x1 T:2x3", ""),
    ("split", "T:4x3", "indices_or_sections=2"),
    ("squeeze", "T:1x3", ""),
    ("strided_slice", "T:4x3 S:0 S:2 S:1", ""),
    ("take", "T:4x3 i64:2", "axis=0"),
    ("tensor_to_shape", "T:2", ""),
    ("tile", "T:2x3", "repeats=[2,1]"),
    ("to_vdevice", "T:2x3", "device=cpu:1"),
    ("topk", "T:2x3", "k=2"),
    ("tril", "T:3x3 i:0", ""),
    ("triu", "T:3x3 i:0", ""),
    ("where", "bool:2x3 T:2x3 T:2x3", ""),
    ("zeros", "S:2x3", "dtype=T"),
];

/// A call of an operator.
pub(crate) struct Sample {
    pub(crate) params: Vec<Var>,
    pub(crate) args: Vec<Arg>,
    pub(crate) attrs: Attrs,
    /// True if the call does not depend on the type that is tried.
    pub(crate) fixed: bool,
}

/// The sample call of `op` with the element type `dtype`.
pub(crate) fn sample(op: Op, dtype: DataType) -> Sample {
    let usual: Vec<&str> = op.args.iter().filter_map(|arg| usual(arg.kind)).collect();
    let usual = (op.name, &*usual.join(" "), "");
    let (_, args, attrs) = *SAMPLES.iter().find(|(name, ..)| *name == op.name).unwrap_or(&usual);
    let fixed = !args.contains(['T', 't']) && !attrs.contains("=T");
    let mut params = Vec::new();
    let args = args.split_whitespace().map(|text| arg(text, dtype, &mut params)).collect();
    let mut set = Attrs::new();
    for (name, value) in attrs.split_whitespace().filter_map(|it| it.split_once('=')) {
        let def =
            op.attrs.iter().find(|def| def.name == name).unwrap_or_else(|| panic!("{}: {name}", op.name));
        let value = if value == "T" { Some(AttrValue::DType(dtype)) } else { literal(def.kind, value) };
        set.set(name, value.unwrap_or_else(|| panic!("{}: the value of {name}", op.name)));
    }
    Sample { params, args, attrs: set, fixed }
}

/// The names of operators that have a sample of their own.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SAMPLES.iter().map(|(name, ..)| *name)
}

fn usual(kind: ArgKind) -> Option<&'static str> {
    match kind {
        ArgKind::Tensor | ArgKind::Any => Some("T:2x3"),
        ArgKind::Optional => None,
        ArgKind::Variadic => Some("T:2x3 T:2x3"),
        ArgKind::Shape => Some("S:2x3"),
        ArgKind::Prim => Some("t:1"),
    }
}

fn arg(text: &str, tried: DataType, params: &mut Vec<Var>) -> Arg {
    let (kind, rest) = text.split_once(':').expect("KIND:VALUE");
    let numbers: Vec<i64> = rest.split('x').map(|it| it.parse().expect("a number")).collect();
    let dims = || numbers.iter().map(|it| PrimExpr::index(*it)).collect::<Vec<_>>();
    let dtype = match kind {
        "S" => return Arg::Shape(dims().into()),
        "i" => return Arg::Prim(PrimExpr::index(numbers[0])),
        "t" => return Arg::Prim(PrimExpr::constant(numbers[0] as f64, tried)),
        "T" => tried,
        name => dtype(name).expect("an element type"),
    };
    params.push(Var::new(format!("x{}", params.len()), Type::tensor(dims(), dtype)));
    params[params.len() - 1].clone().into()
}

fn dtype(name: &str) -> Option<DataType> {
    crate::DTYPES.into_iter().find(|it| it.to_string() == name)
}

/// `text` as the value of an attribute of `kind`, if it is one.
pub(crate) fn literal(kind: AttrKind, text: &str) -> Option<AttrValue> {
    let int = |text: &str| text.parse().ok().map(AttrValue::Int);
    match kind {
        AttrKind::Bool => text.parse().ok().map(AttrValue::Bool),
        AttrKind::Int => int(text),
        AttrKind::Float => text.parse().ok().map(AttrValue::Float),
        AttrKind::Str => Some(AttrValue::Str(text.into())),
        AttrKind::DType => dtype(text).map(AttrValue::DType),
        AttrKind::Ints | AttrKind::Floats | AttrKind::Strs => match text.strip_prefix('[') {
            Some(list) => {
                let items = list.strip_suffix(']')?.split(',').map(int).collect::<Option<Vec<_>>>()?;
                Some(AttrValue::List(items.into()))
            }
            None => int(text),
        },
    }
}
