"""Mutations after which a model may still be valid: they lead to code that other mutations of the same model then strain."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mutate import Skip, mutation
from mutate_values import array_of

FLOATING = [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16]
INTEGER = [TensorProto.INT64, TensorProto.INT32, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT64]


def tensor_types(m):
    """Positions and types of the inputs that are tensors with a shape."""
    found = [(i, it.type.tensor_type) for i, it in enumerate(m.model.graph.input) if it.type.tensor_type.HasField("shape")]
    if not found:
        raise Skip
    return found


def forget_outputs(m):
    for it in m.model.graph.output:
        it.ClearField("type")
    del m.model.graph.value_info[:]


@mutation(6)
def symbolic(m):
    """Extents become dimensions: one for equal extents, or one for each; some stay."""
    types, shared, share = tensor_types(m), m.chance(0.6), m.rng.choice([0.3, 0.7, 1.0])
    names = []
    for i, it in types:
        for j, extent in enumerate(it.shape.dim):
            if extent.HasField("dim_value") and m.chance(share):
                extent.dim_param = f"n{extent.dim_value}" if shared else m.rng.choice([f"n{i}_{j}", f"n{i}_{j}", "?", ""])
                names.append(extent.dim_param)
    if m.chance(0.8):
        forget_outputs(m)
    return " ".join(names)[:100]


@mutation(4)
def resized(m):
    """Another extent, wherever the inputs have that extent."""
    types = tensor_types(m)
    old = m.pick(extent.dim_value for _, it in types for extent in it.shape.dim if extent.HasField("dim_value"))
    new = m.rng.choice([0, 0, 1, 1, 2, old + 1, max(old - 1, 0), 3 * old, 17, 129])
    for i, it in types:
        places = [j for j, extent in enumerate(it.shape.dim) if extent.dim_value == old and extent.HasField("dim_value")]
        if i in m.inputs and places:
            array = array_of(m, i)
            for j in places:
                if j < array.ndim and array.size // max(array.shape[j], 1) * new < 1 << 16:
                    array = np.resize(array, (*array.shape[:j], new, *array.shape[j + 1 :])) if array.size else np.zeros((*array.shape[:j], new, *array.shape[j + 1 :]), array.dtype)
            m.inputs[i] = numpy_helper.from_array(array).SerializeToString()
        for j in places:
            it.shape.dim[j].dim_value = new
    forget_outputs(m)
    return f"{old} -> {new}"


@mutation(3)
def retyped(m):
    """Another element type, wherever the inputs and constants have that type."""
    types = tensor_types(m)
    old = m.pick(it.elem_type for _, it in types)
    group = FLOATING if old in FLOATING else INTEGER if old in INTEGER else [*FLOATING, *INTEGER, TensorProto.BOOL]
    new = m.pick(it for it in group if it != old)
    dtype = helper.tensor_dtype_to_np_dtype(new)

    def convert(proto):
        array = numpy_helper.to_array(proto)
        if array.dtype.kind in "Oc":
            raise Skip
        with np.errstate(all="ignore"):
            return numpy_helper.from_array(array.astype(np.float64).astype(dtype), proto.name)

    changed = [(i, it) for i, it in types if it.elem_type == old]
    inputs = {i: convert(TensorProto.FromString(m.inputs[i])).SerializeToString() for i, _ in changed if i in m.inputs}
    for _, it in changed:
        it.elem_type = new
    m.inputs.update(inputs)
    for proto in m.tensors():
        if proto.data_type == old and not proto.external_data:
            proto.CopyFrom(convert(proto))
    for node in m.nodes():
        for it in node.attribute:
            if it.name in ("to", "dtype", "output_dtype") and it.i == old:
                it.i = new
    forget_outputs(m)
    return f"{TensorProto.DataType.Name(old)} -> {TensorProto.DataType.Name(new)}"


@mutation(4)
def passed_through(m):
    """A value takes a way that changes nothing, or its form only."""
    body = m.body()
    at = m.rng.randrange(len(body))
    user = body[at]
    edge = m.pick(i for i, name in enumerate(user.input) if name)
    x, y = user.input[edge], m.fresh("p")
    node = lambda op, inputs, output, **attributes: helper.make_node(op, inputs, [output], **attributes)
    constant = lambda *values: m.constant(np.array(values, np.int64))
    ways = {
        "Identity": lambda: [node("Identity", [x], y)],
        "Reshape": lambda: [node("Shape", [x], y + "s"), node("Reshape", [x, constant(-1)], y + "f"), node("Reshape", [y + "f", y + "s"], y)],
        "Unsqueeze": lambda: [node("Unsqueeze", [x, constant(0)], y + "u"), node("Squeeze", [y + "u", constant(0)], y)],
        "Squeeze": lambda: [node("Squeeze", [x], y)],
        "Slice": lambda: [node("Slice", [x, constant(0), constant(m.rng.choice([2**63 - 1, -1, 1]))], y)],
        "Expand": lambda: [node("Shape", [x], y + "s"), node("Expand", [x, y + "s"], y)],
        "Where": lambda: [node("Equal", [x, x], y + "c"), node("Where", [y + "c", x, x], y)],
        "Transpose": lambda: [node("Transpose", [x], y + "t"), node("Transpose", [y + "t"], y)],
        "NonZero": lambda: [node("NonZero", [x], y + "n"), node("Shape", [y + "n"], y + "s"), node("Gather", [x, y + "n"], y)],
        "Compress": lambda: [node("Equal", [x, x], y + "c"), node("Reshape", [y + "c", constant(-1)], y + "f"), node("Compress", [x, y + "f"], y)],
        "Sequence": lambda: [node("SequenceConstruct", [x], y + "q"), node("SequenceAt", [y + "q", m.constant(np.array(0, np.int64))], y)],
        "Dequantize": lambda: [node("DynamicQuantizeLinear", [x], y + "q"), node("Cast", [y + "q"], y, to=1)],
    }  # fmt: skip
    kind = m.rng.choice(list(ways))
    nodes = ways[kind]()
    if kind == "Dequantize":
        nodes[0].output.extend([y + "qs", y + "qz"])
    user.input[edge] = y
    copies = [onnx.NodeProto.FromString(it.SerializeToString()) for it in body]
    del body[:]
    body.extend([*copies[:at], *nodes, *copies[at:]])
    return f"{kind} before {user.op_type}"
