//! Checks that programs may be lowered: they are well-formed, contain no construct of the lowered form, and call no C
//! function without permission.
//!
//! TVM counterpart: none.
//! Requires: nothing; programs may come from anywhere. Ensures: every rule of well-formedness, no handles among the
//! parameters, no `arg_*` intrinsics, no declared buffers, no masked accesses, atomic updates only of the element that their store
//! writes, calls only of C functions that the caller permits (`Trust::extern_function`), each with one type in the whole module. Later passes therefore do not rely on claims that a program makes about itself.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::{DataType, Trust};

use crate::ir::{BaseFunc, IrError, Span, well_formed};
use crate::pass::{Pass, module_pass};
use crate::tir::analysis::is_own_update;
use crate::tir::{
    C_TYPES, Intrinsic, Param, PrimCall, PrimCallee, PrimExpr, PrimFunc, Stmt, Visitor, walk_expr, walk_stmt,
};

/// Rejects programs that are malformed, lowered, or not safe by themselves.
pub fn verify_source() -> Pass {
    module_pass("VerifySource", |module, ctx| {
        well_formed(&module)?;
        let mut signatures = Signatures::default();
        for (_, func) in module.functions() {
            if let BaseFunc::Prim(func) = func {
                check(func, &ctx.config.trust, &mut signatures).map_err(|err| err.at(&func.span))?;
            }
        }
        Ok(module)
    })
}

/// Types of the parameters and of the result of each C function that the module calls.
type Signatures = FxHashMap<Arc<str>, (Vec<DataType>, DataType)>;

fn check(func: &PrimFunc, trust: &Trust, signatures: &mut Signatures) -> Result<(), IrError> {
    let name = &func.name;
    for param in func.params.iter() {
        if let Param::Scalar(var) = param
            && var.dtype().scalar() == DataType::HANDLE
        {
            let message = format!("parameter `{}` of `{name}` is a handle", var.name());
            let help = "compile the program that it was made from, if it is lowered; else pass a tensor";
            return Err(IrError::new(message, &func.span).help(help));
        }
    }
    let mut source = Source { func, trust, signatures, error: None };
    source.visit_stmt(&func.body);
    source.error.map_or(Ok(()), Err)
}

struct Source<'a> {
    func: &'a PrimFunc,
    trust: &'a Trust,
    signatures: &'a mut Signatures,
    error: Option<IrError>,
}

impl Source<'_> {
    /// Why `it` may not call the C function `symbol`: its types are none of C's, or those of another call differ.
    fn signature(&mut self, symbol: &Arc<str>, it: &PrimCall) -> Option<(String, &'static str)> {
        let types = |it: &PrimCall| (it.args.iter().map(PrimExpr::dtype).collect::<Vec<_>>(), it.dtype);
        let text = |(args, result): &(Vec<DataType>, DataType)| {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            format!("({}) -> {result}", args.join(", "))
        };
        let (name, own) = (&self.func.name, types(it));
        if !own.0.iter().chain([&own.1]).all(|dtype| C_TYPES.contains(dtype)) {
            let message = format!("`{name}` calls the C function `{symbol}` as {}", text(&own));
            return Some((
                message,
                "C functions take and return i32, i64, u32, u64, f32 and f64: convert with `as`",
            ));
        }
        let known = self.signatures.entry(symbol.clone()).or_insert_with(|| own.clone());
        (*known != own).then(|| {
            let message = format!(
                "`{name}` calls the C function `{symbol}` as {}, another call is of {}",
                text(&own),
                text(known)
            );
            (message, "a C function has one type: convert the arguments and the result with `as`")
        })
    }

    /// Analyses of source programs take each access as one of all lanes.
    fn masked(&mut self, buffer: &str, span: &Span) {
        let span: &Span = if span.is_none() { &self.func.span } else { span };
        let message = format!("an access to `{buffer}` has a predicate, which only lowered programs have");
        self.error.get_or_insert_with(|| IrError::new(message, span).help("access it under a condition"));
    }

    fn call(&mut self, it: &PrimCall) {
        let name = &self.func.name;
        let (message, help) = match &it.callee {
            PrimCallee::Intrinsic(
                intrinsic @ (Intrinsic::ArgData
                | Intrinsic::ArgNdim
                | Intrinsic::ArgDType
                | Intrinsic::ArgShape
                | Intrinsic::ArgIsCompact
                | Intrinsic::ArgScalar),
            ) => (
                format!("`{name}` calls `{}`, which only lowered programs do", intrinsic.name()),
                "use the parameters and their extents",
            ),
            PrimCallee::PureExtern(symbol) if !self.trust.allows(symbol) => (
                format!("`{name}` calls the C function `{symbol}`, for which nobody vouches"),
                "name it in `PassConfig::trust` (`Trust::extern_function`), which is unsafe",
            ),
            PrimCallee::PureExtern(symbol) => match self.signature(symbol, it) {
                Some(refused) => refused,
                None => return,
            },
            PrimCallee::Intrinsic(intrinsic) if intrinsic.atomic_op().is_some() => (
                format!("`{name}` calls `{}`, which is no value", intrinsic.name()),
                "make it the whole value of a store to the element that it updates",
            ),
            PrimCallee::Intrinsic(_) => return,
        };
        let span: &Span = if it.span.is_none() { &self.func.span } else { &it.span };
        self.error.get_or_insert_with(|| IrError::new(message, span).help(help));
    }
}

impl Visitor for Source<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::Call(it) => self.call(it),
            PrimExpr::BufferLoad(it) if it.predicate.is_some() => self.masked(&it.buffer.name, &it.span),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::DeclBuffer(it) = stmt {
            let message = format!("`{}` is declared over memory of unknown size", it.buffer.name);
            let error = IrError::new(message, &it.buffer.span).help("match a region of a buffer instead");
            self.error.get_or_insert(error);
        }
        if let Stmt::BufferStore(it) = stmt
            && is_own_update(it)
            && let PrimExpr::Call(update) = &it.value
        {
            return it.indices.iter().chain(update.args.iter()).for_each(|expr| self.visit_expr(expr));
        }
        if let Stmt::BufferStore(it) = stmt
            && it.predicate.is_some()
        {
            self.masked(&it.buffer.name, &it.span);
        }
        walk_stmt(self, stmt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Attrs, IRModule, Var};
    use crate::pass::PassContext;
    use crate::pipeline::lower_tir;
    use crate::tir::interp::{InterpErrorKind, Program, Value};
    use crate::tir::testing::dense;
    use crate::tir::{Block, BlockRealize, Buffer, DeclBuffer, For};

    const F32: DataType = DataType::F32;

    fn lower(func: &PrimFunc) -> Result<PrimFunc, String> {
        let module =
            lower_tir().apply(IRModule::from_prim_func(func.clone())).map_err(|err| err.to_string())?;
        Ok((**module.prim_func(module.functions().next().unwrap().0).unwrap()).clone())
    }

    fn program(params: Vec<Param>, body: Stmt) -> PrimFunc {
        PrimFunc::new("f", params, BlockRealize::opaque(Block::root(vec![], body)))
    }

    /// `for i in 0..8 { y[i] = 1 }` with `y: [n]`.
    fn too_far() -> PrimFunc {
        let y = Buffer::new("y", [PrimExpr::from(Var::index("n"))], F32);
        let i = Var::index("i");
        let store = Stmt::store(&y, [PrimExpr::from(&i)], PrimExpr::float(1.0, F32));
        program(vec![Param::Out(y)], For::serial(i, 8, store).into())
    }

    #[test]
    fn no_attribute_switches_a_check_off() {
        let run = |func: &PrimFunc| {
            let mut args = [Value::Tensor(tvm_runtime::Tensor::from_slice(&[0f32; 4], &[4]).unwrap())];
            Program::compile(func).unwrap().run(&mut args)
        };
        let names = ["tir.packed_api", "packed_api", "lowered", "tir.noalias", "noalias", "tir.is_host_func"];
        let attrs = names.iter().fold(Attrs::new(), |attrs, name| attrs.with(name, true));
        let attrs = attrs.with("calling_conv", 1i64);
        for attrs in [Attrs::new(), attrs] {
            let func = PrimFunc { attrs, ..too_far() };
            let text = crate::ir::json::to_json(&IRModule::from_prim_func(func)).unwrap();
            let module = crate::ir::json::from_json(&text).unwrap();
            let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
            let err = run(&lower(func).unwrap()).unwrap_err();
            assert!(matches!(err.kind, InterpErrorKind::Assert { .. }), "{err}");
        }
    }

    #[test]
    fn lowered_programs_are_not_lowered_again() {
        let lowered = lower(&dense(PrimExpr::index(4), PrimExpr::index(4), PrimExpr::index(4))).unwrap();
        let err = lower(&lowered).unwrap_err();
        assert!(err.contains("parameter `args` of `dense` is a handle"), "{err}");
        let y = Buffer::new("y", [PrimExpr::index(4)], F32);
        let z = Buffer::new("z", [PrimExpr::index(1 << 30)], F32);
        let data = PrimExpr::call(Intrinsic::AddressOf, [y.load([PrimExpr::index(0)])], DataType::HANDLE);
        let declared = Stmt::seq([
            DeclBuffer { buffer: z.clone(), data }.into(),
            Stmt::store(&z, [PrimExpr::index(1 << 20)], PrimExpr::float(1.0, F32)),
        ]);
        let err = lower(&program(vec![Param::Out(y.clone())], declared)).unwrap_err();
        assert!(err.contains("`z` is declared over memory of unknown size"), "{err}");
        let extent = PrimExpr::call(
            Intrinsic::ArgShape,
            [PrimExpr::int(64, DataType::HANDLE), 0.into(), 7.into()],
            DataType::I64,
        );
        let store = Stmt::store(&y, [PrimExpr::index(0)], extent.cast(F32));
        assert!(lower(&program(vec![Param::Out(y)], store)).is_err());
    }

    #[test]
    fn c_functions_are_called_only_where_the_caller_vouches_for_them() {
        let y = Buffer::new("y", [PrimExpr::index(4)], F32);
        let value = PrimExpr::Call(std::sync::Arc::new(PrimCall {
            callee: PrimCallee::PureExtern("system".into()),
            args: [PrimExpr::index(0)].into(),
            dtype: F32,
            span: Span::none(),
        }));
        let store = Stmt::store(&y, [PrimExpr::index(0)], value);
        let err = lower(&program(vec![Param::Out(y)], store)).unwrap_err();
        for part in ["calls the C function `system`, for which nobody vouches", "Trust::extern_function"] {
            assert!(err.contains(part), "{err}");
        }
    }

    #[test]
    fn checks_cannot_be_disabled() {
        for name in
            ["CheckBounds", "VerifySource", "CheckLoopKinds", "LowerTIR", "MakePackedAPI", "ZeroUnwritten"]
        {
            let lowered = PassContext::new().disable(name).scope(|| lower(&too_far()));
            let err = lowered.unwrap_err();
            assert!(err.contains(&format!("pass `{name}` cannot be disabled")), "{err}");
        }
        PassContext::new().disable("Simplify").scope(|| lower(&too_far())).unwrap();
    }

    #[test]
    fn malformed_programs_are_refused_without_instruments() {
        let (x, y) =
            (Buffer::new("x", [PrimExpr::index(4)], F32), Buffer::new("y", [PrimExpr::index(4)], F32));
        let store = Stmt::store(&x, [PrimExpr::index(0)], PrimExpr::float(1.0, F32));
        let func = program(vec![Param::In(x), Param::Out(y)], store);
        let err = PassContext::new().without_instruments().scope(|| lower(&func)).unwrap_err();
        assert!(err.contains("W7"), "{err}");
    }

    /// The offset of a parameter that is also a scalar or an extent would move its accesses.
    #[test]
    fn offsets_of_parameters_are_zero() {
        let at = |var: &Var, scalar: bool| {
            let offset = PrimExpr::from(var);
            let y = Buffer::new("y", [if scalar { PrimExpr::index(4) } else { offset.clone() }], F32);
            let y = y.renew(|node| node.elem_offset = Some(offset));
            let store = Stmt::store(&y, [PrimExpr::index(0)], PrimExpr::float(1.0, F32));
            let scalar = scalar.then(|| Param::Scalar(var.clone()));
            program([Param::Out(y)].into_iter().chain(scalar).collect(), store)
        };
        let n = Var::index("n");
        for (func, scalar) in [(at(&n, true), Some(1)), (at(&n, true), Some(0)), (at(&n, false), None)] {
            let mut args = vec![Value::Tensor(tvm_runtime::Tensor::from_slice(&[0f32; 4], &[4]).unwrap())];
            args.extend(scalar.map(Value::Int));
            let res = Program::compile(&lower(&func).unwrap()).unwrap().run(&mut args);
            assert_eq!(res.is_ok(), scalar == Some(0), "{res:?}");
        }
    }
}
