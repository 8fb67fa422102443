//! Says what files contain, from their bytes, with the model of magika: a classifier of 214 types that is called on batches of
//! any size up to 64.
//!
//! `cargo run --release -p file_type [FOLDER]`. Without a folder, it looks at the repository and checks its answers against the
//! extensions. `examples/README.md` says where the model comes from.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is an application")]

mod config;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use example_models::Asset;
use tvm::prelude::*;

use config::{Config, Kinds};

const MODEL: Asset = Asset { package: "magika==1.0.3", file: "magika/models/standard_v3_3/model.onnx" };
const CONFIG: Asset = Asset { file: "magika/models/standard_v3_3/config.min.json", ..MODEL };
const KINDS: Asset = Asset { file: "magika/config/content_types_kb.min.json", ..MODEL };

const BATCH: usize = 64;

/// How many of the repository's files must have the type that their extension says.
const AGREEMENT: f64 = 0.9;

/// A file, the bytes that the model sees, and its answer.
struct Row {
    path: String,
    extension: String,
    features: Option<Vec<i32>>,
    kind: String,
    score: f32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some([model, config, kinds]) = example_models::find([MODEL, CONFIG, KINDS]) else { return Ok(()) };
    let (config, kinds) = (Config::read(&config)?, Kinds::read(&kinds)?);
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut rows = Vec::new();
    walk(given.as_deref().unwrap_or(&own), "", &config, &mut rows)?;
    rows.sort_by(|a, b| a.path.cmp(&b.path));

    let start = Instant::now();
    // The number of files is the only symbolic dimension of the model.
    let model = Model::onnx(model)?.dim("unk__214", 1..=BATCH as i64).compile()?;
    println!("compiled in {:.2} s\n{model}", start.elapsed().as_secs_f64());
    let start = Instant::now();
    for batch in rows.chunks_mut(BATCH) {
        classify(&model, &config, &kinds, batch)?;
    }
    let took = start.elapsed().as_secs_f64();

    for Row { path, kind, score, .. } in &rows {
        println!("{path:<72} {kind:<12} {score:.3}");
    }
    println!("{} files, {:.0} per second", rows.len(), rows.len() as f64 / took);
    let known: Vec<bool> = rows.iter().filter_map(|row| kinds.agrees(&row.kind, &row.extension)).collect();
    let agreement = known.iter().filter(|it| **it).count() as f64 / known.len().max(1) as f64;
    println!("{:.1} % of {} have the type that their extension says", 100.0 * agreement, known.len());
    if given.is_none() && agreement < AGREEMENT {
        return Err(
            format!("the types agree with {agreement:.3} of the extensions, expected {AGREEMENT}").into()
        );
    }
    Ok(())
}

/// Reads the files below `folder`, except for hidden ones and build output.
fn walk(folder: &Path, prefix: &str, config: &Config, rows: &mut Vec<Row>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let (path, kind) = (format!("{prefix}{name}"), entry.file_type()?);
        if name.starts_with('.') || entry.path().join("CACHEDIR.TAG").exists() {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), config, rows)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path())?;
            let extension = entry.path().extension().unwrap_or_default().to_string_lossy().into_owned();
            let kind = if std::str::from_utf8(&bytes).is_ok() { "txt" } else { "unknown" };
            let features = config.features(&bytes);
            rows.push(Row { path, extension, features, kind: kind.into(), score: 1.0 });
        }
    }
    Ok(())
}

/// Sets type and score of the files that have enough bytes; the others are text if they are UTF-8.
fn classify(
    model: &CompiledModel,
    config: &Config,
    kinds: &Kinds,
    rows: &mut [Row],
) -> Result<(), tvm::ModelError> {
    let mut rows: Vec<&mut Row> = rows.iter_mut().filter(|row| row.features.is_some()).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let bytes: Vec<i32> = rows.iter().flat_map(|row| row.features.iter().flatten().copied()).collect();
    let shape = [rows.len() as i64, (config.beg_size + config.end_size) as i64];
    let outputs = model.run(("bytes", (bytes, shape)))?;
    let scores = outputs["target_label"].as_slice::<f32>()?;
    let width = scores.len() / rows.len();
    for (row, scores) in rows.iter_mut().zip(scores.chunks(width)) {
        let (kind, score) = config.judge(scores, kinds);
        (row.kind, row.score) = (kind.to_string(), score);
    }
    Ok(())
}
