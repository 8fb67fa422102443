//! `FuseAttention`: scores, softmax and product become one operator, which never stores the scores of all rows.
//!
//! ```text
//! softmax(matmul(q, permute_dims(k)) * scale + bias) @ v    becomes    nn.attention(q, k, v, bias) {scale: scale}
//! ```
//!
//! The keys may get their place among the axes where they are turned, as exporters write it: `permute_dims(k, [0, 2, 3, 1])`.
//! The scale is a constant by which the scores are multiplied or divided; scale and bias may be absent. Requires that
//! nothing else uses the values in between, and elements of f32 or f64. The bindings themselves are left to
//! `DeadCodeElimination`.

use tvm_runtime::DataType;

use super::calls::{Calls, bound_call, op_name};
use crate::ir::{Attrs, IRModule, structural_equal};
use crate::pass::{Choices, Pass, function_pass};
use crate::relax::{Arg, Binding, Call, Expr, ExprMutator, ExprVisitor, Function};
use crate::target::TargetKind;

/// Name of the pass.
const NAME: &str = "FuseAttention";

/// The pass.
pub fn fuse_attention() -> Pass {
    function_pass(NAME, |func: &Function, module, context| {
        if matches!(context.target.kind, TargetKind::Cuda | TargetKind::Interpreter) {
            return Ok(None);
        }
        let mut calls = Calls::default();
        calls.visit_function(func);
        Ok(Fuse { calls, module, choices: &context.choices }.mutate_function(func))
    })
    .opt_level(1)
}

impl Calls {
    /// The factor by which `call` scales its first argument, if it is constant.
    fn scale(&self, call: &Call) -> Option<f64> {
        let [_, Arg::Const(factor)] = &*call.args else { return None };
        if factor.shape().iter().any(|&extent| extent != 1) || factor.shape().len() > 1 {
            return None;
        }
        let factor = match factor.dtype() {
            DataType::F32 => f64::from(*factor.to_vec::<f32>().ok()?.first()?),
            DataType::F64 => *factor.to_vec::<f64>().ok()?.first()?,
            _ => return None,
        };
        Some(if op_name(call)? == "divide" { factor.recip() } else { factor })
    }

    /// Attention whose last step is `call`.
    fn attention(&self, call: &Call) -> Option<Attention> {
        let plain = |call: &Call| call.attrs.dtype("out_dtype").is_none();
        let ([weights, v], Some("matmul"), true) = (&*call.args, op_name(call), plain(call)) else {
            return None;
        };
        let softmax = self.only_use(weights, &["nn.softmax"])?;
        let mut scores = softmax.args.first()?;
        let ndim = scores.as_var()?.ty().as_tensor()?.ndim()? as i64;
        let axis = softmax.attrs.int("axis").unwrap_or(-1);
        if axis != -1 && axis != ndim - 1 {
            return None;
        }
        let mut bias = None;
        if let Some(add) = self.only_use(scores, &["add"]) {
            scores = add.args.first()?;
            bias = add.args.get(1).cloned();
        }
        let mut scale = 1.0;
        if let Some(scaled) = self.only_use(scores, &["multiply", "divide"]) {
            scale = self.scale(scaled)?;
            scores = scaled.args.first()?;
        }
        let product = self.only_use(scores, &["matmul"]).filter(|it| plain(it))?;
        let [q, turned] = &*product.args else { return None };
        let turn = self.call(turned, &["permute_dims"])?;
        // The keys are what is turned, with its last two axes in the other order. The elements of a key are contiguous in both.
        let mut axes: Vec<i64> = turn.attrs.int_list("axes")?.iter().map(|it| it.rem_euclid(ndim)).collect();
        let last = axes.len().checked_sub(1).filter(|&last| last > 0 && axes[last - 1] == ndim - 1)?;
        axes.swap(last - 1, last);
        let keys = turn.args.first()?.clone();
        let turned = !axes.iter().copied().eq(0..ndim);
        Some(Attention { q: q.clone(), keys, axes: turned.then_some(axes), v: v.clone(), bias, scale })
    }
}

/// The parts of an attention.
struct Attention {
    q: Arg,
    keys: Arg,
    /// The order of the axes of `keys`, if it is another one than that of the axes of `q`.
    axes: Option<Vec<i64>>,
    v: Arg,
    bias: Option<Arg>,
    scale: f64,
}

struct Fuse<'a> {
    calls: Calls,
    module: &'a IRModule,
    choices: &'a Choices,
}

impl ExprMutator for Fuse<'_> {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let walked = crate::relax::mutator::walk_binding(self, binding).map(|it| vec![it]);
        let (Expr::Call(call), false) = (&binding.value, binding.match_cast) else { return walked };
        let Some(Attention { q, mut keys, axes, v, bias, scale }) = self.calls.attention(call) else {
            return walked;
        };
        let Some(dtype) = binding.var.ty().as_tensor().and_then(|ty| ty.dtype) else { return walked };
        if ![DataType::F32, DataType::F64].contains(&dtype) {
            return walked;
        }
        let (module, span, mut bindings) = (self.module, &call.span, Vec::new());
        if let Some(axes) = axes {
            let attrs = Attrs::new().with("axes", axes);
            let Some(turned) = bound_call(module, "keys", "permute_dims", &[keys], attrs, span) else {
                return walked;
            };
            keys = Arg::from(&turned.var);
            bindings.push(turned);
        }
        let args: Vec<Arg> = [q, keys, v].into_iter().chain(bias).collect();
        let attrs = Attrs::new().with("scale", scale);
        match bound_call(module, binding.var.name(), "nn.attention", &args, attrs, span) {
            Some(fused) if structural_equal(fused.var.ty(), binding.var.ty()).is_ok() => {
                self.choices.note(NAME, || {
                    let subject = format!("products, softmax and scale of {}", binding.var.ty());
                    [subject, "nn.attention".into(), "the scores of all rows are never stored".into()]
                });
                bindings.push(Binding { value: fused.value, ..binding.clone() });
                Some(bindings)
            }
            _ => walked,
        }
    }
}
