//! Runs the C compiler and loads the library that it made. The library is kept in a cache on disk (`cache`), under a
//! hash of everything it depends on: source, flags, compiler and CPU.
#![allow(unsafe_code, reason = "loads the library that was just compiled; the block says why it is sound")]

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tvm_core::ir::IRModule;
use tvm_core::support::in_parallel;
use tvm_core::target::Target;
use tvm_runtime::{Library, Module};

use crate::cache::{self, Cache};
use crate::{CodeGenerator, CodegenError, EmitKind, Options, Unit, lowered, parts, report};

/// A C compiler.
#[derive(Clone, Debug)]
pub struct Compiler {
    command: Vec<String>,
    /// First line of the compiler's `--version`.
    version: String,
}

impl Compiler {
    /// Finds the compiler for this machine: `CC`, or the first of `cc`, `gcc`, `clang` that works.
    ///
    /// # Errors
    /// When no compiler works.
    pub fn host() -> Result<&'static Compiler, CodegenError> {
        static HOST: OnceLock<Result<Compiler, String>> = OnceLock::new();
        let found = HOST.get_or_init(|| {
            let candidates = match std::env::var("CC") {
                Ok(cc) if !cc.trim().is_empty() => vec![cc],
                _ => ["cc", "gcc", "clang"].map(String::from).to_vec(),
            };
            candidates.iter().find_map(|it| Compiler::try_command(it)).ok_or_else(|| candidates.join(", "))
        });
        found.as_ref().map_err(|tried| CodegenError::NoCompiler { tried: tried.clone() })
    }

    /// Finds the compiler for `target`: the host's, or for a triple `CC_<triple>`, `<triple>-gcc`,
    /// `clang --target=<triple>`.
    ///
    /// # Errors
    /// When no compiler works.
    pub fn for_target(target: &Target) -> Result<Compiler, CodegenError> {
        let Some(triple) = &target.triple else { return Compiler::host().cloned() };
        let variable = format!("CC_{}", triple.replace('-', "_"));
        let mut candidates: Vec<String> = std::env::var(variable).into_iter().collect();
        candidates.push(format!("{triple}-gcc"));
        candidates.push(format!("{}-gcc", triple.replace("-unknown-", "-")));
        candidates.push(format!("clang --target={triple}"));
        let found = candidates.iter().find_map(|it| Compiler::try_command(it));
        found.ok_or_else(|| CodegenError::NoCompiler { tried: candidates.join(", ") })
    }

    fn try_command(command: &str) -> Option<Compiler> {
        let command: Vec<String> = command.split_whitespace().map(String::from).collect();
        let (program, args) = command.split_first()?;
        let output = Command::new(program).args(args).arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_string();
        output.status.success().then_some(Compiler { command, version })
    }

    /// The first line of the output of `--version`.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn is_clang(&self) -> bool {
        self.version.contains("clang")
    }

    fn flags(&self, target: &Target, options: Options) -> Vec<String> {
        let mut flags = vec!["-x".to_string(), "c".to_string()];
        flags.extend(compile_flags(target, options, self.is_clang()));
        flags
    }

    /// Compiles `source` to a file at `path`.
    ///
    /// # Errors
    /// When the compiler fails; the error contains its message.
    pub fn compile(
        &self,
        source: &str,
        target: &Target,
        options: Options,
        output: EmitKind,
        path: &Path,
    ) -> Result<(), CodegenError> {
        let input = path.with_extension("c");
        write_file(&input, source.as_bytes())?;
        let mut command = self.command();
        let step = match output {
            EmitKind::Object => "-c",
            EmitKind::Asm => "-S",
            EmitKind::SharedLibrary => "-shared",
            EmitKind::C | EmitKind::LlvmIr | EmitKind::Cuda | EmitKind::Ptx | EmitKind::Cubin => {
                let what = format!("{output:?} from the C compiler");
                return Err(CodegenError::NotSupported { target: "C", what });
            }
        };
        command.args(self.flags(target, options)).arg(step).arg("-o").arg(path).arg(&input).arg("-lm");
        let result = self.run(command, path);
        let _ = std::fs::remove_file(&input);
        result
    }

    /// The macros that are defined when compiling for `target`, one `#define` per line.
    ///
    /// # Errors
    /// When the compiler does not know the CPU; the error contains its message.
    pub(crate) fn macros(&self, target: &Target) -> Result<String, CodegenError> {
        let mut command = self.command();
        command.args(self.flags(target, Options::default())).args(["-dM", "-E", "-"]);
        command.stdin(std::process::Stdio::null());
        let name = self.command.join(" ");
        let output = command.output().map_err(|source| CodegenError::Io { path: name.clone(), source })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr).lines().take(5).collect::<Vec<_>>().join("\n");
        Err(CodegenError::Compiler { command: name, message })
    }

    /// Compiles `source`; returns the bytes of the output file.
    ///
    /// # Errors
    /// When the compiler fails; the error contains its message.
    pub fn compile_to_bytes(
        &self,
        source: &str,
        target: &Target,
        options: Options,
        output: EmitKind,
    ) -> Result<Vec<u8>, CodegenError> {
        let dir = tempfile::tempdir()
            .map_err(|source| CodegenError::Io { path: "temporary directory".into(), source })?;
        let path = dir.path().join("kernels.out");
        self.compile(source, target, options, output, &path)?;
        std::fs::read(&path).map_err(|source| CodegenError::Io { path: path.display().to_string(), source })
    }

    /// Links the object files `objects`, each given as its bytes, into a shared library; returns its bytes.
    ///
    /// # Errors
    /// When the linker fails; the error contains its message.
    pub fn link(&self, objects: &[Vec<u8>]) -> Result<Vec<u8>, CodegenError> {
        let io = |path: &Path, source| CodegenError::Io { path: path.display().to_string(), source };
        let dir = tempfile::tempdir().map_err(|err| io(Path::new("temporary directory"), err))?;
        let path = dir.path().join("kernels.so");
        let mut command = self.command();
        command.arg("-shared").arg("-o").arg(&path);
        for (i, object) in objects.iter().enumerate() {
            let input = dir.path().join(format!("kernels{i}.o"));
            std::fs::write(&input, object).map_err(|err| io(&input, err))?;
            command.arg(&input);
        }
        command.arg("-lm");
        self.run(command, &path)?;
        std::fs::read(&path).map_err(|err| io(&path, err))
    }

    fn command(&self) -> Command {
        let (program, args) = self.command.split_first().map_or(("cc", &[][..]), |(p, a)| (p.as_str(), a));
        let mut command = Command::new(program);
        command.args(args);
        command
    }

    /// Runs `command`, which must write the file `path`.
    fn run(&self, mut command: Command, path: &Path) -> Result<(), CodegenError> {
        let name = self.command.join(" ");
        let output = command.output().map_err(|source| CodegenError::Io { path: name.clone(), source })?;
        let message = if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            stderr.lines().take(20).collect::<Vec<_>>().join("\n")
        } else if !path.exists() {
            "it reported success and wrote nothing; is it a C compiler?".into()
        } else {
            return Ok(());
        };
        Err(CodegenError::Compiler { command: name, message })
    }

    /// Compiles `source` for this machine and loads it. A cached library is loaded without compiling.
    ///
    /// # Safety
    /// `source` was generated by [`source`](fn@super::source) from programs that [`lowered`] returned: it runs in this
    /// process. Its kernels are used with the signatures of the programs that were lowered.
    ///
    /// # Errors
    /// When the compiler fails or the result cannot be loaded.
    pub unsafe fn load(
        &self,
        source: &str,
        target: &Target,
        options: Options,
    ) -> Result<Library, CodegenError> {
        match Cache::of_user()? {
            Some(cache) => self.load_cached(&cache, source, target, options),
            None => library(&self.compile_to_bytes(source, target, options, EmitKind::SharedLibrary)?),
        }
    }

    fn load_cached(
        &self,
        cache: &Cache,
        source: &str,
        target: &Target,
        options: Options,
    ) -> Result<Library, CodegenError> {
        let flags = self.flags(target, options).join(" ");
        let command = self.command.join(" ");
        let key = cache::key(&[source, &flags, &command, &self.version, cpu_id()].map(str::as_bytes));
        if let Some(bytes) = cache.get(&key)
            && let Ok(library) = library(&bytes)
        {
            return Ok(library);
        }
        let bytes = self.compile_to_bytes(source, target, options, EmitKind::SharedLibrary)?;
        if let Err(err) = cache.put(&key, &bytes) {
            let dir = cache.dir().display();
            report::warn(format_args!("the kernel cache in {dir} cannot be written: {err}"));
        }
        library(&bytes)
    }
}

/// The code generator for targets of the kind `c`: the C source goes to the system's compiler.
pub(crate) struct C;

impl CodeGenerator for C {
    fn build(&self, module: &IRModule, target: &Target, options: Options) -> Result<Module, CodegenError> {
        let compiler = Compiler::for_target(target)?;
        parts::load(module, &lowered(module, target)?, |part, sigs| {
            let source = super::source(part)?;
            // SAFETY: the source was generated from programs that were lowered here.
            let library = unsafe { compiler.load(&source, target, options) }?;
            Ok(library.module(sigs)?)
        })
    }

    fn emit(&self, unit: Unit<'_>, kind: EmitKind) -> Result<Vec<u8>, CodegenError> {
        let Unit { kernels, target, options } = unit;
        let code = |kernels, kind| {
            let compiler = Compiler::for_target(target)?;
            compiler.compile_to_bytes(&super::source(kernels)?, target, options, kind)
        };
        match kind {
            EmitKind::C => Ok(super::source(kernels)?.into_bytes()),
            EmitKind::LlvmIr => super::not_supported("output as LLVM IR"),
            EmitKind::Cuda | EmitKind::Ptx | EmitKind::Cubin => {
                super::not_supported("output for GPUs, which a target of kind `cuda` has")
            }
            EmitKind::Asm | EmitKind::Object => code(kernels, kind),
            EmitKind::SharedLibrary => match &parts::parts(kernels)[..] {
                [all] => code(all, kind),
                parts => {
                    let objects = in_parallel(parts, |part| code(part, EmitKind::Object))?;
                    Compiler::for_target(target)?.link(&objects)
                }
            },
        }
    }
}

/// The directory of the user's cache of compiled kernels; `None` if there is no safe location for one.
///
/// # Errors
/// When `TVM_CACHE_DIR` names a directory that others can write to.
pub fn cache_dir() -> Result<Option<std::path::PathBuf>, CodegenError> {
    Ok(Cache::of_user()?.map(|cache| cache.dir().to_path_buf()))
}

/// Loads a library that was compiled from a generated source.
fn library(bytes: &[u8]) -> Result<Library, CodegenError> {
    // SAFETY: the library was compiled from a source generated here, which follows the kernel ABI; a library from the
    // cache was put there by this user, and its seal was checked.
    Ok(unsafe { Library::from_bytes("kernels", bytes)? })
}

/// The flags for compiling sources generated by [`source`](fn@super::source), with gcc or `clang`.
pub fn compile_flags(target: &Target, options: Options, clang: bool) -> Vec<String> {
    let mut flags: Vec<String> =
        ["-std=gnu11", "-w", "-fPIC", "-fvisibility=hidden"].map(String::from).into();
    flags.extend(["-fwrapv", "-fno-math-errno", "-fno-trapping-math", "-fno-finite-loops"].map(String::from));
    flags.push(format!("-O{}", options.opt_level));
    flags.push(format!("-ffp-contract={}", if options.fast_math { "fast" } else { "off" }));
    if options.fast_math {
        // Not `-ffast-math`: linked into a library, it changes how the whole process treats subnormals.
        let relaxed = ["-fassociative-math", "-freciprocal-math", "-ffinite-math-only", "-fno-signed-zeros"];
        flags.extend(relaxed.map(String::from));
    }
    if clang {
        flags.push("-fbracket-depth=100000".into());
    } else {
        // gcc 12 makes a load under a constant mask a load of all lanes, past the end of the buffer.
        flags.push("-fno-tree-loop-if-convert".into());
    }
    match (&target.cpu, &target.triple) {
        (Some(cpu), _) => flags.push(format!("-march={cpu}")),
        (None, None) if cfg!(any(target_arch = "x86_64", target_arch = "x86")) => {
            flags.push("-march=native".into())
        }
        (None, None) => flags.push("-mcpu=native".into()),
        (None, Some(_)) => {}
    }
    for feature in target.features.iter().flat_map(|features| features.split(',')) {
        match feature.split_at_checked(1) {
            Some(("+", name)) => flags.push(format!("-m{name}")),
            Some(("-", name)) => flags.push(format!("-mno-{name}")),
            _ => {}
        }
    }
    flags.extend(clang.then(|| dot_flags(target)).into_iter().flatten());
    let wide = (target.triple.is_none() && target.machine.vector_bits >= 512 && cfg!(target_arch = "x86_64"))
        .then_some("-mprefer-vector-width=512");
    flags.extend(wide.map(String::from));
    flags
}

/// The flags that keep clang from `vpdpbusd`, except where `dot4` has it as assembly: clang makes one of a sum of products of
/// signed and unsigned bytes, and drops all but four of its terms.
fn dot_flags(target: &Target) -> Vec<String> {
    let x86 = match &target.triple {
        Some(triple) => triple.starts_with("x86_64"),
        None => cfg!(target_arch = "x86_64"),
    };
    if !x86 {
        return Vec::new();
    }
    let native = target.triple.is_none() && target.cpu.is_none();
    let named =
        |name: &str| target.features.iter().any(|all| all.split(',').any(|it| it == format!("+{name}")));
    let has = |name: &str| named(name) || native && tvm_runtime::cpu_features().contains(&name);
    let bits = match (has("avx512vnni"), has("avxvnni")) {
        (true, _) => 512,
        (_, true) => 256,
        _ => 0,
    };
    vec!["-mno-avx512vnni".into(), "-mno-avxvnni".into(), format!("-DTVM_VNNI={bits}")]
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CodegenError> {
    std::fs::write(path, bytes)
        .map_err(|source| CodegenError::Io { path: path.display().to_string(), source })
}

/// Text that identifies the CPU, on which `-march=native` depends.
fn cpu_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let wanted = |line: &&str| {
            ["model name", "flags", "Features", "CPU part"].iter().any(|it| line.starts_with(it))
        };
        let lines: std::collections::BTreeSet<&str> = info.lines().filter(wanted).collect();
        format!("{} {}", std::env::consts::ARCH, lines.into_iter().collect::<Vec<_>>().join("\n"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> &'static Compiler {
        Compiler::host().expect("a C compiler: install clang or gcc")
    }

    #[test]
    fn the_cache_is_used_and_mends_itself() {
        let compiler = host();
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache")).unwrap();
        let version = tvm_runtime::abi::ABI_VERSION;
        let source =
            format!("__attribute__((visibility(\"default\"))) const unsigned tvm_abi_version = {version};");
        let load = || compiler.load_cached(&cache, &source, &Target::c(), Options::default()).unwrap();
        load();
        let files: Vec<_> = std::fs::read_dir(cache.dir()).unwrap().map(|it| it.unwrap().path()).collect();
        let [entry] = &files[..] else { panic!("one entry: {files:?}") };
        let whole = std::fs::read(entry).unwrap();
        for broken in [&whole[..whole.len() / 2], b"", b"not a library"] {
            std::fs::write(entry, broken).unwrap();
            load();
            assert_eq!(std::fs::read(entry).unwrap().len(), whole.len());
        }
        let inode = || std::os::unix::fs::MetadataExt::ino(&entry.metadata().unwrap());
        let before = inode();
        load();
        assert_eq!(before, inode(), "a whole entry is not made again");
    }

    #[test]
    fn refusals_carry_what_the_compiler_says() {
        let compiler = host();
        let err = compiler.compile_to_bytes(
            "int x = nonsense;",
            &Target::c(),
            Options::default(),
            EmitKind::Object,
        );
        assert!(err.unwrap_err().to_string().contains("nonsense"));
        let idle = Compiler { command: vec!["true".into()], version: String::new() };
        let err = idle.compile_to_bytes("", &Target::c(), Options::default(), EmitKind::Object);
        assert!(err.unwrap_err().to_string().contains("wrote nothing"));
        let err = Compiler::for_target(&Target::cross(tvm_core::target::TargetKind::C, "no-such-machine"));
        assert!(err.unwrap_err().to_string().contains("no-such-machine-gcc"));
    }
}
