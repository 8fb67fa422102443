//! Reads the text in a picture with two models of PP-OCR: one finds the lines, the other one reads them. They are compiled for
//! the size of the picture and for three lengths of lines.
//!
//! `cargo run --release -p ocr [PICTURE.png]`. Without a picture, it draws one and checks that it reads what it drew.
//! `examples/README.md` says where the models come from.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is an application")]

mod detect;
mod picture;
mod read;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use example_models::Asset;
use noto_sans_mono_bitmap::RasterHeight;

use detect::Detector;
use picture::Picture;
use read::Reader;

const PACKAGE: &str = "rapidocr-onnxruntime==1.4.4";
const DETECTION: Asset =
    Asset { package: PACKAGE, file: "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx" };
const RECOGNITION: Asset =
    Asset { package: PACKAGE, file: "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx" };

/// What the example draws: text, left, top, height of the letters.
const DRAWN: [(&str, usize, usize, RasterHeight); 5] = [
    ("Invoice 2024-0815", 40, 30, RasterHeight::Size32),
    ("The quick brown fox jumps", 40, 110, RasterHeight::Size24),
    ("over 13 lazy dogs.", 300, 180, RasterHeight::Size24),
    ("Total: 1,234.50 EUR", 40, 250, RasterHeight::Size32),
    ("Thank you!", 420, 330, RasterHeight::Size20),
];

fn main() -> Result<(), Box<dyn Error>> {
    let Some([detection, recognition]) = example_models::find([DETECTION, RECOGNITION]) else {
        return Ok(());
    };
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let drawn = given.is_none();
    let file = match given {
        Some(file) => file,
        None => draw()?,
    };
    let picture = Picture::read(&file).map_err(|err| format!("{}: {err}", file.display()))?;

    let start = Instant::now();
    let (detector, mut reader) = (Detector::new(&detection, &picture)?, Reader::new(&recognition)?);
    let mut compiling = start.elapsed();
    let start = Instant::now();
    let areas = detector.lines(&picture)?;
    let finding = start.elapsed();
    let start = Instant::now();
    reader.prepare(&areas)?;
    compiling += start.elapsed();
    let start = Instant::now();
    let lines = reader.read(&picture, &areas)?;
    let reading = start.elapsed();

    println!("compiled in {:.2} s", compiling.as_secs_f64());
    for (area, line) in areas.iter().zip(&lines) {
        println!("{:4},{:<4} {:.3}  {}", area.left, area.top, line.score, line.text);
    }
    println!(
        "{}: {} lines, found in {:.0} ms, read in {:.0} ms",
        file.display(),
        lines.len(),
        finding.as_secs_f64() * 1e3,
        reading.as_secs_f64() * 1e3
    );
    let read: Vec<&str> = lines.iter().map(|it| it.text.as_str()).collect();
    if drawn && read != DRAWN.map(|it| it.0) {
        return Err(format!("the lines are {:?}", DRAWN.map(|it| it.0)).into());
    }
    Ok(())
}

/// Draws a picture, writes it and gives its path.
fn draw() -> Result<PathBuf, Box<dyn Error>> {
    let mut picture = Picture::new(640, 384);
    for (text, left, top, size) in DRAWN {
        picture.draw(text, left, top, size);
    }
    let file = std::env::temp_dir().join("ocr.png");
    picture.write(&file)?;
    Ok(file)
}
