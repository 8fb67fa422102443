"""The whole models of the comparison beside onnxruntime: precision, dimensions, target and number of threads.

    conformance.py models --data DIR [--out FILE.md] [--filter TEXT] [--minutes N] -- TVMC [--target T] < specs.json

The specifications are those of peers/src/models.rs. A row is a model in a variant for a target. It is compiled once, and its results at
1, 2 and 7 threads must be the same bits. How far they may be from those of onnxruntime with its default optimisation, as a share of the
largest value of the output:

- fixed, symbolic: 1e-4. For models of packages it is twice what onnxruntime's result changes without its optimisation, or with inputs
  that are changed by a millionth, where that is more; at least 3e-3 for those with an STFT (real.py says why).
- int8: the last quantised tensors, which are made outputs for it, may differ by 2 steps, or by twice as many as onnxruntime's own two
  results (with and without its optimisation) do: a value halfway between two steps may go to either, and later layers amplify it. The
  outputs may differ by 2 of 255 steps; after a softmax, by 2 steps as such, because a softmax turns
  absolute differences into relative ones; or by twice what onnxruntime's own results differ.
- bf16: sqrt(2 L) / 256, where L is the number of convolutions and products. Rounding to 8 bits changes an operand by 2^-10 of it (root
  mean square), a layer has two operands, errors of layers are independent, and the largest of many errors is taken to be four times the
  root mean square. After a softmax it is times the standard deviation of what the softmax reads, if that is more than 1. For
  models of packages it is sqrt(2 L) times what onnxruntime's result changes if only the inputs are rounded to bf16, where that is more.

Where a softmax or sigmoid leaves nothing but 0 and 1, what it reads becomes an output too, and the differences of its results are shares
of 1.
"""
import json, os, re, subprocess, sys, tempfile, time

import ml_dtypes
import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh

import real

THREADS = (1, 2, 7)
VARIANTS = ("fixed", "symbolic", "int8", "bf16")
# The last to be run.
LARGE = ["light_resnet50", "light_bvlc_alexnet", "light_zfnet512", "light_vgg19"]
TYPES = {"f32": np.float32, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "i8": np.int8, "bool": np.bool_, "f16": np.float16, "f64": np.float64}


class Skipped(Exception):
    pass


def title(spec):
    kind = spec["kind"]
    if kind == "shipped":
        parts = spec["model"].removesuffix(".onnx").split("/")
        return f"{parts[0] if parts[-1] == 'model' else parts[-1]}, inputs {spec['run']}"
    if kind == "minilm":
        return f"MiniLM {spec['batch']}×{spec['length']}"
    return kind.removeprefix("light_") if kind.startswith("light_") else f"{ {'mobilenet': 'depthwise network'}.get(kind, kind) }, batch {spec['batch']}"


def cost(spec):
    """Small models first; then what a smaller row of the same model shows as well."""
    again = spec.get("run", 0) > 0 or spec["kind"] == "minilm" and spec["batch"] * spec["length"] > 128
    return again, LARGE.index(spec["kind"]) + 1 if spec["kind"] in LARGE else 0


def free(model):
    return any(not dim.HasField("dim_value") for it in real.given_inputs(model) for dim in it.type.tensor_type.shape.dim)


class Case:
    """A model in a variant: its file, its inputs, and what onnxruntime makes of them."""

    def __init__(self, args, spec, variant):
        built = spec["kind"] in ("minilm", "mobilenet") or spec["kind"].startswith("light_")
        fields = {"quantized": True} if variant == "int8" else {"symbolic": True} if variant == "symbolic" and built else {}
        if spec["kind"] == "shipped" and not os.path.exists(os.path.join(args.data, "packages", spec["model"])):
            raise Skipped("the package is not installed")
        tag = "".join(f"_{it}_true" for it in fields if it not in spec)
        maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.py")
        wanted = json.dumps([{**spec, **fields, "id": spec["id"] + tag}])
        run = subprocess.run([sys.executable, maker, args.data], input=wanted, capture_output=True, text=True)
        case = json.loads(run.stdout) if run.returncode == 0 else {"missing": run.stderr.strip()[-200:]}
        if "missing" in case:
            raise Skipped(f"no such model: {case['missing']}")
        self.path, self.variant, self.kind = case["onnx"], variant, spec["kind"]
        self.model = onnx.load(self.path)
        if variant == "symbolic" and not free(self.model):
            raise Skipped("no symbolic dimensions")
        self.feeds = {it["name"]: np.fromfile(it["file"], TYPES[it["dtype"]]).reshape(it["shape"]) for it in case["inputs"]}
        self.options = ["--precision", "bf16"] if variant == "bf16" else []
        if variant != "symbolic" and free(self.model):
            for name, value in self.feeds.items():
                self.options += ["--shape", f"{name}={'x'.join(map(str, value.shape))}"] if value.ndim else []
        self.names = [it.name for it in self.model.graph.output]
        self.expected = self.session(self.path, "ORT_ENABLE_ALL").run(None, self.feeds)
        # Such outputs hide differences: what they are computed from is compared as well.
        self.hiding = {name for name, value in zip(self.names, self.expected) if self.hides(name, value)}
        if self.hiding and variant != "int8":
            path = os.path.join(args.data, f"read_{os.path.basename(self.path)}")
            self.add_outputs([self.activation(it).input[0] for it in self.hiding], path)
            self.path, self.model = path, onnx.load(path)
            self.names = [it.name for it in self.model.graph.output]
        self.fast, self.plain = (self.session(self.path, level) for level in ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL"))
        self.expected, plain = self.fast.run(None, self.feeds), self.plain.run(None, self.feeds)
        rng = np.random.default_rng(1)
        nudged = rounded if variant == "bf16" else lambda value: real.nudged(value, rng)
        near = self.plain.run(None, {key: nudged(value) for key, value in self.feeds.items()}) if self.kind == "shipped" else plain
        # What the results of onnxruntime itself change, for each output.
        apart = lambda a, b: share(a[1], b, a[0] in self.hiding)
        self.change = [max(apart(it, b), share(c, b, it[0] in self.hiding)) for it, b, c in zip(zip(self.names, self.expected), plain, near)]
        self.bounds = [self.bound(*it) for it in zip(self.names, self.expected, self.change)]

    def session(self, path, level):
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level, options.graph_optimization_level = 4, getattr(ort.GraphOptimizationLevel, level)
        return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def producers(self):
        return {name: node for node in self.model.graph.node for name in node.output}

    def activation(self, name):
        """The softmax or sigmoid that computes the output, if there is one."""
        made = self.producers()
        node = made.get(name)
        while node is not None and node.op_type in ("Reshape", "Identity", "Flatten", "Squeeze"):
            node = made.get(node.input[0])
        return node if node is not None and node.op_type in ("Softmax", "Sigmoid") else None

    def softmax(self, name):
        node = self.activation(name)
        return node is not None and node.op_type == "Softmax"

    def hides(self, name, value):
        """Whether the output is a softmax or sigmoid of which nothing is left but 0 and 1."""
        return self.activation(name) is not None and value.size > 0 and not bool(((value > 1e-3) & (value < 0.999)).any())

    def last_quantised(self):
        """The last quantised values before the outputs, and their steps."""
        made, found, seen = self.producers(), {}, set()
        constants = {it.name: nh.to_array(it) for it in self.model.graph.initializer}
        left = list(self.names)
        while left:
            name = left.pop()
            node = made.get(name)
            if node is None or name in seen:
                continue
            seen.add(name)
            if node.op_type == "DequantizeLinear":
                if node.input[0] in made and node.input[1] in constants and constants[node.input[1]].size == 1:
                    zero = constants[node.input[2]] if len(node.input) > 2 else np.uint8(0)
                    found[node.input[0]] = float(constants[node.input[1]].ravel()[0]), int(zero.ravel()[0])
                continue
            left += node.input
        return found

    def bound(self, name, expected, change):
        if self.variant == "int8":
            steps = [step for step, _ in self.last_quantised().values()]
            if not steps:
                raise Skipped("nothing before its outputs is quantised")
            if self.softmax(name):
                return max(2 * max(steps), 2 * change)
            return max(2 / 255, 2 * change)
        if self.variant == "bf16":
            layers = products(self.model.graph)
            with np.errstate(divide="ignore"):
                logs = np.log(expected.astype(np.float64)) if self.softmax(name) else np.zeros(1)
            least = (2 * layers) ** 0.5 / 256 * max(1.0, float(logs[np.isfinite(logs)].std()))
            return max(1e-4, least, (2 * layers) ** 0.5 * change if self.kind == "shipped" else 0)
        stft = any(node.op_type == "STFT" for node in self.model.graph.node)
        return max(3e-3 if stft else 1e-4, 2 * change if self.kind == "shipped" else 0)

    def probe(self, folder):
        """The model with its last quantised values as further outputs; their names."""
        names = [it for it in self.last_quantised() if it not in self.names]
        path = os.path.join(folder, "probed.onnx")
        self.add_outputs(names, path)
        return path, names

    def add_outputs(self, names, path):
        """Writes the model with these values as further outputs."""
        probed = onnx.ModelProto()
        probed.CopyFrom(self.model)
        probed.graph.output.extend(h.make_empty_tensor_value_info(it) for it in names)
        shapes = {it.name: it for it in onnx.shape_inference.infer_shapes(self.model).graph.value_info}
        for it in probed.graph.output[len(self.names) :]:
            if it.name in shapes:
                it.CopyFrom(shapes[it.name])
            else:
                it.type.tensor_type.elem_type = onnx.TensorProto.UINT8 if self.variant == "int8" else onnx.TensorProto.FLOAT
        onnx.save(probed, path)


def products(graph):
    """The number of convolutions and products, those of branches and bodies included."""
    inner = [it.g for node in graph.node for it in node.attribute if it.type == onnx.AttributeProto.GRAPH]
    named = ("Conv", "ConvTranspose", "Gemm", "MatMul", "GRU", "LSTM", "RNN")
    return sum(node.op_type in named for node in graph.node) + sum(map(products, inner))


def rounded(value):
    """Floats that are rounded to bf16."""
    return value.astype(ml_dtypes.bfloat16).astype(value.dtype) if value.dtype.kind == "f" else value


def share(a, b, of_one=False):
    """The largest difference as a share of the largest value of `b`, or of 1; infinite where kinds or places of infinities differ."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if b.dtype.kind != "f":
        return 0.0 if (a == b).all() else float("inf")
    finite = np.isfinite(b)
    if not (np.isfinite(a) == finite).all():
        return float("inf")
    a, b = a[finite].astype(np.float64), b[finite].astype(np.float64)
    largest = 1.0 if of_one else float(np.abs(b).max(initial=0))
    return float(np.abs(a - b).max(initial=0)) / (largest or 1.0)


def tvmc(command, what, *rest):
    run = subprocess.run([command, what, *rest], capture_output=True, text=True)
    if run.returncode:
        why = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[0][:200]
        raise (Skipped if "feature `" in run.stderr else ValueError)(f"{what}: {why}")


def ours(command, path, options, target, feeds, count, threads):
    """Our results for each number of threads."""
    with tempfile.TemporaryDirectory(prefix="matrix_") as work:
        artifact, given, res = os.path.join(work, "model.tvm"), [], []
        for at, (name, value) in enumerate(feeds.items()):
            np.save(os.path.join(work, f"{at}.npy"), value)
            given += ["--input", f"{name}={os.path.join(work, f'{at}.npy')}"]
        tvmc(command, "compile", path, "-o", artifact, "--target", target, *options)
        for number in threads:
            tvmc(command, "run", artifact, *given, "--threads", str(number), "--output-dir", work)
            res.append([np.load(os.path.join(work, f"output_{at}.npy")) for at in range(count)])
        return res


def steps(case, command, target):
    """Text, and whether the last quantised values are near enough."""
    with tempfile.TemporaryDirectory(prefix="matrix_") as work:
        path, names = case.probe(work)
        if not names:
            return "", True
        fast, plain = (case.session(path, level).run(names, case.feeds) for level in ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL"))
        got = ours(command, path, case.options, target, case.feeds, len(case.names) + len(names), (2,))[0][len(case.names) :]
    apart = lambda a, b: max(int(np.abs(x.astype(np.int64) - y.astype(np.int64)).max(initial=0)) for x, y in zip(a, b))
    number = lambda a, b: sum(int((x != y).sum()) for x, y in zip(a, b))
    if any(x.shape != y.shape for x, y in zip(got, fast)):
        return "shapes differ", False
    mine, own = apart(got, fast), apart(plain, fast)
    total = sum(it.size for it in fast)
    text = f"{number(got, fast)} of {total} by ≤ {mine} (onnxruntime's own: {number(plain, fast)} by ≤ {own})"
    return text, mine <= max(2, 2 * own)


def check(case, command, target):
    """The row of a case: the largest difference and its bound, steps, same bits, verdict."""
    by_threads = ours(command, case.path, case.options, target, case.feeds, len(case.names), THREADS)
    bits = {b"".join(it.tobytes() for it in res) for res in by_threads}
    worst = max(
        (
            (share(got, b, name in case.hiding), bound)
            for res in by_threads
            for name, got, b, bound in zip(case.names, res, case.expected, case.bounds)
        ),
        key=lambda it: it[0] / it[1],
    )
    said, near = steps(case, command, target) if case.variant == "int8" else ("", True)
    ok = worst[0] <= worst[1] and near and len(bits) == 1
    return [f"{worst[0]:.1e}", f"{worst[1]:.1e}", said, "yes" if len(bits) == 1 else "**no**", "ok" if ok else "**FAILS**"]


def matrix(args):
    given = args.command[args.command.index("--target") + 1] if "--target" in args.command else "host"
    targets = ["llvm", "c"] if given == "host" else [given]
    specs = json.load(sys.stdin)
    keys = [(spec, variant, target) for spec in specs for variant in VARIANTS for target in targets]
    # `--filter` is for the model, the variant and the target, as in `resnet50, int8, c`.
    rows = {(spec["id"], *it): None for spec, *it in keys if re.search(args.filter, ", ".join([title(spec), *it]))}
    end = time.time() + 60 * args.minutes if args.minutes else None
    for spec in sorted(specs, key=cost):
        for variant in VARIANTS:
            wanted = [it for it in targets if (spec["id"], variant, it) in rows]
            if not wanted or end and time.time() > end:
                continue
            try:
                case = Case(args, spec, variant)
            except Exception as err:  # No reference: there is nothing to compare with.
                why = str(err) if isinstance(err, Skipped) else f"onnxruntime: {err}"
                case = "skipped: " + (why.splitlines() or [type(err).__name__])[0][:200]
            for target in wanted:
                try:
                    row = ["", "", "", "", case] if isinstance(case, str) else check(case, args.command[0], target)
                except Skipped as err:
                    row = ["", "", "", "", f"skipped: {err}"]
                except Exception as err:
                    row = ["", "", "", "", f"**FAILS**: {(str(err).splitlines() or [type(err).__name__])[0][:200]}"]
                rows[spec["id"], variant, target] = row
                print(" | ".join([title(spec), variant, target, *row]), flush=True)
            write(args, specs, rows)
    text, failed, passed = write(args, specs, rows)
    print(text.splitlines()[-1])
    return 1 if failed or not passed else 0


def write(args, specs, rows):
    """Writes the page; answers its text, how many rows fail and how many pass."""
    done = [row[-1] for row in rows.values() if row]
    passed, failed = done.count("ok"), sum(it.startswith("**") for it in done)
    none = sum(it.endswith("no symbolic dimensions") for it in done)
    lines = [
        "# Whole models beside onnxruntime",
        "",
        "`cargo xtask conformance --models --out docs/perf/models-correctness.md` writes this page: the models of the comparison, each compiled once",
        "for a target and run at 1, 2 and 7 threads, whose results must be the same bits. The largest difference from onnxruntime's result and its",
        "bound are shares of the largest value of the output. Bounds (`peers/python/matrix.py` gives the reasons):",
        "",
        "- f32: 1e-4; for models of packages twice what onnxruntime's result changes without its optimisation, if that is more.",
        "- int8: the last quantised values differ by 2 steps at most, or twice as many as onnxruntime's results with and without its optimisation;",
        "  the outputs by as much as 2 steps make there. Values halfway between two steps may go to either.",
        "- bf16, beside onnxruntime in f32: sqrt(2 L) / 256 for L convolutions and products, after a softmax times the spread of what it reads;",
        "  for models of packages sqrt(2 L) times what rounding the inputs alone changes in onnxruntime, if that is more.",
        "",
        "| model | variant | target | largest difference | bound | quantised values that differ | same bits | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for spec in specs:
        for (of, variant, target), row in rows.items():
            if of == spec["id"] and not (row and row[-1].endswith("no symbolic dimensions")):
                cells = row or ["", "", "", "", "not run: out of time"]
                lines.append(f"| {' | '.join(it.replace('|', '/') for it in [title(spec), variant, target, *cells])} |")
    most = {it: max((row[0] for (_, of, _), row in rows.items() if of == it and row and row[0]), key=float, default=None) for it in VARIANTS}
    lines += ["", "The largest differences: " + ", ".join(f"{name} {it}" for name, it in most.items() if it) + "."]
    skipped, left = len(done) - passed - failed - none, len(rows) - len(done)
    text = f"{passed} rows pass, {failed} fail, {skipped} are skipped, {left} are not run; {none} are of models without symbolic dimensions."
    text = "\n".join([*lines, "", text]) + "\n"
    if args.out:
        with open(args.out, "w") as file:
            file.write(text)
    return text, failed, passed
