"""Mutations of the structure of models: nodes, edges, subgraphs, sequences, versions, functions, and sizes beyond all bounds."""
import numpy as np
import onnx
from onnx import AttributeProto, helper

from mutate import Skip, mutation, tensor

# Nodes.


@mutation(4)
def operator(m):
    """Another operator, with the attributes of the old one or its own."""
    node, source = m.node(), m.pick(m.donor().graph.node)
    old = node.op_type
    node.op_type, node.domain = source.op_type, source.domain
    if m.chance(0.6):
        del node.attribute[:]
        node.attribute.extend(source.attribute)
    return f"{old} -> {node.domain}.{node.op_type}"


@mutation(1)
def domain(m):
    node = m.node()
    node.domain = m.rng.choice(["", "ai.onnx", "com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training", "nope", "a\0b"])
    return f"{node.op_type}: {node.domain!r}"


@mutation(2)
def node_dropped(m):
    body = m.body()
    at = m.rng.randrange(len(body))
    old = body[at].op_type
    del body[at]
    return old


@mutation(1)
def node_twice(m):
    body = m.body()
    body.add().CopyFrom(m.pick(body))
    if m.chance(0.5):
        for i, name in enumerate(body[-1].output):
            body[-1].output[i] = m.fresh()
    return body[-1].op_type


@mutation(2)
def order(m):
    body = m.body()
    nodes = list(body)
    m.rng.shuffle(nodes)
    copies = [onnx.NodeProto.FromString(it.SerializeToString()) for it in nodes]
    del body[:]
    body.extend(copies)
    return f"{len(copies)} nodes"


@mutation(6)
def node_inserted(m):
    """A node of another test in an edge; its other inputs come from anywhere."""
    body, source = m.body(), m.pick(m.donor().graph.node)
    at = m.rng.randrange(len(body))
    user = body[at]
    edge = m.pick(i for i, name in enumerate(user.input) if name)
    node = onnx.NodeProto.FromString(source.SerializeToString())
    names = m.names()
    for i, name in enumerate(node.input):
        if name:
            node.input[i] = user.input[edge] if i == 0 or m.chance(0.3) else m.pick(names) if m.chance(0.6) else m.constant(small(m))
    for i, name in enumerate(node.output):
        node.output[i] = m.fresh()
    user.input[edge] = m.pick(it for it in node.output)
    copies = [onnx.NodeProto.FromString(it.SerializeToString()) for it in body]
    del body[:]
    body.extend([*copies[:at], node, *copies[at:]])
    return f"{node.op_type} before {user.op_type}"


def small(m):
    dtype = m.rng.choice([np.int64, np.int64, np.float32, np.int32, np.bool_])
    return np.array([m.rng.choice([0, 1, 2, -1, m.number()]) for _ in range(m.rng.choice([0, 1, 1, 2, 4]))], np.int64).astype(dtype)


@mutation(4)
def graph_appended(m):
    """Another test after this one, some of whose inputs are values of this one."""
    other, graph = m.donor(), m.model.graph
    if len(other.graph.node) > 40:
        raise Skip
    prefix, outputs = m.fresh("d"), [it.name for it in graph.output] + m.names()
    rename = lambda name: prefix + name if name else name
    inputs = {}
    for info in other.graph.input:
        if m.chance(0.7):
            inputs[info.name] = m.pick(outputs)
        else:
            graph.input.add().CopyFrom(info)
            graph.input[-1].name = rename(info.name)
            m.inputs[len(graph.input) - 1] = tensor(m).SerializeToString()
    for node in other.graph.node:
        graph.node.add().CopyFrom(node)
        for names in (graph.node[-1].input, graph.node[-1].output):
            for i, name in enumerate(names):
                names[i] = inputs.get(name, rename(name))
    for constant in other.graph.initializer:
        graph.initializer.add().CopyFrom(constant)
        graph.initializer[-1].name = rename(constant.name)
    for info in other.graph.output:
        graph.output.add().CopyFrom(info)
        graph.output[-1].name = rename(info.name)
    for it in other.opset_import:
        if it.domain not in {mine.domain for mine in m.model.opset_import}:
            m.model.opset_import.add().CopyFrom(it)
    return " ".join(it.op_type for it in other.graph.node)[:80]


@mutation(0.5)
def unknown(m):
    node = m.node()
    node.op_type = m.rng.choice(["Nope", "", "nope\0\u202e", "A" * 5000, node.op_type.lower()])
    return node.op_type[:20]


# Edges.


@mutation(5)
def rewired(m):
    node = m.node(lambda it: len(it.input))
    at = m.rng.randrange(len(node.input))
    node.input[at] = m.pick([*m.names(), "", "nope"])
    return f"{node.op_type} input {at}: {node.input[at]!r}"


@mutation(2)
def cycle(m):
    body = m.body()
    first = m.rng.randrange(len(body))
    last = m.rng.randrange(first, len(body))
    node = body[first]
    if not len(node.input) or not len(body[last].output):
        raise Skip
    node.input[m.rng.randrange(len(node.input))] = body[last].output[0]
    return f"{body[last].op_type} to {node.op_type}"


@mutation(3)
def input_count(m):
    node = m.node()
    if len(node.input) and m.chance(0.5):
        del node.input[m.rng.randrange(len(node.input))]
    else:
        node.input.extend([m.pick([*m.names(), ""])] * m.rng.choice([1, 1, 1, 5, 2000]))
    return f"{node.op_type}: {len(node.input)}"


@mutation(2)
def inputs_swapped(m):
    node = m.node(lambda it: len(it.input) > 1)
    names = list(node.input)
    m.rng.shuffle(names)
    del node.input[:]
    node.input.extend(names)
    return node.op_type


@mutation(2)
def outputs(m):
    node = m.node()
    how = m.rng.choice(["drop", "add", "none", "same", "empty"])
    if how == "drop" and len(node.output):
        del node.output[m.rng.randrange(len(node.output))]
    elif how == "add":
        node.output.extend(m.fresh() for _ in range(m.rng.choice([1, 1, 5, 500])))
    elif how == "none":
        del node.output[:]
    elif how == "same":
        node.output.append(m.pick(m.names()))
    elif len(node.output):
        node.output[m.rng.randrange(len(node.output))] = ""
    return f"{node.op_type}: {how}"


@mutation(3)
def graph_output(m):
    graph, how = m.pick(m.graphs()), m.rng.choice(["other", "add", "drop", "twice", "input"])
    if how == "add" or not len(graph.output):
        graph.output.append(onnx.ValueInfoProto(name=m.pick(m.names())))
    elif how == "drop":
        del graph.output[m.rng.randrange(len(graph.output))]
    elif how == "twice":
        graph.output.append(m.pick(graph.output))
    elif how == "input" and len(graph.input):
        m.pick(graph.output).name = m.pick(graph.input).name
    else:
        m.pick(graph.output).name = m.pick([*m.names(), "", "nope"])
    return how


@mutation(1)
def graph_input(m):
    graph, how = m.pick(m.graphs()), m.rng.choice(["drop", "twice", "name", "add"])
    if how == "add" or not len(graph.input):
        graph.input.append(helper.make_tensor_value_info(m.fresh(), m.rng.choice([1, 7, 9]), [m.number()]))
    elif how == "drop":
        del graph.input[m.rng.randrange(len(graph.input))]
    elif how == "twice":
        graph.input.append(m.pick(graph.input))
    else:
        m.pick(graph.input).name = m.pick([*m.names(), "", "a\0b", "../x" * 300])
    return how


# Subgraphs.


def into(graph, name, inputs=(), outputs=()):
    """A graph of the nodes of another."""
    inner = onnx.GraphProto(name=name)
    inner.node.extend(graph.node)
    inner.initializer.extend(graph.initializer)
    inner.input.extend(inputs)
    inner.output.extend([*outputs, *graph.output])
    return inner


def scalar(name, dtype):
    return helper.make_tensor_value_info(name, dtype, [])


def replace(m, nodes):
    graph = m.model.graph
    del graph.node[:]
    graph.node.extend(nodes)


def trip(m):
    """A number of steps for a loop, as a constant or as an input of unknown value."""
    return m.rng.choice(["", m.constant(np.array(m.number(), np.int64)), m.constant(np.array(m.rng.choice([1, 3, 1000, 2**40]), np.int64))])


@mutation(4)
def wrapped(m):
    """The graph becomes the body of a branch, a loop or a scan."""
    graph, kind = m.model.graph, m.rng.choice(["If", "Loop", "Loop", "Scan"])
    names = [it.name for it in graph.output]
    true = m.constant(np.array(m.chance(0.7)))
    if kind == "If":
        inner = into(graph, "then")
        other = m.pick([inner, into(m.donor().graph, "else")])
        node = helper.make_node("If", [true], names, then_branch=inner, else_branch=other)
    elif kind == "Loop":
        step, go = m.fresh("i"), m.fresh("go")
        inner = into(graph, "body", [scalar(step, 7), scalar(go, 9)], [scalar(go if m.chance(0.5) else true, 9)])
        node = helper.make_node("Loop", [trip(m), m.pick([true, true, ""])], names, body=inner)
    else:
        info = m.pick(graph.input)
        inner = into(graph, "body", [onnx.ValueInfoProto(name=m.fresh("x"))])
        node = helper.make_node("Scan", [info.name], names, body=inner, num_scan_inputs=m.rng.choice([1, 1, 0, m.number()]))
    replace(m, [node])
    return kind


@mutation(2)
def carried(m):
    """A loop that carries a value through the graph: its types may not agree, and it may not end."""
    graph = m.model.graph
    if not len(graph.input) or not len(graph.output):
        raise Skip
    start, result = m.pick(graph.input), m.pick(graph.output)
    step, go, more = m.fresh("i"), m.fresh("go"), m.fresh("more")
    inner = onnx.GraphProto(name="body")
    inner.node.extend(graph.node)
    inner.node.append(helper.make_node("Identity", [go], [more]))
    value = onnx.ValueInfoProto.FromString(start.SerializeToString())
    value.name = m.fresh("carried")
    for node in inner.node:
        for i, name in enumerate(node.input):
            if name == start.name:
                node.input[i] = value.name
    inner.input.extend([scalar(step, 7), scalar(go, 9), value])
    inner.output.extend([scalar(more, 9), result])
    count = trip(m)
    replace(m, [helper.make_node("Loop", [count, m.constant(np.array(True))], [result.name], body=inner)])
    return f"{start.name} to {result.name}, {count or 'no'} trip count"


@mutation(2)
def nested(m):
    graph, names, depth = m.model.graph, [it.name for it in m.model.graph.output], m.rng.choice([2, 4, 10, 20, 28])
    true, inner = m.constant(np.array(True)), into(m.model.graph, "g")
    both = m.chance(0.5) and depth <= 10
    for level in range(depth):
        branches = {"then_branch": inner}
        if both or m.chance(0.2) and level < 6:
            branches["else_branch"] = inner
        node = helper.make_node("If", [true], names, **branches)
        outer = onnx.GraphProto(name="g")
        outer.node.append(node)
        outer.output.extend(graph.output)
        inner = outer
        if inner.ByteSize() > 1 << 20:
            break
    replace(m, inner.node)
    return f"{depth} deep"


@mutation(2)
def subgraph_moved(m):
    """The graph of one attribute in another, or as a further attribute."""
    graphs = [it for graph in m.graphs() for node in graph.node for it in node.attribute if it.HasField("g")]
    source = m.pick(graphs)
    if len(graphs) > 1 and m.chance(0.5):
        m.pick(graphs).g.CopyFrom(onnx.GraphProto.FromString(source.g.SerializeToString()))
        return "moved"
    attribute = helper.make_attribute(m.rng.choice(["body", "then_branch", "else_branch", "x"]), source.g)
    m.node().attribute.append(attribute)
    return "added"


@mutation(2)
def subgraph_names(m):
    """Names inside of a subgraph hide those around it, or are seen from outside."""
    inner = m.pick(m.graphs()[1:])
    if m.chance(0.5):
        m.pick(it for it in inner.node if it.output).output[0] = m.pick(m.names())
    else:
        name = m.pick(name for node in inner.node for name in node.output if name)
        user = m.node(lambda it: len(it.input))
        user.input[m.rng.randrange(len(user.input))] = name
    return inner.name


@mutation(2)
def endless(m):
    """A loop whose end no one knows, or that ends late."""
    x = m.pick(m.names())
    step, go, value, result, collected = (m.fresh(it) for it in ("i", "go", "v", "r", "all"))
    op, arity = m.rng.choice([("Add", 2), ("Identity", 1), ("Mul", 2), ("Concat", 2), ("Relu", 1), ("Sqrt", 1)])
    attributes = {"axis": 0} if op == "Concat" else {}
    body = helper.make_graph(
        [helper.make_node(op, [value] * arity, [result], **attributes), helper.make_node("Identity", [go], [go + "o"]), helper.make_node("Identity", [value], [collected])],
        "body", [scalar(step, 7), scalar(go, 9), onnx.ValueInfoProto(name=value)],
        [scalar(go + "o", 9), onnx.ValueInfoProto(name=result), *([onnx.ValueInfoProto(name=collected)] if m.chance(0.5) else [])],
    )  # fmt: skip
    wanted = [m.fresh() for _ in range(len(body.output) - 1)]
    count = m.rng.choice(["", m.constant(np.array(m.rng.choice([100, 10**4, 10**6, 2**31, 2**62]), np.int64))])
    m.model.graph.node.append(helper.make_node("Loop", [count, m.constant(np.array(True))], wanted, body=body))
    for name in wanted:
        m.output(name)
    return f"{op} {count or 'without a count'}"


# Sequences and optional values.


@mutation(3)
def sequence(m):
    """A value goes through a sequence or an optional value."""
    graph = m.model.graph
    x, kind = m.pick(m.names()), m.rng.choice(["at", "at", "split", "concat", "insert", "erase", "length", "optional", "has", "empty", "map", "nested"])
    at, name, result = m.constant(np.array(m.rng.choice([0, 1, -1, m.number()]), np.int64)), m.fresh("s"), m.fresh("t")
    node = lambda op, inputs, output, **attributes: graph.node.append(helper.make_node(op, inputs, [output], **attributes))
    if kind == "split":
        sizes = m.constant(np.array(m.rng.choice([1, 2, m.number()]), np.int64)) if m.chance(0.5) else m.constant(small(m))
        node("SplitToSequence", [x, sizes], name, axis=m.rng.choice([0, 0, 1, -1]), keepdims=m.rng.choice([0, 1]))
        node("SequenceAt", [name, at], result)
    elif kind == "empty":
        node("SequenceEmpty", [], name, dtype=m.rng.choice([1, 7, 8, 99]))
        node("SequenceAt", [name, at], result)
    elif kind == "optional":
        if m.chance(0.6):
            node("Optional", [x], name)
        else:
            ty = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))
            node("Optional", [], name, type=ty)
        node("OptionalGetElement", [name], result)
    elif kind == "has":
        node("OptionalHasElement", [x], result)
    elif kind == "map":
        node("SequenceConstruct", [x] * m.rng.choice([1, 2, 50]), name)
        body = helper.make_graph([helper.make_node("Identity", ["e_"], ["f_"])], "b", [onnx.ValueInfoProto(name="e_")], [onnx.ValueInfoProto(name="f_")])
        node("SequenceMap", [name], m.fresh("u"), body=body)
        node("SequenceAt", [graph.node[-1].output[0], at], result)
    else:
        node("SequenceConstruct", [m.pick(m.names()) if m.chance(0.2) else x for _ in range(m.rng.choice([1, 2, 3, 300]))], name)
        if kind == "insert":
            node("SequenceInsert", [name, x, at], m.fresh("u"))
            name = graph.node[-1].output[0]
        elif kind == "erase":
            node("SequenceErase", [name, at], m.fresh("u"))
            name = graph.node[-1].output[0]
        elif kind == "nested":
            node("SequenceConstruct", [name, name], m.fresh("u"))
            name = graph.node[-1].output[0]
        if kind == "concat":
            node("ConcatFromSequence", [name], result, axis=m.rng.choice([0, 0, 1, m.number()]), new_axis=m.rng.choice([0, 1]))
        elif kind == "length":
            node("SequenceLength", [name], result)
        else:
            node("SequenceAt", [name, at], result)
    if m.chance(0.3):
        m.output(name)
    user = m.node(lambda it: len(it.input))
    if m.chance(0.5):
        m.output(result)
    else:
        user.input[m.rng.randrange(len(user.input))] = result
        graph.node.append(onnx.NodeProto.FromString(user.SerializeToString()))
        graph.node.remove(user) if user in graph.node else None
    return kind


# Versions and functions.


@mutation(3)
def version(m):
    entry = m.pick(m.model.opset_import)
    if m.chance(0.8):
        entry.version = m.rng.choice([*range(1, 29), 0, -1, 10**6, 2**62])
    elif m.chance(0.5):
        entry.domain = m.rng.choice(["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "nope"])
    else:
        m.model.opset_import.append(entry)
        m.model.opset_import[-1].version = m.rng.choice([1, 7, 13, 99])
    if m.chance(0.1):
        m.model.ir_version = m.rng.choice([0, 1, 2, 3, -1, 99, 2**62])
    return f"{entry.domain}: {entry.version}"


DOMAIN = "hostile.functions"


def define(m, name, inputs, outputs, nodes, attributes=()):
    if DOMAIN not in {it.domain for it in m.model.opset_import}:
        m.model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    function = m.model.functions.add(name=name, domain=DOMAIN, input=inputs, output=outputs, attribute=attributes)
    function.node.extend(nodes)
    function.opset_import.extend(m.model.opset_import)


@mutation(3)
def outlined(m):
    """A node becomes a function of the model, which may call itself, or lack what it reads."""
    node, name = m.node(), m.fresh("F")
    inner = onnx.NodeProto.FromString(node.SerializeToString())
    inputs, attributes = [it for it in dict.fromkeys(node.input) if it], []
    if m.chance(0.3):
        for it in inner.attribute:
            it.ref_attr_name = it.name
            attributes.append(it.name)
    nodes = [inner]
    how = m.rng.choice(["", "", "recursive", "short", "again"])
    if how == "recursive":
        nodes.append(helper.make_node(name, inputs, [m.fresh()], domain=DOMAIN))
    if how == "short":
        inputs = inputs[1:]
    define(m, name, inputs, [it for it in node.output if it], nodes, attributes)
    if how == "again":
        m.model.functions.append(m.model.functions[-1])
    node.op_type, node.domain = name, DOMAIN
    if not attributes and m.chance(0.7):
        del node.attribute[:]
    return f"{inner.op_type} {how}"


@mutation(1)
def doubling(m):
    """Functions each of which calls the one before several times: `times ** depth` nodes, or branches that do."""
    x, depth, times = m.pick(m.names()), m.rng.choice([3, 8, 16, 30, 60]), m.rng.choice([1, 2, 2, 3])
    op = m.rng.choice(["Add", "Mul", "Concat", "Identity"])
    names = [m.fresh("D") for _ in range(depth)]
    for level, name in enumerate(names):
        callee, where = (names[level - 1], DOMAIN) if level else ("Identity", "")
        nodes, value = [], "x"
        for i in range(times):
            nodes.append(helper.make_node(callee, [value], [f"y{i}"], domain=where))
            value = f"y{i}" if m.chance(0.5) else "x"
        last = [f"y{i}" for i in range(times)]
        if op == "Concat":
            nodes.append(helper.make_node(op, last, ["z"], axis=0))
        else:
            nodes.append(helper.make_node(op, (last * 2)[: 1 if op == "Identity" else 2], ["z"]))
        define(m, name, ["x"], ["z"], nodes)
    result = m.fresh()
    m.model.graph.node.append(helper.make_node(names[-1], [x], [result], domain=DOMAIN))
    m.output(result)
    return f"{op} {times}**{depth}"


@mutation(1)
def repeated(m):
    """A long chain, each link of which may double the size of the value."""
    value, length = m.pick(m.names()), m.rng.choice([10, 40, 100, 1000])
    op = m.rng.choice(["Add", "Concat", "Relu", "Expand", "Tile", "MatMul", "Unsqueeze", "Identity", "Squeeze"])
    shape = m.constant(np.array(m.rng.choice([[2], [2, 2], [0], [1]]), np.int64))
    inputs = {"Relu": 1, "Identity": 1, "Squeeze": 1}.get(op, 2)
    for _ in range(length):
        result = m.fresh("c")
        given = [value, shape] if op in ("Expand", "Tile", "Unsqueeze") else [value] * inputs
        m.model.graph.node.append(helper.make_node(op, given, [result], **({"axis": 0} if op == "Concat" else {})))
        value = result
    m.output(value)
    return f"{length} {op}"


# Sizes.


@mutation(2)
def arithmetic(m):
    """A long chain of arithmetic on a shape, each link of which reads the one before more than once."""
    x, dtype = m.pick(m.names()), np.int64
    graph, length = m.model.graph, m.rng.choice([3, 10, 30, 100])
    ops = m.rng.choices(["Add", "Mul", "Sub", "Max", "Min", "Div", "Mod", "Where", "Equal"], k=m.rng.choice([1, 2, 3]))
    value, constants = m.fresh("s"), [m.constant(np.array(it, dtype)) for it in (1, 3)]
    graph.node.append(helper.make_node("Shape", [x], [value]))
    recent = [value]
    for _ in range(length):
        op, result = m.rng.choice(ops), m.fresh("s")
        given = [recent[-1], m.pick(recent[-2:] + constants)]
        m.rng.shuffle(given)
        if op in ("Where", "Equal"):
            graph.node.append(helper.make_node("Equal" if op == "Equal" else "Less", given, [result + "c"]))
            given = [result + "c", *given]
        graph.node.append(helper.make_node("Where" if op == "Equal" else op, given, [result]))
        recent.append(result)
    if m.chance(0.5):
        m.output(recent[-1], 7)
    else:
        small, made = m.fresh("s"), m.fresh("y")
        graph.node.append(helper.make_node("Mod", [recent[-1], constants[1]], [small]))
        graph.node.append(helper.make_node(m.rng.choice(["ConstantOfShape", "Expand", "Reshape", "Tile"]), [small], [made]))
        if graph.node[-1].op_type != "ConstantOfShape":
            graph.node[-1].input.insert(0, x)
        m.output(made)
    return f"{length} {' '.join(ops)}"



@mutation(4)
def huge(m):
    """A value whose size a constant gives."""
    graph = m.model.graph
    sizes = [m.rng.choice([1, 2, m.number(), 2**10, 2**12, 2**14]) for _ in range(m.rng.choice([1, 1, 2, 2, 3]))]
    x, result = m.pick(m.names()), m.fresh("h")
    shape = m.constant(np.array(sizes, np.int64))
    number = lambda it, dtype=np.int64: m.constant(np.array(it, np.int64).astype(dtype))
    kind = m.rng.choice(["ConstantOfShape", "Expand", "Tile", "Range", "Resize", "Pad", "OneHot", "EyeLike", "RandomNormal", "Upsample", "HannWindow", "Reshape", "Trilu"])
    if kind in ("ConstantOfShape",):
        given, attributes = [shape], {}
    elif kind == "Range":
        given, attributes = [number(m.rng.choice([0, m.number()])), number(m.number()), number(m.rng.choice([1, -1, m.number()]))], {}
    elif kind == "Resize":
        given, attributes = [x, "", "", shape], {"mode": m.rng.choice(["nearest", "linear", "cubic"])}
    elif kind == "Upsample":
        given, attributes = [x, m.constant(np.array(sizes, np.int64).astype(np.float32))], {}
    elif kind == "Pad":
        given, attributes = [x, m.constant(np.array(sizes * 2, np.int64))], {"mode": m.rng.choice(["constant", "reflect", "edge", "wrap"])}
    elif kind == "OneHot":
        given, attributes = [x, number(m.number()), m.constant(np.array([0, 1], np.float32))], {}
    elif kind in ("EyeLike", "Trilu"):
        graph.node.append(helper.make_node("ConstantOfShape", [shape], [result + "s"]))
        given, attributes = [result + "s"], {}
    elif kind == "RandomNormal":
        given, attributes = [], {"shape": [it for it in sizes]}
    elif kind == "HannWindow":
        given, attributes = [number(m.number())], {}
    else:
        given, attributes = [x, shape], {}
    graph.node.append(helper.make_node(kind, given, [result], **attributes))
    if m.chance(0.4):
        m.output(result)
        return f"{kind} {sizes}"
    last = m.fresh("h")
    op = m.rng.choice(["ReduceSum", "MatMul", "Add", "Softmax", "TopK", "NonZero", "CumSum", "Transpose", "Identity", "Unique", "Conv", "Gather", "Einsum"])
    extra = {"MatMul": [result], "Add": [m.pick(m.names())], "TopK": [number([1])], "CumSum": [number(0)], "Conv": [x], "Gather": [number([0, -1])]}
    graph.node.append(helper.make_node(op, [result, *extra.get(op, [])], [last], **({"equation": "ij->ji"} if op == "Einsum" else {})))
    m.output(last)
    return f"{kind} {sizes}, {op}"


@mutation(0.5)
def metadata(m):
    """Texts that nothing reads, and nodes that have no name or one name."""
    for _ in range(m.rng.choice([1, 1000])):
        m.model.metadata_props.add(key="k", value="v" * m.rng.choice([0, 1, 100]))
    for node in m.nodes():
        node.name = m.rng.choice(["", "n", "\u202e"])
    m.model.training_info.add().algorithm.CopyFrom(onnx.GraphProto())
    attribute = AttributeProto(name="a", type=AttributeProto.SPARSE_TENSOR)
    m.node().attribute.append(attribute)
    return f"{len(m.model.metadata_props)}"
