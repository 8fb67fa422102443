//! Statements in C.

use tvm_core::support::with_stack;
use tvm_core::tir::transform::{REMAINDER, pragma_unroll};
use tvm_core::tir::{AllocBuffer, AssertStmt, BufferStore, DeclBuffer, For, ForKind, PrimExpr, Scope, Stmt};
use tvm_runtime::DataType;
use tvm_runtime::abi::Status;

use super::dialect::Dialect;
use super::function::Function;
use super::{not_supported, types};
use crate::CodegenError;

impl Function<'_> {
    /// Writes `stmt`.
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<(), CodegenError> {
        self.unit.position.enter(stmt);
        with_stack(|| match stmt {
            Stmt::BufferStore(it) => self.store(it),
            Stmt::For(it) => self.for_loop(it),
            Stmt::BlockRealize(it) => {
                not_supported(format!("block `{}`: the program is not lowered", it.block.name))
            }
            Stmt::SeqStmt(stmts) => self.scope(stmts),
            Stmt::IfThenElse(it) => {
                let condition = self.expr(&it.condition)?;
                self.open(&format!("if ({condition}) {{"));
                self.scope(std::slice::from_ref(&it.then_case))?;
                if let Some(other) = &it.else_case {
                    self.close();
                    self.open("else {");
                    self.scope(std::slice::from_ref(other))?;
                }
                self.close();
                Ok(())
            }
            Stmt::While(it) => {
                self.lazy += 1;
                let condition = self.expr(&it.condition)?;
                self.lazy -= 1;
                self.open(&format!("while ({condition}) {{"));
                self.scope(std::slice::from_ref(&it.body))?;
                self.close();
                Ok(())
            }
            Stmt::Bind(it) => {
                let value = self.expr(&it.value)?;
                let ty = self.ty(it.var.dtype());
                let name = self.define(&it.var);
                self.line(&format!("const {ty} {name} = {value};"));
                Ok(())
            }
            Stmt::AllocBuffer(it) => self.alloc(it),
            Stmt::DeclBuffer(it) => self.declare(it),
            Stmt::Evaluate(it) => {
                let value = self.expr(&it.value)?;
                self.line(&format!("(void){value};"));
                Ok(())
            }
            Stmt::AssertStmt(it) => self.assert(it),
        })
    }

    /// Writes `stmts`, then frees the scratch memory that they allocated.
    fn scope(&mut self, stmts: &[Stmt]) -> Result<(), CodegenError> {
        let keep = self.scratch.len();
        for stmt in stmts {
            match stmt {
                Stmt::SeqStmt(inner) => inner.iter().try_for_each(|stmt| self.stmt(stmt))?,
                other => self.stmt(other)?,
            }
        }
        for name in self.scratch.split_off(keep).into_iter().rev() {
            self.line(&format!("ctx->free(ctx, {name});"));
        }
        Ok(())
    }

    fn for_loop(&mut self, it: &For) -> Result<(), CodegenError> {
        match it.kind {
            ForKind::Parallel if !self.in_parallel && self.unit.dialect == Dialect::C => {
                return self.parallel_loop(it);
            }
            ForKind::Serial | ForKind::Parallel => {}
            ForKind::Vectorized | ForKind::Unrolled | ForKind::ThreadBinding(_) => {
                return not_supported(format!("loop `{}` of kind {:?}", it.loop_var.name(), it.kind));
            }
        }
        let dtype = if self.counts_in_32_bits(it) { DataType::I32 } else { it.loop_var.dtype() };
        let min = self.expr(&bound(&it.min, dtype))?;
        let extent = self.expr(&bound(&it.extent, dtype))?;
        let ty = types::scalar(dtype);
        let name = self.define_as(&it.loop_var, dtype);
        let end = if it.min.is_const(0) { extent } else { format!("{min} + {extent}") };
        let end = if it.extent.as_int().is_some() && it.min.as_int().is_some() {
            end
        } else {
            let stop = self.fresh(&format!("{name}_end"));
            self.line(&format!("const {ty} {stop} = {end};"));
            stop
        };
        self.streamed_loop(it, |f| {
            f.loop_hints(it);
            f.open(&format!("for ({ty} {name} = {min}; {name} < {end}; ++{name}) {{"));
            f.scope(std::slice::from_ref(&it.body))?;
            f.close();
            Ok(())
        })
    }

    /// True if the variable of the loop `it`, and its end, fit an `i32`, where that is what counts.
    fn counts_in_32_bits(&self, it: &For) -> bool {
        let narrow = |it: &PrimExpr| matches!(it, PrimExpr::Cast(it) if it.value.dtype() == DataType::I32);
        let fits = match (it.min.as_int(), it.extent.as_int()) {
            (Some(min), Some(extent)) => [Some(min), min.checked_add(extent)]
                .iter()
                .all(|it| it.is_some_and(|it| i32::try_from(it).is_ok())),
            (Some(0), None) => narrow(&it.extent),
            _ => false,
        };
        fits && self.unit.dialect == Dialect::Cuda && it.loop_var.dtype() == DataType::I64
    }

    /// Writes what stands before the loop `it`.
    pub(super) fn loop_hints(&mut self, it: &For) {
        if let Some(copies) = pragma_unroll(it) {
            self.line(&format!("TVM_UNROLL({copies})"));
        } else if it.annotations.get(REMAINDER).is_some() {
            self.line("TVM_REMAINDER");
        }
    }

    fn alloc(&mut self, it: &AllocBuffer) -> Result<(), CodegenError> {
        let buffer = &it.buffer;
        let [extent] = &*buffer.shape else {
            return not_supported(format!("buffer `{}`, which is not flat", buffer.name));
        };
        let ty = types::scalar(buffer.dtype);
        match (buffer.scope, extent.as_int()) {
            (Scope::Local, Some(n)) => {
                let name = self.define_buffer(buffer);
                let aligned = match self.unit.dialect {
                    Dialect::C => " __attribute__((aligned(64)))",
                    Dialect::Cuda => "",
                };
                // Of so many bytes, a part may be copied at once.
                let before = match self.unit.dialect {
                    Dialect::Cuda if n > 1 => "__align__(16) ",
                    Dialect::C | Dialect::Cuda => "",
                };
                self.line(&format!("{before}{ty} {name}[{}]{aligned};", n.max(1)));
            }
            (Scope::Global | Scope::Local, _) if self.unit.dialect == Dialect::Cuda => {
                return not_supported(format!("buffer `{}`, which a thread allocates", buffer.name));
            }
            (Scope::Global | Scope::Local, _) => {
                let bytes = self.expr(extent)?;
                let bytes = format!("{bytes} * {}", buffer.dtype.bytes());
                let name = self.define_buffer(buffer);
                self.line(&format!("{ty} *restrict {name} = tvm_alloc(ctx, {bytes});"));
                let status = Status::OutOfMemory as i32;
                self.line(&format!("if (!{name}) return tvm_fail(ctx, {status}, -1, -1, {bytes}, 0, 0, 0);"));
                self.line(&format!("{name} = __builtin_assume_aligned({name}, 64);"));
                self.scratch.push(name);
            }
            (Scope::Shared | Scope::SharedDyn | Scope::Warp, _) => {
                return not_supported(format!(
                    "buffer `{}` in {} memory of a GPU",
                    buffer.name,
                    buffer.scope.name()
                ));
            }
        }
        Ok(())
    }

    fn declare(&mut self, it: &DeclBuffer) -> Result<(), CodegenError> {
        let data = self.expr(&it.data)?;
        let ty = types::scalar(it.buffer.dtype);
        let name = self.define_buffer(&it.buffer);
        self.line(&format!("{ty} *{name} = {data};"));
        Ok(())
    }

    fn assert(&mut self, it: &AssertStmt) -> Result<(), CodegenError> {
        let condition = self.expr(&it.condition)?;
        let failed = self.unit.dialect.unlikely(&format!("!{condition}"));
        self.open(&format!("if ({failed}) {{"));
        let expected = self.expr(&it.failure.expected)?;
        let got = self.expr(&it.failure.got)?;
        if self.unit.dialect == Dialect::Cuda {
            let site = self.unit.sites.len() + 1;
            self.unit.sites.push(it.failure.clone());
            self.line(&format!("tvm_fail(tvm_error, {site}, {expected}, {got});"));
            self.line("return;");
            self.close();
            return Ok(());
        }
        let (status, arg, axis) = (it.failure.status, it.failure.arg, it.failure.axis);
        let [what, place] = [&it.failure.what, &it.failure.span.text()].map(|text| text_literal(text));
        self.line(&format!(
            "return tvm_fail(ctx, {status}, {arg}, {axis}, {expected}, {got}, {what}, {place});"
        ));
        self.close();
        Ok(())
    }

    fn store(&mut self, it: &BufferStore) -> Result<(), CodegenError> {
        let [index] = &*it.indices else {
            return not_supported(format!("buffer `{}`, which is not flat", it.buffer.name));
        };
        if self.unit.dialect == Dialect::Cuda
            && (self.store_copy(it, index)? || self.store_atomic(it, index)?)
        {
            return Ok(());
        }
        if !index.dtype().is_scalar() {
            return self.store_vector(it, index);
        }
        let name = self.buffer(&it.buffer)?;
        let at = self.index(index)?;
        let value = self.expr(&it.value)?;
        self.line(&format!("{name}[{at}] = {value};"));
        Ok(())
    }
}

/// The bound `expr` of a loop whose variable is a `dtype`.
fn bound(expr: &PrimExpr, dtype: DataType) -> PrimExpr {
    match expr {
        PrimExpr::Cast(it) if it.value.dtype() == dtype => it.value.clone(),
        _ => expr.clone().cast(dtype),
    }
}

/// A C string literal of `text` up to its first zero byte; a null pointer if that is empty.
pub(super) fn text_literal(text: &str) -> String {
    let text = text.split('\0').next().unwrap_or_default();
    if text.is_empty() {
        return "0".into();
    }
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            // Escape `?`, to avoid trigraphs.
            b'"' | b'\\' | b'?' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            // An octal escape ends after three digits.
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}
