//! Where the lines of text are: a model gives the probability of each pixel, and connected pixels are a line.

use std::path::Path;

use tvm::prelude::*;

use crate::picture::{Area, Picture};

/// A pixel belongs to a line from this probability on, and a line must have this mean.
const PIXEL: f32 = 0.3;
const LINE: f32 = 0.5;
/// The model finds the core of a line; area times this by circumference is the distance to its edge.
const GROW: f32 = 1.6;
/// Larger pictures are made smaller. Sides are multiples of 32 in the model.
const LONGEST: usize = 960;
const MULTIPLE: usize = 32;

pub(crate) struct Detector(CompiledModel);

impl Detector {
    /// Compiles the model for pictures of the size of this one.
    pub(crate) fn new(path: &Path, picture: &Picture) -> Result<Detector, tvm::ModelError> {
        let (width, height) = sides(picture);
        Ok(Detector(Model::onnx(path)?.shape("x", &[1, 3, height as i64, width as i64]).compile()?))
    }

    /// The lines of a picture of that size, from top to bottom.
    pub(crate) fn lines(&self, picture: &Picture) -> Result<Vec<Area>, tvm::ModelError> {
        let (width, height) = sides(picture);
        let gray = picture.scaled(picture.whole(), width, height);
        let image = [gray.as_slice(); 3].concat();
        let outputs = self.0.run((image, [1, 3, height as i64, width as i64]))?;
        let probabilities = outputs[0].as_slice::<f32>()?;
        let scale = |at: f32, from: usize, to: usize| {
            (at * to as f32 / from as f32).round().clamp(0.0, to as f32) as usize
        };
        let mut lines: Vec<Area> = cores(probabilities, width)
            .into_iter()
            .map(|core| {
                let (w, h) = ((core.right - core.left) as f32, (core.bottom - core.top) as f32);
                let more = w * h * GROW / (2.0 * (w + h));
                Area {
                    left: scale(core.left as f32 - more, width, picture.width),
                    top: scale(core.top as f32 - more, height, picture.height),
                    right: scale(core.right as f32 + more, width, picture.width),
                    bottom: scale(core.bottom as f32 + more, height, picture.height),
                }
            })
            .filter(|line| line.right > line.left + 3 && line.bottom > line.top + 3)
            .collect();
        lines.sort_by_key(|line| (line.top, line.left));
        Ok(lines)
    }
}

/// Width and height of `picture` in the model.
fn sides(picture: &Picture) -> (usize, usize) {
    let longest = picture.width.max(picture.height).max(LONGEST);
    let side = |pixels: usize| (pixels * LONGEST / longest + MULTIPLE / 2) / MULTIPLE;
    (side(picture.width).max(1) * MULTIPLE, side(picture.height).max(1) * MULTIPLE)
}

/// The rectangles around connected pixels that are likely enough, as a whole as well.
fn cores(probabilities: &[f32], width: usize) -> Vec<Area> {
    let height = probabilities.len() / width;
    let mut seen: Vec<bool> = probabilities.iter().map(|it| *it < PIXEL).collect();
    let mut res = Vec::new();
    for first in 0..probabilities.len() {
        if seen[first] {
            continue;
        }
        let mut area = Area { left: width, top: height, right: 0, bottom: 0 };
        let mut waiting = vec![first];
        seen[first] = true;
        while let Some(at) = waiting.pop() {
            let (x, y) = (at % width, at / width);
            area.left = area.left.min(x);
            area.top = area.top.min(y);
            area.right = area.right.max(x + 1);
            area.bottom = area.bottom.max(y + 1);
            for ny in y.saturating_sub(1)..(y + 2).min(height) {
                for nx in x.saturating_sub(1)..(x + 2).min(width) {
                    let next = ny * width + nx;
                    if !std::mem::replace(&mut seen[next], true) {
                        waiting.push(next);
                    }
                }
            }
        }
        let rows = (area.top..area.bottom).map(|y| &probabilities[y * width..][area.left..area.right]);
        let size = (area.right - area.left) * (area.bottom - area.top);
        if rows.flatten().sum::<f32>() >= LINE * size as f32 {
            res.push(area);
        }
    }
    res
}

#[test]
fn connected_pixels_are_a_line() {
    #[rustfmt::skip]
    let probabilities = [
        1.0, 1.0, 1.0, 0.0, 0.0, 0.0,
        0.0, 0.0, 0.0, 1.0, 0.0, 0.4,
        0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
        0.8, 0.8, 0.8, 0.8, 0.0, 0.0,
    ];
    let area = |left, top, right, bottom| Area { left, top, right, bottom };
    // The first one is connected by a corner; the pixel with 0.4 is not likely enough as a line.
    assert_eq!(cores(&probabilities, 6), [area(0, 0, 4, 2), area(0, 3, 4, 4)]);
    assert!(cores(&[], 6).is_empty());
}

#[test]
fn sides_are_multiples_of_32() {
    let cases =
        [((640, 384), (640, 384)), ((1, 47), (32, 32)), ((1920, 1080), (960, 544)), ((100, 9600), (32, 960))];
    for ((width, height), want) in cases {
        assert_eq!(sides(&Picture { width, height, pixels: Vec::new() }), want);
    }
}
