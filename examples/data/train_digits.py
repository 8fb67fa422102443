#!/usr/bin/env python3
"""Trains the digits CNN (numpy only, fixed seed) and writes the ONNX backend-test directory `digits_cnn/`.

    pip install onnx==1.23.2 numpy
    python3 examples/data/train_digits.py

Trains on the first 1,437 images of `digits.bin`, prints the accuracy on the last 360, exports `digits_cnn/model.onnx`
(symbolic batch `n`) and three test data sets whose outputs come from onnx's reference evaluator, not from the code here.
The recipe is fixed: the held-out images decide nothing, the weights are those after the last epoch. Another BLAS may
round otherwise and so give slightly other weights.

    image [n,1,8,8] -> Conv 3x3 (16) -> Relu -> Conv 3x3 (32) -> BatchNormalization -> Relu -> MaxPool 2x2
      -> Conv 3x3 (32) -> Add (skip) -> Relu -> Flatten -> Gemm (64) -> Relu -> Gemm (10) -> Softmax -> probabilities [n,10]
"""
import os
import shutil
import struct

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN, EPOCHS, BATCH, RATE, DECAY, BN_EPS, SEED = 1437, 60, 32, 2e-3, 1e-2, 1e-5, 7


def load():
    with open(os.path.join(HERE, "digits.bin"), "rb") as f:
        magic, count, height, width = struct.unpack("<4sIII", f.read(16))
        assert magic == b"DIG1"
        pixels = np.frombuffer(f.read(count * height * width), np.uint8).reshape(count, 1, height, width)
        labels = np.frombuffer(f.read(count), np.uint8)
    return pixels.astype(np.float32) / 16, labels.astype(np.int64)


def columns(x):
    """[n,c,h,w] -> [n*h*w, c*9]: the 3x3 neighbourhoods under padding 1."""
    n, c, h, w = x.shape
    v = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return np.ascontiguousarray(v.transpose(0, 2, 3, 1, 4, 5)).reshape(n * h * w, c * 9)


def conv(x, w, b):
    n, _, h, wd = x.shape
    col = columns(x)
    y = (col @ w.reshape(len(w), -1).T + b).reshape(n, h, wd, -1).transpose(0, 3, 1, 2)
    return y, col


def conv_back(dy, col, x_shape, w):
    """Gradients with respect to the input, weight and bias of `conv`."""
    n, c, h, wd = x_shape
    d = np.ascontiguousarray(dy.transpose(0, 2, 3, 1)).reshape(n * h * wd, -1)
    dcol = (d @ w.reshape(len(w), -1)).reshape(n, h, wd, c, 3, 3)
    dx = np.zeros((n, c, h + 2, wd + 2), np.float32)
    for i in range(3):
        for j in range(3):
            dx[:, :, i : i + h, j : j + wd] += dcol[:, :, :, :, i, j].transpose(0, 3, 1, 2)
    return dx[:, :, 1:-1, 1:-1], (d.T @ col).reshape(w.shape), d.sum(0)


def init(rng):
    def he(*shape):
        return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

    def fill(n, v=0.0):
        return np.full(n, v, np.float32)

    return {
        "conv1.weight": he(16, 1, 3, 3), "conv1.bias": fill(16),
        "conv2.weight": he(32, 16, 3, 3), "conv2.bias": fill(32),
        "bn.scale": fill(32, 1.0), "bn.bias": fill(32), "bn.mean": fill(32), "bn.var": fill(32, 1.0),
        "conv3.weight": he(32, 32, 3, 3) * 0.5, "conv3.bias": fill(32),
        "fc1.weight": he(64, 512), "fc1.bias": fill(64),
        "fc2.weight": he(10, 64), "fc2.bias": fill(10),
    }  # fmt: skip


def step(p, x, y, rng):
    """One forward and backward pass; returns (loss, gradients) and updates the running statistics in `p`."""
    g, ch = {}, (None, slice(None), None, None)
    a1, col1 = conv(x, p["conv1.weight"], p["conv1.bias"])
    r1 = np.maximum(a1, 0)
    a2, col2 = conv(r1, p["conv2.weight"], p["conv2.bias"])
    mean, var = a2.mean((0, 2, 3)), a2.var((0, 2, 3))
    p["bn.mean"] += 0.05 * (mean - p["bn.mean"])
    p["bn.var"] += 0.05 * (var - p["bn.var"])
    inv = 1 / np.sqrt(var + BN_EPS)
    hat = (a2 - mean[ch]) * inv[ch]
    r2 = np.maximum(hat * p["bn.scale"][ch] + p["bn.bias"][ch], 0)
    n = len(x)
    tiles = r2.reshape(n, 32, 4, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, 32, 4, 4, 4)
    pick = tiles.argmax(-1)[..., None]
    m = np.take_along_axis(tiles, pick, -1)[..., 0]
    a3, col3 = conv(m, p["conv3.weight"], p["conv3.bias"])
    r3 = np.maximum(a3 + m, 0)
    f = r3.reshape(n, -1)
    a4 = f @ p["fc1.weight"].T + p["fc1.bias"]
    keep = (rng.random(a4.shape) < 0.7).astype(np.float32) / 0.7  # dropout, in training only
    r4 = np.maximum(a4, 0) * keep
    z = r4 @ p["fc2.weight"].T + p["fc2.bias"]
    z -= z.max(1, keepdims=True)
    q = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    loss = -np.log(q[np.arange(n), y] + 1e-12).mean()

    d = q.copy()
    d[np.arange(n), y] -= 1
    d /= n
    g["fc2.weight"], g["fc2.bias"] = d.T @ r4, d.sum(0)
    d = (d @ p["fc2.weight"]) * keep * (a4 > 0)
    g["fc1.weight"], g["fc1.bias"] = d.T @ f, d.sum(0)
    d = (d @ p["fc1.weight"]).reshape(r3.shape) * (r3 > 0)
    dm, g["conv3.weight"], g["conv3.bias"] = conv_back(d, col3, m.shape, p["conv3.weight"])
    dm += d
    dt = np.zeros_like(tiles)
    np.put_along_axis(dt, pick, dm[..., None], -1)
    d = dt.reshape(n, 32, 4, 4, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(r2.shape) * (r2 > 0)
    g["bn.scale"], g["bn.bias"] = (d * hat).sum((0, 2, 3)), d.sum((0, 2, 3))
    d = d * p["bn.scale"][ch]
    d = inv[ch] * (d - d.mean((0, 2, 3))[ch] - hat * (d * hat).mean((0, 2, 3))[ch])
    d, g["conv2.weight"], g["conv2.bias"] = conv_back(d, col2, r1.shape, p["conv2.weight"])
    _, g["conv1.weight"], g["conv1.bias"] = conv_back(d * (a1 > 0), col1, x.shape, p["conv1.weight"])
    return loss, g


def augment(x, rng):
    """A random shear, scale and shift of each image (bilinear): handwriting varies more than 1,437 images show."""
    n = len(x)
    m = np.tile(np.eye(2), (n, 1, 1)) + rng.uniform(-0.15, 0.15, (n, 2, 2))
    t = rng.uniform(-0.8, 0.8, (n, 2, 1, 1))
    grid = np.stack(np.meshgrid(np.arange(8) - 3.5, np.arange(8) - 3.5, indexing="ij"))
    at = np.einsum("nij,jhw->nihw", m, grid) + t + 3.5 + 2  # +2: the image is padded by two pixels
    at = np.clip(at, 0, 10.999)
    lo = at.astype(int)
    fy, fx = (at - lo)[:, 0], (at - lo)[:, 1]
    pad = np.pad(x[:, 0], ((0, 0), (2, 2), (2, 2)))
    i = np.arange(n)[:, None, None]
    y0, x0 = lo[:, 0], lo[:, 1]
    top = pad[i, y0, x0] * (1 - fx) + pad[i, y0, x0 + 1] * fx
    low = pad[i, y0 + 1, x0] * (1 - fx) + pad[i, y0 + 1, x0 + 1] * fx
    return (top * (1 - fy) + low * fy)[:, None].astype(np.float32)


def train(x, y):
    rng = np.random.default_rng(SEED)
    p = init(rng)
    learn = [k for k in p if k not in ("bn.mean", "bn.var")]
    first, second = ({k: np.zeros_like(p[k]) for k in learn} for _ in range(2))
    t, total = 0, EPOCHS * (len(x) // BATCH)
    for epoch in range(EPOCHS):
        order, losses = rng.permutation(len(x)), []
        for s in range(len(x) // BATCH):
            i = order[s * BATCH : (s + 1) * BATCH]
            loss, g = step(p, augment(x[i], rng), y[i], rng)
            losses.append(loss)
            t += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * t / total))
            for k in learn:  # AdamW
                first[k] = 0.9 * first[k] + 0.1 * g[k]
                second[k] = 0.999 * second[k] + 0.001 * g[k] ** 2
                move = first[k] / (1 - 0.9**t) / (np.sqrt(second[k] / (1 - 0.999**t)) + 1e-8)
                decay = DECAY * p[k] if k.endswith("weight") else 0
                p[k] = (p[k] - rate * (move + decay)).astype(np.float32)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)
    return p


def export(p):
    c3 = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1", **c3),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", **c3),
        helper.make_node(
            "BatchNormalization", ["c2", "bn.scale", "bn.bias", "bn.mean", "bn.var"], ["b2"], "bn", epsilon=BN_EPS
        ),
        helper.make_node("Relu", ["b2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["m2"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["m2", "conv3.weight", "conv3.bias"], ["c3"], "conv3", **c3),
        helper.make_node("Add", ["c3", "m2"], ["s3"], "skip"),
        helper.make_node("Relu", ["s3"], ["r3"], "relu3"),
        helper.make_node("Flatten", ["r3"], ["f"], "flatten", axis=1),
        helper.make_node("Gemm", ["f", "fc1.weight", "fc1.bias"], ["g1"], "fc1", transB=1),
        helper.make_node("Relu", ["g1"], ["r4"], "relu4"),
        helper.make_node("Gemm", ["r4", "fc2.weight", "fc2.bias"], ["logits"], "fc2", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits_cnn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(v, k) for k, v in p.items()],
    )
    model = helper.make_model(graph, producer_name="train_digits.py", opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    x, y = load()
    model = export(train(x[:TRAIN], y[:TRAIN]))
    evaluate = ReferenceEvaluator(model)

    def oracle(images):
        return evaluate.run(None, {"image": images})[0]

    held_out = oracle(x[TRAIN:])
    right = int((held_out.argmax(1) == y[TRAIN:]).sum())
    print(f"held out: {right} of {len(held_out)} right, accuracy {right / len(held_out):.4f}")

    out = os.path.join(HERE, "digits_cnn")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    with open(os.path.join(out, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())
    for i, n in enumerate([5, 1, 64]):
        data = os.path.join(out, f"test_data_set_{i}")
        os.makedirs(data)
        images = x[TRAIN : TRAIN + n]
        for name, key, value in [("input_0.pb", "image", images), ("output_0.pb", "probabilities", oracle(images))]:
            with open(os.path.join(data, name), "wb") as f:
                f.write(numpy_helper.from_array(value, key).SerializeToString())


if __name__ == "__main__":
    main()
