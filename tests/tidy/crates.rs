//! Allowed dependencies between the crates of the workspace, checked against the `Cargo.toml` files.

use crate::source;

/// Crate, folder, and the crates of the workspace that it may link (tests may use more).
const GRAPH: &[(&str, &str, &[&str])] = &[
    ("tvm", "", &["tvm-macros", "tvm-core", "tvm-codegen", "tvm-runtime", "tvm-onnx"]),
    ("tvm-macros", "tvm-macros", &[]),
    ("tvm-core", "tvm-core", &["tvm-runtime"]),
    ("tvm-codegen", "tvm-codegen", &["tvm-core", "tvm-runtime"]),
    ("tvm-runtime", "tvm-runtime", &[]),
    ("tvm-onnx", "tvm-onnx", &["tvm-core", "tvm-runtime"]),
    ("tvm-build", "tvm-build", &["tvm-codegen", "tvm-core", "tvm-onnx", "tvm-runtime"]),
    ("tvm-cli", "tvm-cli", &["tvm-build", "tvm-codegen", "tvm-core", "tvm-onnx", "tvm-peers", "tvm-runtime"]),
    ("tvm-peers", "peers", &[]),
    ("tvm-testing", "tvm-testing", &[]),
    ("tvm-benches", "benches", &[]),
    ("xtask", "xtask", &[]),
];

/// Members that are missing in the graph, and dependencies that the graph does not allow.
pub(crate) fn findings() -> Vec<String> {
    let manifest = |dir: &str| {
        let path = source::root().join(dir).join("Cargo.toml");
        std::fs::read_to_string(&path).unwrap_or_else(|e| format!("# {}: {e}", path.display()))
    };
    let mut res = Vec::new();
    for member in members(&manifest("")) {
        if !GRAPH.iter().any(|(_, dir, _)| *dir == member) && !member.starts_with("examples/") {
            res.push(format!("workspace member {member} is not in the crate graph of tests/tidy/crates.rs"));
        }
    }
    for (krate, dir, may) in GRAPH {
        res.extend(bad_edges(krate, &manifest(dir), may));
    }
    res
}

/// The `members` of a workspace manifest.
fn members(manifest: &str) -> Vec<String> {
    let list = manifest.split_once("\nmembers = [").and_then(|(_, rest)| rest.split_once(']'));
    let names = list.map_or("", |(list, _)| list).split(',');
    names.map(|name| name.trim().trim_matches('"').to_string()).filter(|name| !name.is_empty()).collect()
}

/// Dependencies of `krate` on crates of the workspace that are not in `may`. Development dependencies are not restricted.
fn bad_edges(krate: &str, manifest: &str, may: &[&str]) -> Vec<String> {
    let ours = |name: &str| GRAPH.iter().any(|(krate, _, _)| *krate == name);
    let mut res = vec![];
    for name in dependencies(manifest) {
        if ours(&name) && !may.contains(&name.as_str()) {
            res.push(format!("{krate} depends on {name}; it may depend on {may:?} only"));
        }
    }
    if !manifest.contains(&format!("name = \"{krate}\"")) {
        res.push(format!("no manifest of {krate} found"));
    }
    res
}

/// The names under `[dependencies]` and `[build-dependencies]`, for all targets, in both TOML spellings.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut res = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            let (table, name) = match section.rsplit_once("dependencies.") {
                Some((head, name)) => (format!("{head}dependencies"), Some(name)),
                None => (section.to_string(), None),
            };
            let last = table.rsplit('.').next().unwrap_or("");
            inside = matches!(last, "dependencies" | "build-dependencies") && !table.starts_with("workspace");
            if let (true, Some(name)) = (inside, name) {
                res.push(name.trim_matches('"').to_string());
                inside = false;
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let end = line.find(['.', '=', ' ']).unwrap_or(line.len());
            res.push(line[..end].trim_matches('"').to_string());
        }
    }
    res
}

#[test]
fn dependencies_are_found_in_every_spelling() {
    let manifest = r#"
[package]
name = "x"
[dependencies]
tvm-core.workspace = true
# tvm-cli = "1"
tvm-onnx = { path = "../tvm-onnx" }
[dependencies.tvm-build]
path = "../tvm-build"
[dev-dependencies]
tvm = "1"
[target.'cfg(unix)'.dependencies]
tvm-runtime = "1"
[build-dependencies]
tvm-codegen = "1"
[workspace.dependencies]
tvm-macros = "1"
[features]
tvm-cli = []
"#;
    assert_eq!(dependencies(manifest), ["tvm-core", "tvm-onnx", "tvm-build", "tvm-runtime", "tvm-codegen"]);
    assert_eq!(bad_edges("x", manifest, &["tvm-core", "tvm-onnx", "tvm-build", "tvm-runtime"]).len(), 1);
    assert_eq!(bad_edges("y", "", &[]), ["no manifest of y found"]);
    assert_eq!(members("[workspace]\nmembers = [\"a\", \"b/c\"]\n"), ["a", "b/c"]);
}
