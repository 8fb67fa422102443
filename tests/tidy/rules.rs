//! The rules for single files, with their tables of exceptions.

use crate::source::{self, SourceFile, has_word};

/// Maximum length of a file in lines, tests included.
const MAX_LINES: usize = 600;

/// Files that may be longer: path, reason.
const LONG_FILES: &[(&str, &str)] = &[
    ("tests/generated/graphs.rs", "printed by the round-trip test"),
    ("tests/generated/kernels.rs", "printed by the round-trip test"),
];

/// Files that may contain `unsafe`: path prefix, reason.
const UNSAFE_PLACES: &[(&str, &str)] = &[
    ("tvm-runtime/src/tensor", "tensors own raw, aligned memory and hand out typed views of it"),
    ("tvm-runtime/src/device", "allocation and copies on a device"),
    ("tvm-runtime/src/dtype", "`unsafe trait Element`: the promise that a type's bytes are its data type's"),
    ("tvm-runtime/src/abi", "the C layout that kernels are called with"),
    ("tvm-runtime/src/kernel", "the call of a compiled kernel through its function pointer"),
    ("tvm-runtime/src/host_arg", "checked slices over raw kernel arguments"),
    ("tvm-runtime/src/call", "the typed call: views become raw kernel arguments"),
    ("tvm-runtime/src/context", "per-call state handed to kernels as a raw pointer"),
    ("tvm-runtime/src/thread_pool", "kernels' parallel loops call back through a C function pointer"),
    ("tvm-runtime/src/launch", "raw arguments of a call become addresses on a device"),
    ("tvm-runtime/tests/cuda_driver", "a kernel is made of code that the test itself compiled"),
    ("tvm-runtime/src/trust", "promises that only the caller can make"),
    ("tvm-runtime/src/module", "kernels are looked up in loaded libraries"),
    ("tvm-core/src/script/c_function", "types of C functions, which nothing calls there"),
    (
        "tvm-macros/src/kernel/generate/expr",
        "the type of a C function in an expansion, where the user wrote `unsafe`",
    ),
    ("tvm-cli/src/model", "`tvmc run` runs the machine code of the artifact that its user names"),
    ("src/model/artifact", "artifacts contain machine code; their caller vouches for it"),
    ("tvm-codegen/src/llvm", "the JIT hands out function pointers"),
    ("tvm-codegen/src/driver", "what it lowered itself is loaded"),
    ("tvm-codegen/src/c/load", "the compiled library is loaded"),
    ("tvm-codegen/src/cuda", "driver and NVRTC calls"),
    ("tvm-codegen/tests/compile_module", "artifacts that the test itself compiled are loaded"),
    ("examples/", "an example may show a foreign kernel being called"),
    ("tests/", "tests may call kernels through the C ABI"),
    ("benches/", "benchmarks may call kernels through the C ABI"),
    ("fuzz/", "fuzz targets are C entry points"),
    ("peers/programs/", "kernels of peers are called, and vector instructions timed"),
];

/// Crates that only some modules may refer to: crate, path prefixes.
const CONFINED: &[(&str, &[&str])] = &[
    ("inkwell", &["tvm-codegen/src/llvm"]),
    ("llvm_sys", &["tvm-codegen/src/llvm"]),
    ("cudarc", &["tvm-runtime/src/device/cuda", "tvm-codegen/src/cuda"]),
];

/// Crates whose `lib.rs` must forbid unsafe code.
const FORBID_UNSAFE: [&str; 3] = ["tvm-core", "tvm-macros", "tvm-onnx"];

/// Words that libraries must not contain outside their tests: word, alternative.
const NOT_IN_LIBRARIES: &[(&str, &str)] = &[
    ("print!", "return the text"),
    ("println!", "return the text"),
    ("eprint!", "return the text"),
    ("eprintln!", "return an error or use `tracing`"),
    ("dbg!", "remove it"),
    ("todo!", "return an error that says what is not supported"),
    ("unimplemented!", "return an error that says what is not supported"),
    ("panic!", "return an error"),
];

/// Libraries that may print nevertheless: path prefix, reason.
const PRINTING_PLACES: &[(&str, &str)] = &[
    ("tvm-build/src", "Cargo reads a build script's directives from its standard output"),
    ("tvm-testing/src", "a fuzz run says what it did"),
];

/// Modules that tvm-core must not use, because it performs no file, process or network I/O.
const NOT_IN_CORE: [&str; 3] = ["std::fs", "std::process", "std::net"];

/// Roots of absolute paths that exist only on particular machines.
const MACHINE_ROOTS: [&str; 4] = ["home", "root", "work", "Users"];

/// Sources of trybuild cases: their line numbers are part of the expected errors, and some are not valid Rust.
fn is_ui_case(path: &str) -> bool {
    path.contains("tests/ui/")
}

fn is_library(path: &str) -> bool {
    path.starts_with("src/")
        || path.starts_with("tvm-") && path.contains("/src/") && !path.starts_with("tvm-cli/")
}

fn is_in(path: &str, places: &[(&str, &str)]) -> bool {
    places.iter().any(|(prefix, _)| path.starts_with(prefix))
}

pub(crate) fn header(file: &SourceFile) -> Vec<String> {
    let first = file.text.lines().next().unwrap_or("");
    let says = first.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty());
    if says || is_ui_case(&file.path) {
        vec![]
    } else {
        vec![file.at(0, "the first line is not `//! what this is`")]
    }
}

pub(crate) fn length(file: &SourceFile) -> Vec<String> {
    let n = file.text.lines().count();
    if n <= MAX_LINES || LONG_FILES.iter().any(|(path, _)| *path == file.path) {
        return vec![];
    }
    vec![format!("{}: {n} lines, at most {MAX_LINES}: split it by concept", file.path)]
}

/// Entries of `LONG_FILES` that are no longer needed.
pub(crate) fn stale_exceptions() -> Vec<String> {
    let files = source::files(&["rs"]);
    let long = |path: &str| files.iter().any(|f| f.path == path && f.text.lines().count() > MAX_LINES);
    let stale = LONG_FILES.iter().filter(|(path, _)| !long(path));
    stale.map(|(path, _)| format!("{path} is in LONG_FILES but is not a long file")).collect()
}

pub(crate) fn unsafe_code(file: &SourceFile) -> Vec<String> {
    if is_in(&file.path, UNSAFE_PLACES) {
        return vec![];
    }
    lines_with(file, &file.code(), "unsafe", "`unsafe` outside its places")
}

/// Crates that must forbid unsafe code in their `lib.rs` and do not.
pub(crate) fn missing_forbids() -> Vec<String> {
    let forbids = |krate: &str| {
        let lib = std::fs::read_to_string(source::root().join(krate).join("src/lib.rs")).unwrap_or_default();
        source::code_only(&lib).contains("#![forbid(unsafe_code)]")
    };
    let missing = FORBID_UNSAFE.iter().filter(|krate| !forbids(krate));
    missing.map(|krate| format!("{krate}/src/lib.rs lacks #![forbid(unsafe_code)]")).collect()
}

pub(crate) fn confined_crates(file: &SourceFile) -> Vec<String> {
    let code = file.code();
    let foreign = CONFINED.iter().filter(|(_, places)| !places.iter().any(|p| file.path.starts_with(p)));
    foreign
        .flat_map(|(krate, places)| lines_with(file, &code, krate, &format!("belongs in {places:?}")))
        .collect()
}

pub(crate) fn library_code(file: &SourceFile) -> Vec<String> {
    if !is_library(&file.path) {
        return vec![];
    }
    let code = file.code_without_tests();
    let mut res = Vec::new();
    for (word, instead) in NOT_IN_LIBRARIES {
        if !(word.contains("print") && is_in(&file.path, PRINTING_PLACES)) {
            res.extend(lines_with(file, &code, word, instead));
        }
    }
    if file.path.starts_with("tvm-core/") {
        for word in NOT_IN_CORE {
            res.extend(lines_with(file, &code, word, "tvm-core performs no I/O"));
        }
    }
    res
}

pub(crate) fn test_attributes(file: &SourceFile) -> Vec<String> {
    let code = file.code();
    let mut res = lines_with(file, &code, "#[ignore", "a test either runs or goes");
    res.extend(lines_with(file, &code, "#[should_panic", "test the error value instead"));
    let silent = "a test that cannot check fails";
    for print in ["println!(\"skip", "eprintln!(\"skip"] {
        res.extend(lines_with(file, &file.text, print, silent));
    }
    res
}

pub(crate) fn machine_paths(file: &SourceFile) -> Vec<String> {
    let starts =
        |before: Option<char>| !before.is_some_and(|c| c.is_alphanumeric() || "._-/}~$*".contains(c));
    let names_machine = |line: &str| {
        MACHINE_ROOTS.iter().any(|name| {
            let root = format!("/{name}/");
            line.match_indices(&root).any(|(i, _)| starts(line[..i].chars().next_back()))
        })
    };
    let lines = file.text.lines().enumerate().filter(|(_, line)| names_machine(line));
    lines.map(|(i, _)| file.at(i, "a path of one machine")).collect()
}

/// One finding per line of `code` that contains `word`.
fn lines_with(file: &SourceFile, code: &str, word: &str, why: &str) -> Vec<String> {
    let found = code.lines().enumerate().filter(|(_, line)| {
        let whole = word.chars().all(|c| c.is_alphanumeric() || c == '_');
        if whole { has_word(line, word) } else { contains_macro(line, word) }
    });
    found.map(|(i, _)| file.at(i, &format!("`{word}`: {why}"))).collect()
}

/// Whether `word` occurs in `line` outside of a longer identifier.
fn contains_macro(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(i, _)| !line[..i].chars().next_back().is_some_and(inside))
}

/// Every rule reports its bad samples, and only those.
#[test]
fn rules_find_bad_samples() {
    type Rule = fn(&SourceFile) -> Vec<String>;
    let long = "//! x\n".repeat(MAX_LINES + 1);
    let root = ["", "home", "me", "x"].join("/");
    let cases: Vec<(&str, Rule, &str, &str, usize)> = vec![
        ("no header", header, "tvm-core/src/a.rs", "use std::fmt;\n", 1),
        ("empty header", header, "tvm-core/src/a.rs", "//!\nuse std::fmt;\n", 1),
        ("plain comment", header, "tvm-core/src/a.rs", "// about\n", 1),
        ("header", header, "tvm-core/src/a.rs", "//! About.\n", 0),
        ("ui case", header, "tvm-macros/tests/ui/fail/a.rs", "fn main() {}\n", 0),
        ("long", length, "tvm-core/src/a.rs", &long, 1),
        ("short", length, "tvm-core/src/a.rs", &long[6..], 0),
        ("unsafe", unsafe_code, "tvm-core/src/a.rs", "fn f() { unsafe { g() } }", 1),
        ("unsafe in its place", unsafe_code, "tvm-runtime/src/tensor/a.rs", "unsafe fn f() {}", 0),
        ("c emitter is no place", unsafe_code, "tvm-codegen/src/c/emit.rs", "unsafe fn f() {}", 1),
        ("about unsafe", unsafe_code, "tvm-core/src/a.rs", "// unsafe\n#![forbid(unsafe_code)]", 0),
        ("inkwell", confined_crates, "tvm-codegen/src/c/a.rs", "use inkwell::context::Context;", 1),
        (
            "inkwell at home",
            confined_crates,
            "tvm-codegen/src/llvm/a.rs",
            "use inkwell::context::Context;",
            0,
        ),
        ("cudarc", confined_crates, "tvm-runtime/src/device/mod.rs", "cudarc::driver::init()", 1),
        ("cudarc at home", confined_crates, "tvm-runtime/src/device/cuda.rs", "cudarc::driver::init()", 0),
        ("println", library_code, "tvm-core/src/a.rs", "fn f() { println!(\"x\") }", 1),
        ("eprintln once", library_code, "src/a.rs", "fn f() { eprintln!(\"x\") }", 1),
        ("todo", library_code, "tvm-onnx/src/a.rs", "fn f() { todo!() }", 1),
        ("panic", library_code, "tvm-onnx/src/a.rs", "fn f() { panic!(\"x\") }", 1),
        ("in tests", library_code, "src/a.rs", "#[cfg(test)]\nmod tests { fn f() { panic!() } }", 0),
        ("in a doc example", library_code, "src/a.rs", "/// println!(\"x\")\nfn f() {}", 0),
        ("tvmc prints", library_code, "tvm-cli/src/main.rs", "fn f() { println!(\"x\") }", 0),
        ("directives", library_code, "tvm-build/src/lib.rs", "fn f() { println!(\"cargo::x\") }", 0),
        ("io in core", library_code, "tvm-core/src/a.rs", "use std::fs;", 1),
        ("io in runtime", library_code, "tvm-runtime/src/a.rs", "use std::fs;", 0),
        ("ignored", test_attributes, "tests/a.rs", "#[test]\n#[ignore]\nfn f() {}", 1),
        ("should panic", test_attributes, "tests/a.rs", "#[should_panic(expected = \"x\")]", 1),
        ("skipped", test_attributes, "tests/a.rs", "fn f() { eprintln!(\"skipped: x\"); }", 1),
        ("machine path", machine_paths, "README.md", &root, 1),
        ("relative path", machine_paths, "README.md", "docs/home/x and ./work/x", 0),
    ];
    for (name, rule, path, text, expected) in cases {
        let found = rule(&SourceFile::sample(path, text));
        assert_eq!(found.len(), expected, "{name}: {found:?}");
    }
}
