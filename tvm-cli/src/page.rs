//! Pages in HTML that need no other files: templates, and text and data in them.
//!
//! What a model says is untrusted: all text is escaped, and the pages allow themselves no connections.

use serde_json::Value as Json;

/// Replaces every `{{NAME}}`; what is put in is not searched again.
pub(crate) fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text += before;
        let (name, next) = after.split_once("}}").unwrap_or((after, ""));
        text += parts.iter().find(|it| it.0 == name).map_or("", |it| &it.1);
        rest = next;
    }
    text + rest
}

/// Text as HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            it if it.is_control() => escaped.push('\u{fffd}'),
            it => escaped.push(it),
        }
    }
    escaped
}

/// Data as JSON in a `<script>`.
pub(crate) fn data(data: &Json) -> String {
    // `<` would end the script.
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_parts_are_not_searched() {
        assert_eq!(escape("<b a='1'>&\"\n"), "&lt;b a=&#39;1&#39;&gt;&amp;&quot;\u{fffd}");
        let parts = [("A", "{{B}}".to_string()), ("B", "2".to_string())];
        assert_eq!(fill("x {{A}} {{B}} {{C}}.", &parts), "x {{B}} 2 .");
        assert_eq!(data(&"</script>".into()), "\"\\u003c/script>\"");
    }
}
