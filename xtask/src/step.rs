//! Steps of a task: each is a child process in the workspace root, with a heading and a recorded time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The workspace root: the parent of this crate's folder.
pub(crate) fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder of what Cargo builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

/// Runs steps one after the other and records the time of each.
pub(crate) struct Steps {
    started: Instant,
    done: Vec<(String, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), done: Vec::new() }
    }

    /// Runs `cargo ARGS`, with `env` added to the environment.
    ///
    /// # Errors
    /// The name and exit status of the step, when it cannot be started or fails.
    pub(crate) fn cargo(&mut self, name: &str, env: &[(&str, &str)], args: &[&str]) -> Result<(), String> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
        let mut command = Command::new(cargo);
        command.args(args).envs(env.iter().copied()).current_dir(workspace_root());
        let shown: String = env
            .iter()
            .map(|(k, v)| format!("{k}=\"{v}\" "))
            .chain([format!("cargo {}", args.join(" "))])
            .collect();
        self.run(name, &shown, || run(&mut command, &shown))
    }

    /// Runs a step that is a function of this program.
    ///
    /// # Errors
    /// The errors of `work`, preceded by the name of the step.
    pub(crate) fn run(
        &mut self,
        name: &str,
        shown: &str,
        work: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        println!("\n=== {name}: {shown}");
        let start = Instant::now();
        let res = work();
        let took = start.elapsed();
        println!("=== {name}: {} in {:.1} s", if res.is_ok() { "ok" } else { "FAILED" }, took.as_secs_f64());
        self.done.push((name.to_string(), took));
        res.map_err(|e| format!("step `{name}` failed: {e}"))
    }

    /// Prints every step with its time, and the total.
    pub(crate) fn summary(&self) {
        println!("\n=== all steps passed");
        for (name, took) in &self.done {
            println!("{:>8.1} s  {name}", took.as_secs_f64());
        }
        println!("{:>8.1} s  total", self.started.elapsed().as_secs_f64());
    }
}

/// Runs a command with inherited output.
///
/// # Errors
/// When the command cannot be started or fails.
pub(crate) fn run(command: &mut Command, shown: &str) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` ended with {status}")),
        Err(e) => Err(format!("cannot start `{shown}`: {e}")),
    }
}

/// The first line of a command's output; `None` if the command cannot be started or fails.
pub(crate) fn first_line(program: impl AsRef<Path>, args: &[&str]) -> Option<String> {
    let out = Command::new(program.as_ref()).args(args).output().ok().filter(|out| out.status.success())?;
    String::from_utf8_lossy(&out.stdout).lines().next().map(str::to_string)
}
