"""One peer of `lfarm-bench models`: runs an exported model with PyTorch or ONNX Runtime when told to.

Arguments: eager|inductor|onnxruntime THREADS. Needs torch; for onnxruntime also onnx and onnxruntime.

Reads commands, one a line, from standard input, and answers each with one line of JSON:
  input DTYPE BYTES   followed by so many bytes of an .npy file: the next input. No answer.
  model BYTES         followed by so many bytes of a .pt2 file: loads, compiles, calls it once, and
                      answers {"outputs": [{"dtype", "bytes"}], ...}, followed by the bytes of .npy
                      files, bfloat16 as its bits in uint16
  run N               calls it once and then N times, answers {"us": [N numbers]}
  rates               answers {"gemm_gflops", "bf16_gemm_gflops"}: of PyTorch's square product of 2048
At the start it says {"ready": 1, ...} with what it is set up with; {"missing": "..."} instead where
a package it needs is not there. {"error": "..."} in place of any answer says what went wrong.
"""
import io
import json
import os
import re
import sys
import tempfile
import time

BACKEND, THREADS = sys.argv[1], int(sys.argv[2])
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(THREADS)  # libraries read them when they are loaded
# Answers go where standard output went; what libraries print goes to standard error.
ANSWERS = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
COMMANDS = sys.stdin.buffer


def answer(value, payload=()):
    ANSWERS.write(json.dumps(value).encode() + b"\n")
    for one in payload:
        ANSWERS.write(one)
    ANSWERS.flush()


try:
    import numpy as np
    import torch
    if BACKEND == "onnxruntime":
        import onnx  # the exporter's
        import onnxruntime
except ImportError as error:
    answer({"missing": str(error)})
    sys.exit(0)


def libraries(pattern):
    """The files that this process has mapped whose names match."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "/" in line}
    except OSError:
        return None
    return sorted(path for path in paths if re.search(pattern, path))


def blas():
    """What computes products: {"name", "path"}; name "reference" for the one nobody should measure."""
    if "BLAS_INFO=mkl" in torch.__config__.show():
        return {"name": "MKL", "path": ""}
    found = libraries(r"/lib(mkl|blis|openblas|blas|cblas|atlas|nvpl|arm_?pl)[^/]*\.so")
    if found is None:
        return {"name": "unknown", "path": "no /proc to look into"}
    for name, word in (("MKL", "mkl"), ("BLIS", "blis"), ("OpenBLAS", "openblas"), ("ATLAS", "atlas"),
                       ("NVPL", "nvpl"), ("ArmPL", "arm")):
        for path in found:
            if word in path.lower():
                return {"name": name, "path": path}
    for path in found:
        return {"name": "reference", "path": path}
    return {"name": "unknown", "path": "no library of that kind is loaded"}


def gemm_gflops(dtype, size=2048, rounds=3):
    a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    return round(2 * size**3 / best / 1e9, 1)


def describe():
    facts = {"ready": 1, "torch": torch.__version__, "threads": torch.get_num_threads()}
    if BACKEND == "onnxruntime":
        facts["onnxruntime"] = onnxruntime.__version__
        facts["blas"] = {"name": "MLAS", "path": ""}  # ONNX Runtime's own
        return facts
    facts["capability"] = torch.backends.cpu.get_cpu_capability()
    torch.ones(64, 64) @ torch.ones(64, 64)  # whatever computes products is loaded by now
    facts["blas"] = blas()
    return facts


def to_tensor(dtype, data):
    array = torch.from_numpy(np.array(np.load(io.BytesIO(data))))
    return array.view(torch.bfloat16) if dtype == "bfloat16" else array


def to_npy(value):
    value = value.detach().contiguous()
    dtype = str(value.dtype).removeprefix("torch.")
    file = io.BytesIO()
    np.save(file, (value.view(torch.uint16) if dtype == "bfloat16" else value).numpy())
    return dtype, file.getvalue()


def tensors(value):
    return [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def fastest(candidates):
    """(name, first outputs, call) of the one whose calls take least; [(name, make)] says how each is made."""
    best, problems = None, []
    for name, make in candidates:
        try:
            call = make()
            first = call()
            for _ in range(2):
                call()
            times = []
            while len(times) < 3 or (sum(times) < 0.5 and len(times) < 30):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
        except Exception as error:
            problems.append(f"{name}: {type(error).__name__}: {one_line(error)}")
            continue
        taken = sorted(times)[len(times) // 2]
        if best is None or taken < best[0]:
            best = (taken, name, first, call)
    if best is None:
        raise RuntimeError("; ".join(problems))
    return best[1:]


def one_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else repr(error))[:300]


class Eager:
    def candidates(self, program, inputs):
        def plain():
            module = program.module()
            return lambda: tensors(module(*inputs))
        return [("", plain)]


class Inductor:
    def candidates(self, program, inputs):
        def compiled(freezing):
            def make():
                import torch._inductor.config as config
                torch._dynamo.reset()
                config.freezing = freezing
                module = torch.compile(program.module())
                return lambda: tensors(module(*inputs))
            return make
        # Frozen weights are packed for the processor once, which is worth most with bfloat16, and
        # not always worth anything.
        return [("default", compiled(False)), ("freezing", compiled(True))]


class OnnxRuntime:
    """The exporter that needs no further package, and the faster of the providers."""

    def candidates(self, program, inputs):
        mutates = bool(program.graph_signature.buffers_to_mutate or program.graph_signature.user_inputs_to_mutate)
        if mutates:
            raise RuntimeError("not exported: the model keeps state from call to call")
        folder = tempfile.TemporaryDirectory()
        self.folder = folder
        path = os.path.join(folder.name, "model.onnx")
        module = program.module()
        # The exporter sets the mode, which an exported program has no choice of.
        module.train = lambda mode=True: module
        names = [f"input{i}" for i in range(len(inputs))]
        # Traced, since the exporter by way of torch.export needs a package that few systems have.
        torch.onnx.export(module, tuple(inputs), path, input_names=names, dynamo=False, opset_version=18)
        del module

        def session(provider):
            def make():
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = THREADS
                options.inter_op_num_threads = 1
                options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
                options.log_severity_level = 3
                run = onnxruntime.InferenceSession(path, options, providers=[provider])
                feed = {}
                for one, value in zip(names, inputs):
                    if value.dtype == torch.bfloat16:
                        feed[one] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
                            value.view(torch.uint16).numpy(), onnx.TensorProto.BFLOAT16)
                    else:
                        feed[one] = onnxruntime.OrtValue.ortvalue_from_numpy(value.numpy())
                wanted = {x.name for x in run.get_inputs()}
                feed = {one: value for one, value in feed.items() if one in wanted}
                given = [x.name for x in run.get_outputs()]
                return lambda: run.run_with_ort_values(given, feed)
            return make
        present = onnxruntime.get_available_providers()
        return [(name, session(name)) for name in ("CPUExecutionProvider", "DnnlExecutionProvider") if name in present]


def as_tensors(outputs):
    def convert(value):
        if isinstance(value, torch.Tensor):
            return value
        if value.data_type() == "tensor(bfloat16)":
            return torch.from_numpy(np.array(value.numpy()).view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(np.array(value.numpy()))
    return [convert(value) for value in outputs]


def load(data, inputs):
    with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
        file.write(data)
        file.flush()
        return torch.export.load(file.name)


def serve():
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    answer(describe())
    backend = {"eager": Eager, "inductor": Inductor, "onnxruntime": OnnxRuntime}[BACKEND]()
    inputs, call = [], None
    for line in COMMANDS:
        words = line.split()
        try:
            if words[0] == b"input":
                inputs.append(to_tensor(words[1].decode(), COMMANDS.read(int(words[2]))))
            elif words[0] == b"model":
                program = load(COMMANDS.read(int(words[1])), inputs)
                settings, first, call = fastest(backend.candidates(program, inputs))
                outputs = [to_npy(value) for value in as_tensors(first)]
                answer({"settings": settings, "outputs": [{"dtype": d, "bytes": len(b)} for d, b in outputs]},
                       [b for _, b in outputs])
            elif words[0] == b"run":
                call()
                times = []
                for _ in range(int(words[1])):
                    start = time.perf_counter_ns()
                    call()
                    times.append((time.perf_counter_ns() - start) / 1000)
                answer({"us": times})
            elif words[0] == b"rates":
                answer({"gemm_gflops": gemm_gflops(torch.float32),
                        "bf16_gemm_gflops": gemm_gflops(torch.bfloat16)})
            else:
                answer({"error": f"unknown command {words[0]!r}"})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {one_line(error)}"})


if __name__ == "__main__":
    serve()
