//! Intrinsics: libm through the compiler's built-ins, access to the arguments of a kernel, extern functions.

use tvm_core::tir::{BinaryOp, Intrinsic, PrimCall, PrimCallee, PrimExpr};
use tvm_runtime::DataType;

use super::dialect::Dialect;
use super::expr::cast_scalar;
use super::function::Function;
use super::{not_supported, types};
use crate::CodegenError;

/// C text of one lane of `intrinsic` applied to `x` of type `dtype`; `None` if it has no such form.
fn lane(dialect: Dialect, intrinsic: Intrinsic, dtype: DataType, x: &[String]) -> Option<String> {
    let args = x.join(", ");
    if dtype.is_float() {
        let math = |name| dialect.math(name, dtype);
        return match intrinsic {
            Intrinsic::FMulAdd => Some(format!("tvm_fmuladd_{}({args})", types::short(dtype))),
            Intrinsic::Dot2 => Some(format!("tvm_dot2_f32({args})")),
            Intrinsic::Rsqrt => Some(format!("(1 / {}({args}))", math("sqrt"))),
            Intrinsic::Sigmoid => Some(format!("(1 / (1 + {}(-{args})))", math("exp"))),
            _ => intrinsic.libm().map(|name| format!("{}({args})", math(name))),
        };
    }
    let short = types::short(dtype);
    Some(match intrinsic {
        Intrinsic::Abs if dtype.is_int() => format!("tvm_abs_{short}({args})"),
        Intrinsic::Abs => args,
        Intrinsic::Floor | Intrinsic::Ceil | Intrinsic::Trunc | Intrinsic::Round => args,
        Intrinsic::PopCount => {
            let unsigned = types::scalar(unsigned(dtype));
            format!("(({}){})", types::scalar(dtype), dialect.ones(&format!("({unsigned}){args}")))
        }
        Intrinsic::Clz => {
            let (unsigned, bits) = (types::scalar(unsigned(dtype)), dtype.bits());
            let ty = types::scalar(dtype);
            let zeros = dialect.leading_zeros(&format!("({unsigned}){args}"));
            format!("(({ty})(({unsigned}){args} == 0 ? {bits} : {zeros} - {}))", 64 - bits)
        }
        Intrinsic::BitNot => format!("(({})~{args})", types::scalar(dtype)),
        Intrinsic::Dot4 => format!("tvm_dot4_{short}({args})"),
        _ => return None,
    })
}

fn unsigned(dtype: DataType) -> DataType {
    match dtype.bits() {
        8 => DataType::U8,
        16 => DataType::U16,
        32 => DataType::U32,
        _ => DataType::U64,
    }
}

impl Function<'_> {
    /// Writes a call whose result is not a vector of bools.
    pub(super) fn call_expr(&mut self, it: &PrimCall) -> Result<String, CodegenError> {
        match &it.callee {
            PrimCallee::Intrinsic(intrinsic) if it.args.len() == intrinsic.arity() => {
                self.intrinsic(*intrinsic, it)
            }
            PrimCallee::Intrinsic(intrinsic) => {
                not_supported(format!("`{}` of {} arguments", intrinsic.name(), it.args.len()))
            }
            PrimCallee::PureExtern(name) => self.extern_call(name, it),
        }
    }

    fn intrinsic(&mut self, intrinsic: Intrinsic, it: &PrimCall) -> Result<String, CodegenError> {
        match intrinsic {
            Intrinsic::IfThenElse => return self.if_then_else(it),
            Intrinsic::AddressOf => return self.address_of(&it.args[0]),
            Intrinsic::Prefetch => return self.prefetch(&it.args[0], 3),
            Intrinsic::PrefetchL2 => return self.prefetch(&it.args[0], 2),
            Intrinsic::ReduceAdd | Intrinsic::ReduceMul | Intrinsic::ReduceMin | Intrinsic::ReduceMax => {
                let (vector, dtype) = (self.expr(&it.args[0])?, it.args[0].dtype());
                let helper = self.reduce_helper(intrinsic, dtype)?;
                return Ok(format!("{helper}({vector})"));
            }
            Intrinsic::ArgData
            | Intrinsic::ArgNdim
            | Intrinsic::ArgDType
            | Intrinsic::ArgShape
            | Intrinsic::ArgIsCompact
            | Intrinsic::ArgScalar => return self.argument(intrinsic, it),
            _ => {}
        }
        let mut args = Vec::with_capacity(it.args.len());
        for arg in it.args.iter() {
            args.push((arg.dtype(), self.expr(arg)?));
        }
        let from = it.args[0].dtype();
        match intrinsic {
            Intrinsic::Likely if from.is_scalar() => {
                return Ok(self.unit.dialect.likely(&args[0].1));
            }
            Intrinsic::Likely | Intrinsic::AsyncCopy => return Ok(args.swap_remove(0).1),
            Intrinsic::Reinterpret if from.bits() == it.dtype.bits() => {
                return self.reinterpret(from, it.dtype, &args[0].1);
            }
            Intrinsic::IsNan if from.is_scalar() => {
                return Ok(self.unit.dialect.is("nan", &args[0].1, from));
            }
            Intrinsic::IsInf if from.is_scalar() => {
                return Ok(self.unit.dialect.is("inf", &args[0].1, from));
            }
            Intrinsic::WarpShuffleXor => {
                return match self.unit.dialect {
                    Dialect::C => not_supported("`warp_shuffle_xor` in code for a CPU".to_string()),
                    Dialect::Cuda => Ok(format!("tvm_shuffle_xor({}, {})", args[0].1, args[1].1)),
                };
            }
            Intrinsic::StorageSync => {
                return Ok(match self.unit.dialect {
                    Dialect::C => "0".into(),
                    Dialect::Cuda if self.async_copies => "tvm_async_barrier()".into(),
                    Dialect::Cuda => "tvm_barrier()".into(),
                });
            }
            _ => {}
        }
        let unsupported = || format!("`{}` of {}", intrinsic.name(), it.dtype);
        if it.dtype.is_scalar() {
            let texts: Vec<String> = args.into_iter().map(|(_, text)| text).collect();
            return lane(self.unit.dialect, intrinsic, it.dtype, &texts)
                .map_or_else(|| not_supported(unsupported()), Ok);
        }
        let (what, scalar) = (format!("{}_{}", intrinsic.name(), types::short(it.dtype)), it.dtype.scalar());
        let dummies = vec![String::new(); args.len()];
        if lane(self.unit.dialect, intrinsic, scalar, &dummies).is_none() {
            return not_supported(unsupported());
        }
        let helper = match intrinsic {
            Intrinsic::FMulAdd | Intrinsic::Fma => {
                Some(self.mul_add_helper(it.dtype, intrinsic == Intrinsic::Fma))
            }
            Intrinsic::Dot4 => Some(self.dot4_helper(it.dtype)),
            Intrinsic::Dot2 => Some(self.dot2_helper(it.dtype)),
            Intrinsic::Ldexp if it.dtype == DataType::F32.with_lanes(16) => Some(self.ldexp_helper(it.dtype)),
            _ => None,
        };
        if let Some(helper) = helper {
            let texts: Vec<String> = args.into_iter().map(|(_, text)| text).collect();
            return Ok(format!("{helper}({})", texts.join(", ")));
        }
        let args: Vec<(DataType, &str)> = args.iter().map(|(dtype, text)| (*dtype, text.as_str())).collect();
        let dialect = self.unit.dialect;
        self.lanewise(&what, it.dtype, &args, |x| lane(dialect, intrinsic, scalar, x).unwrap_or_default())
    }

    fn if_then_else(&mut self, it: &PrimCall) -> Result<String, CodegenError> {
        let [condition, a, b] = &*it.args else {
            return not_supported("`if_then_else` of other than 3 arguments");
        };
        if !condition.dtype().is_scalar() {
            return not_supported("`if_then_else` on a vector of conditions");
        }
        let condition = self.expr(condition)?;
        self.lazy += 1;
        let arms = self.expr(a).and_then(|a| Ok((a, self.expr(b)?)));
        self.lazy -= 1;
        let (a, b) = arms?;
        Ok(format!("({condition} ? {a} : {b})"))
    }

    /// Writes a call whose result is a vector of bools, as a mask of lanes of width `bits`.
    pub(super) fn call_mask(&mut self, it: &PrimCall, bits: u8) -> Result<String, CodegenError> {
        let lanes = it.dtype.lanes();
        match (&it.callee, &*it.args) {
            (PrimCallee::Intrinsic(Intrinsic::Likely), [value]) => self.mask(value, bits),
            (PrimCallee::Intrinsic(Intrinsic::IfThenElse), _) => {
                let text = self.if_then_else(it)?;
                Ok(self.widen_mask(text, 8, bits, lanes))
            }
            (PrimCallee::Intrinsic(Intrinsic::IsNan), [value]) => {
                let nan = tvm_core::tir::binary(BinaryOp::Ne, value.clone(), value.clone());
                self.mask(&nan, bits)
            }
            (PrimCallee::Intrinsic(Intrinsic::IsInf), [value]) => {
                let infinity = PrimExpr::float(f64::INFINITY, value.dtype().scalar());
                let magnitude = value.clone().unary(Intrinsic::Abs);
                self.mask(&magnitude.equal(infinity.broadcast(lanes)), bits)
            }
            (PrimCallee::Intrinsic(other), _) => not_supported(format!("`{}` of {}", other.name(), it.dtype)),
            (PrimCallee::PureExtern(name), _) => not_supported(format!("`{name}` on vectors")),
        }
    }

    fn reinterpret(&mut self, from: DataType, to: DataType, value: &str) -> Result<String, CodegenError> {
        let (a, b) = (types::carrier(from), types::carrier(to));
        if a == b {
            return Ok(value.to_string());
        }
        if from.is_scalar() && (a.is_float() || b.is_float()) {
            return Ok(format!("tvm_bits_{a}_{b}({value})"));
        }
        Ok(format!("(({}){value})", self.ty(to)))
    }

    fn address_of(&mut self, value: &PrimExpr) -> Result<String, CodegenError> {
        match value {
            PrimExpr::BufferLoad(load) if load.indices.len() == 1 => {
                let at = match &load.indices[0] {
                    PrimExpr::Ramp(ramp) => self.expr(&ramp.base)?,
                    index => self.expr(index)?,
                };
                Ok(format!("((void *)({} + {at}))", self.buffer(&load.buffer)?))
            }
            _ => not_supported("the address of something that is not an element of a flat buffer"),
        }
    }

    /// The address is computed as an integer, because it may be outside of the buffer.
    fn prefetch(&mut self, value: &PrimExpr, locality: u8) -> Result<String, CodegenError> {
        if self.unit.dialect == Dialect::Cuda {
            return Ok("0".into());
        }
        match value {
            PrimExpr::BufferLoad(load) if load.indices.len() == 1 && load.indices[0].dtype().is_scalar() => {
                let (base, at) = (self.buffer(&load.buffer)?, self.expr(&load.indices[0])?);
                let bytes = load.buffer.dtype.bytes();
                Ok(format!(
                    "(__builtin_prefetch((const void *)((uintptr_t){base} + ({at}) * {bytes}), 0, {locality}), 0)"
                ))
            }
            _ => not_supported("a prefetch of something that is not an element of a flat buffer"),
        }
    }

    fn argument(&mut self, intrinsic: Intrinsic, it: &PrimCall) -> Result<String, CodegenError> {
        let args = it.args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>, _>>()?;
        let arg = format!("{}[{}]", args[0], args[1]);
        let as_result = |text: String| format!("(({}){text})", types::scalar(it.dtype));
        Ok(match intrinsic {
            Intrinsic::ArgNdim => as_result(format!("{arg}.tensor->ndim")),
            Intrinsic::ArgDType => as_result(format!("tvm_arg_dtype({arg}.tensor)")),
            Intrinsic::ArgShape => as_result(format!("{arg}.tensor->shape[{}]", args[2])),
            Intrinsic::ArgIsCompact => as_result(format!("tvm_arg_is_compact({arg}.tensor)")),
            Intrinsic::ArgScalar if it.dtype.is_float() => {
                cast_scalar(DataType::F64, it.dtype, &format!("{arg}.f"))
            }
            Intrinsic::ArgScalar if it.dtype.is_handle() => format!("{arg}.handle"),
            Intrinsic::ArgScalar => cast_scalar(DataType::I64, it.dtype, &format!("{arg}.i")),
            _ => format!("tvm_arg_data({arg}.tensor)"),
        })
    }

    fn extern_call(&mut self, name: &str, it: &PrimCall) -> Result<String, CodegenError> {
        if self.unit.dialect == Dialect::Cuda {
            return not_supported(format!("a call of the C function `{name}` in a kernel"));
        }
        let is_identifier = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_identifier || !it.dtype.is_scalar() || it.args.iter().any(|arg| !arg.dtype().is_scalar()) {
            return not_supported(format!("a call of `{name}`: it is no C function of scalars"));
        }
        let params: Vec<&str> = it.args.iter().map(|arg| types::scalar(arg.dtype())).collect();
        let params = if params.is_empty() { "void".to_string() } else { params.join(", ") };
        let declaration = format!("extern {} {name}({params});\n", types::scalar(it.dtype));
        self.unit.helpers.entry(format!("extern {name}")).or_insert(declaration);
        let args = it.args.iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>, _>>()?;
        Ok(format!("{name}({})", args.join(", ")))
    }
}
