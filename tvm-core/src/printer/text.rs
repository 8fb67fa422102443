//! Text of expressions under construction: long pieces are joined without copying them, so that the time to print a
//! deep expression is not quadratic in its size.

use std::borrow::Cow;
use std::collections::VecDeque;

/// Pieces, in order.
#[derive(Debug, Default)]
pub(super) struct Text(VecDeque<Cow<'static, str>>);

impl Text {
    /// Concatenates `parts`, by adding the others to the longest one.
    pub(super) fn join(parts: impl IntoIterator<Item = Text>) -> Text {
        let mut parts: Vec<Text> = parts.into_iter().collect();
        let longest = (0..parts.len()).max_by_key(|&i| parts[i].0.len());
        let Some(longest) = longest else { return Text::default() };
        let after = parts.split_off(longest + 1);
        let mut all = parts.pop().unwrap_or_default().0;
        for piece in parts.into_iter().rev().flat_map(|part| part.0.into_iter().rev()) {
            all.push_front(piece);
        }
        all.extend(after.into_iter().flat_map(|part| part.0));
        Text(all)
    }

    /// `parts` with `separator` between each two.
    pub(super) fn list(parts: impl IntoIterator<Item = Text>, separator: &'static str) -> Text {
        let mut parts = parts.into_iter();
        let first = parts.next().into_iter();
        Text::join(first.chain(parts.flat_map(|part| [separator.into(), part])))
    }

    /// Adds parentheses if `wanted`.
    pub(super) fn parenthesized(self, wanted: bool) -> Text {
        if wanted { text!["(", self, ")"] } else { self }
    }
}

/// Concatenates the parts, each a `Text` or convertible to one.
macro_rules! text {
    ($($part:expr),+ $(,)?) => { $crate::printer::text::Text::join([$($crate::printer::text::Text::from($part)),+]) };
}
pub(super) use text;

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text(VecDeque::from([text.into()]))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(VecDeque::from([text.into()]))
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.0.into_iter().collect()
    }
}
