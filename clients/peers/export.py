"""Exports a model for lfarm: a Python module's callable, or an ONNX file.

Arguments: module NAME:CALLABLE | onnx NAME. Needs torch; for ONNX files also onnx and onnx2torch.

Reads commands, one a line, from standard input:
  args BYTES          followed by so many bytes of a Python expression list: the example inputs, as
                      they stand in a call. No answer.
  onnx BYTES          followed by so many bytes of an ONNX file. No answer.
  export              answers {"name", "bytes"}, followed by the bytes of what torch.export.save writes
At the start it says {"ready": 1, "torch": version}; {"missing": "..."} instead where a package it needs
is not there. {"error": "..."} in place of the answer says what went wrong.

A callable is a torch.nn.Module, a class of them, a function that returns a module or a pair of a module
and its example inputs and takes no arguments, or a function of tensors. A module is exported as it
works in evaluation mode.
"""
import importlib
import inspect
import io
import json
import os
import sys

KIND, NAME = sys.argv[1], sys.argv[2]
# Answers go where standard output went; what libraries print goes to standard error.
ANSWERS = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
COMMANDS = sys.stdin.buffer


def answer(value, payload=b""):
    ANSWERS.write(json.dumps(value).encode() + b"\n")
    ANSWERS.write(payload)
    ANSWERS.flush()


try:
    import torch
    if KIND == "onnx":
        import onnx
        import onnx2torch
except ImportError as error:
    answer({"missing": str(error), "package": error.name or ""})
    sys.exit(0)


class Problem(Exception):
    """What the user can do something about."""


class Function(torch.nn.Module):
    """A function of tensors as a module, which is what torch.export takes."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments, **named):
        return self.function(*arguments, **named)


def needs_no_arguments(function):
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # it has none that Python knows
        return False
    return True


def as_arguments(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def module_of(target):
    """(module, its name, example inputs or None) of a callable."""
    if isinstance(target, type) and issubclass(target, torch.nn.Module):
        target = target()
    if isinstance(target, torch.nn.Module):
        return target, type(target).__name__, None
    if not callable(target):
        raise Problem(f"{NAME} is a {type(target).__name__}, no module or function")
    if not needs_no_arguments(target):
        return Function(target), target.__name__, None
    made = target()
    if isinstance(made, torch.nn.Module):
        return made, type(made).__name__, None
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module):
        return made[0], type(made[0]).__name__, as_arguments(made[1])
    raise Problem(f"{NAME}() returned a {type(made).__name__}, no torch.nn.Module")


def named_callable():
    path, _, name = NAME.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        target = importlib.import_module(path)
    except ImportError as error:
        raise Problem(f"{error}; looked in {os.getcwd()} and in its Python's packages") from error
    names = vars(target)
    for part in name.split("."):
        if not hasattr(target, part):
            raise Problem(f"{path} has no {name}")
        target = getattr(target, part)
    return module_of(target), names


def onnx_inputs(graph):
    """Example inputs of the sizes that the file states."""
    stored = {one.name for one in graph.initializer}
    inputs = []
    for one in graph.input:
        if one.name in stored:
            continue
        kind = one.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]
        if any(not isinstance(dim, int) for dim in dims):
            sizes = ", ".join(map(str, dims))
            raise Problem(f"its input {one.name!r} leaves sizes open ({sizes}): give example inputs by --args")
        dtype = torch.from_numpy(onnx.numpy_helper.to_array(
            onnx.helper.make_tensor("", kind.elem_type, [1], [0]))).dtype
        inputs.append(torch.randn(dims, dtype=dtype) if dtype.is_floating_point else torch.zeros(dims, dtype=dtype))
    return tuple(inputs)


def onnx_module(data, has_arguments):
    model = onnx.load_from_string(data)
    inputs = None if has_arguments else onnx_inputs(model.graph)
    name = model.graph.name if model.graph.name.isidentifier() else ""
    return onnx2torch.convert(model), name, inputs


def given(text, names):
    """Positional and named example inputs."""
    def take(*arguments, **named):
        return arguments, named
    try:
        return eval(f"_take({text})", {**names, "torch": torch, "_take": take})
    except Exception as error:
        raise Problem(f"--args: {type(error).__name__}: {error}") from error


def export(arguments, data):
    names = {}
    if KIND == "onnx":
        module, name, inputs = onnx_module(data, arguments is not None)
    else:
        (module, name, inputs), names = named_callable()
    named = {}
    if arguments is not None:
        inputs, named = given(arguments, names)
    if inputs is None:
        raise Problem(f"{NAME} needs example inputs: --args 'torch.randn(1, 3, 224, 224)'")
    module.eval()
    with torch.no_grad():
        program = torch.export.export(module, inputs, named)
    file = io.BytesIO()
    torch.export.save(program, file)
    return name, file.getvalue()


def one_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else ""


def serve():
    answer({"ready": 1, "torch": torch.__version__})
    arguments, data = None, b""
    for line in COMMANDS:
        words = line.split()
        try:
            if words[0] == b"args":
                arguments = COMMANDS.read(int(words[1])).decode()
            elif words[0] == b"onnx":
                data = COMMANDS.read(int(words[1]))
            elif words[0] == b"export":
                name, archive = export(arguments, data)
                answer({"name": name, "bytes": len(archive)}, archive)
            else:
                answer({"error": f"unknown command {words[0]!r}"})
        except Problem as problem:
            answer({"problem": one_line(problem)})
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {one_line(error)}"})


if __name__ == "__main__":
    serve()
