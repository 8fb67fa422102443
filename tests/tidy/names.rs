//! No two public types of the libraries have the same name.

use std::collections::BTreeMap;

use crate::source::{self, SourceFile};

/// Words that start the definition of a public type.
const DEFINITIONS: [&str; 4] = ["pub struct ", "pub enum ", "pub trait ", "pub type "];

/// Names that types of several crates have nevertheless, with the reason.
const SHARED: &[(&str, &str)] = &[
    ("Kernel", "a kernel that is ready to run, and in a build script one that is to be compiled"),
    ("Model", "options of a model, in an application and in its build script: no program sees both"),
];

pub(crate) fn findings() -> Vec<String> {
    let files = source::files(&["rs"]);
    let is_library = |file: &&SourceFile| file.path.starts_with("src/") || file.path.contains("/src/");
    shared_names(files.iter().filter(is_library).filter(|file| !file.path.starts_with("examples/")))
}

/// A finding for each name that several definitions have.
fn shared_names<'a>(files: impl Iterator<Item = &'a SourceFile>) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        for (name, line) in public_types(file) {
            places.entry(name).or_default().push(format!("{}:{line}", file.path));
        }
    }
    let shared = places
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !SHARED.iter().any(|(it, _)| it == name));
    shared
        .map(|(name, places)| format!("several public types are named `{name}`: {}", places.join(", ")))
        .collect()
}

/// The types that `file` defines at its top level, with their lines.
fn public_types(file: &SourceFile) -> Vec<(String, usize)> {
    let name = |line: &str| {
        let rest = DEFINITIONS.iter().find_map(|words| line.strip_prefix(words))?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        Some(rest[..end].to_string())
    };
    let code = file.code_without_tests();
    code.lines().enumerate().filter_map(|(i, line)| Some((name(line)?, i + 1))).collect()
}

#[test]
fn shared_names_are_found() {
    let file = |path: &str, text: &str| SourceFile::sample(path, text);
    let files = [
        file("tvm-a/src/a.rs", "pub struct Value<T>(T);\npub enum Other {}\nstruct Own;"),
        file("tvm-b/src/b.rs", "// pub struct Own;\npub trait Value: Copy {}\npub(crate) struct Other;"),
        file("tvm-b/src/c.rs", "pub type Own = u8;\nimpl X { pub fn f() {} }"),
    ];
    let want = "several public types are named `Value`: tvm-a/src/a.rs:1, tvm-b/src/b.rs:2";
    assert_eq!(shared_names(files.iter()), [want]);
}
