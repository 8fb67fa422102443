//! Operators become calls of tensor programs.
//!
//! *Requires*: well-formed graph functions. *Ensures*: every operator call that has a legalisation and whose shapes
//! and element types are known is a [`Callee::Tir`] of a tensor program of the module; structurally equal programs
//! are one. Indices that are not known to be inside of their axis are checked in front of the call, by the virtual machine
//! (`vm.check_indices`); extents that inference takes to be equal without proof are compared there, by `match_cast`. Free symbolic variables of a program become scalar parameters, their values trailing arguments. Calls of
//! [view operators](crate::relax::op::is_view) stay: they move no data.
//!
//! TVM counterpart: `LegalizeOps` (`src/relax/transform/legalize_ops.cc`).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ir::{
    BaseFunc, GlobalVar, IRModule, IrError, LegalizeContext, Op, ShapeType, Span, TensorType, Type, Var,
    structural_equal, structural_hash,
};
use crate::pass::{Pass, module_pass};
use crate::relax::analysis::{assumptions, type_of_arg};
use crate::relax::op::check_indices;
use crate::relax::{Arg, Binding, Call, Callee, Expr, Function, Mutator};
use crate::tir::transform::renew_defs;
use crate::tir::{Param, PrimExpr, PrimFunc};

/// The pass `LegalizeOps`.
pub fn legalize_ops() -> Pass {
    module_pass("LegalizeOps", |module, _| {
        let funcs: Vec<(GlobalVar, Arc<Function>)> = (module.functions())
            .filter_map(|(gv, func)| match func {
                BaseFunc::Relax(func) => Some((gv.clone(), func.clone())),
                BaseFunc::Prim(_) | BaseFunc::Extern(_) => None,
            })
            .collect();
        let mut legalizer = Legalizer { module, made: FxHashMap::default(), error: None };
        for (gv, func) in funcs {
            if let Some(func) = legalizer.mutate_function(&func) {
                legalizer.module.update(gv, BaseFunc::Relax(Arc::new(func)));
            }
            if let Some(err) = legalizer.error.take() {
                return Err(err);
            }
        }
        Ok(legalizer.module)
    })
}

struct Legalizer {
    module: IRModule,
    /// Programs added so far, by structural hash.
    made: FxHashMap<u64, Vec<GlobalVar>>,
    error: Option<IrError>,
}

impl Mutator for Legalizer {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        if let Expr::Call(call) = &binding.value
            && let Callee::Op(op) = call.callee
            && self.error.is_none()
        {
            let mut bindings = Vec::new();
            return match self.call(call, op, binding.var.ty(), &mut bindings) {
                Ok(value) => {
                    bindings.push(Binding { value: value?, ..binding.clone() });
                    Some(bindings)
                }
                Err(err) => {
                    self.error = Some(err.at(&call.span));
                    None
                }
            };
        }
        crate::relax::mutator::walk_binding(self, binding).map(|it| vec![it])
    }
}

impl Legalizer {
    fn call(
        &mut self,
        call: &Call,
        op: Op,
        out: &Type,
        before: &mut Vec<Binding>,
    ) -> Result<Option<Expr>, IrError> {
        let types: Vec<Type> = call.args.iter().map(|arg| type_of_arg(arg, &self.module)).collect();
        let Some(legalize) = op.legalize else { return Ok(None) };
        if crate::relax::op::is_view(op) || !types.iter().all(is_known) || !is_known(out) {
            return Ok(None);
        }
        let attrs = &call.attrs;
        let cx = LegalizeContext { op, args: &call.args, types: &types, attrs, out, span: &call.span };
        let func = legalize(&cx)?;
        // Extents that inference takes to be equal are compared when the program runs.
        let (_, assumed) = assumptions(|| (op.infer)(&cx.infer()));
        for (a, b) in assumed {
            let ty = Type::Shape(ShapeType { ndim: Some(1), values: Some(Arc::new([b])) });
            let var = Var::with_span(op.name, ty, call.span.clone());
            let value = Expr::Arg(Arg::Shape(Arc::new([a])));
            before.push(Binding { var, value, match_cast: true });
        }
        let mut given = call.args.to_vec();
        if let Some(check) = check_indices(&cx.infer())? {
            let checked = Var::with_span("indices", types[1].clone(), call.span.clone());
            before.push(Binding::new(checked.clone(), check));
            given[1] = checked.into();
        }
        let mut args: Vec<Arg> = Vec::new();
        for (arg, ty) in given.iter().zip(&types) {
            flatten(arg, ty, &call.span, &mut args, before);
        }
        args.extend(func.params.iter().filter_map(|param| match param {
            Param::Scalar(var) => Some(Arg::Prim(PrimExpr::from(var))),
            Param::In(_) | Param::Out(_) => None,
        }));
        let callee = Callee::Tir(self.share(renew_defs(&func)));
        let ret = Some(out.clone());
        let call =
            Call { callee, args: args.into(), attrs: Default::default(), ret, span: call.span.clone() };
        Ok(Some(call.into()))
    }

    /// The global variable of `func`, which is added unless an equal program is there.
    fn share(&mut self, mut func: PrimFunc) -> GlobalVar {
        func.attrs.set("private", true);
        let hash = structural_hash(&func);
        let same =
            self.made.get(&hash).into_iter().flatten().find(|gv| {
                self.module.prim_func(gv).is_some_and(|it| structural_equal(&**it, &func).is_ok())
            });
        if let Some(gv) = same {
            return gv.clone();
        }
        let gv = self.module.add(func.name.clone(), BaseFunc::Prim(Arc::new(func)));
        self.made.entry(hash).or_default().push(gv.clone());
        gv
    }
}

/// True when every tensor in `ty` has a known symbolic shape and element type.
fn is_known(ty: &Type) -> bool {
    let known = |ty: &TensorType| ty.known_shape().is_some() && ty.dtype.is_some();
    match ty {
        Type::Tensor(ty) => known(ty),
        Type::Tuple(fields) => fields.iter().all(is_known),
        Type::Shape(shape) => shape.values.is_some(),
        Type::Prim(_) | Type::Func(_) | Type::Adt(_) | Type::Ref(_) | Type::Param(_) | Type::Object => true,
    }
}

/// The tensors of `arg` one by one; fields of a tuple variable are bound in `before`.
fn flatten(arg: &Arg, ty: &Type, span: &Span, args: &mut Vec<Arg>, before: &mut Vec<Binding>) {
    match (arg, ty) {
        (Arg::Tuple(fields), Type::Tuple(types)) => {
            for (field, ty) in fields.iter().zip(types.iter()) {
                flatten(field, ty, span, args, before);
            }
        }
        (Arg::Var(tuple), Type::Tuple(types)) => {
            for (i, ty) in types.iter().enumerate() {
                let var = Var::with_span(format!("{}_{i}", tuple.name()), ty.clone(), span.clone());
                before.push(Binding::new(var.clone(), Expr::TupleGetItem(arg.clone(), i)));
                args.push(var.into());
            }
        }
        (_, Type::Tensor(_)) => args.push(arg.clone()),
        // Shapes, scalars and the like are part of the program.
        _ => {}
    }
}
