//! Handwritten digits: a pre-processing kernel written here and an ONNX model, compiled together and called with types.
//!
//! `cargo run --release --example quickstart` (add `--features llvm` to compile through LLVM, `--features cuda` to run on a GPU where
//! there is one)
#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use std::path::Path;
use std::time::Instant;

use ndarray::{Array3, ArrayView3, Axis};
use tvm::BestTarget;
use tvm::codegen::{compile_module, resolve};
use tvm::prelude::*;

/// Number of images at the end of the data set that were not used for training.
const HELD_OUT: usize = 360;

/// Scales pixels from 0..=16 to 0..=1 and adds a channel axis.
#[prim_func]
fn normalize(pixels: &Tensor<u8, n, 8, 8>, image: &mut Tensor<f32, n, 1, 8, 8>) {
    for [b, i, j] in grid([n, 8, 8]) {
        image[[b, 0, i, j]] = pixels[[b, i, j]] as f32 / 16.0;
    }
}

/// Normalises the images and calls `main`, the imported model.
#[relax::func]
fn classify(pixels: Tensor<u8, n, 8, 8>) -> Tensor<f32, n, 10> {
    call_global("main", (call_tir(normalize, pixels),))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let (pixels, labels) = load_digits(&data.join("digits.bin"))?;
    let first = labels.len() - HELD_OUT;
    let (pixels, labels) = (pixels.slice(ndarray::s![first.., .., ..]), &labels[first..]);

    let start = Instant::now();
    let model = tvm::onnx::import_file(data.join("digits_cnn/model.onnx"), &Default::default())?;
    let module = classify::extend(model)?;
    let target = choose();
    let vm = compile_module(&module, &target)?;
    println!("compiled for {target} in {:.2} s", start.elapsed().as_secs_f64());

    let run =
        |pixels: ArrayView3<'_, u8>| vm.call("classify")?.input::<u8, 3>(&pixels)?.run()?.typed::<f32, 2>();
    let start = Instant::now();
    let scores = run(pixels)?;
    let mut times: Vec<f64> = vec![start.elapsed().as_secs_f64()];
    let right =
        scores.view().axis_iter(Axis(0)).zip(labels).filter(|(row, label)| best(row) == **label).count();
    let accuracy = right as f64 / HELD_OUT as f64;
    println!("accuracy {accuracy:.4}: {right} of {HELD_OUT} held-out images");

    while times.len() < 20 {
        let start = Instant::now();
        run(pixels)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{:.0} images/s (median of {} runs over all {HELD_OUT})",
        HELD_OUT as f64 / times[times.len() / 2],
        times.len()
    );
    if accuracy < 0.97 {
        return Err(format!("accuracy {accuracy} is below 0.97").into());
    }
    Ok(())
}

/// The CPU; with the feature `cuda`, a GPU if there is one.
fn choose() -> Target {
    if !cfg!(feature = "cuda") {
        return resolve(&Target::host());
    }
    let BestTarget { target, no_gpu } = BestTarget::find();
    if let Some(reason) = no_gpu {
        println!("no GPU: {reason}; running on the CPU");
    }
    target
}

/// Index of the largest score.
fn best(row: &ndarray::ArrayView1<'_, f32>) -> u8 {
    let largest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    largest.map_or(0, |(i, _)| i as u8)
}

/// Reads images and labels; `examples/data/README.md` describes the layout.
fn load_digits(path: &Path) -> Result<(Array3<u8>, Vec<u8>), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(path)?;
    let word = |i: usize| {
        bytes.get(i..i + 4).and_then(|it| it.try_into().ok()).map(|it| u32::from_le_bytes(it) as usize)
    };
    let (Some(b"DIG1"), Some(count), Some(rows), Some(columns)) =
        (bytes.get(..4), word(4), word(8), word(12))
    else {
        return Err(format!("{} is not a file of digits", path.display()).into());
    };
    let (pixels, labels) = bytes[16..].split_at(count * rows * columns);
    Ok((Array3::from_shape_vec((count, rows, columns), pixels.to_vec())?, labels.to_vec()))
}
