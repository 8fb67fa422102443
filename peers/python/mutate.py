"""Mutants of ONNX models: what a mutation changes, the tools that mutations share, and the choice among them.

A mutation is a function of a `Mutant` that changes it and answers what it did, or raises `Skip` where there is nothing to change.
All random choices come from the generator of the mutant, so the same seed gives the same mutant.
"""
import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import TensorProto, helper, numpy_helper

SMALL = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100]
LARGE = [127, 128, 255, 256, 1000, 2**12, 2**16, 2**20, 2**22, 2**24, 2**26, 2**28]
HUGE = [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33 + 1, 2**40, 2**53, 2**61, 2**62, 2**63 - 1]
NEGATIVE = [-1, -2, -3, -5, -100, -(2**31), -(2**31) - 1, -(2**53), -(2**63) + 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 3.4e38, float("inf"), float("-inf"), float("nan"), 2.0**31, -(2.0**63), 1e-7]
TYPES = [it for it in TensorProto.DataType.values() if it]
TEXTS = ["", "x", "N", "-1", "?", "NOTSET", "SAME_UPPER", "VALID", "linear", "cubic", "reflect", "wrap", "NCHW", "ii->i", "...i,...i->", "i" * 80 + "->i",
         "a\0b", "\u202e\u0301", "../x", "A" * 5000, "tanh", "Relu", "(a+)+$", "[a-z]{1000}{1000}", "(?:a{64}){64}", "SUM", "add", "BRANCH_LEQ"]


class Skip(Exception):
    """The mutation has nothing to change."""


class Mutant:
    """A model with its inputs, and what was done to them."""

    def __init__(self, rng, model, inputs, donors):
        self.rng, self.donors = rng, donors
        self.model = onnx.ModelProto.FromString(model)
        self.inputs = dict(inputs)  # number of the input -> bytes of its file
        self.files = {}  # files beside the model: path -> bytes, or ("link" | "hard", target)
        self.bytes = []  # changes of the serialised model, by functions of the bytes
        self.log, self.count = [], 0

    def pick(self, of):
        of = list(of)
        if not of:
            raise Skip
        return self.rng.choice(of)

    def chance(self, of):
        return self.rng.random() < of

    def number(self):
        return self.rng.choice(self.rng.choice((SMALL, SMALL, LARGE, HUGE, NEGATIVE)))

    def fresh(self, stem="m"):
        self.count += 1
        return f"{stem}_{self.count}_"

    def donor(self):
        """Another model."""
        return onnx.ModelProto.FromString(self.rng.choice(self.donors))

    def graphs(self):
        """The graph and all graphs in its nodes."""
        found = [self.model.graph]
        for graph in found:
            found += subgraphs(graph.node)
        for function in self.model.functions:
            found += subgraphs(function.node)
        return found

    def bodies(self):
        """All lists of nodes, those of functions too."""
        return [it.node for it in self.graphs()] + [it.node for it in self.model.functions]

    def nodes(self):
        return [node for body in self.bodies() for node in body]

    def body(self):
        return self.pick(it for it in self.bodies() if len(it))

    def node(self, test=lambda _: True):
        return self.pick(it for it in self.nodes() if test(it))

    def attribute(self, *types):
        return self.pick(it for node in self.nodes() for it in node.attribute if not types or it.type in types)

    def names(self):
        """Names of all values."""
        found = [it.name for graph in self.graphs() for it in [*graph.input, *graph.initializer]]
        return found + [name for node in self.nodes() for name in node.output if name]

    def infos(self):
        return [it for graph in self.graphs() for it in [*graph.input, *graph.output, *graph.value_info]]

    def tensors(self):
        """All tensors in the model."""
        found = [it for graph in self.graphs() for it in graph.initializer]
        for node in self.nodes():
            found += [it.t for it in node.attribute if it.HasField("t")]
            found += [tensor for it in node.attribute for tensor in it.tensors]
        return found

    def constant(self, array, name=None):
        """Adds an initializer, and answers its name."""
        name = name or self.fresh("const")
        self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def output(self, name, at=None):
        """Makes a value an output of the graph, without a type that is known."""
        info = onnx.ValueInfoProto(name=name)
        info.type.tensor_type.elem_type = at or self.rng.choice([1, 1, 7, 9])
        self.model.graph.output.append(info)

    def serialized(self):
        data = self.model.SerializeToString()
        for change in self.bytes:
            data = change(data)
        return data


def subgraphs(nodes):
    res = []
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                res.append(attribute.g)
            res += attribute.graphs
    return res


MUTATIONS = []  # (weight, function)


def mutation(weight):
    def add(function):
        MUTATIONS.append((weight, function))
        return function

    return add


def tensor(m, name="", dtype=None, dims=None):
    """A small tensor of any element type; its data may not fit it."""
    dtype = dtype or m.rng.choice(TYPES)
    dims = dims if dims is not None else [m.rng.choice([0, 1, 2, 3]) for _ in range(m.rng.choice([0, 1, 1, 2, 3]))]
    proto = TensorProto(name=name, data_type=dtype, dims=dims)
    count = int(np.prod(dims)) if all(0 <= it < 1000 for it in dims) and len(dims) < 8 else 4
    if dtype == TensorProto.STRING:
        proto.string_data.extend(m.rng.choice(TEXTS).encode() for _ in range(min(count, 1000)))
    elif m.chance(0.9):
        size = max(1, helper.tensor_dtype_to_np_dtype(dtype).itemsize if dtype in SIZED else 1)
        proto.raw_data = bytes(m.rng.choice([0, 1, 2, 127, 255]) for _ in range(min(count * size, 4096)))
    else:
        proto.int64_data.extend(m.number() for _ in range(min(count, 64)))
    return proto


SIZED = {it for it in TYPES if it != TensorProto.STRING}


def changed(m, array):
    """An array of other values, another shape or another type; and what was changed."""
    rng, kind = m.rng, m.rng.choice(["values", "values", "all", "shape", "dtype", "empty", "scalar", "length", "rank"])
    array = np.array(array)
    if array.dtype == object:
        array = np.array([rng.choice(TEXTS) for _ in range(min(array.size, 64) or 1)], dtype=object)
        return array, "strings"
    if kind in ("values", "all"):
        flat = array.reshape(-1)
        at = range(min(flat.size, 4096)) if kind == "all" else [rng.randrange(flat.size)] if flat.size else []
        for i in at:
            value = rng.choice(FLOATS) if array.dtype.kind == "f" else m.number()
            with np.errstate(all="ignore"):
                flat[i] = value if array.dtype.kind == "f" else np.array(value, np.int64).astype(array.dtype)
    elif kind == "shape":
        dims = list(array.shape)
        rng.shuffle(dims)
        array = array.reshape(dims)
    elif kind == "dtype":
        wanted = rng.choice([np.float32, np.float64, np.float16, np.int64, np.int32, np.int8, np.uint8, np.uint64, np.bool_])
        with np.errstate(all="ignore"):
            array = array.astype(np.float32).astype(wanted)
    elif kind == "empty":
        dims = list(array.shape) or [1]
        dims[rng.randrange(len(dims))] = 0
        array = np.zeros(dims, array.dtype)
    elif kind == "scalar":
        array = array.reshape(-1)[0] if array.size else np.zeros((), array.dtype)
    elif kind == "length":
        flat = array.reshape(-1)
        array = np.concatenate([flat, flat[:3]]) if rng.random() < 0.5 else flat[:-1]
    else:
        array = array.reshape((1,) * rng.choice([1, 2, 5, 9, 30]) + array.shape) if array.ndim < 30 else array.reshape(-1)
    return np.asarray(array), kind


def mutate(m, count):
    """Applies `count` mutations; answers whether that left a model that can be written."""
    weights, functions = zip(*MUTATIONS)
    tries = 0
    while len(m.log) < count and tries < 20 * count:
        tries += 1
        function = m.rng.choices(functions, weights)[0]
        try:
            m.log.append(f"{function.__name__}: {function(m)}"[:300])
        except (Skip, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, DecodeError, EncodeError):
            continue
        if m.model.ByteSize() > 4 << 20:
            break
    return bool(m.log)
