//! Finds speech in a recording with the model of silero-vad, which is called once per 32 ms and keeps a state between calls.
//!
//! `cargo run --release -p voice_activity [RECORDING.wav]`. Without a recording (16 kHz, 16 bits), it makes one and checks that it
//! finds the phrases in it. `examples/README.md` says where the model comes from.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is an application")]

mod segments;
mod voice;
mod wav;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use example_models::Asset;
use tvm::prelude::*;

use segments::Segment;
use voice::{RATE, Scene};
use wav::Recording;

const MODEL: Asset = Asset { package: "silero-vad==6.2.3", file: "silero_vad/data/silero_vad_16k_op15.onnx" };

/// Samples of a window, and how many before them the model sees as well.
const WINDOW: usize = 512;
const CONTEXT: usize = 64;

/// How far from its place a phrase that the example made may be found, in seconds.
const TOLERANCE: f32 = 0.25;

fn main() -> Result<(), Box<dyn Error>> {
    let Some([path]) = example_models::find([MODEL]) else { return Ok(()) };
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let (file, expected) = match given {
        Some(file) => (file, None),
        None => {
            let (file, spoken) = make()?;
            (file, Some(spoken))
        }
    };
    let recording = Recording::read(&file)?;
    if recording.rate != RATE {
        return Err(
            format!("{}: {} samples per second, expected {RATE}", file.display(), recording.rate).into()
        );
    }

    let start = Instant::now();
    let model = compile(&path)?;
    println!("compiled in {:.2} s\n{model}", start.elapsed().as_secs_f64());

    let start = Instant::now();
    let probabilities = probabilities(&model, &recording.samples)?;
    let (took, length) = (start.elapsed().as_secs_f32(), recording.samples.len() as f32 / RATE as f32);
    let windows = probabilities.len();
    println!(
        "{}: {length:.1} s, {windows} windows of {:.0} µs",
        file.display(),
        1e6 * took / windows.max(1) as f32
    );

    let found = segments::segments(&probabilities, WINDOW as f32 / RATE as f32);
    for (begin, end) in &found {
        println!("speech  {begin:6.2} s to {end:6.2} s");
    }
    println!("{} segments, {:.0} times as fast as the sound", found.len(), length / took);
    match expected {
        Some(spoken) => check(&found, &spoken),
        None => Ok(()),
    }
}

/// Writes a recording of two phrases and a tone; gives its path, and where the phrases are.
fn make() -> Result<(PathBuf, Vec<Segment>), Box<dyn Error>> {
    let first = Scene::new().pause(1.0).phrase("aeiouaieou", 120.0);
    let scene = first.pause(1.0).tone(440.0, 1.0).pause(0.5).phrase("oiaeuaie", 115.0).pause(0.5);
    let file = std::env::temp_dir().join("voice_activity.wav");
    Recording { samples: scene.samples, rate: RATE }.write(&file)?;
    Ok((file, scene.spoken))
}

fn compile(path: &Path) -> Result<CompiledModel, tvm::ModelError> {
    Model::onnx(path)?.dim("batch", 1).dim("sequence", (CONTEXT + WINDOW) as i64).threads(1).compile()
}

/// The probability of speech in each whole window.
fn probabilities(model: &CompiledModel, samples: &[f32]) -> Result<Vec<f32>, tvm::ModelError> {
    let mut padded = vec![0.0; CONTEXT];
    padded.extend(samples);
    let mut state = Tensor::zeros(&[2, 1, 128], DataType::F32)?;
    let windows = (0..samples.len() / WINDOW).map(|i| &padded[i * WINDOW..][..CONTEXT + WINDOW]);
    let run = |window: &[f32]| {
        let input = (window, [1, window.len() as i64]);
        // The model takes the state back, and may write the new one where the old one was.
        let old = std::mem::replace(&mut state, Tensor::zeros(&[0], DataType::F32)?);
        let mut outputs = model.run((("input", input), ("state", old), ("sr", (&[i64::from(RATE)], []))))?;
        state = outputs.take("stateN")?;
        Ok(outputs["output"].as_slice::<f32>()?[0])
    };
    windows.map(run).collect()
}

/// Compares what was found with what was spoken.
fn check(found: &[Segment], spoken: &[Segment]) -> Result<(), Box<dyn Error>> {
    let near = |a: f32, b: f32| (a - b).abs() <= TOLERANCE;
    let same = found.iter().zip(spoken).all(|(a, b)| near(a.0, b.0) && near(a.1, b.1));
    if found.len() == spoken.len() && same {
        return Ok(());
    }
    Err(format!("found {found:?}; the phrases are at {spoken:?}").into())
}
