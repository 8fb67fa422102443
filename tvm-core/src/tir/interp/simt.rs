//! Executes thread-bound loops that contain barriers, as the threads of one GPU block.
//!
//! Such a loop cannot run one iteration after another. Its body is split at the barriers; each part between two barriers
//! runs for one thread after another, in the order that the strict mode chooses, if enabled. Each thread has its own
//! variables and local buffers; all threads share the shared buffers. Loops and branches around a barrier must take the
//! same path in all threads, and those around an exchange of values of a warp as well.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::init::Enclosing;
use super::machine::{Handle, IntFn, Machine, Mem, Run, Trap, View};
use super::ops::Code;
use super::stmt::Compiler;
use super::strict::Concurrent;
use super::{InterpError, InterpErrorKind};
use crate::ir::{Span, Var};
use crate::tir::{
    Buffer, BufferStore, For, ForKind, Intrinsic, PrimCallee, PrimExpr, Scope, Stmt, ThreadTag, Visitor,
    walk_expr,
};

type Compiled<T> = Result<T, InterpError>;

/// A statement that all threads of a block execute.
pub(super) enum Simt {
    /// A statement without barriers, which runs for one thread after another.
    Each(Run),
    Barrier,
    /// Each thread evaluates `value`, and `store` with the value of another thread of its warp in `slot`.
    Shuffle {
        value: IntFn,
        bits: i64,
        slot: usize,
        store: Run,
        span: Span,
    },
    Seq(Vec<Simt>),
    /// A loop around a barrier: over threads if `threads` is set, otherwise executed by all threads together.
    Loop {
        inits: Vec<Run>,
        min: IntFn,
        extent: IntFn,
        slot: usize,
        threads: Option<(Arc<Concurrent>, ThreadTag)>,
        body: Box<Simt>,
        span: Span,
    },
    While {
        condition: IntFn,
        body: Box<Simt>,
        span: Span,
    },
    If {
        condition: IntFn,
        cases: [Option<Box<Simt>>; 2],
        span: Span,
    },
    Block {
        /// Sets the axes to their values; returns 0 if the predicate does not hold.
        enter: IntFn,
        allocs: Vec<Alloc>,
        prepare: Vec<Run>,
        body: Box<Simt>,
        span: Span,
    },
    Alloc(Alloc),
}

/// An allocation; each thread in turn takes over the memory that `run` allocates as number `mem`.
pub(super) struct Alloc {
    run: Run,
    mem: usize,
    view: usize,
    shared: bool,
}

/// State of one thread.
#[derive(Clone)]
struct Thread {
    slots: Vec<i64>,
    handles: Vec<Handle>,
    views: Vec<View>,
    /// The loops over threads around it, with the values of their variables.
    path: Vec<(Arc<Concurrent>, ThreadTag, i64)>,
    /// Its current node in the strict mode.
    node: u32,
}

/// True for a call of the barrier intrinsic at which all threads of a block wait.
pub(super) fn is_barrier(expr: &PrimExpr) -> bool {
    let PrimExpr::Call(call) = expr else { return false };
    // A warp barrier covers less than a block.
    call.callee == PrimCallee::Intrinsic(Intrinsic::StorageSync)
        && !matches!(&*call.args, [PrimExpr::StringImm(scope)] if &**scope == "warp")
}

/// The value and the bits of a call that exchanges values between the threads of a warp.
fn shuffle(expr: &PrimExpr) -> Option<(&PrimExpr, i64)> {
    let PrimExpr::Call(call) = expr else { return None };
    match (&call.callee, &*call.args) {
        (PrimCallee::Intrinsic(Intrinsic::WarpShuffleXor), [value, bits]) => Some((value, bits.as_int()?)),
        _ => None,
    }
}

/// True when threads wait for each other in `stmt`, or exchange values.
pub(super) fn has_barrier(stmt: &Stmt) -> bool {
    struct Find(bool);
    impl Visitor for Find {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.0 |= is_barrier(expr) || shuffle(expr).is_some();
            if !self.0 {
                walk_expr(self, expr);
            }
        }
    }
    let mut find = Find(false);
    find.visit_stmt(stmt);
    find.0
}

/// True when `tag` numbers threads of one block.
pub(super) fn is_thread(tag: ThreadTag) -> bool {
    match tag {
        ThreadTag::ThreadIdxX | ThreadTag::ThreadIdxY | ThreadTag::ThreadIdxZ | ThreadTag::Vthread => true,
        ThreadTag::BlockIdxX | ThreadTag::BlockIdxY | ThreadTag::BlockIdxZ => false,
    }
}

impl Compiler {
    /// Compiles a loop over threads with barriers inside.
    pub(super) fn threads(&mut self, it: &For) -> Compiled<Run> {
        let nest = self.simt_loop(it)?;
        Ok(Box::new(move |m| {
            let node = m.watch.as_ref().map_or(0, |watch| watch.current());
            let mut all = vec![Thread {
                slots: m.slots.clone(),
                handles: m.handles.clone(),
                views: m.views.clone(),
                path: Vec::new(),
                node,
            }];
            let launch = m.watch.as_mut().map(|watch| watch.launch());
            nest.run(m, &mut all, node)?;
            if let (Some(watch), Some(launch)) = (&mut m.watch, launch) {
                watch.leave(launch, node);
            }
            Ok(())
        }))
    }

    fn simt(&mut self, stmt: &Stmt) -> Compiled<Simt> {
        if let Stmt::AllocBuffer(it) = stmt {
            return self.simt_alloc(&it.buffer).map(Simt::Alloc);
        }
        if !has_barrier(stmt) && !matches!(stmt, Stmt::SeqStmt(_)) {
            return self.stmt(stmt).map(Simt::Each);
        }
        match stmt {
            Stmt::Evaluate(it) if is_barrier(&it.value) => Ok(Simt::Barrier),
            Stmt::SeqStmt(stmts) => {
                let depth = self.enclosing.len();
                let mut parts = Vec::with_capacity(stmts.len());
                for stmt in stmts.iter() {
                    parts.push(self.simt(stmt)?);
                    self.after(stmt);
                }
                self.enclosing.truncate(depth);
                Ok(Simt::Seq(parts))
            }
            Stmt::For(it) => self.simt_loop(it),
            Stmt::IfThenElse(it) => {
                let condition = self.int(&it.condition)?;
                let case = |compiler: &mut Compiler, condition: PrimExpr, stmt: &Stmt| {
                    compiler.enclosing.push(Enclosing::If(condition));
                    let case = compiler.simt(stmt);
                    compiler.enclosing.pop();
                    case.map(|it| Some(Box::new(it)))
                };
                let then_case = case(self, it.condition.clone(), &it.then_case)?;
                let else_case = match &it.else_case {
                    Some(stmt) => case(self, !it.condition.clone(), stmt)?,
                    None => None,
                };
                Ok(Simt::If { condition, cases: [then_case, else_case], span: it.span.clone() })
            }
            Stmt::BlockRealize(it) => {
                let enter = self.enter_block(it)?;
                let buffers = it.block.alloc_buffers.iter();
                let allocs = buffers.map(|buffer| self.simt_alloc(buffer)).collect::<Compiled<_>>()?;
                let mut prepare = Vec::new();
                for matched in it.block.match_buffers.iter() {
                    prepare.push(self.match_buffer(matched)?);
                }
                prepare.extend(self.init(it)?);
                self.enclosing.push(Enclosing::Block((**it).clone()));
                let body = self.simt(&it.block.body);
                self.enclosing.pop();
                let (body, span) = (Box::new(body?), it.block.span.clone());
                Ok(Simt::Block { enter, allocs, prepare, body, span })
            }
            Stmt::BufferStore(it) if shuffle(&it.value).is_some() => self.simt_shuffle(it),
            Stmt::While(it) => {
                let condition = self.int(&it.condition)?;
                self.enclosing.push(Enclosing::While);
                let body = self.simt(&it.body);
                self.enclosing.pop();
                Ok(Simt::While { condition, body: Box::new(body?), span: it.span.clone() })
            }
            Stmt::BufferStore(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => {
                Err(self
                    .malformed("a barrier", "threads reach it at different times inside of this statement"))
            }
        }
    }

    fn simt_loop(&mut self, it: &For) -> Compiled<Simt> {
        let threads = match it.kind {
            ForKind::Serial | ForKind::Unrolled => None,
            ForKind::ThreadBinding(tag) => Some((Arc::new(Concurrent::of(it)), tag)),
            ForKind::Parallel | ForKind::Vectorized => {
                return Err(self.malformed("a barrier", "it is in a loop whose iterations are no threads"));
            }
        };
        let (min, extent) = (self.int(&it.min)?, self.int(&it.extent)?);
        let slot = self.new_slot(&it.loop_var);
        let enclosing = Enclosing::Loop { var: it.loop_var.clone(), range: it.range(), inits: Vec::new() };
        self.enclosing.push(enclosing);
        let body = self.simt(&it.body);
        let inits = match self.enclosing.pop() {
            Some(Enclosing::Loop { inits, .. }) => inits,
            _ => Vec::new(),
        };
        let (body, span) = (Box::new(body?), it.span.clone());
        Ok(Simt::Loop { inits, min, extent, slot, threads, body, span })
    }

    /// A store of a value of another thread.
    fn simt_shuffle(&mut self, it: &BufferStore) -> Compiled<Simt> {
        let Some((value, bits)) = shuffle(&it.value) else {
            return Err(self.malformed("an exchange of values", "it is not the value of a store"));
        };
        let value: IntFn = match self.expr(value)? {
            Code::Int(value) => value,
            Code::Float(value) => Box::new(move |m| value(m).map(|it| it.to_bits() as i64)),
        };
        let received = Var::prim("received", it.value.dtype());
        let slot = self.new_slot(&received);
        let store = BufferStore { value: PrimExpr::from(&received), ..it.clone() };
        let store = self.stmt(&store.into())?;
        Ok(Simt::Shuffle { value, bits, slot, store, span: it.span.clone() })
    }

    fn simt_alloc(&mut self, buffer: &Buffer) -> Compiled<Alloc> {
        let mem = self.sizes.mems;
        let run = self.alloc(buffer)?;
        let shared = match buffer.scope {
            Scope::Shared | Scope::SharedDyn => true,
            Scope::Global | Scope::Local | Scope::Warp => false,
        };
        Ok(Alloc { run, mem, view: self.view_of(buffer)?, shared })
    }
}

impl Thread {
    /// The indices of the thread whose number along threadIdx.x differs from that of this one in `bits`.
    fn place(&self, bits: i64) -> Vec<(ThreadTag, i64)> {
        let index = |tag: ThreadTag, i: i64| if tag == ThreadTag::ThreadIdxX { i ^ bits } else { i };
        self.path.iter().map(|(_, tag, i)| (*tag, index(*tag, *i))).collect()
    }

    /// Runs `f` as this thread.
    fn run<R>(&mut self, m: &mut Machine<'_>, f: impl FnOnce(&mut Machine<'_>) -> R) -> R {
        let mut swap = |m: &mut Machine<'_>| {
            std::mem::swap(&mut m.slots, &mut self.slots);
            std::mem::swap(&mut m.handles, &mut self.handles);
            std::mem::swap(&mut m.views, &mut self.views);
        };
        swap(m);
        if let Some(watch) = &mut m.watch {
            watch.go_on(self.node);
        }
        let res = f(m);
        swap(m);
        res
    }
}

/// Runs `f` as each thread, in the order that the strict mode chooses.
fn each(
    m: &mut Machine<'_>,
    all: &mut [Thread],
    mut f: impl FnMut(&mut Machine<'_>) -> Result<(), Trap>,
) -> Result<(), Trap> {
    let order: Vec<i64> = match &mut m.watch {
        Some(watch) => watch.order(0, all.len() as i64).collect(),
        None => (0..all.len() as i64).collect(),
    };
    order.into_iter().try_for_each(|i| all[i as usize].run(m, &mut f))
}

/// The value of `f`, which must be the same in all threads.
fn agreed(
    m: &mut Machine<'_>,
    all: &mut [Thread],
    what: &'static str,
    span: &Span,
    f: &IntFn,
) -> Result<i64, Trap> {
    let mut agreed = None;
    each(m, all, |m| {
        let value = f(m)?;
        if *agreed.get_or_insert(value) != value {
            return Err(m.fail(InterpErrorKind::Divergence { what }, span));
        }
        Ok(())
    })?;
    Ok(agreed.unwrap_or(0))
}

/// Gives each thread, in `slot`, the value of the thread of its warp whose number differs in `bits`.
fn exchange(
    m: &mut Machine<'_>,
    all: &mut [Thread],
    value: &IntFn,
    bits: i64,
    slot: usize,
    span: &Span,
) -> Result<(), Trap> {
    let along = |tag: ThreadTag| tag == ThreadTag::ThreadIdxX;
    let mut values = FxHashMap::default();
    for thread in all.iter_mut() {
        let value = thread.run(m, |m| value(m))?;
        values.insert(thread.place(0), value);
    }
    for thread in all {
        let alone = !thread.path.iter().any(|(_, tag, _)| along(*tag));
        match values.get(&thread.place(bits)).filter(|_| !alone) {
            Some(value) => thread.slots[slot] = *value,
            None => return Err(m.fail(InterpErrorKind::Divergence { what: "an exchange of values" }, span)),
        }
    }
    Ok(())
}

impl Alloc {
    fn run(&self, m: &mut Machine<'_>, all: &mut [Thread]) -> Result<(), Trap> {
        let mut first: Option<View> = None;
        each(m, all, |m| {
            if let (true, Some(view)) = (self.shared, &first) {
                m.views[self.view] = view.clone();
                return Ok(());
            }
            (self.run)(m)?;
            // Move the memory away: the next thread allocates its own.
            let own = m.mems.len();
            let memory = std::mem::replace(&mut m.mems[self.mem], Mem::Owned(Vec::new()));
            m.mems.push(memory);
            if let Some(watch) = &mut m.watch {
                watch.moved(self.mem);
            }
            m.views[self.view].at.mem = own;
            first = Some(m.views[self.view].clone());
            Ok(())
        })
    }
}

impl Simt {
    /// Runs as the threads `all`; `base` is the node of the strict mode around the outermost loop over threads.
    fn run(&self, m: &mut Machine<'_>, all: &mut Vec<Thread>, base: u32) -> Result<(), Trap> {
        match self {
            Simt::Each(run) => each(m, all, |m| run(m)),
            Simt::Barrier => {
                m.step()?;
                let Some(watch) = &mut m.watch else { return Ok(()) };
                watch.barrier();
                for thread in all {
                    let path = thread.path.iter();
                    thread.node = path.fold(base, |node, (at, tag, i)| watch.thread(node, at, *tag, *i));
                }
                Ok(())
            }
            Simt::Shuffle { value, bits, slot, store, span } => {
                m.step()?;
                exchange(m, all, value, *bits, *slot, span)?;
                each(m, all, |m| store(m))
            }
            Simt::Seq(parts) => parts.iter().try_for_each(|part| part.run(m, all, base)),
            Simt::Loop { inits, min, extent, slot, threads, body, span } => {
                each(m, all, |m| inits.iter().try_for_each(|init| init(m)))?;
                let min = agreed(m, all, "the first value of a loop", span, min)?;
                let extent = agreed(m, all, "the extent of a loop", span, extent)?;
                let values = min..min.saturating_add(extent);
                let Some((at, tag)) = threads else {
                    for i in values {
                        m.step()?;
                        all.iter_mut().for_each(|thread| thread.slots[*slot] = i);
                        body.run(m, all, base)?;
                    }
                    return Ok(());
                };
                let mut more = Vec::new();
                for thread in all.iter() {
                    for i in values.clone() {
                        m.step()?;
                        let mut thread = thread.clone();
                        thread.slots[*slot] = i;
                        thread.path.push((at.clone(), *tag, i));
                        if let Some(watch) = &mut m.watch {
                            thread.node = watch.thread(thread.node, at, *tag, i);
                        }
                        more.push(thread);
                    }
                }
                body.run(m, &mut more, base)
            }
            Simt::While { condition, body, span } => {
                while agreed(m, all, "a condition", span, condition)? != 0 {
                    m.step()?;
                    body.run(m, all, base)?;
                }
                Ok(())
            }
            Simt::If { condition, cases: [then_case, else_case], span } => {
                let holds = agreed(m, all, "a condition", span, condition)? != 0;
                let case = if holds { then_case } else { else_case };
                case.iter().try_for_each(|case| case.run(m, all, base))
            }
            Simt::Block { enter, allocs, prepare, body, span } => {
                if agreed(m, all, "the predicate of a block", span, enter)? == 0 {
                    return Ok(());
                }
                allocs.iter().try_for_each(|alloc| alloc.run(m, all))?;
                each(m, all, |m| prepare.iter().try_for_each(|run| run(m)))?;
                body.run(m, all, base)
            }
            Simt::Alloc(alloc) => alloc.run(m, all),
        }
    }
}
