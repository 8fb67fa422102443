//! The guide (`docs/guide`) and the links of all Markdown files: chapters, examples, and the tables that repeat what the
//! sources define.

use std::collections::BTreeSet;

use crate::source::{self, SourceFile};

/// Where the chapters are.
const CHAPTERS: &str = "docs/guide/src/";

/// The file that makes the examples of the chapters tests.
const EXAMPLES: &str = "src/guide.rs";

/// Where the documentation of the macros is.
const MACROS: &str = "tvm-macros/docs/";

/// Chapters that the summary does not name, names that are no chapter, and chapters whose examples are not tests.
pub(crate) fn chapters() -> Vec<String> {
    let files = source::files(&["md", "rs"]);
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
    let summary: BTreeSet<&str> = links(text(&format!("{CHAPTERS}SUMMARY.md"))).collect();
    let chapters = files.iter().filter_map(|file| file.path.strip_prefix(CHAPTERS));
    let chapters: BTreeSet<&str> = chapters.filter(|name| *name != "SUMMARY.md").collect();
    let mut res: Vec<String> =
        chapters.difference(&summary).map(|it| format!("{CHAPTERS}SUMMARY.md does not name {it}")).collect();
    res.extend(
        summary
            .difference(&chapters)
            .map(|it| format!("{CHAPTERS}SUMMARY.md names {it}, which is no chapter")),
    );
    for name in chapters {
        let path = format!("{CHAPTERS}{name}");
        let included = includes(text(&path)).map(|it| resolve(&path, it));
        for path in included.chain([path.clone()]) {
            let tested = text(EXAMPLES).contains(&format!("\"{path}\""));
            if text(&path).contains("```rust") && !tested {
                res.push(format!("{EXAMPLES} does not name {path}: its examples are no tests"));
            }
        }
    }
    res
}

/// Documentation of macros that is not shown or whose examples are no tests, and grammars that differ from those of the guide.
pub(crate) fn macros() -> Vec<String> {
    let files = source::files(&["md", "rs"]);
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
    let mut res = Vec::new();
    for name in files.iter().filter_map(|file| file.path.strip_prefix(MACROS)) {
        for (user, path) in [
            (EXAMPLES, format!("\"{MACROS}{name}\"")),
            ("tvm-macros/src/lib.rs", format!("\"../docs/{name}\"")),
        ] {
            if !text(user).contains(&path) {
                res.push(format!("{user} does not name {MACROS}{name}"));
            }
        }
    }
    let grammar = |path: &str| {
        text(path).split("```text\n").nth(1).and_then(|it| it.split("```").next()).map(String::from)
    };
    for (name, chapter) in [("prim_func.md", "kernel_language.md"), ("relax_func.md", "graphs.md")] {
        let (name, chapter) = (format!("{MACROS}{name}"), format!("{CHAPTERS}{chapter}"));
        if grammar(&name).is_none() || grammar(&name) != grammar(&chapter) {
            res.push(format!("{name} and {chapter} have different grammars"));
        }
    }
    res
}

/// Links of Markdown files that lead to no file or to no heading, and those of chapters that leave the book.
pub(crate) fn broken_links() -> Vec<String> {
    let files = source::files(&["md"]);
    files.iter().flat_map(|file| broken_links_of(file, &files)).collect()
}

fn broken_links_of(file: &SourceFile, files: &[SourceFile]) -> Vec<String> {
    let is_chapter = file.path.starts_with(CHAPTERS);
    let mut res = Vec::new();
    for link in links(&file.text).chain(includes(&file.text)).filter(|link| !link.contains("://")) {
        let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = if target.is_empty() { file.path.clone() } else { resolve(&file.path, target) };
        let found = files.iter().find(|it| it.path == path);
        let is_include = includes(&file.text).any(|it| it == link);
        if found.is_none() && !source::root().join(&path).exists() {
            res.push(format!("{}: link to {link}: there is no {path}", file.path));
        } else if is_chapter && !is_include && !path.starts_with(CHAPTERS) {
            res.push(format!("{}: link to {link}: it leaves the book", file.path));
        }
        if let Some(found) = found
            && !anchor.is_empty()
        {
            let text = includes(&found.text).filter_map(|it| {
                let path = resolve(&found.path, it);
                files.iter().find(|file| file.path == path)
            });
            let text: String = text.chain([found]).map(|file| file.text.as_str()).collect();
            if !headings(&text).any(|it| it == anchor) {
                res.push(format!("{}: link to {link}: {path} has no such heading", file.path));
            }
        }
    }
    res
}

/// Rows of tables that differ from the sources.
pub(crate) fn tables() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(source::root().join(path)).unwrap_or_default();
    let chapter = |name: &str| read(&format!("{CHAPTERS}{name}"));
    let mut res = Vec::new();

    // Functions of kernels: those of the macro, and the methods that differ from them.
    let macros = read("tvm-macros/src/kernel/intrinsics.rs");
    let table = macros.split("functions! {").nth(1).and_then(|it| it.split("\n}").next()).unwrap_or("");
    let named = code_spans(table_after(&chapter("kernel_language.md"), "functions"), "`");
    let words = |text: &str| -> BTreeSet<String> {
        let split = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        split.map(String::from).filter(|it| it.len() > 1).collect()
    };
    let named: BTreeSet<String> = named.iter().flat_map(|it| words(it)).collect();
    for name in table.split('"').skip(1).step_by(2).filter(|name| !named.contains(*name)) {
        res.push(format!("{CHAPTERS}kernel_language.md: no row has the function `{name}`"));
    }

    // Primitives: the methods of `Schedule`, without the variants for any number of loops.
    let methods: String = ["blocks", "buffers", "loops"]
        .map(|it| read(&format!("tvm-core/src/tir/schedule/methods/{it}.rs")))
        .concat();
    let methods: BTreeSet<String> = (methods.split("pub fn ").skip(1))
        .filter_map(|it| it.split(['(', '<']).next())
        .filter(|name| !name.ends_with("_n"))
        .map(String::from)
        .collect();
    let schedules = chapter("schedules.md");
    let rows: Vec<String> = code_spans(table_after(&schedules, "primitives"), "`");
    let named: BTreeSet<String> = rows.iter().filter(|it| methods.contains(*it)).cloned().collect();
    res.extend(
        methods
            .difference(&named)
            .map(|it| format!("{CHAPTERS}schedules.md: no row has the primitive `{it}`")),
    );

    // Errors: what the tests of the macros expect.
    let expected: String = source::files(&["stderr"]).into_iter().map(|file| file.text).collect();
    for name in ["kernel_language.md", "graphs.md"] {
        let text = chapter(name);
        let messages = code_spans(table_after(&text, "errors"), "``");
        if messages.is_empty() {
            res.push(format!("{CHAPTERS}{name}: no table of errors found"));
        }
        res.extend(
            (messages.iter().filter(|it| !expected.contains(it.trim())))
                .map(|it| format!("{CHAPTERS}{name}: no test of tests/ui/fail expects `{}`", it.trim())),
        );
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

/// `target`, relative to the file at `from`, as a path from the root.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The lines that are outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// The targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        line.match_indices("](").filter_map(|(i, _)| {
            let outside = line[..i].matches('`').count() % 2 == 0;
            line[i + 2..].split_once(')').filter(|_| outside).map(|(target, _)| target)
        })
    })
}

/// The files of `{{#include file}}`.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("{{#include ")?.strip_suffix("}}"))
}

/// The anchors of the headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[test]
fn links_find_bad_samples() {
    let file = |text: &str| SourceFile::sample(&format!("{CHAPTERS}a.md"), text);
    let files = [file("# One, two\n\n```\n# three\n```\n"), SourceFile::sample("README.md", "# Four")];
    let cases = [
        ("[a](a.md), [b](#two)", 1),
        ("[a](a.md#one-two)", 0),
        ("[a](a.md#three)", 1),
        ("[a](b.md)", 1),
        ("[a](../../../README.md)", 1),
        ("{{#include ../../../README.md}}", 0),
        ("`[a](b.md)` and [web](https://example.org/b.md)", 0),
        ("```\n[a](b.md)\n```", 0),
    ];
    for (text, expected) in cases {
        let found = broken_links_of(&file(text), &files);
        assert_eq!(found.len(), expected, "{text}: {found:?}");
    }
}
