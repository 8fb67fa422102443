//! The links of all Markdown files, and the syntax of Markdown that rules about documentation need.

use crate::book::CHAPTERS;
use crate::source::{self, SourceFile};

/// Links of Markdown files that lead to no file or to no heading, and those of chapters that leave the book.
pub(crate) fn broken(files: &[SourceFile]) -> Vec<String> {
    let markdown = files.iter().filter(|file| file.path.ends_with(".md"));
    markdown.flat_map(|file| broken_links_of(file, files)).collect()
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
            let included = includes(&found.text).filter_map(|it| {
                let path = resolve(&found.path, it);
                files.iter().find(|file| file.path == path)
            });
            let text: String = included.chain([found]).map(|file| file.text.as_str()).collect();
            if !headings(&text).any(|it| it == anchor) {
                res.push(format!("{}: link to {link}: {path} has no such heading", file.path));
            }
        }
    }
    res
}

/// `target`, relative to the file at `from`, as a path from the root.
pub(crate) fn resolve(from: &str, target: &str) -> String {
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
pub(crate) fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        line.match_indices("](").filter_map(|(i, _)| {
            let outside = line[..i].matches('`').count() % 2 == 0;
            line[i + 2..].split_once(')').filter(|_| outside).map(|(target, _)| target)
        })
    })
}

/// The files of `{{#include file}}`.
pub(crate) fn includes(text: &str) -> impl Iterator<Item = &str> {
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
