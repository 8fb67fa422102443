//! The files of the workspace, and the removal of comments and literals from Rust text.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A file of the workspace.
pub(crate) struct SourceFile {
    /// Path relative to the workspace root, with `/` as separator.
    pub(crate) path: String,
    /// Content of the file.
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn sample(path: &str, text: &str) -> Self {
        Self { path: path.to_string(), text: text.to_string() }
    }

    /// The text with comments and the contents of literals replaced by spaces; line numbers are unchanged.
    pub(crate) fn code(&self) -> String {
        code_only(&self.text)
    }

    /// As `code`, without the test module at the end of the file; empty for a file of tests.
    pub(crate) fn code_without_tests(&self) -> String {
        if self.path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs")) {
            return String::new();
        }
        let code = self.code();
        // A test module in a file of its own is declared with `;`: what follows is no test.
        let mut modules = code.match_indices("#[cfg(test)]\nmod ");
        let inline = modules.find(|(i, text)| {
            code[i + text.len()..]
                .find(['{', ';'])
                .is_some_and(|j| code[i + text.len() + j..].starts_with('{'))
        });
        let end = inline.map_or(code.len(), |(i, _)| i);
        code[..end].to_string()
    }

    /// Formats a finding as `path:line: what`.
    pub(crate) fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, line + 1)
    }
}

/// The workspace root.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files with one of the extensions, sorted by path. Version control and build output, which Cargo marks with a
/// `CACHEDIR.TAG`, are skipped.
pub(crate) fn files(extensions: &[&str]) -> Vec<SourceFile> {
    let mut res = Vec::new();
    walk(&root(), "", extensions, &mut res).expect("the sources can be read");
    res.sort_by(|a, b| a.path.cmp(&b.path));
    res
}

fn walk(dir: &Path, prefix: &str, extensions: &[&str], res: &mut Vec<SourceFile>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && name != ".git" && !entry.path().join("CACHEDIR.TAG").exists() {
            walk(&entry.path(), &path, extensions, res)?;
        } else if kind.is_file() && name.rsplit_once('.').is_some_and(|(_, e)| extensions.contains(&e)) {
            res.push(SourceFile { text: fs::read_to_string(entry.path())?, path });
        }
    }
    Ok(())
}

/// Whether `word` occurs in `line` as a whole identifier.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let ident = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(i, _)| {
        !line[..i].chars().next_back().is_some_and(ident)
            && !line[i + word.len()..].chars().next().is_some_and(ident)
    })
}

/// Replaces comments and the contents of string and character literals by spaces.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut res = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let end = match chars[i] {
            '/' if chars.get(i + 1) == Some(&'/') => line_end(&chars, i),
            '/' if chars.get(i + 1) == Some(&'*') => block_comment_end(&chars, i),
            '"' => string_end(&chars, i),
            'r' if raw_string_hashes(&chars, i).is_some() => raw_string_end(&chars, i),
            '\'' => char_end(&chars, i),
            _ => i,
        };
        if end == i {
            res.push(chars[i]);
            i += 1;
        } else {
            res.extend(chars[i..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            i = end;
        }
    }
    res
}

fn line_end(chars: &[char], i: usize) -> usize {
    chars[i..].iter().position(|c| *c == '\n').map_or(chars.len(), |n| i + n)
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    i.min(chars.len())
}

fn string_end(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// The number of `#` if a raw string starts at `i`.
fn raw_string_hashes(chars: &[char], i: usize) -> Option<usize> {
    let in_identifier =
        i > 0 && (chars[i - 1].is_alphanumeric() && chars[i - 1] != 'b' || chars[i - 1] == '_');
    let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
    (!in_identifier && chars.get(i + 1 + hashes) == Some(&'"')).then_some(hashes)
}

fn raw_string_end(chars: &[char], start: usize) -> usize {
    let hashes = raw_string_hashes(chars, start).unwrap_or(0);
    let mut i = start + hashes + 2;
    while i < chars.len() {
        if chars[i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes {
            return i + 1 + hashes;
        }
        i += 1;
    }
    chars.len()
}

/// The end of the character literal at `start`, or `start` if it is a lifetime.
fn char_end(chars: &[char], start: usize) -> usize {
    if chars.get(start + 1) == Some(&'\\') {
        let close = chars[start + 3..].iter().position(|c| *c == '\'');
        return close.map_or(start, |n| start + 3 + n + 1);
    }
    if chars.get(start + 2) == Some(&'\'') { start + 3 } else { start }
}

#[test]
fn comments_and_literals_are_not_code() {
    let cases = [
        ("unsafe {}", true),
        ("// unsafe", false),
        ("/* a /* unsafe */ unsafe */ ok", false),
        ("/* a */ unsafe", true),
        (r#"let s = "unsafe \" unsafe";"#, false),
        (r#"let s = "x\\"; unsafe {}"#, true),
        (r###"let s = r#"unsafe " unsafe"#;"###, false),
        (r###"let s = br##"unsafe "# unsafe"##; unsafe {}"###, true),
        ("let c = '\"'; unsafe {}", true),
        ("let c = '\\''; unsafe {}", true),
        ("fn f<'a>(x: &'a str) { unsafe {} }", true),
        ("#![forbid(unsafe_code)]", false),
    ];
    for (text, expected) in cases {
        assert_eq!(has_word(&code_only(text), "unsafe"), expected, "{text}");
    }
    assert_eq!(code_only("a\n/* b\n c */ d").lines().count(), 3);
}
