//! Graph functions: definitions, calls between them, closures.

use std::any::TypeId;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use tvm_runtime::{DataType, DimBound};

use super::control::scope;
use super::frame::{emit, fail, frame, span_of, with_frame};
use super::value::Closure;
use super::{Args, GraphValue, IntoItem, Item};
use crate::ir::{
    AttrValue, Attrs, BaseFunc, FuncType, GlobalVar, IRModule, IrError, Span, TensorType, Type, TypeParam,
    Var, well_formed,
};
use crate::relax::analysis::infer_type;
use crate::relax::{Arg, Binding, Body, Call, Callee, Expr, Function};
use crate::script::literal::Literal;

/// A graph function written as `#[relax::func]` or `#[relay::func]`: the macro implements this for a type of the
/// function's name.
pub trait FuncDef: 'static {
    /// Name of the function in the module.
    const NAME: &'static str;
    /// Number of parameters.
    const ARITY: usize;

    /// Declares parameters and result, then builds the body.
    fn define(definition: &mut Definition) -> GraphValue;

    /// A module of this function and all that it uses.
    ///
    /// # Errors
    /// All errors in them, with their places in the user's source.
    fn module() -> Result<IRModule, IrError> {
        module_of(include::<Self>)
    }

    /// `module` with this function and all that it uses; it may call the functions there with `call_global`.
    ///
    /// # Errors
    /// As [`module`](Self::module).
    fn extend(module: IRModule) -> Result<IRModule, IrError> {
        extended(module, include::<Self>)
    }
}

/// A graph function under construction.
pub struct Definition {
    name: &'static str,
    key: Option<TypeId>,
    type_params: Vec<TypeParam>,
    params: Vec<Var>,
    ret: Type,
    pure: bool,
    attrs: Attrs,
    gv: Option<GlobalVar>,
    /// The variable of a local function.
    var: Option<Var>,
    span: Span,
}

impl Definition {
    fn new(name: &'static str, key: Option<TypeId>) -> Definition {
        Definition {
            name,
            key,
            type_params: Vec::new(),
            params: Vec::new(),
            ret: Type::Object,
            pure: true,
            attrs: Attrs::new(),
            gv: None,
            var: None,
            span: Span::none(),
        }
    }

    /// Adds a type parameter.
    pub fn type_param(&mut self, name: &str) {
        self.type_params.push(TypeParam(name.into()));
    }

    /// Declares that calling the function has a side effect.
    pub fn impure(&mut self) {
        self.pure = false;
    }

    /// Sets an attribute of the function.
    pub fn attr(&mut self, name: &str, value: impl Into<AttrValue>) {
        self.attrs.set(name, value);
    }

    /// Creates a scalar, which [`scalar_param`](Self::scalar_param) adds to the parameters; the types of other parameters
    /// may use it. Only an `i64` may have bounds.
    #[track_caller]
    pub fn scalar(&mut self, name: &str, dtype: DataType, bound: Option<DimBound>) -> GraphValue {
        let var = Var::with_span(name, Type::Prim(dtype), span_of(Location::caller()));
        GraphValue::from_arg(Arg::Var(var.within(bound)))
    }

    /// Adds `scalar` as the next parameter.
    pub fn scalar_param(&mut self, scalar: &GraphValue) {
        self.params.extend(scalar.arg().and_then(Arg::as_var).cloned());
    }

    /// Adds a parameter.
    #[track_caller]
    pub fn param(&mut self, name: &str, ty: Type) -> GraphValue {
        let var = Var::with_span(name, ty, span_of(Location::caller()));
        self.params.push(var.clone());
        GraphValue::from_arg(Arg::Var(var))
    }

    /// Sets the result type; from here on, the function can be called, also by itself.
    #[track_caller]
    pub fn begin(&mut self, ret: Type) {
        self.span = span_of(Location::caller());
        self.ret = ret;
        let declared = self.function(Body::value(Arg::Tuple(Arc::new([]))));
        self.gv = frame(|frame| {
            let gv = frame.builder.module_mut().add(self.name, BaseFunc::Relax(declared.into()));
            self.key.map(|key| frame.defs.insert(key, gv.clone()));
            gv
        });
    }

    /// [`begin`](Self::begin) for a local function; returns the value that stands for the function, also in its own body.
    #[track_caller]
    pub fn begin_local(&mut self, ret: Type) -> GraphValue {
        self.span = span_of(Location::caller());
        self.ret = ret;
        let ty = self.function(Body::value(Arg::Tuple(Arc::new([])))).ty();
        let var = Var::with_span(self.name, Type::Func(ty.into()), self.span.clone());
        self.var = Some(var.clone());
        GraphValue::from_arg(Arg::Var(var))
    }

    fn function(&self, body: Body) -> Function {
        Function {
            name: self.name.into(),
            type_params: self.type_params.clone().into(),
            params: self.params.clone().into(),
            body,
            ret: self.ret.clone(),
            pure: self.pure,
            attrs: self.attrs.clone(),
            span: self.span.clone(),
        }
    }
}

/// Builds a function in the current module.
fn build(
    name: &'static str,
    key: Option<TypeId>,
    define: impl FnOnce(&mut Definition) -> GraphValue,
) -> Option<GlobalVar> {
    let mut definition = Definition::new(name, key);
    let body = body_of(&mut definition, define)?;
    let gv = definition.gv.clone()?;
    frame(|frame| {
        frame.builder.module_mut().update(gv.clone(), BaseFunc::Relax(definition.function(body).into()))
    });
    Some(gv)
}

fn body_of(definition: &mut Definition, define: impl FnOnce(&mut Definition) -> GraphValue) -> Option<Body> {
    frame(|frame| frame.builder.begin_scope())?;
    let value = define(definition);
    let ret = value.arg_of_type(Some(&definition.ret));
    frame(|frame| frame.builder.end_scope(ret.unwrap_or(Arg::Tuple(Arc::new([])))))
}

/// A local function: a closure whose parameter and result types are declared. It may call itself.
#[track_caller]
pub fn local(name: &'static str, define: impl FnOnce(&mut Definition) -> GraphValue) -> GraphValue {
    let span = span_of(Location::caller());
    let mut definition = Definition::new(name, None);
    let Some(body) = body_of(&mut definition, define) else { return GraphValue::poison() };
    let Some(var) = definition.var.clone() else { return GraphValue::poison() };
    let value = Expr::Function(definition.function(body).into());
    let bound = frame(|frame| {
        let ty = infer_type(&value, frame.builder.module());
        ty.map(|_| frame.builder.push(Binding::new(var.clone(), value)))
    });
    match bound {
        Some(Ok(())) => GraphValue::from_arg(Arg::Var(var)),
        Some(Err(err)) => fail(err, &span),
        None => GraphValue::poison(),
    }
}

/// `function(f)`: a graph function of the module as a value.
#[track_caller]
pub fn function<D: FuncDef>() -> GraphValue {
    let span = span_of(Location::caller());
    global::<D>(&span).map_or_else(GraphValue::poison, |gv| GraphValue::from_arg(Arg::Global(gv)))
}

/// Sets an attribute of the current module.
pub fn module_attr(name: &str, value: impl Into<AttrValue>) {
    frame(|frame| frame.builder.module_mut().attrs.set(name, value));
}

/// The global variable of a definition, which is built on first use.
fn global<D: FuncDef + ?Sized>(span: &Span) -> Option<GlobalVar> {
    let key = TypeId::of::<D>();
    match frame(|frame| frame.defs.get(&key).cloned()) {
        None => {
            fail(IrError::new(format!("`{}` is used outside of a graph function", D::NAME), span), span);
            None
        }
        Some(Some(gv)) => Some(gv),
        Some(None) => build(D::NAME, Some(key), D::define),
    }
}

/// Adds a definition to the current module, with all that it uses.
pub fn include<D: FuncDef + ?Sized>() {
    global::<D>(&Span::none());
}

/// The module that `build` makes, which is checked to be well formed.
///
/// # Errors
/// All problems found.
pub fn module_of(build: impl FnOnce()) -> Result<IRModule, IrError> {
    extended(IRModule::new(), build)
}

fn extended(module: IRModule, build: impl FnOnce()) -> Result<IRModule, IrError> {
    let (module, ()) = with_frame(module, build)?;
    well_formed(&module)?;
    Ok(module)
}

/// A graph function written in place: `relax!(|x: ..| -> .. { .. })`.
#[derive(Clone, Debug)]
pub struct GraphFunc {
    module: Result<IRModule, IrError>,
}

impl GraphFunc {
    /// A module of this function, named `main`, and all that it uses.
    ///
    /// # Errors
    /// All errors in them, with their places in the user's source.
    pub fn module(&self) -> Result<IRModule, IrError> {
        self.module.clone()
    }
}

/// Builds a graph function written in place.
pub fn define(body: impl FnOnce(&mut Definition) -> GraphValue) -> GraphFunc {
    GraphFunc {
        module: module_of(|| {
            build("main", None, body);
        }),
    }
}

/// The value of a call of the graph function `D`.
pub struct CallOf<D>(GraphValue, PhantomData<D>);

impl<D> IntoItem for CallOf<D> {
    fn into_item(self) -> Item {
        Item::Value(self.0)
    }
}

/// Calls another graph function.
#[track_caller]
pub fn call_def<D: FuncDef>(args: Args) -> CallOf<D> {
    call_def_at(args, &span_of(Location::caller()))
}

/// [`call_def`] for a call that is written at `span`.
pub(super) fn call_def_at<D: FuncDef>(args: Args, span: &Span) -> CallOf<D> {
    let value = global::<D>(span).map_or_else(GraphValue::poison, |gv| {
        let ty = frame(|frame| frame.builder.module().relax_func(&gv).map(|func| func.ty())).flatten();
        emit_call(Callee::Global(gv), ty.as_ref(), args, span)
    });
    CallOf(value, PhantomData)
}

/// `call_global("name", (x, y))`: calls a graph function of the module that is being extended.
#[track_caller]
pub fn call_global(args: Args) -> GraphValue {
    let span = span_of(Location::caller());
    let mut items = args.items.into_iter();
    let (Some(Item::Str(name)), Some(inputs), None) = (items.next(), items.next(), items.next()) else {
        return fail(
            IrError::new("wrong arguments of `call_global`", &span)
                .help("write call_global(\"main\", (x, y))"),
            &span,
        );
    };
    let Some(Some((gv, ty))) = frame(|frame| {
        let gv = frame.builder.module().global_var(&name)?.clone();
        let ty = frame.builder.module().relax_func(&gv)?.ty();
        Some((gv, ty))
    }) else {
        return fail(IrError::new(format!("the module has no graph function `{name}`"), &span), &span);
    };
    emit_call(Callee::Global(gv), Some(&ty), Args::of(super::tensor_program::list(inputs)), &span)
}

/// Binds a call; closures and numbers among the arguments take the types of the parameters.
pub(super) fn emit_call(callee: Callee, ty: Option<&FuncType>, args: Args, span: &Span) -> GraphValue {
    if let Some((name, _)) = args.named.first() {
        let message = format!("`{name}`: arguments of a function have no names");
        return fail(IrError::new(message, span).help("give the arguments by position"), span);
    }
    if let Some(ty) = ty
        && ty.params.len() != args.items.len()
    {
        let name = match &callee {
            Callee::Global(gv) => format!("`{}`: ", gv.name()),
            Callee::Var(var) => format!("`{}`: ", var.name()),
            _ => String::new(),
        };
        let message = format!("{name}expected {} arguments, got {}", ty.params.len(), args.items.len());
        return fail(IrError::new(message, span), span);
    }
    let mut bound = Vec::new();
    for (i, it) in args.items.into_iter().enumerate() {
        let expected = ty.and_then(|ty| ty.params.get(i));
        let value = match value_of_type(it, expected) {
            Ok(value) => value,
            Err(err) => return fail(err, span),
        };
        let Some(arg) = value.arg_of_type(expected) else { return GraphValue::poison() };
        bound.push(arg);
    }
    emit(Call { callee, args: bound.into(), attrs: Attrs::new(), ret: None, span: span.clone() }.into(), span)
}

/// The value of an argument; a number takes the element type of the expected tensor or scalar, if that is known.
pub(super) fn value_of_type(it: Item, expected: Option<&Type>) -> Result<GraphValue, IrError> {
    let literal = match it {
        Item::Int(value) => Literal::Int(value),
        Item::Float(value) => Literal::Float(value),
        other => return Ok(super::value::to_value(other)),
    };
    match expected {
        Some(Type::Tensor(TensorType { dtype: Some(dtype), .. })) => super::item::scalar(literal, *dtype),
        Some(Type::Prim(dtype)) => super::item::prim(literal, *dtype),
        _ => Ok(super::value::to_value(match literal {
            Literal::Int(value) => Item::Int(value),
            Literal::Float(value) => Item::Float(value),
        })),
    }
}

/// A closure literal as a local function of type `expected`.
pub(super) fn close(closure: &Closure, expected: Option<&Type>) -> Option<Arg> {
    let span = span_of(closure.location);
    let Some(ty) = expected.and_then(Type::as_func) else {
        let err = IrError::new("the types of the closure's parameters are not known here", &span)
            .help("pass it where a parameter of type `fn(..) -> ..` is expected");
        fail(err, &span);
        return None;
    };
    if ty.params.len() != closure.arity {
        let message = format!("the closure takes {} arguments, expected {}", closure.arity, ty.params.len());
        fail(IrError::new(message, &span), &span);
        return None;
    }
    let params: Vec<Var> = ty
        .params
        .iter()
        .enumerate()
        .map(|(i, ty)| Var::with_span(format!("p{i}"), ty.clone(), span.clone()))
        .collect();
    let values: Vec<GraphValue> =
        params.iter().map(|var| GraphValue::from_arg(Arg::Var(var.clone()))).collect();
    let body = scope(|| (closure.body)(&values), Some(&ty.ret))?;
    let func = Function {
        name: "closure".into(),
        type_params: Arc::new([]),
        params: params.into(),
        body,
        ret: ty.ret.clone(),
        pure: true,
        attrs: Attrs::new(),
        span: span.clone(),
    };
    let value = emit(Expr::Function(Arc::new(func)), &span);
    let arg = value.arg().cloned()?;
    Some(arg)
}
