//! What comes with the model: its types, the least score of each, and which file names they usually have.

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    /// Bytes from the begin and from the end of a file that the model sees.
    pub(crate) beg_size: usize,
    pub(crate) end_size: usize,
    /// Bytes at either end that are searched for them.
    pub(crate) block_size: usize,
    /// What stands for a byte that is not there.
    pub(crate) padding_token: i32,
    /// Files with fewer bytes than this, without white space around them, are not given to the model.
    min_file_size_for_dl: usize,
    medium_confidence_threshold: f32,
    thresholds: HashMap<String, f32>,
    overwrite_map: HashMap<String, String>,
    target_labels_space: Vec<String>,
}

/// What is known about a type.
#[derive(Debug, Deserialize)]
pub(crate) struct Kind {
    #[serde(default)]
    extensions: Vec<String>,
    #[serde(default)]
    is_text: bool,
}

/// All types, by name.
#[derive(Debug, Deserialize)]
pub(crate) struct Kinds(HashMap<String, Kind>);

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Config, Box<dyn Error>> {
        let config: Config = serde_json::from_slice(&std::fs::read(path)?)?;
        if config.beg_size.max(config.end_size) > config.block_size || config.beg_size == 0 {
            return Err(format!("{}: sizes that do not fit each other", path.display()).into());
        }
        Ok(config)
    }

    /// What the model takes for a file; `None` if there is too little in it.
    pub(crate) fn features(&self, bytes: &[u8]) -> Option<Vec<i32>> {
        let block = self.block_size.min(bytes.len());
        let begin = trim_start(&bytes[..block]);
        let end = trim_end(&bytes[bytes.len() - block..]);
        let begin = &begin[..begin.len().min(self.beg_size)];
        let end = &end[end.len().saturating_sub(self.end_size)..];
        if begin.len() < self.min_file_size_for_dl {
            return None;
        }
        let mut res = vec![self.padding_token; self.beg_size + self.end_size];
        let last = res.len() - end.len();
        begin.iter().enumerate().for_each(|(i, byte)| res[i] = (*byte).into());
        end.iter().enumerate().for_each(|(i, byte)| res[last + i] = (*byte).into());
        Some(res)
    }

    /// The type of the largest score, if it is large enough for this type; otherwise text or unknown.
    pub(crate) fn judge<'a>(&'a self, scores: &[f32], kinds: &Kinds) -> (&'a str, f32) {
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let Some((name, score)) =
            best.and_then(|(i, score)| Some((self.target_labels_space.get(i)?, *score)))
        else {
            return ("unknown", 0.0);
        };
        if score < *self.thresholds.get(name).unwrap_or(&self.medium_confidence_threshold) {
            let is_text = kinds.0.get(name).is_some_and(|it| it.is_text);
            return (if is_text { "txt" } else { "unknown" }, score);
        }
        (self.overwrite_map.get(name).unwrap_or(name), score)
    }
}

impl Kinds {
    pub(crate) fn read(path: &Path) -> Result<Kinds, Box<dyn Error>> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Whether files of type `name` usually have this extension; `None` if no type has it.
    pub(crate) fn agrees(&self, name: &str, extension: &str) -> Option<bool> {
        let has = |kind: &Kind| kind.extensions.iter().any(|it| it == extension);
        self.0.values().any(has).then(|| self.0.get(name).is_some_and(has))
    }
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().position(|it| !is_space(*it)).unwrap_or(bytes.len())..]
}

fn trim_end(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|it| !is_space(*it)).map_or(0, |it| it + 1)]
}

/// White space as the model was trained with it, which includes the vertical tab.
fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            beg_size: 4,
            end_size: 3,
            block_size: 6,
            padding_token: 256,
            min_file_size_for_dl: 2,
            medium_confidence_threshold: 0.5,
            thresholds: HashMap::from([("rust".into(), 0.9)]),
            overwrite_map: HashMap::from([("randomtxt".into(), "txt".into())]),
            target_labels_space: ["rust", "elf", "randomtxt"].map(String::from).to_vec(),
        }
    }

    #[test]
    fn both_ends_of_a_file_are_seen() {
        let cases: [(&[u8], Option<[i32; 7]>); 5] = [
            (b"", None),
            (b" \n\x0b\t a", None),
            (b" ab ", Some([97, 98, 32, 256, 32, 97, 98])),
            (b"abcdef", Some([97, 98, 99, 100, 100, 101, 102])),
            (b"  abcdefghijkl\n\n\n\n\n", Some([97, 98, 99, 100, 256, 256, 108])),
        ];
        for (bytes, want) in cases {
            assert_eq!(config().features(bytes), want.map(Vec::from), "{bytes:?}");
        }
    }

    #[test]
    fn a_low_score_is_text_or_unknown() {
        let kind = |extension: &str, is_text| Kind { extensions: vec![extension.to_string()], is_text };
        let kinds = [("rust", kind("rs", true)), ("elf", kind("so", false))];
        let kinds = Kinds(kinds.into_iter().map(|(name, kind)| (name.to_string(), kind)).collect());
        let cases = [
            ([0.95, 0.0, 0.0], ("rust", 0.95)),
            ([0.8, 0.1, 0.0], ("txt", 0.8)),
            ([0.0, 0.6, 0.0], ("elf", 0.6)),
            ([0.0, 0.4, 0.1], ("unknown", 0.4)),
            ([0.0, 0.0, 0.7], ("txt", 0.7)),
        ];
        for (scores, want) in cases {
            assert_eq!(config().judge(&scores, &kinds), want);
        }
        assert_eq!(kinds.agrees("rust", "rs"), Some(true));
        assert_eq!(kinds.agrees("elf", "rs"), Some(false));
        assert_eq!(kinds.agrees("elf", "zzz"), None);
    }
}
