//! Structural hash: equal structures have equal hashes. The value depends on the structure alone, not on the process
//! or the machine, so it may be stored.
//!
//! Binders are numbered in order; free variables and buffers are numbered by first use, whatever their identity, so
//! that the hash agrees with equality both with and without `map_free_vars`.
//!
//! TVM counterpart: `StructuralHash`.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::{Field, Fields, Node};
use crate::ir::{AttrValue, BufferId, IRModule, VarId};
use crate::support::with_stack;

/// Hash of the structure of `node`.
pub fn structural_hash<'a>(node: impl Into<Node<'a>>) -> u64 {
    let mut hasher = StructuralHasher::default();
    hasher.node(node.into());
    hasher.state.finish()
}

/// As [`structural_hash`], but reads only the first and last bytes of large tensors: for hash tables whose keys, compared
/// by structural equality, may contain large constants.
pub(crate) fn structural_hash_sampled<'a>(node: impl Into<Node<'a>>) -> u64 {
    let mut hasher = StructuralHasher { sampled: true, ..StructuralHasher::default() };
    hasher.node(node.into());
    hasher.state.finish()
}

/// Number of bytes that a sampled hash reads at the start of a tensor, and again at its end.
const SAMPLE: usize = 256;

#[derive(Default)]
struct StructuralHasher {
    state: State,
    sampled: bool,
    vars: Numbering<VarId>,
    buffers: Numbering<BufferId>,
}

impl StructuralHasher {
    fn node(&mut self, node: Node<'_>) {
        with_stack(|| {
            self.state.bytes(node.kind().as_bytes());
            for &(slot, field) in Fields::of(node).iter() {
                self.field(slot.name, field);
            }
            if let Node::Module(module) = node {
                self.module(module);
            }
        });
    }

    fn field(&mut self, name: &'static str, field: Field<'_>) {
        match field {
            Field::Name(_) | Field::Span(_) | Field::Block(_) => return,
            Field::Open => {
                self.vars.open();
                self.buffers.open();
                return;
            }
            Field::Close => {
                self.vars.close();
                self.buffers.close();
                return;
            }
            _ => self.state.bytes(name.as_bytes()),
        }
        match field {
            Field::Open | Field::Close | Field::Name(_) | Field::Span(_) | Field::Block(_) => {}
            Field::Len(it) => self.state.word(it as u64),
            Field::Int(it) => self.state.word(it as u64),
            Field::Float(it) => self.state.word(it.to_bits()),
            Field::Str(it) => self.state.bytes(it.as_bytes()),
            Field::DType(it) => self.state.bytes(it.to_string().as_bytes()),
            Field::Device(it) => self.state.bytes(it.to_string().as_bytes()),
            Field::Attrs(it) => {
                self.state.word(it.len() as u64);
                for (name, value) in it.iter() {
                    self.state.bytes(name.as_bytes());
                    self.attr(value);
                }
            }
            Field::Tensor(it) => {
                self.state.bytes(it.dtype().to_string().as_bytes());
                it.shape().iter().for_each(|&extent| self.state.word(extent as u64));
                match it.bytes().unwrap_or_default() {
                    bytes if self.sampled && bytes.len() > 2 * SAMPLE => {
                        self.state.bytes(&bytes[..SAMPLE]);
                        self.state.bytes(&bytes[bytes.len() - SAMPLE..]);
                    }
                    bytes => self.state.bytes(bytes),
                }
            }
            Field::Global(it) => self.state.bytes(it.name().as_bytes()),
            Field::DefVar(it) => {
                self.vars.define(it.id());
            }
            Field::Dim(it) | Field::UseVar(it) => {
                let number = self.vars.number(it.id(), matches!(field, Field::Dim(_)));
                self.state.word(number);
                it.bound().into_iter().flat_map(|it| it.parts()).for_each(|it| self.state.word(it as u64));
            }
            Field::DefBuffer(it) => {
                self.buffers.define(it.id);
            }
            Field::UseBuffer(it) => {
                let number = self.buffers.number(it.id, false);
                self.state.word(number);
            }
            Field::Node(it) => self.node(it),
        }
    }

    fn attr(&mut self, value: &AttrValue) {
        match value {
            AttrValue::Bool(it) => self.state.word(u64::from(*it)),
            AttrValue::Int(it) => self.state.word(*it as u64),
            AttrValue::Float(it) => self.state.word(it.to_bits()),
            AttrValue::Str(it) => self.state.bytes(it.as_bytes()),
            AttrValue::DType(it) => self.state.bytes(it.to_string().as_bytes()),
            AttrValue::List(it) => {
                self.state.word(it.len() as u64);
                it.iter().for_each(|value| self.attr(value));
            }
        }
    }

    fn module(&mut self, module: &IRModule) {
        let mut functions: Vec<_> = module.functions().collect();
        functions.sort_by_key(|(gv, _)| gv.name());
        for (gv, func) in functions {
            self.state.bytes(gv.name().as_bytes());
            self.node(func.into());
        }
        let mut types: Vec<_> = module.type_defs().collect();
        types.sort_by_key(|def| &def.name);
        types.into_iter().for_each(|def| self.node((&**def).into()));
    }
}

/// Assigns numbers to identities, in nested scopes.
struct Numbering<K> {
    numbers: FxHashMap<K, u64>,
    trail: Vec<(K, Option<u64>)>,
    scopes: Vec<usize>,
    bound: u64,
    free: u64,
}

impl<K> Default for Numbering<K> {
    fn default() -> Self {
        Numbering { numbers: FxHashMap::default(), trail: Vec::new(), scopes: Vec::new(), bound: 0, free: 0 }
    }
}

impl<K: Copy + Eq + Hash> Numbering<K> {
    fn open(&mut self) {
        self.scopes.push(self.trail.len());
    }

    fn close(&mut self) {
        let len = self.scopes.pop().unwrap_or(0);
        for (key, old) in self.trail.drain(len..).rev() {
            match old {
                Some(old) => self.numbers.insert(key, old),
                None => self.numbers.remove(&key),
            };
        }
    }

    fn define(&mut self, key: K) -> u64 {
        self.bound += 1;
        self.trail.push((key, self.numbers.insert(key, self.bound)));
        self.bound
    }

    /// The number of `key`; a key without one becomes bound if `binds`, free otherwise.
    fn number(&mut self, key: K, binds: bool) -> u64 {
        match self.numbers.get(&key) {
            Some(&number) => number,
            None if binds => self.define(key),
            None => {
                self.free += 1;
                self.numbers.insert(key, !self.free);
                !self.free
            }
        }
    }
}

/// A 64-bit hash state that mixes words; the result is the same on every platform.
struct State(u64);

impl Default for State {
    fn default() -> State {
        State(0x9e37_79b9_7f4a_7c15)
    }
}

impl State {
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 ^= self.0 >> 32;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn finish(&self) -> u64 {
        let x = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        x ^ (x >> 33)
    }
}
