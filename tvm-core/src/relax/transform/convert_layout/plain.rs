//! Convolutions that stay in the plain layout: where nothing around them is in blocks, the change of layout of the result
//! can take longer than what blocks save. Vectors are along the image then; windows of 1×1 have all pixels as one axis.

use rustc_hash::{FxHashMap, FxHashSet};

use super::conv::WEIGHTS;
use super::{Converter, PLAIN};
use crate::ir::{Var, VarId};
use crate::relax::analysis::infer_type;
use crate::relax::{Arg, Binding, Call, Callee, Expr, ExprVisitor, Function};
use crate::tir::PrimExpr;

/// Bytes of a result in blocks that are moved to the plain layout in a cycle.
const MOVED_BYTES: f64 = 9.0;
/// Bytes of pixels that are picked from the data in a cycle.
const PICKED_BYTES: f64 = 3.0;
/// Vectors that one core multiplies and adds in a cycle.
const VECTORS: f64 = 2.0;
/// How much longer products of pixels that are not neighbours take.
const STRIDED: f64 = 1.1;
/// The largest distance of such pixels for which vectors are put together by shuffles.
const MAX_STRIDE: i64 = 4;
/// Element-wise operators one after another that are looked through.
const MAX_DEPTH: usize = 16;

/// Operators other than element-wise ones whose result is in blocks if what they read is.
const KEEPING: &[&str] = &[
    "concat",
    "image.resize2d",
    "nn.adaptive_avg_pool2d",
    "nn.avg_pool2d",
    "nn.max_pool2d",
    "nn.pad",
    "split",
    "strided_slice",
];

/// The calls that use a variable, and the variables that they are bound to.
#[derive(Default)]
pub(super) struct Users(FxHashMap<VarId, Vec<(Var, Expr)>>);

impl Users {
    pub(super) fn of(func: &Function) -> Users {
        let mut users = Users::default();
        users.visit_function(func);
        users
    }
}

/// The images that a convolution in blocks reads, or what such an image is computed from by operators that keep blocks.
pub(super) fn read_in_blocks(func: &Function, lanes: i64) -> FxHashSet<VarId> {
    let mut read = FxHashSet::default();
    let bindings: Vec<&Binding> = func.body.bindings().collect();
    // Users come after what they use, so that one round in reverse order finds all.
    for binding in bindings.into_iter().rev() {
        let keeps = match &binding.value {
            Expr::TupleGetItem(..) => read.contains(&binding.var.id()),
            Expr::Call(call) => match call.callee {
                Callee::Op(op) if op.name == "nn.conv2d" => {
                    in_blocks(call, lanes).unwrap_or_else(|| read.contains(&binding.var.id()))
                }
                Callee::Op(op) => {
                    (op.elementwise || KEEPING.contains(&op.name)) && read.contains(&binding.var.id())
                }
                _ => false,
            },
            _ => false,
        };
        if keeps {
            let mut uses = super::Uses(Vec::new());
            uses.visit_expr(&binding.value);
            read.extend(uses.0);
        }
    }
    read
}

/// Whether the convolution computes in blocks, of whole vectors of `lanes` elements; `None` if it does as its data do, because each
/// channel is convolved alone.
fn in_blocks(call: &Call, lanes: i64) -> Option<bool> {
    let (Some(groups), Some(Arg::Const(weight))) = (call.attrs.int("groups"), call.args.get(1)) else {
        return Some(true);
    };
    match weight.shape() {
        _ if groups == 1 => Some(true),
        [_, 1, ..] => None,
        [_, of_group, ..] => Some(of_group % lanes == 0),
        [] | [_] => Some(false),
    }
}

impl ExprVisitor for Users {
    fn visit_binding(&mut self, binding: &Binding) {
        let mut uses = super::Uses(Vec::new());
        uses.visit_expr(&binding.value);
        for id in uses.0 {
            self.0.entry(id).or_default().push((binding.var.clone(), binding.value.clone()));
        }
        crate::relax::visitor::walk_binding(self, binding);
    }
}

/// Cycles of one core.
struct Cycles {
    /// In the plain layout.
    plain: f64,
    /// In blocks, with the change of layout of the result.
    blocks: f64,
}

impl Converter<'_> {
    /// True if the convolution, which is bound to `var`, is estimated to be faster in the plain layout.
    pub(super) fn stays_plain(&self, call: &Call, var: &Var) -> bool {
        let Some(Cycles { plain, blocks }) = self.cycles(call) else { return false };
        let stays = plain < blocks && !self.wants_blocks(var, 0);
        if stays {
            self.choices.note(super::NAME, || {
                let reason = format!(
                    "{plain:.1e} cycles, in blocks {blocks:.1e} with the change of the result's layout"
                );
                [self.described(call), format!("layout {PLAIN}"), reason]
            });
        }
        stays
    }

    /// The convolution for people.
    pub(super) fn described(&self, call: &Call) -> String {
        let shape = |arg: &Arg| {
            let dims = self.shape(arg).map(|(dims, _)| dims).unwrap_or_default();
            dims.iter().map(ToString::to_string).collect::<Vec<_>>().join("×")
        };
        let shapes: Vec<String> = call.args.iter().map(shape).collect();
        format!("convolution of {}", shapes.join(" by "))
    }

    /// True if a user of `var` computes in blocks.
    fn wants_blocks(&self, var: &Var, depth: usize) -> bool {
        let Some(users) = self.users.0.get(&var.id()) else { return false };
        users.iter().any(|(user, value)| {
            let Expr::Call(call) = value else {
                let part = matches!(value, Expr::TupleGetItem(..));
                return part && depth < MAX_DEPTH && self.wants_blocks(user, depth + 1);
            };
            let Callee::Op(op) = call.callee else { return false };
            match op.name {
                "nn.conv2d" | "nn.max_pool2d" | "nn.avg_pool2d" | "concat" => true,
                "split" | "strided_slice" | "nn.pad" => {
                    depth >= MAX_DEPTH || self.wants_blocks(user, depth + 1)
                }
                _ if op.elementwise => {
                    depth >= MAX_DEPTH
                        || call.args.iter().any(|arg| self.blocked(arg).is_some())
                        || self.wants_blocks(user, depth + 1)
                }
                _ => false,
            }
        })
    }

    /// What the convolution is estimated to take; `None` if it is no choice.
    fn cycles(&self, call: &Call) -> Option<Cycles> {
        let [data, weight] = &*call.args else { return None };
        let ints = |attr: &str| call.attrs.int_list(attr).unwrap_or_default();
        let all = |attr: &str, of: i64| ints(attr).iter().all(|&it| it == of);
        let ((dims, dtype), (weights, _)) = (self.shape(data)?, self.shape(weight)?);
        let known = |dims: &[PrimExpr]| dims.iter().map(PrimExpr::as_int).collect::<Option<Vec<_>>>();
        let (dims, weights) = (known(&dims[1..])?, known(&weights)?);
        let plain =
            |attr: &str, layout: &str| call.attrs.str(attr).is_none_or(|it| it == layout || it.is_empty());
        let plain =
            plain("data_layout", PLAIN) && plain("kernel_layout", WEIGHTS) && plain("out_layout", PLAIN);
        let one_group = call.attrs.int("groups").is_none_or(|it| it == 1);
        let ([_, _, _], [out, inputs, height, width]) = (&dims[..], &weights[..]) else { return None };
        let (window, stride) = ([*height, *width], ints("strides").last().copied().unwrap_or(1));
        // Winograd's algorithm and blocks are for the others.
        let of_winograd = window == [3, 3] && all("strides", 1) && all("dilation", 1);
        if !dtype.is_float()
            || !plain
            || !one_group
            || self.blocked(data).is_some()
            || of_winograd
            || stride > MAX_STRIDE
        {
            return None;
        }
        let result = infer_type(&call.clone().into(), self.module).ok()?;
        let result = known(result.as_tensor()?.known_shape()?.get(2..)?)?;
        let lanes = i64::from(self.machine.lanes(dtype));
        let bytes = f64::from(dtype.bits()) / 8.0;
        let terms = (out * inputs * height * width) as f64;
        // Every panel of pixels reads all weights.
        if terms * bytes > self.machine.l2_bytes as f64 {
            return None;
        }
        // Vectors of pixels: whole panels of two, and what is left in shorter and shorter ones.
        let vectors = |pixels: i64| {
            pixels / (2 * lanes) * 2 + i64::from((pixels % (2 * lanes)).unsigned_abs().count_ones())
        };
        let pixels: i64 = result.iter().product();
        let is_product = window == [1, 1] && all("padding", 0);
        let is_strided = !all("strides", 1);
        let vectors = if is_product { vectors(pixels) } else { result[0] * vectors(result[1]) };
        let slower = if is_strided && !is_product { STRIDED } else { 1.0 };
        let picked =
            if is_strided && is_product { (inputs * pixels) as f64 * bytes / PICKED_BYTES } else { 0.0 };
        let plain = slower * terms * vectors as f64 / VECTORS + picked;
        let moved = (out * pixels) as f64 * bytes / MOVED_BYTES;
        let blocks = terms * pixels as f64 / (VECTORS * lanes as f64) + moved;
        Some(Cycles { plain, blocks })
    }
}
