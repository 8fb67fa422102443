//! Steps that call functions: closures, local recursion, functions of the module, folds over lists.

use std::collections::HashMap;
use std::sync::Arc;

use tvm::DataType;
use tvm::ir::{BaseFunc, FuncType, GlobalVar, Span, Type, Var, VarId};
use tvm::relax::{Arg, Body, Callee, Clause, Expr, Function, If, Match, Pattern};
use tvm::tir::PrimExpr;

use super::control::{adt, bound_alone, constructor, not_bound};
use super::graph::{Graph, Item, Made, refused};
use super::operators::none;

/// Makes a graph function.
pub(super) fn function(name: &str, params: Vec<Var>, body: Body, ret: Type, pure: bool) -> Function {
    Function {
        name: name.into(),
        type_params: Arc::new([]),
        params: params.into(),
        body,
        ret,
        pure,
        attrs: none(),
        span: Span::none(),
    }
}

impl Graph<'_> {
    /// Picks an argument for a function: a small, exact value, so that bounds of the result hold for every
    /// call.
    fn argument(&mut self, fits: impl Fn(&Item) -> bool) -> Made<Item> {
        let found = self.certain(fits)?;
        self.small(found)
    }

    /// Makes a parameter for values like `like`.
    fn param(like: &Item, ty: Type) -> Item {
        Item { var: Var::new("a", ty), ..like.clone() }
    }

    /// Builds a local function of one parameter, which may capture any value and is called twice.
    fn closure_of(&mut self, like: &Item) -> Made<(Var, Item)> {
        let param = Self::param(like, like.var.ty().clone());
        let mark = self.items.len();
        let impure = std::mem::replace(&mut self.impure, false);
        self.items.push(param.clone());
        let dims = self.dims.clone();
        let body = self.scope(4, |graph| {
            let found = graph.pick(|it| it.is_over(&dims))?;
            Ok((found.arg(), found))
        });
        self.items.truncate(mark);
        self.impure = impure;
        let (body, item) = body?;
        let func = function("local", vec![param.var], body, item.var.ty().clone(), true);
        Ok((self.emit(Expr::Function(Arc::new(func)))?, item))
    }

    pub(super) fn closure(&mut self) -> Made<Item> {
        let a = self.argument(|_| true)?;
        let (func, result) = self.closure_of(&a)?;
        let b = self.alike(&a)?;
        let b = if b.exact || !self.mode.exact { self.small(b)? } else { a.clone() };
        // The function is called directly, through a tuple, or by another function.
        match self.rng.below(3) {
            0 => {}
            1 => {
                let both = self.emit(Expr::Arg(Arg::Tuple(Arc::new([(&func).into(), b.arg()]))))?;
                let func = self.emit(Expr::TupleGetItem((&both).into(), 0))?;
                let b = self.emit(Expr::TupleGetItem(both.into(), 1))?;
                let var = self.call(Callee::Var(func), vec![b.into()], None)?;
                return self.item(var, result.most, result.exact);
            }
            _ => {
                let (gv, made) = self.apply(&a, &func)?;
                let var = self.call(Callee::Global(gv), vec![(&func).into(), b.arg()], None)?;
                return self.item(var, made.max(result.most), result.exact);
            }
        }
        let first = self.call(Callee::Var(func.clone()), vec![a.arg()], None)?;
        let second = self.call(Callee::Var(func), vec![b.arg()], None)?;
        let _unused = self.item(first, result.most, result.exact).map(|it| self.items.push(it));
        self.item(second, result.most, result.exact)
    }

    /// Builds `fn apply(f, x) { f(x) }` for the type of `func`, with dimensions of its own.
    fn apply(&mut self, like: &Item, func: &Var) -> Made<(GlobalVar, f64)> {
        let Type::Func(ty) = func.ty() else { return Err(refused("no function")) };
        // Only types that have the same meaning in every scope.
        let fixed = |ty: &Type| {
            ty.as_tensor()
                .and_then(|it| it.known_shape())
                .is_some_and(|dims| dims.iter().all(|it| it.as_int().is_some()))
        };
        if !fixed(&ty.params[0]) || !fixed(&ty.ret) {
            return Err(not_bound());
        }
        let (f, x) = (Var::new("f", func.ty().clone()), Var::new("x", like.var.ty().clone()));
        let (body, ()) = self.closed(|graph| {
            graph.builder.begin_scope();
            let got = graph.call(Callee::Var(f.clone()), vec![(&x).into()], None);
            let ret = got.map_or_else(|_| Arg::Tuple(Arc::new([])), Arg::from);
            Ok((graph.builder.end_scope(ret), ()))
        })?;
        let gv = self.add("apply", function("apply", vec![f, x], body, ty.ret.clone(), true));
        Ok((gv, 0.0))
    }

    fn add(&mut self, name: &str, func: Function) -> GlobalVar {
        self.builder.module_mut().add(name, BaseFunc::Relax(Arc::new(func)))
    }

    /// Runs `build` with an empty scope.
    fn closed<R>(&mut self, build: impl FnOnce(&mut Self) -> Made<R>) -> Made<R> {
        let (items, dims) = (std::mem::take(&mut self.items), std::mem::take(&mut self.dims));
        let impure = std::mem::replace(&mut self.impure, false);
        let depth = self.depth;
        self.depth = depth.min(1);
        let built = build(self);
        (self.items, self.dims, self.impure, self.depth) = (items, dims, impure, depth);
        built
    }

    /// Makes parameters like `args`, with new dimensions.
    fn params(&mut self, args: &[Item]) -> Made<(Vec<Item>, Vec<Var>)> {
        let mut new: HashMap<VarId, Var> = HashMap::new();
        let mut params = Vec::new();
        for arg in args {
            if !bound_alone(arg.var.ty()) {
                return Err(not_bound());
            }
            let dims: Vec<PrimExpr> = (arg.dims().iter())
                .map(|dim| match dim {
                    PrimExpr::Var(var) => {
                        let limit = self.limits.get(&var.id()).copied().unwrap_or(6);
                        let new = new.entry(var.id()).or_insert_with(|| Var::index("k"));
                        self.limits.insert(new.id(), limit);
                        PrimExpr::from(&*new)
                    }
                    other => other.clone(),
                })
                .collect();
            params.push(Self::param(arg, Type::tensor(dims, arg.dtype())));
        }
        Ok((params, new.into_values().collect()))
    }

    /// Builds a function of the module, with one or two parameters and dimensions of its own, and calls it twice.
    pub(super) fn helper(&mut self) -> Made<Item> {
        let count = self.rng.range(1, 2);
        let args =
            (0..count).map(|_| self.argument(|it| bound_alone(it.var.ty()))).collect::<Made<Vec<_>>>()?;
        let (params, dims) = self.params(&args)?;
        let (body, item) = self.closed(|graph| {
            graph.items.clone_from(&params);
            graph.dims.clone_from(&dims);
            graph.scope(5, |graph| {
                let found = graph.pick(|it| it.is_over(&dims))?;
                Ok((found.arg(), found))
            })
        })?;
        let vars = params.into_iter().map(|it| it.var).collect();
        let gv = self.add("helper", function("helper", vars, body, item.var.ty().clone(), true));
        if self.rng.one_in(2) {
            let again: Vec<Arg> = args
                .iter()
                .map(|it| {
                    self.alike(it).map_or(it.arg(), |other| {
                        if other.exact && other.most <= 8.0 || !self.mode.exact {
                            other.arg()
                        } else {
                            it.arg()
                        }
                    })
                })
                .collect();
            let var = self.call(Callee::Global(gv.clone()), again, None)?;
            if let Ok(it) = self.item(var, item.most, item.exact) {
                self.items.push(it);
            }
        }
        let var = self.call(Callee::Global(gv), args.iter().map(Item::arg).collect(), None)?;
        self.item(var, item.most, item.exact)
    }

    /// Builds `next(acc)`: a small value of the type of `acc`.
    fn next(&mut self, acc: &Item) -> Made<Item> {
        for _ in 0..self.rng.below(3) {
            self.grow();
        }
        let found = self.pick(|it| {
            it.exact && it.dtype() == acc.dtype() && super::graph::same_dims(it.dims(), acc.dims())
        })?;
        self.small(found)
    }

    /// Builds `go = |i, acc| { if i > 0 { go(i - 1, next(acc)) } else { acc } }`, and calls it with a count from 0 to 3.
    pub(super) fn local_recursion(&mut self) -> Made<Item> {
        let start = self.argument(|_| true)?;
        let count = Type::tensor(vec![], DataType::I64);
        let ty = start.var.ty().clone();
        let (i, acc) = (Var::new("i", count.clone()), Self::param(&start, ty.clone()));
        let func = FuncType {
            type_params: Arc::new([]),
            params: Arc::new([count, ty.clone()]),
            ret: ty.clone(),
            pure: true,
        };
        let go = Var::new("go", Type::Func(Arc::new(func)));
        let mark = self.items.len();
        let impure = std::mem::replace(&mut self.impure, false);
        self.items.push(acc.clone());
        let body = self.scope(1, |graph| {
            let more = graph.op("greater", vec![(&i).into(), Arg::Prim(PrimExpr::index(0))], none())?;
            let (then_branch, ()) = graph.scope(0, |graph| {
                let next = graph.next(&acc)?;
                let less = graph.op("subtract", vec![(&i).into(), Arg::Prim(PrimExpr::index(1))], none())?;
                let again = graph.call(Callee::Var(go.clone()), vec![less.into(), next.arg()], None)?;
                Ok((again.into(), ()))
            })?;
            let (else_branch, ()) = graph.scope(1, |_| Ok((acc.arg(), ())))?;
            let branch = If { cond: more.into(), then_branch, else_branch, span: Span::none() };
            Ok((graph.emit(Expr::If(Arc::new(branch)))?.into(), ()))
        });
        self.items.truncate(mark);
        self.impure = impure;
        let (body, ()) = body?;
        let func = function("go", vec![i, acc.var], body, ty, true);
        self.builder.push(tvm::relax::Binding::new(go.clone(), Expr::Function(Arc::new(func))));
        let rounds = tvm::Tensor::scalar(self.rng.range(0, 3));
        let var = self.call(Callee::Var(go), vec![rounds.into(), start.arg()], None)?;
        self.item(var, start.most, start.exact)
    }

    /// Builds a list of some values, and a function of the module that folds it.
    pub(super) fn list(&mut self) -> Made<Item> {
        let start = self.argument(|it| bound_alone(it.var.ty()))?;
        let (params, dims) = self.params(std::slice::from_ref(&start))?;
        let acc = params[0].clone();
        let elem = acc.var.ty().clone();
        let ty = adt("List", &[&elem]);
        let l = Var::new("l", ty.clone());
        let (walk_acc, walk_l) = (acc.var.clone(), l.clone());
        let unit = function("walk", vec![walk_acc, walk_l], Body::value(acc.arg()), elem.clone(), true);
        let walk = self.add("walk", unit.clone());
        let made = self.closed(|graph| {
            graph.items = params;
            graph.dims = dims;
            let (h, t) =
                (Item { var: Var::new("h", elem.clone()), ..acc.clone() }, Var::new("t", ty.clone()));
            graph.scope(0, |graph| {
                let (nil, ()) = graph.scope(0, |_| Ok((acc.arg(), ())))?;
                graph.items.push(h.clone());
                let (cons, ()) = graph.scope(1, |graph| {
                    let next = graph.next(&acc)?;
                    let again =
                        graph.call(Callee::Global(walk.clone()), vec![next.arg(), (&t).into()], None)?;
                    Ok((again.into(), ()))
                })?;
                let fields = Arc::new([Pattern::Var(h.var.clone()), Pattern::Var(t.clone())]);
                let clauses = [
                    Clause {
                        pattern: Pattern::Constructor(constructor("List", "Nil", 0), Arc::new([])),
                        body: nil,
                    },
                    Clause {
                        pattern: Pattern::Constructor(constructor("List", "Cons", 1), fields),
                        body: cons,
                    },
                ];
                let clauses = Arc::new(clauses);
                let value = Match { value: (&l).into(), clauses, span: Span::none() };
                Ok((graph.emit(Expr::Match(Arc::new(value)))?.into(), ()))
            })
        });
        // If no body could be built, the function returns its first parameter.
        if let Ok((body, ())) = made {
            self.builder
                .module_mut()
                .update(walk.clone(), BaseFunc::Relax(Arc::new(Function { body, ..unit })));
        }
        let ty = adt("List", &[start.var.ty()]);
        let mut list =
            self.call(Callee::Constructor(constructor("List", "Nil", 0)), vec![], Some(ty.clone()))?;
        for _ in 0..self.rng.below(4) {
            let head = self.alike(&start)?;
            let head = if head.exact || !self.mode.exact { self.small(head)? } else { start.clone() };
            let cons = Callee::Constructor(constructor("List", "Cons", 1));
            list = self.call(cons, vec![head.arg(), list.into()], Some(ty.clone()))?;
        }
        let var = self.call(Callee::Global(walk), vec![start.arg(), list.into()], None)?;
        self.item(var, start.most, start.exact)
    }
}
