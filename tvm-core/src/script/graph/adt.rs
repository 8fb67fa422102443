//! Algebraic data types: definitions, constructors, matches.

use std::panic::Location;
use std::sync::Arc;

use super::control::scope;
use super::frame::{emit, fail, frame, span_of, type_of};
use super::function::value_of_type;
use super::value::to_value;
use super::{Args, GraphValue, IntoItem};
use crate::ir::{AdtType, Attrs, IrError, Span, Type, TypeDef, Var};
use crate::relax::analysis::constructor_fields;
use crate::relax::{Arg, Call, Callee, Clause, Constructor, Expr, Match, Pattern};

/// A type written as `#[relay::adt] enum`: the macro implements this for it.
pub trait AdtDef: 'static {
    /// Name of the type in the module.
    const NAME: &'static str;

    /// The definition, with the constructors in order.
    fn type_def() -> TypeDef;

    /// Adds the definition to the current module.
    fn include() {
        let known = frame(|frame| frame.builder.module().type_def(Self::NAME).is_some()).unwrap_or(true);
        if !known {
            // The definition may name the type itself.
            let placeholder =
                TypeDef { name: Self::NAME.into(), params: Arc::new([]), constructors: Arc::new([]) };
            frame(|frame| frame.builder.module_mut().add_type(Arc::new(placeholder)));
            let def = Arc::new(Self::type_def());
            frame(|frame| frame.builder.module_mut().add_type(def));
        }
    }

    /// The type applied to `args`; its definition is added to the current module.
    fn ty(args: Vec<Type>) -> Type {
        Self::include();
        Type::Adt(AdtType { name: Self::NAME.into(), args: args.into() })
    }
}

/// A pattern of a match.
pub enum Pat {
    /// `_`
    Wild,
    /// `name`
    Bind(&'static str),
    /// `Type::Name(..)`: name of the type, of the constructor, fields.
    Constructor(&'static str, &'static str, Vec<Pat>),
    /// `(.., ..)`
    Tuple(Vec<Pat>),
}

/// An arm: its pattern, and its body, which receives the pattern's variables from left to right.
type Arm<'a> = (Pat, Box<dyn FnOnce(&[GraphValue]) -> GraphValue + 'a>);

fn find(ty: &str, name: &str, span: &Span) -> Option<(Constructor, Arc<[Type]>)> {
    let def = frame(|frame| frame.builder.module().type_def(ty).cloned()).flatten();
    match def.as_ref().and_then(|def| def.constructor(name)) {
        Some((tag, constructor)) => {
            Some((Constructor { ty: ty.into(), name: name.into(), tag }, constructor.fields.clone()))
        }
        None => {
            fail(IrError::new(format!("type `{ty}` has no constructor `{name}`"), span), span);
            None
        }
    }
}

/// `Type::Name(..)`, `Type::<A>::Name(..)`: `ret` holds the type arguments, if they are written.
#[track_caller]
pub fn construct<D: AdtDef>(name: &str, ret: Option<Vec<Type>>, args: Args) -> GraphValue {
    let span = span_of(Location::caller());
    D::include();
    let Some((constructor, fields)) = find(D::NAME, name, &span) else { return GraphValue::poison() };
    if fields.len() != args.items.len() {
        let message =
            format!("`{}::{name}` takes {} arguments, got {}", D::NAME, fields.len(), args.items.len());
        return fail(IrError::new(message, &span), &span);
    }
    let mut bound = Vec::new();
    for (it, ty) in args.items.into_iter().zip(fields.iter()) {
        let value = match value_of_type(it, Some(ty)) {
            Ok(value) => value,
            Err(err) => return fail(err, &span),
        };
        let Some(arg) = value.arg_of_type(Some(ty)) else { return GraphValue::poison() };
        bound.push(arg);
    }
    let (callee, ret) = (Callee::Constructor(constructor), ret.map(D::ty));
    emit(Call { callee, args: bound.into(), attrs: Attrs::new(), ret, span: span.clone() }.into(), &span)
}

/// `Type::Name` without fields.
#[track_caller]
pub fn construct_unit<D: AdtDef>(name: &str, ret: Option<Vec<Type>>) -> GraphValue {
    construct::<D>(name, ret, Args::of(Vec::new()))
}

/// `match value { pattern => body, .. }`.
#[track_caller]
pub fn match_(value: impl IntoItem, arms: Vec<Arm<'_>>) -> GraphValue {
    let span = span_of(Location::caller());
    let value = to_value(value);
    let Some(arg) = value.arg().cloned() else { return GraphValue::poison() };
    let ty = type_of(&arg);
    let mut clauses = Vec::new();
    for (pat, body) in arms {
        let mut vars = Vec::new();
        let Some(pattern) = pattern(&pat, &ty, &mut vars, &span) else { return GraphValue::poison() };
        let values: Vec<GraphValue> =
            vars.into_iter().map(|var| GraphValue::from_arg(Arg::Var(var))).collect();
        let Some(body) = scope(|| body(&values), None) else { return GraphValue::poison() };
        clauses.push(Clause { pattern, body });
    }
    emit(Expr::Match(Arc::new(Match { value: arg, clauses: clauses.into(), span: span.clone() })), &span)
}

fn pattern(pat: &Pat, ty: &Type, vars: &mut Vec<Var>, span: &Span) -> Option<Pattern> {
    let all = |pats: &[Pat], types: &[Type], vars: &mut Vec<Var>| -> Option<Arc<[Pattern]>> {
        pats.iter().zip(types).map(|(pat, ty)| pattern(pat, ty, vars, span)).collect()
    };
    Some(match pat {
        Pat::Wild => Pattern::Wildcard,
        Pat::Bind(name) => {
            let var = Var::with_span(*name, ty.clone(), span.clone());
            vars.push(var.clone());
            Pattern::Var(var)
        }
        Pat::Constructor(adt, name, pats) => {
            let (constructor, declared) = find(adt, name, span)?;
            let fields = frame(|frame| constructor_fields(&constructor, ty, frame.builder.module()));
            // A pattern of another type is reported when the match is bound.
            let fields = fields.and_then(Result::ok).unwrap_or_else(|| declared.to_vec());
            if fields.len() != pats.len() {
                let message =
                    format!("`{adt}::{name}` has {} fields, the pattern has {}", fields.len(), pats.len());
                fail(IrError::new(message, span), span);
                return None;
            }
            Pattern::Constructor(constructor, all(pats, &fields, vars)?)
        }
        Pat::Tuple(pats) => match ty.as_tuple() {
            Some(types) if types.len() == pats.len() => Pattern::Tuple(all(pats, types, vars)?),
            _ => {
                fail(
                    IrError::new(format!("a pattern of {} fields does not fit the value", pats.len()), span),
                    span,
                );
                return None;
            }
        },
    })
}

impl std::fmt::Debug for Pat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pat::Wild => f.write_str("_"),
            Pat::Bind(name) => f.write_str(name),
            Pat::Constructor(ty, name, pats) => write!(f, "{ty}::{name}{pats:?}"),
            Pat::Tuple(pats) => write!(f, "{pats:?}"),
        }
    }
}
