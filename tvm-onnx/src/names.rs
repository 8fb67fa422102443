//! Names of a model, converted for messages and for identifiers.

/// Maximum number of characters of a name that are shown.
const SHOWN: usize = 64;

/// Escapes control characters in `name` and shortens it, for messages.
pub(crate) fn show(name: &str) -> String {
    let mut text: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// Converts to a name hint for a variable: letters, digits and underscores.
pub(crate) fn identifier(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut text: String = name.chars().take(SHOWN).map(keep).collect();
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        text.insert(0, 'v');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, shown, ident) in [
            ("x", "x", "x"),
            ("conv/1:0", "conv/1:0", "conv_1_0"),
            ("", "", "v"),
            ("1", "1", "v1"),
            ("a\0b\n", "a\\0b\\n", "a_b_"),
        ] {
            assert_eq!((show(name).as_str(), identifier(name).as_str()), (shown, ident));
        }
        assert_eq!(show(&"A".repeat(5000)).chars().count(), SHOWN + 1);
    }
}
