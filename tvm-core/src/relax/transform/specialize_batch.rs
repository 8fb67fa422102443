//! `SpecializeBatch`: small networks with a batch of unknown size get a function for one image and a function for many, and the
//! size of the batch decides at the call.
//!
//! ```text
//! fn net(x: Tensor<f32, n, 3, 8, 8>) { .. }
//! // becomes
//! fn net(x: Tensor<f32, n, 3, 8, 8>) { if n == 1 { net_batch_1(x) } else { net_batch(x) } }
//! ```
//!
//! One image is what most calls are for; its shapes are constants, and transforms that several images pay for are not worth
//! their calls. So `ConvertLayout` takes the algorithm for each convolution that suits the function. A network is small if its
//! constants are at most [`MOST_BYTES`]: weights that have the same layout in both functions are stored once, others twice, and a
//! large network gains little. Its only dimension must be the batch, and one of its convolutions must have it.
//!
//! *Requires*: operators that are not lowered yet. *Ensures*: the type of the function is the same. Targets that compute on a
//! GPU, or interpret, are left alone.
//!
//! TVM counterpart: none; it compiles a model again for each size (`relax.transform.BindSymbolicVars`).

use std::sync::Arc;

use tvm_runtime::DimBound;

use super::calls::op_name;
use crate::ir::{Attrs, BaseFunc, FirstError, GlobalVar, IRModule, IrError, Type, Var};
use crate::pass::{Pass, module_pass};
use crate::relax::analysis::{infer_type, type_dims};
use crate::relax::visitor::{walk_arg, walk_binding};
use crate::relax::{
    Arg, Binding, BindingBlock, Body, Call, Callee, Expr, ExprMutator, ExprSubstitute, ExprVisitor, Function,
    If,
};
use crate::target::TargetKind;
use crate::tir::{BinaryOp, PrimExpr, binary};

/// Name of the pass.
const NAME: &str = "SpecializeBatch";

/// The most bytes of constants that a function may name.
const MOST_BYTES: usize = 8 << 20;

/// Attribute of the function for many images: how many they are expected to be.
pub(super) const EXPECTED_BATCH: &str = "expected_batch";

/// The number of images that the function for many is expected to compute on.
const MANY: i64 = 8;

/// The pass.
pub fn specialize_batch() -> Pass {
    module_pass(NAME, |mut module, context| {
        match context.target.kind {
            TargetKind::Host | TargetKind::C | TargetKind::Llvm => {}
            TargetKind::Cuda | TargetKind::Interpreter => return Ok(module),
        }
        let functions: Vec<(GlobalVar, Arc<Function>)> = module
            .functions()
            .filter_map(|(gv, _)| Some((gv.clone(), module.relax_func(gv)?.clone())))
            .collect();
        let mut err = FirstError::default();
        for (gv, func) in functions {
            let Some(batch) = small_network(&func) else { continue };
            context.choices.note(NAME, || {
                let reason = format!("a small network whose only dimension is the batch `{}`", batch.name());
                [gv.name().into(), "a function for one image, another for many".into(), reason]
            });
            let specialized = specialize(&mut module, &gv, &func, &batch);
            err.keep(specialized);
        }
        err.finish(module)
    })
    .opt_level(1)
}

/// The batch of `func`, if it is a small network over images of known size.
fn small_network(func: &Function) -> Option<Var> {
    let mut dims = func.params.iter().flat_map(|param| type_dims(param.ty()));
    let batch = dims.next()?;
    let bound = batch.bound().unwrap_or(DimBound::ANY);
    let private = func.attrs.bool("private") == Some(true);
    if private || !func.pure || !bound.contains(1) || bound.max() == Some(1) || dims.any(|dim| dim != batch) {
        return None;
    }
    let leads = |param: &Var| {
        let shape = param.ty().as_tensor().and_then(|it| it.known_shape());
        let (first, rest) = shape.and_then(|dims| dims.split_first()).unzip();
        let leads = first.and_then(PrimExpr::as_var) == Some(&batch);
        type_dims(param.ty()).is_empty()
            || leads && rest.iter().copied().flatten().all(|it| it.as_int().is_some())
    };
    let mut network = Network { batch: &batch, only_dim: true, convolutions: 0, bytes: 0 };
    network.visit_body(&func.body);
    let small = network.only_dim && network.convolutions > 0 && network.bytes <= MOST_BYTES;
    (small && func.params.iter().all(leads)).then_some(batch)
}

/// The first extent of a tensor.
fn leading(ty: &Type) -> Option<&PrimExpr> {
    ty.as_tensor()?.known_shape()?.first()
}

/// What a function computes on.
struct Network<'a> {
    batch: &'a Var,
    /// True if no type has another dimension.
    only_dim: bool,
    /// Convolutions over the images of the batch.
    convolutions: usize,
    bytes: usize,
}

impl ExprVisitor for Network<'_> {
    fn visit_binding(&mut self, binding: &Binding) {
        let ty = binding.var.ty();
        self.only_dim &= type_dims(ty).iter().all(|dim| dim == self.batch);
        if let Expr::Call(call) = &binding.value
            && op_name(call) == Some("nn.conv2d")
            && leading(ty).and_then(PrimExpr::as_var) == Some(self.batch)
        {
            self.convolutions += 1;
        }
        walk_binding(self, binding);
    }

    fn visit_arg(&mut self, arg: &Arg) {
        match arg {
            Arg::Const(tensor) => self.bytes += tensor.byte_len(),
            _ => walk_arg(self, arg),
        }
    }
}

/// Adds the functions for one image and for many, and calls them in `func`.
fn specialize(module: &mut IRModule, gv: &GlobalVar, func: &Function, batch: &Var) -> Result<(), IrError> {
    let one = with_batch(func, batch, PrimExpr::index(1));
    let many = with_batch(func, batch, PrimExpr::from(&batch.renew()));
    let many = Function { attrs: many.attrs.clone().with(EXPECTED_BATCH, MANY), ..many };
    // Types say that there is one image where that is known.
    let casts: Vec<Binding> = (func.params.iter().zip(one.params.iter()))
        .map(|(param, one)| Binding { var: one.renew(), value: Expr::Arg(param.into()), match_cast: true })
        .collect();
    let of_one = casts.iter().map(|it| Arg::from(&it.var)).collect();
    let one = module.add(format!("{}_batch_1", gv.name()), BaseFunc::Relax(Arc::new(one)));
    let many = module.add(format!("{}_batch", gv.name()), BaseFunc::Relax(Arc::new(many)));
    let branch = If {
        cond: Arg::Prim(binary(BinaryOp::Eq, batch.into(), PrimExpr::index(1))),
        then_branch: called(module, one, of_one, casts, func)?,
        else_branch: called(module, many, func.params.iter().map(Arg::from).collect(), Vec::new(), func)?,
        span: func.span.clone(),
    };
    let value = Expr::If(Arc::new(branch));
    let result = Var::with_span("result", infer_type(&value, module)?, func.span.clone());
    let typed = Var::with_span("result", func.ret.clone(), func.span.clone());
    let cast = Binding { var: typed.clone(), value: Expr::Arg((&result).into()), match_cast: true };
    let body = body_of(vec![Binding::new(result, value), cast], &typed);
    module.update(gv.clone(), BaseFunc::Relax(Arc::new(Function { body, ..func.clone() })));
    Ok(())
}

/// A private copy of `func` for the given size of the batch.
fn with_batch(func: &Function, batch: &Var, size: PrimExpr) -> Function {
    let mut substitute = ExprSubstitute { renew: true, ..ExprSubstitute::default() };
    substitute.prims.vars.insert(batch.id(), size);
    let func = substitute.mutate_function(func).unwrap_or_else(|| func.clone());
    Function { attrs: func.attrs.clone().with("private", true), ..func }
}

/// `bindings`, and a call of the function `gv`.
fn called(
    module: &IRModule,
    gv: GlobalVar,
    args: Arc<[Arg]>,
    mut bindings: Vec<Binding>,
    func: &Function,
) -> Result<Body, IrError> {
    let (callee, span) = (Callee::Global(gv), func.span.clone());
    let value: Expr = Call { callee, args, attrs: Attrs::new(), ret: None, span: span.clone() }.into();
    let var = Var::with_span("result", infer_type(&value, module)?, span);
    bindings.push(Binding::new(var.clone(), value));
    Ok(body_of(bindings, &var))
}

fn body_of(bindings: Vec<Binding>, ret: &Var) -> Body {
    let block = BindingBlock { dataflow: false, bindings: bindings.into() };
    Body { blocks: Arc::new([block]), ret: ret.into() }
}

#[cfg(test)]
mod tests {
    use tvm_runtime::{DataType, Tensor};

    use super::*;
    use crate::ir::{Op, Span};
    use crate::pass::PassContext;
    use crate::relax::BlockBuilder;
    use crate::relax::transform::random_graphs::{difference, random_graph_for, results};
    use crate::target::Target;

    fn specialized(module: &IRModule) -> IRModule {
        PassContext::new().target(Target::c()).scope(|| specialize_batch().apply(module.clone())).unwrap()
    }

    #[test]
    fn random_graphs_compute_the_same() {
        let mut count = 0;
        for seed in 500..530 {
            for images in [0, 1, 2] {
                let (module, args) = random_graph_for(seed, images);
                let new = specialized(&module);
                count += usize::from(new.functions().count() > module.functions().count());
                let [before, after] = [&module, &new].map(|it| results(it, &args));
                for (before, after) in before.iter().zip(&after) {
                    assert_eq!(difference(before, after), Some(0.0), "seed {seed}, {images} images");
                }
            }
        }
        assert!(count > 30, "{count} graphs are specialised");
    }

    /// A convolution of `x` with constant weights for the given number of channels of the result.
    fn network(shape: &[PrimExpr], channels: i64, name: &str) -> IRModule {
        let x = Var::new("x", Type::tensor(shape.to_vec(), DataType::F32));
        let weight = vec![0.5f32; (channels * 3) as usize];
        let weight = Arg::Const(Tensor::from_vec(weight, &[channels, 3, 1, 1]).unwrap());
        let mut builder = BlockBuilder::new(IRModule::new());
        let conv = |builder: &mut BlockBuilder| {
            let args = vec![Arg::from(&x), weight];
            let op = Op::get(name).unwrap();
            builder.emit_op("y", op, args, Attrs::new(), &Span::none()).map(Arg::from)
        };
        builder.add_function("main", std::slice::from_ref(&x), conv).unwrap();
        builder.into_module()
    }

    #[test]
    fn the_batch_decides_at_the_call() {
        let n = Var::index("n");
        let images = |size: PrimExpr| [size, 3.into(), 4.into(), 4.into()];
        let module = network(&images((&n).into()), 2, "nn.conv2d");
        let new = specialized(&module);
        let names: Vec<&str> = new.functions().map(|(gv, _)| gv.name()).collect();
        assert_eq!(names, ["main", "main_batch_1", "main_batch"]);
        let [main, one, many] = [0, 1, 2].map(|at| {
            let (gv, _) = new.functions().nth(at).unwrap();
            new.relax_func(gv).unwrap().clone()
        });
        let (gv, _) = module.functions().next().unwrap();
        let ty = module.relax_func(gv).unwrap().ty();
        assert!(crate::ir::structural_equal(&Type::Func(main.ty().into()), &Type::Func(ty.into())).is_ok());
        assert_eq!(leading(&one.ret).and_then(PrimExpr::as_int), Some(1));
        assert_eq!(leading(&many.ret).and_then(PrimExpr::as_var).map(Var::name), Some("n"));
        assert_eq!((one.attrs.int(EXPECTED_BATCH), many.attrs.int(EXPECTED_BATCH)), (None, Some(MANY)));

        let two = Var::index("m");
        let several = Var::index("n").within(DimBound::between(2, 8).ok());
        let up_to = Var::index("n").within(DimBound::between(1, 8).ok());
        let with = |size: &Var| images(size.into());
        for (shape, channels, expected) in [
            (images(1.into()), 2, 1),
            (with(&several), 2, 1),
            (with(&up_to), 2, 3),
            ([(&n).into(), 3.into(), (&two).into(), 4.into()], 2, 1),
            ([(&n).into(), 3.into(), (&n).into(), 4.into()], 2, 1),
            ([1.into(), 3.into(), (&n).into(), 4.into()], 2, 1),
            (with(&n), MOST_BYTES as i64 / 12 + 1, 1),
        ] {
            let new = specialized(&network(&shape, channels, "nn.conv2d"));
            assert_eq!(new.functions().count(), expected, "{new}");
        }
    }
}
