"""The kernels of models as NVIDIA's own compilers see them: NVRTC translates the CUDA C that we write, and ptxas assembles the result.

    conformance.py cuda --data DIR --out FILE.md [--filter TEXT] -- TVMC --target "cuda -arch=sm_90"

The models are the node tests of the onnx package and whole networks. Both programs come from NVIDIA's wheels, which are installed below
DIR; no GPU and no driver are needed. What a compiler refuses fails the run, as do kernels that spill registers.
"""
import collections, ctypes, glob, json, os, re, subprocess, sys, tempfile

WHEELS = {"nvrtc": "nvidia-cuda-nvrtc==13.0.88", "nvcc": "nvidia-cuda-nvcc==13.0.88"}
NETWORKS = {
    "resnet50": ("light_resnet50", {}), "squeezenet": ("light_squeezenet", {}), "shufflenet": ("light_shufflenet", {}),
    "densenet121": ("light_densenet121", {}), "inception_v1": ("light_inception_v1", {}),
    "depthwise network": ("mobilenet", {"batch": 1}), "depthwise network, symbolic batch": ("mobilenet", {"batch": 1, "symbolic": True}),
    "MiniLM, batch 1, length 128": ("minilm", {"batch": 1, "length": 128}),
    "MiniLM, symbolic": ("minilm", {"batch": 1, "length": 128, "symbolic": True}),
}  # fmt: skip
# Functions of the prelude and indices that a kernel does not use.
HARMLESS = "177"


def tool(data, name, pattern):
    folder = os.path.join(data, "cuda", name)
    found = lambda: sorted(glob.glob(os.path.join(folder, "**", pattern), recursive=True))
    if not found():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, WHEELS[name]], check=True)
    if not found():
        sys.exit(f"{WHEELS[name]} has no {pattern}")
    return found()[0]


class Nvrtc:
    def __init__(self, data):
        path = tool(data, "nvrtc", "libnvrtc.so.*")
        for it in glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so.*")):
            ctypes.CDLL(it, mode=ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(path)

    def text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self.lib, f"nvrtcGet{what}")(program, text)
        return text.value.decode()

    def ptx(self, source, arch):
        """PTX of the source, or None, and what the compiler says."""
        program = ctypes.c_void_p()
        if self.lib.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None):
            return None, "nvrtcCreateProgram failed"
        # A product and a sum are contracted only where the program says so.
        options = [f"--gpu-architecture=compute_{arch}".encode(), b"--fmad=false", f"--diag-suppress={HARMLESS}".encode()]
        failed = self.lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = self.text(program, "ProgramLog")
        ptx = None if failed else self.text(program, "PTX")
        self.lib.nvrtcDestroyProgram(ctypes.byref(program))
        return ptx, log


def assemble(ptxas, ptx, arch, folder):
    """Whether ptxas takes the program, what it says, and the registers, bytes of stack and spilled bytes of each kernel."""
    path = os.path.join(folder, "kernels.ptx")
    open(path, "w").write(ptx)
    run = subprocess.run([ptxas, f"-arch=sm_{arch}", "-v", path, "-o", os.path.join(folder, "kernels.cubin")], capture_output=True, text=True)
    numbers = lambda pattern: [int(it) for it in re.findall(pattern, run.stderr)]
    rows = zip(numbers(r"Used (\d+) registers"), numbers(r"(\d+) bytes stack frame"), numbers(r"(\d+) bytes spill stores"))
    return run.returncode == 0, run.stderr, list(rows)


def warnings(log):
    lines = [it for it in log.splitlines() if re.search(r"\): (warning|error|catastrophic error)|ptxas.* (warning|error)", it)]
    return "; ".join(lines)[:300]


def models(args, load_index):
    """Names and files."""
    chosen = [it for it in NETWORKS.items() if re.search(args.filter, it[0])]
    specs = [{"id": f"cuda_{at}", "kind": kind, **fields} for at, (_, (kind, fields)) in enumerate(chosen)]
    maker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.py")
    run = subprocess.run([sys.executable, maker, args.data], input=json.dumps(specs), capture_output=True, text=True, check=True)
    for (name, _), line in zip(chosen, run.stdout.splitlines()):
        yield name, json.loads(line)["onnx"]
    root, tests = load_index(args)
    for it in tests:
        yield it["name"], os.path.join(root, it["name"], "model.onnx")


def cuda(args, load_index):
    os.makedirs(os.path.join(args.data, "cuda"), exist_ok=True)
    nvrtc = Nvrtc(args.data)
    ptxas = tool(args.data, "nvcc", "ptxas")
    os.chmod(ptxas, 0o755)
    arch = re.search(r"-arch=sm_(\w+)", " ".join(args.command))
    arch = arch.group(1) if arch else "80"
    whole, counts, bad, refused = [], {"models": 0, "kernels": 0, "registers": 0}, [], collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "kernels.cu")
        for name, path in models(args, load_index):
            command = [args.command[0], "compile", path, *args.command[1:], "--emit", "cuda", "-o", source]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode:
                why = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
                refused[why[0].split("not supported: ")[-1][:160]].append(name)
                continue
            text = open(source, "rb").read()
            ptx, log = nvrtc.ptx(text, arch)
            taken, said, rows = assemble(ptxas, ptx, arch, folder) if ptx else (False, log, [])
            spills, says = sum(it[2] for it in rows), warnings(log)
            if not taken or spills or says:
                bad.append((name, says or (said.strip().splitlines() or [""])[0][:300] if not taken else says or f"{spills} bytes are spilled"))
            counts["models"] += 1
            counts["kernels"] += len(rows)
            counts["registers"] = max([counts["registers"]] + [it[0] for it in rows])
            if name in NETWORKS:
                whole.append((name, len(rows), max(it[0] for it in rows), max(it[1] for it in rows), spills, text.count(b"\n")))
    report = show(arch, whole, counts, bad, refused)
    print(report)
    if args.out:
        open(args.out, "w").write(report)
    return 1 if bad else 0


def show(arch, whole, counts, bad, refused):
    lines = [
        "# Kernels for GPUs as NVIDIA's compilers see them",
        "",
        f"`cargo xtask conformance --cuda --out docs/perf/cuda-resources.md` writes this page: kernels with default schedules, for sm_{arch}, translated by "
        f"NVRTC ({WHEELS['nvrtc'].split('==')[1]}) and assembled by ptxas.",
        "",
        f"{counts['models']} models (the node tests of the onnx package, and the networks below) have {counts['kernels']} kernels; the most registers of a "
        f"thread are {counts['registers']}. {len(bad)} models have a kernel that is refused, spills registers or gets a warning.",
        "",
        "| network | kernels | most registers | most bytes of stack | spilled bytes | lines of source |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(map(str, it))} |" for it in whole),
    ]
    if bad:
        lines += ["", "## Refused, or with spills or warnings", "| model | what is said |", "|---|---|"]
        lines += [f"| `{name}` | {said.replace('|', '/')} |" for name, said in bad]
    if refused:
        lines += ["", "## Models that are not compiled", "Sequences of a length that an option of `tvmc compile` would say are among them.", ""]
        lines += ["| why | models |", "|---|---|"]
        shown = lambda names: ", ".join(f"`{it}`" for it in names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
        lines += [f"| {why.replace('|', '/')} | {shown(names)} |" for why, names in refused.items()]
    return "\n".join(lines) + "\n"
