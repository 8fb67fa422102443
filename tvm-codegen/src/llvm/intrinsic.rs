//! Intrinsics: LLVM's own, libm, and access to the arguments of a kernel.

use std::mem::{offset_of, size_of};

use inkwell::intrinsics::Intrinsic as LlvmIntrinsic;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, CallSiteValue, PointerValue};
use tvm_core::tir::{BinaryOp, Intrinsic, PrimExpr};
use tvm_runtime::DataType;
use tvm_runtime::abi::{DLTensor, KernelArg};

use super::LlvmError;
use super::error::unsupported;
use super::function::{Function, Value};
use super::memory::CallResult;

/// Name of the LLVM intrinsic for a float function that takes the same arguments; `None` if there is none.
fn llvm_name(intrinsic: Intrinsic) -> Option<&'static str> {
    Some(match intrinsic {
        Intrinsic::Exp => "llvm.exp",
        Intrinsic::Exp2 => "llvm.exp2",
        Intrinsic::Log => "llvm.log",
        Intrinsic::Log2 => "llvm.log2",
        Intrinsic::Log10 => "llvm.log10",
        Intrinsic::Sqrt => "llvm.sqrt",
        Intrinsic::Pow => "llvm.pow",
        Intrinsic::Sin => "llvm.sin",
        Intrinsic::Cos => "llvm.cos",
        Intrinsic::Floor => "llvm.floor",
        Intrinsic::Ceil => "llvm.ceil",
        Intrinsic::Trunc => "llvm.trunc",
        Intrinsic::Round => "llvm.roundeven",
        Intrinsic::Fma => "llvm.fma",
        Intrinsic::Copysign => "llvm.copysign",
        Intrinsic::PopCount => "llvm.ctpop",
        _ => return None,
    })
}

impl<'ctx> Function<'ctx, '_> {
    pub(super) fn intrinsic(
        &mut self,
        intrinsic: Intrinsic,
        args: &[PrimExpr],
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        if args.len() != intrinsic.arity() {
            return unsupported(format!("`{}` of {} arguments", intrinsic.name(), args.len()));
        }
        if intrinsic == Intrinsic::IfThenElse {
            return self.if_then_else(&args[0], &args[1], &args[2]);
        }
        if let Intrinsic::Prefetch | Intrinsic::PrefetchL2 = intrinsic {
            return self.prefetch(&args[0], if intrinsic == Intrinsic::Prefetch { 3 } else { 2 });
        }
        let values = args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>, _>>()?;
        if let Some(name) = llvm_name(intrinsic) {
            return self.llvm_intrinsic(name, &values);
        }
        let first = values[0];
        let arg_type = args[0].dtype();
        if let Some(op) = intrinsic.lane_op() {
            return self.reduce(op, first, arg_type);
        }
        match intrinsic {
            // Fused wherever the CPU has fused multiply-adds. The flag `contract` on a product and a sum leaves the choice to
            // LLVM, which takes it for each copy of a loop body: a result would depend on the thread that computes it.
            Intrinsic::FMulAdd => self.llvm_intrinsic("llvm.fmuladd", &values),
            Intrinsic::Rsqrt => {
                let root = self.llvm_intrinsic("llvm.sqrt", &[first])?;
                let one = self.expr(&PrimExpr::float(1.0, dtype.scalar()).broadcast(dtype.lanes()))?;
                self.binary(BinaryOp::Div, one, root, dtype)
            }
            Intrinsic::Sigmoid => {
                let one = self.expr(&PrimExpr::float(1.0, dtype.scalar()).broadcast(dtype.lanes()))?;
                let zero = self.expr(&PrimExpr::float(0.0, dtype.scalar()).broadcast(dtype.lanes()))?;
                // Computed from exp(-|x|): the exponential does not overflow, and small results keep their precision.
                let size = self.llvm_intrinsic("llvm.fabs", &[first])?;
                let size = self.binary(BinaryOp::Sub, zero, size, dtype)?;
                let exp = self.llvm_intrinsic("llvm.exp", &[size])?;
                let sum = self.binary(BinaryOp::Add, one, exp, dtype)?;
                let negative = self.binary(BinaryOp::Lt, first, zero, dtype)?;
                let over = self.select(negative, exp, one)?;
                self.binary(BinaryOp::Div, over, sum, dtype)
            }
            Intrinsic::Abs if dtype.is_float() => self.llvm_intrinsic("llvm.fabs", &[first]),
            Intrinsic::Abs if dtype.is_int() => {
                let wraps = self.context().bool_type().const_zero().into();
                self.llvm_overloaded("llvm.abs", &[first.get_type()], &[first, wraps])
            }
            Intrinsic::Abs | Intrinsic::Likely | Intrinsic::AsyncCopy => Ok(first),
            Intrinsic::Clz => {
                let defined = self.context().bool_type().const_zero().into();
                self.llvm_overloaded("llvm.ctlz", &[first.get_type()], &[first, defined])
            }
            Intrinsic::IsNan => self.binary(BinaryOp::Ne, first, first, arg_type),
            Intrinsic::IsInf => {
                let magnitude = self.llvm_intrinsic("llvm.fabs", &[first])?;
                let infinity = PrimExpr::float(f64::INFINITY, arg_type.scalar()).broadcast(arg_type.lanes());
                let infinity = self.expr(&infinity)?;
                self.binary(BinaryOp::Eq, magnitude, infinity, arg_type)
            }
            Intrinsic::BitNot => {
                let ones = self.splat_int(-1, arg_type)?;
                self.binary(BinaryOp::BitXor, first, ones, arg_type)
            }
            Intrinsic::Dot4 => self.dot4([values[0], values[1], values[2]], dtype),
            Intrinsic::Dot2 => self.dot2([values[0], values[1], values[2]], dtype),
            Intrinsic::Ldexp => self.ldexp(first, values[1], dtype),
            Intrinsic::Reinterpret => Ok(self.builder.build_bit_cast(first, self.ty(dtype)?, "")?),
            Intrinsic::ArgData
            | Intrinsic::ArgNdim
            | Intrinsic::ArgDType
            | Intrinsic::ArgShape
            | Intrinsic::ArgIsCompact
            | Intrinsic::ArgScalar => self.kernel_arg(intrinsic, args, &values, dtype),
            Intrinsic::WarpShuffleXor => unsupported("`warp_shuffle_xor` in code for a CPU"),
            Intrinsic::StorageSync => unsupported("`storage_sync` in code for a CPU"),
            _ => match intrinsic.libm() {
                Some(name) => self.libm(name, &values, dtype),
                None => unsupported(format!("intrinsic `{}`", intrinsic.name())),
            },
        }
    }

    /// `x * 2^n`: an instruction for vectors, else calls of `ldexp` for the lanes.
    fn ldexp(&mut self, x: Value<'ctx>, n: Value<'ctx>, dtype: DataType) -> Result<Value<'ctx>, LlvmError> {
        let lanes = dtype.lanes();
        if dtype.scalar() != DataType::F32 || lanes != 16 || !self.unit.instructions.ldexp {
            return self.libm("ldexp", &[x, n], dtype);
        }
        // All 16 lanes, rounded in the mode of the thread.
        let all = self.context().i16_type().const_all_ones().into();
        let mode = self.context().i32_type().const_int(4, false).into();
        let n = self.cast(n, DataType::I32.with_lanes(lanes), dtype)?;
        self.call_llvm("llvm.x86.avx512.mask.scalef.ps.512", &[], &[x, n, x, all, mode])?
            .try_as_basic_value()
            .left_or_invalid()
    }

    /// The lanes of `vector`, of type `dtype`, combined in halves.
    fn reduce(
        &mut self,
        op: BinaryOp,
        mut vector: Value<'ctx>,
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        let mut half = dtype.lanes() / 2;
        while half > 0 {
            let (lower, upper) = (self.lanes_of(vector, 0..half)?, self.lanes_of(vector, half..2 * half)?);
            vector = self.binary(op, lower, upper, dtype.with_lanes(half))?;
            half /= 2;
        }
        Ok(vector)
    }

    /// Brings an element, which may be outside of its buffer, into all caches.
    fn prefetch(&mut self, element: &PrimExpr, locality: u64) -> Result<Value<'ctx>, LlvmError> {
        let PrimExpr::BufferLoad(load) = element else { return unsupported("a prefetch of no element") };
        let [index] = &*load.indices else {
            return unsupported("a prefetch of an element of no flat buffer");
        };
        let index = index.clone().cast(DataType::I64) * load.buffer.dtype.bytes() as i64;
        let offset = self.expr(&index)?.into_int_value();
        let address: Value<'ctx> = self.offset(self.buffer(&load.buffer)?, offset)?.into();
        let flag = |value| self.context().i32_type().const_int(value, false).into();
        let [reads, locality, data] = [0, locality, 1].map(flag);
        self.call_llvm("llvm.prefetch", &[address.get_type()], &[address, reads, locality, data])?;
        Ok(address)
    }

    /// Calls an LLVM intrinsic that is overloaded on the type of its first argument.
    pub(super) fn llvm_intrinsic(&self, name: &str, args: &[Value<'ctx>]) -> Result<Value<'ctx>, LlvmError> {
        let Some(first) = args.first() else { return unsupported(format!("`{name}` without arguments")) };
        let value = self.llvm_overloaded(name, &[first.get_type()], args)?;
        Ok(self.with_fast_math(value))
    }

    /// Calls an LLVM intrinsic that is overloaded on `types`.
    pub(super) fn llvm_overloaded(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'ctx>],
        args: &[Value<'ctx>],
    ) -> Result<Value<'ctx>, LlvmError> {
        self.call_llvm(name, types, args)?.try_as_basic_value().left_or_invalid()
    }

    pub(super) fn call_llvm(
        &self,
        name: &str,
        types: &[BasicTypeEnum<'ctx>],
        args: &[Value<'ctx>],
    ) -> Result<CallSiteValue<'ctx>, LlvmError> {
        let function = LlvmIntrinsic::find(name).and_then(|it| it.get_declaration(self.unit.module, types));
        let Some(function) = function else { return unsupported(format!("LLVM intrinsic `{name}`")) };
        let args: Vec<_> = args.iter().map(|&arg| arg.into()).collect();
        Ok(self.builder.build_call(function, &args, "")?)
    }

    /// Calls a function of libm, lane by lane.
    fn libm(&mut self, name: &str, args: &[Value<'ctx>], dtype: DataType) -> Result<Value<'ctx>, LlvmError> {
        let symbol = match dtype.scalar() {
            DataType::F64 => name.to_string(),
            DataType::F32 => format!("{name}f"),
            _ => {
                return unsupported(format!(
                    "`{name}` on {dtype}: it is legalised to f32 before code generation"
                ));
            }
        };
        let ty = self.ty(dtype.scalar())?;
        let mut lanes = Vec::new();
        for lane in 0..dtype.lanes() {
            let args = args.iter().map(|&arg| self.lane(arg, lane)).collect::<Result<Vec<_>, _>>()?;
            lanes.push(self.extern_call(&symbol, &args, ty)?);
        }
        self.vector(&lanes)
    }

    fn if_then_else(
        &mut self,
        condition: &PrimExpr,
        a: &PrimExpr,
        b: &PrimExpr,
    ) -> Result<Value<'ctx>, LlvmError> {
        let BasicValueEnum::IntValue(condition) = self.expr(condition)? else {
            return unsupported("`if_then_else` on a vector of conditions; use a select");
        };
        let (then_block, else_block, end) =
            (self.block("if.then"), self.block("if.else"), self.block("if.end"));
        self.builder.build_conditional_branch(condition, then_block, else_block)?;
        let mut arms = Vec::new();
        for (block, arm) in [(then_block, a), (else_block, b)] {
            self.builder.position_at_end(block);
            let value = self.expr(arm)?;
            arms.push((value, self.current()?));
            self.builder.build_unconditional_branch(end)?;
        }
        self.builder.position_at_end(end);
        let phi = self.builder.build_phi(arms[0].0.get_type(), "")?;
        for (value, block) in &arms {
            phi.add_incoming(&[(value, *block)]);
        }
        Ok(phi.as_basic_value())
    }

    /// Reads fields of the kernel's arguments, see `tvm_runtime::abi`.
    fn kernel_arg(
        &mut self,
        intrinsic: Intrinsic,
        args: &[PrimExpr],
        values: &[Value<'ctx>],
        dtype: DataType,
    ) -> Result<Value<'ctx>, LlvmError> {
        let Some(index) = args[1].as_int() else {
            return unsupported("an argument number that is not a constant");
        };
        let slot = self
            .offset(values[0].into_pointer_value(), self.const_i64(index * size_of::<KernelArg>() as i64))?;
        if intrinsic == Intrinsic::ArgScalar {
            let stored = if dtype.is_float() { DataType::F64 } else { DataType::I64 };
            let value = self.field(slot, 0, self.ty(stored)?, "scalar")?;
            return self.cast(value, stored, dtype);
        }
        let tensor = self.field(slot, 0, self.ptr().into(), "tensor")?.into_pointer_value();
        let i32_field =
            |this: &Self, offset| this.field(tensor, offset, this.context().i32_type().into(), "");
        match intrinsic {
            Intrinsic::ArgData => {
                let data = self.field(tensor, offset_of!(DLTensor, data), self.ptr().into(), "data")?;
                let offset = self.field(tensor, offset_of!(DLTensor, byte_offset), self.i64().into(), "")?;
                Ok(self.offset(data.into_pointer_value(), offset.into_int_value())?.into())
            }
            Intrinsic::ArgNdim => {
                let ndim = i32_field(self, offset_of!(DLTensor, ndim))?;
                self.cast(ndim, DataType::I32, dtype)
            }
            Intrinsic::ArgDType => {
                let packed = i32_field(self, offset_of!(DLTensor, dtype))?;
                self.cast(packed, DataType::U32, dtype)
            }
            Intrinsic::ArgShape => {
                let shape = self.field(tensor, offset_of!(DLTensor, shape), self.ptr().into(), "shape")?;
                let Some(axis) = args[2].as_int() else {
                    return unsupported("an axis that is not a constant");
                };
                let extent =
                    self.field(shape.into_pointer_value(), axis as usize * 8, self.i64().into(), "extent")?;
                self.cast(extent, DataType::I64, dtype)
            }
            _ => {
                let compact = self.is_compact(tensor)?;
                self.cast(compact, DataType::I32, dtype)
            }
        }
    }

    /// Returns 1 if the strides of the tensor are those of a compact row-major tensor, else 0 (an `i32`).
    fn is_compact(&mut self, tensor: PointerValue<'ctx>) -> Result<Value<'ctx>, LlvmError> {
        const NAME: &str = "tvm.is_compact";
        if self.unit.module.get_function(NAME).is_none() {
            self.define_is_compact(NAME)?;
        }
        self.extern_call(NAME, &[tensor.into()], self.context().i32_type().into())
    }

    fn define_is_compact(&self, name: &str) -> Result<(), LlvmError> {
        use inkwell::IntPredicate::{EQ, SLT};
        let context = self.context();
        let (i32_type, i64_type) = (context.i32_type(), context.i64_type());
        let ty = i32_type.fn_type(&[self.ptr().into()], false);
        let function = self.unit.module.add_function(name, ty, Some(inkwell::module::Linkage::Internal));
        let Some(tensor) = function.get_nth_param(0) else {
            return unsupported("a function lost its parameter");
        };
        let tensor = tensor.into_pointer_value();
        let f = Function::new(self.unit.clone(), function, tensor);
        let b = &f.builder;
        let strides =
            f.field(tensor, offset_of!(DLTensor, strides), f.ptr().into(), "strides")?.into_pointer_value();
        let shape =
            f.field(tensor, offset_of!(DLTensor, shape), f.ptr().into(), "shape")?.into_pointer_value();
        let ndim = f.field(tensor, offset_of!(DLTensor, ndim), i32_type.into(), "ndim")?.into_int_value();
        let last =
            b.build_int_sub(b.build_int_s_extend(ndim, i64_type, "")?, i64_type.const_int(1, false), "last")?;
        let (entry, head, body, bad, good) =
            (f.current()?, f.block("head"), f.block("body"), f.block("bad"), f.block("good"));
        let next_block = f.block("next");
        b.build_conditional_branch(b.build_is_null(strides, "")?, good, head)?;
        b.position_at_end(head);
        let axis = b.build_phi(i64_type, "axis")?;
        let expected = b.build_phi(i64_type, "expected")?;
        let (at, want) = (axis.as_basic_value().into_int_value(), expected.as_basic_value().into_int_value());
        let done = b.build_int_compare(SLT, at, i64_type.const_zero(), "")?;
        b.build_conditional_branch(done, good, body)?;
        b.position_at_end(body);
        let bytes = b.build_int_mul(at, i64_type.const_int(8, false), "")?;
        let extent = b.build_load(i64_type, f.offset(shape, bytes)?, "extent")?.into_int_value();
        let stride = b.build_load(i64_type, f.offset(strides, bytes)?, "stride")?.into_int_value();
        let one = b.build_int_compare(EQ, extent, i64_type.const_int(1, false), "")?;
        let fits = b.build_int_compare(EQ, stride, want, "")?;
        let empty = b.build_int_compare(EQ, extent, i64_type.const_zero(), "")?;
        let fits = b.build_or(b.build_or(one, fits, "")?, empty, "")?;
        b.build_conditional_branch(fits, next_block, bad)?;
        b.position_at_end(next_block);
        let next_axis = b.build_int_sub(at, i64_type.const_int(1, false), "")?;
        let next_expected = b.build_int_mul(want, extent, "")?;
        b.build_unconditional_branch(head)?;
        axis.add_incoming(&[(&last, entry), (&next_axis, next_block)]);
        expected.add_incoming(&[(&i64_type.const_int(1, false), entry), (&next_expected, next_block)]);
        for (block, result) in [(bad, 0), (good, 1)] {
            b.position_at_end(block);
            b.build_return(Some(&i32_type.const_int(result, false)))?;
        }
        Ok(())
    }
}
