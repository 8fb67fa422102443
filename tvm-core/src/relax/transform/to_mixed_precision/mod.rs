//! `ToMixedPrecision`: convolutions and products of f32 take their operands in the type of
//! [`PassConfig::precision`](crate::pass::PassConfig), and sum them in f32.
//!
//! Convolutions over images and matrix products with constant weights get narrow weights, and the attribute `out_dtype`. Where
//! the target multiplies narrow data by narrow weights, the data become narrow as well: a value is rounded once, where it is
//! computed, and all of its uses read the rounded value, so that only that one is stored. Operators that only move elements,
//! and pooling, work on rounded values as they are; so does a concatenation of results of convolutions and products, whoever
//! reads it. All others compute in f32. Parameters and results of functions keep their
//! types. Where weights of integers are asked for, those of products are integers, with a scale for each column or for groups of
//! its terms; data and convolutions stay as they are.
//!
//! *Requires*: operators that are not lowered yet. *Ensures*: the type of the function is the same. Weights that the narrow type
//! cannot hold stay as they are.
//!
//! TVM counterpart: `relax.transform.ToMixedPrecision`.

#[cfg(test)]
mod tests;
mod weights;

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::{DataType, Tensor};

use crate::ir::{Attrs, IRModule, Op, Span, Var, VarId};
use crate::pass::{Choices, Pass, Precision, function_pass};
use crate::relax::analysis::infer_type;
use crate::relax::mutator::{walk_arg, walk_binding, walk_body};
use crate::relax::visitor::walk_binding as visit_binding;
use crate::relax::{
    Arg, Binding, BindingBlock, Body, Call, Callee, Expr, ExprMutator, ExprVisitor, Function,
};

/// Name of the pass.
const NAME: &str = "ToMixedPrecision";
/// Channels or columns of the result, and terms of each, from which on narrow operands pay.
const FEWEST: i64 = 8;
/// Operators whose results are elements of their arguments, or averages of them.
const MOVING: &[&str] = &[
    "broadcast_to",
    "concat",
    "expand_dims",
    "flatten",
    "nn.adaptive_avg_pool2d",
    "nn.avg_pool2d",
    "nn.max_pool2d",
    "permute_dims",
    "reshape",
    "squeeze",
    "strided_slice",
];

/// Element-wise operators after which the result of a product, with a constant for each channel, is still one.
const STEPS: &[&str] = &["add", "divide", "multiply", "nn.relu", "subtract"];

/// The pass.
pub fn to_mixed_precision() -> Pass {
    function_pass(NAME, |func, module, context| {
        let precision = context.config.precision;
        if precision == Precision::Full {
            return Ok(None);
        }
        let machine = context.target.machine;
        let narrow_data = precision == Precision::Bf16 && machine.bf16_dot;
        let mut values = Values::of(func);
        if narrow_data {
            values.round(func);
        }
        let choices = context.choices.clone();
        let lanes = i64::from(machine.lanes(DataType::F32));
        let pass = Narrow { module, precision, lanes, narrow_data, values, choices, bindings: Vec::new() };
        Ok(pass.function(func))
    })
    .opt_level(0)
}

/// What is known of the values of a function.
#[derive(Default)]
struct Values {
    /// The calls of operators, by the variables that they are bound to; in their order.
    calls: Vec<(Var, Call)>,
    by_var: FxHashMap<VarId, usize>,
    /// The tensors of f32 that are bound, or are parameters.
    bound: FxHashSet<VarId>,
    /// The rounded value of each value that is rounded where it is bound.
    rounded: FxHashMap<VarId, Option<Var>>,
}

impl ExprVisitor for Values {
    fn visit_binding(&mut self, binding: &Binding) {
        if is_f32(&binding.var) {
            self.bound.insert(binding.var.id());
        }
        if let (Expr::Call(call), false) = (&binding.value, binding.match_cast)
            && matches!(call.callee, Callee::Op(_))
        {
            self.by_var.insert(binding.var.id(), self.calls.len());
            self.calls.push((binding.var.clone(), (**call).clone()));
        }
        visit_binding(self, binding);
    }
}

impl Values {
    fn of(func: &Function) -> Values {
        let mut values = Values::default();
        values.bound.extend(func.params.iter().filter(|it| is_f32(it)).map(Var::id));
        values.visit_function(func);
        values
    }

    fn call(&self, arg: &Arg) -> Option<&Call> {
        self.by_var.get(&arg.as_var()?.id()).map(|&at| &self.calls[at].1)
    }

    /// Finds the values that are rounded: data of products, concatenated results of them, what these are moved from, and what is
    /// moved from them.
    fn round(&mut self, func: &Function) {
        let results = self.results();
        let mut rounded = FxHashSet::default();
        // What a call moves comes before it, so that one round in reverse order finds all.
        for (var, call) in self.calls.iter().rev() {
            if self.weights(call).is_some() {
                rounded.extend(call.args[0].as_var().filter(|it| self.bound.contains(&it.id())).map(Var::id));
            }
            let is_moved = moves(call) && rounded.contains(&var.id());
            if is_moved || is_op(call, "concat") && results.contains(&var.id()) {
                let moved = tensors(call).filter_map(Arg::as_var).map(Var::id);
                rounded.extend(moved.filter(|it| self.bound.contains(it)));
            }
        }
        for (var, call) in &self.calls {
            let is_rounded = |arg: &Arg| arg.as_var().is_some_and(|it| rounded.contains(&it.id()));
            if moves(call) && is_f32(var) && tensors(call).all(is_rounded) {
                rounded.insert(var.id());
            }
        }
        let params: FxHashSet<VarId> = func.params.iter().map(Var::id).collect();
        // A parameter is stored as f32 whatever is done, so nothing but products reads the rounded one.
        rounded.retain(|id| !params.contains(id) || self.is_data(*id));
        self.rounded = rounded.into_iter().map(|id| (id, None)).collect();
    }

    /// Results of products with narrow data, also after [`STEPS`], and what is moved from them.
    fn results(&self) -> FxHashSet<VarId> {
        let mut results = FxHashSet::default();
        for (var, call) in self.calls.iter().filter(|(var, _)| is_f32(var)) {
            let is_result = |arg: &Arg| arg.as_var().is_some_and(|it| results.contains(&it.id()));
            let is_step = || {
                matches!(call.callee, Callee::Op(op) if STEPS.contains(&op.name))
                    && call.args.iter().filter(|arg| is_result(arg)).count() == 1
                    && call.args.iter().all(|arg| is_result(arg) || is_of_channels(arg))
            };
            if self.weights(call).is_some() || moves(call) && tensors(call).all(is_result) || is_step() {
                results.insert(var.id());
            }
        }
        results
    }

    fn is_data(&self, id: VarId) -> bool {
        let reads = |call: &Call| call.args.first().and_then(Arg::as_var).is_some_and(|it| it.id() == id);
        self.calls.iter().any(|(_, call)| reads(call) && self.weights(call).is_some())
    }

    /// The constant weights of a convolution or a product of f32, which may be bound transposed.
    fn weights(&self, call: &Call) -> Option<Weights> {
        let ([data, weight], &Callee::Op(op)) = (&*call.args, &call.callee) else { return None };
        if call.attrs.dtype("out_dtype").is_some() || !data.as_var().is_some_and(is_f32) {
            return None;
        }
        let (tensor, turned) = match weight {
            Arg::Const(tensor) => (tensor, None),
            other => {
                let turn = self.call(other).filter(|it| is_op(it, "permute_dims"))?;
                let Arg::Const(tensor) = turn.args.first()? else { return None };
                let axes = turn.attrs.int_list("axes");
                if axes.is_some_and(|axes| !matches!(axes[..], [1 | -1, 0 | -2])) {
                    return None;
                }
                (tensor, Some(turn.clone()))
            }
        };
        let extents = match (op.name, tensor.shape(), &turned) {
            ("nn.conv2d", &[out, per_group, height, width], None) => [out, per_group * height * width],
            ("matmul", &[first, second], _) => [first, second],
            _ => return None,
        };
        let groups = call.attrs.int("groups").unwrap_or(1);
        let fits = groups == 1 && tensor.dtype() == DataType::F32 && extents.iter().all(|&it| it >= FEWEST);
        fits.then(|| Weights { tensor: tensor.clone(), turned })
    }
}

/// Constant weights.
struct Weights {
    tensor: Tensor,
    /// The `permute_dims` of them, if there is one.
    turned: Option<Call>,
}

fn is_f32(var: &Var) -> bool {
    var.ty().as_tensor().is_some_and(|it| it.dtype == Some(DataType::F32))
}

fn is_op(call: &Call, name: &str) -> bool {
    matches!(call.callee, Callee::Op(op) if op.name == name)
}

/// True for a constant with one element for each channel, or one for all. Others may be the places of boxes in an image, which
/// are more exact than the results of products.
fn is_of_channels(arg: &Arg) -> bool {
    matches!(arg, Arg::Const(tensor) if tensor.shape().iter().filter(|&&extent| extent != 1).count() <= 1)
}

/// True for calls of the operators in [`MOVING`].
fn moves(call: &Call) -> bool {
    matches!(call.callee, Callee::Op(op) if MOVING.contains(&op.name))
}

/// The tensors among the arguments, those in a tuple included.
fn tensors(call: &Call) -> impl Iterator<Item = &Arg> {
    let of_first = match call.args.first() {
        Some(Arg::Tuple(fields)) => &fields[..],
        Some(first) => std::slice::from_ref(first),
        None => &[],
    };
    of_first.iter()
}

struct Narrow<'a> {
    module: &'a IRModule,
    precision: Precision,
    /// Elements of f32 in a vector.
    lanes: i64,
    /// True if the data of products become narrow as well.
    narrow_data: bool,
    values: Values,
    choices: Choices,
    /// What goes in front of the current binding.
    bindings: Vec<Binding>,
}

impl Narrow<'_> {
    fn function(mut self, func: &Function) -> Option<Function> {
        for param in func.params.iter() {
            if self.values.rounded.contains_key(&param.id()) {
                let rounded = self.cast(&Arg::from(param), DataType::BF16, param.span())?;
                self.values.rounded.insert(param.id(), Some(rounded));
            }
        }
        let of_params = std::mem::take(&mut self.bindings);
        let mut new = self.mutate_function(func)?;
        if !of_params.is_empty() {
            let first = BindingBlock { dataflow: true, bindings: of_params.into() };
            new.body.blocks = std::iter::once(first).chain(new.body.blocks.iter().cloned()).collect();
        }
        Some(new)
    }

    /// Binds `value` in front of the current binding; `None` if it is ill-typed.
    fn emit(&mut self, name: &str, value: impl Into<Expr>) -> Option<Var> {
        let value = value.into();
        let span = if let Expr::Call(call) = &value { call.span.clone() } else { Span::none() };
        let var = Var::with_span(name, infer_type(&value, self.module).ok()?, span);
        self.bindings.push(Binding::new(var.clone(), value));
        Some(var)
    }

    fn cast(&mut self, arg: &Arg, dtype: DataType, span: &Span) -> Option<Var> {
        let name = arg.as_var().map_or("value", |it| it.name()).to_string();
        let attrs = Attrs::new().with("dtype", dtype);
        let value = self.op_call("astype", std::slice::from_ref(arg), attrs, span)?;
        self.emit(&name, value)
    }

    fn rounded(&self, arg: &Arg) -> Option<Var> {
        self.values.rounded.get(&arg.as_var()?.id())?.clone()
    }

    /// The convolution or product with narrow operands.
    fn product(&mut self, call: &Call) -> Option<Expr> {
        let weights = self.values.weights(call)?;
        let Callee::Op(op) = call.callee else { return None };
        let subject = format!("{} with weights {:?}", op.name, weights.tensor.shape());
        let bound = self.bindings.len();
        let made = match self.precision {
            Precision::Full => None,
            Precision::Bf16 => self.with_floats(call, &weights, DataType::BF16),
            Precision::F16 => self.with_floats(call, &weights, DataType::F16),
            Precision::Int8Weights | Precision::Int4Weights if op.name != "matmul" => return None,
            Precision::Int8Weights => self.with_int8(call, &weights),
            Precision::Int4Weights => {
                self.with_int4(call, &weights).or_else(|| self.with_int8(call, &weights))
            }
        };
        let made = made.filter(|it| infer_type(it, self.module).is_ok());
        let precision = self.precision;
        self.choices.note(NAME, || match &made {
            Some(_) => [subject, "narrow operands, sums of f32".into(), format!("{precision} is asked for")],
            None => [subject, "f32".into(), format!("{precision} cannot hold the weights")],
        });
        if made.is_none() {
            self.bindings.truncate(bound);
        }
        made
    }

    /// With weights of a narrow float type, and data of it where they become narrow.
    fn with_floats(&mut self, call: &Call, weights: &Weights, dtype: DataType) -> Option<Expr> {
        let narrow = weights::floats(&weights.tensor, dtype)?;
        let data = if !self.narrow_data {
            call.args[0].clone()
        } else if let Some(rounded) = self.rounded(&call.args[0]) {
            rounded.into()
        } else {
            self.cast(&call.args[0], dtype, &call.span)?.into()
        };
        let weight = self.narrow_weight(weights, narrow)?;
        let attrs = call.attrs.clone().with("out_dtype", DataType::F32);
        Some(Call { args: [data, weight].into(), attrs, ..call.clone() }.into())
    }

    /// `narrow` in the place of the weights, turned if they are.
    fn narrow_weight(&mut self, weights: &Weights, narrow: Tensor) -> Option<Arg> {
        let Some(turn) = &weights.turned else { return Some(Arg::Const(narrow)) };
        self.emit("weight", Call { args: [Arg::Const(narrow)].into(), ..turn.clone() }).map(Arg::from)
    }

    /// With weights of i8, and a scale for each column of the result.
    fn with_int8(&mut self, call: &Call, weights: &Weights) -> Option<Expr> {
        let columns = usize::from(weights.turned.is_none());
        let (narrow, scale) = weights::int8(&weights.tensor, columns)?;
        let weight = self.narrow_weight(weights, narrow)?;
        let attrs = call.attrs.clone().with("out_dtype", DataType::F32);
        let args = [call.args[0].clone(), weight];
        let product = self.emit("product", Call { args: args.into(), attrs, ..call.clone() })?;
        self.op_call("multiply", &[product.into(), Arg::Const(scale)], Attrs::new(), &call.span)
    }

    /// With weights of 4 bits, and a scale for each group of terms of a column.
    fn with_int4(&mut self, call: &Call, weights: &Weights) -> Option<Expr> {
        let columns = usize::from(weights.turned.is_none());
        let block = 2 * self.lanes;
        let (narrow, scale) = weights::int4(&weights.tensor, columns, block)?;
        let attrs = Attrs::new().with("units", weights.tensor.shape()[columns]);
        let args = [call.args[0].clone(), Arg::Const(narrow), Arg::Const(scale)];
        self.op_call("nn.dense_int4", &args, attrs, &call.span)
    }

    fn op_call(&self, op: &str, args: &[Arg], attrs: Attrs, span: &Span) -> Option<Expr> {
        let callee = Callee::Op(Op::get(op).ok()?);
        Some(Call { callee, args: args.into(), attrs, ret: None, span: span.clone() }.into())
    }

    /// A call that moves values which are all rounded.
    fn moved(&mut self, binding: &Binding) -> Option<Var> {
        let Expr::Call(call) = &binding.value else { return None };
        if !self.values.rounded.contains_key(&binding.var.id()) || !moves(call) || call.args.is_empty() {
            return None;
        }
        let rounded: Option<Vec<Arg>> = tensors(call).map(|it| Some(self.rounded(it)?.into())).collect();
        let rounded = rounded?;
        let mut args = call.args.to_vec();
        args[0] = match &args[0] {
            Arg::Tuple(_) => Arg::Tuple(rounded.into()),
            _ => rounded.into_iter().next()?,
        };
        self.emit(binding.var.name(), Call { args: args.into(), ..(**call).clone() })
    }
}

impl ExprMutator for Narrow<'_> {
    /// Rounded values are read as f32 where they are used.
    fn mutate_arg(&mut self, arg: &Arg) -> Option<Arg> {
        let is_bound = |var: &Var| self.values.bound.contains(&var.id());
        match arg.as_var().filter(|it| is_bound(it)) {
            Some(var) => {
                let rounded = self.rounded(arg)?;
                self.cast(&rounded.into(), DataType::F32, var.span()).map(Arg::from)
            }
            None => walk_arg(self, arg),
        }
    }

    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let outer = std::mem::take(&mut self.bindings);
        if !binding.match_cast
            && let Some(var) = self.moved(binding)
        {
            self.values.rounded.insert(binding.var.id(), Some(var));
            return Some(std::mem::replace(&mut self.bindings, outer));
        }
        let product = match &binding.value {
            Expr::Call(call) if !binding.match_cast => self.product(call),
            _ => None,
        };
        let new = match product {
            Some(value) => Some(Binding { value, ..binding.clone() }),
            None => walk_binding(self, binding),
        };
        let mut all = std::mem::take(&mut self.bindings);
        let is_changed = new.is_some() || !all.is_empty();
        all.push(new.unwrap_or_else(|| binding.clone()));
        let is_rounded = self.values.rounded.contains_key(&binding.var.id());
        if is_rounded
            && let Some(var) = self.cast(&Arg::from(&binding.var), DataType::BF16, binding.var.span())
        {
            all.append(&mut self.bindings);
            self.values.rounded.insert(binding.var.id(), Some(var));
        }
        self.bindings = outer;
        (is_changed || is_rounded).then_some(all)
    }

    fn mutate_body(&mut self, body: &Body) -> Option<Body> {
        let outer = std::mem::take(&mut self.bindings);
        let walked = walk_body(self, body);
        let last = std::mem::replace(&mut self.bindings, outer);
        if last.is_empty() {
            return walked;
        }
        let mut body = walked.unwrap_or_else(|| body.clone());
        let last = BindingBlock { dataflow: true, bindings: last.into() };
        body.blocks = body.blocks.iter().cloned().chain([last]).collect();
        Some(body)
    }
}
