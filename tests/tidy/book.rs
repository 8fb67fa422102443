//! The guide (`docs/guide`) and the documentation of the macros: chapters, examples, and the tables and grammars that repeat
//! what the sources define.

use std::collections::BTreeSet;

use crate::links::{includes, links, resolve};
use crate::source::SourceFile;

/// Where the chapters are.
pub(crate) const CHAPTERS: &str = "docs/guide/src/";

/// The file that makes the examples of the chapters tests.
const EXAMPLES: &str = "src/guide.rs";

/// Where the documentation of the macros is, and who shows it.
const MACROS: (&str, &str) = ("tvm-macros/docs/", "tvm-macros/src/lib.rs");

/// The macros whose grammar the guide has, too, and the chapters.
const GRAMMARS: [(&str, &str); 2] = [("prim_func.md", "kernel_language.md"), ("relax_func.md", "graphs.md")];

/// The file with the table of the functions of kernels.
const FUNCTIONS: &str = "tvm-macros/src/kernel/intrinsics.rs";

/// Where the methods of `Schedule` are.
const PRIMITIVES: &str = "tvm-core/src/tir/schedule/methods/";

fn text<'a>(files: &'a [SourceFile], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).map_or("", |file| &file.text)
}

fn chapter<'a>(files: &'a [SourceFile], name: &str) -> &'a str {
    text(files, &format!("{CHAPTERS}{name}"))
}

/// Chapters that the summary does not name, names that are no chapter, and chapters whose examples are not tests.
pub(crate) fn chapters(files: &[SourceFile]) -> Vec<String> {
    let summary: BTreeSet<&str> = links(chapter(files, "SUMMARY.md")).collect();
    let chapters = files.iter().filter_map(|file| file.path.strip_prefix(CHAPTERS));
    let chapters: BTreeSet<&str> = chapters.filter(|name| *name != "SUMMARY.md").collect();
    let at = format!("{CHAPTERS}SUMMARY.md");
    let missing = chapters.difference(&summary).map(|it| format!("{at} does not name {it}"));
    let wrong = summary.difference(&chapters).map(|it| format!("{at} names {it}, which is no chapter"));
    let mut res: Vec<String> = missing.chain(wrong).collect();
    for name in chapters {
        let path = format!("{CHAPTERS}{name}");
        let included = includes(text(files, &path)).map(|it| resolve(&path, it));
        for path in included.chain([path.clone()]) {
            let tested = text(files, EXAMPLES).contains(&format!("\"{path}\""));
            if text(files, &path).contains("```rust") && !tested {
                res.push(format!("{EXAMPLES} does not name {path}: its examples are no tests"));
            }
        }
    }
    res
}

/// Documentation of macros that is not shown or whose examples are no tests, and grammars that differ from those of the guide.
pub(crate) fn macros(files: &[SourceFile]) -> Vec<String> {
    let (folder, shown) = MACROS;
    let mut res = Vec::new();
    for name in files.iter().filter_map(|file| file.path.strip_prefix(folder)) {
        for (user, path) in
            [(EXAMPLES, format!("\"{folder}{name}\"")), (shown, format!("\"../docs/{name}\""))]
        {
            if !text(files, user).contains(&path) {
                res.push(format!("{user} does not name {folder}{name}"));
            }
        }
    }
    let grammar = |path: &str| text(files, path).split("```text\n").nth(1)?.split("```").next();
    for (name, chapter) in GRAMMARS {
        let (name, chapter) = (format!("{folder}{name}"), format!("{CHAPTERS}{chapter}"));
        if grammar(&name).is_none() || grammar(&name) != grammar(&chapter) {
            res.push(format!("{name} and {chapter} have different grammars"));
        }
    }
    res
}

/// Functions of kernels that the table of the guide does not name.
pub(crate) fn functions(files: &[SourceFile]) -> Vec<String> {
    let table = text(files, FUNCTIONS).split("functions! {").nth(1).and_then(|it| it.split("\n}").next());
    let spans = code_spans(table_after(chapter(files, "kernel_language.md"), "functions"), "`");
    let words = spans.iter().flat_map(|it| it.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let named: BTreeSet<&str> = words.collect();
    let missing = table.unwrap_or("").split('"').skip(1).step_by(2).filter(|name| !named.contains(name));
    missing.map(|name| format!("{CHAPTERS}kernel_language.md: no row has the function `{name}`")).collect()
}

/// Primitives of schedules that the table of the guide does not name. Variants for any number of loops (`.._n`) need no name.
pub(crate) fn primitives(files: &[SourceFile]) -> Vec<String> {
    let named = code_spans(table_after(chapter(files, "schedules.md"), "primitives"), "`");
    let methods = files.iter().filter(|file| file.path.starts_with(PRIMITIVES));
    let methods = methods.flat_map(|file| file.text.split("pub fn ").skip(1));
    let methods = methods.filter_map(|it| it.split(['(', '<']).next()).filter(|name| !name.ends_with("_n"));
    let missing = methods.filter(|name| !named.iter().any(|it| it == name));
    missing.map(|name| format!("{CHAPTERS}schedules.md: no row has the primitive `{name}`")).collect()
}

/// Errors in the tables of the guide that no test of the macros expects.
pub(crate) fn errors(files: &[SourceFile]) -> Vec<String> {
    let expected = |message: &str| {
        let mut cases = files.iter().filter(|file| file.path.ends_with(".stderr"));
        cases.any(|file| file.text.contains(message))
    };
    let mut res = Vec::new();
    for (_, name) in GRAMMARS {
        let messages = code_spans(table_after(chapter(files, name), "errors"), "``");
        if messages.is_empty() {
            res.push(format!("{CHAPTERS}{name}: there is no table of errors"));
        }
        let unknown = messages.iter().map(|it| it.trim()).filter(|it| !expected(it));
        res.extend(unknown.map(|it| format!("{CHAPTERS}{name}: no test of tests/ui/fail expects `{it}`")));
    }
    res
}

/// The text from the comment `<!-- name: .. -->` to the next heading.
fn table_after<'a>(text: &'a str, name: &str) -> &'a str {
    let start = text.find(&format!("<!-- {name}: ")).and_then(|i| Some(i + text[i..].find("-->")?));
    let rest = start.map_or("", |i| &text[i..]);
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

/// The code between two `fence`s, which are as many backticks, in the rows of tables.
fn code_spans(text: &str, fence: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|line| line.split(fence).skip(1).step_by(2)).map(String::from).collect()
}

/// Every rule reports its bad samples, and only those.
#[test]
fn rules_find_bad_samples() {
    type Rule = fn(&[SourceFile]) -> Vec<String>;
    let good = [
        ("docs/guide/src/SUMMARY.md", "[K](kernel_language.md) [G](graphs.md) [S](schedules.md)"),
        (
            "docs/guide/src/kernel_language.md",
            "```text\nkernel\n```\n<!-- functions: x -->\n| `exp` `.exp()` |\n## More\n<!-- errors: x -->\n| a | ``no `z` `` |",
        ),
        (
            "docs/guide/src/graphs.md",
            "```text\ngraph\n```\n```rust\n```\n<!-- errors: x -->\n| a | ``no shape`` |",
        ),
        ("docs/guide/src/schedules.md", "<!-- primitives: x -->\n| `split` |"),
        (
            "src/guide.rs",
            "\"docs/guide/src/graphs.md\" \"tvm-macros/docs/prim_func.md\" \"tvm-macros/docs/relax_func.md\"",
        ),
        ("tvm-macros/docs/prim_func.md", "```text\nkernel\n```"),
        ("tvm-macros/docs/relax_func.md", "```text\ngraph\n```"),
        ("tvm-macros/src/lib.rs", "\"../docs/prim_func.md\" \"../docs/relax_func.md\""),
        (FUNCTIONS, "functions! {\n math \"exp\" [\"exp\"] Exp 1;\n}"),
        ("tvm-core/src/tir/schedule/methods/loops.rs", "pub fn split<const N: usize>( pub fn split_n("),
        ("tests/ui/fail/a.stderr", "error: no `z` in this kernel\nerror: no shape"),
    ];
    let cases: [(&str, Rule, &str, &str, usize); 10] = [
        ("another chapter", chapters, "docs/guide/src/new.md", "", 1),
        ("examples that are no tests", chapters, "src/guide.rs", "", 1),
        (
            "no chapter",
            chapters,
            "docs/guide/src/SUMMARY.md",
            "[K](kernel_language.md) [G](graphs.md) [S](schedule.md)",
            2,
        ),
        ("docs that nobody shows", macros, "tvm-macros/docs/new.md", "", 2),
        ("another grammar", macros, "tvm-macros/docs/prim_func.md", "```text\nkernels\n```", 1),
        ("a new function", functions, FUNCTIONS, "functions! {\n math \"log\" [\"ln\"] Log 1;\n}", 2),
        ("a new primitive", primitives, "tvm-core/src/tir/schedule/methods/blocks.rs", "pub fn blockize(", 1),
        ("another message", errors, "tests/ui/fail/a.stderr", "error: no shape", 1),
        ("no errors", errors, "docs/guide/src/graphs.md", "", 1),
        ("an unrelated file", chapters, "docs/onnx.md", "```rust\n```", 0),
    ];
    for (name, rule, path, text, expected) in cases {
        let files: Vec<SourceFile> = (good.iter().filter(|(it, _)| *it != path))
            .chain([&(path, text)])
            .map(|(path, text)| SourceFile::sample(path, text))
            .collect();
        let found = rule(&files);
        assert_eq!(found.len(), expected, "{name}: {found:?}");
    }
    let files = good.map(|(path, text)| SourceFile::sample(path, text));
    for rule in [chapters, macros, functions, primitives, errors] {
        assert_eq!(rule(&files), [""; 0]);
    }
}
