//! The strict mode: the interpreter as an oracle that reports behaviour which compiled code leaves undefined.
//!
//! - Parallel, vectorised and thread-bound loops run their iterations in an order drawn from a seed.
//! - Two iterations of such a loop must not access the same element if one of them writes it, unless both update it atomically.
//! - The program must not read an element of an allocated buffer before writing it; on request, nor of an output.
//!
//! - Loops bound to the same thread index inside another loop over threads run on the same threads. Accesses of
//!   different threads are unordered until a barrier (`storage_sync`), which orders all of them.
//!
//! Each iteration of a concurrent loop is a node of a tree; two accesses are ordered unless their paths diverge at a loop.
//! Loops over the same threads share their nodes until a barrier. For each element, up to two readers are kept that are
//! not ordered with each other: a later writer that races with any reader races with one of them. A kept reader that is
//! ordered with a later reader is replaced by it (as in the SP-bags algorithm of Feng and Leiserson). The same holds for atomic
//! updates: they are in no order with each other, and race with reads and other writes.

use rustc_hash::FxHashMap;

use super::machine::{Machine, Mem, Trap};
use super::{InterpError, Program, Value};
use crate::ir::Span;
use crate::tir::{For, ThreadTag};
use std::sync::Arc;

/// A program that runs in strict mode; made by [`Program::strict`].
#[derive(Clone, Copy)]
pub struct Strict<'p> {
    program: &'p Program,
    seed: u64,
    fresh_outputs: bool,
}

impl Program {
    /// The program in strict mode: iterations of concurrent loops run in an order drawn from `seed`; races between them
    /// and reads of unwritten memory are errors.
    pub fn strict(&self, seed: u64) -> Strict<'_> {
        Strict { program: self, seed, fresh_outputs: false }
    }
}

impl Strict<'_> {
    /// Treats outputs as uninitialised until the program writes them.
    #[must_use]
    pub fn fresh_outputs(self) -> Self {
        Strict { fresh_outputs: true, ..self }
    }

    /// Runs on `args`.
    pub fn run(&self, args: &mut [Value]) -> Result<(), InterpError> {
        self.run_limited(args, u64::MAX)
    }

    /// Runs on `args` and fails after `steps` statements and loop iterations.
    pub fn run_limited(&self, args: &mut [Value], steps: u64) -> Result<(), InterpError> {
        let units: Vec<usize> = args
            .iter()
            .filter_map(|arg| arg.as_tensor().map(|it| it.dtype().scalar().bytes().max(1)))
            .collect();
        self.program.run_on(args, steps, |m| {
            let mut watch = Watch::new(self.seed, m.mems.len());
            let first = m.mems.len() - units.len().min(m.mems.len());
            for (mem, &unit) in (first..).zip(&units) {
                let written = !(self.fresh_outputs && matches!(m.mems[mem], Mem::Write(_)));
                watch.track(mem, m.bytes(mem).len(), unit, written);
            }
            m.watch = Some(Box::new(watch));
        })
    }
}

/// A loop whose iterations may run concurrently.
#[derive(Clone, Debug)]
pub(super) struct Concurrent {
    pub(super) kind: &'static str,
    pub(super) name: Arc<str>,
    pub(super) span: Span,
}

impl Concurrent {
    pub(super) fn of(it: &For) -> Concurrent {
        Concurrent { kind: it.kind.name(), name: it.loop_var.name().into(), span: it.span.clone() }
    }
}

/// Stands for "never accessed" in place of a node.
const NEVER: u32 = u32::MAX;
/// The node of the program outside concurrent loops.
const ROOT: u32 = 0;
/// Maximum number of iterations that are shuffled; longer loops run backwards instead.
const SHUFFLED: i64 = 1 << 20;

struct Node {
    parent: u32,
    depth: u32,
    /// The loop, or the value of its variable in this iteration.
    is: Is,
}

enum Is {
    Loop(Concurrent),
    Iteration(i64),
}

/// The nodes of the last iterations that accessed an element.
#[derive(Clone, Copy)]
struct Cell {
    written: u32,
    /// A reader, and one that is not ordered with it.
    read: [u32; 2],
    /// An atomic update, and one that is not ordered with it.
    updated: [u32; 2],
}

/// What an access does with an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    /// The read, or the write, of an atomic update.
    Atomic,
}

#[derive(Default)]
struct Cells {
    /// Bytes per cell.
    unit: usize,
    cells: Vec<Cell>,
}

/// State of the strict mode for a running program.
pub(super) struct Watch {
    random: u64,
    nodes: Vec<Node>,
    current: u32,
    mems: Vec<Cells>,
    /// Number of enclosing loops over threads.
    threads: usize,
    /// The nodes of loops over threads since the last barrier, by enclosing node and thread index.
    loops: FxHashMap<(u32, ThreadTag), u32>,
    /// The nodes of their iterations, by loop node and value of the loop variable.
    iterations: FxHashMap<(u32, i64), u32>,
}

/// The error of an access.
pub(super) enum Fault {
    Uninitialised,
    Race { at: Concurrent, first: i64, second: i64 },
}

impl Watch {
    fn new(seed: u64, mems: usize) -> Watch {
        Watch {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d,
            nodes: vec![Node { parent: ROOT, depth: 0, is: Is::Iteration(0) }],
            current: ROOT,
            mems: (0..mems).map(|_| Cells::default()).collect(),
            threads: 0,
            loops: FxHashMap::default(),
            iterations: FxHashMap::default(),
        }
    }

    pub(super) fn current(&self) -> u32 {
        self.current
    }

    /// Continues in the iteration `node`.
    pub(super) fn go_on(&mut self, node: u32) {
        self.current = node;
    }

    /// Enters a loop over threads; an outermost one starts new threads. Returns the argument `launch` of `leave`.
    pub(super) fn launch(&mut self) -> usize {
        if self.threads == 0 {
            self.barrier();
        }
        self.threads += 1;
        self.threads - 1
    }

    /// Leaves a loop over threads and continues in `outer`, the iteration around it.
    pub(super) fn leave(&mut self, launch: usize, outer: u32) {
        (self.threads, self.current) = (launch, outer);
    }

    /// Orders all earlier accesses of threads before all later ones.
    pub(super) fn barrier(&mut self) {
        self.loops.clear();
        self.iterations.clear();
    }

    /// The node of thread `i` of the loop `at` inside the iteration `outer`.
    pub(super) fn thread(&mut self, outer: u32, at: &Concurrent, tag: ThreadTag, i: i64) -> u32 {
        let this = self.thread_loop(outer, at, tag);
        self.iteration(this, i)
    }

    fn thread_loop(&mut self, outer: u32, at: &Concurrent, tag: ThreadTag) -> u32 {
        match self.loops.get(&(outer, tag)) {
            Some(&known) => known,
            None => {
                self.current = outer;
                let new = self.push(Is::Loop(at.clone()));
                self.loops.insert((outer, tag), new);
                new
            }
        }
    }

    fn iteration(&mut self, this: u32, i: i64) -> u32 {
        match self.iterations.get(&(this, i)) {
            Some(&known) => known,
            None => {
                self.current = this;
                let new = self.push(Is::Iteration(i));
                self.iterations.insert((this, i), new);
                new
            }
        }
    }

    /// Records that memory `mem` moved to the end of the list of memories.
    pub(super) fn moved(&mut self, mem: usize) {
        let cells = std::mem::take(&mut self.mems[mem]);
        self.mems.push(cells);
    }

    /// Starts tracking memory `mem`, which is new and has `bytes` bytes, in cells of `unit` bytes.
    pub(super) fn track(&mut self, mem: usize, bytes: usize, unit: usize, written: bool) {
        let written = if written { ROOT } else { NEVER };
        let cell = Cell { written, read: [NEVER; 2], updated: [NEVER; 2] };
        let cells = &mut self.mems[mem];
        cells.unit = unit;
        cells.cells.clear();
        cells.cells.resize(bytes.div_ceil(unit), cell);
    }

    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) % below.max(1) as u64) as usize
    }

    fn push(&mut self, is: Is) -> u32 {
        let depth = self.nodes[self.current as usize].depth + 1;
        self.nodes.push(Node { parent: self.current, depth, is });
        self.current = (self.nodes.len() - 1) as u32;
        self.current
    }

    /// Draws an order of the iterations `min..min + extent`.
    pub(super) fn order(&mut self, min: i64, extent: i64) -> impl Iterator<Item = i64> + use<> {
        let end = min.saturating_add(extent.max(0));
        let draw = self.random(4);
        let mut shuffled = Vec::new();
        if draw > 1 && extent <= SHUFFLED {
            shuffled.extend(min..end);
            for i in (1..shuffled.len()).rev() {
                let j = self.random(i + 1);
                shuffled.swap(i, j);
            }
        }
        (min..end).enumerate().map(move |(k, i)| match shuffled.get(k) {
            Some(&i) => i,
            None if draw == 1 => i,
            None => end - 1 - (i - min),
        })
    }

    /// The race between accesses in the nodes `a` and `b`, if they are in concurrent iterations of a loop.
    fn race(&self, a: u32, b: u32) -> Option<Fault> {
        if a == NEVER || a == b {
            return None;
        }
        let node = |id: u32| &self.nodes[id as usize];
        let (mut a, mut b) = (a, b);
        while node(a).depth > node(b).depth {
            a = node(a).parent;
        }
        while node(b).depth > node(a).depth {
            b = node(b).parent;
        }
        if a == b {
            return None;
        }
        while node(a).parent != node(b).parent {
            (a, b) = (node(a).parent, node(b).parent);
        }
        match (&node(node(a).parent).is, &node(a).is, &node(b).is) {
            (Is::Loop(at), Is::Iteration(first), Is::Iteration(second)) => {
                Some(Fault::Race { at: at.clone(), first: *first, second: *second })
            }
            _ => None,
        }
    }

    /// Records an access of the current iteration to `len` bytes of memory `mem`.
    pub(super) fn access(&mut self, mem: usize, byte: i64, len: usize, kind: Kind) -> Result<(), Fault> {
        let unit = self.mems[mem].unit.max(1);
        let first = byte as usize / unit;
        for at in first..=(byte as usize + len - 1) / unit {
            let Some(&cell) = self.mems[mem].cells.get(at) else { continue };
            if kind != Kind::Write && cell.written == NEVER {
                return Err(Fault::Uninitialised);
            }
            if let Some(race) = self.race(cell.written, self.current) {
                return Err(race);
            }
            let races = |nodes: [u32; 2]| nodes.map(|node| self.race(node, self.current));
            let (read, updated) = (races(cell.read), races(cell.updated));
            let new = match kind {
                Kind::Read => Cell { read: self.with_current(cell.read, &read), ..cell },
                Kind::Atomic => Cell { updated: self.with_current(cell.updated, &updated), ..cell },
                Kind::Write => Cell { written: self.current, read: [NEVER; 2], updated: [NEVER; 2] },
            };
            let of_reads = read.into_iter().filter(|_| kind != Kind::Read);
            let of_updates = updated.into_iter().filter(|_| kind != Kind::Atomic);
            if let Some(race) = of_reads.chain(of_updates).flatten().next() {
                return Err(race);
            }
            self.mems[mem].cells[at] = new;
        }
        Ok(())
    }

    /// `nodes`, of which those with a race are not ordered with the current iteration, and the current iteration.
    fn with_current(&self, nodes: [u32; 2], races: &[Option<Fault>; 2]) -> [u32; 2] {
        match races {
            [Some(_), Some(_)] => nodes,
            [Some(_), None] => [nodes[0], self.current],
            [None, _] => [self.current, nodes[1]],
        }
    }
}

/// Runs `body` for `min..min + extent` in the order that the strict mode draws.
pub(super) fn shuffled(
    m: &mut Machine<'_>,
    at: &Concurrent,
    thread: Option<ThreadTag>,
    (min, extent): (i64, i64),
    mut body: impl FnMut(&mut Machine<'_>, i64) -> Result<(), Trap>,
) -> Result<(), Trap> {
    let Some(watch) = &mut m.watch else { return Ok(()) };
    let outer = watch.current;
    let launch = thread.map(|_| watch.launch());
    let this = match thread {
        Some(tag) => watch.thread_loop(outer, at, tag),
        None => watch.push(Is::Loop(at.clone())),
    };
    for i in watch.order(min, extent) {
        if let Some(watch) = &mut m.watch {
            watch.current = this;
            match thread {
                Some(_) => watch.current = watch.iteration(this, i),
                None => drop(watch.push(Is::Iteration(i))),
            }
        }
        body(m, i)?;
    }
    if let Some(watch) = &mut m.watch {
        match launch {
            Some(launch) => watch.leave(launch, outer),
            None => watch.current = outer,
        }
    }
    Ok(())
}
