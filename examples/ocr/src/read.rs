//! What the lines say: a model gives the probability of each character in each column, and repeated ones are one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::path::Path;

use prost::Message;
use tvm::prelude::*;

use crate::picture::{Area, Picture};

/// Height of a line in the model.
const HEIGHT: usize = 48;
/// Widths that the model is compiled for. Convolutions over extents that are numbers are many times as fast as over symbolic
/// ones. A line is filled up to the next width; longer ones are squeezed.
const WIDTHS: [usize; 3] = [320, 640, 1280];

pub(crate) struct Reader {
    bytes: Vec<u8>,
    /// The model for each of the widths that occurred.
    models: BTreeMap<usize, CompiledModel>,
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
    metadata: Vec<Property>,
}

#[derive(Message)]
struct Property {
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
        Ok(Reader { bytes, models: BTreeMap::new(), characters })
    }

    /// Compiles the model for lines of these sizes, unless it was done before.
    pub(crate) fn prepare(&mut self, areas: &[Area]) -> Result<(), tvm::ModelError> {
        for (_, width) in areas.iter().map(widths) {
            if let Entry::Vacant(entry) = self.models.entry(width) {
                let shape = [1, 3, HEIGHT as i64, width as i64];
                entry.insert(Model::onnx_bytes(&self.bytes)?.shape("x", &shape).compile()?);
            }
        }
        Ok(())
    }

    /// Reads the lines at `areas`, in order.
    pub(crate) fn read(&mut self, picture: &Picture, areas: &[Area]) -> Result<Vec<Line>, tvm::ModelError> {
        self.prepare(areas)?;
        areas.iter().map(|area| self.read_line(picture, area)).collect()
    }

    fn read_line(&self, picture: &Picture, area: &Area) -> Result<Line, tvm::ModelError> {
        let (own, width) = widths(area);
        let gray = picture.scaled(*area, own, HEIGHT);
        let empty = vec![0.0; width - own];
        // Rows are filled up with gray; the three colours are the same.
        let plane: Vec<f32> = gray.chunks(own).flat_map(|row| row.iter().chain(&empty)).copied().collect();
        let image = [plane.as_slice(); 3].concat();
        let outputs = self.models[&width].run((image, [1, 3, HEIGHT as i64, width as i64]))?;
        Ok(decode(outputs[0].as_slice::<f32>()?, &self.characters))
    }
}

/// The width of a line that has the height of the model, and the width of the model for it.
fn widths(area: &Area) -> (usize, usize) {
    let [.., largest] = WIDTHS;
    let own = ((area.right - area.left) * HEIGHT).div_ceil((area.bottom - area.top).max(1)).clamp(1, largest);
    (own, WIDTHS.into_iter().find(|it| *it >= own).unwrap_or(largest))
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
fn lines_are_filled_up_or_squeezed() {
    let area = |width: usize, height: usize| Area { left: 10, top: 5, right: 10 + width, bottom: 5 + height };
    let cases = [
        ((100, 48), (100, 320)),
        ((320, 48), (320, 320)),
        ((200, 24), (400, 640)),
        ((9000, 48), (1280, 1280)),
    ];
    for ((width, height), want) in cases {
        assert_eq!(widths(&area(width, height)), want);
    }
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
