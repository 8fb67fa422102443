//! Attention, in the layout (batch, heads, positions, channels): heads come before positions.
//!
//! TVM counterpart: `R.nn.attention` of `src/relax/op/nn/attention.cc`, whose layout is (batch, positions, heads, channels).

use crate::ir::{ArgKind, AttrKind, InferContext, IrError, OpDef, TensorShape, Type};
use crate::relax::analysis::{differ, show_dim, show_dims};
use crate::relax::op::context::{broadcast_dims, rank, single, tensor_type};
use crate::relax::op::def::{arg, attr, tensor};
use crate::topi;

pub(in crate::relax::op) static OPS: &[OpDef] = &[OpDef::new(
    "nn.attention",
    "softmax(scale * q k^T + bias) v over the last two axes: q [.., m, d], k [.., n, d], v [.., n, dv], with the same one or \
     two leading axes; the bias broadcasts to [.., m, n]; scale is 1 / sqrt(d) unless set; ONNX `Attention` of 4 axes",
    infer,
)
.args(&[tensor("q"), tensor("k"), tensor("v"), arg("bias", ArgKind::Optional)])
.attrs(&[attr("scale", AttrKind::Float).default("1 / sqrt(d)")])
.tensor_program(|cx| {
    let dtype = cx.out_dtype(0)?;
    single(cx, |x| {
        let depth = x[0].dim(x[0].ndim() - 1).as_int();
        let scale = match (cx.attrs.float("scale"), depth) {
            (Some(scale), _) => scale,
            (None, Some(depth)) => (depth as f64).sqrt().recip(),
            (None, None) => {
                let err = cx.infer().error("the number of channels of `q` is not a constant");
                return Err(err.help("set the attribute `scale`"));
            }
        };
        Ok(topi::attention([&x[0], &x[1], &x[2]], x.get(3), scale, dtype))
    })
})];

fn infer(ctx: &InferContext<'_>) -> Result<Type, IrError> {
    let dtype = ctx.same_dtype()?;
    if let Some(dtype) = dtype
        && !dtype.is_float()
    {
        return Err(ctx.error(format!("expected float elements, got {dtype}")));
    }
    let names = ["q", "k", "v"];
    let types = [ctx.tensor(0)?, ctx.tensor(1)?, ctx.tensor(2)?];
    let Some(ndim) = types.iter().find_map(|ty| ty.ndim()) else { return Ok(tensor_type(rank(None), dtype)) };
    if !(3..=4).contains(&ndim) {
        return Err(ctx.error(format!("the arguments have rank 3 or 4, got rank {ndim}")));
    }
    let dims = [ctx.dims(0, ndim)?, ctx.dims(1, ndim)?, ctx.dims(2, ndim)?];
    // Axes that have the same extent: of which arguments, and where.
    let leading = (0..ndim - 2).flat_map(|axis| [([0, axis], [1, axis]), ([0, axis], [2, axis])]);
    let inner = [([0, ndim - 1], [1, ndim - 1]), ([1, ndim - 2], [2, ndim - 2])];
    for ([a, i], [b, j]) in leading.chain(inner) {
        let (Some(x), Some(y)) = (dims[a], dims[b]) else { continue };
        if differ(&x[i], &y[j]) {
            return Err(ctx.error(format!(
                "axis {i} of `{}` {} has extent {}, axis {j} of `{}` {} has {}",
                names[a],
                show_dims(x),
                show_dim(&x[i]),
                names[b],
                show_dims(y),
                show_dim(&y[j])
            )));
        }
    }
    let (Some(q), Some(v)) = (dims[0], dims[2]) else { return Ok(tensor_type(rank(Some(ndim)), dtype)) };
    if let (Some(k), 4) = (dims[1], ctx.types.len())
        && let Some(bias) = ctx.tensor(3)?.known_shape()
    {
        let scores: Vec<_> = q[..ndim - 1].iter().chain([&k[ndim - 2]]).cloned().collect();
        let fits = bias.len() <= ndim
            && broadcast_dims(&scores, bias)
                .is_ok_and(|dims| dims.iter().zip(&scores).all(|(dim, score)| !differ(dim, score)));
        if !fits {
            return Err(ctx.error(format!(
                "argument `bias` of shape {} does not broadcast to {}",
                show_dims(bias),
                show_dims(&scores)
            )));
        }
    }
    let out: Vec<_> = q[..ndim - 1].iter().chain([&v[ndim - 1]]).cloned().collect();
    Ok(tensor_type(TensorShape::Known(out.into()), dtype))
}
