//! Structural equality up to the names and identities of bound variables, buffers and blocks (alpha-equivalence).
//!
//! Variables and buffers correspond when they are bound at the same place, blocks by position, functions of a module by
//! name. Name hints, identities and spans are ignored; constants are compared by their bits.
//!
//! TVM counterpart: `StructuralEqual`, `GetFirstStructuralMismatch`.

use std::fmt;
use std::hash::Hash;

use rustc_hash::FxHashMap;
use tvm_runtime::Tensor;

use super::{Field, Fields, Node, Slot};
use crate::ir::tensor_program::Buffer;
use crate::ir::{AttrValue, Attrs, BufferId, IRModule, TypeDef, VarId};
use crate::support::with_stack;

/// The first place where two structures differ.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mismatch {
    /// Path to the difference, for example `functions.matmul.body.block(C).body.value.a`.
    pub path: String,
    /// What the left side has there.
    pub left: String,
    /// What the right side has there.
    pub right: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "the top" } else { &self.path };
        write!(f, "structures differ at {path}: left is {}, right is {}", self.left, self.right)
    }
}

/// Compares two nodes; free variables and buffers are equal when they have the same identity.
///
/// # Errors
/// The first difference.
pub fn structural_equal<'a>(a: impl Into<Node<'a>>, b: impl Into<Node<'a>>) -> Result<(), Mismatch> {
    StructuralEqual::new().check(a, b)
}

/// A comparison with options; the correspondences found by one `check` remain in effect for the next.
#[derive(Debug, Default)]
pub struct StructuralEqual {
    map_free_vars: bool,
    vars: Bijection<VarId>,
    buffers: Bijection<BufferId>,
}

impl StructuralEqual {
    /// A comparison in which free variables and buffers are equal when they have the same identity.
    pub fn new() -> StructuralEqual {
        StructuralEqual::default()
    }

    /// Makes free variables and buffers correspond by their first use.
    #[must_use]
    pub fn map_free_vars(mut self) -> StructuralEqual {
        self.map_free_vars = true;
        self
    }

    /// Compares two nodes.
    ///
    /// # Errors
    /// The first difference.
    pub fn check<'a>(&mut self, a: impl Into<Node<'a>>, b: impl Into<Node<'a>>) -> Result<(), Mismatch> {
        self.node(a.into(), b.into()).map_err(|found| {
            let mut path = String::new();
            for segment in found.path.iter().rev() {
                if !path.is_empty() && !segment.starts_with('[') {
                    path.push('.');
                }
                path.push_str(segment);
            }
            Mismatch { path, left: found.left, right: found.right }
        })
    }

    fn node(&mut self, a: Node<'_>, b: Node<'_>) -> Result<(), Box<Found>> {
        if !self.map_free_vars && self.vars.identity && self.buffers.identity && same(a, b) {
            return Ok(());
        }
        if a.kind() != b.kind() {
            return Err(Found::new(a.kind(), b.kind()));
        }
        with_stack(|| {
            let (left, right) = (Fields::of(a), Fields::of(b));
            for (&(slot, x), &(other, y)) in left.iter().zip(right.iter()) {
                if slot != other {
                    return Err(Found::new(slot.name, other.name).at(slot, a));
                }
                self.field(x, y)
                    .map_err(|found| found.at(slot, if let Field::Node(child) = x { child } else { a }))?;
            }
            if left.0.len() != right.0.len() {
                return Err(Found::new(count(left.0.len()), count(right.0.len())));
            }
            if let (Node::Module(a), Node::Module(b)) = (a, b) { self.module(a, b) } else { Ok(()) }
        })
    }

    fn field(&mut self, a: Field<'_>, b: Field<'_>) -> Result<(), Box<Found>> {
        let equal = match (a, b) {
            (Field::Node(a), Field::Node(b)) => return self.node(a, b),
            (Field::Open, Field::Open) => {
                self.vars.open();
                self.buffers.open();
                true
            }
            (Field::Close, Field::Close) => {
                self.vars.close();
                self.buffers.close();
                true
            }
            (Field::Name(_), Field::Name(_))
            | (Field::Span(_), Field::Span(_))
            | (Field::Block(_), Field::Block(_)) => true,
            (Field::Len(a), Field::Len(b)) => {
                return if a == b { Ok(()) } else { Err(Found::new(count(a), count(b))) };
            }
            (Field::Int(a), Field::Int(b)) => a == b,
            (Field::Float(a), Field::Float(b)) => a.to_bits() == b.to_bits(),
            (Field::Str(a), Field::Str(b)) => a == b,
            (Field::DType(a), Field::DType(b)) => a == b,
            (Field::Device(a), Field::Device(b)) => a == b,
            (Field::Attrs(a), Field::Attrs(b)) => attrs_equal(a, b),
            (Field::Tensor(a), Field::Tensor(b)) => tensors_equal(a, b),
            (Field::Global(a), Field::Global(b)) => a.name() == b.name(),
            (Field::DefVar(a), Field::DefVar(b)) => {
                self.vars.define(a.id(), b.id());
                true
            }
            (Field::Dim(a), Field::Dim(b)) => match self.vars.matches(a.id(), b.id()) {
                Some(equal) => equal,
                None => {
                    self.vars.define(a.id(), b.id());
                    a.dtype() == b.dtype() && a.bound() == b.bound()
                }
            },
            (Field::UseVar(a), Field::UseVar(b)) => match self.vars.matches(a.id(), b.id()) {
                Some(equal) => equal,
                None if self.map_free_vars => {
                    self.vars.define_free(a.id(), b.id());
                    if a.bound() != b.bound() {
                        return Err(Found::new(describe(Field::Dim(a)), describe(Field::Dim(b))));
                    }
                    return self.node(Node::Type(a.ty()), Node::Type(b.ty()));
                }
                None => a == b,
            },
            (Field::DefBuffer(a), Field::DefBuffer(b)) => {
                self.buffers.define(a.id, b.id);
                true
            }
            (Field::UseBuffer(a), Field::UseBuffer(b)) => match self.buffers.matches(a.id, b.id) {
                Some(equal) => equal,
                None if self.map_free_vars => return self.free_buffers(a, b),
                None => a == b,
            },
            _ => false,
        };
        if equal { Ok(()) } else { Err(Found::new(describe(a), describe(b))) }
    }

    fn free_buffers(&mut self, a: &Buffer, b: &Buffer) -> Result<(), Box<Found>> {
        self.buffers.define_free(a.id, b.id);
        for (&(slot, x), &(_, y)) in Fields::of(a.into()).iter().zip(Fields::of(b.into()).iter()) {
            if !matches!(x, Field::DefBuffer(_)) {
                self.field(x, y).map_err(|found| found.at(slot, a.into()))?;
            }
        }
        Ok(())
    }

    fn module(&mut self, a: &IRModule, b: &IRModule) -> Result<(), Box<Found>> {
        let missing = |name: &str, left: bool| {
            let (left, right) = if left { ("missing", "present") } else { ("present", "missing") };
            Found::new(left, right).named(name)
        };
        for (gv, func) in a.functions() {
            let name = format!("functions.{}", gv.name());
            let other = b.lookup(gv.name()).ok_or_else(|| missing(&name, false))?;
            self.node(func.into(), other.into()).map_err(|found| found.named(&name))?;
        }
        for def in a.type_defs() {
            let name = format!("types.{}", def.name);
            let other = b.type_def(&def.name).ok_or_else(|| missing(&name, false))?;
            let (a, b): (&TypeDef, &TypeDef) = (def, other);
            self.node(a.into(), b.into()).map_err(|found| found.named(&name))?;
        }
        if let Some((gv, _)) = b.functions().find(|(gv, _)| a.lookup(gv.name()).is_none()) {
            return Err(missing(&format!("functions.{}", gv.name()), true));
        }
        if let Some(def) = b.type_defs().find(|def| a.type_def(&def.name).is_none()) {
            return Err(missing(&format!("types.{}", def.name), true));
        }
        Ok(())
    }
}

/// A difference, with the segments of its path from the inside out.
#[derive(Debug)]
struct Found {
    path: Vec<String>,
    left: String,
    right: String,
}

impl Found {
    fn new(left: impl Into<String>, right: impl Into<String>) -> Box<Found> {
        Box::new(Found { path: Vec::new(), left: left.into(), right: right.into() })
    }

    fn at(self: Box<Found>, slot: Slot, node: Node<'_>) -> Box<Found> {
        let name = slot.name;
        self.named(&match (slot.index, node) {
            (Some(index), _) => format!("{name}[{index}]"),
            (None, Node::Block(block)) if name == "block" => format!("{name}({})", block.name),
            (None, _) => name.to_string(),
        })
    }

    fn named(mut self: Box<Found>, segment: &str) -> Box<Found> {
        self.path.push(segment.to_string());
        self
    }
}

/// Correspondence between identities on the left and on the right, in nested scopes.
#[derive(Debug)]
struct Bijection<K> {
    forward: FxHashMap<K, K>,
    backward: FxHashMap<K, K>,
    /// The pairs bound so far, each key followed by the entry that it shadowed.
    trail: Vec<(K, Option<K>, K, Option<K>)>,
    scopes: Vec<usize>,
    /// True while every identity corresponds to itself.
    identity: bool,
}

impl<K> Default for Bijection<K> {
    fn default() -> Self {
        Bijection {
            forward: FxHashMap::default(),
            backward: FxHashMap::default(),
            trail: Vec::new(),
            scopes: Vec::new(),
            identity: true,
        }
    }
}

impl<K: Copy + Eq + Hash> Bijection<K> {
    fn open(&mut self) {
        self.scopes.push(self.trail.len());
    }

    fn close(&mut self) {
        let len = self.scopes.pop().unwrap_or(0);
        for (a, old_a, b, old_b) in self.trail.drain(len..).rev() {
            for (map, key, old) in [(&mut self.forward, a, old_a), (&mut self.backward, b, old_b)] {
                match old {
                    Some(old) => map.insert(key, old),
                    None => map.remove(&key),
                };
            }
        }
    }

    fn define(&mut self, a: K, b: K) {
        let (old_a, old_b) = (self.forward.insert(a, b), self.backward.insert(b, a));
        self.trail.push((a, old_a, b, old_b));
        self.identity &= a == b;
    }

    /// Binds a pair for the whole comparison, beyond the open scopes.
    fn define_free(&mut self, a: K, b: K) {
        self.forward.insert(a, b);
        self.backward.insert(b, a);
        self.identity &= a == b;
    }

    /// Whether `a` and `b` correspond to each other; `None` when neither is bound.
    fn matches(&self, a: K, b: K) -> Option<bool> {
        match (self.forward.get(&a), self.backward.get(&b)) {
            (None, None) => None,
            (found, back) => Some(found == Some(&b) && back == Some(&a)),
        }
    }
}

fn same(a: Node<'_>, b: Node<'_>) -> bool {
    match (a, b) {
        (Node::Expr(a), Node::Expr(b)) => a.ptr_eq(b),
        (Node::Stmt(a), Node::Stmt(b)) => a.ptr_eq(b),
        (Node::Block(a), Node::Block(b)) => std::ptr::eq(a, b),
        (Node::PrimFunc(a), Node::PrimFunc(b)) => std::ptr::eq(a, b),
        (Node::Function(a), Node::Function(b)) => std::ptr::eq(a, b),
        _ => false,
    }
}

fn attrs_equal(a: &Attrs, b: &Attrs) -> bool {
    a.len() == b.len()
        && a.iter().zip(b.iter()).all(|((name, x), (other, y))| name == other && values_equal(x, y))
}

fn values_equal(a: &AttrValue, b: &AttrValue) -> bool {
    match (a, b) {
        (AttrValue::Float(a), AttrValue::Float(b)) => a.to_bits() == b.to_bits(),
        (AttrValue::List(a), AttrValue::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| values_equal(a, b))
        }
        (
            AttrValue::Bool(_)
            | AttrValue::Int(_)
            | AttrValue::Float(_)
            | AttrValue::Str(_)
            | AttrValue::DType(_)
            | AttrValue::List(_),
            _,
        ) => a == b,
    }
}

/// Compares by bytes; tensors that the host cannot read are equal when they share the same memory.
fn tensors_equal(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype()
        && a.shape() == b.shape()
        && match (a.bytes(), b.bytes()) {
            (Ok(a), Ok(b)) => a == b,
            _ => a.device() == b.device() && a.data_ptr() == b.data_ptr(),
        }
}

fn count(n: usize) -> String {
    format!("{n} items")
}

fn describe(field: Field<'_>) -> String {
    match field {
        Field::Open | Field::Close => "a scope".to_string(),
        Field::Len(n) => count(n),
        Field::Name(it) | Field::Str(it) => format!("`{it}`"),
        Field::Span(it) => it.to_string(),
        Field::Block(_) => "a block".to_string(),
        Field::Int(it) => it.to_string(),
        Field::Float(it) => format!("{it:?}"),
        Field::DType(it) => it.to_string(),
        Field::Device(it) => it.to_string(),
        Field::Attrs(it) => format!("{:?}", it.iter().collect::<Vec<_>>()),
        Field::Tensor(it) => format!("a {} tensor of shape {:?}", it.dtype(), it.shape()),
        Field::Global(it) => format!("@{}", it.name()),
        Field::DefVar(it) | Field::Dim(it) | Field::UseVar(it) => {
            let bound = it.bound().map_or_else(String::new, |bound| format!(" in {bound}"));
            format!("variable `{}`{bound}", it.name())
        }
        Field::DefBuffer(it) | Field::UseBuffer(it) => format!("buffer `{}`", it.name),
        Field::Node(it) => it.kind().to_string(),
    }
}
