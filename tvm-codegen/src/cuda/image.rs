//! Code for GPUs: who compiles CUDA C, and the cache of what was compiled.
//!
//! Ensures: code that was compiled once from the same source, for the same architecture and by the same compiler is read from
//! the cache on disk, which the kernels of the C compiler are in as well.

use std::sync::{Arc, PoisonError, RwLock};

use tvm_core::target::GpuArch;
use tvm_runtime::CodeFormat;

use super::CudaSource;
use crate::cache::{self, Cache};
use crate::{CodegenError, report};

/// What to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageOptions {
    /// The architecture.
    pub arch: GpuArch,
    /// Products and sums may be contracted.
    pub fast_math: bool,
    /// The format of the code.
    pub format: CodeFormat,
}

/// Compiles CUDA C to code for GPUs. NVIDIA's NVRTC does unless [`set_image_compiler`] names another one.
pub trait ImageCompiler: Send + Sync {
    /// Text that identifies the compiler and its version. Code from the cache was made by a compiler with the same text.
    ///
    /// # Errors
    /// When the compiler cannot be used.
    fn version(&self) -> Result<String, CodegenError>;

    /// The code of `source`.
    ///
    /// # Errors
    /// When the compiler cannot be used, or refuses the source.
    fn compile(&self, source: &CudaSource, options: &ImageOptions) -> Result<Vec<u8>, CodegenError>;
}

static COMPILER: RwLock<Option<Arc<dyn ImageCompiler>>> = RwLock::new(None);

/// Sets the compiler of this process; `None` for NVRTC.
pub fn set_image_compiler(compiler: Option<Arc<dyn ImageCompiler>>) {
    *COMPILER.write().unwrap_or_else(PoisonError::into_inner) = compiler;
}

/// The compiler of this process.
///
/// # Errors
/// When none is set and this build lacks the feature `cuda`.
pub fn image_compiler() -> Result<Arc<dyn ImageCompiler>, CodegenError> {
    if let Some(compiler) = &*COMPILER.read().unwrap_or_else(PoisonError::into_inner) {
        return Ok(compiler.clone());
    }
    nvrtc()
}

#[cfg(feature = "cuda")]
fn nvrtc() -> Result<Arc<dyn ImageCompiler>, CodegenError> {
    Ok(Arc::new(super::nvrtc::Nvrtc))
}

#[cfg(not(feature = "cuda"))]
fn nvrtc() -> Result<Arc<dyn ImageCompiler>, CodegenError> {
    let help = ", or write the source: `EmitKind::Cuda`, `tvmc compile --emit cuda`";
    Err(CodegenError::Unsupported { target: "NVRTC", feature: "cuda", help })
}

/// The code of `source`, from the cache if it is there.
///
/// # Errors
/// When there is no compiler, or it refuses the source.
pub(super) fn compile(source: &CudaSource, options: &ImageOptions) -> Result<Vec<u8>, CodegenError> {
    let compiler = image_compiler()?;
    match Cache::of_user()? {
        Some(cache) => compile_cached(&cache.of_kind(extension(options.format)), &*compiler, source, options),
        None => compiler.compile(source, options),
    }
}

pub(super) fn extension(format: CodeFormat) -> &'static str {
    match format {
        CodeFormat::Ptx => "ptx",
        CodeFormat::Cubin => "cubin",
    }
}

fn compile_cached(
    cache: &Cache,
    compiler: &dyn ImageCompiler,
    source: &CudaSource,
    options: &ImageOptions,
) -> Result<Vec<u8>, CodegenError> {
    let ImageOptions { arch, fast_math, format } = options;
    let how = format!("{} {arch} {fast_math} {}", compiler.version()?, extension(*format));
    let key = cache::key(&["cuda", &source.text, &how].map(str::as_bytes));
    if let Some(code) = cache.get(&key) {
        return Ok(code);
    }
    let code = compiler.compile(source, options)?;
    if let Err(err) = cache.put(&key, &code) {
        let dir = cache.dir().display();
        report::warn(format_args!("the kernel cache in {dir} cannot be written: {err}"));
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often it compiles.
    struct Counts(AtomicUsize, &'static str);

    impl ImageCompiler for Counts {
        fn version(&self) -> Result<String, CodegenError> {
            Ok(self.1.into())
        }

        fn compile(&self, source: &CudaSource, options: &ImageOptions) -> Result<Vec<u8>, CodegenError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(format!("{} {options:?}", source.text).into_bytes())
        }
    }

    #[test]
    fn code_is_compiled_once() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache")).unwrap().of_kind("cubin");
        let compiler = Counts(AtomicUsize::new(0), "first");
        let source = |text: &str| CudaSource { text: text.into(), programs: vec![], failures: vec![] };
        let options = ImageOptions { arch: GpuArch::DEFAULT, fast_math: false, format: CodeFormat::Cubin };
        let times = |compiler: &Counts, source: &CudaSource, options: &ImageOptions| {
            let code = compile_cached(&cache, compiler, source, options).unwrap();
            assert_eq!(code, format!("{} {options:?}", source.text).into_bytes());
            compiler.0.load(Ordering::Relaxed)
        };
        let a = source("a");
        assert_eq!(times(&compiler, &a, &options), 1);
        assert_eq!(times(&compiler, &a, &options), 1, "from the cache");
        // A damaged entry is made again.
        let entry = std::fs::read_dir(cache.dir()).unwrap().next().unwrap().unwrap().path();
        assert_eq!(entry.extension().unwrap(), "cubin");
        let whole = std::fs::read(&entry).unwrap();
        for broken in [&whole[..whole.len() / 2], b"", b"no code at all"] {
            std::fs::write(&entry, broken).unwrap();
            let before = compiler.0.load(Ordering::Relaxed);
            assert_eq!(times(&compiler, &a, &options), before + 1);
            assert_eq!(std::fs::read(&entry).unwrap(), whole);
        }
        // Everything that the code depends on counts.
        let before = compiler.0.load(Ordering::Relaxed);
        let others = [
            ImageOptions { arch: "sm_90".parse().unwrap(), ..options },
            ImageOptions { fast_math: true, ..options },
            ImageOptions { format: CodeFormat::Ptx, ..options },
        ];
        for (i, other) in others.iter().enumerate() {
            assert_eq!(times(&compiler, &a, other), before + i + 1, "{other:?}");
        }
        assert_eq!(times(&compiler, &source("b"), &options), before + 4);
        let second = Counts(AtomicUsize::new(0), "second");
        assert_eq!(times(&second, &a, &options), 1, "another compiler");
    }
}
