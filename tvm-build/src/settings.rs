//! What models and kernels have in common: what they are compiled for, and where their files go.

use std::path::{Path, PathBuf};

use tvm_codegen::CodegenError;
use tvm_core::pass::{PassContext, Precision};
use tvm_core::target::{Target, TargetKind};

use crate::gpu::GpuSettings;
use crate::{BuildError, BuildItem, cargo, features, names};

/// Code generator for the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codegen {
    /// C, compiled by the C compiler that the `cc` crate finds.
    C,
    /// LLVM (feature `llvm`).
    Llvm,
}

/// The values of the words that [`builder_words!`] defines.
pub(crate) struct Settings {
    pub(crate) codegen: Codegen,
    pub(crate) target: Option<String>,
    pub(crate) cpu: Option<String>,
    pub(crate) gpu: Option<GpuSettings>,
    pub(crate) fast_math: bool,
    pub(crate) precision: Precision,
    pub(crate) out_dir: Option<PathBuf>,
}

/// Defines the words that the builders share, for a type with the fields `name` and `settings`.
macro_rules! builder_words {
    ($ty:ty) => {
        impl $ty {
            /// Sets the name of the files and, in camel case, of the wrapper.
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.name = name.into();
                self
            }

            /// Selects the code generator. The default is LLVM with the feature `llvm`, otherwise C.
            pub fn codegen(mut self, codegen: crate::Codegen) -> Self {
                self.settings.codegen = codegen;
                self
            }

            /// Sets the triple of the machine that will run the application. The default is Cargo's `TARGET`, otherwise this
            /// machine.
            pub fn target(mut self, triple: impl Into<String>) -> Self {
                self.settings.target = Some(triple.into());
                self
            }

            /// Sets the CPU to compile for: a name that the code generator knows, or `native`. The default is the set of
            /// features that Cargo compiles the application with; if that is the baseline of x86-64, Cargo shows a warning.
            pub fn cpu(mut self, cpu: impl Into<String>) -> Self {
                self.settings.cpu = Some(cpu.into());
                self
            }

            /// Compiles for several levels of x86-64 (`["x86-64", "x86-64-v3"]`, say). The library holds the code of all of
            /// them; the application runs that of the highest level that its CPU has, and needs the lowest one. This replaces
            /// `cpu`.
            pub fn cpu_levels<L: AsRef<str>>(mut self, levels: impl IntoIterator<Item = L>) -> Self {
                let levels: Vec<String> =
                    levels.into_iter().map(|level| level.as_ref().to_string()).collect();
                self.settings.cpu = Some(levels.join(","));
                self
            }

            /// Compiles for GPUs of these architectures as well (`["sm_80", "sm_90"]`, say): machine code for each of them, and PTX of the
            /// highest one for newer GPUs. The application runs this code where it finds such a GPU and NVIDIA's driver, otherwise that
            /// for the CPU; `on(device)` of the wrapper chooses. Pipelines of the current pass context are those of the CPU alone.
            ///
            /// This needs the feature `cuda` and NVIDIA's libnvrtc while the application is built, and the feature `cuda` of
            /// tvm-runtime in the application.
            pub fn gpu<A: AsRef<str>>(mut self, archs: impl IntoIterator<Item = A>) -> Self {
                let archs = archs.into_iter().map(|arch| arch.as_ref().to_string()).collect();
                self.settings.gpu = Some(crate::gpu::GpuSettings { archs, required: true });
                self
            }

            /// As `gpu`. Where libnvrtc or the feature `cuda` is missing, it is compiled for the CPU alone, and Cargo shows a warning; the
            /// wrapper has the same functions.
            pub fn gpu_if_available<A: AsRef<str>>(self, archs: impl IntoIterator<Item = A>) -> Self {
                let mut res = self.gpu(archs);
                if let Some(gpu) = &mut res.settings.gpu {
                    gpu.required = false;
                }
                res
            }

            /// Allows code that reassociates and contracts floats, and assumes that there is no NaN and no infinity.
            pub fn fast_math(mut self, fast_math: bool) -> Self {
                self.settings.fast_math = fast_math;
                self
            }

            /// Sets the type in which convolutions and products of f32 with constant weights take their operands; sums stay in
            /// f32. The default is that of the model.
            pub fn precision(mut self, precision: $crate::Precision) -> Self {
                self.settings.precision = precision;
                self
            }

            /// Sets the output directory. The default is Cargo's `OUT_DIR`.
            pub fn out_dir(mut self, path: impl Into<std::path::PathBuf>) -> Self {
                self.settings.out_dir = Some(path.into());
                self
            }
        }
    };
}
pub(crate) use builder_words;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            codegen: if cfg!(feature = "llvm") { Codegen::Llvm } else { Codegen::C },
            target: None,
            cpu: None,
            gpu: None,
            fast_math: false,
            precision: Precision::Full,
            out_dir: None,
        }
    }
}

impl Settings {
    /// Checks the name of `item`, and makes the directory for its files.
    pub(crate) fn begin(&self, item: &BuildItem) -> Result<PathBuf, BuildError> {
        if !names::is_model_name(item.name()) {
            return Err(BuildError::Name { item: item.clone() });
        }
        let dir = self.out_dir.clone().or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from));
        let dir = dir.ok_or_else(|| BuildError::NoOutDir { item: item.clone() })?;
        std::fs::create_dir_all(&dir).map_err(|source| BuildError::Io { path: dir.clone(), source })?;
        Ok(dir)
    }

    /// The target: the given one, else Cargo's, else the baseline of this machine. Cargo shows a warning if it is the baseline
    /// of x86-64 and nobody asked for that.
    pub(crate) fn target(&self, item: &BuildItem) -> Result<Target, BuildError> {
        let cargo = std::env::var("TARGET").ok();
        // Cargo's list of features describes Cargo's target only.
        let same = self.target.is_none() || self.target == cargo;
        let features = std::env::var("CARGO_CFG_TARGET_FEATURE").ok().filter(|_| same).unwrap_or_default();
        let triple = self.target.clone().or(cargo);
        let triple = triple.unwrap_or_else(|| env!("TVM_BUILD_TARGET").to_string());
        if let Some(message) = baseline(item, &triple, &features, self.cpu.as_deref()) {
            cargo::warning(&message);
        }
        features::target(self.kind(), &triple, &features, self.cpu.as_deref())
            .map_err(|source| BuildError::Target { item: item.clone(), source })
    }

    /// The code generator for the CPU.
    pub(crate) fn kind(&self) -> TargetKind {
        match self.codegen {
            Codegen::C => TargetKind::C,
            Codegen::Llvm => TargetKind::Llvm,
        }
    }

    /// The target for GPUs beside that for the CPU; `None` if only the CPU is compiled for.
    pub(crate) fn gpu_target(&self, item: &BuildItem, cpu: &Target) -> Result<Option<Target>, BuildError> {
        self.gpu.as_ref().map_or(Ok(None), |gpu| gpu.target(item, cpu))
    }

    /// The context of the passes.
    pub(crate) fn context(&self) -> PassContext {
        let mut context = PassContext::current();
        context.config.fast_math |= self.fast_math;
        context.config.precision = self.precision.or(context.config.precision);
        context
    }
}

/// The warning that `item` is compiled for the baseline of x86-64; `None` if it is not, or that was asked for.
fn baseline(item: &BuildItem, triple: &str, features: &str, cpu: Option<&str>) -> Option<String> {
    let slow = triple.starts_with("x86_64") && cpu.is_none() && !features.split(',').any(|it| it == "avx2");
    slow.then(|| {
        format!(
            "{item} is compiled for the baseline of x86-64, without AVX2 and FMA, and may be several times slower than it could \
             be. Add `.cpu_levels([\"x86-64\", \"x86-64-v3\", \"x86-64-v4\"])`: the application then takes what its CPU has. For \
             this machine alone, build with RUSTFLAGS=\"-C target-cpu=native\". `.cpu(\"x86-64\")` says that the baseline is meant"
        )
    })
}

/// The error of the code generator, or of a pass, on `item`.
pub(crate) fn codegen_error(item: &BuildItem, err: CodegenError) -> BuildError {
    let item = item.clone();
    match err {
        CodegenError::Pass(err) => BuildError::Pass { item, source: err.into() },
        err => BuildError::Codegen { item, source: err.into() },
    }
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    std::fs::write(path, bytes).map_err(|source| BuildError::Io { path: path.to_path_buf(), source })
}

#[test]
fn who_is_warned_of_the_baseline() {
    let linux = "x86_64-unknown-linux-gnu";
    let cases = [
        (linux, "fxsr,sse,sse2", None, true),
        (linux, "sse,avx", None, true),
        (linux, "avx,avx2,fma", None, false),
        (linux, "sse", Some("x86-64"), false),
        (linux, "sse", Some("x86-64,x86-64-v3"), false),
        ("aarch64-apple-darwin", "neon", None, false),
    ];
    for (triple, features, cpu, warned) in cases {
        let item = BuildItem::Kernel("scale".into());
        let message = baseline(&item, triple, features, cpu);
        assert_eq!(message.is_some(), warned, "{triple} {features} {cpu:?}");
        if let Some(message) = message {
            assert!(message.starts_with("kernel `scale` is compiled for the baseline"), "{message}");
            assert!(!message.contains('\n'), "a directive ends with its line: {message}");
        }
    }
}
