//! Syntactic equality and hashing of expressions, to recognise occurrences of the same value.
//!
//! TVM counterpart: `ExprDeepEqual`, `StructuralHash`.

use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::tensor_program::{Effect, PrimCallee, PrimExpr, Visitor, walk_expr};
use crate::support::with_stack;

/// True when `a` and `b` have the same structure over the same variables and constants, so that they have one value
/// wherever both are evaluated together. Different calls with side effects are never equal.
pub fn same(a: &PrimExpr, b: &PrimExpr) -> bool {
    Same { seen: FxHashSet::default(), nodes: u32::MAX }.exprs(a, b)
}

/// True when a rewrite of `expr` returned `expr` again. This shows in the nodes that the rewrite examined: the deeper
/// ones are then shared. Two large expressions that share nothing are not compared in full.
pub(super) fn unchanged(new: &PrimExpr, expr: &PrimExpr) -> bool {
    Same { seen: FxHashSet::default(), nodes: REWRITTEN_NODES }.exprs(new, expr)
}

/// How many nodes a rewrite examines.
const REWRITTEN_NODES: u32 = 64;

/// One comparison. A pair of nodes that are both shared is compared once.
struct Same {
    seen: FxHashSet<(usize, usize)>,
    /// How many nodes may still be compared.
    nodes: u32,
}

impl Same {
    fn exprs(&mut self, a: &PrimExpr, b: &PrimExpr) -> bool {
        if a.ptr_eq(b) {
            return true;
        }
        if self.nodes == 0 {
            return false;
        }
        self.nodes -= 1;
        let pair = shared(a).zip(shared(b));
        if pair.is_some_and(|pair| self.seen.contains(&pair)) {
            return true;
        }
        let res = with_stack(|| self.nodes(a, b));
        if let Some(pair) = pair.filter(|_| res) {
            self.seen.insert(pair);
        }
        res
    }

    fn all(&mut self, a: &[PrimExpr], b: &[PrimExpr]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.exprs(a, b))
    }

    fn nodes(&mut self, a: &PrimExpr, b: &PrimExpr) -> bool {
        match (a, b) {
            (PrimExpr::Cast(a), PrimExpr::Cast(b)) => a.dtype == b.dtype && self.exprs(&a.value, &b.value),
            (PrimExpr::Not(a), PrimExpr::Not(b)) => self.exprs(&a.value, &b.value),
            (PrimExpr::Binary(a), PrimExpr::Binary(b)) => {
                a.op == b.op && self.exprs(&a.b, &b.b) && self.exprs(&a.a, &b.a)
            }
            (PrimExpr::Select(a), PrimExpr::Select(b)) => {
                self.exprs(&a.condition, &b.condition)
                    && self.exprs(&a.true_value, &b.true_value)
                    && self.exprs(&a.false_value, &b.false_value)
            }
            (PrimExpr::BufferLoad(a), PrimExpr::BufferLoad(b)) => {
                a.buffer == b.buffer
                    && self.all(&a.indices, &b.indices)
                    && match (&a.predicate, &b.predicate) {
                        (Some(a), Some(b)) => self.exprs(a, b),
                        (a, b) => a.is_none() && b.is_none(),
                    }
            }
            (PrimExpr::Ramp(a), PrimExpr::Ramp(b)) => {
                a.lanes == b.lanes && self.exprs(&a.base, &b.base) && self.exprs(&a.stride, &b.stride)
            }
            (PrimExpr::Broadcast(a), PrimExpr::Broadcast(b)) => {
                a.lanes == b.lanes && self.exprs(&a.value, &b.value)
            }
            (PrimExpr::Shuffle(a), PrimExpr::Shuffle(b)) => {
                a.indices == b.indices && self.all(&a.vectors, &b.vectors)
            }
            (PrimExpr::Let(a), PrimExpr::Let(b)) => {
                a.var == b.var && self.exprs(&a.value, &b.value) && self.exprs(&a.body, &b.body)
            }
            (PrimExpr::Call(a), PrimExpr::Call(b)) => {
                let pure = match a.callee {
                    PrimCallee::Intrinsic(intrinsic) => intrinsic.effect() != Effect::UpdateState,
                    PrimCallee::PureExtern(_) => true,
                };
                pure && a.callee == b.callee && a.dtype == b.dtype && self.all(&a.args, &b.args)
            }
            _ => a.ptr_eq(b),
        }
    }
}

/// An expression as the key of a map; equality is that of [`same`].
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
        hash_expr(&self.0, &mut { HASHED_NODES }, state);
    }
}

/// How many nodes of an expression its hash covers.
const HASHED_NODES: u32 = 32;

/// Hashes the first nodes of `expr`, so that deep expressions, and those with shared nodes, stay cheap.
fn hash_expr<H: Hasher>(expr: &PrimExpr, nodes: &mut u32, state: &mut H) {
    discriminant(expr).hash(state);
    if *nodes == 0 {
        return;
    }
    *nodes -= 1;
    let mut go = |expr: &PrimExpr| hash_expr(expr, nodes, state);
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
            it.indices.iter().chain(&it.predicate).for_each(&mut go);
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

/// The address of a node, as a key of tables that keep the node alive; `None` for leaves.
pub(super) fn address(expr: &PrimExpr) -> Option<usize> {
    node(expr).map(|(address, _)| address)
}

/// Like [`address`], for a node that has more than one owner; `None` for others.
pub(super) fn shared(expr: &PrimExpr) -> Option<usize> {
    node(expr).filter(|(_, owners)| *owners > 1).map(|(address, _)| address)
}

/// Address and number of owners of a node; `None` for leaves.
fn node(expr: &PrimExpr) -> Option<(usize, usize)> {
    fn at<T: ?Sized>(node: &Arc<T>) -> Option<(usize, usize)> {
        Some((Arc::as_ptr(node).cast::<()>() as usize, Arc::strong_count(node)))
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

/// Results by node. The table keeps the nodes alive, so that no other node gets their address.
#[derive(Debug)]
pub(crate) struct Memo<T>(FxHashMap<usize, (PrimExpr, T)>);

impl<T> Default for Memo<T> {
    fn default() -> Memo<T> {
        Memo(FxHashMap::default())
    }
}

impl<T: Clone> Memo<T> {
    pub(crate) fn get(&self, expr: &PrimExpr) -> Option<T> {
        self.0.get(&address(expr)?).map(|(_, res)| res.clone())
    }

    pub(crate) fn insert(&mut self, expr: &PrimExpr, res: T) {
        if let Some(key) = address(expr) {
            self.0.insert(key, (expr.clone(), res));
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// True when `pred` holds for `expr` or an expression inside it; visits shared nodes once.
pub(super) fn any_node(expr: &PrimExpr, pred: &mut dyn FnMut(&PrimExpr) -> bool) -> bool {
    struct Any<'a> {
        pred: &'a mut dyn FnMut(&PrimExpr) -> bool,
        seen: FxHashSet<usize>,
        found: bool,
    }
    impl Visitor for Any<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if self.found || shared(expr).is_some_and(|key| !self.seen.insert(key)) {
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
