//! Where peers are: a folder outside the tree, with a Python environment and the workers written in Rust. What is missing
//! there is installed or built; what cannot be is a peer less, with a line that says so.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::row::{FOR_C, Given, Row};

/// A library to compare with: the name of its worker, what it is called, and what its worker needs.
pub struct Engine {
    /// Name, as in `--vs`.
    pub name: &'static str,
    /// The package's own name, where it is another; understood as well.
    pub alias: &'static str,
    worker: Source,
}

/// How a worker comes to be.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// A script with these Python packages: module, and package to install.
    Python(&'static [(&'static str, &'static str)]),
    /// A Rust program, and the feature to build it with.
    Rust(&'static str, &'static str),
}

const fn python(
    name: &'static str,
    alias: &'static str,
    packages: &'static [(&'static str, &'static str)],
) -> Engine {
    Engine { name, alias, worker: Source::Python(packages) }
}

const fn rust(name: &'static str, program: &'static str, feature: &'static str) -> Engine {
    Engine { name, alias: name, worker: Source::Rust(program, feature) }
}

/// All libraries that can be compared with.
pub const ENGINES: &[Engine] = &[
    rust("gemm", "w_blas", "blas"),
    rust("faer", "w_blas", "blas"),
    rust("matrixmultiply", "w_blas", "blas"),
    rust("candle", "w_candle", "candle"),
    rust("rten", "w_rten", "rten"),
    rust("tract", "w_tract", "tract"),
    python("ort", "onnxruntime", &[("onnxruntime", "onnxruntime")]),
    python("openvino", "openvino", &[("openvino", "openvino")]),
    python("openvino-bf16", "openvino-bf16", &[("openvino", "openvino")]),
    python("numpy", "openblas", &[]),
    python("jax", "xla", &[("jax", "jax")]),
    python("iree", "iree", &[("iree.compiler", "iree-base-compiler"), ("iree.runtime", "iree-base-runtime")]),
    python("torch", "pytorch", &[("torch", "")]),
    python("torch-cuda", "pytorch-cuda", &[("torch", "")]),
];

/// The library of that name.
pub fn engine(name: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|it| it.name == name || it.alias == name)
}

/// Python packages that write the models of kernels, and read their inputs.
const MODELS: &[(&str, &str)] = &[("numpy", "numpy"), ("ml_dtypes", "ml_dtypes"), ("onnx", "onnx")];

/// The program that measures the machine's limits.
const MACHINE: Source = Source::Rust("w_machine", "");

/// Files of the workers, which are written into the folder of the peers.
const FILES: &[(&str, &str)] = &[
    ("conformance.py", include_str!("../python/conformance.py")),
    ("cuda.py", include_str!("../python/cuda.py")),
    ("frozen.py", include_str!("../python/frozen.py")),
    ("hostile.py", include_str!("../python/hostile.py")),
    ("hostile_models.py", include_str!("../python/hostile_models.py")),
    ("matrix.py", include_str!("../python/matrix.py")),
    ("mutate.py", include_str!("../python/mutate.py")),
    ("mutate_consistent.py", include_str!("../python/mutate_consistent.py")),
    ("mutate_graph.py", include_str!("../python/mutate_graph.py")),
    ("mutate_values.py", include_str!("../python/mutate_values.py")),
    ("models.py", include_str!("../python/models.py")),
    ("networks.py", include_str!("../python/networks.py")),
    ("real.py", include_str!("../python/real.py")),
    ("worker.py", include_str!("../python/worker.py")),
    ("Cargo.toml", include_str!("../programs/Cargo.toml")),
    ("blas.rs", include_str!("../programs/blas.rs")),
    ("candle.rs", include_str!("../programs/candle.rs")),
    ("machine.rs", include_str!("../programs/machine.rs")),
    ("protocol.rs", include_str!("../programs/protocol.rs")),
    ("rten.rs", include_str!("../programs/rten.rs")),
    ("tract.rs", include_str!("../programs/tract.rs")),
];

/// The folder of the peers, and our own program.
pub struct Home {
    root: PathBuf,
    tvmc: PathBuf,
    target: String,
}

impl Home {
    /// Finds the folder: `PERF_HOME`, else `tvm-bench` in the user's cache.
    ///
    /// # Errors
    /// When no folder is known, or it cannot be created.
    pub fn find(tvmc: PathBuf, target: String) -> Result<Self, String> {
        let var = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let root = var("PERF_HOME")
            .or_else(|| Some(var("XDG_CACHE_HOME")?.join("tvm-bench")))
            .or_else(|| Some(var("HOME")?.join(".cache").join("tvm-bench")))
            .ok_or("set PERF_HOME to a folder for the peers, outside of the tree")?;
        let home = Self { root, tvmc, target };
        for folder in [home.data(), home.logs(), home.sources()] {
            std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        Ok(home)
    }

    /// The folder of models and inputs.
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The folder of what workers write to standard error.
    pub fn logs(&self) -> PathBuf {
        self.root.join("log")
    }

    fn sources(&self) -> PathBuf {
        self.root.join("peers")
    }

    fn programs(&self) -> PathBuf {
        self.root.join("build").join("cargo")
    }

    fn program(&self, name: &str) -> PathBuf {
        self.programs().join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    /// The interpreter of the Python environment.
    pub fn python(&self) -> PathBuf {
        self.root.join("venv").join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
    }

    /// A script of the peers.
    pub fn script(&self, name: &str) -> PathBuf {
        self.sources().join(name)
    }

    /// Installs the Python packages of some libraries, and those that write and read models.
    ///
    /// # Errors
    /// When one of them cannot be installed.
    pub fn prepare_python(&self, engines: &[&str], say: &dyn Fn(String)) -> Result<(), String> {
        say(format!("peers are in {}", self.root.display()));
        self.write_files()?;
        self.install(MODELS, say)?;
        for worker in engines.iter().filter_map(|it| engine(it)).map(|it| it.worker) {
            if let Source::Python(packages) = worker {
                self.install(packages, say)?;
            }
        }
        Ok(())
    }

    /// Installs and builds what is missing for some libraries, for models of kernels if `models`, and for the limits of
    /// the machine. What cannot be had is a library less, and `say` gets a line that begins with `SKIPPED`.
    ///
    /// # Errors
    /// When something is missing without which nothing can be compared.
    pub fn prepare(&self, engines: &[&str], models: bool, say: &dyn Fn(String)) -> Result<(), String> {
        say(format!("peers are in {}", self.root.display()));
        let rust_changed = self.write_files()?;
        let mut workers: Vec<Source> = if self.on_gpu() { Vec::new() } else { vec![MACHINE] };
        for worker in engines.iter().filter_map(|it| engine(it)).map(|it| it.worker) {
            if !workers.contains(&worker) {
                workers.push(worker);
            }
        }
        if models || workers.iter().any(|it| matches!(it, Source::Python(_))) {
            self.install(MODELS, say)?;
        }
        let mut built = Vec::new();
        for worker in workers {
            let (what, done) = match worker {
                Source::Python(packages) => {
                    (packages.first().map_or("", |it| it.0), self.install(packages, say))
                }
                Source::Rust(program, _) if built.contains(&program) => continue,
                Source::Rust(program, feature) => {
                    built.push(program);
                    (program, self.build(program, feature, rust_changed, say))
                }
            };
            if let Err(e) = done {
                say(format!("SKIPPED: {what}: {e}"));
            }
        }
        Ok(())
    }

    /// Writes the files of the workers; answers whether one of a program in Rust changed.
    fn write_files(&self) -> Result<bool, String> {
        let mut changed = false;
        for (name, text) in FILES {
            let path = self.sources().join(name);
            if std::fs::read_to_string(&path).ok().as_deref() != Some(text) {
                changed |= Path::new(name).extension().is_none_or(|it| it != "py");
                std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
        Ok(changed)
    }

    /// Installs Python packages; those without a name to install are used only where they are.
    fn install(&self, packages: &[(&str, &str)], say: &dyn Fn(String)) -> Result<(), String> {
        if !self.python().exists() {
            let venv = self.root.join("venv");
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv), "python3 -m venv")?;
        }
        for (module, package) in packages {
            if self.has(module) {
                continue;
            }
            if package.is_empty() {
                return Err(format!(
                    "not in the Python environment, and too large to be installed unasked: \
                     `{} -m pip install {module}`",
                    self.python().display()
                ));
            }
            say(format!("installing {package}"));
            let mut pip = Command::new(self.python());
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
            run(&mut pip, &format!("pip install {package}"))?;
        }
        Ok(())
    }

    fn has(&self, module: &str) -> bool {
        let code = format!("import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)");
        let mut python = Command::new(self.python());
        python.args(["-c", &code]).stderr(Stdio::null());
        python.status().is_ok_and(|it| it.success())
    }

    /// Builds a program, if it is missing or `anew`.
    fn build(&self, program: &str, feature: &str, anew: bool, say: &dyn Fn(String)) -> Result<(), String> {
        if self.program(program).exists() && !anew {
            return Ok(());
        }
        say(format!("building {program}"));
        let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string()));
        cargo.args(["build", "--quiet", "--release", "--bin", program, "--features", feature]);
        cargo.current_dir(self.sources()).env("CARGO_TARGET_DIR", self.programs());
        cargo.env("RUSTFLAGS", "-C target-cpu=native").env_remove("CARGO_ENCODED_RUSTFLAGS");
        run(&mut cargo, &format!("cargo build --bin {program}"))
    }

    /// Writes the models and inputs of the kernels of some rows; answers the case of each specification.
    ///
    /// # Errors
    /// When the script fails.
    pub fn cases(&self, rows: &[Row]) -> Result<HashMap<String, String>, String> {
        let specs: BTreeSet<&str> = (rows.iter().flat_map(|row| &row.contestants))
            .filter_map(|it| if let Given::Spec(spec) = &it.given { Some(spec.as_str()) } else { None })
            .collect();
        let specs: Vec<&str> = specs.into_iter().collect();
        if specs.is_empty() {
            return Ok(HashMap::new());
        }
        let list = self.data().join("specs.json");
        let text = format!("[{}]", specs.join(",\n"));
        std::fs::write(&list, text).map_err(|e| format!("{}: {e}", list.display()))?;
        let file = std::fs::File::open(&list).map_err(|e| format!("{}: {e}", list.display()))?;
        let mut python = Command::new(self.python());
        python.arg(self.sources().join("models.py")).arg(self.data()).stdin(file).stderr(Stdio::inherit());
        let output = python.output().map_err(|e| format!("cannot start {python:?}: {e}"))?;
        let cases: Vec<String> =
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect();
        if output.status.success() && cases.len() == specs.len() {
            Ok(specs.iter().map(ToString::to_string).zip(cases).collect())
        } else {
            Err(format!("models.py wrote {} of {} cases", cases.len(), specs.len()))
        }
    }

    /// The command of an engine.
    pub fn command(&self, engine: &str) -> Command {
        match engine {
            "tvm" | FOR_C => {
                let mut command = Command::new(&self.tvmc);
                let target = if engine == FOR_C { "c" } else { &self.target };
                command.args(["worker", "bench", "--target", target]);
                command
            }
            "gemm" | "faer" | "matrixmultiply" => {
                let mut command = Command::new(self.program("w_blas"));
                command.arg(engine);
                command
            }
            "machine" if self.on_gpu() => self.script_of("torch-cuda"),
            "machine" | "rten" | "tract" | "candle" => Command::new(self.program(&format!("w_{engine}"))),
            _ => {
                let mut command = self.script_of(engine);
                // OpenBLAS in wheels takes AVX2 kernels on processors that it does not know.
                if engine == "numpy" && avx512() {
                    command.env("OPENBLAS_CORETYPE", "SKYLAKEX");
                }
                command
            }
        }
    }

    /// The worker in Python for an engine.
    fn script_of(&self, engine: &str) -> Command {
        let mut command = Command::new(self.python());
        command.arg(self.sources().join("worker.py")).arg(engine);
        command
    }

    /// True if our programs run on a GPU; its limits are then those that PyTorch reaches.
    pub(crate) fn on_gpu(&self) -> bool {
        self.target.split_whitespace().next() == Some("cuda")
    }

    /// Names of some libraries with their versions.
    pub fn versions(&self, engines: &[&str]) -> Vec<String> {
        let lock = std::fs::read_to_string(self.sources().join("Cargo.lock")).unwrap_or_default();
        let in_lock = |name: &str| {
            let entry = lock.split("[[package]]").find(|it| it.contains(&format!("name = \"{name}\"\n")))?;
            let version = entry.split_once("version = \"")?.1.split_once('"')?.0;
            Some(format!("{name} {version}"))
        };
        let in_python = |module: &str| {
            let code = format!("import importlib.metadata as m; print(m.version('{module}'))");
            first_line(self.python(), &["-c", &code]).map(|it| format!("{module} {it}"))
        };
        let mut res: Vec<String> = Vec::new();
        for it in ENGINES.iter().filter(|it| engines.contains(&it.name)) {
            let version = match it.worker {
                Source::Rust(_, "candle") => in_lock("candle-core"),
                Source::Rust(_, "tract") => in_lock("tract-onnx"),
                Source::Rust(..) => in_lock(it.name),
                Source::Python(packages) => {
                    // One that is not installed unasked has the name of its module.
                    let package = packages.first().map(|it| if it.1.is_empty() { it.0 } else { it.1 });
                    in_python(package.unwrap_or(it.name))
                }
            };
            res.extend(version.filter(|it| !res.contains(it)));
        }
        res
    }
}

fn avx512() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|it| it.contains(" avx512f "))
}

/// Name of the processor.
pub(crate) fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|it| it.starts_with("model name"));
    let name = line.and_then(|it| it.split_once(':')).map(|(_, name)| name.trim().to_string());
    name.or_else(|| first_line("sysctl", &["-n", "machdep.cpu.brand_string"]))
        .unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

fn run(command: &mut Command, shown: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(e) => Err(format!("cannot start `{shown}`: {e}")),
    }
}

/// The first line that a program prints; `None` if it fails.
fn first_line(program: impl AsRef<OsStr>, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().filter(|_| output.status.success()).map(str::to_string)
}
