#!/usr/bin/env python3
"""Lays out models of the onnx wheel's `backend/test/data/light` as ONNX backend-test directories.

    pip install onnx==1.23.2 numpy
    python3 tests/light/make_light.py OUT [NAME ...]        # default: squeezenet resnet50

Each model becomes OUT/light_NAME/{model.onnx, test_data_set_0/{input_0.pb, output_0.pb}}. The wheel ships the expected
output; the input that belongs to it is (arange(n).reshape(shape) / n).astype(float32) for every graph input that is
not an initializer, n being its number of elements (onnx/backend/test/runner, `generate_dummy_data` with random=False).
"""
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import numpy_helper


def make(name: str, out: str) -> str:
    light = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
    source = os.path.join(light, f"light_{name}.onnx")
    target = os.path.join(out, f"light_{name}")
    data = os.path.join(target, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    shutil.copyfile(source, os.path.join(target, "model.onnx"))
    shutil.copyfile(source.replace(".onnx", "_output_0.pb"), os.path.join(data, "output_0.pb"))
    graph = onnx.load(source).graph
    initializers = {i.name for i in graph.initializer}
    inputs = [i for i in graph.input if i.name not in initializers]
    for j, i in enumerate(inputs):
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        n = int(np.prod(shape))
        x = (np.arange(n).reshape(shape) / n).astype(np.float32)
        with open(os.path.join(data, f"input_{j}.pb"), "wb") as f:
            f.write(numpy_helper.from_array(x, i.name).SerializeToString())
    return target


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[2:] or ["squeezenet", "resnet50"]:
        print(make(name, sys.argv[1]))
