//! Statements in LLVM IR.

use std::mem::offset_of;

use inkwell::IntPredicate;
use inkwell::llvm_sys::core::{LLVMReplaceMDNodeOperandWith, LLVMValueAsMetadata};
use inkwell::values::{AsValueRef, BasicMetadataValueEnum, InstructionValue, IntValue};
use tvm_core::support::with_stack;
use tvm_core::tir::transform::{REMAINDER, STREAMED, pragma_unroll};
use tvm_core::tir::{Failure, For, ForKind, Stmt};
use tvm_runtime::abi::{CallContext, CallError};

use super::LlvmError;
use super::error::unsupported;
use super::function::{Function, Value};

/// Iterations above which a loop is long. LLVM leaves such a loop a loop, but does not count its iterations when it
/// decides whether to replace a loop around it by copies of the body. These copies take long to compile and gain nothing,
/// so a loop around a long one is marked as one to keep.
const LONG_LOOP: i64 = 16;

impl<'ctx> Function<'ctx, '_> {
    /// Generates the body of a kernel. First the statements that bind the arguments; the rest is outlined, so that LLVM
    /// knows that the buffers do not overlap.
    pub(super) fn body(&mut self, body: &Stmt) -> Result<(), LlvmError> {
        let Stmt::SeqStmt(stmts) = body else { return self.stmt(body) };
        let binds = |stmt: &Stmt| matches!(stmt, Stmt::Bind(_) | Stmt::DeclBuffer(_) | Stmt::AssertStmt(_));
        let prologue = stmts.iter().take_while(|stmt| binds(stmt)).count();
        for stmt in &stmts[..prologue] {
            self.stmt(stmt)?;
        }
        match &stmts[prologue..] {
            [] => Ok(()),
            rest => self.call_outlined("body", &Stmt::seq(rest.iter().cloned())),
        }
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<(), LlvmError> {
        self.unit.position.enter(stmt);
        with_stack(|| match stmt {
            Stmt::BufferStore(it) => match &it.predicate {
                Some(predicate) => self.masked_store(it, predicate),
                None => self.store(&it.buffer, &it.indices, &it.value),
            },
            Stmt::For(it) => match it.kind {
                ForKind::Serial | ForKind::Unrolled => self.serial_loop(it),
                ForKind::Parallel if self.in_parallel => self.serial_loop(it),
                ForKind::Parallel => self.parallel_loop(it),
                ForKind::Vectorized | ForKind::ThreadBinding(_) => unsupported(format!(
                    "loop `{}` of kind {:?} in code for a CPU",
                    it.loop_var.name(),
                    it.kind
                )),
            },
            Stmt::SeqStmt(stmts) => {
                let keep = self.scratch.len();
                for stmt in stmts.iter() {
                    self.stmt(stmt)?;
                }
                self.free_scratch(keep)?;
                self.scratch.truncate(keep);
                Ok(())
            }
            Stmt::IfThenElse(it) => {
                let condition = self.expr(&it.condition)?.into_int_value();
                let (then_block, else_block, end) =
                    (self.block("then"), self.block("else"), self.block("endif"));
                self.builder.build_conditional_branch(condition, then_block, else_block)?;
                for (block, arm) in [(then_block, Some(&it.then_case)), (else_block, it.else_case.as_ref())] {
                    self.builder.position_at_end(block);
                    if let Some(arm) = arm {
                        self.stmt(arm)?;
                    }
                    self.builder.build_unconditional_branch(end)?;
                }
                self.builder.position_at_end(end);
                Ok(())
            }
            Stmt::While(it) => {
                let (head, body, end) = (self.block("while"), self.block("do"), self.block("done"));
                self.builder.build_unconditional_branch(head)?;
                self.builder.position_at_end(head);
                let condition = self.expr(&it.condition)?.into_int_value();
                self.builder.build_conditional_branch(condition, body, end)?;
                self.builder.position_at_end(body);
                self.stmt(&it.body)?;
                self.builder.build_unconditional_branch(head)?;
                self.builder.position_at_end(end);
                Ok(())
            }
            Stmt::Bind(it) => {
                let value = self.expr(&it.value)?;
                self.vars.insert(it.var.id(), value);
                Ok(())
            }
            Stmt::AllocBuffer(it) => self.alloc(&it.buffer),
            Stmt::DeclBuffer(it) => {
                let data = self.expr(&it.data)?.into_pointer_value();
                self.buffers.insert(it.buffer.id, data);
                Ok(())
            }
            Stmt::Evaluate(it) => self.expr(&it.value).map(|_| ()),
            Stmt::AssertStmt(it) => {
                let condition = self.expr(&it.condition)?.into_int_value();
                let failed = self.builder.build_not(condition, "")?;
                let (expected, got) = (self.expr(&it.failure.expected)?, self.expr(&it.failure.got)?);
                self.fail_if(failed, &it.failure, [expected, got])
            }
            Stmt::BlockRealize(it) => unsupported(format!("block `{}` after lowering", it.block.name)),
        })
    }

    /// Generates code that fills `ctx->error` and returns `status` if `failed` holds.
    pub(super) fn fail_if(
        &mut self,
        failed: IntValue<'ctx>,
        failure: &Failure,
        [expected, got]: [Value<'ctx>; 2],
    ) -> Result<(), LlvmError> {
        let (fail, go_on) = (self.block("fail"), self.block("ok"));
        self.builder.build_conditional_branch(failed, fail, go_on)?;
        self.builder.position_at_end(fail);
        let error = offset_of!(CallContext, error);
        let i32_type = self.context().i32_type();
        let int = |value: i32| i32_type.const_int(value as u64, true);
        self.set_field(self.ctx, error + offset_of!(CallError, status), int(failure.status))?;
        self.set_field(self.ctx, error + offset_of!(CallError, arg), int(failure.arg))?;
        self.set_field(self.ctx, error + offset_of!(CallError, axis), int(failure.axis))?;
        self.set_field(self.ctx, error + offset_of!(CallError, expected), expected)?;
        self.set_field(self.ctx, error + offset_of!(CallError, got), got)?;
        let place = failure.span.text();
        for (offset, text) in
            [(offset_of!(CallError, what), &failure.what), (offset_of!(CallError, place), &place)]
        {
            let text = text.split('\0').next().unwrap_or_default();
            if !text.is_empty() {
                let text = self.builder.build_global_string_ptr(text, "text")?;
                self.set_field(self.ctx, error + offset, text.as_pointer_value())?;
            }
        }
        self.free_scratch(0)?;
        self.builder.build_return(Some(&int(failure.status)))?;
        self.builder.position_at_end(go_on);
        Ok(())
    }

    fn serial_loop(&mut self, it: &For) -> Result<(), LlvmError> {
        let min = self.expr(&it.min)?.into_int_value();
        let extent = self.expr(&it.extent)?.into_int_value();
        let end = self.builder.build_int_add(min, extent, "end")?;
        self.range_loop(it, min, end)
    }

    /// Generates a loop that runs the body of `it` for the values `min..end`.
    pub(super) fn range_loop(
        &mut self,
        it: &For,
        min: IntValue<'ctx>,
        end: IntValue<'ctx>,
    ) -> Result<(), LlvmError> {
        let entry = self.current()?;
        let (body, done) = (self.block("for"), self.block("endfor"));
        let runs = self.builder.build_int_compare(IntPredicate::SLT, min, end, "")?;
        self.builder.build_conditional_branch(runs, body, done)?;
        self.builder.position_at_end(body);
        let i = self.builder.build_phi(min.get_type(), it.loop_var.name())?;
        self.vars.insert(it.loop_var.id(), i.as_basic_value());
        let (long_loops, streamed) = (self.long_loops, self.streamed);
        self.streamed |= it.annotations.get(STREAMED).is_some() && self.can_stream();
        self.stmt(&it.body)?;
        let step = min.get_type().const_int(1, false);
        let next = self.builder.build_int_nsw_add(i.as_basic_value().into_int_value(), step, "next")?;
        i.add_incoming(&[(&min, entry), (&next, self.current()?)]);
        let again = self.builder.build_int_compare(IntPredicate::SLT, next, end, "")?;
        let latch = self.builder.build_conditional_branch(again, body, done)?;
        let remainder = it.annotations.get(REMAINDER).is_some();
        if let Some(copies) = pragma_unroll(it) {
            match copies {
                1 => self.set_loop_hints(latch, &[("llvm.loop.unroll.disable", None)])?,
                _ => self.set_loop_hints(latch, &[("llvm.loop.unroll.count", Some(copies))])?,
            }
        } else if remainder {
            let hints = ["llvm.loop.unroll.disable", "llvm.loop.disable_nonforced"].map(|it| (it, None));
            self.set_loop_hints(latch, &hints)?;
        } else if self.long_loops > long_loops {
            self.set_loop_hints(latch, &[("llvm.loop.unroll.disable", None)])?;
        }
        let is_long = it.extent.as_int().is_none_or(|extent| extent > LONG_LOOP);
        self.long_loops += usize::from(is_long);
        self.builder.position_at_end(done);
        // The outermost streamed loop of a thread waits for its stores.
        if self.streamed && !streamed {
            self.stream_barrier()?;
        }
        self.streamed = streamed;
        Ok(())
    }

    /// Marks the loop that ends with the branch `latch` with hints of the LLVM language reference, and their values.
    fn set_loop_hints(
        &self,
        latch: InstructionValue<'ctx>,
        hints: &[(&str, Option<i64>)],
    ) -> Result<(), LlvmError> {
        let context = self.context();
        let hint = |&(name, value): &(&str, Option<i64>)| {
            let value = value.map(|it| context.i32_type().const_int(it as u64, false).into());
            let parts: Vec<BasicMetadataValueEnum<'_>> =
                [context.metadata_string(name).into()].into_iter().chain(value).collect();
            context.metadata_node(&parts)
        };
        let mut operands: Vec<BasicMetadataValueEnum<'_>> = hints.iter().map(|it| hint(it).into()).collect();
        operands.insert(0, hint(&("", None)).into());
        let id = context.metadata_node(&operands);
        // The first operand of a loop's node is the node itself, which distinguishes it from the nodes of other loops.
        // SAFETY: `id` has operands, and belongs to the context of this function.
        unsafe { LLVMReplaceMDNodeOperandWith(id.as_value_ref(), 0, LLVMValueAsMetadata(id.as_value_ref())) };
        latch
            .set_metadata(id, context.get_kind_id("llvm.loop"))
            .map_err(|err| LlvmError::Invalid(err.to_string()))
    }
}
