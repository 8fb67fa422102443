"""A peer of `cargo xtask bench`: worker.py ort | openvino | openvino-bf16 | numpy | jax | iree | torch | torch-cuda

JSON lines on standard input and output: load, run, out, quit, as `tvmc worker bench` has them. BENCH_THREADS is the number of threads.
"""
import json, os, sys, time

ENGINE, THREADS = sys.argv[1], int(os.environ.get("BENCH_THREADS", "1"))
if ENGINE in ("jax", "iree"):  # its thread pool has as many threads as it may use processors
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
import numpy as np
if ENGINE == "ort":  # its library is no part of what a model needs
    import onnxruntime


def dtype(name):
    if name == "bf16":
        import ml_dtypes
        return ml_dtypes.bfloat16
    return {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_, "i64": np.int64, "i32": np.int32,
            "i16": np.int16, "i8": np.int8, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8}[name]


def arrays(case):
    return {i["name"]: np.fromfile(i["file"], dtype=dtype(i["dtype"])).reshape(i["shape"]) for i in case["onnx_inputs"]}


# How long it took until the model could be called, where a library tells that from the first call.
READY = {}


class Unsupported(Exception):
    pass


def load_ort(case):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = THREADS, 1, 3
    start = time.perf_counter()
    session = ort.InferenceSession(case["onnx"], options, providers=["CPUExecutionProvider"])
    READY["ready_s"] = time.perf_counter() - start
    name, given, io = session.get_outputs()[0].name, arrays(case), session.io_binding()
    # Inputs and output are bound once: the least overhead per call that it offers.
    first = session.run([name], given)[0]
    keep = {key: ort.OrtValue.ortvalue_from_numpy(value) for key, value in given.items()}
    for key, value in keep.items():
        io.bind_ortvalue_input(key, value)
    out = ort.OrtValue.ortvalue_from_numpy(np.empty_like(first))
    io.bind_ortvalue_output(name, out)
    return (lambda keep=keep: session.run_with_iobinding(io)), out.numpy


def load_openvino(case):
    import openvino as ov

    core, given = ov.Core(), arrays(case)
    precision = "bf16" if ENGINE.endswith("bf16") else "f32"
    config = {"INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
              "INFERENCE_PRECISION_HINT": precision}
    model = core.read_model(case["onnx"])
    model.reshape({key: list(value.shape) for key, value in given.items()})
    request = core.compile_model(model, "CPU", config).create_infer_request()
    keep = {}
    for key, value in given.items():
        if value.dtype.name == "bfloat16":
            keep[key] = ov.Tensor(value.view(np.uint16), value.shape, ov.Type.bf16)
        else:
            keep[key] = ov.Tensor(value)
        request.set_tensor(key, keep[key])

    def out():
        tensor = request.get_output_tensor(0)
        return tensor.data.view(dtype("bf16")) if tensor.element_type == ov.Type.bf16 else tensor.data

    # Without `share_outputs` each call copies the result into new memory.
    return (lambda keep=keep: request.infer(share_outputs=True)), out


def load_numpy(case):
    x, kind = list(arrays(case).values()), case["kind"]
    if kind == "sgemm":
        out = np.empty((x[0].shape[0], x[1].shape[1]), np.float32)
        return (lambda: np.matmul(x[0], x[1], out=out)), (lambda: out)
    if kind == "transpose":
        out = np.empty(x[0].shape[::-1], np.float32)
        return (lambda: np.copyto(out, x[0].T)), (lambda: out)
    if kind == "sum":
        out = np.empty(x[0].shape[1 - case["axis"]], np.float32)
        return (lambda: np.sum(x[0], axis=case["axis"], out=out)), (lambda: out)
    if kind == "chain":
        out = np.empty_like(x[0])

        def run():
            np.multiply(x[0], x[1], out=out)
            np.add(out, x[2], out=out)
            np.maximum(out, 0, out=out)

        return run, (lambda: out)
    raise Unsupported(kind)


def load_jax(case):
    import jax, jax.numpy as jnp
    from jax import lax

    x, kind = arrays(case), case["kind"]
    if case.get("constant") or kind in ("conv", "layernorm"):  # the weights are in the model
        import onnx
        from onnx import numpy_helper
        weights = {i.name: numpy_helper.to_array(i) for i in onnx.load(case["onnx"]).graph.initializer}
    if kind in ("sgemm", "matmul") and not case.get("then"):
        out = jnp.int32 if case.get("dtype") == "int8" else None
        function = lambda a, b: jnp.matmul(a, b, preferred_element_type=out)
        x = [x["a"], weights["b"] if case.get("constant") else x["b"]]
    elif kind == "conv":
        stride, pad = case["stride"], case["kernel"] // 2
        function = lambda a, w: lax.conv_general_dilated(a, w, (stride, stride), ((pad, pad), (pad, pad)),
                                                         feature_group_count=case.get("groups", 1))
        x = [x["x"], weights["w"]]
    elif kind == "layernorm":
        def function(a, g, b):
            d = a - a.mean(-1, keepdims=True)
            return d / jnp.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b
        x = [x["x"], weights["g"], weights["b"]]
    elif kind == "attention":
        function = lambda q, k, v: jax.nn.softmax(q @ jnp.swapaxes(k, 2, 3) * case["width"] ** -0.5, -1) @ v
        x = list(x.values())
    else:
        known = {"softmax": lambda a: jax.nn.softmax(a, -1), "chain": lambda a, b, c: jax.nn.relu(a * b + c),
                 "transpose": jnp.transpose, "sum": lambda a: a.sum(case["axis"])}
        if kind not in known:
            raise Unsupported(kind)
        function, x = known[kind], list(x.values())
    x = [jax.device_put(it) for it in x]
    compiled, out = jax.jit(function).lower(*x).compile(), [None]

    def run():
        out[0] = compiled(*x).block_until_ready()

    return run, (lambda: out[0])


def load_iree(case):
    import hashlib, subprocess
    import iree.runtime as rt

    with open(case["onnx"], "rb") as f:
        base = case["onnx"][:-5] + "_" + hashlib.sha1(f.read()).hexdigest()[:12]
    if not os.path.exists(base + ".vmfb"):
        def tool(name, *args):
            path = os.path.join(os.path.dirname(sys.executable), name)
            done = subprocess.run([path, *args], capture_output=True, text=True, timeout=50)
            if done.returncode:
                raise Unsupported(done.stderr[-200:])

        tool("iree-import-onnx", case["onnx"], "-o", base + ".mlir")
        tool("iree-compile", base + ".mlir", "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
             "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3", "-o", base + ".vmfb")
    config = rt.Config("local-sync" if THREADS == 1 else "local-task")
    context = rt.SystemContext(config=config)
    context.add_vm_module(rt.VmModule.mmap(context.instance, base + ".vmfb"))
    module = [module for name, module in context.modules.items() if name != "hal"][-1]
    names = [n for n in module.vm_module.function_names if not n.startswith("__") and not n.endswith("$async")]
    function, out = module[names[0]], [None]
    x = [rt.asdevicearray(config.device, it) for it in arrays(case).values()]

    def run():
        out[0] = function(*x)

    return run, (lambda: out[0].to_host())


def load_torch(case):
    """Kernels, and networks of convolutions and products; with torch-cuda on the first GPU, in f32 without TF32."""
    import torch
    import torch.nn.functional as F

    gpu = ENGINE == "torch-cuda"
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    if "test" in case:  # what the GPU does
        if case["test"] not in ("copy", "read"):
            raise Unsupported(case["test"])
        x, y = (torch.zeros(int(case["bytes"]) // 8, device="cuda") for _ in range(2))
        return (lambda: y.copy_(x)), (lambda: y.cpu().numpy())
    there = lambda it: torch.from_numpy(np.array(it)).to("cuda" if gpu else "cpu")
    x, kind = [there(it) for it in arrays(case).values()], case["kind"]
    if case.get("constant") or kind in ("conv", "layernorm"):  # the weights are in the model
        import onnx
        from onnx import numpy_helper

        x += [there(numpy_helper.to_array(it)) for it in onnx.load(case["onnx"]).graph.initializer]
    conv = dict(stride=case.get("stride", 1), padding=case.get("kernel", 1) // 2, groups=case.get("groups", 1))
    known = {"softmax": lambda a: torch.softmax(a, -1), "chain": lambda a, b, c: torch.relu(a * b + c),
             "transpose": lambda a: a.t().contiguous(), "sum": lambda a: a.sum(case["axis"]),
             "attention": F.scaled_dot_product_attention, "conv": lambda a, w: F.conv2d(a, w, **conv),
             "matmul": torch.mm, "sgemm": torch.mm, "layernorm": lambda a, g, b: F.layer_norm(a, a.shape[-1:], g, b, 1e-5)}
    if kind in ("resnet50", "minilm"):
        return (load_graph if kind == "resnet50" else load_minilm)(case, there, x)
    if kind not in known or case.get("then") or case.get("dtype", "f32") != "f32":
        raise Unsupported(kind)
    if known[kind] is torch.mm:  # into the same memory each time
        product = x[0].new_empty(x[0].shape[0], x[1].shape[1])
        return (lambda: torch.mm(*x, out=product)), (lambda: product.cpu().numpy())
    out = [None]

    def run():
        out[0] = known[kind](*x)

    return run, (lambda: out[0].cpu().numpy())


def load_graph(case, there, given):
    """A network of convolutions, node by node."""
    import onnx, torch
    import torch.nn.functional as F
    from onnx import helper, numpy_helper

    graph = onnx.load(case["onnx"]).graph
    values = {it.name: there(numpy_helper.to_array(it)) for it in graph.initializer}
    inputs = [it.name for it in graph.input if it.name not in values]
    ops = {"Conv": lambda a, x, w, b=None: F.conv2d(x, w, b, a["strides"], a["pads"][:2]),
           "Relu": lambda a, x: F.relu(x), "Add": lambda a, x, y: x + y, "Flatten": lambda a, x: x.flatten(1),
           "MaxPool": lambda a, x: F.max_pool2d(x, a["kernel_shape"], a["strides"], a["pads"][0]),
           "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True), "MatMul": lambda a, x, y: x @ y, "Softmax": lambda a, x: x.softmax(a["axis"]),
           "Gemm": lambda a, x, w, b: torch.addmm(b, x, w.t() if a.get("transB") else w)}
    nodes = [(ops[it.op_type], {a.name: helper.get_attribute_value(a) for a in it.attribute}, it.input, it.output[0])
             for it in graph.node]
    out = [None]

    def run():
        env = {**values, **dict(zip(inputs, given))}
        for op, attributes, names, result in nodes:
            env[result] = op(attributes, *(env[name] for name in names))
        out[0] = env[graph.output[0].name]

    return run, (lambda: out[0].cpu().numpy())


def load_minilm(case, there, given):
    """The encoder of networks.py as one writes it for PyTorch, with its fused attention. Weights are in the order in which they are used."""
    import onnx, torch
    import torch.nn.functional as F
    from onnx import numpy_helper

    arrays = [numpy_helper.to_array(it) for it in onnx.load(case["onnx"]).graph.initializer]
    weights = iter([there(it) for it in arrays if it.dtype == np.float32 and it.ndim > 0])
    take = lambda count: [next(weights) for _ in range(count)]
    ids, mask = given
    width, heads = 384, 12
    positions, words, *first = take(4)
    # Products with the queries, keys and values of a layer are one.
    together = lambda it: [torch.cat(it[0:6:2], 1), torch.cat(it[1:6:2]), *it[6:]]
    layers = [together(take(16)) for _ in range(6)]
    norm = lambda x, scale, bias: F.layer_norm(x, (width,), scale, bias, 1e-12)
    batch, length = ids.shape
    out = [None]

    def run():
        x = norm(words[ids] + positions[:length], *first).view(-1, width)
        shown = mask.to(torch.float32)
        hidden = (1 - shown[:, None, None, :]) * -10000
        for of_three, bias, to, to_bias, scale, shift, up, up_bias, down, down_bias, scale2, shift2 in layers:
            qkv = torch.addmm(bias, x, of_three).view(batch, length, 3, heads, width // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=hidden).transpose(1, 2).reshape(-1, width)
            x = norm(torch.addmm(to_bias, y, to) + x, scale, shift)
            x = norm(torch.addmm(down_bias, F.gelu(torch.addmm(up_bias, x, up)), down) + x, scale2, shift2)
        x, each = x.view(batch, length, width), shown[:, :, None]
        mean = (x * each).sum(1) / each.sum(1)
        out[0] = mean / (mean * mean).sum(1, keepdim=True).sqrt()

    return run, (lambda: out[0].cpu().numpy())


LOAD = {"iree": load_iree, "torch": load_torch, "torch-cuda": load_torch, "ort": load_ort, "openvino": load_openvino, "openvino-bf16": load_openvino, "numpy": load_numpy,
        "jax": load_jax}


def of_cpu(run, calls):
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def of_gpu(run, calls):
    """By the clock of the GPU."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / calls


def timed(run, request):
    """Times of single calls; very short calls are timed in groups."""
    clock, gpu = time.perf_counter, ENGINE == "torch-cuda"
    measure, short, long = (of_gpu, 1e-3, 2e-3) if gpu else (of_cpu, 20e-6, 40e-6)
    once = measure(run, 1)
    group = int(long / max(once, 2e-7)) + 1 if once < short else 1
    if once >= request["secs"] and request["min"] <= 1:
        return [once]
    times, begin = [], clock()
    while len(times) < request["min"] or (clock() - begin < request["secs"] and len(times) < request["max"]):
        times.append(measure(run, group))
    return times


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries that print must not break the protocol
    current = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "load":
                READY.clear()
                current, start = None, time.perf_counter()
                current = LOAD[ENGINE](request["case"])
                answer = {"ok": True, "load_s": time.perf_counter() - start, **READY}
            elif request["op"] == "run":
                answer = {"ok": True, "times": timed(current[0], request)}
            elif request["op"] == "out":
                current[0]()
                values = np.ascontiguousarray(np.asarray(current[1]()).astype(np.float32))
                values.tofile(request["path"])
                answer = {"ok": True, "shape": list(values.shape)}
            elif request["op"] == "quit":
                break
            else:
                answer = {"ok": False, "err": "unknown op"}
        except Unsupported as err:
            answer = {"ok": False, "err": f"unsupported: {err}"}
        except Exception as err:
            answer = {"ok": False, "err": f"{type(err).__name__}: {str(err)[:300]}"}
        answers.write(json.dumps(answer) + "\n")


main()
