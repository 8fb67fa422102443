//! JSON, as far as the protocol of the workers needs it: a reader of values, and quoted strings.

/// A JSON value. Objects keep the order of their members.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one value, with nothing after it.
    ///
    /// # Errors
    /// Where the text is not JSON: what was expected, and at which byte.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at == text.len() { Ok(value) } else { Err(reader.expected("the end")) }
    }

    /// A member of an object; `Null` where there is none.
    pub(crate) fn get(&self, name: &str) -> &Self {
        let members: &[_] = if let Self::Object(members) = self { members } else { &[] };
        members.iter().find(|(key, _)| key == name).map_or(&Self::Null, |(_, value)| value)
    }

    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        if let Self::Number(value) = self { Some(*value) } else { None }
    }

    /// The string, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(value) = self { Some(value) } else { None }
    }

    /// The numbers of a list; nothing where it is no list.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let items: &[_] = if let Self::List(items) = self { items } else { &[] };
        items.iter().filter_map(Self::number).collect()
    }
}

/// The text as a JSON string, with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut res = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => res.extend(['\\', c]),
            c if c < ' ' => res.push_str(&format!("\\u{:04x}", c as u32)),
            c => res.push(c),
        }
    }
    res + "\""
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// Values may be nested this deep.
const DEPTH: usize = 64;

impl Reader<'_> {
    fn expected(&self, what: &str) -> String {
        format!("no JSON: {what} expected at byte {}", self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Takes `word` if it is next, after white space.
    fn take(&mut self, word: &str) -> bool {
        self.space();
        let found = self.text[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH {
            return Err(self.expected("a value that is less deep"));
        }
        let words = [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
        for (word, value) in words {
            if self.take(word) {
                return Ok(value);
            }
        }
        // Python writes numbers that are not finite in this way.
        for (word, value) in [("NaN", f64::NAN), ("Infinity", f64::INFINITY)] {
            if self.take(word) {
                return Ok(Json::Number(value));
            }
        }
        match self.peek() {
            Some(b'[') => self.list(depth),
            Some(b'{') => self.object(depth),
            Some(b'"') => self.string().map(Json::Text),
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        while !self.take("]") {
            if !items.is_empty() && !self.take(",") {
                return Err(self.expected("`,` or `]`"));
            }
            items.push(self.value(depth + 1)?);
        }
        Ok(Json::List(items))
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut members = Vec::new();
        while !self.take("}") {
            if !members.is_empty() && !self.take(",") {
                return Err(self.expected("`,` or `}`"));
            }
            self.space();
            let name = self.string()?;
            if !self.take(":") {
                return Err(self.expected("`:`"));
            }
            members.push((name, self.value(depth + 1)?));
        }
        Ok(Json::Object(members))
    }

    fn number(&mut self) -> Result<Json, String> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(rest.len());
        let value = rest[..end].parse().map_err(|_| self.expected("a value"))?;
        self.at += end;
        Ok(Json::Number(value))
    }

    fn string(&mut self) -> Result<String, String> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a string"));
        }
        let mut res = String::new();
        let rest = &self.text[self.at + 1..];
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            let c = match c {
                '"' => {
                    self.at += at + 2;
                    return Ok(res);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('r') => '\r',
                    Some('b') => '\u{8}',
                    Some('f') => '\u{c}',
                    Some('u') => {
                        let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&digits, 16).map_err(|_| self.expected("\\u0000"))?;
                        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    Some(c) => c,
                    None => break,
                },
                c => c,
            };
            res.push(c);
        }
        Err(self.expected("the end of a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_workers() {
        let json =
            Json::parse(r#" {"ok":true, "times":[1, 2.5e-3 ,-1],"err":"a \"b\"\n\u0041", "x":{}} "#).unwrap();
        assert_eq!(json.get("ok"), &Json::Bool(true));
        assert_eq!(json.get("times").numbers(), [1.0, 2.5e-3, -1.0]);
        assert_eq!(json.get("err").text(), Some("a \"b\"\nA"));
        assert_eq!(json.get("nothing"), &Json::Null);
    }

    #[test]
    fn errors_not_panics() {
        for text in
            ["", "{", "[1 2]", "{\"a\" 1}", "\"\\u12", "tru", "1 1", "\"\\", "{1:2}", "é", &"[".repeat(99)]
        {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quoted_strings_are_read_back() {
        let text = "a\"b\\c\nd\tä";
        assert_eq!(Json::parse(&quoted(text)), Ok(Json::Text(text.to_string())));
    }
}
