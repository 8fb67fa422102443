"""Mutations of what a model says of its values: types, constants, attributes, quantisation, external data; of its inputs; of bytes."""
import functools

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from mutate import FLOATS, HUGE, NEGATIVE, SMALL, TEXTS, TYPES, Skip, changed, mutation, tensor

# Types of values.


def shape_of(m):
    info = m.pick(it for it in m.infos() if it.type.HasField("tensor_type"))
    return info, info.type.tensor_type.shape.dim


@mutation(4)
def dim(m):
    info, dims = shape_of(m)
    extent = m.pick(dims)
    if m.chance(0.3):
        extent.dim_param = m.rng.choice(TEXTS[:6] + ["M", "K", info.name])
        return f"{info.name} {extent.dim_param!r}"
    extent.dim_value = m.number()
    return f"{info.name} {extent.dim_value}"


@mutation(2)
def rank(m):
    info, dims = shape_of(m)
    if m.chance(0.3):
        info.type.tensor_type.ClearField("shape")
        return f"{info.name}: none"
    if len(dims) and m.chance(0.5):
        del dims[m.rng.randrange(len(dims))]
    else:
        for _ in range(m.rng.choice([1, 1, 2, 9, 33, 300])):
            dims.add().dim_value = m.rng.choice([0, 1, 1, 2])
    return f"{info.name}: {len(dims)}"


@mutation(3)
def element_type(m):
    info, _ = shape_of(m)
    info.type.tensor_type.elem_type = m.rng.choice(TYPES + [0, 27, 255, 2**31 - 1, -1])
    return f"{info.name}: {info.type.tensor_type.elem_type}"


@mutation(1)
def kind_of_value(m):
    info = m.pick(m.infos())
    old, kind = onnx.TypeProto.FromString(info.type.SerializeToString()), m.rng.choice(["sequence", "optional", "map", "sparse", "none"])
    info.ClearField("type")
    for _ in range(m.rng.choice([1, 1, 2, 30])):
        outer = onnx.TypeProto()
        if kind == "sequence":
            outer.sequence_type.elem_type.CopyFrom(old)
        elif kind == "optional":
            outer.optional_type.elem_type.CopyFrom(old)
        elif kind == "map":
            outer.map_type.key_type = m.rng.choice(TYPES)
            outer.map_type.value_type.CopyFrom(old)
        elif kind == "sparse":
            outer.sparse_tensor_type.elem_type = m.rng.choice(TYPES)
        old = outer
    info.type.CopyFrom(old)
    return f"{info.name}: {kind}"


@mutation(1)
def value_info(m):
    graph, name = m.pick(m.graphs()), m.pick(m.names())
    shape = [m.rng.choice([m.number(), "N", "x"]) for _ in range(m.rng.choice([0, 1, 2, 4]))]
    graph.value_info.append(helper.make_tensor_value_info(name, m.rng.choice(TYPES), [it if isinstance(it, str) else it for it in shape]))
    return f"{name}: {shape}"


# Constants.


def array_of(m, at):
    proto = TensorProto.FromString(m.inputs[at])
    if int(np.prod(proto.dims, dtype=float)) > 1 << 16:
        raise Skip
    return numpy_helper.to_array(proto)


@mutation(5)
def freeze(m):
    """An input becomes a constant, as are shapes and axes in most models."""
    graph = m.model.graph
    at = m.pick(it for it in m.inputs if it < len(graph.input) and graph.input[it].type.HasField("tensor_type"))
    array, what = array_of(m, at), "as it is"
    if m.chance(0.6):
        array, what = changed(m, array)
    name = graph.input[at].name
    m.constant(array, name)
    if m.chance(0.8):
        del graph.input[at]
        m.inputs = {i - (i > at): data for i, data in m.inputs.items() if i != at}
    return f"{name}: {what}"


@mutation(3)
def constant_message(m):
    """Fields of a tensor that contradict each other."""
    proto = m.pick(m.tensors())
    kind = m.rng.choice(["dims", "dims", "dtype", "cut", "more", "both", "none", "name", "segment", "string"])
    if kind == "dims":
        dims = list(proto.dims)
        if dims and m.chance(0.7):
            dims[m.rng.randrange(len(dims))] = m.number()
        else:
            dims = [m.number() for _ in range(m.rng.choice([1, 2, 3, 64]))]
        del proto.dims[:]
        proto.dims.extend(dims)
    elif kind == "dtype":
        proto.data_type = m.rng.choice(TYPES + [0, 27, 255, -1])
    elif kind == "cut":
        proto.raw_data = proto.raw_data[: m.rng.randrange(len(proto.raw_data) + 1)]
    elif kind == "more":
        proto.raw_data += b"\x01" * m.rng.choice([1, 4, 8, 1000])
    elif kind == "both":
        proto.float_data.extend(FLOATS)
        proto.int32_data.extend([2**31 - 1, -1])
    elif kind == "none":
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "string_data"):
            proto.ClearField(field)
    elif kind == "name":
        proto.name = m.pick(m.names())
    elif kind == "segment":
        proto.segment.begin, proto.segment.end = m.number(), m.number()
    else:
        proto.string_data.append(b"\xff\xfe" * m.rng.choice([1, 1000]))
    return f"{proto.name}: {kind}"


@mutation(3)
def constant_values(m):
    proto = m.pick(it for it in m.tensors() if not it.external_data and np.prod(it.dims, dtype=float) < 1 << 16)
    try:
        array, what = changed(m, numpy_helper.to_array(proto))
    except Exception as err:  # What the package cannot read is not changed.
        raise Skip from err
    proto.CopyFrom(numpy_helper.from_array(array, proto.name))
    return f"{proto.name}: {what}"


@mutation(1)
def constant_twice(m):
    graph = m.model.graph
    name = m.pick([*m.names(), *m.names(), "", "nope"])
    graph.initializer.append(tensor(m, name))
    return name


@mutation(1)
def sparse_constant(m):
    name, count = m.pick(m.names()), m.rng.choice([0, 1, 3])
    values, indices = tensor(m, name, dims=[count]), numpy_helper.from_array(np.array([m.number() for _ in range(count)], np.int64), "i")
    sparse = m.model.graph.sparse_initializer.add(dims=[m.number() for _ in range(m.rng.choice([1, 2]))])
    sparse.values.CopyFrom(values)
    sparse.indices.CopyFrom(indices)
    return name


# Attributes.


@mutation(6)
def attribute_number(m):
    it = m.attribute(AttributeProto.INT, AttributeProto.FLOAT)
    if it.type == AttributeProto.INT:
        it.i = m.number()
        return f"{it.name} = {it.i}"
    it.f = m.rng.choice(FLOATS)
    return f"{it.name} = {it.f}"


@mutation(5)
def attribute_list(m):
    it = m.attribute(AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS)
    values = {AttributeProto.INTS: it.ints, AttributeProto.FLOATS: it.floats}.get(it.type, it.strings)
    make = {AttributeProto.INTS: m.number, AttributeProto.FLOATS: lambda: m.rng.choice(FLOATS)}.get(it.type, lambda: m.rng.choice(TEXTS).encode())
    how = m.rng.random()
    if how < 0.6 and len(values):
        values[m.rng.randrange(len(values))] = make()
    elif how < 0.75 and len(values):
        del values[m.rng.randrange(len(values)) :]
    elif how < 0.8:
        del values[:]
    else:
        values.extend(make() for _ in range(m.rng.choice([1, 1, 2, 1000])))
    return f"{it.name}: {len(values)}"


@mutation(2)
def attribute_text(m):
    it = m.attribute(AttributeProto.STRING)
    it.s = m.rng.choice([*(text.encode() for text in TEXTS), b"\xff\xfe\x00"])
    return f"{it.name} = {it.s[:20]}"


@mutation(2)
def attribute_type(m):
    it = m.attribute()
    it.type = m.rng.choice(AttributeProto.AttributeType.values())
    return f"{it.name}: {it.type}"


@mutation(2)
def attribute_dropped(m):
    node = m.node(lambda it: len(it.attribute))
    at = m.rng.randrange(len(node.attribute))
    name = node.attribute[at].name
    del node.attribute[at]
    return f"{node.op_type}.{name}"


@mutation(3)
def attribute_added(m):
    """One that other nodes of the package have, with this value or another."""
    node, source = m.node(), m.pick(it for it in m.donor().graph.node if it.attribute)
    it = m.pick(source.attribute)
    node.attribute.append(it)
    if it.type == AttributeProto.INT and m.chance(0.5):
        node.attribute[-1].i = m.number()
    return f"{node.op_type}.{it.name}"


@mutation(1)
def attribute_twice(m):
    node = m.node(lambda it: len(it.attribute))
    node.attribute.append(m.pick(node.attribute))
    return node.op_type


@mutation(1)
def attribute_tensor(m):
    it = m.pick([*m.node(lambda it: len(it.attribute)).attribute])
    it.ClearField("i")
    it.type = AttributeProto.TENSOR
    dims = [m.number() for _ in range(m.rng.choice([0, 1, 2]))] if m.chance(0.4) else None
    it.t.CopyFrom(tensor(m, dims=dims))
    return it.name


@mutation(1)
def attribute_reference(m):
    it = m.attribute()
    it.ref_attr_name = m.rng.choice(["", it.name, "alpha", "axis", "nope"])
    return f"{it.name} -> {it.ref_attr_name!r}"


# Quantisation.


@mutation(2)
def quantisation(m):
    """Scales and zero points of other lengths, types and values."""
    node = m.node(lambda it: "uant" in it.op_type or it.op_type.startswith("QLinear") or "NBits" in it.op_type or "Integer" in it.op_type)
    at = m.rng.randrange(1, max(2, len(node.input)))
    while len(node.input) <= at:
        node.input.append("")
    shape = m.rng.choice([(), (1,), (0,), (2,), (3,), (1, 1), (7,)])
    scale = m.chance(0.5)
    if scale:
        dtype = m.rng.choice([np.float32, np.float32, np.float16, np.float64])
        array = np.full(shape, m.rng.choice([it for it in FLOATS if abs(it) < 6e4 or dtype != np.float16]), dtype)
    else:
        array = np.full(shape, m.rng.choice([0, 1, 127]), m.rng.choice([np.uint8, np.int8, np.int32, np.uint16, np.float32]))
    node.input[at] = m.constant(array)
    return f"{node.op_type} input {at}: {array.dtype}{list(shape)}"


# External data.

BESIDE = "w.bin"


@mutation(2)
def external(m):
    """The data of a constant in a file: missing, elsewhere, cut, claimed to be larger."""
    proto = m.pick(it for it in m.tensors() if it.data_type != TensorProto.STRING)
    data = proto.raw_data or np.arange(64, dtype=np.uint8).tobytes()
    size = len(data)
    m.files[BESIDE] = (data * 3)[: m.rng.choice([0, 1, size - 1, size, size, size, 3 * size])]
    proto.ClearField("raw_data")
    proto.data_location = m.rng.choice([1, 1, 1, 1, 2, 3])
    place = m.rng.choice([BESIDE] * 4 + ["", ".", "..", "w.bin/", "./w.bin", "nope.bin", "model.onnx", "test_data_set_0/input_0.pb", "../secret/secret.bin",
                         "sub/../../secret/secret.bin", "/proc/self/cwd/secret/secret.bin", "link.bin", "linkdir/secret.bin", "hard.bin", "/dev/zero", "/etc/passwd",
                         "/proc/self/mem", "file:///etc/passwd", "fifo", "a\0b", "x" * 5000, "..\\secret", "sub/w.bin"])
    if "link" in place or place in ("hard.bin", "fifo"):
        m.files[place.split("/")[0]] = (place.split("/")[0].split(".")[0], None)
    number = lambda: str(m.rng.choice(SMALL + HUGE + NEGATIVE + [size, size - 1, size + 1, 2 * size, "x", "1e3", "0x10", " 4", "９"]))
    entries = {"location": place}
    if m.chance(0.5):
        entries["offset"] = number()
    if m.chance(0.5):
        entries["length"] = str(size) if m.chance(0.5) else number()
    if m.chance(0.1):
        entries["checksum"] = "0"
    if m.chance(0.1):
        entries.pop("location")
    for key, value in entries.items():
        proto.external_data.add(key=key, value=value)
    if m.chance(0.2):
        del proto.dims[:]
        proto.dims.extend([2**31] if m.chance(0.5) else [m.number(), m.number()])
    return f"{proto.name}: {entries}"[:200]


# Inputs.


@mutation(5)
def data(m):
    at = m.pick(m.inputs)
    try:
        array, what = changed(m, array_of(m, at))
    except Skip:
        raise
    except Exception as err:
        raise Skip from err
    m.inputs[at] = numpy_helper.from_array(array, "x").SerializeToString()
    return f"input {at}: {what}"


@mutation(1)
def data_bytes(m):
    at, change = m.pick(m.inputs), damage(m)
    m.inputs[at] = change(m.inputs[at])
    return f"input {at}: {change.__name__}"


@mutation(1)
def data_files(m):
    at = m.rng.randrange(len(m.inputs) + 1)
    if at in m.inputs and m.chance(0.5):
        del m.inputs[at]
        return f"input {at} is missing"
    m.inputs[at] = tensor(m).SerializeToString()
    return f"input {at} is another"


# Bytes.


def varint(value):
    res = bytearray()
    while value > 127:
        res.append(value & 127 | 128)
        value >>= 7
    return bytes([*res, value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


@functools.lru_cache(None)
def nested(what, depth):
    """Messages in messages, deeper than the library writes them: graphs in branches, or types in types."""
    inner = b""
    for _ in range(depth):
        if what == "branches":
            branch = field(1, b"then_branch") + field(6, inner) + varint(20 << 3) + bytes([AttributeProto.GRAPH])
            inner = field(1, field(1, b"x") + field(2, b"y") + field(4, b"If") + field(5, branch))
        else:
            inner = field(4, field(1, inner)) if what == "sequences" else field(9, field(1, inner))
    if what != "branches":
        inner = field(11, field(1, b"x") + field(2, inner))
    return bytes([8, 8]) + field(7, inner) + field(8, bytes([16, 17]))


def damage(m):
    """A function of bytes that damages them. It is called once, when the model is written."""
    kind, rng = m.rng.choice(["flip", "flip", "bytes", "cut", "splice", "repeat", "ones", "varint", "swap"]), m.rng

    def change(data):
        data = bytearray(data)
        if not data:
            return b"\x08"
        at = rng.randrange(len(data))
        if kind == "flip":
            for _ in range(rng.choice([1, 1, 2, 8])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == "bytes":
            for _ in range(rng.choice([1, 4, 16])):
                data[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == "cut":
            del data[at:]
        elif kind == "splice":
            other = rng.randrange(len(data))
            data[at : at + rng.randrange(32)] = data[other : other + rng.randrange(32)]
        elif kind == "repeat":
            data[at:at] = data[at : at + rng.randrange(1, 64)] * rng.choice([1, 3, 100])
        elif kind == "ones":
            data[at : at + 8] = b"\xff" * 8
        elif kind == "varint":
            data[at : at + 1] = varint(rng.choice([*HUGE, 2**31 - 1, 2**64 - 1, 300]))
        else:
            other = rng.randrange(len(data))
            data[at], data[other] = data[other], data[at]
        return bytes(data)

    change.__name__ = kind
    return change


@mutation(8)
def model_bytes(m):
    m.bytes.append(damage(m))
    return m.bytes[-1].__name__


@mutation(0.3)
def nested_bytes(m):
    what, depth = m.rng.choice(["branches", "sequences", "optionals"]), m.rng.choice([10, 30, 100, 1000, 20000])
    m.bytes.append(lambda _: nested(what, depth))
    return f"{what} {depth}"
