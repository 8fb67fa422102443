"""ONNX conformance: the node tests of the onnx package, and models that Python packages ship, beside onnxruntime.

    conformance.py nodes --data DIR --out FILE.md [--filter TEXT] [--max-opset N] [--frozen] -- TVMC worker conformance --target T
    conformance.py real (real.py)
    conformance.py hostile (hostile.py)
    conformance.py cuda (cuda.py)
    conformance.py models (matrix.py)

`nodes` writes the tests of the installed onnx package below DIR once, in the layout of ONNX backend tests. A worker reads
`TEST DIR<tab>OUTPUT DIR` lines and answers one JSON line each. Outputs are compared by the rule of
onnx.backend.test.runner: same shape and element type, the tolerances of the test. With `--frozen`, they are the tests that `frozen`
makes of them.
"""
import argparse, collections, glob, json, os, re, select, shutil, subprocess, sys, tempfile, time

import ml_dtypes  # noqa: F401  (registers its element types with numpy)
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

CATEGORIES = {
    "elementwise": """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip
        Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less
        LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
        Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu Where Xor""",
    "conversions": "BitCast Cast CastLike",
    "reductions": """ArgMax ArgMin CumProd CumSum Hardmax ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
        ReduceProd ReduceSum ReduceSumSquare TopK""",
    "linear algebra": "Det Einsum Gemm MatMul",
    "softmax and norms": """BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LogSoftmax
        LpNormalization MeanVarianceNormalization RMSNormalization Softmax""",
    "attention": "Attention CausalConvWithState FlexAttention LinearAttention RotaryEmbedding TensorScatter",
    "convolutions, pooling, images": """AffineGrid AveragePool Col2Im Conv ConvTranspose DeformConv DepthToSpace GlobalAveragePool
        GlobalLpPool GlobalMaxPool GridSample LpPool MaxPool MaxRoiPool MaxUnpool NonMaxSuppression Resize RoiAlign
        SpaceToDepth Upsample""",
    "shapes and indices": """CenterCropPad Compress Concat Constant ConstantOfShape Expand EyeLike Flatten Gather GatherElements
        GatherND NonZero OneHot Pad Range Reshape ReverseSequence Scatter ScatterElements ScatterND Shape Size Slice Split Squeeze
        Tile Transpose Trilu Unique Unsqueeze""",
    "quantised": "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul QuantizeLinear",
    "control flow": "If Loop Scan",
    "sequences, optionals, strings": """ConcatFromSequence Optional OptionalGetElement OptionalHasElement RegexFullMatch SequenceAt
        SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence StringConcat
        StringNormalizer StringSplit TfIdfVectorizer""",
    "recurrent": "GRU LSTM RNN",
    "training": """Adagrad Adam Bernoulli Dropout Gradient Momentum NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss""",
    "signals": "BlackmanWindow DFT HammingWindow HannWindow ImageDecoder MelWeightMatrix STFT",
    "ai.onnx.ml": "ArrayFeatureExtractor Binarizer LabelEncoder TreeEnsemble",
}
CATEGORY = {op: name for name, ops in CATEGORIES.items() for op in ops.split()}


class Mismatch(Exception):
    pass


# Node tests.


def kind_of(info):
    kinds = ("sequence_type", "optional_type", "map_type", "sparse_tensor_type")
    return next((kind[: -len("_type")] for kind in kinds if info.type.HasField(kind)), "tensor")


def to_proto(value, info):
    kind = kind_of(info)
    if kind == "sequence":
        return numpy_helper.from_list(value, info.name)
    if kind == "optional":
        return numpy_helper.from_optional(value, info.name)
    if kind == "map":
        return numpy_helper.from_dict(value, info.name)
    return value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), info.name)


def from_file(path, kind):
    data = open(path, "rb").read()
    if kind == "tensor":
        proto = TensorProto()
        proto.ParseFromString(data)
        array = numpy_helper.to_array(proto)
        if proto.data_type == TensorProto.STRING:
            text = [it.decode() if isinstance(it, bytes) else it for it in array.ravel()]
            array = np.array(text, dtype=object).reshape(array.shape)
        return array
    proto, read = {
        "sequence": (onnx.SequenceProto(), numpy_helper.to_list),
        "optional": (onnx.OptionalProto(), numpy_helper.to_optional),
        "map": (onnx.MapProto(), numpy_helper.to_dict),
    }[kind]
    proto.ParseFromString(data)
    return read(proto)


def write_tests(root):
    from onnx.backend.test.loader import load_node_model_tests

    index = []
    for case in load_node_model_tests():
        folder = os.path.join(root, case.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        graph = case.model.graph
        try:
            open(os.path.join(folder, "model.onnx"), "wb").write(case.model.SerializeToString())
            for i, (inputs, outputs) in enumerate(case.data_sets):
                data = os.path.join(folder, f"test_data_set_{i}")
                os.makedirs(data)
                for word, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
                    for j, value in enumerate(values):
                        proto = to_proto(value, infos[j])
                        open(os.path.join(data, f"{word}_{j}.pb"), "wb").write(proto.SerializeToString())
        except Exception as err:  # A few cases hold data that has no message.
            print(f"SKIPPED: {case.name}: {err!r}"[:200])
            shutil.rmtree(folder)
            continue
        index.append(
            dict(
                name=case.name,
                rtol=case.rtol,
                atol=case.atol,
                op=graph.node[0].op_type if graph.node else "",
                opset=max(it.version for it in case.model.opset_import),
                kinds=[[kind_of(it) for it in infos] for infos in (graph.input, graph.output)],
                sets=len(case.data_sets),
            )
        )
    # An expanded test belongs to the operator that it was expanded from.
    ops = {it["name"]: it["op"] for it in index}
    for it in index:
        it["op"] = ops.get(it["name"].split("_expanded")[0], it["op"])
    json.dump(index, open(os.path.join(root, "index.json"), "w"))


class Worker:
    """A process that serves many tests; it is started again after a crash or a time-out."""

    def __init__(self, command, log, cwd=None):
        self.command, self.log, self.cwd, self.process = command, log, cwd, None

    def start(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=self.log, bufsize=0, cwd=self.cwd)
        self.rest = b""

    def begin(self):
        """Called before each request."""

    def over(self, waited):
        """An answer in place of the worker's, when it goes beyond a limit."""
        return {"status": "timeout", "msg": f"more than {self.limit} s"} if waited > self.limit else None

    def ask(self, line, seconds):
        self.limit = seconds
        if self.process is None:
            self.start()
            self.limit += 30
        self.begin()
        try:
            self.process.stdin.write(line.encode())
        except BrokenPipeError:
            self.stop()
            return {"status": "crash", "msg": "the worker is gone"}
        began = time.time()
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], 0.05)
            if not ready:
                over = self.over(time.time() - began)
                if over:
                    self.stop()
                    return over
                continue
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                code = self.process.wait()
                self.process = None
                return {"status": "crash", "msg": f"exit status {code}"}
            self.rest += data
        answer, self.rest = self.rest.split(b"\n", 1)
        return json.loads(answer)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def save_value(path, value):
    if value is None:
        open(path + ".none", "w").close()
    elif isinstance(value, (list, tuple)):
        os.makedirs(path, exist_ok=True)
        for i, element in enumerate(value):
            save_value(os.path.join(path, str(i)), element)
    else:
        value = np.asarray(value)
        if value.dtype == object or value.dtype.kind in "US":
            data = [it.decode() if isinstance(it, bytes) else str(it) for it in value.ravel()]
            json.dump({"shape": list(value.shape), "data": data}, open(path + ".json", "w"))
        elif value.dtype.isbuiltin == 1:
            np.save(path + ".npy", value)
        else:
            bits = np.uint8 if value.dtype.itemsize == 1 else np.uint16
            np.save(path + ".npy", np.ascontiguousarray(value).view(bits))
            open(path + ".dtype", "w").write(value.dtype.name)


def load_value(path):
    if os.path.exists(path + ".none"):
        return None
    if os.path.isdir(path):
        count = len({it.split(".")[0] for it in os.listdir(path)})
        return [load_value(os.path.join(path, str(i))) for i in range(count)]
    if os.path.exists(path + ".json"):
        text = json.load(open(path + ".json"))
        return np.array(text["data"], dtype=object).reshape(text["shape"])
    value = np.load(path + ".npy", allow_pickle=False)
    if os.path.exists(path + ".dtype"):
        value = value.view(np.dtype(getattr(ml_dtypes, open(path + ".dtype").read().strip())))
    return value


def compare(want, got, rtol, atol, where):
    if want is None or got is None:
        if want is not got:
            raise Mismatch(f"{where}: an empty value beside one that is not")
        return
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(want) != len(got):
            raise Mismatch(f"{where}: expected a sequence of {len(want)}")
        for i, (a, b) in enumerate(zip(want, got)):
            compare(a, b, rtol, atol, f"{where}[{i}]")
        return
    want, got = np.asarray(want), np.asarray(got)
    if want.shape != got.shape:
        raise Mismatch(f"{where}: shape {got.shape}, expected {want.shape}")
    if want.dtype == object:
        if not (want.astype(str) == got.astype(str)).all():
            raise Mismatch(f"{where}: other strings")
        return
    if want.dtype != got.dtype:
        raise Mismatch(f"{where}: elements {got.dtype}, expected {want.dtype}")
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)
    if want.dtype.isbuiltin != 1:
        want, got = want.astype(np.float32), got.astype(np.float32)
    try:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    except AssertionError as err:
        raise Mismatch(f"{where}: " + " ".join(str(err).split())[:160]) from None


def serve_ort():
    """The worker of onnxruntime."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    for line in sys.stdin:
        test, output = line.rstrip("\n").split("\t")
        try:
            model = onnx.load(os.path.join(test, "model.onnx"))
            session = ort.InferenceSession(os.path.join(test, "model.onnx"), options, providers=["CPUExecutionProvider"])
            sets = sorted(glob.glob(os.path.join(test, "test_data_set_*")))
            for i, data in enumerate(sets):
                feed = {}
                for j, info in enumerate(model.graph.input):
                    path = os.path.join(data, f"input_{j}.pb")
                    if os.path.exists(path):
                        feed[info.name] = from_file(path, kind_of(info))
                folder = os.path.join(output, str(i))
                os.makedirs(folder, exist_ok=True)
                values = session.run(None, feed)
                for j, value in enumerate(values):
                    save_value(os.path.join(folder, f"output_{j}"), value)
                json.dump(len(values), open(os.path.join(folder, "n.json"), "w"))
            answer = {"status": "ok"}
        except Exception as err:
            words = ("NOT_IMPLEMENTED", "not a registered function", "No Op registered", "under development")
            known = any(it in str(err) for it in words)
            answer = {"status": "unsupported" if known else "error", "msg": str(err)[:300]}
        print(json.dumps(answer), flush=True)


def judge(root, it, worker):
    folder = os.path.join(root, it["name"])
    output = tempfile.mkdtemp(prefix="conformance_")
    try:
        answer = worker.ask(f"{folder}\t{output}\n", 20)
        if answer["status"] != "ok":
            return answer["status"], answer.get("msg", "")
        for i in range(it["sets"]):
            data = os.path.join(folder, f"test_data_set_{i}")
            count = json.load(open(os.path.join(output, str(i), "n.json")))
            for j, kind in enumerate(it["kinds"][1]):
                want = os.path.join(data, f"output_{j}.pb")
                if not os.path.exists(want):
                    continue
                if j >= count:
                    raise Mismatch(f"{count} outputs")
                got = load_value(os.path.join(output, str(i), f"output_{j}"))
                compare(from_file(want, kind), got, it["rtol"], it["atol"], f"output {j}")
        return "pass", ""
    except Mismatch as err:
        # The values that the package expects came from a generator without a seed.
        random = "bernoulli" in it["name"] or ("dropout" in it["name"] and "training" in it["name"])
        return ("random" if random and "Not equal" in str(err) else "mismatch"), str(err)
    finally:
        shutil.rmtree(output, ignore_errors=True)


def load_index(args):
    """The folder of the node tests, which are written where they are missing, and those that were asked for."""
    root = os.path.join(args.data, f"onnx-nodes-{onnx.__version__}")
    if not os.path.exists(os.path.join(root, "index.json")):
        print(f"writing the node tests of onnx {onnx.__version__} to {root}", flush=True)
        write_tests(root)
    if args.frozen:
        source, root = root, f"{root}-frozen"
        if not os.path.exists(os.path.join(root, "index.json")):
            from frozen import write_frozen

            write_frozen(source, root)
    return root, [it for it in json.load(open(os.path.join(root, "index.json"))) if re.search(args.filter, it["name"])]


def nodes(args):
    root, tests = load_index(args)
    log = open(os.path.join(args.data, "conformance.log"), "ab")
    workers = {"tvm": Worker(args.command, log)}
    if not args.alone:
        os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
        workers["onnxruntime"] = Worker([sys.executable, os.path.abspath(__file__), "serve-ort"], log)
    results = {}
    for name, worker in workers.items():
        results[name] = {}
        for i, it in enumerate(tests):
            results[name][it["name"]] = judge(root, it, worker)
            if sys.stdout.isatty():
                print(f"\r{name}: {i + 1} of {len(tests)}", end="", flush=True)
        worker.stop()
        if sys.stdout.isatty():
            print()
    text = node_report(tests, results, args)
    print(text)
    if args.out:
        open(args.out, "w").write(text)
    wrong = [it for it in results["tvm"].values() if it[0] not in ("pass", "random", "unsupported", "error")]
    return 1 if wrong else 0


def node_report(tests, results, args):
    names, max_opset = list(results), args.max_opset
    count = lambda of, name: sum(results[name][it["name"]][0] == "pass" for it in of)
    frozen = "Here, inputs that say shapes, axes, limits, scales or weights are constants (`--frozen`)."
    lines = [
        "# ONNX conformance",
        "",
        "`cargo xtask conformance --out docs/onnx.md` writes this page: the node tests of the onnx package "
        f"{onnx.__version__} that pass as they are,",
        "by the rule of the package's own test runner, here and in onnxruntime. [Models that Python packages ship](onnx_models.md) have a page",
        "of their own.",
        *([frozen] if args.frozen else []),
        "",
        "| category | tests | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    older = [it for it in tests if it["opset"] <= max_opset]
    rows = [(name, [it for it in older if CATEGORY.get(it["op"], "others") == name]) for name in [*CATEGORIES, "others"]]
    rows += [(f"**opset ≤ {max_opset}**", older), ("**all**", tests)]
    lines += [f"| {name} | {len(of)} | " + " | ".join(str(count(of, it)) for it in names) + " |" for name, of in rows if of]
    for status in ("mismatch", "random", "crash", "timeout"):
        cells = [str(sum(it[0] == status for it in results[name].values())) for name in names]
        lines.append(f"| {status} | | " + " | ".join(cells) + " |")
    failed = collections.defaultdict(list)
    for it in tests:
        status, why = results["tvm"][it["name"]]
        if status != "pass":
            why = re.sub(r"\s*-->.*", "", why.splitlines()[0] if why else "")
            why = re.sub(r"^.*?(model\.onnx: )", "", why)
            if status == "random":
                why = "shapes and types are right, the values have no fixed answer"
            failed[f"{status}: {why}"].append(it["name"])
    lines += ["", "## What does not pass", "", "| why | tests |", "|---|---|"]
    for why, of in sorted(failed.items(), key=lambda it: -len(it[1])):
        shown = ", ".join(f"`{it}`" for it in of[:3]) + (f" and {len(of) - 3} more" if len(of) > 3 else "")
        lines.append(f"| {why.replace('|', '/')} | {shown} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["nodes", "real", "hostile", "cuda", "models", "serve-ort"])
    parser.add_argument("--data")
    parser.add_argument("--out")
    parser.add_argument("--filter", default="")
    parser.add_argument("--max-opset", type=int, default=27)
    parser.add_argument("--alone", action="store_true", help="without peers")
    parser.add_argument("--frozen", action="store_true", help="node tests with inputs such as shapes as constants")
    parser.add_argument("--count", type=int, default=1000, help="number of hostile models")
    parser.add_argument("--seed", type=int, help="seed of hostile models")
    parser.add_argument("--first", type=int, default=0, help="number of the first hostile model")
    parser.add_argument("--minutes", type=float, help="whole models that are not begun after that time are not run")
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    args = parser.parse_args(given[:end])
    args.command = given[end + 1 :]
    if args.what == "hostile":
        from hostile import hostile

        return hostile(args)
    if args.what == "cuda":
        from cuda import cuda

        return cuda(args, load_index)
    if args.what == "models":
        from matrix import matrix

        return matrix(args)
    if args.what == "real":
        from real import real

        return real(args)
    return {"nodes": nodes, "serve-ort": lambda _: serve_ort()}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
