//! Loops that run when the program runs: a local function that calls itself once for each iteration, in tail position.
//!
//! Its parameters are the number of the iteration, the condition if there is one, the values that iterations hand on, and
//! the rows that they have made so far. An extent that an iteration changes becomes a symbolic dimension of the function.
//! Rows are written into one tensor if the number of iterations is known when the loop begins; otherwise each is appended,
//! with a copy of those before it. So are rows with extents that only an iteration knows: each is checked against those before it.

use std::sync::Arc;

use tvm_core::ir::{
    Attrs, BaseFunc, FuncType, GlobalVar, ShapeType, Span, TensorShape, TensorType, Type, Var,
};
use tvm_core::relax::analysis::{erase_to_well_defined, infer_body, product, prove_equal, type_dims};
use tvm_core::relax::{Arg, Binding, Body, Call, Callee, Expr, Function, If};
use tvm_core::script::{FuncBuilder, FuncSig, KernelValue, LoopSpec};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::error::OnnxError;
use crate::node::Node;

type Result<T> = std::result::Result<T, OnnxError>;

/// A loop.
pub(crate) struct Loop {
    /// Number of iterations, if it is known before the first one; not negative.
    pub(crate) trip: Option<PrimExpr>,
    /// Whether the first iteration runs, a tensor of one bool; `None` if only `trip` ends the loop.
    pub(crate) cond: Option<Arg>,
    /// The values that the first iteration gets.
    pub(crate) carried: Vec<Arg>,
    /// For each row that iterations make, whether the rows are in reverse order.
    pub(crate) reversed: Vec<bool>,
}

/// Number of rows up to which a loop that a condition may end early gets the memory for all of them.
const MAX_RESERVED: i64 = 1 << 12;

impl Loop {
    /// Number of rows to reserve memory for; `None` if each row is appended.
    fn reserved(&self, rows: &Rows) -> Option<&PrimExpr> {
        let few = |trip: &&PrimExpr| trip.as_int().is_some_and(|trip| trip <= MAX_RESERVED);
        self.trip.as_ref().filter(|trip| !rows.is_open() && (self.cond.is_none() || few(trip)))
    }
}

/// What one iteration makes.
pub(crate) struct Step {
    /// Whether another iteration follows; needed if the loop has a condition.
    pub(crate) cond: Option<Arg>,
    /// The values that the next iteration gets.
    pub(crate) carried: Vec<Arg>,
    /// The rows.
    pub(crate) rows: Vec<Arg>,
}

/// Emits one iteration, given its number, its condition and the values that are handed on.
pub(crate) type Iteration<'f, 'm> =
    dyn FnMut(&mut Node<'_, 'm>, &PrimExpr, Option<&Arg>, &[Arg]) -> Result<Step> + 'f;

/// The values after the last iteration, and the rows of all iterations along a new first axis.
pub(crate) struct Finished {
    pub(crate) carried: Vec<Arg>,
    pub(crate) rows: Vec<Arg>,
}

/// The rows that a loop makes: the type of one row, flat, and its extents.
struct Rows {
    dtype: DataType,
    /// `None` for an extent that only an iteration knows; all iterations make the same.
    extents: Vec<Option<PrimExpr>>,
    reversed: bool,
}

impl Rows {
    /// True if the loop begins without the shape of its rows.
    fn is_open(&self) -> bool {
        self.extents.iter().any(Option::is_none)
    }

    /// The extents of a row, with `unknown` for those that only an iteration knows.
    fn row(&self, mut unknown: impl FnMut() -> PrimExpr) -> Vec<PrimExpr> {
        self.extents.iter().map(|it| it.clone().unwrap_or_else(&mut unknown)).collect()
    }

    /// Number of elements of a row whose extents are known.
    fn width(&self) -> PrimExpr {
        product(&self.row(|| PrimExpr::index(0)))
    }

    /// The shape of `count` rows: each flat, or with its extents, those that are not known as the dimensions `own`.
    fn shape(&self, count: PrimExpr, own: &mut Vec<Var>) -> Vec<PrimExpr> {
        if !self.is_open() {
            return vec![count, self.width()];
        }
        let extent = || {
            own.push(Var::index("extent"));
            own.last().map_or_else(|| PrimExpr::index(0), PrimExpr::from)
        };
        [vec![count], self.row(extent)].concat()
    }
}

/// The state of a loop as parameters of its function.
struct Params {
    at: Var,
    cond: Option<Var>,
    carried: Vec<Var>,
    rows: Vec<Var>,
    /// Dimensions that the parameters bind.
    own: Vec<Var>,
}

impl Params {
    fn all(&self) -> Vec<Var> {
        let others = self.cond.iter().chain(&self.carried).chain(&self.rows);
        [&self.at].into_iter().chain(others).cloned().collect()
    }

    /// What the function returns: the number of iterations, values, rows.
    fn results(&self) -> Vec<Arg> {
        let count = Arg::Shape([PrimExpr::from(&self.at)].into());
        [count].into_iter().chain(self.carried.iter().chain(&self.rows).map(Arg::from)).collect()
    }
}

/// Emits `it`; `step` may be called several times.
pub(crate) fn iterate<'m>(
    node: &mut Node<'_, 'm>,
    it: Loop,
    step: &mut Iteration<'_, 'm>,
) -> Result<Finished> {
    let types = it.carried.iter().map(|arg| node.type_of(arg)).collect::<Result<_>>()?;
    let mut state = State { types, changing: Vec::new() };
    loop {
        let (rows, next) = rehearse(node, &it, &state, step)?;
        if !state.widen(node, &next)? {
            return emit(node, &it, &state, &rows, step);
        }
    }
}

/// The types of the values that iterations hand on.
struct State {
    types: Vec<TensorType>,
    /// Dimensions of the function that stand for extents that iterations change.
    changing: Vec<Var>,
}

impl State {
    /// Makes the types hold values of the types `next` as well; false if they did before.
    fn widen(&mut self, node: &Node<'_, '_>, next: &[TensorType]) -> Result<bool> {
        let before = self.changing.len();
        for (ty, next) in self.types.iter_mut().zip(next) {
            let (Some(own), Some(made)) = (ty.known_shape(), next.known_shape()) else {
                return Err(node.unsupported("a loop with values of unknown rank"));
            };
            if ty.dtype != next.dtype || own.len() != made.len() {
                let what = "a loop whose iterations change the rank or the element type of a value";
                return Err(node.unsupported(what));
            }
            let mut extents = own.to_vec();
            for (own, made) in extents.iter_mut().zip(made) {
                let free = own.as_var().is_some_and(|dim| self.changing.contains(dim));
                if !free && !prove_equal(own, made) {
                    let dim = Var::index("changing");
                    *own = PrimExpr::from(&dim);
                    self.changing.push(dim);
                }
            }
            ty.shape = TensorShape::Known(extents.into());
        }
        Ok(self.changing.len() > before)
    }
}

fn params(it: &Loop, state: &State, rows: &[Rows]) -> Params {
    let carried = state.types.iter().map(|ty| Var::new("state", Type::Tensor(ty.clone())));
    let mut own = state.changing.clone();
    let rows = rows.iter().map(|row| {
        let count = it.reserved(row).cloned().unwrap_or_else(|| {
            own.push(Var::index("made"));
            own.last().map_or_else(|| PrimExpr::index(0), PrimExpr::from)
        });
        Var::new("rows", Type::tensor(row.shape(count, &mut own), row.dtype))
    });
    let rows = rows.collect();
    Params {
        at: Var::new("iteration", Type::Prim(DataType::I64)),
        cond: it.cond.as_ref().map(|_| Var::new("again", Type::tensor(Vec::new(), DataType::BOOL))),
        carried: carried.collect(),
        rows,
        own,
    }
}

/// Emits an iteration and drops it: the types of its rows and of the values that it hands on.
fn rehearse<'m>(
    node: &mut Node<'_, 'm>,
    it: &Loop,
    state: &State,
    step: &mut Iteration<'_, 'm>,
) -> Result<(Vec<Rows>, Vec<TensorType>)> {
    let params = params(it, state, &[]);
    node.importer().builder.begin_scope();
    let made = run_step(node, &params, step);
    let rows = made.as_ref().map_or_else(|_| Vec::new(), |made| made.rows.clone());
    let body = node.importer().builder.end_scope(Arg::Tuple(rows.into()));
    let made = made?;
    if made.carried.len() != state.types.len() || made.rows.len() != it.reversed.len() {
        return Err(node.malformed("an iteration makes another number of values than the loop"));
    }
    // What only an iteration knows is not in this type.
    let seen = infer_body(&body, node.importer().builder.module());
    let known = |dim: &Var| !params.own.contains(dim) && dim != &params.at;
    let mut rows = Vec::new();
    let seen = seen.as_tuple().unwrap_or_default();
    for ((ty, row), &reversed) in seen.iter().zip(&made.rows).zip(&it.reversed) {
        let dtype = node.dtype(row)?;
        let extents = match ty.as_tensor().and_then(TensorType::known_shape) {
            Some(extents) if type_dims(ty).iter().all(known) => extents.iter().cloned().map(Some).collect(),
            _ => node.shape(row)?.into_iter().map(|it| Some(it).filter(|it| it.as_int().is_some())).collect(),
        };
        rows.push(Rows { dtype, extents, reversed });
    }
    let next = made.carried.iter().map(|arg| node.type_of(arg)).collect::<Result<_>>()?;
    Ok((rows, next))
}

fn run_step<'m>(node: &mut Node<'_, 'm>, params: &Params, step: &mut Iteration<'_, 'm>) -> Result<Step> {
    let cond = params.cond.as_ref().map(Arg::from);
    let carried: Vec<Arg> = params.carried.iter().map(Arg::from).collect();
    step(node, &PrimExpr::from(&params.at), cond.as_ref(), &carried)
}

fn emit<'m>(
    node: &mut Node<'_, 'm>,
    it: &Loop,
    state: &State,
    rows: &[Rows],
    step: &mut Iteration<'_, 'm>,
) -> Result<Finished> {
    let span = node.span().clone();
    let params = params(it, state, rows);
    let outer = |id| params.own.iter().all(|dim| dim.id() != id);
    let result = |arg: &Arg| match arg {
        Arg::Var(var) => erase_to_well_defined(var.ty(), &outer),
        _ => Type::Shape(ShapeType { values: None, ndim: Some(1) }),
    };
    let ret = Type::Tuple(params.results().iter().map(result).collect());
    let all = params.all();
    let ty = FuncType {
        type_params: Arc::new([]),
        params: all.iter().map(|it| it.ty().clone()).collect(),
        ret: ret.clone(),
        pure: true,
    };
    let name = Var::with_span("iterate", Type::Func(Arc::new(ty)), span.clone());

    node.importer().builder.begin_scope();
    let next = iteration(node, it, &params, rows, &name, step);
    let last = next.as_ref().map_or_else(|_| Arg::Tuple(Arc::new([])), Clone::clone);
    let mut body = node.importer().builder.end_scope(last);
    next?;
    let done = || Body::value(Arg::Tuple(params.results().into()));
    let below = it.trip.clone().map(|trip| Arg::Prim(PrimExpr::from(&params.at).less(trip)));
    for cond in params.cond.as_ref().map(Arg::from).into_iter().chain(below) {
        let branch = If { cond, then_branch: body, else_branch: done(), span: span.clone() };
        body = node
            .importer()
            .builder
            .scope(|builder| builder.emit("result", Expr::If(Arc::new(branch)), &span).map(Arg::Var))?;
    }
    let func = Function {
        name: "iterate".into(),
        type_params: Arc::new([]),
        params: all.into(),
        body,
        ret,
        pure: true,
        attrs: Attrs::new(),
        span: span.clone(),
    };
    let mut args = vec![Arg::Prim(PrimExpr::index(0))];
    args.extend(it.cond.clone());
    args.extend(it.carried.iter().cloned());
    for row in rows {
        args.push(no_rows(node, it, row)?);
    }
    let builder = &mut node.importer().builder;
    builder.end_block(true);
    builder.push(Binding::new(name.clone(), Expr::Function(Arc::new(func))));
    let call = Call {
        callee: Callee::Var(name),
        args: args.into(),
        attrs: Attrs::new(),
        ret: None,
        span: span.clone(),
    };
    let res = Arg::Var(builder.emit("iterated", call.into(), &span)?);
    builder.end_block(false);
    finish(node, it, rows, &res, &span)
}

/// Emits an iteration and the call for the next one.
fn iteration<'m>(
    node: &mut Node<'_, 'm>,
    it: &Loop,
    params: &Params,
    rows: &[Rows],
    name: &Var,
    step: &mut Iteration<'_, 'm>,
) -> Result<Arg> {
    let span = node.span().clone();
    let made = run_step(node, params, step)?;
    let at = PrimExpr::from(&params.at);
    let mut args = vec![Arg::Prim(&at + 1i64)];
    args.extend(params.cond.as_ref().and(made.cond));
    args.extend(made.carried);
    for ((row, kind), all) in made.rows.iter().zip(rows).zip(&params.rows) {
        args.push(match it.reserved(kind) {
            Some(trip) => {
                let flat = node.reshape(row, &[kind.width()])?;
                let place = if kind.reversed { trip.clone() - 1i64 - &at } else { at.clone() };
                write_row(node, flat, place, all, all.ty().clone())?
            }
            None => appended(node, row, kind, all, &at)?,
        });
    }
    let call = Call {
        callee: Callee::Var(name.clone()),
        args: args.into(),
        attrs: Attrs::new(),
        ret: None,
        span: span.clone(),
    };
    let builder = &mut node.importer().builder;
    builder.end_block(true);
    Ok(Arg::Var(builder.emit("next", call.into(), &span)?))
}

/// The rows `all` with one more, of iteration `at`.
fn appended(node: &mut Node<'_, '_>, row: &Arg, kind: &Rows, all: &Var, at: &PrimExpr) -> Result<Arg> {
    let mut all = Arg::from(all);
    let [count, before @ ..] = &node.shape(&all)?[..] else {
        return Err(node.malformed("there are no rows"));
    };
    let mut extents = vec![kind.width()];
    if kind.is_open() {
        extents = node.shape(row)?;
        // The first iteration finds no rows, of the extent 0; later ones must make what they find.
        let first = at.clone().equal(0);
        let own = before.iter().zip(&extents);
        let own = own.map(|(before, own)| first.clone().select(before.clone(), own.clone()));
        let own = Arg::Shape(own.collect());
        let ty = Type::Shape(ShapeType { values: Some(before.into()), ndim: Some(before.len()) });
        let span = node.span().clone();
        node.importer().builder.emit_match_cast("same_in_all_iterations", own, ty, &span);
        all = node.reshape(&all, &[std::slice::from_ref(count), &extents[..]].concat())?;
    }
    let one = node.reshape(row, &[&[PrimExpr::index(1)], &extents[..]].concat())?;
    let parts = if kind.reversed { [one, all] } else { [all, one] };
    node.op("concat", &[Arg::Tuple(parts.into())], Attrs::new().with("axis", 0i64))
}

/// The tensor that the first iteration gets for its rows.
fn no_rows(node: &mut Node<'_, '_>, it: &Loop, rows: &Rows) -> Result<Arg> {
    let zero_extent = || PrimExpr::index(0);
    let count = it.reserved(rows).cloned().unwrap_or_else(zero_extent);
    let zero = node.scalar(0.0, rows.dtype)?;
    let row = if rows.is_open() { rows.row(zero_extent) } else { vec![rows.width()] };
    let shape = Arg::Shape([vec![count], row].concat().into());
    node.op("full", &[shape, zero], Attrs::new().with("dtype", rows.dtype))
}

fn finish(node: &mut Node<'_, '_>, it: &Loop, rows: &[Rows], res: &Arg, span: &Span) -> Result<Finished> {
    let n = it.carried.len();
    let mut fields = Vec::new();
    for i in 1..=n + rows.len() {
        let field = node.field(res, i)?;
        fields.push(node.importer().named(field, span));
    }
    let made = fields.split_off(n);
    let mut all = Vec::new();
    for (arg, kind) in made.into_iter().zip(rows) {
        let mut arg = arg;
        if kind.is_open() {
            all.push(arg);
            continue;
        }
        let mut count = node.extent(&arg, 0)?;
        if it.reserved(kind).is_some() && it.cond.is_some() {
            // The condition may have ended the loop before all rows were written.
            let written = node.field(res, 0)?;
            let rows = PrimExpr::from(&Var::index("written"));
            let ty = Type::Shape(ShapeType { values: Some([rows.clone()].into()), ndim: Some(1) });
            node.importer().builder.emit_match_cast("written", written, ty, span);
            let (begin, end) = match kind.reversed {
                true => (count.clone() - &rows, count.clone()),
                false => (PrimExpr::index(0), rows.clone()),
            };
            arg = crate::ops::index::sliced(node, arg, &[0], &[begin], &[end], &[1])?;
            count = node.extent(&arg, 0)?;
        }
        all.push(node.reshape(&arg, &[&[count], &kind.row(|| PrimExpr::index(0))[..]].concat())?);
    }
    Ok(Finished { carried: fields, rows: all })
}

/// `all` with the row at `place` replaced, in place where nothing else uses `all`.
fn write_row(node: &mut Node<'_, '_>, row: Arg, place: PrimExpr, all: &Var, ty: Type) -> Result<Arg> {
    let func = row_program(node, &row, true)?;
    let args = [row, Arg::Prim(place), Arg::from(all)];
    call_program(node, Callee::TirInplace(func), &args, ty)
}

/// Row `place` of `x` along its first axis.
pub(crate) fn row_at(node: &mut Node<'_, '_>, x: &Arg, place: PrimExpr) -> Result<Arg> {
    let (shape, dtype) = (node.shape(x)?, node.dtype(x)?);
    let [count, extents @ ..] = &shape[..] else { return Err(node.malformed("a scalar has no rows")) };
    let width = product(extents);
    let flat = node.reshape(x, &[count.clone(), width.clone()])?;
    let func = row_program(node, &flat, false)?;
    let row = call_program(node, Callee::Tir(func), &[flat, Arg::Prim(place)], Type::tensor([width], dtype))?;
    node.reshape(&row, extents)
}

fn call_program(node: &mut Node<'_, '_>, callee: Callee, args: &[Arg], ret: Type) -> Result<Arg> {
    let span = node.span().clone();
    let call = Call { callee, args: args.into(), attrs: Attrs::new(), ret: Some(ret), span: span.clone() };
    Ok(Arg::Var(node.importer().builder.emit("row", call.into(), &span)?))
}

/// The tensor program that writes a row of a matrix, or reads one; the module gets one for each type of rows.
fn row_program(node: &mut Node<'_, '_>, x: &Arg, writes: bool) -> Result<GlobalVar> {
    let dtype = node.dtype(x)?;
    let width = node.shape(x)?.pop().and_then(|it| it.as_int());
    let verb = if writes { "write" } else { "read" };
    let of = width.map_or_else(String::new, |width| format!("_{width}"));
    let name = format!("{verb}_row_{dtype}{of}");
    if let Some(func) = node.importer().builder.module().global_var(&name) {
        return Ok(func.clone());
    }
    let loc = (line!(), 1);
    let builder = FuncBuilder::new(&FuncSig { name: "row", params: &[] }, file!(), loc);
    let width = width.map_or_else(|| builder.dim(loc, "width"), KernelValue::int);
    let count = builder.dim(loc, "count");
    let (row, place, all);
    if writes {
        row = builder.input(loc, "row", dtype, [width.clone()]);
        place = builder.scalar(loc, "place", DataType::I64).cast_index();
        all = builder.output(loc, "all", dtype, [count, width.clone()]);
    } else {
        all = builder.input(loc, "all", dtype, [count, width.clone()]);
        place = builder.scalar(loc, "place", DataType::I64).cast_index();
        row = builder.output(loc, "row", dtype, [width.clone()]);
    }
    builder.for_range(loc, LoopSpec::default(), "i", (KernelValue::int(0), width), |i| {
        if writes {
            let value = builder.load(loc, &row, [i.clone()]);
            builder.store(loc, &all, [place, i], value);
        } else {
            let value = builder.load(loc, &all, [place, i.clone()]);
            builder.store(loc, &row, [i], value);
        }
    });
    let func = builder.finish()?;
    Ok(node.importer().builder.module_mut().add(name, BaseFunc::Prim(Arc::new(func))))
}
