//! Outlining: moves a statement to a function of the variables and buffers that it uses.
//!
//! Buffer parameters are `noalias`, because an argument of a kernel call that is written overlaps no other argument.

use std::mem::offset_of;

use indexmap::IndexMap;
use inkwell::types::BasicTypeEnum;
use inkwell::values::BasicMetadataValueEnum;
use tvm_core::ir::{BufferId, VarId};
use tvm_core::tir::analysis::estimate_cost;
use tvm_core::tir::{Buffer, For, PrimExpr, Stmt, Visitor, walk_expr, walk_stmt};
use tvm_runtime::abi::CallContext;

use super::LlvmError;
use super::function::{Function, Value};
use super::memory::CallResult;

/// Variables and buffers that a statement uses and that the enclosing function has defined, in order of first use.
struct Captures<'a, 'ctx, 'm> {
    outer: &'a Function<'ctx, 'm>,
    vars: IndexMap<VarId, Value<'ctx>>,
    buffers: IndexMap<BufferId, Value<'ctx>>,
}

impl Captures<'_, '_, '_> {
    fn buffer(&mut self, buffer: &Buffer) {
        if let Some(pointer) = self.outer.buffers.get(&buffer.id) {
            self.buffers.insert(buffer.id, (*pointer).into());
        }
    }
}

impl Visitor for Captures<'_, '_, '_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::Var(var) => {
                if let Some(value) = self.outer.vars.get(&var.id()) {
                    self.vars.insert(var.id(), *value);
                }
            }
            PrimExpr::BufferLoad(load) => self.buffer(&load.buffer),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::BufferStore(store) => self.buffer(&store.buffer),
            Stmt::AllocBuffer(alloc) => alloc.buffer.shape.iter().for_each(|extent| self.visit_expr(extent)),
            _ => {}
        }
        walk_stmt(self, stmt);
    }
}

impl<'ctx> Function<'ctx, '_> {
    fn captures(&self, stmt: &Stmt) -> (Vec<VarId>, Vec<BufferId>, Vec<Value<'ctx>>) {
        let mut captures = Captures { outer: self, vars: IndexMap::new(), buffers: IndexMap::new() };
        captures.visit_stmt(stmt);
        let values = captures.vars.values().chain(captures.buffers.values()).copied().collect();
        (captures.vars.into_keys().collect(), captures.buffers.into_keys().collect(), values)
    }

    /// Generates an internal function `(ctx, extra…, captured…) -> status`; `generate` fills in its body.
    fn outline(
        &self,
        suffix: &str,
        (vars, buffers, values): &(Vec<VarId>, Vec<BufferId>, Vec<Value<'ctx>>),
        extra: &[BasicTypeEnum<'ctx>],
        generate: impl FnOnce(&mut Self) -> Result<(), LlvmError>,
    ) -> Result<inkwell::values::FunctionValue<'ctx>, LlvmError> {
        let mut params: Vec<BasicTypeEnum<'ctx>> = vec![self.ptr().into()];
        params.extend(extra);
        let first = params.len();
        params.extend(values.iter().map(|value| value.get_type()));
        let noalias: Vec<u32> = (0..buffers.len()).map(|i| (first + vars.len() + i) as u32).collect();
        let function = self.internal(suffix, &params, &noalias);
        let param = |i: usize| {
            function
                .get_nth_param(i as u32)
                .ok_or_else(|| LlvmError::Invalid("an outlined function lost a parameter".into()))
        };
        let mut inner = Function::new(self.unit.clone(), function, param(0)?.into_pointer_value());
        inner.in_parallel = self.in_parallel;
        inner.streamed = self.streamed;
        for (i, var) in vars.iter().enumerate() {
            inner.vars.insert(*var, param(first + i)?);
        }
        for (i, buffer) in buffers.iter().enumerate() {
            inner.buffers.insert(*buffer, param(first + vars.len() + i)?.into_pointer_value());
        }
        generate(&mut inner)?;
        inner.builder.build_return(Some(&self.context().i32_type().const_zero()))?;
        Ok(function)
    }

    /// Generates `stmt` as a function of its own and calls it.
    pub(super) fn call_outlined(&mut self, suffix: &str, stmt: &Stmt) -> Result<(), LlvmError> {
        let captures = self.captures(stmt);
        let function = self.outline(suffix, &captures, &[], |inner| inner.stmt(stmt))?;
        let mut args: Vec<BasicMetadataValueEnum<'ctx>> = vec![self.ctx.into()];
        args.extend(captures.2.iter().map(|&value| BasicMetadataValueEnum::from(value)));
        let call = self.builder.build_call(function, &args, "status")?;
        let status = call.try_as_basic_value().left_or_invalid()?.into_int_value();
        self.return_if_failed(status)
    }

    /// Runs the iterations of `it` through `ctx->parallel_for`.
    pub(super) fn parallel_loop(&mut self, it: &For) -> Result<(), LlvmError> {
        let min = self.expr(&it.min)?;
        let extent = self.expr(&it.extent)?;
        let mut captures = self.captures(&it.body);
        // The first value of the loop is passed together with the captured variables.
        let outer_min = tvm_core::ir::Var::index("min");
        captures.0.insert(0, outer_min.id());
        captures.2.insert(0, min);
        let i64_type: BasicTypeEnum<'ctx> = self.i64().into();
        let body = self.outline("parallel", &captures, &[i64_type, i64_type], |inner| {
            inner.in_parallel = true;
            let bound =
                |i| inner.function.get_nth_param(i).ok_or_else(|| LlvmError::Invalid("no bounds".into()));
            let min = inner.var(&outer_min)?.into_int_value();
            let begin = inner.builder.build_int_add(min, bound(1)?.into_int_value(), "begin")?;
            let end = inner.builder.build_int_add(min, bound(2)?.into_int_value(), "end")?;
            inner.range_loop(it, begin, end)
        })?;
        let entry = self.unpacking(body, &captures.2)?;
        let env = self.environment(&captures.2)?;
        let parallel_for = offset_of!(CallContext, parallel_for);
        let callee =
            self.field(self.ctx, parallel_for, self.ptr().into(), "parallel_for")?.into_pointer_value();
        let ptr = self.ptr();
        let params = [ptr.into(), ptr.into(), i64_type.into(), i64_type.into(), ptr.into()];
        let ty = self.context().i32_type().fn_type(&params, false);
        let cost = self.i64().const_int(estimate_cost(&it.body), false);
        let entry = entry.as_global_value().as_pointer_value();
        let args = [self.ctx.into(), entry.into(), extent.into(), cost.into(), env.into()];
        let call = self.builder.build_indirect_call(ty, callee, &args, "status")?;
        let status = call.try_as_basic_value().left_or_invalid()?.into_int_value();
        self.return_if_failed(status)
    }

    /// Generates a `ParallelBody` that reads the captured values from its environment and calls `body`.
    fn unpacking(
        &self,
        body: inkwell::values::FunctionValue<'ctx>,
        values: &[Value<'ctx>],
    ) -> Result<inkwell::values::FunctionValue<'ctx>, LlvmError> {
        let (ptr, i64_type): (BasicTypeEnum<'ctx>, BasicTypeEnum<'ctx>) =
            (self.ptr().into(), self.i64().into());
        let function = self.internal("parallel.entry", &[ptr, i64_type, i64_type, ptr], &[]);
        let params: Vec<Value<'ctx>> = function.get_params();
        let [ctx, begin, end, env] = params[..] else {
            return Err(LlvmError::Invalid("a body has four parameters".into()));
        };
        let inner = Function::new(self.unit.clone(), function, ctx.into_pointer_value());
        let mut args: Vec<BasicMetadataValueEnum<'ctx>> = vec![ctx.into(), begin.into(), end.into()];
        for (i, value) in values.iter().enumerate() {
            args.push(inner.field(env.into_pointer_value(), i * SLOT, value.get_type(), "")?.into());
        }
        let call = inner.builder.build_call(body, &args, "status")?;
        let status = call.try_as_basic_value().left_or_invalid()?;
        inner.builder.build_return(Some(&status))?;
        Ok(function)
    }

    fn environment(&self, values: &[Value<'ctx>]) -> Result<inkwell::values::PointerValue<'ctx>, LlvmError> {
        let env = self.stack(self.context().i8_type().into(), (values.len() * SLOT) as i64, "env")?;
        for (i, value) in values.iter().enumerate() {
            self.set_field(env, i * SLOT, *value)?;
        }
        Ok(env)
    }
}

/// Bytes for one captured value: wide and aligned enough for the widest vector register.
const SLOT: usize = 64;
