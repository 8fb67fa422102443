//! Where peers are: a folder outside the tree, with a Python environment and the workers written in Rust. What is missing
//! there is installed or built; what cannot be is a peer less, with a loud line.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::step::{first_line, workspace_root};

/// Python packages: module, package, and whether models cannot be written without it.
const PACKAGES: [(&str, &str, bool); 8] = [
    ("numpy", "numpy", true),
    ("ml_dtypes", "ml_dtypes", true),
    ("onnx", "onnx", true),
    ("onnxruntime", "onnxruntime", false),
    ("openvino", "openvino", false),
    ("jax", "jax", false),
    ("iree.compiler", "iree-base-compiler", false),
    ("iree.runtime", "iree-base-runtime", false),
];

/// Workers in Rust: program, feature, whether nothing works without it.
const PROGRAMS: [(&str, &str, bool); 4] = [
    ("w_machine", "", true),
    ("w_blas", "blas", false),
    ("w_rten", "rten", false),
    ("w_candle", "candle", false),
];

/// The folder of the peers, and our own program.
pub(crate) struct Home {
    root: PathBuf,
    tvmc: PathBuf,
    target: String,
}

impl Home {
    /// Finds the folder: `PERF_HOME`, else `tvm-bench` in the user's cache.
    ///
    /// # Errors
    /// When no folder is known, or it cannot be created.
    pub(crate) fn find(tvmc: PathBuf, target: String) -> Result<Self, String> {
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
    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The folder of what workers write to standard error.
    pub(crate) fn logs(&self) -> PathBuf {
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
    pub(crate) fn python(&self) -> PathBuf {
        self.root.join("venv").join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
    }

    /// Installs and builds what is missing.
    ///
    /// # Errors
    /// When something is missing without which nothing can be compared.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        println!("peers are in {}", self.root.display());
        if !self.python().exists() {
            let venv = self.root.join("venv");
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv), "python3 -m venv")?;
        }
        for (module, package, needed) in PACKAGES {
            if self.has(module) {
                continue;
            }
            println!("installing {package}");
            let mut pip = Command::new(self.python());
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]);
            lost(package, needed, run(&mut pip, &format!("pip install {package}")))?;
        }
        if !self.has("torch") {
            println!(
                "SKIPPED: torch is not in the Python environment, and too large to be installed unasked"
            );
        }
        self.build_programs()
    }

    fn has(&self, module: &str) -> bool {
        let code = format!("import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)");
        let mut python = Command::new(self.python());
        python.args(["-c", &code]).stderr(Stdio::null());
        python.status().is_ok_and(|it| it.success())
    }

    fn build_programs(&self) -> Result<(), String> {
        let from = workspace_root().join("xtask").join("peers");
        let mut newer = false;
        for entry in std::fs::read_dir(&from).map_err(|e| format!("{}: {e}", from.display()))?.flatten() {
            let to = self.sources().join(entry.file_name());
            let text = std::fs::read(entry.path()).unwrap_or_default();
            if std::fs::read(&to).ok().as_ref() != Some(&text) {
                newer = true;
                std::fs::write(&to, text).map_err(|e| format!("{}: {e}", to.display()))?;
            }
        }
        for (name, feature, needed) in PROGRAMS {
            if self.program(name).exists() && !newer {
                continue;
            }
            println!("building {name}");
            let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string()));
            cargo.args(["build", "--quiet", "--release", "--bin", name, "--features", feature]);
            cargo.current_dir(self.sources()).env("CARGO_TARGET_DIR", self.programs());
            cargo.env("RUSTFLAGS", "-C target-cpu=native").env_remove("CARGO_ENCODED_RUSTFLAGS");
            lost(name, needed, run(&mut cargo, &format!("cargo build --bin {name}")))?;
        }
        Ok(())
    }

    /// Writes the models and inputs of all specifications; answers the cases in the same order, as JSON.
    ///
    /// # Errors
    /// When the script fails.
    pub(crate) fn cases(&self, specs: &[&str]) -> Result<Vec<String>, String> {
        let list = self.data().join("specs.json");
        let text = format!("[{}]", specs.join(",\n"));
        std::fs::write(&list, text).map_err(|e| format!("{}: {e}", list.display()))?;
        let file = std::fs::File::open(&list).map_err(|e| format!("{}: {e}", list.display()))?;
        let mut python = Command::new(self.python());
        python.arg(script("models.py")).arg(self.data()).stdin(file).stderr(Stdio::inherit());
        let output = python.output().map_err(|e| format!("cannot start {python:?}: {e}"))?;
        let cases: Vec<String> =
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect();
        if output.status.success() && cases.len() == specs.len() {
            Ok(cases)
        } else {
            Err(format!("models.py wrote {} of {} cases", cases.len(), specs.len()))
        }
    }

    /// The command of an engine.
    pub(crate) fn command(&self, engine: &str) -> Command {
        match engine {
            "tvm" => {
                let mut command = Command::new(&self.tvmc);
                command.args(["worker", "bench", "--target", &self.target]);
                command
            }
            "gemm" | "faer" | "matrixmultiply" => {
                let mut command = Command::new(self.program("w_blas"));
                command.arg(engine);
                command
            }
            "machine" | "rten" | "candle" => Command::new(self.program(&format!("w_{engine}"))),
            _ => {
                let mut command = Command::new(self.python());
                command.arg(script("worker.py")).arg(engine);
                // OpenBLAS in wheels takes AVX2 kernels on processors that it does not know.
                if engine == "numpy" && avx512() {
                    command.env("OPENBLAS_CORETYPE", "SKYLAKEX");
                }
                command
            }
        }
    }

    /// Names of the peers with their versions.
    pub(crate) fn versions(&self) -> Vec<String> {
        let mut res = Vec::new();
        for module in ["onnxruntime", "openvino", "jax", "iree-base-compiler", "numpy", "torch"] {
            let code = format!("import importlib.metadata as m; print(m.version('{module}'))");
            res.extend(first_line(self.python(), &["-c", &code]).map(|it| format!("{module} {it}")));
        }
        let lock = std::fs::read_to_string(self.sources().join("Cargo.lock")).unwrap_or_default();
        for name in ["gemm", "faer", "matrixmultiply", "rten", "candle-core"] {
            let entry = lock.split("[[package]]").find(|it| it.contains(&format!("name = \"{name}\"\n")));
            let version = entry.and_then(|it| it.split_once("version = \"")?.1.split_once('"'));
            res.extend(version.map(|(version, _)| format!("{name} {version}")));
        }
        res
    }
}

/// The path of a script of this command.
fn script(name: &str) -> PathBuf {
    workspace_root().join("xtask").join("src").join("bench").join(name)
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

/// What is lost by a failed step: everything, or one peer.
fn lost(what: &str, needed: bool, res: Result<(), String>) -> Result<(), String> {
    match res {
        Err(e) if needed => Err(format!("{what} is needed: {e}")),
        Err(e) => {
            println!("SKIPPED: the peer {what}: {e}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Finds the program to measure, and builds it if no path is given.
///
/// # Errors
/// When it cannot be built.
pub(crate) fn tvmc(given: Option<PathBuf>, llvm: bool) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return Ok(path);
    }
    let root = workspace_root();
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string()));
    cargo.args(["build", "--release", "-p", "tvm-cli"]).current_dir(&root);
    if llvm {
        cargo.args(["--features", "llvm"]);
    } else {
        println!(
            "SKIPPED: LLVM 19 is not installed; our side is compiled by the C compiler (`cargo xtask setup`)"
        );
    }
    run(&mut cargo, "cargo build --release -p tvm-cli")?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(Path::new(&folder).join("release").join(format!("tvmc{}", std::env::consts::EXE_SUFFIX)))
}
