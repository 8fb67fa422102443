//! `LegalizeOps`: lowers operator calls to calls of tensor programs or to graphs of other calls.
//!
//! *Requires*: well-formed graph functions. *Ensures*: every operator call is lowered by the [`Legalize`] of its
//! definition. If that is a tensor program, the call becomes a [`Callee::Tir`] call of a program in the module, provided
//! that all shapes and element types are known; structurally equal programs are shared. If it is a graph, its bindings
//! replace the call, and the operators in them are legalised in turn; a `match_cast` checks a result whose type is less
//! precise than the inferred one. [View operators](crate::ir::OpDef::is_view) stay: they move no data.
//!
//! Before a call of a tensor program, the virtual machine checks indices that are not known to be inside of their axis
//! (`vm.check_indices`), and a `match_cast` compares extents that inference assumed to be equal without proof. Free
//! symbolic variables of a program become scalar parameters; their values become trailing arguments. Constants of rank 0
//! become scalars in the program where the operator accepts scalars.
//!
//! TVM counterpart: `LegalizeOps` (`src/relax/transform/legalize_ops.cc`).

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::{DataType, Tensor, Value};

use crate::ir::{
    ArgKind, BaseFunc, GlobalVar, GraphFn, IRModule, IrError, Legalize, LegalizeContext, Op, ShapeType, Span,
    TensorType, Type, Var, structural_equal, structural_hash,
};
use crate::pass::{Pass, module_pass};
use crate::relax::analysis::{Unifier, assumptions, infer_type, show_type, type_of_arg};
use crate::relax::op::check_indices;
use crate::relax::{Arg, Binding, BlockBuilder, Call, Callee, Expr, ExprMutator, Function};
use crate::tir::transform::renew_defs;
use crate::tir::{Param, PrimExpr, PrimFunc};

/// Limit on the nesting of operator graphs in operator graphs; deeper nesting is reported as endless recursion.
const MAX_NESTING: usize = 100;

/// The `LegalizeOps` pass.
pub fn legalize_ops() -> Pass {
    module_pass("LegalizeOps", |module, _| {
        let funcs: Vec<(GlobalVar, Arc<Function>)> = (module.functions())
            .filter_map(|(gv, func)| match func {
                BaseFunc::Relax(func) => Some((gv.clone(), func.clone())),
                BaseFunc::Prim(_) | BaseFunc::Extern(_) => None,
            })
            .collect();
        let mut legalizer = Legalizer { module, made: FxHashMap::default(), nesting: 0, error: None };
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
    /// Number of operator graphs around the current call.
    nesting: usize,
    error: Option<IrError>,
}

impl ExprMutator for Legalizer {
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
        let Some(legalize) = op.legalize else { return Ok(None) };
        let args = with_scalars(op, &call.args);
        let types: Vec<Type> = args.iter().map(|arg| type_of_arg(arg, &self.module)).collect();
        let attrs = &call.attrs;
        let cx = LegalizeContext { op, args: &args, types: &types, attrs, out, span: &call.span };
        match legalize {
            Legalize::Graph(lower) => self.graph(&cx, lower, before),
            Legalize::TensorProgram(lower) => {
                if op.is_view() || !types.iter().all(is_known) || !is_known(out) {
                    return Ok(None);
                }
                let func = lower(&cx)?;
                self.call_program(&cx, func, before).map(Some)
            }
        }
    }

    /// The value of the graph that `lower` builds, whose legalised bindings are appended to `before`; `None` keeps the call.
    fn graph(
        &mut self,
        cx: &LegalizeContext<'_>,
        lower: GraphFn,
        before: &mut Vec<Binding>,
    ) -> Result<Option<Expr>, IrError> {
        if self.nesting == MAX_NESTING {
            return Err(cx
                .infer()
                .error(format!("{MAX_NESTING} graphs of operators are in each other"))
                .help("the graph of an operator must not contain the operator, nor one whose graph does"));
        }
        let mut builder = BlockBuilder::new(std::mem::take(&mut self.module));
        builder.begin_scope();
        let value = lower(cx, &mut builder);
        let body = builder.end_scope(Arg::Tuple(Arc::new([])));
        self.module = builder.into_module();
        let Some(value) = value? else { return Ok(None) };
        let got = infer_type(&value, &self.module)?;
        if let Err(why) = Unifier::fixed(cx.out).unify(cx.out, &got) {
            let (got, out) = (show_type(&got), show_type(cx.out));
            let message = format!("its graph gives {got}, type inference says {out}: {}", why.0);
            return Err(cx.infer().error(message));
        }
        let result = Var::with_span(cx.op.name, got, cx.span.clone());
        let last = Binding::new(result.clone(), value);
        self.nesting += 1;
        for binding in body.blocks.iter().flat_map(|block| block.bindings.iter()).chain([&last]) {
            match self.mutate_binding(binding) {
                Some(legal) => before.extend(legal),
                None => before.push(binding.clone()),
            }
        }
        self.nesting -= 1;
        if let Some(err) = self.error.take() {
            return Err(err);
        }
        if structural_equal(result.ty(), cx.out).is_err() {
            let cast = Var::with_span(cx.op.name, cx.out.clone(), cx.span.clone());
            before.push(Binding { var: cast.clone(), value: Expr::Arg(result.into()), match_cast: true });
            return Ok(Some(Expr::Arg(cast.into())));
        }
        Ok(Some(Expr::Arg(result.into())))
    }

    /// A call of `func` that computes the call in `cx`; bindings that it needs, checks included, are appended to `before`.
    fn call_program(
        &mut self,
        cx: &LegalizeContext<'_>,
        func: PrimFunc,
        before: &mut Vec<Binding>,
    ) -> Result<Expr, IrError> {
        let op = cx.op;
        // Extents that inference assumed to be equal are compared at run time.
        let (_, assumed) = assumptions(|| (op.infer)(&cx.infer()));
        for (a, b) in assumed {
            let ty = Type::Shape(ShapeType { ndim: Some(1), values: Some(Arc::new([b])) });
            let var = Var::with_span(op.name, ty, cx.span.clone());
            let value = Expr::Arg(Arg::Shape(Arc::new([a])));
            before.push(Binding { var, value, match_cast: true });
        }
        let mut given = cx.args.to_vec();
        if let Some(check) = check_indices(&cx.infer())? {
            let checked = Var::with_span("indices", cx.types[1].clone(), cx.span.clone());
            before.push(Binding::new(checked.clone(), check));
            given[1] = checked.into();
        }
        let mut args: Vec<Arg> = Vec::new();
        for (arg, ty) in given.iter().zip(cx.types) {
            flatten(arg, ty, cx.span, &mut args, before);
        }
        args.extend(func.params.iter().filter_map(|param| match param {
            Param::Scalar(var) => Some(Arg::Prim(PrimExpr::from(var))),
            Param::In(_) | Param::Out(_) => None,
        }));
        let callee = Callee::Tir(self.share(renew_defs(&func)));
        let ret = Some(cx.out.clone());
        let call = Call { callee, args: args.into(), attrs: Default::default(), ret, span: cx.span.clone() };
        Ok(call.into())
    }

    /// The global variable of `func`; adds `func` to the module unless this pass has already added an equal program.
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

/// The arguments of a call, with scalars instead of constants of rank 0 where `op` accepts both: a scalar is part of the
/// program, a constant is passed to it. A call without variables stays as it is, so that it can be evaluated.
fn with_scalars(op: Op, args: &[Arg]) -> Vec<Arg> {
    let is_any = |i: usize| op.args.get(i).is_some_and(|def| def.kind == ArgKind::Any);
    let scalar = |(i, arg): (usize, &Arg)| match arg {
        Arg::Const(tensor) if is_any(i) => scalar(tensor).map_or_else(|| arg.clone(), Arg::Prim),
        _ => arg.clone(),
    };
    let res: Vec<Arg> = args.iter().enumerate().map(scalar).collect();
    if res.iter().any(|arg| matches!(arg, Arg::Var(_))) { res } else { args.to_vec() }
}

/// The value of a constant of rank 0, if it is a finite number. Values of `u64` do not all fit in an immediate.
fn scalar(tensor: &Tensor) -> Option<PrimExpr> {
    let dtype = tensor.dtype();
    if tensor.rank() != 0 || dtype == DataType::U64 {
        return None;
    }
    match tensor.read_scalar().ok()? {
        Value::Float(value) if value.is_finite() => Some(PrimExpr::float(value, dtype)),
        Value::Int(value) if dtype.is_integer() => Some(PrimExpr::int(value, dtype)),
        _ => None,
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

/// Appends the tensors of `arg` to `args` one by one; the fields of a tuple variable are first bound in `before`.
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
        // Other values, such as shapes and scalars, are part of the program and not passed to it.
        _ => {}
    }
}
