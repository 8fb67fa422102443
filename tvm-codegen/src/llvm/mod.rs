//! LLVM code generation: compiles lowered tensor programs to machine code, in process or as objects.
//!
//! Requires the lowered form of `tvm_core::tir::transform`. TVM counterpart: `CodeGenLLVM`, `CodeGenCPU`.
//!
//! Files: [`machine`](self) describes the target; `function` translates one kernel to an LLVM function; `stmt`, `expr`,
//! `memory`, `masked`, `arith` and `intrinsic` are its parts; `parallel` outlines loop bodies; `jit` loads the result.

mod arith;
mod dot;
mod error;
mod expr;
mod function;
mod intrinsic;
mod jit;
mod machine;
mod masked;
mod memory;
mod parallel;
mod stmt;
mod stream;

use std::rc::Rc;

use inkwell::context::Context;
use inkwell::module::{Linkage, Module};
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine};
use tvm_core::ir::IRModule;
use tvm_core::support::in_parallel;
use tvm_core::target::Target;
use tvm_core::tir::PrimFunc;

use crate::c::load::Compiler;
use crate::position::Position;
use crate::{CodeGenerator, CodegenError, EmitKind, Options, Unit, lowered, parts};

pub use error::LlvmError;
pub use jit::JitLibrary;

/// The code generator for targets of the kind `llvm`.
pub(crate) struct Llvm;

impl CodeGenerator for Llvm {
    #[allow(unsafe_code, reason = "loads the code that was generated here")]
    fn build(
        &self,
        module: &IRModule,
        target: &Target,
        options: Options,
    ) -> Result<tvm_runtime::Module, CodegenError> {
        parts::load(module, &lowered(module, target)?, |part, sigs| {
            // SAFETY: the programs were lowered here, and the signatures are theirs.
            let library = unsafe { jit(part, target, options) }?;
            Ok(library.module(sigs)?)
        })
    }

    fn emit(&self, unit: Unit<'_>, kind: EmitKind) -> Result<Vec<u8>, CodegenError> {
        let code = |unit: Unit<'_>, file| {
            compiled(unit, |module, machine| {
                Ok(machine.write_to_memory_buffer(module, file)?.as_slice().to_vec())
            })
        };
        match kind {
            EmitKind::Cuda | EmitKind::Ptx | EmitKind::Cubin => {
                let what = "output for GPUs, which a target of kind `cuda` has".into();
                Err(CodegenError::NotSupported { target: "LLVM", what })
            }
            EmitKind::C => {
                Err(CodegenError::NotSupported { target: "LLVM", what: "output as C source".into() })
            }
            EmitKind::LlvmIr => compiled(unit, |module, _| Ok(module.print_to_string().to_bytes().to_vec())),
            EmitKind::Asm => code(unit, FileType::Assembly),
            EmitKind::Object => code(unit, FileType::Object),
            EmitKind::SharedLibrary => {
                let object = |part: &&_| code(Unit { kernels: part, ..unit }, FileType::Object);
                let objects = in_parallel(&parts::parts(unit.kernels), object)?;
                Compiler::for_target(unit.target)?.link(&objects)
            }
        }
    }
}

/// What `f` makes of the optimised module of `unit`.
fn compiled<R>(
    unit: Unit<'_>,
    f: impl FnOnce(&Module<'_>, &TargetMachine) -> Result<R, LlvmError>,
) -> Result<R, CodegenError> {
    let context = Context::create();
    let machine = machine::create(unit.target, unit.options)?;
    Ok(f(&build(&context, unit.kernels, &machine, unit.options)?, &machine)?)
}

/// Generates machine code for the kernels `funcs` in this process.
///
/// # Safety
/// [`lowered`] returned `funcs`: the pipeline makes their accesses safe. Their kernels are used with the signatures of the
/// programs that were lowered.
///
/// # Errors
/// When a program is not in the lowered form, or the target is not this machine.
pub unsafe fn jit(
    funcs: &[(String, PrimFunc)],
    target: &Target,
    options: Options,
) -> Result<JitLibrary, CodegenError> {
    JitLibrary::new(|context| {
        let machine = machine::create(target, options)?;
        build(context, funcs, &machine, options)
    })
}

fn build<'ctx>(
    context: &'ctx Context,
    funcs: &[(String, PrimFunc)],
    machine: &TargetMachine,
    options: Options,
) -> Result<Module<'ctx>, CodegenError> {
    let module = context.create_module("tvm");
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    let version = module.add_global(context.i32_type(), None, "tvm_abi_version");
    version.set_initializer(&context.i32_type().const_int(u64::from(tvm_runtime::abi::ABI_VERSION), false));
    version.set_constant(true);
    // The symbol is weak, so that several objects may be linked into one program.
    version.set_linkage(Linkage::WeakODR);
    let instructions = machine::instructions(machine);
    for (symbol, func) in funcs {
        let position = Rc::new(Position::default());
        function::kernel(context, &module, symbol, func, options, position.clone(), instructions)
            .map_err(|err| position.error(func, err.into()))?;
    }
    machine::tag_functions(context, &module, machine);
    module.verify().map_err(LlvmError::from)?;
    let passes = PassBuilderOptions::create();
    passes.set_loop_vectorization(true);
    passes.set_loop_slp_vectorization(true);
    passes.set_loop_interleaving(true);
    passes.set_loop_unrolling(true);
    // Beyond level 2, LLVM copies loops for each outcome of the conditions in them: 28 times for a tile whose rows may be missing.
    let pipeline = format!("default<O{}>", options.opt_level.min(2));
    module.run_passes(&pipeline, machine, passes).map_err(LlvmError::from)?;
    Ok(module)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tvm_core::ir::{Type, Var};
    use tvm_core::tir::{
        AllocBuffer, AssertStmt, BinaryOp, Bind, Buffer, DeclBuffer, Failure, For, ForKind, Intrinsic, Param,
        PrimExpr, Scope, Stmt, binary,
    };
    use tvm_runtime::abi::Status;
    use tvm_runtime::{CompiledFn, DataType, DimSig, In, Kernel, KernelSig, Out, ParamKind, ParamSig};

    use super::*;

    /// Computes `y[i] = sum_j exp2(x[i]) * j` with vectors of eight lanes, in parallel over chunks of eight, in the
    /// lowered form.
    fn lowered() -> PrimFunc {
        let (args, num_args, ctx) = (
            Var::prim("args", DataType::HANDLE),
            Var::prim("num_args", DataType::I32),
            Var::prim("ctx", DataType::HANDLE),
        );
        let n = Var::index("n");
        let (x, y) = (
            Buffer::new("x", [PrimExpr::from(&n)], DataType::F32),
            Buffer::new("y", [PrimExpr::from(&n)], DataType::F32),
        );
        let acc = Buffer::with_scope("acc", [PrimExpr::index(8)], DataType::F32, Scope::Local);
        let tmp = Buffer::with_scope("tmp", [PrimExpr::from(&n)], DataType::F32, Scope::Global);
        let arg = |it: Intrinsic, i: i64, dtype| {
            PrimExpr::call(it, [PrimExpr::from(&args), PrimExpr::int(i, DataType::I32)], dtype)
        };
        let shape = |i: i64| {
            PrimExpr::call(
                Intrinsic::ArgShape,
                [PrimExpr::from(&args), PrimExpr::int(i, DataType::I32), PrimExpr::int(0, DataType::I32)],
                DataType::I64,
            )
        };
        let (i, j) = (Var::index("i"), Var::index("j"));
        let lanes = (PrimExpr::from(&i) * 8).ramp(PrimExpr::index(1), 8);
        let all = PrimExpr::index(0).ramp(PrimExpr::index(1), 8);
        let term = tmp.load([lanes.clone()]) * PrimExpr::from(&j).cast(DataType::F32).broadcast(8);
        let step = Stmt::store(&acc, [all.clone()], acc.load([all.clone()]) + term);
        let body = Stmt::seq([
            AllocBuffer::new(acc.clone()).into(),
            Stmt::store(&acc, [all.clone()], PrimExpr::float(0.0, DataType::F32).broadcast(8)),
            Stmt::store(&tmp, [lanes.clone()], x.load([lanes.clone()]).unary(Intrinsic::Exp2)),
            For::serial(j, 4i64, step).into(),
            Stmt::store(&y, [lanes], acc.load([all])),
        ]);
        let chunks = binary(BinaryOp::Div, PrimExpr::from(&n), 8.into());
        let parallel = For { kind: ForKind::Parallel, ..For::serial(i, chunks, body) };
        let fits = PrimExpr::from(&n).equal(shape(1));
        let failure = Failure::new(Status::Extent as i32, 1, 0, PrimExpr::from(&n), shape(1));
        let body = Stmt::seq([
            Bind { var: n.clone(), value: shape(0) }.into(),
            AssertStmt { condition: fits, failure }.into(),
            DeclBuffer { buffer: x, data: arg(Intrinsic::ArgData, 0, DataType::HANDLE) }.into(),
            DeclBuffer { buffer: y, data: arg(Intrinsic::ArgData, 1, DataType::HANDLE) }.into(),
            AllocBuffer::new(tmp).into(),
            parallel.into(),
        ]);
        let scalar = |var: &Var| Param::Scalar(var.clone());
        assert!(matches!(ctx.ty(), Type::Prim(_)));
        PrimFunc::new("scan", [scalar(&args), scalar(&num_args), scalar(&ctx)], body)
    }

    fn compiled() -> CompiledFn<(In<f32, 1>, Out<f32, 1>)> {
        let library =
            // SAFETY: the program below is written in the lowered form.
            unsafe { jit(&[("scan".into(), lowered())], &Target::llvm(), Options::default()) };
        let library = Arc::new(library.unwrap());
        let param = |name: &str, kind| ParamSig {
            name: name.into(),
            kind,
            dtype: DataType::F32,
            shape: vec![DimSig::Var("n".into())],
        };
        let sig = KernelSig {
            name: "scan".into(),
            params: vec![param("x", ParamKind::In), param("y", ParamKind::Out)],
        };
        let entry = library.get("scan").unwrap();
        assert!(library.get("nothing").is_none());
        // SAFETY: generated for this signature; the kernel keeps the library alive.
        #[allow(unsafe_code, reason = "see SAFETY")]
        let kernel = unsafe { Kernel::native(sig, entry, library) };
        CompiledFn::new(kernel).unwrap()
    }

    #[test]
    fn vectors_scratch_memory_and_parallel_loops() {
        let f = compiled();
        let x: Vec<f32> = (0..80).map(|i| i as f32 / 16.0).collect();
        let mut y = vec![0.0f32; 80];
        f.call(&x[..], &mut y[..]).unwrap();
        for (x, y) in x.iter().zip(&y) {
            assert!((x.exp2() * 6.0 - y).abs() <= 1e-5 * y.abs(), "{x} {y}");
        }
    }

    #[test]
    fn a_failed_assert_names_the_argument() {
        let err = compiled().call(&[0.0f32; 8][..], &mut [0.0f32; 16][..]).unwrap_err().to_string();
        for part in ["scan", "y", "8", "16"] {
            assert!(err.contains(part), "{err}");
        }
    }

    /// LLVM unrolls the long loop several times; it does not copy the result into each iteration of the loop around it.
    #[test]
    fn a_loop_around_a_long_loop_is_not_unrolled() {
        let handle = |name: &str| Var::prim(name, DataType::HANDLE);
        let (args, num_args, ctx) = (handle("args"), Var::prim("num_args", DataType::I32), handle("ctx"));
        let y = Buffer::new("y", [PrimExpr::index(8)], DataType::F32);
        let x = Buffer::new("x", [PrimExpr::index(8000)], DataType::F32);
        let (i, j) = (Var::index("i"), Var::index("j"));
        let (at, element) = (PrimExpr::from(&i), PrimExpr::from(&j) * 8 + PrimExpr::from(&i));
        let sum = Stmt::store(&y, [at.clone()], y.load([at]) + x.load([element]));
        let data = |buffer: Buffer, arg: i64| {
            let arg = [PrimExpr::from(&args), PrimExpr::int(arg, DataType::I32)];
            DeclBuffer { buffer, data: PrimExpr::call(Intrinsic::ArgData, arg, DataType::HANDLE) }.into()
        };
        let loops = For::serial(i, 8i64, For::serial(j, 1000i64, sum).into());
        let body = Stmt::seq([data(x, 0), data(y, 1), loops.into()]);
        let func = PrimFunc::new("sums", [args, num_args, ctx].map(Param::Scalar), body);
        let (funcs, target) = ([("sums".to_string(), func)], &Target::llvm());
        let unit = Unit { kernels: &funcs, target, options: Options::default() };
        let text = String::from_utf8(Llvm.emit(unit, EmitKind::LlvmIr).unwrap()).unwrap();
        let additions = text.matches("fadd").count();
        assert!((1..50).contains(&additions), "{additions} additions\n{text}");
    }

    /// The annotation decides how many terms an iteration adds, also where LLVM would choose another number.
    #[test]
    fn loops_are_unrolled_as_annotated() {
        use tvm_core::ir::Attrs;
        use tvm_core::tir::transform::PRAGMA_UNROLL;

        let additions = |copies: i64| {
            let handle = |name: &str| Var::prim(name, DataType::HANDLE);
            let (args, num_args, ctx) = (handle("args"), Var::prim("num_args", DataType::I32), handle("ctx"));
            let (y, x) = (Buffer::new("y", [PrimExpr::index(1)], DataType::F32), Var::index("x"));
            let x = Buffer::new("x", [PrimExpr::from(&x)], DataType::F32);
            let (i, zero) = (Var::index("i"), [PrimExpr::index(0)]);
            let sum = Stmt::store(&y, zero.clone(), y.load(zero) + x.load([PrimExpr::from(&i)]));
            let data = |buffer: &Buffer, arg: i64| {
                let arg = [PrimExpr::from(&args), PrimExpr::int(arg, DataType::I32)];
                let data = PrimExpr::call(Intrinsic::ArgData, arg, DataType::HANDLE);
                DeclBuffer { buffer: buffer.clone(), data }.into()
            };
            let loops =
                For { annotations: Attrs::new().with(PRAGMA_UNROLL, copies), ..For::serial(i, 1000i64, sum) };
            let body = Stmt::seq([data(&x, 0), data(&y, 1), loops.into()]);
            let func = PrimFunc::new("sum", [args, num_args, ctx].map(Param::Scalar), body);
            let (funcs, target) = ([("sum".to_string(), func)], &Target::llvm());
            let unit = Unit { kernels: &funcs, target, options: Options::default() };
            let text = String::from_utf8(Llvm.emit(unit, EmitKind::LlvmIr).unwrap()).unwrap();
            text.matches("fadd").count()
        };
        assert_eq!([1, 2, 5, 20].map(additions), [1, 2, 5, 20]);
    }

    #[test]
    fn output_kinds() {
        let funcs = [("scan".to_string(), lowered())];
        let (target, options) = (&Target::llvm(), Options::default());
        let unit = Unit { kernels: &funcs, target, options };
        let text = |kind| String::from_utf8(Llvm.emit(unit, kind).unwrap()).unwrap();
        assert!(text(EmitKind::LlvmIr).contains("<8 x float>"));
        assert!(text(EmitKind::Asm).contains("scan:"));
        assert!(Llvm.emit(unit, EmitKind::Object).unwrap().starts_with(b"\x7fELF"));
        let unoptimised = Unit { options: Options { opt_level: 0, ..options }, ..unit };
        let quick = Llvm.emit(unoptimised, EmitKind::Asm).unwrap();
        assert_ne!(String::from_utf8(quick).unwrap(), text(EmitKind::Asm));
        let unknown = Target { triple: Some("nonsense-none-none".into()), ..Target::llvm() };
        let unknown = Unit { target: &unknown, ..unit };
        assert!(matches!(
            Llvm.emit(unknown, EmitKind::LlvmIr),
            Err(CodegenError::Llvm(LlvmError::Target { .. }))
        ));
    }
}
