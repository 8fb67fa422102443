//! What computes the answers for a batch of images: the digits model, or another one in tests.

use std::path::Path;

use serde::Serialize;
use tvm::prelude::*;
use tvm::runtime::vm::CancelToken;

/// Pixels of an image.
pub const PIXELS: usize = 64;
/// Digits that an image may show.
pub const CLASSES: usize = 10;

/// An image of 8 by 8 pixels, row by row, from 0 to 1.
pub type Image = [f32; PIXELS];

/// What an image shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The most likely digit.
    pub digit: u8,
    /// Its probability.
    pub score: f32,
}

/// Computes answers.
pub trait Engine: Send + Sync + 'static {
    /// The answer for each image. When `cancel` is cancelled, nobody waits for them any more.
    ///
    /// # Errors
    /// When there are no answers; the text says why.
    fn run(&self, images: &[Image], cancel: &CancelToken) -> Result<Vec<Answer>, String>;
}

/// The model of handwritten digits.
pub struct Digits(CompiledModel);

impl Digits {
    /// Compiles the model in the file at `path` for batches of up to `batch` images.
    ///
    /// # Errors
    /// When it cannot be compiled.
    pub fn new(path: &Path, batch: usize) -> Result<Digits, tvm::ModelError> {
        // A batch takes less time than waking a second thread.
        let model = Model::onnx(path)?.dim("n", 1..=batch as i64).threads(1).compile()?;
        model.run((vec![0.0f32; PIXELS], [1, 1, 8, 8]))?;
        Ok(Digits(model))
    }
}

impl Engine for Digits {
    fn run(&self, images: &[Image], cancel: &CancelToken) -> Result<Vec<Answer>, String> {
        let input = (images.concat(), [images.len() as i64, 1, 8, 8]);
        let options = RunOptions::new().cancel(cancel);
        let outputs = self.0.run_with(input, &options).map_err(|err| err.to_string())?;
        let probabilities = outputs["probabilities"].as_slice::<f32>().map_err(|err| err.to_string())?;
        Ok(probabilities.chunks(CLASSES).map(best).collect())
    }
}

fn best(probabilities: &[f32]) -> Answer {
    let best = probabilities.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(Answer { digit: 0, score: 0.0 }, |(digit, score)| Answer {
        digit: digit as u8,
        score: *score,
    })
}
