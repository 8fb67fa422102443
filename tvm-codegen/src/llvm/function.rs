//! Code generation for one kernel: the entry point of the ABI, and the state while its body is generated.

use std::rc::Rc;

use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum, IntType, PointerType};
use inkwell::values::{BasicValue, BasicValueEnum, FunctionValue, IntValue, PointerValue};
use rustc_hash::FxHashMap;
use tvm_core::ir::{BufferId, Var, VarId};
use tvm_core::tir::{Buffer, Param, PrimFunc};

use super::error::unsupported;
use super::machine::Instructions;
use super::{LlvmError, Options};
use crate::position::Position;

pub(super) type Value<'ctx> = BasicValueEnum<'ctx>;

/// State shared by all functions of a unit.
pub(super) struct Unit<'ctx, 'm> {
    pub(super) context: &'ctx Context,
    pub(super) module: &'m Module<'ctx>,
    pub(super) options: Options,
    pub(super) symbol: String,
    pub(super) position: Rc<Position>,
    pub(super) instructions: Instructions,
}

/// A function that is being generated.
pub(super) struct Function<'ctx, 'm> {
    pub(super) unit: Rc<Unit<'ctx, 'm>>,
    pub(super) builder: Builder<'ctx>,
    pub(super) function: FunctionValue<'ctx>,
    pub(super) vars: FxHashMap<VarId, Value<'ctx>>,
    pub(super) buffers: FxHashMap<BufferId, PointerValue<'ctx>>,
    /// The `CallContext` argument.
    pub(super) ctx: PointerValue<'ctx>,
    /// Scratch memory to free, in order of allocation.
    pub(super) scratch: Vec<PointerValue<'ctx>>,
    /// Set inside a parallel loop: the loops nested in it run serially.
    pub(super) in_parallel: bool,
    /// Set inside a loop with the annotation [`STREAMED`](tvm_core::tir::transform::STREAMED), where the CPU can store past
    /// its caches.
    pub(super) streamed: bool,
    /// Number of long loops that were generated so far.
    pub(super) long_loops: usize,
}

/// Generates the kernel `func` under the symbol `symbol`.
pub(super) fn kernel<'ctx>(
    context: &'ctx Context,
    module: &Module<'ctx>,
    symbol: &str,
    func: &PrimFunc,
    options: Options,
    position: Rc<Position>,
    instructions: Instructions,
) -> Result<(), LlvmError> {
    let [Param::Scalar(args), Param::Scalar(num_args), Param::Scalar(ctx)] = &*func.params else {
        return unsupported(format!(
            "`{symbol}` is not in the lowered form: its parameters are not (args, num_args, ctx)"
        ));
    };
    let ptr: BasicMetadataTypeEnum<'ctx> = context.ptr_type(AddressSpace::default()).into();
    let i32_type = context.i32_type();
    let function = module.add_function(symbol, i32_type.fn_type(&[ptr, i32_type.into(), ptr], false), None);
    let unit = Rc::new(Unit { context, module, options, symbol: symbol.to_string(), position, instructions });
    let param = |i| {
        function.get_nth_param(i).ok_or_else(|| LlvmError::Invalid("a kernel has three parameters".into()))
    };
    let mut f = Function::new(unit, function, param(2)?.into_pointer_value());
    for (var, value) in [(args, param(0)?), (num_args, param(1)?), (ctx, param(2)?)] {
        f.vars.insert(var.id(), value);
    }
    f.body(&func.body)?;
    f.builder.build_return(Some(&i32_type.const_zero()))?;
    Ok(())
}

impl<'ctx, 'm> Function<'ctx, 'm> {
    /// Starts generating `function` at its entry block.
    pub(super) fn new(
        unit: Rc<Unit<'ctx, 'm>>,
        function: FunctionValue<'ctx>,
        ctx: PointerValue<'ctx>,
    ) -> Self {
        let builder = unit.context.create_builder();
        let no_unwind = Attribute::get_named_enum_kind_id("nounwind");
        function.add_attribute(AttributeLoc::Function, unit.context.create_enum_attribute(no_unwind, 0));
        builder.position_at_end(unit.context.append_basic_block(function, "entry"));
        Function {
            unit,
            builder,
            function,
            vars: FxHashMap::default(),
            buffers: FxHashMap::default(),
            ctx,
            scratch: Vec::new(),
            in_parallel: false,
            streamed: false,
            long_loops: 0,
        }
    }

    /// Declares an internal function of this unit that returns a status. `noalias` lists the indices of its pointer
    /// parameters whose memory no other pointer of the function refers to.
    pub(super) fn internal(
        &self,
        suffix: &str,
        params: &[BasicTypeEnum<'ctx>],
        noalias: &[u32],
    ) -> FunctionValue<'ctx> {
        let params: Vec<BasicMetadataTypeEnum<'ctx>> = params.iter().map(|&ty| ty.into()).collect();
        let ty = self.context().i32_type().fn_type(&params, false);
        let name = format!("{}.{suffix}", self.unit.symbol);
        let function = self.unit.module.add_function(&name, ty, Some(Linkage::Internal));
        let kind = Attribute::get_named_enum_kind_id("noalias");
        for &i in noalias {
            function.add_attribute(AttributeLoc::Param(i), self.context().create_enum_attribute(kind, 0));
        }
        function
    }

    pub(super) fn context(&self) -> &'ctx Context {
        self.unit.context
    }

    pub(super) fn i64(&self) -> IntType<'ctx> {
        self.context().i64_type()
    }

    pub(super) fn ptr(&self) -> PointerType<'ctx> {
        self.context().ptr_type(AddressSpace::default())
    }

    pub(super) fn const_i64(&self, value: i64) -> IntValue<'ctx> {
        self.i64().const_int(value as u64, true)
    }

    pub(super) fn block(&self, name: &str) -> BasicBlock<'ctx> {
        self.context().append_basic_block(self.function, name)
    }

    pub(super) fn current(&self) -> Result<BasicBlock<'ctx>, LlvmError> {
        self.builder.get_insert_block().ok_or_else(|| LlvmError::Invalid("no open block".into()))
    }

    pub(super) fn var(&self, var: &Var) -> Result<Value<'ctx>, LlvmError> {
        match self.vars.get(&var.id()) {
            Some(value) => Ok(*value),
            None => unsupported(format!("variable `{}` is not bound in `{}`", var.name(), self.unit.symbol)),
        }
    }

    pub(super) fn buffer(&self, buffer: &Buffer) -> Result<PointerValue<'ctx>, LlvmError> {
        match self.buffers.get(&buffer.id) {
            Some(pointer) => Ok(*pointer),
            None => {
                unsupported(format!("buffer `{}` is not declared in `{}`", buffer.name, self.unit.symbol))
            }
        }
    }

    /// The address `offset` bytes after `base`.
    pub(super) fn offset(
        &self,
        base: PointerValue<'ctx>,
        offset: IntValue<'ctx>,
    ) -> Result<PointerValue<'ctx>, LlvmError> {
        // SAFETY: a plain address computation on bytes; inkwell marks it unsafe because LLVM trusts the indices.
        Ok(unsafe { self.builder.build_gep(self.context().i8_type(), base, &[offset], "")? })
    }

    /// Reads a field of type `ty` at a constant byte offset.
    pub(super) fn field(
        &self,
        base: PointerValue<'ctx>,
        offset: usize,
        ty: BasicTypeEnum<'ctx>,
        name: &str,
    ) -> Result<Value<'ctx>, LlvmError> {
        let address = self.offset(base, self.const_i64(offset as i64))?;
        Ok(self.builder.build_load(ty, address, name)?)
    }

    /// Writes a field at a constant byte offset.
    pub(super) fn set_field(
        &self,
        base: PointerValue<'ctx>,
        offset: usize,
        value: impl BasicValue<'ctx>,
    ) -> Result<(), LlvmError> {
        let address = self.offset(base, self.const_i64(offset as i64))?;
        self.builder.build_store(address, value)?;
        Ok(())
    }

    /// Returns `status` from the function if it is not 0, after freeing scratch memory.
    pub(super) fn return_if_failed(&self, status: IntValue<'ctx>) -> Result<(), LlvmError> {
        let zero = self.context().i32_type().const_zero();
        let failed = self.builder.build_int_compare(inkwell::IntPredicate::NE, status, zero, "failed")?;
        let (fail, go_on) = (self.block("fail"), self.block("ok"));
        self.builder.build_conditional_branch(failed, fail, go_on)?;
        self.builder.position_at_end(fail);
        self.free_scratch(0)?;
        self.builder.build_return(Some(&status))?;
        self.builder.position_at_end(go_on);
        Ok(())
    }
}
