//! Steps with control flow: branches, matches, data types, cells, casts.

use std::sync::Arc;

use tvm::DataType;
use tvm::ir::{AdtType, ConstructorDef, Span, Type, TypeDef, TypeParam, Var};
use tvm::relax::{Arg, Body, Callee, Clause, Constructor, Expr, If, Match, Pattern};
use tvm::tir::PrimExpr;

use super::graph::{Graph, Item, Made, refused, same_dims};
use super::operators::none;

/// The data types in every module: `Either<A, B> { Left(A), Right(B), Both(A, B) }` and `List<A> { Nil, Cons(A, List<A>) }`.
pub(super) fn types() -> [TypeDef; 2] {
    let param = |name: &str| TypeParam(name.into());
    let [a, b] = ["A", "B"].map(|it| Type::Param(param(it)));
    let constructor = |name: &str, fields: &[&Type]| ConstructorDef {
        name: name.into(),
        fields: fields.iter().map(|&it| it.clone()).collect(),
    };
    let list = adt("List", &[&a]);
    [
        TypeDef {
            name: "Either".into(),
            params: Arc::new([param("A"), param("B")]),
            constructors: Arc::new([
                constructor("Left", &[&a]),
                constructor("Right", &[&b]),
                constructor("Both", &[&a, &b]),
            ]),
        },
        TypeDef {
            name: "List".into(),
            params: Arc::new([param("A")]),
            constructors: Arc::new([constructor("Nil", &[]), constructor("Cons", &[&a, &list])]),
        },
    ]
}

pub(super) fn adt(name: &str, args: &[&Type]) -> Type {
    Type::Adt(AdtType { name: name.into(), args: args.iter().map(|&it| it.clone()).collect() })
}

pub(super) fn constructor(ty: &str, name: &str, tag: usize) -> Constructor {
    Constructor { ty: ty.into(), name: name.into(), tag }
}

/// A result that is one of several: its bound is the largest bound, and it is exact if all are.
pub(super) fn either(like: &Item, others: &[Item]) -> Item {
    others.iter().fold(like.clone(), |sum, it| Item {
        var: sum.var,
        most: sum.most.max(it.most),
        exact: sum.exact && it.exact,
    })
}

impl Graph<'_> {
    pub(super) fn control(&mut self) -> Made<Item> {
        match self.rng.below(16) {
            0..=2 => self.branch(),
            3 => self.branch_of_tuples(),
            4..=5 => self.tuple_match(),
            6..=8 => self.either_match(),
            9..=10 => self.closure(),
            11 => self.local_recursion(),
            12..=13 => self.helper(),
            14 => self.list(),
            _ => self.cell_or_cast(),
        }
    }

    /// A bool of rank 0.
    pub(super) fn condition(&mut self) -> Made<Arg> {
        if let Ok(known) = self.certain(|it| it.dtype().is_bool() && it.ndim() == 0)
            && !self.rng.one_in(3)
        {
            return Ok(known.arg());
        }
        let x = self.certain(|it| !it.dtype().is_bool())?;
        let high = self.op("max", vec![x.arg()], none())?;
        let zero = Arg::Prim(PrimExpr::constant(0.0, x.dtype()));
        Ok(self.op("greater", vec![high.into(), zero], none())?.into())
    }

    /// Picks a value of the type of `like`.
    pub(super) fn alike(&mut self, like: &Item) -> Made<Item> {
        self.pick(|it| it.dtype() == like.dtype() && same_dims(it.dims(), like.dims()))
    }

    /// Builds a body that returns a tensor of the type of `like`.
    pub(super) fn arm(&mut self, like: &Item) -> Made<(Body, Item)> {
        self.scope(3, |graph| {
            let found = graph.alike(like)?;
            Ok((found.arg(), found))
        })
    }

    fn branch(&mut self) -> Made<Item> {
        let (cond, like) = (self.condition()?, self.pick(|_| true)?);
        let ((then_branch, a), (else_branch, b)) = (self.arm(&like)?, self.arm(&like)?);
        let var = self.emit(Expr::If(Arc::new(If { cond, then_branch, else_branch, span: Span::none() })))?;
        let sum = either(&a, &[b]);
        self.item(var, sum.most, sum.exact)
    }

    fn branch_of_tuples(&mut self) -> Made<Item> {
        let (cond, x, y) = (self.condition()?, self.pick(|_| true)?, self.pick(|_| true)?);
        let pair = |graph: &mut Self| {
            graph.scope(2, |graph| {
                let (a, b) = (graph.alike(&x)?, graph.alike(&y)?);
                let pair = Arg::Tuple(Arc::new([a.arg(), b.arg()]));
                let pair = if graph.rng.one_in(2) { pair } else { graph.emit(Expr::Arg(pair))?.into() };
                Ok((pair, [a, b]))
            })
        };
        let ((then_branch, a), (else_branch, b)) = (pair(self)?, pair(self)?);
        let both =
            self.emit(Expr::If(Arc::new(If { cond, then_branch, else_branch, span: Span::none() })))?;
        let field = self.rng.below(2);
        let var = self.emit(Expr::TupleGetItem(both.into(), field))?;
        let sum = either(&a[field], &b[field..=field]);
        self.item(var, sum.most, sum.exact)
    }

    /// A pattern that binds a value: the same value under another name.
    fn named(&self, like: &Item) -> (Pattern, Item) {
        let var = Var::new("p", like.var.ty().clone());
        (Pattern::Var(var.clone()), Item { var, ..like.clone() })
    }

    /// Builds a clause of a match with the items `seen` in scope.
    fn clause(&mut self, pattern: Pattern, seen: Vec<Item>, like: &Item) -> Made<(Clause, Item)> {
        let mark = self.items.len();
        self.items.extend(seen);
        let arm = self.arm(like);
        self.items.truncate(mark);
        let (body, item) = arm?;
        Ok((Clause { pattern, body }, item))
    }

    fn matching(&mut self, value: Arg, clauses: Vec<Clause>) -> Made<Var> {
        self.emit(Expr::Match(Arc::new(Match { value, clauses: clauses.into(), span: Span::none() })))
    }

    /// Builds `match (a, (b, c)) { (p, (_, q)) => .. }`.
    fn tuple_match(&mut self) -> Made<Item> {
        let [a, b, c] = [self.pick(|_| true)?, self.pick(|_| true)?, self.pick(|_| true)?];
        let inner = Arg::Tuple(Arc::new([b.arg(), c.arg()]));
        let inner = if self.rng.one_in(2) { inner } else { self.emit(Expr::Arg(inner))?.into() };
        let value = Arg::Tuple(Arc::new([a.arg(), inner]));
        let value = if self.rng.one_in(2) { value } else { self.emit(Expr::Arg(value))?.into() };
        let ((p, first), (q, last)) = (self.named(&a), self.named(&c));
        let like = if self.rng.one_in(2) { first.clone() } else { last.clone() };
        let pattern = Pattern::Tuple(Arc::new([p, Pattern::Tuple(Arc::new([Pattern::Wildcard, q]))]));
        let (clause, item) = self.clause(pattern, vec![first, last], &like)?;
        let var = self.matching(value, vec![clause])?;
        self.item(var, item.most, item.exact)
    }

    /// Builds one of the constructors of `Either`, selected by a condition, and a match on it.
    fn either_match(&mut self) -> Made<Item> {
        let (a, b) = (self.pick(|_| true)?, self.pick(|_| true)?);
        let ty = adt("Either", &[a.var.ty(), b.var.ty()]);
        let made = |graph: &mut Self| {
            graph.scope(1, |graph| {
                let (left, right) = (graph.alike(&a)?, graph.alike(&b)?);
                let (name, tag, fields) = match graph.rng.below(3) {
                    0 => ("Left", 0, vec![left.arg()]),
                    1 => ("Right", 1, vec![right.arg()]),
                    _ => ("Both", 2, vec![left.arg(), right.arg()]),
                };
                let callee = Callee::Constructor(constructor("Either", name, tag));
                let var = graph.call(callee, fields, Some(ty.clone()))?;
                Ok((var.into(), (left, right)))
            })
        };
        let cond = self.condition()?;
        let ((then_branch, (a1, b1)), (else_branch, (a2, b2))) = (made(self)?, made(self)?);
        let value =
            self.emit(Expr::If(Arc::new(If { cond, then_branch, else_branch, span: Span::none() })))?;
        let (a, b) = (either(&a, &[a1, a2]), either(&b, &[b1, b2]));
        let like = self.pick(|_| true)?;
        let mut clauses = Vec::new();
        let mut results = Vec::new();
        let whole = self.rng.below(3);
        for (tag, name) in ["Left", "Right", "Both"].into_iter().enumerate() {
            let ((p, left), (q, right)) = (self.named(&a), self.named(&b));
            let (patterns, seen) = match tag {
                0 => (vec![p], vec![left]),
                1 => (vec![q], vec![right]),
                _ if self.rng.one_in(2) => (vec![p, q], vec![left, right]),
                _ => (vec![Pattern::Wildcard, q], vec![right]),
            };
            let last = tag == 2 && whole == 0;
            let pattern = match last {
                true => Pattern::Wildcard,
                false => Pattern::Constructor(constructor("Either", name, tag), patterns.into()),
            };
            let (clause, item) = self.clause(pattern, if last { vec![] } else { seen }, &like)?;
            clauses.push(clause);
            results.push(item);
        }
        let var = self.matching(value.into(), clauses)?;
        let sum = either(&results[0], &results[1..]);
        self.item(var, sum.most, sum.exact)
    }

    /// Builds a cell that is read, written and read again, or a cast of a value to a type that is checked at run time.
    fn cell_or_cast(&mut self) -> Made<Item> {
        let a = self.pick(|_| true)?;
        if !self.impure || self.rng.one_in(3) {
            return self.cast_to(a.arg(), &a);
        }
        let b = self.alike(&a)?;
        let cell = self.emit(Expr::RefCreate(a.arg()))?;
        let before = self.emit(Expr::RefRead((&cell).into()))?;
        self.emit(Expr::RefWrite((&cell).into(), b.arg()))?;
        let after = self.emit(Expr::RefRead(cell.into()))?;
        if a.dtype() == DataType::BOOL {
            return self.item(after, b.most, b.exact);
        }
        let var = self.op("subtract", vec![before.into(), after.into()], none())?;
        self.item(var, a.most + b.most, a.exact && b.exact)
    }
}

/// True if each extent is a constant or a single dimension, so that a parameter of this type binds its dimensions.
pub(super) fn bound_alone(ty: &Type) -> bool {
    let Some(dims) = ty.as_tensor().and_then(|it| it.known_shape()) else { return false };
    dims.iter().all(|dim| matches!(dim, PrimExpr::Var(_) | PrimExpr::IntImm(_)))
}

pub(super) fn not_bound() -> tvm::ir::IrError {
    refused("a dimension would not be bound")
}
