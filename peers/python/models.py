"""Writes the cases of `cargo xtask bench`: ONNX models of one operator or few, and their inputs as raw files.

    models.py FOLDER < specs.json > cases     # a list of {"id", "kind", …}; a case for the workers in each line

A file that exists is kept: a name determines its content, except after a change of this file or of networks.py, whose hash is in the
names of the notes in FOLDER.
"""
import hashlib, json, os, sys
import ml_dtypes
import numpy as np
from onnx import TensorProto as TP, helper as h, numpy_helper as nh

import networks

FOLDER = sys.argv[1]
TYPES = {"f32": (np.float32, TP.FLOAT), "bf16": (ml_dtypes.bfloat16, TP.BFLOAT16), "u8": (np.uint8, TP.UINT8),
         "i8": (np.int8, TP.INT8), "i32": (np.int32, TP.INT32), "i64": (np.int64, TP.INT64)}


def rnd(seed, shape, dtype="f32"):
    g = np.random.default_rng(seed)
    if dtype in ("u8", "i8"):
        return g.integers(0 if dtype == "u8" else -63, 63, shape).astype(TYPES[dtype][0])
    return g.standard_normal(shape, dtype=np.float32).astype(TYPES[dtype][0])


class Model:
    """Nodes, inputs and constants of a model under construction."""

    def __init__(self):
        self.nodes, self.inputs, self.constants, self.free, self.results = [], [], [], {}, []

    def input(self, name, shape, dtype="f32", seed=1):
        return self.given(name, rnd(seed, shape, dtype), dtype)

    def given(self, name, value, dtype):
        self.inputs.append((name, value, dtype))
        return name

    def normal(self, shape):
        """Random numbers for a constant, others for each."""
        return rnd(len(self.constants), shape)

    def constant(self, name, value):
        self.constants.append((name, value))
        return name

    def op(self, kind, args, out=None, **attributes):
        out = out or f"t{len(self.nodes)}"
        self.nodes.append(h.make_node(kind, args, [out], **attributes))
        return out


def matmul(m, s):
    dtype, rows, k, n = s.get("dtype", "f32"), s["m"], s["k"], s["n"]
    left, right = {"int8": ("u8", "i8")}.get(dtype, (dtype, dtype))
    a = m.input("a", (rows, k), left, 1)
    b = m.constant("b", rnd(2, (k, n), right)) if s.get("constant") else m.input("b", (k, n), right, 2)
    if s.get("symbolic"):
        m.free["a"] = m.free["y"] = ["m", None]
    after = s.get("then", "")
    if s.get("dequantized"):
        one = m.constant("one", np.array(1, np.float32))
        a, b = m.op("DequantizeLinear", [a, one]), m.op("DequantizeLinear", [b, one])
        m.op("MatMul", [a, b], "y")
        return (rows, n), "f32"
    y = m.op("MatMulInteger" if dtype == "int8" else "MatMul", [a, b], None if after else "y")
    if after == "gelu":
        y = m.op("Gelu", [m.op("Add", [y, m.constant("bias", rnd(3, (n,)))])], "y")
    elif after == "relu_residual":
        y = m.op("Relu", [m.op("Add", [y, m.constant("bias", rnd(3, (n,)))])])
        m.op("Add", [y, m.input("r", (rows, n), "f32", 4)], "y")
    return (rows, n), {"int8": "i32"}.get(dtype, dtype)


def conv(m, s):
    size, k, stride, groups = s["size"], s["kernel"], s["stride"], s.get("groups", 1)
    pad = k // 2
    x = m.input("x", (1, s["in"], size, size), "f32", 1)
    w = m.constant("w", rnd(2, (s["out"], s["in"] // groups, k, k)) / np.float32(k))
    m.op("Conv", [x, w], "y", kernel_shape=[k, k], strides=[stride, stride], pads=[pad] * 4, group=groups)
    out = (size + 2 * pad - k) // stride + 1
    return (1, s["out"], out, out), "f32"


def softmax(m, s):
    m.op("Softmax", [m.input("x", s["shape"], "f32", 3)], "y", axis=-1)
    return s["shape"], "f32"


def layernorm(m, s):
    n = s["shape"][-1]
    x = m.input("x", s["shape"], "f32", 4)
    g, b = m.constant("g", 1 + rnd(5, (n,)) / 8), m.constant("b", rnd(6, (n,)) / 8)
    m.op("LayerNormalization", [x, g, b], "y", axis=-1, epsilon=1e-5)
    return s["shape"], "f32"


def chain(m, s):
    a, b, c = (m.input(name, (s["n"],), "f32", 7 + i) for i, name in enumerate("abc"))
    m.op("Relu", [m.op("Add", [m.op("Mul", [a, b]), c])], "y")
    return (s["n"],), "f32"


def transpose(m, s):
    m.op("Transpose", [m.input("x", s["shape"], "f32", 8)], "y", perm=[1, 0])
    return s["shape"][::-1], "f32"


def reduce_sum(m, s):
    x, axes = m.input("x", s["shape"], "f32", 8), m.constant("axes", np.array([s["axis"]], np.int64))
    m.op("ReduceSum", [x, axes], "y", keepdims=0)
    return (s["shape"][1 - s["axis"]],), "f32"


def attention(m, s):
    shape = (1, s["heads"], s["length"], s["width"])
    q, k, v = (m.input(name, shape, "f32", 9 + i) for i, name in enumerate("qkv"))
    if s.get("operator"):
        m.op("Attention", [q, k, v], "y")
        return shape, "f32"
    scores = m.op("MatMul", [q, m.op("Transpose", [k], perm=[0, 1, 3, 2])])
    scale = m.constant("scale", np.array(s["width"] ** -0.5, np.float32))
    m.op("MatMul", [m.op("Softmax", [m.op("Mul", [scores, scale])], axis=-1), v], "y")
    return shape, "f32"


def weights(m, to, depth, k):
    return m.constant(f"w{len(m.constants)}", rnd(len(m.constants), (to, depth, k, k)) * np.float32((2 / (depth * k * k)) ** 0.5))


def resnet50(m, s):
    """The network with normalisation folded into the convolutions. Strides are in the first convolution of a block."""
    batch = s.get("batch", 1)
    x = m.input("x", (batch, 3, 224, 224), "f32", 1)

    def conv(x, depth, to, k, stride, relu=True):
        w, b = weights(m, to, depth, k), m.constant(f"b{len(m.constants)}", rnd(7, (to,)) / 8)
        y = m.op("Conv", [x, w, b], kernel_shape=[k, k], strides=[stride, stride], pads=[k // 2] * 4)
        return m.op("Relu", [y]) if relu else y

    x = conv(x, 3, 64, 7, 2)
    x, depth = m.op("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            side = conv(x, depth, 4 * width, 1, stride, False) if block == 0 else x
            y = conv(conv(x, depth, width, 1, stride), width, width, 3, 1)
            y = conv(y, width, 4 * width, 1, 1, False)
            x, depth = m.op("Relu", [m.op("Add", [y, side])]), 4 * width
    x = m.op("Flatten", [m.op("GlobalAveragePool", [x])])
    w, b = m.constant("dense", rnd(8, (2048, 1000)) / np.float32(45)), m.constant("dense_bias", rnd(9, (1000,)) / 8)
    m.op("Softmax", [m.op("Gemm", [x, w, b])], "y", axis=-1)
    return (batch, 1000), "f32"


def resnet50_convs(m, s):
    """Its 53 convolutions and nothing else, each on the result of the one before it; those of the side path and the first
    have results of their own."""

    def conv(x, depth, to, k, stride, out=None):
        return m.op("Conv", [x, weights(m, to, depth, k)], out, kernel_shape=[k, k], strides=[stride, stride], pads=[k // 2] * 4)

    m.results.append((conv(m.input("x", (1, 3, 224, 224), "f32", 1), 3, 64, 7, 2), (1, 64, 112, 112)))
    x, depth, size = m.input("pooled", (1, 64, 56, 56), "f32", 2), 64, 56
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            if block == 0:
                m.results.append((conv(x, depth, 4 * width, 1, stride), (1, 4 * width, size // stride, size // stride)))
            last = "y" if width == 512 and block == 2 else None
            size //= stride
            x, depth = conv(conv(conv(x, depth, width, 1, stride), width, width, 3, 1), width, 4 * width, 1, 1, last), 4 * width
    return (1, 2048, 7, 7), "f32"


KINDS = {"resnet50": resnet50, "resnet50_convs": resnet50_convs, "matmul": matmul, "conv": conv, "softmax": softmax,
         "layernorm": layernorm, "chain": chain, "transpose": transpose, "sum": reduce_sum, "attention": attention}
NETWORKS = {"mobilenet": networks.mobilenet, "minilm": networks.minilm}
KINDS.update(NETWORKS)


def raw(value, dtype):
    """Stores an input as a raw file, which the cases with the same input share."""
    data = np.ascontiguousarray(value).tobytes()
    path = os.path.join(FOLDER, f"{dtype}_{'x'.join(map(str, value.shape))}_{hashlib.sha1(data).hexdigest()[:12]}.bin")
    if not os.path.exists(path):
        with open(path, "wb") as f:
            f.write(data)
    return path


def built(spec):
    """The model of a kind that is built here, and its inputs."""
    m = Model()
    out_shape, out_type = KINDS[spec["kind"]](m, spec)
    info = lambda name, shape, dtype: h.make_tensor_value_info(
        name, TYPES[dtype][1], [free or n for free, n in zip(m.free.get(name, [None] * len(shape)), shape)])
    graph = h.make_graph(m.nodes, spec["id"], [info(name, value.shape, dtype) for name, value, dtype in m.inputs],
                         [info("y", out_shape, out_type)] + [info(name, shape, "f32") for name, shape in m.results],
                         [nh.from_array(value, name) for name, value in m.constants])
    ops = {node.op_type for node in m.nodes}
    opset, ir = (23, 11) if "Attention" in ops else (20, 9) if "Gelu" in ops else (17, 8)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=ir), m.inputs


def made(spec):
    """A whole model, and its inputs."""
    model, feeds = networks.MAKERS[spec["kind"]]({**spec, "data": FOLDER})
    names = {np.dtype(kind).name: name for name, (kind, _) in TYPES.items()}
    others = {"bool": "bool", "float16": "f16", "float64": "f64"}
    dtype = lambda value: names.get(value.dtype.name) or others[value.dtype.name]
    return model, [(name, value, dtype(value)) for name, value in feeds.items()]


def write(version, spec):
    note = os.path.join(FOLDER, f"{spec['id']}_{version}.json")
    if os.path.exists(note):
        with open(note) as f:
            return json.load(f)
    whole = spec["kind"] in networks.MAKERS or spec["kind"] in NETWORKS
    model, given = (made if spec["kind"] in networks.MAKERS else built)(spec)
    feeds = {name: value for name, value, _ in given}
    flop = networks.operations(model, feeds) if whole else None
    if spec.get("quantized"):
        model = networks.quantized(model, feeds)
    path = os.path.join(FOLDER, spec["id"] + ".onnx")
    with open(path, "wb") as f:
        f.write(model.SerializeToString())
    inputs = [{"name": name, "dtype": dtype, "shape": list(value.shape), "file": raw(value, dtype)} for name, value, dtype in given]
    # The workers of the Rust libraries for products know this kind, with both operands as inputs.
    plain = spec["kind"] == "matmul" and spec.get("dtype", "f32") == "f32" and len(inputs) == 2 and "then" not in spec
    case = {**spec, "kind": "sgemm" if plain else spec["kind"], "onnx": path, "inputs": inputs, "onnx_inputs": inputs}
    if flop:
        case["flop"] = flop
    with open(note, "w") as f:
        json.dump(case, f)
    return case


def main():
    os.makedirs(FOLDER, exist_ok=True)
    version = hashlib.sha1()
    for path in (__file__, networks.__file__):
        with open(path, "rb") as f:
            version.update(f.read())
    version = version.hexdigest()[:8]
    for spec in json.load(sys.stdin):
        try:
            case = write(version, spec)
        except Exception as err:
            case = {"id": spec["id"], "missing": f"{type(err).__name__}: {str(err)[:200]}"}
        print(json.dumps(case), flush=True)


main()
