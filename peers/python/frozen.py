"""The node tests again, with inputs that say shapes, axes, limits, scales or weights as constants, as most exporters write them."""
import json, os, shutil

import onnx
from onnx import TensorProto

# Places of such inputs, by operator.
PLACES = {
    "AffineGrid": [1], "BatchNormalization": [1, 2, 3, 4], "BlackmanWindow": [0], "CenterCropPad": [1], "Clip": [1, 2], "Col2Im": [1, 2],
    "ConstantOfShape": [0], "Conv": [1, 2], "ConvInteger": [1, 2, 3], "ConvTranspose": [1, 2], "CumProd": [1], "CumSum": [1],
    "DFT": [1, 2], "DequantizeLinear": [1, 2], "Dropout": [1, 2], "Expand": [1], "GRU": [1, 2, 3, 4], "HammingWindow": [0],
    "HannWindow": [0], "LSTM": [1, 2, 3, 4], "MatMulInteger": [2, 3], "MaxUnpool": [2], "MelWeightMatrix": [0, 1, 2, 3, 4],
    "NonMaxSuppression": [2, 3, 4], "OneHot": [1, 2], "Pad": [1, 2, 3], "QLinearConv": [1, 2, 4, 5, 6, 7],
    "QLinearMatMul": [1, 2, 4, 5, 6, 7], "QuantizeLinear": [1, 2], "RNN": [1, 2, 3, 4], "Range": [0, 1, 2], "Reshape": [1],
    "Resize": [1, 2, 3], "ReverseSequence": [1], "STFT": [1, 3], "SequenceInsert": [2], "Slice": [1, 2, 3, 4], "Split": [1],
    "SplitToSequence": [1], "Squeeze": [1], "Tile": [1], "TopK": [1], "Trilu": [1], "Unsqueeze": [1], "Upsample": [1],
    **{f"Reduce{it}": [1] for it in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()},
}  # fmt: skip


def write_frozen(source, root):
    """Writes the tests below `source` that have such inputs to `root`."""
    index = []
    for it in json.load(open(os.path.join(source, "index.json"))):
        made = write_test(os.path.join(source, it["name"]), os.path.join(root, it["name"]), it) if it["sets"] == 1 else None
        index += [made] if made else []
    json.dump(index, open(os.path.join(root, "index.json"), "w"))


def write_test(source, folder, it):
    model = onnx.load(os.path.join(source, "model.onnx"))
    graph, kinds = model.graph, it["kinds"][0]
    names = [value.name for value in graph.input]
    constant = {
        node.input[place]
        for node in graph.node
        for place in PLACES.get(node.op_type, [])
        if place < len(node.input) and node.input[place] in names and kinds[names.index(node.input[place])] == "tensor"
    }
    if not constant:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    before, after = (os.path.join(of, "test_data_set_0") for of in (source, folder))
    shutil.copytree(before, after, ignore=shutil.ignore_patterns("input_*"))
    kept = [j for j, name in enumerate(names) if name not in constant]
    for j, name in enumerate(names):
        path = os.path.join(before, f"input_{j}.pb")
        if j in kept:
            shutil.copy(path, os.path.join(after, f"input_{kept.index(j)}.pb"))
            continue
        tensor = TensorProto.FromString(open(path, "rb").read())
        tensor.name = name
        graph.initializer.append(tensor)
    inputs = [graph.input[j] for j in kept]
    del graph.input[:]
    graph.input.extend(inputs)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    return {**it, "kinds": [[kinds[j] for j in kept], it["kinds"][1]]}
