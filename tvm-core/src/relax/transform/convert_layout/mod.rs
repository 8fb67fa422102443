//! `ConvertLayout`: convolutions over images compute on channels in blocks, and what is between them keeps the blocks.
//!
//! A convolution of constant extents of channels gets the layout `NCHW{b}c` for its result and `OIHW{i}i{o}o` or `OIHW{o}o`
//! for its weights: the innermost axis is one or two vectors of the target, whatever the image is. If the channels are no
//! whole blocks, the result has further channels, computed with weights of 0, which no other convolution reads. Groups of channels
//! are whole blocks, or stay plain. Transposed convolutions become convolutions, of which each computes one phase or all.
//! Element-wise operators, pooling, padding, concatenation of channels, batch normalisation and reductions over the image take values
//! in blocks as they are; where others are beside them, only if a convolution in blocks reads the result. Other operators get the
//! plain value, which a `layout_transform` makes once. A convolution of 1×1 stays in the plain layout if nothing around it is in
//! blocks and that is estimated to be faster. Products with constant weights become `nn.dense_pack`, whose weights lie in panels.
//!
//! *Requires*: operators that are not lowered yet. *Ensures*: the types of the variables that the function had are the same.
//! Targets without vectors, weights that are computed for few pixels, and element types other than f32 and f64 are left alone.
//! Products of bf16 are not, where pairs of them are summed, nor are convolutions and products of `u8` with constant `i8`: their
//! weights are words of two or four terms.
//!
//! TVM counterpart: `relax.transform.ConvertLayout`, `AlterOpLayout` of relay.

mod constant;
mod conv;
mod conv_transpose;
mod dense;
mod groups;
mod ops;
mod plain;
mod slice;
#[cfg(test)]
mod tests;
mod winograd;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::DataType;

use super::calls::bound_call;
use super::specialize_batch::EXPECTED_BATCH;
use crate::ir::{Attrs, IRModule, Op, Span, Type, Var, VarId};
use crate::pass::{Choices, Pass, function_pass};
use crate::relax::analysis::type_of_arg;
use crate::relax::mutator::{walk_binding, walk_body};
use crate::relax::{Arg, Binding, BindingBlock, Body, Call, Callee, Expr, ExprMutator, ExprVisitor};
use crate::target::{Machine, TargetKind};
use crate::tir::PrimExpr;

/// Name of the pass.
const NAME: &str = "ConvertLayout";

/// The plain layout of images.
const PLAIN: &str = "NCHW";

/// The pass.
pub fn convert_layout() -> Pass {
    function_pass(NAME, |func, module, context| {
        match context.target.kind {
            TargetKind::Host | TargetKind::C | TargetKind::Llvm => {}
            TargetKind::Cuda | TargetKind::Interpreter => return Ok(None),
        }
        let machine = context.target.machine;
        let mut converter = Converter {
            module,
            machine,
            use_winograd: context.config.winograd,
            expected_batch: func.attrs.int(EXPECTED_BATCH).unwrap_or(1),
            weight_bytes: winograd::weight_bytes(&machine, func),
            sums_pairs: context.config.sums_pairs() && machine.bf16_dot,
            users: plain::Users::of(func),
            read_in_blocks: plain::read_in_blocks(func, i64::from(machine.lanes(DataType::F32))),
            choices: context.choices.clone(),
            blocked: FxHashMap::default(),
            splits: FxHashMap::default(),
            transposed: FxHashMap::default(),
            bindings: Vec::new(),
        };
        Ok(converter.mutate_function(func))
    })
    .opt_level(1)
}

struct Converter<'a> {
    module: &'a IRModule,
    machine: Machine,
    use_winograd: bool,
    /// Number of images where it is not known.
    expected_batch: i64,
    /// Bytes of weights that one core reads in a cycle.
    weight_bytes: f64,
    /// True if products of `bf16` may be summed in pairs.
    sums_pairs: bool,
    users: plain::Users,
    /// The images that are read in blocks in the end.
    read_in_blocks: FxHashSet<VarId>,
    choices: Choices,
    /// The values that are in blocks, by the variable of the plain value.
    blocked: FxHashMap<VarId, Blocked>,
    /// The values of which the parts of splits are channels.
    splits: FxHashMap<VarId, Arg>,
    /// Constants of two axes that are bound transposed.
    transposed: FxHashMap<VarId, dense::Weights>,
    /// What goes in front of the current binding.
    bindings: Vec<Binding>,
}

/// Channels of a block at least: smaller ones are not worth it.
const SMALLEST: i64 = 4;

/// Channels in blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Blocks {
    /// Number of channels in a block.
    block: i64,
    /// Number of channels of the plain value.
    channels: i64,
}

impl Blocks {
    /// The layout.
    fn layout(self) -> String {
        format!("{PLAIN}{}c", self.block)
    }

    /// Number of channels in all blocks.
    fn padded(self) -> i64 {
        (self.channels + self.block - 1) / self.block * self.block
    }

    fn is_exact(self) -> bool {
        self.padded() == self.channels
    }
}

/// A value in blocks of channels.
#[derive(Clone)]
struct Blocked {
    var: Var,
    blocks: Blocks,
    /// The variable of the plain value, until it is bound.
    plain: Option<Var>,
}

impl ExprMutator for Converter<'_> {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let in_blocks = match &binding.value {
            _ if binding.match_cast => None,
            Expr::Call(call) => match call.callee {
                Callee::Op(op) => self.call(op, call, &binding.var),
                _ => None,
            },
            Expr::TupleGetItem(Arg::Var(split), index) => self.part(split, *index, &binding.var),
            _ => None,
        };
        // What a refused call has bound so far is not used, unless it is a plain value.
        if let Some((var, blocks)) = in_blocks {
            let plain = Some(binding.var.clone());
            self.blocked.insert(binding.var.id(), Blocked { var, blocks, plain });
            return Some(std::mem::take(&mut self.bindings));
        }
        self.note_transposed(&binding.var, &binding.value);
        let packed = self.dense_pack(binding).or_else(|| self.product_of_groups(binding));
        let binding = packed.as_ref().unwrap_or(binding);
        self.bind_plain(|uses| uses.visit_expr(&binding.value));
        let mut before = std::mem::take(&mut self.bindings);
        let walked = walk_binding(self, binding).or_else(|| packed.clone());
        if before.is_empty() {
            return walked.map(|it| vec![it]);
        }
        before.push(walked.unwrap_or_else(|| binding.clone()));
        Some(before)
    }

    fn mutate_body(&mut self, body: &Body) -> Option<Body> {
        let walked = walk_body(self, body);
        self.bind_plain(|uses| uses.visit_arg(&body.ret));
        if self.bindings.is_empty() {
            return walked;
        }
        let mut body = walked.unwrap_or_else(|| body.clone());
        let last = BindingBlock { dataflow: true, bindings: std::mem::take(&mut self.bindings).into() };
        body.blocks = body.blocks.iter().cloned().chain([last]).collect();
        Some(body)
    }
}

impl Converter<'_> {
    /// The call on values in blocks, and the blocks of its result; `None` leaves the call as it is.
    fn call(&mut self, op: Op, call: &Call, var: &Var) -> Option<(Var, Blocks)> {
        let name = var.name();
        if op.name == "nn.conv2d" {
            return if self.stays_plain(call, var) { None } else { self.conv_in_blocks(op, call, name) };
        }
        if op.name == "nn.conv2d_transpose" {
            return self.conv_transpose(call, var);
        }
        let in_blocks = |arg: &Arg| match arg {
            Arg::Tuple(fields) => fields.iter().any(|it| self.blocked(it).is_some()),
            _ => self.blocked(arg).is_some(),
        };
        let is_plain = |arg: &Arg| match arg {
            Arg::Tuple(fields) => fields.iter().any(|it| self.is_plain_image(it)),
            _ => self.is_plain_image(arg),
        };
        // Of images of both kinds, the others would become blocks, and the result a plain image again.
        let is_mixed = || call.args.iter().any(is_plain) && !self.read_in_blocks.contains(&var.id());
        if !call.args.iter().any(in_blocks) || is_mixed() {
            return None;
        }
        match op.name {
            "nn.max_pool2d" | "nn.avg_pool2d" | "nn.adaptive_avg_pool2d" => self.pool(op, call, name),
            "nn.pad" => self.pad_image(op, call, name),
            "image.resize2d" => self.resize(op, call, name),
            "concat" => self.concat(op, call, name),
            "strided_slice" => self.slice(call, name),
            "split" => {
                self.note_split(var, call);
                None
            }
            "sum" | "mean" | "max" | "min" => self.reduce(op, call, name),
            _ if op.elementwise => self.elementwise(op, call, name),
            _ => None,
        }
    }

    /// Binds the plain values, in blocks so far, that `visit` comes across.
    fn bind_plain(&mut self, visit: impl FnOnce(&mut Uses)) {
        if self.blocked.is_empty() {
            return;
        }
        let mut uses = Uses(Vec::new());
        visit(&mut uses);
        for id in uses.0 {
            self.bind_plain_value(id);
        }
    }

    fn bind_plain_value(&mut self, id: VarId) -> Option<()> {
        let blocked = self.blocked.get_mut(&id)?;
        let plain = blocked.plain.take()?;
        let (mut value, blocks, span) = (blocked.var.clone(), blocked.blocks, plain.span().clone());
        let attrs = Attrs::new().with("src_layout", blocks.layout()).with("dst_layout", PLAIN);
        value = self.emit(plain.name(), "layout_transform", &[value.into()], attrs, &span)?;
        if !blocks.is_exact() {
            let bounds = [0, blocks.channels, 1].map(|it| Arg::Shape(Arc::new([PrimExpr::index(it)])));
            let [begin, end, stride] = bounds;
            let args = [value.into(), begin, end, stride];
            let attrs = Attrs::new().with("axes", vec![1i64]);
            value = self.emit(plain.name(), "strided_slice", &args, attrs, &span)?;
        }
        if let Some(last) = self.bindings.iter_mut().rfind(|it| it.var == value) {
            last.var = plain;
        }
        Some(())
    }

    /// True for a value of more than one channel and one pixel that is not in blocks.
    fn is_plain_image(&self, arg: &Arg) -> bool {
        let is_image = |(dims, _): (Vec<PrimExpr>, _)| {
            dims.len() == 4 && !dims[1].is_const(1) && dims[2..].iter().any(|dim| !dim.is_const(1))
        };
        arg.as_var().is_some() && self.blocked(arg).is_none() && self.shape(arg).is_some_and(is_image)
    }

    fn blocked(&self, arg: &Arg) -> Option<&Blocked> {
        self.blocked.get(&arg.as_var()?.id())
    }

    /// Binds a call of an operator in front of the current binding; `None` if it is ill-typed.
    fn emit(&mut self, name: &str, op: &str, args: &[Arg], attrs: Attrs, span: &Span) -> Option<Var> {
        let binding = bound_call(self.module, name, op, args, attrs, span)?;
        let var = binding.var.clone();
        self.bindings.push(binding);
        Some(var)
    }

    /// The value in whole blocks of `block` channels.
    fn in_blocks_of(&mut self, arg: &Arg, block: i64, span: &Span) -> Option<Arg> {
        let to = format!("{PLAIN}{block}c");
        let (value, from) = match self.blocked(arg).cloned() {
            Some(Blocked { var, blocks, .. })
                if !blocks.is_exact() && blocks.block % block == 0 && blocks.channels % block == 0 =>
            {
                let attrs = Attrs::new().with("src_layout", blocks.layout()).with("dst_layout", to);
                let parts = self.emit("in_blocks", "layout_transform", &[var.into()], attrs, span)?;
                return self
                    .blocks_of(parts.into(), [0, blocks.channels / block], "in_blocks", span)
                    .map(Arg::from);
            }
            Some(it) if !it.blocks.is_exact() => {
                self.bind_plain_value(arg.as_var()?.id());
                (arg.clone(), PLAIN.into())
            }
            Some(it) if it.blocks.block == block => return Some(it.var.into()),
            Some(it) => (it.var.into(), it.blocks.layout()),
            None => (arg.clone(), PLAIN.into()),
        };
        if let Arg::Const(tensor) = &value {
            return constant::to_layout(tensor, PLAIN, &to.parse().ok()?).map(Arg::Const);
        }
        let attrs = Attrs::new().with("src_layout", from).with("dst_layout", to);
        self.emit("in_blocks", "layout_transform", &[value], attrs, span).map(Arg::from)
    }

    /// The value with zeros after the elements of an axis, up to `extent` of them.
    fn pad(&mut self, arg: &Arg, axis: usize, extent: i64, span: &Span) -> Option<Arg> {
        let (dims, _) = self.shape(arg)?;
        let more = extent - dims[axis].as_int()?;
        if more == 0 {
            return Some(arg.clone());
        }
        if let Arg::Const(tensor) = arg {
            return constant::pad(tensor, axis, extent).map(Arg::Const);
        }
        let mut widths = vec![0i64; 2 * dims.len()];
        widths[2 * axis + 1] = more;
        let attrs = Attrs::new().with("pad_width", widths);
        self.emit("padded", "nn.pad", std::slice::from_ref(arg), attrs, span).map(Arg::from)
    }

    /// Shape and element type of a tensor, if they are known.
    fn shape(&self, arg: &Arg) -> Option<(Vec<PrimExpr>, DataType)> {
        let ty = type_of_arg(arg, self.module);
        let ty = ty.as_tensor()?;
        Some((ty.known_shape()?.to_vec(), ty.dtype?))
    }
}

/// The variables in an expression.
struct Uses(Vec<VarId>);

impl ExprVisitor for Uses {
    fn visit_arg(&mut self, arg: &Arg) {
        match arg {
            Arg::Var(var) => self.0.push(var.id()),
            _ => crate::relax::visitor::walk_arg(self, arg),
        }
    }

    fn visit_type(&mut self, _: &Type) {}
}
