//! Conditions that only a run knows: choices between bodies, and splits, at which the rest of a graph is converted for each value
//! of a condition.

use tvm_core::ir::{Attrs, ShapeType, Span, Type};
use tvm_core::relax::{Arg, Body, Expr, If};
use tvm_core::tir::PrimExpr;

use crate::error::OnnxError;
use crate::importer::Importer;
use crate::nodes::{Outputs, Sequence, Values};
use crate::proto::GraphProto;
use crate::value::Form;

/// Number of scopes that may be open at once: graphs in graphs, and choices that only a run makes, within each of which the
/// rest of the graph is converted.
const MAX_SCOPES: usize = 256;

/// A node whose results have another rank where a condition holds than where it does not.
pub(crate) struct Split<'m> {
    /// The condition: a scalar or a tensor of rank 0. A constant decides it.
    pub(crate) cond: Arg,
    /// The graphs of the arms of an `If`, the one for true first. Other nodes are converted again, with the condition known.
    pub(crate) arms: Option<[&'m GraphProto; 2]>,
}

/// A body and what was found beside it; an error if the model contradicts itself there.
pub(crate) type Tried<T> = Result<(Body, T), OnnxError>;

/// What one value of the condition of a split gives.
struct End {
    forms: Vec<Form>,
    types: Vec<Type>,
    outermost: bool,
}

impl End {
    fn alike(&self, other: &End) -> bool {
        let types = || self.types.iter().zip(&other.types).all(|(a, b)| alike(a, b));
        self.outermost == other.outermost && self.forms == other.forms && types()
    }
}

/// True if one type holds the values of both types, with some of their extents unknown.
pub(crate) fn alike(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            a.dtype == b.dtype && a.ndim().is_some() && a.ndim() == b.ndim()
        }
        _ => false,
    }
}

impl<'m> Importer<'m> {
    /// Continues at the node at position `at`, a split. Returns outputs; or, if the condition can have one value only, the
    /// position to continue at as usual.
    pub(crate) fn split(
        &mut self,
        it: &Sequence<'m, '_>,
        at: usize,
        path: &str,
        split: &Split<'m>,
    ) -> Result<Result<Outputs, usize>, OnnxError> {
        if let Some(truth) = split.cond.as_const().and_then(|it| it.as_slice::<bool>().ok()?.first().copied())
        {
            return self.arm((it, at), path, split, truth);
        }
        let span = Span::model(path);
        let mut bodies = self.bodies((it, at), path, split, false)?;
        if it.outer.is_some() && matches!(&bodies, [Ok(yes), Ok(no)] if !yes.1.alike(&no.1)) {
            bodies = self.bodies((it, at), path, split, true)?;
        }
        match bodies {
            [Ok((_, yes)), Ok((_, no))] if yes.forms != no.forms => {
                let what =
                    "outputs that are tensors, sequences of a length, or empty, depending on a condition";
                Err(OnnxError::unsupported(what).at(path))
            }
            [Ok((yes, end)), Ok((no, _))] => {
                let values = self.choose(&split.cond, yes, no, &end.forms, &span)?;
                Ok(Ok(if end.outermost { Outputs::Outermost(values) } else { Outputs::Own(values) }))
            }
            [Err(err), Err(_)] => Err(err),
            [yes, _] => {
                let truth = yes.is_ok();
                self.check_condition(&split.cond, truth, &span)?;
                self.arm((it, at), path, split, truth)
            }
        }
    }

    /// Goes on at a split where its condition has the value `truth`: outputs, or the position to continue at.
    fn arm(
        &mut self,
        (it, at): (&Sequence<'m, '_>, usize),
        path: &str,
        split: &Split<'m>,
        truth: bool,
    ) -> Result<Result<Outputs, usize>, OnnxError> {
        self.assume(&split.cond, truth);
        let Some(arms) = split.arms else { return Ok(Err(at)) };
        let name = if truth { "then_branch" } else { "else_branch" };
        self.inlined(it, at, &format!("{path}/{name}"), arms[usize::from(!truth)])
    }

    /// The bodies for both values of the condition of a split, up to the end of its graph or `through` the graphs around it.
    fn bodies(
        &mut self,
        (it, at): (&Sequence<'m, '_>, usize),
        path: &str,
        split: &Split<'m>,
        through: bool,
    ) -> Result<[Tried<End>; 2], OnnxError> {
        let span = Span::model(path);
        let mut body = |truth: bool| {
            self.tried(|this| {
                let outputs = match this.arm((it, at), path, split, truth)? {
                    Ok(outputs) => outputs,
                    Err(next) if through => Outputs::Outermost(this.through(it, next)?),
                    Err(next) => this.sequence(it, next)?,
                };
                let (values, outermost) = match outputs {
                    Outputs::Own(values) => (values, false),
                    Outputs::Outermost(values) => (values, it.outer.is_some()),
                };
                let (args, forms) = this.tensors(values, &span)?;
                let types = args.iter().map(|it| this.type_of(it)).collect();
                Ok((args, End { forms, types, outermost }))
            })
        };
        Ok([body(true)?, body(false)?])
    }

    /// Runs `convert` in a scope of its own: the body that returns the arguments, and what `convert` gives beside them.
    pub(crate) fn tried<T>(
        &mut self,
        convert: impl FnOnce(&mut Self) -> Result<(Vec<Arg>, T), OnnxError>,
    ) -> Result<Tried<T>, OnnxError> {
        if self.scopes.len() >= MAX_SCOPES {
            let what = format!("more than {MAX_SCOPES} choices that only a run makes, each after the other");
            return Err(OnnxError::unsupported(what));
        }
        self.enter();
        self.builder.begin_scope();
        let res = tvm_core::support::with_stack(|| convert(self));
        let ret = res.as_ref().map_or_else(|_| Vec::new(), |(args, _)| args.clone());
        let ret = if ret.len() == 1 { ret[0].clone() } else { Arg::Tuple(ret.into()) };
        self.builder.end_block(true);
        let body = self.builder.end_scope(ret);
        self.leave();
        match res {
            Ok((_, more)) => Ok(Ok((body, more))),
            Err(err @ (OnnxError::Malformed { .. } | OnnxError::Ir(_))) => Ok(Err(err)),
            Err(err) => Err(err),
        }
    }

    /// Binds a choice between two bodies that give values of the same forms; returns the values.
    pub(crate) fn choose(&mut self, cond: &Arg, yes: Body, no: Body, forms: &[Form], span: &Span) -> Values {
        let values = if let Arg::Tuple(fields) = &yes.ret { Some(fields.len()) } else { None };
        self.builder.end_block(true);
        let it = If { cond: cond.clone(), then_branch: yes, else_branch: no, span: span.clone() };
        let var = self.builder.emit("chosen", Expr::If(it.into()), span)?;
        self.builder.end_block(false);
        let mut tensors = self.fields(&Arg::Var(var), values, span)?.into_iter();
        Ok(forms.iter().map(|form| form.value(&mut tensors)).collect())
    }

    /// The fields of a tuple, or the value itself if `count` is `None`; unknown extents become dimensions.
    pub(crate) fn fields(&mut self, arg: &Arg, count: Option<usize>, span: &Span) -> Values {
        let Some(count) = count else { return Ok(vec![self.named(arg.clone(), span).into()]) };
        (0..count).map(|i| self.field(arg, i, span).map(|field| self.named(field, span).into())).collect()
    }

    /// Notes for the rest of the scope that `cond` has the value `truth`.
    pub(crate) fn assume(&mut self, cond: &Arg, truth: bool) {
        if let Arg::Prim(cond) = cond {
            self.facts.push((cond.clone(), truth));
        }
    }

    /// Emits a check that `cond` has the value `truth`.
    pub(crate) fn check_condition(&mut self, cond: &Arg, truth: bool, span: &Span) -> Result<(), OnnxError> {
        let (is, must) = match cond {
            Arg::Prim(PrimExpr::Binary(it)) if truth && it.op == tvm_core::tir::BinaryOp::Eq => {
                (Arg::Shape([it.a.clone()].into()), it.b.clone())
            }
            Arg::Prim(cond) => {
                let value = cond.clone().select(PrimExpr::index(1), PrimExpr::index(0));
                (Arg::Shape([value].into()), PrimExpr::index(truth.into()))
            }
            cond => {
                let attrs = Attrs::new().with("dtype", tvm_runtime::DataType::I64);
                let number = self.emit("astype", std::slice::from_ref(cond), attrs, span)?;
                let one = Arg::Shape([PrimExpr::index(1)].into());
                let number = self.emit("reshape", &[number, one], Attrs::new(), span)?;
                (self.emit("tensor_to_shape", &[number], Attrs::new(), span)?, PrimExpr::index(truth.into()))
            }
        };
        let ty = Type::Shape(ShapeType { values: Some([must].into()), ndim: Some(1) });
        self.builder.emit_match_cast("the_only_valid_choice", is, ty, span);
        Ok(())
    }

    /// `value` as a constant, if it is a condition that is known in this scope.
    pub(crate) fn decided(&self, value: &PrimExpr) -> PrimExpr {
        let PrimExpr::Select(it) = value else { return value.clone() };
        match self.holds(&it.condition) {
            Some(true) => it.true_value.clone(),
            Some(false) => it.false_value.clone(),
            None => value.clone(),
        }
    }

    /// Whether `cond` holds, if that is known in this scope.
    pub(crate) fn holds(&self, cond: &PrimExpr) -> Option<bool> {
        if let Some(known) = cond.as_int() {
            return Some(known != 0);
        }
        let same = |a: &PrimExpr, b: &PrimExpr| tvm_core::arith::same(a, b);
        self.facts.iter().rev().find_map(|(fact, truth)| match (fact, cond) {
            (fact, cond) if same(fact, cond) => Some(*truth),
            (PrimExpr::Not(fact), cond) if same(&fact.value, cond) => Some(!truth),
            (fact, PrimExpr::Not(cond)) if same(fact, &cond.value) => Some(!truth),
            _ => None,
        })
    }
}
