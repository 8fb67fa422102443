"""Runs models in onnxruntime, one request per line of standard input: an object with the files of the model and of the inputs, the
names of inputs and outputs, the folder of external data, and the file for the results. Answers one object per line."""
import json
import sys

try:
    import numpy as np
    import onnxruntime as ort
except ImportError as err:
    print(json.dumps({"error": str(err)}), flush=True)
    sys.exit(3)

print(json.dumps({"version": ort.__version__}), flush=True)
for line in sys.stdin:
    try:
        request = json.loads(line)
        options = ort.SessionOptions()
        options.log_severity_level = 3
        if request["threads"]:
            options.intra_op_num_threads = request["threads"]
        folder = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(folder, request["folder"])
        with open(request["model"], "rb") as file:
            session = ort.InferenceSession(file.read(), options, providers=["CPUExecutionProvider"])
        wanted = {it.name for it in session.get_inputs()}
        with np.load(request["inputs"]) as arrays:
            inputs = {name: arrays[f"input_{i}"] for i, name in enumerate(request["input_names"]) if name in wanted}
        outputs = session.run(request["output_names"], inputs)
        for name, output in zip(request["output_names"], outputs):
            if not isinstance(output, np.ndarray) or output.dtype == object:
                raise TypeError(f"`{name}` is no tensor of numbers")
        np.savez(request["results"], **{f"output_{i}": np.ascontiguousarray(it).reshape(it.shape) for i, it in enumerate(outputs)})
        answer = {"ok": True}
    except Exception as err:
        answer = {"error": str(err) or repr(err)}
    print(json.dumps(answer), flush=True)
