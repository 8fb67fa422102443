//! Tests of modules and shared libraries.

use std::path::Path;
use std::process::Command;

use super::*;
use crate::dtype::DataType;
use crate::kernel::{DimSig, ParamKind, ParamSig};
use crate::{CompiledFn, In, Out};

fn sig(name: &str) -> KernelSig {
    let param = |name: &str, kind| ParamSig {
        name: name.into(),
        kind,
        dtype: DataType::F32,
        shape: vec![DimSig::Var("n".into())],
    };
    KernelSig { name: name.into(), params: vec![param("x", ParamKind::In), param("y", ParamKind::Out)] }
}

/// Compiles C to a shared library. A machine on which Rust links has a C compiler.
fn compile(dir: &Path, stem: &str, text: &str) -> std::path::PathBuf {
    let (source, library) = (dir.join(format!("{stem}.c")), dir.join(format!("{stem}.so")));
    std::fs::write(&source, text).unwrap();
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(status.expect("`cc` runs").success());
    library
}

fn source(version: u32, factor: u32) -> String {
    format!(
        "#include <stdint.h>
        const uint32_t tvm_abi_version = {version};
        typedef struct {{ float *data; int32_t device[2]; int32_t ndim; int32_t dtype; int64_t *shape, *strides; uint64_t offset; }} T;
        int32_t tvm_kernel_times(T **args, int32_t n, void *ctx) {{
            for (int64_t i = 0; i < args[0]->shape[0]; i++) args[1]->data[i] = args[0]->data[i] * {factor};
            return 0;
        }}"
    )
}

#[test]
fn libraries_from_file_and_memory() {
    let dir = tempfile::tempdir().unwrap();
    let two = compile(dir.path(), "two", &source(ABI_VERSION, 2));
    let three = compile(dir.path(), "three", &source(ABI_VERSION, 3));
    // SAFETY: the libraries hold what `source` says.
    let libraries = unsafe {
        [
            (2., Library::open(&two).unwrap()),
            (2., Library::from_bytes("two", &std::fs::read(&two).unwrap()).unwrap()),
            (3., Library::from_bytes("three", &std::fs::read(&three).unwrap()).unwrap()),
        ]
    };
    for (factor, library) in libraries {
        let module = library.module(&[sig("times")]).unwrap();
        let err = library.module(&[sig("times"), sig("nope"), sig("a\0b")]).unwrap_err();
        assert_eq!(err.to_string(), "not found: kernel `nope`, `a\0b`");
        drop(library);
        let f = CompiledFn::<(In<f32, 1>, Out<f32, 1>)>::new(module.get("times").unwrap().clone()).unwrap();
        drop(module);
        let mut y = [0f32; 3];
        f.call(&[1f32, 2., 3.], &mut y).unwrap();
        assert_eq!(y, [1., 2., 3.].map(|x| x * factor), "the kernel keeps its library loaded");
    }
}

#[test]
fn foreign_libraries_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let other = compile(dir.path(), "other", &source(99, 1));
    let unversioned = compile(dir.path(), "unversioned", "int x = 1;");
    // SAFETY: the libraries have no initialisers.
    let load = |path: &Path| unsafe { Library::open(path) }.unwrap_err();
    assert!(matches!(load(&other), RuntimeError::AbiVersion { expected: ABI_VERSION, got: 99, .. }));
    assert!(load(&unversioned).to_string().ends_with("it has no symbol `tvm_abi_version`"));
    assert!(matches!(load(&dir.path().join("none.so")), RuntimeError::Library { .. }));
    // SAFETY: not a library at all.
    let err = unsafe { Library::from_bytes("junk", b"not an ELF file") }.unwrap_err();
    assert!(err.to_string().starts_with("cannot load the kernel library `junk`: "), "{err}");
}

#[test]
fn names_are_unique() {
    let kernel = |name: &str| Kernel::host(sig(name), |_| Ok(()));
    assert!(matches!(
        Module::new([kernel("a"), kernel("a")]),
        Err(RuntimeError::DuplicateFunc { name }) if name == "a"
    ));
    let module = Module::new([kernel("b"), kernel("a")]).unwrap();
    assert_eq!(module.iter().map(Kernel::name).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn an_executable_carries_its_kernels() {
    use crate::vm::*;
    let dir = tempfile::tempdir().unwrap();
    let library = compile(dir.path(), "times", &source(ABI_VERSION, 5));
    let object = |bytes: Vec<u8>| CodeObject {
        name: "times.so".into(),
        kind: ObjectKind::SharedLibrary,
        bytes: bytes.into(),
    };
    let code = vec![
        Instruction::AllocStorage { dst: Reg(1), size: 12.into(), align: 64, device: crate::Device::cpu() },
        Instruction::AllocTensor {
            dst: Reg(2),
            storage: Reg(1),
            offset: 0.into(),
            dtype: DataType::F32,
            shape: [3].into(),
        },
        Instruction::InvokeKernel { kernel: KernelIdx(0), args: [Reg(0), Reg(2)].into() },
        Instruction::Ret { src: Reg(2) },
    ];
    let ty = || ValueType::Tensor { dtype: Some(DataType::F32), shape: Some(vec![DimSig::Const(3)]) };
    let params = vec![VmParam { name: "x".into(), ty: ty() }];
    let exe = Executable {
        functions: vec![VmFunction {
            name: "main".into(),
            params,
            ret: ty(),
            num_regs: 3,
            public: true,
            code,
        }],
        kernels: vec![sig("times")],
        objects: vec![object(std::fs::read(&library).unwrap())],
        ..Executable::default()
    };
    let exe = Executable::load(&exe.save().unwrap()).unwrap();
    // SAFETY: the library was compiled above, for this signature.
    let vm = unsafe { Vm::linked(exe.clone()).unwrap() };
    assert_eq!(vm.backend(), crate::Backend::Native);
    let x = crate::Tensor::from_slice(&[1f32, 2., 3.], &[3]).unwrap();
    let y = vm.invoke("main", &[x.into()]).unwrap();
    assert_eq!(y.as_tensor().unwrap().as_slice::<f32>().unwrap(), [5., 10., 15.]);
    // Bytecode that passes the same register as input and output: the kernel was compiled for two tensors.
    let mut in_place = exe.clone();
    let code = &mut in_place.functions[0].code;
    let call = code.len() - 2;
    code[call] = Instruction::InvokeKernel { kernel: KernelIdx(0), args: [Reg(2), Reg(2)].into() };
    // SAFETY: as above.
    let vm = unsafe { Vm::linked(in_place).unwrap() };
    let x = crate::Tensor::from_slice(&[1f32, 2., 3.], &[3]).unwrap();
    let RuntimeError::Vm { source, .. } = vm.invoke("main", &[x.into()]).unwrap_err() else {
        panic!("an error of the machine")
    };
    assert!(matches!(*source, RuntimeError::ArgOverlap { .. }), "{source}");
    let missing = Executable { kernels: vec![sig("other")], ..exe.clone() };
    let junk = Executable { objects: vec![object(b"junk".to_vec())], ..exe.clone() };
    let elsewhere =
        Executable { metadata: vec![crate::cpu_requirements(["sse2", "warp_drive", "avx1024"])], ..exe };
    // SAFETY: the same library, or none.
    unsafe {
        assert!(matches!(missing.link(), Err(RuntimeError::NotFound { .. })));
        assert!(matches!(junk.link(), Err(RuntimeError::Library { .. })));
        let err = elsewhere.link().unwrap_err();
        assert!(matches!(err, RuntimeError::CpuFeatures { .. }));
        assert!(err.to_string().contains("`warp_drive`, `avx1024`"), "{err}");
    }
}

#[test]
fn linked_in_kernels() {
    use crate::abi::{CallContext, KernelArg};
    unsafe extern "C" fn negate(args: *const KernelArg, _: i32, _: *mut CallContext) -> i32 {
        // SAFETY: called with the two tensors of `sig`, of one extent.
        unsafe {
            let (x, y) = (&*(*args).tensor, &*(*args.add(1)).tensor);
            for i in 0..*x.shape as usize {
                *y.data.cast::<f32>().add(i) = -*x.data.cast::<f32>().add(i);
            }
        }
        0
    }
    static TABLE: KernelTable = KernelTable { abi_version: ABI_VERSION, entries: &[("negate", negate)] };
    // SAFETY: `negate` does what its signature says.
    let load = |name| unsafe { Module::from_table(&[sig(name)], &TABLE) };
    let kernel = load("negate").unwrap().get("negate").unwrap().clone();
    let mut y = [0f32; 2];
    CompiledFn::<(In<f32, 1>, Out<f32, 1>)>::new(kernel).unwrap().call(&[1f32, -2.], &mut y).unwrap();
    assert_eq!(y, [-1., 2.]);
    let old = KernelTable { abi_version: 0, ..TABLE };
    // SAFETY: as above.
    let err = unsafe { Module::from_table(&[], &old) }.unwrap_err().to_string();
    assert_eq!(
        err,
        format!(
            "`linked-in kernels` was compiled for ABI version 0, this runtime has {ABI_VERSION}; compile it again"
        )
    );
    assert_eq!(load("other").unwrap_err().to_string(), "not found: kernel `other`");
}
