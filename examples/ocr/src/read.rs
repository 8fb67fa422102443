//! What the lines say: a model gives the probability of each character in each column, and repeated ones are one.

use std::error::Error;
use std::path::Path;

use prost::Message;
use tvm::prelude::*;

use crate::picture::{Area, Picture};

/// Height of a line in the model.
const HEIGHT: usize = 48;
/// Largest number of lines in a call of the model.
const BATCH: usize = 8;

pub(crate) struct Reader {
    model: CompiledModel,
    /// The character of each number that the model gives; `None` separates equal characters.
    characters: Vec<Option<String>>,
}

/// A line that was read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// Mean probability of the characters.
    pub(crate) score: f32,
}

/// What the example needs of an ONNX file beside the model.
#[derive(Message)]
struct File {
    #[prost(message, repeated, tag = "14")]
    metadata: Vec<Entry>,
}

#[derive(Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

impl Reader {
    pub(crate) fn new(path: &Path) -> Result<Reader, Box<dyn Error>> {
        let bytes = std::fs::read(path)?;
        let file = File::decode(bytes.as_slice())?;
        let list = file.metadata.iter().find(|it| it.key == "character");
        let list = list.ok_or("the file of the model does not say which characters it reads")?;
        let named = list.value.lines().map(|it| Some(it.to_string()));
        let characters = [None].into_iter().chain(named).chain([Some(" ".to_string())]).collect();
        let model = Model::onnx_bytes(&bytes)?.dim("p2o.DynamicDimension.0", 1..=BATCH as i64).compile()?;
        Ok(Reader { model, characters })
    }

    /// Reads the lines at `areas`, in order.
    pub(crate) fn read(&self, picture: &Picture, areas: &[Area]) -> Result<Vec<Line>, tvm::ModelError> {
        let width = |area: &Area| {
            let wide = (area.right - area.left) * HEIGHT;
            wide.div_ceil((area.bottom - area.top).max(1)).next_multiple_of(8)
        };
        let mut order: Vec<usize> = (0..areas.len()).collect();
        order.sort_by_key(|&i| width(&areas[i]));
        let mut res = vec![Line { text: String::new(), score: 0.0 }; areas.len()];
        for batch in order.chunks(BATCH) {
            let widest = batch.iter().map(|&i| width(&areas[i])).max().unwrap_or(8);
            let mut images = Vec::with_capacity(batch.len() * 3 * HEIGHT * widest);
            for &i in batch {
                let own = width(&areas[i]);
                let gray = picture.scaled(areas[i], own, HEIGHT);
                let empty = vec![0.0; widest - own];
                // Rows are filled up with gray; the three colours are the same.
                let plane = gray.chunks(own).flat_map(|row| row.iter().chain(&empty)).copied();
                let plane: Vec<f32> = plane.collect();
                images.extend([plane.as_slice(); 3].concat());
            }
            let outputs = self.model.run((images, [batch.len() as i64, 3, HEIGHT as i64, widest as i64]))?;
            let scores = outputs[0].as_slice::<f32>()?;
            for (&i, scores) in batch.iter().zip(scores.chunks(scores.len() / batch.len())) {
                res[i] = decode(scores, &self.characters);
            }
        }
        Ok(res)
    }
}

/// The most likely character of each column, without repetitions and separators.
fn decode(scores: &[f32], characters: &[Option<String>]) -> Line {
    let (mut text, mut sum, mut count, mut last) = (String::new(), 0.0, 0, usize::MAX);
    for column in scores.chunks_exact(characters.len()) {
        let best = column.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let Some((at, score)) = best else { continue };
        if at != last
            && let Some(character) = &characters[at]
        {
            text.push_str(character);
            sum += score;
            count += 1;
        }
        last = at;
    }
    Line { text, score: if count == 0 { 0.0 } else { sum / count as f32 } }
}

#[test]
fn repeated_characters_need_a_separator() {
    let characters: Vec<Option<String>> = vec![None, Some("a".into()), Some("b".into())];
    let column = |best: usize| (0..3).map(move |i| if i == best { 0.8 } else { 0.1 });
    let cases: [(&[usize], &str); 5] =
        [(&[], ""), (&[0, 0], ""), (&[1, 1, 0, 1], "aa"), (&[0, 1, 2, 2, 0], "ab"), (&[2, 0, 2], "bb")];
    for (columns, text) in cases {
        let scores: Vec<f32> = columns.iter().flat_map(|&it| column(it)).collect();
        let got = decode(&scores, &characters);
        assert_eq!(got.text, text);
        assert!((got.score - if text.is_empty() { 0.0 } else { 0.8 }).abs() < 1e-6, "{}", got.score);
    }
}
