//! Tests of the artifact: round trips, and damage of many kinds.

use std::collections::BTreeMap;

use super::*;
use crate::kernel::{DimSig, Kernel, KernelSig, ParamKind, ParamSig};
use crate::launch::HostInstr as H;
use crate::module::Module;
use crate::tensor::{ALIGNMENT, Tensor};
use crate::value::{Adt, Value};
use crate::vm::Instruction as I;
use crate::vm::*;
use crate::{
    Argument, CodeFormat, HostOp, HostParam, HostProgram, HostQuery, KernelFailure, LaunchArg, Step,
};
use crate::{DataType, Device, DimBound, HostArg, ModuleLoader, PackedFunc, RuntimeError, RuntimeModule};

fn r(reg: u32) -> Reg {
    Reg(reg)
}

fn sig() -> KernelSig {
    let param = |name: &str, kind, shape| ParamSig { name: name.into(), kind, dtype: DataType::F32, shape };
    let n = || vec![DimSig::Var("n".into())];
    let twice = vec![DimSig::Const(3), DimSig::Expr("n * 2".into())];
    let params = vec![
        param("x", ParamKind::In, n()),
        param("w", ParamKind::In, twice),
        param("s", ParamKind::Scalar, vec![]),
        param("y", ParamKind::Out, n()),
    ];
    KernelSig { name: "scale".into(), params }
}

/// `y = x * s`
fn module() -> Module {
    let scale = Kernel::host(sig(), |args| {
        let [HostArg::In(x), _, HostArg::Float(s), HostArg::Out(y)] = args else {
            return Err(RuntimeError::other("kinds"));
        };
        y.as_mut_slice::<f32>()?.iter_mut().zip(x.as_slice::<f32>()?).for_each(|(y, x)| *y = x * *s as f32);
        Ok(())
    });
    Module::new([scale]).unwrap()
}

fn function(name: &str, num_params: usize, num_regs: u32, code: Vec<Instruction>) -> VmFunction {
    let types = [
        ValueType::Tensor { dtype: Some(DataType::F32), shape: Some(vec![DimSig::Var("n".into())]) },
        ValueType::Tuple(vec![ValueType::Int, ValueType::Ref(Box::new(ValueType::Str))]),
        ValueType::Func(
            vec![ValueType::Shape(Some(2)), ValueType::Float],
            Box::new(ValueType::Adt("List".into())),
        ),
        ValueType::Object,
    ];
    let params =
        (0..num_params).map(|i| VmParam { name: format!("p{i}"), ty: types[i % 4].clone() }).collect();
    VmFunction { name: name.into(), params, ret: types[0].clone(), num_regs, public: true, code }
}

/// One of each instruction; not a sensible program.
fn zoo() -> Vec<Instruction> {
    let (dst, src) = (r(1), r(0));
    let (dtype, device) = (DataType::F32, Device::cpu());
    vec![
        I::Move { dst, src },
        I::Invoke { dst, func: FuncIdx(1), args: [src].into() },
        I::InvokeClosure { dst, closure: src, args: [src, src].into() },
        I::InvokePacked { dst, func: PackedIdx(0), args: [].into() },
        I::InvokeDpsPacked { func: PackedIdx(0), inputs: [src].into(), outputs: [dst].into() },
        I::MakeUnique { dst, src },
        I::AllocStorage { dst, size: 64.into(), align: 64, device },
        I::AllocTensor { dst, storage: dst, offset: 0.into(), dtype, shape: [2, 3].into() },
        I::AllocTensorReg { dst, storage: dst, offset: src.into(), dtype, shape: src, max_bytes: Some(64) },
        I::AllocADT { dst, tag: 3, fields: [src, dst].into() },
        I::AllocClosure { dst, func: FuncIdx(1), captured: [src].into() },
        I::GetField { dst, src, index: 1 },
        I::GetTag { dst, src },
        I::If { test: src, target: -1, on_eq: Pc(0), on_ne: Pc(2) },
        I::Goto { target: Pc(3) },
        I::LoadConst { dst, index: ConstIdx(1) },
        I::LoadConsti { dst, value: i64::MIN },
        I::ShapeOf { dst, src },
        I::ShapeDim { dst, src, axis: 2 },
        I::MakeShape { dst, dims: [1.into(), src.into()].into() },
        I::ShapeToTensor { dst, src },
        I::TensorToShape { dst, src },
        I::ReshapeTensor { dst, src, shape: dst },
        I::ReadScalar { dst, src },
        I::MakeScalar { dst, src, dtype: DataType::BF16 },
        I::IntOp { op: IntOpKind::FloorMod, dst, lhs: src.into(), rhs: 7.into() },
        I::CheckTensor { src, dtype: None, dims: None, context: "argument `x`".into() },
        I::CheckShape {
            src,
            dims: [DimCheck::Any, DimCheck::Const(3), DimCheck::Reg(src), DimCheck::Bind(dst)].into(),
            context: "ü".into(),
        },
        I::CheckBound {
            src,
            bound: DimBound::new(8, 64, 8, 0).unwrap(),
            dim: "n".into(),
            arg: "x".into(),
            axis: Some(1),
        },
        I::CheckIndices { src, extents: dst, context: "`take`".into() },
        I::DeviceCopy { dst, src, device },
        I::KillRegister { reg: dst },
        I::RefNew { dst, src },
        I::RefGet { dst, src },
        I::RefSet { cell: dst, src },
        I::TailInvokeClosure { closure: src, args: [src].into() },
        I::TailInvoke { func: FuncIdx(1), args: [dst].into() },
        I::Fatal { message: "no case".into() },
    ]
}

fn sample() -> Executable {
    let scale = vec![
        I::CheckTensor {
            src: r(0),
            dtype: Some(DataType::F32),
            dims: Some([DimCheck::Bind(r(1))].into()),
            context: "argument `p0`".into(),
        },
        I::IntOp { op: IntOpKind::Mul, dst: r(2), lhs: r(1).into(), rhs: 4.into() },
        I::AllocStorage { dst: r(3), size: r(2).into(), align: 64, device: Device::cpu() },
        I::MakeShape { dst: r(4), dims: [r(1).into()].into() },
        I::AllocTensorReg {
            dst: r(5),
            storage: r(3),
            offset: 0.into(),
            dtype: DataType::F32,
            shape: r(4),
            max_bytes: None,
        },
        I::LoadConst { dst: r(6), index: ConstIdx(0) },
        I::LoadConst { dst: r(7), index: ConstIdx(1) },
        I::InvokeKernel { kernel: KernelIdx(0), args: [r(0), r(6), r(7), r(5)].into() },
        I::Ret { src: r(5) },
    ];
    // length(list, acc)
    let length = vec![
        I::GetTag { dst: r(2), src: r(0) },
        I::If { test: r(2), target: 0, on_eq: Pc(2), on_ne: Pc(3) },
        I::Ret { src: r(1) },
        I::GetField { dst: r(2), src: r(0), index: 1 },
        I::IntOp { op: IntOpKind::Add, dst: r(3), lhs: r(1).into(), rhs: 1.into() },
        I::TailInvoke { func: FuncIdx(2), args: [r(2), r(3)].into() },
    ];
    let weights = Tensor::from_vec((0..18).map(|i| i as f32).collect(), &[3, 6]).unwrap();
    Executable {
        functions: vec![
            function("scale", 1, 8, scale),
            function("zoo", 1, 2, zoo()),
            function("length", 2, 4, length),
        ],
        constants: vec![
            Constant::Tensor(weights),
            Constant::Float(2.0),
            Constant::Int(-3),
            Constant::Shape(vec![1, -2]),
            Constant::Str("text".into()),
            Constant::DType(DataType::F16),
            Constant::Tensor(Tensor::from_slice(&[true, false, true], &[3]).unwrap()),
            Constant::Tensor(Tensor::zeros(&[0, 4], DataType::I64).unwrap()),
        ],
        kernels: vec![sig()],
        packed: vec!["tvm.test.artifact".into()],
        objects: vec![
            CodeObject {
                name: "a".into(),
                kind: ObjectKind::Import("sample".into()),
                bytes: [7u8; 100].as_slice().into(),
            },
            gpu_unit(&host()).to_object("b", "sm_80", CodeFormat::Cubin).unwrap(),
            CodeObject { name: "c".into(), kind: ObjectKind::SharedLibrary, bytes: [].as_slice().into() },
        ],
        target: "c -mcpu=native".into(),
        metadata: vec![("model".into(), "sample".into()), ("licence".into(), "none".into())],
    }
}

/// One of each instruction of a host; it launches a kernel for `n` elements of a tensor, and again for each number below a scalar.
fn host() -> HostProgram {
    let query = |what, dst| H::Query { what, dst, arg: 0 };
    let binary = |op, dst, a, b| H::Binary { op, dst, a, b, dtype: DataType::I64 };
    let params = vec![
        HostParam::Memory(2),
        HostParam::Memory(9),
        HostParam::Scalar(4, DataType::I32),
        HostParam::Failure,
    ];
    let failure = KernelFailure { status: 1, arg: 0, axis: -1, what: Some("`x`".into()), place: None };
    let code = vec![
        H::Int { dst: 0, value: 0 },
        H::Int { dst: 1, value: 1 },
        query(HostQuery::Data, 2),
        query(HostQuery::Ndim, 3),
        query(HostQuery::DType, 5),
        query(HostQuery::IsCompact, 5),
        H::Count { dst: 5 },
        H::JumpIfZero { test: 3, to: 26 },
        H::Shape { dst: 4, arg: 0, axis: 0 },
        H::Scalar { dst: 6, arg: 1, dtype: DataType::I64 },
        H::Float { dst: 7, value: 1.5 },
        H::IsNan { dst: 5, src: 7 },
        H::IsInf { dst: 5, src: 7 },
        H::Cast { dst: 7, src: 7, from: DataType::F32, to: DataType::I32 },
        H::Not { dst: 5, src: 5 },
        H::Copy { dst: 8, src: 0 },
        H::Alloc { dst: 9, name: "t".into(), bytes: 4, extents: vec![4, 1] },
        H::Launch {
            kernel: 1,
            name: "k".into(),
            extents: [4, 1, 1, 1, 1, 1],
            shared: 0,
            params: params.clone(),
        },
        H::JumpUnlessLess { a: 8, b: 6, to: 22 },
        H::Launch { kernel: 0, name: "k".into(), extents: [1, 1, 1, 4, 1, 1], shared: 4, params },
        binary(HostOp::Add, 8, 8, 1),
        H::Jump { to: 18 },
        binary(HostOp::FloorMod, 5, 4, 1),
        H::JumpIfZero { test: 5, to: 27 },
        H::Fail { failure, expected: 4, got: 1 },
        H::Jump { to: 27 },
        H::Refuse { message: "no".into() },
    ];
    HostProgram { registers: 10, code }
}

fn gpu_unit(host: &HostProgram) -> GpuUnit<'static> {
    let failures =
        vec![KernelFailure { status: 2, arg: 1, axis: 0, what: None, place: Some("a.rs:1".into()) }];
    let program = GpuProgram { symbol: "tvm_kernel_other".into(), kernels: vec![1, 0], host: host.clone() };
    GpuUnit { symbols: vec!["k0".into(), "k1".into()], failures, programs: vec![program], code: b"some code" }
}

#[test]
fn units_for_gpus() {
    let (host, unit) = (host(), gpu_unit(&host()));
    let object = unit.to_object("b", "sm_80", CodeFormat::Ptx).unwrap();
    assert_eq!(GpuUnit::of_object(&object).unwrap(), Some(unit.clone()));
    let x = LaunchArg::Tensor { shape: &[7], dtype: DataType::F32 };
    let plan = host.plan(&[x, LaunchArg::Int(2)]).unwrap();
    assert_eq!((&plan.memories[..], plan.steps.len()), (&[28u64][..], 3));
    let Step::Launch { kernel, grid, block, shared, args } = &plan.steps[2];
    assert_eq!((*kernel, *grid, *block, *shared), (0, [1; 3], [7, 1, 1], 7));
    let scalar = Argument::Scalar(7, DataType::I32);
    assert_eq!(args[..], [Argument::Memory(0), Argument::Memory(2), scalar, Argument::Failure]);
    for (args, expected) in [
        (&[LaunchArg::Tensor { shape: &[], dtype: DataType::F32 }, LaunchArg::Int(2)][..], "no"),
        (&[x], "there is no argument 1"),
        (&[x, LaunchArg::Float(2.0)], "argument 1 is no scalar of type i64"),
        (&[LaunchArg::Int(1), x], "argument 0 is no tensor"),
        (&[x, LaunchArg::Int(i64::MAX)], "the call has too many launches"),
        (
            &[LaunchArg::Tensor { shape: &[1 << 32], dtype: DataType::F32 }, LaunchArg::Int(0)],
            "an extent of `k` is 4294967296, expected 0 to 4294967295",
        ),
        (
            &[LaunchArg::Tensor { shape: &[-5], dtype: DataType::F32 }, LaunchArg::Int(0)],
            "an extent of `t` is -5, expected 0 to 4294967295",
        ),
    ] {
        assert_eq!(host.plan(args).unwrap_err().to_string(), expected);
    }
    // Numbers of what does not exist are found before anything runs.
    let mut refused = 0;
    for at in 0..host.code.len() {
        let bad = 1 << 30;
        let broken: Vec<H> = match host.code[at].clone() {
            H::Jump { .. } => vec![H::Jump { to: bad }],
            H::JumpIfZero { test, to } => {
                vec![H::JumpIfZero { test: bad, to }, H::JumpIfZero { test, to: 28 }]
            }
            H::JumpUnlessLess { a, b, to } => {
                vec![
                    H::JumpUnlessLess { a: bad, b, to },
                    H::JumpUnlessLess { a, b: bad, to },
                    H::JumpUnlessLess { a, b, to: bad },
                ]
            }
            H::Copy { .. } => vec![H::Copy { dst: 10, src: 0 }, H::Copy { dst: 0, src: 10 }],
            H::Binary { op, dst, a, b, .. } => {
                vec![H::Binary { op, dst, a, b, dtype: DataType::F32.with_lanes(4) }]
            }
            H::Alloc { dst, name, bytes, .. } => vec![H::Alloc { dst, name, bytes, extents: vec![bad] }],
            H::Launch { kernel, name, extents, shared, params } => vec![
                H::Launch { kernel: 2, name: name.clone(), extents, shared, params: params.clone() },
                H::Launch { kernel, name: name.clone(), extents: [10; 6], shared, params: params.clone() },
                H::Launch { kernel, name: name.clone(), extents, shared: 10, params },
                H::Launch { kernel, name, extents, shared, params: vec![HostParam::Memory(10)] },
            ],
            _ => continue,
        };
        for instr in broken {
            let mut other = host.clone();
            other.code[at] = instr;
            let err = gpu_unit(&other).to_object("b", "sm_80", CodeFormat::Ptx).unwrap_err().to_string();
            assert!(err.contains(&format!("host instruction {at}: ")), "{err}");
            // Not even what is not verified panics.
            let _ = other.plan(&[x, LaunchArg::Int(2)]);
            refused += 1;
        }
    }
    assert!(refused > 15, "{refused}");
    let kernels = GpuProgram { kernels: vec![0, 2], ..unit.programs[0].clone() };
    let err =
        GpuUnit { programs: vec![kernels], ..unit }.to_object("b", "sm_80", CodeFormat::Ptx).unwrap_err();
    assert!(err.to_string().contains("kernel 2 of 2"), "{err}");
    let kind = ObjectKind::GpuKernels { arch: "gfx90a".into(), format: CodeFormat::Ptx };
    let err = GpuUnit::of_object(&CodeObject { kind, ..object }).unwrap_err().to_string();
    assert!(err.contains("`b` is for `gfx90a`, which is no architecture"), "{err}");
    let endless = HostProgram { registers: 0, code: vec![H::Jump { to: 0 }] };
    endless.verify(0).unwrap();
    assert!(endless.plan(&[]).unwrap_err().to_string().contains("too many steps"));
}

#[test]
fn round_trip() {
    let exe = sample();
    let bytes = exe.save().unwrap();
    assert_eq!(bytes, exe.save().unwrap());
    assert_eq!(Executable::load(&bytes).unwrap(), exe);
    assert_eq!(Executable::load_ignoring_checksums(&bytes).unwrap(), exe);
    assert_eq!(Executable::load(&Executable::default().save().unwrap()).unwrap(), Executable::default());
    let info = inspect(&bytes).unwrap();
    assert_eq!((info.format_version, info.abi_version), (FORMAT_VERSION, crate::abi::ABI_VERSION));
    assert_eq!(info.compiler, env!("CARGO_PKG_VERSION"));
    assert!(info.to_string().contains("constant data"));
}

#[test]
fn mapped_constants_are_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sample.tvm");
    let exe = sample();
    exe.save_file(&path).unwrap();
    let mapped = Executable::load_file(&path).unwrap();
    assert_eq!(mapped, exe);
    let Constant::Tensor(tensor) = &mapped.constants[0] else { panic!("a tensor") };
    assert!(!tensor.storage().is_writable());
    assert_eq!(tensor.data_ptr() as usize % ALIGNMENT, 0);
    let len = std::fs::metadata(&path).unwrap().len() as usize;
    assert_eq!(tensor.storage().len(), len, "the constant lies in the mapped file");
    let bytes: &'static [u8] = Box::leak(exe.save().unwrap().into_boxed_slice());
    assert_eq!(Executable::load_static(bytes).unwrap(), exe);
    let empty = dir.path().join("empty.tvm");
    std::fs::write(&empty, []).unwrap();
    assert!(matches!(Executable::load_file(&empty), Err(RuntimeError::Artifact(ArtifactError::Magic))));
    assert!(matches!(Executable::load_file(dir.path()), Err(RuntimeError::Io { .. })));
    assert!(matches!(Executable::load_file(dir.path().join("none")), Err(RuntimeError::Io { .. })));
}

#[test]
fn every_flip_and_cut_is_an_error() {
    let bytes = sample().save().unwrap();
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        for bit in 0..8 {
            other[at] ^= 1 << bit;
            let err = Executable::load(&other).unwrap_err();
            assert!(matches!(err, RuntimeError::Artifact(_)), "{at}.{bit}: {err}");
            other[at] ^= 1 << bit;
        }
        assert!(matches!(Executable::load(&bytes[..at]), Err(RuntimeError::Artifact(_))), "{at}");
    }
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    assert!(matches!(Executable::load(&longer), Err(RuntimeError::Artifact(ArtifactError::Length { .. }))));
}

#[test]
fn versions_are_named() {
    let mut bytes = sample().save().unwrap();
    bytes[8] = 9;
    let err = Executable::load(&bytes).unwrap_err().to_string();
    assert!(err.starts_with("artifact of format version 9 (made by tvm 0."), "{err}");
    assert_eq!(
        Executable::load(b"\x7fELF").unwrap_err().to_string(),
        "not an artifact: it does not start with the magic bytes"
    );
    let mut bytes = sample().save().unwrap();
    bytes[12] = 9;
    let err = Executable::load_ignoring_checksums(&bytes).unwrap_err().to_string();
    assert!(err.starts_with("artifact for ABI version 9"), "{err}");
}

#[test]
fn types_nest_to_a_limit() {
    let deep = |depth| {
        let ty = (0..depth).fold(ValueType::Int, |ty, _| ValueType::Ref(Box::new(ty)));
        let mut exe = sample();
        exe.functions[0].ret = ty;
        exe.save()
    };
    Executable::load(&deep(60).unwrap()).unwrap();
    let err = deep(100).unwrap_err().to_string();
    assert_eq!(err, "cannot be saved: types nest deeper than 64");
}

/// A small xorshift generator with a fixed seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Returns a damaged copy: flipped bits, cuts, splices, and numbers that are often wrong in files.
fn damage(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut res = bytes.to_vec();
    for _ in 0..1 + rng.below(4) {
        let (at, len) = (rng.below(res.len()), rng.below(40));
        let end = (at + len).min(res.len());
        match rng.below(8) {
            0..3 if !res.is_empty() => res[at] ^= 1 << rng.below(8),
            3 if !res.is_empty() => res[at] = rng.below(256) as u8,
            4 => {
                let word =
                    [0u64, 1, 0xff, u32::MAX.into(), u64::MAX, 1 << 31, 1 << 62][rng.below(7)].to_le_bytes();
                for (to, from) in res.iter_mut().skip(at).zip(&word[..[1, 4, 8][rng.below(3)]]) {
                    *to = *from;
                }
            }
            5 => drop(res.drain(at..end)),
            6 => {
                let piece = res[at..end].to_vec();
                let to = rng.below(res.len());
                res.splice(to..to, piece);
            }
            _ => {
                let piece = res[at..end].to_vec();
                for (to, from) in res.iter_mut().skip(rng.below(bytes.len())).zip(piece) {
                    *to = from;
                }
            }
        }
    }
    res
}

/// Runs every function of the executable, with strict limits.
fn run_all(exe: Executable, module: &Module) -> usize {
    /// Any bytes are a module without functions.
    struct Empty;

    impl RuntimeModule for Empty {
        fn kind(&self) -> &str {
            "sample"
        }

        fn function(&self, _: &str) -> Option<PackedFunc> {
            None
        }
    }

    for unit in exe.objects.iter().filter_map(|it| GpuUnit::of_object(it).unwrap()) {
        let x = LaunchArg::Tensor { shape: &[3], dtype: DataType::F32 };
        for program in unit.programs {
            // Any error will do; long loops take too long for a test.
            let loops = |it: &H| matches!(it, H::Jump { to } | H::JumpIfZero { to, .. } | H::JumpUnlessLess { to, .. } if *to < 18);
            if !program.host.code.iter().any(loops) {
                let _ = program.host.plan(&[x, LaunchArg::Int(2)]);
            }
        }
    }
    let loader = ModuleLoader::new(|_| Ok(Empty));
    let config = VmConfig {
        loaders: BTreeMap::from([("sample".to_string(), loader)]),
        max_depth: 64,
        max_registers: 1 << 14,
        max_steps: Some(500),
        max_bytes: 1 << 16,
        ..VmConfig::default()
    };
    let Ok(vm) = Vm::with_config(exe, module, config) else { return 0 };
    let list = (0..3).fold(Adt::new(0, []), |tail, i| Adt::new(1, [Value::Int(i), tail.into()]));
    let arguments: [Value; 4] = [
        Tensor::from_slice(&[1f32, 2., 3.], &[3]).unwrap().into(),
        Value::Int(2),
        list.into(),
        Value::from(vec![1, 2]),
    ];
    let mut ran = 0;
    for func in vm.functions() {
        for turn in 0..arguments.len() {
            let args: Vec<_> =
                (0..func.params.len()).map(|i| arguments[(i + turn) % arguments.len()].clone()).collect();
            ran += usize::from(vm.invoke(&func.name, &args).is_ok());
        }
    }
    ran
}

#[test]
fn damaged_artifacts_never_panic() {
    crate::register_global_func("tvm.test.artifact", crate::PackedFunc::new(|_| Ok(Value::Int(1)))).unwrap();
    let module = module();
    let bytes = sample().save().unwrap();
    assert!(run_all(sample(), &module) > 0);
    let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
    let (mut accepted, mut ran) = (0, 0);
    for i in 0..10_000 {
        let damaged = damage(&bytes, &mut rng);
        if Executable::load(&damaged).is_ok() {
            assert_eq!(damaged, bytes, "mutation {i} was accepted");
        }
        // Without the checksums, decoder and verifier alone must hold. Most mutations would fail at the section table,
        // so also try with the original table and lengths.
        let mut inner = damaged;
        if i % 4 != 0 {
            inner.resize(bytes.len(), 0);
            inner[..64 + 32 * SECTIONS.len()].copy_from_slice(&bytes[..64 + 32 * SECTIONS.len()]);
        }
        if let Ok(exe) = Executable::load_ignoring_checksums(&inner) {
            accepted += 1;
            ran += run_all(exe, &module);
        }
    }
    eprintln!("{accepted} accepted without checksums, {ran} calls succeeded");
    assert!(accepted > 500 && ran > 500, "the test reaches the machine: {accepted} accepted, {ran} ran");
}
