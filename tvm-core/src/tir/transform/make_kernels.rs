//! Puts everything that touches memory into kernels: a host cannot read or write the memory of its GPU.
//!
//! TVM counterpart: none; there an access outside of thread bindings is an error of `VerifyMemory`.
//! Requires: no blocks. Ensures: the outermost loops over thread indices are kernels, and each access is in one of them.
//! What is in no such loop becomes a kernel of one thread, or of a thread for each iteration if it is a parallel loop, or if it
//! fills a buffer.
//! Loops are serial, or over a thread index other than `vthread`: virtual threads, vectors and parallel loops inside of a
//! kernel run one iteration after the other. The loops that were vectors have an annotation for
//! [`vectorize_accesses`](super::vectorize_accesses).

use rustc_hash::FxHashMap;

use super::util::DeepSubstitute;
use super::vectorize_accesses::LANES;
use crate::ir::{IrError, Span, Var};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::analysis::reads_memory;
use crate::tir::{
    Buffer, For, ForKind, IfThenElse, Mutator, PrimExpr, PrimFunc, Stmt, ThreadTag, Visitor, uses_var,
    walk_expr, walk_stmt,
};

/// Threads of a block that runs the iterations of a parallel loop: a multiple of the warp, and small enough for every GPU.
const THREADS: i64 = 256;

/// Puts every access into a kernel.
pub fn make_kernels() -> Pass {
    prim_func_pass("MakeKernels", |func, _, _| {
        Ok(Some(PrimFunc { body: on_host(&func.body, &func.span)?, ..func.clone() }))
    })
}

/// `stmt`, which the host runs, with kernels for what it may not do itself. Errors are at `span` if no place is known.
fn on_host(stmt: &Stmt, span: &Span) -> Result<Stmt, IrError> {
    if matches!(stmt, Stmt::For(node) if is_thread(node.kind)) {
        return Ok(stmt.serialised());
    }
    if !has_kernels(stmt) {
        return Ok(match stmt {
            Stmt::SeqStmt(stmts) => sequence(stmts, span)?,
            Stmt::For(node) if node.kind == ForKind::Parallel && touches_memory(stmt) => threads(node),
            Stmt::For(node) if touches_memory(stmt) => match fused_fill(node) {
                Some(fill) => threads(&fill),
                None => one_thread(stmt.serialised()),
            },
            _ if touches_memory(stmt) => one_thread(stmt.serialised()),
            _ => stmt.serialised(),
        });
    }
    match stmt {
        Stmt::For(node) => {
            on_host_only([&node.min, &node.extent], "the bounds of a loop", &node.span, span)?;
            let body = on_host(&node.body, span)?;
            Ok(For { kind: ForKind::Serial, body, ..(**node).clone() }.into())
        }
        Stmt::IfThenElse(node) => {
            on_host_only([&node.condition], "the condition of a branch", &node.span, span)?;
            let then_case = on_host(&node.then_case, span)?;
            let else_case = node.else_case.as_ref().map(|it| on_host(it, span)).transpose()?;
            Ok(IfThenElse { then_case, else_case, ..(**node).clone() }.into())
        }
        Stmt::SeqStmt(stmts) => sequence(stmts, span),
        Stmt::While(node) => Err(refused("the condition of a `while`", &node.span, span)),
        Stmt::BufferStore(_)
        | Stmt::BlockRealize(_)
        | Stmt::Bind(_)
        | Stmt::AllocBuffer(_)
        | Stmt::DeclBuffer(_)
        | Stmt::Evaluate(_)
        | Stmt::AssertStmt(_) => Ok(stmt.clone()),
    }
}

/// The statements of a sequence. A value that is read from memory is known only in the kernel that reads it, which then runs the
/// sequence up to the next kernel as well.
fn sequence(stmts: &[Stmt], span: &Span) -> Result<Stmt, IrError> {
    let mut new = Vec::new();
    let mut rest = stmts;
    while let [stmt, after @ ..] = rest {
        rest = after;
        match stmt {
            Stmt::Bind(bind) if reads_memory(&bind.value) => {
                let len = after.iter().position(has_kernels).unwrap_or(after.len());
                let (own, later) = after.split_at(len);
                rest = later;
                let own: Vec<Stmt> = std::iter::once(stmt).chain(own).cloned().collect();
                if let Some(what) = own.iter().find_map(|it| used_later(it, later)) {
                    return Err(refused(&what, &Span::none(), span));
                }
                new.push(one_thread(Stmt::seq(own).serialised()));
            }
            Stmt::AllocBuffer(_) | Stmt::Bind(_) => new.push(stmt.clone()),
            _ => new.push(on_host(stmt, span)?),
        }
    }
    Ok(Stmt::seq(new))
}

/// What `stmt` names, if one of the statements after it uses that.
fn used_later(stmt: &Stmt, later: &[Stmt]) -> Option<String> {
    struct Uses<'a>(&'a Stmt, bool);
    impl Uses<'_> {
        fn is_buffer(&self, other: &Buffer) -> bool {
            matches!(self.0, Stmt::AllocBuffer(it) if it.buffer == *other)
        }
    }
    impl Visitor for Uses<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.1 |= match (expr, self.0) {
                (PrimExpr::Var(var), Stmt::Bind(bind)) => *var == bind.var,
                (PrimExpr::BufferLoad(load), _) => self.is_buffer(&load.buffer),
                _ => false,
            };
            walk_expr(self, expr);
        }

        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.1 |= matches!(stmt, Stmt::BufferStore(store) if self.is_buffer(&store.buffer));
            walk_stmt(self, stmt);
        }
    }
    let what = match stmt {
        Stmt::Bind(bind) => format!("the value of `{}`", bind.var.name()),
        Stmt::AllocBuffer(it) => format!("the buffer `{}`", it.buffer.name),
        _ => return None,
    };
    let mut uses = Uses(stmt, false);
    later.iter().for_each(|it| uses.visit_stmt(it));
    uses.1.then_some(what)
}

/// Fails if one of `exprs`, which the host evaluates, reads memory.
fn on_host_only<const N: usize>(
    exprs: [&PrimExpr; N],
    what: &str,
    span: &Span,
    func: &Span,
) -> Result<(), IrError> {
    if exprs.into_iter().any(reads_memory) { Err(refused(what, span, func)) } else { Ok(()) }
}

fn refused(what: &str, span: &Span, func: &Span) -> IrError {
    let span = if span.is_none() { func } else { span };
    let message = format!("{what} around a kernel is in memory of the GPU, which the host cannot read");
    IrError::new(message, span).help("move it into the loops over threads, or pass the value as a scalar")
}

/// True for loops over the threads or blocks of a kernel.
fn is_thread(kind: ForKind) -> bool {
    match kind {
        ForKind::ThreadBinding(tag) => tag != ThreadTag::Vthread,
        ForKind::Serial | ForKind::Parallel | ForKind::Vectorized | ForKind::Unrolled => false,
    }
}

/// A kernel of one thread that runs `stmt`.
fn one_thread(stmt: Stmt) -> Stmt {
    let kind = ForKind::ThreadBinding(ThreadTag::ThreadIdxX);
    For { kind, ..For::serial(Var::index("tx"), 1, stmt) }.into()
}

/// A kernel with a thread for each iteration of `node`.
fn threads(node: &For) -> Stmt {
    let block = node.extent.as_int().map_or(THREADS, |extent| extent.clamp(1, THREADS));
    let (bx, tx) = (Var::index("bx"), Var::index("tx"));
    let at = PrimExpr::from(&bx) * block + PrimExpr::from(&tx);
    let values = FxHashMap::from_iter([(node.loop_var.id(), node.min.clone() + &at)]);
    let body = DeepSubstitute::stmt(values, &node.body.serialised());
    let body = Stmt::if_then_else(at.less(node.extent.clone()), body, None);
    let blocks = (node.extent.clone() + (block - 1)).floordiv(block);
    let kind = ForKind::ThreadBinding;
    let body = For { kind: kind(ThreadTag::ThreadIdxX), ..For::serial(tx, block, body) }.into();
    let span = node.span.clone();
    For { kind: kind(ThreadTag::BlockIdxX), span, ..For::serial(bx, blocks, body) }.into()
}

/// The nest `node` as one loop, if it fills a buffer with a constant: `for i { for j { b[[i, j]] = 0 } }`.
fn fused_fill(node: &For) -> Option<For> {
    let mut loops = vec![node];
    let mut body = &node.body;
    while let Stmt::For(inner) = body {
        loops.push(inner);
        body = &inner.body;
    }
    let Stmt::BufferStore(store) = body else { return None };
    let constant = matches!(store.value, PrimExpr::IntImm(_) | PrimExpr::FloatImm(_));
    let indices = store.indices.iter().map(PrimExpr::as_var).eq(loops.iter().map(|it| Some(&it.loop_var)));
    let outer = |it: &For, at: usize| loops[..at].iter().any(|outer| uses_var(&it.extent, &outer.loop_var));
    let apart = loops
        .iter()
        .enumerate()
        .all(|(at, it)| it.min.is_const(0) && !reads_memory(&it.extent) && !outer(it, at));
    if !constant || !indices || !apart || store.predicate.is_some() {
        return None;
    }
    let at = Var::index("at");
    let (mut rest, mut values) = (PrimExpr::from(&at), FxHashMap::default());
    for it in loops[1..].iter().rev() {
        values.insert(it.loop_var.id(), rest.clone().floormod(it.extent.clone()));
        rest = rest.floordiv(it.extent.clone());
    }
    values.insert(node.loop_var.id(), rest);
    let extent = loops.iter().map(|it| it.extent.clone()).reduce(|a, b| a * b)?;
    Some(For { span: node.span.clone(), ..For::serial(at, extent, DeepSubstitute::stmt(values, body)) })
}

fn has_kernels(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For(it) if is_thread(it.kind)) || stmt.children().into_iter().any(has_kernels)
}

/// True when `stmt` reads or writes memory, or calls something that may.
fn touches_memory(stmt: &Stmt) -> bool {
    struct Touches(bool);
    impl Visitor for Touches {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.0 |= matches!(expr, PrimExpr::BufferLoad(_));
            if !self.0 {
                walk_expr(self, expr);
            }
        }

        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.0 |= matches!(stmt, Stmt::BufferStore(_) | Stmt::Evaluate(_));
            if !self.0 {
                walk_stmt(self, stmt);
            }
        }
    }
    let mut touches = Touches(false);
    touches.visit_stmt(stmt);
    touches.0
}

/// Makes loops serial that are not over a thread index of a GPU.
trait Serialised {
    fn serialised(&self) -> Stmt;
}

impl Serialised for Stmt {
    fn serialised(&self) -> Stmt {
        struct Serial;
        impl Mutator for Serial {
            fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
                None
            }

            fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
                let walked = self.walk_stmt(stmt);
                match walked.as_ref().unwrap_or(stmt) {
                    Stmt::For(node) => match node.kind {
                        ForKind::Serial | ForKind::Unrolled => walked,
                        ForKind::ThreadBinding(tag) if tag != ThreadTag::Vthread => walked,
                        ForKind::Vectorized => {
                            let annotations = node.annotations.clone().with(LANES, true);
                            Some(For { kind: ForKind::Serial, annotations, ..(**node).clone() }.into())
                        }
                        ForKind::Parallel | ForKind::ThreadBinding(_) => {
                            Some(For { kind: ForKind::Serial, ..(**node).clone() }.into())
                        }
                    },
                    _ => walked,
                }
            }
        }
        Serial.mutate_stmt(self).unwrap_or_else(|| self.clone())
    }
}
