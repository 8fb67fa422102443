//! Classifies handwritten digits with a model and a kernel that the build script compiled. This program contains no compiler: it
//! links only `tvm-runtime`. It writes no file, and reads only its own executable, to report its size.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is an application")]

use std::error::Error;
use std::time::Instant;

use ndarray::{Array3, Array4, ArrayView1, Axis};

tvm_runtime::include_model!("digits");
tvm_runtime::include_kernel!("normalize");

/// Index of the first image that was not used for training.
const HELD_OUT: usize = 1437;
const RUNS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let (pixels, labels) = digits(include_bytes!("../../data/digits.bin"))?;
    let mut images = Array4::<f32>::zeros((labels.len(), 1, 8, 8));
    let normalize = Normalize::new()?;
    normalize.call(&pixels, &mut images)?;
    let (_, images) = images.view().split_at(Axis(0), HELD_OUT);
    let labels = &labels[HELD_OUT..];
    let model = Digits::new()?;

    let out = model.run(images)?;
    let scores = out.probabilities.view();
    let right = scores.rows().into_iter().zip(labels).filter(|(row, label)| argmax(row) == **label).count();
    let accuracy = right as f64 / labels.len() as f64;

    let start = Instant::now();
    for _ in 0..RUNS {
        model.run(images)?;
    }
    let rate = (RUNS * labels.len()) as f64 / start.elapsed().as_secs_f64();

    println!("model       {} ({})", Digits::TARGET, Digits::BACKEND);
    println!("device      {}", model.model().device());
    if let Some(reason) = model.model().no_gpu() {
        println!("no GPU      {reason}");
    }
    println!("kernel      {} ({})", Normalize::TARGET, normalize.cpu_level().unwrap_or("one CPU"));
    println!("accuracy    {accuracy:.4} ({right} of {})", labels.len());
    println!("speed       {rate:.0} images/s in batches of {}", labels.len());
    if let Ok(file) = std::env::current_exe().and_then(std::fs::metadata) {
        println!("binary      {:.1} KiB", file.len() as f64 / 1024.0);
    }
    if accuracy < 0.97 {
        return Err(format!("accuracy is {accuracy:.4}, expected at least 0.97").into());
    }
    Ok(())
}

/// Reads images (values 0 to 16) and labels from `digits.bin`; `examples/data/README.md` describes the layout.
fn digits(bytes: &[u8]) -> Result<(Array3<u8>, Vec<u8>), Box<dyn Error>> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let (Some(n), Some(height), Some(width)) = (word(4), word(8), word(12)) else {
        return Err("the data ends early".into());
    };
    let (pixels, labels) = bytes[16..].split_at_checked(n * height * width).ok_or("the data ends early")?;
    Ok((Array3::from_shape_vec((n, height, width), pixels.to_vec())?, labels.to_vec()))
}

fn argmax(row: &ArrayView1<'_, f32>) -> u8 {
    let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(digit, _)| digit as u8)
}
