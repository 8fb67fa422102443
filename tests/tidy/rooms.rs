//! The rooms of `tvm-core` and `tvm-macros`: a module uses its own room and the rooms below it. Tests may use all rooms.
//!
//! What a lower room looks up among the things of upper rooms is an associated item of a type of the lower room, which
//! an upper room implements: `OpRegistry::BUILT_IN` (the tables of operators), `Pass::BUILT_IN` (the passes),
//! `Pipelines::for_target`, `BaseFunc::check_rules`.

use crate::source::{self, SourceFile};

/// A crate, and its rooms from the bottom to the top: names of modules of the crate. The modules of one room are
/// independent of each other.
struct House {
    src: &'static str,
    rooms: &'static [&'static [&'static str]],
}

const HOUSES: &[House] = &[
    House {
        src: "tvm-core/src/",
        rooms: &[
            &["support"],
            &["ir", "target"],
            &["arith", "pass"],
            &["tir"],
            &["dlight", "te"],
            &["topi"],
            &["relax"],
            &["script", "relay"],
            &["printer", "pipeline"],
        ],
    },
    House {
        src: "tvm-macros/src/",
        rooms: &[
            &["error", "paths", "rounding"],
            &["bounds", "dims", "operators"],
            &["options"],
            &["kernel"],
            &["graph", "schedule"],
        ],
    },
];

/// Arrows that lead upwards or sideways, and modules without a room.
pub(crate) fn findings() -> Vec<String> {
    let files = source::files(&["rs"]);
    HOUSES.iter().flat_map(|house| house.findings(&files)).collect()
}

impl House {
    fn findings(&self, files: &[SourceFile]) -> Vec<String> {
        let files: Vec<&SourceFile> = files.iter().filter(|file| file.path.starts_with(self.src)).collect();
        let tests: Vec<String> = files.iter().flat_map(|file| test_modules(file)).collect();
        let is_test = |path: &str| tests.iter().any(|test| path.starts_with(test.as_str()));
        let mut res = Vec::new();
        for file in
            files.iter().filter(|file| !is_test(&file.path) && file.path != format!("{}lib.rs", self.src))
        {
            let name = module_of(&file.path[self.src.len()..]);
            match self.floor(name) {
                Some(floor) => res.extend(self.arrows(file, name, floor)),
                None => res.push(file.at(0, &format!("module `{name}` has no room in tests/tidy/rooms.rs"))),
            }
        }
        res
    }

    fn floor(&self, module: &str) -> Option<usize> {
        self.rooms.iter().position(|room| room.contains(&module))
    }

    /// The modules that `file`, of the module `from` on `floor`, may not use but does.
    fn arrows(&self, file: &SourceFile, from: &str, floor: usize) -> Vec<String> {
        let code = file.code_without_tests();
        let mut res = Vec::new();
        for (i, _) in code.match_indices("crate::") {
            let line = code[..i].matches('\n').count();
            for module in first_names(&code[i + "crate::".len()..]) {
                if module != from && self.floor(module).is_some_and(|it| it >= floor) {
                    res.push(
                        file.at(line, &format!("`{from}` must not use `{module}`, which is not below it")),
                    );
                }
            }
        }
        res
    }
}

/// The module of the crate that `path`, relative to its `src`, belongs to.
fn module_of(path: &str) -> &str {
    let name = path.split('/').next().unwrap_or(path);
    name.strip_suffix(".rs").unwrap_or(name)
}

/// The names that follow `crate::` in a path or at the first level of a list of paths.
fn first_names(rest: &str) -> Vec<&str> {
    let name = |text: &str| {
        text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').map(char::len_utf8).sum()
    };
    let Some(list) = rest.strip_prefix('{') else {
        let len: usize = name(rest);
        return vec![&rest[..len]];
    };
    let (mut depth, mut start, mut res) = (0, true, Vec::new());
    for (i, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            _ if start && !c.is_whitespace() => {
                let len: usize = name(&list[i..]);
                res.push(&list[i..i + len]);
                start = false;
            }
            _ => {}
        }
    }
    res
}

/// The paths of the modules that `file` declares for tests only, without extension.
fn test_modules(file: &SourceFile) -> Vec<String> {
    let dir = match file.path.strip_suffix("/mod.rs").or(file.path.strip_suffix("/lib.rs")) {
        Some(dir) => dir,
        None => file.path.strip_suffix(".rs").unwrap_or(&file.path),
    };
    let code = file.code();
    let declared = code.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
        let rest = rest.trim_start().trim_start_matches("pub(crate) ").strip_prefix("mod ")?;
        Some(format!("{dir}/{}", rest.split_once(';')?.0)).filter(|path| !path.contains(char::is_whitespace))
    });
    declared.collect()
}

#[test]
fn arrows_are_found_in_every_spelling() {
    let house = House { src: "x/src/", rooms: &[&["low", "beside"], &["mid"], &["high"]] };
    let found = |path: &str, text: &str| house.findings(&[SourceFile::sample(path, text)]).len();
    assert_eq!(found("x/src/mid.rs", "use crate::low::a;\nuse crate::mid::b;\nuse crate::{low, mid};"), 0);
    assert_eq!(found("x/src/mid.rs", "use crate::high::a;"), 1);
    assert_eq!(found("x/src/mid/part.rs", "fn f() {\n    crate::high::f();\n}"), 1);
    assert_eq!(found("x/src/mid.rs", "use crate::{\n    low::{a, b},\n    high,\n};"), 1);
    assert_eq!(found("x/src/low.rs", "use crate::beside::a;"), 1);
    assert_eq!(
        found("x/src/mid.rs", "// crate::high\n#[cfg(test)]\nmod tests {\n    use crate::high::a;\n}"),
        0
    );
    assert_eq!(found("x/src/mid.rs", "#[cfg(test)]\nmod tests;\nuse crate::high::a;"), 1);
    assert_eq!(found("x/src/new.rs", ""), 1);
    let declared = SourceFile::sample("x/src/mid.rs", "#[cfg(test)]\nmod probe;");
    let probe = SourceFile::sample("x/src/mid/probe.rs", "use crate::high::a;");
    assert!(house.findings(&[declared, probe]).is_empty());
}
