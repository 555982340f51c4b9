"""One peer of lfarm: runs an exported model with PyTorch or ONNX Runtime when told to.

Arguments: eager|inductor|onnxruntime THREADS. Needs torch; for onnxruntime also onnx and onnxruntime.

Reads commands, one a line, from standard input, and answers each with one line of JSON:
  input DTYPE BYTES   followed by so many bytes of an .npy file: the next input. No answer.
  model BYTES         followed by so many bytes of a .pt2 file: loads, compiles, calls it once, and
                      answers {"outputs": [{"dtype", "bytes"}], ...}, followed by the bytes of .npy
                      files, bfloat16 as its bits in uint16
  run N               calls it once and then N times, answers {"us": [N numbers]}
  rates               answers {"gemm_gflops", "bf16_gemm_gflops"}: of PyTorch's square products
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


def gemm_gflops(dtype, rounds=3):
    """The best rate of square products, the largest of which takes a fraction of a second."""
    best = 0
    for size in (256, 512, 1024, 2048):
        a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
        for _ in range(rounds):
            start = time.perf_counter()
            a @ b
            taken = time.perf_counter() - start
            best = max(best, 2 * size**3 / taken / 1e9)
        # Processors without instructions for bfloat16 take minutes for the largest.
        if taken > 0.05:
            break
    return round(best, 1)


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
            first = [copied(value) for value in call()]
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


def copied(value):
    """An output as it is now: further calls may write to the same memory."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def one_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else repr(error))[:300]


class Eager:
    def candidates(self, load, inputs):
        def plain():
            module = load().module()
            return lambda: tensors(module(*inputs))
        return [("", plain)]


class Inductor:
    def candidates(self, load, inputs):
        def compiled(freezing):
            def make():
                import torch._inductor.config as config
                torch._dynamo.reset()
                config.freezing = freezing
                module = torch.compile(load().module())
                return lambda: tensors(module(*inputs))
            return make
        # Frozen weights are packed for the processor once, which is worth most with bfloat16, and
        # not always worth anything.
        return [("default", compiled(False)), ("freezing", compiled(True))]


def is_write(node):
    """Whether it writes somewhere: to state, or only to what was computed before, as relu_ does."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.is_mutable


class Functional(torch.nn.Module):
    """A functional program whose state comes in behind its inputs and goes out behind its outputs."""

    def __init__(self, program):
        super().__init__()
        signature = program.graph_signature
        if signature.user_inputs_to_mutate:
            raise RuntimeError("not exported: the model writes to its inputs")
        self.graph, self.order, self.fixed, self.states = program.graph_module, [], [], []
        written = list(signature.buffers_to_mutate.values())
        stored = {**program.state_dict, **program.constants}
        for spec in signature.input_specs:
            if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
                self.order.append("input")
            elif spec.target in written:
                self.order.append(written.index(spec.target))
            else:
                self.order.append("fixed")
                self.fixed.append(stored[spec.target].detach())
        self.states = [stored[name].detach().clone() for name in written]

    def forward(self, *given):
        count = len(given) - len(self.states)
        inputs, fixed = iter(given[:count]), iter(self.fixed)
        arguments = [next(inputs) if one == "input" else next(fixed) if one == "fixed" else given[count + one]
                     for one in self.order]
        results = self.graph(*arguments)
        return (*results[len(self.states):], *results[:len(self.states)])


class OnnxRuntime:
    """By the exporter that needs no further package, with the faster of the providers."""

    def candidates(self, load, inputs):
        program = load()
        folder = tempfile.TemporaryDirectory()
        self.folder = folder
        path = os.path.join(folder.name, "model.onnx")
        module, states = program.module(), []
        if any(is_write(node) for node in program.graph.nodes):
            written = program.run_decompositions({})  # its signature says whether state is
            if written.graph_signature.buffers_to_mutate or written.graph_signature.user_inputs_to_mutate:
                module = Functional(written)
                states = module.states
        # The exporter sets the mode, which an exported program has no choice of.
        module.train = lambda mode=True: module
        values = [*inputs, *states]
        names = [f"input{i}" for i in range(len(values))]
        # Traced, since the exporter by way of torch.export needs a package that few systems have.
        torch.onnx.export(module, tuple(values), path, input_names=names, dynamo=False, opset_version=18)
        del module

        def session(provider):
            def make():
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = THREADS
                options.inter_op_num_threads = 1
                options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
                options.log_severity_level = 3
                run = onnxruntime.InferenceSession(path, options, providers=[provider])
                wanted = {x.name for x in run.get_inputs()}
                feed = {name: to_ort(value) for name, value in zip(names, values) if name in wanted}
                given = [x.name for x in run.get_outputs()]

                def call():
                    results = run.run_with_ort_values(given, feed)
                    if states:  # what it gave is what it gets next
                        feed.update(zip(names[len(inputs):], results[-len(states):]))
                        results = results[:-len(states)]
                    return results
                return call
            return make
        present = onnxruntime.get_available_providers()
        return [(name, session(name)) for name in ("CPUExecutionProvider", "DnnlExecutionProvider") if name in present]


def to_ort(value):
    if value.dtype == torch.bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            value.view(torch.uint16).numpy(), onnx.TensorProto.BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(value.numpy())


def as_tensors(outputs):
    def convert(value):
        if isinstance(value, torch.Tensor):
            return value
        if value.data_type() == "tensor(bfloat16)":
            return torch.from_numpy(np.array(value.numpy()).view(np.uint16)).view(torch.bfloat16)
        return torch.from_numpy(np.array(value.numpy()))
    return [convert(value) for value in outputs]


def loader(data):
    """Loads the program anew each time: what calls of one leave in its state, another must not find."""
    def load():
        with tempfile.NamedTemporaryFile(suffix=".pt2") as file:
            file.write(data)
            file.flush()
            return torch.export.load(file.name)
    return load


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
                load = loader(COMMANDS.read(int(words[1])))
                settings, first, call = fastest(backend.candidates(load, inputs))
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
