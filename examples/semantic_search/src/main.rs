//! Finds the lines of a text that mean what was asked, with a small transformer (MiniLM with 3 layers): one compiled model for any
//! number of lines of any length.
//!
//! `cargo run --release -p semantic_search [FILE [QUESTION]]`. `examples/README.md` says where model and vocabulary come from.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is an application")]

mod embed;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use embed::{Embedder, MODEL, TOKENIZER};

/// Number of lines that are printed.
const BEST: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let Some([model, tokenizer]) = example_models::find([MODEL, TOKENIZER]) else { return Ok(()) };
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sentences.txt");
    let file = std::env::args_os().nth(1).map_or_else(own, PathBuf::from);
    let question = std::env::args().nth(2).unwrap_or_else(|| "How is the weather today?".to_string());
    let text = std::fs::read_to_string(&file).map_err(|err| format!("{}: {err}", file.display()))?;
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(|it| !it.1.is_empty())
        .collect();

    let start = Instant::now();
    let embedder = Embedder::new(&model, &tokenizer)?;
    println!("compiled in {:.2} s\n{}", start.elapsed().as_secs_f64(), embedder.model());

    let start = Instant::now();
    let sentences: Vec<&str> = lines.iter().map(|it| it.1).collect();
    let embeddings = embedder.embed(&sentences)?;
    let took = start.elapsed().as_secs_f64();
    println!("{}: {} lines, {:.0} per second", file.display(), lines.len(), lines.len() as f64 / took);

    let asked = embedder.embed(&[&question])?;
    let score = |i: usize| asked.iter().map(|it| it.cosine(&embeddings[i])).sum::<f32>();
    let mut ranked: Vec<(usize, f32)> = (0..lines.len()).map(|i| (i, score(i))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    println!("\n{question}");
    for (i, score) in ranked.into_iter().take(BEST) {
        println!("{score:6.3}  line {:<4} {}", lines[i].0, lines[i].1);
    }
    Ok(())
}
