//! Conversion of the names of models and kernels to Rust identifiers, file names and symbols.

use std::collections::HashSet;

/// The identifiers that are taken in one scope.
#[derive(Default)]
pub(crate) struct Scope(HashSet<String>);

/// Words that cannot be identifiers.
const KEYWORDS: &str = " abstract as async await become box break const continue crate do dyn else enum extern false \
    final fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static struct super \
    trait true try type typeof unsafe unsized use virtual where while yield _ ";

impl Scope {
    /// A scope in which `names` are already taken.
    pub(crate) fn with(names: &[&str]) -> Scope {
        Scope(names.iter().map(|name| name.to_string()).collect())
    }

    /// A new identifier in this scope: `name` in snake case, with a number if necessary.
    pub(crate) fn fresh(&mut self, name: &str) -> String {
        let stem = snake(name);
        let numbered = (2..).map(|i| format!("{}_{i}", stem.trim_end_matches('_')));
        let new = std::iter::once(stem.clone()).chain(numbered).find(|it| !self.0.contains(it));
        let new = new.unwrap_or(stem);
        self.0.insert(new.clone());
        new
    }
}

/// Converts to snake case, with `_` for all characters that an identifier cannot contain.
fn snake(name: &str) -> String {
    let mut res = String::new();
    let mut after_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && after_lower {
            res.push('_');
        }
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        if c != '_' || !res.ends_with('_') {
            res.push(c);
        }
    }
    let mut res = res.trim_end_matches('_').to_string();
    if res.is_empty() || res.starts_with(|c: char| c.is_ascii_digit()) {
        res.insert(0, '_');
    }
    if KEYWORDS.contains(&format!(" {res} ")) {
        res.push('_');
    }
    res
}

/// Converts to camel case: `digits_cnn` → `DigitsCnn`.
pub(crate) fn camel(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (head, tail) = word.split_at(1);
            head.to_ascii_uppercase() + tail
        })
        .collect()
}

/// Whether `name` is valid as a file name and, in camel case, as a type name.
pub(crate) fn is_model_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Escapes `name` for a line of documentation.
pub(crate) fn shown(name: &str) -> String {
    name.escape_debug().to_string().replace('`', "'")
}

/// Hash of `parts` (FNV-1a), the same on every machine.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The begin of the symbols of `name`: those of two models, or of two versions of a package, must not clash.
pub(crate) fn unit(name: &str) -> String {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let (package, version) = (variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION"));
    format!("{name}_{:08x}", hash(&[&package, &version, name]) as u32)
}

/// `name` with the suffix of a level of x86-64: `_v1` to `_v4`.
pub(crate) fn of_level(name: &str, level: &str) -> String {
    format!("{name}_{}", level.strip_prefix("x86-64-").unwrap_or("v1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers() {
        let mut scope = Scope::with(&["self_"]);
        let cases = [
            ("image", "image"),
            ("Image", "image_2"),
            ("inputIds:0", "input_ids_0"),
            ("0", "_0"),
            ("", "__"),
            ("type", "type_"),
            ("type_", "type_2"),
            ("self", "self_2"),
            ("a\n} fn evil() {", "a_fn_evil"),
            ("ü", "_2"),
        ];
        for (name, expected) in cases {
            assert_eq!(scope.fresh(name), expected, "{name:?}");
        }
        assert_eq!(camel("digits_cnn2"), "DigitsCnn2");
        assert_eq!(shown("a`b\n"), "a'b\\n");
        for (name, ok) in [("digits", true), ("a_1", true), ("1a", false), ("a-b", false), ("", false)] {
            assert_eq!(is_model_name(name), ok, "{name}");
        }
    }
}
