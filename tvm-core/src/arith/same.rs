//! Syntactic equality and hashing of expressions: what two occurrences of a value in one expression have in common.
//!
//! TVM counterpart: `ExprDeepEqual`, `StructuralHash`.

use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::support::with_stack;
use crate::tir::{Callee, Effect, PrimExpr, Visitor, walk_expr};

/// True when `a` and `b` are built alike from the same variables and constants, so that they have one value wherever
/// both are evaluated together. Calls with side effects are equal to nothing.
pub fn same(a: &PrimExpr, b: &PrimExpr) -> bool {
    a.ptr_eq(b) || with_stack(|| same_nodes(a, b))
}

fn same_all(a: &[PrimExpr], b: &[PrimExpr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

fn same_nodes(a: &PrimExpr, b: &PrimExpr) -> bool {
    match (a, b) {
        (PrimExpr::Cast(a), PrimExpr::Cast(b)) => a.dtype == b.dtype && same(&a.value, &b.value),
        (PrimExpr::Not(a), PrimExpr::Not(b)) => same(&a.value, &b.value),
        (PrimExpr::Binary(a), PrimExpr::Binary(b)) => a.op == b.op && same(&a.b, &b.b) && same(&a.a, &b.a),
        (PrimExpr::Select(a), PrimExpr::Select(b)) => {
            same(&a.condition, &b.condition)
                && same(&a.true_value, &b.true_value)
                && same(&a.false_value, &b.false_value)
        }
        (PrimExpr::BufferLoad(a), PrimExpr::BufferLoad(b)) => {
            a.buffer == b.buffer && same_all(&a.indices, &b.indices)
        }
        (PrimExpr::Ramp(a), PrimExpr::Ramp(b)) => {
            a.lanes == b.lanes && same(&a.base, &b.base) && same(&a.stride, &b.stride)
        }
        (PrimExpr::Broadcast(a), PrimExpr::Broadcast(b)) => a.lanes == b.lanes && same(&a.value, &b.value),
        (PrimExpr::Shuffle(a), PrimExpr::Shuffle(b)) => {
            a.indices == b.indices && same_all(&a.vectors, &b.vectors)
        }
        (PrimExpr::Let(a), PrimExpr::Let(b)) => {
            a.var == b.var && same(&a.value, &b.value) && same(&a.body, &b.body)
        }
        (PrimExpr::Call(a), PrimExpr::Call(b)) => {
            let pure = match a.callee {
                Callee::Intrinsic(intrinsic) => intrinsic.effect() != Effect::UpdateState,
                Callee::PureExtern(_) => true,
                Callee::Extern(_) => false,
            };
            pure && a.callee == b.callee && a.dtype == b.dtype && same_all(&a.args, &b.args)
        }
        _ => a.ptr_eq(b),
    }
}

/// An expression as a key of a map: equal as [`same`] says.
#[derive(Clone, Debug)]
pub(super) struct Key(pub(super) PrimExpr);

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        same(&self.0, &other.0)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_expr(&self.0, 4, state);
    }
}

/// Hashes `expr` down to `depth`: shared deep expressions stay cheap.
fn hash_expr<H: Hasher>(expr: &PrimExpr, depth: u32, state: &mut H) {
    discriminant(expr).hash(state);
    if depth == 0 {
        return;
    }
    let mut go = |expr: &PrimExpr| hash_expr(expr, depth - 1, state);
    match expr {
        PrimExpr::IntImm(it) => it.hash(state),
        PrimExpr::FloatImm(it) => it.value.to_bits().hash(state),
        PrimExpr::StringImm(it) => it.hash(state),
        PrimExpr::Var(it) => it.hash(state),
        PrimExpr::Cast(it) => go(&it.value),
        PrimExpr::Not(it) => go(&it.value),
        PrimExpr::Binary(it) => {
            go(&it.a);
            go(&it.b);
            it.op.hash(state);
        }
        PrimExpr::Select(it) => {
            go(&it.condition);
            go(&it.true_value);
            go(&it.false_value);
        }
        PrimExpr::BufferLoad(it) => {
            it.indices.iter().for_each(&mut go);
            it.buffer.hash(state);
        }
        PrimExpr::Ramp(it) => {
            go(&it.base);
            go(&it.stride);
        }
        PrimExpr::Broadcast(it) => go(&it.value),
        PrimExpr::Shuffle(it) => it.indices.hash(state),
        PrimExpr::Let(it) => it.var.hash(state),
        PrimExpr::Call(it) => it.args.iter().for_each(&mut go),
    }
}

/// The address of a node that may be shared, as a key of tables that keep the node alive.
pub(super) fn address(expr: &PrimExpr) -> Option<usize> {
    fn at<T: ?Sized>(node: &Arc<T>) -> Option<usize> {
        (Arc::strong_count(node) > 1).then(|| Arc::as_ptr(node).cast::<()>() as usize)
    }
    match expr {
        PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Var(_) => None,
        PrimExpr::Cast(it) => at(it),
        PrimExpr::Not(it) => at(it),
        PrimExpr::Binary(it) => at(it),
        PrimExpr::Select(it) => at(it),
        PrimExpr::BufferLoad(it) => at(it),
        PrimExpr::Ramp(it) => at(it),
        PrimExpr::Broadcast(it) => at(it),
        PrimExpr::Shuffle(it) => at(it),
        PrimExpr::Let(it) => at(it),
        PrimExpr::Call(it) => at(it),
    }
}

/// What was found of nodes that may be shared. It keeps them alive, so that no other node takes their address.
#[derive(Debug)]
pub(super) struct Memo<T>(FxHashMap<usize, (PrimExpr, T)>);

impl<T> Default for Memo<T> {
    fn default() -> Memo<T> {
        Memo(FxHashMap::default())
    }
}

impl<T: Clone> Memo<T> {
    pub(super) fn get(&self, expr: &PrimExpr) -> Option<T> {
        self.0.get(&address(expr)?).map(|(_, res)| res.clone())
    }

    pub(super) fn insert(&mut self, expr: &PrimExpr, res: T) {
        if let Some(key) = address(expr) {
            self.0.insert(key, (expr.clone(), res));
        }
    }
}

/// True when `pred` holds for `expr` or an expression inside it; looks at shared nodes once.
pub(super) fn any_node(expr: &PrimExpr, pred: &mut dyn FnMut(&PrimExpr) -> bool) -> bool {
    struct Any<'a> {
        pred: &'a mut dyn FnMut(&PrimExpr) -> bool,
        seen: FxHashSet<usize>,
        found: bool,
    }
    impl Visitor for Any<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if self.found || address(expr).is_some_and(|key| !self.seen.insert(key)) {
                return;
            }
            self.found = (self.pred)(expr);
            if !self.found {
                walk_expr(self, expr);
            }
        }
    }
    let mut any = Any { pred, seen: FxHashSet::default(), found: false };
    any.visit_expr(expr);
    any.found
}
