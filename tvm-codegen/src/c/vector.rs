//! Vector expressions, based on GCC's vector extensions.
//!
//! A comparison yields a mask: a vector of integers 0 or -1, with lanes as wide as those of the operands. Bool vectors
//! stay masks of any convenient width, and become bytes in variables and memory. Operations without a vector form run
//! lane by lane in a helper function, which compilers vectorise.

use std::fmt::Write as _;

use tvm_core::tir::{Binary, BinaryOp, BufferLoad, BufferStore, Cast, PrimExpr, Ramp, Scope, Shuffle};
use tvm_runtime::DataType;

use super::dialect::Dialect;
use super::expr::{cast_scalar, scalar_binary};
use super::function::Function;
use super::{not_supported, types};
use crate::CodegenError;

fn list(lanes: u16, item: impl Fn(u16) -> String) -> String {
    (0..lanes).map(item).collect::<Vec<_>>().join(", ")
}

/// The C name of a vector type (of a carrier type).
fn name(dtype: DataType) -> String {
    format!("tvm_{dtype}")
}

/// Definitions of a vector type: its form in registers, its form in memory, and a splat function.
pub(super) fn definition(dtype: DataType) -> String {
    let (scalar, name) = (types::scalar(dtype), name(dtype));
    let (size, align) = (dtype.bytes(), dtype.scalar().bytes());
    let xs = list(dtype.lanes(), |_| "x".into());
    format!(
        "typedef {scalar} {name} __attribute__((vector_size({size})));\n\
         typedef {scalar} {name}_u __attribute__((vector_size({size}), aligned({align}), may_alias));\n\
         TVM_INLINE {name} tvm_splat_{dtype}({scalar} x) {{ return ({name}){{{xs}}}; }}\n"
    )
}

impl Function<'_> {
    /// The C type of a value of `dtype`.
    pub(super) fn ty(&mut self, dtype: DataType) -> String {
        if dtype.is_scalar() {
            return types::scalar(dtype).to_string();
        }
        let carrier = types::carrier(dtype);
        self.unit.vectors.insert(carrier);
        name(carrier)
    }

    /// Writes `expr`, which has more than one lane.
    pub(super) fn vector(&mut self, expr: &PrimExpr) -> Result<String, CodegenError> {
        let dtype = expr.dtype();
        if self.unit.dialect == Dialect::Cuda {
            return not_supported(format!("a vector of type {dtype}"));
        }
        if !dtype.lanes().is_power_of_two() {
            return not_supported(format!("vectors of {} lanes", dtype.lanes()));
        }
        if dtype.is_bool() {
            return self.mask(expr, 8);
        }
        match expr {
            PrimExpr::Var(it) => self.var(it),
            PrimExpr::Broadcast(it) => {
                let value = self.expr(&it.value)?;
                Ok(self.splat(dtype, &value))
            }
            PrimExpr::Ramp(it) => self.ramp(it),
            PrimExpr::Cast(it) => self.cast_vector(it),
            PrimExpr::Binary(it) => self.binary_vector(it),
            PrimExpr::Select(it) => {
                let (a, b) = (self.expr(&it.true_value)?, self.expr(&it.false_value)?);
                if it.condition.dtype().is_scalar() {
                    let condition = self.expr(&it.condition)?;
                    return Ok(format!("({condition} ? {a} : {b})"));
                }
                let condition = self.mask(&it.condition, types::carrier(dtype).bits())?;
                let select = self.select_helper(dtype);
                Ok(format!("{select}({condition}, {a}, {b})"))
            }
            PrimExpr::BufferLoad(it) => self.load_vector(it),
            PrimExpr::Let(it) => self.let_in(it),
            PrimExpr::Call(it) => self.call_expr(it),
            PrimExpr::Shuffle(it) => self.shuffle(it),
            PrimExpr::Not(_) => not_supported("`!` of a vector that is not of bools"),
            PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) => {
                not_supported("a constant vector")
            }
        }
    }

    pub(super) fn splat(&mut self, dtype: DataType, value: &str) -> String {
        self.ty(dtype);
        format!("tvm_splat_{}({value})", types::carrier(dtype))
    }

    fn ramp(&mut self, it: &Ramp) -> Result<String, CodegenError> {
        let dtype = it.base.dtype().with_lanes(it.lanes);
        let (base, stride) = (self.expr(&it.base)?, self.expr(&it.stride)?);
        let (base, stride) = (self.splat(dtype, &base), self.splat(dtype, &stride));
        let lanes = list(it.lanes, |i| i.to_string());
        Ok(format!("({base} + {stride} * ({}){{{lanes}}})", self.ty(dtype)))
    }

    /// Writes the bool vector `expr` as a mask of lanes of width `bits`.
    pub(super) fn mask(&mut self, expr: &PrimExpr, bits: u8) -> Result<String, CodegenError> {
        let lanes = expr.dtype().lanes();
        let (text, width) = match expr {
            PrimExpr::Binary(it) if it.op.is_logical() => {
                let op = if it.op == BinaryOp::And { '&' } else { '|' };
                return Ok(format!("({} {op} {})", self.mask(&it.a, bits)?, self.mask(&it.b, bits)?));
            }
            PrimExpr::Binary(it) if it.op.is_comparison() => {
                let dtype = it.a.dtype();
                let width = types::carrier(dtype).bits();
                let (mut a, mut b) = (self.expr(&it.a)?, self.expr(&it.b)?);
                if dtype.is_bool() {
                    // In a mask, true is -1 and orders before false.
                    std::mem::swap(&mut a, &mut b);
                }
                let Some(text) = scalar_binary(it.op, dtype, &a, &b) else {
                    return not_supported(format!("{:?} on {dtype}", it.op));
                };
                (text, width)
            }
            PrimExpr::Not(it) => return Ok(format!("(~{})", self.mask(&it.value, bits)?)),
            PrimExpr::Broadcast(it) => {
                let value = self.expr(&it.value)?;
                let dtype = types::mask(DataType::I8.with_lanes(lanes));
                (self.splat(dtype, &format!("(int8_t)-{value}")), 8)
            }
            PrimExpr::Cast(it) => {
                let dtype = types::carrier(it.value.dtype());
                let value = self.expr(&it.value)?;
                let zero = self.splat(dtype, "0");
                (format!("({value} != {zero})"), dtype.bits())
            }
            PrimExpr::BufferLoad(it) => {
                let value = self.load_vector(it)?;
                let zero = self.splat(DataType::I8.with_lanes(lanes), "0");
                (format!("({value} != {zero})"), 8)
            }
            PrimExpr::Select(it) if it.condition.dtype().is_scalar() => {
                let condition = self.expr(&it.condition)?;
                let (a, b) = (self.mask(&it.true_value, bits)?, self.mask(&it.false_value, bits)?);
                return Ok(format!("({condition} ? {a} : {b})"));
            }
            PrimExpr::Select(it) => {
                let condition = self.mask(&it.condition, bits)?;
                let (a, b) = (self.mask(&it.true_value, bits)?, self.mask(&it.false_value, bits)?);
                let dtype = types::mask(DataType::I8.with_lanes(lanes));
                let select = self.select_helper(match bits {
                    8 => dtype,
                    _ => mask_type(bits, lanes),
                });
                return Ok(format!("{select}({condition}, {a}, {b})"));
            }
            PrimExpr::Call(it) => return self.call_mask(it, bits),
            PrimExpr::Var(it) => (self.var(it)?, 8),
            PrimExpr::Let(it) => (self.let_in(it)?, 8),
            PrimExpr::Shuffle(it) => (self.shuffle(it)?, 8),
            PrimExpr::Binary(it) => {
                let (a, b) = (self.mask(&it.a, bits)?, self.mask(&it.b, bits)?);
                let op = match it.op {
                    BinaryOp::BitAnd | BinaryOp::Min | BinaryOp::Mul => '&',
                    BinaryOp::BitOr | BinaryOp::Max | BinaryOp::Add => '|',
                    BinaryOp::BitXor => '^',
                    other => return not_supported(format!("{other:?} on vectors of bools")),
                };
                return Ok(format!("({a} {op} {b})"));
            }
            PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Ramp(_) => {
                return not_supported("this vector of bools");
            }
        };
        Ok(self.widen_mask(text, width, bits, lanes))
    }

    pub(super) fn widen_mask(&mut self, text: String, from: u8, to: u8, lanes: u16) -> String {
        if from == to {
            return text;
        }
        let ty = self.ty(mask_type(to, lanes));
        format!("__builtin_convertvector({text}, {ty})")
    }

    fn cast_vector(&mut self, it: &Cast) -> Result<String, CodegenError> {
        let (from, to) = (it.value.dtype(), it.dtype);
        if from.is_bool() {
            let int = types::mask(to);
            let mask = self.mask(&it.value, to.bits())?;
            let one = self.splat(int, "1");
            let bits = format!("({mask} & {one})");
            if to.is_integer() {
                return Ok(format!("(({}){bits})", self.ty(to)));
            }
            if to.bits() > 16 {
                return Ok(format!("__builtin_convertvector({bits}, {})", self.ty(to)));
            }
            return self.lanewise(
                &format!("cast_{}_{}", types::short(int), types::short(to)),
                to,
                &[(int, &bits)],
                |x| cast_scalar(int.scalar(), to.scalar(), &x[0]),
            );
        }
        let value = self.expr(&it.value)?;
        let plain = |dtype: DataType| types::carrier(dtype) == dtype;
        if plain(from) && plain(to) && !(from.is_float() && to.is_integer()) {
            return Ok(format!("__builtin_convertvector({value}, {})", self.ty(to)));
        }
        let what = format!("cast_{}_{}", types::short(from), types::short(to));
        if let Some(helper) = self.short_float_helper(&what, from, to) {
            return Ok(format!("{helper}({value})"));
        }
        self.lanewise(&what, to, &[(from, &value)], |x| cast_scalar(from.scalar(), to.scalar(), &x[0]))
    }

    /// Returns a helper that converts between `f32` and a short float on whole vectors, if there is one.
    fn short_float_helper(&mut self, what: &str, from: DataType, to: DataType) -> Option<String> {
        let lanes = from.lanes();
        let (wide, narrow, bits) = (
            self.ty(DataType::F32.with_lanes(lanes)),
            self.ty(DataType::U16.with_lanes(lanes)),
            self.ty(DataType::U32.with_lanes(lanes)),
        );
        let helper = format!("tvm_{what}_x{lanes}");
        let define =
            |ret: &str, arg: &str, body: &str| format!("TVM_INLINE {ret} {helper}({arg} x) {{\n{body}}}\n");
        let definition = match (from.scalar(), to.scalar()) {
            (DataType::BF16, DataType::F32) => define(
                &wide,
                &narrow,
                &format!("  return ({wide})(__builtin_convertvector(x, {bits}) << 16);\n"),
            ),
            (DataType::F32, DataType::BF16) => {
                let body = format!(
                    "  {bits} u = ({bits})x, nan = ({bits})(x != x);\n  \
                     u = (((u + 0x7fff + (u >> 16 & 1)) >> 16) & ~nan) | ((u >> 16 | 0x40) & nan);\n  \
                     return __builtin_convertvector(u, {narrow});\n"
                );
                define(&narrow, &wide, &body)
            }
            (DataType::F16, DataType::F32) if lanes >= 8 => {
                define(&wide, &narrow, &f16_pieces(&wide, lanes, true))
            }
            (DataType::F32, DataType::F16) if lanes >= 8 => {
                define(&narrow, &wide, &f16_pieces(&narrow, lanes, false))
            }
            _ => return None,
        };
        self.unit.helpers.entry(helper.clone()).or_insert(definition);
        Some(helper)
    }

    fn binary_vector(&mut self, it: &Binary) -> Result<String, CodegenError> {
        let dtype = it.a.dtype();
        let (a, b) = (self.expr(&it.a)?, self.expr(&it.b)?);
        let infix = |op: &str| Ok(format!("({a} {op} {b})"));
        match it.op {
            BinaryOp::Add => infix("+"),
            BinaryOp::Sub => infix("-"),
            BinaryOp::Mul => infix("*"),
            BinaryOp::Div => infix("/"),
            BinaryOp::Mod if dtype.is_integer() => infix("%"),
            BinaryOp::Mod => {
                let what = format!("mod_{}", types::short(dtype));
                self.lanewise(&what, dtype, &[(dtype, &a), (dtype, &b)], |x| {
                    scalar_binary(it.op, dtype.scalar(), &x[0], &x[1]).unwrap_or_default()
                })
            }
            BinaryOp::BitAnd => infix("&"),
            BinaryOp::BitOr => infix("|"),
            BinaryOp::BitXor => infix("^"),
            BinaryOp::Shl => infix("<<"),
            BinaryOp::Shr => infix(">>"),
            BinaryOp::Min | BinaryOp::Max => {
                let helper = self.minmax_helper(it.op, dtype);
                Ok(format!("{helper}({a}, {b})"))
            }
            BinaryOp::FloorDiv
            | BinaryOp::FloorMod
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge
            | BinaryOp::And
            | BinaryOp::Or => not_supported(format!("{:?} on {dtype}", it.op)),
        }
    }

    /// Returns the helper `(mask, a, b)`, which selects `a` where the mask is set and `b` elsewhere.
    fn select_helper(&mut self, dtype: DataType) -> String {
        let carrier = types::carrier(dtype);
        let (ty, int) = (self.ty(carrier), self.ty(types::mask(carrier)));
        let helper = format!("tvm_select_{carrier}");
        self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
            // With `^`, gcc sees the selection and generates one instruction; with `|`, it does not.
            format!("TVM_INLINE {ty} {helper}({int} m, {ty} a, {ty} b) {{ return ({ty})((m & ({int})a) ^ (~m & ({int})b)); }}\n")
        });
        helper
    }

    pub(super) fn minmax_helper(&mut self, op: BinaryOp, dtype: DataType) -> String {
        let ty = self.ty(dtype);
        let select = self.select_helper(dtype);
        let (what, op) = if op == BinaryOp::Min { ("min", "<") } else { ("max", ">") };
        let helper = format!("tvm_{what}_{dtype}");
        let nan = if dtype.is_float() { " | (b != b)" } else { "" };
        self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
            format!(
                "TVM_INLINE {ty} {helper}({ty} a, {ty} b) {{ return {select}((b {op} a){nan}, b, a); }}\n"
            )
        });
        helper
    }

    /// Returns the helper for `ldexp` of 16 lanes of f32, by the CPU's instruction for it where there is one.
    pub(super) fn ldexp_helper(&mut self, dtype: DataType) -> String {
        let (ty, words) = (self.ty(dtype), self.ty(DataType::I32.with_lanes(dtype.lanes())));
        let helper = format!("tvm_ldexp_{dtype}");
        let lanes = dtype.lanes();
        self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
            format!(
                "TVM_INLINE {ty} {helper}({ty} x, {words} n) {{\n\
                 #if defined(__AVX512F__)\n  \
                 {ty} scale = __builtin_convertvector(n, {ty});\n  \
                 return ({ty})__builtin_ia32_scalefps512_mask(x, scale, x, -1, 4);\n\
                 #else\n  {ty} r;\n  \
                 for (int l = 0; l < {lanes}; ++l) r[l] = __builtin_ldexpf(x[l], n[l]);\n  return r;\n\
                 #endif\n}}\n"
            )
        });
        helper
    }

    /// Returns the helper for `a * b + c` in each lane, fused if the machine has such an instruction or `always`. It uses
    /// the compiler's built-in, because compilers split a loop over the lanes into scalar operations.
    pub(super) fn mul_add_helper(&mut self, dtype: DataType, always: bool) -> String {
        let (ty, lanes) = (self.ty(dtype), dtype.lanes());
        let scalar = types::scalar(dtype);
        let (letter, suffix) = if dtype.scalar() == DataType::F64 { ("d", "") } else { ("s", "f") };
        let helper = format!("tvm_{}_{dtype}", if always { "fma" } else { "fmuladd" });
        let fuses = if always { "1" } else { "TVM_FAST_FMA" };
        let mut body = format!(
            "#if __has_builtin(__builtin_elementwise_fma)\n  \
             return {fuses} ? __builtin_elementwise_fma(a, b, c) : a * b + c;\n",
        );
        if dtype.bytes() == 64 {
            let _ = write!(
                body,
                "#elif defined(__AVX512F__) && !defined(__clang__)\n  \
                 return ({ty})__builtin_ia32_vfmaddp{letter}512_mask(a, b, c, -1, 4);\n"
            );
        }
        let piece = dtype.bytes().min(32);
        if piece >= 16 {
            let (name, n) = (if piece == 32 { "256" } else { "" }, dtype.bytes() / piece);
            let fma = |k| {
                let name = format!("__builtin_ia32_vfmaddp{letter}{name}");
                format!("z.at[{k}] = (piece){name}(x.at[{k}], y.at[{k}], z.at[{k}]);")
            };
            let _ = write!(
                body,
                "#elif defined(__FMA__)\n  typedef {scalar} piece __attribute__((vector_size({piece})));\n  \
                 union {{ {ty} all; piece at[{n}]; }} x = {{a}}, y = {{b}}, z = {{c}};\n  {}\n  \
                 return z.all;\n",
                (0..n).map(fma).collect::<Vec<_>>().join(" ")
            );
        }
        let _ = write!(
            body,
            "#elif {fuses}\n  {ty} r;\n  \
             for (int l = 0; l < {lanes}; ++l) r[l] = __builtin_fma{suffix}(a[l], b[l], c[l]);\n  return r;\n\
             #else\n  return a * b + c;\n#endif\n"
        );
        self.unit
            .helpers
            .entry(helper.clone())
            .or_insert_with(|| format!("TVM_INLINE {ty} {helper}({ty} a, {ty} b, {ty} c) {{\n{body}}}\n"));
        helper
    }

    /// Writes a call of a helper that computes lane by lane, with the arguments `args`. `lane` returns the text for one
    /// lane.
    pub(super) fn lanewise(
        &mut self,
        what: &str,
        ret: DataType,
        args: &[(DataType, &str)],
        lane: impl FnOnce(&[String]) -> String,
    ) -> Result<String, CodegenError> {
        let helper = format!("tvm_{what}_x{}", ret.lanes());
        let (ret_ty, n) = (self.ty(ret), ret.lanes());
        let (mut params, mut lanes, mut copies) = (Vec::new(), Vec::new(), String::new());
        for (i, (dtype, _)) in args.iter().enumerate() {
            params.push(format!("{} a{i}", self.ty(*dtype)));
            lanes.push(format!("x{i}[l]"));
            let scalar = types::scalar(types::carrier(*dtype).scalar());
            let _ = write!(copies, "  {scalar} x{i}[{n}];\n  __builtin_memcpy(x{i}, &a{i}, sizeof x{i});\n");
        }
        let (params, body) = (params.join(", "), lane(&lanes));
        let result = types::scalar(types::carrier(ret).scalar());
        // The helper uses arrays: loops over the lanes of a vector are not vectorised (and fail in gcc 12).
        self.unit.helpers.entry(helper.clone()).or_insert_with(|| {
            format!(
                "TVM_INLINE {ret_ty} {helper}({params}) {{\n{copies}  {result} y[{n}];\n  \
                 for (int l = 0; l < {n}; ++l) y[l] = {body};\n  \
                 {ret_ty} r;\n  __builtin_memcpy(&r, y, sizeof r);\n  return r;\n}}\n"
            )
        });
        let values: Vec<&str> = args.iter().map(|(_, value)| *value).collect();
        Ok(format!("{helper}({})", values.join(", ")))
    }

    /// Reads a vector; bools are read as bytes 0 and 1.
    fn load_vector(&mut self, it: &BufferLoad) -> Result<String, CodegenError> {
        let [index] = &*it.indices else {
            return not_supported(format!("buffer `{}`, which is not flat", it.buffer.name));
        };
        if let Some(predicate) = &it.predicate {
            return self.masked_load(it, index, predicate);
        }
        let base = self.buffer(&it.buffer)?;
        let lanes = index.dtype().lanes();
        let ty = self.ty(it.buffer.dtype.with_lanes(lanes));
        if let PrimExpr::Ramp(ramp) = index {
            let first = self.expr(&ramp.base)?;
            if ramp.stride.is_const(1) {
                return Ok(format!("(({ty})*(const {ty}_u *)({base} + {first}))"));
            }
            let stride = self.expr(&ramp.stride)?;
            let (at, step) = (self.fresh("at"), self.fresh("step"));
            let items = list(lanes, |i| format!("{base}[{at} + {i} * {step}]"));
            return Ok(format!(
                "({{ const int64_t {at} = {first}, {step} = {stride}; ({ty}){{{items}}}; }})"
            ));
        }
        let index = unwidened(index);
        let (index_ty, value) = (self.ty(index.dtype()), self.expr(index)?);
        let at = self.fresh("at");
        let items = list(lanes, |i| format!("{base}[{at}[{i}]]"));
        Ok(format!("({{ const {index_ty} {at} = {value}; ({ty}){{{items}}}; }})"))
    }

    /// Writes `buffer[index] = value` for a vector value.
    pub(super) fn store_vector(&mut self, it: &BufferStore, index: &PrimExpr) -> Result<(), CodegenError> {
        let (buffer, value) = (&it.buffer, &it.value);
        let base = self.buffer(buffer)?;
        let lanes = index.dtype().lanes();
        let dtype = buffer.dtype.with_lanes(lanes);
        let ty = self.ty(dtype);
        let mut text = self.expr(value)?;
        if dtype.is_bool() {
            text = format!("({text} & {})", self.splat(DataType::I8.with_lanes(lanes), "1"));
        }
        if let Some(predicate) = &it.predicate {
            return self.masked_store(it, index, predicate, &text);
        }
        if let PrimExpr::Ramp(ramp) = index
            && ramp.stride.is_const(1)
        {
            let first = self.expr(&ramp.base)?;
            let streamed = self.streamed && buffer.scope == Scope::Global && !dtype.is_bool();
            match streamed.then(|| self.stream_helper(dtype)).flatten() {
                Some(helper) => self.line(&format!("{helper}({base} + {first}, {text});")),
                None => self.line(&format!("*({ty}_u *)({base} + {first}) = {text};")),
            }
            return Ok(());
        }
        let index = unwidened(index);
        let (index_ty, index) = (self.ty(index.dtype()), self.expr(index)?);
        let (at, value) = (self.fresh("at"), self.fresh("value"));
        self.line(&format!("const {index_ty} {at} = {index};"));
        self.line(&format!("const {ty} {value} = {text};"));
        for lane in 0..lanes {
            self.line(&format!("{base}[{at}[{lane}]] = {value}[{lane}];"));
        }
        Ok(())
    }

    /// Writes a selection of lanes from several vectors; a single lane is a scalar.
    pub(super) fn shuffle(&mut self, it: &Shuffle) -> Result<String, CodegenError> {
        if it.of_two() && !it.vectors[0].dtype().is_bool() {
            let dtype = it.vectors[0].dtype();
            let mask = self.ty(mask_type(dtype.bits(), dtype.lanes()));
            let [a, b] = [self.expr(&it.vectors[0])?, self.expr(&it.vectors[1])?];
            let lanes: Vec<String> = it.indices.iter().map(u16::to_string).collect();
            return Ok(format!("TVM_SHUFFLE({mask}, {a}, {b}, {})", lanes.join(", ")));
        }
        let mut lanes = Vec::new();
        let mut out = String::from("({ ");
        for vector in it.vectors.iter() {
            let (ty, value) = (self.ty(vector.dtype()), self.expr(vector)?);
            let name = self.fresh("part");
            let _ = write!(out, "const {ty} {name} = {value}; ");
            match vector.dtype().lanes() {
                1 if vector.dtype().is_bool() => lanes.push(format!("-{name}")),
                1 => lanes.push(name),
                n => lanes.extend((0..n).map(|i| format!("{name}[{i}]"))),
            }
        }
        let Some(first) = it.vectors.first() else { return not_supported("a shuffle of nothing") };
        let dtype = first.dtype().with_lanes(it.indices.len() as u16);
        let picked = it.indices.iter().map(|&i| lanes.get(usize::from(i)).cloned());
        let Some(picked) = picked.collect::<Option<Vec<_>>>() else {
            return not_supported("a shuffle of lanes that do not exist");
        };
        let _ = match (&picked[..], dtype.is_bool()) {
            ([lane], false) => write!(out, "{lane}; }})"),
            ([lane], true) => write!(out, "{lane} != 0; }})"),
            _ => write!(out, "({}){{{}}}; }})", self.ty(dtype), picked.join(", ")),
        };
        Ok(out)
    }
}

/// The index of a gather before it was widened from `i32`: each lane is widened where it is used.
fn unwidened(index: &PrimExpr) -> &PrimExpr {
    match index {
        PrimExpr::Cast(it) if it.value.dtype().scalar() == DataType::I32 => &it.value,
        _ => index,
    }
}

/// C text that converts eight lanes at a time if the CPU supports it, otherwise lane by lane. The pieces are no loop: gcc 12
/// fails on loops in functions that it inlines into the initial value of a variable.
fn f16_pieces(ret: &str, lanes: u16, to_f32: bool) -> String {
    let (from, to) = if to_f32 { ("uint16_t", "float") } else { ("float", "uint16_t") };
    let piece = |l: u16| match to_f32 {
        true => format!("*(tvm_v8sf *)(y + {l}) = __builtin_ia32_vcvtph2ps256(*(tvm_v8hi *)(a + {l}));"),
        false => format!("*(tvm_v8hi *)(y + {l}) = __builtin_ia32_vcvtps2ph256(*(tvm_v8sf *)(a + {l}), 0);"),
    };
    let scalar = if to_f32 { "tvm_cvt_f16_f32" } else { "tvm_cvt_f32_f16" };
    let pieces: Vec<String> = (0..lanes).step_by(8).map(piece).collect();
    let scalars: Vec<String> = (0..lanes).map(|l| format!("y[{l}] = {scalar}(a[{l}]);")).collect();
    format!(
        "  {from} a[{lanes}];\n  {to} y[{lanes}];\n  __builtin_memcpy(a, &x, sizeof a);\n#ifdef __F16C__\n  {}\n#else\n  {}\n\
         #endif\n  {ret} r;\n  __builtin_memcpy(&r, y, sizeof r);\n  return r;\n",
        pieces.join(" "),
        scalars.join(" ")
    )
}

/// The mask type with lanes of width `bits`.
fn mask_type(bits: u8, lanes: u16) -> DataType {
    let scalar = match bits {
        8 => DataType::I8,
        16 => DataType::I16,
        32 => DataType::I32,
        _ => DataType::I64,
    };
    scalar.with_lanes(lanes)
}
