//! Finds constructs of tensor programs that the DSL cannot express, and those whose text would compile to another program.
//!
//! Most of the former print in a form that no macro accepts. The latter are "silent": the printer puts a
//! `compile_error!` at the start of such a program.

#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;

use super::c_functions::CFunctions;
use super::stmt::{is_assertion, says_shape};
use crate::arith::Memo;
use crate::ir::{IrError, Span, VarId};
use crate::support::with_stack;
use crate::tir::analysis::{holds_blocks, reads_memory};
use crate::tir::*;

/// Why a program has no source: the construct, and whether the text would compile to another program (`silent`).
pub(super) struct Refusal {
    pub(super) what: String,
    pub(super) silent: bool,
    pub(super) span: Span,
}

impl Refusal {
    pub(super) fn error(self, func: &PrimFunc) -> IrError {
        let message = format!("`{}` has no source: {}", func.name, self.what);
        let span = if self.span.is_none() { func.span.clone() } else { self.span };
        IrError::new(message, &span).help("keep it as JSON (`ir::json`), or print it for reading only")
    }
}

/// The first construct in `func` that has no source; the first silent one, if there is any.
pub(super) fn refusal(func: &PrimFunc) -> Option<Refusal> {
    let Some(root) = super::function::root(&func.body) else {
        let what = "it is in the lowered form, or its root block is no plain one".to_string();
        return Some(Refusal { what, silent: false, span: func.span.clone() });
    };
    let mut check = Sayable {
        found: Vec::new(),
        c_functions: CFunctions::of(func),
        span: func.span.clone(),
        lets: FxHashMap::default(),
        seen: Memo::default(),
    };
    for param in func.params.iter() {
        match param {
            Param::In(buffer) | Param::Out(buffer) => check.param(buffer),
            Param::Scalar(var) => check.dtype(var.dtype()),
        }
    }
    check.block_parts(root);
    check.scope(&root.body, true);
    let at = check.found.iter().position(|it| it.silent).unwrap_or(0);
    (at < check.found.len()).then(|| check.found.swap_remove(at))
}

struct Sayable {
    found: Vec<Refusal>,
    c_functions: CFunctions,
    span: Span,
    /// Values of the variables bound so far.
    lets: FxHashMap<VarId, PrimExpr>,
    /// Expressions already visited.
    seen: Memo<()>,
}

impl Sayable {
    fn refuse(&mut self, what: impl Into<String>, silent: bool) {
        self.found.push(Refusal { what: what.into(), silent, span: self.span.clone() });
    }

    fn dtype(&mut self, dtype: tvm_runtime::DataType) {
        if !dtype.is_scalar() || dtype.is_handle() {
            self.refuse(format!("a value of type {dtype}"), false);
        }
    }

    fn param(&mut self, buffer: &Buffer) {
        self.dtype(buffer.dtype);
        if !buffer.strides.is_empty() || buffer.elem_offset.is_some() || buffer.scope != Scope::Global {
            self.refuse(format!("the layout of parameter `{}`", buffer.name), false);
        }
        buffer.shape.iter().for_each(|extent| self.visit_expr(extent));
    }

    /// Checks a local buffer. Compiling its extents replaces a variable by its value, unless the value reads memory.
    fn alloc(&mut self, buffer: &Buffer) {
        self.dtype(buffer.dtype);
        for part in buffer.shape.iter().chain(buffer.strides.iter()).chain(&buffer.elem_offset) {
            self.visit_expr(part);
            let named = |it: &PrimExpr| {
                let value = it.as_var().and_then(|var| self.lets.get(&var.id()));
                value.is_some_and(|value| !reads_memory(value))
            };
            if any_expr(part, &mut |it| named(it)) {
                self.refuse(format!("an extent of `{}` that is the name of a value", buffer.name), true);
            }
        }
    }

    fn block_parts(&mut self, block: &Block) {
        block.alloc_buffers.iter().for_each(|buffer| self.alloc(buffer));
        for matched in block.match_buffers.iter() {
            let (name, source) = (&matched.buffer.name, &matched.source);
            if !matched.buffer.strides.is_empty() || matched.buffer.elem_offset.is_some() {
                self.refuse(format!("the layout of `{name}`, which matches a region"), false);
            } else if !says_shape(matched) {
                self.refuse(format!("the shape of `{name}`, which matches a region of another shape"), false);
            }
            for range in source.region.iter() {
                self.visit_expr(&range.min);
                self.visit_expr(&range.extent);
            }
        }
        for iter in block.iter_vars.iter() {
            self.visit_expr(&iter.dom.min);
            self.visit_expr(&iter.dom.extent);
        }
    }

    /// Checks the statements directly inside a block that contains blocks.
    fn scope(&mut self, stmt: &Stmt, root: bool) {
        with_stack(|| match stmt {
            Stmt::SeqStmt(stmts) => {
                if stmts.len() == 1 {
                    self.refuse("a sequence of one statement", true);
                }
                stmts.iter().for_each(|stmt| self.scope(stmt, root));
            }
            Stmt::For(it) if holds_blocks(&it.body) => {
                let outer = self.enter(&it.span);
                for bound in [&it.min, &it.extent] {
                    if root && reads_memory(bound) {
                        self.refuse("a loop outside of blocks whose bounds read memory", true);
                    }
                    self.visit_expr(bound);
                }
                self.scope(&it.body, root);
                self.span = outer;
            }
            Stmt::BlockRealize(it) => {
                let outer = self.enter(&it.block.span);
                self.realize(it);
                self.span = outer;
            }
            Stmt::For(_)
            | Stmt::BufferStore(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => {
                self.refuse("a statement beside blocks, which is made one when it is compiled", true);
                self.leaf(stmt);
            }
        });
    }

    fn realize(&mut self, it: &BlockRealize) {
        it.iter_values.iter().for_each(|value| self.visit_expr(value));
        self.visit_expr(&it.predicate);
        if reads_memory(&it.predicate) {
            self.refuse(format!("the predicate of block `{}`, which reads memory", it.block.name), true);
        }
        if it.predicate.as_int() == Some(0) {
            self.refuse(format!("block `{}`, which never runs", it.block.name), false);
        }
        self.block_parts(&it.block);
        if let Some(init) = &it.block.init {
            self.leaf(init);
        }
        if holds_blocks(&it.block.body) {
            return self.scope(&it.block.body, false);
        }
        // Compiling moves an allocation directly in the block to the block's buffers, unless its size is bound in the block.
        let own = match &it.block.body {
            Stmt::SeqStmt(stmts) => stmts.to_vec(),
            stmt => vec![stmt.clone()],
        };
        let allocs = own.iter().filter_map(Stmt::as_alloc_buffer);
        let lets: Vec<VarId> = own.iter().filter_map(|stmt| Some(stmt.as_bind()?.var.id())).collect();
        for alloc in allocs {
            let mut parts = (alloc.buffer.shape.iter())
                .chain(alloc.buffer.strides.iter())
                .chain(&alloc.buffer.elem_offset);
            let sized = |it: &PrimExpr| it.as_var().is_some_and(|var| lets.contains(&var.id()));
            if !parts.any(|part| any_expr(part, &mut |it| sized(it))) {
                let name = &alloc.buffer.name;
                self.refuse(format!("the allocation of `{name}` among the statements of a block"), true);
            }
        }
        self.leaf(&it.block.body);
    }

    /// Checks a statement that contains no blocks.
    fn leaf(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::SeqStmt(stmts) if stmts.len() == 1 => self.refuse("a sequence of one statement", true),
            Stmt::Bind(it) => {
                self.dtype(it.var.dtype());
                self.lets.insert(it.var.id(), it.value.clone());
            }
            Stmt::AllocBuffer(it) => {
                if !it.annotations.is_empty() {
                    self.refuse("an annotation of an allocation", false);
                }
                self.alloc(&it.buffer);
            }
            Stmt::IfThenElse(it) if it.condition.as_int().is_some() => {
                self.refuse("a branch on a constant", false);
            }
            Stmt::DeclBuffer(it) => {
                self.refuse(format!("`{}`, which is declared over memory", it.buffer.name), false);
            }
            Stmt::Evaluate(_) => self.refuse("a call for its effect", false),
            Stmt::AssertStmt(it) if !is_assertion(&it.failure) => {
                self.refuse(format!("a failure with the status {}", it.failure.status), false);
            }
            Stmt::BufferStore(it) if it.predicate.is_some() => self.refuse("a masked store", false),
            Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::For(_)
            | Stmt::While(_)
            | Stmt::BufferStore(_)
            | Stmt::AssertStmt(_)
            | Stmt::BlockRealize(_) => {}
        }
        let span = match stmt {
            Stmt::BufferStore(it) => &it.span,
            Stmt::For(it) => &it.span,
            Stmt::IfThenElse(it) => &it.span,
            Stmt::While(it) => &it.span,
            Stmt::AssertStmt(it) => &it.failure.span,
            Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_) => &Span::none(),
        };
        let outer = self.enter(span);
        with_stack(|| walk_stmt(self, stmt));
        self.span = outer;
    }

    /// Makes `span` the current place, unless it is empty; returns the previous place.
    fn enter(&mut self, span: &Span) -> Span {
        let outer = self.span.clone();
        if !span.is_none() {
            self.span = span.clone();
        }
        outer
    }

    /// Checks that `expr` equals `written`, the expression to which its text compiles.
    fn folded(&mut self, expr: &PrimExpr, written: &PrimExpr) {
        let same = match (expr, written) {
            (PrimExpr::Binary(a), PrimExpr::Binary(b)) => {
                a.op == b.op && a.a.ptr_eq(&b.a) && a.b.ptr_eq(&b.b)
            }
            (PrimExpr::Cast(a), PrimExpr::Cast(b)) => a.dtype == b.dtype && a.value.ptr_eq(&b.value),
            (PrimExpr::Not(a), PrimExpr::Not(b)) => a.value.ptr_eq(&b.value),
            (PrimExpr::Select(a), PrimExpr::Select(b)) => a.condition.ptr_eq(&b.condition),
            _ => false,
        };
        if !same {
            self.refuse(format!("`{expr}`, which is `{written}` when it is compiled"), true);
        }
    }
}

impl Visitor for Sayable {
    fn visit_stmt(&mut self, stmt: &Stmt) {
        self.leaf(stmt);
    }

    fn visit_expr(&mut self, expr: &PrimExpr) {
        if self.seen.get(expr).is_some() {
            return;
        }
        self.seen.insert(expr, ());
        match expr {
            PrimExpr::Binary(it) => {
                self.folded(expr, &binary(it.op, it.a.clone(), it.b.clone()));
            }
            PrimExpr::Cast(it) => self.folded(expr, &it.value.clone().cast(it.dtype)),
            PrimExpr::Not(it) => self.folded(expr, &!it.value.clone()),
            PrimExpr::Select(it) => {
                let written = it.condition.clone().select(it.true_value.clone(), it.false_value.clone());
                self.folded(expr, &written);
            }
            PrimExpr::FloatImm(it) => {
                if it.value.is_nan() && it.value.to_bits() != f64::NAN.to_bits() {
                    self.refuse("a NaN with a payload", false);
                }
            }
            PrimExpr::StringImm(_) => self.refuse("a text", false),
            PrimExpr::Ramp(_) | PrimExpr::Broadcast(_) | PrimExpr::Shuffle(_) => {
                return self.refuse("a vector", false);
            }
            PrimExpr::Call(it) => self.call(it),
            PrimExpr::BufferLoad(it) if it.predicate.is_some() => return self.refuse("a masked load", false),
            PrimExpr::IntImm(_) | PrimExpr::Var(_) | PrimExpr::BufferLoad(_) | PrimExpr::Let(_) => {}
        }
        with_stack(|| walk_expr(self, expr));
    }
}

impl Sayable {
    fn call(&mut self, it: &PrimCall) {
        let intrinsic = match &it.callee {
            PrimCallee::Intrinsic(intrinsic) => *intrinsic,
            PrimCallee::PureExtern(symbol) => {
                if let Some(why) = self.c_functions.unsayable(symbol) {
                    self.refuse(format!("a call of the C function `{symbol}`, {why}"), false);
                }
                return;
            }
        };
        let unsaid = matches!(
            intrinsic,
            Intrinsic::FMulAdd
                | Intrinsic::Ldexp
                | Intrinsic::Dot4
                | Intrinsic::Dot2
                | Intrinsic::ReduceAdd
                | Intrinsic::ReduceMul
                | Intrinsic::ReduceMin
                | Intrinsic::ReduceMax
                | Intrinsic::Likely
                | Intrinsic::AsyncCopy
                | Intrinsic::Reinterpret
                | Intrinsic::AddressOf
                | Intrinsic::Prefetch
                | Intrinsic::PrefetchL2
                | Intrinsic::ArgData
                | Intrinsic::ArgNdim
                | Intrinsic::ArgDType
                | Intrinsic::ArgShape
                | Intrinsic::ArgIsCompact
                | Intrinsic::ArgScalar
                | Intrinsic::StorageSync
                | Intrinsic::WarpShuffleXor
                | Intrinsic::AtomicAdd
                | Intrinsic::AtomicMul
                | Intrinsic::AtomicMin
                | Intrinsic::AtomicMax
        );
        if unsaid {
            self.refuse(format!("a call of `{}`", intrinsic.name()), false);
        }
        if intrinsic == Intrinsic::IfThenElse && it.args[0].as_int().is_some() {
            self.refuse("a branch on a constant", true);
        }
    }
}
