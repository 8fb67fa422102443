//! NVRTC, NVIDIA's compiler as a library: CUDA C becomes PTX, and a cubin. Needs the feature `cuda` and `libnvrtc`, which the dynamic
//! linker finds; neither a driver nor a GPU.
//!
//! cudarc panics where the library or one of its symbols is missing; [`compile`] turns that into an error.
//! TVM counterpart: `NVRTCCompile`.
#![allow(unsafe_code, reason = "calls of a C library; each block says why it is sound")]

use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cudarc::nvrtc::{result, sys};

use tvm_runtime::CodeFormat;

use super::{CudaSource, ImageCompiler, ImageOptions};
use crate::CodegenError;

/// How the library is installed.
const INSTALL: &str = "install the CUDA toolkit, or NVIDIA's package (`pip install nvidia-cuda-nvrtc==13.0.88`), and name the \
                       folder of libnvrtc in LD_LIBRARY_PATH";

/// The library.
pub(super) struct Nvrtc;

impl ImageCompiler for Nvrtc {
    fn version(&self) -> Result<String, CodegenError> {
        let fail = |message: String| CodegenError::Target { target: "cuda".into(), message };
        check().map_err(fail)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library writes its version there.
        let asked = || unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result();
        match catch_unwind(AssertUnwindSafe(asked)) {
            Ok(Ok(())) => Ok(format!("NVRTC {major}.{minor}")),
            Ok(Err(err)) => Err(fail(format!("NVRTC: {err}"))),
            Err(_) => Err(fail(too_old())),
        }
    }

    fn compile(&self, source: &CudaSource, options: &ImageOptions) -> Result<Vec<u8>, CodegenError> {
        compile(&source.text, options.arch.name(), options.fast_math, options.format)
    }
}

/// Fails where the library is missing.
fn check() -> Result<(), String> {
    // SAFETY: loads the library, or reports that it is missing.
    if unsafe { sys::is_culib_present() } {
        return Ok(());
    }
    Err(format!("libnvrtc is not found\n  help: {INSTALL}"))
}

fn too_old() -> String {
    format!("a function of libnvrtc is missing: it is too old\n  help: {INSTALL}")
}

/// `source` as PTX or as a cubin, for the architecture `arch` (`sm_90`).
///
/// # Errors
/// When the library is missing or too old, or refuses the source; then with what it says.
fn compile(source: &str, arch: &str, fast_math: bool, code: CodeFormat) -> Result<Vec<u8>, CodegenError> {
    let fail = |message: String| CodegenError::Target { target: format!("cuda -arch={arch}"), message };
    check().map_err(fail)?;
    let options = [
        format!("--gpu-architecture={arch}"),
        // A product and a sum are contracted where the program says so, unless floats may be reassociated.
        format!("--fmad={fast_math}"),
        // Functions of the prelude and indices that a kernel does not use.
        "--diag-suppress=177".to_string(),
    ];
    let source = CString::new(source).map_err(|_| fail("the source contains a zero".to_string()))?;
    match catch_unwind(AssertUnwindSafe(|| run(&source, &options, code))) {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(message)) => Err(fail(format!("NVRTC: {message}"))),
        Err(_) => Err(fail(too_old())),
    }
}

/// A program of NVRTC, destroyed when dropped.
struct Program<'a> {
    handle: sys::nvrtcProgram,
    _source: &'a CStr,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is that of a program that was created and is destroyed here only.
        let _ = unsafe { result::destroy_program(self.handle) };
    }
}

fn run(source: &CStr, options: &[String], code: CodeFormat) -> Result<Vec<u8>, String> {
    let show = |err: result::NvrtcError| err.to_string();
    let handle = result::create_program(source, Some(c"kernels.cu")).map_err(show)?;
    let program = Program { handle, _source: source };
    // SAFETY: the program was created above, and its source is alive.
    let compiled = unsafe { result::compile_program(program.handle, options) };
    if let Err(err) = compiled {
        return Err(format!("{err}: {}", log(&program)));
    }
    match code {
        CodeFormat::Ptx => {
            // SAFETY: the program was compiled.
            let text = unsafe { result::get_ptx(program.handle) }.map_err(show)?;
            let text = text.into_iter().map(|it| it as u8);
            Ok(text.take_while(|&it| it != 0).collect())
        }
        CodeFormat::Cubin => cubin(&program).map_err(show),
    }
}

fn cubin(program: &Program<'_>) -> Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the program was compiled; the size is written to `size`.
    unsafe { sys::nvrtcGetCUBINSize(program.handle, &raw mut size) }.result()?;
    let mut bytes = vec![0u8; size];
    // SAFETY: the library writes as many bytes as it said.
    unsafe { sys::nvrtcGetCUBIN(program.handle, bytes.as_mut_ptr().cast()) }.result()?;
    Ok(bytes)
}

/// What the compiler says.
fn log(program: &Program<'_>) -> String {
    // SAFETY: the program was created.
    let Ok(text) = (unsafe { result::get_program_log(program.handle) }) else { return String::new() };
    let bytes: Vec<u8> = text.into_iter().map(|it| it as u8).take_while(|&it| it != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_become_code_or_errors() {
        let source = "extern \"C\" __global__ void half(float *x) { x[threadIdx.x] *= 0.5f; }";
        let ptx = match compile(source, "sm_80", false, CodeFormat::Ptx) {
            Err(err) if err.to_string().contains("libnvrtc") => {
                let err = err.to_string();
                assert!(err.contains("is not found") && err.contains("pip install"), "{err}");
                eprintln!("SKIPPED: libnvrtc is not installed");
                return;
            }
            other => String::from_utf8(other.unwrap()).unwrap(),
        };
        assert!(ptx.contains(".target sm_80") && ptx.contains(".visible .entry half"), "{ptx}");
        assert!(compile(source, "sm_80", false, CodeFormat::Cubin).unwrap().starts_with(b"\x7fELF"));
        let err = compile("nonsense", "sm_80", false, CodeFormat::Ptx).unwrap_err().to_string();
        assert!(err.contains("kernels.cu(1): error"), "{err}");
        let err = compile(source, "sm_1", false, CodeFormat::Ptx).unwrap_err().to_string();
        assert!(err.contains("NVRTC") && err.contains("sm_1"), "{err}");
        let err = compile("\0", "sm_80", false, CodeFormat::Ptx).unwrap_err().to_string();
        assert!(err.contains("contains a zero"), "{err}");
    }
}
