"""Small models of what the node tests of the onnx package lack: domains beside the standard one, branches, loops, strings,
functions and files with data. They are what mutants are made of, beside the node tests.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSETS = {"": 21, "com.microsoft": 1, "ai.onnx.ml": 5, "local": 1}


def floats(*shape):
    return (np.arange(np.prod(shape), dtype=np.float32) % 7 - 3).reshape(shape) / 4


def ints(values, dtype=np.int64):
    return np.array(values, dtype)


def info(name, type_of):
    dtype, shape = type_of if isinstance(type_of, tuple) else (type_of.dtype, type_of.shape)
    return helper.make_tensor_value_info(name, TensorProto.STRING if dtype == object else helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def model(nodes, inputs, outputs, constants=None, functions=(), opsets=()):
    """A serialised model, and its inputs by number."""
    graph = helper.make_graph(
        nodes, "g", [info(name, it) for name, it in inputs.items()],
        [helper.make_tensor_value_info(it, TensorProto.UNDEFINED, None) for it in outputs],
        [numpy_helper.from_array(np.asarray(it), name) for name, it in (constants or {}).items()],
    )  # fmt: skip
    for it in graph.output:
        it.ClearField("type")
    imports = [helper.make_opsetid(*it) for it in {**OPSETS, **dict(opsets)}.items()]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)
    return proto.SerializeToString(), {i: numpy_helper.from_array(it, name).SerializeToString() for i, (name, it) in enumerate(inputs.items())}


def one(op, inputs, outputs=1, domain="com.microsoft", constants=(), missing=(), **attributes):
    """A model of one node. Inputs are called by their places; those in `constants` are constants, those in `missing` are left out."""
    count = max([*inputs, -1]) + 1
    names = [f"i{j}" if j in inputs else "" for j in range(count)]
    given = {f"i{j}": it for j, it in inputs.items() if j not in constants}
    fixed = {f"i{j}": it for j, it in inputs.items() if j in constants}
    results = [f"o{j}" for j in range(outputs)]
    return model([helper.make_node(op, names, results, domain=domain, **attributes)], given, results, fixed)


def trees(op, **more):
    """Two trees with two leaves each."""
    nodes = dict(
        nodes_treeids=[0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2] * 2, nodes_featureids=[0, 0, 0, 1, 0, 0], nodes_values=[0.5, 0.0, 0.0] * 2,
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 2, nodes_truenodeids=[1, 0, 0] * 2, nodes_falsenodeids=[2, 0, 0] * 2,
        nodes_missing_value_tracks_true=[0] * 6, nodes_hitrates=[1.0] * 6,
    )  # fmt: skip
    ids = {"treeids": [0, 0, 1, 1], "nodeids": [1, 2, 1, 2], "ids": [0, 0, 0, 1], "weights": [0.5, -0.5, 1.0, 2.0]}
    stem = "class" if "Classifier" in op else "target"
    return one(op, {0: floats(3, 2)}, 2 if stem == "class" else 1, "ai.onnx.ml", **nodes, **{f"{stem}_{key}": it for key, it in ids.items()}, **more)


def ensemble():
    scalar = lambda name, dtype, values: helper.make_tensor(name, dtype, [len(values)], values)
    return one(
        "TreeEnsemble", {0: floats(3, 2)}, 1, "ai.onnx.ml", tree_roots=[0], nodes_featureids=[0, 1], nodes_modes=scalar("m", 2, [0, 6]),
        nodes_splits=scalar("s", 1, [0.5, 1.0]), nodes_truenodeids=[1, 0], nodes_trueleafs=[0, 1], nodes_falsenodeids=[2, 1], nodes_falseleafs=[1, 1],
        leaf_targetids=[0, 1, 0], leaf_weights=scalar("w", 1, [0.5, 1.0, 2.0]), membership_values=scalar("v", 1, [1.0, 2.0, float("nan")]),
        n_targets=2, aggregate_function=1, post_transform=0,
    )  # fmt: skip


def control():
    """A branch, a loop and a scan."""
    scalar = lambda name, dtype: helper.make_tensor_value_info(name, dtype, [])
    value = lambda name: helper.make_tensor_value_info(name, 1, None)
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "then", [], [value("t")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [value("e")])
    yield "if", model([helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)], {"c": ints(True, bool), "x": floats(2, 3)}, ["y"])
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "x"], ["w"]), helper.make_node("Less", ["i", "limit"], ["more"]), helper.make_node("Identity", ["w"], ["all"])],
        "body", [scalar("i", 7), scalar("go", 9), value("v")], [scalar("more", 9), value("w"), value("all")],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["n", "c", "x"], ["y", "z"], body=body)
    yield "loop", model([loop], {"n": ints(5), "c": ints(True, bool), "x": floats(2, 3), "limit": ints(3)}, ["y", "z"])
    yield "loop_constant", model([loop], {"c": ints(True, bool), "x": floats(2, 3)}, ["y", "z"], {"n": ints(5), "limit": ints(3)})
    step = helper.make_graph([helper.make_node("Add", ["s", "r"], ["s2"]), helper.make_node("Mul", ["s2", "r"], ["q"])], "step", [value("s"), value("r")], [value("s2"), value("q")])
    yield "scan", model([helper.make_node("Scan", ["s0", "x"], ["y", "z"], body=step, num_scan_inputs=1)], {"s0": floats(3), "x": floats(4, 3)}, ["y", "z"])


def extra_models():
    """Names of the models, each with its bytes and its inputs."""
    x, small, row, bytes_ = floats(2, 4, 8), floats(2, 8), floats(8), ints(np.arange(32).reshape(4, 8), np.uint8)
    micro = [
        ("Attention", dict(inputs={0: x, 1: floats(8, 24), 2: floats(24)}, num_heads=2)),
        ("MultiHeadAttention", dict(inputs={0: x, 1: x, 2: x, 5: ints([[1] * 4] * 2, np.int32)}, num_heads=2)),
        ("GroupQueryAttention", dict(inputs={0: x, 1: floats(2, 4, 4), 2: floats(2, 4, 4), 3: floats(2, 1, 8, 4), 4: floats(2, 1, 8, 4), 5: ints([3, 3], np.int32),
                                             6: ints(4, np.int32)}, outputs=3, num_heads=2, kv_num_heads=1)),
        ("RotaryEmbedding", dict(inputs={0: x, 1: ints([[0, 1, 2, 3]] * 2), 2: floats(16, 4), 3: floats(16, 4)}, constants=(2, 3))),
        ("EmbedLayerNormalization", dict(inputs={0: ints([[1, 2, 0, 1]], np.int32), 1: ints([[0] * 4], np.int32), 2: floats(5, 8), 3: floats(6, 8), 4: floats(2, 8), 5: row, 6: row},
                                         outputs=2, constants=(2, 3, 4, 5, 6))),
        ("MatMulNBits", dict(inputs={0: small, 1: ints(np.arange(3 * 8).reshape(3, 1, 8), np.uint8), 2: floats(3), 3: ints([8, 8, 8], np.uint8)}, constants=(1, 2, 3), K=8, N=3, bits=4,
                             block_size=16)),
        ("DynamicQuantizeMatMul", dict(inputs={0: small, 1: ints(np.arange(24).reshape(8, 3), np.uint8), 2: floats(1), 3: ints([3], np.uint8)}, constants=(1,))),
        ("MatMulIntegerToFloat", dict(inputs={0: bytes_, 1: bytes_.T.copy(), 2: floats(1), 3: floats(1), 4: ints([1], np.uint8), 5: ints([2], np.uint8)})),
        ("QLinearAdd", dict(inputs={0: bytes_, 1: ints(0.5, np.float32), 2: ints(3, np.uint8), 3: bytes_, 4: ints(0.25, np.float32), 5: ints(1, np.uint8),
                                    6: ints(1, np.float32), 7: ints(0, np.uint8)}, constants=(1, 2, 4, 5, 6, 7))),
        ("QLinearSigmoid", dict(inputs={0: bytes_, 1: ints(0.5, np.float32), 2: ints(3, np.uint8), 3: ints(0.1, np.float32), 4: ints(0, np.uint8)})),
        ("QLinearAveragePool", dict(inputs={0: bytes_.reshape(1, 1, 4, 8), 1: ints(0.5, np.float32), 2: ints(3, np.uint8), 3: ints(1, np.float32), 4: ints(0, np.uint8)},
                                    kernel_shape=[2, 2])),
        ("QLinearConcat", dict(inputs={0: ints(0.5, np.float32), 1: ints(3, np.uint8), 2: bytes_, 3: ints(0.5, np.float32), 4: ints(3, np.uint8), 5: bytes_, 6: ints(1, np.float32),
                                       7: ints(0, np.uint8)}, axis=0)),
        ("FusedConv", dict(inputs={0: floats(1, 2, 5, 5), 1: floats(3, 2, 3, 3), 2: floats(3)}, activation="Relu", kernel_shape=[3, 3])),
        ("FusedMatMul", dict(inputs={0: small, 1: small}, transB=1, alpha=0.5)),
        ("FusedGemm", dict(inputs={0: small, 1: floats(8, 3), 2: floats(3)}, activation="Relu")),
        ("SkipLayerNormalization", dict(inputs={0: x, 1: x, 2: row, 3: row, 4: row}, outputs=1, epsilon=1e-5)),
        ("BiasGelu", dict(inputs={0: x, 1: row})),
    ]  # fmt: skip
    for op, given in micro:
        yield f"microsoft_{op}", one(op, **given)
    text = np.array([["a", "bc"], ["", "d e"]], dtype=object)
    ml = [
        ("ArrayFeatureExtractor", dict(inputs={0: small, 1: ints([1, 3])})),
        ("Binarizer", dict(inputs={0: small}, threshold=0.5)),
        ("FeatureVectorizer", dict(inputs={0: small, 1: small}, inputdimensions=[8, 8])),
        ("Imputer", dict(inputs={0: small}, imputed_value_floats=[1.0], replaced_value_float=0.0)),
        ("LabelEncoder", dict(inputs={0: text}, keys_strings=["a", "bc"], values_floats=[1.0, 2.0], default_float=-1.0)),
        ("LabelEncoder", dict(inputs={0: ints([1, 2, 9])}, keys_int64s=[1, 2], values_strings=["a", "b"], default_string="?")),
        ("LinearClassifier", dict(inputs={0: small}, outputs=2, coefficients=[0.5] * 24, intercepts=[0.0, 1.0, 2.0], classlabels_ints=[0, 1, 2], post_transform="SOFTMAX")),
        ("LinearClassifier", dict(inputs={0: small}, outputs=2, coefficients=[0.5] * 8, intercepts=[0.0], classlabels_strings=["a", "b"], post_transform="LOGISTIC")),
        ("LinearRegressor", dict(inputs={0: small}, coefficients=[0.5] * 16, intercepts=[0.0, 1.0], targets=2)),
        ("Normalizer", dict(inputs={0: small}, norm="L2")),
        ("OneHotEncoder", dict(inputs={0: ints([1, 2, 9])}, cats_int64s=[1, 2, 3], zeros=1)),
        ("OneHotEncoder", dict(inputs={0: text}, cats_strings=["a", "d e"], zeros=1)),
        ("SVMRegressor", dict(inputs={0: small}, support_vectors=[0.5] * 16, coefficients=[1.0, -1.0], rho=[0.1], n_supports=2, kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0])),
        ("Scaler", dict(inputs={0: small}, offset=[0.5], scale=[2.0])),
    ]
    for i, (op, given) in enumerate(ml):
        yield f"ml_{op}_{i}", one(op, domain="ai.onnx.ml", **given)
    yield "ml_trees_regressor", trees("TreeEnsembleRegressor", n_targets=2, aggregate_function="SUM", post_transform="NONE", base_values=[0.5, 0.5])
    yield "ml_trees_classifier", trees("TreeEnsembleClassifier", classlabels_int64s=[0, 1], post_transform="SOFTMAX")
    yield "ml_trees", ensemble()
    make = helper.make_node
    yield "strings", model(
        [make("StringConcat", ["x", "x"], ["a"]), make("StringSplit", ["a"], ["b", "n"], delimiter=" "), make("RegexFullMatch", ["x"], ["m"], pattern="[a-c]+"),
         make("Equal", ["x", "k"], ["same"]), make("Gather", ["x", "at"], ["some"]), make("Concat", ["x", "some"], ["all"], axis=0)],
        {"x": text, "at": ints([1])}, ["a", "b", "n", "m", "same", "some", "all"], {"k": text},
    )  # fmt: skip
    yield "sequences", model(
        [make("SequenceConstruct", ["x", "x"], ["s"]), make("SequenceInsert", ["s", "x", "at"], ["s2"]), make("ConcatFromSequence", ["s2"], ["y"], axis=0),
         make("SplitToSequence", ["y", "sizes"], ["p"], axis=0), make("SequenceAt", ["p", "at"], ["z"]), make("SequenceLength", ["p"], ["n"])],
        {"x": floats(2, 3)}, ["y", "z", "n"], {"at": ints(1), "sizes": ints([1, 2, 3])},
    )  # fmt: skip
    yield "shapes", model(
        [make("Shape", ["x"], ["s"]), make("Gather", ["s", "at"], ["d"], axis=0), make("Unsqueeze", ["d", "zero"], ["u"]), make("Concat", ["u", "minus"], ["r"], axis=0),
         make("Reshape", ["x", "r"], ["y"]), make("Slice", ["y", "starts", "ends"], ["z"]), make("ConstantOfShape", ["s"], ["c"]), make("Expand", ["z", "e"], ["w"])],
        {"x": floats(2, 3, 4)}, ["y", "z", "c", "w"], {"at": ints(1), "zero": ints([0]), "minus": ints([-1]), "starts": ints([0]), "ends": ints([2]), "e": ints([2, 1, 1])},
    )  # fmt: skip
    yield "layers", model(
        [make("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), make("Relu", ["c"], ["r"]), make("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
         make("Flatten", ["p"], ["f"]), make("Gemm", ["f", "m", "n"], ["g"]), make("Softmax", ["g"], ["y"])],
        {"x": floats(1, 2, 6, 6)}, ["y"], {"w": floats(3, 2, 3, 3), "b": floats(3), "m": floats(27, 5), "n": floats(5)},
    )  # fmt: skip
    yield "quantised", model(
        [make("QuantizeLinear", ["x", "s", "z"], ["q"]), make("DequantizeLinear", ["q", "s", "z"], ["d"]), make("DequantizeLinear", ["w", "ws", "wz"], ["e"], axis=1),
         make("MatMul", ["d", "e"], ["y"]), make("DynamicQuantizeLinear", ["y"], ["v", "vs", "vz"])],
        {"x": small}, ["y", "v", "vs", "vz"],
        {"s": ints(0.1, np.float32), "z": ints(3, np.int8), "w": ints(np.arange(24).reshape(8, 3), np.int8), "ws": floats(3), "wz": ints([0, 1, 2], np.int8)},
    )  # fmt: skip
    function = helper.make_function("local", "Twice", ["a"], ["b"], [make("LeakyRelu", ["a"], ["t"]), make("Add", ["t", "a"], ["b"])], [helper.make_opsetid("", 21)], ["alpha"])
    reference = function.node[0].attribute.add(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    assert reference.ref_attr_name
    yield "functions", model([make("Twice", ["x"], ["t"], domain="local", alpha=0.5), make("Twice", ["t"], ["y"], domain="local", alpha=2.0)], {"x": small}, ["y"], functions=[function])
    yield from control()
